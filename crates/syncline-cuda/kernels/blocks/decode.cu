// Decodes blocks: a block of threads each. First come the codes of all levels, which stand where their elements will
// be, so that the codes around an element are near; each warp decodes a stream. Then the values replace the codes,
// level by level, from the anchors up. At the end come the range, masks, and verbatim values.
//
// ELEMENT_BYTES  4: f32, 8: f64
// THREADS        threads of a block
#define LOGARITHM 0
#include "blocks/contexts.cuh"
#include "blocks/masks.cuh"
#include "blocks/predict.cuh"
#include "blocks/rans.cuh"
#include "container/parsed.cuh"
#include "decode/values.cuh"
#include "device/sync.cuh"

// A block in memory.
struct BlockWork {
    const BlockShape &shape;
    const BlockPlan &plan;
    const Values &values;
    Bits *elements; // the block's first element
    const BlockMasks &masks;

    __device__ inline uint64_t place(const BlockElement &element) const { return element.in_array(shape); }
    __device__ inline uint64_t stride(uint32_t axis) const { return shape.stride[axis]; }
    // The code of an element stands in the bytes of its value.
    __device__ inline int32_t &code(uint64_t at) const { return *reinterpret_cast<int32_t *>(elements + at); }
    __device__ inline Element value(uint64_t at) const { return reinterpret_cast<const Element *>(elements)[at]; }
    __device__ inline void set_value(uint64_t at, Element value) const {
        reinterpret_cast<Element *>(elements)[at] = value;
    }
};

// A unit of a block, which a warp decodes.
struct Unit {
    Words words;
    UnitRange range;
    uint32_t state, lanes;
    bool is_good, is_empty; // all codes of an empty unit are 0

    // `starts` has the first word of the unit and that of the next one.
    __device__ inline Unit(const uint8_t *input, const BlockPlan &plan, const BlockUnits &units, const uint32_t *starts,
                           const UnitRange &range)
        : words{reinterpret_cast<const uint16_t *>(input + plan.words) + starts[0], starts[1] - starts[0], 0},
          range(range), state(LOWEST), lanes(units.lanes), is_empty(starts[0] == starts[1]) {
        if (!is_empty && lane_id() < lanes) {
            state = words[2 * lane_id()] | words[2 * lane_id() + 1] << 16;
        }
        words.at = is_empty ? 0 : 2 * lanes;
        is_good = __all_sync(ALL_LANES, state >= LOWEST);
        // Codes are not left as they are in memory, because other units look at them.
        is_empty |= !is_good;
    }
    __device__ inline bool is_finished() const {
        return is_good && __all_sync(ALL_LANES, state == LOWEST && words.at == words.count);
    }
};

// Decodes the codes of a class that are in a unit. Called by the whole warp.
__device__ inline void decode_class(const BlockWork &work, const BlockClass &of, Unit &unit, const SlotTable *tables,
                                    const uint8_t *table_of) {
    uint32_t start[3], extent[3];
    for (uint32_t axis = 0; axis < 3; ++axis) {
        start[axis] = min_of(unit.range.start[axis], of.extent[axis]);
        extent[axis] = min_of(unit.range.end[axis], of.extent[axis]) - start[axis];
    }
    const uint32_t elements = extent[0] * extent[1] * extent[2];
    if (elements == 0) {
        return;
    }
    // With slices, contexts of a plane depend on the codes of the plane before.
    const uint32_t runs = work.shape.is_sliced ? extent[0] : 1, in_run = elements / runs, lanes = unit.lanes;
    const BoxPlaces places(extent[1], extent[2]);
    for (uint32_t run = 0; run < runs; ++run) {
        for (uint32_t group = 0; group < in_run; group += lanes) {
            const uint32_t i = group + lane_id();
            const bool exists = lane_id() < lanes && i < in_run;
            uint32_t in_box[3];
            places.coordinates(run * in_run + (exists ? i : 0), in_box);
            const BlockElement element(work.shape, of, start[0] + in_box[0], start[1] + in_box[1],
                                       start[2] + in_box[2]);
            const uint64_t at = element.in_array(work.shape);
            const bool has_code = exists && !unit.is_empty && !work.masks.have(element.in_block(work.shape));
            uint32_t context = 0;
            if (has_code) {
                context = context_of(of, activity(work, work.shape, of, unit.range, element, at));
            }
            int32_t code = 0;
            if (!unit.is_empty) {
                code = next_code(unit.words, unit.state, has_code, tables[table_of[context]]);
            }
            if (exists) {
                work.code(at) = has_code ? code : 0;
            }
        }
        // The codes are visible to the lanes that look at them next.
        __syncwarp();
    }
}

// Decodes the codes of a unit from level `first` down to level `last`. Returns whether it is valid. Called by the whole
// warp.
__device__ inline bool decode_unit(const BlockWork &work, uint32_t first, uint32_t last, Unit unit,
                                   const SlotTable *tables, const uint8_t *table_of) {
    for (uint32_t level = first + 1; level-- > last;) {
        for (uint32_t pass = 0; pass < PASSES; ++pass) {
            decode_class(work, BlockClass(work.shape, level, class_of_pass(pass)), unit, tables, table_of);
        }
    }
    return unit.is_finished();
}

// Decodes the codes of a block to where its elements will be. Returns on each warp whether its units are valid. Called
// by the whole block.
__device__ inline bool decode_codes(const uint8_t *input, const BlockWork &work, const uint32_t *starts,
                                    const SlotTable *tables, const uint8_t *table_of) {
    for (uint32_t i = threadIdx.x; i < work.shape.anchors(); i += THREADS) {
        work.code(i * work.shape.stride[0]) = 0;
    }
    __syncthreads();
    const BlockUnits units(work.shape, work.plan);
    const bool is_divided = units.division != DIVISION_ONE;
    bool is_good = true;
    if (warp_id() == 0) {
        const Unit coarse(input, work.plan, units, starts, BlockUnits::everything());
        // There may be no level.
        is_good = decode_unit(work, work.shape.levels - 1, is_divided ? 1 : 0, coarse, tables, table_of);
    }
    __syncthreads();
    for (uint32_t box = warp_id(); is_divided && box < units.boxes; box += THREADS / WARP) {
        const Unit own(input, work.plan, units, starts + 1 + box, units.range(box));
        const uint32_t levels = min_of(work.shape.levels, 1u);
        is_good &= decode_unit(work, levels - 1, 0, own, tables, table_of);
    }
    __syncthreads();
    return is_good;
}

// Replaces the codes of a class by values.
__device__ inline void reconstruct(const BlockWork &work, const BlockClass &of, Element inverse) {
    const bool is_cubic = work.plan.is_cubic != 0, is_on_grid = work.plan.is_on_grid != 0;
    const bool follows = work.plan.share != 0;
    const Element share = share_of(work.plan.share);
    Element before = Element(0);
    for_each_element(work, work.shape, of, follows, [&](const BlockElement &element, uint64_t at, bool is_first) {
        const Element plain = predicted(work, work.shape, is_cubic, of, element, at);
        const Element prediction = follows ? product_plus(share, is_first ? Element(0) : before, plain) : plain;
        const int32_t code = work.code(at);
        const Element value =
            is_on_grid ? value_of(int32_t(uint32_t(on_grid(prediction, inverse)) + uint32_t(code)), work.values)
                       : corrected(prediction, code, work.values);
        before = value - plain;
        work.set_value(at, value);
    });
}

// Replaces the codes of a block by values. Called by the whole block.
__device__ inline void decode_values(const BlockWork &work, const int32_t *anchors) {
    for (uint32_t i = threadIdx.x; i < work.shape.anchors(); i += THREADS) {
        work.set_value(i * work.shape.stride[0], value_of(anchors[i], work.values));
    }
#if ELEMENT_BYTES == 4
    const Element inverse = Element(1.0 / double(work.values.step_high));
#else
    const Element inverse = 1.0 / work.values.step;
#endif
    for (uint32_t level = work.shape.levels; level-- > 0;) {
        for (uint32_t pass = 0; pass < PASSES; ++pass) {
            if (begins_group(pass)) {
                __syncthreads();
            }
            const BlockClass of(work.shape, level, class_of_pass(pass));
            if (of.elements() > 0) {
                reconstruct(work, of, inverse);
            }
        }
    }
    __syncthreads();
}

// Where the elements of a block are in the array, relative to its first.
struct RasterPlaces {
    const SmallDivider plane, row;
    const uint64_t plane_stride, row_stride;

    __device__ inline RasterPlaces(const Tile &tile, const Geometry &geometry)
        : plane(tile.ny * tile.nx), row(tile.nx), plane_stride(geometry.strides[1]), row_stride(geometry.strides[2]) {}
    __device__ inline uint64_t operator()(uint32_t i) const {
        const uint32_t z = plane.quotient(i), in_plane = i - z * plane.by, y = row.quotient(in_plane);
        return z * plane_stride + y * row_stride + (in_plane - y * row.by);
    }
};

// Limits the elements of a block to the range, and gives masked ones their patterns. Called by the whole block.
__device__ inline void finish(const BlockWork &work, const ParsedBlocks &blocks, uint32_t elements,
                              const RasterPlaces &places) {
    if (work.values.has_range == 0 && !work.masks.any) {
        return;
    }
    for (uint32_t i = threadIdx.x; i < elements; i += THREADS) {
        const uint64_t at = places(i);
        Bits bits = to_bits(limited(work.value(at), work.values));
        for (uint32_t mask = 0; mask < work.masks.count && work.masks.any; ++mask) {
            bits = work.masks.has(mask, i) ? Bits(blocks.patterns[mask]) : bits;
        }
        work.elements[at] = bits;
    }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS)
    blocks_decode(const uint8_t *input, const __grid_constant__ Geometry geometry,
                  const __grid_constant__ Parsed parsed, const __grid_constant__ ParsedBlocks blocks,
                  const __grid_constant__ Values values, const __grid_constant__ Request request, Bits *output) {
    extern __shared__ __align__(16) uint8_t shared[];
    SlotTable *tables = reinterpret_cast<SlotTable *>(shared);
    __shared__ uint8_t table_of[blocks::CONTEXTS];
    launch_dependents_and_wait();
    const uint32_t number = blockIdx.x, chunk = number / parsed.tiles;
    const uint64_t in_array = request.first_tile + number;
    if (in_array < request.tiles_start || in_array >= request.tiles_end || !chunk_is_valid(parsed, chunk)) {
        return;
    }
    const Tile tile = geometry.tile(in_array);
    const uint32_t elements = tile.elements();
    const uint64_t chunk_start = geometry.elements_before(request.first_tile + uint64_t(chunk) * parsed.tiles);
    const uint32_t position = uint32_t(tile.elements_before - chunk_start);
    const RasterPlaces places(tile, geometry);
    Bits *to = output + (tile.first_element - request.first_element);
    const ParsedChunk &record = parsed.chunks[chunk];
    if (record.kind == KIND_RAW) {
        const Bits *from = reinterpret_cast<const Bits *>(input + record.raw) + position;
        for (uint32_t i = threadIdx.x; i < elements; i += THREADS) {
            to[places(i)] = from[i];
        }
        return;
    }
    const BlockPlan plan = blocks.plans[chunk];
    const BlockShape shape(tile, geometry, plan.slices);
    const uint64_t first_mask = uint64_t(number) * blocks.masks_of_block;
    const BlockMasks masks(blocks.masks + first_mask, blocks.bitmaps + first_mask * 2 * blocks.bitmap_words,
                           blocks.masks_of_block, 2 * blocks.bitmap_words);
    const uint32_t *from = reinterpret_cast<const uint32_t *>(blocks.tables[chunk].slots);
    for (uint32_t i = threadIdx.x; i < plan.tables * (sizeof(SlotTable) / 4); i += THREADS) {
        reinterpret_cast<uint32_t *>(shared)[i] = from[i];
    }
    for (uint32_t i = threadIdx.x; i < blocks::CONTEXTS; i += THREADS) {
        table_of[i] = blocks.tables[chunk].of_context[i];
    }
    __syncthreads();
    const BlockWork work{shape, plan, values, to, masks};
    const uint32_t *starts = blocks.starts + uint64_t(chunk) * blocks.starts_stride + blocks.first_units[number];
    if (!decode_codes(input, work, starts, tables, table_of) && lane_id() == 0) {
        atomicOr(&parsed.problems[chunk * PROBLEM_WORDS + DECODE_PROBLEM], PROBLEM_BLOCK);
    }
    decode_values(work, blocks.anchors + uint64_t(number) * blocks.anchors_stride);
    finish(work, blocks, elements, places);
    const uint32_t *positions = reinterpret_cast<const uint32_t *>(input + record.verbatim_positions);
    const Bits *list = reinterpret_cast<const Bits *>(input + record.verbatim_values);
    const uint32_t first = record.verbatim > 0 ? parsed.places[number].verbatim : 0;
    for (uint32_t i = first + threadIdx.x; i < record.verbatim; i += THREADS) {
        const uint32_t place = positions[i] - position;
        if (place >= elements) {
            break;
        }
        to[places(place)] = list[i];
    }
}
