// Signals between the kernels that reconstruct strips: words of `sums` after those of reconstruct/reconstruct.cu,
// which are 0 before and after.
#pragma once
#include "common.cuh"

// Number of blocks of reconstruct/flat.cu that have not processed all of their strips. The decoding kernel sets it
// before it lets these blocks begin. A block of reconstruct/strips.cu waits until it is 0. It then stays 0, so that
// blocks that start after the batch is finished and all words are cleared do not wait.
__device__ inline uint32_t *flat_unseen(uint32_t *sums, uint32_t chunks) { return sums + 4 * chunks + 1; }
// Number of strips that are not flat, and of blocks of reconstruct/strips.cu that do not need the results of parsing
// any more.
__device__ inline uint32_t *strips_left(uint32_t *sums, uint32_t chunks) { return sums + 4 * chunks + 2; }
__device__ inline uint32_t *strips_through(uint32_t *sums, uint32_t chunks) { return sums + 4 * chunks + 3; }
