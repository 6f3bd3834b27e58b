// The sections of the record of a chunk of blocks (docs/FORMAT.md, "Chunk record").
#pragma once
#include "blocks/constants.cuh"
#include "common.cuh"

constexpr uint32_t BLOCK_PLAN = 0, BLOCK_ANCHORS = 1, BLOCK_VERBATIM = 2, BLOCK_SIZES = 3, BLOCK_CHECKSUMS = 4,
                   BLOCK_WORDS = 5, BLOCK_SECTIONS = 6;
// Bytes of a plan before its tables.
constexpr uint32_t BLOCK_PLAN_BYTES = 4;
// Bits of the lanes of a block's first part, as an exponent of 2.
constexpr uint32_t LANES_BITS = 4;
static_assert(blocks::MAX_LANES_LOG2 < 1 << LANES_BITS, "all exponents have these bits");
// Bits of the number of an anchor's mask.
constexpr uint32_t ANCHOR_MASK_BITS = 3;
static_assert(blocks::MASKS > 4 && blocks::MASKS <= 1 << ANCHOR_MASK_BITS, "a number has all of these bits");
