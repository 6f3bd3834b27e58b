// The gap index: the first codeword of each subsequence of a stream, computed by streams_write when the positions of
// the segments are known. The gap array is that of Yamamoto et al., "Huffman Coding with Gap Arrays for GPU
// Acceleration" (ICPP 2020).
//
// The encoder has recorded the length of each codeword, and where in the warp's round the codewords of each lane end.
// The lane in whose symbols a subsequence starts stores that start in shared memory, so that afterwards each lane
// computes one gap, regardless of the lengths of the codewords before it.
#pragma once
#include "huffman/encode/scratch.cuh"

// The gap index of a stream.
struct Gaps {
    uint8_t *to; // a multiple of 4
    uint32_t count;
    bool wide; // a byte for each gap, else half a byte

    // Sets half of a byte whose other half another warp sets.
    __device__ inline void set_half(uint32_t index, uint32_t gap) const {
        uint32_t *word = reinterpret_cast<uint32_t *>(to) + index / 8;
        atomicAnd(word, ~(0xFu << index % 8 * 4));
        atomicOr(word, gap << index % 8 * 4);
    }
    // Sets the gaps of two subsequences, of which the first is even, as far as they exist.
    __device__ inline void set(uint32_t first, const uint32_t (&gaps)[2], const bool (&exists)[2]) const {
        if (wide) {
            if (exists[0]) {
                to[first] = gaps[0];
            }
            if (exists[1]) {
                to[first + 1] = gaps[1];
            }
        } else if (exists[0] && (exists[1] || first + 1 == count)) {
            to[first / 2] = gaps[0] | (exists[1] ? gaps[1] << 4 : 0);
        } else if (exists[0]) {
            set_half(first, gaps[0]);
        } else if (exists[1]) {
            set_half(first + 1, gaps[1]);
        }
    }
};

// A segment whose gaps are computed: its recorded lengths, and its start in the stream in bits.
struct RecordedSegment {
    const uint32_t *lengths_of_codewords;
    uint32_t start, groups;
    bool first_of_stream;
};

// Rounds of the encoder that are processed together, and the maximum number of subsequences that start in a lane's
// symbols of one round, and in all these rounds.
constexpr uint32_t GAP_ROUNDS = 8;
constexpr uint32_t LANE_STARTS = (LANE_SYMBOLS * LONGEST + SUBSEQUENCE_BITS - 1) / SUBSEQUENCE_BITS;
constexpr uint32_t MAX_STARTS = GAP_ROUNDS * WARP_SYMBOLS * LONGEST / SUBSEQUENCE_BITS + 1;

// Returns the distance from bit `to`, counted from 1, to the start of the next codeword, given the lengths of
// LANE_SYMBOLS codewords minus 1.
__device__ inline uint32_t gap_of(const uint32_t *lengths, uint32_t to) {
    // Sums of two lengths or single lengths, four to a word, so that all sums fit into bytes.
    constexpr uint32_t LOW = LENGTH_BITS == 4 ? 0x0F0F0F0Fu : 0xFFFFFFFFu, ONES = 0x01010101u;
    uint32_t word = 0, ends = 0;
    bool found = false;
#pragma unroll
    for (uint32_t i = 0; i < LENGTH_WORDS; ++i) {
        const uint32_t own = lengths[i];
        const uint32_t sums = LENGTH_BITS == 4 ? (own & LOW) + (own >> 4 & LOW) + 2 * ONES : own + ONES;
        const uint32_t own_ends = sums * ONES, all = own_ends >> 24;
        if (!found) {
            word = own;
            ends = own_ends;
            found = to <= all;
            to -= found ? 0 : all;
        }
    }
    // The highest bit of a byte tells whether that end is before `to`, because both are at most 128.
    const uint32_t before = __popc((to + 127) * ONES - ends & 0x80808080u);
    const uint32_t end = (ends >> before % 4 * 8 & 0xFF) - to;
    const uint32_t last = (word >> (before % 4 * 8 + 4) & 0xF) + 1;
    return LENGTH_BITS == 4 && end >= last ? end - last : end;
}

// Writes the gaps of the subsequences that start in a segment or at its end; called by a warp.
__device__ inline void write_gaps(const RecordedSegment &segment, const Gaps &gaps) {
    __shared__ uint32_t starts[WRITE_THREADS / WARP][MAX_STARTS];
    uint32_t *own = starts[warp_id()];
    const uint16_t *recorded_ends =
        reinterpret_cast<const uint16_t *>(segment.lengths_of_codewords + SEGMENT_LANES * LENGTH_WORDS) + lane_id();
    const uint32_t rounds = ceil_div(segment.groups * GROUP, WARP_SYMBOLS);
    // The first gap of a stream is 0. A subsequence that starts at the start of a segment belongs to the previous
    // segment.
    uint32_t at = segment.start, first = at / SUBSEQUENCE_BITS + 1;
    if (segment.first_of_stream && gaps.count > 0 && lane_id() == 0) {
        const uint32_t none[2] = {0, 0};
        const bool exists[2] = {true, false};
        gaps.set(0, none, exists);
    }
#pragma unroll 1
    for (uint32_t round = 0; round < rounds; round += GAP_ROUNDS) {
        uint32_t ends[GAP_ROUNDS];
#pragma unroll
        for (uint32_t r = 0; r < GAP_ROUNDS; ++r) {
            ends[r] = round + r < rounds ? recorded_ends[(round + r) * WARP] : 0;
        }
#pragma unroll
        for (uint32_t r = 0; r < GAP_ROUNDS; ++r) {
            const uint32_t before = __shfl_up_sync(ALL_LANES, ends[r], 1);
            const uint32_t from = at + (lane_id() == 0 ? 0 : before), to = at + ends[r];
            uint32_t start = from / SUBSEQUENCE_BITS + 1;
#pragma unroll
            for (uint32_t i = 0; i < LANE_STARTS; ++i, ++start) {
                if (start * SUBSEQUENCE_BITS <= to) {
                    own[start - first] = ((round + r) * WARP + lane_id()) << 16 | (start * SUBSEQUENCE_BITS - from);
                }
            }
            at += __shfl_sync(ALL_LANES, ends[r], WARP - 1);
        }
        __syncwarp();
        const uint32_t end = min_of(at / SUBSEQUENCE_BITS + 1, gaps.count);
        for (uint32_t index = first / 2 * 2 + lane_id(); index - lane_id() < end; index += WARP) {
            const bool exists = index >= first && index < end;
            uint32_t gap = 0;
            if (exists) {
                const uint32_t start = own[index - first];
                uint32_t lengths[LENGTH_WORDS];
#pragma unroll
                for (uint32_t w = 0; w < LENGTH_WORDS; w += 2) {
                    const uint2 two = reinterpret_cast<const uint2 *>(
                        segment.lengths_of_codewords)[(start >> 16) * (LENGTH_WORDS / 2) + w / 2];
                    lengths[w] = two.x;
                    lengths[w + 1] = two.y;
                }
                gap = gap_of(lengths, start & 0xFFFF);
            }
            const uint32_t next = __shfl_down_sync(ALL_LANES, gap, 1);
            const bool next_there = __shfl_down_sync(ALL_LANES, uint32_t(exists), 1);
            if (lane_id() % 2 == 0) {
                const uint32_t found[2] = {gap, next};
                const bool both[2] = {exists, next_there};
                gaps.set(index, found, both);
            }
        }
        first = at / SUBSEQUENCE_BITS + 1;
        __syncwarp();
    }
}
