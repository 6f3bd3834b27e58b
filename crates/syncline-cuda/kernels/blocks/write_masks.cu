// Codes the bitmaps of masks: a block of threads for each block of elements, of which one thread works, because each
// probability depends on the bits before.
//
// ELEMENT_BYTES  4 or 8
#include "blocks/bitmap.cuh"
#include "blocks/blocks.cuh"
#include "blocks/masks.cuh"
#include "device/sync.cuh"

// The events of a bitmap in order: the frequency of a set bit, and above it the bit.
struct EventList {
    uint16_t *events;
    uint32_t count;

    // Appends an event.
    __device__ inline bool next(Model &model, bool bit) {
        const uint32_t frequency = model.frequency();
        events[count++] = uint16_t(frequency | (bit ? 1u << CODED_LOG2 : 0));
        model.learn(bit);
        return bit;
    }
};

// Lists the events of a bitmap.
__device__ inline void list_events(const Tile &tile, const uint32_t *bits, uint32_t *mixed, Models &models,
                                   EventList &list) {
    const Bitmap known{const_cast<uint32_t *>(bits)}, is_mixed{mixed};
    for_each_segment(tile, [&](const Segment &segment) {
        uint32_t set = 0;
        for (uint32_t at = segment.from; at < segment.to; ++at) {
            set += known.get(at);
        }
        const uint32_t context = segment.context(known, is_mixed), count = segment.to - segment.from;
        if (list.next(models.of_mixed[context], set > 0 && set < count)) {
            is_mixed.set(segment.from);
            for (uint32_t at = segment.from; at < segment.to; ++at) {
                list.next(models.of_bits[segment.context_of(known, at)], known.get(at));
            }
        } else {
            list.next(models.of_set[context], set > 0);
        }
    });
}

// Codes the events of a list from the last one on, to words that end at `end`. Returns where they begin.
__device__ inline uint16_t *put_events(const EventList &list, uint16_t *end) {
    uint32_t state = LOWEST_OF_BITS;
    for (uint32_t i = list.count; i-- > 0;) {
        const uint32_t event = list.events[i], of_set = event & ((1u << CODED_LOG2) - 1);
        const bool bit = event >> CODED_LOG2 != 0;
        const uint32_t frequency = bit ? of_set : (1u << CODED_LOG2) - of_set, start = bit ? 0 : of_set;
        if (uint64_t(state) >= uint64_t(frequency) << (32 - CODED_LOG2)) {
            *--end = uint16_t(state);
            state >>= 16;
        }
        state = (state / frequency << CODED_LOG2) + state % frequency + start;
    }
    *--end = uint16_t(state >> 16);
    *--end = uint16_t(state);
    return end;
}

// The values and the codes of the block are overwritten: they are coded already. So bitmaps have 4 bytes for each
// element; a block whose bitmaps take more makes its chunk raw.
extern "C" __global__ void __launch_bounds__(32)
    blocks_write_masks(const __grid_constant__ Geometry geometry, const __grid_constant__ ChunkBatch batch,
                       const __grid_constant__ EncodedBlocks to) {
    __shared__ Models models;
    grid_dependency_wait();
    launch_dependents();
    const uint32_t number = blockIdx.x, masks = to.plans[number / batch.chunk_tiles].masks;
    const Tile tile = geometry.tile(batch.first_tile + number);
    const uint64_t position = tile.elements_before - geometry.elements_before(batch.first_tile);
    const uint32_t elements = tile.elements();
    uint16_t *events = reinterpret_cast<uint16_t *>(static_cast<uint8_t *>(to.values) + position * ELEMENT_BYTES);
    uint16_t *words = reinterpret_cast<uint16_t *>(to.codes + position), *end = words + 2 * elements;
    uint32_t *mixed = to.mixed + uint64_t(number) * to.bitmap_words;
    for (uint32_t mask = 0; mask < masks; ++mask) {
        BlockMask &own = to.masks[uint64_t(number) * to.masks_stride + mask];
        if (own.kind != MASK_BITMAP) {
            continue;
        }
        for (uint32_t i = lane_id(); i < to.bitmap_words; i += WARP) {
            mixed[i] = 0;
        }
        models.clear();
        __syncwarp();
        if (lane_id() == 0) {
            const uint32_t *bits = to.bitmaps + (uint64_t(number) * to.masks_stride + mask) * to.bitmap_words;
            EventList list{events, 0};
            list_events(tile, bits, mixed, models, list);
            // Every event takes at most a word.
            if (end - words < list.count + 2) {
                own.kind = MASK_TOO_LONG;
            } else {
                uint16_t *const begin = put_events(list, end);
                own.offset = begin - words;
                own.words = uint32_t(end - begin);
                end = begin;
            }
        }
        __syncwarp();
        end = words + __shfl_sync(ALL_LANES, uint32_t(end - words), 0);
    }
}
