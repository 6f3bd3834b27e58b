// The table with which strips are decoded: what the symbol stands for whose codeword begins a window of bits.
//
// An entry has the bits of codeword and extra bits in bits 0 to 5, those of the codeword in 6 to 9, the zeros in front
// in 10 to 14, whether a value follows in 15, and in 16 to 31 the value itself if there are no extra bits, else its
// size. 0: no codeword begins like this.
#pragma once
#include "common.cuh"
#include "strips/constants.cuh"

constexpr uint32_t ENTRY_HAS_VALUE = 1u << 15;

__device__ inline uint32_t entry_bits(uint32_t entry) { return entry & 63; }
__device__ inline uint32_t entry_length(uint32_t entry) { return entry >> 6 & 15; }
__device__ inline uint32_t entry_zeros(uint32_t entry) { return entry >> 10 & 31; }

// Returns the entry of a symbol with a codeword of `length` bits.
__device__ inline uint32_t make_entry(uint32_t symbol, uint32_t length) {
    uint32_t zeros = 0, extra = 0, value = 0;
    if (symbol < strips::LONG_RUN) {
        const uint32_t size = symbol % 16;
        zeros = symbol / 16;
        extra = size + 1;
        value = ENTRY_HAS_VALUE | size << 16;
    } else if (symbol == strips::LONG_RUN) {
        zeros = 30;
    } else if (symbol < strips::FIRST_SMALL) {
        zeros = 1u << (symbol - strips::FIRST_POWER);
    } else if (symbol < strips::FIRST_LARGE) {
        const int32_t place = int32_t(symbol - strips::FIRST_SMALL);
        value = ENTRY_HAS_VALUE | uint32_t(place < 16 ? place - 16 : place - 15) << 16;
    } else if (symbol < strips::ANY_VALUE) {
        const uint32_t size = symbol - uint32_t(strips::FIRST_LARGE) + 16;
        extra = size + 1;
        value = ENTRY_HAS_VALUE | size << 16;
    } else {
        extra = 32;
        value = ENTRY_HAS_VALUE;
    }
    return length + extra | length << 6 | zeros << 10 | value;
}

// Returns the value of an entry that has one, given the extra bits at the top of a window.
__device__ inline int32_t entry_value(uint32_t entry, uint64_t window) {
    const uint32_t count = entry_bits(entry) - entry_length(entry), number = entry >> 16;
    if (count == 0) {
        return int32_t(entry) >> 16;
    }
    const uint32_t extra = uint32_t(window >> (64 - count));
    if (count == 32 && number == 0) {
        return int32_t(extra);
    }
    const uint32_t magnitude = extra >> 1 | 1u << number;
    return int32_t(extra & 1 ? 0 - magnitude : magnitude);
}
