// Decodes groups of a token stream (docs/FORMAT.md, "Token stream"), one on each lane of a warp.
//
// WORDS_AHEAD  words of each lane in shared memory
// and the constants of token_codes/tables.cuh
#pragma once
#include "token_codes/tables.cuh"

static_assert(LONGEST > TOKEN_TABLE_BITS && TOKEN_GROUP % 4 == 0, "codewords without entries; whole vectors of codes");

// Reads words of a stream ahead to shared memory. Lanes of a warp need their next words at different tokens, so that
// nearly every token would wait for memory otherwise.
struct WordsAhead {
    static_assert((WORDS_AHEAD & (WORDS_AHEAD - 1)) == 0 && WORDS_AHEAD >= 8, "words share places with later ones");
    // Words from that of the position on that are there after filling, and the tokens that they suffice for: the last
    // token has codeword and raw bits, and a window of 32 bits may start at the latter.
    static constexpr uint32_t FILLED = WORDS_AHEAD - 3;
    static constexpr uint32_t MAX_TOKEN_BITS = LONGEST + 32;
    static constexpr uint32_t TOKENS = (FILLED * 32 - 31 - 32) / MAX_TOKEN_BITS;

    const uint32_t *words;
    uint32_t last;     // last word of the stream
    uint32_t position; // in bits
    uint32_t next;     // first word that has not been read
    uint32_t end;      // no word from here on is needed
    uint32_t *places;  // of the lane; those of a warp alternate, so that lanes do not conflict in banks

    __device__ inline WordsAhead(const uint32_t *from, uint32_t last_word, uint32_t start, uint32_t stop,
                                 uint32_t *places_of_warp)
        : words(from), last(last_word), position(start), next(start / 32 / 4 * 4), end(ceil_div(stop, 32)),
          places(places_of_warp + lane_id()) {}

    __device__ inline uint32_t &at(uint32_t word) { return places[word % WORDS_AHEAD * WARP]; }

    // Reads vectors of words until there are enough for TOKENS tokens.
    __device__ inline void fill() {
        while (next < end && next < position / 32 + FILLED) {
            if (next + 3 <= last) {
                const uint4 four = *reinterpret_cast<const uint4 *>(words + next);
                at(next) = four.x, at(next + 1) = four.y, at(next + 2) = four.z, at(next + 3) = four.w;
            } else {
                for (uint32_t word = next; word <= last; ++word) {
                    at(word) = words[word];
                }
            }
            next += 4;
        }
    }

    // Returns the 32 bits from `bits` behind the position on. Bits behind the end may have any value.
    __device__ inline uint32_t window(uint32_t bits) {
        const uint32_t from = position + bits;
        return __funnelshift_l(at(from / 32 + 1), at(from / 32), from);
    }
};

// Writes the codes of a group to zeros, four at a time.
struct CodeWriter {
    int4 *to;
    int4 four; // the codes of vector `vector`
    uint32_t vector, count;

    __device__ inline explicit CodeWriter(int32_t *to)
        : to(reinterpret_cast<int4 *>(to)), four{}, vector(0), count(0) {}
    // Writes a code behind zeros.
    __device__ inline void put(uint32_t zeros, int32_t code) {
        count += zeros;
        if (count / 4 != vector) {
            finish();
            four = {};
            vector = count / 4;
        }
        const uint32_t place = count % 4;
        four.x = place == 0 ? code : four.x;
        four.y = place == 1 ? code : four.y;
        four.z = place == 2 ? code : four.z;
        four.w = place == 3 ? code : four.w;
        ++count;
    }
    // Writes the last codes: the memory of a group has room for whole vectors.
    __device__ inline void finish() {
        if ((four.x | four.y | four.z | four.w) != 0) {
            to[vector] = four;
        }
    }
};

// A codebook, as a lane decodes with it.
struct DecodingCodebook {
    const uint32_t *table;
    const CodebookDescriptor &descriptor;
    const uint16_t *symbols;
    uint32_t mode;
};

// Returns the entry of a codeword that has none in the table, with length 0 if there is no such codeword.
__device__ __noinline__ uint32_t long_entry(const CodebookDescriptor &codebook, const uint16_t *symbols, uint32_t mode,
                                            uint32_t window) {
    // A code with longer codewords is complete, so that every window starts with a codeword.
    if (codebook.longest <= TOKEN_TABLE_BITS) {
        return 0;
    }
    const Codeword found = find_codeword(codebook, symbols, window, TOKEN_TABLE_BITS + 1);
    return token_entry(mode, found.symbol, found.length);
}

// Decodes a token of a group that lacks `left` codes, not 0. Returns whether there is such a token, which has no more
// codes.
__device__ inline bool decode_token(WordsAhead &from, uint32_t left, const DecodingCodebook &codebook, CodeWriter &to) {
    const uint32_t window = from.window(0);
    uint32_t entry = codebook.table[window >> (32 - TOKEN_TABLE_BITS)];
    if (token_length(entry) == 0) {
        entry = long_entry(codebook.descriptor, codebook.symbols, codebook.mode, window);
        if (token_length(entry) == 0) {
            return false;
        }
    }
    const uint32_t length = token_length(entry), kind = token_kind(entry);
    const uint32_t zeros = kind <= format::LONGEST_RUN ? kind : kind == TOKEN_REST ? left : 0;
    const bool has_value = kind != format::LONGEST_RUN && kind != TOKEN_REST;
    const uint32_t sign_bits = kind < format::LONGEST_RUN ? 1 : 0, raw_bits = token_raw_bits(entry) + sign_bits;
    // Each token has a code at least, because an entry without a value has zeros.
    if (zeros + (has_value ? 1 : 0) > left) {
        return false;
    }
    if (has_value) {
        const uint32_t bits = length + raw_bits <= 32 ? window << length : from.window(length);
        const uint32_t raw = __funnelshift_lc(bits, 0, raw_bits);
        const bool negative = sign_bits != 0 ? raw & 1 : kind == TOKEN_NEGATIVE;
        const uint32_t magnitude = (token_upper_bits(entry) << token_raw_bits(entry)) + (raw >> sign_bits);
        to.put(zeros, int32_t(negative ? 0 - magnitude : magnitude));
    } else {
        to.count += zeros;
    }
    from.position += length + raw_bits;
    return true;
}

// Decodes a group of each lane, which should end at bit `end` and have `length` codes: 0 if the lane has none. Returns
// whether the bits are those of such a group. No more than `length` codes are written. Called by the whole warp.
__device__ inline bool decode_group(WordsAhead &from, uint32_t end, uint32_t length, const DecodingCodebook &codebook,
                                    CodeWriter &to) {
    bool good = true;
    while (__any_sync(ALL_LANES, good && to.count < length)) {
        from.fill();
#pragma unroll 1
        for (uint32_t i = 0; i < WordsAhead::TOKENS; ++i) {
            if (good && to.count < length) {
                good = decode_token(from, length - to.count, codebook, to);
            }
        }
    }
    to.finish();
    return good && from.position == end;
}
