// Decodes the bitmaps of masks: one for each block of threads, of which one thread works, because each bit depends on
// those before.
#include "blocks/blocks.cuh"
#include "blocks/masks.cuh"
#include "blocks/rans.cuh"
#include "container/parsed.cuh"
#include "device/sync.cuh"

// Elements of a row that are coded as one if they have the same bit.
constexpr uint32_t SEGMENT = 16;
constexpr uint32_t CONTEXTS_OF_BITS = 1u << 10, CONTEXTS_OF_SEGMENTS = 27;
constexpr uint32_t CODED_LOG2 = 12;

// How probable a set bit is in a context, and how often the context was met, up to where that matters.
struct Model {
    uint16_t probability; // in units of 2^-16; never 1
    uint16_t met;
};

struct Models {
    Model of_bits[CONTEXTS_OF_BITS], of_mixed[CONTEXTS_OF_SEGMENTS], of_set[CONTEXTS_OF_SEGMENTS];
};

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
        // Visits 0 to 11 learn with the rates 1, 2, 2, 3, 3, 3, 3, and 4; all others with 5.
        const uint32_t rate = model.met == 0 ? 1 : model.met < 3 ? 2 : model.met < 7 ? 3 : model.met < 12 ? 4 : 5;
        model.met += model.met < 12;
        uint32_t probability = model.probability;
        const uint32_t frequency = min_of(max_of(probability >> (16 - CODED_LOG2), 1u), (1u << CODED_LOG2) - 1);
        const uint32_t slot = state & ((1u << CODED_LOG2) - 1);
        const bool bit = slot < frequency;
        state = bit ? frequency * (state >> CODED_LOG2) + slot
                    : ((1u << CODED_LOG2) - frequency) * (state >> CODED_LOG2) + slot - frequency;
        if (state < LOWEST) {
            state = state << 16 | (at < count ? words[at] : 0);
            ++at;
        }
        probability = bit ? probability + ((65536 - probability) >> rate) : probability - (probability >> rate);
        model.probability = uint16_t(probability);
        return bit;
    }
    __device__ inline bool is_finished() const { return state == LOWEST && at == count; }
};

// A bit of each element of a block.
struct Bitmap {
    uint32_t *words;

    __device__ inline bool get(uint32_t i) const { return words[i / 32] >> i % 32 & 1; }
    // Sets a bit that is 0.
    __device__ inline void set(uint32_t i) const { words[i / 32] |= 1u << i % 32; }
};

// Returns the context of an element: ten bits before it.
__device__ inline uint32_t context_of(const Bitmap &bits, uint32_t at, uint32_t z, uint32_t y, uint32_t x, uint32_t ny,
                                      uint32_t nx) {
    const uint32_t plane = ny * nx;
    const auto before = [&](bool exists, uint32_t distance, uint32_t place) {
        return exists && bits.get(at - distance) ? 1u << place : 0;
    };
    return before(x > 0, 1, 0) | before(x > 1, 2, 1) | before(y > 0, nx, 2) | before(y > 0 && x > 0, nx + 1, 3) |
           before(y > 0 && x + 1 < nx, nx - 1, 4) | before(y > 1, 2 * nx, 5) | before(z > 0, plane, 6) |
           before(z > 0 && x + 1 < nx, plane - 1, 7) | before(z > 0 && y + 1 < ny, plane - nx, 8) |
           before(z > 0 && x > 0, plane + 1, 9);
}

// Reads a bitmap to `bits`, which are 0. `mixed` has a bit for the first element of each segment, 0 before as well.
// Returns whether it is valid.
__device__ inline bool read_bitmap(BitDecoder &decoder, const Tile &tile, const Bitmap &bits, const Bitmap &mixed,
                                   Models &models) {
    const uint32_t nz = tile.nz, ny = tile.ny, nx = tile.nx, plane = ny * nx;
    for (uint32_t z = 0; z < nz; ++z) {
        for (uint32_t y = 0; y < ny; ++y) {
            const uint32_t row = z * plane + y * nx;
            for (uint32_t x = 0; x < nx; x += SEGMENT) {
                const uint32_t from = row + x, to = row + min_of(x + SEGMENT, nx);
                const auto state = [&](bool exists, uint32_t distance) {
                    const uint32_t of = from - (exists ? distance : 0);
                    return !exists ? 0u : mixed.get(of) ? 2u : bits.get(of) ? 1u : 0u;
                };
                const uint32_t context = state(x > 0, SEGMENT) + 3 * state(y > 0, nx) + 9 * state(z > 0, plane);
                if (decoder.next(models.of_mixed[context])) {
                    mixed.set(from);
                    for (uint32_t at = from; at < to; ++at) {
                        if (decoder.next(models.of_bits[context_of(bits, at, z, y, at - row, ny, nx)])) {
                            bits.set(at);
                        }
                    }
                } else if (decoder.next(models.of_set[context])) {
                    for (uint32_t at = from; at < to; ++at) {
                        bits.set(at);
                    }
                }
            }
        }
    }
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
    Model *all = models.of_bits;
    for (uint32_t i = lane_id(); i < sizeof(Models) / sizeof(Model); i += WARP) {
        all[i] = Model{1u << 15, 0};
    }
    __syncwarp();
    if (lane_id() == 0) {
        const BlockMask mask = blocks.masks[number];
        BitDecoder decoder(input + mask.offset, mask.words);
        const bool is_good = mask.words >= 2 && decoder.state >= LOWEST;
        if (!is_good || !read_bitmap(decoder, tile, Bitmap{bits}, Bitmap{mixed}, models)) {
            atomicOr(&parsed.problems[chunk * PROBLEM_WORDS + DECODE_PROBLEM], PROBLEM_BLOCK);
        }
    }
}
