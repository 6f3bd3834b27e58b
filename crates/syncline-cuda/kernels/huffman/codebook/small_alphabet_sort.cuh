// Shared memory and sorting of huffman/codebook/small_alphabet.cu, which lists the constants.
#pragma once
#include "huffman/codebook/canonical_code.cuh"
#include "huffman/codebook/tree.cuh"
#include "device/block.cuh"

// Sums of counts, and the sort keys, do not overflow.
constexpr uint32_t LARGEST_COUNT_LOG2 = 24, LARGEST_COUNT = 1u << LARGEST_COUNT_LOG2;
constexpr uint32_t STATUS_COUNT_CLAMPED = 1;
constexpr uint32_t CODEBOOKS = CLASSES == 1 ? 1 : CLASSES + 1;
// Counts of a stream, followed by its status.
constexpr uint32_t STREAM_COUNTS = CLASSES * SYMBOLS + 4;
// Consecutive symbols of a thread.
constexpr uint32_t OWN = (SYMBOLS + THREADS - 1) / THREADS;
constexpr uint32_t ROOM = (SYMBOLS + WARP - 1) / WARP * WARP;
// Stretches of 32 symbols of a warp.
constexpr uint32_t STRETCHES = (ROOM / WARP + WARPS - 1) / WARPS;
constexpr uint32_t LIMIT = SYMBOLS > LARGE_ALPHABET ? MAX_LENGTH_LARGE : MAX_LENGTH;
constexpr uint32_t MAX_CODEBOOK_BYTES = SYMBOLS + 4;
// Runs of at least this many equal lengths store the run length as a separate number.
constexpr uint32_t LONG_RUN = 8;
static_assert(COOPERATIVE_BLOCKS == 1 && SYMBOLS <= 4096 && THREADS % WARP == 0, "a block is on its own");

// Dynamic shared memory without the trees.
struct Shared {
    uint32_t counts[ROOM];            // of the symbols that occur, ascending
    uint32_t sums[ROOM + 4];          // prefix sums of the counts
    uint16_t order[ROOM];             // the symbols, ascending by count
    alignas(4) uint8_t lengths[ROOM]; // of codewords, by symbol
};
// Bytes of a tree: weights of internal trees, and their fronts.
__device__ inline uint32_t tree_bytes(uint32_t used) { return used * (sizeof(uint32_t) + 2) + 15 & ~15u; }
// Sort keys, in the memory of the trees.
constexpr uint32_t SORT_BYTES = ROOM * sizeof(uint32_t);
static_assert(sizeof(Shared) % 16 == 0, "trees are aligned");
static_assert(sizeof(Shared) == SHARED_BYTES && SORT_BYTES <= TREE_BYTES && ROOM * 2 <= TREE_BYTES,
              "the host gives enough memory");

// Reads the counts of a thread's symbols, from OWN * threadIdx.x on.
__device__ inline void read_counts(const uint32_t *counts, uint32_t codebook, uint32_t (&own)[OWN]) {
#pragma unroll
    for (uint32_t i = 0; i < OWN; ++i) {
        const uint32_t symbol = OWN * threadIdx.x + i;
        own[i] = 0;
        if (symbol < SYMBOLS) {
            const uint32_t *of_stream = counts + codebook / CODEBOOKS * uint64_t(STREAM_COUNTS) + symbol;
            const uint32_t book = codebook % CODEBOOKS;
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

// Counts share a bucket if their exponents and leading bits are equal. The key within a bucket holds the other bits and
// the symbol.
constexpr uint32_t SYMBOL_BITS = 12, LEADING_BITS = 4, BUCKETS = 512;
static_assert(SYMBOLS <= 1u << SYMBOL_BITS && LARGEST_COUNT_LOG2 - LEADING_BITS + SYMBOL_BITS <= 32 &&
                  (LARGEST_COUNT_LOG2 + 1) << LEADING_BITS <= BUCKETS,
              "a bucket for every count");
static_assert(BUCKETS <= THREADS, "a thread a bucket");

struct Bucket {
    uint32_t number;
    uint32_t key;
};
__device__ inline Bucket bucket_of(uint32_t count, uint32_t symbol) {
    constexpr uint32_t MANTISSA_BITS = 23, BIAS = 127;
    const uint32_t rounded = __float_as_uint(__uint2float_rz(count));
    const uint32_t exponent = (rounded >> MANTISSA_BITS) - BIAS;
    const uint32_t low = exponent > LEADING_BITS ? count & ((1u << (exponent - LEADING_BITS)) - 1) : 0;
    return {(rounded >> (MANTISSA_BITS - LEADING_BITS)) - (BIAS << LEADING_BITS), low << SYMBOL_BITS | symbol};
}

// Sorts the symbols that occur by count, then symbol, and returns their number. Called by the whole block. `numbers`
// has BUCKETS entries that are 0, two to a word; `memory` has ROOM keys.
__device__ inline uint32_t sort_used(const uint32_t (&own)[OWN], Shared &shared, uint16_t *numbers, uint8_t *memory) {
    __shared__ uint32_t warp_sums[WARPS];
    uint32_t *keys = reinterpret_cast<uint32_t *>(memory);
    Bucket buckets[OWN];
    // Many symbols can have a count of 1: they come first, in symbol order.
    uint32_t places[OWN], total, singles = 0;
#pragma unroll
    for (uint32_t i = 0; i < OWN; ++i) {
        singles += own[i] == 1;
        if (own[i] > 1) {
            buckets[i] = bucket_of(own[i], OWN * threadIdx.x + i);
            const uint32_t shift = buckets[i].number % 2 * 16;
            places[i] =
                atomicAdd(reinterpret_cast<uint32_t *>(numbers) + buckets[i].number / 2, 1u << shift) >> shift & 0xFFFF;
        }
    }
    __syncthreads();
    const uint32_t before = block_exclusive_sum<THREADS, uint32_t>(
        (threadIdx.x < BUCKETS ? numbers[threadIdx.x] : 0) | singles << 16, warp_sums, total);
    const uint32_t used = (total & 0xFFFF) + (total >> 16);
    uint32_t single = before >> 16;
    if (threadIdx.x < BUCKETS) {
        numbers[threadIdx.x] = (before & 0xFFFF) + (total >> 16);
    }
    __syncthreads();
#pragma unroll
    for (uint32_t i = 0; i < OWN; ++i) {
        if (own[i] > 1) {
            keys[numbers[buckets[i].number] + places[i]] = buckets[i].key;
        }
    }
    __syncthreads();
#pragma unroll
    for (uint32_t i = 0; i < OWN; ++i) {
        if (own[i] == 1) {
            shared.counts[single] = 1;
            shared.order[single++] = OWN * threadIdx.x + i;
        } else if (own[i] != 0) {
            const uint32_t number = buckets[i].number, start = numbers[number],
                           end = number + 1 < BUCKETS ? numbers[number + 1] : used;
            uint32_t rank = start;
#pragma unroll 8
            for (uint32_t other = start; other < end; ++other) {
                rank += keys[other] < buckets[i].key;
            }
            shared.counts[rank] = own[i];
            shared.order[rank] = OWN * threadIdx.x + i;
        }
    }
    __syncthreads();
    return used;
}

// Computes prefix sums of the sorted counts; called by the whole block.
__device__ inline void sum_counts(Shared &shared, uint32_t used) {
    __shared__ uint32_t warp_sums[WARPS];
    uint32_t own[OWN], here = 0, total;
#pragma unroll
    for (uint32_t i = 0; i < OWN; ++i) {
        const uint32_t item = OWN * threadIdx.x + i;
        own[i] = item < used ? shared.counts[item] : 0;
        here += own[i];
    }
    uint32_t sum = block_exclusive_sum<THREADS, uint32_t>(here, warp_sums, total);
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
