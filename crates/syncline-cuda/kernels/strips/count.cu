// Counts the symbols of a sample of each chunk's tiles, coded as the chunk chose.
//
// WARPS  warps of a block
// See also predict/code_tile.cuh and strips/sample.cuh.
#include "predict/code_tile.cuh"
#include "predict/ordinary.cuh"
#include "strips/sample.cuh"
#include "strips/tile_strips.cuh"

// What a block counts.
struct Counting {
    const Step &step;
    const ChunkChoice &choice;
    const Geometry &geometry;
    const Plans &plans;
    uint32_t *histogram;
    uint32_t *varying_tiles;

    __device__ inline uint32_t class_of(uint32_t cost) const {
        uint32_t number = 0;
        for (uint32_t threshold : choice.thresholds) {
            number += cost >> strips::COST_LOG2 >= threshold ? 1 : 0;
        }
        return number;
    }

    // Counts the symbols of a value that is not 0, and of the zeros in front of it.
    __device__ inline void count(uint32_t *own, uint32_t zeros, int32_t value, bool is_dense) const {
        for_symbols(
            zeros, value, is_dense, [](uint32_t) { return true; },
            [&](uint32_t symbol, uint32_t, uint32_t) { atomicAdd(&own[symbol], 1u); });
    }

    // Counts the symbols of any tile. All lanes call this.
    __device__ inline void count_tile(TileWork &work) const {
        TileMemory &memory = work.memory;
        work.quantize();
        const CodedTile coded = predict_tile(work, choice, plans, geometry);
        write_codes(work, coded);
        const uint32_t elements = work.tile.elements();
        const TileStrips strips_of_tile(elements, work.quantized.info, coded.is_constant);
        const bool is_dense = coded.is_dense(elements);
        uint32_t *of_codes = histogram + class_of(coded.cost) * SYMBOLS,
                 *of_bitmaps = histogram + strips::BITMAP_CODEBOOK * SYMBOLS;
        code_bitmaps(work.tile, strips_of_tile, memory.bitmaps, memory.strips);
        __syncwarp();
        for (uint32_t strip = 0; strip < strips_of_tile.count(); ++strip) {
            const bool is_bitmap = strip < strips_of_tile.of_bitmaps();
            StripValues(strips_of_tile, memory.strips, memory.codes, strip)
                .for_each([&](uint32_t zeros, int32_t value) {
                    if (value != 0) {
                        count(is_bitmap ? of_bitmaps : of_codes, zeros, value, is_dense && !is_bitmap);
                    }
                });
        }
        if (lane_id() == 0 && !coded.is_constant) {
            atomicAdd(varying_tiles, 1u);
        }
        __syncwarp();
    }

    // Counts the symbols of a dense tile. Called by the whole warp.
    __device__ inline void count_dense(uint32_t *own, const int16_t *codes) const {
        uint32_t zeros = 0;
#pragma unroll 1
        for (uint32_t k = 0; k < QUADS; ++k) {
            const uint2 four = *reinterpret_cast<const uint2 *>(codes + k * STRIP_ROOM + 4 * lane_id());
            // Zeros behind the last value of a strip have no symbols.
            const uint32_t others = __ballot_sync(ALL_LANES, (four.x | four.y) != 0), behind = others >> lane_id() >> 1;
            bool is_coded = behind != 0;
#pragma unroll
            for (uint32_t j = 4; j-- > 0;) {
                const int32_t code = int16_t((j < 2 ? four.x : four.y) >> j % 2 * 16);
                is_coded |= code != 0;
                if (code != 0) {
                    atomicAdd(&own[symbol_of(0, code)], 1u);
                }
                zeros += is_coded && code == 0 ? 1 : 0;
            }
        }
        zeros = warp_reduce_sum(zeros);
        if (lane_id() == 0 && zeros > 0) {
            atomicAdd(&own[symbol_of_power(0)], zeros);
        }
    }

    // Counts the symbols of a whole tile. Returns whether it is ordinary. Called by the whole warp.
    __device__ inline bool count_ordinary(const TileWork &work, const uint32_t *schemes, bool vectors) const {
        OrdinaryMemory &memory = reinterpret_cast<OrdinaryMemory &>(work.memory);
        const OrdinaryElements elements(work.source, vectors);
        const OrdinaryStep own_step(step);
        QuantizedOrdinary quantized;
        CodedOrdinary coded;
        if (!quantize_ordinary(own_step, elements, choice.scheme != 0 ? memory.values : nullptr, quantized) ||
            !predict_ordinary(own_step, choice, schemes + (choice.scheme - 1) * TABLE_WORDS, quantized, memory,
                              coded)) {
            return false;
        }
        if (!coded.is_constant) {
            uint32_t *own = histogram + class_of(coded.cost) * SYMBOLS;
            const int16_t *codes = memory.codes[coded.codes];
            if (coded.is_dense()) {
                count_dense(own, codes);
            } else {
                LaneValues(codes, memory).for_each([&](uint32_t, bool, uint32_t zeros, int32_t value) {
                    count(own, zeros, value, false);
                });
            }
            if (lane_id() == 0) {
                atomicAdd(varying_tiles, 1u);
            }
        }
        __syncwarp();
        return true;
    }
};

// Counts by codebook: those of classes, then that of bitmaps. The grid is (blocks of a chunk, chunks). `counts` has the
// counts of each chunk and `varying` its number of tiles in the sample that are not constant; both are 0 before.
// `schemes` has the tables of all schemes; `vectors`: see `encode_ordinary`.
extern "C" __global__ void __launch_bounds__(WARPS *WARP)
    count_symbols(const Stored *slab, uint64_t first_element, const __grid_constant__ Geometry geometry,
                  const __grid_constant__ ChunkBatch batch, const Step *__restrict__ quantizer,
                  const __grid_constant__ Plans plans, uint32_t vectors, const uint32_t *schemes,
                  const ChunkChoice *choices, uint32_t *counts, uint32_t *varying) {
    extern __shared__ __align__(16) uint8_t dynamic[];
    __shared__ uint32_t histogram[strips::CODEBOOKS * SYMBOLS];
    __shared__ uint32_t varying_tiles;
    __shared__ ChunkChoice choice;
    TileMemory &memory = reinterpret_cast<TileMemory *>(dynamic)[warp_id()];
    const uint32_t chunk = blockIdx.y, first = batch.chunk_first(chunk);
    const Sample sample = Sample::counted(batch.chunk_first(chunk + 1) - first);
    if (blockIdx.x * WARPS >= sample.intervals()) {
        return;
    }
    for (uint32_t i = threadIdx.x; i < strips::CODEBOOKS * SYMBOLS; i += WARPS * WARP) {
        histogram[i] = 0;
    }
    if (threadIdx.x == 0) {
        varying_tiles = 0;
        choice = choices[chunk];
    }
    __syncthreads();
    const Counting counting{*quantizer, choice, geometry, plans, histogram, &varying_tiles};
    for (uint32_t interval = blockIdx.x * WARPS + warp_id(); interval < sample.intervals();
         interval += gridDim.x * WARPS) {
        const uint32_t number = sample.tile(interval);
        if (number >= sample.tiles) {
            break; // It is the last interval.
        }
        TileWork work(*quantizer, slab, first_element, geometry, batch.first_tile + first + number, memory);
        if (geometry.is_unclipped(work.tile) && counting.count_ordinary(work, schemes, vectors != 0)) {
            continue;
        }
        counting.count_tile(work);
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < strips::CODEBOOKS * SYMBOLS; i += WARPS * WARP) {
        if (histogram[i] != 0) {
            atomicAdd(&counts[uint64_t(chunk) * strips::CODEBOOKS * SYMBOLS + i], histogram[i]);
        }
    }
    if (threadIdx.x == 0 && varying_tiles != 0) {
        atomicAdd(&varying[chunk], varying_tiles);
    }
}
