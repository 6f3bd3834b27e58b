// The serial part of XXH3-64: scrambling the accumulators from KiB to KiB, by one block.
//
// THREADS  threads of a block
#pragma once
#include "container/xxh3.cuh"

// KiB whose sums are prefetched to shared memory while earlier ones are scrambled. A step takes about 15 cycles, and
// loading sums from memory about fifty times as long.
constexpr uint32_t CHAIN_BATCH = 128;
// The loop prefetches a few steps past the end; these values are not used.
constexpr uint32_t CHAIN_UNROLLED = 4;

// Shared memory of a block.
struct ChainScratch {
    alignas(16) uint64_t fetched[2][(CHAIN_BATCH + CHAIN_UNROLLED) * HASH_LANES];
    uint64_t state;
};

// Scrambles an accumulator and adds the next sum. This is the critical path: a shift, an exclusive or and a
// multiply-add. The compiler uses one instruction for the 64-bit product and sum only with an explicit carry.
__device__ inline uint64_t scrambled_plus(uint64_t accumulator, uint64_t key, uint2 next) {
    const uint32_t low = uint32_t(accumulator), high = uint32_t(accumulator >> 32);
    const uint32_t front = (high ^ uint32_t(key >> 32)) * uint32_t(PRIME32_1) + next.y,
                   back = low ^ high >> 15 ^ uint32_t(key);
    uint32_t lower, upper;
    asm("mad.lo.cc.u32 %0, %2, %3, %4;\n"
        "madc.hi.u32 %1, %2, %3, %5;"
        : "=&r"(lower), "=r"(upper)
        : "r"(back), "r"(uint32_t(PRIME32_1)), "r"(next.x), "r"(front));
    return uint64_t(upper) << 32 | lower;
}

// Loads a word of shared memory. Volatile, so that loads stay in program order.
__device__ inline uint2 load_shared(uint32_t address) {
    uint2 word;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(word.x), "=r"(word.y) : "r"(address) : "memory");
    return word;
}

// Advances a piece's accumulators from KiB `from` to KiB `to`. Eight lanes of the first warp compute, and the other
// warps prefetch sums. Called by the whole block; the first warp gets the result.
__device__ inline uint64_t chain_blocks(const uint64_t *sums, uint32_t from, uint32_t to, uint64_t accumulator,
                                        ChainScratch &scratch) {
    constexpr uint32_t IN_KIB = 8 * HASH_LANES / sizeof(uint4), FETCHERS = THREADS - WARP,
                       FETCHES = (CHAIN_BATCH * IN_KIB + FETCHERS - 1) / FETCHERS;
    constexpr uint32_t STEP = HASH_LANES * sizeof(uint64_t);
    const uint32_t lane = lane_id() % HASH_LANES;
    const uint64_t key = SECRET[16 + lane];
    // The first round only prefetches the first batch.
    for (uint32_t begin = from, round = 0; begin < to + CHAIN_BATCH; begin += CHAIN_BATCH, ++round) {
        if (warp_id() > 0) {
            // All loads come before the first store, so that they wait for memory once.
            const uint32_t vectors = min_of(to - min_of(begin, to), CHAIN_BATCH) * IN_KIB, first = threadIdx.x - WARP;
            const uint4 *source = reinterpret_cast<const uint4 *>(sums) + uint64_t(begin) * IN_KIB;
            uint4 loaded[FETCHES];
#pragma unroll
            for (uint32_t i = 0; i < FETCHES; ++i) {
                const uint32_t vector = first + i * FETCHERS;
                loaded[i] = vector < vectors ? __ldcg(source + vector) : uint4{};
            }
#pragma unroll
            for (uint32_t i = 0; i < FETCHES; ++i) {
                const uint32_t vector = first + i * FETCHERS;
                if (vector < vectors) {
                    reinterpret_cast<uint4 *>(scratch.fetched[round % 2])[vector] = loaded[i];
                }
            }
        } else if (round > 0) {
            const uint32_t own = shared_address(scratch.fetched[(round + 1) % 2] + lane);
            const uint32_t count = min_of(to - (begin - CHAIN_BATCH), CHAIN_BATCH);
            // A few loads from shared memory are in flight while earlier values are added.
            const uint2 first = load_shared(own);
            accumulator += uint64_t(first.y) << 32 | first.x;
            uint32_t step = 1;
            uint2 next[CHAIN_UNROLLED];
#pragma unroll
            for (uint32_t i = 0; i < CHAIN_UNROLLED; ++i) {
                next[i] = load_shared(own + (step + i) * STEP);
            }
            for (; step + CHAIN_UNROLLED <= count; step += CHAIN_UNROLLED) {
#pragma unroll
                for (uint32_t i = 0; i < CHAIN_UNROLLED; ++i) {
                    accumulator = scrambled_plus(accumulator, key, next[i]);
                    next[i] = load_shared(own + (step + CHAIN_UNROLLED + i) * STEP);
                }
            }
#pragma unroll
            for (uint32_t i = 0; i < CHAIN_UNROLLED; ++i, ++step) {
                if (step < count) {
                    accumulator = scrambled_plus(accumulator, key, next[i]);
                }
            }
            accumulator = scrambled_plus(accumulator, key, {0, 0});
        }
        __syncthreads();
    }
    return accumulator;
}
