// Values of integers, as FORMAT.md states.
//
// DOUBLE  1 if elements are f64, 0 if f32
// LOG     1 if integers are logarithms, whose signs are stored separately
#pragma once
#include "common.cuh"
#include "decode/structs.cuh"

#if DOUBLE
typedef double Element;
typedef uint64_t Bits;
#else
typedef float Element;
typedef uint32_t Bits;
#endif

__device__ inline float from_bits(uint32_t bits) { return __uint_as_float(bits); }
__device__ inline double from_bits(uint64_t bits) { return __longlong_as_double(int64_t(bits)); }

__device__ inline uint32_t to_bits(float value) { return __float_as_uint(value); }
__device__ inline uint64_t to_bits(double value) { return uint64_t(__double_as_longlong(value)); }

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

// Returns the value of an integer, or with LOG its magnitude, that is not limited to the range.
__device__ inline Element value_of(int32_t integer, const Values &values) {
#if LOG
    return Element(exp2_exactly(__dmul_rn(double(integer), values.step)));
#elif DOUBLE
    return __dmul_rn(double(integer), values.step);
#else
    const float rounded = __int2float_rn(integer);
    return __fmaf_rn(rounded, values.step_high, __fmul_rn(rounded, values.step_low));
#endif
}

// Returns a value from its prediction by interpolation and its code.
__device__ inline Element corrected(Element prediction, int32_t code, const Values &values) {
    // A code of 0 gives the prediction itself, of whatever sign.
#if DOUBLE
    return code != 0 ? __fma_rn(double(code), values.step, prediction) : prediction;
#else
    return code != 0 ? __fmaf_rn(__int2float_rn(code), values.step_high, prediction) : prediction;
#endif
}

// Limits any value to the range, if it is known.
__device__ inline Element limited(Element value, const Values &values) {
#if DOUBLE
    const double low = values.low, high = values.high;
#else
    const float low = values.narrow_low, high = values.narrow_high;
#endif
    const Element raised = value > low ? value : low, lowered = raised < high ? raised : high;
    return values.has_range != 0 ? lowered : value;
}
