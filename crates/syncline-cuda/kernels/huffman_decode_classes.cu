// Decoding from the starts of subsequences with shared memory tuned by compression ratio, as the 2022 paper has it (its Algorithm 2).
//
// What decode_gap does in one kernel takes several here: counting (or adding up what the self-synchronising decoder counted), scanning each stream for where its
// sequences' symbols go, sorting sequences by class, and a launch a class, all side by side, each with as much shared memory as its class needs. A sequence's class is the
// number of 16-bit symbols for each 16 of its bits, rounded up: its compression ratio. The host need not know how many there are of a class.
//
// ENTRIES   0: starts come from the gap index and counts from counting; 1: both have been found before
// CLASSES   classes: one for each ratio, the last for all that are higher
#include "huffman_decode_write.cuh"

constexpr uint32_t SORT_THREADS = 1024;
// Symbols of a sequence of compression ratio 1.
constexpr uint32_t RATIO_SYMBOLS = SEQUENCE_BITS / 8 / SYMBOL_BYTES;

__device__ inline uint32_t class_of(uint32_t symbols_in_sequence) {
    const uint32_t ratio = ceil_div(symbols_in_sequence, RATIO_SYMBOLS);
    return min_of<uint32_t>(ratio == 0 ? 0 : ratio - 1, CLASSES - 1);
}

// A block's share of `all`, one after another.
struct Share {
    uint32_t begin, end;
};

__device__ inline Share share_of_block(uint32_t all) {
    const uint32_t each = ceil_div(all, gridDim.x);
    const uint32_t begin = min_of(all, blockIdx.x * each);
    return {begin, min_of(all, begin + each)};
}

// Symbols of each sequence, and of each subsequence unless they are known.
extern "C" __global__ void __launch_bounds__(THREADS)
    class_counts(const uint8_t *input, const Stream *streams, uint32_t stream_count, const Book *books, const uint32_t *tables,
                 const uint16_t *symbols, uint32_t sequences, uint16_t *counts, uint32_t *sequence_counts) {
    __shared__ uint32_t warp_counts[WARPS];
    const Share share = share_of_block(sequences);
#if ENTRIES
    for (uint32_t next = share.begin; next < share.end; ++next) {
        // Subsequences are counted in whole sequences, stream after stream: sequence `next` starts at SEQUENCE times its number.
        const Scan scan = scan_block(counts[uint64_t(next) * SEQUENCE + threadIdx.x], warp_counts);
        if (threadIdx.x == 0) {
            sequence_counts[next] = scan.total;
        }
        __syncthreads();
    }
#else
    __shared__ __align__(16) Tables tables_here;
    __shared__ Sequence sequence;
    __shared__ Stream stream;
    __shared__ Book book;
    uint32_t loaded = ALL_LANES;
    for (uint32_t next = share.begin; next < share.end; ++next) {
        const uint32_t stream_number = stream_of(next, stream_count, [&](uint32_t i) { return streams[i].first_sequence; });
        if (stream_number != loaded) {
            load_stream(stream, book, tables_here, streams, stream_number, books, tables);
            loaded = stream_number;
        }
        const uint32_t number = next - stream.first_sequence;
        const uint32_t last = sequence.load(input, stream, number);
        __syncthreads();
        const Decoder decoder(tables_here.lookup, LONG_ENTRIES, &book, symbols);
        const uint32_t bits = bits_of(stream, number);
        const uint32_t start = threadIdx.x * THREAD_BITS;
        uint32_t count = 0;
        if (start < bits) {
            Reader<Padded> reader({sequence.words}, last, start + gap_of(input, stream, number * SEQUENCE + threadIdx.x));
            count = count_span(tables_here, decoder, reader, stop_of(threadIdx.x, bits));
        }
        counts[uint64_t(next) * SEQUENCE + threadIdx.x] = count;
        const Scan scan = scan_block(count, warp_counts);
        if (threadIdx.x == 0) {
            sequence_counts[next] = scan.total;
        }
        __syncthreads();
    }
#endif
}

// Where in its stream each sequence's symbols go; a block a stream.
extern "C" __global__ void __launch_bounds__(THREADS)
    class_starts(const Stream *streams, const uint32_t *sequence_counts, uint32_t *starts, uint32_t *status) {
    __shared__ uint32_t warp_counts[WARPS];
    const Stream &stream = streams[blockIdx.x];
    const uint32_t sequences = ceil_div(stream.bits, SEQUENCE_BITS);
    uint32_t before = 0;
    for (uint32_t first = 0; first < sequences; first += THREADS) {
        const uint32_t i = first + threadIdx.x;
        const Scan scan = scan_block(i < sequences ? sequence_counts[stream.first_sequence + i] : 0, warp_counts);
        if (i < sequences) {
            starts[stream.first_sequence + i] = before + scan.before;
        }
        before += scan.total;
        __syncthreads();
    }
    if (threadIdx.x == 0 && sequences > 0 && before != stream.live * GROUP) {
        atomicOr(&status[blockIdx.x], STATUS_COUNT);
    }
}

// Sorts sequences by class, otherwise in order; `class_ends` is where each class ends in `order`. By one block: there are some thousands of sequences.
extern "C" __global__ void __launch_bounds__(SORT_THREADS)
    class_order(const uint32_t *sequence_counts, uint32_t sequences, uint32_t *order, uint32_t *class_ends) {
    __shared__ uint32_t next[CLASSES];
    __shared__ uint32_t in_warp[SORT_THREADS / WARP][CLASSES];
    if (threadIdx.x < CLASSES) {
        next[threadIdx.x] = 0;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < sequences; i += SORT_THREADS) {
        atomicAdd(&next[class_of(sequence_counts[i])], 1u);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        uint32_t end = 0;
        for (uint32_t i = 0; i < CLASSES; ++i) {
            const uint32_t count = next[i];
            next[i] = end;
            end += count;
            class_ends[i] = end;
        }
    }
    for (uint32_t first = 0; first < sequences; first += SORT_THREADS) {
        for (uint32_t i = threadIdx.x; i < SORT_THREADS / WARP * CLASSES; i += SORT_THREADS) {
            in_warp[i / CLASSES][i % CLASSES] = 0;
        }
        __syncthreads();
        const uint32_t i = first + threadIdx.x;
        const bool inside = i < sequences;
        const uint32_t own = inside ? class_of(sequence_counts[i]) : CLASSES;
        const uint32_t alike = __match_any_sync(ALL_LANES, own);
        const uint32_t rank = __popc(alike & ((1u << lane_id()) - 1));
        if (inside && rank == 0) {
            in_warp[warp_id()][own] = __popc(alike);
        }
        __syncthreads();
        // From counts to where each warp's share of a class starts.
        if (threadIdx.x < CLASSES) {
            uint32_t at = next[threadIdx.x];
            for (uint32_t warp = 0; warp < SORT_THREADS / WARP; ++warp) {
                const uint32_t count = in_warp[warp][threadIdx.x];
                in_warp[warp][threadIdx.x] = at;
                at += count;
            }
            next[threadIdx.x] = at;
        }
        __syncthreads();
        if (inside) {
            order[in_warp[warp_id()][own] + rank] = i;
        }
        __syncthreads();
    }
}

// Decodes the sequences of one class, `room` symbols (a multiple of 64) at a time.
extern "C" __global__ void __launch_bounds__(THREADS)
    class_write(const uint8_t *input, const Stream *streams, uint32_t stream_count, const Book *books, const uint32_t *tables,
                const uint16_t *symbols, const uint32_t *map, const uint8_t *entries, const uint16_t *counts, const uint32_t *starts,
                const uint32_t *order, const uint32_t *class_ends, uint32_t own_class, uint32_t room, uint32_t *sums, uint8_t *out) {
    extern __shared__ uint4 buffer[];
    __shared__ __align__(16) Tables tables_here;
    __shared__ Sequence sequence;
    __shared__ Stream stream;
    __shared__ Book book;
    __shared__ uint32_t warp_counts[WARPS];
    uint32_t loaded = ALL_LANES;
    Checksum checksum{0, 0};
    const uint32_t first_of_class = own_class == 0 ? 0 : class_ends[own_class - 1];
    const Share share = share_of_block(class_ends[own_class] - first_of_class);
    for (uint32_t i = share.begin; i < share.end; ++i) {
        const uint32_t next = order[first_of_class + i];
        const uint32_t stream_number = stream_of(next, stream_count, [&](uint32_t s) { return streams[s].first_sequence; });
        if (stream_number != loaded) {
            if (loaded != ALL_LANES) {
                checksum.flush(&sums[2 * loaded]);
            }
            load_stream(stream, book, tables_here, streams, stream_number, books, tables);
            loaded = stream_number;
        }
        const uint32_t number = next - stream.first_sequence;
        const uint32_t last = sequence.load(input, stream, number);
        __syncthreads();
        const Decoder decoder(tables_here.lookup, LONG_ENTRIES, &book, symbols);
        const uint32_t start = threadIdx.x * THREAD_BITS;
        uint32_t gap = 0, count = 0;
        if (start < bits_of(stream, number)) {
            count = counts[uint64_t(next) * SEQUENCE + threadIdx.x];
#if ENTRIES
            gap = entries[uint64_t(next) * SEQUENCE + threadIdx.x];
#else
            gap = gap_of(input, stream, number * SEQUENCE + threadIdx.x);
#endif
        }
        const Scan in_block = scan_block(count, warp_counts);
        // Damaged codewords may be more than there is room for.
        const uint32_t all = stream.live * GROUP;
        const uint32_t begin = min_of(all, starts[next]), end = min_of(all, starts[next] + in_block.total);
        const uint32_t position = begin + in_block.before;
        Reader<Padded> reader({sequence.words}, last, start + gap);
        write_staged(decoder, reader, buffer, room, begin, end, position, min_of(end, position + count), stream, map, out, checksum);
        __syncthreads();
    }
    if (loaded != ALL_LANES) {
        checksum.flush(&sums[2 * loaded]);
    }
}
