// The steps from sorted counts to a codebook, by a warp or a block: trees, the best code, and the serialized codebook.
// See huffman/codebook/small_alphabet.cu.
#pragma once
#include "huffman/codebook/small_alphabet_sort.cuh"

// A code: the number of codewords of each length, one length per lane, and the bits of all codewords.
struct LimitedCode {
    uint32_t bits;
    uint16_t at_length[WARP];
};

struct FlooredWeights {
    const uint32_t *counts;
    uint32_t *trees, floor;

    __device__ inline uint32_t leaf(uint32_t i) const { return max_of(counts[i], floor); }
    __device__ inline uint32_t tree(uint32_t i) const { return trees[i]; }
    __device__ inline void set_tree(uint32_t i, uint32_t weight) const { trees[i] = weight; }
};

// Returns the floor of tree `number`. Tree 0 is that of the unmodified counts; the others are the floor trees of the
// length limit.
__device__ inline uint32_t floor_of_tree(uint32_t number, uint32_t total) {
    return number == 0 ? 0 : uint32_t(floor_of(number - 1, total, LIMIT));
}

__device__ inline uint16_t *fronts_of(uint8_t *memory, uint32_t used) {
    return reinterpret_cast<uint16_t *>(reinterpret_cast<uint32_t *>(memory) + used);
}
__device__ inline const uint16_t *fronts_of(const uint8_t *memory, uint32_t used) {
    return reinterpret_cast<const uint16_t *>(reinterpret_cast<const uint32_t *>(memory) + used);
}

// Returns the set of trees to build: tree 0, and each floor tree whose floor raises a count and differs from the
// previous floor. Called by a warp, one tree per lane.
__device__ inline uint32_t trees_to_build(uint32_t least, uint32_t total) {
    const uint32_t number = lane_id();
    const uint32_t floor = number <= FLOORS ? floor_of_tree(number, total) : 0,
                   before = __shfl_up_sync(ALL_LANES, floor, 1);
    return __ballot_sync(ALL_LANES, number == 0 || (floor > least && floor != before));
}

// Returns the position of the `rank`-th set bit, or 32 if there are fewer. Called by a warp.
__device__ inline uint32_t set_bit(uint32_t bits, uint32_t rank) {
    const uint32_t before = __popc(bits & ((1u << lane_id()) - 1));
    return __clz(__brev(__ballot_sync(ALL_LANES, before == rank && (bits >> lane_id() & 1))));
}

// A tree is built by one warp or by four, one for each partition of a multiprocessor. All of them take part in large
// rounds; the first does the others.
constexpr uint32_t WARPS_OF_TREE = 4, MAX_TREE_GROUPS = WARPS / WARPS_OF_TREE;

struct TreeWarps {
    uint32_t number, count;
#if UNDER_RACECHECK
    mutable uint32_t passed = 0; // barriers
#endif

    __device__ inline explicit TreeWarps(uint32_t count) : number(warp_id() / count), count(count) {}
    __device__ inline uint32_t threads() const { return count * WARP; }
    __device__ inline uint32_t rank() const { return threadIdx.x - number * threads(); }
    __device__ inline void sync() const {
        if (count == 1) {
            __syncwarp();
        } else {
            asm volatile("bar.sync %0, %1;" : : "r"(number + 1), "n"(WARPS_OF_TREE * WARP) : "memory");
#if UNDER_RACECHECK
            ++passed;
#endif
        }
    }

    // Under racecheck all warps of the block, also those without a tree, must pass the same number of barriers before
    // they synchronize.
    __device__ inline void even_out() const {
#if UNDER_RACECHECK
        constexpr uint32_t MOST = 256;
        for (; passed < MOST; ++passed) {
            racecheck_barrier();
        }
#endif
    }
};
static_assert(MAX_TREE_GROUPS < 15, "that barrier is nobody's");

// Melds large rounds until one tree is left or the next round is small. The threads of the tree's warps handle
// interleaved pairs.
__device__ inline void meld_large_rounds_by_warps(const TreeWarps &tree_warps, uint32_t used, Melding &at,
                                                  const FlooredWeights &weights, uint16_t *fronts) {
    constexpr uint32_t NONE = ~uint32_t(0);
    __shared__ uint32_t leaf_ends[WARPS];
    auto leaf_or_none = [&](uint32_t i) { return i < used ? weights.leaf(i) : NONE; };
    auto tree_or_none = [&](uint32_t i, uint32_t back) { return i < back ? weights.tree(i) : NONE; };
#pragma unroll 1
    while (at.left() >= MAX_REGISTER_LEAVES) {
        const uint32_t sum = two_smallest(leaf_or_none(at.leaf_front), leaf_or_none(at.leaf_front + 1),
                                          tree_or_none(at.front, at.back), tree_or_none(at.front + 1, at.back));
        // One thread finds the last leaf that is not larger.
        uint32_t leaf = at.leaf_front + tree_warps.rank();
        if (tree_warps.rank() == 0 && leaf_or_none(leaf) > sum) {
            leaf_ends[tree_warps.number] = leaf;
        }
#pragma unroll 1
        for (; leaf < used && weights.leaf(leaf) <= sum; leaf += tree_warps.threads()) {
            if (leaf_or_none(leaf + 1) > sum) {
                leaf_ends[tree_warps.number] = leaf + 1;
            }
        }
        tree_warps.sync();
        const uint32_t leaf_end = leaf_ends[tree_warps.number];
        if (leaf_end - at.leaf_front < MAX_REGISTER_LEAVES && at.back - at.front <= MAX_REGISTER_LEAVES) {
            break;
        }
        meld_interleaved(at, weights, fronts, leaf_end, tree_warps.rank(), tree_warps.threads());
        tree_warps.sync();
    }
}

// Melds the counts raised to `floor` until one tree is left. Called by the tree's warps; `memory` is that of the tree.
__device__ inline Melding meld_by_warps(const TreeWarps &tree_warps, const Shared &shared, uint32_t used,
                                        uint32_t floor, uint8_t *memory) {
    __shared__ Melding shared_state[WARPS];
    uint16_t *fronts = fronts_of(memory, used);
    FlooredWeights weights{shared.counts, reinterpret_cast<uint32_t *>(memory), floor};
    Melding at{used, 0, 0, 0, 0};
#pragma unroll 1
    while (at.left() > 1) {
        // A single warp may leave large rounds to all warps of the tree.
        meld_large_rounds_by_warps(tree_warps, used, at, weights, fronts);
        if (tree_warps.rank() < WARP) {
            meld_in_warp<uint32_t>(at, weights, fronts);
            if (lane_id() == 0) {
                shared_state[tree_warps.number] = at;
            }
        }
        tree_warps.sync();
        at = shared_state[tree_warps.number];
        // The shared state must be read before it is written again.
        tree_warps.sync();
    }
    return at;
}

// Properties of a finished tree.
struct Tree {
    bool limited;       // whether its depth exceeded the limit
    uint32_t unlimited; // bits without a limit, for the tree of the unmodified counts
};

// Returns the bits of all codewords without a limit, for the tree of the unmodified counts. It is the sum of all
// internal weights, because a count is included in d internal weights if its leaf has depth d. Called by a warp.
__device__ inline uint32_t unlimited_bits(uint32_t used, const uint8_t *memory) {
    const uint32_t *trees = reinterpret_cast<const uint32_t *>(memory);
    uint32_t sum = 0;
#pragma unroll 4
    for (uint32_t i = lane_id(); i + 1 < used; i += WARP) {
        sum += trees[i];
    }
    return warp_reduce_sum(sum);
}

// Limits the depth of a tree that was melded from the counts raised to `floor`, and stores its code. Called by a warp.
__device__ inline Tree record_code(const Shared &shared, uint32_t used, uint32_t floor, const uint8_t *memory,
                                   LimitedCode &to) {
    const uint16_t *fronts = fronts_of(memory, used);
    uint32_t over;
    const uint32_t at_length =
        limited_lengths([&](uint32_t tree) { return uint32_t(fronts[tree]); }, used, LIMIT, over);
    const uint32_t bits = coded_bits(shared.sums, used, LIMIT, at_length);
    uint32_t unlimited = bits;
    if (over > 0 && floor == 0) {
        unlimited = unlimited_bits(used, memory);
    }
    to.at_length[lane_id()] = at_length;
    if (lane_id() == 0) {
        to.bits = bits;
    }
    return {over > 0, unlimited};
}

// Returns whether the length limit costs so much that floor trees are built, given the tree of the unmodified counts
// and the bits of its limited code.
__device__ inline bool floor_trees_needed(const Tree &tree, uint32_t bits) {
    return tree.limited && bits > tree.unlimited + tree.unlimited / 2048;
}

// Returns the code with the fewest bits, the earlier of equal ones. Called by a warp, one length per lane.
__device__ inline uint32_t best_code(const LimitedCode *codes, bool needs_floors, uint32_t &bits) {
    uint32_t fewest = lane_id() == 0 || (needs_floors && lane_id() <= FLOORS)
                          ? codes[min_of(lane_id(), FLOORS + 0u)].bits
                          : ~uint32_t(0);
    uint32_t best = lane_id();
#pragma unroll
    for (uint32_t distance = WARP / 2; distance > 0; distance /= 2) {
        const uint32_t other_bits = __shfl_xor_sync(ALL_LANES, fewest, distance);
        const uint32_t other = __shfl_xor_sync(ALL_LANES, best, distance);
        if (other_bits < fewest || (other_bits == fewest && other < best)) {
            fewest = other_bits;
            best = other;
        }
    }
    bits = fewest;
    return codes[best].at_length[lane_id()];
}

// Returns the lanes with the same length as this lane, and the lanes whose length is this lane's number.
__device__ inline uint2 lanes_of_length(uint32_t length) {
    uint32_t same = ALL_LANES, named = ALL_LANES;
#pragma unroll
    for (uint32_t bit = 0; bit < 5; ++bit) {
        const uint32_t set = __ballot_sync(ALL_LANES, length >> bit & 1);
        same &= length >> bit & 1 ? set : ~set;
        named &= lane_id() >> bit & 1 ? set : ~set;
    }
    return make_uint2(same, named);
}

__device__ inline uint32_t run_bytes(uint32_t run) { return run < LONG_RUN ? 1 : run - LONG_RUN < 1u << 7 ? 2 : 3; }

// Serializes the codebook (docs/FORMAT.md, "Codebook") and returns its size in bytes. `starts` has the starts of the
// runs of equal lengths among the first `alphabet` symbols.
__device__ inline uint32_t write_bytes(const Shared &shared, const uint16_t *starts, uint32_t runs, uint32_t alphabet,
                                       uint8_t *bytes) {
    __shared__ uint32_t warp_sums[WARPS];
    uint32_t written = 4, total;
#pragma unroll 1
    for (uint32_t first = 0; first < runs; first += THREADS) {
        const uint32_t i = first + threadIdx.x;
        uint32_t start = 0, run = 0;
        if (i < runs) {
            start = starts[i];
            run = (i + 1 < runs ? starts[i + 1] : alphabet) - start;
        }
        uint32_t at = written + block_exclusive_sum<THREADS, uint32_t>(i < runs ? run_bytes(run) : 0, warp_sums, total);
        if (i < runs) {
            bytes[at] = shared.lengths[start] | (run < LONG_RUN ? run - 1 : LONG_RUN - 1) << 5;
            if (run >= LONG_RUN) {
                uint32_t number = run - LONG_RUN;
                for (; number >= 0x80; number >>= 7) {
                    bytes[++at] = number | 0x80;
                }
                bytes[++at] = number;
            }
        }
        written += total;
    }
    if (threadIdx.x < 4) {
        bytes[threadIdx.x] = alphabet >> 8 * threadIdx.x;
    }
    return written;
}

// Row of lengths that warps exchange. Rows start in different banks.
constexpr uint32_t WARP_ROW = WARP + 2;

// A canonical code, one length per lane: the first codeword of each length and the number of shorter codewords; also
// the longest length and the number of runs of equal lengths.
struct CanonicalCode {
    uint32_t first_code, entry, longest, runs;
};

// Assigns each symbol its codeword, given the number of codewords of each length (one length per lane, in every warp).
// Calls `put(symbol, codeword, position among all codewords)`, and stores the starts of the runs of equal lengths among
// the first `alphabet` symbols. Called by the whole block; `warp_lengths` has a row for each warp.
template <typename Put>
__device__ inline CanonicalCode assign_codewords(Shared &shared, uint32_t used, uint32_t alphabet, uint32_t at_length,
                                                 uint16_t (*warp_lengths)[WARP_ROW], uint16_t *starts, Put put) {
    __shared__ uint32_t runs;
    const uint32_t through = warp_inclusive_sum(at_length), entry = through - at_length;
    const uint32_t longest = 31 - __clz(__ballot_sync(ALL_LANES, at_length > 0) | 1);
    const uint32_t units = lane_id() < WARP - 1 ? at_length << (WARP - 1 - lane_id()) : 0;
    // In units of 2^-31: codewords of a length start where shorter ones end.
    const uint32_t first_code = (warp_inclusive_sum(units) - units) >> (WARP - 1 - lane_id());
#pragma unroll 1
    for (uint32_t first = warp_id() * WARP; first < used; first += THREADS) {
        // The rarest symbols get the longest codewords.
        const uint32_t i = first + lane_id(), more_common = used - 1 - min_of(i, used - 1);
        uint32_t length = 0;
#pragma unroll
        for (uint32_t step = WARP / 2; step > 0; step /= 2) {
            length += __shfl_sync(ALL_LANES, through, length + step - 1) <= more_common ? step : 0;
        }
        if (i < used) {
            shared.lengths[shared.order[i]] = length;
        }
    }
    __syncthreads();
    uint32_t lengths[STRETCHES], ranks[STRETCHES], run_starts[STRETCHES], seen = 0;
    bool any[STRETCHES];
#pragma unroll
    for (uint32_t i = 0; i < STRETCHES; ++i) {
        const uint32_t symbol = (warp_id() * STRETCHES + i) * WARP + lane_id();
        lengths[i] = symbol < ROOM ? shared.lengths[symbol] : 0;
        // Most stretches of smooth fields have no symbol that occurs.
        any[i] = __any_sync(ALL_LANES, lengths[i] != 0);
        const uint2 lanes = any[i] ? lanes_of_length(lengths[i]) : make_uint2(0, 0);
        const bool is_start = symbol < alphabet && (symbol == 0 || shared.lengths[symbol - 1] != lengths[i]);
        run_starts[i] = __ballot_sync(ALL_LANES, is_start);
        ranks[i] = __shfl_sync(ALL_LANES, seen, lengths[i]) + __popc(lanes.x & ((1u << lane_id()) - 1));
        // Length 0 does not occur: its entry counts starts of runs.
        seen += __popc(lane_id() == 0 ? run_starts[i] : lanes.y);
    }
    warp_lengths[warp_id()][lane_id()] = seen;
    __syncthreads();
    // Prefix sums over warps, one length per warp.
#pragma unroll 1
    for (uint32_t length = warp_id(); length <= LIMIT; length += WARPS) {
        const uint32_t count = lane_id() < WARPS ? warp_lengths[lane_id()][length] : 0,
                       through_warp = warp_inclusive_sum(count);
        if (lane_id() < WARPS) {
            warp_lengths[lane_id()][length] = through_warp - count;
        }
        if (length == 0 && lane_id() == WARP - 1) {
            runs = through_warp;
        }
    }
    __syncthreads();
    const uint32_t before = warp_lengths[warp_id()][lane_id()];
    uint32_t run = __shfl_sync(ALL_LANES, before, 0);
#pragma unroll
    for (uint32_t i = 0; i < STRETCHES; ++i) {
        const uint32_t symbol = (warp_id() * STRETCHES + i) * WARP + lane_id();
        uint32_t code = 0, place = 0;
        if (any[i]) {
            const uint32_t rank = __shfl_sync(ALL_LANES, before, lengths[i]) + ranks[i];
            code = __shfl_sync(ALL_LANES, first_code, lengths[i]) + rank;
            place = __shfl_sync(ALL_LANES, entry, lengths[i]) + rank;
        }
        if (symbol < SYMBOLS) {
            put(symbol, lengths[i] == 0 ? 0 : lengths[i] << 27 | code, place);
        }
        if (run_starts[i] >> lane_id() & 1) {
            starts[run + __popc(run_starts[i] & ((1u << lane_id()) - 1))] = symbol;
        }
        run += __popc(run_starts[i]);
    }
    return {first_code, entry, longest, runs};
}
