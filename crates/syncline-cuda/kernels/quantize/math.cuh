// Binary logarithm and exponential, defined by their operations (docs/FORMAT.md), compiled without contraction.
#pragma once
#include "common.cuh"

constexpr double LN_2 = 0x1.62E42FEFA39EFp-1;
constexpr double LOG2_E = 0x1.71547652B82FEp0;
constexpr uint64_t SQRT_HALF_BITS = 0x3FE6A09E667F3BCDull;

__device__ inline double from_bits(uint64_t bits) { return __longlong_as_double(int64_t(bits)); }

// log2 of a positive finite value. The result for other values is arbitrary.
__device__ inline double log2_defined(double x) {
    bool subnormal = x < 0x1p-1022;
    uint64_t bits = uint64_t(__double_as_longlong(subnormal ? x * 0x1p54 : x));
    int64_t exponent = int64_t(bits - SQRT_HALF_BITS) >> 52;
    double m = from_bits(bits - (uint64_t(exponent) << 52));
    double s = (m - 1.0) / (m + 1.0);
    double w = s * s;
    double p = 2.0 * LOG2_E / 21.0;
#pragma unroll
    for (int i = 9; i >= 0; --i) {
        p = p * w + 2.0 * LOG2_E / double(2 * i + 1);
    }
    return (double(int32_t(exponent)) - (subnormal ? 54.0 : 0.0)) + s * p;
}

// 1 / n! for n up to 13, computed by the compiler. A recursive function would be evaluated by each thread for each
// element.
struct InverseFactorials {
    double of[14];
    __device__ inline constexpr InverseFactorials() : of() {
        double factorial = 1.0;
        for (int n = 0; n < 14; ++n) {
            factorial *= n < 2 ? 1 : n;
            of[n] = 1.0 / factorial;
        }
    }
};

__device__ inline double exp2_defined(double y) {
    y = y > -2000.0 ? y : -2000.0;
    y = y < 2000.0 ? y : 2000.0;
    double whole = rint(y);
    double t = (y - whole) * LN_2;
    constexpr InverseFactorials INVERSE;
    double p = INVERSE.of[13];
#pragma unroll
    for (int i = 12; i >= 0; --i) {
        p = p * t + INVERSE.of[i];
    }
    int32_t k = int32_t(whole), half = k >> 1;
    // Two normal factors, so that the product rounds only once, also to a subnormal.
    return (p * from_bits(uint64_t(int64_t(half) + 1023) << 52)) * from_bits(uint64_t(int64_t(k - half) + 1023) << 52);
}
