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
// Returns where element `32 word + lane` of a tile is in the array, from the first one.
__device__ inline uint64_t element_in_array(const TileSource &source, uint32_t word) {
    return word / 2 * source.plane + (word % 2 * 4 + lane_id() / SIDE) * source.row + lane_id() % SIDE;
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
// A tile whose elements are stored, as it is interpolated.
struct CubeInterpolation {
    const InterpolationStep &constants;
    const uint32_t *lines;
    Element *values;
    int16_t *codes;
    uint32_t cost;
    Largest largest;

    // Predicts and quantizes a line.
    template <uint32_t AXIS, uint32_t LEVEL, bool IS_CUBIC> __device__ inline void run(uint32_t line) {
        int16_t *to = codes + (line >> 16);
        cost += code_line<SIDE, (SIDE / 2 >> LEVEL), IS_CUBIC, Along<AXIS>>(
            constants, values + (line & 0xFFFF), [&](uint32_t point) -> int16_t & { return to[point]; }, largest);
    }

    // Runs pass number PASS of a scheme, whose first line is number FIRST, and those after it. Called by the whole
    // warp.
    template <uint32_t SCHEME, uint32_t PASS, uint32_t FIRST> __device__ inline void run_from() {
        typedef CubeScheme<SCHEME> Own;
        if constexpr (PASS < Own::PASSES) {
            constexpr uint32_t COUNT = Own::lines(PASS), AXIS = Own::axis(PASS), LEVEL = Own::level(PASS);
#pragma unroll
            for (uint32_t begin = 0; begin < COUNT; begin += WARP) {
                if (COUNT - begin >= WARP || lane_id() < COUNT - begin) {
                    run<AXIS, LEVEL, Own::IS_CUBIC>(lines[FIRST + begin + lane_id()]);
                }
            }
            __syncwarp();
            run_from<SCHEME, PASS + 1, FIRST + COUNT>();
        } else {
            cost -= lane_id() == 0 ? FIRST * COST_OF_ONE : 0;
        }
    }
    // Calls `run_from` for the scheme with this code.
    template <uint32_t SCHEME = 1> __device__ inline void run_scheme(uint32_t scheme) {
        if constexpr (SCHEME <= CUBE_SCHEMES) {
            // Encoders do not choose others.
            constexpr bool IS_CANDIDATE = CubeScheme<SCHEME>::IS_CUBIC || !CubeScheme<SCHEME>::IN_PLANES;
            if (IS_CANDIDATE && scheme == SCHEME) {
                run_from<SCHEME, 0, CubeScheme<SCHEME>::ANCHORS>();
            } else {
                run_scheme<SCHEME + 1>(scheme);
            }
        }
    }
};

// Interpolates a tile whose elements are stored. Returns the cost, and whether codes and errors are those of an
// ordinary tile. Called by the whole warp.
__device__ inline uint32_t interpolate_ordinary(const OrdinaryStep &step, float base, const uint32_t *table,
                                                uint32_t scheme, Element *values, int16_t *codes, bool &is_ordinary) {
    const uint32_t anchors = table[0] >> 16, lane = lane_id();
    CubeInterpolation own{step.constants, table + LINES_AT, values, codes, 0};
    bool is_good = true;
    // The anchors: a lattice of two positions along x and y, and of two or eight along z.
    const bool is_anchor = lane < anchors;
    const uint32_t line = is_anchor ? own.lines[lane] : 0;
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
        values[line & 0xFFFF] = reconstruct(*step.all, int32_t(integer));
        codes[line >> 16] = int16_t(__float_as_uint(residual + SHIFTER));
        is_good = fabsf(residual) < float(CODE_LIMIT);
        own.cost = shifted_cost(__fmaf_rn(2.0f, fabsf(residual), 1.0f));
    }
    __syncwarp();
    own.run_scheme(scheme);
    is_ordinary = __all_sync(ALL_LANES, is_good && own.largest.is_small(step.constants.bound));
    return warp_reduce_sum(own.cost);
}
#endif
