// A stream's symbols, as all kernels of encoding know it; mirrored by huffman/encode/batch.rs.
#pragma once
#include "common.cuh"

// The host has checked that the groups lie within the input.
struct Span {
    uint64_t first_group;
    uint32_t groups;
    uint32_t free_symbol;
    uint32_t
        symbols; // the smallest but 0, and the largest << 16, where a large stream may be counted in a sample; else 0
    uint32_t unused;
};
