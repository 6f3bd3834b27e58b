// Builds the candidate trees of a large codebook, one block each: that of the unmodified counts, and those of the
// counts raised to the floors of the length limit, whether they are needed or not. huffman/codebook/tree.cuh explains
// the rounds. Leaves are read from device memory, once for each round that melds them. The queue of internal trees is
// in shared memory, except for rounds of more than QUEUE trees. Fronts are stored as one byte per tree, and in full for
// every 64th tree, because they grow by at most two from tree to tree.
//
// THREADS           threads of a block
// QUEUE             trees that fit into the queue
// FRONTS_IN_SHARED  whether the bytes of the fronts are in shared memory, too; otherwise in `spill`
// SPILL_BYTES       bytes of `spill` for a tree
//
// COOPERATIVE_BLOCKS is 1. See also the constants of huffman/codebook/sort.cuh and huffman/codebook/tree.cuh.
#include "device/sync.cuh"
#include "huffman/codebook/sort.cuh"
#include "huffman/codebook/tree.cuh"
#include "huffman/codebook/cooperative_trees.cuh"

static_assert(COOPERATIVE_BLOCKS == 1, "a block is on its own");

// The weights of the last few trees, starting at the first that has no parent.
constexpr uint32_t LAST_TREES = 512;
struct LastWeights {
    uint64_t leaves[LAST_TREES], trees[2 * LAST_TREES];
    uint32_t first_leaf, first_tree;

    __device__ inline uint64_t leaf(uint32_t i) const { return leaves[i - first_leaf]; }
    __device__ inline uint64_t tree(uint32_t i) const { return trees[i - first_tree]; }
    __device__ inline void set_tree(uint32_t i, uint64_t weight) { trees[i - first_tree] = weight; }
};

constexpr uint32_t WHOLE_FRONTS = 64;
struct Fronts {
    uint8_t *low;
    uint16_t *whole; // of every 64th tree

    __device__ inline void set(uint32_t tree, uint32_t front) const {
        low[tree] = front;
        if (tree % WHOLE_FRONTS == 0) {
            whole[tree / WHOLE_FRONTS] = front;
        }
    }
    __device__ inline uint32_t get(uint32_t tree) const {
        const uint32_t before = whole[tree / WHOLE_FRONTS];
        return before + ((low[tree] - before) & 0xFF);
    }
};
static_assert(2 * (WHOLE_FRONTS - 1) < 256, "a byte tells");

// Trees of a round with both leaves and internal trees that are melded at a time.
constexpr uint32_t CHUNK = QUEUE;
// Shared memory without the queue and a chunk before it, and the bytes of the fronts after it.
struct Shared {
    LastWeights last;
    uint64_t sums[STRETCHES]; // prefix sums of the counts before each stretch
    uint64_t warp_sums[WARPS];
    uint32_t through[WARP];                                    // codewords of at most as many bits as the index
    uint32_t leaves_before[(SYMBOLS + CHUNK - 1) / CHUNK + 1]; // before each chunk of a round
    uint16_t last_fronts[LAST_TREES];
    uint16_t whole_fronts[(SYMBOLS + WHOLE_FRONTS - 1) / WHOLE_FRONTS];
};
// Maximum number of trees of a round: half as many as there are symbols, and one that waited.
constexpr uint32_t MAX_TREES = (SYMBOLS / 2 + 2) / 2 * 2;
static_assert(CHUNK % 2 == 0, "pairs are whole");
static_assert(2 * MAX_TREES * 8 + (FRONTS_IN_SHARED ? 0 : SYMBOLS) <= SPILL_BYTES && SPILL_BYTES % 16 == 0,
              "the host gives enough memory");
static_assert((QUEUE + CHUNK) * 8 + sizeof(Shared) + (FRONTS_IN_SHARED ? SYMBOLS : 0) <= SHARED_BYTES &&
                  QUEUE >= LAST_TREES,
              "the host gives enough shared memory");

struct Leaves {
    const uint64_t *keys;
    uint64_t floor;
    uint32_t used;

    __device__ inline uint64_t or_none(uint32_t i) const {
        return i < used ? max_of<uint64_t>(__ldg(&keys[i]) >> SYMBOL_BITS, floor) : ~0ull;
    }
};

// Returns the sum over the block, in every thread of the first warp.
__device__ inline uint64_t block_sum(uint64_t value, uint64_t *warp_sums) {
    value = warp_reduce_sum(value);
    if (lane_id() == 0) {
        warp_sums[warp_id()] = value;
    }
    __syncthreads();
    return warp_reduce_sum(lane_id() < WARPS ? warp_sums[lane_id()] : 0);
}

// Melds rounds until at most LAST_TREES trees are left. `queue` becomes the internal trees without a parent. Returns
// this thread's part of the sum of the weights of all new trees.
__device__ inline uint64_t meld_to_few(Melding &at, const Leaves &leaves, const Fronts &fronts, uint64_t *shared_queue,
                                       uint64_t *stage, Shared &shared, uint64_t *spill, const uint64_t *&queue) {
    constexpr uint64_t NONE = ~0ull;
    // Leaves between two probes: what one load from memory brings.
    constexpr uint32_t PROBE = 4;
    uint64_t weights_made = 0;
    uint32_t in_shared = 0;
    bool low_end = true, first_spill = true;
    queue = shared_queue;
    // The leaves of a round are probed one round ahead. A leaf that waits is the smallest of the next round.
    uint32_t probed = 0;
    uint64_t probe = leaves.or_none(PROBE * threadIdx.x + PROBE - 1);
    while (at.left() > LAST_TREES) {
        const uint32_t trees = at.back - at.front;
        const uint64_t tree0 = trees > 0 ? queue[0] : NONE, tree1 = trees > 1 ? queue[1] : NONE;
        const uint64_t sum =
            two_smallest(leaves.or_none(at.leaf_front), leaves.or_none(at.leaf_front + 1), tree0, tree1);
        uint32_t whole;
        if ((whole = __syncthreads_count(probe <= sum)) == THREADS) {
            // If a round has more leaves than usual, probes all remaining leaves at once, then one probe's part of
            // them.
            constexpr uint32_t FAR = (SYMBOLS + THREADS * PROBE - 1) / (THREADS * PROBE) * PROBE;
            probed += FAR * __syncthreads_count(leaves.or_none(probed + FAR * threadIdx.x + FAR - 1) <= sum);
            whole = __syncthreads_count(PROBE * threadIdx.x < FAR &&
                                        leaves.or_none(probed + PROBE * threadIdx.x + PROBE - 1) <= sum);
        }
        probed += whole * PROBE;
        const uint32_t leaf_end =
            probed + __popc(__ballot_sync(ALL_LANES, lane_id() < PROBE && leaves.or_none(probed + lane_id()) <= sum));
        probed = leaf_end;
        probe = leaves.or_none(probed + PROBE * threadIdx.x + PROBE - 1);

        const uint32_t of_leaves = leaf_end - at.leaf_front, pairs = (of_leaves + trees) / 2;
        // If their number is odd, the last in order waits.
        const bool odd = (of_leaves + trees) % 2 != 0;
        const bool leaf_is_last = of_leaves > 0 && (trees == 0 || leaves.or_none(leaf_end - 1) > queue[trees - 1]);
        const uint32_t tree_waits = odd && !leaf_is_last, built = pairs + tree_waits;
        uint64_t *to;
        if (in_shared + built <= QUEUE) {
            to = low_end ? shared_queue : shared_queue + (QUEUE - built);
            low_end = !low_end;
            in_shared = built;
        } else {
            to = first_spill ? spill : spill + MAX_TREES;
            first_spill = !first_spill;
            in_shared = 0;
        }
        if (tree_waits != 0 && threadIdx.x == 0) {
            to[0] = queue[trees - 1];
        }
        to += tree_waits;
        if (of_leaves == 0 || trees == 0) {
            // Several loads before the first store.
            constexpr uint32_t AHEAD = 8;
            for (uint32_t first = threadIdx.x; first < pairs; first += AHEAD * THREADS) {
                uint64_t weights[AHEAD];
                if (trees == 0) {
#pragma unroll
                    for (uint32_t i = 0; i < AHEAD; ++i) {
                        const uint32_t item = at.leaf_front + 2 * (first + i * THREADS);
                        weights[i] = leaves.or_none(item) + leaves.or_none(item + 1);
                    }
                } else {
#pragma unroll
                    for (uint32_t i = 0; i < AHEAD; ++i) {
                        const uint32_t pair = min_of(first + i * THREADS, pairs - 1);
                        weights[i] = queue[2 * pair] + queue[2 * pair + 1];
                    }
                }
#pragma unroll
                for (uint32_t i = 0; i < AHEAD; ++i) {
                    const uint32_t pair = first + i * THREADS;
                    if (pair < pairs) {
                        to[pair] = weights[i];
                        weights_made += weights[i];
                        fronts.set(at.back + pair, at.front + (trees == 0 ? 0 : 2 * pair));
                    }
                }
            }
        } else {
            // Merge path, one warp per chunk.
            const uint32_t items = 2 * pairs, chunks = ceil_div(items, CHUNK);
            for (uint32_t chunk = 1 + warp_id(); chunk < chunks; chunk += WARPS) {
                const uint32_t end = chunk * CHUNK;
                shared.leaves_before[chunk] =
                    partition_point(end > trees ? end - trees : 0, min_of(end, of_leaves), [&](uint32_t i) {
                        return leaves.or_none(at.leaf_front + i) <= queue[end - 1 - i];
                    });
            }
            if (threadIdx.x == 0) {
                shared.leaves_before[0] = 0;
                shared.leaves_before[chunks] = of_leaves - (odd && leaf_is_last);
            }
            __syncthreads();
            for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
                const uint32_t start = chunk * CHUNK, size = min_of(CHUNK, items - start);
                const uint32_t first_leaf = shared.leaves_before[chunk],
                               leaves_here = shared.leaves_before[chunk + 1] - first_leaf;
                const uint32_t first_tree = start - first_leaf, trees_here = size - leaves_here;
#pragma unroll 4
                for (uint32_t i = threadIdx.x; i < size; i += THREADS) {
                    stage[i] = i < leaves_here ? leaves.or_none(at.leaf_front + first_leaf + i)
                                               : queue[first_tree + i - leaves_here];
                }
                __syncthreads();
                const uint64_t *const staged_trees = stage + leaves_here;
                const uint32_t per_thread = ceil_div(size / 2, THREADS);
                const uint32_t first = min_of(size / 2, threadIdx.x * per_thread),
                               end = min_of(size / 2, first + per_thread);
                if (first < end) {
                    // Finds how many of the first 2 * first trees are leaves.
                    uint32_t low = 2 * first > trees_here ? 2 * first - trees_here : 0,
                             high = min_of(2 * first, leaves_here);
                    while (low < high) {
                        const uint32_t middle = (low + high) / 2;
                        if (stage[middle] <= staged_trees[2 * first - 1 - middle]) {
                            low = middle + 1;
                        } else {
                            high = middle;
                        }
                    }
                    uint32_t leaf = low, tree = 2 * first - low;
                    uint64_t next_leaf = leaf < leaves_here ? stage[leaf] : NONE,
                             next_tree = tree < trees_here ? staged_trees[tree] : NONE;
                    for (uint32_t pair = start / 2 + first; pair < start / 2 + end; ++pair) {
                        uint64_t weight = 0;
                        fronts.set(at.back + pair, at.front + first_tree + tree);
#pragma unroll
                        for (uint32_t side = 0; side < 2; ++side) {
                            if (next_leaf <= next_tree) {
                                weight += next_leaf;
                                ++leaf;
                                next_leaf = leaf < leaves_here ? stage[leaf] : NONE;
                            } else {
                                weight += next_tree;
                                ++tree;
                                next_tree = tree < trees_here ? staged_trees[tree] : NONE;
                            }
                        }
                        to[pair] = weight;
                        weights_made += weight;
                    }
                }
                __syncthreads();
            }
        }
        at.leaf_front = leaf_end - (odd && leaf_is_last);
        at.front = at.back - tree_waits;
        at.back += pairs;
        ++at.rounds;
        queue = to - tree_waits;
        __syncthreads();
    }
    return weights_made;
}

// Block i builds tree i from the counts that cooperative_sort has left in `memory`, `control` and `sums`.
extern "C" __global__ void __launch_bounds__(THREADS)
    cooperative_trees(uint8_t *memory, void *control, const uint64_t *sums, uint8_t *spill, CandidateTrees *trees) {
    extern __shared__ __align__(16) uint8_t shared_memory[];
    const uint32_t number = blockIdx.x;
    uint64_t *shared_queue = reinterpret_cast<uint64_t *>(shared_memory);
    Shared &shared = *reinterpret_cast<Shared *>(shared_queue + QUEUE + CHUNK);
    spill += uint64_t(number) * SPILL_BYTES;
    const Fronts fronts{FRONTS_IN_SHARED ? reinterpret_cast<uint8_t *>(&shared + 1) : spill + 2 * MAX_TREES * 8,
                        shared.whole_fronts};
    const Arrays a = layout(memory, control);
    launch_dependents_and_wait();
    const long long start = clock64();
    const SortResult &found = *reinterpret_cast<const SortResult *>(sums + STRETCHES);
    const uint64_t *keys = found.in_internal ? a.internal : a.keys;
    if (number == 0 && threadIdx.x == 0) {
        a.control->barrier = a.control->all_counts = 0;
    }
    const uint32_t unused = found.unused, used = SYMBOLS - unused,
                   limit = used > LARGE_ALPHABET ? MAX_LENGTH_LARGE : MAX_LENGTH;
    uint64_t counted = 0;
    for (uint32_t first = 0; first < STRETCHES; first += THREADS) {
        // Prefix sums of the stretches.
        const uint32_t stretch = first + threadIdx.x;
        const uint64_t own = stretch < STRETCHES ? sums[stretch] : 0;
        const uint64_t through = warp_inclusive_sum(own);
        __syncthreads();
        if (lane_id() == WARP - 1) {
            shared.warp_sums[warp_id()] = through;
        }
        __syncthreads();
        uint64_t before = counted + through - own;
        for (uint32_t warp = 0; warp < WARPS; ++warp) {
            before += warp < warp_id() ? shared.warp_sums[warp] : 0;
            counted += shared.warp_sums[warp];
        }
        if (stretch < STRETCHES) {
            shared.sums[stretch] = before;
        }
    }
    __syncthreads();
    if (used <= 1) {
        if (warp_id() == 0) {
            trees->tree[number].leaves[lane_id()] =
                used == 1 && lane_id() == 1; // a single symbol has a codeword of one bit
            if (lane_id() == 0) {
                trees->tree[number].bits = 0;
                if (number == 0) {
                    trees->unlimited = 0;
                    trees->rounds = trees->cycles[0] = trees->cycles[1] = 0;
                }
            }
        }
        return;
    }

    const Leaves leaves{keys + unused, number == 0 ? 0 : floor_of(number - 1, a.control->total, limit), used};
    Melding at{used, 0, 0, 0, 0};
    const uint64_t *queue;
    uint64_t unlimited = meld_to_few(at, leaves, fronts, shared_queue, shared_queue + QUEUE, shared,
                                     reinterpret_cast<uint64_t *>(spill), queue);
    for (uint32_t i = threadIdx.x; i < used - at.leaf_front; i += THREADS) {
        shared.last.leaves[i] = leaves.or_none(at.leaf_front + i);
    }
    for (uint32_t i = threadIdx.x; i < at.back - at.front; i += THREADS) {
        shared.last.trees[i] = queue[i];
    }
    if (threadIdx.x == 0) {
        shared.last.first_leaf = at.leaf_front;
        shared.last.first_tree = at.front;
    }
    __syncthreads();
    const uint32_t built = at.back, waiting = at.back - at.front;
    meld_in_block(at, shared.last, shared.last_fronts - built, a.control->total);
    for (uint32_t i = threadIdx.x; i < used - 1 - built; i += THREADS) {
        fronts.set(built + i, shared.last_fronts[i]);
        unlimited += shared.last.trees[waiting + i];
    }
    // The sum of all internal weights: a count is included in d internal weights if its leaf has depth d.
    unlimited = block_sum(unlimited, shared.warp_sums);
    __syncthreads();
    const long long melded = clock64();
    uint32_t over, at_length = 0;
    if (warp_id() == 0) {
        at_length = limited_lengths([&](uint32_t tree) { return fronts.get(tree); }, used, limit, over);
        shared.through[lane_id()] = warp_inclusive_sum(at_length);
    }
    __syncthreads();
    // The bits are the sum over all lengths of the counts of symbols with codewords of at least that length, which are
    // the rarest: one warp for each length.
    uint64_t bits = 0;
    for (uint32_t length = 1 + warp_id(); length <= limit; length += WARPS) {
        const uint32_t end = unused + used - shared.through[length - 1];
        bits += lane_id() == 0 && end > 0 ? shared.sums[(end - 1) / STRETCH] : 0;
        for (uint32_t i = (end - 1) / STRETCH * STRETCH + lane_id(); i < end; i += WARP) {
            bits += __ldg(&keys[i]) >> SYMBOL_BITS;
        }
    }
    bits = block_sum(bits, shared.warp_sums);
    if (warp_id() == 0) {
        trees->tree[number].leaves[lane_id()] = at_length;
        if (lane_id() == 0) {
            trees->tree[number].bits = bits;
            if (number == 0) {
                trees->unlimited = unlimited;
                trees->rounds = at.rounds;
                trees->cycles[0] = melded - start;
                trees->cycles[1] = clock64() - melded;
            }
        }
    }
}
