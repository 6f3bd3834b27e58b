// Reads packed bases of tiles, or numbers that are packed like them. The input is not trusted.
//
// THREADS  threads of a block, at least MOST_BLOCKS
#pragma once
#include "device/block.cuh"
#include "lossless/record_headers.cuh"
#include "zigzag.cuh"

// Maximum tiles of a chunk: 2^22 elements in tiles of 512 before clipping.
constexpr uint32_t MOST_TILES = 8192, BLOCK_TILES = format::BASES_IN_BLOCK, MOST_BLOCKS = MOST_TILES / BLOCK_TILES;

// Reads the bases of `tiles` tiles, which fill a section. Returns whether it is valid. `words_before` is shared memory
// for MOST_BLOCKS words. Called by the whole block.
template <typename Word>
__device__ inline bool read_bases(const uint8_t *section, uint32_t bytes, uint32_t tiles, Word *bases,
                                  uint64_t *warp_sums, uint32_t *words_before) {
    const uint32_t blocks = ceil_div(tiles, BLOCK_TILES), width_bytes = uint32_t(aligned(blocks, 4));
    if (bytes < width_bytes) {
        return false;
    }
    uint64_t total;
    const uint32_t own_width = threadIdx.x < blocks ? section[threadIdx.x] : 0;
    const uint64_t own = block_exclusive_sum<THREADS, uint64_t>(own_width, warp_sums, total);
    if (threadIdx.x < blocks) {
        words_before[threadIdx.x] = uint32_t(own);
    }
    const bool bad = __syncthreads_or(own_width > 64);
    if (bad || bytes != width_bytes + 4 * total || !all_zero(section, blocks, width_bytes)) {
        return false;
    }
    const uint32_t *words = reinterpret_cast<const uint32_t *>(section + width_bytes);
    uint64_t before = 0;
    for (uint32_t strip = 0; strip < tiles; strip += THREADS) {
        const uint32_t tile = strip + threadIdx.x, block = tile / BLOCK_TILES;
        uint64_t value = 0;
        if (tile < tiles) {
            const uint32_t width = section[block];
            if (width > 0) {
                const uint32_t *packed = words + words_before[block];
                const uint32_t bit = lane_id() * width, last = (bit + width - 1) / 32;
                value = packed[bit / 32] >> bit % 32;
                for (uint32_t word = bit / 32 + 1; word <= last; ++word) {
                    value |= uint64_t(packed[word]) << (word * 32 - bit);
                }
                value &= ~0ull >> (64 - width);
            }
        }
        // Differences of fewer bits overflow in the same way when they are summed with 64 bits.
        const uint64_t difference = of_zigzag(Word(value));
        const uint64_t exclusive = before + block_exclusive_sum<THREADS, uint64_t>(difference, warp_sums, total);
        before += total;
        if (tile < tiles) {
            bases[tile] = Word(exclusive + difference);
        }
    }
    return true;
}
