// Gap-array decoding in one kernel: Yamamoto et al., "Huffman Coding with Gap Arrays for GPU Acceleration", ICPP 2020
// (decoding; table of decoding times).
//
// Each thread counts the codewords of its subsequence, the block adds them up, looks back at the previous blocks for
// its output position (decoupled look-back), and decodes again, directly to device memory. Blocks take sequences in the
// order in which they start, so no block looks back at one that does not run.
//
// HAS_COUNTS             0: codewords are counted; 1: the counts are given (phases 3 and 4 of the self-synchronizing
//                        decoder of 2018)
#include "device/block.cuh"
#include "device/lookback.cuh"
#include "decode/subsequences.cuh"

static_assert(THREADS == SEQUENCE, "a thread has a subsequence");

__device__ inline void store_symbol(uint8_t *out, uint64_t at, uint32_t symbol) {
    if (SYMBOL_BYTES == 1) {
        out[at] = symbol;
    } else {
        reinterpret_cast<uint16_t *>(out)[at] = symbol;
    }
}

// Returns the output position of symbol `position` of the coded groups of a stream.
__device__ inline uint64_t place_of(const StreamDescriptor &stream, const uint32_t *map, uint32_t position) {
    return stream.out + uint64_t(group_of_rank(stream, map, position / GROUP)) * GROUP + position % GROUP;
}

// `ticket` and `states`, which has one word per sequence, are 0 at the start. `entries` has the gap of each
// subsequence, and `counts` its codewords, if HAS_COUNTS.
extern "C" __global__ void __launch_bounds__(THREADS)
    gap_array_2020_decode(const uint8_t *input, const StreamDescriptor *streams, uint32_t stream_count,
                          const CodebookDescriptor *codebooks, const uint32_t *tables, const uint16_t *symbols,
                          const uint32_t *map, const uint8_t *entries, const uint8_t *counts, const BatchTotals *totals,
                          uint32_t *ticket, uint32_t *states, uint32_t *sums, uint32_t *status, uint8_t *out) {
    __shared__ __align__(16) uint32_t lookup[TABLE + LONG_ENTRIES];
    __shared__ Sequence sequence;
    __shared__ StreamDescriptor stream;
    __shared__ CodebookDescriptor codebook;
    __shared__ uint32_t warp_counts[WARPS];
    __shared__ uint32_t next_shared, before_shared;
    const uint32_t sequences = totals->sequences;
    uint32_t loaded = ALL_LANES;
    Checksum checksum{0, 0};
    while (true) {
        __syncthreads();
        if (threadIdx.x == 0) {
            next_shared = atomicAdd(ticket, 1u);
        }
        __syncthreads();
        const uint32_t next = next_shared;
        if (next >= sequences) {
            break;
        }
        const uint32_t stream_number =
            find_stream(next, stream_count, [&](uint32_t i) { return streams[i].first_sequence; });
        if (stream_number != loaded) {
            if (loaded != ALL_LANES) {
                checksum.flush(&sums[2 * loaded]);
            }
            load_stream(stream, codebook, streams, stream_number, codebooks);
            load_lookup(lookup, tables, stream, codebook);
            loaded = stream_number;
        }
        const uint32_t number = next - stream.first_sequence;
        const uint32_t last = sequence.load(input, stream, number);
        __syncthreads();

        const Decoder decoder(lookup, LONG_ENTRIES, &codebook, symbols);
        const uint32_t subsequence = number * SEQUENCE + threadIdx.x;
        const uint32_t start = threadIdx.x * SUBSEQUENCE_BITS, bits = bits_in(stream, subsequence);
        uint32_t count = 0;
        uint32_t gap = 0;
        if (bits > 0) {
#if HAS_COUNTS
            gap = entries[stream.first_subsequence + subsequence];
            count = counts[stream.first_subsequence + subsequence];
#else
            gap = gap_of(entries, stream, subsequence);
            WordReader<Padded> counting({sequence.words}, last, start + gap);
            for (; counting.position < start + bits; ++count) {
                decoder.one(counting);
            }
#endif
        }
        uint32_t total;
        const uint32_t before_in_block = block_exclusive_sum<THREADS>(count, warp_counts, total);
        if (warp_id() == 0) {
            if (lane_id() == 0) {
                store_aggregate(states, stream.first_sequence, next, total);
            }
            const uint32_t before = look_back(states, stream.first_sequence, next, total);
            if (lane_id() == 0) {
                before_shared = before;
            }
        }
        __syncthreads();
        // Damaged streams may have more codewords than symbols.
        const uint32_t all = stream.coded_groups * GROUP;
        const uint32_t begin = min_of(all, before_shared), end = min_of(all, before_shared + total);
        if (threadIdx.x == 0 && (number + 1) * uint64_t(SEQUENCE_BITS) >= stream.bits && before_shared + total != all) {
            atomicOr(&status[stream_number], STATUS_COUNT);
        }
        uint32_t position = begin + before_in_block;
        const uint32_t own_end = min_of(end, position + count);
        WordReader<Padded> reader({sequence.words}, last, start + gap);
        while (position < own_end) {
            const uint32_t symbol = decoder.one(reader);
            store_symbol(out, place_of(stream, map, position), symbol);
            checksum.add_symbol(symbol, position);
            ++position;
        }
    }
    if (loaded != ALL_LANES) {
        checksum.flush(&sums[2 * loaded]);
    }
}
