// Reductions, prefix sums and broadcasts over a warp. All 32 lanes must call them.
//
// Reductions return the result on every lane. Integer reductions of 32 bits take one instruction from compute
// capability 8.0 on, and five shuffles before that or for wider types.
#pragma once
#include "common.cuh"

// Combines the values of all lanes with `op`, which must be associative and commutative.
template <typename T, typename Op> __device__ inline T warp_reduce(T value, Op op) {
#pragma unroll
    for (uint32_t distance = WARP / 2; distance > 0; distance /= 2) {
        value = op(value, __shfl_xor_sync(ALL_LANES, value, distance));
    }
    return value;
}

template <typename T> __device__ inline T warp_reduce_sum(T value) {
    return warp_reduce(value, [](T a, T b) { return a + b; });
}
template <typename T> __device__ inline T warp_reduce_or(T value) {
    return warp_reduce(value, [](T a, T b) { return a | b; });
}
template <typename T> __device__ inline T warp_reduce_min(T value) {
    return warp_reduce(value, [](T a, T b) { return min_of(a, b); });
}
template <typename T> __device__ inline T warp_reduce_max(T value) {
    return warp_reduce(value, [](T a, T b) { return max_of(a, b); });
}

#if __CUDA_ARCH__ >= 800
template <> __device__ inline uint32_t warp_reduce_sum(uint32_t value) { return __reduce_add_sync(ALL_LANES, value); }
template <> __device__ inline uint32_t warp_reduce_or(uint32_t value) { return __reduce_or_sync(ALL_LANES, value); }
template <> __device__ inline uint32_t warp_reduce_min(uint32_t value) { return __reduce_min_sync(ALL_LANES, value); }
template <> __device__ inline uint32_t warp_reduce_max(uint32_t value) { return __reduce_max_sync(ALL_LANES, value); }
#endif

// Returns the sum of the values of the lanes up to and including the calling one.
template <typename T> __device__ inline T warp_inclusive_sum(T value) {
#pragma unroll
    for (uint32_t distance = 1; distance < WARP; distance *= 2) {
        const T below = __shfl_up_sync(ALL_LANES, value, distance);
        value += lane_id() >= distance ? below : 0;
    }
    return value;
}

// The shuffle sets a predicate on lanes that have a source, which saves the comparison of lanes.
template <> __device__ inline uint32_t warp_inclusive_sum(uint32_t value) {
#pragma unroll
    for (uint32_t distance = 1; distance < WARP; distance *= 2) {
        asm volatile("{ .reg .u32 below; .reg .pred has_source;\n"
                     "  shfl.sync.up.b32 below|has_source, %0, %1, 0, 0xffffffff;\n"
                     "  @has_source add.u32 %0, %0, below; }"
                     : "+r"(value)
                     : "r"(distance));
    }
    return value;
}

// Returns the sum of the values of the lanes before the calling one.
template <typename T> __device__ inline T warp_exclusive_sum(T value) { return warp_inclusive_sum(value) - value; }

// Returns the value of lane `source` on every lane.
template <typename T> __device__ inline T warp_broadcast(T value, uint32_t source) {
    return __shfl_sync(ALL_LANES, value, source);
}

// Returns a value that all lanes have. The compiler then knows that they do, and that they stay together in branches on
// it.
__device__ inline uint32_t uniform(uint32_t value) { return __shfl_sync(ALL_LANES, value, 0); }

// Packs a warp's values of `width` bits each. Lane `l` gets word `l` if `l` is below `width`.
__device__ inline uint32_t packed_word(uint32_t value, uint32_t width) {
    uint32_t word = 0;
    // The lane's word begins within value `first`.
    const uint32_t first = width == 0 ? 0 : lane_id() * WARP / width;
    for (uint32_t j = 0; width > 0 && j < 32 / width + 2; ++j) {
        const uint32_t piece = __shfl_sync(ALL_LANES, value, (first + j) % WARP);
        const int32_t shift = int32_t((first + j) * width) - int32_t(lane_id() * 32);
        word |= first + j >= WARP || shift >= 32 || shift <= -32 ? 0 : shift >= 0 ? piece << shift : piece >> -shift;
    }
    return word;
}
