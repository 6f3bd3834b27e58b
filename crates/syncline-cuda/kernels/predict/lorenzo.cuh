// The Lorenzo predictors (docs/FORMAT.md, "Prediction") and the costs of codes (docs/ENCODER.md).
#pragma once
#include "quantize/tile.cuh"
#include "strips/constants.cuh"

using format::SECOND_ORDER;

// Codes whose cost is computed together.
constexpr uint32_t COST_GROUP = 4;

// Returns a factor of a cost: twice the magnitude of a code plus 1.
__device__ inline float cost_factor(int32_t code) { return __fmaf_rn(2.0f, fabsf(__int2float_rn(code)), 1.0f); }

// Returns the approximate number of bits, in units of 2^-11, of codes whose factors have this product: its logarithm,
// linear between powers of two.
__device__ inline uint32_t product_cost(float product) {
    return (__float_as_uint(product) - 0x3F800000u) >> (23 - strips::COST_LOG2);
}

// Returns what verbatim values add to the cost of a tile.
__device__ inline uint32_t verbatim_cost(uint32_t values) {
    return 8 * (4 + ELEMENT_BYTES) * values << strips::COST_LOG2;
}

// Returns the residual of an element by second differences along all axes.
__device__ inline uint32_t second_residual(const int32_t *at, const Position &position, uint32_t nx, uint32_t plane) {
    // Factors of the elements one and two before along an axis.
    auto one = [](uint32_t along) { return along > 1 ? 0u - 2 : along > 0 ? 0u - 1 : 0u; };
    auto row = [&](const int32_t *at) {
        uint32_t sum = uint32_t(at[0]);
        sum += position.x > 0 ? one(position.x) * uint32_t(at[-1]) : 0;
        return position.x > 1 ? sum + uint32_t(at[-2]) : sum;
    };
    auto rows = [&](const int32_t *at) {
        uint32_t sum = row(at);
        if (AXES > 1) {
            sum += position.y > 0 ? one(position.y) * row(at - nx) : 0;
            sum += position.y > 1 ? row(at - 2 * nx) : 0;
        }
        return sum;
    };
    uint32_t sum = rows(at);
    if (AXES > 2) {
        sum += position.z > 0 ? one(position.z) * rows(at - plane) : 0;
        sum += position.z > 1 ? rows(at - 2 * plane) : 0;
    }
    return sum;
}

// Returns the residual of element `i` under a predictor. `v` has the integers of the tile without the base.
__device__ inline int32_t residual_of(const TileBox &tile, const int32_t *v, uint32_t i, const Position &position,
                                      uint32_t predictor) {
    const int32_t *at = v + i;
    const uint32_t nx = tile.nx, plane = tile.nx * tile.ny;
    if (predictor == SECOND_ORDER) {
        return int32_t(second_residual(at, position, nx, plane));
    }
    const uint32_t inside =
        (position.x > 0 ? 1 : 0) | (AXES > 1 && position.y > 0 ? 2 : 0) | (AXES > 2 && position.z > 0 ? 4 : 0);
    uint32_t axes = predictor & inside;
    if (predictor != 0 && axes == 0) {
        // At the edge along all axes of the predictor: the first other axis along which it is not.
        axes = inside & (0u - inside);
    }
    auto row = [&](const int32_t *at) { return uint32_t(at[0]) - ((axes & 1) != 0 ? uint32_t(at[-1]) : 0); };
    auto rows = [&](const int32_t *at) { return row(at) - ((axes & 2) != 0 ? row(at - nx) : 0); };
    return int32_t(rows(at) - ((axes & 4) != 0 ? rows(at - plane) : 0));
}

// Calls `visit(element, residual)` for the residuals of a tile under a predictor, and returns the part of their cost
// that belongs to this thread.
template <typename Visit>
__device__ inline uint32_t for_each_residual(const TileBox &tile, const int32_t *v, uint32_t predictor, Visit visit) {
    const uint32_t elements = tile.elements();
    uint32_t cost = 0;
    for (uint32_t first = COST_GROUP * tile_thread(); first < elements; first += COST_GROUP * TILE_THREADS) {
        Position position(tile, first);
        float product = 1.0f;
#pragma unroll
        for (uint32_t k = 0; k < COST_GROUP; ++k) {
            if (first + k < elements) {
                const int32_t residual = residual_of(tile, v, first + k, position, predictor);
                visit(first + k, residual);
                product *= cost_factor(residual);
                position.advance(tile);
            }
        }
        cost += product_cost(product);
    }
    return cost;
}

// Returns the cost of a tile under a predictor, without that of verbatim values. All threads of the tile call this.
__device__ inline uint32_t lorenzo_cost(const TileBox &tile, const int32_t *v, uint32_t predictor, TileSums &sums) {
    const uint32_t cost = for_each_residual(tile, v, predictor, [](uint32_t, int32_t) {});
    return tile_sum(cost, sums.of_32);
}
