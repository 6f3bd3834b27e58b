// Bitmaps of blocks: rANS with probabilities that adapt to the bits before (docs/FORMAT.md, "Masks").
#pragma once
#include "device/warp.cuh"
#include "geometry.cuh"

// Elements of a row that are coded as one if they have the same bit.
constexpr uint32_t SEGMENT = 16;
constexpr uint32_t CONTEXTS_OF_BITS = 1u << 10, CONTEXTS_OF_SEGMENTS = 27;
constexpr uint32_t MODEL_LOG2 = 16, CODED_LOG2 = 12;
constexpr uint32_t LOWEST_OF_BITS = 1u << 16;

// How probable a set bit is in a context, and how often the context was met, up to where that matters.
struct Model {
    uint16_t probability; // in units of 2^-16
    uint16_t met;

    // Returns the frequency of a set bit.
    __device__ inline uint32_t frequency() const {
        return min_of(max_of(uint32_t(probability) >> (MODEL_LOG2 - CODED_LOG2), 1u), (1u << CODED_LOG2) - 1);
    }
    // Learns a bit: fast at first, then slowly.
    __device__ inline void learn(bool bit) {
        const uint32_t rate = met == 0 ? 1 : met < 3 ? 2 : met < 7 ? 3 : met < 12 ? 4 : 5, old = probability;
        met += met < 12;
        probability = uint16_t(bit ? old + (((1u << MODEL_LOG2) - old) >> rate) : old - (old >> rate));
    }
};

struct Models {
    Model of_bits[CONTEXTS_OF_BITS], of_mixed[CONTEXTS_OF_SEGMENTS], of_set[CONTEXTS_OF_SEGMENTS];

    // Called by a whole warp.
    __device__ inline void clear() {
        for (uint32_t i = lane_id(); i < sizeof(Models) / sizeof(Model); i += WARP) {
            of_bits[i] = Model{1u << (MODEL_LOG2 - 1), 0};
        }
    }
};

// A bit of each element of a block.
struct Bitmap {
    uint32_t *words;

    __device__ inline bool get(uint32_t i) const { return (words[i / 32] >> i % 32 & 1) != 0; }
    // Sets a bit that is 0.
    __device__ inline void set(uint32_t i) const { words[i / 32] |= 1u << i % 32; }
};

// Elements of a row that are coded together.
struct Segment {
    uint32_t z, y, x, ny, nx;
    uint32_t from, to; // elements in the block

    // Returns the context of whether the segment is mixed, and whether it is set. A mixed segment has the bit of its
    // first element in `mixed`.
    __device__ inline uint32_t context(const Bitmap &bits, const Bitmap &mixed) const {
        const auto state = [&](bool exists, uint32_t distance) {
            const uint32_t of = from - (exists ? distance : 0);
            return !exists ? 0u : mixed.get(of) ? 2u : bits.get(of) ? 1u : 0u;
        };
        return state(x > 0, SEGMENT) + 3 * state(y > 0, nx) + 9 * state(z > 0, ny * nx);
    }
    // Returns the context of an element: ten bits before it.
    __device__ inline uint32_t context_of(const Bitmap &bits, uint32_t at) const {
        const uint32_t plane = ny * nx, x = this->x + (at - from);
        const auto before = [&](bool exists, uint32_t distance, uint32_t place) {
            return exists && bits.get(at - distance) ? 1u << place : 0;
        };
        return before(x > 0, 1, 0) | before(x > 1, 2, 1) | before(y > 0, nx, 2) | before(y > 0 && x > 0, nx + 1, 3) |
               before(y > 0 && x + 1 < nx, nx - 1, 4) | before(y > 1, 2 * nx, 5) | before(z > 0, plane, 6) |
               before(z > 0 && x + 1 < nx, plane - 1, 7) | before(z > 0 && y + 1 < ny, plane - nx, 8) |
               before(z > 0 && x > 0, plane + 1, 9);
    }
};

// Visits the segments of a block in order.
template <typename Visit> __device__ inline void for_each_segment(const Tile &tile, Visit visit) {
    for (uint32_t z = 0; z < tile.nz; ++z) {
        for (uint32_t y = 0; y < tile.ny; ++y) {
            const uint32_t row = (z * tile.ny + y) * tile.nx;
            for (uint32_t x = 0; x < tile.nx; x += SEGMENT) {
                visit(Segment{z, y, x, tile.ny, tile.nx, row + x, row + min_of(x + SEGMENT, tile.nx)});
            }
        }
    }
}
