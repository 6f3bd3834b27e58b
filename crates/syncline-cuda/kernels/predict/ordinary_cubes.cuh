// The shape of whole ordinary tiles of 8x8x8 (predict/ordinary.cuh).
#pragma once
#include "predict/cube_differences.cuh"
#include "predict/cube_lines.cuh"

// Elements of shared memory of a tile.
constexpr uint32_t ORDINARY_VALUES = SIDE * PLANE;

// Returns where quad `k` of a lane is in the array, from the first element of the tile, and in shared memory.
__device__ inline uint64_t quad_in_array(const TileSource &source, uint32_t k) {
    return (2 * k + lane_id() / 16) * source.plane + lane_id() / 2 % 8 * source.row + lane_id() % 2 * 4;
}
__device__ inline uint32_t quad_in_memory(uint32_t k) {
    const uint32_t plane = lane_id() < 16 ? stored(2 * k) * PLANE : stored(2 * k + 1) * PLANE;
    return plane + stored(lane_id() / 2 % 8) * ROW + lane_id() % 2 * 4;
}

// Calls `visit(k, residuals)` with the residuals of each quad under a predictor. Called by the whole warp.
template <typename Visit> __device__ inline void for_residuals(const Quads &integers, uint32_t predictor, Visit visit) {
    Quads residuals = integers;
    difference_cube(residuals, predictor);
#pragma unroll
    for (uint32_t k = 0; k < QUADS; ++k) {
        visit(k, residuals.of[k]);
    }
}

#if !LOGARITHM
// The lines of a pass.
struct EncodingPass {
    const uint32_t *lines;
    uint32_t count;
    Element *values;
    int16_t *codes;
    const InterpolationStep &constants;
    uint32_t &cost;
    bool &is_good;

    // Predicts and quantizes the lines.
    template <uint32_t AXIS, uint32_t LEVEL, bool IS_CUBIC> __device__ inline void run() const {
        constexpr uint32_t DISTANCE = SIDE / 2 >> LEVEL,
                           COUNT = (SIDE - 1 - DISTANCE + 2 * DISTANCE - 1) / (2 * DISTANCE);
        for (uint32_t i = lane_id(); i < count; i += WARP) {
            Element *line = values + (lines[i] & 0xFFFF);
            int16_t *to = codes + (lines[i] >> 16);
            Element predictions[COUNT];
            float factors = 1.0f;
            predict_line<SIDE, DISTANCE, DISTANCE, IS_CUBIC, Along<AXIS>>(line, predictions);
#pragma unroll
            for (uint32_t point = 0; point < COUNT; ++point) {
                Element &place = line[Along<AXIS>::of(DISTANCE + 2 * DISTANCE * point)];
                const SmallCode code(constants, place, predictions[point], is_good);
                place = code.value;
                to[point] = code.code;
                factors *= code.factor;
            }
            cost += product_cost(factors);
        }
    }
};

// Interpolates a tile whose elements are stored. Returns the cost, and whether the tile is ordinary under the scheme.
// Called by the whole warp.
__device__ inline uint32_t interpolate_ordinary(const Step &step, float base, const uint32_t *table, bool is_cubic,
                                                Element *values, int16_t *codes, bool &is_ordinary) {
    const uint32_t passes = table[0] & 0xFFFF, anchors = table[0] >> 16, lane = lane_id();
    const uint32_t *lines = table + LINES_AT;
    const InterpolationStep constants(step);
    uint32_t cost = 0;
    bool is_good = true;
    // The anchors: a lattice of two positions along x and y, and of two or eight along z.
    const bool is_anchor = lane < anchors;
    const uint32_t line = is_anchor ? lines[lane] : 0;
    float integer;
    quantize_small(step, values[line & 0xFFFF], integer);
    float residual = integer - base;
#pragma unroll
    for (uint32_t axis = 1; axis <= 2; axis *= 2) {
        const float before = __shfl_xor_sync(ALL_LANES, residual, axis);
        residual -= (lane & axis) != 0 ? before : 0.0f;
    }
    const float before = __shfl_up_sync(ALL_LANES, residual, 4);
    residual -= lane >= 4 ? before : 0.0f;
    if (is_anchor) {
        values[line & 0xFFFF] = reconstruct(step, int32_t(integer));
        codes[line >> 16] = int16_t(__float_as_uint(residual + SHIFTER));
        is_good = fabsf(residual) < float(CODE_LIMIT);
        cost = product_cost(__fmaf_rn(2.0f, fabsf(residual), 1.0f));
    }
    __syncwarp();
    for (uint32_t number = 0; number < passes; ++number) {
        const CubePass pass(table, number);
        const EncodingPass own{lines + pass.first, pass.count, values, codes, constants, cost, is_good};
        if (is_cubic) {
            run_pass<true>(own, pass.kind);
        } else {
            run_pass<false>(own, pass.kind);
        }
        __syncwarp();
    }
    is_ordinary = __all_sync(ALL_LANES, is_good);
    return warp_reduce_sum(cost);
}
#endif
