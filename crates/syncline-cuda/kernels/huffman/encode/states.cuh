// What the blocks of huffman/encode/small.cuh say to each other, in device memory.
#pragma once
#include "huffman/encode/small.cuh"

// Two words that are asked for together.
struct alignas(16) Pair {
    uint64_t first, second;
};

// What blocks say, each kind side by side; all are 0 before and after.
struct States {
    Pair *sizes;       // bits, above them live groups, IS_BAD; words of deltas
    Pair *sums;        // of the live symbols; the same, numbered from the block's first
    Pair *totals;      // of each stream: the sums of its blocks' sizes, and above them how many have been added
    uint64_t *fronts;  // the first 32 bits
    uint64_t *books;   // bytes of each stream's codebook, where that is made on the way
    uint32_t *lengths; // bits of the first live groups, WARP words of each block, 0 behind the last
    uint32_t *done;    // blocks that need no more of this
};
constexpr uint64_t SAID = 1ull << 63, IS_BAD = 1ull << 62;
constexpr uint32_t SAID_LENGTH = 1u << 31, COUNT_AT = 54;
constexpr uint64_t SIZES = (1ull << COUNT_AT) - 1;
static_assert(MOST_BLOCKS < 1u << (64 - COUNT_AT), "counts have room");

// Sizes of what is in a block are a word: bits, and above them live groups.
constexpr uint32_t SHORT_LIVE_AT = 22;
static_assert((THREADS - WARP) * GROUP * LONGEST < 1u << SHORT_LIVE_AT && THREADS - WARP < 1u << (32 - SHORT_LIVE_AT),
              "a block's groups have room");
__device__ inline uint32_t bits_of(uint32_t sizes) { return sizes % (1u << SHORT_LIVE_AT); }
__device__ inline uint32_t live_of(uint32_t sizes) { return sizes >> SHORT_LIVE_AT; }

// Those of several blocks are bits, and above 32 of them live groups.
__device__ inline uint32_t bits_of(uint64_t sizes) { return uint32_t(sizes); }
__device__ inline uint32_t live_of(uint64_t sizes) { return uint32_t((sizes & SIZES) >> 32); }

__device__ inline States states_at(uint64_t *memory) {
    const uint32_t blocks = gridDim.x;
    Pair *sizes = reinterpret_cast<Pair *>(memory);
    Pair *totals = sizes + 2 * blocks;
    uint64_t *books = reinterpret_cast<uint64_t *>(totals + MOST_STREAMS), *fronts = books + MOST_STREAMS;
    uint32_t *lengths = reinterpret_cast<uint32_t *>(fronts + blocks);
    return {sizes, sizes + blocks, totals, fronts, books, lengths, lengths + WARP * blocks};
}
// Words of 32 bits that they take, an even number; and the words of 64 bits at their start, which the last block
// clears.
__device__ inline uint32_t state_words() { return (5 * 2 + WARP) * gridDim.x + 6 * MOST_STREAMS + 2; }
__device__ inline uint32_t words_of_all() { return 5 * gridDim.x + 3 * MOST_STREAMS; }

// A word holds all that it says, so that nothing else need be in order.
__device__ inline void say(uint64_t *state, uint64_t word) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" : : "l"(state), "l"(word) : "memory");
}
__device__ inline void say(uint32_t *state, uint32_t word) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" : : "l"(state), "r"(word) : "memory");
}
__device__ inline uint64_t wait_for(const uint64_t *state) {
    uint64_t word;
    do {
        asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(state) : "memory");
    } while (word == 0);
    return word;
}
__device__ inline uint32_t wait_for(const uint32_t *state) {
    uint32_t word;
    do {
        asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(word) : "l"(state) : "memory");
    } while (word == 0);
    return word;
}
__device__ inline Pair look_at(const Pair *state) {
    Pair pair;
    asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(pair.first), "=l"(pair.second)
                 : "l"(state)
                 : "memory");
    return pair;
}
__device__ inline Pair wait_for(const Pair *state) {
    Pair pair;
    do {
        pair = look_at(state);
    } while (pair.first == 0 || pair.second == 0);
    return pair;
}
// Adds to what others have said, and that there is one more.
__device__ inline void add_to(uint64_t *total, uint64_t own) {
    atomicAdd(reinterpret_cast<unsigned long long *>(total), (1ull << COUNT_AT) + own);
}
