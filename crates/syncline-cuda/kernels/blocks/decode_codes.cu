// Decodes the codes of blocks: a block of threads each. All warps find the contexts of runs, the first one decodes
// them; of several boxes, each warp decodes its own.
//
// THREADS        threads of a block
// See also quantize/stored.cuh.
#define LOGARITHM 0
#include "blocks/rans.cuh"
#include "blocks/segments.cuh"
#include "blocks/wanted.cuh"
#include "device/shared.cuh"
#include "device/sync.cuh"

constexpr uint32_t WARPS = THREADS / WARP;

// How an element is coded: the number of its table; above it the frequency of symbol 0; and whether all around it are
// zeros, or masks.
struct Coding {
    uint32_t word;

    static constexpr uint32_t CALM = 1u << 31, MASKED = 1u << 30;

    // Nothing is coded: symbol 0 leaves a state as it is.
    __device__ inline static Coding none() { return {TOTAL << 8}; }
    __device__ inline uint32_t table() const { return word & 255; }
    __device__ inline uint32_t of_zero() const { return word >> 8 & (2 * TOTAL - 1); }
    __device__ inline bool is_calm() const { return (word & CALM) != 0; }
    __device__ inline bool is_masked() const { return (word & MASKED) != 0; }
};

// Groups that are decoded at once if all of their codes are 0.
constexpr uint32_t AHEAD = 4;

// A run in shared memory: how its elements are coded, which their codes replace.
struct Run {
    uint32_t words[RUN];
};

// The tables of the block's chunk: as many as there is room for in shared memory, the others where parsing left them.
struct DecodeTables {
    const SharedWords near;
    const DecodeTable *all;
    const Coding *of_contexts; // in shared memory

    __device__ inline Interval find(uint32_t table, uint32_t slot) const {
        constexpr uint32_t WORDS = sizeof(DecodeTable) / 4, FIRST_INTERVAL = sizeof(DecodeTable::parts) / 4;
        if (table >= blocks::NEAR_TABLES) {
            return all[table].find(slot);
        }
        const uint32_t part = near.load(WORDS * table + slot / PART_SLOTS);
        return Interval(near.load(WORDS * table + FIRST_INTERVAL + DecodeTable::interval(part, slot)));
    }
};

// A unit of a block. The warps of a block of threads have the same one, and the first of them decodes.
struct Unit {
    Words words;
    UnitRange range;
    uint32_t state, lanes;
    bool is_good, is_empty; // all symbols of an empty unit are 0
    int32_t largest;        // of the codes that the lane has decoded

    // `starts` has the first word of the unit and that of the next one.
    __device__ inline Unit(const uint8_t *input, const BlockPlan &plan, const BlockUnits &units, const uint32_t *starts,
                           const UnitRange &range)
        : words(reinterpret_cast<const uint16_t *>(input + plan.words) + starts[0], starts[1] - starts[0],
                starts[0] == starts[1] ? 0 : 2 * units.lanes),
          range(range), state(LOWEST), lanes(units.lanes), is_empty(starts[0] == starts[1]), largest(0) {
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

    // Decodes an event of each lane. Returns the codes, 0 of lanes without one. Called by a whole warp.
    __device__ inline int32_t next(const DecodeTables &tables, Coding own) {
        const uint32_t slot = state % TOTAL, ahead = own.of_zero() * (state / TOTAL) + slot;
        // Most codes are 0, and take no word.
        if (__all_sync(ALL_LANES, slot < own.of_zero() && ahead >= LOWEST)) {
            state = ahead;
            return 0;
        }
        const bool has_code = own.word != Coding::none().word;
        const Interval found = has_code ? tables.find(own.table(), slot) : Interval(0, 0, TOTAL);
        return next_code(words, state, found);
    }

    // Returns the flags of `count` segments, a bit each. Called by a whole warp.
    __device__ inline uint32_t flags(const DecodeTables &tables, uint32_t context, uint32_t count) {
        uint32_t flags = 0;
        for (uint32_t first = 0; first < count && !is_empty; first += lanes) {
            const bool has_code = lane_id() < lanes && first + lane_id() < count;
            const Coding own = has_code ? tables.of_contexts[context] : Coding::none();
            flags |= __ballot_sync(ALL_LANES, next(tables, own) != 0) << first;
        }
        return flags;
    }

    // Decodes a run of `count` elements, of whose segments some are calm. Called by a whole warp.
    __device__ inline void decode(const DecodeTables &tables, uint32_t kind, uint32_t calm, uint32_t count, Run &run) {
        const KindContexts known(kind);
        const uint32_t set = flagged_segments(calm, flags(tables, known.flag, __popc(calm)));
        const Coding flagged = tables.of_contexts[known.flagged];
        const SharedWords own(run.words);
        const auto word_of = [&](uint32_t segment) {
            const uint32_t place = segment * SEGMENT + lane_id();
            return place < count ? own.load(place) : Coding::none().word;
        };
        uint32_t ahead = word_of(0);
        for (uint32_t segment = 0; segment * SEGMENT < count; ++segment) {
            Coding coding{ahead};
            ahead = word_of(segment + 1);
            const uint32_t first = segment * SEGMENT;
            const bool is_calm = calm >> segment & 1, is_flagged = set >> segment & 1;
            // What is not coded, and most of what is.
            const bool is_expected_mask = is_calm && !is_flagged && coding.is_masked();
            largest = is_expected_mask ? max_of(largest, code_of_mask(0)) : largest;
            if (first + lane_id() < count) {
                own.store(first + lane_id(), is_expected_mask ? code_of_mask(0) : 0);
            }
            if (is_empty || (is_calm && !is_flagged)) {
                continue;
            }
            coding = is_flagged && coding.is_calm() ? flagged : coding;
            const auto of_group = [&](uint32_t begin) {
                const uint32_t word = __shfl_sync(ALL_LANES, coding.word, (begin + lane_id()) % WARP);
                return Coding{lane_id() < lanes ? word : Coding::none().word};
            };
            // Codes go where other lanes have put zeros.
            __syncwarp();
            const auto decode_group = [&](uint32_t begin, Coding of_this) {
                const int32_t code = next(tables, of_this);
                if (code != 0) {
                    own.store(first + begin + lane_id(), uint32_t(code));
                    largest = max_of(largest, code);
                }
            };
            // Few lanes have several groups at once, if all of their codes are 0. Behind the end there is nothing.
            for (uint32_t begin = 0; begin < SEGMENT && lanes * AHEAD <= SEGMENT; begin += AHEAD * lanes) {
                Coding groups[AHEAD];
                uint32_t state_ahead = state;
                bool are_zeros = true;
#pragma unroll
                for (uint32_t i = 0; i < AHEAD; ++i) {
                    groups[i] = of_group(begin + i * lanes);
                    const uint32_t slot = state_ahead % TOTAL;
                    state_ahead = groups[i].of_zero() * (state_ahead / TOTAL) + slot;
                    are_zeros &= slot < groups[i].of_zero() && state_ahead >= LOWEST;
                }
                if (__all_sync(ALL_LANES, are_zeros)) {
                    state = state_ahead;
                    continue;
                }
#pragma unroll
                for (uint32_t i = 0; i < AHEAD; ++i) {
                    decode_group(begin + i * lanes, groups[i]);
                }
            }
            for (uint32_t begin = 0; begin < SEGMENT && lanes * AHEAD > SEGMENT; begin += lanes) {
                decode_group(begin, of_group(begin));
            }
        }
    }
};

// What all units of a block have.
struct Work {
    const BlockShape &shape;
    const CompactBlock &block;
    const DecodeTables &tables;
    Run *runs;      // one for each warp
    uint32_t *calm; // likewise
};

// Decodes the codes of a class that are in a unit. Called by a whole block of threads, or by a warp for itself.
template <bool OF_BLOCK> __device__ inline void decode_class(const Work &work, const BlockClass &of, Unit &unit) {
    const UnitClass part(of, unit.range);
    const uint32_t all = part.elements();
    if (all == 0) {
        return;
    }
    const UnitElements elements(part);
    const Neighbors neighbors(work.shape, of, unit.range);
    const CompactClass own(work.shape, of.level, of.number);
    const uint32_t kind = kind_of(of);
    const KindContexts known(kind);
    const auto code = [&](uint32_t place) { return work.block.code(place); };
    Run &run = work.runs[warp_id()];
    for (uint32_t begin = 0; begin < all; begin += OF_BLOCK ? WARPS * RUN : RUN) {
        const auto count_of = [&](uint32_t warp) {
            const uint32_t first = begin + warp * RUN;
            return first < all ? min_of(all - first, RUN) : 0;
        };
        const uint32_t number = OF_BLOCK ? warp_id() : 0, first = begin + number * RUN, count = count_of(number);
        const uint32_t calm =
            find_contexts(code, neighbors, kind, elements, first, count, [&](uint32_t i, uint32_t context) {
                const uint32_t calm = context == known.calm ? Coding::CALM : 0;
                const uint32_t masked = context == known.masked ? Coding::MASKED : 0;
                run.words[i] = work.tables.of_contexts[context].word | calm | masked;
            });
        if (OF_BLOCK) {
            work.calm[warp_id()] = calm;
            __syncthreads();
            for (uint32_t warp = 0; warp < WARPS && warp_id() == 0; ++warp) {
                unit.decode(work.tables, kind, work.calm[warp], count_of(warp), work.runs[warp]);
            }
            __syncthreads();
        } else {
            __syncwarp();
            unit.decode(work.tables, kind, calm, count, run);
            __syncwarp();
        }
        for (uint32_t i = 0; i < count; i += WARP) {
            uint32_t at[3];
            elements.coordinates(first + i, at);
            if (i + lane_id() < count) {
                work.block.code(own.place(at)) = int32_t(run.words[i + lane_id()]);
            }
        }
    }
    // The codes are visible to the threads that look at them next.
    if (OF_BLOCK) {
        __syncthreads();
    } else {
        __syncwarp();
    }
}

// Decodes the codes of a unit from level `first` down to level `last`.
template <bool OF_BLOCK>
__device__ inline void decode_levels(const Work &work, uint32_t first, uint32_t last, Unit &unit) {
    for (uint32_t level = first + 1; level-- > last;) {
        for (uint32_t pass = 0; pass < PASSES; ++pass) {
            decode_class<OF_BLOCK>(work, BlockClass(work.shape, level, class_of_pass(pass)), unit);
        }
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
__device__ inline Found decode_codes(const uint8_t *input, const BlockPlan &plan, const uint32_t *starts,
                                     const Work &work) {
    const BlockUnits units(work.shape, plan);
    const bool is_divided = units.division != DIVISION_ONE, has_level = work.shape.levels > 0;
    Found found{true, 0};
    Unit coarse(input, plan, units, starts, BlockUnits::everything());
    decode_levels<true>(work, work.shape.levels - 1, is_divided ? 1 : 0, coarse);
    if (warp_id() == 0) {
        found.add(coarse);
    }
    if (is_divided && units.boxes == 1) {
        Unit fine(input, plan, units, starts + 1, units.range(0));
        decode_levels<true>(work, has_level ? 0 : ALL_LANES, 0, fine);
        if (warp_id() == 0) {
            found.add(fine);
        }
    }
    for (uint32_t box = warp_id(); is_divided && units.boxes > 1 && box < units.boxes; box += WARPS) {
        Unit own(input, plan, units, starts + 1 + box, units.range(box));
        decode_levels<false>(work, has_level ? 0 : ALL_LANES, 0, own);
        found.add(own);
    }
    return found;
}

extern "C" __global__ void __launch_bounds__(THREADS, 3)
    blocks_decode_codes(const uint8_t *input, const __grid_constant__ Geometry geometry,
                        const __grid_constant__ Parsed parsed, const __grid_constant__ ParsedBlocks blocks,
                        const __grid_constant__ Request request) {
    extern __shared__ __align__(16) uint8_t near[];
    __shared__ Coding of_contexts[blocks::CONTEXTS];
    __shared__ Run runs[WARPS];
    __shared__ uint32_t calm[WARPS];
    launch_dependents_and_wait();
    if (!WantedBlock::exists(parsed, request)) {
        return;
    }
    const WantedBlock own(geometry, parsed, request, nullptr);
    if (own.record.kind == KIND_RAW) {
        return;
    }
    const BlockPlan plan = blocks.plans[own.chunk];
    const BlockShape shape(own.tile, geometry, plan.slices);
    const BlockTables &tables = blocks.tables[own.chunk];
    const DecodeTable *all = reinterpret_cast<const DecodeTable *>(tables.tables);
    for (uint32_t i = threadIdx.x; i < blocks::CONTEXTS; i += THREADS) {
        const uint32_t number = tables.of_context[i];
        of_contexts[i] = Coding{number | all[number].of_zero() << 8};
    }
    // Contexts have ascending numbers of tables.
    const uint32_t near_tables = min_of(tables.of_context[blocks::CONTEXTS - 1] + 1u, blocks::NEAR_TABLES);
    for (uint32_t i = threadIdx.x; i < near_tables * (sizeof(DecodeTable) / 4); i += THREADS) {
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
    const DecodeTables of_chunk{SharedWords(near), all, of_contexts};
    const Found found = decode_codes(input, plan, starts, Work{shape, block, of_chunk, runs, calm});
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
