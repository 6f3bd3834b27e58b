// Decoding of a lane's group for reconstruction: as huffman_decode.cuh's, with tables in another form. Whether lookups go by pairs is decided for each stream.
//
// Table entries with pairs (WIDE 0 only): bits 0-9 the first symbol, 10-13 its length, 15 set if there is no second, 16-25 the second symbol, 28-31 the length of all.
// Without pairs, and for long codewords: the length, from bit 16 up the symbol. 0, or 0 and bit 15, where there is no codeword of TABLE_BITS bits.
#pragma once
#include "huffman_decode_index.cuh"

constexpr uint32_t PAIR_MASK = 0x03FF03FF, ONLY_ONE = 0x8000;

// Words in shared memory, one after the other. The block has enough of it behind the last one that a damaged stream may lead to.
struct Near {
    const uint32_t *following;
    __device__ inline Near(const uint32_t *words, uint32_t first) : following(words + first) {}
    __device__ inline uint32_t next() { return *following++; }
};
// Words in device memory; those past the last are the last.
struct Far {
    const uint32_t *words;
    uint32_t following, last;
    __device__ inline Far(const uint32_t *all, uint32_t first, uint32_t last_word) : words(all), following(first), last(last_word) {}
    __device__ inline uint32_t next() { return __ldg(&words[min_of(following++, last)]); }
};
// What a group's codewords may take beyond where the index says that they start, in words: all of them of the longest kind, and the reader's look ahead.
constexpr uint32_t MOST_GROUP_WORDS = GROUP * LONGEST / 32 + 2;

// Reads from bit `start` of its words' first on.
template <typename Words> struct BitReader {
    Words words;
    uint32_t position, word0, word1;

    __device__ inline BitReader(Words from, uint32_t start) : words(from), position(start) {
        word0 = words.next();
        word1 = words.next();
    }
    __device__ inline uint32_t window() const { return __funnelshift_l(word1, word0, position); }
    // At most 32 bits.
    __device__ inline void skip(uint32_t bits) {
        const uint32_t after = position + bits;
        if ((position ^ after) & 32) {
            word0 = word1;
            word1 = words.next();
        }
        position = after;
    }
};

// An entry in this file's form, of one in that of huffman_decode.cuh.
template <bool PAIRED> __device__ inline uint32_t own_entry(uint32_t entry, const Book &book) {
    if (!PAIRED) {
        return single(entry, book.base, book.mask);
    }
    const uint32_t length = length_of_first(entry);
    if (length == 0) {
        return ONLY_ONE;
    }
    const uint32_t first = (entry >> 8 & 0xFFF) + book.base | length << 10;
    return has_two(entry) ? first | ((entry >> 20) + book.base) << 16 | length_of_all(entry) << 28 : first | ONLY_ONE | length << 28;
}

template <bool PAIRED> struct Lookup {
    const uint32_t *table, *long_table;
    const Book *book;
    const uint16_t *symbols;
    uint32_t long_start, long_entries;

    __device__ inline Lookup(const uint32_t *tables, uint32_t entries_for_long, const Book *code, const uint16_t *all_symbols)
        : table(tables), long_table(tables + TABLE), book(code), symbols(all_symbols), long_start(code->limit[TABLE_BITS]),
          long_entries(entries_for_long) {}

    __device__ inline uint32_t entry(uint32_t window) const { return table[window >> (32 - TABLE_BITS)]; }

    // The first codeword of an entry: symbol and length, as without pairs. 0 if it is too long for any table.
    __device__ inline uint32_t first(uint32_t entry, uint32_t window) const {
        if (PAIRED) {
            const uint32_t length = entry >> 10 & 15;
            entry = length == 0 ? 0 : length | entry << 16 & 0x3FF0000;
        }
        if (entry == 0) {
            const uint32_t i = (window - long_start) >> (32 - LONG_BITS);
            entry = i < long_entries ? long_table[i] : 0;
        }
        return entry;
    }

    template <typename Source> __device__ inline uint32_t one(Source &from) const {
        const uint32_t window = from.window();
        const uint32_t found = first(entry(window), window);
        const Codeword next = found == 0 ? canonical(*book, symbols, window, TABLE_BITS + 1) : Codeword{found >> 16, found & 31};
        from.skip(next.length);
        return next.symbol;
    }

    // Two symbols with an entry each. Sets how many bits are still to skip.
    template <typename Source> __device__ inline uint32_t apart(uint32_t window, uint32_t first_entry, Source &from, uint32_t &bits) const {
        // One window is enough for two codewords of LONG_BITS bits. Shifts by the low five bits of an entry: its length.
        const uint32_t next = first(first_entry, window);
        const uint32_t rest = __funnelshift_l(0, window, next);
        const uint32_t other = first(entry(rest), rest);
        bits = next + other & 63;
        uint32_t pair = __byte_perm(next, other, 0x7632);
        if (next == 0 || other == 0) {
            bits = 0;
            pair = one(from);
            pair |= one(from) << 16;
        }
        return pair;
    }

    // The next two symbols, the first in the low half.
    template <typename Source> __device__ inline uint32_t two(Source &from) const {
        const uint32_t window = from.window();
        const uint32_t here = entry(window);
        uint32_t bits, pair;
        if (PAIRED) {
            bits = here >> 28;
            pair = here & PAIR_MASK;
            if (here & ONLY_ONE) {
                pair = apart(window, here, from, bits);
            }
        } else {
            // A codeword without an entry has length 0: what follows it is looked up in vain.
            const uint32_t rest = __funnelshift_l(0, window, here);
            const uint32_t other = entry(rest);
            bits = here + other & 63;
            pair = __byte_perm(here, other, 0x7632);
            if (here == 0 || other == 0) {
                pair = apart(window, here, from, bits);
            }
        }
        from.skip(bits);
        return pair;
    }
};

// The share of lookups that give two symbols, as the code has it: a codeword of n bits has the share 2^-n.
__device__ inline float paired_share(const Book &book) {
    float share = 0;
    for (uint32_t length = 1; length < TABLE_BITS; ++length) {
        share += float(book.limit[length] - book.limit[length - 1]) * float(book.limit[TABLE_BITS - length]);
    }
    return share * 0x1p-64f;
}
