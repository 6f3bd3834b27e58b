// The strips of a tile as bits.
#pragma once
#include "strips/bits.cuh"
#include "strips/tile_strips.cuh"

// Codewords times 256 plus their lengths, by symbol; 0 for symbols without one.
struct Codewords {
    const uint32_t *of;

    __device__ inline bool has(uint32_t symbol) const { return __ldg(of + symbol) != 0; }
    __device__ inline uint32_t operator[](uint32_t symbol) const { return __ldg(of + symbol); }
};

// Returns the bits of a value that is not 0, and of the zeros in front of it.
__device__ inline uint32_t bits_of_value(uint32_t zeros, int32_t value, bool is_dense, const Codewords &codewords) {
    uint32_t bits = 0;
    for_symbols(
        zeros, value, is_dense, [&](uint32_t symbol) { return codewords.has(symbol); },
        [&](uint32_t symbol, uint32_t, uint32_t extra_bits) { bits += (codewords[symbol] & 0xFF) + extra_bits; });
    return bits;
}

// Computes where strips start: their bits are measured. All lanes call this.
__device__ inline void measure_strips(const TileStrips &counts, const int32_t *codes, bool is_dense,
                                      const Codewords &of_codes, const Codewords &of_bitmaps, StripScratch &scratch) {
#pragma unroll 1
    for (uint32_t strip = 0; strip < counts.count(); ++strip) {
        const bool is_bitmap = strip < counts.of_bitmaps();
        const Codewords codewords = is_bitmap ? of_bitmaps : of_codes;
        uint32_t bits = 0;
        StripValues(counts, scratch, codes, strip).for_each([&](uint32_t zeros, int32_t value) {
            bits += value != 0 ? bits_of_value(zeros, value, is_dense && !is_bitmap, codewords) : 0;
        });
        bits = warp_reduce_sum(bits);
        if (lane_id() == 0) {
            scratch.starts[strip] = bits;
        }
    }
    __syncwarp();
    static_assert(STRIPS < WARP, "a lane for each strip and the end of the last");
    const uint32_t strip = lane_id(), own = strip < counts.count() ? scratch.starts[strip] : 0,
                   through = warp_inclusive_sum(own);
    if (strip <= counts.count()) {
        scratch.starts[strip] = through - own;
    }
    __syncwarp();
}

// Writes the bits of all strips to `to`, in device memory, after `measure_strips`. All lanes call this.
__device__ inline void write_strips(const TileStrips &counts, const int32_t *codes, bool is_dense,
                                    const Codewords &of_codes, const Codewords &of_bitmaps, StripScratch &scratch,
                                    uint32_t *to) {
    for (uint32_t i = lane_id(); i < ceil_div(scratch.starts[counts.count()], 32); i += WARP) {
        to[i] = 0;
    }
    __syncwarp();
    uint32_t *words = scratch.words;
#pragma unroll 1
    for (uint32_t strip = 0; strip < counts.count(); ++strip) {
        const uint32_t start = scratch.starts[strip], end = scratch.starts[strip + 1];
        if (start == end) {
            continue;
        }
        const uint32_t skipped = start % 32, length = ceil_div(skipped + end - start, 32);
        for (uint32_t i = lane_id(); i < length; i += WARP) {
            words[i] = 0;
        }
        const bool is_bitmap = strip < counts.of_bitmaps(), is_strip_dense = is_dense && !is_bitmap;
        const Codewords codewords = is_bitmap ? of_bitmaps : of_codes;
        uint32_t position = skipped;
        StripValues(counts, scratch, codes, strip).for_each([&](uint32_t zeros, int32_t value) {
            const uint32_t bits = value != 0 ? bits_of_value(zeros, value, is_strip_dense, codewords) : 0,
                           through = warp_inclusive_sum(bits);
            if (value != 0) {
                BitPacker packer(words, position + through - bits);
                for_symbols(
                    zeros, value, is_strip_dense, [&](uint32_t symbol) { return codewords.has(symbol); },
                    [&](uint32_t symbol, uint32_t extra, uint32_t extra_bits) {
                        const uint32_t codeword = codewords[symbol];
                        packer.put(codeword >> 8, codeword & 0xFF);
                        packer.put(extra, extra_bits);
                    });
                packer.finish();
            }
            position += __shfl_sync(ALL_LANES, through, WARP - 1);
        });
        __syncwarp();
        // The first and the last word may have bits of the strips before and after.
        uint32_t *own = to + start / 32;
        for (uint32_t i = lane_id(); i < length; i += WARP) {
            if (i == 0 || i == length - 1) {
                atomicOr(&own[i], words[i]);
            } else {
                own[i] = words[i];
            }
        }
        __syncwarp();
    }
}
