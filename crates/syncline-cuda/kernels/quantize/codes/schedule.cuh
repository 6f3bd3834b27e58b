// The order of the work of `quantize_codes_staged`. Blocks take tickets in order. The place of a block's codes is known
// once the blocks before it in the chunk have published theirs.
//
// AXES   axes along which tiles extend
// UNITS  units that a block works on at a time
#pragma once
#include "device/lookback.cuh"
#include "device/warp.cuh"
#include "quantize/codes/async_staging.cuh"

constexpr uint32_t BLOCK_TILES = UNITS * UNIT_TILES;
static_assert(BLOCK_TILES < WARP, "a lane a tile, and one for all");

struct CodesLaunch {
    uint64_t first_element; // of the slab
    uint32_t chunk_blocks;  // blocks of work of a chunk
    uint32_t aligned;       // quads of elements start on multiples of 16 bytes
    uint32_t use_vector;
    uint32_t chunks_per_wave;
    // Divide by the tickets of a wave of chunks, and by the chunks of a wave or of the last wave.
    Divider32 by_wave_tickets, by_wave_chunks, by_last_wave_chunks;
    // Divides by the chunks of the last wave without the batch's last, which may be shorter.
    Divider32 by_last_wave_full_chunks;
    Divider32 by_grid[3];       // divide by the tiles along z, y, x
    uint32_t has_32_bit_tiles;  // whether the array's tile numbers fit 32 bits
    uint32_t last_chunk_blocks; // blocks of work of the batch's last chunk
    uint32_t unused;

    // Returns tile `number` of the array.
    __device__ inline Tile tile(const Geometry &geometry, uint64_t number) const {
        if (has_32_bit_tiles == 0) {
            return geometry.tile(number);
        }
        const uint32_t rows = by_grid[2].quotient(uint32_t(number)), planes = by_grid[1].quotient(rows),
                       b = by_grid[0].quotient(planes);
        const uint32_t z = planes - b * uint32_t(geometry.grid[0]), y = rows - planes * uint32_t(geometry.grid[1]),
                       x = uint32_t(number) - rows * uint32_t(geometry.grid[2]);
        return geometry.tile(TileCoord{b, z, y, x});
    }
};

// A block's work: those tiles from `first_tile` of the batch on that belong to the chunk.
struct WorkItem {
    uint32_t chunk, block; // chunk of the batch, or `batch.chunks` if there is no work; block of the chunk
    uint32_t first_tile, end_tile;
    TileExtents tiles[BLOCK_TILES];
};

// Sets up the work of a ticket. Called by one warp.
__device__ inline void set_up_work(const Geometry &geometry, const ChunkBatch &batch, const CodesLaunch &launch,
                                   uint32_t ticket, WorkItem &work) {
    const uint32_t lane = lane_id(), tickets_per_wave = launch.chunks_per_wave * launch.chunk_blocks;
    const uint32_t turn = launch.by_wave_tickets.quotient(ticket), first_chunk = turn * launch.chunks_per_wave;
    uint32_t chunk = batch.chunks, block = 0;
    if (first_chunk < batch.chunks) {
        uint32_t chunks = min_of(batch.chunks - first_chunk, launch.chunks_per_wave),
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
        const uint32_t further = by_wave_chunks.quotient(within);
        block += further;
        // Tickets past the end have no block.
        chunk = block < launch.chunk_blocks && chunks > 0 ? first_chunk + (within - further * chunks) : batch.chunks;
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
            const Tile tile = launch.tile(geometry, batch.first_tile + number);
            out = {tile.first_element - launch.first_element, tile.nz << 24 | tile.ny << 16 | tile.nx, tile.elements()};
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
