// Decodes the codes of blocks: a block of threads each. As many warps as a part has units decode its segments, and the
// others find the contexts of the next ones; of several boxes, each warp decodes its own.
//
// THREADS        threads of a block
// See also quantize/stored.cuh.
#define LOGARITHM 0
#include "blocks/decode_segment.cuh"
#include "blocks/requested.cuh"
#include "device/sync.cuh"

constexpr uint32_t WARPS = THREADS / WARP;
static_assert(MOST_UNITS <= WARPS, "each unit has a warp");

// Segments in shared memory: one for each warp, or in turns for those of a step that are decoded and of the next one.
constexpr uint32_t SEGMENTS = 2 * (WARPS - 1);

// What all parts of a block have.
struct Work {
    const BlockShape &shape;
    const CompactBlock &block;
    const DecodeTables &tables;
    SegmentContexts *segments; // SEGMENTS of them
    SegmentLists *lists;       // one for each warp
    uint32_t warp;             // the number of this one
};

// A part of the codes of a block, and its unit that the warp decodes, if it decodes any.
struct Part {
    PartRange range;
    bool is_of_block; // the whole block of threads decodes it, otherwise the warp for itself
    uint32_t units;
    Unit unit;
};

// Where the elements of a class in a part are in the memory of the block.
struct PartPlaces {
    const PartElements &elements;
    const CompactClass own;
    const bool are_in_order; // one behind the other: those of a class of the first level

    __device__ inline PartPlaces(const BlockShape &shape, const BlockClass &of, const PartElements &elements)
        : elements(elements), own(shape, of.level, of.number),
          are_in_order(of.level == 0 && elements.part.elements() == of.elements()) {}
    __device__ inline uint32_t operator()(uint32_t i) const {
        if (are_in_order) {
            return own.base + i;
        }
        uint32_t at[3];
        elements.coordinates_of(i, at);
        return own.place(at);
    }
};

// Gives the elements of a segment what is expected of them, and finds their contexts. Called by a whole warp.
__device__ inline void begin_segment(const Work &work, const Neighbors &neighbors, uint32_t kind,
                                     const PartPlaces &places, uint32_t first, uint32_t count,
                                     SegmentContexts &segment) {
    const KindContexts known(kind);
    const SharedBytes contexts(segment.contexts);
    const auto code = [&](uint32_t place) { return work.block.code(place); };
    bool is_masked = false;
    const auto store = [&](uint32_t i, const uint32_t(&at)[3], uint32_t context) {
        contexts.store(i, context);
        work.block.code(places.own.place(at)) = 0;
        is_masked |= context == known.masked;
    };
    const uint32_t quiet = find_contexts(code, neighbors, kind, places.elements, first, count, store);
    segment.quiet[lane_id()] = quiet;
    if (__any_sync(ALL_LANES, is_masked) && warp_reduce_sum(uint32_t(__popc(quiet))) >= LEAST_QUIET) {
        for (uint32_t i = lane_id(); i < count; i += WARP) {
            if (contexts.load(i) == known.masked) {
                work.block.code(places(first + i)) = code_of_mask(0);
            }
        }
    }
}

// Decodes the codes of a class that are in a part.
__device__ inline void decode_class(const Work &work, const BlockClass &of, Part &part) {
    const PartClass part_class(of, part.range);
    const uint32_t all = part_class.elements();
    if (all == 0) {
        return;
    }
    const PartElements elements(part_class);
    const Neighbors neighbors(work.shape, of, part.range);
    const PartPlaces places(work.shape, of, elements);
    const uint32_t kind = kind_of(of);
    const SegmentDecoder decoder(part.unit, work.tables, kind, work.lists[work.warp]);
    // Where a warp decodes no unit, it is a step ahead of those that do, and finds the contexts that they decode next;
    // otherwise it decodes its own segments.
    const uint32_t number = part.is_of_block ? work.warp : 0, warps = part.is_of_block ? WARPS : 1;
    const bool are_ahead = part.units < warps, decodes = number < part.units, finds = !are_ahead || !decodes;
    const uint32_t segments = are_ahead ? warps - part.units : warps, own = are_ahead ? number - part.units : number;
    const uint32_t steps = ceil_div(all, segments * SEGMENT);
    for (uint32_t step = 0; step < steps + are_ahead; ++step) {
        const auto first_of = [&](uint32_t of_step, uint32_t i) { return (of_step * segments + i) * SEGMENT; };
        const auto count_of = [&](uint32_t first) { return first < all ? min_of(all - first, SEGMENT) : 0; };
        const auto memory = [&](uint32_t of_step, uint32_t i) -> SegmentContexts & {
            return work.segments[are_ahead ? of_step % 2 * segments + i : work.warp];
        };
        if (finds && step < steps) {
            const uint32_t first = first_of(step, own);
            begin_segment(work, neighbors, kind, places, first, count_of(first), memory(step, own));
        }
        __syncwarp();
        // None in the first step of warps that are behind.
        const uint32_t decoded = step - are_ahead;
        for (uint32_t i = number; decodes && decoded < steps && i < segments; i += part.units) {
            const uint32_t first = first_of(decoded, i);
            decoder.decode(memory(decoded, i), count_of(first),
                           [&](uint32_t place, int32_t code) { work.block.code(places(first + place)) = code; });
        }
        if (are_ahead) {
            __syncthreads();
        } else {
            __syncwarp();
        }
    }
    // The codes are visible to the threads that look at them next.
    if (part.is_of_block && !are_ahead) {
        __syncthreads();
    }
}

// What was found of a block: whether its units are valid, on each warp, and its largest code, on each lane.
struct Found {
    bool is_good;
    int32_t largest;

    __device__ inline void add(const Unit &unit) {
        is_good &= unit.is_finished();
        largest = max_of(largest, unit.largest);
    }
};

// Decodes the codes of a block. Called by the whole block of threads.
__device__ inline Found decode_codes(const uint8_t *input, const BlockPlan &plan, const BlockUnits &units,
                                     const uint32_t *starts, const Work &work) {
    const uint32_t levels = work.shape.levels, boxes = units.has_boxes() ? units.boxes : 0;
    Found found{true, 0};
    // The single or coarse part, and then boxes: one that is alone by the whole block of threads, others by a warp
    // each.
    for (uint32_t i = 0; i <= boxes;) {
        const bool is_box = i > 0, is_of_block = !is_box || boxes == 1;
        const PartUnits of = is_box ? PartUnits{1, units.box_lanes} : units.first;
        const uint32_t unit = is_box ? units.first.units + i - 1 : (work.warp & (of.units - 1));
        Part part{is_box ? units.range(i - 1) : PartRange::everything(), is_of_block, of.units,
                  Unit(input, plan, starts + unit, of.lanes)};
        const uint32_t end = is_box ? min_of(levels, 1u) : levels, last = !is_box && boxes > 0 ? 1 : 0;
        for (uint32_t level = end; level-- > last;) {
            for (uint32_t pass = 0; pass < PASSES; ++pass) {
                decode_class(work, BlockClass(work.shape, level, class_of_pass(pass)), part);
            }
        }
        if (!is_of_block || work.warp < of.units) {
            found.add(part.unit);
        }
        i += is_of_block ? 1 : WARPS;
        i += !is_box && boxes > 1 ? work.warp : 0;
    }
    return found;
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    blocks_decode_codes(const uint8_t *input, const __grid_constant__ Geometry geometry,
                        const __grid_constant__ Parsed parsed, const __grid_constant__ ParsedBlocks blocks,
                        const __grid_constant__ LaunchArguments arguments) {
    extern __shared__ __align__(16) uint8_t near[];
    __shared__ uint32_t of_contexts[blocks::CONTEXTS];
    __shared__ SegmentContexts segments[SEGMENTS];
    __shared__ SegmentLists lists[WARPS];
    launch_dependents_and_wait();
    if (!RequestedBlock::exists(parsed, arguments, blockIdx.x)) {
        return;
    }
    const RequestedBlock own(geometry, parsed, arguments, nullptr, blockIdx.x);
    if (own.record.kind == KIND_RAW) {
        return;
    }
    const BlockPlan plan = blocks.plans[own.chunk];
    const BlockShape shape(own.tile, geometry, plan.slices);
    const BlockTables &tables = blocks.tables[own.chunk];
    const DecodeTable *all = reinterpret_cast<const DecodeTable *>(tables.tables);
    for (uint32_t i = threadIdx.x; i < blocks::CONTEXTS; i += THREADS) {
        const uint32_t number = tables.of_context[i];
        of_contexts[i] = Coding(number, all[number].of_zero(), is_among_masks(i)).word;
    }
    // Contexts have ascending numbers of tables.
    const uint32_t table_count = tables.of_context[blocks::CONTEXTS - 1] + 1u;
    for (uint32_t i = threadIdx.x; i < min_of(table_count, blocks::NEAR_TABLES) * (sizeof(DecodeTable) / 4);
         i += THREADS) {
        reinterpret_cast<uint32_t *>(near)[i] = reinterpret_cast<const uint32_t *>(all)[i];
    }
    const CompactBlock block(blocks, own.number);
    const int32_t *anchors = blocks.anchor_codes + uint64_t(own.number) * blocks.anchors_stride;
    int32_t largest = 0;
    for (uint32_t i = threadIdx.x; i < shape.anchors(); i += THREADS) {
        block.code(anchor_place(shape, i)) = anchors[i];
        largest = max_of(largest, anchors[i]);
    }
    __syncthreads();
    const uint32_t *starts =
        blocks.starts + uint64_t(own.chunk) * blocks.starts_stride + blocks.first_units[own.number];
    const DecodeTables of_chunk{SharedWords(near), SharedWords(of_contexts), all, table_count <= blocks::NEAR_TABLES};
    const BlockUnits units(shape, plan, blocks.lanes_log2[own.number]);
    const Found found =
        decode_codes(input, plan, units, starts, Work{shape, block, of_chunk, segments, lists, uniform(warp_id())});
    largest = max_of(largest, found.largest);
    // A mask must have a pattern.
    const bool has_masks = is_mask(largest), is_bad = has_masks && mask_of(largest) >= blocks.pattern_count;
    const bool any_masks = __syncthreads_or(has_masks), any_bad = __syncthreads_or(is_bad || !found.is_good);
    if (threadIdx.x == 0) {
        blocks.has_masks[own.number] = any_masks;
        if (any_bad) {
            atomicOr(&parsed.problems[own.chunk * PROBLEM_WORDS + DECODE_PROBLEM], PROBLEM_BLOCK);
        }
    }
}
