// For kernels that are launched as successors (device/successive.rs) and do more than wait at their start, as
// `wait_for_previous` does.
#pragma once
#include "common.cuh"

// Until here nothing may be touched that a kernel before this one may be at work on; from here on all that it has
// written is there.
__device__ inline void wait_for_all_before() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// A number that another block has released: what that one had seen before is there behind it.
__device__ inline uint32_t acquired(const uint32_t *number) {
    uint32_t value;
    asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(number) : "memory");
    return value;
}
__device__ inline uint64_t acquired(const uint64_t *number) {
    uint64_t value;
    asm volatile("ld.acquire.gpu.u64 %0, [%1];" : "=l"(value) : "l"(number) : "memory");
    return value;
}

// Waits until a number in device memory is `wanted`; by one thread. Whoever brings it there has its place on the device
// and does not wait for this one. What they have done is there for the block behind a barrier. Sooner than
// `wait_for_all_before` by what it takes to end a kernel. Some block has to call that all the same before it ends:
// whatever comes behind a kernel waits for that one only.
template <typename T> __device__ inline void wait_for_number(const T *number, T wanted) {
    while (acquired(number) != wanted) {
    }
}

// Adds to a number that others wait for; by one thread, behind a barrier of those that have done their part.
__device__ inline void tell(uint32_t *number, uint32_t more) {
    asm volatile("red.release.gpu.add.u32 [%0], %1;" ::"l"(number), "r"(more) : "memory");
}

// Sets a number that others wait for; likewise.
__device__ inline void publish(uint64_t *number, uint64_t value) {
    asm volatile("st.release.gpu.u64 [%0], %1;" ::"l"(number), "l"(value) : "memory");
}

// The kernel after this one may have its blocks dealt out when all blocks of this one have said so.
__device__ inline void let_next_begin() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
