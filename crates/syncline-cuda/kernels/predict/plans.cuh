// Plans of interpolation inside a tile (docs/FORMAT.md, "Interpolation"), as encoder and decoder share them: which
// elements are predicted from which, in the order of operations that the format defines. They are tables that
// src/predict/plans.rs makes.
#pragma once
#include "geometry.cuh"
#include "predict/arithmetic.cuh"
#include "predict/structs.cuh"

// Most anchors of a tile: two in each row of a tile of two dimensions.
constexpr uint32_t MOST_ANCHORS = 64;

// The steps of elements of a type.
template <typename Element> struct StepOf {
    typedef FloatStep Type;
};
template <> struct StepOf<double> {
    typedef DoubleStep Type;
};
template <typename Element> using PlanStep = typename StepOf<Element>::Type;

template <typename Element>
__device__ inline const PlanStep<Element> *steps_of(const Plans &plans, const PlanPass &pass) {
    return static_cast<const PlanStep<Element> *>(plans.steps) + pass.first_step;
}

// Returns the prediction of the point of a step in the line that starts at `start`. Element `i` of the tile is
// `value(i)`.
template <typename Step, typename Value>
__device__ inline auto predicted(const Step &step, bool is_cubic, uint32_t start, Value value) {
    return weighted_sum(step.weights, is_cubic, [&](uint32_t number) { return value(start + step.neighbors[number]); });
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
