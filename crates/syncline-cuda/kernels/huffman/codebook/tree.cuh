// Huffman trees: melding, depths, and the floors of the length limit. The method is that of Tian et al., "Revisiting
// Huffman Coding" (IPDPS 2021), section IV-B (after Ostadzadeh et al. 2007), with the changes that the exact lengths of
// the stream format require:
// - Symbols are sorted by (count, symbol) with a stable radix sort.
// - GenerateCL melds, in each round, every tree that is not above the sum t of the two smallest: all internal trees of
//   the queue, because sums ascend, and the leaves up to t, found by search. Merge path brings both in order, leaves
//   first if equal, and neighbors are melded. If their number is odd, the largest waits. Each round thus does in
//   parallel what the sequential two-queue method does next, so the tree is the same.
// - Depths never increase in the order in which trees are made. So each tree only records its front, the next internal
//   tree at the time it was made, and one warp walks down the levels at the end. The paper updates every leaf in every
//   round.
//
// SYMBOLS           number of symbols, up to 65,536
// MAX_LENGTH        maximum codeword length if at most LARGE_ALPHABET symbols are used
// MAX_LENGTH_LARGE  maximum codeword length otherwise
// FLOORS            number of floors of the length limit
//
// THREADS and COOPERATIVE_BLOCKS: see device/cooperative.cuh.
#pragma once
#include "huffman/codebook/length_limit.cuh"
#include "device/block.cuh"
#include "device/radix_partition.cuh"

// A tree with a root below 2^60 is less deep, because its weights grow at least like the Fibonacci numbers.
constexpr uint32_t DEPTHS = 128;

// The state of melding: leaves from `leaf_front` to `used` and internal trees from `front` to `back` have no parent.
struct Melding {
    uint32_t used, leaf_front, front, back, rounds;

    __device__ inline uint32_t left() const { return used - leaf_front + back - front; }
};

// Returns how many of the first `count` trees without a parent are leaves, given `leaves` leaves and `trees` internal
// trees; leaves come first if equal (Green et al. 2012, merge path).
template <typename Weights>
__device__ inline uint32_t leaves_among(const Weights &weights, const Melding &at, uint32_t leaves, uint32_t trees,
                                        uint32_t count) {
    uint32_t low = count > trees ? count - trees : 0;
    uint32_t high = min_of(count, leaves);
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (weights.leaf(at.leaf_front + middle) <= weights.tree(at.front + count - 1 - middle)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

// A warp melds rounds of fewer leaves and no more internal trees in registers.
constexpr uint32_t MAX_REGISTER_LEAVES = 2 * WARP;

// Returns the sum of the two smallest trees without a parent, given the first two of each queue, or all bits if there
// is none.
template <typename Weight>
__device__ inline Weight two_smallest(Weight leaf0, Weight leaf1, Weight tree0, Weight tree1) {
    return leaf0 <= tree0 ? leaf0 + min_of(leaf1, tree0) : tree0 + min_of(leaf0, tree1);
}

// Updates the state after a round of the leaves up to `leaf_end` and all internal trees.
template <typename Weights>
__device__ inline void finish_round(Melding &at, const Weights &weights, uint32_t leaf_end) {
    const uint32_t leaves = leaf_end - at.leaf_front, trees = at.back - at.front;
    // If their number is odd, the last in order waits.
    const bool odd = (leaves + trees) % 2 == 1;
    const bool leaf_is_last = leaves > 0 && (trees == 0 || weights.leaf(leaf_end - 1) > weights.tree(at.back - 1));
    at.leaf_front = leaf_end - (odd && leaf_is_last);
    at.front = at.back - (odd && !leaf_is_last);
    at.back += (leaves + trees) / 2;
    ++at.rounds;
}

// Melds a round of the leaves up to `leaf_end` and all internal trees, by a whole block.
template <typename Weights>
__device__ inline void meld_round(Melding &at, Weights &weights, uint16_t *fronts, uint32_t leaf_end) {
    using Weight = decltype(weights.tree(0));
    constexpr Weight NONE = ~Weight(0);
    const uint32_t leaves = leaf_end - at.leaf_front, trees = at.back - at.front;
    const uint32_t pairs = (leaves + trees) / 2;
    const uint32_t per_thread = ceil_div(pairs, THREADS);
    const uint32_t first = min_of(pairs, threadIdx.x * per_thread), end = min_of(pairs, first + per_thread);
    if (first < end) {
        uint32_t leaf = at.leaf_front + leaves_among(weights, at, leaves, trees, 2 * first);
        uint32_t tree = at.front + 2 * first - (leaf - at.leaf_front);
        Weight next_leaf = leaf < leaf_end ? weights.leaf(leaf) : NONE;
        Weight next_tree = tree < at.back ? weights.tree(tree) : NONE;
        for (uint32_t parent = at.back + first; parent < at.back + end; ++parent) {
            Weight weight = 0;
            fronts[parent] = tree;
            for (uint32_t side = 0; side < 2; ++side) {
                if (next_leaf <= next_tree) {
                    weight += next_leaf;
                    ++leaf;
                    next_leaf = leaf < leaf_end ? weights.leaf(leaf) : NONE;
                } else {
                    weight += next_tree;
                    ++tree;
                    next_tree = tree < at.back ? weights.tree(tree) : NONE;
                }
            }
            weights.set_tree(parent, weight);
        }
    }
    finish_round(at, weights, leaf_end);
}

// Melds rounds by a whole block, until one tree is left or the next round is small.
template <typename Weights> __device__ inline void meld_large_rounds(Melding &at, Weights &weights, uint16_t *fronts) {
    using Weight = decltype(weights.tree(0));
    constexpr Weight NONE = ~Weight(0);
    while (at.left() > 1) {
        const Weight leaf0 = at.leaf_front < at.used ? weights.leaf(at.leaf_front) : NONE;
        const Weight leaf1 = at.leaf_front + 1 < at.used ? weights.leaf(at.leaf_front + 1) : NONE;
        const Weight tree0 = at.front < at.back ? weights.tree(at.front) : NONE;
        const Weight tree1 = at.front + 1 < at.back ? weights.tree(at.front + 1) : NONE;
        const Weight sum = two_smallest(leaf0, leaf1, tree0, tree1);
        const uint32_t leaf_end =
            partition_point(at.leaf_front, at.used, [&](uint32_t i) { return weights.leaf(i) <= sum; });
        if (leaf_end - at.leaf_front < MAX_REGISTER_LEAVES && at.back - at.front <= MAX_REGISTER_LEAVES) {
            return;
        }
        meld_round(at, weights, fronts, leaf_end);
        __syncthreads();
    }
}

// Like meld_round, by `threads` threads, of which this is number `rank`. Pairs are interleaved and each is searched
// separately: neighbors then read neighboring words, where contiguous pairs would cause bank conflicts.
template <typename Weights>
__device__ inline void meld_interleaved(Melding &at, Weights &weights, uint16_t *fronts, uint32_t leaf_end,
                                        uint32_t rank, uint32_t threads) {
    using Weight = decltype(weights.tree(0));
    constexpr Weight NONE = ~Weight(0);
    const uint32_t leaves = leaf_end - at.leaf_front, trees = at.back - at.front, pairs = (leaves + trees) / 2;
#pragma unroll 1
    for (uint32_t pair = rank; pair < pairs; pair += threads) {
        const uint32_t before = leaves_among(weights, at, leaves, trees, 2 * pair);
        const uint32_t leaf = at.leaf_front + before, tree = at.front + 2 * pair - before;
        const Weight weight = two_smallest(
            leaf < leaf_end ? weights.leaf(leaf) : NONE, leaf + 1 < leaf_end ? weights.leaf(leaf + 1) : NONE,
            tree < at.back ? weights.tree(tree) : NONE, tree + 1 < at.back ? weights.tree(tree + 1) : NONE);
        weights.set_tree(at.back + pair, weight);
        fronts[at.back + pair] = tree;
    }
    finish_round(at, weights, leaf_end);
}

// Bitonic merge (Batcher 1968) of the values of all lanes and registers, or of each half of the registers. The order of
// two adjacent lanes is left out, because they are melded anyway.
template <uint32_t HALF, uint32_t REGISTERS, typename Weight>
__device__ inline void sort_pairs(Weight (&own)[REGISTERS]) {
#pragma unroll
    for (uint32_t apart = HALF / 2; apart > 0; apart /= 2) {
#pragma unroll
        for (uint32_t i = 0; i < REGISTERS; ++i) {
            if ((i & apart) == 0) {
                const Weight low = min_of(own[i], own[i + apart]);
                own[i + apart] = max_of(own[i], own[i + apart]);
                own[i] = low;
            }
        }
    }
#pragma unroll
    for (uint32_t distance = WARP / 2; distance > 1; distance /= 2) {
#pragma unroll
        for (uint32_t i = 0; i < REGISTERS; ++i) {
            const Weight other = __shfl_xor_sync(ALL_LANES, own[i], distance);
            if (sizeof(Weight) == 4) {
                own[i] = (lane_id() & distance) == 0 ? min_of(own[i], other) : max_of(own[i], other); // one instruction
            } else {
                own[i] = (own[i] < other) == ((lane_id() & distance) == 0) ? own[i] : other;
            }
        }
    }
}

// Twice the weight, plus one for internal trees, so that leaves come first if weights are equal.
template <typename Weight> __device__ inline Weight leaf_key(Weight weight) { return 2 * weight; }
template <typename Weight> __device__ inline Weight tree_key(Weight weight) { return 2 * weight + 1; }

// Melds adjacent pairs to internal trees from `back` on; `front` is the first internal tree among them. Returns the
// lanes with internal trees, or without a value, in the register after the last pair.
template <uint32_t REGISTERS, typename Weights, typename Weight>
__device__ inline uint32_t meld_side_by_side(Weights &weights, uint16_t *fronts, const Weight (&own)[REGISTERS],
                                             uint32_t back, uint32_t front, uint32_t pairs) {
    constexpr uint32_t PAIRS = WARP / 2;
    // Of two registers, even lanes handle the pairs of the first, and odd lanes those of the second.
    const bool is_odd = lane_id() % 2 != 0;
    const uint32_t before_pair = (1u << lane_id() / 2 * 2) - 1;
    uint32_t at_end = 0;
#pragma unroll
    for (uint32_t i = 0; i < REGISTERS; i += 2) {
        const Weight other = __shfl_xor_sync(ALL_LANES, is_odd ? own[i] : own[i + 1], 1),
                     mine = is_odd ? own[i + 1] : own[i];
        const uint32_t are_trees[2] = {__ballot_sync(ALL_LANES, own[i] % 2 != 0),
                                       __ballot_sync(ALL_LANES, own[i + 1] % 2 != 0)};
        const uint32_t pair = (is_odd ? i + 1 : i) * PAIRS + lane_id() / 2, trees_before = __popc(are_trees[0]);
        if (pair < pairs) {
            weights.set_tree(back + pair, mine / 2 + other / 2);
            fronts[back + pair] =
                front + (is_odd ? trees_before : 0) + __popc((is_odd ? are_trees[1] : are_trees[0]) & before_pair);
        }
        front += trees_before + __popc(are_trees[1]);
        at_end = pairs / PAIRS == i ? are_trees[0] : pairs / PAIRS == i + 1 ? are_trees[1] : at_end;
    }
    return at_end;
}

// Melds a round in the registers of a warp: the leaves up to `sum` and all internal trees, at most 32 * EACH of either.
// Leaves ascend over registers and lanes, and trees descend, so a bitonic merge makes the pairs adjacent.
template <uint32_t EACH, typename Weights, typename Weight>
__device__ inline void meld_in_registers(Melding &at, Weights &weights, uint16_t *fronts, const Weight (&leaf)[EACH],
                                         const Weight (&tree)[EACH], Weight sum, uint32_t leaves) {
    constexpr Weight NONE = ~Weight(0);
    const uint32_t trees = at.back - at.front, pairs = (leaves + trees) / 2;
    Weight own[2 * EACH];
#pragma unroll
    for (uint32_t i = 0; i < EACH; ++i) {
        const Weight own_leaf = leaf[i] <= sum ? leaf_key(leaf[i]) : NONE,
                     own_tree = tree[i] == NONE ? NONE : tree_key(tree[i]);
        own[i] = min_of(own_leaf, own_tree);
        own[EACH + i] = max_of(own_leaf, own_tree);
    }
    sort_pairs<EACH>(own);
    const uint32_t at_end = meld_side_by_side(weights, fronts, own, at.back, at.front, pairs);
    // If their number is odd, the last in order waits. It is adjacent to an empty value, which looks like a tree.
    const bool odd = (leaves + trees) % 2 != 0;
    const bool tree_is_last = odd && (at_end >> 2 * pairs % WARP & 3) == 3;
    at.leaf_front += leaves - (odd && !tree_is_last);
    at.front = at.back - tree_is_last;
    at.back += pairs;
    ++at.rounds;
}

// If a round has no more leaves and trees than this, all lanes follow the sequential two-queue method: a round in
// registers takes about as long as this many melds.
constexpr uint32_t MAX_SERIAL_TREES = 4;

// GenerateCL by one warp, up to the last round, or to the first of more than MAX_REGISTER_LEAVES leaves or trees. Small
// rounds, which are most, are done in registers. Each sequential meld counts as a round. No weight but the last exceeds
// half of the maximum.
template <typename Weight, typename Weights>
__device__ inline void meld_in_warp(Melding &at, Weights &weights, uint16_t *fronts) {
    constexpr Weight NONE = ~Weight(0);
    auto leaf_or_none = [&](uint32_t i) { return i < at.used ? Weight(weights.leaf(i)) : NONE; };
    auto tree_or_none = [&](uint32_t i) { return i < at.back ? Weight(weights.tree(i)) : NONE; };
#pragma unroll 1
    for (; at.left() > 1; __syncwarp()) {
        // The fronts of both queues, one weight per lane, so that sequential melds read no memory.
        const uint32_t first_leaf = at.leaf_front, first_tree = at.front;
        Weight leaf[1] = {leaf_or_none(first_leaf + lane_id())},
               tree[1] = {tree_or_none(first_tree + (WARP - 1 - lane_id()))}, sum;
        uint32_t trees;
        bool is_round;
#pragma unroll 1
        while (true) {
            const uint32_t at_leaf = at.leaf_front - first_leaf, at_tree = WARP - 1 - (at.front - first_tree);
            const Weight leaf0 = __shfl_sync(ALL_LANES, leaf[0], at_leaf),
                         leaf1 = __shfl_sync(ALL_LANES, leaf[0], at_leaf + 1);
            const Weight tree0 = __shfl_sync(ALL_LANES, tree[0], at_tree),
                         tree1 = __shfl_sync(ALL_LANES, tree[0], at_tree - 1);
            const Weight beyond = __shfl_sync(ALL_LANES, leaf[0], at_leaf + MAX_SERIAL_TREES);
            const bool two_leaves = leaf1 <= tree0, two_trees = tree1 < leaf0;
            sum = two_leaves ? leaf0 + leaf1 : two_trees ? tree0 + tree1 : leaf0 + tree0;
            trees = at.back - at.front;
            is_round = beyond <= sum || trees > MAX_SERIAL_TREES;
            if (is_round) {
                break;
            }
            if (lane_id() == 0) {
                weights.set_tree(at.back, sum);
                fronts[at.back] = at.front;
            }
            const uint32_t place = at.back - first_tree, leaves = two_leaves ? 2 : two_trees ? 0 : 1;
            tree[0] = lane_id() == WARP - 1 - place ? sum : tree[0];
            at.leaf_front += leaves;
            at.front += 2 - leaves;
            ++at.back;
            ++at.rounds;
            if (at.left() == 1 || at_leaf + leaves + MAX_SERIAL_TREES >= WARP || place + 2 >= WARP) {
                break;
            }
        }
        if (!is_round || at.leaf_front != first_leaf || at.front != first_tree) {
            continue;
        }
        uint32_t leaves = __popc(__ballot_sync(ALL_LANES, leaf[0] <= sum));
        if (leaves < WARP && trees <= WARP) {
            meld_in_registers<1>(at, weights, fronts, leaf, tree, sum, leaves);
            continue;
        }
        const Weight leaf2[2] = {leaf[0], leaf_or_none(at.leaf_front + WARP + lane_id())},
                     tree2[2] = {tree_or_none(at.front + (2 * WARP - 1 - lane_id())), tree[0]};
        leaves += __popc(__ballot_sync(ALL_LANES, leaf2[1] <= sum));
        if (leaves >= MAX_REGISTER_LEAVES || trees > MAX_REGISTER_LEAVES) {
            return;
        }
        meld_in_registers<2>(at, weights, fronts, leaf2, tree2, sum, leaves);
    }
}

// If the counts sum to no more than this, 32-bit weights suffice for every floor, because floors add less than half.
constexpr uint64_t MAX_NARROW_TOTAL = 1u << 30;

// Melds until one tree is left, by one block. The first warp does small rounds, where others would only cost time.
// Every thread receives the result. `total` is the sum of the counts.
template <typename Weights>
__device__ inline void meld_in_block(Melding &at, Weights &weights, uint16_t *fronts, uint64_t total) {
    __shared__ Melding shared_state;
    while (at.left() > 1) {
        meld_large_rounds(at, weights, fronts);
        if (warp_id() == 0) {
            if (total <= MAX_NARROW_TOTAL) {
                meld_in_warp<uint32_t>(at, weights, fronts);
            } else {
                meld_in_warp<uint64_t>(at, weights, fronts);
            }
            if (lane_id() == 0) {
                shared_state = at;
            }
        }
        __syncthreads();
        at = shared_state;
        __syncthreads();
    }
}

// Returns the number of leaves at each depth of a tree over `used` leaves, limited; called by a warp, one length per
// lane. `over` becomes the number of leaves that were deeper than the limit. `front_of` returns the front of a tree:
// the children of all trees from some tree on are those from its front on, so the trees of a depth are contiguous.
template <typename FrontOf>
__device__ inline uint32_t limited_lengths(FrontOf front_of, uint32_t used, uint32_t limit, uint32_t &over) {
    uint32_t at_length = 0, depth = 0;
    over = 0;
#pragma unroll 1
    for (uint32_t first = used - 2, trees = 1; trees > 0 && depth + 1 < DEPTHS;) {
        const uint32_t front = front_of(first), below = first - front, leaves = 2 * trees - below;
        ++depth;
        at_length = lane_id() == depth ? leaves : at_length;
        over += depth > limit ? leaves : 0;
        first = front;
        trees = below;
    }
    return over > 0 ? limit_in_warp(at_length, over, limit) : at_length;
}

// Returns the bits of all codewords, given the number of codewords of each length, at most `limit` bits; called by a
// warp, one length per lane. `sums` has the prefix sums of the used symbols' counts, the rarest first.
template <typename Count>
__device__ inline Count coded_bits(const Count *sums, uint32_t used, uint32_t limit, uint32_t at_length) {
    // The sum over all lengths of the counts of symbols with codewords of at least that length, which are the rarest.
    const uint32_t shorter = warp_inclusive_sum(at_length) - at_length;
    return warp_reduce_sum(lane_id() > 0 && lane_id() <= limit ? sums[used - shorter] : Count(0));
}

// Returns floor `number` for codewords of at most `limit` bits.
__device__ inline uint64_t floor_of(uint32_t number, uint64_t total, uint32_t limit) {
    return total * (4 + number % 4) >> (limit + 4 - number / 4);
}
