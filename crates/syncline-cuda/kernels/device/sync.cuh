// Synchronization between blocks (acquire and release), between kernels (programmatic dependent launch) and between the
// warps of a block (named barriers).
#pragma once
#include "common.cuh"

// Programmatic dependent launch, for kernels that are launched by `ProgrammaticDependentLaunch` in
// src/device/programmatic_dependent_launch.rs. Before compute capability 9.0 such kernels start after the previous one,
// and these functions do nothing.

// Waits until all previous kernels of the stream have finished and their writes are visible. Before this call a kernel
// must not access memory that a previous kernel may still use.
__device__ inline void grid_dependency_wait() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Allows the next kernel to start once all blocks of this one have called this or have ended.
__device__ inline void launch_dependents() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Allows the next kernel to start, then waits for the previous ones.
__device__ inline void launch_dependents_and_wait() {
    launch_dependents();
    grid_dependency_wait();
}

// Loads a number that another block stores with release semantics: what that block wrote before is visible afterwards.
__device__ inline uint32_t load_acquire(const uint32_t *number) {
    uint32_t value;
    asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(number) : "memory");
    return value;
}
__device__ inline uint64_t load_acquire(const uint64_t *number) {
    uint64_t value;
    asm volatile("ld.acquire.gpu.u64 %0, [%1];" : "=l"(value) : "l"(number) : "memory");
    return value;
}

// Waits until a number in device memory equals `expected`. Called by one thread; a barrier then makes the writes before
// the signal visible to the block. The blocks that signal must be running already and must not wait for this one.
//
// This is earlier than `grid_dependency_wait` by the time that ending a kernel takes. Some block of the kernel must
// call that function before it ends nevertheless, because the next kernel waits for this kernel only.
template <typename T> __device__ inline void wait_for_signal(const T *number, T expected) {
    while (load_acquire(number) != expected) {
    }
}

// Adds to a number that other blocks wait for. Called by one thread, after a barrier of the threads whose writes are to
// become visible.
__device__ inline void signal_release_add(uint32_t *number, uint32_t increment) {
    asm volatile("red.release.gpu.add.u32 [%0], %1;" ::"l"(number), "r"(increment) : "memory");
}

// Stores a number that other blocks wait for. Called by one thread, after a barrier as for `signal_release_add`.
__device__ inline void signal_release(uint64_t *number, uint64_t value) {
    asm volatile("st.release.gpu.u64 [%0], %1;" ::"l"(number), "l"(value) : "memory");
}

// A barrier of `threads` threads of the block, a multiple of 32, which may arrive from different places in the code. It
// is barrier NUMBER of the block, 1 to 14; `__syncthreads` is barrier 0.
template <uint32_t NUMBER> __device__ inline void block_barrier(uint32_t threads) {
    asm volatile("bar.sync %0, %1;" ::"n"(NUMBER), "r"(threads) : "memory");
}

// A barrier that one warp passes alone when a kernel is compiled for racecheck, and nothing otherwise. Racecheck orders
// accesses by the number of barriers that their warps have passed, whether or not these were the same barriers
// (docs/KERNELS.md, "Sanitizers"). So where only some warps of a block synchronize, the others must pass as many.
// Barrier 15 is reserved for this.
__device__ inline void racecheck_barrier() {
#if UNDER_RACECHECK
    __syncwarp();
    asm volatile("bar.sync 15, %0;" ::"n"(WARP) : "memory");
#endif
}
