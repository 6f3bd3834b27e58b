// Decoding and writing with online tuning of shared memory: Rivera et al., "Optimizing Huffman Decoding for
// Error-Bounded Lossy Compression on GPUs", IPDPS 2022 (Section IV, Algorithms 1 and 2; Figure 3, Table I).
//
// Entry points and counts of subsequences are known. The kernels add up the counts of each sequence, compute the output
// position of each sequence by a prefix sum per stream, sort sequences by class, and decode each class in a launch of
// its own with as much shared memory as it needs, all classes concurrently. The class of a sequence is its compression
// ratio, bytes of symbols per byte of codewords, rounded up. The host does not need to know the sizes of classes.
//
// CLASSES                number of classes: one per ratio, the last for all higher ratios
#include "device/block.cuh"
#include "decode/subsequences.cuh"

static_assert(THREADS == SEQUENCE, "a thread has a subsequence");

constexpr uint32_t SORT_THREADS = 1024;
// Symbols of a sequence with compression ratio 1.
constexpr uint32_t RATIO_SYMBOLS = SEQUENCE_BITS / 8 / SYMBOL_BYTES;

__device__ inline uint32_t class_of(uint32_t symbols_in_sequence) {
    const uint32_t ratio = ceil_div(symbols_in_sequence, RATIO_SYMBOLS);
    return min_of<uint32_t>(ratio == 0 ? 0 : ratio - 1, CLASSES - 1);
}

// A block's contiguous share of `all`.
struct Share {
    uint32_t begin, end;
};

__device__ inline Share share_of_block(uint32_t all) {
    const uint32_t each = ceil_div(all, gridDim.x);
    const uint32_t begin = min_of(all, blockIdx.x * each);
    return {begin, min_of(all, begin + each)};
}

// Returns the count of a subsequence, 0 beyond the end of the stream.
__device__ inline uint32_t count_of(const StreamDescriptor &stream, const uint8_t *counts, uint32_t subsequence) {
    return bits_in(stream, subsequence) == 0 ? 0 : counts[uint64_t(stream.first_subsequence) + subsequence];
}

// Writes the number of symbols of each sequence.
extern "C" __global__ void __launch_bounds__(THREADS)
    shared_memory_tuning_2022_count(const StreamDescriptor *streams, uint32_t stream_count, const uint8_t *counts,
                                    const BatchTotals *totals, uint32_t *sequence_counts) {
    __shared__ uint32_t warp_counts[WARPS];
    const Share share = share_of_block(totals->sequences);
    for (uint32_t next = share.begin; next < share.end; ++next) {
        const StreamDescriptor &stream =
            streams[find_stream(next, stream_count, [&](uint32_t i) { return streams[i].first_sequence; })];
        const uint32_t subsequence = (next - stream.first_sequence) * SEQUENCE + threadIdx.x;
        uint32_t total;
        block_exclusive_sum<THREADS>(count_of(stream, counts, subsequence), warp_counts, total);
        if (threadIdx.x == 0) {
            sequence_counts[next] = total;
        }
    }
}

// Writes the output position of each sequence in its stream. One block per stream.
extern "C" __global__ void __launch_bounds__(THREADS)
    shared_memory_tuning_2022_scan(const StreamDescriptor *streams, const uint32_t *sequence_counts, uint32_t *starts,
                                   uint32_t *status) {
    __shared__ uint32_t warp_counts[WARPS];
    const StreamDescriptor &stream = streams[blockIdx.x];
    const uint32_t sequences = ceil_div(stream.bits, SEQUENCE_BITS);
    uint32_t before = 0;
    for (uint32_t first = 0; first < sequences; first += THREADS) {
        const uint32_t i = first + threadIdx.x;
        const uint32_t count = i < sequences ? sequence_counts[stream.first_sequence + i] : 0;
        uint32_t total;
        const uint32_t before_in_block = block_exclusive_sum<THREADS>(count, warp_counts, total);
        if (i < sequences) {
            starts[stream.first_sequence + i] = before + before_in_block;
        }
        before += total;
    }
    if (threadIdx.x == 0 && before != stream.coded_groups * GROUP) {
        atomicOr(&status[blockIdx.x], STATUS_COUNT);
    }
}

// Sorts sequences by class, stably; `class_ends` is where each class ends in `order`. One block, since there are only
// thousands of sequences.
extern "C" __global__ void __launch_bounds__(SORT_THREADS)
    shared_memory_tuning_2022_sort(const uint32_t *sequence_counts, const BatchTotals *totals, uint32_t *order,
                                   uint32_t *class_ends) {
    const uint32_t sequences = totals->sequences;
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
        // Converts counts to the start of each warp's share of a class.
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

__device__ inline void store_symbol(uint8_t *to, uint64_t at, uint32_t symbol) {
    if (SYMBOL_BYTES == 1) {
        to[at] = symbol;
    } else {
        reinterpret_cast<uint16_t *>(to)[at] = symbol;
    }
}

// Writes symbols [begin, end) of a stream from the block's buffer, whose first symbol is `first`, a multiple of
// SYMBOLS_IN_UNIT.
__device__ inline void flush(const uint4 *buffer, uint32_t first, uint32_t begin, uint32_t end,
                             const StreamDescriptor &stream, const uint32_t *map, uint8_t *out, Checksum &checksum) {
    for (uint32_t i = threadIdx.x; i < ceil_div(end - first, SYMBOLS_IN_UNIT); i += THREADS) {
        const uint32_t position = first + i * SYMBOLS_IN_UNIT;
        const uint64_t at =
            stream.out + uint64_t(group_of_rank(stream, map, position / GROUP)) * GROUP + position % GROUP;
        if (position >= begin && position + SYMBOLS_IN_UNIT <= end) {
            const uint4 unit = buffer[i];
            store_evict_first(reinterpret_cast<uint4 *>(out + at * SYMBOL_BYTES), unit);
            checksum.add(unit, position);
            continue;
        }
        // The rest of the unit belongs to another sequence.
        for (uint32_t j = 0; j < SYMBOLS_IN_UNIT; ++j) {
            if (position + j >= begin && position + j < end) {
                const uint32_t symbol = SYMBOL_BYTES == 1
                                            ? reinterpret_cast<const uint8_t *>(buffer)[i * SYMBOLS_IN_UNIT + j]
                                            : reinterpret_cast<const uint16_t *>(buffer)[i * SYMBOLS_IN_UNIT + j];
                store_symbol(out, at + j, symbol);
                checksum.add_symbol(symbol, position + j);
            }
        }
    }
}

// Decodes the sequences of one class, `room` symbols (a multiple of 64) at a time.
extern "C" __global__ void __launch_bounds__(THREADS)
    shared_memory_tuning_2022_write(const uint8_t *input, const StreamDescriptor *streams, uint32_t stream_count,
                                    const CodebookDescriptor *codebooks, const uint32_t *tables,
                                    const uint16_t *symbols, const uint32_t *map, const uint8_t *entries,
                                    const uint8_t *counts, const uint32_t *starts, const uint32_t *order,
                                    const uint32_t *class_ends, uint32_t own_class, uint32_t room, uint32_t *sums,
                                    uint8_t *out) {
    extern __shared__ uint4 buffer[];
    __shared__ __align__(16) uint32_t lookup[TABLE + LONG_ENTRIES];
    __shared__ Sequence sequence;
    __shared__ StreamDescriptor stream;
    __shared__ CodebookDescriptor codebook;
    __shared__ uint32_t warp_counts[WARPS];
    constexpr uint32_t SYMBOLS_IN_WORD = 4 / SYMBOL_BYTES;
    uint8_t *to = reinterpret_cast<uint8_t *>(buffer);
    uint32_t loaded = ALL_LANES;
    Checksum checksum{0, 0};
    const uint32_t first_of_class = own_class == 0 ? 0 : class_ends[own_class - 1];
    const Share share = share_of_block(class_ends[own_class] - first_of_class);
    for (uint32_t i = share.begin; i < share.end; ++i) {
        const uint32_t next = order[first_of_class + i];
        const uint32_t stream_number =
            find_stream(next, stream_count, [&](uint32_t s) { return streams[s].first_sequence; });
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
        const uint32_t subsequence = number * SEQUENCE + threadIdx.x;
        const uint32_t count = count_of(stream, counts, subsequence);
        const uint32_t entry =
            count == 0 ? 0 : min_of<uint32_t>(entries[uint64_t(stream.first_subsequence) + subsequence], MAX_ENTRY);
        uint32_t total;
        const uint32_t before_in_block = block_exclusive_sum<THREADS>(count, warp_counts, total);
        const Decoder decoder(lookup, LONG_ENTRIES, &codebook, symbols);
        WordReader<Padded> reader({sequence.words}, last, threadIdx.x * SUBSEQUENCE_BITS + entry);
        // Damaged streams may have more codewords than symbols.
        const uint32_t all = stream.coded_groups * GROUP;
        const uint32_t begin = min_of(all, starts[next]), end = min_of(all, starts[next] + total);
        uint32_t position = begin + before_in_block;
        const uint32_t own_end = min_of(end, position + count);
        for (uint32_t first = begin / SYMBOLS_IN_UNIT * SYMBOLS_IN_UNIT; first < end; first += room) {
            const uint32_t round_end = min_of(own_end, first + room);
            // Stores whole words, and single symbols before and after them.
            for (; position < round_end && position % SYMBOLS_IN_WORD != 0; ++position) {
                store_symbol(to, position - first, decoder.one(reader));
            }
            for (; position + SYMBOLS_IN_WORD <= round_end; position += SYMBOLS_IN_WORD) {
                reinterpret_cast<uint32_t *>(to)[(position - first) / SYMBOLS_IN_WORD] = decoder.word(reader);
            }
            for (; position < round_end; ++position) {
                store_symbol(to, position - first, decoder.one(reader));
            }
            __syncthreads();
            flush(buffer, first, begin, min_of(end, first + room), stream, map, out, checksum);
            __syncthreads();
        }
        // Needed also if nothing was written, because the next sequence overwrites these words.
        __syncthreads();
    }
    if (loaded != ALL_LANES) {
        checksum.flush(&sums[2 * loaded]);
    }
}
