// The sections of the record of a chunk of blocks (docs/FORMAT.md, "Chunk record").
#pragma once
#include "blocks/constants.cuh"
#include "common.cuh"

constexpr uint32_t BLOCK_PLAN = 0, BLOCK_ANCHORS = 1, BLOCK_VERBATIM = 2, BLOCK_SIZES = 3, BLOCK_CHECKSUMS = 4,
                   BLOCK_WORDS = 5, BLOCK_SECTIONS = 6;
// Bytes of a plan before its tables.
constexpr uint32_t BLOCK_PLAN_BYTES = 5;
// Bits of the number of an anchor's mask.
constexpr uint32_t ANCHOR_MASK_BITS = 3;
static_assert(blocks::MASKS > 4 && blocks::MASKS <= 1 << ANCHOR_MASK_BITS, "a number has all of these bits");
