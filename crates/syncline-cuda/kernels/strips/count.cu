// Counts the symbols of a sample of each chunk's tiles, coded as the chunk chose.
//
// WARPS  warps of a block
// See also predict/code_tile.cuh and strips/sample.cuh.
#include "predict/code_tile.cuh"
#include "strips/sample.cuh"
#include "strips/tile_strips.cuh"

// Counts by codebook: those of classes, then that of bitmaps. The grid is (blocks of a chunk, chunks). `counts` has the
// counts of each chunk and `live` its number of tiles in the sample that are not constant; both are 0 before.
extern "C" __global__ void __launch_bounds__(WARPS *WARP)
    count_symbols(const Element *slab, uint64_t first_element, const __grid_constant__ Geometry geometry,
                  const __grid_constant__ ChunkBatch batch, const Step *__restrict__ quantizer,
                  const __grid_constant__ Plans plans, const ChunkChoice *choices, uint32_t *counts, uint32_t *live) {
    extern __shared__ __align__(16) uint8_t dynamic[];
    __shared__ uint32_t histogram[strips::CODEBOOKS * SYMBOLS];
    __shared__ uint32_t live_tiles;
    TileMemory &memory = reinterpret_cast<TileMemory *>(dynamic)[tile_of_block()];
    const uint32_t chunk = blockIdx.y, first = batch.chunk_first(chunk);
    const Sample sample = Sample::counted(batch.chunk_first(chunk + 1) - first);
    if (blockIdx.x * TILES_OF_BLOCK >= sample.lots()) {
        return;
    }
    for (uint32_t i = threadIdx.x; i < strips::CODEBOOKS * SYMBOLS; i += WARPS * WARP) {
        histogram[i] = 0;
    }
    if (threadIdx.x == 0) {
        live_tiles = 0;
    }
    __syncthreads();
    const Step &step = *quantizer;
    const ChunkChoice choice = choices[chunk];
    for (uint32_t lot = blockIdx.x * TILES_OF_BLOCK + tile_of_block(); lot < sample.lots();
         lot += gridDim.x * TILES_OF_BLOCK) {
        const uint32_t number = sample.tile(lot);
        if (number >= sample.tiles) {
            break; // It is the last lot.
        }
        TileWork work(step, slab, first_element, geometry, batch.first_tile + first + number, memory);
        work.quantize();
        const CodedTile coded = predict_tile(work, choice, plans, geometry);
        write_codes(work, coded);
        const uint32_t elements = work.tile.elements();
        const TileStrips strips_of_tile(elements, work.quantized.meta, coded.is_constant);
        uint32_t class_number = 0;
        for (uint32_t threshold : choice.thresholds) {
            class_number += coded.cost >> strips::COST_LOG2 >= threshold ? 1 : 0;
        }
        const bool is_dense = coded.is_dense(elements);
        code_bitmaps(work.tile, strips_of_tile, memory.bitmaps, memory.strips);
        tile_sync();
        for (uint32_t strip = tile_warp(); strip < strips_of_tile.count(); strip += TILE_WARPS) {
            const bool is_bitmap = strip < strips_of_tile.of_bitmaps();
            uint32_t *own = histogram + (is_bitmap ? uint32_t(strips::BITMAP_CODEBOOK) : class_number) * SYMBOLS;
            StripValues(strips_of_tile, memory.strips, memory.codes(), strip)
                .for_each([&](uint32_t zeros, int32_t value) {
                    if (value != 0) {
                        for_symbols(
                            zeros, value, is_dense && !is_bitmap, [](uint32_t) { return true; },
                            [&](uint32_t symbol, uint32_t, uint32_t) { atomicAdd(&own[symbol], 1u); });
                    }
                });
        }
        if (tile_thread() == 0 && !coded.is_constant) {
            atomicAdd(&live_tiles, 1u);
        }
        tile_sync();
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < strips::CODEBOOKS * SYMBOLS; i += WARPS * WARP) {
        if (histogram[i] != 0) {
            atomicAdd(&counts[uint64_t(chunk) * strips::CODEBOOKS * SYMBOLS + i], histogram[i]);
        }
    }
    if (threadIdx.x == 0 && live_tiles != 0) {
        atomicAdd(&live[chunk], live_tiles);
    }
}
