// Visits the codes of a block with their contexts, in the order of decoding, and counts symbols.
//
// THREADS  threads of a block
#pragma once
#include "blocks/contexts.cuh"
#include "blocks/masks.cuh"
#include "blocks/symbol.cuh"
#include "device/warp.cuh"

// Symbols of a chunk or of a sample, by context, in shared memory.
struct SymbolCounts {
    uint32_t of[blocks::CONTEXTS][blocks::SYMBOLS];
};

// Counts the symbols of a block's codes. Called by the whole block.
template <typename Codes>
__device__ inline void count_symbols(const Codes &codes, const BlockShape &shape, const BlockUnits &units,
                                     const BlockMasks &masks, SymbolCounts &counts) {
    for (uint32_t level = 0; level < shape.levels; ++level) {
        for (uint32_t pass = 0; pass < PASSES; ++pass) {
            const BlockClass of(shape, level, class_of_pass(pass));
            const uint32_t elements = of.elements();
            if (elements == 0) {
                continue;
            }
            const BoxPlaces places(of.extent[1], of.extent[2]);
            // Most zeros are in the first context of their kind: they are counted in a register.
            const uint32_t quiet = context_of(of, 0);
            uint32_t zeros = 0;
            for (uint32_t i = threadIdx.x; i < elements; i += THREADS) {
                uint32_t at[3];
                places.coordinates(i, at);
                const UnitRange unit = units.range_of(level, at);
                const BlockElement element(shape, of, at[0], at[1], at[2]);
                const uint64_t place = codes.place(element);
                if (!masks.have(element.in_block(shape))) {
                    const uint32_t context = context_of(of, activity(codes, shape, of, unit, element, place));
                    const uint32_t symbol = Symbol(codes.code(place)).symbol;
                    if (context == quiet && symbol == 0) {
                        ++zeros;
                    } else {
                        atomicAdd(&counts.of[context][symbol], 1);
                    }
                }
            }
            zeros = warp_reduce_sum(zeros);
            if (lane_id() == 0 && zeros > 0) {
                atomicAdd(&counts.of[quiet][0], zeros);
            }
        }
    }
}
