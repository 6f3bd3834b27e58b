// Decodes the bitmaps of masks: one for each block of threads, of which one thread works, because each bit depends on
// those before.
#include "blocks/bitmap.cuh"
#include "blocks/masks.cuh"
#include "container/parsed.cuh"
#include "device/sync.cuh"

// The decoder of one thread.
struct BitDecoder {
    const uint16_t *words;
    uint32_t count, at, state;

    __device__ inline BitDecoder(const uint8_t *bytes, uint32_t words_given)
        : words(reinterpret_cast<const uint16_t *>(bytes)), count(words_given), at(2), state() {
        if (count >= 2) {
            state = words[0] | uint32_t(words[1]) << 16;
        }
    }
    __device__ inline bool next(Model &model) {
        const uint32_t frequency = model.frequency(), slot = state & ((1u << CODED_LOG2) - 1);
        const bool bit = slot < frequency;
        state = bit ? frequency * (state >> CODED_LOG2) + slot
                    : ((1u << CODED_LOG2) - frequency) * (state >> CODED_LOG2) + slot - frequency;
        if (state < LOWEST_OF_BITS) {
            state = state << 16 | (at < count ? words[at] : 0);
            ++at;
        }
        model.learn(bit);
        return bit;
    }
    __device__ inline bool is_finished() const { return state == LOWEST_OF_BITS && at == count; }
};

// Reads a bitmap to `bits`, which are 0. `mixed` has a bit for the first element of each segment, 0 before as well.
// Returns whether it is valid.
__device__ inline bool read_bitmap(BitDecoder &decoder, const Tile &tile, const Bitmap &bits, const Bitmap &mixed,
                                   Models &models) {
    for_each_segment(tile, [&](const Segment &segment) {
        const uint32_t context = segment.context(bits, mixed);
        if (decoder.next(models.of_mixed[context])) {
            mixed.set(segment.from);
            for (uint32_t at = segment.from; at < segment.to; ++at) {
                if (decoder.next(models.of_bits[segment.context_of(bits, at)])) {
                    bits.set(at);
                }
            }
        } else if (decoder.next(models.of_set[context])) {
            for (uint32_t at = segment.from; at < segment.to; ++at) {
                bits.set(at);
            }
        }
    });
    return decoder.is_finished();
}

extern "C" __global__ void __launch_bounds__(32)
    blocks_read_masks(const uint8_t *input, const __grid_constant__ Geometry geometry,
                      const __grid_constant__ Parsed parsed, const __grid_constant__ ParsedBlocks blocks,
                      uint64_t first_tile, uint64_t tiles_start, uint64_t tiles_end) {
    __shared__ Models models;
    launch_dependents_and_wait();
    const uint32_t number = blockIdx.x, tile_number = number / blocks.masks_of_block;
    const uint32_t chunk = tile_number / parsed.tiles;
    const uint64_t in_array = first_tile + tile_number;
    if (in_array < tiles_start || in_array >= tiles_end || !chunk_is_valid(parsed, chunk) ||
        parsed.chunks[chunk].kind == KIND_RAW || blocks.masks[number].kind != MASK_BITMAP) {
        return;
    }
    const Tile tile = geometry.tile(in_array);
    const uint32_t words = ceil_div(tile.elements(), 32);
    // The bits, and behind them those of mixed segments.
    uint32_t *bits = blocks.bitmaps + uint64_t(number) * 2 * blocks.bitmap_words, *mixed = bits + blocks.bitmap_words;
    for (uint32_t i = lane_id(); i < words; i += WARP) {
        bits[i] = 0;
        mixed[i] = 0;
    }
    models.clear();
    __syncwarp();
    if (lane_id() == 0) {
        const BlockMask mask = blocks.masks[number];
        BitDecoder decoder(input + mask.offset, mask.words);
        const bool is_good = mask.words >= 2 && decoder.state >= LOWEST_OF_BITS;
        if (!is_good || !read_bitmap(decoder, tile, Bitmap{bits}, Bitmap{mixed}, models)) {
            atomicOr(&parsed.problems[chunk * PROBLEM_WORDS + DECODE_PROBLEM], PROBLEM_BLOCK);
        }
    }
}
