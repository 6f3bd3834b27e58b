// What the decoders that start at subsequences share: counting the codewords of a span, and reading a subsequence from registers or shared memory.
//
// SEQUENCE   subsequences in a sequence
// THREADS    threads in a block
#pragma once
#include "huffman_decode.cuh"

constexpr uint32_t WORDS_IN_SUBSEQUENCE = SUBSEQUENCE_BITS / 32;
constexpr uint32_t SEQUENCE_BITS = SEQUENCE * SUBSEQUENCE_BITS;
constexpr uint32_t WARPS = THREADS / WARP;

// Bits of a stream's subsequence.
__device__ inline uint32_t bits_in(const Stream &stream, uint32_t subsequence) {
    const uint32_t start = subsequence * SUBSEQUENCE_BITS;
    return start < stream.bits ? min_of(stream.bits - start, SUBSEQUENCE_BITS) : 0;
}

// Counts codewords with a codebook's table for that.
struct Counter {
    const uint32_t *table;
    const Book *book;

    // The length of a codeword that is longer than a lookup.
    __device__ inline uint32_t long_length(uint32_t window) const {
        uint32_t length = TABLE_BITS + 1;
        while (length < book->longest && window >= book->limit[length]) {
            ++length;
        }
        return length;
    }

    __device__ inline uint32_t lookup(uint32_t window) const { return table[window >> (32 - TABLE_BITS)]; }

    // Skips the codewords of one lookup, or a long one; returns an entry that says so.
    template <typename Source> __device__ inline uint32_t step(Source &from) const {
        const uint32_t window = from.window();
        uint32_t entry = lookup(window);
        if (count_bits(entry) == 0) {
            entry = long_length(window) | 1u << 8;
        }
        from.skip(count_bits(entry));
        return entry;
    }

    // The codewords that start from the reader's position on and before `stop`. The reader is at the end of the last one then.
    template <typename Source> __device__ inline uint32_t count(Source &from, uint32_t stop) const {
        uint32_t sum = 0;
        // Two lookups to a window, as long as all of their codewords start before `stop`.
        while (from.position + 2 * TABLE_BITS <= stop) {
            const uint32_t window = from.window();
            const uint32_t one = lookup(window);
            // Shifts by the low five bits of an entry: the bits it takes.
            const uint32_t other = lookup(__funnelshift_l(0, window, one));
            if (count_bits(one) == 0 || count_bits(other) == 0) {
                // A long codeword may take what the second lookup would have looked at.
                sum += step(from);
                continue;
            }
            sum += one + other;
            from.skip(one + other & 31);
        }
        while (from.position + TABLE_BITS <= stop) {
            sum += step(from);
        }
        uint32_t count = count_codewords(sum);
        if (from.position < stop) {
            // Of the ends before `stop` each is a start.
            const uint32_t starts = count_ends(lookup(from.window())) & ((1u << (stop - from.position - 1)) - 1);
            count += 1 + __popc(starts);
            from.skip(32 - __clz(starts));
            const uint32_t window = from.window();
            const uint32_t ends = count_ends(lookup(window));
            from.skip(ends == 0 ? long_length(window) : __ffs(ends));
        }
        return count;
    }
};

// Words that a subsequence's codewords and the look ahead may touch: the last codeword starts in the fourth, at most LONGEST bits of the next are in the fifth.
constexpr uint32_t LANE_WORDS = WORDS_IN_SUBSEQUENCE + 2;
// No first codeword starts later; what says so is damaged.
constexpr uint32_t LAST_ENTRY = 31;

// A subsequence's words, as they are in memory.
struct LaneWords {
    uint4 own;
    uint2 ahead;

    // Words past the stream's are 0.
    __device__ inline void load(const uint8_t *input, const Stream &stream, uint32_t subsequence) {
        const uint32_t *words = reinterpret_cast<const uint32_t *>(input + stream.words) + subsequence * WORDS_IN_SUBSEQUENCE;
        const uint32_t end = ceil_div(stream.bits, 32) + 2, first = subsequence * WORDS_IN_SUBSEQUENCE;
        if (first + LANE_WORDS <= end) {
            own = __ldg(reinterpret_cast<const uint4 *>(words));
            ahead = __ldg(reinterpret_cast<const uint2 *>(words + WORDS_IN_SUBSEQUENCE));
        } else {
            const auto word = [&](uint32_t i) { return first + i < end ? words[i] : 0; };
            own = make_uint4(word(0), word(1), word(2), word(3));
            ahead = make_uint2(word(4), word(5));
        }
    }
};

// A window over a subsequence's words, which move on instead of it.
struct LaneReader {
    uint32_t words[LANE_WORDS];
    uint32_t position;

    __device__ inline LaneReader(const LaneWords &from, uint32_t start)
        : words{from.own.x, from.own.y, from.own.z, from.own.w, from.ahead.x, from.ahead.y}, position(start) {}

    __device__ inline uint32_t window() const { return __funnelshift_l(words[1], words[0], position); }

    // At most 32 bits.
    __device__ inline void skip(uint32_t bits) {
        const uint32_t after = position + bits;
        if ((position ^ after) & 32) {
#pragma unroll
            for (uint32_t i = 0; i + 1 < LANE_WORDS; ++i) {
                words[i] = words[i + 1];
            }
        }
        position = after;
    }
};

// The sequences of a block, stream after stream: blocks have equal shares of all.
struct Run {
    uint32_t next, end;

    __device__ inline Run(uint32_t sequences) {
        const uint32_t share = ceil_div(sequences, gridDim.x);
        next = min_of(sequences, blockIdx.x * share);
        end = min_of(sequences, next + share);
    }

    // The stream of the next sequence, and its sequences that are this block's: those from `first` to `stop`, counted from the stream's first.
    __device__ inline uint32_t stream(const Stream *streams, uint32_t stream_count, uint32_t &first, uint32_t &stop) {
        const uint32_t number = stream_of(next, stream_count, [&](uint32_t i) { return streams[i].first_sequence; });
        const uint32_t start = streams[number].first_sequence;
        first = next - start;
        next = min_of(end, start + ceil_div(streams[number].bits, SEQUENCE_BITS));
        stop = next - start;
        return number;
    }
};

// Words in shared memory with a gap after every 32: threads that are at the same place of their subsequences, four words apart, hit different banks.
struct Padded {
    const uint32_t *words;
    static __device__ constexpr uint32_t slot(uint32_t i) { return i + (i >> 5); }
    __device__ inline uint32_t operator[](uint32_t i) const { return words[slot(i)]; }
};

// A block's sequence in shared memory; a thread has a subsequence. Positions are bits from its start.
struct Sequence {
    // Its words, and those that its last codeword and the reader's look ahead may touch.
    static constexpr uint32_t WORDS = SEQUENCE * WORDS_IN_SUBSEQUENCE + 3;
    uint32_t words[Padded::slot(WORDS) + 1];

    // Loads sequence `number` of a stream; to be called, and followed by a barrier, by the whole block. Returns its last word.
    __device__ inline uint32_t load(const uint8_t *input, const Stream &stream, uint32_t number) {
        const uint32_t *from = reinterpret_cast<const uint32_t *>(input + stream.words) + number * (SEQUENCE_BITS / 32);
        // The stream has two words more than its bits fill.
        const uint32_t last = min_of(ceil_div(stream.bits, 32) + 2 - number * (SEQUENCE_BITS / 32), WORDS) - 1;
        for (uint32_t i = threadIdx.x; i <= last; i += THREADS) {
            words[Padded::slot(i)] = from[i];
        }
        return last;
    }
};

// Copies a stream's descriptor and its codebook to shared memory. By the whole block, with barriers around it.
__device__ inline void load_stream(Stream &stream, Book &book, const Stream *streams, uint32_t number, const Book *books) {
    __syncthreads();
    if (threadIdx.x < sizeof(Stream) / 4) {
        reinterpret_cast<uint32_t *>(&stream)[threadIdx.x] = reinterpret_cast<const uint32_t *>(&streams[number])[threadIdx.x];
    }
    __syncthreads();
    if (threadIdx.x < sizeof(Book) / 4) {
        reinterpret_cast<uint32_t *>(&book)[threadIdx.x] = reinterpret_cast<const uint32_t *>(&books[stream.first_book])[threadIdx.x];
    }
    __syncthreads();
}

// Its tables for lookups: TABLE + LONG_ENTRIES words. To be followed by a barrier, as the next.
__device__ inline void load_lookup(uint32_t *to, const uint32_t *tables, const Stream &stream, const Book &book) {
    load_tables(to, tables + uint64_t(stream.first_book) * BOOK_WORDS, LONG_ENTRIES, book);
}

// Its table for counting: TABLE words.
__device__ inline void load_counts(uint32_t *to, const uint32_t *tables, const Stream &stream) {
    load_words(to, tables + uint64_t(stream.first_book) * BOOK_WORDS + TABLE + LONG_ENTRIES, TABLE);
}
