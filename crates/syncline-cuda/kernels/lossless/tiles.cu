// Elements of lossless chunks from raster order to tile order, and back.
//
// Each chunk of a batch has a slot of `stride` bytes for its elements in tile order.
//
// THREADS  threads of a block in which each warp copies a tile
// See also lossless/words.cuh.
#include "lossless/words.cuh"
#include "lossless/structs.cuh"

constexpr uint32_t WARPS = THREADS / WARP;

// Gathers elements in tile order; one warp per tile. `slab` has the array's elements from `first_element` on.
extern "C" __global__ void __launch_bounds__(THREADS)
    tiles_gather(Geometry geometry, ChunkBatch batch, const word_t *slab, uint64_t first_element, uint64_t stride,
                 uint8_t *slots) {
    const uint32_t number = blockIdx.x * WARPS + warp_id();
    if (number >= batch.tiles) {
        return;
    }
    const uint32_t chunk = number / batch.chunk_tiles;
    const Tile tile = geometry.tile(batch.first_tile + number);
    word_t *to = reinterpret_cast<word_t *>(slots + chunk * stride) + position_in_chunk(geometry, batch, tile, chunk);
    const word_t *from = slab + (tile.first_element - first_element);
    const RasterOffsets offsets(geometry, tile);
    for (uint32_t i = lane_id(); i < tile.elements(); i += WARP) {
        to[i] = from[offsets.of(i)];
    }
}

// Gathers the elements of sampled tiles; one warp per tile.
extern "C" __global__ void __launch_bounds__(THREADS)
    tiles_sample(Geometry geometry, const SampleTile *tiles, uint32_t count, const word_t *slab, uint64_t first_element,
                 word_t *sample) {
    const uint32_t number = blockIdx.x * WARPS + warp_id();
    if (number >= count) {
        return;
    }
    const Tile tile = geometry.tile(tiles[number].number);
    word_t *to = sample + tiles[number].at;
    const word_t *from = slab + (tile.first_element - first_element);
    const RasterOffsets offsets(geometry, tile);
    for (uint32_t i = lane_id(); i < tile.elements(); i += WARP) {
        to[i] = from[offsets.of(i)];
    }
}

// Copies the elements of an unclipped tile of an array with one axis, as vectors; a warp.
__device__ inline void copy_row(const word_t *from, word_t *to) {
    constexpr uint32_t ROUNDS = format::MAX_TILE_ELEMENTS * ELEMENT_BYTES / (WARP * sizeof(uint4));
    const uint4 *vectors = reinterpret_cast<const uint4 *>(from);
    uint4 values[ROUNDS];
#pragma unroll
    for (uint32_t round = 0; round < ROUNDS; ++round) {
        values[round] = vectors[round * WARP + lane_id()];
    }
#pragma unroll
    for (uint32_t round = 0; round < ROUNDS; ++round) {
        reinterpret_cast<uint4 *>(to)[round * WARP + lane_id()] = values[round];
    }
}

// Whether `copy_row` supports a tile and the alignment of two addresses.
__device__ inline bool is_row(const Geometry &geometry, const Tile &tile, const void *a, const void *b) {
    return geometry.axes == 1 && tile.nx == format::MAX_TILE_ELEMENTS &&
           (reinterpret_cast<uint64_t>(a) | reinterpret_cast<uint64_t>(b)) % 16 == 0;
}

// Writes tiles `first_tile` to `end_tile`, counted in the batch, to the array's elements from `first_element` on; one
// warp per tile. `sources` are the addresses of the chunks' elements in tile order. Chunks whose source is 0, or whose
// status is not, are skipped.
extern "C" __global__ void __launch_bounds__(THREADS)
    tiles_scatter(Geometry geometry, ChunkBatch batch, uint32_t first_tile, uint32_t end_tile, const uint64_t *sources,
                  const uint32_t *statuses, word_t *slab, uint64_t first_element) {
    const uint32_t number = first_tile + blockIdx.x * WARPS + warp_id();
    if (number >= end_tile) {
        return;
    }
    const uint32_t chunk = number / batch.chunk_tiles;
    if (sources[chunk] == 0 || statuses[chunk] != 0) {
        return;
    }
    const Tile tile = geometry.tile(batch.first_tile + number);
    word_t *to = slab + (tile.first_element - first_element);
    const word_t *from =
        reinterpret_cast<const word_t *>(sources[chunk]) + position_in_chunk(geometry, batch, tile, chunk);
    if (is_row(geometry, tile, from, to)) {
        copy_row(from, to);
        return;
    }
    const RasterOffsets offsets(geometry, tile);
    for (uint32_t i = lane_id(); i < tile.elements(); i += WARP) {
        to[offsets.of(i)] = from[i];
    }
}
