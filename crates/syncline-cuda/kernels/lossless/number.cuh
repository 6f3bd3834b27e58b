// Numbers of elements and back: `syncline_core::numbers::number`, operation by operation, compiled without contraction.
//
// FLOATS  1: elements are floating-point numbers
// See also lossless/words.cuh.
#pragma once
#include "lossless/structs.cuh"
#include "lossless/words.cuh"
#include "zigzag.cuh"

enum NumberMode : uint32_t { ORDERED, MULTIPLE, SCALED, SCALED_ULPS, SPLIT, NUMBER_MODES };
enum NumberScaling : uint32_t { QUOTIENT, PRODUCT, SHORT_PRODUCT, NUMBER_SCALINGS };

constexpr uint32_t WORD_BITS = 8 * ELEMENT_BYTES;
constexpr word_t TOP_BIT = word_t(word_t(1) << (WORD_BITS - 1));

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
        return ordered_bits(word_t(ordered_bits(scaled_element(number, chunk)) + of_zigzag(word_t(rest))));
    default: {
        const word_t whole = word_t(uint64_t(number) << 16 | rest);
        return FLOATS ? ordered_bits(whole) : whole;
    }
    }
}

// The number of an element, whether the element is that of its number, and what is left besides.
struct FoundNumber {
    word_t number;
    uint32_t rest;
    bool is_exact;
};

// Exact division by the divisor of a chunk: a shift, and a multiplication by the inverse of what is odd of it.
struct Division {
    uint64_t inverse;
    uint64_t most;
    uint32_t zeros;

    Division() = default;
    __device__ inline explicit Division(uint64_t divisor) {
        zeros = uint32_t(__ffsll(int64_t(divisor)) - 1);
        const uint64_t odd = divisor >> zeros;
        // Each step doubles the number of right bits, of which `odd` itself has three.
        inverse = odd;
        for (uint32_t i = 0; i < 5; ++i) {
            inverse *= 2 - odd * inverse;
        }
        most = (uint64_t(1) << (WORD_BITS - 1)) / divisor;
    }

    __device__ inline FoundNumber number(word_t word, const NumberChunk &chunk) const {
        const word_t difference = word_t(word - word_t(chunk.parameters[1]));
        const word_t number = word_t(uint64_t(signed_of(difference) >> zeros) * inverse);
        const uint64_t magnitude = number >= TOP_BIT ? word_t(0 - number) : number;
        const bool is_whole = word_t(uint64_t(number) * chunk.parameters[0]) == difference;
        return {number, 0, is_whole && magnitude <= most};
    }
};

// Returns the number that is nearest to an element that is scaled, as a word, and whether it is in range.
__device__ inline FoundNumber nearest_number(word_t word, const NumberChunk &chunk) {
#if ELEMENT_BYTES >= 4
    constexpr double MAGIC = 6755399441055744.0, LIMIT = ELEMENT_BYTES == 4 ? 1073741824.0 : 1125899906842624.0;
    const double value =
        ELEMENT_BYTES == 4 ? double(__uint_as_float(uint32_t(word))) : __longlong_as_double(int64_t(word));
    const double step = __longlong_as_double(int64_t(chunk.parameters[0])),
                 offset = __longlong_as_double(int64_t(chunk.parameters[1]));
    const double number = chunk.operations == QUOTIENT ? value * step : (value - offset) * (1.0 / step);
    const bool is_in_range = fabs(number) < LIMIT;
    return {is_in_range ? word_t(int64_t((number + MAGIC) - MAGIC)) : word_t(0), 0, is_in_range};
#else
    return {word, 0, false};
#endif
}

// Returns the number of an element.
__device__ inline FoundNumber number_of_element(word_t word, const NumberChunk &chunk, const Division &division) {
    switch (chunk.mode) {
    case ORDERED:
        return {FLOATS ? ordered_bits(word) : word, 0, true};
    case MULTIPLE:
        return division.number(word, chunk);
    case SCALED: {
        FoundNumber found = nearest_number(word, chunk);
        found.is_exact &= scaled_element(found.number, chunk) == word;
        return found;
    }
    default: {
        FoundNumber found = nearest_number(word, chunk);
        const word_t near = ordered_bits(scaled_element(found.number, chunk));
        const uint64_t units = zigzag(word_t(ordered_bits(word) - near));
        found.rest = uint32_t(units & 0xFFFF);
        found.is_exact &= units <= 0xFFFF;
        return found;
    }
    }
}
