// What the kernels that reconstruct by way of strips tell each other: words of their `sums` behind those of
// reconstruct/reconstruct.cu, all 0 before and after.
#pragma once
#include "common.cuh"

// Blocks of reconstruct/flat.cu that have not seen all of their strips. The kernel before sets it, before it lets these
// begin. A block of reconstruct/strips.cu waits until it is 0, which it stays: so that whoever comes late, when others
// have ended the batch and cleared all words, does not wait.
__device__ inline uint32_t *flat_unseen(uint32_t *sums, uint32_t chunks) { return sums + 4 * chunks + 1; }
// Strips that are not flat, and blocks of reconstruct/strips.cu that are through with what parsing has left.
__device__ inline uint32_t *strips_left(uint32_t *sums, uint32_t chunks) { return sums + 4 * chunks + 2; }
__device__ inline uint32_t *strips_through(uint32_t *sums, uint32_t chunks) { return sums + 4 * chunks + 3; }
