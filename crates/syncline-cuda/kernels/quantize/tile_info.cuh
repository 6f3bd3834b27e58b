// Bit fields of a tile's info: `TileFacts` of encoding (src/strips/structs.rs), and `TilePlace` of parsing.
#pragma once
#include "common.cuh"

constexpr uint32_t INFO_CONSTANT = 1;
constexpr uint32_t INFO_PREDICTOR = 1; // shifts from here on
constexpr uint32_t INFO_CLASS = 3;
constexpr uint32_t INFO_MASK = 5;
constexpr uint32_t INFO_PATTERN = 7;
constexpr uint32_t INFO_SIGN = 9;
constexpr uint32_t INFO_EMPTY = 1u << 11; // no element is valid
constexpr uint32_t INFO_VERBATIM = 12;

// Kinds of masks and of signs.
constexpr uint32_t KIND_NONE = 0;
constexpr uint32_t KIND_ALL = 1;
constexpr uint32_t KIND_BITMAP = 2;

__device__ inline bool tile_is_constant(uint32_t info) { return info & INFO_CONSTANT; }
__device__ inline uint32_t tile_predictor(uint32_t info) { return info >> INFO_PREDICTOR & 3; }
__device__ inline uint32_t tile_class(uint32_t info) { return info >> INFO_CLASS & 3; }
// The kind of the mask and, above it, the pattern, as in section 0 of a record.
__device__ inline uint32_t tile_mask_and_pattern(uint32_t info) { return info >> INFO_MASK & 15; }
__device__ inline uint32_t tile_mask(uint32_t info) { return info >> INFO_MASK & 3; }
__device__ inline uint32_t tile_pattern(uint32_t info) { return info >> INFO_PATTERN & 3; }
__device__ inline uint32_t tile_sign(uint32_t info) { return info >> INFO_SIGN & 3; }
// Bitmaps of a tile.
__device__ inline uint32_t tile_bitmaps(uint32_t info) {
    return (tile_mask(info) == KIND_BITMAP ? 1 : 0) + (tile_sign(info) == KIND_BITMAP ? 1 : 0);
}
__device__ inline bool tile_is_empty(uint32_t info) { return info & INFO_EMPTY; }
__device__ inline uint32_t tile_verbatim(uint32_t info) { return info >> INFO_VERBATIM; }
