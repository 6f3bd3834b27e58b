// The plan of interpolation of a tile, from the tables that src/predict/plans.rs makes.
//
// DOUBLE  1 if elements are f64, 0 if f32
#pragma once
#include "predict/arithmetic.cuh"
#include "predict/structs.cuh"

#if DOUBLE
typedef double PlanWeight;
#else
typedef float PlanWeight;
#endif

// Most anchors of a tile: two in each row of a large tile of two dimensions.
constexpr uint32_t MOST_ANCHORS = 128;

// A plan for tiles of some extents under one scheme.
struct TilePlan {
    PlanHead head;
    const uint32_t *anchors;
    const PlanPoint *points;
    const PlanWeight *weights; // four of each point
    const uint32_t *stages;
    const uint32_t *groups;
};

// Returns the plan of a scheme, 1 to 8, for tiles that are clipped along a set of axes: 1 x, 2 y, 4 z.
__device__ inline TilePlan plan_of(const Plans &plans, uint32_t scheme, uint32_t clipped) {
    TilePlan plan;
    plan.head = plans.heads[8 * (scheme - 1) + clipped];
    plan.anchors = plans.anchors + plan.head.first_anchor;
    plan.points = plans.points + plan.head.first_point;
    plan.weights = reinterpret_cast<const PlanWeight *>(plans.weights) + uint64_t(4) * plan.head.first_point;
    plan.stages = plans.stages + plan.head.first_stage;
    plan.groups = plans.groups + plan.head.first_group;
    return plan;
}

// Returns the prediction of a point from the values of the tile's elements, of which element `i` is `value(i)`.
template <typename Value>
__device__ inline PlanWeight predicted(const PlanPoint &point, const PlanWeight *weights, bool is_cubic, Value value) {
    if (!is_cubic) {
        const PlanWeight first = product(value(point.neighbors[1]), weights[1]);
        return product_plus(value(point.neighbors[2]), weights[2], first);
    }
    PlanWeight sum = product(value(point.neighbors[0]), weights[0]);
#pragma unroll
    for (uint32_t i = 1; i < 4; ++i) {
        sum = product_plus(value(point.neighbors[i]), weights[i], sum);
    }
    return sum;
}
