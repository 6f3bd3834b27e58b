// Integer types, warp constants and small helpers that every kernel uses. NVRTC compiles without system headers, so the
// fixed-width types are declared here.
#pragma once

typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;

// The unsigned type of so many bytes: 1, 2, 4, or 8.
template <uint32_t BYTES> struct Unsigned;
template <> struct Unsigned<1> {
    using type = uint8_t;
};
template <> struct Unsigned<2> {
    using type = uint16_t;
};
template <> struct Unsigned<4> {
    using type = uint32_t;
};
template <> struct Unsigned<8> {
    using type = uint64_t;
};

constexpr uint32_t WARP = 32;
constexpr uint32_t ALL_LANES = 0xFFFFFFFFu;

__device__ inline uint32_t lane_id() { return threadIdx.x % WARP; }
__device__ inline uint32_t warp_id() { return threadIdx.x / WARP; }

template <typename T> __device__ inline constexpr T min_of(T a, T b) { return b < a ? b : a; }
template <typename T> __device__ inline constexpr T max_of(T a, T b) { return a < b ? b : a; }
__device__ inline uint32_t ceil_div(uint32_t a, uint32_t b) { return (a + b - 1) / b; }
// Returns the next multiple of `to`.
template <typename T> __device__ inline constexpr T align_up(T number, uint32_t to) {
    return (number + to - 1) / to * to;
}

// Converts a generic pointer to the 32-bit address that shared-memory instructions take.
__device__ inline uint32_t shared_address(const void *pointer) { return uint32_t(__cvta_generic_to_shared(pointer)); }

// The offset of a field in bytes, as a constant. NVRTC has no `offsetof`; this is the operator that its compiler offers
// to define it.
#define OFFSET_OF(type, field) __INTADDR__(&((type *)0)->field)
