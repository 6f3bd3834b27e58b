// Definitions that the kernels of the LZSS stage share. A "block" of data consists of BLOCK_BYTES bytes.
//
// WIDTH        bytes of a symbol: 1, 2, 4 or 8
// BLOCK_BYTES  bytes of a block, 2^14 or 2^16
// THREADS      threads of a thread block
#pragma once
#include "device/warp.cuh"

constexpr uint32_t WARPS = THREADS / WARP;
constexpr uint32_t SYMBOLS = BLOCK_BYTES / WIDTH;
constexpr uint32_t DISTANCE_BYTES = BLOCK_BYTES > (1 << 14) ? 2 : 1;
// Positions and tokens are processed in chunks of 32, one bit each in a word.
constexpr uint32_t CHUNKS = SYMBOLS / 32;

using symbol_t = Unsigned<WIDTH>::type;
using distance_t = Unsigned<DISTANCE_BYTES>::type;

struct Counts {
    uint32_t tokens;
    uint32_t matches;
};

// Returns both counts in one number, so that one addition sums both.
__device__ inline uint64_t packed(uint32_t tokens, uint32_t matches) { return uint64_t(tokens) << 32 | matches; }

// Returns the sum of the values of the threads before the calling one; `total` becomes the sum over the block.
// `warp_sums` has WARPS entries. Starts and ends with a barrier, so that calls may follow each other directly. Called
// by the whole block.
__device__ inline uint64_t block_scan(uint64_t value, uint64_t *warp_sums, uint64_t &total) {
    uint64_t sum = warp_inclusive_sum(value);
    __syncthreads();
    if (lane_id() == WARP - 1) {
        warp_sums[warp_id()] = sum;
    }
    __syncthreads();
    uint64_t before = 0;
    total = 0;
#pragma unroll
    for (uint32_t warp = 0; warp < WARPS; ++warp) {
        uint64_t of_warp = warp_sums[warp];
        before += warp < warp_id() ? of_warp : 0;
        total += of_warp;
    }
    return before + sum - value;
}

// Returns the last of `count` sections whose first data block is not after `block`.
template <typename Section>
__device__ inline uint32_t section_of(const Section *sections, uint32_t count, uint32_t block) {
    uint32_t low = 0, high = count;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        (sections[middle].first_block <= block ? low : high) = middle;
    }
    return low;
}
