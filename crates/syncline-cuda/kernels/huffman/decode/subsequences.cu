// Decoding when it is known, or to be read from the gap index, where each subsequence's first codeword starts.
//
// A warp has a span of 32 subsequences, a lane one of them, its words in registers; nobody waits for another warp.
// Where a span's symbols go is the sum of the spans before it: so codewords are counted (subsequences_count; the
// self-synchronizing decoder has done so already), counts are added up (subsequences_scan), and then everything is
// decoded and written (subsequences_write). As in the 2022 paper symbols go through shared memory, so that whole lines
// go to memory.
//
// COUNT_THREADS   threads in a block of subsequences_count
// BLOCKS      blocks of subsequences_write that a multiprocessor should have room for
// SPAN_COST   what a span takes beside its symbols, in symbols; DENSE_SPAN_COST in batches that have fewer than
// DENSE_SPAN symbols a span
#include "device/sync.cuh"
#include "device/warp.cuh"
#include "huffman/decode/free.cuh"
#include "huffman/decode/put.cuh"

constexpr uint32_t SPANS = SEQUENCE / WARP; // of a sequence

// Reads the gap index: entries and counts of all subsequences, in bytes. Those past the streams' ends are left as they
// are.
extern "C" __global__ void __launch_bounds__(COUNT_THREADS)
    subsequences_count(const uint8_t *input, const Stream *streams, uint32_t stream_count, const Book *books,
                       const uint16_t *count_tables, const Totals *totals, uint8_t *entries, uint8_t *counts) {
    __shared__ __align__(16) uint16_t table[COUNTS];
    __shared__ Stream stream;
    __shared__ Book book;
    Run<SPANS> rest(totals->sequences);
    while (rest.next < rest.end) {
        uint32_t first, stop;
        const uint32_t number = rest.stream(streams, stream_count, first, stop);
        load_stream(stream, book, streams, number, books);
        // Tables are what decode_prepare has made; whoever comes after may read them before it waits itself.
        wait_then_let_start();
        load_counts(table, count_tables, stream, false);
        __syncthreads();
        const Counter counter(table, &book);
        const uint32_t warps = blockDim.x / WARP;
        uint32_t subsequence = (first + warp_id()) * WARP + lane_id();
        LaneWords words;
        uint32_t entry = 0, end = 0;
        const auto load = [&] {
            const uint32_t bits = bits_in(stream, subsequence);
            if (bits > 0) {
                words.load(input, stream, subsequence);
                entry = gap_of(input, stream, subsequence);
                end = bits_in(stream, subsequence + 1) > 0 ? SUBSEQUENCE_BITS + gap_of(input, stream, subsequence + 1)
                                                           : bits;
            }
        };
        load();
        for (uint32_t span = first + warp_id(); span < stop; span += warps) {
            LaneReader reader(words, entry);
            const uint32_t own_entry = entry, own_end = end;
            const uint64_t at = uint64_t(stream.first_subsequence) + subsequence;
            // The next span's words are under way meanwhile.
            subsequence += blockDim.x;
            load();
            entries[at] = own_entry;
            // Nothing but zeros, as in a smooth field: each is a codeword.
            const bool smooth = reader.zeros() && own_end >= own_entry && own_end <= SUBSEQUENCE_BITS;
            if (counter.zero_is_one && __all_sync(ALL_LANES, smooth)) {
                counts[at] = own_end - own_entry;
            } else {
                counts[at] = counter.count_up_to(reader, own_end);
            }
        }
    }
    // Blocks without spans too: that this kernel is done says that those before it are.
    wait_then_let_start();
}

// Symbols before each span of its stream, from the counts of its subsequences; a block a stream. Whole sequences have
// spans: those past the end are not written.
extern "C" __global__ void __launch_bounds__(THREADS)
    subsequences_scan(const Stream *streams, const uint8_t *counts, uint32_t *before, uint32_t *status) {
    __shared__ uint32_t warp_sums[WARPS];
    const Stream &stream = streams[blockIdx.x];
    const uint32_t spans = ceil_div(stream.bits, SPAN_BITS), subsequences = ceil_div(stream.bits, SUBSEQUENCE_BITS);
    const uint32_t first_subsequence = stream.first_subsequence, first_span = stream.first_sequence * SPANS,
                   symbols = stream.live * GROUP;
    launch_dependents_and_wait();
    uint32_t running = 0;
    for (uint32_t first = 0; first < spans; first += THREADS) {
        const uint32_t span = first + threadIdx.x;
        uint32_t own = 0;
        if (span < spans) {
            const uint8_t *of = counts + first_subsequence + span * WARP;
            if ((span + 1) * WARP <= subsequences) {
#pragma unroll
                for (uint32_t i = 0; i < WARP / 16; ++i) {
                    const uint4 sixteen = reinterpret_cast<const uint4 *>(of)[i];
                    own = __dp4a(sixteen.x, 0x01010101u, own);
                    own = __dp4a(sixteen.y, 0x01010101u, own);
                    own = __dp4a(sixteen.z, 0x01010101u, own);
                    own = __dp4a(sixteen.w, 0x01010101u, own);
                }
            } else {
                for (uint32_t i = 0; span * WARP + i < subsequences; ++i) {
                    own += of[i];
                }
            }
        }
        uint32_t sum = warp_inclusive_sum(own);
        if (lane_id() == WARP - 1) {
            warp_sums[warp_id()] = sum;
        }
        __syncthreads();
        uint32_t total = 0, in_block = 0;
        for (uint32_t warp = 0; warp < WARPS; ++warp) {
            in_block = warp == warp_id() ? total : in_block;
            total += warp_sums[warp];
        }
        __syncthreads();
        if (span < spans) {
            before[first_span + span] = running + in_block + sum - own;
        }
        running += total;
    }
    if (threadIdx.x == 0 && running != symbols) {
        atomicOr(&status[blockIdx.x], STATUS_COUNT);
    }
}

// What decoding takes, of all streams in order: symbols, and a cost for each span. Blocks have equal shares of that:
// fields are uneven, spans have 200 to 4,096 symbols.
struct Costs {
    const Stream *streams;
    const uint32_t *before; // symbols before each span of its stream
    uint64_t tasks, sequences;
    uint32_t of_span;

    // A dense span takes as long as its symbols do; one in which most codewords are a bit is decoded by runs, and the
    // more of these the fewer others there are.
    __device__ inline Costs(const Stream *of, const uint32_t *symbols_before, const Totals &totals)
        : streams(of), before(symbols_before), tasks(totals.tasks), sequences(totals.sequences),
          of_span(tasks * (WARP * GROUP) < sequences * (SPANS * DENSE_SPAN) ? DENSE_SPAN_COST : SPAN_COST) {}

    // Of so many index blocks and sequences. Index blocks count symbols too, whole ones: what is too much is nobody's.
    __device__ inline uint64_t cost(uint64_t index_blocks, uint64_t whole_sequences) const {
        return index_blocks * (WARP * GROUP) + whole_sequences * SPANS * of_span;
    }

    // Of the streams before this one.
    __device__ inline uint64_t stream(uint32_t number) const {
        return cost(streams[number].first_task, streams[number].first_sequence);
    }

    __device__ inline uint64_t all() const { return cost(tasks, sequences); }

    // The first of a stream's spans that has not less than `cost` before it. By a warp: each lane looks at one of 32
    // parts.
    __device__ inline uint32_t first_span(uint32_t number, uint64_t cost) const {
        const Stream &of = streams[number];
        const uint64_t start = stream(number);
        uint32_t low = 0, high = ceil_div(of.bits, SPAN_BITS);
        while (low < high) {
            const uint32_t step = ceil_div(high - low, WARP), span = low + lane_id() * step;
            const bool less =
                span < high &&
                start + before[uint64_t(of.first_sequence) * SPANS + span] + uint64_t(span) * of_span < cost;
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

// Decodes from the entries of subsequences, and writes. `before` has the symbols before each span of its stream. A warp
// gathers `room` symbols at a time: those of as many lanes as that is enough for.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    subsequences_write(const uint8_t *input, const Stream *streams, uint32_t stream_count, const Book *books,
                       const uint32_t *tables, const uint16_t *symbols, const uint32_t *map, const uint8_t *entries,
                       const uint8_t *counts, const uint32_t *before, const Totals *totals, uint32_t room,
                       uint32_t *sums, uint32_t *status, uint8_t *out) {
    extern __shared__ uint4 dynamic[];
    constexpr uint32_t TABLE_WORDS = TABLE + LONG_ENTRIES;
    __shared__ Stream stream;
    __shared__ Book book;
    __shared__ uint32_t drawn; // of the spans that warps draw
    uint32_t *table = reinterpret_cast<uint32_t *>(dynamic);
    uint4 *buffer = dynamic + TABLE_WORDS / 4 + warp_id() * (room / SYMBOLS_IN_UNIT);
    // Half of the blocks fill first, half decode first: neither memory nor instructions are idle then. Of a small batch
    // all, while what comes before this ends.
    const bool fills_first = blockIdx.x % 2 != 0 || totals->sequences < 8 * gridDim.x;
    if (fills_first) {
        fill_free(input, streams, stream_count, totals, out);
    }
    const Costs costs(streams, before, *totals);
    const uint64_t all_costs = costs.all();
    const uint64_t own_start = all_costs * blockIdx.x / gridDim.x, own_end = all_costs * (blockIdx.x + 1) / gridDim.x;
    uint32_t number = stream_of_warp(own_start, stream_count, [&](uint32_t i) { return costs.stream(i); });
    bool is_first = true;
    for (; number < stream_count && costs.stream(number) < own_end; ++number) {
        uint32_t first_span = 0, stop = 1;
        if (!is_first) {
            first_span = costs.first_span(number, own_start);
            stop = costs.first_span(number, own_end);
        }
        if (first_span >= stop) {
            continue;
        }
        load_stream(stream, book, streams, number, books);
        if (threadIdx.x == 0) {
            drawn = 0;
        }
        const Common common(book, symbols);
        load_alone(table, tables + uint64_t(stream.first_book) * BOOK_WORDS, TABLE_WORDS, book, symbols);
        __syncthreads();
        if (common.there) {
            make_runs(table, book, TABLE_WORDS, common);
            __syncthreads();
        }
        if (is_first) {
            // Tables are there since codewords are counted; sums of counts are not.
            launch_dependents_and_wait();
            is_first = false;
            first_span = costs.first_span(number, own_start);
            stop = costs.first_span(number, own_end);
        }
        const Lookup lookup(table, &book, symbols, LONG_ENTRIES, false);
        const MappedGroups group{stream, map};
        const uint32_t all = stream.live * GROUP;
        Checksum checksum{0, 0};
        LaneWords words;
        uint32_t entry = 0, count = 0, base = 0;
        const auto load = [&](uint32_t span) {
            const uint32_t subsequence = span * WARP + lane_id();
            count = 0;
            if (span < stop) {
                base = before[uint64_t(stream.first_sequence) * SPANS + span];
            }
            if (bits_in(stream, subsequence) > 0) {
                words.load(input, stream, subsequence);
                entry = entries[uint64_t(stream.first_subsequence) + subsequence];
                count = counts[uint64_t(stream.first_subsequence) + subsequence];
            }
        };
        load(first_span + warp_id());
        // Warps draw the next one when they come to it: spans are uneven.
        for (uint32_t span = first_span + warp_id(), next; span < stop; span = next) {
            // Damaged codewords may be more than there is room for.
            const uint32_t sum = base + warp_inclusive_sum(count), begin = min_of(all, sum - count),
                           end = min_of(all, sum);
            LaneReader reader(words, entry);
            // The next span's words are under way meanwhile.
            next = lane_id() == 0 ? first_span + WARPS + atomicAdd(&drawn, 1u) : 0;
            next = __shfl_sync(ALL_LANES, next, 0);
            load(next);
            put_lanes(lookup, common, reader, buffer, room, begin, end, stream, group, out, checksum);
        }
        checksum.flush(&sums[2 * number]);
    }
    if (!fills_first) {
        fill_free(input, streams, stream_count, totals, out);
    }
    launch_dependents_and_wait();
    verify_at_last(streams, stream_count, sums, status);
}
