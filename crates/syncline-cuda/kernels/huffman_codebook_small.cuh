// Codebooks of small alphabets: what a block works with, and sorting. See huffman_codebook_small.cu, which has the constants.
#pragma once
#include "huffman_code.cuh"
#include "huffman_tree.cuh"
#include "scan.cuh"

#if COUNT_BITS == 32
typedef uint32_t Count;
#else
typedef uint64_t Count;
#endif
// With the symbol's place in its run they fit, and no sum overflows.
constexpr Count LARGEST_COUNT = COUNT_BITS == 32 ? Count(1) << 26 : (Count(1) << 43) - 1;
constexpr uint32_t STATUS_COUNT_CLAMPED = 1;
constexpr uint32_t BOOKS = CLASSES == 1 ? 1 : CLASSES + 1;
// Counts of a stream; an encoder's are followed by what is wrong with the stream.
constexpr uint32_t STREAM_COUNTS = CLASSES * SYMBOLS + (BYTES ? 4 : 0);
// Symbols that a thread has, one after another.
constexpr uint32_t OWN = (SYMBOLS + THREADS - 1) / THREADS;
constexpr uint32_t ROOM = (SYMBOLS + WARP - 1) / WARP * WARP;
// Stretches of 32 symbols that a warp has.
constexpr uint32_t STRETCHES = (ROOM / WARP + WARPS - 1) / WARPS;
constexpr uint32_t LIMIT = SYMBOLS > LARGE ? MAX_LENGTH_LARGE : MAX_LENGTH;
[[maybe_unused]] constexpr uint32_t BOOK_BYTES = SYMBOLS + 4;
// Runs of at least this many equal lengths have their length coded as a number of its own.
constexpr uint32_t LONG_RUN = 8;
static_assert(TEAM == 1 && SYMBOLS <= 1024 && THREADS % WARP == 0, "a block is on its own");

// Dynamic shared memory, but for the trees.
struct Shared {
    Count counts[ROOM];   // of the symbols that occur, ascending
    Count sums[ROOM + 4]; // of the 0, 1, 2, ... rarest
    uint16_t order[ROOM]; // the symbols
    alignas(4) uint8_t lengths[ROOM]; // of codewords, by symbol
};
// Memory of a tree: weights of internal trees, and their fronts.
__device__ inline uint32_t tree_bytes(uint32_t used) { return used * (sizeof(Count) + 2) + 15 & ~15u; }
// Symbols on their way, before there are any trees.
constexpr uint32_t SORT_BYTES = ROOM * (sizeof(Count) + 2);
static_assert(sizeof(Shared) % 16 == 0, "trees are aligned");
static_assert(sizeof(Shared) == SHARED_BYTES && SORT_BYTES <= LEAST_TREE_BYTES && ROOM * 2 <= LEAST_TREE_BYTES, "the host gives enough memory");

// The counts of a codebook that a thread has, symbols OWN * threadIdx.x and on.
__device__ inline void read_counts(const Count *counts, uint32_t which, Count (&own)[OWN]) {
#pragma unroll
    for (uint32_t i = 0; i < OWN; ++i) {
        const uint32_t symbol = OWN * threadIdx.x + i;
        own[i] = 0;
        if (symbol < SYMBOLS) {
            const Count *of_stream = counts + which / BOOKS * uint64_t(STREAM_COUNTS) + symbol;
            const uint32_t book = which % BOOKS;
            if (book < CLASSES) {
                own[i] = of_stream[book * SYMBOLS];
            } else {
#pragma unroll
                for (uint32_t other = 0; other < CLASSES; ++other) {
                    own[i] += of_stream[other * SYMBOLS];
                }
            }
        }
    }
}

// Sorts the symbols that occur by count, then symbol; returns how many there are. By the whole block.
__device__ inline uint32_t sort_used(const Count (&own)[OWN], Shared &shared, uint8_t *memory) {
    __shared__ uint32_t warp_sums[WARPS];
    Count *other_counts = reinterpret_cast<Count *>(memory);
    uint16_t *other_order = reinterpret_cast<uint16_t *>(other_counts + ROOM);
    uint32_t here = 0, used;
#pragma unroll
    for (uint32_t i = 0; i < OWN; ++i) {
        here += own[i] != 0;
    }
    uint32_t at = block_scan<THREADS, uint32_t>(here, warp_sums, used);
    uint32_t merges = 0;
    while (WARP << merges < used) {
        ++merges;
    }
    // So that the last pass ends where the sorted symbols are to be.
    Count *from = merges % 2 == 0 ? other_counts : shared.counts, *to = merges % 2 == 0 ? shared.counts : other_counts;
    uint16_t *from_order = merges % 2 == 0 ? other_order : shared.order, *to_order = merges % 2 == 0 ? shared.order : other_order;
#pragma unroll
    for (uint32_t i = 0; i < OWN; ++i) {
        if (own[i] != 0) {
            from[at] = own[i];
            from_order[at++] = OWN * threadIdx.x + i;
        }
    }
    __syncthreads();
    // Runs of 32: how many are before each, the place telling equal ones apart.
#pragma unroll 1
    for (uint32_t first = warp_id() * WARP; first < used; first += THREADS) {
        const uint32_t i = first + lane_id();
        const Count key = i < used ? from[i] * WARP + lane_id() : ~Count(0);
        uint32_t rank = 0;
#pragma unroll 4
        for (uint32_t lane = 0; lane < WARP; ++lane) {
            rank += __shfl_sync(ALL_LANES, key, lane) < key;
        }
        if (i < used) {
            to[first + rank] = key / WARP;
            to_order[first + rank] = from_order[i];
        }
    }
#pragma unroll 1
    for (uint32_t merge = 0; merge < merges; ++merge) {
        const uint32_t run = WARP << merge;
        __syncthreads();
        Count *const other_counts = from;
        from = to;
        to = other_counts;
        uint16_t *const other_order = from_order;
        from_order = to_order;
        to_order = other_order;
        // All of a thread's searches in step, so that they wait together.
        Count sought[OWN];
        uint32_t sibling[OWN], length[OWN], before[OWN];
#pragma unroll
        for (uint32_t i = 0; i < OWN; ++i) {
            const uint32_t item = i * THREADS + threadIdx.x, own_run = item / WARP >> merge;
            // Of equal counts those of the first run come first.
            sought[i] = item < used ? from[item] + (own_run & 1) : 0;
            sibling[i] = (own_run ^ 1) * run;
            length[i] = item < used && sibling[i] < used ? min_of(run, used - sibling[i]) : 0;
            before[i] = 0;
        }
#pragma unroll 1
        for (uint32_t step = run; step > 0; step /= 2) {
#pragma unroll
            for (uint32_t i = 0; i < OWN; ++i) {
                const uint32_t probe = before[i] + step;
                if (probe <= length[i] && from[sibling[i] + probe - 1] < sought[i]) {
                    before[i] = probe;
                }
            }
        }
#pragma unroll
        for (uint32_t i = 0; i < OWN; ++i) {
            const uint32_t item = i * THREADS + threadIdx.x, own_run = item / WARP >> merge;
            if (item < used) {
                const uint32_t place = item - (own_run & 1) * run + before[i];
                to[place] = sought[i] - (own_run & 1);
                to_order[place] = from_order[item];
            }
        }
    }
    __syncthreads();
    return used;
}

// Sums of the counts of the rarest symbols; by the whole block.
__device__ inline void sum_counts(Shared &shared, uint32_t used) {
    __shared__ Count warp_sums[WARPS];
    Count own[OWN], here = 0, total;
#pragma unroll
    for (uint32_t i = 0; i < OWN; ++i) {
        const uint32_t item = OWN * threadIdx.x + i;
        own[i] = item < used ? shared.counts[item] : 0;
        here += own[i];
    }
    Count sum = block_scan<THREADS, Count>(here, warp_sums, total);
#pragma unroll
    for (uint32_t i = 0; i < OWN; ++i) {
        const uint32_t item = OWN * threadIdx.x + i;
        if (item < used) {
            shared.sums[item] = sum;
        }
        sum += own[i];
    }
    if (threadIdx.x == 0) {
        shared.sums[used] = total;
    }
    __syncthreads();
}
