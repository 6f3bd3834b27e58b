// Decoding a small batch from subsequences in one launch: with the gap index, or with none by self-synchronization.
//
// A block has spans of one stream and does with them all that takes kernels of their own for large batches: it makes
// tables, finds where codewords start, counts them, learns from the stream's blocks before it how many symbols those
// have, and writes. What it asks of the others is one word of each, so nobody waits for a chain of them. All blocks run
// at the same time.
//
// Without an index a block starts a span early, from its first bit: codes that synchronize at all have done so after
// 4,096 bits. The block before says where it ended; whoever started elsewhere finds out what its subsequences do from
// every start there can be, as huffman/decode/compose.cu does.
//
// HAS_GAPS      whether streams have the gap index
// THREADS       threads in a block, 1,024
// others        see huffman/decode/settle.cuh and huffman/decode/spans.cuh
#define KNOWN_BITS LONGEST
#include "huffman/decode/book.cuh"
#include "huffman/decode/free.cuh"
#include "huffman/decode/put.cuh"
#include "huffman/decode/settle.cuh"
#include "huffman/decode/small.cuh"
#include "scan.cuh"

constexpr uint32_t OWN_WORDS = TABLE + LONG_ENTRIES;
// Rows of 32 parts that a block has at most: a row a span (spans_small.rs has fewer), or of parts one a warp.
constexpr uint32_t MOST_ROWS = 128;
// A block that has little to decode has subsequences in parts, for more lanes: 2^MOST_PARTS_LOG2 at most, as many as
// there are lanes for.
constexpr uint32_t MOST_PARTS_LOG2 = 2;
// Symbols in canonical order that a block has at hand: those of more are read where they are.
constexpr uint32_t SYMBOLS_AT_HAND = 1024;
static_assert(SYMBOLS_AT_HAND <= THREADS, "a thread for each");
// Warps that a table is made by at least.
constexpr uint32_t LEAST_MAKERS = 6;

// What a block has: spans `first` to `end` of a stream, whose blocks' `index`th it is.
struct Share {
    uint32_t number, index, blocks, first, end;
};

// What a block says of itself to those after it: how many codewords its spans have, where its first one starts and
// where its last one ends behind its end; 0 is nothing said. It says that first from its own words, without waiting for
// anyone. If it started elsewhere than the block before it ends, or does not know where, it says what is right once
// that is known: its FINAL word.
constexpr uint64_t SAID = 1ull << 62, FINAL = 1ull << 63;
// Where no codeword starts: what a block says that does not know.
[[maybe_unused]] constexpr uint32_t NOWHERE = 255;
__device__ inline uint64_t state_of(uint32_t count, uint32_t entry, uint32_t exit) {
    return count | uint64_t(entry) << 32 | uint64_t(exit) << 40;
}

// What the blocks before say.
struct Before {
    uint32_t symbols, entry; // that this block starts with
};

// By a warp: `states` are those of the stream's blocks. Both waits end: all blocks run, their first words wait for
// nobody, and a FINAL word is waited for only where the block before ends elsewhere, which is just when a block says
// one; that waits for words before it alone.
__device__ inline Before look_back(const volatile uint64_t *states, uint32_t index) {
    uint32_t symbols = 0, entry = 0;
#pragma unroll 1
    for (uint32_t first = 0; first < index; first += WARP) {
        const uint32_t i = first + lane_id();
        const bool there = i < index;
        uint64_t state = 0;
        while (there && state == 0) {
            state = states[i];
        }
        uint32_t behind = 0; // those before it say what is right
        while (true) {
            const uint32_t exit = uint32_t(state >> 40) & 0xFF, through = __shfl_up_sync(ALL_LANES, exit, 1);
            const uint32_t expected = lane_id() == 0 ? entry : through;
            const uint32_t wrong =
                __ballot_sync(ALL_LANES, there && lane_id() >= behind && (uint32_t(state >> 32) & 0xFF) != expected);
            if (wrong == 0) {
                break;
            }
            behind = __ffs(wrong);
            while (lane_id() + 1 == behind && !(state & FINAL)) {
                state = states[i];
            }
            __syncwarp();
        }
        symbols += warp_sum(there ? uint32_t(state) : 0);
        entry = __shfl_sync(ALL_LANES, uint32_t(state >> 40) & 0xFF, min_of(WARP, index - first) - 1);
    }
    return {symbols, entry};
}

// Codes of so many eighths of a bit on average at most are decoded by runs of their commonest symbol.
constexpr uint32_t RUNS_EIGHTHS = 22;

// Called in two places, of which a block comes to one.
__device__ __noinline__ void make_table_of(uint32_t *to, const OwnBook &own, const uint16_t *symbols, bool of_runs,
                                           uint32_t common, uint32_t thread, uint32_t threads) {
    make_table<BYTES_OF_ONE>(to, own, symbols, Steps(own.book, OWN_WORDS), of_runs, common, thread, threads);
}

// Called in three places, of which a block comes to one.
__device__ __noinline__ void fill_share(const uint8_t *input, const Stream *streams, uint32_t stream_count,
                                        const Totals *totals, uint32_t warp, uint32_t warps, uint8_t *out) {
    fill_free(input, streams, stream_count, totals, warp, warps, out);
}

// Adds up the counts of rows of 32 parts, `rows` from part `first` on: those before each row go to `before`. Returns
// all, to the first warp. By the whole block.
__device__ inline uint32_t add_rows(const uint8_t *counts, uint32_t first, uint32_t rows, uint32_t *before) {
#pragma unroll 1
    for (uint32_t row = warp_id(); row < rows; row += WARPS) {
        const uint32_t sum = warp_sum(uint32_t(counts[first + row * WARP + lane_id()]));
        if (lane_id() == 0) {
            before[row] = sum;
        }
    }
    __syncthreads();
    uint32_t all = 0;
    if (warp_id() == 0) {
#pragma unroll 1
        for (uint32_t base = 0; base < rows; base += WARP) {
            const uint32_t row = base + lane_id(), own = row < rows ? before[row] : 0,
                           through = warp_scan_inclusive(own);
            if (row < rows) {
                before[row] = all + through - own;
            }
            all += __shfl_sync(ALL_LANES, through, WARP - 1);
        }
    }
    return all;
}

// Blocks have room for `most_spans` spans, `most_parts` parts, and for each warp `room` symbols, in that order.
// `states` has a word for each block, and behind them a tally for each stream; all are 0 before and after.
extern "C" __global__ void __launch_bounds__(THREADS)
    spans_small(const uint8_t *input, const Stream *streams, uint32_t stream_count, const Book *books,
                const uint16_t *symbols, const Totals *totals, uint32_t most_spans, uint32_t most_parts, uint32_t room,
                uint64_t *states, uint32_t *status, uint8_t *out, const __grid_constant__ List list) {
    wait_for_previous();
    extern __shared__ uint4 dynamic[];
    __shared__ Stream all_streams[LISTED];
    __shared__ OwnBook book;
    __shared__ uint32_t row_before[MOST_ROWS];
    __shared__ uint16_t at_hand[SYMBOLS_AT_HAND];
    __shared__ Before found;
    __shared__ uint32_t of_block[3];
    Tally *tallies = reinterpret_cast<Tally *>(states + gridDim.x);
    if (threadIdx.x < 3) {
        of_block[threadIdx.x] = 0;
    }
    const Part part = list.parts[blockIdx.x];
    const uint32_t most = list.most;
    copy_listed(list, all_streams);
    __syncthreads();
    const Stream &stream = all_streams[part.stream];
    uint32_t parts_log2 = MOST_PARTS_LOG2;
    while (parts_log2 > 0 && most << parts_log2 > WARPS) {
        --parts_log2;
    }
    const bool few_spans = parts_log2 == MOST_PARTS_LOG2;
    // Warps without a row fill free groups while the others decode, if there are enough of them in each block; else all
    // but the first before that.
    const uint32_t most_rows = most << parts_log2;
    const bool fills_later = most_rows + 4 <= WARPS;
    const auto fill = [&] {
        const uint32_t first = fills_later ? most_rows : 1, warps = WARPS - first;
        if (warp_id() >= first) {
            fill_share(input, streams, stream_count, totals, (warp_id() - first) * gridDim.x + blockIdx.x,
                       gridDim.x * warps, out);
        }
    };
    if (part.blocks != 0) {
        const Share share{part.stream, part.index, part.blocks, part.first, part.end};
        // What does not wait for anything else is read first.
        const uint32_t book_word = OwnBook::word_of(books[stream.first_book]);
        const uint32_t warm = HAS_GAPS || share.index == 0 ? 0 : 1, spans = share.end - share.first;
        // Counted from the first span that is looked at.
        const uint32_t first_subsequence = (share.first - warm) * WARP, subsequences = (spans + warm) * WARP;
        const auto bits_of = [&](uint32_t subsequence) { return bits_in(stream, first_subsequence + subsequence); };
        uint32_t *table = reinterpret_cast<uint32_t *>(dynamic);
        uint32_t *words = table + OWN_WORDS,
                 *places = words + (most_spans + 1) * WARP * WORDS_IN_SUBSEQUENCE + SLACK_WORDS;
        uint8_t *bytes = reinterpret_cast<uint8_t *>(places + most_spans * (SPAN_BITS / GROUP) + 4);
        const Span span{words,
                        bytes,
                        bytes + most_parts,
                        bytes + 2 * most_parts,
                        bytes + 2 * most_parts + (most_spans + 1) * WARP,
                        parts_log2};
        uint8_t *buffers = bytes + 2 * most_parts + 2 * (most_spans + 1) * WARP;
        uint4 *buffer = reinterpret_cast<uint4 *>(buffers) + warp_id() * (room / SYMBOLS_IN_UNIT);
        const uint8_t *from = input + stream.words + uint64_t(first_subsequence) * (SUBSEQUENCE_BITS / 8);
        const uint32_t there = max_of(ceil_div(stream.bits, 32) + 2, first_subsequence * WORDS_IN_SUBSEQUENCE) -
                               first_subsequence * WORDS_IN_SUBSEQUENCE;
#pragma unroll 1
        for (uint32_t i = threadIdx.x * 4; i < subsequences * WORDS_IN_SUBSEQUENCE + SLACK_WORDS; i += THREADS * 4) {
            if (i + 4 <= there) {
                copy_unit(words + i, from + i * 4);
                continue;
            }
            // The last words by themselves: memory may end behind them.
#pragma unroll 1
            for (uint32_t j = i; j < i + 4; ++j) {
                words[j] = j < there ? reinterpret_cast<const uint32_t *>(from)[j] : 0;
            }
        }
        end_copies();
        // As many groups as the block's symbols can be in.
        const uint32_t most_groups = spans * (SPAN_BITS / GROUP) + 2;
        const uint32_t *bitmap = reinterpret_cast<const uint32_t *>(input + stream.bitmap);
        FreeWords free_words;
        if (stream.has_free && warp_id() * WARP < most_groups) {
            free_words = FreeWords(bitmap, stream.groups, 0);
        }
#if HAS_GAPS
        // Nothing is made of it before it is needed.
        const uint32_t own_gap = threadIdx.x < subsequences && bits_of(threadIdx.x) > 0
                                     ? gap_byte(input, stream, first_subsequence + threadIdx.x)
                                     : 0;
#endif
        book.store(book_word);
        const uint32_t symbol_count = book.book.symbol_count;
        const bool has_at_hand = symbol_count <= SYMBOLS_AT_HAND;
        const uint32_t own_symbol =
            has_at_hand && threadIdx.x < symbol_count ? symbols[book.book.symbols + threadIdx.x] : 0;
#if HAS_GAPS
        for (uint32_t i = threadIdx.x; i < subsequences; i += THREADS) {
            const uint32_t byte = i == threadIdx.x ? own_gap
                                  : bits_of(i) > 0 ? gap_byte(input, stream, first_subsequence + i)
                                                   : 0;
            span.starts[i] = gap_in(byte, stream, first_subsequence + i);
        }
#endif
        // In the last place of the buffers, behind what else is there before those are used.
        const PartCounter counter(reinterpret_cast<uint32_t *>(buffers + WARPS * room * SYMBOL_BYTES) - TABLE, book,
                                  few_spans);
        if (has_at_hand && threadIdx.x < symbol_count) {
            at_hand[threadIdx.x] = own_symbol;
        }
        copies_done();
        __syncthreads();
        const uint16_t *own_symbols = has_at_hand ? at_hand - book.book.symbols : symbols;
        // Two lanes synchronize a subsequence where there are enough of them: what one has to go through again is
        // shorter then. With more it has to be done more often.
        const uint32_t chunks_log2 = !HAS_GAPS && few_spans ? 1 : 0;
        // Warps that have nothing to count make the other table meanwhile, if there are enough of them; else all but
        // the first while that learns what is before.
        const uint32_t counting = (spans + warm) << chunks_log2;
        const bool makes_early = counting + LEAST_MAKERS <= WARPS;
        const bool of_runs = book.book.limit[1] != 0 && symbol_count != 0 &&
                             uint64_t(stream.bits) * 8 <= uint64_t(stream.live) * GROUP * RUNS_EIGHTHS;
        const uint32_t commonest = of_runs ? own_symbols[book.book.symbols] : 0;
        if (makes_early && warp_id() >= counting) {
            make_table_of(table, book, own_symbols, of_runs, commonest, threadIdx.x - counting * WARP,
                          THREADS - counting * WARP);
        } else if (makes_early && of_runs) {
            pass_alone();
        }
        const uint32_t own_first = warm * WARP, first_part = own_first << parts_log2, rows = spans << parts_log2;
        uint64_t *stream_states = states + (blockIdx.x - share.index);
#if HAS_GAPS
        for (uint32_t i = threadIdx.x; i < subsequences; i += THREADS) {
            span.count(counter, i, bits_of(i), span.starts[i]);
        }
        const uint32_t entry = 0, exit = 0;
#else
        const Functions functions{buffers,
                                  buffers + spans * WARP * LONGEST,
                                  buffers + spans * (WARP + 1) * LONGEST,
                                  own_first,
                                  spans,
                                  max_of(1u, min_of<uint32_t>(book.book.longest, LONGEST))};
        uint32_t entry = NOWHERE, exit = 0;
        const bool settled = chunks_log2 > 0 ? settle_chunks(span, counter, chunks_log2, counting, bits_of, exit)
                                             : synchronize(span, counter, subsequences, bits_of, exit);
        if (settled && spans > 0) {
            entry = span.entries[first_part];
        } else {
            exit = 0;
        }
        if (!settled) {
            // Makes the counts worthless.
            functions.find(span, counter, bits_of);
        }
#endif
        __syncthreads();
        uint32_t total = add_rows(span.counts, first_part, rows, row_before);
        if (threadIdx.x == 0) {
            atomicExch(reinterpret_cast<unsigned long long *>(&stream_states[share.index]),
                       SAID | state_of(total, entry, exit));
        }
        if (warp_id() == 0) {
            const Before before = look_back(stream_states, share.index);
            if (lane_id() == 0) {
                found = before;
            }
            if (!makes_early && of_runs) {
                pass_alone();
            }
        } else {
            if (!makes_early) {
                make_table_of(table, book, own_symbols, of_runs, commonest, threadIdx.x - WARP, THREADS - WARP);
            }
            if (!fills_later) {
                fill();
            }
        }
        __syncthreads();
#if !HAS_GAPS
        if (spans > 0 && found.entry != entry) {
            if (settled) {
                functions.find(span, counter, bits_of);
            }
            functions.resolve(span, counter, found.entry, bits_of);
            total = add_rows(span.counts, first_part, rows, row_before);
            if (threadIdx.x == 0) {
                atomicExch(reinterpret_cast<unsigned long long *>(&stream_states[share.index]),
                           SAID | FINAL | state_of(total, found.entry, span.exits[subsequences - 1]));
            }
            __syncthreads();
        }
#endif
        uint32_t problems = 0;
        const uint32_t all = stream.live * GROUP;
        const bool is_last = share.index + 1 == share.blocks;
        if (is_last && threadIdx.x == 0 && found.symbols + total != all) {
            problems |= STATUS_COUNT;
        }
        const uint32_t first_group = min_of(found.symbols, all) / GROUP;
        if (stream.has_free) {
            const uint32_t end = min_of(stream.live, first_group + most_groups);
#pragma unroll 1
            for (uint32_t i = warp_id() * WARP; i < most_groups; i += THREADS) {
                const bool counts = is_last && i + WARP >= most_groups;
                uint32_t own_group;
                const uint32_t live = find_group(bitmap, stream.groups, free_words, first_group + i, counts, own_group);
                if (i + lane_id() < most_groups) {
                    places[i + lane_id()] = first_group + i + lane_id() < end ? own_group : ALL_LANES;
                }
                problems |= counts && live != stream.live ? STATUS_INDEX : 0;
            }
        }
        if (problems != 0) {
            atomicOr(&of_block[2], problems);
        }
        __syncthreads();
        const auto group = [&](uint32_t rank) {
            return min_of(stream.has_free ? places[rank - first_group] : rank, stream.groups - 1);
        };
        const Lookup lookup(table, &book.book, own_symbols, LONG_ENTRIES, false);
        const Common common(book.book, own_symbols);
        Checksum checksum{0, 0};
        for (uint32_t row = warp_id(); row < rows; row += WARPS) {
            const uint32_t part = first_part + row * WARP + lane_id(), count = span.counts[part];
            // Damaged codewords may be more than there is room for.
            const uint32_t sum = found.symbols + row_before[row] + warp_scan_inclusive(count),
                           begin = min_of(all, sum - count), end = min_of(all, sum);
            LaneReader reader = span.reader(part, span.entries[part]);
            if (of_runs) {
                put_lanes<true>(lookup, common, reader, buffer, room, begin, end, stream, group, out, checksum);
            } else {
                put_lanes(lookup, common, reader, buffer, room, begin, end, stream, group, out, checksum);
            }
        }
        const uint32_t deciding = max_of(1u, min_of(rows, WARPS));
        if (warp_id() < deciding) {
            const uint32_t own = sum_of_warp(checksum.sum), own_weighted = sum_of_warp(checksum.weighted);
            if (lane_id() == 0) {
                atomicAdd(&of_block[0], own);
                atomicAdd(&of_block[1], own_weighted);
            }
            some_threads<2>(deciding * WARP);
            if (warp_id() == 0 &&
                add_to_tally(tallies[share.number], of_block[lane_id() & 1], of_block[2], share.blocks,
                             lane_id() == 0 ? stream.sum : stream.weighted, false, &status[share.number])) {
#pragma unroll 1
                for (uint32_t i = lane_id(); i < share.blocks; i += WARP) {
                    stream_states[i] = 0;
                }
            }
        }
        if (fills_later) {
            fill();
        }
    } else {
        fill();
    }
}
