// A codebook in shared memory, from which tables are built.
#pragma once
#include "huffman/decode/decode.cuh"

// The last LAST_SYMBOLS symbols of a code in canonical order, which have the longest codewords, kept in shared memory.
#ifndef LAST_SYMBOLS
#define LAST_SYMBOLS 0
#endif
struct LastSymbols {
    uint32_t first; // rank of the first of them
    uint16_t symbols[LAST_SYMBOLS + 2];

    // Called by the whole block.
    __device__ inline void load(const CodebookDescriptor &codebook, const uint16_t *all) {
        const uint32_t from = codebook.symbol_count - min_of<uint32_t>(codebook.symbol_count, LAST_SYMBOLS);
        if (threadIdx.x == 0) {
            first = from;
        }
        for (uint32_t i = threadIdx.x; i < codebook.symbol_count - from; i += blockDim.x) {
            symbols[i] = all[codebook.symbols + from + i];
        }
    }
};
struct CodebookWithLast {
    CodebookDescriptor codebook;
    LastSymbols last;
};

// Bits of the table of code lengths, which avoids most searches. The entry is 0 for longer codewords.
constexpr uint32_t LENGTH_BITS = 10;

// A codebook and its table of code lengths.
struct SharedCodebook {
    CodebookDescriptor codebook;
    uint8_t lengths[1u << LENGTH_BITS];

    // Called by the whole block. Contains barriers at its start and end.
    __device__ inline void load(const CodebookDescriptor &from) {
        const uint32_t word =
            threadIdx.x < sizeof(CodebookDescriptor) / 4 ? reinterpret_cast<const uint32_t *>(&from)[threadIdx.x] : 0;
        __syncthreads();
        if (threadIdx.x < sizeof(CodebookDescriptor) / 4) {
            reinterpret_cast<uint32_t *>(&codebook)[threadIdx.x] = word;
        }
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < 1u << LENGTH_BITS; i += blockDim.x) {
            const uint32_t length = longer_than<1, LENGTH_BITS>(i << (32 - LENGTH_BITS));
            lengths[i] = length <= LENGTH_BITS ? length : 0;
        }
        __syncthreads();
    }

    // Returns the length of the window's codeword, at least FIRST; LAST + 1 if it is longer than LAST. Limits do not
    // decrease with the length, so all of them can be compared independently, including those beyond the longest
    // codeword.
    template <uint32_t FIRST, uint32_t LAST> __device__ inline uint32_t longer_than(uint32_t window) const {
        uint32_t length = FIRST;
#pragma unroll
        for (uint32_t i = FIRST; i <= LAST; ++i) {
            length += window >= codebook.limit[i];
        }
        return min_of(length, max_of(FIRST, codebook.longest));
    }

    // The same length as `find_codeword` finds.
    __device__ inline uint32_t length(uint32_t window) const {
        const uint32_t length = lengths[window >> (32 - LENGTH_BITS)];
        return length != 0 ? length : longer_than<LENGTH_BITS + 1, LONGEST - 1>(window);
    }

    __device__ inline Codeword codeword(const uint16_t *symbols, uint32_t window) const {
        if (codebook.symbol_count == 0) {
            return {0, 1};
        }
        const uint32_t own = length(window), rank = (window >> (32 - own)) + codebook.offset[own];
        return {symbols[codebook.symbols + min_of(rank, codebook.symbol_count - 1)], own};
    }
};
