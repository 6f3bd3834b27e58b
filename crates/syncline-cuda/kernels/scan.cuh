// Sums over warps and blocks.
#pragma once
#include "common.cuh"

template <typename T> __device__ inline T warp_sum(T value) {
#pragma unroll
    for (uint32_t distance = WARP / 2; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(ALL_LANES, value, distance);
    }
    return value;
}

// Sums up to each lane. A lane that has none below adds nothing: the shuffle itself says so, which saves comparing
// lanes.
__device__ inline uint32_t warp_scan_inclusive(uint32_t value) {
#pragma unroll
    for (uint32_t distance = 1; distance < WARP; distance *= 2) {
        asm volatile("{ .reg .u32 below; .reg .pred there;\n"
                     "  shfl.sync.up.b32 below|there, %0, %1, 0, 0xffffffff;\n"
                     "  @there add.u32 %0, %0, below; }"
                     : "+r"(value)
                     : "r"(distance));
    }
    return value;
}

__device__ inline uint64_t warp_scan_inclusive(uint64_t value) {
#pragma unroll
    for (uint32_t distance = 1; distance < WARP; distance *= 2) {
        uint64_t below = __shfl_up_sync(ALL_LANES, value, distance);
        value += lane_id() >= distance ? below : 0;
    }
    return value;
}

// The sum over a warp's lanes, by one instruction where there is one.
__device__ inline uint32_t sum_of_warp(uint32_t value) {
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(ALL_LANES, value);
#else
    for (uint32_t distance = WARP / 2; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(ALL_LANES, value, distance);
    }
    return value;
#endif
}

// Exclusive sums over a block of BLOCK threads; `total` becomes the sum of all. Called by the whole block.
template <uint32_t BLOCK, typename T> __device__ inline T block_scan(T value, T *warp_sums, T &total) {
    static_assert(BLOCK % WARP == 0 && BLOCK <= WARP * WARP, "a warp adds up the warps");
    const T inclusive = warp_scan_inclusive(value);
    if (lane_id() == WARP - 1) {
        warp_sums[warp_id()] = inclusive;
    }
    __syncthreads();
    const T own = lane_id() < BLOCK / WARP ? warp_sums[lane_id()] : 0;
    const T through = warp_scan_inclusive(own);
    total = __shfl_sync(ALL_LANES, through, WARP - 1);
    const T before = __shfl_sync(ALL_LANES, through - own, warp_id());
    __syncthreads();
    return before + inclusive - value;
}
