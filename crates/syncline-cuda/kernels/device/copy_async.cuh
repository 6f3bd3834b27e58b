// Copies from device memory to shared memory that go on while the thread does something else.
#pragma once
#include "common.cuh"

// Begins to copy 4, 8, or 16 bytes, which start on a multiple of their number. Before compute capability 8.0, copies
// them.
template <uint32_t BYTES, typename T> __device__ inline void copy_async(T *to, const T *from) {
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "sizes of copies");
#if __CUDA_ARCH__ >= 800
    if (BYTES == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_address(to)), "l"(from), "n"(BYTES)
                     : "memory");
    }
#else
    for (uint32_t i = 0; i < BYTES / sizeof(T); ++i) {
        to[i] = __ldcs(from + i);
    }
#endif
}

// Waits for the copies of the calling thread.
__device__ inline void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
