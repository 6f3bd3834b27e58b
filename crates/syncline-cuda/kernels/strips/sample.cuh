// The sample of the tiles of a chunk: `is_sampled` in syncline_core::pipeline::lossy::sample.
//
// CHOOSING_STEP, FEWEST_CHOOSING, COUNTED_STEP, FEWEST_COUNTED  as in the core
#pragma once
#include "common.cuh"

// One tile of each interval of a power of two.
struct Sample {
    uint32_t tiles, interval_log2;

    // The sample that predictors, scheme, and classes are chosen by, and that which codebooks are made from.
    __device__ static inline Sample choosing(uint32_t tiles) { return Sample(tiles, CHOOSING_STEP, FEWEST_CHOOSING); }
    __device__ static inline Sample counted(uint32_t tiles) { return Sample(tiles, COUNTED_STEP, FEWEST_COUNTED); }

    __device__ inline bool is_complete() const { return interval_log2 == 0; }
    // Returns the number of intervals. The last interval may lack its tile.
    __device__ inline uint32_t intervals() const { return (tiles + (1u << interval_log2) - 1) >> interval_log2; }
    // Returns the tile of an interval. There is none if the number is not below `tiles`.
    __device__ inline uint32_t tile(uint32_t interval) const {
        // Places in the intervals change, so that a sample does not follow the rows of tiles.
        const uint64_t place = uint64_t(interval * 2654435769u) << interval_log2 >> 32;
        return (interval << interval_log2) + uint32_t(place);
    }
    // Returns the number of tiles of the sample.
    __device__ inline uint32_t count() const {
        const uint32_t all = intervals();
        return all - (all > 0 && tile(all - 1) >= tiles ? 1 : 0);
    }

  private:
    __device__ inline Sample(uint32_t tiles, uint32_t step, uint32_t fewest)
        : tiles(tiles), interval_log2(31 - __clz(int32_t(min_of(step, max_of(tiles / fewest, 1u))))) {}
};
