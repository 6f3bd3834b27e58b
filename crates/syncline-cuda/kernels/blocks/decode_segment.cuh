// Decodes segments (docs/FORMAT.md, "Segments"): a warp, which has the unit of its part that they are in.
#pragma once
#include "blocks/decode_unit.cuh"
#include "blocks/segments.cuh"

// The contexts of a segment in shared memory, and its quiet elements as `find_contexts` returns them.
struct SegmentContexts {
    uint8_t contexts[SEGMENT];
    uint32_t quiet[WARP];
};

// What a warp that decodes a segment has in shared memory: places in the segment, and a bit for each found element.
struct SegmentLists {
    uint16_t places[SEGMENT];
    uint32_t found[WARP];
};

// Returns the place of the bit in a word that has so many set bits before it.
__device__ inline uint32_t place_of_bit(uint32_t word, uint32_t before) {
    uint32_t place = 0;
#pragma unroll
    for (uint32_t half = 16; half > 0; half /= 2) {
        const uint32_t low = __popc(word >> place & ((1u << half) - 1));
        place += before >= low ? half : 0;
        before -= before >= low ? low : 0;
    }
    return place;
}

struct SegmentDecoder {
    Unit &unit;
    const DecodeTables &tables;
    const KindContexts known;
    SegmentLists &lists;
    const SharedHalves places; // of `lists`

    __device__ inline SegmentDecoder(Unit &unit, const DecodeTables &tables, uint32_t kind, SegmentLists &lists)
        : unit(unit), tables(tables), known(kind), lists(lists), places(lists.places) {}

    // Decodes the codes of a segment of `count` elements: calls `write(place, code)` for those that are not as expected
    // of all elements: 0, or mask 0 where there are only masks around a quiet element that may be found. Called by a
    // whole warp.
    template <typename Write>
    __device__ inline void decode(SegmentContexts &segment, uint32_t count, Write write) const {
        // All symbols of an empty unit are 0.
        if (unit.is_empty) {
            return;
        }
        const SharedBytes contexts(segment.contexts);
        const uint32_t quiet = segment.quiet[lane_id()], through = warp_inclusive_sum(uint32_t(__popc(quiet)));
        const uint32_t all_quiet = warp_broadcast(through, WARP - 1);
        uint32_t found = ALL_LANES;
        if (all_quiet >= LEAST_QUIET) {
            const int32_t code = unit.next(tables, lane_id() == 0 ? tables.coding(known.count) : Coding());
            found = number_of_code(warp_broadcast(code, 0));
        }
        const bool is_plain = found > most_found(all_quiet);
        const uint32_t listed = is_plain ? count : list(contexts, count, quiet, through, found);
        decode_list(contexts, listed, is_plain, all_quiet >= LEAST_QUIET ? code_of_mask(0) : 0, write);
        // Others are listed next.
        __syncwarp();
    }

  private:
    // Lists the places of the elements of a segment that are coded: those that are not quiet, and those that are found.
    // Returns how many there are. Called by a whole warp.
    __device__ inline uint32_t list(const SharedBytes &contexts, uint32_t count, uint32_t quiet, uint32_t through,
                                    uint32_t found) const {
        const uint32_t first = lane_id() * WARP, own = first < count ? min_of(count - first, WARP) : 0;
        uint32_t coded = (own < WARP ? (1u << own) - 1 : ALL_LANES) & ~quiet;
        if (found > 0) {
            coded |= find(contexts, quiet, through, found);
        }
        const uint32_t coded_through = warp_inclusive_sum(uint32_t(__popc(coded)));
        uint32_t to = coded_through - __popc(coded);
        for (uint32_t left = coded; left != 0; left &= left - 1) {
            places.store(to++, first + __ffs(int32_t(left)) - 1);
        }
        __syncwarp();
        return warp_broadcast(coded_through, WARP - 1);
    }

    // Finds quiet elements by the gaps between them, and gives them their contexts. Returns them, a bit each, as
    // `quiet` has them, of which there are `through` in the words of the lanes up to this one. Called by a whole warp.
    __device__ inline uint32_t find(const SharedBytes &contexts, uint32_t quiet, uint32_t through,
                                    uint32_t found) const {
        const uint32_t all_quiet = warp_broadcast(through, WARP - 1);
        const Coding gaps = tables.coding(gaps_context(all_quiet, found));
        for (uint32_t begin = 0; begin < found; begin += unit.lanes) {
            const uint32_t i = begin + lane_id();
            const bool exists = lane_id() < unit.lanes && i < found;
            const uint32_t gap = number_of_code(unit.next(tables, exists ? gaps : Coding()));
            if (exists) {
                places.store(i, min_of(gap, SEGMENT));
            }
        }
        lists.found[lane_id()] = 0;
        __syncwarp();
        uint32_t passed = 0;
        for (uint32_t begin = 0; begin < found; begin += WARP) {
            const uint32_t i = begin + lane_id();
            const uint32_t after = passed + warp_inclusive_sum(i < found ? places.load(i) + 1 : 0);
            passed = warp_broadcast(after, WARP - 1);
            // The first lane with more quiet elements than are before this one.
            uint32_t word = 0;
#pragma unroll
            for (uint32_t half = WARP / 2; half > 0; half /= 2) {
                word += __shfl_sync(ALL_LANES, through, word + half - 1) < after ? half : 0;
            }
            const uint32_t bits = __shfl_sync(ALL_LANES, quiet, word);
            const uint32_t before = __shfl_sync(ALL_LANES, through, word) - __popc(bits);
            // Behind the last quiet element nothing is found.
            if (i < found && after <= all_quiet) {
                const uint32_t bit = place_of_bit(bits, after - 1 - before), place = word * WARP + bit;
                atomicOr(&lists.found[word], 1u << bit);
                if (contexts.load(place) == known.quiet) {
                    contexts.store(place, known.found);
                }
            }
        }
        __syncwarp();
        return lists.found[lane_id()];
    }

    // Decodes a list of `count` elements: all of the segment, or those at `places`. `masked` is what is expected where
    // there are only masks around. Called by a whole warp.
    template <typename Write>
    __device__ inline void decode_list(const SharedBytes &contexts, uint32_t count, bool are_all, int32_t masked,
                                       Write write) const {
        if (count == 0) {
            return;
        }
        // Loads do not wait for each other: of the elements of the next steps, one further each.
        const auto place_of = [&](uint32_t first) {
            const uint32_t i = min_of(first + lane_id(), count - 1);
            return are_all ? i : places.load(i);
        };
        uint32_t place = place_of(0), next_place = place_of(WARP), third_place = place_of(2 * WARP);
        uint32_t next_context = contexts.load(next_place);
        uint32_t coding = tables.coding(contexts.load(place)).word;
        for (uint32_t first = 0; first < count; first += WARP) {
            const uint32_t own_place = place, codings = first + lane_id() < count ? coding : Coding().word;
            place = next_place;
            coding = tables.coding(next_context).word;
            next_place = third_place;
            next_context = contexts.load(next_place);
            third_place = place_of(first + 3 * WARP);
            const auto of_group = [&](uint32_t begin) {
                const uint32_t word = __shfl_sync(ALL_LANES, codings, (begin + lane_id()) % WARP);
                return lane_id() < unit.lanes ? Coding(word) : Coding();
            };
            // Behind the end there is nothing.
            for (uint32_t begin = 0; begin < min_of(count - first, WARP);) {
                if (unit.has_few_lanes() && (begin & (AHEAD * unit.lanes - 1)) == 0 &&
                    unit.pass_zeros<AHEAD>([&](uint32_t i) { return of_group(begin + i * unit.lanes); })) {
                    begin += AHEAD * unit.lanes;
                    continue;
                }
                const Coding own = of_group(begin);
                const int32_t code = unit.next(tables, own);
                const uint32_t to = __shfl_sync(ALL_LANES, own_place, (begin + lane_id()) % WARP);
                if (code != (own.is_masked() ? masked : 0)) {
                    write(to, code);
                    unit.largest = max_of(unit.largest, code);
                }
                begin += unit.lanes;
            }
        }
    }
};
