// Codes the units of blocks by rANS: a block of threads for each block. All warps prepare the events of segments, and
// as many of them as a part has units then code these; of several boxes, each warp codes its own. The last code is
// coded first, so that decoders meet them in order, and words are written from the end of the unit's room down.
//
// THREADS  threads of a block
#include "blocks/coded.cuh"
#include "blocks/tables.cuh"
#include "device/shared.cuh"
#include "device/sync.cuh"

constexpr uint32_t WARPS = THREADS / WARP;
static_assert(WARPS >= MOST_UNITS, "each unit has a warp");

// An event: the number of its interval among those of all tables, the bits behind its symbol, and whether the element
// has another context if it is found among quiet ones.
struct Event {
    uint32_t word;

    static constexpr uint32_t BITS_SHIFT = 14, MOVES = 1u << 31;

    __device__ inline uint32_t interval() const { return word & ((1u << BITS_SHIFT) - 1); }
    __device__ inline uint32_t bits() const { return (word & ~MOVES) >> BITS_SHIFT; }
};
static_assert(blocks::CONTEXTS * blocks::INTERVALS <= 1u << Event::BITS_SHIFT, "intervals have numbers of these bits");
static_assert(2 * blocks::CODE_LIMIT / 8 <= 1u << (31 - Event::BITS_SHIFT), "bits behind symbols fit");

// What is coded of a segment, in shared memory: the events of its elements; at the end, those of its gaps and its
// count.
struct SegmentEvents {
    static constexpr uint32_t COUNT = SEGMENT, NO_UNIT = ALL_LANES;

    uint32_t events[SEGMENT + 1]; // the last one is the count
    uint32_t unit;                // NO_UNIT where there is no segment
    uint32_t elements, gaps;
    bool has_count;
    bool any; // whether a symbol is not 0
};
static_assert(sizeof(SegmentEvents) == blocks::SEGMENT_EVENTS_BYTES, "the launcher knows the size");

// The tables of the block's chunk: as many as there is room for in shared memory, the others where they were made.
struct Coding {
    const SharedWords near;
    const uint64_t *all;
    const SharedBytes of_context; // the number of the table of a context

    __device__ inline Event event(uint32_t context, int32_t code) const {
        const Symbol symbol(code);
        const uint32_t interval = of_context.load(context) * blocks::INTERVALS + symbol.symbol;
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

// Writes a unit. Called by a whole warp.
struct UnitWriter {
    const Coding &coding;
    uint32_t state, lanes;
    uint16_t *end; // one behind the word that is written next
    bool any;      // whether a symbol was not 0

    // Takes the low words of the lanes whose states are too large.
    __device__ inline void take(bool is_large) {
        const uint32_t large = __ballot_sync(ALL_LANES, is_large);
        // A decoder gives words to lanes in their order.
        end -= __popc(large);
        if (is_large) {
            end[__popc(large & ((1u << lane_id()) - 1))] = uint16_t(state);
            state >>= 16;
        }
    }

    // Codes an event of each lane.
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

    // Returns what the lane has of the 32 events of a list from `begin` on, or of the last ones.
    __device__ inline Taking taking(const SharedWords &events, uint32_t begin, uint32_t count) const {
        return begin + lane_id() < count ? Taking(coding, Event{events.load(begin + lane_id())}) : Taking();
    }
    __device__ inline static uint32_t last_begin(uint32_t count) { return count == 0 ? 0 : (count - 1) / WARP * WARP; }
    __device__ inline Taking last_taking(const SharedWords &events, uint32_t count) const {
        return taking(events, last_begin(count), count);
    }

    // Codes a list, its last event first. `ahead` is what the lane has of the last ones.
    __device__ inline void put_list(const SharedWords &events, uint32_t count, Taking ahead) {
        if (count == 0) {
            return;
        }
        for (uint32_t begin = last_begin(count);; begin -= WARP) {
            const Taking own = ahead;
            if (begin > 0) {
                ahead = taking(events, begin - WARP, count);
            }
            if (lanes == WARP) {
                put(own);
            } else {
                const auto of_group = [&](uint32_t at) { return own.of_lane(at + lane_id(), lane_id() < lanes); };
                uint32_t at = (min_of(count - begin, WARP) - 1) / lanes * lanes;
                Taking next = of_group(at);
                for (;; at -= lanes) {
                    const Taking of_this = next;
                    // No state waits for it.
                    next = of_group(at - lanes);
                    put(of_this);
                    if (at == 0) {
                        break;
                    }
                }
            }
            if (begin == 0) {
                return;
            }
        }
    }

    // Codes a segment, its last list first.
    __device__ inline void put_segment(const SegmentEvents &segment) {
        const SharedWords elements(segment.events), gaps(segment.events + SegmentEvents::COUNT - segment.gaps),
            count(segment.events + SegmentEvents::COUNT);
        const uint32_t element_count = segment.elements, gap_count = segment.gaps;
        const bool has_count = segment.has_count;
        const Taking last_element = last_taking(elements, element_count), last_gap = last_taking(gaps, gap_count),
                     of_count = taking(count, 0, has_count);
        any |= segment.any;
        put_list(elements, element_count, last_element);
        put_list(gaps, gap_count, last_gap);
        if (has_count) {
            put(of_count);
        }
    }

    // Writes the states before the words, if the unit has any. Returns where it begins.
    __device__ inline const uint16_t *finish(const uint16_t *last) {
        if (!any) {
            return last;
        }
        end -= 2 * lanes;
        if (lane_id() < lanes) {
            end[2 * lane_id()] = uint16_t(state);
            end[2 * lane_id() + 1] = uint16_t(state >> 16);
        }
        return end;
    }
};

// Leaves of the events of a segment those of elements that are coded. Returns their number. Called by a whole warp.
__device__ inline uint32_t keep_coded(const Coding &coding, const KindContexts &known, const CodedSegment &segment,
                                      uint32_t count, const SharedWords &events) {
    // Contexts have ascending numbers of tables.
    const uint32_t tables = coding.of_context.load(known.found) - coding.of_context.load(known.quiet);
    const uint32_t move = tables * blocks::INTERVALS - Event::MOVES;
    const uint32_t group_begin = min_of(lane_id() * WARP, count), exist = min_of(count - group_begin, WARP);
    const uint32_t existing = exist == 0 ? 0 : ALL_LANES >> (WARP - exist);
    // Other lanes have stored the events.
    __syncwarp();
    const uint32_t kept = existing & (~segment.quiet | segment.found),
                   before = warp_exclusive_sum(uint32_t(__popc(kept)));
    for (uint32_t groups = __ballot_sync(ALL_LANES, kept != 0); groups != 0; groups &= groups - 1) {
        const uint32_t group = __ffs(groups) - 1;
        const uint32_t of_group = warp_broadcast(kept, group), place = warp_broadcast(before, group);
        const uint32_t word = events.load(group * WARP + lane_id());
        __syncwarp();
        if ((of_group >> lane_id() & 1) != 0) {
            events.store(place + __popc(of_group & ((1u << lane_id()) - 1)),
                         (word & Event::MOVES) != 0 ? word + move : word);
        }
    }
    return warp_broadcast(before + __popc(kept), WARP - 1);
}

// Prepares the events of a segment. Called by a whole warp.
__device__ inline void prepare(const Coding &coding, const int32_t *codes, const PartSegments &at, uint32_t units,
                               SegmentEvents &to) {
    const BlockClass of = at.of();
    const PartClass part(of, at.range);
    const PartElements elements(part);
    const Neighbors neighbors(at.shape, of, at.range);
    const CompactClass own(at.shape, of.level, of.number);
    const uint32_t kind = kind_of(of), first = at.first(), count = min_of(part.elements() - first, SEGMENT);
    const KindContexts known(kind);
    const auto code_at = [codes](uint32_t place) { return codes[place]; };
    const SharedWords events(to.events);
    const uint32_t zero = coding.event(known.quiet, 0).word, mask = coding.event(known.masked, code_of_mask(0)).word;
    uint32_t any = 0, any_expected = 0;
    const auto visit = [&](uint32_t i, const CodedElement &element) {
        const bool is_quiet = element.context == known.quiet;
        uint32_t word = is_quiet ? zero : mask;
        if (!element.is_expected) {
            word = coding.event(element.context, element.code).word | (is_quiet ? Event::MOVES : 0);
            any |= element.code != 0;
        }
        any_expected |= element.is_expected && !is_quiet;
        events.store(i, word);
    };
    const CodedSegment segment = find_coded(code_at, neighbors, kind, elements, own, first, count, visit);
    uint32_t coded = count, gaps = 0;
    if (segment.skips()) {
        coded = keep_coded(coding, known, segment, count, events);
        gaps = segment.all_found;
        const uint32_t context = gaps_context(segment.all_quiet, max_of(gaps, 1u));
        // There are at least as many quiet elements that are not coded.
        __syncwarp();
        segment.for_each_gap([&](uint32_t i, uint32_t gap) {
            events.store(SegmentEvents::COUNT - gaps + i, coding.event(context, code_of_number(gap)).word);
        });
    }
    any = warp_reduce_or(any | (segment.skips() ? 0 : any_expected));
    if (lane_id() == 0) {
        if (segment.has_count()) {
            events.store(SegmentEvents::COUNT, coding.event(known.count, segment.count_code()).word);
        }
        to.unit = at.number() % units;
        to.elements = coded;
        to.gaps = gaps;
        to.has_count = segment.has_count();
        to.any = any != 0 || (segment.has_count() && segment.all_found > 0);
    }
}

// What all parts of a block have.
struct Work {
    const Coding &coding;
    const int32_t *codes;
    SegmentEvents *prepared; // one for each warp
    uint16_t *words;         // the room of the block
    uint32_t *taken;         // words of it that have a unit, in shared memory
    BlockUnit *made;
};

// Segments of a part, and the events that one of its units can have.
struct Room {
    uint32_t segments = 0, events = 0;

    __device__ inline Room(PartSegments part, uint32_t unit, uint32_t units) {
        while (part.next_class()) {
            const uint32_t elements = PartClass(part.of(), part.range).elements(), count = ceil_div(elements, SEGMENT);
            const uint32_t own = (count + units - 1 - unit) / units,
                           last = elements - (max_of(count, 1u) - 1) * SEGMENT;
            const bool has_last = count > 0 && (count - 1) % units == unit;
            segments += count;
            // Few elements have no count.
            events += own * (SEGMENT + 1) - (has_last ? SEGMENT - last + (last < LEAST_QUIET) : 0);
        }
    }
};

// Codes a part to its units, of which `first_unit` is the first. Called by a whole block of threads, or by a warp for
// itself.
template <bool OF_BLOCK>
__device__ inline void encode_part(const Work &work, PartSegments part, const PartUnits &units, uint32_t first_unit) {
    const uint32_t warps = OF_BLOCK ? WARPS : 1, rank = OF_BLOCK ? uniform(warp_id()) : 0;
    const auto synchronize = [] {
        if (OF_BLOCK) {
            __syncthreads();
        } else {
            __syncwarp();
        }
    };
    SegmentEvents *const prepared = work.prepared + (OF_BLOCK ? 0 : warp_id());
    const bool has_unit = rank < units.units;
    const Room room(part, rank % units.units, units.units);
    // An event takes two words at most, and so does the state of a lane.
    const uint32_t words = 2 * (room.events + units.lanes);
    uint32_t place = 0;
    if (lane_id() == 0 && has_unit) {
        place = atomicAdd(work.taken, words);
    }
    uint16_t *const end = work.words + warp_broadcast(place, 0) + words;
    UnitWriter writer{work.coding, LOWEST, units.lanes, end, false};
    uint32_t ahead = 1 + rank;
    for (uint32_t done = 0; done < room.segments; done += warps) {
        if (part.move(ahead)) {
            prepare(work.coding, work.codes, part, units.units, prepared[rank]);
        } else if (lane_id() == 0) {
            prepared[rank].unit = SegmentEvents::NO_UNIT;
        }
        ahead = warps;
        synchronize();
        for (uint32_t i = 0; i < warps; ++i) {
            if (prepared[i].unit == rank) {
                writer.put_segment(prepared[i]);
            }
        }
        synchronize();
    }
    const uint16_t *const begin = writer.finish(end);
    if (lane_id() == 0 && has_unit) {
        work.made[first_unit + rank] = BlockUnit{uint32_t(begin - work.words), uint32_t(end - begin)};
    }
}

// Chooses the lanes of the first part of a block with so many events, as an exponent of 2: many, so that units are
// coded fast, but few, so that they take few bytes.
__device__ inline uint32_t choose_lanes(uint32_t events, const EncodeTables &tables, uint32_t division) {
    // A lane takes about two bytes more than it carries.
    constexpr uint32_t BYTES_OF_LANE = 256;
    const uint64_t bytes = tables.bits * events / max_of<uint64_t>(tables.events, 1) / 8;
    // A box has about a ninth of the bytes, and a quarter of the lanes.
    const uint64_t of_first = division == DIVISION_ONE ? bytes : bytes * LANES_FOR_BOX / 9;
    const uint64_t lanes = min_of<uint64_t>(of_first / BYTES_OF_LANE, 1u << blocks::MAX_LANES_LOG2);
    return 31 - __clz(max_of(uint32_t(lanes), 1u));
}

extern "C" __global__ void __launch_bounds__(THREADS, 3)
    blocks_encode(const __grid_constant__ Geometry geometry, const __grid_constant__ ChunkBatch batch,
                  const __grid_constant__ EncodedBlocks to) {
    // The tables, and behind them what the warps have prepared.
    extern __shared__ __align__(16) uint64_t near[];
    __shared__ uint8_t of_context[blocks::CONTEXTS];
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
    const Coding coding{SharedWords(near), tables.intervals, SharedBytes(of_context)};
    const Tile tile = geometry.tile(batch.first_tile + number);
    const BlockPlan plan = to.plans[chunk];
    const BlockShape shape(tile, geometry, plan.slices);
    const uint32_t lanes_log2 = choose_lanes(to.events[number], tables, plan.division);
    const BlockUnits units(shape, plan, lanes_log2);
    if (threadIdx.x == 0) {
        to.places[number].lanes_log2 = lanes_log2;
        to.places[number].units = units.count();
    }
    const uint64_t position = tile.elements_before - geometry.elements_before(batch.first_tile);
    const Work work{coding,
                    to.codes + position,
                    reinterpret_cast<SegmentEvents *>(near + blocks::NEAR_TABLES * blocks::INTERVALS),
                    to.words + block_words_at(position, number, to.units_of_block),
                    &taken,
                    to.units + uint64_t(number) * to.units_of_block};
    const PartUnits of_box{1, units.box_lanes};
    const bool is_by_warps = units.boxes > 1;
    for (uint32_t part = 0; part < (units.has_boxes() && !is_by_warps ? 2 : 1); ++part) {
        encode_part<true>(work, PartSegments(shape, units, part > 0, 0), part > 0 ? of_box : units.first,
                          part > 0 ? units.first.units : 0);
    }
    for (uint32_t box = warp_id(); is_by_warps && box < units.boxes; box += WARPS) {
        encode_part<false>(work, PartSegments(shape, units, true, box), of_box, units.first.units + box);
    }
}
