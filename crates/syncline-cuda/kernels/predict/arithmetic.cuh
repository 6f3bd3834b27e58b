// The two operations of interpolation, each rounded once.
#pragma once
#include "common.cuh"

__device__ inline float product(float a, float b) { return __fmul_rn(a, b); }
__device__ inline double product(double a, double b) { return __dmul_rn(a, b); }
__device__ inline float product_plus(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ inline double product_plus(double a, double b, double c) { return __fma_rn(a, b, c); }
