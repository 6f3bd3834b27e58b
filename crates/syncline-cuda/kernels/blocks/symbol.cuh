// Symbols of codes, and the bits behind them (docs/FORMAT.md, "Words").
#pragma once
#include "blocks/constants.cuh"
#include "common.cuh"

// Bits behind a symbol that are coded with it. A state has as many bits more than a table.
constexpr uint32_t EARLY_BITS = 16 - blocks::TABLE_LOG2;

// Returns the number of bits behind a symbol.
__device__ inline uint32_t bits_of_symbol(uint32_t symbol) {
    const uint32_t bits = symbol < blocks::OWN_SYMBOLS ? min_of(symbol, 1u) : symbol / 4;
    return symbol < blocks::FIRST_MASK ? bits : 0;
}
// Returns the code of a symbol and the bits behind it. Masks are numbers beyond codes.
__device__ inline int32_t code_of(uint32_t symbol, uint32_t bits) {
    const uint32_t base =
        symbol < blocks::OWN_SYMBOLS ? symbol : (4 | (symbol & 3)) << ((symbol - blocks::OWN_SYMBOLS) / 4 + 1);
    const int32_t magnitude = int32_t(base + (bits >> 1)), sign = -int32_t(bits & 1);
    return (magnitude ^ sign) - sign;
}
__device__ inline int32_t code_of_mask(uint32_t mask) { return code_of(blocks::FIRST_MASK + mask, 0); }
__device__ inline bool is_mask(int32_t code) { return code >= int32_t(blocks::CODE_LIMIT); }

// The symbol of a code or a mask, and the bits behind it: the sign (1: negative) is the lowest.
struct Symbol {
    uint32_t symbol, bits;

    __device__ inline explicit Symbol(int32_t code) {
        const uint32_t magnitude = uint32_t(abs(code)), sign = code < 0 ? 1 : 0;
        if (magnitude < blocks::OWN_SYMBOLS) {
            symbol = magnitude;
            bits = sign;
        } else {
            const uint32_t rest = 31 - __clz(magnitude) - 2;
            symbol = blocks::OWN_SYMBOLS + 4 * (rest - 1) + (magnitude >> rest & 3);
            bits = (magnitude & ((1u << rest) - 1)) << 1 | sign;
        }
    }
};
// Returns the number of the mask of a code that is one.
__device__ inline uint32_t mask_of(int32_t code) { return Symbol(code).symbol - blocks::FIRST_MASK; }
