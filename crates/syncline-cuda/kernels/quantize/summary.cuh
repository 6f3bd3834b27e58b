// What quantizing leaves of a chunk for its record. Mirrored by quantize/summary.rs.
#pragma once
#include "device/warp.cuh"
#include "huffman/stream_input.cuh"
#include "quantize/structs.cuh"

// Counts of a quantized chunk.
struct ChunkSummary {
    uint32_t groups, outliers, verbatim, mask_bytes, sign_bytes, radius;
    uint64_t squared_error, counted;

    // Whether the lists alone are as long as the elements. The chunk is then stored raw, and its lists and bitmaps need
    // not be collected.
    __device__ inline bool is_raw(uint64_t elements, uint32_t element_bytes) const {
        return uint64_t(8) * outliers + uint64_t(4 + element_bytes) * verbatim >= elements * element_bytes;
    }
    __device__ inline ChunkSummary of_raw(uint32_t usual_radius) const {
        return {0, 0, 0, 0, 0, usual_radius, squared_error, counted};
    }
};

// Flags of `TileSums`.
constexpr uint32_t FLAG_MASKS = 1, FLAG_CLASSES = 2, FLAG_SIGNS = 4;

// Where quantizing leaves all this.
struct RecordInputs {
    StreamInput *spans;      // of `streams` streams, the chunks' first; null if no records are made
    TileSums *tile_sums;     // as many for each chunk as blocks share it
    uint64_t *hash_progress; // progress of hashing, one word per chunk, to be cleared
    ChunkSummary *host;      // in the host's memory; null if not needed
    uint32_t *control;       // control words to be cleared, with the extreme codes of chunks
    uint64_t control_words;
    uint32_t streams;
    uint32_t element_bytes;
};

// Returns the zigzag code of a difference of bases.
__device__ inline uint32_t zigzag(uint32_t difference) { return difference << 1 ^ uint32_t(int32_t(difference) >> 31); }

// Returns the bits that the largest of a warp's values needs.
__device__ inline uint32_t width_of(uint32_t value) { return 32 - __clz(warp_reduce_or(value)); }
