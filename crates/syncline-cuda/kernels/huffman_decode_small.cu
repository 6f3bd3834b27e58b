// Decoding a small batch with the symbol index: each block makes the tables of its stream, finds where its live groups are and fills its share of the free ones, all by itself and while words
// are under way, instead of waiting for kernels that do so for all.
//
// A block has index blocks of one stream, a warp one of them at most; warps without one help to make tables and fill free groups.
//
// THREADS      threads in a block
// others       see huffman_decode_work.cuh
#define BOOKS 1
#define RINGS 0
#define AHEAD 1
#include "huffman_decode_book.cuh"
#include "huffman_decode_free.cuh"
#include "huffman_decode_work.cuh"

constexpr uint32_t WARPS = THREADS / WARP;

// Index blocks of a stream.
struct Share {
    uint32_t number, first, end;
};

// What the block has, `most` index blocks at most: false if nothing. Streams without live groups have a block too, which looks at their bitmap. All streams' descriptors are read
// at once: each read that waits for another counts. By the whole block; sets the stream.
__device__ inline bool own_share(const Stream *streams, uint32_t count, uint32_t most, Share &share, Stream &stream) {
    __shared__ Stream some[WARP];
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
            const uint32_t lane = __ffs(found) - 1;
            const uint32_t own = block - __shfl_sync(ALL_LANES, through - blocks, lane), of = __shfl_sync(ALL_LANES, blocks, lane);
            const uint64_t all = __shfl_sync(ALL_LANES, tasks, lane);
            share = {first + lane, uint32_t(all * own / of), uint32_t(all * (own + 1) / of)};
            if (threadIdx.x < WORDS) {
                reinterpret_cast<uint32_t *>(&stream)[threadIdx.x] = reinterpret_cast<const uint32_t *>(&some[lane])[threadIdx.x];
            }
            __syncthreads();
            return true;
        }
        block -= __shfl_sync(ALL_LANES, through, WARP - 1);
        __syncthreads();
    }
    return false;
}

// Those of a word of a bitmap that are live.
__device__ inline uint32_t live_word(const uint32_t *bitmap, uint32_t groups, uint32_t i) { return i * 32 < groups ? ~free_word(bitmap, groups, i, true) : 0; }

// Where the live groups from `first` to `end` are, counted in live groups, goes to `slot(i)` for number `first + i`. Returns how many there are up to the end of what was looked at: all if `all`.
// `first_live` are the thread's in the first THREADS words.
template <typename Slot>
__device__ inline uint32_t find_groups(const uint32_t *bitmap, uint32_t groups, uint32_t first_live, uint32_t first, uint32_t end, bool all, Slot slot) {
    __shared__ uint32_t warp_sums[WARPS];
    uint32_t before = 0;
    for (uint32_t base = 0; base * 32 < groups && (all || before < end); base += THREADS) {
        const uint32_t i = base + threadIdx.x;
        const uint32_t live = base == 0 ? first_live : live_word(bitmap, groups, i);
        uint32_t total;
        const uint32_t rank = before + block_scan<THREADS>(uint32_t(__popc(live)), warp_sums, total);
        before += total;
        for (uint32_t words = __ballot_sync(ALL_LANES, live != 0 && rank < end && rank + __popc(live) > first); words != 0; words &= words - 1) {
            const uint32_t lane = __ffs(words) - 1;
            const uint32_t word = __shfl_sync(ALL_LANES, live, lane), number = __shfl_sync(ALL_LANES, rank, lane) + __popc(word & ((1u << lane_id()) - 1));
            if (word >> lane_id() & 1 && number >= first && number < end) {
                *slot(number - first) = (i - lane_id() + lane) * 32 + lane_id();
            }
        }
    }
    return before;
}

// The table of a codebook. By the whole block, followed by a barrier.
__device__ inline void make_table(uint32_t *to, const OwnBook &own, const uint16_t *symbols) {
    const Steps steps(own.book, OWN_WORDS);
#pragma unroll 4
    for (uint32_t i = threadIdx.x; i < steps.entries(); i += THREADS) {
        const Codeword one = own.codeword(symbols, steps.window(i));
        to[i] = one.length <= steps.known(i) ? one.length | one.symbol << 16 : LONGER;
    }
}

// Symbols in canonical order that a block has at hand: those of more are read where they are.
constexpr uint32_t SYMBOLS_AT_HAND = 1024;

// A block has `most_tasks` index blocks at most, as many warps at least, and room for `staged_words` words for each of those. `sums` has three words for each stream and one more,
// all 0 before and after.
extern "C" __global__ void __launch_bounds__(THREADS)
    decode_small(const uint8_t *input, const Stream *streams, uint32_t stream_count, const Book *books, const uint16_t *symbols, const Totals *totals, uint32_t most_tasks,
                 uint32_t staged_words, uint32_t keeps_status, uint32_t *sums, uint32_t *status, uint8_t *out) {
    wait_for_previous();
    extern __shared__ uint4 dynamic[];
    __shared__ OwnBook book;
    __shared__ Stream stream;
    __shared__ uint16_t at_hand[SYMBOLS_AT_HAND];
    uint32_t *table = reinterpret_cast<uint32_t *>(dynamic);
    const uint32_t units = (TILE_BYTES + staged_words * 4) / 16;
    uint4 *tiles = dynamic + OWN_WORDS / 4, *tile = tiles + warp_id() * units;
    uint32_t *staged = reinterpret_cast<uint32_t *>(tile + TILE_BYTES / 16);
    Share share;
    if (own_share(streams, stream_count, most_tasks, share, stream)) {
        uint32_t problems = 0;
        Checksum checksum{0, 0};
        // What does not wait for anything else is read first.
        const uint32_t book_word = OwnBook::word_of(books[stream.first_book]);
        const uint32_t *bitmap = reinterpret_cast<const uint32_t *>(input + stream.bitmap);
        const uint32_t first_live = stream.has_free ? live_word(bitmap, stream.groups, threadIdx.x) : 0;
        const uint32_t block = share.first + warp_id();
        const bool has_task = block < share.end;
        const uint32_t *words = reinterpret_cast<const uint32_t *>(input + stream.words);
        const IndexBlock at(input, stream, has_task ? block : 0);
        const bool damaged = __any_sync(ALL_LANES, at.damaged);
        const uint32_t first = __shfl_sync(ALL_LANES, at.start, 0) / 128 * 4, count = ceil_div(__shfl_sync(ALL_LANES, at.end, WARP - 1), 32) - first;
        const bool fits = !damaged && count <= staged_words - SLACK_WORDS;
        // Words are under way while tables are made.
        if (has_task && fits) {
            start_staging(staged, words, first, first + count);
        }
        book.store(book_word);
        const bool has_at_hand = book.book.symbol_count <= SYMBOLS_AT_HAND;
        if (has_at_hand) {
            for (uint32_t i = threadIdx.x; i < book.book.symbol_count; i += THREADS) {
                at_hand[i] = symbols[book.book.symbols + i];
            }
        }
        const uint32_t rank = block * WARP + lane_id();
        bool live = has_task && rank < stream.live;
        uint32_t group = rank;
        if (stream.has_free) {
            const bool is_last = share.end == ceil_div(stream.live, WARP);
            const uint32_t end = min_of(stream.live, share.end * WARP);
            const auto slot = [&](uint32_t i) { return reinterpret_cast<uint32_t *>(tiles + i / WARP * units) + i % WARP; };
            if (has_task) {
                *slot(threadIdx.x) = ALL_LANES;
            }
            __syncthreads();
            const uint32_t there = find_groups(bitmap, stream.groups, first_live, share.first * WARP, end, is_last, slot);
            if (is_last && there != stream.live) {
                problems |= STATUS_INDEX;
            }
        }
        __syncthreads();
        make_table(table, book, has_at_hand ? at_hand - book.book.symbols : symbols);
        __syncthreads();
        if (has_task) {
            if (stream.has_free) {
                group = reinterpret_cast<const uint32_t *>(tile)[lane_id()];
            }
            live = live && group < stream.groups;
            __syncwarp();
            const Own own{stream, &book.book, table, 1, false};
            const Places places{input, symbols, nullptr, out, tile, staged, staged_words};
            if (damaged) {
                problems |= STATUS_INDEX;
            } else if (fits) {
                copies_done();
                __syncwarp();
                const Work work{Lookup(table, &book.book, symbols, OWN_LONG, false), tile, out + stream.out * SYMBOL_BYTES, group, rank, live};
                const uint32_t ended = work.decode(staged, count, at.start - first * 32, checksum);
                problems |= live && first * 32 + ended != at.end ? STATUS_INDEX : 0;
            } else {
                problems |= decode_block(own, places, at, block, group, live, checksum);
            }
            checksum.flush(&sums[3 * share.number]);
        }
        problems = any_of(problems);
        if (problems != 0 && lane_id() == 0) {
            atomicOr(&sums[3 * share.number + 2], problems);
        }
    }
    // Where there are warps without an index block, they do that while others decode.
    if (most_tasks + 4 > WARPS) {
        fill_free(input, streams, stream_count, totals, out);
    } else if (warp_id() >= most_tasks) {
        const uint32_t others = WARPS - most_tasks;
        fill_free(input, streams, stream_count, totals, blockIdx.x * others + warp_id() - most_tasks, gridDim.x * others, out);
    }
    // The last block compares checksums.
    __shared__ bool is_last_block;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        is_last_block = atomicAdd(&sums[3 * stream_count], 1u) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (is_last_block) {
        for (uint32_t i = threadIdx.x; i < stream_count; i += THREADS) {
            uint32_t *own = &sums[3 * i];
            const bool wrong = __ldcg(&own[0]) != streams[i].sum || __ldcg(&own[1]) != streams[i].weighted;
            status[i] = (keeps_status ? status[i] : 0) | __ldcg(&own[2]) | (wrong ? STATUS_CHECKSUM : 0);
            own[0] = own[1] = own[2] = 0;
        }
        if (threadIdx.x == 0) {
            sums[3 * stream_count] = 0;
        }
    }
}
