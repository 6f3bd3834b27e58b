// Decoupled look-back: exclusive prefix sums over tiles (the work items of a grid) in one pass, after Merrill and
// Garland 2016. Each tile stores a status word: first the aggregate of the tile alone, then the inclusive prefix of all
// tiles up to and including it.
//
// To use it: clear one status word per tile; have blocks take tiles in the order in which they start, so that no block
// waits for one that does not run; call `store_aggregate` as soon as the tile's own value is known, then
// `look_back` by one warp, which returns the exclusive prefix and stores the inclusive one.
#pragma once
#include "device/warp.cuh"

// Status words: the two highest bits are the state, the other 30 the value. 0 means that nothing has been stored yet.
constexpr uint32_t STATUS_AGGREGATE = 1u << 30;
constexpr uint32_t STATUS_INCLUSIVE = 2u << 30;
constexpr uint32_t STATUS_VALUE = STATUS_AGGREGATE - 1;

// Stores the value of tile `tile` alone. For the first tile, number `first`, this is also its inclusive prefix. Called
// by one thread.
__device__ inline void store_aggregate(uint32_t *status, uint32_t first, uint32_t tile, uint32_t value) {
    *static_cast<volatile uint32_t *>(status + tile) = (tile == first ? STATUS_INCLUSIVE : STATUS_AGGREGATE) | value;
}

// Returns the sum of the values of the tiles from `first` up to tile `tile`, whose own `value` has been stored, and
// stores the inclusive prefix of the tile. Called by one warp.
__device__ inline uint32_t look_back(uint32_t *status, uint32_t first, uint32_t tile, uint32_t value) {
    volatile uint32_t *words = status;
    if (tile == first) {
        return 0;
    }
    uint32_t before = 0;
    int32_t at = int32_t(tile) - 1 - int32_t(lane_id());
    for (;;) {
        // Nothing precedes the first tile: a prefix of 0.
        uint32_t word = STATUS_INCLUSIVE;
        if (at >= int32_t(first)) {
            do {
                word = words[at];
            } while (word == 0);
        }
        const uint32_t inclusive = __ballot_sync(ALL_LANES, (word & STATUS_INCLUSIVE) != 0);
        const uint32_t last = inclusive != 0 ? __ffs(int32_t(inclusive)) - 1 : WARP - 1;
        before += warp_reduce_sum(lane_id() <= last ? word & STATUS_VALUE : 0);
        if (inclusive != 0) {
            break;
        }
        at -= int32_t(WARP);
    }
    if (lane_id() == 0) {
        words[tile] = STATUS_INCLUSIVE | (before + value);
    }
    return before;
}
