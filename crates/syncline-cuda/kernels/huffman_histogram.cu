// Counts of each symbol.
//
// Private histograms in shared memory, added up at the end (Gomez-Luna et al. 2012, as in the 2021 encoder paper), with two additions.
// Copies are interleaved ([bin][copy], a lane its copy), so that lanes counting one symbol hit different banks. And the commonest symbol, guessed
// from a sample of the block's part, is counted in a register: where one symbol has nearly all of the data there is next to nothing left to serialise.
// The guess decides the speed only, never the result.
//
// SYMBOL_BYTES  bytes of a symbol, 1 or 2
// BINS          symbols in the alphabet; larger symbols are counted together behind the last bin
// THREADS       threads in a block
// COPIES        histogram_replicated: copies of the histogram in a block, a power of two up to 32
// SPAN          histogram_wide: bins a block looks after, a power of two; blockIdx.y numbers the spans
#include "common.cuh"

constexpr uint32_t SYMBOLS_IN_WORD = 4 / SYMBOL_BYTES;
constexpr uint32_t SYMBOLS_IN_VECTOR = 16 / SYMBOL_BYTES;
constexpr uint32_t SYMBOL_BITS = 8 * SYMBOL_BYTES;
constexpr uint32_t SYMBOL_MASK = (1u << SYMBOL_BITS) - 1;
// Vectors that a thread has in flight.
constexpr uint32_t UNROLL = 4;

__device__ inline uint32_t symbol_at(const uint8_t *symbols, uint64_t index) {
    return SYMBOL_BYTES == 1 ? symbols[index] : reinterpret_cast<const uint16_t *>(symbols)[index];
}

// The part of the input that a block counts: whole vectors [begin, end), and, in the first block, what is left before and after them.
struct Part {
    const uint4 *vectors;
    uint64_t begin, end;
    uint64_t head, tail_begin;
};

__device__ inline Part part_of_block(const uint8_t *symbols, uint64_t length) {
    Part part;
    uint64_t misaligned = reinterpret_cast<uint64_t>(symbols) % 16;
    part.head = min_of<uint64_t>(length, misaligned == 0 ? 0 : (16 - misaligned) / SYMBOL_BYTES);
    uint64_t vectors = (length - part.head) / SYMBOLS_IN_VECTOR;
    part.vectors = reinterpret_cast<const uint4 *>(symbols + part.head * SYMBOL_BYTES);
    part.tail_begin = part.head + vectors * SYMBOLS_IN_VECTOR;
    uint64_t share = (vectors + gridDim.x - 1) / gridDim.x;
    part.begin = min_of<uint64_t>(vectors, share * blockIdx.x);
    part.end = min_of<uint64_t>(vectors, part.begin + share);
    return part;
}

// The commonest of 32 symbols spread over the block's part; called by one whole warp.
__device__ inline uint32_t guess_commonest(const Part &part) {
    uint64_t length = (part.end - part.begin) * SYMBOLS_IN_VECTOR;
    const uint8_t *first = reinterpret_cast<const uint8_t *>(part.vectors + part.begin);
    uint32_t symbol = length == 0 ? 0 : symbol_at(first, length * lane_id() / WARP);
    uint32_t best = __popc(__match_any_sync(ALL_LANES, symbol)) << SYMBOL_BITS | symbol;
    for (uint32_t distance = WARP / 2; distance > 0; distance /= 2) {
        best = max_of(best, __shfl_xor_sync(ALL_LANES, best, distance));
    }
    return best & SYMBOL_MASK;
}

template <typename Counter> __device__ inline void count_word(uint32_t word, Counter &counter) {
#pragma unroll
    for (uint32_t i = 0; i < SYMBOLS_IN_WORD; ++i) {
        counter.count(word >> i * SYMBOL_BITS & SYMBOL_MASK);
    }
}

template <typename Counter> __device__ inline void count_vector(uint4 vector, Counter &counter) {
    count_word(vector.x, counter);
    count_word(vector.y, counter);
    count_word(vector.z, counter);
    count_word(vector.w, counter);
}

// Rounds of UNROLL vectors a thread; `between_rounds` is called by the whole block after each.
template <typename Counter> __device__ inline void count_part(const uint8_t *symbols, uint64_t length, const Part &part, Counter &counter) {
    constexpr uint64_t ROUND = uint64_t(THREADS) * UNROLL;
    for (uint64_t round = part.begin; round < part.end; round += ROUND) {
        uint64_t first = round + threadIdx.x;
        if (round + ROUND <= part.end) {
            uint4 vectors[UNROLL];
#pragma unroll
            for (uint32_t i = 0; i < UNROLL; ++i) {
                vectors[i] = __ldcs(part.vectors + first + uint64_t(i) * THREADS);
            }
#pragma unroll
            for (uint32_t i = 0; i < UNROLL; ++i) {
                count_vector(vectors[i], counter);
            }
        } else {
            for (uint64_t at = first; at < part.end; at += THREADS) {
                count_vector(__ldcs(part.vectors + at), counter);
            }
        }
        counter.between_rounds();
    }
    if (blockIdx.x == 0) {
        uint64_t loose = part.head + (length - part.tail_begin);
        for (uint64_t i = threadIdx.x; i < loose; i += THREADS) {
            counter.count(symbol_at(symbols, i < part.head ? i : part.tail_begin + (i - part.head)));
        }
    }
}

// Adds a block's register counts of the symbol it guessed.
__device__ inline void add_commonest(uint64_t count, uint32_t symbol, uint64_t *counts) {
    for (uint32_t distance = WARP / 2; distance > 0; distance /= 2) {
        count += __shfl_xor_sync(ALL_LANES, count, distance);
    }
    if (lane_id() == 0 && count > 0) {
        atomicAdd(&counts[min_of<uint32_t>(symbol, BINS)], count);
    }
}

#ifdef COPIES

// `counts` has BINS + 1 entries, the last for symbols outside of the alphabet, and is added to.
struct ReplicatedCounter {
    uint32_t *copy;
    uint32_t commonest;
    uint64_t commonest_count;

    __device__ inline void count(uint32_t symbol) {
        if (symbol == commonest) {
            ++commonest_count;
        } else {
            atomicAdd(&copy[min_of<uint32_t>(symbol, BINS) * COPIES], 1u);
        }
    }
    __device__ inline void between_rounds() {}
};

extern "C" __global__ void __launch_bounds__(THREADS)
    histogram_replicated(const uint8_t *symbols, uint64_t length, uint64_t *counts) {
    extern __shared__ uint32_t table[];
    __shared__ uint32_t commonest;
    const Part part = part_of_block(symbols, length);
    for (uint32_t i = threadIdx.x; i < (BINS + 1) * COPIES; i += THREADS) {
        table[i] = 0;
    }
    if (warp_id() == 0) {
        uint32_t guess = guess_commonest(part);
        if (lane_id() == 0) {
            commonest = guess;
        }
    }
    __syncthreads();
    ReplicatedCounter counter{table + threadIdx.x % COPIES, commonest, 0};
    count_part(symbols, length, part, counter);
    add_commonest(counter.commonest_count, counter.commonest, counts);
    __syncthreads();
    for (uint32_t bin = threadIdx.x; bin <= BINS; bin += THREADS) {
        uint64_t sum = 0;
        for (uint32_t i = 0; i < COPIES; ++i) {
            // Rotated by thread: the same copy of neighbouring bins is in the same bank.
            sum += table[bin * COPIES + (i + threadIdx.x) % COPIES];
        }
        if (sum > 0) {
            atomicAdd(&counts[bin], sum);
        }
    }
}

#else

// Counters of 16 bits, two to a word (bins half a span apart, so that neighbours are in different banks). A counter that reaches 2^15 hands 2^15 on to
// `counts`. A round adds at most 2^15 and starts with every counter below 2^15, so none runs over into its neighbour.
static_assert(THREADS * UNROLL * SYMBOLS_IN_VECTOR <= 1 << 15, "a round must not overflow a counter");
constexpr uint32_t HANDED_ON = 1u << 15;
constexpr uint32_t HALF_SPAN = SPAN / 2;

struct WideCounter {
    uint32_t *table;
    uint64_t *counts;
    uint32_t first_bin;
    uint32_t commonest;
    uint64_t commonest_count;

    __device__ inline void count(uint32_t symbol) {
        uint32_t bin = symbol - first_bin;
        if (symbol == commonest) {
            ++commonest_count;
        } else if (bin < SPAN) {
            uint32_t shift = bin / HALF_SPAN * 16;
            uint32_t before = atomicAdd(&table[bin % HALF_SPAN], 1u << shift);
            if ((before >> shift & 0xFFFF) == HANDED_ON - 1) {
                atomicSub(&table[bin % HALF_SPAN], HANDED_ON << shift);
                atomicAdd(&counts[min_of<uint32_t>(symbol, BINS)], uint64_t(HANDED_ON));
            }
        }
    }
    __device__ inline void between_rounds() { __syncthreads(); }
};

// As histogram_replicated, for alphabets whose counters of 32 bits do not fit. blockIdx.y * SPAN is the first bin of the block.
extern "C" __global__ void __launch_bounds__(THREADS)
    histogram_wide(const uint8_t *symbols, uint64_t length, uint64_t *counts) {
    extern __shared__ uint32_t table[];
    __shared__ uint32_t commonest;
    const Part part = part_of_block(symbols, length);
    for (uint32_t i = threadIdx.x; i < HALF_SPAN; i += THREADS) {
        table[i] = 0;
    }
    if (warp_id() == 0) {
        uint32_t guess = guess_commonest(part);
        if (lane_id() == 0) {
            commonest = guess;
        }
    }
    __syncthreads();
    WideCounter counter{table, counts, blockIdx.y * SPAN, commonest, 0};
    count_part(symbols, length, part, counter);
    // Every span sees the commonest symbol; the first one counts it.
    add_commonest(blockIdx.y == 0 ? counter.commonest_count : 0, counter.commonest, counts);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < SPAN; i += THREADS) {
        uint32_t sum = table[i % HALF_SPAN] >> i / HALF_SPAN * 16 & 0xFFFF;
        if (sum > 0) {
            atomicAdd(&counts[min_of<uint32_t>(counter.first_bin + i, BINS)], uint64_t(sum));
        }
    }
}

#endif
