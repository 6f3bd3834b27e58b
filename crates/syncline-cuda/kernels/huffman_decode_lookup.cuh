// Decoding for speed: table entries that are added to a position as they are, and two lookups to a window of 32 bits.
//
// LOOKUP_BITS   bits that a lookup of one symbol takes, 12 to 14
#pragma once
#include "huffman_decode.cuh"

constexpr uint32_t LOOKUPS = 1u << (PAIRS ? TABLE_BITS : LOOKUP_BITS);
constexpr uint32_t LOOKUP_SHIFT = 32 - (PAIRS ? TABLE_BITS : LOOKUP_BITS);
static_assert(LOOKUP_BITS >= TABLE_BITS && LOOKUP_BITS <= LONG_BITS && LOOKUP_BITS < 32, "longer codewords have entries in the other table");

// Entries of one symbol: bits 0-5 the length, from bit 16 up the symbol. Entries of two, made use of with PAIRS: bits 0-5 the length of both, 16-20 of the first, 6-15 and
// 22-31 the symbols minus the base; those with one symbol have ALONE. So the low six bits of a sum of entries are that of their lengths: enough for where in its word a position
// is, and whether it is in the next.
constexpr uint32_t LENGTH_MASK = 63, PAIRED_BITS = 10, PAIRED_MASK = (1u << PAIRED_BITS) - 1;
// No codeword ends within the lookup.
constexpr uint32_t LONGER = 1u << 14;
constexpr uint32_t ALONE = 1u << 21; // of an entry of symbols: there is no second

// A window over words in order. `Words::move_on(there, word0, word1)` takes the next word in if `there` is not 0.
template <typename Words> struct Bits {
    Words words;
    uint32_t word0, word1;
    uint32_t position; // its low six bits

    __device__ inline uint32_t window() const { return __funnelshift_l(word1, word0, position); }

    // Goes on by the low six bits of `entry`, at most 32.
    __device__ inline void skip(uint32_t entry) {
        const uint32_t after = position + entry;
        words.move_on((position ^ after) & 32, word0, word1);
        position = after;
    }
};

// What a thread decodes with: the table of LOOKUPS entries, then that for codewords of up to LONG_BITS, in shared memory.
struct Lookup {
    const uint32_t *table;
    const Book *book;
    const uint16_t *symbols;
    uint32_t base, long_start, long_entries;
    bool paired; // of two symbols; else PAIRS does not matter

    __device__ inline Lookup(const uint32_t *tables, const Book *code, const uint16_t *all_symbols, uint32_t entries_for_long, bool in_pairs)
        : table(tables), book(code), symbols(all_symbols), base(code->base * 0x10001u), long_start(code->limit[TABLE_BITS]),
          long_entries(entries_for_long), paired(in_pairs) {}

    __device__ inline uint32_t lookup(uint32_t window) const { return table[window >> LOOKUP_SHIFT]; }

    // The entry of a codeword longer than a lookup; 0 if it has none.
    __device__ inline uint32_t long_entry(uint32_t window) const {
        const uint32_t i = (window - long_start) >> (32 - LONG_BITS);
        return i < long_entries ? table[LOOKUPS + i] : 0;
    }

    // The entry of the first codeword alone, as one of one symbol; for one of two symbols too. Not 0: codewords beyond the tables are searched for, which takes so long that it must stay rare.
    __device__ inline uint32_t alone(uint32_t entry, uint32_t window) const {
#if PAIRS
        if (paired && entry & LENGTH_MASK) {
            const uint32_t symbol = (entry >> 6 & PAIRED_MASK) + (base & 0xFFFF);
            return (entry & ALONE ? entry & LENGTH_MASK : entry >> 16 & 31) | symbol << 16;
        }
#endif
        if (entry & LENGTH_MASK) {
            return entry;
        }
        entry = long_entry(window);
        if (entry == 0) {
            const Codeword one = canonical(*book, symbols, window, TABLE_BITS + 1);
            entry = one.length | one.symbol << 16;
        }
        return entry;
    }

    // The next two symbols, the first in the low half; one after the other, where lookups do not give both.
    template <typename Words> __device__ inline uint32_t two_apart(Bits<Words> &from) const {
        uint32_t window = from.window();
        const uint32_t first = alone(lookup(window), window);
        from.skip(first & LENGTH_MASK);
        window = from.window();
        const uint32_t second = alone(lookup(window), window);
        from.skip(second & LENGTH_MASK);
        return __byte_perm(first, second, 0x7632);
    }

    // The next four symbols.
    template <typename Words> __device__ inline uint2 four(Bits<Words> &from) const {
        const uint32_t window = from.window();
        const uint32_t one = lookup(window);
        // Shifts by the low five bits.
        const uint32_t rest = __funnelshift_l(0, window, one);
        const uint32_t other = lookup(rest);
#if PAIRS
        if (paired) {
            if ((one | other) & ALONE) {
                const uint32_t low = two_apart(from);
                return make_uint2(low, two_apart(from));
            }
            constexpr uint32_t BOTH = PAIRED_MASK * 0x10001u;
            from.skip(one + other);
            return make_uint2((one >> 6 & BOTH) + base, (other >> 6 & BOTH) + base);
        }
#endif
        const uint32_t low = two(window, one, other, from);
        const uint32_t next = from.window();
        const uint32_t third = lookup(next);
        return make_uint2(low, two(next, third, lookup(__funnelshift_l(0, next, third)), from));
    }

    // The next 16 bytes of symbols.
    template <typename Words> __device__ inline uint4 unit(Bits<Words> &from) const {
        uint32_t words[4];
#pragma unroll
        for (uint32_t i = 0; i < 4; i += SYMBOL_BYTES) {
            const uint2 symbols = four(from);
#if SYMBOL_BYTES == 1
            words[i] = __byte_perm(symbols.x, symbols.y, 0x6420);
#else
            words[i] = symbols.x;
            words[i + 1] = symbols.y;
#endif
        }
        return make_uint4(words[0], words[1], words[2], words[3]);
    }

    // Two symbols with an entry each.
    template <typename Words> __device__ inline uint32_t two(uint32_t window, uint32_t one, uint32_t other, Bits<Words> &from) const {
        if ((one | other) & LONGER) {
            one = one & LONGER ? long_entry(window) : one;
            const uint32_t rest = __funnelshift_l(0, window, one);
            other = lookup(rest);
            other = other & LONGER ? long_entry(rest) : other;
            if (one == 0 || other == 0) {
                return two_apart(from);
            }
        }
        from.skip(one + other);
        return __byte_perm(one, other, 0x7632);
    }
};
static_assert(2 * LOOKUP_BITS <= 32, "two lookups to a window");

// Fills a table of TABLE entries from as many, each by itself; by the whole block. Four at a time: a block that has little to decode waits for these reads.
template <typename Each> __device__ inline void load_each(uint32_t *to, const uint32_t *from, Each each) {
    for (uint32_t i = threadIdx.x; i < TABLE / 4; i += blockDim.x) {
        const uint4 four = reinterpret_cast<const uint4 *>(from)[i];
        reinterpret_cast<uint4 *>(to)[i] = make_uint4(each(four.x), each(four.y), each(four.z), each(four.w));
    }
}

// Fills a table of one-symbol entries from a codebook's; by the whole block, followed by a barrier. `long_entries` is how many of the others to take.
__device__ inline void load_alone(uint32_t *to, const uint32_t *from, uint32_t long_entries, const Book &book) {
    constexpr uint32_t EACH = LOOKUPS / TABLE;
    load_words(to + LOOKUPS, from + TABLE, long_entries);
    if constexpr (EACH == 1) {
        load_each(to, from, [&](uint32_t entry) {
            const uint32_t alone = single(entry, book.base, book.mask);
            return alone == 0 ? LONGER : alone;
        });
    } else {
        for (uint32_t i = threadIdx.x; i < TABLE; i += blockDim.x) {
            const uint32_t entry = single(from[i], book.base, book.mask);
#pragma unroll
            for (uint32_t j = 0; j < EACH; ++j) {
                uint32_t own = entry;
                if (entry == 0) {
                    const uint32_t window = i << (32 - TABLE_BITS) | j << LOOKUP_SHIFT;
                    const uint32_t place = (window - book.limit[TABLE_BITS]) >> (32 - LONG_BITS);
                    own = place < LONG_ENTRIES ? from[TABLE + place] : 0;
                    own = own == 0 || (own & LENGTH_MASK) > 32 - LOOKUP_SHIFT ? LONGER : own;
                }
                to[i * EACH + j] = own;
            }
        }
    }
}

// The same of entries of two symbols. Whether this thread has found symbols too far apart for that: then the table is worthless.
__device__ inline bool load_paired(uint32_t *to, const uint32_t *from, uint32_t long_entries, const Book &book) {
    bool apart = book.mask != 0xFFF;
    load_words(to + LOOKUPS, from + TABLE, long_entries);
    load_each(to, from, [&](uint32_t entry) {
        const uint32_t first = entry >> 8 & 0xFFF, second = entry >> 20;
        apart = apart || max_of(first, second) > PAIRED_MASK;
        return has_two(entry) ? length_of_all(entry) | first << 6 | length_of_first(entry) << 16 | second << 22
                              : length_of_first(entry) | first << 6 | ALONE;
    });
    return apart;
}

// Fills the tables of `count` codebooks, OWN_WORDS apart, as fits all of them; whether with entries of two symbols. By the whole block, with a barrier after it.
template <uint32_t OWN_WORDS>
__device__ inline bool load_lookups(uint32_t *to, const uint32_t *from, uint32_t long_entries, const Book *books, uint32_t count) {
#if PAIRS
    bool apart = false;
    for (uint32_t i = 0; i < count; ++i) {
        if (!books[i].absent) {
            apart = load_paired(to + i * OWN_WORDS, from + uint64_t(i) * BOOK_WORDS, long_entries, books[i]) || apart;
        }
    }
    if (!__syncthreads_or(apart)) {
        return true;
    }
#endif
    for (uint32_t i = 0; i < count; ++i) {
        if (!books[i].absent) {
            load_alone(to + i * OWN_WORDS, from + uint64_t(i) * BOOK_WORDS, long_entries, books[i]);
        }
    }
    __syncthreads();
    return false;
}
