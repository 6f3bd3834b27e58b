// Numbers of elements and back: `syncline_core::numbers::number`, operation by operation, compiled without contraction.
//
// FLOATS  1: elements are floating-point numbers
// See also lossless/words.cuh.
#pragma once
#include "lossless/structs.cuh"
#include "lossless/words.cuh"

enum NumberMode : uint32_t { ORDERED, MULTIPLE, SCALED, SCALED_ULPS, SPLIT, NUMBER_MODES };
enum NumberScaling : uint32_t { QUOTIENT, PRODUCT, SHORT_PRODUCT, NUMBER_SCALINGS };

constexpr uint32_t WORD_BITS = 8 * ELEMENT_BYTES;
constexpr word_t TOP_BIT = word_t(word_t(1) << (WORD_BITS - 1));

__device__ inline word_t unzigzag(word_t word) { return word_t(word_t(word >> 1) ^ word_t(0 - (word & 1))); }
// Returns the signed value of a word.
__device__ inline int64_t signed_of(word_t word) {
    return int64_t(uint64_t(word) << (64 - WORD_BITS)) >> (64 - WORD_BITS);
}
// Returns the bits of a floating-point element as an integer with the order of the elements, or the reverse.
__device__ inline word_t ordered_bits(word_t word) {
    return word_t(word ^ (word >= TOP_BIT ? word_t(TOP_BIT - 1) : word_t(0)));
}

// Returns the element of a number that is scaled.
__device__ inline word_t scaled_element(word_t word, const NumberChunk &chunk) {
#if ELEMENT_BYTES >= 4
    const double number = double(signed_of(word)), step = __longlong_as_double(int64_t(chunk.parameters[0])),
                 offset = __longlong_as_double(int64_t(chunk.parameters[1]));
    if (ELEMENT_BYTES == 4 && chunk.operations == SHORT_PRODUCT) {
        return word_t(__float_as_uint(float(number) * float(step)));
    }
    const double value = chunk.operations == QUOTIENT  ? number / step
                         : chunk.operations == PRODUCT ? number * step + offset
                                                       : number * step;
    return ELEMENT_BYTES == 4 ? word_t(__float_as_uint(float(value))) : word_t(__double_as_longlong(value));
#else
    return word;
#endif
}

// Returns the element with a number and a rest.
__device__ inline word_t element_of_number(word_t number, uint32_t rest, const NumberChunk &chunk) {
    switch (chunk.mode) {
    case ORDERED:
        return FLOATS ? ordered_bits(number) : number;
    case MULTIPLE:
        return word_t(chunk.parameters[1] + uint64_t(number) * chunk.parameters[0]);
    case SCALED:
        return scaled_element(number, chunk);
    case SCALED_ULPS:
        return ordered_bits(word_t(ordered_bits(scaled_element(number, chunk)) + unzigzag(word_t(rest))));
    default: {
        const word_t whole = word_t(uint64_t(number) << 16 | rest);
        return FLOATS ? ordered_bits(whole) : whole;
    }
    }
}
