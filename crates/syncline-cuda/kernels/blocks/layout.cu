// Lays out the records of chunks of blocks: a block of threads each. Writes the sections that are small to a head, and
// plans the record; the last block places the records.
//
// ELEMENT_BYTES  of an element: 1, 2, 4, or 8
// THREADS        threads of a block
#include "blocks/blocks.cuh"
#include "blocks/compact.cuh"
#include "blocks/packed.cuh"
#include "blocks/record.cuh"
#include "blocks/symbol.cuh"
#include "container/place.cuh"
#include "device/sync.cuh"

// Shared memory of a block.
struct Shared {
    uint64_t warp_sums[THREADS / WARP];
    uint32_t lengths[BLOCK_SECTIONS];
    uint32_t is_last;
};

// Writes the section of anchors. Returns its bytes. Called by one thread.
__device__ inline uint32_t write_anchors(const Geometry &geometry, uint64_t first_tile, uint32_t tiles,
                                         const int32_t *anchors, const int32_t *codes, uint32_t stride, uint32_t slices,
                                         uint32_t *to) {
    PackedWriter writer(to);
    uint32_t first = 0;
    for (uint32_t number = 0; number < tiles; ++number, anchors += stride) {
        const Tile tile = geometry.tile(first_tile + number);
        const BlockShape shape(tile, geometry, slices);
        uint32_t before = first;
        for (uint32_t i = 0; i < shape.anchors(); ++i) {
            const int32_t code = codes[anchor_place(shape, i)];
            writer.put(is_mask(code), 1);
            if (is_mask(code)) {
                writer.put(mask_of(code), ANCHOR_MASK_BITS);
                continue;
            }
            writer.put_signed(int32_t(uint32_t(anchors[i]) - before));
            before = uint32_t(anchors[i]);
            first = i == 0 ? before : first;
        }
        codes += tile.elements();
    }
    return writer.finish();
}

// Numbers verbatim values and words of a chunk, and writes the lanes of blocks and the sizes of units. Called by the
// whole block.
__device__ inline void write_sizes(const ChunkBatch &batch, const EncodedBlocks &from, uint32_t chunk, uint32_t *to,
                                   Shared &shared) {
    const uint32_t first = batch.chunk_first(chunk), tiles = batch.chunk_first(chunk + 1) - first;
    uint64_t values = 0, words = 0;
    uint32_t least = ALL_LANES, most = 0;
    for (uint32_t window = 0; window < tiles; window += THREADS) {
        const uint32_t tile = first + window + threadIdx.x;
        const bool exists = window + threadIdx.x < tiles;
        uint32_t own_words = 0, own_values = 0;
        if (exists) {
            const uint32_t own_units = from.places[tile].units;
            own_values = from.verbatim[tile];
            for (uint32_t i = 0; i < own_units; ++i) {
                const uint32_t size = from.units[uint64_t(tile) * from.units_of_block + i].count;
                own_words += size;
                least = size > 0 ? min_of(least, size) : least;
                most = max_of(most, size);
            }
        }
        uint64_t all_words, all_values;
        const uint64_t words_before = block_exclusive_sum<THREADS, uint64_t>(own_words, shared.warp_sums, all_words);
        const uint64_t values_before = block_exclusive_sum<THREADS, uint64_t>(own_values, shared.warp_sums, all_values);
        if (exists) {
            from.places[tile].words = uint32_t(words + words_before);
            from.places[tile].verbatim = uint32_t(values + values_before);
        }
        words += all_words;
        values += all_values;
    }
    // The smallest and the largest over all threads.
    __shared__ uint32_t ends[2];
    if (threadIdx.x == 0) {
        ends[0] = ALL_LANES;
        ends[1] = 0;
    }
    __syncthreads();
    atomicMin(&ends[0], least);
    atomicMax(&ends[1], most);
    __syncthreads();
    const uint32_t base = ends[0] == ALL_LANES ? 0 : ends[0] - 1, above = ends[1] > base ? ends[1] - base : 0;
    const uint32_t width = above == 0 ? 0 : 32 - __clz(above);
    if (threadIdx.x == 0) {
        PackedWriter writer(to);
        for (uint32_t tile = first; tile < first + tiles; ++tile) {
            writer.put(from.places[tile].lanes_log2, LANES_BITS);
        }
        writer.put(base, 32);
        writer.put(width, 8);
        for (uint32_t tile = first; tile < first + tiles; ++tile) {
            const BlockUnit *own = from.units + uint64_t(tile) * from.units_of_block;
            for (uint32_t i = 0; i < from.places[tile].units; ++i) {
                writer.put(own[i].count > base ? own[i].count - base : 0, width);
            }
        }
        shared.lengths[BLOCK_SIZES] = writer.finish();
        shared.lengths[BLOCK_WORDS] = uint32_t(2 * words);
        const uint32_t count = uint32_t(values);
        shared.lengths[BLOCK_VERBATIM] = count == 0 ? 0 : align_up(4 + 4 * count, 8) + ELEMENT_BYTES * count;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    blocks_layout(const __grid_constant__ Geometry geometry, const __grid_constant__ ChunkBatch batch,
                  const __grid_constant__ EncodedBlocks from, BlockRecord *records,
                  const __grid_constant__ RecordPlaces places) {
    __shared__ Shared shared;
    grid_dependency_wait();
    launch_dependents();
    const uint32_t chunk = blockIdx.x, first = batch.chunk_first(chunk), tiles = batch.chunk_first(chunk + 1) - first;
    const uint64_t tile = batch.first_tile + first;
    uint32_t *head = from.heads + uint64_t(chunk) * from.head_words;
    const BlockPlan plan = from.plans[chunk];
    if (threadIdx.x == 0) {
        shared.lengths[BLOCK_CHECKSUMS] = 0;
    }
    // A warp each for what one thread writes.
    if (threadIdx.x == 0) {
        shared.lengths[BLOCK_ANCHORS] =
            write_anchors(geometry, tile, tiles, from.anchors + uint64_t(first) * from.anchors_stride,
                          from.codes + (geometry.elements_before(tile) - geometry.elements_before(batch.first_tile)),
                          from.anchors_stride, plan.slices, head + from.anchors_at);
    } else if (threadIdx.x == WARP) {
        shared.lengths[BLOCK_PLAN] = BLOCK_PLAN_BYTES + from.encode_tables[chunk].bytes;
    }
    __syncthreads();
    write_sizes(batch, from, chunk, head + from.sizes_at, shared);
    __syncthreads();
    if (threadIdx.x == 0) {
        const uint32_t elements = uint32_t(geometry.elements_before(tile + tiles) - geometry.elements_before(tile));
        BlockRecord record{};
        record.kind = KIND_RAW;
        record.bytes = align_up(RECORD_HEADER_BYTES + elements * ELEMENT_BYTES, ALIGNMENT);
        for (uint32_t i = 0; i < BLOCK_SECTIONS; ++i) {
            record.lengths[i] = shared.lengths[i];
        }
        record.lengths[BLOCK_CHECKSUMS] =
            checksum_bytes(section_start(record.lengths, BLOCK_CHECKSUMS), record.lengths[BLOCK_WORDS]);
        const uint32_t bytes = section_start(record.lengths, BLOCK_SECTIONS);
        if (bytes < record.bytes && plan.is_raw == 0) {
            record.kind = format::KIND_BLOCKS;
            record.bytes = bytes;
        }
        records[chunk] = record;
        if (from.errors != nullptr && plan.is_raw != 0) {
            from.errors[chunk] = {};
        }
        __threadfence();
        shared.is_last = atomicAdd(places.done, 1) == batch.chunks - 1;
        __threadfence();
    }
    __syncthreads();
    if (shared.is_last != 0) {
        place_records<THREADS>(batch.chunks, records, places, shared.warp_sums);
    }
}
