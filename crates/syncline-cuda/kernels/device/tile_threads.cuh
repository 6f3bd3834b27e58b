// The threads that work on a tile together: a warp, or a whole block for large tiles.
//
// TILE_WARPS  warps of a tile; with more than one, a block has one tile
#pragma once
#include "device/warp.cuh"

constexpr uint32_t TILE_THREADS = TILE_WARPS * WARP;
// Tiles of a block of WARPS warps.
constexpr uint32_t TILES_OF_BLOCK = WARPS / TILE_WARPS;
static_assert(WARPS % TILE_WARPS == 0 && (TILE_WARPS == 1 || WARPS == TILE_WARPS), "whole tiles");

// Number of this thread, and of its warp, among those of the tile; and number of the tile in the block.
__device__ inline uint32_t tile_thread() { return threadIdx.x % TILE_THREADS; }
__device__ inline uint32_t tile_warp() { return TILE_WARPS == 1 ? 0 : warp_id(); }
__device__ inline uint32_t tile_of_block() { return TILE_WARPS == 1 ? warp_id() : 0; }

// Waits for all threads of the tile.
__device__ inline void tile_sync() {
    if (TILE_WARPS == 1) {
        __syncwarp();
    } else {
        __syncthreads();
    }
}

// Whether the condition holds for any thread of the tile. All of them must call this.
__device__ inline bool tile_any(bool condition) {
    return TILE_WARPS == 1 ? __any_sync(ALL_LANES, condition) : __syncthreads_or(condition) != 0;
}

// Returns the sum of the values of all threads of the tile on each. All of them must call this. `sums` is shared memory
// for a value of each warp.
template <typename T> __device__ inline T tile_sum(T value, T *sums) {
    value = warp_reduce_sum(value);
    if (TILE_WARPS == 1) {
        return value;
    }
    __syncthreads(); // Others may still read the sums before.
    if (lane_id() == 0) {
        sums[warp_id()] = value;
    }
    __syncthreads();
    value = sums[0];
    for (uint32_t warp = 1; warp < TILE_WARPS; ++warp) {
        value += sums[warp];
    }
    return value;
}
