// Decoding from known entry points, or from those that a gap array gives.
//
// A warp decodes 32 subsequences (a warp sequence) at a time, one per lane, with the words in registers; no warp waits
// for another. The output position of a warp sequence is the sum of the counts before it. So subsequences_count counts
// codewords (the self-synchronizing decoder has done so already), subsequences_scan adds the counts up, and
// subsequences_write decodes again and writes. As in the 2022 paper, symbols go through shared memory, so that whole
// lines are written.
//
// COUNT_THREADS          threads per block of subsequences_count
// BLOCKS                 blocks of subsequences_write that must fit a multiprocessor
// WARP_SEQUENCE_COST     cost of a warp sequence besides its symbols, in symbols; DENSE_WARP_SEQUENCE_COST in batches
//                        with fewer than DENSE_WARP_SEQUENCE symbols per warp sequence
#include "device/block.cuh"
#include "device/sync.cuh"
#include "huffman/decode/zero_bit_groups.cuh"
#include "decode/write_symbols.cuh"

constexpr uint32_t WARP_SEQUENCES = SEQUENCE / WARP; // per sequence

// Reads gap arrays, which have a byte for each subsequence: writes the entry point and count of each subsequence, one
// byte each. Those beyond the ends of streams are not written.
extern "C" __global__ void __launch_bounds__(COUNT_THREADS)
    subsequences_count(const uint8_t *input, const StreamDescriptor *streams, uint32_t stream_count,
                       const CodebookDescriptor *codebooks, const uint16_t *count_tables, const BatchTotals *totals,
                       const uint8_t *gaps, uint8_t *entries, uint8_t *counts) {
    __shared__ __align__(16) uint16_t table[COUNTS];
    __shared__ StreamDescriptor stream;
    __shared__ CodebookDescriptor codebook;
    BlockShare<WARP_SEQUENCES> rest(totals->sequences);
    while (rest.next < rest.end) {
        uint32_t first, stop;
        const uint32_t number = rest.stream(streams, stream_count, first, stop);
        load_stream(stream, codebook, streams, number, codebooks);
        // prepare_batch has written the tables; the next kernel may read them before it waits.
        wait_and_launch_dependents();
        load_counts(table, count_tables, stream, false);
        __syncthreads();
        const Counter counter(table, &codebook);
        const uint32_t warps = blockDim.x / WARP;
        uint32_t subsequence = (first + warp_id()) * WARP + lane_id();
        SubsequenceWords words;
        uint32_t entry = 0, end = 0;
        const auto load = [&] {
            const uint32_t bits = bits_in(stream, subsequence);
            if (bits > 0) {
                words.load(input, stream, subsequence);
                entry = gap_of(gaps, stream, subsequence);
                end = bits_in(stream, subsequence + 1) > 0 ? SUBSEQUENCE_BITS + gap_of(gaps, stream, subsequence + 1)
                                                           : bits;
            }
        };
        load();
        for (uint32_t warp_sequence = first + warp_id(); warp_sequence < stop; warp_sequence += warps) {
            SubsequenceReader reader(words, entry);
            const uint32_t own_entry = entry, own_end = end;
            const uint64_t at = uint64_t(stream.first_subsequence) + subsequence;
            // Loads the words of the next warp sequence in the meantime.
            subsequence += blockDim.x;
            load();
            entries[at] = own_entry;
            // All zeros, as in smooth fields: each is a codeword.
            const bool smooth = reader.zeros() && own_end >= own_entry && own_end <= SUBSEQUENCE_BITS;
            if (counter.zero_is_one && __all_sync(ALL_LANES, smooth)) {
                counts[at] = own_end - own_entry;
            } else {
                counts[at] = counter.count_up_to(reader, own_end);
            }
        }
    }
    // Blocks without work wait, too: the next kernel relies on this one to have waited for those before it.
    wait_and_launch_dependents();
}

// Writes the number of symbols before each warp sequence of a stream, from the counts of its subsequences. One block
// per stream.
extern "C" __global__ void __launch_bounds__(THREADS)
    subsequences_scan(const StreamDescriptor *streams, const uint8_t *counts, uint32_t *before, uint32_t *status) {
    __shared__ uint32_t warp_sums[WARPS];
    const StreamDescriptor &stream = streams[blockIdx.x];
    const uint32_t warp_sequences = ceil_div(stream.bits, WARP_SEQUENCE_BITS),
                   subsequences = ceil_div(stream.bits, SUBSEQUENCE_BITS);
    const uint32_t first_subsequence = stream.first_subsequence,
                   first_warp_sequence = stream.first_sequence * WARP_SEQUENCES, symbols = stream.coded_groups * GROUP;
    launch_dependents_and_wait();
    uint32_t running = 0;
    for (uint32_t first = 0; first < warp_sequences; first += THREADS) {
        const uint32_t warp_sequence = first + threadIdx.x;
        uint32_t own = 0;
        if (warp_sequence < warp_sequences) {
            const uint8_t *of = counts + first_subsequence + warp_sequence * WARP;
            if ((warp_sequence + 1) * WARP <= subsequences) {
#pragma unroll
                for (uint32_t i = 0; i < WARP / 16; ++i) {
                    const uint4 sixteen = reinterpret_cast<const uint4 *>(of)[i];
                    own = __dp4a(sixteen.x, 0x01010101u, own);
                    own = __dp4a(sixteen.y, 0x01010101u, own);
                    own = __dp4a(sixteen.z, 0x01010101u, own);
                    own = __dp4a(sixteen.w, 0x01010101u, own);
                }
            } else {
                for (uint32_t i = 0; warp_sequence * WARP + i < subsequences; ++i) {
                    own += of[i];
                }
            }
        }
        uint32_t total;
        const uint32_t before_in_block = block_exclusive_sum<THREADS>(own, warp_sums, total);
        if (warp_sequence < warp_sequences) {
            before[first_warp_sequence + warp_sequence] = running + before_in_block;
        }
        running += total;
    }
    if (threadIdx.x == 0 && running != symbols) {
        atomicOr(&status[blockIdx.x], STATUS_COUNT);
    }
}

// Estimated cost of decoding, counted over all streams: symbols, and a cost per warp sequence. Blocks get equal shares
// of it, because warp sequences have 200 to 4,096 symbols.
struct CostModel {
    const StreamDescriptor *streams;
    const uint32_t *before; // symbols before each warp sequence of its stream
    uint64_t tasks, sequences;
    uint32_t per_warp_sequence;

    // The cost of a dense warp sequence is proportional to its symbols. Those in which most codewords have one bit are
    // decoded by runs, so the more symbols they have the less each costs.
    __device__ inline CostModel(const StreamDescriptor *of, const uint32_t *symbols_before, const BatchTotals &totals)
        : streams(of), before(symbols_before), tasks(totals.index_blocks), sequences(totals.sequences),
          per_warp_sequence(tasks * (WARP * GROUP) < sequences * (WARP_SEQUENCES * DENSE_WARP_SEQUENCE)
                                ? DENSE_WARP_SEQUENCE_COST
                                : WARP_SEQUENCE_COST) {}

    // Cost of this many index blocks and whole sequences.
    __device__ inline uint64_t cost(uint64_t index_blocks, uint64_t whole_sequences) const {
        return index_blocks * (WARP * GROUP) + whole_sequences * WARP_SEQUENCES * per_warp_sequence;
    }

    // Cost of the streams before this one.
    __device__ inline uint64_t stream(uint32_t number) const {
        return cost(streams[number].first_index_block, streams[number].first_sequence);
    }

    __device__ inline uint64_t all() const { return cost(tasks, sequences); }

    // Returns the first warp sequence of a stream with at least `cost` before it. Called by a warp, each lane of which
    // tests one of 32 candidates at a time.
    __device__ inline uint32_t first_warp_sequence(uint32_t number, uint64_t cost) const {
        const StreamDescriptor &of = streams[number];
        const uint64_t start = stream(number);
        uint32_t low = 0, high = ceil_div(of.bits, WARP_SEQUENCE_BITS);
        while (low < high) {
            const uint32_t step = ceil_div(high - low, WARP), warp_sequence = low + lane_id() * step;
            const bool less =
                warp_sequence < high && start + before[uint64_t(of.first_sequence) * WARP_SEQUENCES + warp_sequence] +
                                                uint64_t(warp_sequence) * per_warp_sequence <
                                            cost;
            const uint32_t parts = __popc(__ballot_sync(ALL_LANES, less));
            if (parts == 0) {
                break;
            }
            high = min_of(high, low + parts * step);
            low += (parts - 1) * step + 1;
        }
        return low;
    }
};

// Decodes and writes from the entry points of subsequences. `before` has the number of symbols before each warp
// sequence of its stream. A warp buffers the symbols of as many lanes at a time as fit into `room` symbols.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    subsequences_write(const uint8_t *input, const StreamDescriptor *streams, uint32_t stream_count,
                       const CodebookDescriptor *codebooks, const uint32_t *tables, const uint16_t *symbols,
                       const uint32_t *map, const uint8_t *entries, const uint8_t *counts, const uint32_t *before,
                       const BatchTotals *totals, uint32_t room, uint32_t *sums, uint32_t *status, uint8_t *out) {
    extern __shared__ uint4 dynamic[];
    constexpr uint32_t TABLE_WORDS = TABLE + LONG_ENTRIES;
    __shared__ StreamDescriptor stream;
    __shared__ CodebookDescriptor codebook;
    __shared__ uint32_t drawn; // counts the warp sequences taken by warps
    uint32_t *table = reinterpret_cast<uint32_t *>(dynamic);
    uint4 *buffer = dynamic + TABLE_WORDS / 4 + warp_id() * (room / SYMBOLS_IN_UNIT);
    // Half of the blocks fill zero-bit groups first and half decode first, so that both memory and instruction units
    // stay busy. In small batches all blocks fill first, while the previous kernels end.
    const bool fills_first = blockIdx.x % 2 != 0 || totals->sequences < 8 * gridDim.x;
    if (fills_first) {
        fill_zero_bit_groups(input, streams, stream_count, totals, out);
    }
    const CostModel cost_model(streams, before, *totals);
    const uint64_t all_costs = cost_model.all();
    const uint64_t own_start = all_costs * blockIdx.x / gridDim.x, own_end = all_costs * (blockIdx.x + 1) / gridDim.x;
    uint32_t number = find_stream_by_warp(own_start, stream_count, [&](uint32_t i) { return cost_model.stream(i); });
    bool is_first = true;
    for (; number < stream_count && cost_model.stream(number) < own_end; ++number) {
        uint32_t first_warp_sequence = 0, stop = 1;
        if (!is_first) {
            first_warp_sequence = cost_model.first_warp_sequence(number, own_start);
            stop = cost_model.first_warp_sequence(number, own_end);
        }
        if (first_warp_sequence >= stop) {
            continue;
        }
        load_stream(stream, codebook, streams, number, codebooks);
        if (threadIdx.x == 0) {
            drawn = 0;
        }
        const CommonSymbol common(codebook, symbols);
        load_single_table(table, tables + uint64_t(stream.first_codebook) * CODEBOOK_WORDS, TABLE_WORDS, codebook,
                          symbols);
        __syncthreads();
        if (common.exists) {
            make_run_table(table, codebook, TABLE_WORDS, common);
            __syncthreads();
        }
        if (is_first) {
            // The tables have been visible since counting; the sums of counts are not yet.
            launch_dependents_and_wait();
            is_first = false;
            first_warp_sequence = cost_model.first_warp_sequence(number, own_start);
            stop = cost_model.first_warp_sequence(number, own_end);
        }
        const Lookup lookup(table, &codebook, symbols, LONG_ENTRIES, false);
        const MappedGroups group{stream, map};
        const uint32_t all = stream.coded_groups * GROUP;
        Checksum checksum{0, 0};
        SubsequenceWords words;
        uint32_t entry = 0, count = 0, base = 0;
        const auto load = [&](uint32_t warp_sequence) {
            const uint32_t subsequence = warp_sequence * WARP + lane_id();
            count = 0;
            if (warp_sequence < stop) {
                base = before[uint64_t(stream.first_sequence) * WARP_SEQUENCES + warp_sequence];
            }
            if (bits_in(stream, subsequence) > 0) {
                words.load(input, stream, subsequence);
                entry = entries[uint64_t(stream.first_subsequence) + subsequence];
                count = counts[uint64_t(stream.first_subsequence) + subsequence];
            }
        };
        load(first_warp_sequence + warp_id());
        // Warps take warp sequences dynamically, because their costs differ.
        for (uint32_t warp_sequence = first_warp_sequence + warp_id(), next; warp_sequence < stop;
             warp_sequence = next) {
            // Damaged streams may have more codewords than symbols.
            const uint32_t sum = base + warp_inclusive_sum(count), begin = min_of(all, sum - count),
                           end = min_of(all, sum);
            SubsequenceReader reader(words, entry);
            // Loads the words of the next warp sequence in the meantime.
            next = lane_id() == 0 ? first_warp_sequence + WARPS + atomicAdd(&drawn, 1u) : 0;
            next = __shfl_sync(ALL_LANES, next, 0);
            load(next);
            write_warp_symbols(lookup, common, reader, buffer, room, begin, end, stream, group, out, checksum);
        }
        checksum.flush(&sums[2 * number]);
    }
    if (!fills_first) {
        fill_zero_bit_groups(input, streams, stream_count, totals, out);
    }
    launch_dependents_and_wait();
    verify_in_last_block(streams, stream_count, sums, status);
}
