// Decoding for speed: table entries that are added to a position as they are, and two lookups to a window of 32 bits.
//
// TABLE_SKEW   0, or log2 of the entries of a table of single symbols after which a word is left out
#pragma once
#include "huffman/decode/book.cuh"

#ifndef TABLE_SKEW
#define TABLE_SKEW 0
#endif
// Where an entry is. Lanes hit banks by the last bits of their windows, where mostly a codeword starts; and codewords
// start alike: in dense parts of a field with ones. Words left out mix in bits that come before. Growing, so that the
// greater of two numbers has the greater place.
__device__ inline constexpr uint32_t table_slot(uint32_t entry) {
    return TABLE_SKEW == 0 ? entry : entry + (entry >> TABLE_SKEW);
}
// Words of a table of so many entries.
__device__ inline constexpr uint32_t table_words(uint32_t entries) { return (table_slot(entries) + 3) / 4 * 4; }

// Entries of one symbol: bits 0-5 the length, from bit 16 up the symbol. Entries of two, made use of with PAIRS: bits
// 0-5 the length of both, 16-20 of the first, 6-15 and 22-31 the symbols minus the base; those with one symbol have
// ALONE. So the low six bits of a sum of entries are that of their lengths: enough for where in its word a position is,
// and whether it is in the next.
constexpr uint32_t LENGTH_MASK = 63, PAIRED_BITS = 10, PAIRED_MASK = (1u << PAIRED_BITS) - 1;
// No codeword ends within the lookup.
constexpr uint32_t LONGER = 1u << 14;
constexpr uint32_t ALONE = 1u << 21; // of an entry of symbols: there is no second

// Entries of runs, where the commonest symbol's codeword is one bit, a zero: bits 0-5 the bits that are taken, 8-15 how
// many symbols those are, or their bytes, from bit 16 up the last of them. All before that are the commonest, and the
// last is too where the codeword after them does not fit. No symbols: a codeword longer than an entry knows.
constexpr uint32_t BYTES_OF_ONE = SYMBOL_BYTES << 8;
__device__ inline uint32_t run_length(uint32_t entry) { return entry & LENGTH_MASK; }
__device__ inline uint32_t run_extent(uint32_t entry) { return __byte_perm(entry, 0, 0x4441); }

// The entry of a window that starts with so many zeros, each of which is `one`, from that of what is behind them, 0 if
// that is not known.
__device__ inline uint32_t run_entry(uint32_t zeros, uint32_t one, uint32_t behind, uint32_t common) {
    const uint32_t length = run_length(behind);
    return zeros + zeros * one + (length != 0 && zeros + length <= TABLE_BITS ? behind : common << 16);
}

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

// Which entry of a table of single symbols a window has. Codewords longer than TABLE_BITS are the last in canonical
// order, so that a table has an entry for each TABLE_BITS bits up to the first of them, and from there on for each
// LONG_BITS, or as many as there is room for. The greater of the two numbers is the right one, whichever part a window
// belongs to: lanes with short and with long codewords do the same.
struct Steps {
    uint32_t first; // entries for TABLE_BITS bits
    uint32_t shift; // 32 minus the bits that the others are for

    // Of a table with room for so many entries, TABLE at least.
    __device__ inline Steps(const Book &book, uint32_t room)
        : first(book.limit[TABLE_BITS] >> (32 - TABLE_BITS)), shift(32 - LONG_BITS) {
        while (shift < 32 - TABLE_BITS && entries() > room) {
            ++shift;
        }
    }
    __device__ inline uint32_t entries() const { return first + ((TABLE - first) << (32 - TABLE_BITS - shift)); }
    __device__ inline int32_t offset() const { return int32_t(first) - int32_t(first << (32 - TABLE_BITS - shift)); }
    // What an entry's window starts with, and how many of its bits are known.
    __device__ inline uint32_t window(uint32_t entry) const {
        return entry < first ? entry << (32 - TABLE_BITS) : uint32_t(int32_t(entry) - offset()) << shift;
    }
    __device__ inline uint32_t known(uint32_t entry) const { return entry < first ? TABLE_BITS : 32 - shift; }
};

// The codeword that a window starts with, longer than TABLE_BITS bits, as an entry of one symbol; `at` is the address
// of a BookWithLast in shared memory, or of a Book if LAST_SYMBOLS is 0. What `canonical` finds, without a loop and
// mostly without a read from memory: a lane's search holds up its whole warp, and uneven fields have index blocks where
// some lane searches for nearly every symbol.
__device__ __noinline__ uint32_t far_codeword(uint32_t at, const uint16_t *symbols, uint32_t window) {
    const BookWithLast &own = *static_cast<const BookWithLast *>(__cvta_shared_to_generic(at));
    const Book &book = own.book;
    uint32_t length = TABLE_BITS + 1;
    // Limits do not fall with the length, so that all can be compared at once.
#pragma unroll
    for (uint32_t i = TABLE_BITS + 1; i < LONGEST; ++i) {
        length += i < book.longest && window >= book.limit[i];
    }
    if (book.symbol_count == 0) {
        return 1;
    }
    const uint32_t place = min_of((window >> (32 - length)) + book.offset[length], book.symbol_count - 1);
#if LAST_SYMBOLS
    if (place >= own.last.first) {
        return length | uint32_t(own.last.symbols[place - own.last.first]) << 16;
    }
#endif
    return length | uint32_t(symbols[book.symbols + place]) << 16;
}

// What a thread decodes with: a codebook's table in shared memory.
struct Lookup {
    const uint32_t *table;
    const Book *book;
    const uint16_t *symbols;
    uint32_t base, long_start, long_entries, shift;
    int32_t offset;
    bool paired;   // of two symbols; else PAIRS does not matter
    bool complete; // all codewords have an entry; if not `paired`

    __device__ inline Lookup(const uint32_t *tables, const Book *code, const uint16_t *all_symbols,
                             uint32_t entries_for_long, bool in_pairs)
        : table(tables), book(code), symbols(all_symbols), base(code->base * 0x10001u),
          long_start(code->limit[TABLE_BITS]), long_entries(entries_for_long), paired(in_pairs) {
        const Steps steps(*code, TABLE + entries_for_long);
        shift = steps.shift;
        offset = steps.offset();
        complete = code->longest <= min_of(32 - steps.shift, LONG_BITS);
    }

    // Codewords beyond the table are searched for, which must stay rare.
    __device__ inline uint32_t far(uint32_t window) const {
        return far_codeword(shared_address(book), symbols, window);
    }

    __device__ inline uint32_t lookup(uint32_t window) const {
        return table[table_slot(max_of(int32_t(window >> (32 - TABLE_BITS)), int32_t(window >> shift) + offset))];
    }

    __device__ inline uint32_t pair_of(uint32_t window) const { return table[window >> (32 - TABLE_BITS)]; }

    // The entry of a window's first codeword alone, from one of two symbols.
    __device__ inline uint32_t first_of(uint32_t entry, uint32_t window) const {
        if (entry & LENGTH_MASK) {
            const uint32_t symbol = (entry >> 6 & PAIRED_MASK) + (base & 0xFFFF);
            return (entry & ALONE ? entry & LENGTH_MASK : entry >> 16 & 31) | symbol << 16;
        }
        const uint32_t i = (window - long_start) >> (32 - LONG_BITS);
        entry = i < long_entries ? table[TABLE + i] : 0;
        return entry == 0 ? far(window) : entry;
    }

    // The next symbol.
    template <typename Words> __device__ inline uint32_t one(Bits<Words> &from) const {
        const uint32_t window = from.window();
        uint32_t entry;
#if PAIRS
        if (paired) {
            entry = first_of(pair_of(window), window);
        } else
#endif
        {
            entry = lookup(window);
            if (entry & LONGER) {
                entry = far(window);
            }
        }
        from.skip(entry & LENGTH_MASK);
        return entry >> 16;
    }

    // The next two, the first in the low half; one after the other.
    template <typename Words> __device__ inline uint32_t two_apart(Bits<Words> &from) const {
        const uint32_t low = one(from);
        return low | one(from) << 16;
    }

    // The next four symbols. If `CHECKED` is false, there is no need to ask whether entries are there.
    template <bool CHECKED, typename Words> __device__ inline uint2 four(Bits<Words> &from) const {
        uint32_t window = from.window();
        // Shifts are by the low five bits of entries.
#if PAIRS
        if (paired) {
            constexpr uint32_t BOTH = PAIRED_MASK * 0x10001u;
            const uint32_t one = pair_of(window), other = pair_of(__funnelshift_l(0, window, one));
            if ((one | other) & ALONE) {
                const uint32_t low = two_apart(from);
                return make_uint2(low, two_apart(from));
            }
            from.skip(one + other);
            return make_uint2((one >> 6 & BOTH) + base, (other >> 6 & BOTH) + base);
        }
#endif
        uint32_t first = lookup(window);
        const uint32_t second = lookup(__funnelshift_l(0, window, first));
        const uint32_t low = two<CHECKED>(first, second, from);
        window = from.window();
        first = lookup(window);
        return make_uint2(low, two<CHECKED>(first, lookup(__funnelshift_l(0, window, first)), from));
    }

    template <typename Words> __device__ inline uint2 four(Bits<Words> &from) const {
        return complete ? four<false>(from) : four<true>(from);
    }

    template <bool CHECKED, typename Words> __device__ inline uint4 unit_of(Bits<Words> &from) const {
        uint32_t words[4];
#pragma unroll
        for (uint32_t i = 0; i < 4; i += SYMBOL_BYTES) {
            const uint2 symbols = four<CHECKED>(from);
#if SYMBOL_BYTES == 1
            words[i] = __byte_perm(symbols.x, symbols.y, 0x6420);
#else
            words[i] = symbols.x;
            words[i + 1] = symbols.y;
#endif
        }
        return make_uint4(words[0], words[1], words[2], words[3]);
    }

    // The next 16 bytes of symbols.
    template <typename Words> __device__ inline uint4 unit(Bits<Words> &from) const {
        return complete ? unit_of<false>(from) : unit_of<true>(from);
    }

    // Two symbols with an entry each.
    template <bool CHECKED, typename Words>
    __device__ inline uint32_t two(uint32_t first, uint32_t second, Bits<Words> &from) const {
        if (CHECKED && ((first | second) & LONGER) != 0) {
            return two_apart(from);
        }
        from.skip(first + second);
        return __byte_perm(first, second, 0x7632);
    }
};
static_assert(2 * LONG_BITS <= 32, "two codewords to a window");

// Fills `count` entries of a table, skewed or not, from as many, each by itself; by the whole block. Four at a time: a
// block that has little to decode waits for these reads.
template <bool SKEWED, typename Each>
__device__ inline void load_each(uint32_t *to, const uint32_t *from, uint32_t count, Each each) {
    for (uint32_t i = threadIdx.x; i < ceil_div(count, 4); i += blockDim.x) {
        const uint4 four = reinterpret_cast<const uint4 *>(from)[i];
        const uint4 own = make_uint4(each(four.x), each(four.y), each(four.z), each(four.w));
        if (!SKEWED && i < count / 4) {
            reinterpret_cast<uint4 *>(to)[i] = own;
        } else {
            const uint32_t words[4] = {own.x, own.y, own.z, own.w};
#pragma unroll
            for (uint32_t j = 0; j < 4; ++j) {
                if (i * 4 + j < count) {
                    to[SKEWED ? table_slot(i * 4 + j) : i * 4 + j] = words[j];
                }
            }
        }
    }
}

// Fills a table of one-symbol entries from a codebook's of BOOK_WORDS words: by the whole block, to be followed by a
// barrier.
__device__ inline void load_alone(uint32_t *to, const uint32_t *from, uint32_t room, const Book &book,
                                  const uint16_t *symbols) {
    const Steps steps(book, room);
    load_each<TABLE_SKEW != 0>(to, from, steps.first, [&](uint32_t entry) {
        const uint32_t alone = single(entry, book.base, book.mask);
        return alone == 0 ? LONGER : alone;
    });
    for (uint32_t i = steps.first + threadIdx.x; i < steps.entries(); i += blockDim.x) {
        const uint32_t window = steps.window(i), place = (window - book.limit[TABLE_BITS]) >> (32 - LONG_BITS);
        // Limits saturate, so that of a code without long codewords the last window is here too.
        uint32_t found = single(from[window >> (32 - TABLE_BITS)], book.base, book.mask);
        if (found == 0 && place < LONG_ENTRIES) {
            found = from[TABLE + place];
        } else if (found == 0) {
            const Codeword one = canonical(book, symbols, window, TABLE_BITS + 1);
            found = one.length | one.symbol << 16;
        }
        to[table_slot(i)] = found == 0 || (found & 31) > steps.known(i) ? LONGER : found;
    }
}

// The same of entries of two symbols, the others as they are. Whether this thread has found symbols too far apart for
// that: then the table is worthless.
__device__ inline bool load_paired(uint32_t *to, const uint32_t *from, uint32_t room, const Book &book) {
    bool apart = book.mask != 0xFFF;
    load_words(to + TABLE, from + TABLE, room - TABLE);
    load_each<false>(to, from, TABLE, [&](uint32_t entry) {
        const uint32_t first = entry >> 8 & 0xFFF, second = entry >> 20;
        apart = apart || max_of(first, second) > PAIRED_MASK;
        return has_two(entry) ? length_of_all(entry) | first << 6 | length_of_first(entry) << 16 | second << 22
                              : length_of_first(entry) | first << 6 | ALONE;
    });
    return apart;
}

// Fills the tables of `count` codebooks, with room for TABLE_ENTRIES each, one behind the other, as fits all of them;
// whether with entries of two symbols. By the whole block, with a barrier after it.
template <uint32_t TABLE_ENTRIES>
__device__ inline bool load_lookups(uint32_t *to, const uint32_t *from, const uint16_t *symbols, const Book *books,
                                    uint32_t count) {
#if PAIRS
    bool apart = false;
    for (uint32_t i = 0; i < count; ++i) {
        if (!books[i].absent) {
            apart = load_paired(to + i * table_words(TABLE_ENTRIES), from + uint64_t(i) * BOOK_WORDS, TABLE_ENTRIES,
                                books[i]) ||
                    apart;
        }
    }
    if (!__syncthreads_or(apart)) {
        return true;
    }
#endif
    for (uint32_t i = 0; i < count; ++i) {
        if (!books[i].absent) {
            load_alone(to + i * table_words(TABLE_ENTRIES), from + uint64_t(i) * BOOK_WORDS, TABLE_ENTRIES, books[i],
                       symbols);
        }
    }
    __syncthreads();
    return false;
}
