// rANS with states of 32 bits and words of 16 (docs/FORMAT.md, "Words").
#pragma once
#include "blocks/symbol.cuh"
#include "blocks/tables.cuh"

// The words of a stream, which the lanes of a warp share. The lanes have the next ones, so that no state waits for
// memory.
struct Words {
    const uint16_t *words;
    uint32_t count, at;
    uint32_t first, low, high; // the words from `first` on, one a lane, and those behind them

    // Begins with word `at`. Called by the whole warp.
    __device__ inline Words(const uint16_t *words, uint32_t count, uint32_t at)
        : words(words), count(count), at(at), first(at), low(word(at + lane_id())), high(word(at + WARP + lane_id())) {}

    // Returns word `i`, 0 behind the end, which the end of the stream notices.
    __device__ inline uint32_t word(uint32_t i) const { return i < count ? words[i] : 0; }

    // Gives words to the lanes whose states are too small, in their order. Called by the whole warp.
    __device__ inline void renormalize(uint32_t &state) {
        const bool is_small = state < LOWEST;
        const uint32_t small = __ballot_sync(ALL_LANES, is_small);
        if (small == 0) {
            return;
        }
        const uint32_t i = at - first + __popc(small & ((1u << lane_id()) - 1));
        const uint32_t of_low = __shfl_sync(ALL_LANES, low, i % WARP), of_high = __shfl_sync(ALL_LANES, high, i % WARP);
        state = is_small ? state << 16 | (i < WARP ? of_low : of_high) : state;
        at += __popc(small);
        if (at - first >= WARP) {
            first += WARP;
            low = high;
            high = word(first + WARP + lane_id());
        }
    }
};

// Returns the codes of the intervals that the lanes' states are in, and moves past them. Called by the whole warp.
__device__ inline int32_t next_code(Words &words, uint32_t &state, Interval found) {
    const uint32_t early = found.early_bits();
    state = found.frequency() * (state / TOTAL) + state % TOTAL - found.start();
    uint32_t bits = state & ((1u << early) - 1);
    state >>= early;
    words.renormalize(state);
    if (__any_sync(ALL_LANES, found.has_late_bits())) {
        const uint32_t late = found.has_late_bits() ? bits_of_symbol(found.symbol()) - early : 0;
        bits |= (state & ((1u << late) - 1)) << EARLY_BITS;
        state >>= late;
        words.renormalize(state);
    }
    return code_of(found.symbol(), bits);
}
