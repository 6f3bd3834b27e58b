// The limit of codeword lengths.
#pragma once
#include "device/warp.cuh"

// Steps (1) and (2) of the limit of syncline_core::huffman::lengths: leaves deeper than the limit move up to it. While
// the code is over-full, a leaf of the deepest level above the limit moves down by one, together with one from the
// limit as its sibling. Moving a leaf of level d all the way down takes 2^(limit - d) - 1 such steps and ends as one
// more leaf at the limit, so whole moves are counted at once. Called by a warp, one length per lane: returns the number
// of leaves of that length. `over` leaves are deeper than the limit, which is below WARP.
__device__ inline uint32_t limit_in_warp(uint32_t at_length, uint32_t over, uint32_t limit) {
    at_length = lane_id() <= limit ? at_length + (lane_id() == limit ? over : 0) : 0;
    // In units of 2^-limit; below 2^limit + SYMBOLS.
    uint32_t excess = warp_reduce_sum(lane_id() <= limit ? at_length << (limit - lane_id()) : 0) - (1u << limit);
#pragma unroll 1
    for (uint32_t depth = limit - 1; excess > 0;) {
        // The deepest level up to here that has a leaf.
        const uint32_t levels = __ballot_sync(ALL_LANES, at_length > 0 && lane_id() > 0 && lane_id() <= depth);
        if (levels == 0) {
            break;
        }
        depth = 31 - __clz(levels);
        const uint32_t steps = (1u << (limit - depth)) - 1, have = __shfl_sync(ALL_LANES, at_length, depth);
        if (excess >= steps) {
            const uint32_t whole = min_of(have, excess / steps);
            at_length += lane_id() == limit ? whole : lane_id() == depth ? 0 - whole : 0;
            excess -= whole * steps;
        } else {
            at_length += lane_id() == depth ? ~0u : lane_id() == depth + 1 ? 2 : lane_id() == limit ? ~0u : 0;
            ++depth;
            --excess;
        }
    }
    return at_length;
}
