// The codes of a tile: quantized, and predicted by the cheaper of the listed Lorenzo predictors and interpolation.
//
// MEASURE        1: sums squared errors
// MEMORY_BYTES   dynamic shared memory of a block for its tiles
// See also predict/interpolate.cuh.
#pragma once
#include "predict/interpolate.cuh"
#include "strips/scratch.cuh"
#include "strips/structs.cuh"

// The memory of a tile, in shared memory.
struct __align__(16) TileMemory {
    int32_t v[TILE_ELEMENTS];     // integers without the base
    int32_t codes[TILE_ELEMENTS]; // in the order of the strips, followed by zeros up to a whole strip
    // These are not used at the same time.
    union {
        Element values[padded(TILE_ELEMENTS)]; // as they are, then as decoders reconstruct them
        StripScratch strips;
    };
    TileBitmaps bitmaps;
    int32_t lattice[MOST_ANCHORS];
    uint32_t first_word; // for the caller

    // The elements that must be verbatim if the tile is interpolated.
    __device__ inline uint32_t *missed() { return bitmaps.other; }
};
static_assert(WARPS * sizeof(TileMemory) <= MEMORY_BYTES, "the host gives enough memory");
static_assert(sizeof(TileMemory) % 16 == 0, "the next one is aligned");

// A tile of a batch: where it is, and what quantizing found.
struct TileWork {
    const Step &step;
    const TileBox tile;
    const TileSource source;
    TileMemory &memory;
    QuantizedTile quantized;

    __device__ inline TileWork(const Step &step, const Stored *slab, uint64_t first_element, const Geometry &geometry,
                               uint64_t number, TileMemory &memory)
        : step(step), tile(geometry.tile(number)), source(slab, first_element, geometry, tile, step.origin),
          memory(memory) {}

    // Computes the integers of the tile, the bitmaps, and what else quantizing finds.
    __device__ inline void quantize() {
        load_tile(tile, source, memory.values);
        quantized = quantize_tile(step, tile, memory.values, memory.v, memory.bitmaps);
        __syncwarp();
        const uint32_t base = uint32_t(quantized.base);
        for (uint32_t i = lane_id(); i < tile.elements(); i += WARP) {
            memory.v[i] = int32_t(uint32_t(memory.v[i]) - base);
        }
        __syncwarp();
    }

    // Interpolates the tile. Returns the cost; `verbatim` becomes the number of verbatim values.
    __device__ inline uint32_t interpolate(const Plans &plans, const PlanHead &plan, uint32_t &verbatim) {
        return ::interpolate(step, plans, plan, quantized, memory.bitmaps, memory.v, memory.lattice, memory.values,
                             memory.codes, memory.missed(), verbatim);
    }
};

// How a tile is coded.
struct CodedTile {
    uint32_t cost;
    uint32_t predictor; // place in the list, or INTERPOLATED
    uint32_t lorenzo;   // the predictor, if the tile is not interpolated
    uint32_t verbatim;  // number of verbatim values
    bool is_constant;   // whether all codes are 0 and the tile is not interpolated

    __device__ inline bool is_interpolated() const { return predictor == strips::INTERPOLATED; }
    // Whether so few codes are 0 that each zero has a symbol of its own: the cost is 1.5 bits a code at least.
    __device__ inline bool is_dense(uint32_t elements) const { return 2 * cost >= (3 * elements) << strips::COST_LOG2; }
};

// Writes the residuals under a predictor as codes. All lanes call this.
__device__ inline void write_residuals(TileWork &work, uint32_t predictor) {
    int32_t *codes = work.memory.codes;
    for_each_residual(work.tile, work.memory.v, predictor, [&](uint32_t i, int32_t code) { codes[i] = code; });
}

// Predicts a tile that is quantized. If it is interpolated, its codes are written, and the values that decoders
// reconstruct; else `write_codes` writes them. All lanes call this.
__device__ inline CodedTile predict_tile(TileWork &work, const ChunkChoice &choice, const Plans &plans,
                                         const Geometry &geometry) {
    CodedTile coded = {~0u, 0, 0, work.quantized.verbatim, false};
    for (uint32_t place = 0; place < choice.listed; ++place) {
        const uint32_t predictor = choice.predictors[place], cost = lorenzo_cost(work.tile, work.memory.v, predictor);
        if (place == 0 || cost < coded.cost) {
            coded.cost = cost;
            coded.predictor = place;
            coded.lorenzo = predictor;
        }
    }
    // Only codes that are all 0 cost nothing.
    coded.is_constant = coded.cost == 0;
    coded.cost += verbatim_cost(coded.verbatim);
#if !LOGARITHM
    if (choice.scheme != 0 && coded.cost > 0 && !tile_is_empty(work.quantized.info)) {
        uint32_t verbatim;
        const uint32_t cost = work.interpolate(plans, plan_of(plans, geometry, work.tile, choice.scheme), verbatim);
        if (cost < coded.cost) {
            coded = {cost, strips::INTERPOLATED, 0, verbatim, false};
        }
    }
#endif
    return coded;
}

// Writes the codes of a tile that is not interpolated, and the zeros behind the codes of any tile. All lanes call this.
__device__ inline void write_codes(TileWork &work, const CodedTile &coded) {
    if (!coded.is_interpolated() && !coded.is_constant) {
        write_residuals(work, coded.lorenzo);
    }
    const uint32_t elements = work.tile.elements();
    for (uint32_t i = elements + lane_id(); i < ceil_div(elements, STRIP_LEN) * STRIP_LEN; i += WARP) {
        work.memory.codes[i] = 0;
    }
    __syncwarp();
}
