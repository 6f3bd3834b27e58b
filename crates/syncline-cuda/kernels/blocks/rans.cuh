// rANS with states of 32 bits and words of 16 (docs/FORMAT.md, "Words").
#pragma once
#include "blocks/symbol.cuh"
#include "blocks/tables.cuh"

// States are at least this after each event. They end with it.
constexpr uint32_t LOWEST = 1u << 16;

// The words of a stream, which the lanes of a warp share.
struct Words {
    const uint16_t *words;
    uint32_t count, at;

    // Returns word `i`, 0 behind the end, which the end of the stream notices.
    __device__ inline uint32_t operator[](uint32_t i) const { return i < count ? words[i] : 0; }

    // Gives words to the lanes whose states are too small, in their order. Called by the whole warp.
    __device__ inline void renormalize(uint32_t &state) {
        const bool is_small = state < LOWEST;
        const uint32_t small = __ballot_sync(ALL_LANES, is_small);
        if (is_small) {
            state = state << 16 | (*this)[at + __popc(small & ((1u << lane_id()) - 1))];
        }
        at += __popc(small);
    }
};

// Returns the next code of each lane that has one. Called by the whole warp.
__device__ inline int32_t next_code(Words &words, uint32_t &state, bool has_code, const SlotTable &table) {
    uint32_t symbol = 0, bits = 0, late = 0;
    if (has_code) {
        const uint32_t slot = state % TOTAL;
        symbol = table.find(slot);
        const uint32_t start = table.starts[symbol];
        state = (table.starts[symbol + 1] - start) * (state / TOTAL) + slot - start;
        const uint32_t count = bits_of_symbol(symbol), early = min_of(count, EARLY_BITS);
        bits = state & ((1u << early) - 1);
        state >>= early;
        late = count - early;
    }
    words.renormalize(state);
    if (__any_sync(ALL_LANES, late > 0)) {
        bits |= (state & ((1u << late) - 1)) << EARLY_BITS;
        state >>= late;
        words.renormalize(state);
    }
    return code_of(symbol, bits);
}
