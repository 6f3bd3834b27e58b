// Converts values to integers with exactly the operations of docs/FORMAT.md, compiled without contraction, so that
// every bit equals the CPU's.
//
// LOGARITHM      1: quantizes log2 of the magnitudes (pipeline 3)
// See also quantize/stored.cuh.
#pragma once
#include "device/warp.cuh"
#include "format/constants.cuh"
#include "geometry.cuh"
#include "quantize/math.cuh"
#include "quantize/stored.cuh"
#include "quantize/tile_info.cuh"

using format::MAX_PATTERNS;

// Returns the value of an integer; in the logarithmic pipeline, its magnitude.
__device__ inline Element reconstruct(const Step &step, int32_t q) {
#if LOGARITHM
    return Element(exp2_defined(double(q) * step.step));
#elif ELEMENT_BYTES == 4
    float value = float(q);
    return __fmaf_rn(value, step.high, value * step.low);
#else
    return double(q) * step.step;
#endif
}

// Whether an integer is that of a fill pattern, which only elements with the pattern may have. `x` is such an element
// or another one.
__device__ inline bool is_reserved(const Step &step, Element x, int32_t integer) {
    Bits back = bits_of(rounded_to_stored(reconstruct(step, integer)));
    back |= LOGARITHM ? bits_of(x) & SIGN_BIT : 0;
    bool is = false;
    for (uint32_t i = 0; i < MAX_PATTERNS; ++i) {
        is |= (step.reserved >> i & 1) != 0 && back == Bits(step.reserved_values[i]);
    }
    return is;
}

// Finds the integer of a value. Returns false, and 0, if the value must be stored verbatim.
__device__ inline bool quantize(const Step &step, Element x, int32_t &integer) {
#if LOGARITHM
    double magnitude = fabs(double(x));
    double q = rint(log2_defined(magnitude) * step.inverse);
    double error = fabs(magnitude - double(Element(exp2_defined(q * step.step))));
    double limit = step.limit * magnitude;
    // If the limit is subnormal, its rounding error is not small.
    bool good = fabs(q) < 1073741824.0 && error < limit && limit >= 0x1p-1022;
#if OF_HALVES
    good &= fabs(magnitude - double(rounded_to_stored(Element(exp2_defined(q * step.step))))) < limit;
#endif
#elif ELEMENT_BYTES == 4
    float rounded = rintf(x * step.inverse_high);
    float rest = __fmaf_rn(x, step.inverse_low, __fmaf_rn(x, step.inverse_high, -rounded));
    float q = rounded + rintf(rest);
    float back = __fmaf_rn(q, step.high, q * step.low);
    bool good = fabsf(q) < 4194304.0f && fabsf(x - back) < step.bound && bits_of(x) != SIGN_BIT;
#if OF_HALVES
    good &= fabsf(x - rounded_to_stored(back)) < step.bound;
#endif
#else
    double q = rint(x * step.inverse);
    double error = fabs(x - q * step.step);
    bool good = fabs(q) < 1073741824.0 && error < step.limit && bits_of(x) != SIGN_BIT;
#endif
    integer = good ? int32_t(q) : 0;
    if (step.reserved != 0 && is_reserved(step, x, integer)) {
        integer = 0;
        return false;
    }
    return good;
}

// Whether a value is finite, but not in the range of the array, from `low` to `high`.
__device__ inline bool is_outside(Element x, Element low, Element high) {
    return (x < low || x > high) && (bits_of(x) & ~SIGN_BIT) < INFINITY_BITS;
}

// Returns the squared error of a value in units of 1 / error_scale, rounded to an integer of at most 2^30, so that sums
// do not depend on their order.
__device__ inline double squared_error(const Step &step, Element x, Element back) {
    double error = rint((double(x) - double(back)) * step.error_scale);
    error = fmin(fmax(error, -32768.0), 32768.0);
    return error * error;
}
