// What the blocks of a codebook exchange.
//
// FLOOR_TREES_HEADER_BYTES  bytes of `FloorTrees`
// FLOOR_TREES_BYTES         the same with the arrays after it
#pragma once
#include "huffman/codebook/tree.cuh"

// The data that the blocks of a codebook exchange, and that block_codebook passes to floor_trees. Behind it in memory
// are the prefix sums of the counts (SYMBOLS + 1 words of 64 bits) and all symbols from the rarest on (16 bits), first
// those that do not occur.
struct FloorTrees {
    uint32_t used, finished; // finished floor trees
    uint64_t total;
    uint64_t best_bits;  // of step (2)
    uint32_t best[WARP]; // its leaves at each depth
    struct LimitedCode {
        uint64_t bits;
        uint32_t leaves[WARP];
    } codes[FLOORS];
    uint32_t needs_floors, rounds; // whether floor trees are needed, and rounds of melding the unmodified counts

    __device__ inline uint64_t *sums() {
        return reinterpret_cast<uint64_t *>(reinterpret_cast<uint8_t *>(this) + FLOOR_TREES_HEADER_BYTES);
    }
    __device__ inline uint16_t *order() { return reinterpret_cast<uint16_t *>(sums() + SYMBOLS + 1); }

    // Returns the code with the fewest bits of step (2) and all floor trees, the earlier of equal ones: the leaves at
    // the depth that is the lane's number. Called by a warp.
    __device__ inline uint32_t best_code() const {
        uint64_t fewest = lane_id() < FLOORS ? __ldcg(&codes[min_of(lane_id(), FLOORS - 1u)].bits) : ~0ull;
        uint32_t first = lane_id();
        for (uint32_t distance = WARP / 2; distance > 0; distance /= 2) {
            const uint64_t bits = __shfl_xor_sync(ALL_LANES, fewest, distance);
            const uint32_t other = __shfl_xor_sync(ALL_LANES, first, distance);
            if (bits < fewest || (bits == fewest && other < first)) {
                fewest = bits;
                first = other;
            }
        }
        return fewest < __ldcg(&best_bits) ? __ldcg(&codes[first].leaves[lane_id()]) : __ldcg(&best[lane_id()]);
    }
};
static_assert(sizeof(FloorTrees) <= FLOOR_TREES_HEADER_BYTES &&
                  FLOOR_TREES_HEADER_BYTES + (SYMBOLS + 1) * 8 + SYMBOLS * 2 <= FLOOR_TREES_BYTES,
              "the host gives enough memory");
static_assert(FLOOR_TREES_HEADER_BYTES % 16 == 0 && FLOOR_TREES_BYTES % 16 == 0 && MAX_LENGTH_LARGE < WARP &&
                  FLOORS <= WARP,
              "a lane a depth, a lane a try");
