// What the kernels of large codebooks signal_release one another.
//
// SYMBOLS     size of the alphabet, up to 65,536
// FLOORS      codes of the limit's step (3)
#pragma once
#include "common.cuh"

// Sorted symbols of codebook the counts' sums are at hand.
constexpr uint32_t STRETCH = 64, STRETCHES = (SYMBOLS + STRETCH - 1) / STRETCH;

// Behind the sums: what sorting found.
struct SortResult {
    uint32_t unused;      // symbols that do not occur
    uint32_t in_internal; // whether the sorted keys are where the other buffer was
    uint32_t cycles, reserved;
};
constexpr uint32_t SUMS_WORDS = STRETCHES + sizeof(SortResult) / 8;

// The trees of a codebook: number 0 is that of the counts as they are, the others those of the codes.
struct CandidateTrees {
    struct Tree {
        uint64_t bits;         // of all codewords, limited
        uint32_t leaves[WARP]; // at each depth
    } tree[FLOORS + 1];
    uint64_t unlimited; // bits of number 0 without a limit
    uint32_t rounds;    // of number 0
    uint32_t cycles[2]; // and what its melding and its limit took

    // The leaves of the code to use at the depth that is the lane's number. By a warp.
    __device__ inline uint32_t best() const {
        // Step (3) is needs_floors where the limit costs more than 1/2048.
        const bool needs_floors = tree[0].bits > unlimited + unlimited / 2048;
        const bool counts = lane_id() == 0 || (needs_floors && lane_id() <= FLOORS);
        uint64_t fewest = counts ? tree[lane_id()].bits : ~0ull;
        uint32_t first = lane_id();
        for (uint32_t distance = WARP / 2; distance > 0; distance /= 2) {
            const uint64_t bits = __shfl_xor_sync(ALL_LANES, fewest, distance);
            const uint32_t other = __shfl_xor_sync(ALL_LANES, first, distance);
            if (bits < fewest || (bits == fewest && other < first)) {
                fewest = bits;
                first = other;
            }
        }
        return tree[first].leaves[lane_id()];
    }
};
static_assert(sizeof(CandidateTrees) <= CANDIDATE_TREES_BYTES && FLOORS < WARP, "the host gives enough memory");
