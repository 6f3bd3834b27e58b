// Converts elements of lossless chunks between raster order, tile order and residuals, and writes the tile data of
// sections 0 and 1.
//
// Each chunk of a batch has a slot of `stride` bytes for its elements in tile order, and one for its residuals.
// Prediction is computed twice: first to choose predictors and to find constant tiles, then to write the residuals of
// the other tiles at the positions that the sums over previous tiles give.
//
// THREADS  threads of a block in which each warp processes a tile
#include "device/block.cuh"
#include "lossless/structs.cuh"
#include "lossless/tile.cuh"

constexpr uint32_t WARPS = THREADS / WARP;
constexpr uint32_t CHUNK_THREADS = 1024; // threads of a block that processes a chunk
constexpr uint64_t NO_PLACE = ~0ull;

// Returns the number of elements in the tiles of the same chunk before a tile of the batch.
__device__ inline uint32_t position_in_chunk(const Geometry &geometry, const ChunkBatch &batch, const Tile &tile,
                                             uint32_t chunk) {
    return uint32_t(tile.elements_before - geometry.elements_before(batch.first_tile + batch.chunk_first(chunk)));
}

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
    for (uint32_t i = lane_id(); i < tile.elements(); i += WARP) {
        to[i] = from[raster_offset(geometry, tile, i)];
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
    for (uint32_t i = lane_id(); i < tile.elements(); i += WARP) {
        to[i] = from[raster_offset(geometry, tile, i)];
    }
}

// Loads a tile's elements as mapped integers minus the first one, which is returned. Called by a warp.
__device__ inline word_t load_values(const word_t *elements, const Tile &tile, uint32_t map, word_t *values) {
    const word_t base = mapped(elements[0], map);
    for (uint32_t i = lane_id(); i < tile.elements(); i += WARP) {
        values[i] = word_t(mapped(elements[i], map) - base);
    }
    __syncwarp();
    return base;
}

// Returns the sum, limited to 2^64 - 1.
__device__ inline uint64_t saturating_sum(uint64_t a, uint64_t b) { return a + b < a ? ~0ull : a + b; }

// Chooses the predictor of each tile of those chunks whose word of `chosen` is set; one warp per tile.
extern "C" __global__ void __launch_bounds__(THREADS)
    tiles_predict(Geometry geometry, ChunkBatch batch, uint32_t map, const uint32_t *chosen, const uint8_t *slots,
                  uint64_t stride, uint8_t *metas, word_t *bases) {
    __shared__ word_t shared[WARPS][MOST_TILE_ELEMENTS];
    const uint32_t number = blockIdx.x * WARPS + warp_id();
    const uint32_t chunk = number / batch.chunk_tiles;
    if (number >= batch.tiles || !chosen[chunk]) {
        return;
    }
    const Tile tile = geometry.tile(batch.first_tile + number);
    const word_t *elements =
        reinterpret_cast<const word_t *>(slots + chunk * stride) + position_in_chunk(geometry, batch, tile, chunk);
    uint32_t best = 0;
    uint64_t least = 0;
    if (is_row(geometry, tile, elements, elements)) {
        Row row;
        row.load(elements);
        row.each([&](word_t word) { return mapped(word, map); });
        const word_t base = mapped(elements[0], map);
        uint64_t sums[2] = {};
        row.each([&](word_t word) {
            sums[0] = saturating_sum(sums[0], magnitude(word_t(word - base)));
            return word;
        });
        row.differences(base);
        row.each([&](word_t word) {
            sums[1] = saturating_sum(sums[1], magnitude(word));
            return word;
        });
        sums[0] = warp_reduce(sums[0], saturating_sum);
        sums[1] = warp_reduce(sums[1], saturating_sum);
        if (lane_id() == 0) {
            metas[number] = sums[0] == 0 || sums[1] == 0 ? CONSTANT : uint8_t(sums[1] <= sums[0]);
            bases[number] = base;
        }
        return;
    }
    word_t *values = shared[warp_id()];
    const word_t base = load_values(elements, tile, map, values);
    for (uint32_t predictor = 0; predictor <= geometry.axes; ++predictor) {
        uint64_t sum = 0;
        for (uint32_t i = lane_id(); i < tile.elements(); i += WARP) {
            sum = saturating_sum(sum, magnitude(residual(values, tile, i, predictor)));
        }
        sum = warp_reduce(sum, saturating_sum);
        if (predictor == 0 || sum <= least) {
            best = predictor;
            least = sum;
        }
    }
    if (lane_id() == 0) {
        metas[number] = least == 0 ? CONSTANT : uint8_t(best);
        bases[number] = base;
    }
}

// Returns the zigzag-coded difference between the base of a tile and that of the previous tile; 0 past the last tile.
__device__ inline uint64_t base_difference(const word_t *bases, uint32_t tile, uint32_t tiles) {
    return tile < tiles ? zigzag(word_t(bases[tile] - (tile > 0 ? bases[tile - 1] : word_t(0)))) : 0;
}

// Computes the start of each tile's residuals in its chunk, and sums over tiles; one block per chunk.
extern "C" __global__ void __launch_bounds__(CHUNK_THREADS)
    tiles_scan(Geometry geometry, ChunkBatch batch, const uint32_t *chosen, const uint8_t *metas, const word_t *bases,
               uint32_t *starts, TileSummary *summaries) {
    __shared__ uint64_t warp_sums[CHUNK_THREADS / WARP];
    const uint32_t chunk = blockIdx.x;
    const uint32_t first = batch.chunk_first(chunk), tiles = batch.chunk_first(chunk + 1) - first;
    if (!chosen[chunk]) {
        if (threadIdx.x == 0) {
            summaries[chunk] = {};
        }
        return;
    }
    uint64_t before = 0, words = 0, total;
    for (uint32_t strip = 0; strip < tiles; strip += CHUNK_THREADS) {
        const uint32_t tile = strip + threadIdx.x;
        const bool live = tile < tiles && metas[first + tile] != CONSTANT;
        const uint64_t elements = live ? geometry.tile(batch.first_tile + first + tile).elements() : 0;
        const uint64_t sum =
            before + block_exclusive_sum<CHUNK_THREADS, uint64_t>(uint64_t(live) << 32 | elements, warp_sums, total);
        before += total;
        if (tile < tiles) {
            starts[first + tile] = uint32_t(sum);
        }
        const uint64_t all = warp_reduce_or(base_difference(bases + first, tile, tiles));
        block_exclusive_sum<CHUNK_THREADS, uint64_t>(lane_id() == 0 ? 64 - __clzll(all) : 0, warp_sums, total);
        words += total;
    }
    if (threadIdx.x == 0) {
        summaries[chunk] = {uint32_t(before >> 32), uint32_t(before), uint32_t(words), 0};
    }
}

// Writes the zigzag-coded residuals of each tile that is not constant; one warp per tile.
extern "C" __global__ void __launch_bounds__(THREADS)
    tiles_residuals(Geometry geometry, ChunkBatch batch, uint32_t map, const uint32_t *chosen, const uint8_t *slots,
                    uint64_t stride, const uint8_t *metas, const uint32_t *starts, uint8_t *residual_slots) {
    __shared__ word_t shared[WARPS][MOST_TILE_ELEMENTS];
    const uint32_t number = blockIdx.x * WARPS + warp_id();
    const uint32_t chunk = number / batch.chunk_tiles;
    if (number >= batch.tiles || !chosen[chunk] || metas[number] == CONSTANT) {
        return;
    }
    const Tile tile = geometry.tile(batch.first_tile + number);
    const word_t *elements =
        reinterpret_cast<const word_t *>(slots + chunk * stride) + position_in_chunk(geometry, batch, tile, chunk);
    word_t *to = reinterpret_cast<word_t *>(residual_slots + chunk * stride) + starts[number];
    if (is_row(geometry, tile, elements, to)) {
        Row row;
        row.load(elements);
        row.each([&](word_t word) { return mapped(word, map); });
        const word_t base = mapped(elements[0], map);
        if (metas[number] == 1) {
            row.differences(base);
        } else {
            row.each([&](word_t word) { return word_t(word - base); });
        }
        row.each([](word_t word) { return zigzag(word); });
        row.store(to);
        return;
    }
    word_t *values = shared[warp_id()];
    load_values(elements, tile, map, values);
    for (uint32_t i = lane_id(); i < tile.elements(); i += WARP) {
        to[i] = zigzag(residual(values, tile, i, metas[number]));
    }
}

// Writes sections 0 and 1 of the chunks that have an offset in the output; one block per chunk.
extern "C" __global__ void __launch_bounds__(CHUNK_THREADS)
    tiles_sections(ChunkBatch batch, const uint8_t *metas, const word_t *bases, const TileSummary *summaries,
                   const uint64_t *places, uint8_t *out) {
    __shared__ uint64_t warp_sums[CHUNK_THREADS / WARP];
    __shared__ uint32_t predictors[2 * MOST_TILES / 32];
    __shared__ uint32_t packed[CHUNK_THREADS / WARP][64];
    __shared__ uint8_t widths[MOST_BLOCKS];
    __shared__ uint32_t words_before[MOST_BLOCKS];
    const uint32_t chunk = blockIdx.x;
    const uint32_t first = batch.chunk_first(chunk), tiles = batch.chunk_first(chunk + 1) - first;
    if (places[chunk] == NO_PLACE) {
        return;
    }
    uint32_t *section = reinterpret_cast<uint32_t *>(out + places[chunk]);
    const uint32_t bitmap_words = ceil_div(tiles, 32), predictor_words = ceil_div(2 * summaries[chunk].live_tiles, 32);
    if (threadIdx.x < TILE_HEADER_WORDS) {
        section[threadIdx.x] = threadIdx.x == 0 ? tiles : 0;
    }
    for (uint32_t i = threadIdx.x; i < 2 * MOST_TILES / 32; i += CHUNK_THREADS) {
        predictors[i] = 0;
    }
    __syncthreads();
    uint64_t before = 0, total;
    for (uint32_t strip = 0; strip < tiles; strip += CHUNK_THREADS) {
        const uint32_t tile = strip + threadIdx.x;
        const uint32_t meta = tile < tiles ? metas[first + tile] : CONSTANT;
        const bool live = meta != CONSTANT;
        const uint32_t constant = __ballot_sync(ALL_LANES, tile < tiles && !live);
        if (lane_id() == 0 && tile < tiles) {
            section[TILE_HEADER_WORDS + tile / 32] = constant;
        }
        const uint32_t rank = uint32_t(before + block_exclusive_sum<CHUNK_THREADS, uint64_t>(live, warp_sums, total));
        before += total;
        if (live) {
            atomicOr(&predictors[rank / 16], meta << rank % 16 * 2);
        }
        const uint64_t all = warp_reduce_or(base_difference(bases + first, tile, tiles));
        if (lane_id() == 0 && tile < tiles) {
            widths[tile / BLOCK_TILES] = uint8_t(64 - __clzll(all));
        }
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < predictor_words; i += CHUNK_THREADS) {
        section[TILE_HEADER_WORDS + bitmap_words + i] = predictors[i];
    }
    section += (TILE_HEADER_WORDS + bitmap_words + predictor_words + 3) / 4 * 4;

    const uint32_t blocks = ceil_div(tiles, BLOCK_TILES), width_words = ceil_div(blocks, 4);
    if (threadIdx.x < width_words * 4) {
        reinterpret_cast<uint8_t *>(section)[threadIdx.x] = threadIdx.x < blocks ? widths[threadIdx.x] : 0;
    }
    const uint64_t own =
        block_exclusive_sum<CHUNK_THREADS, uint64_t>(threadIdx.x < blocks ? widths[threadIdx.x] : 0, warp_sums, total);
    if (threadIdx.x < blocks) {
        words_before[threadIdx.x] = uint32_t(own);
    }
    __syncthreads();
    section += width_words;
    uint32_t *words = packed[warp_id()];
    for (uint32_t block = warp_id(); block < blocks; block += CHUNK_THREADS / WARP) {
        const uint32_t width = widths[block];
        words[lane_id()] = words[lane_id() + WARP] = 0;
        __syncwarp();
        const uint64_t value = base_difference(bases + first, block * BLOCK_TILES + lane_id(), tiles);
        if (width > 0) {
            const uint32_t bit = lane_id() * width, shift = bit % 32;
            atomicOr(&words[bit / 32], uint32_t(value << shift));
            const uint64_t rest = value >> (32 - shift);
            if (uint32_t(rest) != 0) {
                atomicOr(&words[bit / 32 + 1], uint32_t(rest));
            }
            if (rest >> 32 != 0) {
                atomicOr(&words[bit / 32 + 2], uint32_t(rest >> 32));
            }
        }
        __syncwarp();
        for (uint32_t i = lane_id(); i < width; i += WARP) {
            section[words_before[block] + i] = words[i];
        }
        __syncwarp();
    }
}

// Any other source is residuals.
constexpr uint32_t FROM_NOWHERE = 0, FROM_ELEMENTS = 1;

// Writes tiles `first_tile` to `end_tile`, counted in the batch, to the array's elements from `first_element` on; one
// warp per tile. Chunks whose status is not 0 are skipped.
extern "C" __global__ void __launch_bounds__(THREADS)
    tiles_scatter(Geometry geometry, ChunkBatch batch, uint32_t map, uint32_t first_tile, uint32_t end_tile,
                  const ChunkSource *sources, const uint32_t *statuses, const uint8_t *metas, const word_t *bases,
                  const uint32_t *starts, word_t *slab, uint64_t first_element) {
    __shared__ word_t shared[WARPS][MOST_TILE_ELEMENTS];
    const uint32_t number = first_tile + blockIdx.x * WARPS + warp_id();
    if (number >= end_tile) {
        return;
    }
    const uint32_t chunk = number / batch.chunk_tiles;
    const ChunkSource source = sources[chunk];
    if (source.kind == FROM_NOWHERE || statuses[chunk] != 0) {
        return;
    }
    const Tile tile = geometry.tile(batch.first_tile + number);
    word_t *to = slab + (tile.first_element - first_element);
    const word_t *from = reinterpret_cast<const word_t *>(source.bytes);
    if (source.kind == FROM_ELEMENTS) {
        from += position_in_chunk(geometry, batch, tile, chunk);
        if (is_row(geometry, tile, from, to)) {
            Row row;
            row.load(from);
            row.store(to);
            return;
        }
        for (uint32_t i = lane_id(); i < tile.elements(); i += WARP) {
            to[raster_offset(geometry, tile, i)] = from[i];
        }
        return;
    }
    const uint32_t meta = metas[number];
    const word_t base = bases[number];
    from += starts[number];
    if (is_row(geometry, tile, from, to)) {
        Row row;
        if (meta == CONSTANT) {
            row.each([&](word_t) { return base; });
        } else {
            row.load(from);
            row.each([](word_t word) { return unzigzag(word); });
            if (meta == 1) {
                row.sums(base);
            } else {
                row.each([&](word_t word) { return word_t(word + base); });
            }
        }
        row.each([&](word_t word) { return unmapped(word, map); });
        row.store(to);
        return;
    }
    word_t *values = shared[warp_id()];
    for (uint32_t i = lane_id(); i < tile.elements(); i += WARP) {
        values[i] = meta == CONSTANT ? word_t(0) : unzigzag(from[i]);
    }
    __syncwarp();
    if (meta != CONSTANT) {
        integrate(values, tile, meta);
    }
    for (uint32_t i = lane_id(); i < tile.elements(); i += WARP) {
        to[raster_offset(geometry, tile, i)] = unmapped(word_t(values[i] + base), map);
    }
}
