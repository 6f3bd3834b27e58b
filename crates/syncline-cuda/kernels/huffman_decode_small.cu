// Decoding a small batch with the symbol index: each block makes the tables of its stream, finds where its live groups are and fills its share of the free ones, all by itself and while words
// are under way, instead of waiting for kernels that do so for all.
//
// A block has index blocks of one stream, a warp one of them at most. Warps with one read what they need and find their groups, while the others make the table; those fill free groups while
// the first decode.
//
// THREADS      threads in a block
// RUNS         whether codes are mostly runs of their commonest symbol
// others       see huffman_decode_work.cuh
#define BOOKS 1
#define NARROW_ROWS 0
#define AHEAD 1
#define LAST_SYMBOLS 1024
#include "huffman_decode_book.cuh"
#include "huffman_decode_free.cuh"
#include "huffman_decode_runs.cuh"

constexpr uint32_t WARPS = THREADS / WARP;

// Index blocks of a stream.
struct Share {
    uint32_t number, first, end;
};

// What the block has, `most` index blocks at most: false if nothing. Streams without live groups have a block too, which looks at their bitmap. All streams' descriptors are read
// at once: each read that waits for another counts. By the whole block; `some` has the stream as number `place` then.
__device__ inline bool own_share(const Stream *streams, uint32_t count, uint32_t most, Stream *some, Share &share, uint32_t &place) {
    constexpr uint32_t WORDS = sizeof(Stream) / 4;
    uint32_t block = blockIdx.x;
    for (uint32_t first = 0; first < count; first += WARP) {
        for (uint32_t i = threadIdx.x; i < min_of(WARP, count - first) * WORDS; i += THREADS) {
            reinterpret_cast<uint32_t *>(some)[i] = reinterpret_cast<const uint32_t *>(streams + first)[i];
        }
        __syncthreads();
        const bool there = first + lane_id() < count;
        const uint32_t tasks = there ? ceil_div(some[lane_id()].live, WARP) : 0, blocks = there ? max_of(1u, ceil_div(tasks, most)) : 0;
        const uint32_t through = warp_scan_inclusive(blocks), found = __ballot_sync(ALL_LANES, block < through);
        if (found != 0) {
            place = __ffs(found) - 1;
            const uint32_t own = block - __shfl_sync(ALL_LANES, through - blocks, place), of = __shfl_sync(ALL_LANES, blocks, place);
            // A stream has a few thousand index blocks at most: 32 bits are enough.
            const uint32_t all = __shfl_sync(ALL_LANES, tasks, place);
            share = {first + place, all * own / of, all * (own + 1) / of};
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

// A block has `most_tasks` index blocks at most, as many warps at least, and room for `staged_words` words for each of those. `sums` has three words for each stream and one more,
// all 0 before and after.
extern "C" __global__ void __launch_bounds__(THREADS)
    decode_small(const uint8_t *input, const Stream *streams, uint32_t stream_count, const Book *books, const uint16_t *symbols, const Totals *totals, uint32_t most_tasks,
                 uint32_t staged_words, uint32_t keeps_status, uint32_t *sums, uint32_t *status, uint8_t *out) {
    wait_for_previous();
    extern __shared__ uint4 dynamic[];
    __shared__ OwnBook book;
    __shared__ Stream some[WARP];
    uint32_t *table = reinterpret_cast<uint32_t *>(dynamic);
    uint4 *tile = dynamic + OWN_WORDS / 4 + warp_id() * (TILE_UNITS + staged_words / 4);
    uint32_t *staged = reinterpret_cast<uint32_t *>(tile + TILE_UNITS);
    Share share{0, 0, 0};
    uint32_t place = 0;
    const uint32_t placed = totals->placings * PLACED_WORDS;
    const bool has_share = own_share(streams, stream_count, most_tasks, some, share, place);
    const Stream *streams_at_hand = stream_count <= WARP ? some : streams;
    // Warps without an index block fill free groups while others decode, if there are enough of them; else all do afterwards.
    const bool fills_later = most_tasks + 4 > WARPS;
    const bool fills = fills_later || warp_id() >= most_tasks;
    const uint32_t first_filler = fills_later ? 0 : most_tasks, fillers = (WARPS - first_filler) * gridDim.x;
    const uint32_t filled = ceil_div(placed, fillers), first_filled = ((warp_id() - first_filler) * gridDim.x + blockIdx.x) * filled;
    const auto filler = [&](uint32_t i) { return Filler(input, streams_at_hand, stream_count, first_filled + i + lane_id(), fills && i + lane_id() < filled && first_filled + i + lane_id() < placed); };
    const auto fill = [&](const Filler &first_of) {
        first_of.fill(out);
        for (uint32_t i = WARP; i < filled; i += WARP) {
            filler(i).fill(out);
        }
    };
    if (has_share) {
        const Stream &stream = some[place];
        uint32_t problems = 0;
        Checksum checksum{0, 0};
        const uint32_t tasks = share.end - share.first, block = share.first + warp_id();
        const bool has_task = block < share.end;
        const uint32_t first_maker = WARPS - tasks >= LEAST_MAKERS ? tasks : 0, makers = (WARPS - first_maker) * WARP;
        const Book &from = books[stream.first_book];
        const uint32_t first_symbol = from.symbols, symbol_count = from.symbol_count;
        const uint32_t *words = reinterpret_cast<const uint32_t *>(input + stream.words);
        const bool is_last = share.end == ceil_div(stream.live, WARP) && block + 1 == max_of(1u, share.end);
        const uint32_t rank = block * WARP + lane_id();
        uint32_t group = rank, first = 0, count = 0;
        bool live = has_task && rank < stream.live, damaged = false, fits = false;
        const uint32_t *bitmap = reinterpret_cast<const uint32_t *>(input + stream.bitmap);
        const bool looks = stream.has_free && (has_task || is_last);
        IndexBlock at(input, stream, 0, 0);
        if (has_task) {
            at = IndexBlock(input, stream, block);
            damaged = __any_sync(ALL_LANES, at.damaged);
            first = __shfl_sync(ALL_LANES, at.start, 0) / 128 * 4;
            count = ceil_div(__shfl_sync(ALL_LANES, at.end, WARP - 1), 32) - first;
            fits = !damaged && count <= staged_words - SLACK_WORDS;
            // Words are under way while tables are made.
            if (fits) {
                start_staging(staged, words, first, first + count);
            }
        }
        if (looks) {
            const uint32_t there = find_group(bitmap, stream.groups, LiveWords(bitmap, stream.groups, 0), block * WARP, is_last, group);
            problems |= is_last && there != stream.live ? STATUS_INDEX : 0;
            live = live && group < stream.groups;
        }
#if RUNS
        const uint32_t common = symbol_count != 0 ? symbols[first_symbol] : 0;
        if (has_task) {
            Runs::clear(tile, common);
        }
#endif
        const Filler own_filler = filler(0);
        if (warp_id() >= first_maker) {
            const uint32_t thread = threadIdx.x - first_maker * WARP;
            const uint32_t at_hand = min_of(symbol_count, SYMBOLS_AT_HAND), first_last = symbol_count - at_hand;
            for (uint32_t i = thread; i < sizeof(Book) / 4; i += makers) {
                reinterpret_cast<uint32_t *>(&book.book)[i] = reinterpret_cast<const uint32_t *>(&from)[i];
            }
            // Read meanwhile.
            constexpr uint32_t EACH = SYMBOLS_AT_HAND / WARP / LEAST_MAKERS;
            uint16_t own_symbols[EACH];
#pragma unroll
            for (uint32_t i = 0; i < EACH; ++i) {
                own_symbols[i] = thread + i * makers < at_hand ? symbols[first_symbol + first_last + thread + i * makers] : 0;
            }
            some_threads(makers);
            for (uint32_t i = thread; i < 1u << LENGTH_BITS; i += makers) {
                const uint32_t length = book.longer_than<1, LENGTH_BITS>(i << (32 - LENGTH_BITS));
                book.lengths[i] = length <= LENGTH_BITS ? length : 0;
            }
#pragma unroll
            for (uint32_t i = 0; i < EACH; ++i) {
                if (thread + i * makers < at_hand) {
                    book.last.symbols[thread + i * makers] = own_symbols[i];
                }
            }
            if (thread == 0) {
                book.last.first = first_last;
            }
            some_threads(makers);
            const uint16_t *own = symbol_count <= SYMBOLS_AT_HAND ? book.last.symbols - book.book.symbols : symbols;
#if RUNS
            make_runs(table, book, own, common, thread, makers);
#else
            make_singles(table, book, own, thread, makers);
#endif
        }
        __syncthreads();
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
                return Runs{lookup, common, tile, to, group, rank, is_turn}.decode(staged, words_there, start, checksum);
#else
                return Work<ROW_BYTES>{lookup, tile, to, group, rank, is_turn}.decode(staged, words_there, start, checksum);
#endif
            };
            problems |= damaged ? STATUS_INDEX : decode_in_turns(places, words, at, live, fits, decode);
            checksum.flush(&sums[3 * share.number]);
        }
        problems = any_of(problems);
        if (problems != 0 && lane_id() == 0) {
            atomicOr(&sums[3 * share.number + 2], problems);
        }
        if (fills) {
            fill(own_filler);
        }
    } else if (fills) {
        fill(filler(0));
    }
    // The last block compares checksums.
    const bool is_last_block = is_last_to_come(&sums[3 * stream_count]);
    if (is_last_block) {
        write_statuses(streams, stream_count, sums, keeps_status, status);
        if (threadIdx.x == 0) {
            sums[3 * stream_count] = 0;
        }
    }
}
