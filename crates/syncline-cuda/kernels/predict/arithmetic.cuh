// The two operations of interpolation, each rounded once, and the prediction from neighbors.
#pragma once
#include "common.cuh"

__device__ inline float product(float a, float b) { return __fmul_rn(a, b); }
__device__ inline double product(double a, double b) { return __dmul_rn(a, b); }
__device__ inline float product_plus(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ inline double product_plus(double a, double b, double c) { return __fma_rn(a, b, c); }

// Returns the prediction from neighbors with these weights, in ascending order; `value(i)` is that of neighbor `i`. A
// linear one has the second and the third neighbor alone.
template <typename Element, typename Value>
__device__ inline Element weighted_sum(const Element (&weights)[4], bool is_cubic, Value value) {
    if (!is_cubic) {
        return product_plus(value(2), weights[2], product(value(1), weights[1]));
    }
    Element sum = product(value(0), weights[0]);
    sum = product_plus(value(1), weights[1], sum);
    sum = product_plus(value(2), weights[2], sum);
    return product_plus(value(3), weights[3], sum);
}
