// The shape of whole ordinary tiles of 1,024 and of 32x32 (predict/ordinary.cuh).
//
// AXES  axes along which tiles extend, 1 or 2
// See also predict/points.cuh.
#pragma once
#include "format/constants.cuh"
#include "predict/points.cuh"

static_assert(WIDTH == 32, "a row is eight quads");

// Elements of shared memory of a tile.
constexpr uint32_t ORDINARY_VALUES = TILE_ELEMENTS + TILE_ELEMENTS / WIDTH;

// Returns where quad `k` of a lane is in the array, from the first element of the tile, and in shared memory.
__device__ inline uint64_t quad_in_array(const TileSource &source, uint32_t k) {
    return AXES == 1 ? 128 * k + 4 * lane_id() : (4 * k + lane_id() / 8) * source.row + lane_id() % 8 * 4;
}
__device__ inline uint32_t quad_in_memory(uint32_t k) { return stored_in_row(128 * k + 4 * lane_id()); }

// The value `distance` elements before in the order of the tile, of lanes' values at one place of their quads. Values
// are given in that order, those of all lanes at a time.
struct Before {
    uint32_t distance; // in lanes
    float last = 0.0f; // of the lanes at the end, from the quads before

    __device__ inline float operator()(float value) {
        const float turned = __shfl_sync(ALL_LANES, value, (lane_id() + WARP - distance) % WARP);
        const float before = lane_id() < distance ? last : turned;
        last = turned;
        return before;
    }
};

// Calls `visit(k, residuals)` with the residuals of each quad under a predictor. Called by the whole warp.
template <typename Visit> __device__ inline void for_residuals(const Quads &integers, uint32_t predictor, Visit visit) {
    const bool is_second = predictor == format::SECOND_ORDER, along_x = is_second || (predictor & 1) != 0,
               along_y = AXES == 2 && (is_second || (predictor & 2) != 0);
    const uint32_t lane = lane_id();
    Before left{1}, left_difference{1}, above[4] = {{8}, {8}, {8}, {8}}, above_difference[4] = {{8}, {8}, {8}, {8}};
#pragma unroll
    for (uint32_t k = 0; k < QUADS; ++k) {
        const float(&v)[4] = integers.of[k];
        const bool begins_row = AXES == 2 ? lane % 8 == 0 : k == 0 && lane == 0, is_first_row = k == 0 && lane < 8;
        // Differences along x.
        const float own_left = left(v[3]), before = begins_row ? 0.0f : own_left;
        float d[4] = {v[0] - before, v[1] - v[0], v[2] - v[1], v[3] - v[2]};
        if (is_second) {
            const float own_left_difference = left_difference(d[3]);
            const float difference = begins_row ? 0.0f : own_left_difference;
            const float e[4] = {d[0] - difference, begins_row ? d[1] : d[1] - d[0], d[2] - d[1], d[3] - d[2]};
#pragma unroll
            for (uint32_t j = 0; j < 4; ++j) {
                d[j] = e[j];
            }
        }
        float r[4];
#pragma unroll
        for (uint32_t j = 0; j < 4; ++j) {
            r[j] = along_x ? d[j] : v[j];
        }
        if (along_y) {
#pragma unroll
            for (uint32_t j = 0; j < 4; ++j) {
                float difference = r[j] - above[j](r[j]);
                if (is_second) {
                    const float other = above_difference[j](difference);
                    difference -= k == 0 && lane < 16 ? 0.0f : other;
                }
                // The first row goes on along x.
                r[j] = is_first_row && !along_x ? d[j] : difference;
            }
        } else if (AXES == 2 && along_x) {
            // The first column goes on along y.
            const float other = above[0](v[0]);
            r[0] -= begins_row ? other : 0.0f;
        }
        visit(k, r);
    }
}

#if !LOGARITHM
// Interpolates a tile whose elements are stored. Returns the cost, and whether the tile is ordinary under the scheme.
// Called by the whole warp.
__device__ inline uint32_t interpolate_ordinary(const Step &step, float base, const uint32_t *words, bool is_cubic,
                                                Element *values, int16_t *codes, bool &is_ordinary) {
    const PointTable<Element> table{words};
    const InterpolationStep constants(step);
    const uint32_t lane = lane_id(), anchors = table.anchors();
    uint32_t cost = 0;
    bool is_good = true;
    // The anchors: a lattice of two columns.
    Before above{2};
    for (uint32_t window = 0; window < anchors; window += WARP) {
        const uint32_t i = window + lane, place = i < anchors ? stored_in_row(table.line(i)) : 0;
        float integer;
        quantize_small(step, values[place], integer);
        float residual = integer - base;
        const float beside = __shfl_xor_sync(ALL_LANES, residual, 1);
        residual -= lane % 2 == 1 ? beside : 0.0f;
        const float other = above(residual);
        residual -= other;
        if (i < anchors) {
            values[place] = reconstruct(step, int32_t(integer));
            codes[table.code(i)] = int16_t(__float_as_uint(residual + SHIFTER));
            is_good &= fabsf(residual) < float(CODE_LIMIT);
            cost += product_cost(__fmaf_rn(2.0f, fabsf(residual), 1.0f));
        }
    }
    __syncwarp();
    for (uint32_t number = 0; number < table.passes(); ++number) {
        const PointPass pass = table.pass(number);
        // Lines are as long as a power of two, or shorter by one point, and have room for groups of four.
        const uint32_t length_log2 = max_of<uint32_t>(32 - __clz(int32_t(pass.points - 1)), 2);
        for (uint32_t first = 0; first < pass.lines << length_log2; first += WARP) {
            const uint32_t i = first + lane, line = i >> length_log2, point = i & ((1u << length_log2) - 1);
            float factor = 1.0f;
            if (line < pass.lines && point < pass.points) {
                const uint32_t place = table.place(pass, line, point), at = stored_in_row(place);
                const Element prediction = table.predicted(pass, point, place, is_cubic, values);
                const SmallCode code(constants, values[at], prediction, is_good);
                values[at] = code.value;
                codes[table.code(pass.first_code + line * pass.points + point)] = code.code;
                factor = code.factor;
            }
            // The product of four points in a row, in their order.
            const float second = __shfl_down_sync(ALL_LANES, factor, 1), third = __shfl_down_sync(ALL_LANES, factor, 2),
                        fourth = __shfl_down_sync(ALL_LANES, factor, 3);
            cost += lane % 4 == 0 ? product_cost(factor * second * third * fourth) : 0;
        }
        __syncwarp();
    }
    is_ordinary = __all_sync(ALL_LANES, is_good);
    return warp_reduce_sum(cost);
}
#endif
