// Zero-bit groups: groups that consist of one symbol and have no codewords, marked in the stream's bitmap.
#pragma once
#include "huffman/decode/decode.cuh"

// Bitmap words and groups that one block of prepare_batch maps.
constexpr uint32_t BITMAP_BLOCK_WORDS = 32;
constexpr uint32_t BITMAP_BLOCK_GROUPS = BITMAP_BLOCK_WORDS * 32;

// Returns a mask of the bits of bitmap word `i` after the last group.
__device__ inline uint32_t bits_past_end(uint32_t groups, uint32_t i) {
    return groups - i * 32 < 32 ? ALL_LANES << (groups - i * 32) : 0;
}

// The zero-bit groups of one bitmap word, which a lane reads and the warp fills. Reading is separate from filling, to
// overlap several reads.
struct ZeroBitFiller {
    uint32_t word, symbol;
    uint64_t to;

    // Reads word `at` of the bitmaps of all streams, each padded to a multiple of BITMAP_BLOCK_WORDS, if `exists`.
    __device__ inline ZeroBitFiller(const uint8_t *input, const StreamDescriptor *streams, uint32_t stream_count,
                                    uint32_t at, bool exists)
        : word(0), symbol(0), to(0) {
        if (exists) {
            const StreamDescriptor &stream = streams[find_stream(
                at / BITMAP_BLOCK_WORDS, stream_count, [&](uint32_t i) { return streams[i].first_bitmap_block; })];
            const uint32_t i = at - stream.first_bitmap_block * BITMAP_BLOCK_WORDS;
            if (stream.has_zero_bit_groups && i * 32 < stream.groups) {
                word = reinterpret_cast<const uint32_t *>(input + stream.bitmap)[i] & ~bits_past_end(stream.groups, i);
                symbol = SYMBOL_BYTES == 1 ? stream.zero_bit_symbol * 0x01010101u : stream.zero_bit_symbol * 0x10001u;
                to = (stream.out + uint64_t(i) * 32 * GROUP) * SYMBOL_BYTES;
            }
        }
    }

    // Called by a warp: all lanes write the groups of each lane's word.
    __device__ inline void fill(uint8_t *out) const {
        constexpr uint32_t UNITS = GROUP * SYMBOL_BYTES / 16;
        for (uint32_t lanes = __ballot_sync(ALL_LANES, word != 0); lanes != 0; lanes &= lanes - 1) {
            const uint32_t lane = __ffs(lanes) - 1;
            const uint32_t bits = __shfl_sync(ALL_LANES, word, lane), filled = __shfl_sync(ALL_LANES, symbol, lane);
            uint4 *group = reinterpret_cast<uint4 *>(out + __shfl_sync(ALL_LANES, to, lane));
            const uint4 value = make_uint4(filled, filled, filled, filled);
#pragma unroll 4
            for (uint32_t i = lane_id(); i < 32 * UNITS; i += WARP) {
                if (bits >> (i / UNITS) & 1) {
                    store_evict_first(&group[i], value);
                }
            }
        }
    }
};

// Fills the zero-bit groups of all streams, an equal share per warp of the grid. Filling is limited by memory and
// decoding by instructions, so decoders call this at different times in different blocks.
__device__ inline void fill_zero_bit_groups(const uint8_t *input, const StreamDescriptor *streams,
                                            uint32_t stream_count, const BatchTotals *totals, uint8_t *out) {
    const uint32_t warps_in_block = blockDim.x / WARP, warp = blockIdx.x * warps_in_block + warp_id();
    const uint32_t words = totals->bitmap_blocks * BITMAP_BLOCK_WORDS;
    const uint32_t share = ceil_div(words, gridDim.x * warps_in_block), first = min_of(words, warp * share);
    const uint32_t end = min_of(words, first + share);
    for (uint32_t base = first; base < end; base += WARP) {
        ZeroBitFiller(input, streams, stream_count, base + lane_id(), base + lane_id() < end).fill(out);
    }
}
