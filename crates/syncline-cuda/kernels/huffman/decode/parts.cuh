// Counting the codewords of subsequences part by part, by a block whose tables and words are in shared memory.
#pragma once
#include "huffman/decode/book.cuh"
#include "huffman/decode/spans.cuh"

static_assert(THREADS == 1u << LENGTH_BITS && TABLE == 4 * THREADS, "a thread for each start of so many bits");

// Entries for counting what ends in the next TABLE_BITS bits: how many of them the codewords take, from bit 8 up how
// many codewords, and from bit 16 up where they end; 0 if none does. A thread makes four, which start with the same
// LENGTH_BITS bits. By the whole block, followed by a barrier.
__device__ inline void make_count_table(uint32_t *to, const OwnBook &own) {
    constexpr uint32_t MORE_BITS = TABLE_BITS - LENGTH_BITS;
    // Codewords of more than LENGTH_BITS bits can only be there if hardly any before them is.
    const auto extend = [&](uint32_t entry, uint32_t window, uint32_t known) {
        while (true) {
            const uint32_t bits = entry & 0xFF, rest = window << bits;
            uint32_t length = own.lengths[rest >> (32 - LENGTH_BITS)];
            if (length == 0) {
                length = bits + LENGTH_BITS < known ? own.longer_than<LENGTH_BITS + 1, TABLE_BITS>(rest) : known + 1;
            }
            if (bits + length > known) {
                return entry;
            }
            entry += (length | 1u << 8) + (1u << (15 + bits + length));
        }
    };
    const uint32_t shared = extend(0, threadIdx.x << (32 - LENGTH_BITS), LENGTH_BITS);
    uint32_t entries[1 << MORE_BITS];
#pragma unroll
    for (uint32_t i = 0; i < 1u << MORE_BITS; ++i) {
        entries[i] = extend(shared, threadIdx.x << (32 - LENGTH_BITS) | i << (32 - TABLE_BITS), TABLE_BITS);
    }
    static_assert(MORE_BITS == 2, "four entries are stored at once");
    reinterpret_cast<uint4 *>(to)[threadIdx.x] = make_uint4(entries[0], entries[1], entries[2], entries[3]);
}

// Bits of windows whose codewords' lengths have as much room as such entries, a byte each.
constexpr uint32_t KNOWN_LENGTH_BITS = TABLE_BITS + 2;

// The lengths of windows' first codewords; 0 if longer. A thread makes those of windows that start with the same
// LENGTH_BITS bits: mostly one codeword's. By the whole block, followed by a barrier.
__device__ inline void make_length_table(uint8_t *to, const OwnBook &own) {
    constexpr uint32_t EACH = 1u << (KNOWN_LENGTH_BITS - LENGTH_BITS);
    static_assert(EACH == 16, "sixteen are stored at once");
    const uint32_t length = own.lengths[threadIdx.x], four = length * 0x01010101;
    uint4 all = make_uint4(four, four, four, four);
    if (length == 0) {
        uint32_t words[EACH / 4] = {};
#pragma unroll
        for (uint32_t i = 0; i < EACH; ++i) {
            const uint32_t longer = own.longer_than<LENGTH_BITS + 1, KNOWN_LENGTH_BITS>((threadIdx.x * EACH + i)
                                                                                        << (32 - KNOWN_LENGTH_BITS));
            words[i / 4] |= longer <= KNOWN_LENGTH_BITS ? longer << i % 4 * 8 : 0;
        }
        all = make_uint4(words[0], words[1], words[2], words[3]);
    }
    reinterpret_cast<uint4 *>(to)[threadIdx.x] = all;
}

// Counts codewords by such entries, many at a time; or by such lengths one by one, but for those of one bit: entries
// take longer to make, which a block with little to count does not gain back.
struct PartCounter {
    const uint32_t *table;
    const uint8_t *lengths; // if there is no table
    const OwnBook *own;
    uint32_t most_zeros; // that are taken at once: each is a codeword; 0 if none is

    // `memory` has room for either: it is made here. By the whole block, followed by a barrier. With so many zeros
    // taken from it a window still has a longest codeword.
    __device__ inline PartCounter(uint32_t *memory, const OwnBook &book, bool one_by_one)
        : table(one_by_one ? nullptr : memory), lengths(reinterpret_cast<const uint8_t *>(memory)), own(&book),
          most_zeros(book.book.limit[1] != 0 ? 32 - LONGEST : 0) {
        if (one_by_one) {
            make_length_table(reinterpret_cast<uint8_t *>(memory), book);
        } else {
            make_count_table(memory, book);
        }
    }

    static __device__ inline uint32_t position(const LaneReader &from) { return from.position & 0xFF; }

    __device__ inline uint32_t lookup(uint32_t window) const { return table[window >> (32 - TABLE_BITS)]; }

    // The length of a codeword longer than a lookup, counted as one.
    __device__ inline uint32_t longer(uint32_t window) const {
        return own->longer_than<TABLE_BITS + 1, LONGEST - 1>(window) | 1u << 8;
    }

    // Goes on to the first codeword that starts at `stop` or later. Positions count codewords along, from bit 8 up.
    __device__ inline void go_on(LaneReader &from, uint32_t stop) const {
        if (table == nullptr) {
            one_by_one(from, stop);
        } else {
            by_table(from, stop);
        }
    }

    __device__ inline uint32_t length_of(uint32_t window) const {
        const uint32_t length = lengths[window >> (32 - KNOWN_LENGTH_BITS)];
        return length != 0 ? length : own->longer_than<KNOWN_LENGTH_BITS + 1, LONGEST - 1>(window);
    }

    __device__ inline void one_by_one(LaneReader &from, uint32_t stop) const {
#pragma unroll 1
        while (position(from) < stop) {
            const uint32_t window = from.window(), left = stop - position(from),
                           zeros = min_of(min_of<uint32_t>(__clz(window), most_zeros), left);
            from.skip((zeros | zeros << 8) + (zeros < left ? length_of(window << zeros) | 1u << 8 : 0));
        }
    }

    __device__ inline void by_table(LaneReader &from, uint32_t stop) const {
        while (position(from) + 2 * TABLE_BITS <= stop) {
            const uint32_t window = from.window(), one = lookup(window);
            // Shifts by the low five bits of an entry: those it takes.
            const uint32_t other = lookup(__funnelshift_l(0, window, one));
            if (one == 0) {
                from.skip(longer(window));
            } else {
                from.skip((one + other) & 0xFFFF);
            }
        }
        while (position(from) < stop) {
            const uint32_t window = from.window(), entry = lookup(window), ends = entry >> 16;
            if (ends == 0) {
                from.skip(longer(window));
                continue;
            }
            if (position(from) + TABLE_BITS <= stop) {
                from.skip(entry & 0xFFFF);
                continue;
            }
            // Of the ends before `stop` each is a start; the last start's codeword ends behind them, if in this lookup.
            const uint32_t within = (1u << (stop - position(from) - 1)) - 1, before = ends & within,
                           behind = ends & ~within;
            from.skip((behind != 0 ? __ffs(behind) : 32 - __clz(before)) | (__popc(before) + (behind != 0 ? 1 : 0))
                                                                               << 8);
        }
    }
};

// Words behind the last subsequence's that are looked at.
constexpr uint32_t SLACK_WORDS = 8;

// A block's subsequences in shared memory, those of the warm-up first. Parts of subsequences follow each other.
struct Span {
    const uint32_t *words;
    uint8_t *entries, *counts; // of parts: bits to the first codeword, and codewords that start in them
    uint8_t *starts, *exits; // of subsequences: where the first codeword is, and where the last one ends behind the end
    uint32_t parts_log2;

    __device__ inline LaneReader reader(uint32_t part, uint32_t entry) const {
        LaneWords own;
        if (parts_log2 == 0) {
            const uint32_t *from = words + part * WORDS_IN_SUBSEQUENCE;
            own.own = *reinterpret_cast<const uint4 *>(from);
            own.ahead = *reinterpret_cast<const uint2 *>(from + WORDS_IN_SUBSEQUENCE);
        } else {
            const uint32_t *from = words + (part * WORDS_IN_SUBSEQUENCE >> parts_log2);
            own.own = make_uint4(from[0], from[1], from[2], from[3]);
            own.ahead = make_uint2(from[4], from[5]);
        }
        return LaneReader(own, entry);
    }

    // Entries and counts of parts `first` to `end`, of so many bits in all, if their first codeword is at `entry`.
    // Returns where the last one ends, in bits behind their end.
    __device__ inline uint32_t count(const PartCounter &counter, uint32_t first, uint32_t end, uint32_t bits,
                                     uint32_t entry) const {
        LaneReader from = reader(first, entry);
        const uint32_t part_bits = SUBSEQUENCE_BITS >> parts_log2;
        uint32_t start = 0;
#pragma unroll 1
        for (uint32_t part = first; part < end; ++part, start += part_bits) {
            const uint32_t before = from.position, at = before & 0xFF;
            counter.go_on(from, min_of(bits, start + part_bits));
            entries[part] = at > start ? at - start : 0;
            counts[part] = (from.position - before) >> 8;
        }
        const uint32_t last = PartCounter::position(from);
        return last > bits ? last - bits : 0;
    }

    // The same of a subsequence's.
    __device__ inline uint32_t count(const PartCounter &counter, uint32_t subsequence, uint32_t bits,
                                     uint32_t entry) const {
        return count(counter, subsequence << parts_log2, (subsequence + 1) << parts_log2, bits, entry);
    }
};
