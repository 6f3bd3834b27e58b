// Decoding a small batch with the symbol index: each block makes the tables of its stream, finds where its live groups
// are and fills its share of the free ones, all by itself and while words are under way, instead of waiting for kernels
// that do so for all.
//
// A block has index blocks of one stream, a warp one of them at most. Warps with one read what they need and find their
// groups, while the others make the table; those fill free groups while the first decode.
//
// THREADS      threads in a block
// RUNS         whether codes are mostly runs of their commonest symbol
// others       see huffman/decode/work.cuh
#define BOOKS 1
#define NARROW_ROWS 0
#define AHEAD 1
#define LAST_SYMBOLS 1024
#if !RUNS
#define KNOWN_BITS LONGEST
#endif
#include "huffman/decode/book.cuh"
#include "huffman/decode/free.cuh"
#include "huffman/decode/runs.cuh"

constexpr uint32_t WARPS = THREADS / WARP;

// Index blocks of a stream.
struct Share {
    uint32_t number, first, end, blocks;
};

// What the block has, `most` index blocks at most: false if nothing. Streams without live groups have a block too,
// which looks at their bitmap. All streams' descriptors are read at once: each read that waits for another counts. By
// the whole block; `some` has the stream as number `place` then.
__device__ inline bool own_share(const List &list, const Stream *streams, uint32_t count, uint32_t most, Stream *some,
                                 Share &share, uint32_t &place) {
    if (list.count != 0) {
        const Part part = list.parts[blockIdx.x];
        copy_listed(list, some);
        __syncthreads();
        place = part.stream;
        share = {part.stream, part.first, part.end, part.blocks};
        return part.blocks != 0;
    }
    constexpr uint32_t WORDS = sizeof(Stream) / 4;
    uint32_t block = blockIdx.x;
#pragma unroll 1
    for (uint32_t first = 0; first < count; first += WARP) {
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < min_of(WARP, count - first) * WORDS; i += THREADS) {
            reinterpret_cast<uint32_t *>(some)[i] = reinterpret_cast<const uint32_t *>(streams + first)[i];
        }
        __syncthreads();
        const bool there = first + lane_id() < count;
        const uint32_t tasks = there ? ceil_div(some[lane_id()].live, WARP) : 0,
                       blocks = there ? max_of(1u, ceil_div(tasks, most)) : 0;
        const uint32_t through = warp_scan_inclusive(blocks), found = __ballot_sync(ALL_LANES, block < through);
        if (found != 0) {
            place = __ffs(found) - 1;
            const uint32_t own = block - __shfl_sync(ALL_LANES, through - blocks, place),
                           of = __shfl_sync(ALL_LANES, blocks, place);
            // A stream has a few thousand index blocks at most: 32 bits are enough.
            const uint32_t all = __shfl_sync(ALL_LANES, tasks, place);
            share = {first + place, all * own / of, all * (own + 1) / of, of};
            return true;
        }
        block -= __shfl_sync(ALL_LANES, through, WARP - 1);
        __syncthreads();
    }
    return false;
}

// Symbols in canonical order that a block has at hand: those of more are read where they are.
constexpr uint32_t SYMBOLS_AT_HAND = LAST_SYMBOLS;
// Warps that a table is made by at least.
constexpr uint32_t LEAST_MAKERS = WARPS / 4;
constexpr uint32_t TILE_UNITS = RUNS ? WHOLE_TILE : TILE_BYTES / 16;

// Makes a stream's table from its codebook. By `threads` threads, this being number `thread`; `book_word` is what it
// has of `from`.
__device__ inline void make_own_table(uint32_t *table, OwnBook &book, uint32_t book_word, const Book &from,
                                      const uint16_t *symbols, uint32_t thread, uint32_t threads) {
    const uint32_t first_symbol = from.symbols, symbol_count = from.symbol_count;
    const uint32_t at_hand = min_of(symbol_count, SYMBOLS_AT_HAND), first_last = symbol_count - at_hand;
    if (thread < sizeof(Book) / 4) {
        reinterpret_cast<uint32_t *>(&book.book)[thread] = book_word;
    }
    // Read meanwhile.
    constexpr uint32_t EACH = SYMBOLS_AT_HAND / WARP / LEAST_MAKERS;
    uint16_t own_symbols[EACH];
#pragma unroll
    for (uint32_t i = 0; i < EACH; ++i) {
        own_symbols[i] = thread + i * threads < at_hand ? symbols[first_symbol + first_last + thread + i * threads] : 0;
    }
    const uint32_t common = RUNS && symbol_count != 0 ? symbols[first_symbol] : 0;
    some_threads<1>(threads);
#pragma unroll 1
    for (uint32_t i = thread; i < 1u << LENGTH_BITS; i += threads) {
        const uint32_t length = book.longer_than<1, LENGTH_BITS>(i << (32 - LENGTH_BITS));
        book.lengths[i] = length <= LENGTH_BITS ? length : 0;
    }
#pragma unroll
    for (uint32_t i = 0; i < EACH; ++i) {
        if (thread + i * threads < at_hand) {
            book.last.symbols[thread + i * threads] = own_symbols[i];
        }
    }
    if (thread == 0) {
        book.last.first = first_last;
    }
    some_threads<1>(threads);
    make_table<ONE_SYMBOL>(table, book, symbols, Steps(book.book, OWN_ENTRIES), RUNS, common, thread, threads);
}

// A block has `most_tasks` index blocks at most, as many warps at least, and room for `staged_words` words for each of
// those. `tallies` has one for each stream, all 0 before and after.
extern "C" __global__ void __launch_bounds__(THREADS)
    decode_small(const uint8_t *input, const Stream *streams, uint32_t stream_count, const Book *books,
                 const uint16_t *symbols, const Totals *totals, uint32_t most_tasks, uint32_t staged_words,
                 uint32_t keeps_status, Tally *tallies, uint32_t *status, uint8_t *out,
                 const __grid_constant__ List list) {
    wait_for_previous();
    extern __shared__ uint4 dynamic[];
    __shared__ OwnBook book;
    __shared__ Stream some[WARP];
    __shared__ uint32_t found[3];
    if (threadIdx.x < 3) {
        found[threadIdx.x] = 0;
    }
    Share share{0, 0, 0, 0};
    uint32_t place = 0;
    if (own_share(list, streams, stream_count, most_tasks, some, share, place)) {
        const Stream &stream = some[place];
        const uint32_t tasks = share.end - share.first, block = share.first + warp_id();
        const bool has_task = block < share.end;
        // Warps without an index block make the table, if there are enough of them; else all do. What a warp has
        // nothing to do with it passes by: a multiprocessor's warps take turns.
        const uint32_t first_maker = WARPS - tasks >= LEAST_MAKERS ? tasks : 0;
        const bool makes = warp_id() >= first_maker;
        const Book &from = books[stream.first_book];
        uint32_t *table = reinterpret_cast<uint32_t *>(dynamic);
        uint4 *tile = dynamic + OWN_WORDS / 4 + warp_id() * (TILE_UNITS + staged_words / 4);
        uint32_t *staged = reinterpret_cast<uint32_t *>(tile + TILE_UNITS);
        const uint32_t maker = threadIdx.x - first_maker * WARP;
        const uint32_t book_word =
            makes && maker < sizeof(Book) / 4 ? reinterpret_cast<const uint32_t *>(&from)[maker] : 0;
        const uint32_t *words = reinterpret_cast<const uint32_t *>(input + stream.words);
        const uint32_t rank = block * WARP + lane_id();
        uint32_t group = rank, start = 0, end = 0, problems = 0;
        [[maybe_unused]] uint32_t common = 0;
        bool live = has_task && rank < stream.live, damaged = false, fits = false;
        const bool is_last = share.end == ceil_div(stream.live, WARP) && block + 1 == max_of(1u, share.end);
        if (has_task || is_last) {
            // All that can be read is under way before any of it is waited for, and what there is to do for one is done
            // while others are.
            const uint64_t descriptor = has_task ? IndexBlock::descriptor_of(input, stream, block) : 0;
            const uint32_t *bitmap = reinterpret_cast<const uint32_t *>(input + stream.bitmap);
            FreeWords free_words;
            if (stream.has_free) {
                free_words = FreeWords(bitmap, stream.groups, 0);
            }
#if RUNS
            const uint32_t first_symbol = from.symbols, symbol_count = from.symbol_count;
#endif
            IndexBlock::Deltas deltas{};
            if (has_task) {
                deltas = IndexBlock::deltas_of(input, stream, descriptor);
#if RUNS
                common = symbol_count != 0 ? symbols[first_symbol] : 0;
#endif
            }
            if (stream.has_free) {
                const uint32_t there = find_group(bitmap, stream.groups, free_words, block * WARP, is_last, group);
                problems |= is_last && there != stream.live ? STATUS_INDEX : 0;
                live = live && group < stream.groups;
            }
            if (has_task) {
                const IndexBlock at(stream, block, descriptor, deltas);
                start = at.start;
                end = at.end;
                damaged = __any_sync(ALL_LANES, at.damaged);
                const uint32_t first = __shfl_sync(ALL_LANES, start, 0) / 128 * 4,
                               count = ceil_div(__shfl_sync(ALL_LANES, end, WARP - 1), 32) - first;
                fits = !damaged && count <= staged_words - SLACK_WORDS;
                // Words are under way while tables are made.
                if (fits) {
                    start_staging(staged, words, first, first + count);
                }
#if RUNS
                Runs::clear(tile, common);
#endif
            }
        }
        if (makes) {
            make_own_table(table, book, book_word, from, symbols, maker, (WARPS - first_maker) * WARP);
        }
        __syncthreads();
        Checksum checksum{0, 0};
        if (has_task) {
            const Lookup lookup(table, &book.book, symbols, OWN_LONG, false);
            uint8_t *to = out + stream.out * SYMBOL_BYTES;
            const Places places{input, symbols, nullptr, out, tile, staged, staged_words};
            const auto decode = [&](uint32_t words_there, uint32_t start, bool is_turn) {
#if RUNS
                if (!fits) {
                    Runs::clear(tile, common);
                    __syncwarp();
                }
                return Runs{lookup, common, tile, to, group, rank, is_turn}.decode(staged, words_there, start,
                                                                                   checksum);
#else
                return Work<ROW_BYTES>{lookup, tile, to, group, rank, is_turn}.decode(staged, words_there, start,
                                                                                      checksum);
#endif
            };
            problems |= damaged ? STATUS_INDEX : decode_in_turns(places, words, start, end, live, fits, decode);
            const uint32_t own = sum_of_warp(checksum.sum), own_weighted = sum_of_warp(checksum.weighted);
            if (lane_id() == 0) {
                atomicAdd(&found[0], own);
                atomicAdd(&found[1], own_weighted);
            }
        }
        const uint32_t deciding = max_of(1u, tasks);
        if (warp_id() < deciding) {
            if (problems != 0) {
                found[2] = STATUS_INDEX;
            }
            some_threads<2>(deciding * WARP);
            if (warp_id() == 0) {
                const uint32_t expected = lane_id() == 0 ? stream.sum : stream.weighted;
                add_to_tally(tallies[share.number], found[lane_id() & 1], found[2], share.blocks, expected,
                             keeps_status, &status[share.number]);
            }
        }
    }
    // Warps without an index block fill free groups while others decode, if there are enough of them; else all do.
    const uint32_t first_filler = most_tasks + 4 > WARPS ? 0 : most_tasks;
    if (warp_id() >= first_filler) {
        const Stream *at_hand = stream_count <= WARP ? some : streams;
        const uint32_t placed = totals->placings * PLACED_WORDS;
        const uint32_t filled = ceil_div(placed, (WARPS - first_filler) * gridDim.x),
                       first = ((warp_id() - first_filler) * gridDim.x + blockIdx.x) * filled;
#pragma unroll 1
        for (uint32_t i = lane_id(); i < filled + lane_id(); i += WARP) {
            Filler(input, at_hand, stream_count, first + i, i < filled && first + i < placed).fill(out);
        }
    }
}
