// Counting the codewords of subsequences part by part, by a block whose tables and words are in shared memory.
#pragma once
#include "huffman_decode_book.cuh"
#include "huffman_decode_spans.cuh"

static_assert(THREADS == 1u << LENGTH_BITS && TABLE == 4 * THREADS, "a thread for each start of so many bits");

// Entries for counting what ends in the next TABLE_BITS bits: how many of them the codewords take, from bit 8 up how many codewords, and from bit 16 up where they end; 0 if none does.
// A thread makes four, which start with the same LENGTH_BITS bits. By the whole block, followed by a barrier.
__device__ inline void make_count_table(uint32_t *to, const OwnBook &own) {
    constexpr uint32_t MORE_BITS = TABLE_BITS - LENGTH_BITS;
    // Codewords of more than LENGTH_BITS bits can only be there if hardly any before them is.
    const auto extend = [&](uint32_t entry, uint32_t window, uint32_t known) {
        while (true) {
            const uint32_t bits = entry & 0xFF, rest = window << bits;
            uint32_t length = own.lengths[rest >> (32 - LENGTH_BITS)];
            if (length == 0) {
                length = bits + LENGTH_BITS < known ? length_from(own.book, rest, LENGTH_BITS + 1) : known + 1;
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

// Counts codewords by such entries.
struct PartCounter {
    const uint32_t *table;
    const OwnBook *own;

    static __device__ inline uint32_t position(const LaneReader &from) { return from.position & 0xFF; }

    __device__ inline uint32_t lookup(uint32_t window) const { return table[window >> (32 - TABLE_BITS)]; }

    // The length of a codeword longer than a lookup, counted as one.
    __device__ inline uint32_t longer(uint32_t window) const { return own->longer_than<TABLE_BITS + 1, LONGEST - 1>(window) | 1u << 8; }

    // Goes on to the first codeword that starts at `stop` or later. Positions count codewords along, from bit 8 up.
    __device__ inline void go_on(LaneReader &from, uint32_t stop) const {
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
            const uint32_t within = (1u << (stop - position(from) - 1)) - 1, before = ends & within, behind = ends & ~within;
            from.skip((behind != 0 ? __ffs(behind) : 32 - __clz(before)) | (__popc(before) + (behind != 0 ? 1 : 0)) << 8);
        }
    }
};

// Words behind the last subsequence's that are looked at.
constexpr uint32_t SLACK_WORDS = 8;

// A block's subsequences in shared memory, those of the warm-up first. Parts of subsequences follow each other.
struct Span {
    const uint32_t *words;
    uint8_t *entries, *counts; // of parts: bits to the first codeword, and codewords that start in them
    uint8_t *starts, *exits;   // of subsequences: where the first codeword is, and where the last one ends behind the end
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

    // Entries and counts of a subsequence's parts, if its first codeword is at `entry`. Returns where the last one ends, in bits behind its end.
    __device__ inline uint32_t count(const PartCounter &counter, uint32_t subsequence, uint32_t bits, uint32_t entry) const {
        LaneWords own;
        const uint32_t *from = words + subsequence * WORDS_IN_SUBSEQUENCE;
        own.own = *reinterpret_cast<const uint4 *>(from);
        own.ahead = *reinterpret_cast<const uint2 *>(from + WORDS_IN_SUBSEQUENCE);
        LaneReader reader(own, entry);
        const uint32_t first = subsequence << parts_log2, part_bits = SUBSEQUENCE_BITS >> parts_log2;
        for (uint32_t part = 0; part < 1u << parts_log2; ++part) {
            const uint32_t before = reader.position, at = before & 0xFF, start = part * part_bits;
            counter.go_on(reader, min_of(bits, start + part_bits));
            entries[first + part] = at > start ? at - start : 0;
            counts[first + part] = (reader.position - before) >> 8;
        }
        const uint32_t end = PartCounter::position(reader);
        return end > bits ? end - bits : 0;
    }
};
