// The Lorenzo predictor with an order of its own along each axis (docs/FORMAT.md, "Prediction", kind 5), and the choice
// of a tile's predictor by the costs of its codes (docs/ENCODER.md).
//
// AXES  axes along which tiles extend
#pragma once
#include "quantize/scalar_tile.cuh"

using format::SECOND_ORDER;

// Sets of axes, 1 for x, 2 for y, 4 for z, which are predictors; and the predictor of second differences.
constexpr uint32_t AXIS_SETS = 1u << AXES;
constexpr uint32_t ORDERS = AXIS_SETS + 1;
__device__ inline constexpr uint32_t predictor_of(uint32_t order) { return order < AXIS_SETS ? order : SECOND_ORDER; }

// Returns about the bits that a code takes, in units of 2^-11: the logarithm of twice its magnitude plus 1, straight
// between powers of two.
__device__ inline uint32_t code_cost(uint32_t code) {
    const uint32_t magnitude = int32_t(code) < 0 ? 0u - code : code;
    const float twice = __int2float_rn(int32_t(2 * min_of(magnitude, 1u << 29) + 1));
    return (__float_as_uint(twice) - __float_as_uint(1.0f)) >> 12;
}

// Integers minus the base of a box, in raster order.
struct Integers {
    const int32_t *q;
    uint32_t base, row, plane;

    __device__ inline uint32_t at(uint32_t element, bool there) const {
        return there ? uint32_t(q[element]) - base : 0;
    }
    // Second differences along x, first differences of the second element, and the first element itself.
    __device__ inline uint32_t second_x(uint32_t element, uint32_t x, bool there) const {
        const uint32_t one = at(element - 1, there && x > 0);
        return at(element, there) - (x > 1 ? 2 * one : one) + at(element - 2, there && x > 1);
    }
    __device__ inline uint32_t second_xy(uint32_t element, uint32_t x, uint32_t y, bool there) const {
        const uint32_t one = second_x(element - row, x, there && y > 0);
        return second_x(element, x, there) - (y > 1 ? 2 * one : one) + second_x(element - 2 * row, x, there && y > 1);
    }
    __device__ inline uint32_t second(uint32_t element, const Position &to) const {
        if (AXES == 1) {
            return second_x(element, to.x, true);
        }
        if (AXES == 2) {
            return second_xy(element, to.x, to.y, true);
        }
        const uint32_t one = second_xy(element - plane, to.x, to.y, to.z > 0);
        return second_xy(element, to.x, to.y, true) - (to.z > 1 ? 2 * one : one) +
               second_xy(element - 2 * plane, to.x, to.y, to.z > 1);
    }
    // Differences along each set of axes, with 0 across the lower edges.
    __device__ inline void differences(uint32_t element, const Position &to, uint32_t (&of)[AXIS_SETS]) const {
        // First the integers before the element along each set of axes.
#pragma unroll
        for (uint32_t set = 0; set < AXIS_SETS; ++set) {
            const bool there = (!(set & 1) || to.x > 0) && (!(set & 2) || to.y > 0) && (!(set & 4) || to.z > 0);
            of[set] = at(element - (set & 1 ? 1 : 0) - (set & 2 ? row : 0) - (set & 4 ? plane : 0), there);
        }
#pragma unroll
        for (uint32_t axis = 1; axis < AXIS_SETS; axis *= 2) {
#pragma unroll
            for (uint32_t set = 0; set < AXIS_SETS; ++set) {
                of[set] = set & axis ? of[set ^ axis] - of[set] : of[set];
            }
        }
    }
    // The residuals of an element under each predictor.
    __device__ inline void residuals(uint32_t element, const Position &to, uint32_t (&of)[ORDERS]) const {
        uint32_t sets[AXIS_SETS];
        differences(element, to, sets);
        // Where all axes of a set have position 0, the difference is along the first other axis that has not.
        const uint32_t axes = (to.x > 0 ? 1 : 0) | (to.y > 0 ? 2 : 0) | (to.z > 0 ? 4 : 0);
        uint32_t edge = sets[0];
#pragma unroll
        for (uint32_t axis = AXIS_SETS / 2; axis > 0; axis /= 2) {
            edge = axes & axis ? sets[axis] : edge;
        }
#pragma unroll
        for (uint32_t set = 0; set < AXIS_SETS; ++set) {
            of[set] = set == 0 || (axes & set) != 0 ? sets[set] : edge;
        }
        of[AXIS_SETS] = second(element, to);
    }
};

struct OrderChoice {
    uint32_t order; // its number among ORDERS
    uint32_t cost;
};

// Returns the predictor with the smallest sum of costs, of several the one with the largest number. Called by the whole
// warp.
__device__ inline OrderChoice cheapest_order(const TileBox &tile, const Integers &integers) {
    uint32_t costs[ORDERS] = {};
    for (uint32_t i = lane_id(); i < tile.elements(); i += WARP) {
        uint32_t residuals[ORDERS];
        integers.residuals(i, Position(tile, i), residuals);
#pragma unroll
        for (uint32_t order = 0; order < ORDERS; ++order) {
            costs[order] += code_cost(residuals[order]);
        }
    }
    OrderChoice best = {0, ~0u};
#pragma unroll
    for (uint32_t order = 0; order < ORDERS; ++order) {
        const uint32_t cost = warp_reduce_sum(costs[order]);
        best = cost <= best.cost ? OrderChoice{order, cost} : best;
    }
    return best;
}

// Writes the residuals of a tile under one predictor. Called by the whole warp.
__device__ inline void write_residuals(const TileBox &tile, const Integers &integers, uint32_t order, int32_t *codes) {
    for (uint32_t i = lane_id(); i < tile.elements(); i += WARP) {
        uint32_t residuals[ORDERS], own = 0;
        integers.residuals(i, Position(tile, i), residuals);
#pragma unroll
        for (uint32_t other = 0; other < ORDERS; ++other) {
            own = other == order ? residuals[other] : own;
        }
        codes[i] = int32_t(own);
    }
}
