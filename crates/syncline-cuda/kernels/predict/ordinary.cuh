// Whole ordinary tiles: those without masked and verbatim values, and without signs of their own, whose integers are
// small. From elements to codes, everything stays in registers and shared memory.
//
// A lane has four consecutive elements, a quad, of each strip of 128: elements 128 k + 4 lane and those after it.
// Integers are floats: sums of differences are exact as long as integers without the base are below BASE_LIMIT.
//
// ROWS        0: tiles of 8x8x8; 1: tiles of 1,024 or of 32x32
// STRIP_ROOM  codes of shared memory from strip to strip
// See also predict/interpolate.cuh.
#pragma once
#include "predict/interpolate.cuh"
#include "strips/alphabet.cuh"
#include "strips/structs.cuh"

constexpr uint32_t QUADS = TILE_ELEMENTS / STRIP_LEN;
// Codes with smaller magnitudes have 16 bits.
constexpr Element CODE_LIMIT = 32767.5;
// Integers of ordinary tiles, with the base.
constexpr float INTEGER_LIMIT = 1 << 21;
// Second differences along three axes sum 64 integers at most.
constexpr float BASE_LIMIT = float(1 << 24) / 64;
// Adding this to an integer below 2^22 leaves it in the lowest bits.
constexpr float SHIFTER = 0x1.8p23f;

// Integers or residuals of a lane.
struct Quads {
    float of[QUADS][4];
};

#if LOGARITHM
// Returns the integer of an element, or NaN if it must be stored verbatim. A function of its own, because it is long.
__device__ __noinline__ float quantize_logarithm(const Step &step, Element x) {
    int32_t found;
    return quantize(step, x, found) ? float(found) : __int_as_float(0x7FC00000);
}
#endif

// Finds the integer of an element, as a float: `quantize` in quantize/quantize.cuh, as far as integers are small.
// Returns whether it is that of an ordinary tile.
__device__ inline bool quantize_small(const Step &step, Element x, float &integer) {
#if LOGARITHM
    integer = quantize_logarithm(step, x);
    return fabsf(integer) < INTEGER_LIMIT;
#elif ELEMENT_BYTES == 4
    const float rounded = Rounded(x * step.inverse_high).value();
    const float rest = __fmaf_rn(x, step.inverse_low, __fmaf_rn(x, step.inverse_high, -rounded));
    integer = rounded + Rounded(rest).value();
    const float error = fabsf(x - __fmaf_rn(integer, step.high, integer * step.low));
    return error < step.bound && fabsf(integer) < INTEGER_LIMIT;
#else
    const double rounded = Rounded(x * step.inverse).value();
    integer = float(rounded);
    return fabs(x - rounded * step.step) < step.limit && fabs(rounded) < double(INTEGER_LIMIT);
#endif
}

#if !LOGARITHM
// A value that is predicted and quantized, with a small code: `Interpolated` in predict/interpolate.cuh.
struct SmallCode {
    Element value;
    int16_t code;
    float factor; // of the cost

    // `is_good` becomes false if the value is not that of an ordinary tile.
    __device__ inline SmallCode(const InterpolationStep &constants, Element wanted, Element prediction, bool &is_good) {
        const Element scaled = product(wanted - prediction, constants.inverse);
        const Rounded rounded(scaled);
        const Element moved = product_plus(rounded.value(), constants.step, prediction);
        // A code of 0 gives the prediction itself, whatever its sign.
        value = rounded.value() != Element(0) ? moved : prediction;
        is_good &= fabs(scaled) < CODE_LIMIT && fabs(wanted - value) < constants.bound;
        // 0.0 is kept exactly, and -0.0 is verbatim.
        is_good &= wanted != Element(0) || (bits_of(wanted) | bits_of(value)) == 0;
        code = int16_t(rounded.integer());
        factor = __fmaf_rn(2.0f, fabsf(float(rounded.value())), 1.0f);
    }
};
#endif

#if ROWS
#include "predict/ordinary_rows.cuh"
#else
#include "predict/ordinary_cubes.cuh"
#endif

// Shared memory of a tile.
struct __align__(16) OrdinaryMemory {
    union {
        Element values[ORDINARY_VALUES];
        // The place of a value that is not 0 times 2^16, and its code; first, one in another strip.
        uint32_t tokens[1 + TILE_ELEMENTS];
    };
    int16_t codes[2][QUADS * STRIP_ROOM]; // of the cheapest way so far, and of another
};

// Whole tiles are requested ahead, unless registers do not suffice.
constexpr bool LOADS_AHEAD = TILE_ELEMENTS * ELEMENT_BYTES <= 512 * 8;

// The elements of a tile, of which each lane has its quads.
struct OrdinaryElements {
    TileSource source;
    bool vectors; // whether quads start on multiples of 16 bytes
    Element of[LOADS_AHEAD ? QUADS : 1][4];

    OrdinaryElements() = default;
    __device__ inline OrdinaryElements(const TileSource &source, bool vectors) : source(source), vectors(vectors) {
        if (LOADS_AHEAD) {
#pragma unroll
            for (uint32_t k = 0; k < QUADS; ++k) {
                load(k, of[LOADS_AHEAD ? k : 0]);
            }
        }
    }
    __device__ inline void load(uint32_t k, Element (&quad)[4]) const {
        const Element *from = source.first + quad_in_array(source, k);
        if (vectors) {
#if ELEMENT_BYTES == 4
            const float4 four = __ldcs(reinterpret_cast<const float4 *>(from));
            quad[0] = four.x, quad[1] = four.y, quad[2] = four.z, quad[3] = four.w;
#else
            const double2 low = __ldcs(reinterpret_cast<const double2 *>(from)),
                          high = __ldcs(reinterpret_cast<const double2 *>(from) + 1);
            quad[0] = low.x, quad[1] = low.y, quad[2] = high.x, quad[3] = high.y;
#endif
        } else {
#pragma unroll
            for (uint32_t j = 0; j < 4; ++j) {
                quad[j] = __ldcs(from + j);
            }
        }
    }
    __device__ inline void quad(uint32_t k, Element (&quad)[4]) const {
        if (LOADS_AHEAD) {
#pragma unroll
            for (uint32_t j = 0; j < 4; ++j) {
                quad[j] = of[LOADS_AHEAD ? k : 0][j];
            }
        } else {
            load(k, quad);
        }
    }
};

// Finds the integers of a tile without its base; and, for logarithms, the kind of its signs. Stores the elements to
// `values`, unless it is null. Returns whether the tile is ordinary, as far as these say. Called by the whole warp.
__device__ inline bool quantize_ordinary(const Step &step, const OrdinaryElements &elements, Quads &integers,
                                         float &base, uint32_t &sign, Element *values) {
    const Element low = Element(step.range_low), high = Element(step.range_high);
    bool is_good = step.reserved == 0, has_negative = false, has_others = false;
#pragma unroll
    for (uint32_t k = 0; k < QUADS; ++k) {
        Element quad[4];
        elements.quad(k, quad);
#pragma unroll
        for (uint32_t j = 0; j < 4; ++j) {
            const Element x = quad[j];
            is_good &= quantize_small(step, x, integers.of[k][j]) && x >= low && x <= high;
            if (values != nullptr) {
                values[quad_in_memory(k) + j] = x;
            }
            if (LOGARITHM) {
                const bool is_negative = (bits_of(x) & SIGN_BIT) != 0;
                has_negative |= is_negative;
                has_others |= !is_negative;
            }
        }
        if (step.minus_zeros != 0) {
#pragma unroll
            for (uint32_t j = 0; j < 4; ++j) {
                is_good &= bits_of(quad[j]) != SIGN_BIT;
            }
        }
        if (step.pattern_count != 0) {
#pragma unroll 1
            for (uint32_t p = 0; p < step.pattern_count; ++p) {
#pragma unroll
                for (uint32_t j = 0; j < 4; ++j) {
                    is_good &= bits_of(quad[j]) != Bits(step.patterns[p]);
                }
            }
        }
    }
    sign = KIND_NONE;
    if (LOGARITHM) {
        const bool any = __any_sync(ALL_LANES, has_negative), others = __any_sync(ALL_LANES, has_others);
        is_good &= !any || !others;
        sign = any ? KIND_ALL : KIND_NONE;
    }
    base = __shfl_sync(ALL_LANES, integers.of[0][0], 0);
#pragma unroll
    for (uint32_t i = 0; i < 4 * QUADS; ++i) {
        float &integer = integers.of[i / 4][i % 4];
        integer -= base;
        is_good &= fabsf(integer) < BASE_LIMIT;
    }
    __syncwarp();
    return __all_sync(ALL_LANES, is_good);
}

// Returns the cost of the residuals under a predictor. Writes them as codes of strips to `codes`, unless it is null;
// `fits` then says whether the lane's have 16 bits. Called by the whole warp.
__device__ inline uint32_t predict_lorenzo(const Quads &integers, uint32_t predictor, int16_t *codes, bool &fits) {
    uint32_t cost = 0;
    fits = true;
    for_residuals(integers, predictor, [&](uint32_t k, const float(&residuals)[4]) {
        float product = 1.0f;
        uint32_t words[4];
#pragma unroll
        for (uint32_t j = 0; j < 4; ++j) {
            product *= __fmaf_rn(2.0f, fabsf(residuals[j]), 1.0f);
            fits &= fabsf(residuals[j]) < float(CODE_LIMIT);
            words[j] = __float_as_uint(residuals[j] + SHIFTER);
        }
        cost += product_cost(product);
        if (codes != nullptr) {
            *reinterpret_cast<uint2 *>(codes + k * STRIP_ROOM + 4 * lane_id()) =
                make_uint2(__byte_perm(words[0], words[1], 0x5410), __byte_perm(words[2], words[3], 0x5410));
        }
    });
    return warp_reduce_sum(cost);
}

// How an ordinary tile is coded.
struct CodedOrdinary {
    uint32_t cost;
    uint32_t predictor; // place in the list, or INTERPOLATED
    int32_t base;
    uint32_t codes;   // which of the memory for codes has them, in strips
    bool is_constant; // whether all codes are 0 and the tile is not interpolated
    uint32_t sign;    // kind of the signs

    __device__ inline bool is_dense() const { return 2 * cost >= (3 * TILE_ELEMENTS) << strips::COST_LOG2; }
};

// Codes a tile by the cheapest of the listed predictors and the scheme, whose table is `table`. Returns whether the
// tile is ordinary. Called by the whole warp.
__device__ inline bool predict_ordinary(const Step &step, const ChunkChoice &choice, const uint32_t *table,
                                        const OrdinaryElements &elements, OrdinaryMemory &memory,
                                        CodedOrdinary &coded) {
    Quads integers;
    float base;
    uint32_t sign;
    const bool interpolates = !LOGARITHM && choice.scheme != 0;
    if (!quantize_ordinary(step, elements, integers, base, sign, interpolates ? memory.values : nullptr)) {
        return false;
    }
    coded = {~0u, 0, int32_t(base), 1, false, sign};
    bool fits = true;
#pragma unroll 1
    for (uint32_t place = 0; place < choice.listed; ++place) {
        bool own_fits;
        const uint32_t cost =
            predict_lorenzo(integers, choice.predictors[place], memory.codes[1 - coded.codes], own_fits);
        if (place == 0 || cost < coded.cost) {
            coded.cost = cost;
            coded.predictor = place;
            coded.codes = 1 - coded.codes;
            fits = own_fits;
        }
    }
    fits = __all_sync(ALL_LANES, fits);
    coded.is_constant = coded.cost == 0;
#if !LOGARITHM
    if (interpolates && !coded.is_constant) {
        bool is_ordinary;
        const uint32_t cost = interpolate_ordinary(step, base, table, (choice.scheme - 1 & 1) != 0, memory.values,
                                                   memory.codes[1 - coded.codes], is_ordinary);
        if (!is_ordinary) {
            return false;
        }
        if (cost < coded.cost) {
            coded.cost = cost;
            coded.predictor = strips::INTERPOLATED;
            coded.codes = 1 - coded.codes;
            return true;
        }
    }
#endif
    __syncwarp();
    return fits;
}

// Lists the values of a tile that are not 0 in `memory.tokens`, behind one in another strip. Returns their number.
__device__ inline uint32_t list_values(const int16_t *codes, OrdinaryMemory &memory) {
    const uint32_t lane = lane_id();
    // A lane has consecutive codes.
    constexpr uint32_t OWN = TILE_ELEMENTS / WARP;
    const uint32_t start = OWN * lane;
    const uint4 *from = reinterpret_cast<const uint4 *>(codes + start / STRIP_LEN * STRIP_ROOM + start % STRIP_LEN);
    uint32_t pairs[OWN / 2];
#pragma unroll
    for (uint32_t i = 0; i < OWN / 8; ++i) {
        const uint4 eight = from[i];
        pairs[4 * i] = eight.x, pairs[4 * i + 1] = eight.y, pairs[4 * i + 2] = eight.z, pairs[4 * i + 3] = eight.w;
    }
    uint32_t count = 0;
#pragma unroll
    for (uint32_t i = 0; i < OWN / 2; ++i) {
        count += ((pairs[i] & 0xFFFF) != 0 ? 1 : 0) + (pairs[i] >> 16 != 0 ? 1 : 0);
    }
    const uint32_t through = warp_inclusive_sum(count);
    __syncwarp();
    uint32_t *to = memory.tokens + 1 + through - count;
#pragma unroll
    for (uint32_t i = 0; i < OWN / 2; ++i) {
        const uint32_t place = (start + 2 * i) << 16;
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

    __device__ inline LaneValues(const int16_t *codes, OrdinaryMemory &memory) {
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
