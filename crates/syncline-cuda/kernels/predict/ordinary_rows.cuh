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
// Returns where element `32 word + lane` of a tile is in the array, from the first one.
__device__ inline uint64_t element_in_array(const TileSource &source, uint32_t word) {
    return (AXES == 1 ? WARP * word : word * source.row) + lane_id();
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
template <uint32_t PREDICTOR, typename Visit>
__device__ inline void visit_residuals(const Quads &integers, Visit visit) {
    constexpr bool IS_SECOND = PREDICTOR == format::SECOND_ORDER, ALONG_X = IS_SECOND || (PREDICTOR & 1) != 0,
                   ALONG_Y = AXES == 2 && (IS_SECOND || (PREDICTOR & 2) != 0);
    const uint32_t lane = lane_id();
    Before left{1}, left_difference{1}, above[4] = {{8}, {8}, {8}, {8}}, above_difference[4] = {{8}, {8}, {8}, {8}};
#pragma unroll
    for (uint32_t k = 0; k < QUADS; ++k) {
        const float(&v)[4] = integers.of[k];
        const bool begins_row = AXES == 2 ? lane % 8 == 0 : k == 0 && lane == 0, is_first_row = k == 0 && lane < 8;
        // Differences along x.
        const float own_left = left(v[3]), before = begins_row ? 0.0f : own_left;
        float d[4] = {v[0] - before, v[1] - v[0], v[2] - v[1], v[3] - v[2]};
        if (IS_SECOND) {
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
            r[j] = ALONG_X ? d[j] : v[j];
        }
        if (ALONG_Y) {
#pragma unroll
            for (uint32_t j = 0; j < 4; ++j) {
                float difference = r[j] - above[j](r[j]);
                if (IS_SECOND) {
                    const float other = above_difference[j](difference);
                    difference -= k == 0 && lane < 16 ? 0.0f : other;
                }
                // The first row goes on along x.
                r[j] = is_first_row && !ALONG_X ? d[j] : difference;
            }
        } else if (AXES == 2 && ALONG_X) {
            // The first column goes on along y.
            const float other = above[0](v[0]);
            r[0] -= begins_row ? other : 0.0f;
        }
        visit(k, r);
    }
}
template <typename Visit> __device__ inline void for_residuals(const Quads &integers, uint32_t predictor, Visit visit) {
    if (predictor == format::SECOND_ORDER) {
        visit_residuals<format::SECOND_ORDER>(integers, visit);
    } else if (predictor == 0) {
        visit_residuals<0>(integers, visit);
    } else if (AXES == 1 || predictor == 1) {
        visit_residuals<1>(integers, visit);
    } else if (predictor == 2) {
        visit_residuals<AXES == 2 ? 2 : 1>(integers, visit);
    } else {
        visit_residuals<AXES == 2 ? 3 : 1>(integers, visit);
    }
}

#if !LOGARITHM
// Where the positions of a line are, from its first one.
struct AlongX {
    __host__ __device__ static constexpr uint32_t of(uint32_t position) { return position; }
};
struct AlongY {
    __host__ __device__ static constexpr uint32_t of(uint32_t position) { return position * (WIDTH + 1); }
};

// A tile whose elements are stored, as it is interpolated.
struct RowInterpolation {
    const InterpolationStep &constants;
    const PointTable<Element> table;
    bool is_cubic;
    Element *values;
    int16_t *codes;
    uint32_t cost;
    Largest largest;

    // Points of any pass, 32 of them at a time.
    __device__ inline void run_points(const PointPass &pass) {
        const uint32_t lane = lane_id();
        // Lines are as long as a power of two, or shorter by one point, and have room for groups of four.
        const uint32_t length_log2 = max_of<uint32_t>(32 - __clz(int32_t(pass.points - 1)), 2);
        for (uint32_t first = 0; first < pass.lines << length_log2; first += WARP) {
            const uint32_t i = first + lane, line = i >> length_log2, point = i & ((1u << length_log2) - 1);
            float factor = 1.0f;
            if (line < pass.lines && point < pass.points) {
                const uint32_t place = table.place(pass, line, point), at = stored_in_row(place);
                const Element prediction = table.predicted(pass, point, place, is_cubic, values);
                const SmallCode code(constants, values[at], prediction, largest);
                values[at] = code.value;
                codes[table.code(pass.first_code + line * pass.points + point)] = code.code;
                factor = code.factor;
            }
            // The product of four points in a row, in their order.
            const float second = __shfl_down_sync(ALL_LANES, factor, 1), third = __shfl_down_sync(ALL_LANES, factor, 2),
                        fourth = __shfl_down_sync(ALL_LANES, factor, 3);
            cost += lane % 4 == 0 ? shifted_cost(factor * second * third * fourth) - COST_OF_ONE : 0;
        }
    }

#if AXES == 2
    // Up to 32 lines, one a lane, at a distance of their points from the known ones.
    template <typename Place, uint32_t DISTANCE, bool IS_CUBIC>
    __device__ inline void run_lines(const PointPass &pass) {
        constexpr uint32_t COUNT = (WIDTH - 1 - DISTANCE + 2 * DISTANCE - 1) / (2 * DISTANCE);
        if (lane_id() < pass.lines) {
            const uint16_t *places = table.codes() + pass.first_code + lane_id() * COUNT;
            cost += code_line<WIDTH, DISTANCE, IS_CUBIC, Place>(
                        constants, values + stored_in_row(table.line(pass.first_line + lane_id())),
                        [&](uint32_t point) -> int16_t & { return codes[places[point]]; }, largest) -
                    (COUNT + 3) / 4 * COST_OF_ONE;
        }
    }
    template <bool IS_CUBIC> __device__ inline void run(const PointPass &pass) {
        switch (uniform(pass.spacing)) {
        case 2:
            return run_lines<AlongX, 1, IS_CUBIC>(pass);
        case 4:
            return run_lines<AlongX, 2, IS_CUBIC>(pass);
        case 2 * WIDTH:
            return run_lines<AlongY, 1, IS_CUBIC>(pass);
        case 4 * WIDTH:
            return run_lines<AlongY, 2, IS_CUBIC>(pass);
        default:
            return run_points(pass);
        }
    }
#else
    // The points of a line of TILE_ELEMENTS positions: each lane has those among WIDTH positions, at a distance from
    // the known ones.
    template <uint32_t DISTANCE, bool IS_CUBIC> __device__ inline void run_lines(const PointPass &pass) {
        constexpr uint32_t N = TILE_ELEMENTS, SPACING = 2 * DISTANCE, COUNT = WIDTH / SPACING;
        // Points of the last lane: the last position is known.
        constexpr uint32_t LAST_COUNT = (WIDTH - 2 - DISTANCE) / SPACING + 1,
                           LAST = N - WIDTH + DISTANCE + SPACING * (LAST_COUNT - 1);
        const uint32_t lane = lane_id();
        const bool is_first = lane == 0, is_last = lane == WARP - 1;
        Element *own = values + lane * (WIDTH + 1);
        // Known positions, from one before the lane's on. Rows are one element longer.
        Element known[COUNT + 3];
        known[0] = is_first ? own[0] : own[-int32_t(SPACING) - 1];
#pragma unroll
        for (uint32_t i = 0; i < COUNT; ++i) {
            known[i + 1] = own[i * SPACING];
        }
        known[COUNT + 1] = is_last ? own[WIDTH - 1] : own[WIDTH + 1];
        known[COUNT + 2] = is_last ? own[WIDTH - 1] : own[WIDTH + 1 + SPACING];
        const uint16_t *places = table.codes() + pass.first_code + lane * COUNT;
        LineCost line;
#pragma unroll
        for (uint32_t i = 0; i < COUNT; ++i) {
            auto weight = [&](uint32_t of) {
                typedef Between<N, DISTANCE, DISTANCE> First;
                typedef Between<N, DISTANCE, N / 2 + DISTANCE> Middle;
                typedef Between<N, DISTANCE, LAST> Last;
                typedef Between<N, DISTANCE, LAST - SPACING> BeforeLast;
                const Element middle = Element(Middle::weight(of, IS_CUBIC));
                return i == 0 && is_first               ? Element(First::weight(of, IS_CUBIC))
                       : i + 1 == LAST_COUNT && is_last ? Element(Last::weight(of, IS_CUBIC))
                       : i + 2 == LAST_COUNT && is_last ? Element(BeforeLast::weight(of, IS_CUBIC))
                                                        : middle;
            };
            Element prediction = product(known[i + 1], weight(1));
            if (IS_CUBIC) {
                prediction = product_plus(known[i + 1], weight(1), product(known[i], weight(0)));
            }
            prediction = product_plus(known[i + 2], weight(2), prediction);
            if (IS_CUBIC) {
                prediction = product_plus(known[i + 3], weight(3), prediction);
            }
            float factor = 1.0f;
            if (i < LAST_COUNT || !is_last) {
                Element &place = own[DISTANCE + i * SPACING];
                const SmallCode code(constants, place, prediction, largest);
                place = code.value;
                codes[places[i]] = code.code;
                factor = code.factor;
            }
            line.add(i, COUNT, factor);
        }
        cost += line.cost - COUNT / 4 * COST_OF_ONE;
    }
    template <bool IS_CUBIC> __device__ inline void run(const PointPass &pass) {
        switch (uniform(pass.spacing)) {
        case 2:
            return run_lines<1, IS_CUBIC>(pass);
        case 4:
            return run_lines<2, IS_CUBIC>(pass);
        case 8:
            return run_lines<4, IS_CUBIC>(pass);
        default:
            return run_points(pass);
        }
    }
#endif
};

// Interpolates a tile whose elements are stored. Returns the cost, and whether codes and errors are those of an
// ordinary tile. Called by the whole warp.
__device__ inline uint32_t interpolate_ordinary(const OrdinaryStep &step, float base, const uint32_t *words,
                                                uint32_t scheme, Element *values, int16_t *codes, bool &is_ordinary) {
    RowInterpolation own{step.constants, {words}, (scheme - 1 & 1) != 0, values, codes, 0};
    bool is_good = true;
    const uint32_t lane = lane_id(), anchors = uniform(own.table.anchors()), passes = uniform(own.table.passes());
    // The anchors: a lattice of two columns.
    Before above{2};
    for (uint32_t window = 0; window < anchors; window += WARP) {
        const uint32_t i = window + lane, place = i < anchors ? stored_in_row(own.table.line(i)) : 0;
        float integer;
        quantize_small(step, values[place], integer);
        float residual = integer - base;
        const float beside = __shfl_xor_sync(ALL_LANES, residual, 1);
        residual -= lane % 2 == 1 ? beside : 0.0f;
        const float other = above(residual);
        residual -= other;
        if (i < anchors) {
            values[place] = reconstruct(*step.all, int32_t(integer));
            codes[own.table.code(i)] = int16_t(__float_as_uint(residual + SHIFTER));
            is_good &= fabsf(residual) < float(CODE_LIMIT);
            own.cost += shifted_cost(__fmaf_rn(2.0f, fabsf(residual), 1.0f)) - COST_OF_ONE;
        }
    }
    __syncwarp();
    for (uint32_t number = 0; number < passes; ++number) {
        const PointPass pass = own.table.pass(number);
        if (own.is_cubic) {
            own.run<true>(pass);
        } else {
            own.run<false>(pass);
        }
        __syncwarp();
    }
    is_ordinary = __all_sync(ALL_LANES, is_good && own.largest.is_small(step.constants.bound));
    return warp_reduce_sum(own.cost);
}
#endif
