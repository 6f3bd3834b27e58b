// The gap index on the way of encode_write: where the first codeword starts in each subsequence of a stream, now that it is known where in the stream a segment starts.
//
// Our encoder has noted the bits of each few codewords, a piece. Their sums say in which piece each subsequence starts; a lane then walks from the piece's start in the
// segment's slot, over fewer codewords than a piece has. Symbols are not read again.
#pragma once
#include "huffman_encode_scratch.cuh"

// Subsequences that a warp walks to at a time: a lane has a pair, so that gaps of four bits come to whole bytes.
constexpr uint32_t WALKS = 2;
// Leading bits that tell the length of a codeword that has no more. Few have.
constexpr uint32_t LEADING = 12;
constexpr uint32_t STEPS = LONGEST - LEADING <= 8 ? 4 : 8;

// How long codewords are.
struct CodewordLengths {
    uint32_t ends[WARP]; // where the codewords of each length end, those of shorter ones included, in units of 2^-31; of lengths that there are not, beyond all
    alignas(4) uint8_t by_leading[1 << LEADING];

    // Bits of the codeword that a window of 31 bits starts with.
    __device__ inline uint32_t of(uint32_t window) const {
        uint32_t length = by_leading[window >> (31 - LEADING)];
        if (length > LEADING) {
#pragma unroll
            for (uint32_t step = STEPS; step > 0; step /= 2) {
                length += ends[length + step - 1] <= window ? step : 0;
            }
        }
        return length;
    }
};

// Finds them out from a codebook; by a whole block of THREADS_HERE threads.
template <uint32_t THREADS_HERE> __device__ inline void find_lengths(const uint32_t *book, CodewordLengths &lengths) {
    if (threadIdx.x < WARP) {
        lengths.ends[threadIdx.x] = 0;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < ALPHABET; i += THREADS_HERE) {
        const uint32_t length = book[i] >> CODE_BITS, code = book[i] & ((1u << CODE_BITS) - 1);
        if (length > 0) {
            atomicMax(&lengths.ends[length], code + 1 << (31 - length));
        }
    }
    __syncthreads();
    if (warp_id() == 0) {
        uint32_t end = lengths.ends[lane_id()];
#pragma unroll
        for (uint32_t distance = 1; distance < WARP; distance *= 2) {
            end = max_of(end, __shfl_up_sync(ALL_LANES, end, distance));
        }
        lengths.ends[lane_id()] = lane_id() < LONGEST ? end : ALL_LANES;
    }
    __syncthreads();
    // A thread has neighbours, so that it searches once.
    constexpr uint32_t OWN = (1u << LEADING) / THREADS_HERE;
    uint32_t length = 1;
#pragma unroll
    for (uint32_t step = LEADING <= 8 ? 4 : 8; step > 0; step /= 2) {
        length += lengths.ends[length + step - 1] <= threadIdx.x * OWN << (31 - LEADING) ? step : 0;
    }
    static_assert(OWN % 4 == 0, "whole words");
    for (uint32_t first = threadIdx.x * OWN; first < (threadIdx.x + 1) * OWN; first += 4) {
        uint32_t four = 0;
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
            while (length <= LEADING && lengths.ends[length] <= first + i << (31 - LEADING)) {
                ++length;
            }
            four |= min_of<uint32_t>(length, LEADING + 1) << 8 * i;
        }
        reinterpret_cast<uint32_t *>(lengths.by_leading)[first / 4] = four;
    }
    __syncthreads();
}

// Where the gaps of a stream go.
struct Gaps {
    uint8_t *to; // a multiple of 4
    uint32_t count;
    bool wide; // a byte each; else half of one

    // Half a byte of which another warp has the other half.
    __device__ inline void set_half(uint32_t which, uint32_t gap) const {
        uint32_t *word = reinterpret_cast<uint32_t *>(to) + which / 8;
        atomicAnd(word, ~(0xFu << which % 8 * 4));
        atomicOr(word, gap << which % 8 * 4);
    }
    // The gaps of two subsequences, of which the first is even, as far as they are `there`.
    __device__ inline void set(uint32_t first, const uint32_t (&gaps)[WALKS], const bool (&there)[WALKS]) const {
        if (wide) {
            if (there[0]) {
                to[first] = gaps[0];
            }
            if (there[1]) {
                to[first + 1] = gaps[1];
            }
        } else if (there[0] && (there[1] || first + 1 == count)) {
            to[first / 2] = gaps[0] | (there[1] ? gaps[1] << 4 : 0);
        } else if (there[0]) {
            set_half(first, gaps[0]);
        } else if (there[1]) {
            set_half(first + 1, gaps[1]);
        }
    }
};

// A segment, as its gaps are found: where its codewords, the bits of its groups and of its pieces are, and where in the stream it starts.
struct NotedSegment {
    const uint32_t *slot;
    const uint16_t *group_bits;
    const uint32_t *pieces;
    uint32_t start, bits, groups;
    bool first_of_stream;
};

constexpr uint32_t GROUP_PIECE_WORDS = LANES_IN_GROUP * PIECE_WORDS;

// Where in the segment the piece starts that has bit `to - 1`; `ends` has where its groups end.
__device__ inline uint32_t piece_start(const uint32_t *ends, const uint32_t *pieces, uint32_t to) {
    uint32_t group = 0;
#pragma unroll
    for (uint32_t step = SEGMENT_GROUPS / 2; step > 0; step /= 2) {
        group += ends[group + step - 1] < to ? step : 0;
    }
    uint32_t at = group == 0 ? 0 : ends[group - 1];
    uint32_t words[GROUP_PIECE_WORDS];
#pragma unroll
    for (uint32_t i = 0; i < GROUP_PIECE_WORDS / 4; ++i) {
        const uint4 four = __ldg(&reinterpret_cast<const uint4 *>(pieces)[group * (GROUP_PIECE_WORDS / 4) + i]);
        words[4 * i] = four.x;
        words[4 * i + 1] = four.y;
        words[4 * i + 2] = four.z;
        words[4 * i + 3] = four.w;
    }
    uint32_t end = at, word = words[0];
#pragma unroll
    for (uint32_t i = 0; i + 1 < GROUP_PIECE_WORDS; ++i) {
        end = __dp4a(words[i], 0x01010101u, end);
        at = end < to ? end : at;
        word = end < to ? words[i + 1] : word;
    }
#pragma unroll
    for (uint32_t i = 0; i < 3; ++i) {
        const bool behind = at + (word & 0xFF) < to;
        at += behind ? word & 0xFF : 0;
        word >>= behind ? 8 : 0;
    }
    return at;
}

// Writes the gaps of the subsequences that start in a segment or at its end; by a warp, which has `ends` of SEGMENT_GROUPS places for itself.
__device__ inline void write_gaps(const NotedSegment &segment, const Gaps &gaps, const CodewordLengths &lengths, uint32_t *ends) {
    uint32_t before = 0;
#pragma unroll 4
    for (uint32_t first = 0; first < SEGMENT_GROUPS; first += WARP) {
        const uint32_t group = first + lane_id(), through = warp_scan_inclusive(group < segment.groups ? uint32_t(segment.group_bits[group]) : 0u);
        if (group < SEGMENT_GROUPS) {
            ends[group] = before + through;
        }
        before += __shfl_sync(ALL_LANES, through, WARP - 1);
    }
    __syncwarp();
    const uint32_t last_word = max_of(segment.bits, 1u) - 1 >> 5;
    // Counted from the stream's start. One that starts where the segment does is the segment's before.
    const uint32_t first = segment.first_of_stream ? 0 : segment.start / SUBSEQUENCE + 1;
    const uint32_t end = min_of((segment.start + segment.bits) / SUBSEQUENCE + 1, gaps.count);
#pragma unroll 1
    for (uint32_t pair = first / WALKS * WALKS + lane_id() * WALKS; pair - lane_id() * WALKS < end; pair += WALKS * WARP) {
        uint32_t at[WALKS], to[WALKS], high[WALKS], low[WALKS];
        bool there[WALKS];
#pragma unroll
        for (uint32_t i = 0; i < WALKS; ++i) {
            there[i] = pair + i >= first && pair + i < end;
            to[i] = (pair + i) * SUBSEQUENCE - segment.start;
            at[i] = to[i];
            high[i] = low[i] = 0;
            if (there[i] && to[i] > 0) {
                at[i] = piece_start(ends, segment.pieces, to[i]);
                const uint32_t word = at[i] / 32;
                // The piece's bits are the slot's; what is read instead of words behind them is not used.
                const uint32_t one = __ldg(&segment.slot[word]), two = __ldg(&segment.slot[min_of(word + 1, last_word)]),
                               three = __ldg(&segment.slot[min_of(word + 2, last_word)]);
                high[i] = __funnelshift_l(two, one, at[i]);
                low[i] = __funnelshift_l(three, two, at[i]);
            }
        }
#pragma unroll
        for (uint32_t step = 0; step < JOINED; ++step) {
#pragma unroll
            for (uint32_t i = 0; i < WALKS; ++i) {
                const uint32_t length = at[i] < to[i] ? lengths.of(high[i] >> 1) : 0;
                at[i] += length;
                high[i] = __funnelshift_l(low[i], high[i], length);
                low[i] <<= length;
            }
        }
        const uint32_t found[WALKS] = {at[0] - to[0], at[1] - to[1]};
        gaps.set(pair, found, there);
    }
}
