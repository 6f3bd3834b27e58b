// Decoding tables of token codebooks (docs/FORMAT.md, "Token stream").
//
// An entry says what a symbol stands for. It has the length of the codeword in bits 0 to 4, the number of raw bits in
// bits 5 to 9, the kind in bits 10 to 15, and from bit 16 on the upper bits of the magnitude, which raw bits follow.
// A length of 0: there is no codeword of at most TOKEN_TABLE_BITS bits.
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

// The kind is the number of zeros in front of a value with one more raw bit, the last one, for its sign; that of
// LONGEST_RUN has no value. Or the rest of the group is zeros, or there is a value whose sign is known.
constexpr uint32_t TOKEN_REST = format::LONGEST_RUN + 1, TOKEN_POSITIVE = TOKEN_REST + 1,
                   TOKEN_NEGATIVE = TOKEN_POSITIVE + 1;
static_assert(TOKEN_NEGATIVE < 64 && format::ALPHABET_WIDE / 2 < 1 << 16, "a kind has 6 bits, a magnitude 16");

__device__ inline uint32_t token_length(uint32_t entry) { return entry & 31; }
__device__ inline uint32_t token_raw_bits(uint32_t entry) { return entry >> 5 & 31; }
__device__ inline uint32_t token_kind(uint32_t entry) { return entry >> 10 & 63; }
__device__ inline uint32_t token_upper_bits(uint32_t entry) { return entry >> 16; }

// Returns the number of symbols of a mode.
__device__ inline uint32_t token_alphabet(uint32_t mode) {
    return mode == format::MODE_PLAIN  ? format::ALPHABET_PLAIN
           : mode == format::MODE_RUNS ? format::ALPHABET_RUNS
                                       : format::ALPHABET_WIDE;
}

// Returns the entry of a symbol of a mode whose codeword has `length` bits.
__device__ inline uint32_t token_entry(uint32_t mode, uint32_t symbol, uint32_t length) {
    uint32_t upper = 0, raw_bits = 0, kind;
    if (mode == format::MODE_RUNS) {
        if (symbol == format::REST_IS_ZERO) {
            kind = TOKEN_REST;
        } else if (symbol == format::ZERO_RUN) {
            kind = format::LONGEST_RUN;
        } else {
            kind = symbol / 32;
            upper = 1;
            raw_bits = symbol % 32;
        }
    } else {
        const int32_t code = int32_t(symbol) - int32_t(token_alphabet(mode) / 2);
        upper = uint32_t(code < 0 ? -code : code);
        kind = code < 0 ? TOKEN_NEGATIVE : TOKEN_POSITIVE;
    }
    return length | raw_bits << 5 | kind << 10 | upper << 16;
}
