// Quantizes the blocks of a batch: predicts and quantizes level by level, and counts symbols by context. Several blocks
// of threads share a block of elements, but for its coarse levels.
//
// THREADS        threads of a block
// SHARES         blocks of threads for each block of elements
// MEASURED       1: sums up squared errors
// See also quantize/stored.cuh.
#define LOGARITHM 0
#include "blocks/count.cuh"
#include "blocks/quantize.cuh"
#include "device/block.cuh"
#include "device/sync.cuh"

// What the launches work on.
struct Batch {
    const Geometry &geometry;
    const ChunkBatch &batch;
    const Stored *slab;
    uint64_t first_element;
    const Step &step;
    const EncodedBlocks &to;
};

// A block of elements that blocks of threads work on.
struct OwnBlock {
    const uint32_t number, chunk;
    const Tile tile;
    const BlockPlan plan;
    const BlockShape shape;
    const uint64_t position;
    const CodedBlock coded;

    __device__ inline OwnBlock(const Batch &all, uint32_t number)
        : number(number), chunk(number / all.batch.chunk_tiles), tile(all.geometry.tile(all.batch.first_tile + number)),
          plan(all.to.plans[chunk]), shape(tile, all.geometry, plan.slices),
          position(tile.elements_before - all.geometry.elements_before(all.batch.first_tile)),
          coded{shape,
                plan,
                all.step,
                all.slab + (tile.first_element - all.first_element),
                static_cast<Element *>(all.to.values) + position,
                all.to.codes + position,
                all.to.missed + uint64_t(number) * all.to.bitmap_words,
                &all.to.plans[chunk].is_raw} {}

    __device__ inline Masked masked(const Batch &all) const { return {all.step, all.to.zeros[number] > FEW_ZEROS}; }
};

// Clears the bits of elements that must be verbatim, and counts zeros.
extern "C" __global__ void __launch_bounds__(THREADS)
    blocks_count_zeros(const __grid_constant__ Geometry geometry, const __grid_constant__ ChunkBatch batch,
                       const Stored *slab, uint64_t first_element, const Step *quantizer,
                       const __grid_constant__ EncodedBlocks to) {
    grid_dependency_wait();
    launch_dependents();
    const Batch all{geometry, batch, slab, first_element, *quantizer, to};
    const OwnBlock own(all, blockIdx.x / SHARES);
    clear_missed(own.coded, own.tile.elements(), WorkShare::own(SHARES));
    if (masks_zeros(own.coded)) {
        count_zeros(own.coded, own.tile, geometry, WorkShare::own(SHARES), to.zeros[own.number]);
    }
}

// Quantizes the anchors and all levels but the finest. A block of threads has a block of elements.
extern "C" __global__ void __launch_bounds__(THREADS, 4096 / ELEMENT_BYTES / THREADS)
    blocks_quantize_coarse(const __grid_constant__ Geometry geometry, const __grid_constant__ ChunkBatch batch,
                           const Stored *slab, uint64_t first_element, const Step *quantizer,
                           const __grid_constant__ EncodedBlocks to) {
    grid_dependency_wait();
    launch_dependents();
    const Batch all{geometry, batch, slab, first_element, *quantizer, to};
    const OwnBlock own(all, blockIdx.x);
    quantize_levels(own.coded, own.masked(all), 1, to.anchors + uint64_t(own.number) * to.anchors_stride);
}

// Quantizes a group of the finest level, after the coarse levels and the groups before.
extern "C" __global__ void __launch_bounds__(THREADS, 4096 / ELEMENT_BYTES / THREADS)
    blocks_quantize_finest(const __grid_constant__ Geometry geometry, const __grid_constant__ ChunkBatch batch,
                           const Stored *slab, uint64_t first_element, const Step *quantizer, uint32_t group,
                           const __grid_constant__ EncodedBlocks to) {
    grid_dependency_wait();
    launch_dependents();
    const Batch all{geometry, batch, slab, first_element, *quantizer, to};
    const OwnBlock own(all, blockIdx.x / SHARES);
    if (own.shape.levels > 0) {
        quantize_group(own.coded, own.masked(all), 0, group, InterpolationStep(all.step), WorkShare::own(SHARES));
    }
}

#if MEASURED
// Adds up the squared errors of a share of the elements that are neither masked nor verbatim.
__device__ inline void measure(const Batch &all, const OwnBlock &own, uint64_t *warp_sums) {
    const CodedBlock &block = own.coded;
    uint64_t squared = 0, counted = 0, all_squared, all_counted;
    const auto add = [&](const uint32_t(&at)[3], uint32_t place) {
        const BlockShape &shape = own.shape;
        const uint32_t in_block = at[0] * shape.in_block[0] + at[1] * shape.in_block[1] + at[2] * shape.in_block[2];
        if ((block.missed[in_block / 32] >> in_block % 32 & 1) == 0 && !is_mask(block.codes[place])) {
            squared += uint64_t(squared_error(all.step, block.wanted(at), rounded_to_stored(block.values[place])));
            ++counted;
        }
    };
    for (uint32_t of = 0; of < 8; ++of) {
        const BlockClass of_level(own.shape, 0, of);
        const CompactClass places(own.shape, 0, of);
        for_each_element(of_level, false, WorkShare::own(SHARES), [&](const uint32_t(&in_class)[3], bool) {
            const uint32_t at[3] = {of_level.coordinate(own.shape, 0, in_class[0]),
                                    of_level.coordinate(own.shape, 1, in_class[1]),
                                    of_level.coordinate(own.shape, 2, in_class[2])};
            add(at, places.place(in_class));
        });
    }
    block_exclusive_sum<THREADS, uint64_t>(squared, warp_sums, all_squared);
    block_exclusive_sum<THREADS, uint64_t>(counted, warp_sums, all_counted);
    if (threadIdx.x == 0) {
        atomicAdd(reinterpret_cast<unsigned long long *>(&all.to.errors[own.chunk].squared), all_squared);
        atomicAdd(reinterpret_cast<unsigned long long *>(&all.to.errors[own.chunk].counted), all_counted);
    }
}
#endif

// Counts the symbols of codes, their events, and verbatim values.
extern "C" __global__ void __launch_bounds__(THREADS, 4096 / ELEMENT_BYTES / THREADS)
    blocks_count(const __grid_constant__ Geometry geometry, const __grid_constant__ ChunkBatch batch,
                 const Stored *slab, uint64_t first_element, const Step *quantizer,
                 const __grid_constant__ EncodedBlocks to) {
    __shared__ SymbolCounts counts;
    __shared__ uint64_t warp_sums[THREADS / WARP];
    for (uint32_t i = threadIdx.x; i < sizeof(counts) / 4; i += THREADS) {
        (&counts.of[0][0])[i] = 0;
    }
    grid_dependency_wait();
    launch_dependents();
    const Batch all{geometry, batch, slab, first_element, *quantizer, to};
    const OwnBlock own(all, blockIdx.x / SHARES);
    const WorkShare share = WorkShare::own(SHARES);
    uint32_t own_missed = 0, missed;
    for (uint32_t i = share.thread(); i < ceil_div(own.tile.elements(), 32); i += share.threads()) {
        own_missed += __popc(own.coded.missed[i]);
    }
    block_exclusive_sum<THREADS>(own_missed, reinterpret_cast<uint32_t *>(warp_sums), missed);
    __syncthreads();
    count_symbols([&](uint32_t place) { return own.coded.codes[place]; }, own.shape, BlockParts(own.shape, own.plan),
                  share, counts);
    __syncthreads();
    uint32_t own_events = 0, events;
    uint32_t *of_chunk = to.counts + uint64_t(own.chunk) * (sizeof(counts) / 4);
    for (uint32_t i = threadIdx.x; i < sizeof(counts) / 4; i += THREADS) {
        const uint32_t count = (&counts.of[0][0])[i];
        if (count != 0) {
            atomicAdd(&of_chunk[i], count);
        }
        own_events += count;
    }
    block_exclusive_sum<THREADS>(own_events, reinterpret_cast<uint32_t *>(warp_sums), events);
    if (threadIdx.x == 0 && missed > 0) {
        atomicAdd(&to.verbatim[own.number], missed);
    }
    if (threadIdx.x == 0 && events > 0) {
        atomicAdd(&to.events[own.number], events);
    }
#if MEASURED
    measure(all, own, warp_sums);
#endif
}
