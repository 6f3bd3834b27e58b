// Trees of teams that have a multiprocessor to themselves: all that makes one sooner, though its warps have more to do.
// Where a dozen teams share a multiprocessor, as in huffman/codebook/small.cu, it makes them later: codebooks of rtm
// in 46.0 instead of 43.7 microseconds.
#pragma once
#include "huffman/codebook/steps.cuh"

// Loads of a lane that are under way together.
constexpr uint32_t AT_ONCE = 4;

// As leaves_among, by a warp, which looks at 128 places at a time.
template <typename Weights>
__device__ inline uint32_t leaves_among_by_warp(const Weights &weights, const Melding &at, uint32_t leaves,
                                                uint32_t trees, uint32_t count) {
    uint32_t low = count > trees ? count - trees : 0;
    uint32_t high = min_of(count, leaves);
    while (low < high) {
        const uint32_t step = (high - low) / (AT_ONCE * WARP + 1) + 1;
        uint32_t before = 0;
#pragma unroll
        for (uint32_t i = 0; i < AT_ONCE; ++i) {
            const uint32_t place = low + (i * WARP + lane_id() + 1) * step - 1;
            before += __popc(__ballot_sync(ALL_LANES, place < high && weights.leaf(at.leaf_front + place) <=
                                                                          weights.tree(at.front + count - 1 - place)));
        }
        low += before * step;
        high = min_of(high, low + step - 1);
    }
    return low;
}

// As meld_round, by so many `warps`, of which this is number `warp`: each finds where its 32 pairs begin and merges
// these in registers, as a round of few is merged.
template <typename Weights>
__device__ inline void meld_by_warps(Melding &at, Weights &weights, uint16_t *fronts, uint32_t leaf_end, uint32_t warp,
                                     uint32_t warps) {
    using Weight = decltype(weights.tree(0));
    constexpr Weight NONE = ~Weight(0);
    const uint32_t leaves = leaf_end - at.leaf_front, trees = at.back - at.front, pairs = (leaves + trees) / 2;
    Melding after = at;
    finish_round(after, weights, leaf_end);
#pragma unroll 1
    for (uint32_t first = warp * WARP; first < pairs; first += warps * WARP) {
        const uint32_t before = leaves_among_by_warp(weights, at, leaves, trees, 2 * first);
        const uint32_t leaf = at.leaf_front + before, tree = at.front + 2 * first - before;
        // Of so many leaves, which ascend, and as many internal trees, which descend, the smaller half.
        Weight own[2];
#pragma unroll
        for (uint32_t i = 0; i < 2; ++i) {
            const uint32_t own_leaf = leaf + i * WARP + lane_id(), own_tree = tree + (2 - i) * WARP - 1 - lane_id();
            own[i] = min_of(own_leaf < leaf_end ? leaf_key<Weight>(weights.leaf(own_leaf)) : NONE,
                            own_tree < at.back ? tree_key<Weight>(weights.tree(own_tree)) : NONE);
        }
        sort_pairs<2>(own);
        meld_side_by_side(weights, fronts, own, at.back + first, tree, min_of(pairs - first, WARP));
    }
    at = after;
}

// A round by so many warps, of which this is number `warp`; or nothing, if it has few leaves and internal trees: then
// false.
template <typename Weights>
__device__ inline bool meld_round_by_warps(Melding &at, Weights &weights, uint16_t *fronts, uint32_t warp,
                                           uint32_t warps) {
    using Weight = decltype(weights.tree(0));
    constexpr Weight NONE = ~Weight(0);
    auto leaf_or_none = [&](uint32_t i) { return i < at.used ? weights.leaf(i) : NONE; };
    auto tree_or_none = [&](uint32_t i) { return i < at.back ? weights.tree(i) : NONE; };
    // What is likely to be needed is read at once.
    Weight leaf[AT_ONCE];
#pragma unroll
    for (uint32_t i = 0; i < AT_ONCE; ++i) {
        leaf[i] = leaf_or_none(at.leaf_front + i * WARP + lane_id());
    }
    const Weight tree0 = tree_or_none(at.front), tree1 = tree_or_none(at.front + 1);
    const Weight sum =
        two_smallest(__shfl_sync(ALL_LANES, leaf[0], 0), __shfl_sync(ALL_LANES, leaf[0], 1), tree0, tree1);
    uint32_t leaves = 0;
#pragma unroll
    for (uint32_t i = 0; i < AT_ONCE; ++i) {
        leaves += __popc(__ballot_sync(ALL_LANES, leaf[i] <= sum));
    }
    if (leaves < FEW && at.back - at.front <= FEW) {
        return false;
    }
    // Further ones, as long as whole stretches of them are no larger.
    for (uint32_t found = leaves % (AT_ONCE * WARP) == 0 ? WARP : 0; found == WARP; leaves += found) {
        found = __popc(__ballot_sync(ALL_LANES, leaf_or_none(at.leaf_front + leaves + lane_id()) <= sum));
    }
    meld_by_warps(at, weights, fronts, at.leaf_front + leaves, warp, warps);
    return true;
}

// As RoundsInTurn, by a team that has a multiprocessor to itself.
struct RoundsByWarps {
    __device__ inline void operator()(const TreeTeam &team, uint32_t, Melding &at, const RaisedWeights &weights,
                                      uint16_t *fronts) const {
#pragma unroll 1
        while (at.left() >= FEW && meld_round_by_warps(at, weights, fronts, team.rank() / WARP, team.warps)) {
            team.sync();
        }
    }
};

// As tries_are_due, of the tree of the counts as they are, whose code is noted, and of which is known whether there was
// something to limit; by its team, of which the first warp learns it. The last warp has added up the bits without a
// limit while the first found lengths: one after the other took 3,700 cycles instead of 1,900, which all of a stream's
// blocks wait for.
__device__ inline bool tries_are_due_alone(const TreeTeam &team, bool limited, uint32_t used, const uint8_t *memory,
                                           const Lengths &code) {
    __shared__ Count unlimited;
    if (team.rank() / WARP == team.warps - 1) {
        const Count sum = unlimited_bits(used, memory);
        if (lane_id() == 0) {
            unlimited = sum;
        }
    }
    team.sync();
    return tries_are_due({limited, unlimited}, code.bits);
}
