// The lengths of the codewords of a small alphabet, made by one block: `syncline_core::huffman::lengths`, with a limit
// that many codes reach.
//
// A lane makes a whole tree, so that the trees of all floors of the limit are made side by side. A tree only records
// its fronts, the next internal tree at the time when each was made. Depths never increase in the order in which trees
// are made, so that the fronts say how many there are at each depth.
//
// THREADS  threads of a block, whole warps
// FLOORS   floors of the limit
#pragma once
#include "huffman/codebook/length_limit.cuh"
#include "strips/alphabet.cuh"

constexpr uint32_t BLOCK_WARPS = THREADS / WARP;
constexpr uint32_t TREES = 1 + FLOORS;
static_assert(TREES <= WARP && strips::MAX_LENGTH < WARP / 2, "a lane a tree, and a lane a length");
// Internal trees that there is memory for.
constexpr uint32_t TREE_ROOM = 5120;

// The symbols that occur, and trees over them.
struct CodeBuilder {
    uint32_t used;
    uint32_t counts[SYMBOLS];   // of the symbols that occur, ascending
    uint32_t sums[SYMBOLS + 1]; // of the counts before each
    uint16_t order[SYMBOLS];    // the symbols, by count, then by number
    uint32_t listed[SYMBOLS];   // counts before they are sorted
    uint16_t symbols[SYMBOLS];
    uint32_t weights[TREE_ROOM];
    uint16_t fronts[TREE_ROOM];
    // Codewords of each length in each tree, before and after limiting, and those of the code.
    uint32_t at_length[TREES][WARP / 2];
    uint32_t over[TREES]; // leaves deeper than the limit
    uint32_t bits[TREES];
    uint64_t unlimited;
    uint32_t best;
};

// Sorts the symbols with a count that is not 0. Called by the whole block.
__device__ inline void sort_symbols(const uint32_t *frequencies, CodeBuilder &builder) {
    if (warp_id() == 0) {
        uint32_t used = 0;
        for (uint32_t first = 0; first < SYMBOLS; first += WARP) {
            const uint32_t symbol = first + lane_id(), count = symbol < SYMBOLS ? frequencies[symbol] : 0,
                           occur = __ballot_sync(ALL_LANES, count != 0);
            if (count != 0) {
                const uint32_t place = used + __popc(occur & ((1u << lane_id()) - 1));
                builder.listed[place] = count;
                builder.symbols[place] = uint16_t(symbol);
            }
            used += __popc(occur);
        }
        if (lane_id() == 0) {
            builder.used = used;
        }
    }
    __syncthreads();
    const uint32_t used = builder.used;
    for (uint32_t i = threadIdx.x; i < used; i += THREADS) {
        const uint32_t own = builder.listed[i];
        uint32_t rank = 0;
        for (uint32_t other = 0; other < used; ++other) {
            rank += builder.listed[other] < own || (builder.listed[other] == own && other < i) ? 1 : 0;
        }
        builder.counts[rank] = own;
        builder.order[rank] = builder.symbols[i];
    }
    __syncthreads();
    if (warp_id() == 0) {
        uint32_t sum = 0;
        for (uint32_t first = 0; first <= used; first += WARP) {
            const uint32_t i = first + lane_id(), own = i < used ? builder.counts[i] : 0,
                           through = warp_inclusive_sum(own);
            if (i <= used) {
                builder.sums[i] = sum + through - own;
            }
            sum += __shfl_sync(ALL_LANES, through, WARP - 1);
        }
    }
    __syncthreads();
}

// Makes the tree of at least two symbols whose counts are raised to `floor`, and counts its leaves at each depth.
// Called by one thread.
__device__ inline void make_tree(CodeBuilder &builder, uint32_t tree, uint32_t floor, uint32_t *weights,
                                 uint16_t *fronts) {
    const uint32_t used = builder.used, nodes = used - 1;
    uint32_t leaf = 0, node = 0;
    uint64_t all = 0;
    uint32_t next_leaf = max_of(builder.counts[0], floor), next_node = ~0u;
    for (uint32_t parent = 0; parent < nodes; ++parent) {
        uint32_t weight = 0;
#pragma unroll
        for (uint32_t side = 0; side < 2; ++side) {
            const bool takes_leaf = leaf < used && next_leaf <= next_node;
            weight += takes_leaf ? next_leaf : next_node;
            leaf += takes_leaf ? 1 : 0;
            node += takes_leaf ? 0 : 1;
            next_leaf = leaf < used ? max_of(builder.counts[leaf], floor) : ~0u;
            next_node = node < parent ? weights[node] : ~0u;
        }
        weights[parent] = weight;
        fronts[parent] = uint16_t(node);
        next_node = node <= parent ? weights[node] : ~0u;
        all += weight;
    }
    if (tree == 0) {
        builder.unlimited = all;
    }
    // From the root down: the trees of a depth are those from `first` to `end`.
    uint32_t end = nodes, first = nodes - 1, over = 0;
    for (uint32_t depth = 1; end > first; ++depth) {
        const uint32_t below = first == 0 ? 0 : fronts[first - 1], leaves = 2 * (end - first) - (first - below);
        if (depth <= strips::MAX_LENGTH) {
            builder.at_length[tree][depth] = leaves;
        } else {
            over += leaves;
        }
        end = first;
        first = below;
    }
    builder.over[tree] = over;
}

// Limits the lengths of a tree, and computes the bits of all codewords. Called by a warp.
__device__ inline void limit_tree(CodeBuilder &builder, uint32_t tree) {
    uint32_t at_length = lane_id() <= strips::MAX_LENGTH ? builder.at_length[tree][lane_id()] : 0;
    if (builder.over[tree] > 0) {
        at_length = limit_in_warp(at_length, builder.over[tree], strips::MAX_LENGTH);
    }
    // The rarest symbols have the longest codewords.
    const uint32_t through = warp_inclusive_sum(at_length), start = builder.used - through;
    const uint32_t own = at_length > 0 ? lane_id() * (builder.sums[start + at_length] - builder.sums[start]) : 0;
    const uint32_t bits = warp_reduce_sum(own);
    if (lane_id() <= strips::MAX_LENGTH) {
        builder.at_length[tree][lane_id()] = at_length;
    }
    if (lane_id() == 0) {
        builder.bits[tree] = bits;
    }
}

// Returns the number of codewords of each length, which are those of tree `builder.best` after the call. There are at
// least two symbols. Called by the whole block.
__device__ inline void limited_lengths(CodeBuilder &builder) {
    const uint32_t nodes = builder.used - 1, total = builder.sums[builder.used];
    const uint32_t at_once = min_of(TREES, TREE_ROOM / nodes);
    for (uint32_t i = threadIdx.x; i < TREES * WARP / 2; i += THREADS) {
        builder.at_length[i / (WARP / 2)][i % (WARP / 2)] = 0;
    }
    __syncthreads();
    for (uint32_t first = 0; first < TREES; first += at_once) {
        const uint32_t trees = min_of(at_once, TREES - first);
        if (threadIdx.x < trees) {
            const uint32_t tree = first + threadIdx.x, step = tree - 1;
            const uint32_t floor = tree == 0 ? 0 : total * (4 + step % 4) >> (strips::MAX_LENGTH + 4 - step / 4);
            make_tree(builder, tree, floor, builder.weights + threadIdx.x * nodes,
                      builder.fronts + threadIdx.x * nodes);
        }
        __syncthreads();
        for (uint32_t tree = first + warp_id(); tree < first + trees; tree += BLOCK_WARPS) {
            limit_tree(builder, tree);
        }
        __syncthreads();
        // No code with a limit takes fewer bits than that without one.
        if (builder.over[0] == 0 || builder.bits[0] <= builder.unlimited + builder.unlimited / 2048) {
            break;
        }
    }
    if (threadIdx.x == 0) {
        builder.best = 0;
        if (builder.over[0] != 0 && builder.bits[0] > builder.unlimited + builder.unlimited / 2048) {
            for (uint32_t tree = 1; tree < TREES; ++tree) {
                builder.best = builder.bits[tree] < builder.bits[builder.best] ? tree : builder.best;
            }
        }
    }
    __syncthreads();
}

// Writes the length of the codeword of each symbol, 0 for those without one, and returns the size of the alphabet.
// Called by the whole block. `frequencies` may not change meanwhile.
__device__ inline void code_lengths(const uint32_t *frequencies, CodeBuilder &builder, uint8_t *lengths) {
    sort_symbols(frequencies, builder);
    for (uint32_t symbol = threadIdx.x; symbol < SYMBOLS; symbol += THREADS) {
        lengths[symbol] = 0;
    }
    const uint32_t used = builder.used;
    __syncthreads();
    if (used == 1 && threadIdx.x == 0) {
        // A single symbol has a codeword of one bit.
        lengths[builder.order[0]] = 1;
    }
    if (used > 1) {
        limited_lengths(builder);
        const uint32_t *at_length = builder.at_length[builder.best];
        for (uint32_t i = threadIdx.x; i < used; i += THREADS) {
            uint32_t length = strips::MAX_LENGTH;
            for (uint32_t longer = at_length[length]; longer <= i; longer += at_length[length]) {
                --length;
            }
            lengths[builder.order[i]] = uint8_t(length);
        }
    }
    __syncthreads();
}
