// Counting symbols in shared memory.
//
// COPIES  copies of the counters in a block, a power of two up to 32
#pragma once
#include "huffman/encode/encode.cuh"

// Counters in shared memory, [book][symbol][copy], a lane its copy.
constexpr uint32_t ROW_BYTES = 4 * COPIES;
// Counts the symbols, each with its counter's address in one instruction and `red` in another: from `atomicAdd` the
// compiler works it out in more.
__device__ inline void count_in_shared(const LaneSymbols &own, uint32_t copy) {
    constexpr uint32_t IN_ALPHABET = (ALPHABET - 1) & SYMBOL_MASK;
#pragma unroll
    for (uint32_t w = 0; w < LANE_WORDS; ++w) {
        const uint32_t word = own.words[w] & spread_symbol(IN_ALPHABET);
#pragma unroll
        for (uint32_t i = 0; i < WORD_SYMBOLS; ++i) {
            const uint32_t factor = ROW_BYTES << i * 8;
            const uint32_t row = SYMBOL_BYTES == 1 ? __dp4a(word, factor, copy) : __dp2a_lo(word, factor, copy);
            asm volatile("red.shared.add.u32 [%0], 1;" : : "r"(row) : "memory");
        }
    }
}
