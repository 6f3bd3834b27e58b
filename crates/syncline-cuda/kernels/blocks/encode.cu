// Codes the units of blocks by rANS: a warp each. The last event is coded first, so that decoders meet them in order,
// and words are written from the end of the unit's room down.
//
// THREADS  threads of a block
#include "blocks/contexts.cuh"
#include "blocks/masks.cuh"
#include "blocks/symbol.cuh"
#include "blocks/tables.cuh"
#include "device/sync.cuh"

constexpr uint32_t LOWEST = 1u << 16;

// The codes of a block, in its raster order.
struct BlockCodes {
    const BlockShape &shape;
    const int32_t *codes;

    __device__ inline uint64_t stride(uint32_t axis) const { return shape.in_block[axis]; }
    __device__ inline int32_t code(uint64_t at) const { return codes[at]; }
};

// Words that the lanes of a warp write, the last one first.
struct WordsDown {
    uint16_t *end; // one behind the word that is written next

    // Takes the low words of the lanes whose states are too large. Called by the whole warp.
    __device__ inline void take(bool is_large, uint32_t &state) {
        const uint32_t large = __ballot_sync(ALL_LANES, is_large);
        // A decoder gives words to lanes in their order.
        end -= __popc(large);
        if (is_large) {
            end[__popc(large & ((1u << lane_id()) - 1))] = uint16_t(state);
            state >>= 16;
        }
    }
};

// Codes the code of each lane that has one. Called by the whole warp.
__device__ inline void put_code(WordsDown &words, uint32_t &state, bool has_code, int32_t code,
                                const uint16_t *starts) {
    const Symbol symbol(has_code ? code : 0);
    const uint32_t count = has_code ? bits_of_symbol(symbol.symbol) : 0, early = min_of(count, EARLY_BITS);
    const uint32_t late = count - early;
    if (__any_sync(ALL_LANES, late > 0)) {
        words.take(late > 0 && state >> (32 - late) != 0, state);
        state = late > 0 ? state << late | symbol.bits >> early : state;
    }
    const uint32_t start = starts[symbol.symbol], frequency = has_code ? starts[symbol.symbol + 1] - start : 1;
    words.take(has_code && uint64_t(state) >= uint64_t(frequency) << (32 - blocks::TABLE_LOG2 - early), state);
    if (has_code) {
        const uint32_t with_bits = state << early | (symbol.bits & ((1u << early) - 1));
        state = (with_bits / frequency << blocks::TABLE_LOG2) + with_bits % frequency + start;
    }
}

// A unit of a block: the part of the classes of some levels that is in its range.
struct UnitWork {
    const BlockShape &shape;
    const BlockCodes &codes;
    const BlockMasks &masks;
    UnitRange range;
    uint32_t first_level, last_level, lanes; // from the finest level up to one before the last

    // Calls `visit(has_code, element, of, at)` for the elements of each group of lanes, the last group first. Called by
    // the whole warp.
    template <typename Visit> __device__ inline void for_each_group(Visit visit) const {
        for (uint32_t level = first_level; level < last_level; ++level) {
            for (uint32_t pass = PASSES; pass-- > 0;) {
                visit_class(BlockClass(shape, level, class_of_pass(pass)), visit);
            }
        }
    }
    template <typename Visit> __device__ inline void visit_class(const BlockClass &of, Visit visit) const {
        uint32_t start[3], extent[3];
        for (uint32_t axis = 0; axis < 3; ++axis) {
            start[axis] = min_of(range.start[axis], of.extent[axis]);
            extent[axis] = min_of(range.end[axis], of.extent[axis]) - start[axis];
        }
        const uint32_t elements = extent[0] * extent[1] * extent[2];
        if (elements == 0) {
            return;
        }
        const uint32_t runs = shape.is_sliced ? extent[0] : 1, in_run = elements / runs;
        const BoxPlaces places(extent[1], extent[2]);
        for (uint32_t run = runs; run-- > 0;) {
            for (uint32_t group = ceil_div(in_run, lanes); group-- > 0;) {
                const uint32_t i = group * lanes + lane_id();
                const bool exists = lane_id() < lanes && i < in_run;
                uint32_t in_box[3];
                places.coordinates(run * in_run + (exists ? i : 0), in_box);
                const BlockElement element(shape, of, start[0] + in_box[0], start[1] + in_box[1], start[2] + in_box[2]);
                const uint32_t at = element.in_block(shape);
                visit(exists && !masks.have(at), element, of, at);
            }
        }
    }
};

extern "C" __global__ void __launch_bounds__(THREADS)
    blocks_encode(const __grid_constant__ Geometry geometry, const __grid_constant__ ChunkBatch batch,
                  const __grid_constant__ EncodedBlocks to) {
    __shared__ EncodeTables tables;
    grid_dependency_wait();
    launch_dependents();
    const uint32_t number = blockIdx.x, chunk = number / batch.chunk_tiles;
    const uint32_t *from = reinterpret_cast<const uint32_t *>(&to.encode_tables[chunk]);
    for (uint32_t i = threadIdx.x; i < sizeof(tables) / 4; i += THREADS) {
        reinterpret_cast<uint32_t *>(&tables)[i] = from[i];
    }
    __syncthreads();
    const Tile tile = geometry.tile(batch.first_tile + number);
    const BlockPlan plan = to.plans[chunk];
    const BlockShape shape(tile, geometry, plan.slices);
    const BlockUnits units(shape, plan);
    const uint64_t position = tile.elements_before - geometry.elements_before(batch.first_tile);
    const BlockCodes codes{shape, to.codes + position};
    const BlockMasks masks(to.masks + uint64_t(number) * to.masks_stride,
                           to.bitmaps + uint64_t(number) * to.masks_stride * to.bitmap_words, plan.masks,
                           to.bitmap_words);
    for (uint32_t unit = warp_id(); unit < units.count(); unit += THREADS / WARP) {
        const bool is_box = unit > 0;
        const UnitWork work{shape,
                            codes,
                            masks,
                            is_box ? units.range(unit - 1) : BlockUnits::everything(),
                            is_box || units.division == DIVISION_ONE ? 0u : 1u,
                            is_box ? min_of(shape.levels, 1u) : shape.levels,
                            units.lanes};
        uint32_t elements = 0;
        bool any = false;
        work.for_each_group([&](bool has_code, const BlockElement &, const BlockClass &, uint32_t at) {
            elements += __popc(__ballot_sync(ALL_LANES, has_code));
            any |= has_code && codes.code(at) != 0;
        });
        any = __any_sync(ALL_LANES, any);
        BlockUnit &own = to.units[uint64_t(number) * to.units_of_block + unit];
        // Each code takes two words at most.
        const uint32_t room = align_up(any ? 2 * (elements + units.lanes) : 0, 2);
        uint32_t place = 0;
        if (lane_id() == 0) {
            place = atomicAdd(&to.words_taken[number], room);
        }
        place = warp_broadcast(place, 0);
        uint16_t *words = to.words + block_words_at(position, number, to.units_of_block) + place;
        uint32_t state = LOWEST;
        WordsDown down{words + room};
        if (any) {
            work.for_each_group([&](bool has_code, const BlockElement &element, const BlockClass &of, uint32_t at) {
                uint32_t context = 0;
                if (has_code) {
                    context = context_of(of, activity(codes, shape, of, work.range, element, at));
                }
                put_code(down, state, has_code, codes.code(at), tables.starts[tables.of_context[context]]);
            });
            down.end -= 2 * units.lanes;
            if (lane_id() < units.lanes) {
                down.end[2 * lane_id()] = uint16_t(state);
                down.end[2 * lane_id() + 1] = uint16_t(state >> 16);
            }
        }
        if (lane_id() == 0) {
            own.place = place + uint32_t(down.end - words);
            own.count = uint32_t(words + room - down.end);
        }
    }
}
