// Codewords that are too long are brought down to a limit.
#pragma once
#include "common.cuh"

// Steps (1) and (2) of the limit of syncline_core::huffman::lengths: leaves below it come up to it, and while the code is over-full a leaf of the deepest level above it goes
// down by one, with one from the limit for its sibling. A leaf of level d taken down all the way costs 2^(limit - d) - 1 such steps and ends as one leaf
// more at the limit, so whole ones are counted at once. Returns whether there was anything to do.
__device__ inline bool limit_lengths(uint32_t *at_depth, uint32_t deepest, uint32_t limit) {
    uint32_t over = 0;
    for (uint32_t depth = limit + 1; depth <= deepest; ++depth) {
        over += at_depth[depth];
        at_depth[depth] = 0;
    }
    if (over == 0) {
        return false;
    }
    at_depth[limit] += over;
    // In units of 2^-limit; below 2^limit + SYMBOLS.
    uint32_t kraft = 0;
    for (uint32_t depth = 1; depth <= limit; ++depth) {
        kraft += at_depth[depth] << (limit - depth);
    }
    uint32_t excess = kraft - (1u << limit);
    for (uint32_t depth = limit - 1; excess > 0 && depth > 0;) {
        uint32_t steps = (1u << (limit - depth)) - 1;
        if (at_depth[depth] == 0) {
            --depth;
        } else if (excess >= steps) {
            uint32_t whole = min_of(at_depth[depth], excess / steps);
            at_depth[depth] -= whole;
            at_depth[limit] += whole;
            excess -= whole * steps;
        } else {
            --at_depth[depth];
            ++depth;
            at_depth[depth] += 2;
            --at_depth[limit];
            --excess;
        }
    }
    return true;
}
