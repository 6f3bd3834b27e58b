// Builds canonical Huffman codes from counts in one block each, or, if codebooks are few, in one block for each
// candidate tree.
//
// These are the two phases of Tian et al., "Revisiting Huffman Coding" (IPDPS 2021), section IV-B (after Ostadzadeh et
// al. 2007):
// - GenerateCL: huffman/codebook/tree.cuh explains the rounds.
// - The length limit is that of syncline_core::huffman::lengths, whose step (3) needs FLOORS more trees. If codebooks
//   are few, each has FLOORS + 1 blocks (`parts`), which sort the same counts and build one tree each before it is
//   known whether they are needed. The first block writes the code if they are not, otherwise the last to finish. If
//   codebooks are many, codebook/floor_trees.cu builds the trees that are needed.
// - GenerateCW: huffman/codebook/canonical_code.cuh.
//
// Alphabets that exceed the shared memory of a block: huffman/codebook/cooperative.cu.
//
// THREADS  threads of a block, a multiple of 256
//
// COOPERATIVE_BLOCKS is 1. See also the constants of huffman/codebook/sort.cuh and huffman/codebook/tree.cuh.
#include "huffman/codebook/canonical_code.cuh"
#include "huffman/codebook/sort.cuh"
#include "codebook/floor_trees.cuh"

static_assert(COOPERATIVE_BLOCKS == 1, "a block is on its own");

// Weights of leaves, raised to the floor, and of internal trees in the order in which they are made. Both ascend.
struct BlockWeights {
    const uint64_t *keys;
    uint64_t *internal, floor;

    __device__ inline uint64_t leaf(uint32_t i) const { return max_of<uint64_t>(keys[i] >> SYMBOL_BITS, floor); }
    __device__ inline uint64_t tree(uint32_t i) const { return internal[i]; }
    __device__ inline void set_tree(uint32_t i, uint64_t weight) const { internal[i] = weight; }
};

// Computes prefix sums of the counts of the used symbols, the rarest first. Called by the whole block.
__device__ inline void sum_counts(const uint64_t *leaf_keys, uint32_t used, uint64_t *sums) {
    constexpr uint32_t PER_THREAD = (SYMBOLS + THREADS - 1) / THREADS;
    __shared__ uint64_t warp_totals[WARPS];
    const uint32_t first = min_of(used, threadIdx.x * PER_THREAD), end = min_of(used, first + PER_THREAD);
    uint64_t own = 0;
    for (uint32_t i = first; i < end; ++i) {
        own += leaf_keys[i] >> SYMBOL_BITS;
    }
    uint64_t sum = own;
    for (uint32_t distance = 1; distance < WARP; distance *= 2) {
        const uint64_t below = __shfl_up_sync(ALL_LANES, sum, distance);
        sum += lane_id() >= distance ? below : 0;
    }
    if (lane_id() == WARP - 1) {
        warp_totals[warp_id()] = sum;
    }
    __syncthreads();
    uint64_t before = sum - own;
    for (uint32_t warp = 0; warp < warp_id(); ++warp) {
        before += warp_totals[warp];
    }
    if (threadIdx.x == 0) {
        sums[0] = 0;
    }
    for (uint32_t i = first; i < end; ++i) {
        before += leaf_keys[i] >> SYMBOL_BITS;
        sums[i + 1] = before;
    }
    __syncthreads();
}

// Returns the sum over the block, in every thread of the first warp.
__device__ inline uint64_t block_sum(uint64_t value) {
    __shared__ uint64_t warp_sums[WARPS];
    value = warp_reduce_sum(value);
    if (lane_id() == 0) {
        warp_sums[warp_id()] = value;
    }
    __syncthreads();
    return warp_reduce_sum(lane_id() < WARPS ? warp_sums[lane_id()] : 0);
}

// Limits the code of the unmodified counts of at least two symbols, and returns whether floor trees are needed, for
// which it then fills `floor_trees`. `at_length` becomes the limited code in the first warp. `sums` is memory for
// SYMBOLS + 1 words, which may overlap the trees' weights. Called by the whole block.
__device__ inline bool limited_code(const Arrays &a, const uint64_t *leaf_keys, uint32_t used, uint32_t limit,
                                    uint32_t &at_length, uint64_t *sums, FloorTrees &floor_trees) {
    uint32_t over = 0;
    if (warp_id() == 0) {
        at_length = limited_lengths([&](uint32_t tree) { return uint32_t(a.fronts[tree]); }, used, limit, over);
    }
    if (!__syncthreads_or(over > 0)) {
        return false;
    }
    // The sum of all internal weights: a count is included in d internal weights if its leaf has depth d.
    uint64_t unlimited = 0;
    for (uint32_t i = threadIdx.x; i + 1 < used; i += THREADS) {
        unlimited += a.internal[i];
    }
    unlimited = block_sum(unlimited);
    __syncthreads();
    sum_counts(leaf_keys, used, sums);
    bool needs_floors = false;
    if (warp_id() == 0) {
        const uint64_t bits = coded_bits(sums, used, limit, at_length);
        needs_floors = bits > unlimited + unlimited / 2048;
        floor_trees.best[lane_id()] = at_length;
        if (lane_id() == 0) {
            floor_trees.used = used;
            floor_trees.finished = 0;
            floor_trees.total = sums[used];
            floor_trees.best_bits = bits;
        }
    }
    return __syncthreads_or(needs_floors);
}

// Limits the tree of the counts raised to a floor and stores its code. Called by the whole block; `sums` as above.
__device__ inline void record_floor_tree(const Arrays &a, const uint64_t *leaf_keys, uint32_t used, uint32_t limit,
                                         uint64_t *sums, FloorTrees::LimitedCode &to) {
    uint32_t over, at_length = 0;
    if (warp_id() == 0) {
        at_length = limited_lengths([&](uint32_t tree) { return uint32_t(a.fronts[tree]); }, used, limit, over);
    }
    sum_counts(leaf_keys, used, sums);
    if (warp_id() == 0) {
        const uint64_t bits = coded_bits(sums, used, limit, at_length);
        to.leaves[lane_id()] = at_length;
        if (lane_id() == 0) {
            to.bits = bits;
        }
    }
}

// Returns whether this is the last of the codebook's `parts` blocks, and floor trees are needed, so that it must write
// the code. Called by the whole block.
__device__ inline bool is_last_block(FloorTrees &floor_trees, uint32_t *arrived, uint32_t part, uint32_t parts,
                                     bool needs_floors) {
    __shared__ bool goes_on;
    if (warp_id() == 0) {
        if (part == 0 && lane_id() == 0) {
            floor_trees.needs_floors = needs_floors;
        }
        __threadfence();
        __syncwarp();
        if (lane_id() == 0) {
            goes_on = false;
            if (atomicAdd(arrived, 1u) == parts - 1) {
                __threadfence();
                *arrived = 0;
                goes_on = __ldcg(&floor_trees.needs_floors) != 0;
            }
        }
    }
    __syncthreads();
    return goes_on;
}

// Each codebook has `parts` blocks: 1, or FLOORS + 1. With one, `needs_floors` states for each codebook whether it is
// left to the floor trees; with several, `arrived` counts the finished blocks and is 0 between launches.
extern "C" __global__ void __launch_bounds__(THREADS)
    block_codebook(const uint64_t *counts, uint32_t *codewords, uint16_t *symbols_by_codeword, uint32_t *summary,
                   uint32_t parts, uint32_t *needs_floors, uint32_t *arrived, uint8_t *all_floor_trees) {
    const uint32_t book = blockIdx.x / parts, part = blockIdx.x % parts;
    counts += uint64_t(book) * SYMBOLS;
    codewords += uint64_t(book) * SYMBOLS;
    symbols_by_codeword += uint64_t(book) * SYMBOLS;
    summary += book * SUMMARY_WORDS;
    FloorTrees &floor_trees = *reinterpret_cast<FloorTrees *>(all_floor_trees + uint64_t(book) * FLOOR_TREES_BYTES);
    extern __shared__ __align__(16) uint8_t shared_memory[];
    Arrays a = layout(shared_memory, shared_memory);
    for (uint32_t i = threadIdx.x; i < sizeof(Control) / 4; i += THREADS) {
        reinterpret_cast<uint32_t *>(a.control)[i] = 0;
    }
    __syncthreads();
    __shared__ Partition<DIGITS> partition;
    __shared__ CodeTables code;
    CooperativeGroup group{&a.control->barrier, a.digit_counts, 0, threadIdx.x};
    const long long start = clock64();
    const uint32_t unused = sort_symbols(group, partition, a, counts);
    const uint32_t used = SYMBOLS - unused, limit = used > LARGE_ALPHABET ? MAX_LENGTH_LARGE : MAX_LENGTH;
    const uint64_t *leaf_keys = a.keys + unused;
    // A single symbol has a codeword of one bit.
    uint32_t at_length = used == 1 && lane_id() == 1;
    const long long sorted = clock64();
    long long melded = sorted;
    bool needs_floor_trees = false;
    uint32_t rounds = 0;
    if (used > 1) {
        BlockWeights weights{leaf_keys, a.internal, part == 0 ? 0 : floor_of(part - 1, a.control->total, limit)};
        Melding at{used, 0, 0, 0, 0};
        meld_in_block(at, weights, a.fronts, a.control->total);
        rounds = at.rounds;
        melded = clock64();
        // The trees are no longer needed.
        uint64_t *sums = parts > 1 ? a.internal : floor_trees.sums();
        if (part > 0) {
            record_floor_tree(a, leaf_keys, used, limit, sums, floor_trees.codes[part - 1]);
        } else {
            needs_floor_trees = limited_code(a, leaf_keys, used, limit, at_length, sums, floor_trees);
            if (threadIdx.x == 0) {
                floor_trees.rounds = rounds;
            }
        }
    }
    if (parts > 1) {
        const bool goes_on = is_last_block(floor_trees, &arrived[book], part, parts, needs_floor_trees);
        if (!goes_on && (part > 0 || needs_floor_trees)) {
            return;
        }
        if (goes_on) {
            rounds = __ldcg(&floor_trees.rounds);
            at_length = floor_trees.best_code();
        }
    } else {
        if (threadIdx.x == 0) {
            needs_floors[book] = needs_floor_trees;
        }
        if (needs_floor_trees) {
            for (uint32_t i = threadIdx.x; i < SYMBOLS; i += THREADS) {
                floor_trees.order()[i] = a.keys[i] & 0xFFFF;
            }
        }
    }
    const long long limited = clock64();
    if (parts > 1 || !needs_floor_trees) {
        write_codewords(
            group, code, at_length, [&](uint32_t i) { return uint32_t(a.keys[i] & 0xFFFF); }, unused, a.lengths,
            codewords, symbols_by_codeword, summary);
    }
    if (threadIdx.x == 0) {
        summary[SUMMARY_USED] = used;
        summary[SUMMARY_STATUS] = a.control->status;
        summary[SUMMARY_ROUNDS] = rounds;
        const long long times[] = {start, sorted, melded, limited, clock64()};
        for (uint32_t phase = 0; phase < 4; ++phase) {
            summary[SUMMARY_CYCLES + phase] = times[phase + 1] - times[phase];
        }
    }
}
