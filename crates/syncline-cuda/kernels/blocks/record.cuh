// The sections of the record of a chunk of blocks (docs/FORMAT.md, "Chunk record").
#pragma once
#include "blocks/structs.cuh"
#include "container/record.cuh"

constexpr uint32_t BLOCK_PLAN = 0, BLOCK_ANCHORS = 1, BLOCK_VERBATIM = 2, BLOCK_SIZES = 3, BLOCK_CHECKSUMS = 4,
                   BLOCK_WORDS = 5, BLOCK_SECTIONS = 6;
// Bytes of a plan before its tables.
constexpr uint32_t BLOCK_PLAN_BYTES = 5;
