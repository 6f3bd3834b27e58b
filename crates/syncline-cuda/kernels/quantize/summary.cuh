// What quantizing leaves of a chunk for its record. Mirrored by quantize/quantizer.rs and container/prepared.rs.
#pragma once
#include "device/warp.cuh"
#include "device/warp.cuh"
#include "huffman/span.cuh"

// What came out of a chunk.
struct ChunkSummary {
    uint32_t groups, outliers, verbatim, mask_bytes, sign_bytes, radius;
    uint64_t squared_error, counted;

    // Whether the lists alone are as long as the elements. The chunk will be raw, and has no lists and no bitmaps:
    // nobody shall gather what will not be written.
    __device__ inline bool is_raw(uint64_t elements, uint32_t element_bytes) const {
        return uint64_t(8) * outliers + uint64_t(4 + element_bytes) * verbatim >= elements * element_bytes;
    }
    __device__ inline ChunkSummary of_raw(uint32_t usual_radius) const {
        return {0, 0, 0, 0, 0, usual_radius, squared_error, counted};
    }
};

// What some tiles of a chunk come to: those that are not constant, FLAG_MASKS and FLAG_SIGNS, words of their bases.
struct TileSums {
    uint32_t live, flags, words_of_bases, unused;
};
constexpr uint32_t FLAG_MASKS = 1, FLAG_CLASSES = 2, FLAG_SIGNS = 4;

// Where all of it goes.
struct RecordInputs {
    Span *spans;         // of `streams` streams, the first ones those of the chunks; null: nobody makes records
    TileSums *tile_sums; // as many of each chunk as blocks share it
    uint64_t *hashed;    // a word a chunk, to be cleared
    ChunkSummary *host;  // in memory of the host, if it is to know
    uint32_t *control;   // what quantizing has counted with, to be cleared; with the extreme codes of chunks
    uint64_t control_words;
    uint32_t streams;
    uint32_t element_bytes;
};

// A difference of bases, zigzag-coded.
__device__ inline uint32_t zigzag(uint32_t difference) { return difference << 1 ^ uint32_t(int32_t(difference) >> 31); }

// Bits that hold each of a warp's values.
__device__ inline uint32_t width_of(uint32_t value) { return 32 - __clz(warp_reduce_or(value)); }
