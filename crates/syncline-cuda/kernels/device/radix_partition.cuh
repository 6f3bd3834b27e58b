// A stable partition of items by a digit, the step of a radix sort, performed by a group of blocks; and a binary search
// performed by a warp.
//
// SYMBOLS  items of a partition; the other constants are those of device/cooperative.cuh
#pragma once
#include "device/cooperative.cuh"
#include "device/warp.cuh"

// Shared memory of a block for partitioning by digits below DIGITS, a multiple of 32 that is at most THREADS.
template <uint32_t DIGITS> struct Partition {
    static_assert(DIGITS % WARP == 0 && DIGITS <= THREADS, "a thread a digit");
    alignas(4) uint16_t warp_counts[WARPS][DIGITS];
    uint32_t digit_start[DIGITS];
    uint32_t warp_sums[DIGITS / WARP];
};

// Returns exclusive sums over the first DIGITS threads of a block. Called by the whole block.
template <uint32_t DIGITS> __device__ inline uint32_t digit_scan(uint32_t value, uint32_t *warp_sums) {
    uint32_t sum = warp_inclusive_sum(value);
    if (lane_id() == WARP - 1 && threadIdx.x < DIGITS) {
        warp_sums[warp_id()] = sum;
    }
    __syncthreads();
    uint32_t before = 0;
    for (uint32_t warp = 0; warp < min_of<uint32_t>(warp_id(), DIGITS / WARP); ++warp) {
        before += warp_sums[warp];
    }
    return before + sum - value;
}

// Calls `take(item, load(item))` for COUNT items from `first` on, with several loads in flight at a time. Nothing is
// loaded for items past the end. Called by a warp.
template <uint32_t COUNT, typename Load, typename Take>
__device__ inline void for_each_item(uint32_t first, Load load, Take take) {
    constexpr uint32_t AHEAD = min_of<uint32_t>(8, COUNT / WARP);
    for (uint32_t i = 0; i < COUNT; i += AHEAD * WARP) {
        decltype(load(0)) loaded[AHEAD];
#pragma unroll
        for (uint32_t a = 0; a < AHEAD; ++a) {
            const uint32_t item = first + i + a * WARP + lane_id();
            loaded[a] = i + a * WARP < COUNT && item < SYMBOLS ? load(item) : 0;
        }
#pragma unroll
        for (uint32_t a = 0; a < AHEAD; ++a) {
            if (i + a * WARP < COUNT) {
                take(first + i + a * WARP + lane_id(), loaded[a]);
            }
        }
    }
}

// A stable partition of the items 0 to SYMBOLS - 1 by `digit(load(item))`, which is below DIGITS: calls `place(item,
// loaded value, position)` for each item. Blocks, and warps within them, take consecutive items, so that ranks follow
// the order of the items.
template <uint32_t DIGITS, typename Load, typename Digit, typename Place>
__device__ inline void partition_by_digit(CooperativeGroup &group, Partition<DIGITS> &partition, Load load, Digit digit,
                                          Place place) {
    auto &warp_counts = partition.warp_counts;
    auto &digit_start = partition.digit_start;
    constexpr uint32_t PER_WARP =
        (SYMBOLS + COOPERATIVE_BLOCKS * WARPS * WARP - 1) / (COOPERATIVE_BLOCKS * WARPS * WARP) * WARP;
    const uint32_t first = (block_of_group() * WARPS + warp_id()) * PER_WARP;
    for (uint32_t i = threadIdx.x; i < WARPS * DIGITS / 2; i += THREADS) {
        reinterpret_cast<uint32_t *>(warp_counts)[i] = 0; // two at a time
    }
    __syncthreads();
    using Loaded = decltype(load(0));
    // Lanes past the end take a digit that no item has.
    auto digit_or_none = [&](uint32_t item, Loaded loaded) { return item < SYMBOLS ? digit(loaded) : DIGITS; };
    for_each_item<PER_WARP>(first, load, [&](uint32_t item, Loaded loaded) {
        uint32_t own = digit_or_none(item, loaded);
        uint32_t same = __match_any_sync(ALL_LANES, own);
        if (own < DIGITS && lane_id() == __ffs(same) - 1) {
            warp_counts[warp_id()][own] += __popc(same);
        }
        __syncwarp();
    });
    __syncthreads();
    uint32_t total = 0;
    if (threadIdx.x < DIGITS) {
        // All loads precede the first store, so that they wait for memory together.
        uint32_t of_warp[WARPS];
#pragma unroll
        for (uint32_t warp = 0; warp < WARPS; ++warp) {
            of_warp[warp] = warp_counts[warp][threadIdx.x];
        }
#pragma unroll
        for (uint32_t warp = 0; warp < WARPS; ++warp) {
            warp_counts[warp][threadIdx.x] = total;
            total += of_warp[warp];
        }
    }
    uint32_t before = 0;
#if COOPERATIVE_BLOCKS > 1
    if (threadIdx.x < DIGITS) {
        group.digit_counts[block_of_group() * DIGITS + threadIdx.x] = total;
    }
    group.sync();
    if (threadIdx.x < DIGITS) {
        total = 0;
#pragma unroll 8
        for (uint32_t block = 0; block < COOPERATIVE_BLOCKS; ++block) {
            uint32_t count = load_from_group(&group.digit_counts[block * DIGITS + threadIdx.x]);
            before += block < block_of_group() ? count : 0;
            total += count;
        }
    }
#endif
    uint32_t start = digit_scan<DIGITS>(total, partition.warp_sums);
    if (threadIdx.x < DIGITS) {
        digit_start[threadIdx.x] = start + before;
    }
    __syncthreads();
    for_each_item<PER_WARP>(first, load, [&](uint32_t item, Loaded loaded) {
        uint32_t own = digit_or_none(item, loaded);
        uint32_t same = __match_any_sync(ALL_LANES, own);
        uint32_t rank = __popc(same & ((1u << lane_id()) - 1));
        if (own < DIGITS) {
            place(item, loaded, digit_start[own] + warp_counts[warp_id()][own] + rank);
        }
        __syncwarp();
        if (own < DIGITS && rank == 0) {
            warp_counts[warp_id()][own] += __popc(same);
        }
        __syncwarp();
    });
    group.sync();
}

// Returns the first item from `low` to `high` for which `before(item)` is false; items for which it is true come first.
// The lanes of a warp probe together, and every warp finds the same item.
template <typename Before> __device__ inline uint32_t partition_point(uint32_t low, uint32_t high, Before before) {
    while (low < high) {
        uint32_t step = ceil_div(high - low, WARP);
        uint32_t probe = low + (lane_id() + 1) * step - 1;
        bool holds = probe < high && before(probe);
        low += __popc(__ballot_sync(ALL_LANES, holds)) * step;
        high = min_of(high, low + step - 1);
    }
    return high;
}
