// The sections of the record of a chunk of blocks (docs/FORMAT.md, "Chunk record").
#pragma once
#include "blocks/structs.cuh"
#include "container/record.cuh"

constexpr uint32_t BLOCK_PLAN = 0, BLOCK_ANCHORS = 1, BLOCK_VERBATIM = 2, BLOCK_MASKS = 3, BLOCK_SIZES = 4,
                   BLOCK_WORDS = 5, BLOCK_SECTIONS = 6;
// Bytes of a plan before its tables.
constexpr uint32_t BLOCK_PLAN_BYTES = 5;

// Returns where a section starts in its record; with BLOCK_SECTIONS, the bytes of the record.
__device__ inline uint32_t block_section_start(const uint32_t *lengths, uint32_t section) {
    uint32_t at = align_up(RECORD_HEADER_BYTES + 4 * SECTIONS, ALIGNMENT);
    for (uint32_t i = 0; i < section; ++i) {
        at += align_up(lengths[i], ALIGNMENT);
    }
    return at;
}
