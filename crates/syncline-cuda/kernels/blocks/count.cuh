// Counts the symbols of a block by context.
//
// THREADS  threads of a block
#pragma once
#include "blocks/segments.cuh"

// Symbols of a chunk or of a sample, by context, in shared memory.
struct SymbolCounts {
    uint32_t of[blocks::CONTEXTS][blocks::SYMBOLS];
};

// Counts the symbols of a class that are coded in a unit. Called by the whole block.
template <typename Code>
__device__ inline void count_class(const Code &code, const BlockShape &shape, const BlockClass &of,
                                   const UnitRange &range, SymbolCounts &counts) {
    const UnitClass part(of, range);
    const uint32_t all = part.elements();
    if (all == 0) {
        return;
    }
    const UnitElements elements(part);
    const Neighbors neighbors(shape, of, range);
    const CompactClass own(shape, of.level, of.number);
    const uint32_t kind = kind_of(of);
    const KindContexts known(kind);
    // Most segments have a flag that is not set, and most other zeros are in the first contexts of their kind.
    uint32_t flags = 0, zeros = 0;
    for (uint32_t run = warp_id() * RUN; run < all; run += THREADS / WARP * RUN) {
        const uint32_t count = min_of(all - run, RUN);
        for_each_segment(code, neighbors, kind, elements, own, run, count, [&](const CodedSegment &segment) {
            flags += segment.is_calm && !segment.is_flagged;
            if (segment.is_flagged && lane_id() == 0) {
                atomicAdd(&counts.of[known.flag][blocks::FIRST_MASK], 1);
            }
            if (segment.is_coded() && segment.exists) {
                if (segment.context == known.calm && segment.code == 0 && !segment.is_flagged) {
                    ++zeros;
                } else {
                    atomicAdd(&counts.of[segment.coded_context(known)][Symbol(segment.code).symbol], 1);
                }
            }
        });
    }
    zeros = warp_reduce_sum(zeros);
    if (lane_id() == 0) {
        atomicAdd(&counts.of[known.flag][0], flags);
        atomicAdd(&counts.of[known.calm][0], zeros);
    }
}

// Counts the symbols of a block's codes. Called by the whole block.
template <typename Code>
__device__ inline void count_symbols(const Code &code, const BlockShape &shape, const BlockUnits &units,
                                     SymbolCounts &counts) {
    const uint32_t boxes = units.division == DIVISION_BOXES ? units.boxes : 1;
    for (uint32_t level = 0; level < shape.levels; ++level) {
        for (uint32_t pass = 0; pass < PASSES; ++pass) {
            const BlockClass of(shape, level, class_of_pass(pass));
            for (uint32_t box = 0; box < (level == 0 ? boxes : 1); ++box) {
                const bool is_box = level == 0 && units.division == DIVISION_BOXES;
                count_class(code, shape, of, is_box ? units.range(box) : BlockUnits::everything(), counts);
            }
        }
    }
}
