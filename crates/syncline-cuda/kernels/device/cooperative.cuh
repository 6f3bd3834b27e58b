// Groups of blocks that work in lockstep: a barrier across the blocks of a group, and loads of data that other blocks
// wrote.
//
// COOPERATIVE_BLOCKS  blocks of a group; with more than one, the kernel must be launched cooperatively, so that
//                     all of them run at the same time and the barrier cannot deadlock
// THREADS             threads of a block, a multiple of 32
#pragma once
#include "common.cuh"

constexpr uint32_t WARPS = THREADS / WARP;

// Loads a value that another block of the group may have written. Bypasses the L1 cache, which is not coherent.
template <typename T> __device__ inline T load_from_group(const T *from) {
#if COOPERATIVE_BLOCKS > 1
    return __ldcg(from);
#else
    return *from;
#endif
}

// Returns the number of this block in its group. With groups of one block, each block of the grid is a group.
__device__ inline uint32_t block_of_group() { return COOPERATIVE_BLOCKS > 1 ? blockIdx.x : 0; }

struct CooperativeGroup {
    uint32_t *barrier;      // 0 at the start
    uint32_t *digit_counts; // COOPERATIVE_BLOCKS x the digits of a partition; unused with one block
    uint32_t barriers_passed;
    uint32_t rank; // number of this thread in the group
    static constexpr uint32_t SIZE = COOPERATIVE_BLOCKS * THREADS;

    __device__ inline void sync() {
        __syncthreads();
#if COOPERATIVE_BLOCKS > 1
        ++barriers_passed;
        if (threadIdx.x == 0) {
            __threadfence();
            atomicAdd(barrier, 1u);
            while (*reinterpret_cast<volatile uint32_t *>(barrier) < barriers_passed * COOPERATIVE_BLOCKS) {
            }
            __threadfence();
        }
        __syncthreads();
#endif
    }
};
