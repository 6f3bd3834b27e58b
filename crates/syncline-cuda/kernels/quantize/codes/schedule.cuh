// The order of the work of `quantize_codes_staged`. Blocks take tickets in order. The place of a block's codes is known
// once the blocks before it in the chunk have published theirs.
//
// AXES   axes along which tiles extend
// UNITS  units that a block works on at a time
#pragma once
#include "device/lookback.cuh"
#include "device/warp.cuh"
#include "quantize/codes/async_staging.cuh"
#include "quantize/structs.cuh"

constexpr uint32_t BLOCK_TILES = UNITS * UNIT_TILES;
static_assert(BLOCK_TILES < WARP, "a lane a tile, and one for all");

// Returns tile `number` of the array.
__device__ inline Tile tile_of(const StagedLaunch &launch, const Geometry &geometry, uint64_t number) {
    if (launch.has_32_bit_tiles == 0) {
        return geometry.tile(number);
    }
    const uint32_t rows = quotient(launch.by_grid[2], uint32_t(number)), planes = quotient(launch.by_grid[1], rows),
                   b = quotient(launch.by_grid[0], planes);
    const uint32_t z = planes - b * uint32_t(geometry.grid[0]), y = rows - planes * uint32_t(geometry.grid[1]),
                   x = uint32_t(number) - rows * uint32_t(geometry.grid[2]);
    return geometry.tile(TileCoord{b, z, y, x});
}

// A block's work: those tiles from `first_tile` of the batch on that belong to the chunk.
struct WorkItem {
    uint32_t chunk, block; // chunk of the batch, or `batch.chunks` if there is no work; block of the chunk
    uint32_t first_tile, end_tile;
    TileExtents tiles[BLOCK_TILES];
};

// Sets up the work of a ticket. Called by one warp.
__device__ inline void set_up_work(const Geometry &geometry, const ChunkBatch &batch, const StagedLaunch &launch,
                                   uint32_t ticket, WorkItem &work) {
    const uint32_t lane = lane_id(), tickets_per_wave = launch.codes.chunks_per_wave * launch.codes.chunk_blocks;
    const uint32_t turn = quotient(launch.by_wave_tickets, ticket), first_chunk = turn * launch.codes.chunks_per_wave;
    uint32_t chunk = batch.chunks, block = 0;
    if (first_chunk < batch.chunks) {
        uint32_t chunks = min_of(batch.chunks - first_chunk, launch.codes.chunks_per_wave),
                 within = ticket - turn * tickets_per_wave;
        Divider32 by_wave_chunks = launch.by_wave_chunks;
        if (first_chunk + chunks == batch.chunks) {
            // The last chunk may have fewer blocks than the others of its wave.
            const uint32_t together = chunks * launch.last_chunk_blocks;
            const bool apart = within >= together;
            by_wave_chunks = apart ? launch.by_last_wave_full_chunks : launch.by_last_wave_chunks;
            within -= apart ? together : 0;
            chunks -= apart;
            block = apart ? launch.last_chunk_blocks : 0;
        }
        const uint32_t further = quotient(by_wave_chunks, within);
        block += further;
        // Tickets past the end have no block.
        chunk =
            block < launch.codes.chunk_blocks && chunks > 0 ? first_chunk + (within - further * chunks) : batch.chunks;
    }
    if (lane == 0) {
        work.chunk = chunk;
        work.block = block;
    }
    if (chunk >= batch.chunks) {
        return;
    }
    const uint32_t first_tile = batch.chunk_first(chunk) + block * BLOCK_TILES, end = batch.chunk_first(chunk + 1),
                   number = first_tile + lane;
    if (lane == 0) {
        work.first_tile = first_tile;
        work.end_tile = end;
    }
    if (lane < BLOCK_TILES) {
        TileExtents out = {};
        if (number < end) {
            const Tile tile = tile_of(launch, geometry, batch.first_tile + number);
            out = {tile.first_element - launch.codes.first_element, tile.nz << 24 | tile.ny << 16 | tile.nx,
                   tile.elements()};
        }
        work.tiles[lane] = out;
    }
}

// Returns the groups of the block's tiles before the one with the lane's number.
__device__ inline uint32_t scan_tiles(const uint32_t (&tile_groups)[BLOCK_TILES]) {
    const uint32_t lane = lane_id(), own = lane < BLOCK_TILES ? tile_groups[lane] : 0;
    uint32_t sum = warp_inclusive_sum(own);
    return sum - own;
}
