// Quantizes the blocks of a batch: a block of threads each. Predicts and quantizes level by level, counts
// symbols by context.
//
// THREADS        threads of a block
// MEASURED       1: sums up squared errors
// See also quantize/stored.cuh.
#define LOGARITHM 0
#include "blocks/count.cuh"
#include "blocks/quantize.cuh"
#include "device/block.cuh"
#include "device/sync.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 4096 / ELEMENT_BYTES / THREADS)
    blocks_quantize(const __grid_constant__ Geometry geometry, const __grid_constant__ ChunkBatch batch,
                    const Stored *slab, uint64_t first_element, const Step *quantizer,
                    const __grid_constant__ EncodedBlocks to) {
    __shared__ SymbolCounts counts;
    __shared__ uint64_t warp_sums[THREADS / WARP];
    grid_dependency_wait();
    launch_dependents();
    const uint32_t number = blockIdx.x, chunk = number / batch.chunk_tiles;
    const Step &step = *quantizer;
    const Tile tile = geometry.tile(batch.first_tile + number);
    const uint32_t elements = tile.elements();
    const BlockPlan plan = to.plans[chunk];
    const BlockShape shape(tile, geometry, plan.slices);
    const uint64_t position = tile.elements_before - geometry.elements_before(batch.first_tile);
    const Stored *first = slab + (tile.first_element - first_element);
    const CodedBlock block{shape,
                           plan,
                           step,
                           first,
                           static_cast<Element *>(to.values) + position,
                           to.codes + position,
                           to.missed + uint64_t(number) * to.bitmap_words,
                           &to.plans[chunk].is_raw};
    const Masked masked = find_masked(block, tile, geometry);
    for (uint32_t i = threadIdx.x; i < sizeof(counts) / 4; i += THREADS) {
        (&counts.of[0][0])[i] = 0;
    }
    __syncthreads();
    int32_t *anchors = to.anchors + uint64_t(number) * to.anchors_stride;
    quantize_block(block, masked, elements, anchors);
    uint32_t missed = 0, verbatim;
    for (uint32_t i = threadIdx.x; i < ceil_div(elements, 32); i += THREADS) {
        missed += __popc(block.missed[i]);
    }
    block_exclusive_sum<THREADS>(missed, reinterpret_cast<uint32_t *>(warp_sums), verbatim);
    if (threadIdx.x == 0) {
        to.verbatim[number] = verbatim;
    }
    count_symbols([&](uint32_t place) { return block.codes[place]; }, shape, BlockParts(shape, plan), counts);
    __syncthreads();
    uint32_t own_events = 0, events;
    uint32_t *all = to.counts + uint64_t(chunk) * (sizeof(counts) / 4);
    for (uint32_t i = threadIdx.x; i < sizeof(counts) / 4; i += THREADS) {
        const uint32_t count = (&counts.of[0][0])[i];
        if (count != 0) {
            atomicAdd(&all[i], count);
        }
        own_events += count;
    }
    block_exclusive_sum<THREADS>(own_events, reinterpret_cast<uint32_t *>(warp_sums), events);
    if (threadIdx.x == 0) {
        to.events[number] = events;
    }
#if MEASURED
    uint64_t squared = 0, counted = 0, all_squared, all_counted;
    const auto measure = [&](const uint32_t(&at)[3], uint32_t place) {
        const uint32_t in_block = at[0] * shape.in_block[0] + at[1] * shape.in_block[1] + at[2] * shape.in_block[2];
        if ((block.missed[in_block / 32] >> in_block % 32 & 1) == 0 && !is_mask(block.codes[place])) {
            squared += uint64_t(squared_error(step, block.wanted(at), rounded_to_stored(block.values[place])));
            ++counted;
        }
    };
    for (uint32_t of = 0; of < 8; ++of) {
        const BlockClass all(shape, 0, of);
        const CompactClass own(shape, 0, of);
        for_each_element(all, false, [&](const uint32_t(&in_class)[3], bool) {
            const uint32_t at[3] = {all.coordinate(shape, 0, in_class[0]), all.coordinate(shape, 1, in_class[1]),
                                    all.coordinate(shape, 2, in_class[2])};
            measure(at, own.place(in_class));
        });
    }
    block_exclusive_sum<THREADS, uint64_t>(squared, warp_sums, all_squared);
    block_exclusive_sum<THREADS, uint64_t>(counted, warp_sums, all_counted);
    if (threadIdx.x == 0) {
        atomicAdd(reinterpret_cast<unsigned long long *>(&to.errors[chunk].squared), all_squared);
        atomicAdd(reinterpret_cast<unsigned long long *>(&to.errors[chunk].counted), all_counted);
    }
#endif
}
