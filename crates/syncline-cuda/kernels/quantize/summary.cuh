// The results of quantizing a chunk that its record needs.
#pragma once
#include "device/warp.cuh"
#include "huffman/encode/structs.cuh"
#include "quantize/structs.cuh"

// Counts of a quantized chunk.
struct ChunkSummary : ChunkSummaryFields {
    // Whether the lists alone are as long as the elements. The chunk is then stored raw, and its lists and bitmaps need
    // not be collected.
    __device__ inline bool is_raw(uint64_t elements, uint32_t element_bytes) const {
        return uint64_t(8) * outliers + uint64_t(4 + element_bytes) * verbatim >= elements * element_bytes;
    }
    __device__ inline ChunkSummary of_raw(uint32_t usual_radius) const {
        return {0, 0, 0, 0, 0, usual_radius, squared_error, counted};
    }
};

// An entry of a list of chunks that is not used.
constexpr uint32_t NO_CHUNK = 0xFFFFFFFF;

// Flags of `TileSums`.
constexpr uint32_t FLAG_MASKS = 1, FLAG_CLASSES = 2, FLAG_SIGNS = 4, FLAG_SCHEME = 8;

// Returns the zigzag code of a difference of bases.
__device__ inline uint32_t zigzag(uint32_t difference) { return difference << 1 ^ uint32_t(int32_t(difference) >> 31); }

// Returns the bits that the largest of a warp's values needs.
__device__ inline uint32_t width_of(uint32_t value) { return 32 - __clz(warp_reduce_or(value)); }
