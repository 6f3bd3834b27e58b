// Decoding tables of token codebooks (docs/FORMAT.md, "Token stream").
//
// An entry says what a symbol stands for. `x` is the base of the magnitude. `y` has the length of the codeword in bits
// 0 to 7, the number of raw bits in bits 8 to 15, the zeros before the value in bits 16 to 23, and the kind in bits 24
// to
// 31. A length of 0: there is no codeword of at most TOKEN_TABLE_BITS bits.
//
// TOKEN_TABLE_BITS  bits of a table lookup
#pragma once
#include "huffman/decode/decode.cuh"
#include "token_codes/structs.cuh"

using format::MAX_CODEBOOKS;
using format::TOKEN_GROUP;
constexpr uint32_t TOKEN_TABLE = 1u << TOKEN_TABLE_BITS;
// Symbols of the largest alphabet, for which each codebook has room.
constexpr uint32_t TOKEN_ALPHABET = format::ALPHABET_WIDE;

// What stands behind the zeros of an entry: a value, whose sign is known or the last raw bit; nothing; or zeros up to
// the end of the group.
constexpr uint32_t TOKEN_POSITIVE = 0, TOKEN_NEGATIVE = 1, TOKEN_SIGNED = 2, TOKEN_NOTHING = 3, TOKEN_REST = 4;

__device__ inline uint32_t token_length(uint2 entry) { return entry.y & 0xFF; }
__device__ inline uint32_t token_raw_bits(uint2 entry) { return entry.y >> 8 & 0xFF; }
__device__ inline uint32_t token_zeros(uint2 entry) { return entry.y >> 16 & 0xFF; }
__device__ inline uint32_t token_kind(uint2 entry) { return entry.y >> 24; }

// Returns the number of symbols of a mode.
__device__ inline uint32_t token_alphabet(uint32_t mode) {
    return mode == format::MODE_PLAIN  ? format::ALPHABET_PLAIN
           : mode == format::MODE_RUNS ? format::ALPHABET_RUNS
           : mode == format::MODE_BINS ? format::ALPHABET_BINS
                                       : format::ALPHABET_WIDE;
}

// Whether a mode has no such symbol, although the symbol is in its alphabet: a zero that is negative.
__device__ inline bool is_missing_symbol(uint32_t mode, uint32_t symbol) {
    return mode == format::MODE_BINS && symbol == 1;
}

// Returns the entry of a symbol of a mode whose codeword has `length` bits.
__device__ inline uint2 token_entry(uint32_t mode, uint32_t symbol, uint32_t length) {
    uint32_t base = 0, raw_bits = 0, zeros = 0, kind;
    if (mode == format::MODE_RUNS) {
        if (symbol == format::REST_IS_ZERO) {
            kind = TOKEN_REST;
        } else if (symbol == format::ZERO_RUN) {
            zeros = format::LONGEST_RUN;
            kind = TOKEN_NOTHING;
        } else {
            zeros = symbol / 32;
            base = 1u << symbol % 32;
            raw_bits = symbol % 32 + 1;
            kind = TOKEN_SIGNED;
        }
    } else if (mode == format::MODE_BINS) {
        // Bins without raw bits are magnitudes; then each number of raw bits has four bins.
        const uint32_t bin = symbol / 2;
        raw_bits = max_of(bin / 4, 1u) - 1;
        base = (bin - 4 * raw_bits) << raw_bits;
        kind = symbol % 2 == 0 ? TOKEN_POSITIVE : TOKEN_NEGATIVE;
    } else {
        const int32_t code = int32_t(symbol) - int32_t(token_alphabet(mode) / 2);
        base = uint32_t(code < 0 ? -code : code);
        kind = code < 0 ? TOKEN_NEGATIVE : TOKEN_POSITIVE;
    }
    return make_uint2(base, length | raw_bits << 8 | zeros << 16 | kind << 24);
}
