// Table lookups for fast decoding: entries are added to the position without unpacking, and a window of 32 bits is
// enough for two lookups.
//
// TABLE_SKEW             0, or log2 of the number of entries after which a table of single symbols skips a word
#pragma once
#include "huffman/decode/shared_codebook.cuh"

#ifndef TABLE_SKEW
#define TABLE_SKEW 0
#endif
// Returns the slot of an entry. The bank of an entry depends on the last bits of the window, which often start a
// codeword, and codewords start alike; skipping words mixes in earlier bits. Monotonic, so that the larger of two
// indices has the larger slot.
__device__ inline constexpr uint32_t table_slot(uint32_t entry) {
    return TABLE_SKEW == 0 ? entry : entry + (entry >> TABLE_SKEW);
}
// Returns the number of words of a table with this many entries.
__device__ inline constexpr uint32_t table_words(uint32_t entries) { return (table_slot(entries) + 3) / 4 * 4; }

// Entries with one symbol: bits 0-5 the length, from bit 16 up the symbol. Entries with two symbols, used with PAIRS:
// bits 0-5 the total length, 16-20 the length of the first, 6-15 and 22-31 the symbols minus the base; NO_SECOND is set
// if there is only one. The low six bits of a sum of entries are the sum of their lengths modulo 64, which is enough to
// track the position within a word and the step to the next one.
constexpr uint32_t LENGTH_MASK = 63, PAIRED_BITS = 10, PAIRED_MASK = (1u << PAIRED_BITS) - 1;
// No codeword ends within the lookup.
constexpr uint32_t LONGER = 1u << 14;
constexpr uint32_t NO_SECOND = 1u << 21; // flag of entries with two symbols: there is no second one

// Entries of runs, used if the codeword of the most frequent symbol is a single zero bit: bits 0-5 the number of bits
// taken, 8-15 the number of symbols (or of their bytes), from bit 16 up the last symbol. All symbols before the last
// are the most frequent one; so is the last if the codeword after the zeros does not fit. No symbols: the codeword is
// longer than the lookup.
constexpr uint32_t BYTES_OF_ONE = SYMBOL_BYTES << 8;
__device__ inline uint32_t run_length(uint32_t entry) { return entry & LENGTH_MASK; }
__device__ inline uint32_t run_extent(uint32_t entry) { return __byte_perm(entry, 0, 0x4441); }

// Returns the entry of a window that starts with `zeros` zeros, each of which adds `one`, from the entry of the bits
// after them, which is 0 if unknown.
__device__ inline uint32_t run_entry(uint32_t zeros, uint32_t one, uint32_t behind, uint32_t common) {
    const uint32_t length = run_length(behind);
    return zeros + zeros * one + (length != 0 && zeros + length <= TABLE_BITS ? behind : common << 16);
}

// A window of 32 bits over words that are read in order. `Words::advance(crosses, word0, word1)` shifts in the next
// word if `crosses` is not 0.
template <typename Words> struct BitWindow {
    Words words;
    uint32_t word0, word1;
    uint32_t position; // modulo 64

    __device__ inline uint32_t window() const { return __funnelshift_l(word1, word0, position); }

    // Skips the number of bits given by the low six bits of `entry`, at most 32.
    __device__ inline void skip(uint32_t entry) {
        const uint32_t after = position + entry;
        words.advance((position ^ after) & 32, word0, word1);
        position = after;
    }
};

// Layout of a table of single symbols. Codewords longer than TABLE_BITS are the last in canonical order, so the table
// has one entry for each value of TABLE_BITS bits up to the first of them, and from there on one for each value of
// LONG_BITS bits, or of as many bits as fit. The larger of the two indices is always the right one, so lanes with short
// and with long codewords do not diverge.
struct TableLayout {
    uint32_t first; // number of entries for TABLE_BITS bits
    uint32_t shift; // 32 minus the number of bits of the other entries

    // The layout of a table with room for `room` entries, at least TABLE.
    __device__ inline TableLayout(const CodebookDescriptor &codebook, uint32_t room)
        : first(codebook.limit[TABLE_BITS] >> (32 - TABLE_BITS)), shift(32 - LONG_BITS) {
        while (shift < 32 - TABLE_BITS && entries() > room) {
            ++shift;
        }
    }
    __device__ inline uint32_t entries() const { return first + ((TABLE - first) << (32 - TABLE_BITS - shift)); }
    __device__ inline int32_t offset() const { return int32_t(first) - int32_t(first << (32 - TABLE_BITS - shift)); }
    // The window that an entry represents, and the number of its bits that are known.
    __device__ inline uint32_t window(uint32_t entry) const {
        return entry < first ? entry << (32 - TABLE_BITS) : uint32_t(int32_t(entry) - offset()) << shift;
    }
    __device__ inline uint32_t known(uint32_t entry) const { return entry < first ? TABLE_BITS : 32 - shift; }
};

// Returns the codeword at the start of a window, which is longer than TABLE_BITS bits, as an entry with one symbol.
// `at` is the address in shared memory of a CodebookWithLast, or of a CodebookDescriptor if LAST_SYMBOLS is 0. As
// `find_codeword`, but without a loop and mostly without a read from device memory, because one lane's search holds up
// its warp.
__device__ __noinline__ uint32_t search_codeword(uint32_t at, const uint16_t *symbols, uint32_t window) {
    const CodebookWithLast &own = *static_cast<const CodebookWithLast *>(__cvta_shared_to_generic(at));
    const CodebookDescriptor &codebook = own.codebook;
    uint32_t length = TABLE_BITS + 1;
    // Limits do not decrease with the length, so all of them can be compared independently.
#pragma unroll
    for (uint32_t i = TABLE_BITS + 1; i < LONGEST; ++i) {
        length += i < codebook.longest && window >= codebook.limit[i];
    }
    if (codebook.symbol_count == 0) {
        return 1;
    }
    const uint32_t rank = min_of((window >> (32 - length)) + codebook.offset[length], codebook.symbol_count - 1);
#if LAST_SYMBOLS
    if (rank >= own.last.first) {
        return length | uint32_t(own.last.symbols[rank - own.last.first]) << 16;
    }
#endif
    return length | uint32_t(symbols[codebook.symbols + rank]) << 16;
}

// Decoding tables of one thread: a codebook's table in shared memory.
struct Lookup {
    const uint32_t *table;
    const CodebookDescriptor *codebook;
    const uint16_t *symbols;
    uint32_t base, long_start, long_entries, shift;
    int32_t offset;
    bool paired;   // whether entries have two symbols (with PAIRS)
    bool complete; // whether all codewords have an entry, unless `paired`

    __device__ inline Lookup(const uint32_t *tables, const CodebookDescriptor *code, const uint16_t *all_symbols,
                             uint32_t entries_for_long, bool in_pairs)
        : table(tables), codebook(code), symbols(all_symbols), base(code->base * 0x10001u),
          long_start(code->limit[TABLE_BITS]), long_entries(entries_for_long), paired(in_pairs) {
        const TableLayout layout(*code, TABLE + entries_for_long);
        shift = layout.shift;
        offset = layout.offset();
        complete = code->longest <= min_of(32 - layout.shift, LONG_BITS);
    }

    // Returns the entry of a codeword that is not in the table. Must stay rare.
    __device__ inline uint32_t search(uint32_t window) const {
        return search_codeword(shared_address(codebook), symbols, window);
    }

    __device__ inline uint32_t lookup(uint32_t window) const {
        return table[table_slot(max_of(int32_t(window >> (32 - TABLE_BITS)), int32_t(window >> shift) + offset))];
    }

    __device__ inline uint32_t paired_entry(uint32_t window) const { return table[window >> (32 - TABLE_BITS)]; }

    // Returns the entry of the window's first codeword, from an entry with two symbols.
    __device__ inline uint32_t first_entry(uint32_t entry, uint32_t window) const {
        if (entry & LENGTH_MASK) {
            const uint32_t symbol = (entry >> 6 & PAIRED_MASK) + (base & 0xFFFF);
            return (entry & NO_SECOND ? entry & LENGTH_MASK : entry >> 16 & 31) | symbol << 16;
        }
        const uint32_t i = (window - long_start) >> (32 - LONG_BITS);
        entry = i < long_entries ? table[TABLE + i] : 0;
        return entry == 0 ? search(window) : entry;
    }

    // Returns the next symbol.
    template <typename Words> __device__ inline uint32_t one(BitWindow<Words> &from) const {
        const uint32_t window = from.window();
        uint32_t entry;
#if PAIRS
        if (paired) {
            entry = first_entry(paired_entry(window), window);
        } else
#endif
        {
            entry = lookup(window);
            if (entry & LONGER) {
                entry = search(window);
            }
        }
        from.skip(entry & LENGTH_MASK);
        return entry >> 16;
    }

    // Returns the next two symbols, the first in the low half, decoded one after the other.
    template <typename Words> __device__ inline uint32_t two_separately(BitWindow<Words> &from) const {
        const uint32_t low = one(from);
        return low | one(from) << 16;
    }

    // Returns the next four symbols. With `CHECKED` false, all codewords must have an entry.
    template <bool CHECKED, typename Words> __device__ inline uint2 four(BitWindow<Words> &from) const {
        uint32_t window = from.window();
        // Shifts use the low five bits of entries.
#if PAIRS
        if (paired) {
            constexpr uint32_t BOTH = PAIRED_MASK * 0x10001u;
            const uint32_t one = paired_entry(window), other = paired_entry(__funnelshift_l(0, window, one));
            if ((one | other) & NO_SECOND) {
                const uint32_t low = two_separately(from);
                return make_uint2(low, two_separately(from));
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

    template <typename Words> __device__ inline uint2 four(BitWindow<Words> &from) const {
        return complete ? four<false>(from) : four<true>(from);
    }

    template <bool CHECKED, typename Words> __device__ inline uint4 decode_unit(BitWindow<Words> &from) const {
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

    // Returns the next 16 bytes of symbols.
    template <typename Words> __device__ inline uint4 unit(BitWindow<Words> &from) const {
        return complete ? decode_unit<false>(from) : decode_unit<true>(from);
    }

    // Returns two symbols that have an entry each.
    template <bool CHECKED, typename Words>
    __device__ inline uint32_t two(uint32_t first, uint32_t second, BitWindow<Words> &from) const {
        if (CHECKED && ((first | second) & LONGER) != 0) {
            return two_separately(from);
        }
        from.skip(first + second);
        return __byte_perm(first, second, 0x7632);
    }
};
static_assert(2 * LONG_BITS <= 32, "two codewords to a window");

// Fills `count` entries of a table, skewed or not, with `each(from[i])`. Called by the whole block. Reads four entries
// at a time.
template <bool SKEWED, typename Each>
__device__ inline void load_entries(uint32_t *to, const uint32_t *from, uint32_t count, Each each) {
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

// Fills a table of single symbols from the CODEBOOK_WORDS words of a codebook. Called by the whole block, which must
// synchronize afterwards.
__device__ inline void load_single_table(uint32_t *to, const uint32_t *from, uint32_t room,
                                         const CodebookDescriptor &codebook, const uint16_t *symbols) {
    const TableLayout layout(codebook, room);
    load_entries<TABLE_SKEW != 0>(to, from, layout.first, [&](uint32_t entry) {
        const uint32_t alone = single(entry, codebook.base, codebook.mask);
        return alone == 0 ? LONGER : alone;
    });
    for (uint32_t i = layout.first + threadIdx.x; i < layout.entries(); i += blockDim.x) {
        const uint32_t window = layout.window(i), slot = (window - codebook.limit[TABLE_BITS]) >> (32 - LONG_BITS);
        // Limits saturate, so this includes the last window of a code without long codewords.
        uint32_t found = single(from[window >> (32 - TABLE_BITS)], codebook.base, codebook.mask);
        if (found == 0 && slot < LONG_ENTRIES) {
            found = from[TABLE + slot];
        } else if (found == 0) {
            const Codeword one = find_codeword(codebook, symbols, window, TABLE_BITS + 1);
            found = one.length | one.symbol << 16;
        }
        to[table_slot(i)] = found == 0 || (found & 31) > layout.known(i) ? LONGER : found;
    }
}

// Fills a table of entries with two symbols. Returns whether this thread has found two symbols too far apart for such
// an entry, which makes the table unusable.
__device__ inline bool load_paired_table(uint32_t *to, const uint32_t *from, uint32_t room,
                                         const CodebookDescriptor &codebook) {
    bool apart = codebook.mask != 0xFFF;
    load_words(to + TABLE, from + TABLE, room - TABLE);
    load_entries<false>(to, from, TABLE, [&](uint32_t entry) {
        const uint32_t first = entry >> 8 & 0xFFF, second = entry >> 20;
        apart = apart || max_of(first, second) > PAIRED_MASK;
        return has_two(entry) ? length_of_all(entry) | first << 6 | length_of_first(entry) << 16 | second << 22
                              : length_of_first(entry) | first << 6 | NO_SECOND;
    });
    return apart;
}

// Fills the tables of `count` codebooks, each with room for TABLE_ENTRIES entries, all with entries of two symbols or
// all with single ones. Returns whether they have two. Called by the whole block; ends with a barrier.
template <uint32_t TABLE_ENTRIES>
__device__ inline bool load_stream_tables(uint32_t *to, const uint32_t *from, const uint16_t *symbols,
                                          const CodebookDescriptor *codebooks, uint32_t count) {
#if PAIRS
    bool apart = false;
    for (uint32_t i = 0; i < count; ++i) {
        if (!codebooks[i].absent) {
            apart = load_paired_table(to + i * table_words(TABLE_ENTRIES), from + uint64_t(i) * CODEBOOK_WORDS,
                                      TABLE_ENTRIES, codebooks[i]) ||
                    apart;
        }
    }
    if (!__syncthreads_or(apart)) {
        return true;
    }
#endif
    for (uint32_t i = 0; i < count; ++i) {
        if (!codebooks[i].absent) {
            load_single_table(to + i * table_words(TABLE_ENTRIES), from + uint64_t(i) * CODEBOOK_WORDS, TABLE_ENTRIES,
                              codebooks[i], symbols);
        }
    }
    __syncthreads();
    return false;
}
