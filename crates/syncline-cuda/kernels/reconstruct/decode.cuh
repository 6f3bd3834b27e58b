// Decodes a lane's group for reconstruction, as huffman/decode/decode.cuh does, with tables of another form that the
// block builds itself. Each stream decides whether lookups are in pairs.
//
// Table entries with pairs (WIDE 0 only): the first symbol in bits 0-9, its length in 10-13, bit 15 set if there is no
// second symbol, the second symbol in 16-25, the length of both codewords in 28-31. Without pairs, and for long
// codewords: a Single (reconstruct/tables.cuh). Entries are 0, or 0 with bit 15 set, if there is no codeword of at most
// TABLE_BITS bits.
#pragma once
#include "huffman/decode/symbol_index.cuh"
#include "reconstruct/tables.cuh"

constexpr uint32_t PAIR_MASK = 0x03FF03FF, ONLY_ONE = 0x8000;

// Returns the symbols of two single entries, the first one in the low half.
__device__ inline uint32_t pair_of(uint32_t first, uint32_t second) {
    return WIDE ? __byte_perm(first, second, 0x7632) : __byte_perm(first, second, 0x5410) >> SYMBOL_AT & PAIR_MASK;
}

// Reads consecutive words from shared memory. Behind the last word, the block has as much shared memory as a damaged
// stream may read.
struct Near {
    uint32_t following; // address of the following word
    __device__ inline Near(const uint32_t *words, uint32_t first) : following(shared_address(words + first)) {}
    __device__ inline uint32_t next() {
        uint32_t word;
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(following));
        following += 4;
        return word;
    }
    // Returns the number of the word after the next one.
    __device__ inline uint32_t number() const { return following / 4; }
    // Advances by a word if `position` and `after` are in different words, by comparing the parity of word numbers. The
    // compiler's code takes twice the instructions.
    __device__ inline void advance(uint32_t position, uint32_t after, uint32_t &word0, uint32_t &word1) {
        asm volatile("{\n"
                     " .reg .pred further;\n"
                     " .reg .u32 differing;\n"
                     " xor.b32 differing, %3, %4;\n"
                     " and.b32 differing, differing, 32;\n"
                     " setp.ne.u32 further, differing, 0;\n"
                     " @further mov.u32 %0, %1;\n"
                     " @further ld.shared.u32 %1, [%2];\n"
                     " @further add.u32 %2, %2, 4;\n"
                     "}"
                     : "+r"(word0), "+r"(word1), "+r"(following)
                     : "r"(position), "r"(after));
    }
};
// Maximum number of words that a group's codewords may take from the start that the index gives: all codewords of
// maximum length, and the words that are read ahead.
constexpr uint32_t MOST_GROUP_WORDS = GROUP * LONGEST / 32 + 2;

// Reads bits from bit `start` of the first word on. Only the lowest six bits of the position are valid, because the
// skipped number may have other information in its higher bits.
struct BitReader {
    Near words;
    uint32_t position, word0, word1;

    __device__ inline BitReader(Near from, uint32_t start) : words(from), position(start) {
        word0 = words.next();
        word1 = words.next();
    }
    __device__ inline uint32_t window() const { return __funnelshift_l(word1, word0, position); }
    // Skips at most 32 bits, the lowest six bits of the number.
    __device__ inline void skip(uint32_t bits) {
        const uint32_t after = position + bits;
        words.advance(position, after, word0, word1);
        position = after;
    }
    // Returns the position in bits, counted from the first word.
    __device__ inline uint32_t end() const { return (words.number() - 2) * 32 + position % 32; }
};

// Types of table entries.
template <bool PAIRED> struct Entries {
    typedef Single Entry;
};
template <> struct Entries<true> {
    typedef uint32_t Entry;
};

// Returns an entry in shared memory. Functions that are not inlined would not know the address space, and this takes
// one instruction less than the compiler's code.
__device__ inline uint32_t shared_entry(uint32_t table, uint32_t i, uint32_t) {
    uint32_t entry;
    asm volatile("{\n .reg .u32 address;\n mad.lo.u32 address, %2, 4, %1;\n ld.shared.u32 %0, [address];\n}"
                 : "=r"(entry)
                 : "r"(table), "r"(i));
    return entry;
}
__device__ inline uint32_t shared_entry(uint32_t table, uint32_t i, uint16_t) {
    uint32_t entry;
    asm volatile("{\n"
                 " .reg .u16 half;\n"
                 " .reg .u32 address;\n"
                 " mad.lo.u32 address, %2, 2, %1;\n"
                 " ld.shared.u16 half, [address];\n"
                 " cvt.u32.u16 %0, half;\n"
                 "}"
                 : "=r"(entry)
                 : "r"(table), "r"(i));
    return entry;
}

template <bool PAIRED> struct Lookup {
    typedef typename Entries<PAIRED>::Entry Entry;
    uint32_t table, long_table; // addresses
    uint32_t shift;             // right shift of a window that leaves the bits to look up
    uint32_t long_start, long_entries;
    const CodebookDescriptor *book;
    const uint16_t *symbols;

    // Returns the bytes of a codebook's tables.
    static __device__ inline uint32_t bytes(uint32_t entries_for_long) {
        return TABLE * sizeof(Entry) + entries_for_long * sizeof(Single);
    }

    __device__ inline Lookup(uint32_t tables, uint32_t entries_for_long, const CodebookDescriptor *code,
                             const uint16_t *all_symbols)
        : table(tables), long_table(tables + TABLE * sizeof(Entry)), shift(32 - TABLE_BITS),
          long_start(code->limit[TABLE_BITS]), long_entries(entries_for_long), book(code), symbols(all_symbols) {}

    // Makes every window find the entry at `idle`, for lanes that have nothing to decode but take part in the loop.
    __device__ inline void rest(uint32_t idle) {
        table = idle;
        shift = 32;
    }
    // Returns that entry: one or two symbols with codewords of no bits.
    static __device__ inline uint32_t idle_entry(uint32_t symbol) {
        return PAIRED ? symbol * 0x10001u : symbol << SYMBOL_AT;
    }

    __device__ inline uint32_t entry(uint32_t window) const {
        return shared_entry(table, __funnelshift_rc(window, 0, shift), Entry());
    }

    // Returns the first codeword of an entry as a single one; 0 if it is too long for any table.
    __device__ inline uint32_t first(uint32_t entry, uint32_t window) const {
        if (PAIRED) {
            const uint32_t length = entry >> 10 & 15;
            entry = length == 0 ? 0 : length | (entry & 0x3FF) << SYMBOL_AT;
        }
        if (entry == 0) {
            const uint32_t i = (window - long_start) >> (32 - LONG_BITS);
            entry = i < long_entries ? shared_entry(long_table, i, Single()) : 0;
        }
        return entry;
    }

    __device__ inline uint32_t one(BitReader &from) const {
        const uint32_t window = from.window();
        const uint32_t found = first(entry(window), window);
        const Codeword next = found == 0 ? find_codeword(*book, symbols, window, TABLE_BITS + 1)
                                         : Codeword{found >> SYMBOL_AT, found & 31};
        from.skip(next.length);
        return next.symbol;
    }

    // Returns two symbols with an entry each. The lowest six bits of `bits` become the number of bits to skip.
    __device__ inline uint32_t apart(uint32_t window, uint32_t first_entry, BitReader &from, uint32_t &bits) const {
        // One window contains two codewords of LONG_BITS bits. Shifts use the low five bits of an entry, its length.
        const uint32_t next = first(first_entry, window);
        const uint32_t rest = __funnelshift_l(0, window, next);
        const uint32_t other = first(entry(rest), rest);
        bits = next + other;
        uint32_t pair = pair_of(next, other);
        if (next == 0 || other == 0) {
            bits = 0;
            pair = one(from);
            pair |= one(from) << 16;
        }
        return pair;
    }

    // Returns the next two symbols, the first one in the low half.
    __device__ inline uint32_t two(BitReader &from) const {
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
            // A codeword without an entry has length 0; the lookup after it then has no effect.
            const uint32_t rest = __funnelshift_l(0, window, here);
            const uint32_t other = entry(rest);
            bits = here + other;
            pair = pair_of(here, other);
            if (min_of(here, other) == 0) {
                pair = apart(window, here, from, bits);
            }
        }
        from.skip(bits);
        return pair;
    }
};

// Returns the share of lookups that give two symbols, for the codebook with the smallest share: a codeword of n bits
// has the probability 2^-n. Called by a warp; eight lanes process one codebook.
__device__ inline float paired_share(const CodebookDescriptor *books, uint32_t count) {
    constexpr uint32_t LANES = WARP / 4;
    const uint32_t number = lane_id() / LANES;
    const CodebookDescriptor &book = books[min_of(number, count - 1)];
    float share = 0;
    for (uint32_t length = 1 + lane_id() % LANES; length < TABLE_BITS; length += LANES) {
        share += float(book.limit[length] - book.limit[length - 1]) * float(book.limit[TABLE_BITS - length]) * 0x1p-64f;
    }
    for (uint32_t distance = 1; distance < LANES; distance *= 2) {
        share += __shfl_xor_sync(ALL_LANES, share, distance);
    }
    share = book.longest == 0 ? 1 : share;
    for (uint32_t distance = LANES; distance < WARP; distance *= 2) {
        share = min_of(share, __shfl_xor_sync(ALL_LANES, share, distance));
    }
    return share;
}

// The symbols of a stream's codebooks: in shared memory, MOST_SYMBOLS apart, if no codebook has more than that; else in
// device memory.
struct BookSymbols {
    const uint16_t *all;
    const uint16_t *near;

    __device__ inline const uint16_t *of(const CodebookDescriptor &book, uint32_t number) const {
        return WIDE ? all + book.symbols : near + number * MOST_SYMBOLS;
    }
};

// Builds the tables of single codewords of codebooks `first` to `end - 1`, with `stride` entries from one table to the
// next. Called by the whole block.
__device__ inline void make_singles(Single *to, uint32_t stride, const CodebookDescriptor *books, uint32_t first,
                                    uint32_t end, const BookSymbols &symbols) {
    constexpr uint32_t UNITS = TABLE / AT_ONCE;
    for (uint32_t i = threadIdx.x; i < (end - first) * UNITS; i += THREADS) {
        const uint32_t number = first + i / UNITS, entry = i % UNITS * AT_ONCE;
        const CodebookDescriptor &book = books[number];
        if (book.longest != 0) {
            make_short_entries(to + i / UNITS * stride + entry, book, symbols.of(book, number), entry);
        }
    }
}

// Builds the entries for long codewords, with `stride` bytes from one table to the next. Called by the whole block.
__device__ inline void make_long(uint8_t *to, uint32_t stride, uint32_t entries, const CodebookDescriptor *books,
                                 uint32_t count, const BookSymbols &symbols) {
    const uint32_t units = entries / AT_ONCE;
    for (uint32_t i = threadIdx.x; i < count * units; i += THREADS) {
        const uint32_t number = i / units, first = (i - number * units) * AT_ONCE;
        const CodebookDescriptor &book = books[number];
        make_long_entries(reinterpret_cast<Single *>(to + number * stride) + first, book, symbols.of(book, number),
                          first);
    }
}

// Returns an entry for pairs, computed from single ones.
__device__ inline uint32_t paired_entry(const Single *singles, uint32_t i) {
    const uint32_t one = singles[i], length = one & 63;
    if (one == 0) {
        return ONLY_ONE;
    }
    // A codeword that ends within the known bits does not depend on the zeros after them.
    const uint32_t other = singles[i << length & (TABLE - 1)], both = length + (other & 63);
    const uint32_t first = one >> SYMBOL_AT | length << 10;
    return other != 0 && both <= TABLE_BITS ? first | other >> SYMBOL_AT << 16 | both << 28
                                            : first | ONLY_ONE | length << 28;
}
