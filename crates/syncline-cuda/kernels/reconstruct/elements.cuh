// Computes elements from sums of residuals: sums across groups, and dequantization.
//
// A lane has columns of a tile: VECTOR elements that are adjacent along x, at each of the tile's steps (planes, rows or
// segments). It iterates over the steps, so that sums across them stay in registers, and writes 16 bytes at each.
// Neighboring lanes have elements that are adjacent in the array.
//
// DOUBLE  1 if elements are f64, 0 if f32
// LOG     1 if integers are logarithms, whose signs are stored separately
#pragma once
#include "geometry.cuh"
#include "container/parsed.cuh"
#include "reconstruct/rows.cuh"
#include "reconstruct/structs.cuh"

#if DOUBLE
typedef double Element;
typedef uint64_t Bits;
#else
typedef float Element;
typedef uint32_t Bits;
#endif
constexpr uint32_t VECTOR = 16 / sizeof(Element);

__device__ inline float from_bits(uint32_t bits) { return __uint_as_float(bits); }
__device__ inline double from_bits(uint64_t bits) { return __longlong_as_double(int64_t(bits)); }
__device__ inline uint32_t bits_of(float value) { return __float_as_uint(value); }
__device__ inline uint64_t bits_of(double value) { return uint64_t(__double_as_longlong(value)); }

// Returns 2 to the power of y with the operations that FORMAT.md specifies; none of them may be fused.
__device__ inline double exp2_exactly(double y) {
    constexpr double COEFFICIENTS[14] = {
        1.0,        1.0,         1.0 / 2,      1.0 / 6,       1.0 / 24,       1.0 / 120,       1.0 / 720,
        1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};
    y = y > -2000.0 ? y : -2000.0;
    y = y < 2000.0 ? y : 2000.0;
    const double whole = rint(y);
    const double t = __dmul_rn(__dsub_rn(y, whole), __longlong_as_double(0x3FE62E42FEFA39EF));
    double p = COEFFICIENTS[13];
#pragma unroll
    for (int32_t i = 12; i >= 0; --i) {
        p = __dadd_rn(__dmul_rn(p, t), COEFFICIENTS[i]);
    }
    const int32_t k = int32_t(whole), half = k >> 1;
    auto power_of_two = [](int32_t exponent) { return __longlong_as_double(int64_t(exponent + 1023) << 52); };
    return __dmul_rn(__dmul_rn(p, power_of_two(half)), power_of_two(k - half));
}

// The range that elements are limited to.
struct ValueRange {
    Element low, high;
    __device__ inline explicit ValueRange(const Values &values)
#if DOUBLE
        : low(values.low), high(values.high){}
#else
        : low(values.narrow_low), high(values.narrow_high) {
    }
#endif
          // Limits any value as FORMAT.md states.
          __device__ inline Element
          operator()(Element x) const {
        const Element raised = x > low ? x : low;
        return raised < high ? raised : high;
    }
    // The same for values that are neither NaN nor -0.0, such as multiples of the step.
    __device__ inline Element of_multiple(Element x) const {
#if DOUBLE
        return (*this)(x); // there are no instructions for it
#else
        return fminf(fmaxf(x, low), high);
#endif
    }
};

// The quantization step in the form that integers are multiplied with, and the range that results are limited to.
struct Quantum {
    ValueRange range;
#if LOG || DOUBLE
    double step;
    __device__ inline explicit Quantum(const Values &values) : range(values), step(values.step) {}
#else
    float high, low;
    __device__ inline explicit Quantum(const Values &values)
        : range(values), high(values.step_high), low(values.step_low) {}
#endif
};

// Returns the value of an integer, or with LOG its magnitude, that is not limited to the range.
__device__ inline Element unlimited(int32_t q, const Quantum &quantum) {
#if LOG
    return Element(exp2_exactly(__dmul_rn(double(q), quantum.step)));
#elif DOUBLE
    return __dmul_rn(double(q), quantum.step);
#else
    const float rounded = __int2float_rn(q);
    return __fmaf_rn(rounded, quantum.high, __fmul_rn(rounded, quantum.low));
#endif
}

// Returns the element of an integer, without a sign of its own.
__device__ inline Element dequantized(int32_t q, const Quantum &quantum) {
    return quantum.range.of_multiple(unlimited(q, quantum));
}

// A tile that is being written, as a lane holds it.
struct Work {
    uint64_t first_element; // in the output slab
    uint32_t position;      // of its first element in the chunk
    uint32_t nz, ny, nx;
    uint32_t number; // in the chunk
    uint32_t predictor;
    uint32_t meta;
    int32_t base;
    uint32_t first_group; // in the chunk
    bool wanted;          // the tile exists and is in the requested range

    __device__ inline bool is_unclipped() const { return nz * ny * nx == TILE_ELEMENTS; }
    // Whether elements are at the positions of an unclipped tile, although there may be fewer steps.
    __device__ inline bool is_regular() const { return nx == SIDE && (AXES != 3 || ny == SIDE); }
    __device__ inline uint32_t steps() const { return AXES == 3 ? nz : AXES == 2 ? ny : STEPS; }
    // Whether elements only need sums and dequantization; there may be outliers nevertheless.
    __device__ inline bool is_plain() const {
        return (AXES != 1 || is_regular()) && meta_mask(meta) == 0 && meta_sign(meta) == 0;
    }

    // Returns the tile of another lane. Called by the whole warp.
    __device__ inline Work of(uint32_t lane) const {
        const uint64_t first = __shfl_sync(ALL_LANES, first_element, lane);
        const uint32_t extents = __shfl_sync(ALL_LANES, nx | ny << 13 | nz << 20, lane);
        const uint32_t tile = __shfl_sync(ALL_LANES, number | predictor << 24 | uint32_t(wanted) << 31, lane);
        Work work;
        work.first_element = first;
        work.position = __shfl_sync(ALL_LANES, position, lane);
        work.nx = extents & 0x1FFF;
        work.ny = extents >> 13 & 0x7F;
        work.nz = extents >> 20;
        work.number = tile & 0xFFFFFF;
        work.predictor = tile >> 24 & 3;
        work.meta = __shfl_sync(ALL_LANES, meta, lane);
        work.base = __shfl_sync(ALL_LANES, base, lane);
        work.first_group = 0; // other lanes do not need it
        work.wanted = tile >> 31;
        return work;
    }
};

// Loads the sums of VECTOR elements.
__device__ inline void load_sums(const uint8_t *from, uint32_t (&sums)[VECTOR]) {
#if WIDE && DOUBLE
    const uint2 two = *reinterpret_cast<const uint2 *>(from);
    sums[0] = two.x;
    sums[1] = two.y;
#elif WIDE
    const uint4 four = *reinterpret_cast<const uint4 *>(from);
    sums[0] = four.x;
    sums[1] = four.y;
    sums[2] = four.z;
    sums[3] = four.w;
#elif DOUBLE
    const uint32_t two = *reinterpret_cast<const uint32_t *>(from);
    sums[0] = two & 0xFFFF;
    sums[1] = two >> 16;
#else
    const uint2 four = *reinterpret_cast<const uint2 *>(from);
    sums[0] = four.x & 0xFFFF;
    sums[1] = four.x >> 16;
    sums[2] = four.y & 0xFFFF;
    sums[3] = four.y >> 16;
#endif
}

__device__ inline void store_vector(Element *to, const Element (&values)[VECTOR]) {
#if DOUBLE
    __stcs(reinterpret_cast<double2 *>(to), make_double2(values[0], values[1]));
#else
    __stcs(reinterpret_cast<float4 *>(to), make_float4(values[0], values[1], values[2], values[3]));
#endif
}

// Everything that writing needs in addition to the tile.
struct Target {
    const uint8_t *input;
    const Parsed &parsed;
    const ParsedChunk &record;
    const Values &values;
    const Geometry &geometry;
    uint32_t chunk; // in the batch
    bool vectors;   // lanes may store 16 bytes at the start of their columns
    Element *out;   // the slab

    // Returns the distance between steps in elements.
    __device__ inline uint64_t stride() const {
        return AXES == 3 ? geometry.strides[1] : AXES == 2 ? geometry.strides[2] : STEP;
    }
};

// Number of no tile.
constexpr uint32_t NONE = ALL_LANES;

// The elements of a lane at each step of one of TILES adjacent tiles. VECTORS: a lane's elements are adjacent along x,
// and every row starts on a multiple of 16 bytes; neighboring lanes have the same row of neighboring tiles. Otherwise
// neighboring lanes have neighboring elements, so that their common stores fill sectors whatever the alignment of rows
// is, and a lane's elements in 3-D are those of consecutive rows.
template <bool VECTORS> struct Columns {
    static constexpr uint32_t OWN = VECTORS ? VECTOR : AXES == 3 ? 4 : 1;
    static constexpr uint32_t COUNT = TILES * STEP / OWN;
    static constexpr uint32_t ROUNDS = (COUNT + WARP - 1) / WARP;
    uint32_t tile, y, x;

    __device__ inline explicit Columns(uint32_t round) {
        const uint32_t number = round * WARP + lane_id();
        constexpr uint32_t ACROSS = (AXES == 3 ? SIDE : STEP) / (VECTORS ? VECTOR : 1);
        x = number % ACROSS * (VECTORS ? VECTOR : 1);
        tile = number / ACROSS % TILES;
        y = AXES == 3 ? number / ACROSS / TILES * (VECTORS ? 1 : OWN) : 0;
    }
    // Whether this lane has columns in the last round.
    static __device__ inline bool exist() { return COUNT >= WARP || lane_id() < COUNT; }
};

// How residuals of the tiles that are written together are summed: they are all 0, the predictors extend along all
// axes, or tiles are of any kind.
enum class Ways { FLAT, FULL, ANY };

// Destinations of plain tiles.
struct Output {
    Element *out;
    uint64_t stride, row_stride; // distance between steps, and in 3-D between rows
    Quantum quantum;

    __device__ inline explicit Output(const Target &target)
        : out(target.out), stride(target.stride()), row_stride(AXES == 3 ? target.geometry.strides[2] : 0),
          quantum(target.values) {}
};

// Writes up to TILES plain tiles. Lane `i` holds in `slots` the lane that has tile number `i`, or NONE. Not inlined,
// and called with copies of variables, because there are not enough registers for this loop and for all variables of
// the caller.
template <Ways WAYS, bool VECTORS>
__device__ __noinline__ void write_plain(Rows rows, Work own, uint32_t slots, Output target) {
    typedef Columns<VECTORS> Own;
    constexpr uint32_t OWN = Own::OWN;
    const uint64_t stride = target.stride, row_stride = target.row_stride;
#pragma unroll 1
    for (uint32_t round = 0; round < Own::ROUNDS; ++round) {
        const Own columns(round);
        const uint32_t source = __shfl_sync(ALL_LANES, slots, columns.tile);
        const uint64_t first_element = __shfl_sync(ALL_LANES, own.first_element, source);
        const uint32_t base = uint32_t(__shfl_sync(ALL_LANES, own.base, source));
        const uint32_t predictor = WAYS == Ways::ANY ? __shfl_sync(ALL_LANES, own.predictor, source) : AXES;
        const uint32_t extents = AXES == 1 ? 0 : __shfl_sync(ALL_LANES, own.nx | own.ny << 12 | own.nz << 20, source);
        const uint32_t limit = AXES == 1 ? STEPS : AXES == 2 ? extents >> 12 & 0xFF : extents >> 20;
        // Number of the lane's rows inside the array.
        const uint32_t rows_left = (extents >> 12 & 0xFF) - min_of(extents >> 12 & 0xFF, columns.y);
        const uint32_t there = AXES == 3 && !VECTORS ? min_of(OWN, rows_left) : AXES == 3 && rows_left == 0 ? 0 : OWN;
        const uint32_t count =
            source == NONE || !Own::exist() || (AXES != 1 && columns.x >= (extents & 0xFFF)) ? 0 : there;
        // Almost always, each lane's elements are either all or none inside the array. The steps then need no checks.
        const bool whole = AXES == 1 || __all_sync(ALL_LANES, count == 0 || (count == OWN && limit == STEPS));
        if (count == 0) {
            continue;
        }
        // Either a sum or the contribution of one element is carried from step to step, or nothing.
        const uint32_t across = WAYS == Ways::FULL && AXES != 1 ? 1 : AXES != 1 && predictor >= AXES;
        const uint32_t onwards = WAYS == Ways::FULL && AXES != 1 ? 0 : predictor >= 1 && across == 0;
        constexpr uint32_t REFERENCE = AXES == 1 ? STEP - 1 : 0;
        const uint32_t reference_bias = bias_of(predictor, 0, REFERENCE) * onwards;
        // An element is the sum at its position plus a value from the steps before. That value grows by the sum at this
        // position, or by that of the reference element, less the contribution of the radius.
        uint32_t before[OWN], bias[OWN];
#pragma unroll
        for (uint32_t i = 0; i < OWN; ++i) {
            const uint32_t own_bias =
                VECTORS ? bias_of(predictor, columns.y, columns.x + i) : bias_of(predictor, columns.y + i, columns.x);
            before[i] = base - own_bias;
            bias[i] = own_bias * across + reference_bias;
        }
        Element *to = target.out + first_element + columns.y * row_stride + columns.x;
        const Element flat = dequantized(int32_t(base), target.quantum);
        const Steps steps(rows, columns.tile, columns.y * SIDE % STEP + columns.x),
            references(rows, columns.tile, REFERENCE);
        auto compute = [&](uint32_t step, Element(&out)[OWN]) {
            uint32_t here[OWN];
            if (WAYS == Ways::FLAT) {
#pragma unroll
                for (uint32_t i = 0; i < OWN; ++i) {
                    out[i] = flat;
                }
                return;
            }
            if constexpr (VECTORS) {
                load_sums(steps.at(step), here);
            } else {
#pragma unroll
                for (uint32_t i = 0; i < OWN; ++i) {
                    here[i] = *reinterpret_cast<const Sum *>(steps.at(step, i));
                }
            }
            const bool refers = WAYS == Ways::ANY || AXES == 1;
            const uint32_t reference = refers ? *reinterpret_cast<const Sum *>(references.at(step)) * onwards : 0;
#pragma unroll
            for (uint32_t i = 0; i < OWN; ++i) {
                out[i] = dequantized(int32_t(before[i] + here[i]), target.quantum);
                before[i] = here[i] * across + before[i] + (reference - bias[i]);
            }
        };
        if (whole) {
            Element *row[OWN];
#pragma unroll
            for (uint32_t i = 0; i < OWN; ++i) {
                row[i] = to + (VECTORS ? 0 : i * row_stride);
            }
#pragma unroll 8
            for (uint32_t step = 0; step < STEPS; ++step) {
                Element out[OWN];
                compute(step, out);
                if constexpr (VECTORS) {
                    store_vector(to, out);
                    to += stride;
                } else {
#pragma unroll
                    for (uint32_t i = 0; i < OWN; ++i) {
                        __stcs(row[i], out[i]);
                        row[i] += stride;
                    }
                }
            }
        } else {
#pragma unroll 1
            for (uint32_t step = 0; step < limit; ++step) {
                Element out[OWN];
                compute(step, out);
                if constexpr (VECTORS) {
                    store_vector(to, out);
                } else {
                    Element *row = to;
#pragma unroll
                    for (uint32_t i = 0; i < OWN; ++i) {
                        if (i < count) {
                            __stcs(row, out[i]);
                        }
                        row += row_stride;
                    }
                }
                to += stride;
            }
        }
    }
}

template <Ways WAYS>
__device__ inline void write_plain(const Rows &rows, const Work &own, uint32_t slots, const Target &target) {
    if (target.vectors) {
        write_plain<WAYS, true>(rows, own, slots, Output(target));
    } else {
        write_plain<WAYS, false>(rows, own, slots, Output(target));
    }
}
