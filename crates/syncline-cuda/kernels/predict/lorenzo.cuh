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
    return 8 * (4 + uint32_t(sizeof(Stored))) * values << strips::COST_LOG2;
}

// The integers of a tile without the base, from which differences are taken.
struct Integers {
    const int32_t *v;
    uint32_t nx, plane;

    // Returns the difference along the axes y and z of a set, 2 and 4, at element `i`.
    __device__ inline uint32_t first(uint32_t i, uint32_t axes) const {
        auto rows = [&](const int32_t *at) { return uint32_t(at[0]) - ((axes & 2) != 0 ? uint32_t(*(at - nx)) : 0); };
        return rows(v + i) - ((axes & 4) != 0 ? rows(v + i - plane) : 0);
    }
    // Returns the second difference along y and z at element `i`, whose position is the same along these.
    __device__ inline uint32_t second(uint32_t i, const Position &position) const {
        auto rows = [&](const int32_t *at) {
            uint32_t sum = uint32_t(at[0]);
            if (AXES > 1) {
                sum += position.y > 0 ? factor(position.y) * uint32_t(*(at - nx)) : 0;
                sum += position.y > 1 ? uint32_t(*(at - 2 * nx)) : 0;
            }
            return sum;
        };
        uint32_t sum = rows(v + i);
        if (AXES > 2) {
            sum += position.z > 0 ? factor(position.z) * rows(v + i - plane) : 0;
            sum += position.z > 1 ? rows(v + i - 2 * plane) : 0;
        }
        return sum;
    }
    // Returns the factor of the element before in second differences at a position that is not the first.
    __device__ static inline uint32_t factor(uint32_t position) { return position > 1 ? 0u - 2 : 0u - 1; }
};

// Returns the axes along which an element is differenced by predictor 0 to 7, none of which has it at the edge.
__device__ inline uint32_t axes_at(const Position &position, uint32_t predictor) {
    const uint32_t inside =
        (position.x > 0 ? 1 : 0) | (AXES > 1 && position.y > 0 ? 2 : 0) | (AXES > 2 && position.z > 0 ? 4 : 0);
    const uint32_t axes = predictor & inside;
    // At the edge along all axes of the predictor: the first other axis along which it is not.
    return predictor != 0 && axes == 0 ? inside & (0u - inside) : axes;
}

// Returns the residual of element `i` under a predictor.
__device__ inline int32_t residual_of(const Integers &of, uint32_t i, const Position &position, uint32_t predictor) {
    if (predictor == SECOND_ORDER) {
        uint32_t sum = of.second(i, position);
        sum += position.x > 0 ? Integers::factor(position.x) * of.second(i - 1, position) : 0;
        return int32_t(position.x > 1 ? sum + of.second(i - 2, position) : sum);
    }
    const uint32_t axes = axes_at(position, predictor);
    return int32_t(of.first(i, axes) - ((axes & 1) != 0 ? of.first(i - 1, axes) : 0));
}

// Calls `visit(element, residual)` for the residuals of a tile under a predictor, and returns the part of their cost
// that belongs to this thread.
template <typename Visit>
__device__ inline uint32_t for_each_residual(const TileBox &tile, const int32_t *v, uint32_t predictor, Visit visit) {
    const uint32_t elements = tile.elements();
    const Integers of{v, tile.nx, tile.nx * tile.ny};
    uint32_t cost = 0;
#pragma unroll 1
    for (uint32_t first = COST_GROUP * lane_id(); first < elements; first += COST_GROUP * WARP) {
        Position position(tile, first);
        const uint32_t end = min_of(first + COST_GROUP, elements);
        float product = 1.0f;
#pragma unroll 1
        for (uint32_t i = first; i < end; ++i) {
            const int32_t residual = residual_of(of, i, position, predictor);
            visit(i, residual);
            product *= cost_factor(residual);
            position.advance(tile);
        }
        cost += product_cost(product);
    }
    return cost;
}

// Returns the cost of a tile under a predictor, without that of verbatim values. All lanes call this.
__device__ inline uint32_t lorenzo_cost(const TileBox &tile, const int32_t *v, uint32_t predictor) {
    const uint32_t cost = for_each_residual(tile, v, predictor, [](uint32_t, int32_t) {});
    return warp_reduce_sum(cost);
}
