// Elements of lossless chunks as words, and where they are.
//
// ELEMENT_BYTES  1, 2, 4 or 8
#pragma once
#include "device/warp.cuh"
#include "format/constants.cuh"
#include "geometry.cuh"

using word_t = Unsigned<ELEMENT_BYTES>::type;

// Returns the number of elements in the tiles of the same chunk before a tile of the batch.
__device__ inline uint32_t position_in_chunk(const Geometry &geometry, const ChunkBatch &batch, const Tile &tile,
                                             uint32_t chunk) {
    return uint32_t(tile.elements_before - geometry.elements_before(batch.first_tile + batch.chunk_first(chunk)));
}

// Returns the distance from the first element of a tile to its element `i` in the raster order of the array.
__device__ inline uint64_t raster_offset(const Geometry &geometry, const Tile &tile, uint32_t i) {
    const uint32_t row = i / tile.nx, z = row / tile.ny;
    return z * geometry.strides[1] + (row - z * tile.ny) * geometry.strides[2] + (i - row * tile.nx);
}
