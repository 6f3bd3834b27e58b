// A codebook in shared memory, to make tables from.
#pragma once
#include "huffman_decode.cuh"

// The lengths of codewords by their first bits: what searching for them each time would take most of the time for. 0 if longer.
constexpr uint32_t LENGTH_BITS = 10;

// A codebook in shared memory.
struct OwnBook {
    Book book;
    uint8_t lengths[1u << LENGTH_BITS];

    // By the whole block, with barriers around it.
    __device__ inline void load(const Book &from) {
        const uint32_t word = word_of(from);
        __syncthreads();
        store(word);
    }

    // The same in two steps: what a thread reads, and what the block does with it.
    static __device__ inline uint32_t word_of(const Book &from) {
        return threadIdx.x < sizeof(Book) / 4 ? reinterpret_cast<const uint32_t *>(&from)[threadIdx.x] : 0;
    }
    __device__ inline void store(uint32_t word) {
        if (threadIdx.x < sizeof(Book) / 4) {
            reinterpret_cast<uint32_t *>(&book)[threadIdx.x] = word;
        }
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < 1u << LENGTH_BITS; i += blockDim.x) {
            const uint32_t length = search(i << (32 - LENGTH_BITS), 1);
            lengths[i] = length <= LENGTH_BITS ? length : 0;
        }
        __syncthreads();
    }

    __device__ inline uint32_t search(uint32_t window, uint32_t shortest) const {
        uint32_t length = shortest;
        while (length < book.longest && window >= book.limit[length]) {
            ++length;
        }
        return length;
    }

    // As `canonical` has it.
    __device__ inline uint32_t length(uint32_t window) const {
        const uint32_t length = lengths[window >> (32 - LENGTH_BITS)];
        return length != 0 ? length : search(window, LENGTH_BITS + 1);
    }

    __device__ inline Codeword codeword(const uint16_t *symbols, uint32_t window) const {
        if (book.symbol_count == 0) {
            return {0, 1};
        }
        const uint32_t own = length(window), place = (window >> (32 - own)) + book.offset[own];
        return {symbols[book.symbols + min_of(place, book.symbol_count - 1)], own};
    }
};
