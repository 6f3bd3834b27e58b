// A canonical code from its numbers of each length: GenerateCW. Codewords ascend by symbol within a length (the paper's ascend by count), so a stable partition of the
// symbols by length gives each its codeword, and is itself the decoder's table of symbols; First and Entry come from the numbers of each length.
#pragma once
#include "team.cuh"

// What `summary` holds, in words. huffman/codebook.rs reads it.
constexpr uint32_t SUMMARY_USED = 0, SUMMARY_LONGEST = 1, SUMMARY_STATUS = 2, SUMMARY_ROUNDS = 3, SUMMARY_FIRST = 4, SUMMARY_ENTRY = 36,
                   SUMMARY_CYCLES = 68, SUMMARY_WORDS = 72;

struct Code {
    uint32_t at_length[WARP], first_code[WARP], entry[WARP], longest;
    Partition<WARP> partition;
};
static_assert(MAX_LENGTH_LARGE < WARP, "a digit is a length");

// Writes the code of which `code.at_length` has the numbers. `symbol_at` gives all symbols from the rarest on, of which the first `unused` do not occur. `lengths` is scratch
// memory, a byte a symbol. Called by the whole team, after a barrier.
template <typename SymbolAt>
__device__ inline void write_code(Team &team, Code &code, SymbolAt symbol_at, uint32_t unused, uint8_t *lengths, uint32_t *codewords,
                                  uint16_t *symbols_by_codeword, uint32_t *summary) {
    if (threadIdx.x == 0) {
        uint32_t next = 0, before = 0, last = 0;
        for (uint32_t length = 0; length < WARP; ++length) {
            const uint32_t count = code.at_length[length];
            next <<= 1;
            code.first_code[length] = next;
            code.entry[length] = before;
            next += count;
            before += count;
            last = count > 0 ? length : last;
        }
        code.longest = last;
    }
    __syncthreads();
    // Longest codewords to the rarest symbols.
#pragma unroll 4
    for (uint32_t i = team.rank; i < SYMBOLS; i += Team::SIZE) {
        uint32_t length = 0;
        if (i >= unused) {
            uint32_t shorter = SYMBOLS - 1 - i; // symbols that are more common
            for (length = 1; length < code.longest && code.entry[length] + code.at_length[length] <= shorter; ++length) {
            }
        }
        lengths[symbol_at(i)] = length;
    }
    team.sync();
    partition_by_digit(
        team, code.partition, [&](uint32_t symbol) { return uint32_t(read(&lengths[symbol])); }, [&](uint32_t length) { return length; },
        [&](uint32_t symbol, uint32_t length, uint32_t position) {
            if (length == 0) {
                codewords[symbol] = 0;
            } else {
                uint32_t index = position - unused;
                codewords[symbol] = length << 27 | (code.first_code[length] + index - code.entry[length]);
                symbols_by_codeword[index] = symbol;
            }
        });
    if (block_of_team() == 0 && threadIdx.x < WARP) {
        summary[SUMMARY_FIRST + threadIdx.x] = code.first_code[threadIdx.x];
        summary[SUMMARY_ENTRY + threadIdx.x] = code.entry[threadIdx.x];
        if (threadIdx.x == 0) {
            summary[SUMMARY_LONGEST] = code.longest;
        }
    }
}
