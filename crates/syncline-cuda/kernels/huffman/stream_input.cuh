// A stream of an encoder's batch; mirrored by src/huffman/encode/batch.rs.
#pragma once
#include "common.cuh"

// The host has checked that the groups lie within the input.
struct StreamInput {
    uint64_t first_group;
    uint32_t groups;
    uint32_t free_symbol;
    // The smallest symbol other than 0 in the low half and the largest in the high half, if a large stream may be
    // counted from a sample; otherwise 0.
    uint32_t symbol_range;
    uint32_t reserved;
};
