// Huffman trees: melding, depths, and what is tried where the limit costs much. The source of the rounds is explained in huffman_codebook.cu.
//
// THREADS, TEAM   see team.cuh
// SYMBOLS     size of the alphabet, up to 65,536
// MAX_LENGTH, MAX_LENGTH_LARGE, LARGE   longest codeword, and longest if more than LARGE symbols are used
// FLOORS      tries of the limit's step (3)
// PENDING_HEAD, PENDING_BYTES   of what a codebook leaves for them: the start, and all of it
#pragma once
#include "length_limit.cuh"
#include "team.cuh"

// A tree whose root is below 2^60 is less deep than this: its weights grow at least like Fibonacci's numbers.
constexpr uint32_t DEPTHS = 128;

// Of the few trees that one block finishes: its own copy of weights, which starts at the first that has no parent.
constexpr uint32_t SOLO = 1024;
struct SoloWeights {
    uint64_t leaves[SOLO], trees[2 * SOLO];
    uint32_t first_leaf, first_tree;

    __device__ inline uint64_t leaf(uint32_t i) const { return leaves[i - first_leaf]; }
    __device__ inline uint64_t tree(uint32_t i) const { return trees[i - first_tree]; }
    __device__ inline void set_tree(uint32_t i, uint64_t weight) { trees[i - first_tree] = weight; }
};

// Where melding stands: leaves from `leaf_front` to `used` and internal trees from `front` to `back` have no parent.
struct Melding {
    uint32_t used, leaf_front, front, back, rounds;

    __device__ inline uint32_t left() const { return used - leaf_front + back - front; }
};

// How many of the first `count` trees without a parent are leaves, of `leaves` leaves and `trees` internal ones; leaves come first where equal
// (Green et al. 2012, merge path).
template <typename Weights>
__device__ inline uint32_t leaves_among(const Weights &weights, const Melding &at, uint32_t leaves, uint32_t trees, uint32_t count) {
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

// A round of a warp takes about as long as this many melds of one thread.
constexpr uint32_t FEW_PAIRS = 8;

// The sum of the two smallest trees without a parent; of the two of each queue given, or all bits where there is none.
template <typename Weight> __device__ inline Weight two_smallest(Weight leaf0, Weight leaf1, Weight tree0, Weight tree1) {
    return leaf0 <= tree0 ? leaf0 + min_of(leaf1, tree0) : tree0 + min_of(leaf0, tree1);
}

// A round's melding, of the leaves up to `leaf_end` and all internal trees. Called by `size` threads; `rank` is the thread's number among them.
template <typename Weights>
__device__ inline void meld_round(Melding &at, Weights &weights, uint16_t *fronts, uint32_t leaf_end, uint32_t rank, uint32_t size) {
    using Weight = decltype(weights.tree(0));
    constexpr Weight NONE = ~Weight(0);
    const uint32_t leaves = leaf_end - at.leaf_front, trees = at.back - at.front;
    const uint32_t pairs = (leaves + trees) / 2;
    const uint32_t per_thread = ceil_div(pairs, size);
    const uint32_t first = min_of(pairs, rank * per_thread), end = min_of(pairs, first + per_thread);
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
    // An odd one out is the last in order.
    const bool odd = (leaves + trees) % 2 == 1;
    const bool leaf_is_last = leaves > 0 && (trees == 0 || weights.leaf(leaf_end - 1) > weights.tree(at.back - 1));
    at.leaf_front = leaf_end - (odd && leaf_is_last);
    at.front = at.back - (odd && !leaf_is_last);
    at.back += pairs;
    ++at.rounds;
}

// GenerateCL: melds until no more than `leave` trees are left; a lone warp also stops before a round that is not worth it. Called by `size` threads in whole warps; `rank` is the thread's number among them.
template <typename Weights, typename Sync>
__device__ inline void meld(Melding &at, Weights &weights, uint16_t *fronts, uint32_t leave, uint32_t rank, uint32_t size, Sync sync) {
    using Weight = decltype(weights.tree(0));
    constexpr Weight NONE = ~Weight(0);
    while (at.left() > leave) {
        const Weight leaf0 = at.leaf_front < at.used ? weights.leaf(at.leaf_front) : NONE;
        const Weight leaf1 = at.leaf_front + 1 < at.used ? weights.leaf(at.leaf_front + 1) : NONE;
        const Weight tree0 = at.front < at.back ? weights.tree(at.front) : NONE;
        const Weight tree1 = at.front + 1 < at.back ? weights.tree(at.front + 1) : NONE;
        const Weight sum = two_smallest(leaf0, leaf1, tree0, tree1);
        const uint32_t leaf_end = partition_point(at.leaf_front, at.used, [&](uint32_t i) { return weights.leaf(i) <= sum; });
        if (size == WARP && leaf_end - at.leaf_front + at.back - at.front < 2 * FEW_PAIRS) {
            return;
        }
        meld_round(at, weights, fronts, leaf_end, rank, size);
        sync();
    }
}

// As meld_round, by a warp whose lanes have every 32nd pair, each found on its own: neighbours read neighbouring words, where stretches of pairs would have all lanes
// meet in a bank.
template <typename Weights> __device__ inline void meld_in_turn(Melding &at, Weights &weights, uint16_t *fronts, uint32_t leaf_end) {
    using Weight = decltype(weights.tree(0));
    constexpr Weight NONE = ~Weight(0);
    const uint32_t leaves = leaf_end - at.leaf_front, trees = at.back - at.front, pairs = (leaves + trees) / 2;
#pragma unroll 1
    for (uint32_t pair = lane_id(); pair < pairs; pair += WARP) {
        const uint32_t before = leaves_among(weights, at, leaves, trees, 2 * pair);
        const uint32_t leaf = at.leaf_front + before, tree = at.front + 2 * pair - before;
        const Weight weight = two_smallest(leaf < leaf_end ? weights.leaf(leaf) : NONE, leaf + 1 < leaf_end ? weights.leaf(leaf + 1) : NONE,
                                           tree < at.back ? weights.tree(tree) : NONE, tree + 1 < at.back ? weights.tree(tree + 1) : NONE);
        weights.set_tree(at.back + pair, weight);
        fronts[at.back + pair] = tree;
    }
    const bool odd = (leaves + trees) % 2 == 1;
    const bool leaf_is_last = leaves > 0 && (trees == 0 || weights.leaf(leaf_end - 1) > weights.tree(at.back - 1));
    at.leaf_front = leaf_end - (odd && leaf_is_last);
    at.front = at.back - (odd && !leaf_is_last);
    at.back += pairs;
    ++at.rounds;
}

// GenerateCL by one warp, from the first round to the last. Rounds of few trees, which are the many, are done in registers: a lane has a leaf, ascending, and an internal tree, descending, and
// a bitonic merge (Batcher 1968) brings those that are melded side by side. What it leaves out is the order of the two.
template <typename Weights> __device__ inline void meld_in_warp(Melding &at, Weights &weights, uint16_t *fronts) {
    using Weight = decltype(weights.tree(0));
    constexpr Weight NONE = ~Weight(0);
    const bool is_odd = lane_id() % 2 != 0;
    const uint32_t pair = lane_id() / 2 + (is_odd ? WARP / 2 : 0), before_pair = (1u << lane_id() / 2 * 2) - 1;
#pragma unroll 1
    while (at.left() > 1) {
        const uint32_t tree_at = at.front + (WARP - 1 - lane_id());
        const Weight leaf = at.leaf_front + lane_id() < at.used ? weights.leaf(at.leaf_front + lane_id()) : NONE;
        const Weight tree = tree_at < at.back ? weights.tree(tree_at) : NONE;
        const Weight sum = two_smallest(__shfl_sync(ALL_LANES, leaf, 0), __shfl_sync(ALL_LANES, leaf, 1), __shfl_sync(ALL_LANES, tree, WARP - 1),
                                        __shfl_sync(ALL_LANES, tree, WARP - 2));
        const uint32_t leaves = __popc(__ballot_sync(ALL_LANES, leaf <= sum)), trees = at.back - at.front;
        if (leaves == WARP || trees > WARP) {
            uint32_t leaf_end = at.leaf_front + leaves;
            if (leaves == WARP) {
                leaf_end = partition_point(leaf_end, at.used, [&](uint32_t i) { return weights.leaf(i) <= sum; });
            }
            meld_in_turn(at, weights, fronts, leaf_end);
            __syncwarp();
            continue;
        }
        // Twice the weight, and one more for internal trees: leaves come first where weights are equal.
        const Weight own_leaf = leaf <= sum ? 2 * leaf : NONE, own_tree = tree == NONE ? NONE : 2 * tree + 1;
        Weight own[2] = {min_of(own_leaf, own_tree), max_of(own_leaf, own_tree)};
#pragma unroll
        for (uint32_t distance = WARP / 2; distance > 1; distance /= 2) {
#pragma unroll
            for (uint32_t i = 0; i < 2; ++i) {
                const Weight other = __shfl_xor_sync(ALL_LANES, own[i], distance);
                own[i] = (lane_id() & distance) == 0 ? min_of(own[i], other) : max_of(own[i], other);
            }
        }
        // A lane has the pair of its neighbour and itself, or that so many pairs on.
        const uint32_t are_trees[2] = {__ballot_sync(ALL_LANES, own[0] % 2 != 0), __ballot_sync(ALL_LANES, own[1] % 2 != 0)};
        const Weight weights_here[2] = {own[0] / 2 + __shfl_xor_sync(ALL_LANES, own[0], 1) / 2, own[1] / 2 + __shfl_xor_sync(ALL_LANES, own[1], 1) / 2};
        const uint32_t pairs = (leaves + trees) / 2;
        if (pair < pairs) {
            weights.set_tree(at.back + pair, is_odd ? weights_here[1] : weights_here[0]);
            fronts[at.back + pair] = at.front + (is_odd ? __popc(are_trees[0]) : 0) + __popc((is_odd ? are_trees[1] : are_trees[0]) & before_pair);
        }
        // An odd one out is the last in order, beside none, which looks like a tree.
        const bool odd = (leaves + trees) % 2 != 0;
        const bool tree_is_last = odd && ((pairs < WARP / 2 ? are_trees[0] : are_trees[1]) >> 2 * pairs % WARP & 3) == 3;
        at.leaf_front += leaves - (odd && !tree_is_last);
        at.front = at.back - tree_is_last;
        at.back += pairs;
        ++at.rounds;
        __syncwarp();
    }
}

// The two-queue method itself, for the many rounds of few pairs that a steep code ends with; by one thread. Rounds are counted as `meld` has them.
template <typename Weights> __device__ inline void meld_serially(Melding &at, Weights &weights, uint16_t *fronts) {
    using Weight = decltype(weights.tree(0));
    constexpr Weight NONE = ~Weight(0);
    auto leaf_or_none = [&](uint32_t i) { return i < at.used ? weights.leaf(i) : NONE; };
    auto tree_or_none = [&](uint32_t i) { return i < at.back ? weights.tree(i) : NONE; };
    // Two of each queue, so that what is loaded next is not waited for at once.
    Weight leaf0 = leaf_or_none(at.leaf_front), leaf1 = leaf_or_none(at.leaf_front + 1);
    Weight tree0 = tree_or_none(at.front), tree1 = tree_or_none(at.front + 1);
    Weight sum = 0;             // of the round's two smallest
    uint32_t round_end = 0;     // trees made before the round
    while (at.left() > 1) {
        bool in_round = true;
        auto take = [&] {
            const bool is_leaf = leaf0 <= tree0;
            const Weight weight = is_leaf ? leaf0 : tree0;
            in_round = is_leaf ? weight <= sum : at.front < round_end;
            if (is_leaf) {
                ++at.leaf_front;
                leaf0 = leaf1;
                leaf1 = leaf_or_none(at.leaf_front + 1);
            } else {
                ++at.front;
                tree0 = tree1;
                tree1 = tree_or_none(at.front + 1);
            }
            return weight;
        };
        fronts[at.back] = at.front;
        const Weight first = take(), weight = first + take();
        // The second tells: where a round has an odd number of trees, the last waits for the next.
        if (!in_round) {
            ++at.rounds;
            sum = weight;
            round_end = at.back;
        }
        weights.set_tree(at.back, weight);
        tree1 = at.front + 1 == at.back ? weight : tree1;
        tree0 = at.front == at.back ? weight : tree0;
        ++at.back;
    }
}

// With this many trees left one warp goes on alone: the rounds are many, and a block's other warps would only be in its way.
constexpr uint32_t WARP_SOLO = 128;

// Melds until one tree is left, in one block. Thread 0 has the result.
template <typename Weights> __device__ inline void meld_in_block(Melding &at, Weights &weights, uint16_t *fronts) {
    meld(at, weights, fronts, WARP_SOLO, threadIdx.x, THREADS, [] { __syncthreads(); });
    if (warp_id() == 0) {
        meld(at, weights, fronts, 1, lane_id(), WARP, [] { __syncwarp(); });
        if (lane_id() == 0) {
            meld_serially(at, weights, fronts);
        }
    }
}

// The same with a copy of the weights, once there are no more than SOLO trees. Called by a whole block.
template <typename Weights> __device__ inline void meld_solo(Melding &at, const Weights &weights, uint16_t *fronts, SoloWeights &solo) {
    for (uint32_t i = at.leaf_front + threadIdx.x; i < at.used; i += THREADS) {
        solo.leaves[i - at.leaf_front] = weights.leaf(i);
    }
    for (uint32_t i = at.front + threadIdx.x; i < at.back; i += THREADS) {
        solo.trees[i - at.front] = weights.tree(i);
    }
    if (threadIdx.x == 0) {
        solo.first_leaf = at.leaf_front;
        solo.first_tree = at.front;
    }
    __syncthreads();
    meld_in_block(at, solo, fronts);
}

// Numbers of leaves at each depth, of the tree over `used` leaves; by one thread. Returns the greatest depth. Trees are taken in the order of their making: so the children of
// those from some tree on are the trees from that one's front on, and the trees of a depth stand together.
__device__ inline uint32_t leaves_per_depth(const uint16_t *fronts, uint32_t used, uint32_t *at_depth) {
    uint32_t depth = 0;
    for (uint32_t first = used - 2, trees = 1; trees > 0 && depth + 1 < DEPTHS;) {
        const uint32_t front = read(&fronts[first]);
        const uint32_t below = first - front;
        at_depth[++depth] = 2 * trees - below;
        first = front;
        trees = below;
    }
    return depth;
}

// Bits of all codewords if so many leaves are at each depth; by a warp. `sums` has the counts of the 0, 1, 2, ... rarest symbols: bits are the sum over depths of
// the counts of leaves that are as deep or deeper.
__device__ inline uint64_t coded_bits(const uint64_t *sums, uint32_t used, const uint32_t *at_depth) {
    uint64_t bits = 0;
    for (uint32_t depth = 1 + lane_id(); depth < DEPTHS; depth += WARP) {
        uint32_t deeper = used;
        for (uint32_t above = 1; above < depth && deeper > 0; ++above) {
            deeper -= at_depth[above];
        }
        bits += read(&sums[deeper]);
    }
    for (uint32_t distance = WARP / 2; distance > 0; distance /= 2) {
        bits += __shfl_xor_sync(ALL_LANES, bits, distance);
    }
    return bits;
}

// A codebook whose limit costs so much that its step (3) is due: what the first kernel leaves for the tries. After it in memory come the counts of the 0, 1, 2, ... rarest
// symbols (SYMBOLS + 1 words of 64 bits), and all symbols from the rarest on, those first that do not occur (16 bits).
struct Pending {
    uint32_t used, finished; // tries
    uint64_t total;
    uint64_t best_bits;      // of step (2)
    uint32_t best[WARP];     // its leaves at each depth
    struct Try {
        uint64_t bits;
        uint32_t leaves[WARP];
    } tries[FLOORS];

    __device__ inline uint64_t *sums() { return reinterpret_cast<uint64_t *>(reinterpret_cast<uint8_t *>(this) + PENDING_HEAD); }
    __device__ inline uint16_t *order() { return reinterpret_cast<uint16_t *>(sums() + SYMBOLS + 1); }
};
static_assert(sizeof(Pending) <= PENDING_HEAD && PENDING_HEAD + (SYMBOLS + 1) * 8 + SYMBOLS * 2 <= PENDING_BYTES, "the host gives enough memory");
static_assert(PENDING_HEAD % 16 == 0 && PENDING_BYTES % 16 == 0 && MAX_LENGTH_LARGE < WARP && FLOORS <= WARP, "a lane a depth, a lane a try");
