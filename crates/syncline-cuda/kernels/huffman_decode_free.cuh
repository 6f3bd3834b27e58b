// Free groups: those that a stream's bitmap says consist of one symbol.
#pragma once
#include "huffman_decode.cuh"

// Groups that a block of decode_place looks after, and their words of the bitmap.
constexpr uint32_t PLACED_WORDS = 32;
constexpr uint32_t PLACED = PLACED_WORDS * 32;

// Word `i` of a stream's bitmap, `past` for groups that are not there. The bitmap's last word is whole: other parts follow.
__device__ inline uint32_t free_word(const uint32_t *bitmap, uint32_t groups, uint32_t i, bool past) {
    const uint32_t word = bitmap[i], groups_left = groups - i * 32;
    const uint32_t none = groups_left < 32 ? ALL_LANES << groups_left : 0;
    return past ? word | none : word & ~none;
}

// Fills the free groups of all streams, of `warps` warps number `warp` its equal share. Memory is what limits that, where it is instructions for decoding: decoders do it at different
// times in different blocks, beside decoding in others.
__device__ inline void fill_free(const uint8_t *input, const Stream *streams, uint32_t stream_count, const Totals *totals, uint32_t warp, uint32_t warps, uint8_t *out) {
    constexpr uint32_t UNITS = GROUP * SYMBOL_BYTES / 16;
    const uint32_t words = totals->placings * PLACED_WORDS;
    const uint32_t share = ceil_div(words, warps), first = min_of(words, warp * share);
    const uint32_t end = min_of(words, first + share);
    for (uint32_t base = first; base < end; base += WARP) {
        // A lane reads a word of the bitmap, all write what it says.
        const uint32_t at = base + lane_id();
        uint32_t word = 0, symbol = 0;
        uint64_t to = 0;
        if (at < end) {
            const Stream &stream = streams[stream_of(at / PLACED_WORDS, stream_count, [&](uint32_t i) { return streams[i].first_placing; })];
            const uint32_t i = at - stream.first_placing * PLACED_WORDS;
            if (stream.has_free && i * 32 < stream.groups) {
                word = free_word(reinterpret_cast<const uint32_t *>(input + stream.bitmap), stream.groups, i, false);
                symbol = SYMBOL_BYTES == 1 ? stream.free_symbol * 0x01010101u : stream.free_symbol * 0x10001u;
                to = (stream.out + uint64_t(i) * 32 * GROUP) * SYMBOL_BYTES;
            }
        }
        for (uint32_t lanes = __ballot_sync(ALL_LANES, word != 0); lanes != 0; lanes &= lanes - 1) {
            const uint32_t lane = __ffs(lanes) - 1;
            const uint32_t bits = __shfl_sync(ALL_LANES, word, lane), filled = __shfl_sync(ALL_LANES, symbol, lane);
            uint4 *group = reinterpret_cast<uint4 *>(out + __shfl_sync(ALL_LANES, to, lane));
            const uint4 value = make_uint4(filled, filled, filled, filled);
#pragma unroll 4
            for (uint32_t i = lane_id(); i < 32 * UNITS; i += WARP) {
                if (bits >> (i / UNITS) & 1) {
                    store_streaming(&group[i], value);
                }
            }
        }
    }
}

// The same by all warps of a grid.
__device__ inline void fill_free(const uint8_t *input, const Stream *streams, uint32_t stream_count, const Totals *totals, uint8_t *out) {
    const uint32_t warps = blockDim.x / WARP;
    fill_free(input, streams, stream_count, totals, blockIdx.x * warps + warp_id(), gridDim.x * warps, out);
}
