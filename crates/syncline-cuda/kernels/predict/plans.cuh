// Plans of interpolation inside a tile (docs/FORMAT.md, "Interpolation"), as encoder and decoder share them: which
// elements are predicted from which, in the order of operations that the format defines.
//
// ELEMENT_BYTES  4: f32, 8: f64
#pragma once
#include "geometry.cuh"
#include "predict/arithmetic.cuh"
#include "predict/structs.cuh"

#if ELEMENT_BYTES == 4
typedef FloatStep PlanStep;
#else
typedef DoubleStep PlanStep;
#endif

// Most anchors of a tile: two in each row of a large two-dimensional one.
constexpr uint32_t MAX_ANCHORS = 128;

// Values are stored with a gap after each 32, so that neither lanes with adjacent elements nor lanes with adjacent rows
// conflict in shared-memory banks.
__device__ inline constexpr uint32_t padded(uint32_t element) { return element + element / WARP; }

// Returns the prediction of the point of a step in the line that starts at `start`, from the values of its neighbors.
template <typename Element>
__device__ inline Element predict(const PlanStep &step, bool is_cubic, const Element *values, uint32_t start) {
    auto value = [&](uint32_t number) { return values[padded(start + step.neighbors[number])]; };
    if (!is_cubic) {
        return product_plus(value(2), step.weights[2], product(value(1), step.weights[1]));
    }
    Element sum = product(value(0), step.weights[0]);
    sum = product_plus(value(1), step.weights[1], sum);
    sum = product_plus(value(2), step.weights[2], sum);
    return product_plus(value(3), step.weights[3], sum);
}

// A group of up to four consecutive points of a line.
struct PlanGroup {
    uint32_t line, first, end; // points of the line

    __device__ inline PlanGroup(const PlanPass &pass, uint32_t number) {
        line = number * pass.by_groups >> 20;
        first = 4 * (number - line * pass.groups);
        end = min_of(first + 4, pass.points);
    }
};

// Returns the plan of a scheme, 1 to 8, for tiles of these extents.
__device__ inline PlanHead plan_of(const Plans &plans, const Geometry &geometry, const Tile &tile, uint32_t scheme) {
    const uint32_t clipped = (tile.nz < geometry.side[0] ? 4 : 0) | (tile.ny < geometry.side[1] ? 2 : 0) |
                             (tile.nx < geometry.side[2] ? 1 : 0);
    return plans.heads[(scheme - 1) * 8 + clipped];
}
