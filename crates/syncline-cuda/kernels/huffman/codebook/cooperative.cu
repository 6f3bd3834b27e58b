// Codebooks of alphabets that exceed the shared memory of a block: sorting, before
// huffman/codebook/cooperative_trees.cu builds the trees, and writing the codewords after it.
//
// The blocks work in lockstep in device memory. They are launched cooperatively, so that all of them are resident and
// the barrier cannot deadlock.
//
// THREADS             threads of a block, a multiple of 256
// COOPERATIVE_BLOCKS  blocks, at least 2
//
// and the constants of huffman/codebook/sort.cuh and huffman/codebook/cooperative_trees.cuh.
#include "device/sync.cuh"
#include "huffman/codebook/canonical_code.cuh"
#include "huffman/codebook/sort.cuh"
#include "huffman/codebook/cooperative_trees.cuh"

static_assert(COOPERATIVE_BLOCKS > 1, "blocks share memory");

// Sorts the symbols, and writes the sum of the counts of each stretch of sorted symbols to `sums`. `control` is 0
// before this kernel and after the last one: each kernel clears what the following ones do not read.
extern "C" __global__ void __launch_bounds__(THREADS)
    cooperative_sort(const uint64_t *counts, uint8_t *memory, void *control, uint64_t *sums) {
    launch_dependents_and_wait();
    __shared__ Partition<DIGITS> partition;
    Arrays a = layout(memory, control);
    const uint64_t *home = a.keys;
    CooperativeGroup group{&a.control->barrier, a.digit_counts, 0, blockIdx.x * THREADS + threadIdx.x};
    const long long start = clock64();
    const uint32_t unused = sort_symbols(group, partition, a, counts);
    for (uint32_t stretch = group.rank / WARP; stretch < STRETCHES; stretch += CooperativeGroup::SIZE / WARP) {
        uint64_t sum = 0;
#pragma unroll
        for (uint32_t i = 0; i < STRETCH; i += WARP) {
            const uint32_t item = stretch * STRETCH + i + lane_id();
            sum += item < SYMBOLS ? load_from_group(&a.keys[item]) >> SYMBOL_BITS : 0;
        }
        for (uint32_t distance = WARP / 2; distance > 0; distance /= 2) {
            sum += __shfl_xor_sync(ALL_LANES, sum, distance);
        }
        if (lane_id() == 0) {
            sums[stretch] = sum;
        }
    }
    if (group.rank == 0) {
        SortResult &found = *reinterpret_cast<SortResult *>(sums + STRETCHES);
        found.unused = unused;
        found.in_internal = a.keys != home;
        found.cycles = clock64() - start;
        a.control->barrier_of_writers = 0;
    }
}

// Writes the best code of all candidate trees.
extern "C" __global__ void __launch_bounds__(THREADS)
    cooperative_write(const CandidateTrees *trees, const uint64_t *sums, uint8_t *memory, void *control,
                      uint32_t *codewords, uint16_t *symbols_by_codeword, uint32_t *summary) {
    __shared__ CodeTables code;
    Arrays a = layout(memory, control);
    const long long start = clock64();
    const SortResult &found = *reinterpret_cast<const SortResult *>(sums + STRETCHES);
    const uint64_t *keys = found.in_internal ? a.internal : a.keys;
    const uint32_t unused = found.unused;
    CooperativeGroup group{&a.control->barrier_of_writers, a.digit_counts, 0, blockIdx.x * THREADS + threadIdx.x};
    const uint32_t at_length = warp_id() == 0 ? trees->best() : 0;
    write_codewords(
        group, code, at_length, [&](uint32_t i) { return uint32_t(keys[i] & 0xFFFF); }, unused, a.lengths, codewords,
        symbols_by_codeword, summary);
    if (group.rank == 0) {
        summary[SUMMARY_USED] = SYMBOLS - unused;
        summary[SUMMARY_STATUS] = a.control->status;
        summary[SUMMARY_ROUNDS] = trees->rounds;
        summary[SUMMARY_CYCLES] = found.cycles;
        summary[SUMMARY_CYCLES + 1] = trees->cycles[0];
        summary[SUMMARY_CYCLES + 2] = trees->cycles[1];
        summary[SUMMARY_CYCLES + 3] = clock64() - start;
        a.control->status = a.control->total = 0;
    }
}
