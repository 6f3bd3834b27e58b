// Shared by the kernels that write chunk records (docs/FORMAT.md, "Chunk record").
#pragma once
#include "quantize/summary.cuh"
#include "geometry.cuh"
#include "container/structs.cuh"
#include "format/constants.cuh"

using format::ALIGNMENT;
using format::KIND_LZSS_CODES;
using format::KIND_QUANTIZED;
using format::KIND_RAW;
using format::NARROW_RADIUS;
using format::RADIUS;
using format::RECORD_HEADER_BYTES;
using format::SECTIONS;
// The kind of a record that does not fit into the output.
constexpr uint32_t KIND_NO_ROOM = 255;
enum Section { TILES, BASES, MASKS, CODES, OUTLIERS, VERBATIM, SIGNS };
// STATUS_NO_WIDE_CODES: a chunk takes the wide radius, for which the caller has made no room.
constexpr uint32_t STATUS_BAD_STREAM = 1, STATUS_NO_ROOM = 2, STATUS_NO_WIDE_CODES = 4;
// Maximum tiles of a chunk: it has at most 2^22 elements, and an unclipped tile at least 512.
constexpr uint32_t MAX_TILES = 1 << 13;
// Number and place of a stream that does not exist.
constexpr uint32_t NO_STREAM = 0xFFFFFFFF;
constexpr uint64_t NO_PLACE = ~0ull;

// Numbers of streams that not every chunk has, 20 bits each, which is enough for a batch: wide codes, masks and signs.
enum StreamKind { WIDE_CODES, MASK_BITMAPS, SIGN_BITMAPS };
__device__ inline uint64_t one_stream(uint32_t kind, bool exists) { return uint64_t(exists) << (20 * kind); }
__device__ inline uint32_t stream_number(uint64_t streams, uint32_t kind) {
    return uint32_t(streams >> (20 * kind)) & ((1u << 20) - 1);
}

// Bit fields of a tile's meta.
__device__ inline bool meta_constant(uint32_t meta) { return meta & 1; }
__device__ inline uint32_t meta_predictor(uint32_t meta) { return meta >> 1 & 3; }
// The same of chunks with token codebooks, which have no classes.
__device__ inline uint32_t meta_token_predictor(uint32_t meta) { return meta >> 1 & 15; }
__device__ inline uint32_t meta_class(uint32_t meta) { return meta >> 3 & 3; }
// The kind of the mask and, above it, the pattern, as in section 0.
__device__ inline uint32_t meta_mask(uint32_t meta) { return meta >> 5 & 15; }
__device__ inline uint32_t meta_mask_kind(uint32_t meta) { return meta >> 5 & 3; }
__device__ inline uint32_t meta_sign(uint32_t meta) { return meta >> 9 & 3; }

__device__ inline uint32_t aligned(uint32_t number, uint32_t to) { return (number + to - 1) / to * to; }

// Returns the bytes of the section of outliers.
__device__ inline uint32_t outlier_bytes(uint32_t outliers) {
    return outliers == 0 ? 0 : aligned(4 + 4 * outliers, 8) + 4 * outliers;
}

// Returns where a section starts in its record; with SECTIONS, the bytes of the record.
__device__ inline uint32_t section_start(const uint32_t *lengths, uint32_t section) {
    uint32_t at = aligned(RECORD_HEADER_BYTES + 4 * SECTIONS, ALIGNMENT);
    for (uint32_t i = 0; i < section; ++i) {
        at += aligned(lengths[i], ALIGNMENT);
    }
    return at;
}

// Sizes of the packed parts of section 0, in words.
struct TileSectionWords {
    uint32_t constant, predictors, classes, masks, signs;

    __device__ inline TileSectionWords(uint32_t tiles, uint32_t live, uint32_t flags)
        : constant(ceil_div(tiles, 32)), predictors(ceil_div((flags & FLAG_SCHEME ? 4 : 2) * live, 32)),
          classes(flags & FLAG_CLASSES ? predictors : 0), masks(flags & FLAG_MASKS ? ceil_div(4 * tiles, 32) : 0),
          signs(flags & FLAG_SIGNS ? ceil_div(2 * tiles, 32) : 0) {}
    __device__ inline uint32_t bytes() const {
        return TILES_HEADER + 4 * (constant + predictors + classes + masks + signs);
    }

    static constexpr uint32_t TILES_HEADER = 16;
};

// Returns the zigzag-coded difference between the base of tile `tile` of a chunk and that of the previous tile; 0 past
// the last tile. Called by whole warps, for consecutive tiles.
__device__ inline uint32_t base_difference(const int32_t *bases, uint32_t tile, uint32_t tiles) {
    const uint32_t base = tile < tiles ? uint32_t(bases[tile]) : 0;
    uint32_t before = __shfl_up_sync(ALL_LANES, base, 1);
    if (lane_id() == 0) {
        before = tile > 0 && tile <= tiles ? uint32_t(bases[tile - 1]) : 0;
    }
    return tile < tiles ? zigzag(base - before) : 0;
}
