// Codes the units of blocks by rANS: a block of threads for each block. All warps find the contexts of runs, the first
// one codes them; of several boxes, each warp codes its own. The last code is coded first, so that decoders meet them
// in order, and words are written from the end of the unit's room down.
//
// THREADS  threads of a block
#include "blocks/segments.cuh"
#include "blocks/tables.cuh"
#include "device/shared.cuh"
#include "device/sync.cuh"

constexpr uint32_t WARPS = THREADS / WARP;

// An event: the number of its interval among those of all tables, and above it the bits behind its symbol.
struct Event {
    uint32_t word;

    static constexpr uint32_t BITS_SHIFT = 14;

    __device__ inline uint32_t interval() const { return word & ((1u << BITS_SHIFT) - 1); }
    __device__ inline uint32_t bits() const { return word >> BITS_SHIFT; }
};
static_assert(blocks::CONTEXTS * blocks::INTERVALS <= 1u << Event::BITS_SHIFT, "intervals have numbers of these bits");

// A run in shared memory: the events of its elements, and of its segments those that are calm, and those of them whose
// flag is set, a bit each.
struct Run {
    uint32_t events[RUN];
    uint32_t calm, flagged, count;
    bool any; // whether a code is not 0
};

// The tables of the block's chunk: as many as there is room for in shared memory, the others where they were made.
struct Coding {
    const SharedWords near;
    const uint64_t *all;
    const uint8_t *of_context; // in shared memory

    __device__ inline Event event(uint32_t context, int32_t code) const {
        const Symbol symbol(code);
        const uint32_t interval = of_context[context] * blocks::INTERVALS + symbol.symbol;
        return {interval | symbol.bits << Event::BITS_SHIFT};
    }
    __device__ inline EncodeInterval interval(Event event) const {
        const uint32_t number = event.interval();
        return EncodeInterval(number < blocks::NEAR_TABLES * blocks::INTERVALS ? near.load_pair(2 * number)
                                                                               : all[number]);
    }
};

// How a state takes an event.
struct Taking {
    EncodeInterval interval;
    uint32_t bits; // behind the symbol

    __device__ inline Taking(const Coding &coding, Event event)
        : interval(coding.interval(event)), bits(event.bits()) {}
    __device__ inline Taking() : interval(EncodeInterval::none()), bits(0) {}

    // Returns what another lane has; nothing if this one `exists` not.
    __device__ inline Taking of_lane(uint32_t lane, bool exists) const {
        Taking other;
        const uint64_t word = __shfl_sync(ALL_LANES, interval.word, lane % WARP);
        other.bits = __shfl_sync(ALL_LANES, bits, lane % WARP);
        other.interval.word = exists ? word : other.interval.word;
        return other;
    }
};

// Writes a unit. Each warp of a block of threads has it; the first one codes.
struct UnitWriter {
    const Coding &coding;
    uint32_t state, lanes;
    uint16_t *end; // one behind the word that is written next
    bool any;      // whether a code or a flag was not 0

    // Takes the low words of the lanes whose states are too large. Called by the whole warp.
    __device__ inline void take(bool is_large) {
        const uint32_t large = __ballot_sync(ALL_LANES, is_large);
        // A decoder gives words to lanes in their order.
        end -= __popc(large);
        if (is_large) {
            end[__popc(large & ((1u << lane_id()) - 1))] = uint16_t(state);
            state >>= 16;
        }
    }

    // Codes an event of each lane. Called by the whole warp.
    __device__ inline void put(const Taking &event) {
        const uint32_t early = event.interval.early_bits(), late = event.interval.late_bits();
        const uint32_t frequency = event.interval.frequency();
        const auto is_large = [&] { return state >> (32 - blocks::TABLE_LOG2 - early) >= frequency; };
        // Most events give no word.
        if (__any_sync(ALL_LANES, late > 0 || is_large())) {
            take(late > 0 && state >> (32 - late) != 0);
            state = late > 0 ? state << late | event.bits >> early : state;
            take(is_large());
        }
        const uint32_t above = state << early | (event.bits & ((1u << early) - 1));
        uint32_t quotient = __umulhi(above, event.interval.inverse());
        // The inverse is rounded down, so that the quotient may be too small by 1.
        quotient += above - quotient * frequency >= frequency;
        state = above + quotient * (TOTAL - frequency) + event.interval.start();
    }

    // Codes a run, its last element first, and then the flags of its segments. Called by a whole warp.
    __device__ inline void put_run(const Run &run, uint32_t kind) {
        const SharedWords events(run.events);
        const auto taking = [&](int32_t segment) {
            const uint32_t place = uint32_t(segment) * SEGMENT + lane_id();
            const bool is_coded = segment >= 0 && (run.calm & ~run.flagged & 1u << segment % 32) == 0;
            return is_coded && place < run.count ? Taking(coding, Event{events.load(place)}) : Taking();
        };
        int32_t segment = int32_t(ceil_div(run.count, SEGMENT)) - 1;
        Taking ahead = taking(segment);
        for (; segment >= 0; --segment) {
            const Taking own = ahead;
            ahead = taking(segment - 1);
            if ((run.calm & ~run.flagged & 1u << segment) != 0) {
                continue;
            }
            const auto of_group = [&](uint32_t begin) { return own.of_lane(begin + lane_id(), lane_id() < lanes); };
            uint32_t begin = (min_of(run.count - segment * SEGMENT, SEGMENT) - 1) / lanes * lanes;
            Taking next = of_group(begin);
            for (;; begin -= lanes) {
                const Taking of_this = next;
                // No state waits for it.
                next = of_group(begin - lanes);
                put(of_this);
                if (begin == 0) {
                    break;
                }
            }
        }
        // The flags of the calm segments, one behind the other.
        const bool is_calm = run.calm >> lane_id() & 1, is_set = run.flagged >> lane_id() & 1;
        const uint32_t place = __popc(run.calm & ((1u << lane_id()) - 1)), count = __popc(run.calm);
        const uint32_t flags = warp_reduce_or(is_calm && is_set ? 1u << place : 0);
        any |= run.any || flags != 0;
        if (count == 0) {
            return;
        }
        const uint32_t context = KindContexts(kind).flag;
        for (uint32_t at = (count - 1) / lanes * lanes;; at -= lanes) {
            const uint32_t i = at + lane_id();
            const bool exists = lane_id() < lanes && i < count;
            const int32_t code = exists && (flags >> i & 1) != 0 ? code_of_mask(0) : 0;
            put(exists ? Taking(coding, coding.event(context, code)) : Taking());
            if (at == 0) {
                return;
            }
        }
    }
};

// A unit of a block: the part of the classes of some levels that is in its range.
struct UnitWork {
    const BlockShape &shape;
    const int32_t *codes;
    UnitRange range;
    uint32_t first_level, last_level; // from the finest level up to one before the last
    Run *runs;                        // one for each warp

    // Codes the elements of a class, the last one first. Called by a whole block of threads, or by a warp for itself.
    template <bool OF_BLOCK> __device__ inline void put_class(const BlockClass &of, UnitWriter &writer) const {
        const UnitClass part(of, range);
        const uint32_t all = part.elements();
        if (all == 0) {
            return;
        }
        const UnitElements elements(part);
        const Neighbors neighbors(shape, of, range);
        const CompactClass own(shape, of.level, of.number);
        const KindContexts known(kind_of(of));
        const uint32_t kind = kind_of(of), window = OF_BLOCK ? WARPS * RUN : RUN;
        const auto code = [&](uint32_t place) { return codes[place]; };
        Run &run = runs[warp_id()];
        for (uint32_t number = ceil_div(all, window); number-- > 0;) {
            const uint32_t first = number * window + (OF_BLOCK ? warp_id() * RUN : 0);
            const uint32_t count = first < all ? min_of(all - first, RUN) : 0;
            uint32_t calm = 0, flagged = 0;
            bool any = false;
            for_each_segment(code, neighbors, kind, elements, own, first, count, [&](const CodedSegment &segment) {
                calm |= segment.is_calm ? 1u << segment.number : 0;
                flagged |= segment.is_flagged ? 1u << segment.number : 0;
                if (segment.exists && segment.is_coded()) {
                    run.events[segment.number * SEGMENT + lane_id()] =
                        writer.coding.event(segment.coded_context(known), segment.code).word;
                    any |= segment.code != 0;
                }
            });
            run.calm = calm;
            run.flagged = flagged;
            run.count = count;
            run.any = __any_sync(ALL_LANES, any);
            if (OF_BLOCK) {
                __syncthreads();
                for (uint32_t warp = WARPS; warp-- > 0 && warp_id() == 0;) {
                    writer.put_run(runs[warp], kind);
                }
                __syncthreads();
            } else {
                __syncwarp();
                writer.put_run(run, kind);
                __syncwarp();
            }
        }
    }

    // Codes the unit to words that end at `end`. Returns where they begin, on the first of the warps.
    template <bool OF_BLOCK>
    __device__ inline uint16_t *put(const Coding &coding, uint32_t lanes, uint16_t *end) const {
        UnitWriter writer{coding, LOWEST, lanes, end, false};
        for (uint32_t level = first_level; level < last_level; ++level) {
            for (uint32_t pass = PASSES; pass-- > 0;) {
                put_class<OF_BLOCK>(BlockClass(shape, level, class_of_pass(pass)), writer);
            }
        }
        if (!__any_sync(ALL_LANES, writer.any)) {
            return end;
        }
        writer.end -= 2 * lanes;
        if (lane_id() < lanes) {
            writer.end[2 * lane_id()] = uint16_t(writer.state);
            writer.end[2 * lane_id() + 1] = uint16_t(writer.state >> 16);
        }
        return writer.end;
    }
};

// Returns how many elements of the finest level are in a unit.
__device__ inline uint32_t finest_elements(const BlockShape &shape, const UnitRange &range) {
    uint32_t elements = 0;
    for (uint32_t pass = 0; pass < PASSES && shape.levels > 0; ++pass) {
        elements += UnitClass(BlockClass(shape, 0, class_of_pass(pass)), range).elements();
    }
    return elements;
}

extern "C" __global__ void __launch_bounds__(THREADS, 3)
    blocks_encode(const __grid_constant__ Geometry geometry, const __grid_constant__ ChunkBatch batch,
                  const __grid_constant__ EncodedBlocks to) {
    extern __shared__ __align__(16) uint64_t near[];
    __shared__ uint8_t of_context[align_up(blocks::CONTEXTS, 4)];
    __shared__ Run runs[WARPS];
    __shared__ uint32_t taken;
    grid_dependency_wait();
    launch_dependents();
    const uint32_t number = blockIdx.x, chunk = number / batch.chunk_tiles;
    if (threadIdx.x == 0) {
        taken = 0;
    }
    const EncodeTables &tables = to.encode_tables[chunk];
    for (uint32_t i = threadIdx.x; i < blocks::CONTEXTS; i += THREADS) {
        of_context[i] = tables.of_context[i];
    }
    // Contexts have ascending numbers of tables.
    const uint32_t near_tables = min_of(tables.of_context[blocks::CONTEXTS - 1] + 1u, blocks::NEAR_TABLES);
    for (uint32_t i = threadIdx.x; i < near_tables * blocks::INTERVALS; i += THREADS) {
        near[i] = tables.intervals[i];
    }
    __syncthreads();
    const Coding coding{SharedWords(near), tables.intervals, of_context};
    const Tile tile = geometry.tile(batch.first_tile + number);
    const BlockPlan plan = to.plans[chunk];
    const BlockShape shape(tile, geometry, plan.slices);
    const BlockUnits units(shape, plan);
    const uint64_t position = tile.elements_before - geometry.elements_before(batch.first_tile);
    uint16_t *const words = to.words + block_words_at(position, number, to.units_of_block);
    const bool is_by_warps = units.boxes > 1;
    for (uint32_t unit = is_by_warps ? warp_id() : 0; unit < units.count(); unit += is_by_warps ? WARPS : 1) {
        const bool is_box = unit > 0, is_all = units.division == DIVISION_ONE;
        const UnitWork work{shape,
                            to.codes + position,
                            is_box ? units.range(unit - 1) : BlockUnits::everything(),
                            is_box || is_all ? 0u : 1u,
                            is_box ? min_of(shape.levels, 1u) : shape.levels,
                            runs};
        // Each code takes two words at most, a flag one, and the state of a lane two.
        const uint32_t finest = finest_elements(shape, work.range);
        const uint32_t elements = is_box ? finest : tile.elements() - (is_all ? 0 : finest);
        const uint32_t room = 2 * (elements + units.lanes) + elements / SEGMENT;
        uint32_t place = 0;
        if (lane_id() == 0 && (is_by_warps || warp_id() == 0)) {
            place = atomicAdd(&taken, room);
        }
        place = warp_broadcast(place, 0);
        uint16_t *const end = words + place + room;
        const uint16_t *const begin =
            is_by_warps ? work.put<false>(coding, units.lanes, end) : work.put<true>(coding, units.lanes, end);
        if (lane_id() == 0 && (is_by_warps || warp_id() == 0)) {
            BlockUnit &own = to.units[uint64_t(number) * to.units_of_block + unit];
            own.place = uint32_t(begin - words);
            own.count = uint32_t(end - begin);
        }
    }
}
