// Quantizes the blocks of a batch: a block of threads each. Finds masks, predicts and quantizes level by level, counts
// symbols by context.
//
// ELEMENT_BYTES  4: f32, 8: f64
// THREADS        threads of a block
// MEASURED       1: sums up squared errors
#define LOGARITHM 0
#include "blocks/count.cuh"
#include "blocks/quantize.cuh"
#include "device/block.cuh"
#include "device/sync.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 4096 / ELEMENT_BYTES / THREADS)
    blocks_quantize(const __grid_constant__ Geometry geometry, const __grid_constant__ ChunkBatch batch,
                    const Element *slab, uint64_t first_element, const Step *quantizer,
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
    const Element *first = slab + (tile.first_element - first_element);
    const CodedBlock block{shape,
                           plan,
                           step,
                           first,
                           static_cast<Element *>(to.values) + position,
                           to.codes + position,
                           to.missed + uint64_t(number) * to.bitmap_words};
    BlockMask *own_masks = to.masks + uint64_t(number) * to.masks_stride;
    uint32_t *bitmaps = to.bitmaps + uint64_t(number) * to.masks_stride * to.bitmap_words;
    find_masks(block, tile, geometry, plan.masks, own_masks, bitmaps, to.bitmap_words);
    for (uint32_t i = threadIdx.x; i < sizeof(counts) / 4; i += THREADS) {
        (&counts.of[0][0])[i] = 0;
    }
    __syncthreads();
    int32_t *anchors = to.anchors + uint64_t(number) * to.anchors_stride;
    const BlockMasks masks(own_masks, bitmaps, plan.masks, to.bitmap_words);
    quantize_block(block, masks, elements, anchors);
    uint32_t missed = 0, verbatim;
    for (uint32_t i = threadIdx.x; i < ceil_div(elements, 32); i += THREADS) {
        missed += __popc(block.missed[i]);
    }
    block_exclusive_sum<THREADS>(missed, reinterpret_cast<uint32_t *>(warp_sums), verbatim);
    if (threadIdx.x == 0) {
        to.verbatim[number] = verbatim;
    }
    count_symbols(block, shape, BlockUnits(shape, plan), masks, counts);
    __syncthreads();
    uint32_t *all = to.counts + uint64_t(chunk) * (sizeof(counts) / 4);
    for (uint32_t i = threadIdx.x; i < sizeof(counts) / 4; i += THREADS) {
        const uint32_t count = (&counts.of[0][0])[i];
        if (count != 0) {
            atomicAdd(&all[i], count);
        }
    }
#if MEASURED
    const BoxPlaces places(tile.ny, tile.nx);
    uint64_t squared = 0, counted = 0, all_squared, all_counted;
    for (uint32_t i = threadIdx.x; i < elements; i += THREADS) {
        if ((block.missed[i / 32] >> i % 32 & 1) == 0 && !masks.have(i)) {
            uint32_t at[3];
            places.coordinates(i, at);
            const Element x = first[at[0] * geometry.strides[1] + at[1] * geometry.strides[2] + at[2]];
            squared += uint64_t(squared_error(step, x, block.values[i]));
            ++counted;
        }
    }
    block_exclusive_sum<THREADS, uint64_t>(squared, warp_sums, all_squared);
    block_exclusive_sum<THREADS, uint64_t>(counted, warp_sums, all_counted);
    if (threadIdx.x == 0) {
        atomicAdd(reinterpret_cast<unsigned long long *>(&to.errors[chunk].squared), all_squared);
        atomicAdd(reinterpret_cast<unsigned long long *>(&to.errors[chunk].counted), all_counted);
    }
#endif
}
