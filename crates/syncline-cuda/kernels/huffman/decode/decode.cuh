// Definitions shared by the Huffman decoders: descriptors, tables, a bit reader and checksums.
//
// SYMBOL_BYTES           bytes per symbol, 1 or 2
// GROUP_LOG2             log2 of the symbols per group, 6 or 7
// TABLE_BITS             bits of a table lookup, at most 12
// LONGEST                maximum length of a codeword in bits
// PAIRS                  whether table entries with two symbols are used, which pays off for short codewords only,
//                        because lanes that get one symbol hold up those that get two
#pragma once
#include "device/sync.cuh"
#include "device/warp.cuh"
#include "huffman/decode/structs.cuh"
#include "format/constants.cuh"

// As launch_dependents_and_wait, but the next kernel starts only when the kernels before this one have finished, so it
// may read their results before it waits itself.
__device__ inline void wait_and_launch_dependents() {
    grid_dependency_wait();
    launch_dependents();
}

constexpr uint32_t GROUP = 1u << GROUP_LOG2;
constexpr uint32_t TABLE = 1u << TABLE_BITS;
constexpr uint32_t LENGTHS = LONGEST + 1;
using format::SUBSEQUENCE_BITS;
// Symbols per 16-byte unit.
constexpr uint32_t SYMBOLS_IN_UNIT = 16 / SYMBOL_BYTES;
static_assert(TABLE_BITS <= 12 && LONGEST <= 20,
              "fields of table entries; two windows of 32 bits hold what a step consumes");

// Bits of a stream's status word.
constexpr uint32_t STATUS_CHECKSUM = 1, STATUS_COUNT = 2, STATUS_INDEX = 4, STATUS_CLASS = 8;

// Entries of a codebook in the array of tables: one for each value of the next TABLE_BITS bits, then those of long
// codewords.
constexpr uint32_t LONG_ENTRIES = 2048;
constexpr uint32_t CODEBOOK_WORDS = TABLE + LONG_ENTRIES;
// Longest codewords that have a table entry.
constexpr uint32_t LONG_BITS = 16;

// Table entries with PAIRS. Two symbols, if both codewords fit: bits 0-3 the total length, 4-7 the length of the first,
// 8-19 and 20-31 the symbols minus the base. One symbol: both lengths equal, the symbol from bit 8 up (12 bits, or 16
// if the mask is 0xFFFF, in which case no entry has two symbols). Codewords longer than the lookup: 0. Without PAIRS,
// and for long codewords: the length, and the symbol from bit 16 up; 0 if there is no entry.
__device__ inline uint32_t length_of_all(uint32_t entry) { return entry & 15; }
__device__ inline uint32_t length_of_first(uint32_t entry) { return entry >> 4 & 15; }
__device__ inline bool has_two(uint32_t entry) { return ((entry >> 4 ^ entry) & 15) != 0; }
// Converts an entry to one with the first symbol only.
__device__ inline uint32_t single(uint32_t entry, uint32_t base, uint32_t mask) {
    uint32_t length = length_of_first(entry);
    return length == 0 ? 0 : length | ((entry >> 8 & mask) + base) << 16;
}

// Entries of a codebook in the array of counting tables, two bytes each. COUNTS, indexed by the next COUNT_BITS bits:
// the number of bits taken by the codewords that end within them, and from bit COUNT_SHIFT up the number of these
// codewords; or COUNT_LONGER. ENDS, indexed by the next TABLE_BITS bits: bit e - 1 is set if a codeword ends after e
// bits.
constexpr uint32_t COUNT_BITS = 14, COUNT_SHIFT = 8, COUNT_LONGER = 1u << 14;
constexpr uint32_t COUNTS = 1u << COUNT_BITS, ENDS = TABLE;

struct Codeword {
    uint32_t symbol, length;
};

// Returns the codeword at the start of a window, which has at least `shortest` bits; for bits that are no codeword, the
// last symbol with the greatest length. Not inlined: it is rarely called, and inlined copies would displace the hot
// loop from the instruction cache.
__device__ __noinline__ Codeword find_codeword(const CodebookDescriptor &codebook, const uint16_t *symbols,
                                               uint32_t window, uint32_t shortest) {
    uint32_t length = shortest;
    while (length < codebook.longest && window >= codebook.limit[length]) {
        ++length;
    }
    uint32_t rank = (window >> (32 - length)) + codebook.offset[length];
    if (codebook.symbol_count == 0) {
        return {0, 1};
    }
    return {symbols[codebook.symbols + min_of(rank, codebook.symbol_count - 1)], length};
}

// Words in memory without padding.
struct WordArray {
    const uint32_t *words;
    __device__ inline uint32_t operator[](uint32_t i) const { return words[i]; }
};

// A window of 32 bits over words that are read in order. Positions after word `last` read that word again.
template <typename Words> struct WordReader {
    Words words;
    uint32_t last;
    uint32_t position;
    uint32_t word0, word1;

    __device__ inline WordReader(Words from, uint32_t last_word, uint32_t start)
        : words(from), last(last_word), position(start) {
        word0 = words[min_of(start >> 5, last)];
        word1 = words[min_of((start >> 5) + 1, last)];
    }

    __device__ inline uint32_t window() const { return __funnelshift_l(word1, word0, position); }

    // Skips at most 32 bits.
    __device__ inline void skip(uint32_t bits) {
        uint32_t after = position + bits;
        uint32_t next = min_of((after >> 5) + 1, last);
        if ((position ^ after) & 32) {
            word0 = word1;
            word1 = words[next];
        }
        position = after;
    }
};

// Decoding tables of one thread. Codewords longer than a lookup are the last in canonical order: the most frequent ones
// are found in one linear table of LONG_BITS bits from the first of them on, the others by searching. Searching must
// stay rare, since one lane's search holds up the whole warp.
struct Decoder {
    const uint32_t *table, *long_table;
    const CodebookDescriptor *codebook;
    const uint16_t *symbols;
    uint32_t base, mask, long_start, long_entries;

    __device__ inline Decoder(const uint32_t *tables, uint32_t entries_for_long, const CodebookDescriptor *code,
                              const uint16_t *all_symbols)
        : table(tables), long_table(tables + TABLE), codebook(code), symbols(all_symbols), base(code->base * 0x10001u),
          mask(code->mask), long_start(code->limit[TABLE_BITS]), long_entries(entries_for_long) {}

    __device__ inline uint32_t lookup(uint32_t window) const { return table[window >> (32 - TABLE_BITS)]; }

    // Returns the entry of a long codeword, or 0 if it has none.
    __device__ inline uint32_t long_entry(uint32_t window) const {
        uint32_t i = (window - long_start) >> (32 - LONG_BITS);
        return i < long_entries ? long_table[i] : 0;
    }

    // Returns the first codeword of an entry as an entry with one symbol, or 0 if it has none. `window` has at least
    // LONG_BITS bits.
    __device__ inline uint32_t first_of_most(uint32_t entry, uint32_t window) const {
#if PAIRS
        entry = single(entry, base & 0xFFFF, mask);
#endif
        return entry == 0 ? long_entry(window) : entry;
    }

    // Returns the first codeword of an entry. `window` has at least LONGEST bits.
    __device__ inline Codeword first(uint32_t entry, uint32_t window) const {
        uint32_t one = first_of_most(entry, window);
        return one == 0 ? find_codeword(*codebook, symbols, window, TABLE_BITS + 1) : Codeword{one >> 16, one & 31};
    }

    template <typename Source> __device__ inline uint32_t one(Source &from) const {
        uint32_t window = from.window();
        Codeword next = first(lookup(window), window);
        from.skip(next.length);
        return next.symbol;
    }

    // Returns the next two symbols, the first in the low half. `Source` is a WordReader.
    template <typename Source> __device__ inline uint32_t two(Source &from) const {
        const uint32_t window = from.window();
        const uint32_t entry = lookup(window);
#if PAIRS
        uint32_t bits = length_of_all(entry);
        uint32_t pair = (entry >> 8 & 0xFFF) + (entry >> 4 & 0xFFF0000) + base;
        if (!has_two(entry)) {
            pair = two_separately(window, entry, from, bits);
        }
#else
        uint32_t bits;
        const uint32_t pair = two_separately(window, entry, from, bits);
#endif
        from.skip(bits);
        return pair;
    }

    // Returns two symbols that have an entry each. Sets `bits` to the number of bits that the caller must skip.
    template <typename Source>
    __device__ inline uint32_t two_separately(uint32_t window, uint32_t entry, Source &from, uint32_t &bits) const {
        // One window is enough for two codewords of LONG_BITS bits. Shifts use the low five bits of an entry, its
        // length.
        const uint32_t next = first_of_most(entry, window);
        const uint32_t rest = __funnelshift_l(0, window, next);
        const uint32_t other = first_of_most(lookup(rest), rest);
        bits = next + other & 63;
        uint32_t pair = __byte_perm(next, other, 0x7632);
        if (next == 0 || other == 0) {
            bits = 0;
            pair = one(from);
            pair |= one(from) << 16;
        }
        return pair;
    }

    // Returns the next 4 bytes of symbols.
    template <typename Source> __device__ inline uint32_t word(Source &from) const {
        uint32_t pair = two(from);
#if SYMBOL_BYTES == 1
        pair = __byte_perm(pair, two(from), 0x6420);
#endif
        return pair;
    }
};
static_assert(2 * LONG_BITS <= 32, "two codewords to a window");

// Copies words, a multiple of 4. Called by the whole block.
__device__ inline void load_words(uint32_t *to, const uint32_t *from, uint32_t words) {
    for (uint32_t i = threadIdx.x; i < words / 4; i += blockDim.x) {
        reinterpret_cast<uint4 *>(to)[i] = reinterpret_cast<const uint4 *>(from)[i];
    }
}

// Copies the tables of a codebook in the form that Decoder reads, with `entries_for_long` entries for long codewords.
// Called by the whole block.
__device__ inline void load_decoder_tables(uint32_t *to, const uint32_t *from, uint32_t entries_for_long,
                                           const CodebookDescriptor &codebook) {
#if PAIRS
    load_words(to, from, TABLE + entries_for_long);
#else
    for (uint32_t i = threadIdx.x; i < TABLE; i += blockDim.x) {
        to[i] = single(from[i], codebook.base, codebook.mask);
    }
    load_words(to + TABLE, from + TABLE, entries_for_long);
#endif
}

// Returns the last stream whose `first` is not greater than `unit`. Since streams without units are skipped, this is
// the stream that the unit belongs to.
template <typename Unit, typename First>
__device__ inline uint32_t find_stream(Unit unit, uint32_t streams, First first) {
    uint32_t low = 0, high = streams;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (first(middle) <= unit) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

// The same for one unit, by a warp that looks at 32 streams at a time, which makes fewer dependent reads.
template <typename Unit, typename First>
__device__ inline uint32_t find_stream_by_warp(Unit unit, uint32_t streams, First first) {
    uint32_t low = 0, high = streams;
    while (high - low > 1) {
        const uint32_t step = ceil_div(high - low, WARP), i = low + lane_id() * step;
        const uint32_t parts = __popc(__ballot_sync(ALL_LANES, i < high && first(i) <= unit));
        low += (max_of(parts, 1u) - 1) * step;
        high = min_of(high, low + step);
    }
    return low;
}

// Sum of the symbols, and sum weighted by position, counted from 1 (huffman/checksum.rs of syncline-core).
struct Checksum {
    uint32_t sum, weighted;

    // Adds a unit of 16 bytes whose first symbol is number `first`.
    __device__ inline void add(uint4 unit, uint32_t first) {
        uint32_t own = 0, own_weighted = 0;
        const uint32_t words[4] = {unit.x, unit.y, unit.z, unit.w};
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
#if SYMBOL_BYTES == 1
            own = __dp4a(words[i], 0x01010101u, own);
            own_weighted = __dp4a(words[i], 0x04030201u + i * 0x04040404u, own_weighted);
#else
            own = __dp2a_lo(words[i], 0x0101u, own);
            own_weighted = __dp2a_lo(words[i], 0x0201u + i * 0x0202u, own_weighted);
#endif
        }
        sum += own;
        weighted += own_weighted + first * own;
    }

    __device__ inline void add_symbol(uint32_t symbol, uint32_t number) {
        sum += symbol;
        weighted += (number + 1) * symbol;
    }

    // Adds the checksums of the warp's lanes to those of the stream, and resets them.
    __device__ inline void flush(uint32_t *sums) {
        sum = warp_reduce_sum(sum);
        weighted = warp_reduce_sum(weighted);
        if (lane_id() == 0) {
            atomicAdd(&sums[0], sum);
            atomicAdd(&sums[1], weighted);
        }
        sum = weighted = 0;
    }
};

// Called by all threads of all blocks of a grid when they have finished: the last block compares all checksums. `sums`
// has two words per stream and a last one, which counts blocks and is 0 before.
__device__ inline void verify_in_last_block(const StreamDescriptor *streams, uint32_t stream_count, uint32_t *sums,
                                            uint32_t *status) {
    __shared__ bool is_last;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        is_last = atomicAdd(&sums[2 * stream_count], 1u) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (is_last) {
        for (uint32_t i = threadIdx.x; i < stream_count; i += blockDim.x) {
            if (__ldcg(&sums[2 * i]) != streams[i].sum || __ldcg(&sums[2 * i + 1]) != streams[i].weighted) {
                atomicOr(&status[i], STATUS_CHECKSUM);
            }
        }
    }
}

// Returns the group of coded group `rank` of a stream.
__device__ inline uint32_t group_of_rank(const StreamDescriptor &stream, const uint32_t *map, uint32_t rank) {
    uint32_t group = stream.has_zero_bit_groups ? map[stream.map + rank] : rank;
    return min_of(group, stream.groups - 1);
}

// Stores data that this kernel does not read again, without displacing cached data.
__device__ inline void store_evict_first(uint4 *to, uint4 value) { __stcs(to, value); }

// Starts an asynchronous copy of 16 bytes to shared memory. `wait_for_copies` waits for the copies of the calling
// thread.
__device__ inline void copy_async(void *to, const void *from) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(uint32_t(__cvta_generic_to_shared(to))), "l"(from)
                 : "memory");
#else
    *static_cast<uint4 *>(to) = *static_cast<const uint4 *>(from);
#endif
}
__device__ inline void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
