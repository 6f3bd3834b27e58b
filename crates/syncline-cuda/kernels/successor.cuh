// For kernels that are launched as successors (device/successive.rs) and do more than wait at their start, as `wait_for_previous` does.
#pragma once
#include "common.cuh"

// Until here nothing may be touched that a kernel before this one may be at work on; from here on all that it has written is there.
__device__ inline void wait_for_all_before() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The kernel after this one may have its blocks dealt out when all blocks of this one have said so.
__device__ inline void let_next_begin() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
