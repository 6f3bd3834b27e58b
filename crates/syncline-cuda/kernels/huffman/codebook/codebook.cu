// From the counts of an alphabet to its canonical Huffman code, a block a codebook, or where these are few a block for
// each tree that its code may come from.
//
// The two phases of the 2021 encoder paper (after Ostadzadeh et al. 2007), with the differences that the stream's exact
// lengths ask for:
//  - Symbols are sorted by (count, symbol): a radix sort, stable from symbol order.
//  - GenerateCL melds, in each round, every tree that is not above the sum t of the two smallest. All internal trees in
//  the queue are (sums ascend), so are
//    the leaves up to t, found by searching; merge path brings the two in order, leaves first where equal, and
//    neighbors are melded. If their number is odd the largest waits. Each round therefore does, in parallel, exactly
//    what the sequential two-queue method does next: the same tree.
//  - Depths never rise in the order of trees' making. So each tree only notes which tree was next when it was made, and
//  one thread walks down the levels at the end, instead of
//    the paper's updating of every leaf in every round.
//  - The limit is that of syncline_core::huffman::lengths. Its step (3) takes FLOORS more trees. Where codebooks are
//  few, each has FLOORS + 1 blocks (`parts`), which sort the same
//    counts and make a tree each, before it is known whether they are needed: the first block writes the code if they
//    are not, else the last that is done. Where they are many, those for which it is due are left to
//    huffman/codebook/tries.cu.
//  - GenerateCW: huffman/code.cuh.
//
// Alphabets that are too large for one block's shared memory: huffman/codebook/team.cu.
//
// THREADS     threads in a block, a multiple of 256
// COOPERATIVE_BLOCKS is 1; and the constants of huffman/codebook/sort.cuh and huffman/codebook/tree.cuh.
#include "device/warp.cuh"
#include "huffman/code.cuh"
#include "huffman/codebook/sort.cuh"
#include "huffman/codebook/tree.cuh"

static_assert(COOPERATIVE_BLOCKS == 1, "a block is on its own");

// Weights of leaves, ascending and raised to the floor, and of internal trees in the order of their making, which is
// ascending too.
struct BlockWeights {
    const uint64_t *keys;
    uint64_t *internal, floor;

    __device__ inline uint64_t leaf(uint32_t i) const { return max_of<uint64_t>(keys[i] >> SYMBOL_BITS, floor); }
    __device__ inline uint64_t tree(uint32_t i) const { return internal[i]; }
    __device__ inline void set_tree(uint32_t i, uint64_t weight) const { internal[i] = weight; }
};

// Sums of the counts of the 0, 1, 2, ... rarest of the used symbols. By the whole block.
__device__ inline void sum_counts(const uint64_t *leaf_keys, uint32_t used, uint64_t *sums) {
    constexpr uint32_t PER_THREAD = (SYMBOLS + THREADS - 1) / THREADS;
    __shared__ uint64_t warp_totals[WARPS];
    const uint32_t first = min_of(used, threadIdx.x * PER_THREAD), end = min_of(used, first + PER_THREAD);
    uint64_t own = 0;
    for (uint32_t i = first; i < end; ++i) {
        own += leaf_keys[i] >> SYMBOL_BITS;
    }
    uint64_t sum = warp_inclusive_sum(own);
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

// Sum of `value` over the block, in every thread of the first warp.
__device__ inline uint64_t sum_of_block(uint64_t value) {
    __shared__ uint64_t warp_sums[WARPS];
    value = warp_reduce_sum(value);
    if (lane_id() == 0) {
        warp_sums[warp_id()] = value;
    }
    __syncthreads();
    return warp_reduce_sum(lane_id() < WARPS ? warp_sums[lane_id()] : 0);
}

// Of the counts as they are, of at least two symbols: whether step (3) is due, which `pending` then has what it needs
// for. `at_length` becomes the limited code, in the first warp. `sums` is memory for SYMBOLS + 1 words, which may be
// that of the trees' weights. By the whole block.
__device__ inline bool limited_code(const Arrays &a, const uint64_t *leaf_keys, uint32_t used, uint32_t limit,
                                    uint32_t &at_length, uint64_t *sums, Pending &pending) {
    uint32_t over = 0;
    if (warp_id() == 0) {
        at_length = limited_lengths([&](uint32_t tree) { return uint32_t(a.fronts[tree]); }, used, limit, over);
    }
    if (!__syncthreads_or(over > 0)) {
        return false;
    }
    // Each count is in as many trees as it is deep.
    uint64_t unlimited = 0;
    for (uint32_t i = threadIdx.x; i + 1 < used; i += THREADS) {
        unlimited += a.internal[i];
    }
    unlimited = sum_of_block(unlimited);
    __syncthreads();
    sum_counts(leaf_keys, used, sums);
    bool due = false;
    if (warp_id() == 0) {
        const uint64_t bits = coded_bits(sums, used, limit, at_length);
        due = bits > unlimited + unlimited / 2048;
        pending.best[lane_id()] = at_length;
        if (lane_id() == 0) {
            pending.used = used;
            pending.finished = 0;
            pending.total = sums[used];
            pending.best_bits = bits;
        }
    }
    return __syncthreads_or(due);
}

// Limits the tree of counts raised to a floor, and notes its code. By the whole block; `sums` as above.
__device__ inline void note_try(const Arrays &a, const uint64_t *leaf_keys, uint32_t used, uint32_t limit,
                                uint64_t *sums, Pending::Try &to) {
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

// Whether this block is the last of the codebook's `parts`, and the code is not yet written though step (3) is due. The
// first of them knows whether it is. By the whole block.
__device__ inline bool is_last_of_due(Pending &pending, uint32_t *arrived, uint32_t part, uint32_t parts, bool due) {
    __shared__ bool goes_on;
    if (warp_id() == 0) {
        if (part == 0 && lane_id() == 0) {
            pending.due = due;
        }
        __threadfence();
        __syncwarp();
        if (lane_id() == 0) {
            goes_on = false;
            if (atomicAdd(arrived, 1u) == parts - 1) {
                __threadfence();
                *arrived = 0;
                goes_on = __ldcg(&pending.due) != 0;
            }
        }
    }
    __syncthreads();
    return goes_on;
}

// Each codebook has `parts` blocks: 1, or FLOORS + 1. `due` has a word for each: whether it is left, in `pending`, to
// the tries; `arrived` one that is 0 between launches. With several parts `due` is not used, nor with one `arrived`.
extern "C" __global__ void __launch_bounds__(THREADS)
    codebook(const uint64_t *counts, uint32_t *codewords, uint16_t *symbols_by_codeword, uint32_t *summary,
             uint32_t parts, uint32_t *due, uint32_t *arrived, uint8_t *all_pending) {
    const uint32_t book = blockIdx.x / parts, part = blockIdx.x % parts;
    counts += uint64_t(book) * SYMBOLS;
    codewords += uint64_t(book) * SYMBOLS;
    symbols_by_codeword += uint64_t(book) * SYMBOLS;
    summary += book * SUMMARY_WORDS;
    Pending &pending = *reinterpret_cast<Pending *>(all_pending + uint64_t(book) * PENDING_BYTES);
    extern __shared__ __align__(16) uint8_t shared_memory[];
    Arrays a = layout(shared_memory, shared_memory);
    for (uint32_t i = threadIdx.x; i < sizeof(Control) / 4; i += THREADS) {
        reinterpret_cast<uint32_t *>(a.control)[i] = 0;
    }
    __syncthreads();
    __shared__ Partition<DIGITS> partition;
    __shared__ Code code;
    CooperativeGroup group{&a.control->barrier, a.digit_counts, 0, threadIdx.x};
    const long long start = clock64();
    const uint32_t unused = sort_symbols(group, partition, a, counts);
    const uint32_t used = SYMBOLS - unused, limit = used > LARGE ? MAX_LENGTH_LARGE : MAX_LENGTH;
    const uint64_t *leaf_keys = a.keys + unused;
    // One symbol has one bit.
    uint32_t at_length = used == 1 && lane_id() == 1;
    const long long sorted = clock64();
    long long melded = sorted;
    bool is_due = false;
    uint32_t rounds = 0;
    if (used > 1) {
        BlockWeights weights{leaf_keys, a.internal, part == 0 ? 0 : floor_of(part - 1, a.control->total, limit)};
        Melding at{used, 0, 0, 0, 0};
        meld_in_block(at, weights, a.fronts, a.control->total);
        rounds = at.rounds;
        melded = clock64();
        // Trees are done with.
        uint64_t *sums = parts > 1 ? a.internal : pending.sums();
        if (part > 0) {
            note_try(a, leaf_keys, used, limit, sums, pending.tries[part - 1]);
        } else {
            is_due = limited_code(a, leaf_keys, used, limit, at_length, sums, pending);
            if (threadIdx.x == 0) {
                pending.rounds = rounds;
            }
        }
    }
    if (parts > 1) {
        const bool goes_on = is_last_of_due(pending, &arrived[book], part, parts, is_due);
        if (!goes_on && (part > 0 || is_due)) {
            return;
        }
        if (goes_on) {
            rounds = __ldcg(&pending.rounds);
            at_length = pending.fewest_bits();
        }
    } else {
        if (threadIdx.x == 0) {
            due[book] = is_due;
        }
        if (is_due) {
            for (uint32_t i = threadIdx.x; i < SYMBOLS; i += THREADS) {
                pending.order()[i] = a.keys[i] & 0xFFFF;
            }
        }
    }
    const long long limited = clock64();
    if (parts > 1 || !is_due) {
        write_code(
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
