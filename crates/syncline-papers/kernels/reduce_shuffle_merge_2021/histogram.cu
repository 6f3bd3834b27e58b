// Counts of each symbol: the histogram of Tian et al., "Revisiting Huffman Coding: Toward Extreme Performance on Modern
// GPU Architectures" (IPDPS 2021, section IV-A), after Gomez-Luna et al. (2012).
//
// Each block has private histograms in shared memory, which are added up at the end. Copies are interleaved
// ([bin][copy], one for each lane), so with 32 copies no two lanes access the same bank. With fewer copies the hardware
// combines lanes that increment the same counter (ATOMS.POPC.INC), so a frequent symbol does not serialize.
//
// SYMBOL_BYTES  bytes of a symbol, 1 or 2
// BINS          symbols of the alphabet; all larger symbols are counted together after the last bin
// PART_ENTRIES  entries of `counts` that a block handles, from blockIdx.y * PART_ENTRIES on
// COPIES        copies of the counters in a block, a power of two up to 32
// THREADS       threads of a block
#include "common.cuh"

constexpr uint32_t SYMBOLS_IN_VECTOR = 16 / SYMBOL_BYTES;
constexpr uint32_t SYMBOL_BITS = 8 * SYMBOL_BYTES;
// Vectors that a thread has in flight.
constexpr uint32_t UNROLL = 4;

// There are BINS + 1 entries, the last for symbols outside of the alphabet. A block without all entries has an
// additional row for the others.
constexpr bool ALL_ENTRIES = PART_ENTRIES > BINS;
constexpr uint32_t ROWS = ALL_ENTRIES ? BINS + 1 : PART_ENTRIES + 1;

struct Counter {
    uint32_t copy; // address in shared memory
    uint32_t first_entry;

    // Written in assembly, because with `atomicAdd` the compiler recomputes the address for every symbol.
    __device__ inline void count(uint32_t symbol) const {
        uint32_t row = min_of<uint32_t>(symbol, BINS);
        if (!ALL_ENTRIES) {
            row = min_of<uint32_t>(row - first_entry, PART_ENTRIES);
        }
        asm volatile("red.shared.add.u32 [%0], 1;" : : "r"(copy + row * (COPIES * 4)) : "memory");
    }
    __device__ inline void count_word(uint32_t word) const {
#pragma unroll
        for (uint32_t shift = 0; shift < 32; shift += SYMBOL_BITS) {
            count(word >> shift & ((1u << SYMBOL_BITS) - 1));
        }
    }
    __device__ inline void count_vector(uint4 vector) const {
        count_word(vector.x);
        count_word(vector.y);
        count_word(vector.z);
        count_word(vector.w);
    }
};

// Adds to `counts`, which has BINS + 1 entries, the last for symbols outside of the alphabet. A thread counts fewer
// than 2^32 symbols.
extern "C" __global__ void __launch_bounds__(THREADS)
    reduce_shuffle_merge_2021_histogram(const uint8_t *symbols, uint64_t length, uint64_t *counts) {
    extern __shared__ uint32_t table[];
    for (uint32_t i = threadIdx.x; i < ROWS * COPIES; i += THREADS) {
        table[i] = 0;
    }
    __syncthreads();
    const Counter counter{shared_address(table + threadIdx.x % COPIES), blockIdx.y * PART_ENTRIES};

    // Aligned vectors are distributed to the blocks. The first block counts the symbols before and after them.
    const uint64_t misaligned = reinterpret_cast<uint64_t>(symbols) % 16;
    const uint64_t head = min_of<uint64_t>(length, misaligned == 0 ? 0 : (16 - misaligned) / SYMBOL_BYTES);
    const uint64_t vector_count = (length - head) / SYMBOLS_IN_VECTOR;
    const uint4 *vectors = reinterpret_cast<const uint4 *>(symbols + head * SYMBOL_BYTES);
    const uint64_t share = (vector_count + gridDim.x - 1) / gridDim.x;
    const uint64_t end = min_of<uint64_t>(vector_count, share * (blockIdx.x + 1));
    uint64_t at = share * blockIdx.x + threadIdx.x;
    for (; at + (UNROLL - 1) * THREADS < end; at += UNROLL * THREADS) {
        uint4 loaded[UNROLL];
#pragma unroll
        for (uint32_t i = 0; i < UNROLL; ++i) {
            loaded[i] = __ldcs(vectors + at + i * THREADS);
        }
#pragma unroll
        for (uint32_t i = 0; i < UNROLL; ++i) {
            counter.count_vector(loaded[i]);
        }
    }
    for (; at < end; at += THREADS) {
        counter.count_vector(__ldcs(vectors + at));
    }
    if (blockIdx.x == 0) {
        const uint64_t tail = head + vector_count * SYMBOLS_IN_VECTOR;
        for (uint64_t i = threadIdx.x; i < head + length - tail; i += THREADS) {
            uint64_t index = i < head ? i : tail + i - head;
            counter.count(SYMBOL_BYTES == 1 ? symbols[index] : reinterpret_cast<const uint16_t *>(symbols)[index]);
        }
    }

    __syncthreads();
    for (uint32_t row = threadIdx.x; row < min_of<uint32_t>(ROWS, PART_ENTRIES); row += THREADS) {
        uint64_t sum = 0;
#pragma unroll 8
        for (uint32_t i = 0; i < COPIES; ++i) {
            // Rotated by thread, because the same copy of neighboring rows may be in the same bank.
            sum += table[row * COPIES + (i + threadIdx.x) % COPIES];
        }
        // Entries past the last stay 0.
        if (sum > 0) {
            atomicAdd(&counts[counter.first_entry + row], sum);
        }
    }
}
