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
#define LAST_SYMBOLS 1024
#include "huffman_decode_book.cuh"
#include "huffman_decode_free.cuh"
#include "huffman_decode_small.cuh"
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
            // A stream has a few thousand index blocks at most: 32 bits are enough.
            const uint32_t all = __shfl_sync(ALL_LANES, tasks, lane);
            share = {first + lane, all * own / of, all * (own + 1) / of};
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

// Groups that a thread looks at: a byte of the bitmap.
constexpr uint32_t LOOKED_AT = 8;

// Those of a byte of a bitmap that are live.
__device__ inline uint32_t live_byte(const uint8_t *bitmap, uint32_t groups, uint32_t i) {
    const uint32_t first = i * LOOKED_AT;
    return first < groups ? ~bitmap[i] & (groups - first < LOOKED_AT ? (1u << (groups - first)) - 1 : 0xFF) : 0;
}

// Where the live groups from `first` to `end` are, counted in live groups, goes to `slot(i)` for number `first + i`. Returns how many there are up to the end of what was looked at: all if `all`.
// `first_live` are the thread's in the first THREADS bytes.
template <typename Slot>
__device__ inline uint32_t find_groups(const uint8_t *bitmap, uint32_t groups, uint32_t first_live, uint32_t first, uint32_t end, bool all, Slot slot) {
    __shared__ uint32_t warp_sums[WARPS];
    uint32_t before = 0;
    for (uint32_t base = 0; base * LOOKED_AT < groups && (all || before < end); base += THREADS) {
        const uint32_t i = base + threadIdx.x;
        const uint32_t live = base == 0 ? first_live : live_byte(bitmap, groups, i);
        uint32_t total, rank = before + block_scan<THREADS>(uint32_t(__popc(live)), warp_sums, total);
        before += total;
        if (rank < end && rank + __popc(live) > first) {
            for (uint32_t left = live; left != 0; left &= left - 1, ++rank) {
                if (rank >= first && rank < end) {
                    *slot(rank - first) = i * LOOKED_AT + __ffs(left) - 1;
                }
            }
        }
    }
    return before;
}

// The table of a codebook. By the whole block, followed by a barrier. Four entries at a time, which mostly are of one codeword.
__device__ inline void make_table(uint32_t *to, const OwnBook &own, const uint16_t *symbols) {
    const Steps steps(own.book, OWN_WORDS);
    const auto entry = [&](uint32_t i, uint32_t &length) { return table_entry(own, symbols, steps, i, length); };
#pragma unroll 1
    for (uint32_t i = 4 * threadIdx.x; i < steps.entries(); i += 4 * THREADS) {
        uint32_t length;
        uint4 own_entries;
        own_entries.x = own_entries.y = own_entries.z = own_entries.w = entry(i, length);
        // Codewords two bits shorter than a lookup have four entries, from a multiple of four on.
        if (i + 3 >= steps.first || length + 2 > TABLE_BITS) {
            own_entries.y = entry(i + 1, length);
            own_entries.z = entry(i + 2, length);
            own_entries.w = entry(i + 3, length);
        }
        reinterpret_cast<uint4 *>(to)[i / 4] = own_entries;
    }
}

// Symbols in canonical order that a block has at hand: those of more are read where they are.
constexpr uint32_t SYMBOLS_AT_HAND = LAST_SYMBOLS;

// A block has `most_tasks` index blocks at most, as many warps at least, and room for `staged_words` words for each of those. `sums` has three words for each stream and one more,
// all 0 before and after.
extern "C" __global__ void __launch_bounds__(THREADS)
    decode_small(const uint8_t *input, const Stream *streams, uint32_t stream_count, const Book *books, const uint16_t *symbols, const Totals *totals, uint32_t most_tasks,
                 uint32_t staged_words, uint32_t keeps_status, uint32_t *sums, uint32_t *status, uint8_t *out) {
    wait_for_previous();
    extern __shared__ uint4 dynamic[];
    __shared__ OwnBook book;
    __shared__ Stream stream;
    uint32_t *table = reinterpret_cast<uint32_t *>(dynamic);
    const uint32_t units = (TILE_BYTES + staged_words * 4) / 16;
    uint4 *tiles = dynamic + OWN_WORDS / 4, *tile = tiles + warp_id() * units;
    uint32_t *staged = reinterpret_cast<uint32_t *>(tile + TILE_BYTES / 16);
    Share share;
    if (own_share(streams, stream_count, most_tasks, share, stream)) {
        uint32_t problems = 0;
        Checksum checksum{0, 0};
        // What does not wait for anything else is read first.
        const Book &from = books[stream.first_book];
        const uint32_t book_word = OwnBook::word_of(from), first_symbol = from.symbols, symbol_count = from.symbol_count;
        const uint8_t *bitmap = input + stream.bitmap;
        const uint32_t first_live = stream.has_free ? live_byte(bitmap, stream.groups, threadIdx.x) : 0;
        const uint32_t block = share.first + warp_id();
        const bool has_task = block < share.end;
        const uint32_t *words = reinterpret_cast<const uint32_t *>(input + stream.words);
        const uint64_t descriptor = IndexBlock::descriptor_of(input, stream, has_task ? block : 0);
        const bool has_at_hand = symbol_count <= SYMBOLS_AT_HAND;
        static_assert(SYMBOLS_AT_HAND == THREADS, "a symbol a thread");
        const uint32_t first_last = has_at_hand ? 0 : symbol_count - SYMBOLS_AT_HAND;
        const uint16_t own_symbol = threadIdx.x < symbol_count ? symbols[first_symbol + first_last + threadIdx.x] : 0;
        const IndexBlock at(input, stream, has_task ? block : 0, descriptor);
        const bool damaged = __any_sync(ALL_LANES, at.damaged);
        const uint32_t first = __shfl_sync(ALL_LANES, at.start, 0) / 128 * 4, count = ceil_div(__shfl_sync(ALL_LANES, at.end, WARP - 1), 32) - first;
        const bool fits = !damaged && count <= staged_words - SLACK_WORDS;
        // Words are under way while tables are made.
        if (has_task && fits) {
            start_staging(staged, words, first, first + count);
        }
        book.last.symbols[threadIdx.x] = own_symbol;
        if (threadIdx.x == 0) {
            book.last.first = first_last;
        }
        book.store(book_word);
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
        make_table(table, book, has_at_hand ? book.last.symbols - book.book.symbols : symbols);
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
                // Lanes without a group go along where there are codewords.
                const uint32_t ended = work.decode(staged, count, live ? at.start - first * 32 : 0, checksum);
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
        write_statuses(streams, stream_count, sums, keeps_status, status);
        if (threadIdx.x == 0) {
            sums[3 * stream_count] = 0;
        }
    }
}
