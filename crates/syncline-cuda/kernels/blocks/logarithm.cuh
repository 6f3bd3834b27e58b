// Binary logarithms in integer arithmetic: `syncline_core::bits::logarithm`, bit for bit.
#pragma once
#include "common.cuh"

constexpr uint32_t LOG_BITS = 16;

// Returns log2 of a positive number in units of 2^-16, rounded down bit by bit.
__device__ inline uint32_t log2_fixed(uint32_t number) {
    const uint32_t whole = 31 - __clz(number);
    uint64_t mantissa = uint64_t(number) << 31 >> whole;
    uint32_t result = whole;
    for (uint32_t i = 0; i < LOG_BITS; ++i) {
        mantissa = mantissa * mantissa >> 31;
        const uint32_t bit = uint32_t(mantissa >> 32);
        result = result << 1 | bit;
        mantissa >>= bit;
    }
    return result;
}
// Returns `number * log2(number)` in units of 2^-16; 0 for 0.
__device__ inline uint64_t times_log2(uint32_t number) {
    return number == 0 ? 0 : uint64_t(number) * log2_fixed(number);
}
