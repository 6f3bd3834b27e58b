// Whole ordinary tiles of 8x8x8 of f32: those without masked and verbatim values, whose integers are small. From
// elements to codes, everything stays in registers and shared memory.
//
// STRIP_ROOM  codes of shared memory from strip to strip
// See also predict/cube_lines.cuh and predict/interpolate.cuh.
#pragma once
#include "predict/cube_differences.cuh"
#include "predict/cube_lines.cuh"
#include "predict/interpolate.cuh"
#include "strips/alphabet.cuh"
#include "strips/structs.cuh"

constexpr uint32_t CUBE = SIDE * SIDE * SIDE, CUBE_STRIPS = CUBE / STRIP_LEN;
// Codes with smaller magnitudes have 16 bits.
constexpr float CODE_LIMIT = 32767.5f;
// Integers of ordinary tiles, with the base.
constexpr float INTEGER_LIMIT = 1 << 21;
// Adding this to a number below 2^22 rounds it, to even on a tie, and leaves the integer in the lowest bits.
constexpr float SHIFTER = 0x1.8p23f;

// Shared memory of a tile.
struct __align__(16) CubeMemory {
    union {
        float values[SIDE * PLANE];
        // The place of a value that is not 0 times 2^16, and its code; first, one in another strip.
        uint32_t tokens[1 + CUBE];
    };
    int16_t codes[2][CUBE_STRIPS * STRIP_ROOM]; // of the best Lorenzo predictor, and of interpolation
};

// The elements of a tile as a lane has them: predict/cube_differences.cuh.
struct CubeElements {
    float of[4][4];

    __device__ inline void load(const TileSource &source, bool vectors) {
        const uint32_t lane = lane_id();
        const float *from = source.first + lane / 16 * source.plane + lane / 2 % 8 * source.row + lane % 2 * 4;
#pragma unroll
        for (uint32_t k = 0; k < 4; ++k) {
            if (vectors) {
                const float4 four = __ldcs(reinterpret_cast<const float4 *>(from));
                of[k][0] = four.x, of[k][1] = four.y, of[k][2] = four.z, of[k][3] = four.w;
            } else {
#pragma unroll
                for (uint32_t j = 0; j < 4; ++j) {
                    of[k][j] = __ldcs(from + j);
                }
            }
            from += 2 * source.plane;
        }
    }
};

// Finds the integer of an element, as a float: `quantize` in quantize/quantize.cuh, as far as integers are small.
// Returns whether it is that of an ordinary tile.
__device__ inline bool quantize_float(const Step &step, float x, float &integer) {
    const float rounded = (x * step.inverse_high + SHIFTER) - SHIFTER;
    const float rest = __fmaf_rn(x, step.inverse_low, __fmaf_rn(x, step.inverse_high, -rounded));
    integer = rounded + ((rest + SHIFTER) - SHIFTER);
    const float error = fabsf(x - __fmaf_rn(integer, step.high, integer * step.low));
    return error < step.bound && fabsf(integer) < INTEGER_LIMIT;
}

// The lines of a pass.
struct EncodingPass {
    const uint32_t *lines;
    uint32_t count;
    float *values;
    int16_t *codes;
    const InterpolationStep &constants;
    uint32_t &cost;
    bool &is_good;

    // Predicts and quantizes the lines.
    template <uint32_t AXIS, uint32_t LEVEL, bool IS_CUBIC> __device__ inline void run() const {
        constexpr uint32_t DISTANCE = SIDE / 2 >> LEVEL,
                           COUNT = (SIDE - 1 - DISTANCE + 2 * DISTANCE - 1) / (2 * DISTANCE);
        for (uint32_t i = lane_id(); i < count; i += WARP) {
            float *line = values + (lines[i] & 0xFFFF);
            int16_t *to = codes + (lines[i] >> 16);
            float predictions[COUNT], product = 1.0f;
            predict_line<SIDE, DISTANCE, DISTANCE, IS_CUBIC, Along<AXIS>>(line, predictions);
#pragma unroll
            for (uint32_t point = 0; point < COUNT; ++point) {
                float &place = line[Along<AXIS>::of(DISTANCE + 2 * DISTANCE * point)];
                const float wanted = place, prediction = predictions[point];
                const float scaled = ::product(wanted - prediction, constants.inverse), shifted = scaled + SHIFTER,
                            code = shifted - SHIFTER;
                const float moved = product_plus(code, constants.step, prediction);
                // A code of 0 gives the prediction itself, whatever its sign.
                const float found = code != 0.0f ? moved : prediction;
                is_good &= fabsf(scaled) < CODE_LIMIT && fabsf(wanted - found) < constants.bound;
                // 0.0 is kept exactly, and -0.0 is verbatim.
                is_good &= wanted != 0.0f || (__float_as_uint(wanted) | __float_as_uint(found)) == 0;
                place = found;
                to[point] = int16_t(__float_as_uint(shifted));
                product *= __fmaf_rn(2.0f, fabsf(code), 1.0f);
            }
            cost += product_cost(product);
        }
    }
};

// Interpolates a tile whose elements are stored. Returns the cost, and whether the tile is ordinary under the scheme.
// Called by the whole warp.
__device__ inline uint32_t interpolate_cube(const Step &step, float base, const uint32_t *table, bool is_cubic,
                                            float *values, int16_t *codes, bool &is_ordinary) {
    const uint32_t passes = table[0] & 0xFFFF, anchors = table[0] >> 16, lane = lane_id();
    const uint32_t *lines = table + LINES_AT;
    const InterpolationStep constants(step);
    uint32_t cost = 0;
    bool is_good = true;
    // The anchors: a lattice of two positions along x and y, and of two or eight along z.
    const bool is_anchor = lane < anchors;
    const uint32_t line = is_anchor ? lines[lane] : 0;
    float integer;
    quantize_float(step, values[line & 0xFFFF], integer);
    float residual = integer - base;
#pragma unroll
    for (uint32_t axis = 1; axis <= 2; axis *= 2) {
        const float before = __shfl_xor_sync(ALL_LANES, residual, axis);
        residual -= (lane & axis) != 0 ? before : 0.0f;
    }
    const float before = __shfl_up_sync(ALL_LANES, residual, 4);
    residual -= lane >= 4 ? before : 0.0f;
    if (is_anchor) {
        values[line & 0xFFFF] = __fmaf_rn(integer, step.high, integer * step.low);
        codes[line >> 16] = int16_t(__float_as_uint(residual + SHIFTER));
        is_good = fabsf(residual) < CODE_LIMIT;
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

// Writes residuals as codes of strips. Returns whether all have 16 bits.
__device__ inline bool store_codes(const CubeRows &residuals, int16_t *codes) {
    bool fits = true;
#pragma unroll
    for (uint32_t k = 0; k < 4; ++k) {
        uint32_t words[4];
#pragma unroll
        for (uint32_t j = 0; j < 4; ++j) {
            fits &= fabsf(residuals.of[k][j]) < CODE_LIMIT;
            words[j] = __float_as_uint(residuals.of[k][j] + SHIFTER);
        }
        *reinterpret_cast<uint2 *>(codes + k * STRIP_ROOM + 4 * lane_id()) =
            make_uint2(__byte_perm(words[0], words[1], 0x5410), __byte_perm(words[2], words[3], 0x5410));
    }
    return fits;
}

// Finds the integers of a tile without its base. Returns whether the tile is ordinary, as far as these say. Called by
// the whole warp.
__device__ inline bool quantize_cube(const Step &step, const CubeElements &elements, CubeRows &integers, float &base) {
    const float low = float(step.range_low), high = float(step.range_high);
    bool is_good = step.reserved == 0;
#pragma unroll
    for (uint32_t i = 0; i < 16; ++i) {
        const float x = elements.of[i / 4][i % 4];
        is_good &= quantize_float(step, x, integers.of[i / 4][i % 4]) && x >= low && x <= high;
    }
    if (step.minus_zeros != 0) {
#pragma unroll
        for (uint32_t i = 0; i < 16; ++i) {
            is_good &= bits_of(elements.of[i / 4][i % 4]) != SIGN_BIT;
        }
    }
#pragma unroll 1
    for (uint32_t p = 0; p < step.pattern_count; ++p) {
#pragma unroll
        for (uint32_t i = 0; i < 16; ++i) {
            is_good &= bits_of(elements.of[i / 4][i % 4]) != Bits(step.patterns[p]);
        }
    }
    base = __shfl_sync(ALL_LANES, integers.of[0][0], 0);
#pragma unroll
    for (uint32_t i = 0; i < 16; ++i) {
        float &integer = integers.of[i / 4][i % 4];
        integer -= base;
        is_good &= fabsf(integer) < CUBE_LIMIT;
    }
    return __all_sync(ALL_LANES, is_good);
}

// Returns the cost of residuals. Called by the whole warp.
__device__ inline uint32_t cube_cost(const CubeRows &residuals) {
    uint32_t cost = 0;
#pragma unroll
    for (uint32_t k = 0; k < 4; ++k) {
        float product = __fmaf_rn(2.0f, fabsf(residuals.of[k][0]), 1.0f);
#pragma unroll
        for (uint32_t j = 1; j < 4; ++j) {
            product *= __fmaf_rn(2.0f, fabsf(residuals.of[k][j]), 1.0f);
        }
        cost += product_cost(product);
    }
    return warp_reduce_sum(cost);
}

// Stores the elements of a tile where lines are. Called by the whole warp.
__device__ inline void store_elements(const CubeElements &elements, float *values) {
    const uint32_t lane = lane_id();
#pragma unroll
    for (uint32_t k = 0; k < 4; ++k) {
        const uint32_t plane = lane < 16 ? stored(2 * k) * PLANE : stored(2 * k + 1) * PLANE;
        float *row = values + plane + stored(lane / 2 % 8) * ROW + lane % 2 * 4;
#pragma unroll
        for (uint32_t j = 0; j < 4; ++j) {
            row[j] = elements.of[k][j];
        }
    }
    __syncwarp();
}

// How an ordinary tile is coded.
struct CodedCube {
    uint32_t cost;
    uint32_t predictor; // place in the list, or INTERPOLATED
    int32_t base;
    const int16_t *codes; // in strips
    bool is_constant;     // whether all codes are 0 and the tile is not interpolated

    __device__ inline bool is_dense() const { return 2 * cost >= (3 * CUBE) << strips::COST_LOG2; }
};

// Codes a tile by the cheapest of the listed predictors and the scheme, with whose table of lines. Returns whether it
// is ordinary. Called by the whole warp.
__device__ inline bool predict_cube(const Step &step, const ChunkChoice &choice, const uint32_t *lines,
                                    const CubeElements &elements, CubeMemory &memory, CodedCube &coded) {
    CubeRows integers;
    float base;
    if (!quantize_cube(step, elements, integers, base)) {
        return false;
    }
    coded = {~0u, 0, int32_t(base), memory.codes[0], false};
    bool fits = true;
#pragma unroll 1
    for (uint32_t place = 0; place < choice.listed; ++place) {
        CubeRows residuals = integers;
        difference_cube(residuals, choice.predictors[place]);
        const uint32_t cost = cube_cost(residuals);
        if (place == 0 || cost < coded.cost) {
            coded.cost = cost;
            coded.predictor = place;
            fits = store_codes(residuals, memory.codes[0]);
        }
    }
    fits = __all_sync(ALL_LANES, fits);
    coded.is_constant = coded.cost == 0;
    if (choice.scheme != 0 && !coded.is_constant) {
        store_elements(elements, memory.values);
        bool is_ordinary;
        const uint32_t cost = interpolate_cube(step, base, lines, (choice.scheme - 1 & 1) != 0, memory.values,
                                               memory.codes[1], is_ordinary);
        if (!is_ordinary) {
            return false;
        }
        if (cost < coded.cost) {
            coded.cost = cost;
            coded.predictor = strips::INTERPOLATED;
            coded.codes = memory.codes[1];
            return true;
        }
    }
    __syncwarp();
    return fits;
}

// Lists the values of a tile that are not 0 in `memory.tokens`, behind one in another strip. Returns their number.
__device__ inline uint32_t list_values(const int16_t *codes, CubeMemory &memory) {
    const uint32_t lane = lane_id();
    // A lane has 16 consecutive codes.
    const uint4 *from = reinterpret_cast<const uint4 *>(codes + lane / 8 * STRIP_ROOM + lane % 8 * 16);
    const uint4 low = from[0], high = from[1];
    const uint32_t pairs[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    uint32_t count = 0;
#pragma unroll
    for (uint32_t i = 0; i < 8; ++i) {
        count += ((pairs[i] & 0xFFFF) != 0 ? 1 : 0) + (pairs[i] >> 16 != 0 ? 1 : 0);
    }
    const uint32_t through = warp_inclusive_sum(count);
    __syncwarp();
    uint32_t *to = memory.tokens + 1 + through - count;
#pragma unroll
    for (uint32_t i = 0; i < 8; ++i) {
        const uint32_t place = (16 * lane + 2 * i) << 16;
        if ((pairs[i] & 0xFFFF) != 0) {
            *to++ = place | (pairs[i] & 0xFFFF);
        }
        if (pairs[i] >> 16 != 0) {
            *to++ = (place + (1 << 16)) | pairs[i] >> 16;
        }
    }
    if (lane == 0) {
        memory.tokens[0] = 0xFFFF0000;
    }
    __syncwarp();
    return __shfl_sync(ALL_LANES, through, WARP - 1);
}

// The values of a lane that are not 0, in the order of the tile. The whole warp makes them.
struct LaneValues {
    const uint32_t *tokens;
    uint32_t count;

    __device__ inline LaneValues(const int16_t *codes, CubeMemory &memory) {
        const uint32_t all = list_values(codes, memory);
        const uint32_t own = ceil_div(all, WARP), first = min_of(lane_id() * own, all);
        tokens = memory.tokens + 1 + first;
        count = min_of(own, all - first);
    }
    // Calls `put(strip, begins, zeros, value)` for the values: `begins` says whether a value is the first of its strip.
    template <typename Put> __device__ inline void for_each(Put put) const {
        uint32_t before = tokens[-1] >> 16;
#pragma unroll 1
        for (uint32_t i = 0; i < count; ++i) {
            const uint32_t token = tokens[i], place = token >> 16;
            const bool begins = (place ^ before) / STRIP_LEN != 0;
            put(place / STRIP_LEN, begins, begins ? place % STRIP_LEN : place - before - 1, int32_t(int16_t(token)));
            before = place;
        }
    }
};
