// What the Huffman decoders share: descriptors, tables, a bit reader, checksums.
//
// SYMBOL_BYTES   bytes of a symbol, 1 or 2
// GROUP_LOG2     log2 of the symbols in a group, 6 or 7
// TABLE_BITS     bits that a table lookup takes, at most 12
// LONGEST        longest codeword there can be
// PAIRS          whether entries of two symbols are made use of: worth it where codewords are short; else lanes with
// one and with two only get out of step
#pragma once
#include "device/sync.cuh"
#include "device/warp.cuh"

// As launch_dependents_and_wait, but the next kernel's blocks are dealt out only when what came before this one is
// there: so the next may read that before it waits itself.
__device__ inline void wait_then_let_start() {
    grid_dependency_wait();
    launch_dependents();
}

constexpr uint32_t GROUP = 1u << GROUP_LOG2;
constexpr uint32_t TABLE = 1u << TABLE_BITS;
constexpr uint32_t LENGTHS = LONGEST + 1;
constexpr uint32_t SUBSEQUENCE_BITS = 128;
// Symbols in 16 bytes.
constexpr uint32_t SYMBOLS_IN_UNIT = 16 / SYMBOL_BYTES;
static_assert(TABLE_BITS <= 12 && LONGEST <= 20,
              "fields of table entries; two windows of 32 bits hold what a step consumes");

// One stream of a batch; huffman/decode/batch.rs fills it in from a parsed stream, or huffman/decode/parse.cuh on the
// device. Offsets are bytes from the start of the input.
struct Stream {
    uint64_t words, index, bitmap;
    uint64_t out;     // its first symbol in the output
    uint64_t classes; // its first group in the array of classes
    uint32_t groups, live, bits, index_bytes;
    uint32_t sum, weighted;
    uint32_t first_book, books;
    uint32_t free_symbol, longest;
    uint32_t has_free, map; // the first of its live groups in the map from live groups to groups
    uint32_t first_task;    // index blocks of 32 live groups in the streams before
    uint32_t first_sequence, first_subsequence;
    uint32_t first_placing;
};

// A canonical code.
struct Book {
    uint32_t limit[LENGTHS];  // for each length, one past its last codeword, left-aligned, saturating
    uint32_t offset[LENGTHS]; // place of the first symbol minus the first codeword, mod 2^32
    uint32_t longest;
    uint32_t symbols, symbol_count; // in the array of symbols in canonical order
    uint32_t base, mask;            // of symbols in table entries
    uint32_t absent;                // not 0: no stream has it, and it needs no tables
};

// Sums over the streams of a batch. Grids may be larger: a batch that is parsed on the device has them from upper
// bounds, and blocks past the sums leave at once.
struct Totals {
    uint32_t tasks, sequences, placings, unused;
};

// Bits of a stream's status.
constexpr uint32_t STATUS_CHECKSUM = 1, STATUS_COUNT = 2, STATUS_INDEX = 4, STATUS_CLASS = 8;

// What a codebook has in the array of tables: entries for the next TABLE_BITS bits, and for long codewords.
constexpr uint32_t LONG_ENTRIES = 2048;
constexpr uint32_t BOOK_WORDS = TABLE + LONG_ENTRIES;
// The longest codewords that have an entry of their own.
constexpr uint32_t LONG_BITS = 16;

// Table entries with PAIRS. Two symbols where both codewords fit: bits 0-3 length of both, 4-7 of the first, 8-19 and
// 20-31 the symbols minus the base. One symbol: both lengths alike, the symbol from bit 8 up (16 bits if the mask says
// so: then no entry has two). Long codewords: 0. Without PAIRS, and for long codewords: the length, from bit 16 up the
// symbol; 0 where there is no entry.
__device__ inline uint32_t length_of_all(uint32_t entry) { return entry & 15; }
__device__ inline uint32_t length_of_first(uint32_t entry) { return entry >> 4 & 15; }
__device__ inline bool has_two(uint32_t entry) { return ((entry >> 4 ^ entry) & 15) != 0; }
// The first symbol alone.
__device__ inline uint32_t single(uint32_t entry, uint32_t base, uint32_t mask) {
    uint32_t length = length_of_first(entry);
    return length == 0 ? 0 : length | ((entry >> 8 & mask) + base) << 16;
}

// What a codebook has in the array of tables for counting, entries of two bytes. COUNTS for the next COUNT_BITS bits:
// how many of them the codewords take that end in them, and from bit COUNT_SHIFT up how many these are; or
// COUNT_LONGER. ENDS for the next TABLE_BITS bits: bit e - 1 is set if a codeword ends after e bits.
constexpr uint32_t COUNT_BITS = 14, COUNT_SHIFT = 8, COUNT_LONGER = 1u << 14;
constexpr uint32_t COUNTS = 1u << COUNT_BITS, ENDS = TABLE;

struct Codeword {
    uint32_t symbol, length;
};

// The codeword that a window starts with, at least `shortest` bits long. For bits that are no codeword the last symbol,
// with the greatest length. Not inlined: rarely called where speed matters, and there many times over, in the middle of
// what has to stay in the instruction cache.
__device__ __noinline__ Codeword canonical(const Book &book, const uint16_t *symbols, uint32_t window,
                                           uint32_t shortest) {
    uint32_t length = shortest;
    while (length < book.longest && window >= book.limit[length]) {
        ++length;
    }
    uint32_t place = (window >> (32 - length)) + book.offset[length];
    if (book.symbol_count == 0) {
        return {0, 1};
    }
    return {symbols[book.symbols + min_of(place, book.symbol_count - 1)], length};
}

// Words as they are.
struct Plain {
    const uint32_t *words;
    __device__ inline uint32_t operator[](uint32_t i) const { return words[i]; }
};

// Bits of a window at a time from words that are read in order; positions past `last` read the word there again.
template <typename Words> struct Reader {
    Words words;
    uint32_t last;
    uint32_t position;
    uint32_t word0, word1;

    __device__ inline Reader(Words from, uint32_t last_word, uint32_t start)
        : words(from), last(last_word), position(start) {
        word0 = words[min_of(start >> 5, last)];
        word1 = words[min_of((start >> 5) + 1, last)];
    }

    __device__ inline uint32_t window() const { return __funnelshift_l(word1, word0, position); }

    // At most 32 bits.
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

// What a thread decodes with. Codewords longer than a lookup are the last in canonical order: one linear table from the
// first of them on, LONG_BITS deep, has the commonest; the others are searched for, which takes so long that it must
// stay rare (a lane's search holds up the whole warp).
struct Decoder {
    const uint32_t *table, *long_table;
    const Book *book;
    const uint16_t *symbols;
    uint32_t base, mask, long_start, long_entries;

    __device__ inline Decoder(const uint32_t *tables, uint32_t entries_for_long, const Book *code,
                              const uint16_t *all_symbols)
        : table(tables), long_table(tables + TABLE), book(code), symbols(all_symbols), base(code->base * 0x10001u),
          mask(code->mask), long_start(code->limit[TABLE_BITS]), long_entries(entries_for_long) {}

    __device__ inline uint32_t lookup(uint32_t window) const { return table[window >> (32 - TABLE_BITS)]; }

    // The entry of a long codeword, 0 if it has none.
    __device__ inline uint32_t long_entry(uint32_t window) const {
        uint32_t i = (window - long_start) >> (32 - LONG_BITS);
        return i < long_entries ? long_table[i] : 0;
    }

    // The first codeword of an entry for a window of LONG_BITS bits at least, as a single entry; 0 if it has none.
    __device__ inline uint32_t first_of_most(uint32_t entry, uint32_t window) const {
#if PAIRS
        entry = single(entry, base & 0xFFFF, mask);
#endif
        return entry == 0 ? long_entry(window) : entry;
    }

    // The first codeword of an entry for a window of LONGEST bits at least.
    __device__ inline Codeword first(uint32_t entry, uint32_t window) const {
        uint32_t one = first_of_most(entry, window);
        return one == 0 ? canonical(*book, symbols, window, TABLE_BITS + 1) : Codeword{one >> 16, one & 31};
    }

    template <typename Source> __device__ inline uint32_t one(Source &from) const {
        uint32_t window = from.window();
        Codeword next = first(lookup(window), window);
        from.skip(next.length);
        return next.symbol;
    }

    // The next two symbols, the first in the low half. `Source` is a Reader.
    template <typename Source> __device__ inline uint32_t two(Source &from) const {
        const uint32_t window = from.window();
        const uint32_t entry = lookup(window);
#if PAIRS
        uint32_t bits = length_of_all(entry);
        uint32_t pair = (entry >> 8 & 0xFFF) + (entry >> 4 & 0xFFF0000) + base;
        if (!has_two(entry)) {
            pair = two_apart(window, entry, from, bits);
        }
#else
        uint32_t bits;
        const uint32_t pair = two_apart(window, entry, from, bits);
#endif
        from.skip(bits);
        return pair;
    }

    // Two symbols with an entry each. Sets how many bits are still to skip.
    template <typename Source>
    __device__ inline uint32_t two_apart(uint32_t window, uint32_t entry, Source &from, uint32_t &bits) const {
        // One window is enough for two codewords of LONG_BITS bits. Shifts by the low five bits of an entry: its
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

    // The next word of symbols.
    template <typename Source> __device__ inline uint32_t word(Source &from) const {
        uint32_t pair = two(from);
#if SYMBOL_BYTES == 1
        pair = __byte_perm(pair, two(from), 0x6420);
#endif
        return pair;
    }
};
static_assert(2 * LONG_BITS <= 32, "two codewords to a window");

// Copies words, a multiple of 4, by the whole block.
__device__ inline void load_words(uint32_t *to, const uint32_t *from, uint32_t words) {
    for (uint32_t i = threadIdx.x; i < words / 4; i += blockDim.x) {
        reinterpret_cast<uint4 *>(to)[i] = reinterpret_cast<const uint4 *>(from)[i];
    }
}

// Copies a codebook's table, as Decoder wants it, and so many entries for long codewords; by the whole block.
__device__ inline void load_tables(uint32_t *to, const uint32_t *from, uint32_t entries_for_long, const Book &book) {
#if PAIRS
    load_words(to, from, TABLE + entries_for_long);
#else
    for (uint32_t i = threadIdx.x; i < TABLE; i += blockDim.x) {
        to[i] = single(from[i], book.base, book.mask);
    }
    load_words(to + TABLE, from + TABLE, entries_for_long);
#endif
}

// The last stream whose `first` is not above `unit`: the one that it belongs to, as streams without units are skipped.
template <typename Unit, typename First>
__device__ inline uint32_t stream_of(Unit unit, uint32_t streams, First first) {
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

// The same by a warp, for one unit: its lanes look at 32 streams at a time. For a small batch each read that waits for
// the one before counts.
template <typename Unit, typename First>
__device__ inline uint32_t stream_of_warp(Unit unit, uint32_t streams, First first) {
    uint32_t low = 0, high = streams;
    while (high - low > 1) {
        const uint32_t step = ceil_div(high - low, WARP), i = low + lane_id() * step;
        const uint32_t parts = __popc(__ballot_sync(ALL_LANES, i < high && first(i) <= unit));
        low += (max_of(parts, 1u) - 1) * step;
        high = min_of(high, low + step);
    }
    return low;
}

// Sum, and sum weighted with the position from 1, of symbols (huffman/checksum.rs of the core).
struct Checksum {
    uint32_t sum, weighted;

    // Adds a unit of 16 bytes, the first of its symbols being number `first`.
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

    // Adds up a warp's checksums and adds them to the stream's.
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

// The bits that any lane of the warp has set.
__device__ inline uint32_t any_of(uint32_t bits) {
    bits = warp_reduce_or(bits);
    return bits;
}

// To be called by all blocks of a grid when they are done, the whole of each: the last one compares all checksums.
// `sums` has a word more than two for each stream, 0 before.
__device__ inline void verify_at_last(const Stream *streams, uint32_t stream_count, uint32_t *sums, uint32_t *status) {
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

// Group of live group `rank` of a stream.
__device__ inline uint32_t group_of(const Stream &stream, const uint32_t *map, uint32_t rank) {
    uint32_t group = stream.has_free ? map[stream.map + rank] : rank;
    return min_of(group, stream.groups - 1);
}

// Memory that lasts no longer than its reading or writing does not displace what does.
__device__ inline void store_streaming(uint4 *to, uint4 value) { __stcs(to, value); }

// Starts the copy of 16 bytes to shared memory; `copies_done` waits for a thread's own.
__device__ inline void copy_unit(void *to, const void *from) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(uint32_t(__cvta_generic_to_shared(to))), "l"(from)
                 : "memory");
#else
    *static_cast<uint4 *>(to) = *static_cast<const uint4 *>(from);
#endif
}
__device__ inline void copies_done() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
