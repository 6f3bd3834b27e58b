// The layout of slots, through which the encoder's kernels pass tokens.
#pragma once
#include "lzss/lzss.cuh"
#include "lzss/structs.cuh"

__host__ __device__ constexpr uint32_t align16(uint32_t bytes) { return (bytes + 15) / 16 * 16; }

// Offsets in the slot of a data block, which holds its tokens until their place in the output is known: flags,
// literals, lengths and distances, each on a multiple of 16 bytes.
constexpr uint32_t SLOT_FLAGS = SYMBOLS / 8;
constexpr uint32_t SLOT_BYTES = SLOT_FLAGS + BLOCK_BYTES + 64;
static_assert(SLOT_BYTES == SLOT_BYTES_IN_RUST, "the launcher reserves as much");
