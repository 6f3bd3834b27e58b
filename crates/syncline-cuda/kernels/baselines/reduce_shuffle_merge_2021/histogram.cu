// Counts of each symbol.
//
// Private histograms in shared memory, added up at the end (Gomez-Luna et al. 2012, as in the 2021 encoder paper).
// Copies are interleaved ([bin][copy], a lane its copy): with 32 of them no two lanes of a warp ever meet in a bank,
// whatever the data. Where fewer fit, lanes that add 1 to the same counter are added up by the hardware
// (ATOMS.POPC.INC), so one symbol with nearly all of the data serializes nothing.
//
// What made the difference is the inner loop's length, 4 instructions a symbol: H200, 1024 bins, 3.9 TB/s whatever the
// spread. Tried and slower: counting the commonest symbol in a register (a branch, or a select and a counter, a
// symbol: 2.8 to 3.8 TB/s); counters of 16 bits for large alphabets (0.9 to 3.1).
//
// SYMBOL_BYTES  bytes of a symbol, 1 or 2
// BINS          symbols in the alphabet; larger symbols are counted together behind the last bin
// PART_ENTRIES          entries of `counts` that a block looks after, from blockIdx.y * PART_ENTRIES on: large
// alphabets are shared out COPIES        copies of the counters in a block, a power of two up to 32 THREADS threads in
// a block
#include "common.cuh"

constexpr uint32_t SYMBOLS_IN_VECTOR = 16 / SYMBOL_BYTES;
constexpr uint32_t SYMBOL_BITS = 8 * SYMBOL_BYTES;
// Vectors that a thread has in flight.
constexpr uint32_t UNROLL = 4;

// There are BINS + 1 entries to count, the last for symbols outside of the alphabet. A block that does not have all of
// them has a row for the others.
constexpr bool ALL_ENTRIES = PART_ENTRIES > BINS;
constexpr uint32_t ROWS = ALL_ENTRIES ? BINS + 1 : PART_ENTRIES + 1;

struct Counter {
    uint32_t copy; // address in shared memory
    uint32_t first_entry;

    // Written out: from `atomicAdd` the compiler works the address out anew for every symbol.
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

// `counts` has BINS + 1 entries, the last for symbols outside of the alphabet, and is added to. A thread counts fewer
// than 2^32 symbols.
extern "C" __global__ void __launch_bounds__(THREADS)
    reduce_shuffle_merge_2021_histogram(const uint8_t *symbols, uint64_t length, uint64_t *counts) {
    extern __shared__ uint32_t table[];
    for (uint32_t i = threadIdx.x; i < ROWS * COPIES; i += THREADS) {
        table[i] = 0;
    }
    __syncthreads();
    const Counter counter{shared_address(table + threadIdx.x % COPIES), blockIdx.y * PART_ENTRIES};

    // Whole vectors, aligned, are shared out among the blocks; the first block counts what is left before and after
    // them.
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
            // Rotated by thread: the same copy of neighboring rows may be in the same bank.
            sum += table[row * COPIES + (i + threadIdx.x) % COPIES];
        }
        // Entries past the last stay 0.
        if (sum > 0) {
            atomicAdd(&counts[counter.first_entry + row], sum);
        }
    }
}
