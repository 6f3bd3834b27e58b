// What every kernel shares. Compiled by NVRTC, which has no system headers: the fixed-width names are declared here.
#pragma once

typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef int int32_t;
typedef long long int64_t;

constexpr uint32_t WARP = 32;
constexpr uint32_t ALL_LANES = 0xFFFFFFFFu;

__device__ inline uint32_t lane_id() { return threadIdx.x % WARP; }
__device__ inline uint32_t warp_id() { return threadIdx.x / WARP; }

template <typename T> __device__ inline constexpr T min_of(T a, T b) { return b < a ? b : a; }
template <typename T> __device__ inline constexpr T max_of(T a, T b) { return a < b ? b : a; }
__device__ inline uint32_t ceil_div(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

// The address that shared-memory instructions take.
__device__ inline uint32_t shared_address(const void *pointer) { return uint32_t(__cvta_generic_to_shared(pointer)); }

// A barrier that a warp passes alone, under racecheck, which tells accesses apart by how many barriers their warps have
// passed, not by whether there was one between them (docs/KERNELS.md, "Sanitizers"), so that where some of a block's
// warps meet, the others are to pass as many before all do. Nobody else has barrier 15.
__device__ inline void pass_alone() {
#if UNDER_RACECHECK
    __syncwarp();
    asm volatile("bar.sync 15, %0;" ::"n"(WARP) : "memory");
#endif
}

// For kernels that are launched as successors (device/successive.rs): until here nothing may be touched that a kernel
// before this one may be at work on; from here on all that it has written is there. Calling it says, too, that the
// kernel after this one may have its blocks dealt out.
__device__ inline void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
