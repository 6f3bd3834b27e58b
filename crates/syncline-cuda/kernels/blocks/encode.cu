// Codes the units of blocks by rANS: a block of threads for each block. A unit is coded by a team of threads, or by a
// warp if there are several boxes. The last code is coded first, so that decoders meet them in order, and words are
// written from the end of the unit's room down.
//
// THREADS  threads of a block
#include "blocks/contexts.cuh"
#include "blocks/masks.cuh"
#include "blocks/symbol.cuh"
#include "blocks/tables.cuh"
#include "blocks/window.cuh"
#include "device/sync.cuh"

constexpr uint32_t LOWEST = 1u << 16;

// The codes of a block, in its raster order.
struct BlockCodes {
    const BlockShape &shape;
    const int32_t *codes;

    __device__ inline uint64_t stride(uint32_t axis) const { return shape.in_block[axis]; }
    __device__ inline int32_t code(uint64_t at) const { return codes[at]; }
};

// A code and the number of its table, as a word of a window. Without a table, the code is 0.
struct Event {
    uint32_t word;

    __device__ inline explicit Event(uint32_t word) : word(word) {}
    __device__ inline Event(int32_t code, uint32_t table) : word(uint32_t(code) << 8 | table) {}
    __device__ inline int32_t code() const { return int32_t(word) >> 8; }
    __device__ inline uint32_t table() const { return word & 255; }
};

// The tables of the block's chunk, in shared memory.
struct Coding {
    EncodeTables tables;
    uint16_t of_zeros[NO_TABLE + 1]; // the frequency of symbol 0 by table; TOTAL without a table
    uint32_t inverses[TOTAL + 1];    // of frequencies, in units of 2^-32, rounded down

    // Called by the whole block.
    __device__ inline void load(const EncodeTables &from) {
        for (uint32_t i = threadIdx.x; i < sizeof(tables) / 4; i += THREADS) {
            reinterpret_cast<uint32_t *>(&tables)[i] = reinterpret_cast<const uint32_t *>(&from)[i];
        }
        for (uint32_t i = threadIdx.x; i <= TOTAL; i += THREADS) {
            inverses[i] = i <= 1 ? ALL_LANES : uint32_t((uint64_t(1) << 32) / i);
        }
        __syncthreads();
        for (uint32_t i = threadIdx.x; i <= NO_TABLE; i += THREADS) {
            of_zeros[i] = i < tables.tables ? tables.starts[i][1] : TOTAL;
        }
        __syncthreads();
    }
};

// Returns a state with a symbol: `quotient * TOTAL`, the remainder, and the symbol's start.
__device__ inline uint32_t with_symbol(uint32_t state, uint32_t frequency, uint32_t inverse, uint32_t start) {
    uint32_t quotient = __umulhi(state, inverse);
    // The inverse is rounded down, so that the quotient may be too small by 1.
    quotient += state - quotient * frequency >= frequency;
    return state + quotient * (TOTAL - frequency) + start;
}

// How a state takes a code of 0.
struct Quiet {
    uint32_t frequency, inverse; // the frequency is 0 for other codes

    Quiet() = default;
    __device__ inline Quiet(const Coding &coding, Event event)
        : frequency(event.code() == 0 ? coding.of_zeros[event.table()] : 0), inverse(coding.inverses[frequency]) {}
    // Whether a state takes the code without giving a word.
    __device__ inline bool fits(uint32_t state) const { return state >> (32 - blocks::TABLE_LOG2) < frequency; }
};

// Writes a unit. Each warp of a team has it; the first one codes.
struct UnitWriter {
    const Coding &coding;
    uint32_t state, lanes;
    uint16_t *end; // one behind the word that is written next
    bool any;      // whether a code of the lane was not 0

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
    __device__ inline void put(Event event) {
        const bool has_code = event.table() != NO_TABLE;
        const Symbol symbol(event.code());
        const uint32_t count = bits_of_symbol(symbol.symbol), early = min_of(count, EARLY_BITS), late = count - early;
        if (__any_sync(ALL_LANES, late > 0)) {
            take(late > 0 && state >> (32 - late) != 0);
            state = late > 0 ? state << late | symbol.bits >> early : state;
        }
        const uint16_t *starts = coding.tables.starts[has_code ? event.table() : 0];
        const uint32_t start = starts[symbol.symbol], frequency = has_code ? starts[symbol.symbol + 1] - start : TOTAL;
        take(has_code && uint64_t(state) >= uint64_t(frequency) << (32 - blocks::TABLE_LOG2 - early));
        if (has_code) {
            state = with_symbol(state << early | (symbol.bits & ((1u << early) - 1)), frequency,
                                coding.inverses[frequency], start);
            any |= event.code() != 0;
        }
    }

    // Codes the events of a window, the last group of lanes first. Called by a whole warp.
    __device__ inline void put_all(const uint32_t *window, uint32_t count) {
        Quiet own[AHEAD], next[AHEAD];
        // Behind the window, and before it, there are no codes.
        const auto event = [&](int32_t group) {
            const int32_t at = group * int32_t(lanes) + int32_t(lane_id());
            const bool exists = lane_id() < lanes && group >= 0 && at < int32_t(count);
            return exists ? Event(window[at]) : Event(0, NO_TABLE);
        };
        const auto load = [&](int32_t last) {
#pragma unroll
            for (uint32_t i = 0; i < AHEAD; ++i) {
                next[i] = Quiet(coding, event(last - int32_t(i)));
            }
        };
        const int32_t groups = int32_t(ceil_div(count, lanes));
        load(groups - 1);
        for (int32_t last = groups - 1; last >= 0; last -= int32_t(AHEAD)) {
#pragma unroll
            for (uint32_t i = 0; i < AHEAD; ++i) {
                own[i] = next[i];
            }
            // No state waits for these.
            load(last - int32_t(AHEAD));
            uint32_t ahead = state;
            bool is_quiet = true;
#pragma unroll
            for (uint32_t i = 0; i < AHEAD; ++i) {
                is_quiet &= own[i].fits(ahead);
                ahead = with_symbol(ahead, own[i].frequency, own[i].inverse, 0);
            }
            if (__all_sync(ALL_LANES, is_quiet)) {
                state = ahead;
                continue;
            }
            for (int32_t group = last; group >= 0 && last - group < int32_t(AHEAD); --group) {
                put(event(group));
            }
        }
    }
};

// A unit of a block: the part of the classes of some levels that is in its range.
struct UnitWork {
    const BlockShape &shape;
    const BlockCodes &codes;
    const BlockMasks &masks;
    UnitRange range;
    uint32_t first_level, last_level; // from the finest level up to one before the last

    // Codes the elements of a class, the last one first. Called by the whole team.
    template <uint32_t SIZE>
    __device__ inline void put_class(const BlockClass &of, UnitWriter &writer, uint32_t *window) const {
        using Own = Team<SIZE>;
        const UnitClass part(of, range);
        if (part.elements() == 0) {
            return;
        }
        const UnitElements elements(shape, of, part);
        for (uint32_t number = ceil_div(part.elements(), Own::WINDOW); number-- > 0;) {
            const uint32_t begin = number * Own::WINDOW, count = min_of(Own::WINDOW, part.elements() - begin);
            for (uint32_t i = Own::rank(); i < count; i += SIZE) {
                const BlockElement element = elements[begin + i];
                const uint32_t at = element.in_block(shape);
                Event event(0, NO_TABLE);
                if (!masks.have(at)) {
                    const uint32_t context = context_of(of, activity(codes, shape, of, range, element, at));
                    event = Event(codes.code(at), writer.coding.tables.of_context[context]);
                }
                window[i] = event.word;
            }
            Own::sync();
            if (Own::is_first_warp()) {
                writer.put_all(window, count);
            }
            Own::sync();
        }
    }

    // Codes the unit to words that end at `end`. Returns where they begin, on the first warp of the team. Called by the
    // whole team.
    template <uint32_t SIZE>
    __device__ inline uint16_t *put(const Coding &coding, uint32_t lanes, uint16_t *end, uint32_t *window) const {
        UnitWriter writer{coding, LOWEST, lanes, end, false};
        for (uint32_t level = first_level; level < last_level; ++level) {
            for (uint32_t pass = PASSES; pass-- > 0;) {
                put_class<SIZE>(BlockClass(shape, level, class_of_pass(pass)), writer, window);
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
    __shared__ Coding coding;
    __shared__ uint32_t window[Team<THREADS>::WINDOW];
    __shared__ uint32_t taken;
    grid_dependency_wait();
    launch_dependents();
    const uint32_t number = blockIdx.x, chunk = number / batch.chunk_tiles;
    if (threadIdx.x == 0) {
        taken = 0;
    }
    coding.load(to.encode_tables[chunk]);
    const Tile tile = geometry.tile(batch.first_tile + number);
    const BlockPlan plan = to.plans[chunk];
    const BlockShape shape(tile, geometry, plan.slices);
    const BlockUnits units(shape, plan);
    const uint64_t position = tile.elements_before - geometry.elements_before(batch.first_tile);
    const BlockCodes codes{shape, to.codes + position};
    const BlockMasks masks(to.masks + uint64_t(number) * to.masks_stride,
                           to.bitmaps + uint64_t(number) * to.masks_stride * to.bitmap_words, plan.masks,
                           to.bitmap_words);
    uint16_t *const words = to.words + block_words_at(position, number, to.units_of_block);
    const bool is_by_warps = units.boxes > 1;
    for (uint32_t unit = is_by_warps ? warp_id() : 0; unit < units.count(); unit += is_by_warps ? THREADS / WARP : 1) {
        const bool is_box = unit > 0, is_all = units.division == DIVISION_ONE;
        const UnitWork work{shape,
                            codes,
                            masks,
                            is_box ? units.range(unit - 1) : BlockUnits::everything(),
                            is_box || is_all ? 0u : 1u,
                            is_box ? min_of(shape.levels, 1u) : shape.levels};
        // Each code takes two words at most, and the state of a lane, too.
        const uint32_t finest = finest_elements(shape, work.range);
        const uint32_t elements = is_box ? finest : tile.elements() - (is_all ? 0 : finest);
        const uint32_t room = 2 * (elements + units.lanes);
        uint32_t place = 0;
        if (lane_id() == 0 && (is_by_warps || warp_id() == 0)) {
            place = atomicAdd(&taken, room);
        }
        place = warp_broadcast(place, 0);
        uint16_t *const end = words + place + room;
        const uint16_t *const begin =
            is_by_warps ? work.put<WARP>(coding, units.lanes, end, window + warp_id() * Team<WARP>::WINDOW)
                        : work.put<THREADS>(coding, units.lanes, end, window);
        if (lane_id() == 0 && (is_by_warps || warp_id() == 0)) {
            BlockUnit &own = to.units[uint64_t(number) * to.units_of_block + unit];
            own.place = uint32_t(begin - words);
            own.count = uint32_t(end - begin);
        }
    }
}
