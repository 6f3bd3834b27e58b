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
#include "format/constants.cuh"
#include "predict/interpolate.cuh"
#include "predict/lines.cuh"
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

// What ordinary tiles need of the quantizer.
struct OrdinaryStep {
    const Step *all;
#if ELEMENT_BYTES == 4
    float inverse_high, inverse_low, low;
#endif
    Element range_low, range_high;
    InterpolationStep constants; // with the step and the bound of integers, too
    // Most steps between two values of the range; infinite if that is not known.
    float spread;
    bool is_narrow; // whether all integers of values in the range are small
    bool has_patterns;

    __device__ inline explicit OrdinaryStep(const Step &step)
        : all(&step),
#if ELEMENT_BYTES == 4
          inverse_high(step.inverse_high), inverse_low(step.inverse_low), low(step.low),
#endif
          range_low(step.range_low), range_high(step.range_high), constants(step) {
        const double most = fmax(fabs(step.range_low), fabs(step.range_high));
        is_narrow = !LOGARITHM && most < step.step * (BASE_LIMIT / 2 - 2);
        spread = is_narrow ? float((step.range_high - step.range_low) / step.step) + 3.0f : __int_as_float(0x7F800000);
        has_patterns = step.reserved != 0 || step.minus_zeros != 0 || step.pattern_count != 0;
    }
    // Whether the codes of all tiles under a predictor have 16 bits: the factors of as many values as this are 1 in a
    // residual, and those of as many are -1.
    __device__ inline bool fits_codes(uint32_t predictor) const {
        constexpr uint32_t FIRST = 1 << (AXES - 1), SECOND = 1 << (2 * AXES - 1);
        return spread * (predictor == format::SECOND_ORDER ? SECOND : FIRST) < float(CODE_LIMIT);
    }
};

// Finds the integer of an element, as a float: `quantize` in quantize/quantize.cuh, as far as integers are small.
// Returns whether its error is within the bound.
__device__ inline bool quantize_small(const OrdinaryStep &step, Element x, float &integer) {
#if LOGARITHM
    integer = quantize_logarithm(*step.all, x);
    return integer == integer;
#elif ELEMENT_BYTES == 4
    const float rounded = Rounded(x * step.inverse_high).value();
    const float rest = __fmaf_rn(x, step.inverse_low, __fmaf_rn(x, step.inverse_high, -rounded));
    integer = rounded + Rounded(rest).value();
    const float back = __fmaf_rn(integer, step.constants.step, integer * step.low);
    return fabsf(x - back) < step.constants.bound &&
           (!OF_HALVES || fabsf(x - rounded_to_stored(back)) < step.constants.bound);
#else
    const double rounded = Rounded(x * step.all->inverse).value();
    integer = float(rounded);
    return fabs(x - rounded * step.constants.step) < step.constants.bound;
#endif
}

#if !LOGARITHM
// Says whether interpolated values are those of ordinary tiles: their errors are within the bound, and their codes have
// 16 bits.
class Largest {
#if ELEMENT_BYTES == 4
    float error = 0.0f;
#else
    bool is_beyond = false;
#endif
    uint32_t factor = 0; // bits of a number; those of what is not a number are larger

  public:
    __device__ inline void add(Element own_error, float own_factor, Element bound) {
#if ELEMENT_BYTES == 4
        // Where this is not a number, the factor is infinite or not a number.
        error = fmaxf(error, own_error);
#else
        is_beyond |= !(own_error < bound);
#endif
        factor = max_of(factor, __float_as_uint(own_factor));
    }
    __device__ inline bool is_small(Element bound) const {
#if ELEMENT_BYTES == 4
        const bool is_beyond = !(error < bound);
#endif
        return !is_beyond && factor < __float_as_uint(65536.0f);
    }
};

// A value that is predicted and quantized: `Interpolated` in predict/interpolate.cuh.
struct SmallCode {
    Element value;
    int16_t code;
    float factor; // of the cost

    __device__ inline SmallCode(const InterpolationStep &constants, Element wanted, Element prediction,
                                Largest &largest) {
        const Rounded rounded(product(wanted - prediction, constants.inverse));
        // A code of 0 gives the prediction itself, whatever its sign: it is -0.0 here.
        const Element negated = Rounded::SHIFTER - rounded.shifted;
        value = product_plus(-negated, constants.step, prediction);
        code = int16_t(rounded.integer());
        factor = __fmaf_rn(2.0f, fabsf(float(negated)), 1.0f);
        Element error = fabs(wanted - value);
        if (OF_HALVES) {
            // Also that of the value that is rounded to its type.
            error = fmax(error, fabs(wanted - rounded_to_stored(value)));
        }
        largest.add(error, factor, constants.bound);
    }
};
#endif

// The cost of codes together, given the product of their factors, is the difference of this from that of 1.
constexpr uint32_t COST_OF_ONE = 0x3F800000 >> 12;
__device__ inline uint32_t shifted_cost(float product) { return __float_as_uint(product) >> 12; }

#if !LOGARITHM
// Adds the cost of a code to those of a line, of which up to four are taken together.
struct LineCost {
    uint32_t cost = 0;
    float factors = 1.0f;

    // `place` counts the codes from 0 on; the last one of the line is number `count - 1`.
    __device__ inline void add(uint32_t place, uint32_t count, float factor) {
        factors = place % 4 == 0 ? factor : factors * factor;
        if (place % 4 == 3 || place == count - 1) {
            cost += shifted_cost(factors);
        }
    }
};

// Predicts and quantizes the positions of a line of N positions between known ones, at a distance from these. `first`
// is where it begins, and `Place` says where its positions are; `code(i)` is where the code of the `i`th one goes.
// Returns the cost, with COST_OF_ONE for each four of them.
template <uint32_t N, uint32_t DISTANCE, bool IS_CUBIC, typename Place, typename Code>
__device__ inline uint32_t code_line(const InterpolationStep &constants, Element *first, Code code, Largest &largest) {
    constexpr uint32_t COUNT = (N - 1 - DISTANCE + 2 * DISTANCE - 1) / (2 * DISTANCE);
    Element predictions[COUNT];
    predict_line<N, DISTANCE, DISTANCE, IS_CUBIC, Place>(first, predictions);
    LineCost cost;
#pragma unroll
    for (uint32_t point = 0; point < COUNT; ++point) {
        Element &place = first[Place::of(DISTANCE + 2 * DISTANCE * point)];
        const SmallCode own(constants, place, predictions[point], largest);
        place = own.value;
        code(point) = own.code;
        cost.add(point, COUNT, own.factor);
    }
    return cost.cost;
}
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

#include "predict/ordinary_elements.cuh"

// Calls `visit(i, value)` with the values of a lane's quads that are stored. Rarely called, so that short code matters
// more than speed.
template <typename Visit> __device__ inline void for_own_values(const Element *values, Visit visit) {
#pragma unroll 1
    for (uint32_t k = 0; k < QUADS; ++k) {
#pragma unroll
        for (uint32_t j = 0; j < 4; ++j) {
            visit(4 * k + j, (values + quad_in_memory(k))[j]);
        }
    }
}

// A quantized tile.
struct QuantizedOrdinary {
    Quads integers; // without the base
    float base;
    uint32_t sign;  // kind of the signs, for logarithms
    uint32_t zeros; // bit `i`: whether element `i` of the lane is 0, if the tile is to be interpolated
};

// Finds the integers of a tile. Stores its elements to `values`, unless it is null. Returns whether the tile is
// ordinary, as far as these say. Called by the whole warp.
template <typename Elements>
__device__ inline bool quantize_ordinary(const OrdinaryStep &step, const Elements &elements, Element *values,
                                         QuantizedOrdinary &found) {
    Quads &integers = found.integers;
    bool is_good = true, has_zero = false, has_negative = false, has_others = false;
    found.zeros = 0;
#pragma unroll
    for (uint32_t k = 0; k < QUADS; ++k) {
        Element quad[4];
        elements.quad(k, quad);
#pragma unroll
        for (uint32_t j = 0; j < 4; ++j) {
            const Element x = quad[j];
            is_good &= quantize_small(step, x, integers.of[k][j]) & (x >= step.range_low) & (x <= step.range_high);
            has_zero |= !OF_INTEGERS && x == Element(0);
            if (values != nullptr) {
                (values + quad_in_memory(k))[j] = x;
            }
            if (LOGARITHM) {
                const bool is_negative = (bits_of(x) & SIGN_BIT) != 0;
                has_negative |= is_negative;
                has_others |= !is_negative;
            }
        }
        if (step.has_patterns) {
            is_good &= step.all->reserved == 0;
#pragma unroll
            for (uint32_t j = 0; j < 4; ++j) {
                is_good &= step.all->minus_zeros == 0 || bits_of(quad[j]) != SIGN_BIT;
            }
#pragma unroll 1
            for (uint32_t p = 0; p < step.all->pattern_count; ++p) {
#pragma unroll
                for (uint32_t j = 0; j < 4; ++j) {
                    is_good &= bits_of(quad[j]) != Bits(step.all->patterns[p]);
                }
            }
        }
    }
    // The compiler does not know that all lanes come to what follows a condition that it does not know to be the same
    // in all, and has to keep lanes together that have not parted.
    if (__any_sync(ALL_LANES, has_zero) && values != nullptr) {
        for_own_values(values, [&](uint32_t i, Element x) { found.zeros |= x == Element(0) ? 1u << i : 0; });
    }
    found.sign = KIND_NONE;
    if (LOGARITHM) {
        const bool any = __any_sync(ALL_LANES, has_negative), others = __any_sync(ALL_LANES, has_others);
        is_good &= !any || !others;
        found.sign = any ? KIND_ALL : KIND_NONE;
    }
    const float base = __shfl_sync(ALL_LANES, integers.of[0][0], 0);
    found.base = base;
    if (!step.is_narrow) {
#pragma unroll
        for (uint32_t i = 0; i < 4 * QUADS; ++i) {
            const float integer = integers.of[i / 4][i % 4];
            is_good &= fabsf(integer) < INTEGER_LIMIT && fabsf(integer - base) < BASE_LIMIT;
        }
    }
#pragma unroll
    for (uint32_t i = 0; i < 4 * QUADS; ++i) {
        integers.of[i / 4][i % 4] -= base;
    }
    __syncwarp();
    return __all_sync(ALL_LANES, is_good);
}

// Returns the cost of the residuals under a predictor. Writes them as codes of strips to `codes`, unless it is null;
// `fits` then says whether the lane's have 16 bits. Called by the whole warp.
__device__ inline uint32_t predict_lorenzo(const OrdinaryStep &step, const Quads &integers, uint32_t predictor,
                                           int16_t *codes, bool &fits) {
    const bool is_sure = step.fits_codes(predictor);
    uint32_t cost = 0;
    fits = true;
    for_residuals(integers, predictor, [&](uint32_t k, const float(&residuals)[4]) {
        float product = 1.0f;
        uint32_t words[4];
#pragma unroll
        for (uint32_t j = 0; j < 4; ++j) {
            product *= __fmaf_rn(2.0f, fabsf(residuals[j]), 1.0f);
            words[j] = __float_as_uint(residuals[j] + SHIFTER);
        }
        cost += shifted_cost(product);
        if (!is_sure) {
#pragma unroll
            for (uint32_t j = 0; j < 4; ++j) {
                fits &= fabsf(residuals[j]) < float(CODE_LIMIT);
            }
        }
        if (codes != nullptr) {
            *reinterpret_cast<uint2 *>(codes + k * STRIP_ROOM + 4 * lane_id()) =
                make_uint2(__byte_perm(words[0], words[1], 0x5410), __byte_perm(words[2], words[3], 0x5410));
        }
    });
    return warp_reduce_sum(cost) - WARP * QUADS * COST_OF_ONE;
}

// Whether all integers of a tile are its base. Called by the whole warp.
__device__ inline bool all_zero(const Quads &integers) {
    uint32_t bits = 0;
#pragma unroll
    for (uint32_t i = 0; i < 4 * QUADS; ++i) {
        bits |= __float_as_uint(integers.of[i / 4][i % 4]);
    }
    return __all_sync(ALL_LANES, bits == 0);
}

#if !LOGARITHM
// Whether the elements that are 0 stay so, given their bits as in `quantize_ordinary`.
__device__ inline bool keeps_zeros(uint32_t zeros, const Element *values) {
    bool keeps = true;
    if (__any_sync(ALL_LANES, zeros != 0)) {
        for_own_values(values, [&](uint32_t i, Element x) { keeps &= (zeros >> i & 1) == 0 || bits_of(x) == 0; });
    }
    return __all_sync(ALL_LANES, keeps);
}
#endif

// How an ordinary tile is coded.
struct CodedOrdinary {
    uint32_t cost;
    uint32_t predictor; // place in the list, or INTERPOLATED
    int32_t base;
    uint32_t codes;   // which of the memory for codes has them, in strips
    bool is_constant; // whether all codes are 0 and the tile is not interpolated

    __device__ inline bool is_dense() const { return 2 * cost >= (3 * TILE_ELEMENTS) << strips::COST_LOG2; }
};

// Codes a quantized tile, whose elements are stored if the chunk has a scheme, by the cheapest of the listed predictors
// and the scheme, whose table is `table`. Returns whether the tile is ordinary. Called by the whole warp.
__device__ inline bool predict_ordinary(const OrdinaryStep &step, const ChunkChoice &choice, const uint32_t *table,
                                        const QuantizedOrdinary &tile, OrdinaryMemory &memory, CodedOrdinary &coded) {
    coded = {0, 0, int32_t(tile.base), 1, true};
    if (all_zero(tile.integers)) {
        return true;
    }
    const uint32_t listed = uniform(choice.listed);
    bool fits = true;
#pragma unroll 1
    for (uint32_t place = 0; place < listed && (place == 0 || coded.cost > 0); ++place) {
        bool own_fits;
        const uint32_t cost = predict_lorenzo(step, tile.integers, uniform(choice.predictors[place]),
                                              memory.codes[1 - coded.codes], own_fits);
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
    const uint32_t scheme = uniform(choice.scheme);
    if (scheme != 0 && !coded.is_constant) {
        bool is_ordinary;
        const uint32_t cost = interpolate_ordinary(step, tile.base, table, scheme, memory.values,
                                                   memory.codes[1 - coded.codes], is_ordinary);
        if (!is_ordinary || !keeps_zeros(tile.zeros, memory.values)) {
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
