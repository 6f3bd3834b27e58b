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

// Returns where the elements of a tile are in the raster order of the array, counted from its first element.
struct RasterOffsets {
    const Geometry &geometry;
    uint32_t nx, ny;
    TileDivisor by_row, by_plane;

    __device__ inline RasterOffsets(const Geometry &geometry, const Tile &tile)
        : geometry(geometry), nx(tile.nx), ny(tile.ny), by_row(tile.nx), by_plane(tile.ny) {}

    __device__ inline uint64_t of(uint32_t i) const {
        const uint32_t row = by_row.quotient(i), z = by_plane.quotient(row);
        return z * geometry.strides[1] + (row - z * ny) * geometry.strides[2] + (i - row * nx);
    }
};
