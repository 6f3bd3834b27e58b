// Shared by the decoders that start at subsequences: reading a subsequence from registers or shared memory, and
// counting its codewords.
//
// SEQUENCE               subsequences per sequence
// THREADS                threads per block
#pragma once
#include "huffman/decode/lookup.cuh"

constexpr uint32_t WORDS_IN_SUBSEQUENCE = SUBSEQUENCE_BITS / 32;
constexpr uint32_t SEQUENCE_BITS = SEQUENCE * SUBSEQUENCE_BITS;
// Bits of a warp sequence: 32 subsequences, one per lane.
constexpr uint32_t WARP_SEQUENCE_BITS = WARP * SUBSEQUENCE_BITS;
constexpr uint32_t WARPS = THREADS / WARP;

// Returns the number of bits of a subsequence that belong to the stream.
__device__ inline uint32_t bits_in(const StreamDescriptor &stream, uint32_t subsequence) {
    const uint32_t start = subsequence * SUBSEQUENCE_BITS;
    return start < stream.bits ? min_of(stream.bits - start, SUBSEQUENCE_BITS) : 0;
}

// Words that decoding a subsequence may read: its last codeword starts in the fourth word, and at most LONGEST bits of
// the next one are in the fifth.
constexpr uint32_t SUBSEQUENCE_WORDS_AHEAD = WORDS_IN_SUBSEQUENCE + 2;
// Maximum entry point in bits; larger values are damaged.
constexpr uint32_t MAX_ENTRY = 31;
// Maximum number of codewords of a subsequence in a damaged index.
constexpr uint32_t MAX_COUNT = SUBSEQUENCE_BITS + MAX_ENTRY;

// Returns the gap of a subsequence of a stream, from those of all streams.
__device__ inline uint32_t gap_of(const uint8_t *gaps, const StreamDescriptor &stream, uint32_t subsequence) {
    return min_of<uint32_t>(gaps[stream.first_subsequence + subsequence], MAX_ENTRY);
}

// The words of a subsequence.
struct SubsequenceWords {
    uint4 own;
    uint2 ahead;

    // Words beyond the end of the stream are 0.
    __device__ inline void load(const uint8_t *input, const StreamDescriptor &stream, uint32_t subsequence) {
        const uint32_t *words =
            reinterpret_cast<const uint32_t *>(input + stream.words) + subsequence * WORDS_IN_SUBSEQUENCE;
        const uint32_t end = ceil_div(stream.bits, 32) + 2, first = subsequence * WORDS_IN_SUBSEQUENCE;
        if (first + SUBSEQUENCE_WORDS_AHEAD <= end) {
            own = __ldg(reinterpret_cast<const uint4 *>(words));
            ahead = __ldg(reinterpret_cast<const uint2 *>(words + WORDS_IN_SUBSEQUENCE));
        } else {
            const auto word = [&](uint32_t i) { return first + i < end ? words[i] : 0; };
            own = make_uint4(word(0), word(1), word(2), word(3));
            ahead = make_uint2(word(4), word(5));
        }
    }
};

// The words of a subsequence that are not in the window yet. They are shifted through registers.
struct WordsAhead {
    uint32_t word[SUBSEQUENCE_WORDS_AHEAD - 2];

    __device__ inline void advance(uint32_t crosses, uint32_t &word0, uint32_t &word1) {
        if (crosses) {
            word0 = word1;
            word1 = word[0];
#pragma unroll
            for (uint32_t i = 0; i + 1 < SUBSEQUENCE_WORDS_AHEAD - 2; ++i) {
                word[i] = word[i + 1];
            }
        }
    }
};

// A window over a subsequence, from the start of a codeword on.
struct SubsequenceReader : BitWindow<WordsAhead> {
    __device__ inline SubsequenceReader(const SubsequenceWords &from, uint32_t start)
        : BitWindow<WordsAhead>{{{from.own.z, from.own.w, from.ahead.x, from.ahead.y}}, from.own.x, from.own.y, start} {
    }

    // Whether all bits of the subsequence from `start` on are zeros. Valid before the first skip.
    __device__ inline bool zeros() const { return (word0 << position | word1 | words.word[0] | words.word[1]) == 0; }
};

// Returns the length of the window's codeword, which has at least `shortest` bits.
__device__ inline uint32_t length_from(const CodebookDescriptor &codebook, uint32_t window, uint32_t shortest) {
    uint32_t length = shortest;
    while (length < codebook.longest && window >= codebook.limit[length]) {
        ++length;
    }
    return length;
}

// Counts codewords with the counting tables of a codebook.
struct Counter {
    const uint16_t *table; // COUNTS entries, then ENDS entries
    const CodebookDescriptor *codebook;
    uint32_t longest_shares; // 2^16 divided by the length of the longest codeword, rounded up
    bool zero_is_one;        // whether a single zero bit is a codeword

    __device__ inline Counter(const uint16_t *tables, const CodebookDescriptor *code)
        : table(tables), codebook(code), longest_shares((1u << 16) / max_of<uint32_t>(1, code->longest) + 1),
          zero_is_one(code->limit[1] != 0) {}

    // Returns the length of a codeword that is longer than a lookup.
    __device__ inline uint32_t long_length(uint32_t window) const {
        return length_from(*codebook, window, TABLE_BITS + 1);
    }

    __device__ inline uint32_t lookup(uint32_t window) const { return table[window >> (32 - COUNT_BITS)]; }

    // Skips the codewords of one lookup, or one longer codeword. The reader's position also counts codewords, from bit
    // COUNT_SHIFT up.
    __device__ inline void step(SubsequenceReader &from) const {
        const uint32_t window = from.window();
        uint32_t entry = lookup(window);
        if (entry & COUNT_LONGER) {
            entry = long_length(window) | 1u << COUNT_SHIFT;
        }
        from.skip(entry);
    }

    // Skips codewords while a lookup ends before `stop`.
    __device__ inline void skip_lookups(SubsequenceReader &from, uint32_t stop) const {
        while (position(from) + 2 * COUNT_BITS <= stop) {
            const uint32_t window = from.window();
            const uint32_t one = lookup(window);
            // Shifts use the low five bits of an entry, the number of bits taken.
            const uint32_t other = lookup(__funnelshift_l(0, window, one));
            if ((one | other) & COUNT_LONGER) {
                // A longer codeword may take the bits of the second lookup.
                step(from);
            } else {
                from.skip(one + other);
            }
        }
        while (position(from) + COUNT_BITS <= stop) {
            step(from);
        }
    }

    static __device__ inline uint32_t position(const SubsequenceReader &from) {
        return from.position & ((1u << COUNT_SHIFT) - 1);
    }

    // Returns the number of codewords that start before `stop`, and sets `end` to the end of the last one.
    __device__ inline uint32_t count(SubsequenceReader &from, uint32_t stop, uint32_t &end) const {
        skip_lookups(from, stop);
        const uint16_t *ends_table = table + COUNTS;
        uint32_t count = from.position >> COUNT_SHIFT;
        end = position(from);
        // One codeword at a time, until the last start is within one lookup of ENDS.
        while (end + TABLE_BITS < stop) {
            const uint32_t window = from.window(), ends = ends_table[window >> (32 - TABLE_BITS)];
            const uint32_t length = ends == 0 ? long_length(window) : __ffs(ends);
            from.skip(length);
            end += length;
            ++count;
        }
        if (end < stop) {
            // Each end before `stop` is a start.
            const uint32_t starts = ends_table[from.window() >> (32 - TABLE_BITS)] & ((1u << (stop - end - 1)) - 1);
            count += 1 + __popc(starts);
            from.skip(32 - __clz(starts));
            const uint32_t window = from.window(), ends = ends_table[window >> (32 - TABLE_BITS)];
            end += 32 - __clz(starts) + (ends == 0 ? long_length(window) : __ffs(ends));
        }
        return count;
    }

    // Returns the number of codewords up to `stop`, where one ends. The bits after it are replaced by ones, which are
    // repetitions of the last codeword, one of the longest; those within the lookup are subtracted.
    __device__ inline uint32_t count_up_to(SubsequenceReader &from, uint32_t stop) const {
        skip_lookups(from, stop);
        const uint32_t end = position(from);
        // Damaged streams may end later.
        const uint32_t rest = stop > end ? stop - end : 0;
        const uint32_t entry = lookup(from.window() | ALL_LANES >> rest);
        const int32_t more = (entry >> COUNT_SHIFT & 31) - ((COUNT_BITS - rest) * longest_shares >> 16);
        return min_of<int32_t>(MAX_COUNT, max_of<int32_t>(0, int32_t(from.position >> COUNT_SHIFT) + more));
    }
};

// A block's equal share of all units, in the order of streams. A sequence has UNITS units.
template <uint32_t UNITS> struct BlockShare {
    uint32_t next, end;

    __device__ inline BlockShare(uint32_t sequences) {
        const uint32_t all = sequences * UNITS, share = ceil_div(all, gridDim.x);
        next = min_of(all, blockIdx.x * share);
        end = min_of(all, next + share);
    }

    // Returns the stream of the next unit, and sets `first` and `stop`, the block's units of this stream, counted from
    // its first.
    __device__ inline uint32_t stream(const StreamDescriptor *streams, uint32_t stream_count, uint32_t &first,
                                      uint32_t &stop) {
        const uint32_t number =
            find_stream_by_warp(next / UNITS, stream_count, [&](uint32_t i) { return streams[i].first_sequence; });
        const uint32_t start = streams[number].first_sequence * UNITS, bits = streams[number].bits;
        first = next - start;
        next = min_of(end, start + ceil_div(bits, SEQUENCE_BITS) * UNITS);
        stop = min_of(next - start, ceil_div(bits, SEQUENCE_BITS / UNITS));
        return number;
    }
};

// Words in shared memory with padding after every 32, so that threads at the same position of their subsequences, four
// words apart, use different banks.
struct Padded {
    const uint32_t *words;
    static __device__ constexpr uint32_t slot(uint32_t i) { return i + (i >> 5); }
    __device__ inline uint32_t operator[](uint32_t i) const { return words[slot(i)]; }
};

// A block's sequence in shared memory, one subsequence per thread. Positions are bits from its start.
struct Sequence {
    // Including the words that the last codeword and the reader may touch.
    static constexpr uint32_t WORDS = SEQUENCE * WORDS_IN_SUBSEQUENCE + 3;
    uint32_t words[Padded::slot(WORDS) + 1];

    // Loads sequence `number` of a stream and returns the index of its last word. Called by the whole block, which must
    // synchronize afterwards.
    __device__ inline uint32_t load(const uint8_t *input, const StreamDescriptor &stream, uint32_t number) {
        const uint32_t *from = reinterpret_cast<const uint32_t *>(input + stream.words) + number * (SEQUENCE_BITS / 32);
        // A stream is followed by two more words.
        const uint32_t last = min_of(ceil_div(stream.bits, 32) + 2 - number * (SEQUENCE_BITS / 32), WORDS) - 1;
        for (uint32_t i = threadIdx.x; i <= last; i += THREADS) {
            words[Padded::slot(i)] = from[i];
        }
        return last;
    }
};

// Copies the descriptor of a stream and its codebook to shared memory. Called by the whole block; starts and ends with
// a barrier.
__device__ inline void load_stream(StreamDescriptor &stream, CodebookDescriptor &codebook,
                                   const StreamDescriptor *streams, uint32_t number,
                                   const CodebookDescriptor *codebooks) {
    __syncthreads();
    if (threadIdx.x < sizeof(StreamDescriptor) / 4) {
        reinterpret_cast<uint32_t *>(&stream)[threadIdx.x] =
            reinterpret_cast<const uint32_t *>(&streams[number])[threadIdx.x];
    }
    __syncthreads();
    if (threadIdx.x < sizeof(CodebookDescriptor) / 4) {
        reinterpret_cast<uint32_t *>(&codebook)[threadIdx.x] =
            reinterpret_cast<const uint32_t *>(&codebooks[stream.first_codebook])[threadIdx.x];
    }
    __syncthreads();
}

// Loads the decoding tables, TABLE + LONG_ENTRIES words. The caller must synchronize afterwards, also for the next
// function.
__device__ inline void load_lookup(uint32_t *to, const uint32_t *tables, const StreamDescriptor &stream,
                                   const CodebookDescriptor &codebook) {
    load_decoder_tables(to, tables + uint64_t(stream.first_codebook) * CODEBOOK_WORDS, LONG_ENTRIES, codebook);
}

// Loads the counting tables: COUNTS, and ENDS if `both`.
__device__ inline void load_counts(uint16_t *to, const uint16_t *count_tables, const StreamDescriptor &stream,
                                   bool both) {
    load_words(reinterpret_cast<uint32_t *>(to),
               reinterpret_cast<const uint32_t *>(count_tables + uint64_t(stream.first_codebook) * (COUNTS + ENDS)),
               (both ? COUNTS + ENDS : COUNTS) / 2);
}
