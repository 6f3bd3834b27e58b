// Decodes blocks: a block of threads each. First come the codes of all levels, which stand where their elements will
// be, so that the codes around an element are near: a unit is decoded by a team of threads, or by a warp if there are
// several. Another kernel replaces the codes by the values, level by level, from the anchors up. At the end come the
// range, masks, and verbatim values.
//
// ELEMENT_BYTES  4: f32, 8: f64
// THREADS        threads of a block
#define LOGARITHM 0
#include "blocks/contexts.cuh"
#include "blocks/masks.cuh"
#include "blocks/predict.cuh"
#include "blocks/rans.cuh"
#include "blocks/window.cuh"
#include "container/parsed.cuh"
#include "decode/values.cuh"
#include "device/sync.cuh"

// A block in memory.
struct BlockWork {
    const BlockShape &shape;
    const BlockPlan &plan;
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

// The tables of the block's chunk, in shared memory.
struct DecodeTables {
    const SlotTable *tables;
    const uint8_t *of_context;
    const uint16_t *of_zeros; // the frequency of symbol 0 by table
};

// The word of a window for an element: the number of its table, and that table's frequency of symbol 0.
struct WindowWord {
    __device__ inline static uint32_t of(uint32_t table, uint32_t of_zero) { return of_zero << 8 | table; }
    // An element without a code leaves the state as it is.
    __device__ inline static uint32_t without_table() { return of(NO_TABLE, TOTAL); }
    __device__ inline static uint32_t table(uint32_t word) { return word & 255; }
    __device__ inline static uint32_t of_zero(uint32_t word) { return word >> 8; }
};

// A unit of a block. Each warp of a team has it; the first one decodes.
struct Unit {
    Words words;
    UnitRange range;
    uint32_t state, lanes;
    bool is_good, is_empty; // all codes of an empty unit are 0

    // `starts` has the first word of the unit and that of the next one.
    __device__ inline Unit(const uint8_t *input, const BlockPlan &plan, const BlockUnits &units, const uint32_t *starts,
                           const UnitRange &range)
        : words(reinterpret_cast<const uint16_t *>(input + plan.words) + starts[0], starts[1] - starts[0],
                starts[0] == starts[1] ? 0 : 2 * units.lanes),
          range(range), state(LOWEST), lanes(units.lanes), is_empty(starts[0] == starts[1]) {
        if (!is_empty && lane_id() < lanes) {
            state = words.word(2 * lane_id()) | words.word(2 * lane_id() + 1) << 16;
        }
        is_good = __all_sync(ALL_LANES, state >= LOWEST);
        // Codes are not left as they are in memory, because other units look at them.
        is_empty |= !is_good;
    }
    __device__ inline bool is_finished() const {
        return is_good && __all_sync(ALL_LANES, state == LOWEST && words.at == words.count);
    }

    // Replaces the words of a window by the codes. Called by a whole warp.
    __device__ inline void decode(const DecodeTables &tables, uint32_t *window, uint32_t count) {
        uint32_t own[AHEAD], next[AHEAD];
        // Behind the window, there are no codes.
        const auto word = [&](uint32_t at) {
            return lane_id() < lanes && at < count ? window[at] : WindowWord::without_table();
        };
        const auto load = [&](uint32_t at) {
#pragma unroll
            for (uint32_t i = 0; i < AHEAD; ++i) {
                next[i] = word(at + i * lanes);
            }
        };
        load(lane_id());
        for (uint32_t at = lane_id(); at - lane_id() < count; at += AHEAD * lanes) {
#pragma unroll
            for (uint32_t i = 0; i < AHEAD; ++i) {
                own[i] = next[i];
            }
            // No state waits for these.
            load(at + AHEAD * lanes);
            uint32_t ahead = state;
            bool is_quiet = true;
#pragma unroll
            for (uint32_t i = 0; i < AHEAD; ++i) {
                const uint32_t frequency = WindowWord::of_zero(own[i]), slot = ahead % TOTAL;
                ahead = frequency * (ahead / TOTAL) + slot;
                is_quiet &= slot < frequency && ahead >= LOWEST;
            }
            is_quiet = __all_sync(ALL_LANES, is_quiet);
            state = is_quiet ? ahead : state;
            for (uint32_t i = 0; i < AHEAD; ++i) {
                const uint32_t place = at + i * lanes;
                int32_t code = 0;
                if (!is_quiet) {
                    const uint32_t table = WindowWord::table(word(place));
                    const bool has_code = table != NO_TABLE;
                    code = next_code(words, state, has_code, tables.tables[has_code ? table : 0]);
                }
                if (lane_id() < lanes && place < count) {
                    window[place] = uint32_t(code);
                }
            }
        }
    }
};

// Decodes the codes of a class that are in a unit. Called by the whole team.
template <uint32_t SIZE>
__device__ inline void decode_class(const BlockWork &work, const BlockClass &of, Unit &unit, const DecodeTables &tables,
                                    uint32_t *window) {
    using Own = Team<SIZE>;
    const UnitClass part(of, unit.range);
    if (part.elements() == 0) {
        return;
    }
    const UnitElements elements(work.shape, of, part);
    for (uint32_t begin = 0; begin < part.elements(); begin += Own::WINDOW) {
        const uint32_t count = min_of(Own::WINDOW, part.elements() - begin);
        for (uint32_t i = Own::rank(); i < count && !unit.is_empty; i += SIZE) {
            const BlockElement element = elements[begin + i];
            window[i] = WindowWord::without_table();
            if (!work.masks.have(element.in_block(work.shape))) {
                const uint64_t at = element.in_array(work.shape);
                const uint32_t context = context_of(of, activity(work, work.shape, of, unit.range, element, at));
                const uint32_t table = tables.of_context[context];
                window[i] = WindowWord::of(table, tables.of_zeros[table]);
            }
        }
        Own::sync();
        if (Own::is_first_warp() && !unit.is_empty) {
            unit.decode(tables, window, count);
        }
        Own::sync();
        for (uint32_t i = Own::rank(); i < count; i += SIZE) {
            work.code(elements[begin + i].in_array(work.shape)) = unit.is_empty ? 0 : int32_t(window[i]);
        }
    }
    // The codes are visible to the threads that look at them next.
    Own::sync();
}

// Decodes the codes of a unit from level `first` down to level `last`. Returns whether it is valid. Called by the whole
// team.
template <uint32_t SIZE>
__device__ inline bool decode_unit(const BlockWork &work, uint32_t first, uint32_t last, Unit unit,
                                   const DecodeTables &tables, uint32_t *window) {
    for (uint32_t level = first + 1; level-- > last;) {
        for (uint32_t pass = 0; pass < PASSES; ++pass) {
            decode_class<SIZE>(work, BlockClass(work.shape, level, class_of_pass(pass)), unit, tables, window);
        }
    }
    return !Team<SIZE>::is_first_warp() || unit.is_finished();
}

// Decodes the codes of a block to where its elements will be. Returns on each warp whether its units are valid. Called
// by the whole block.
__device__ inline bool decode_codes(const uint8_t *input, const BlockWork &work, const uint32_t *starts,
                                    const DecodeTables &tables, uint32_t *window) {
    for (uint32_t i = threadIdx.x; i < work.shape.anchors(); i += THREADS) {
        work.code(i * work.shape.stride[0]) = 0;
    }
    __syncthreads();
    const BlockUnits units(work.shape, work.plan);
    const bool is_divided = units.division != DIVISION_ONE;
    const uint32_t levels = min_of(work.shape.levels, 1u);
    const Unit coarse(input, work.plan, units, starts, BlockUnits::everything());
    // There may be no level.
    bool is_good = decode_unit<THREADS>(work, work.shape.levels - 1, is_divided ? 1 : 0, coarse, tables, window);
    __syncthreads();
    if (is_divided && units.boxes == 1) {
        const Unit fine(input, work.plan, units, starts + 1, units.range(0));
        is_good &= decode_unit<THREADS>(work, levels - 1, 0, fine, tables, window);
    }
    for (uint32_t box = warp_id(); is_divided && units.boxes > 1 && box < units.boxes; box += THREADS / WARP) {
        const Unit own(input, work.plan, units, starts + 1 + box, units.range(box));
        uint32_t *const part = window + warp_id() * Team<WARP>::WINDOW;
        is_good &= decode_unit<WARP>(work, levels - 1, 0, own, tables, part);
    }
    __syncthreads();
    return is_good;
}

// Replaces the codes of a class by values.
__device__ inline void reconstruct(const BlockWork &work, const Values &values, const BlockClass &of, Element inverse) {
    const bool is_cubic = work.plan.is_cubic != 0, is_on_grid = work.plan.is_on_grid != 0;
    const bool follows = work.plan.share != 0;
    const Element share = share_of(work.plan.share);
    Element before = Element(0);
    for_each_element(work, work.shape, of, follows, [&](const BlockElement &element, uint64_t at, bool is_first) {
        const Element plain = predicted(work, work.shape, is_cubic, of, element, at);
        const Element prediction = follows ? product_plus(share, is_first ? Element(0) : before, plain) : plain;
        const int32_t code = work.code(at);
        const Element value = is_on_grid
                                  ? value_of(int32_t(uint32_t(on_grid(prediction, inverse)) + uint32_t(code)), values)
                                  : corrected(prediction, code, values);
        before = value - plain;
        work.set_value(at, value);
    });
}

// Replaces the codes of a block by values. Called by the whole block.
__device__ inline void decode_values(const BlockWork &work, const Values &values, const int32_t *anchors) {
    for (uint32_t i = threadIdx.x; i < work.shape.anchors(); i += THREADS) {
        work.set_value(i * work.shape.stride[0], value_of(anchors[i], values));
    }
#if ELEMENT_BYTES == 4
    const Element inverse = Element(1.0 / double(values.step_high));
#else
    const Element inverse = 1.0 / values.step;
#endif
    for (uint32_t level = work.shape.levels; level-- > 0;) {
        for (uint32_t pass = 0; pass < PASSES; ++pass) {
            if (begins_group(pass)) {
                __syncthreads();
            }
            const BlockClass of(work.shape, level, class_of_pass(pass));
            if (of.elements() > 0) {
                reconstruct(work, values, of, inverse);
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
__device__ inline void finish(const BlockWork &work, const Values &values, const ParsedBlocks &blocks,
                              uint32_t elements, const RasterPlaces &places) {
    if (values.has_range == 0 && !work.masks.any) {
        return;
    }
    for (uint32_t i = threadIdx.x; i < elements; i += THREADS) {
        const uint64_t at = places(i);
        Bits bits = to_bits(limited(work.value(at), values));
        for (uint32_t mask = 0; mask < work.masks.count && work.masks.any; ++mask) {
            bits = work.masks.has(mask, i) ? Bits(blocks.patterns[mask]) : bits;
        }
        work.elements[at] = bits;
    }
    __syncthreads();
}

// A block of the batch that is wanted and was parsed.
struct WantedBlock {
    const Tile tile;
    const ParsedChunk &record;
    const uint32_t number, chunk, position; // the number of its first element in its chunk
    Bits *const to;

    __device__ inline WantedBlock(const Geometry &geometry, const Parsed &parsed, const Request &request, Bits *output)
        : tile(geometry.tile(request.first_tile + blockIdx.x)), record(parsed.chunks[blockIdx.x / parsed.tiles]),
          number(blockIdx.x), chunk(number / parsed.tiles),
          position(uint32_t(tile.elements_before -
                            geometry.elements_before(request.first_tile + uint64_t(chunk) * parsed.tiles))),
          to(output + (tile.first_element - request.first_element)) {}

    __device__ inline static bool exists(const Parsed &parsed, const Request &request) {
        const uint64_t in_array = request.first_tile + blockIdx.x;
        return in_array >= request.tiles_start && in_array < request.tiles_end &&
               chunk_is_valid(parsed, blockIdx.x / parsed.tiles);
    }
    __device__ inline BlockMasks masks(const ParsedBlocks &blocks) const {
        const uint64_t first = uint64_t(number) * blocks.masks_of_block;
        return BlockMasks(blocks.masks + first, blocks.bitmaps + first * 2 * blocks.bitmap_words, blocks.masks_of_block,
                          2 * blocks.bitmap_words);
    }
};

// Decodes the codes of blocks to where their elements will be.
extern "C" __global__ void __launch_bounds__(THREADS, 1024 / THREADS)
    blocks_decode_codes(const uint8_t *input, const __grid_constant__ Geometry geometry,
                        const __grid_constant__ Parsed parsed, const __grid_constant__ ParsedBlocks blocks,
                        const __grid_constant__ Request request, Bits *output) {
    extern __shared__ __align__(16) uint8_t shared[];
    SlotTable *tables = reinterpret_cast<SlotTable *>(shared);
    __shared__ uint8_t table_of[blocks::CONTEXTS];
    __shared__ uint16_t of_zeros[blocks::CONTEXTS];
    __shared__ uint32_t window[Team<THREADS>::WINDOW];
    launch_dependents_and_wait();
    if (!WantedBlock::exists(parsed, request)) {
        return;
    }
    const WantedBlock own(geometry, parsed, request, output);
    if (own.record.kind == KIND_RAW) {
        return;
    }
    const BlockPlan plan = blocks.plans[own.chunk];
    const BlockShape shape(own.tile, geometry, plan.slices);
    const BlockMasks masks = own.masks(blocks);
    const uint32_t *from = reinterpret_cast<const uint32_t *>(blocks.tables[own.chunk].slots);
    for (uint32_t i = threadIdx.x; i < plan.tables * (sizeof(SlotTable) / 4); i += THREADS) {
        reinterpret_cast<uint32_t *>(shared)[i] = from[i];
    }
    for (uint32_t i = threadIdx.x; i < blocks::CONTEXTS; i += THREADS) {
        table_of[i] = blocks.tables[own.chunk].of_context[i];
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < plan.tables; i += THREADS) {
        of_zeros[i] = tables[i].starts[1];
    }
    __syncthreads();
    const BlockWork work{shape, plan, own.to, masks};
    const uint32_t *starts =
        blocks.starts + uint64_t(own.chunk) * blocks.starts_stride + blocks.first_units[own.number];
    if (!decode_codes(input, work, starts, DecodeTables{tables, table_of, of_zeros}, window) && lane_id() == 0) {
        atomicOr(&parsed.problems[own.chunk * PROBLEM_WORDS + DECODE_PROBLEM], PROBLEM_BLOCK);
    }
}

// Replaces the codes of blocks by their elements. This takes no shared memory, so that more of what neighbors share
// stays in the first cache.
extern "C" __global__ void __launch_bounds__(THREADS, 4096 / ELEMENT_BYTES / THREADS)
    blocks_decode_values(const uint8_t *input, const __grid_constant__ Geometry geometry,
                         const __grid_constant__ Parsed parsed, const __grid_constant__ ParsedBlocks blocks,
                         const __grid_constant__ Values values, const __grid_constant__ Request request, Bits *output) {
    launch_dependents_and_wait();
    if (!WantedBlock::exists(parsed, request)) {
        return;
    }
    const WantedBlock own(geometry, parsed, request, output);
    const uint32_t elements = own.tile.elements();
    const RasterPlaces places(own.tile, geometry);
    if (own.record.kind == KIND_RAW) {
        const Bits *from = reinterpret_cast<const Bits *>(input + own.record.raw) + own.position;
        for (uint32_t i = threadIdx.x; i < elements; i += THREADS) {
            own.to[places(i)] = from[i];
        }
        return;
    }
    const BlockPlan plan = blocks.plans[own.chunk];
    const BlockShape shape(own.tile, geometry, plan.slices);
    const BlockMasks masks = own.masks(blocks);
    const BlockWork work{shape, plan, own.to, masks};
    decode_values(work, values, blocks.anchors + uint64_t(own.number) * blocks.anchors_stride);
    finish(work, values, blocks, elements, places);
    const uint32_t *positions = reinterpret_cast<const uint32_t *>(input + own.record.verbatim_positions);
    const Bits *list = reinterpret_cast<const Bits *>(input + own.record.verbatim_values);
    const uint32_t first = own.record.verbatim > 0 ? parsed.places[own.number].verbatim : 0;
    for (uint32_t i = first + threadIdx.x; i < own.record.verbatim; i += THREADS) {
        const uint32_t place = positions[i] - own.position;
        if (place >= elements) {
            break;
        }
        own.to[places(place)] = list[i];
    }
}
