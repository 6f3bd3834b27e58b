// Structs that the kernels of large codebooks exchange.
//
// SYMBOLS  number of symbols, up to 65,536
// FLOORS   number of floors of the length limit
#pragma once
#include "common.cuh"

// Sorted symbols of a stretch, whose counts are summed.
constexpr uint32_t STRETCH = 64, STRETCHES = (SYMBOLS + STRETCH - 1) / STRETCH;

// The result of sorting, after the sums.
struct SortResult {
    uint32_t unused;      // symbols that do not occur
    uint32_t in_internal; // whether the sorted keys are in the second buffer
    uint32_t cycles, reserved;
};
constexpr uint32_t SUMS_WORDS = STRETCHES + sizeof(SortResult) / 8;

// The candidate trees of a codebook. Tree 0 is that of the unmodified counts; the others are the floor trees.
struct CandidateTrees {
    struct Tree {
        uint64_t bits;         // bits of all codewords, limited
        uint32_t leaves[WARP]; // at each depth
    } tree[FLOORS + 1];
    uint64_t unlimited; // bits of tree 0 without a limit
    uint32_t rounds;    // of tree 0
    uint32_t cycles[2]; // of melding and limiting tree 0

    // Returns the number of leaves of the best code at the depth that is the lane's number. Called by a warp.
    __device__ inline uint32_t best() const {
        // Floor trees are used if the limit costs more than 1/2048.
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
