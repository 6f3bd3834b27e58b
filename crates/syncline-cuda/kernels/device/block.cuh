// Reductions and prefix sums over a block. All threads of the block must call them.
#pragma once
#include "device/warp.cuh"

// Returns the sum of the values of the threads before the calling one; `total` becomes the sum over the block of BLOCK
// threads. `warp_sums` is shared memory for BLOCK / 32 values, which may be reused after the call.
template <uint32_t BLOCK, typename T> __device__ inline T block_exclusive_sum(T value, T *warp_sums, T &total) {
    static_assert(BLOCK % WARP == 0 && BLOCK <= WARP * WARP, "one warp must be able to add up the sums of all warps");
    const T inclusive = warp_inclusive_sum(value);
    if (lane_id() == WARP - 1) {
        warp_sums[warp_id()] = inclusive;
    }
    __syncthreads();
    const T own = lane_id() < BLOCK / WARP ? warp_sums[lane_id()] : 0;
    const T through = warp_inclusive_sum(own);
    total = __shfl_sync(ALL_LANES, through, WARP - 1);
    const T before = __shfl_sync(ALL_LANES, through - own, warp_id());
    __syncthreads();
    return before + inclusive - value;
}
