// The symbols of the stream of codes: `syncline_core::strips`.
#pragma once
#include "common.cuh"
#include "strips/constants.cuh"

using strips::STRIP_LEN;
using strips::SYMBOLS;

// Zeros of the longest run that has a symbol of its own, and sizes of the values that symbols with runs have.
constexpr uint32_t LONGEST_RUN = 30, SIZES = 16;
// Values up to this magnitude have a symbol without extra bits.
constexpr uint32_t SMALL = 16;
static_assert(strips::LONG_RUN == LONGEST_RUN * SIZES && strips::FIRST_LARGE == strips::FIRST_SMALL + 2 * SMALL,
              "the alphabet of the format");
// No symbol.
constexpr uint32_t NO_SYMBOL = 0xFFFFFFFFu;

// Returns the symbol of 2^exponent zeros, up to 16.
__device__ inline uint32_t symbol_of_power(uint32_t exponent) { return strips::FIRST_POWER + exponent; }

// Returns the size of a value that is not 0: the number of bits of its magnitude without the first.
__device__ inline uint32_t size_of(int32_t value) { return 31 - __clz(value < 0 ? -uint32_t(value) : uint32_t(value)); }

// Returns the symbol of a value that is not 0 after `run` zeros, fewer than LONGEST_RUN; NO_SYMBOL if none has both.
__device__ inline uint32_t symbol_of(uint32_t run, int32_t value) {
    const uint32_t size = size_of(value);
    if (run == 0 && value >= -int32_t(SMALL) && value <= int32_t(SMALL)) {
        return strips::FIRST_SMALL + SMALL + uint32_t(value) - (value > 0 ? 1 : 0);
    }
    return size < SIZES ? run * SIZES + size : run == 0 ? strips::FIRST_LARGE + size - SIZES : NO_SYMBOL;
}

// Returns the number of extra bits after the codeword of a symbol.
__device__ inline uint32_t extra_bits_of(uint32_t symbol) {
    return symbol < strips::LONG_RUN                                     ? symbol % SIZES + 1
           : symbol >= strips::FIRST_LARGE && symbol < strips::ANY_VALUE ? symbol - strips::FIRST_LARGE + SIZES + 1
           : symbol == strips::ANY_VALUE                                 ? 32
                                                                         : 0;
}

// Returns the extra bits of a value that is not 0 whose symbol says its size: the lower bits of the magnitude, then the
// sign.
__device__ inline uint32_t extra_of(int32_t value) {
    const uint32_t magnitude = value < 0 ? -uint32_t(value) : uint32_t(value);
    return (magnitude ^ 1u << (31 - __clz(magnitude))) << 1 | (value < 0 ? 1 : 0);
}

// Whether every codebook made from a sample has the symbol, so that any codes can be written with it.
__device__ inline bool is_required(uint32_t symbol) {
    return symbol < SIZES || (symbol >= strips::LONG_RUN && symbol < strips::FIRST_LARGE) ||
           symbol == strips::ANY_VALUE;
}

// Calls `put(symbol, extra bits, their number)` for the symbols of a value that is not 0 and the zeros in front of it.
// `has` says whether the codebook has a symbol. In dense tiles, every zero has a symbol of its own.
template <typename Has, typename Put>
__device__ inline void for_symbols(uint32_t zeros, int32_t value, bool is_dense, Has has, Put put) {
    const uint32_t unit = is_dense ? 1 : LONGEST_RUN,
                   of_unit = is_dense ? symbol_of_power(0) : uint32_t(strips::LONG_RUN);
    for (; zeros >= unit; zeros -= unit) {
        put(of_unit, 0, 0);
    }
    uint32_t symbol = symbol_of(zeros, value);
    if (symbol == NO_SYMBOL || !has(symbol)) {
        if (zeros > 0) {
            for (uint32_t exponent = 5; exponent-- > 0;) {
                if ((zeros >> exponent & 1) != 0) {
                    put(symbol_of_power(exponent), 0, 0);
                }
            }
            symbol = symbol_of(0, value);
        }
        symbol = symbol != NO_SYMBOL && has(symbol) ? symbol : uint32_t(strips::ANY_VALUE);
    }
    const uint32_t extra_bits = extra_bits_of(symbol);
    put(symbol, extra_bits == 0 ? 0 : symbol == strips::ANY_VALUE ? uint32_t(value) : extra_of(value), extra_bits);
}
