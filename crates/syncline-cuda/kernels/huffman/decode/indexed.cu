// Decoding with the symbol index: a warp an index block of 32 live groups, a lane a group.
//
// The block's words are copied to shared memory; each lane's start is the running sum of the lengths in the index. A
// lookup gives up to two symbols. Symbols gather in registers, 16 bytes at a time go to a tile in shared memory (a row
// a lane; 16-byte units are permuted by lane, so that neither side has bank conflicts), and a full tile of 128-byte
// rows goes to memory in whole lines. No lane waits for another block: there is nothing to spin on.
//
// BOOKS        tables that a block has room for: 1 or 4
// OWN_LONG     entries for long codewords in them
// TABLE_SKEW   see huffman/decode/lookup.cuh
// THREADS      threads in a block, at most
// ROW          bytes of a row of the tile, 64 or 128, at most
// SEQUENCE     subsequences in a sequence, which streams count in whole ones
#define NARROW_ROWS !PAIRS
#if BOOKS == 1
#define LAST_SYMBOLS 512
#endif
#include "device/sync.cuh"
#include "device/warp.cuh"
#include "huffman/decode/work.cuh"

// The share of a block that is to have `most` index blocks of one stream at most: a block of a small batch has about
// one for each warp, and those of a second stream would have to wait until the first's are done and tables have been
// loaded again.
__device__ inline void share_of_one(const Stream *streams, uint32_t count, uint32_t most, uint32_t &task,
                                    uint32_t &end) {
    task = end = 0;
    uint32_t block = blockIdx.x;
    for (uint32_t first = 0; first < count; first += WARP) {
        const uint32_t i = first + lane_id();
        const uint32_t tasks = i < count ? ceil_div(streams[i].live, WARP) : 0, blocks = ceil_div(tasks, most);
        const uint32_t start = i < count ? streams[i].first_task : 0;
        const uint32_t through = warp_inclusive_sum(blocks), found = __ballot_sync(ALL_LANES, block < through);
        if (found != 0) {
            const uint32_t lane = __ffs(found) - 1;
            const uint32_t own = block - __shfl_sync(ALL_LANES, through - blocks, lane),
                           of = __shfl_sync(ALL_LANES, blocks, lane);
            const uint32_t from = __shfl_sync(ALL_LANES, start, lane), all = __shfl_sync(ALL_LANES, tasks, lane);
            task = from + uint64_t(all) * own / of;
            end = from + uint64_t(all) * (own + 1) / of;
            return;
        }
        block -= __shfl_sync(ALL_LANES, through, WARP - 1);
    }
}

// Where shares of equal cost start. An index block costs its bits and COST_OF_SYMBOL for each symbol there is room for,
// and a stream CHANGES_FOR index blocks more: for its tables, and because warps wait there for the last one. If streams
// are so short that this were more than a quarter of all it costs less, as streams with nothing to decode have it too.
constexpr uint32_t COST_OF_SYMBOL = 24, CHANGES_FOR = 20;
struct Costs {
    static constexpr uint32_t OF_BLOCK = WARP * GROUP * COST_OF_SYMBOL;
    const uint8_t *input;
    const Stream *streams;
    uint32_t count; // of streams
    const Totals &totals;

    // Of so much, whole sequences, before a stream.
    __device__ inline uint64_t of(uint32_t tasks, uint32_t sequences, uint32_t changes) const {
        return uint64_t(tasks) * OF_BLOCK + uint64_t(sequences) * (SEQUENCE * SUBSEQUENCE_BITS) + changes * change();
    }
    __device__ inline uint64_t change() const {
        return uint64_t(OF_BLOCK) * min_of(CHANGES_FOR, totals.tasks / count / 4);
    }

    // The first index block of part `part` of the grid's, counted over all streams. What a damaged index says of where
    // blocks start leads to some block of its stream: shares have all blocks between them, some twice maybe. By a warp.
    __device__ inline uint32_t first_task(uint32_t part) const {
        if (part == gridDim.x) {
            return totals.tasks;
        }
        const uint64_t cost = of(totals.tasks, totals.sequences, count) / gridDim.x * part;
        const uint32_t number = stream_of_warp(
            cost, count, [&](uint32_t i) { return of(streams[i].first_task, streams[i].first_sequence, i); });
        const Stream &stream = streams[number];
        const uint64_t before = of(stream.first_task, stream.first_sequence, number) + change();
        const uint64_t own = cost < before ? 0 : cost - before;
        const uint32_t tasks = ceil_div(stream.live, WARP);
        if (own >= uint64_t(tasks) * OF_BLOCK + stream.bits) {
            return stream.first_task + tasks;
        }
        const uint64_t *descriptors = reinterpret_cast<const uint64_t *>(input + stream.index);
        return stream.first_task + stream_of_warp(own, tasks, [&](uint32_t i) {
                   return uint64_t(i) * OF_BLOCK + uint32_t(descriptors[i]);
               });
    }
};

// Brings what a block needs first of a stream to the second cache: its codebooks, tables, index and the words of an
// index block for each warp. By a warp.
__device__ inline void prefetch_stream(const uint8_t *input, const Stream &stream, const Book *books,
                                       const uint32_t *tables) {
    const auto prefetch = [](const void *from, uint32_t bytes) {
        for (uint32_t i = lane_id() * 128; i < bytes; i += WARP * 128) {
            asm volatile("prefetch.global.L2 [%0];" ::"l"(static_cast<const uint8_t *>(from) + i));
        }
    };
    constexpr uint32_t MOST_DESCRIPTORS = WARP * 8, MOST_LENGTHS = WARP * 64;
    const uint32_t blocks = ceil_div(stream.live, WARP), lengths = stream.index_bytes - blocks * 8,
                   own_books = min_of<uint32_t>(stream.books, BOOKS);
    prefetch(&books[stream.first_book], own_books * sizeof(Book));
    prefetch(tables + uint64_t(stream.first_book) * BOOK_WORDS, own_books * BOOK_WORDS * 4);
    prefetch(input + stream.index, min_of(blocks * 8, MOST_DESCRIPTORS));
    prefetch(input + stream.index + uint64_t(blocks) * 8, min_of(lengths, MOST_LENGTHS));
    prefetch(input + stream.words, min_of(blocks, WARP) * (stream.bits / 8 / max_of(blocks, 1u)));
}

// `sums` and `status` have two words and one for each stream, `sums` one more. `staged_words`, a multiple of 4, is the
// room for a warp's input; an index block that is longer is decoded with a narrow tile or in parts. Blocks have shares
// of all index blocks that cost the same; or if `most_tasks` is not 0, a block has so many at most and of one stream
// only.
extern "C" __global__ void __launch_bounds__(THREADS)
    decode_indexed(const uint8_t *input, const Stream *streams, uint32_t stream_count, const Book *books,
                   const uint32_t *tables, const uint16_t *symbols, const uint8_t *classes, const uint32_t *map,
                   const Totals *totals, uint32_t most_tasks, uint32_t staged_words, uint32_t *sums, uint32_t *status,
                   uint8_t *out) {
    extern __shared__ uint4 dynamic[];
#if LAST_SYMBOLS
    __shared__ BookWithLast own_book;
    Book *own_books = &own_book.book;
#else
    __shared__ Book own_books[BOOKS];
#endif
    __shared__ Stream stream;
    __shared__ uint32_t drawn, bounds[2];
    uint32_t *own_tables = reinterpret_cast<uint32_t *>(dynamic);
    uint4 *tile = dynamic + BOOKS * OWN_WORDS / 4 + warp_id() * (TILE_BYTES + staged_words * 4) / 16;
    const Places places{input,       symbols, classes, out, tile, reinterpret_cast<uint32_t *>(tile + TILE_BYTES / 16),
                        staged_words};
    const uint32_t warps = blockDim.x / WARP;

    // What decode_prepare writes is not touched before it is waited for: tables, map, sums and status.
    uint32_t task, end;
    if (most_tasks != 0) {
        share_of_one(streams, stream_count, most_tasks, task, end);
    } else {
        for (uint32_t i = warp_id(); i < 2; i += warps) {
            const uint32_t bound = Costs{input, streams, stream_count, *totals}.first_task(blockIdx.x + i);
            if (lane_id() == 0) {
                bounds[i] = bound;
            }
        }
        __syncthreads();
        task = bounds[0];
        end = bounds[1];
    }
    while (task < end) {
        const uint32_t number = stream_of_warp(task, stream_count, [&](uint32_t i) { return streams[i].first_task; });
        __syncthreads();
        if (threadIdx.x < sizeof(Stream) / 4) {
            reinterpret_cast<uint32_t *>(&stream)[threadIdx.x] =
                reinterpret_cast<const uint32_t *>(&streams[number])[threadIdx.x];
        }
        if (threadIdx.x == 0) {
            drawn = task + warps;
        }
        __syncthreads();
        const uint32_t book_count = min_of<uint32_t>(stream.books, BOOKS);
        for (uint32_t i = threadIdx.x; i < book_count * sizeof(Book) / 4; i += blockDim.x) {
            reinterpret_cast<uint32_t *>(own_books)[i] =
                reinterpret_cast<const uint32_t *>(&books[stream.first_book])[i];
        }
        __syncthreads();
        launch_dependents_and_wait();
#if LAST_SYMBOLS
        own_book.last.load(own_book.book, symbols);
#endif
        const bool paired = load_lookups<OWN_ENTRIES>(own_tables, tables + uint64_t(stream.first_book) * BOOK_WORDS,
                                                      symbols, own_books, book_count);
        const Own own{stream, own_books, own_tables, book_count, paired};

        const uint32_t stop = min_of(end, stream.first_task + ceil_div(stream.live, WARP));
        uint32_t next = task + warp_id();
#if PAIRS
        Checksum checksum{0, 0};
#endif
        while (next < stop) {
            const uint32_t block = next - stream.first_task, rank = block * WARP + lane_id();
            const bool live = rank < stream.live;
            const IndexBlock at(input, stream, block);
            const bool damaged = __any_sync(ALL_LANES, at.damaged);
#if !PAIRS
            // There are no registers to keep sums for the next one.
            Checksum checksum{0, 0};
#endif
            const uint32_t problems =
                damaged ? STATUS_INDEX
                        : any_of(decode_block(own, places, at, block, group_of(stream, map, live ? rank : 0), live,
                                              checksum));
            if (problems != 0 && lane_id() == 0) {
                atomicOr(&status[number], problems);
            }
#if PAIRS
            next += warps;
#else
            checksum.flush(&sums[2 * number]);
            // Index blocks are drawn: where codewords are long, they take unlike times.
            uint32_t drawing = 0;
            if (lane_id() == 0) {
                drawing = atomicAdd(&drawn, 1u);
            }
            next = __shfl_sync(ALL_LANES, drawing, 0);
#endif
        }
#if PAIRS
        checksum.flush(&sums[2 * number]);
#endif
        // The first warp that has nothing to do any more.
        if (next == stop && stop < end) {
            prefetch_stream(
                input, streams[stream_of_warp(stop, stream_count, [&](uint32_t i) { return streams[i].first_task; })],
                books, tables);
        }
        task = stop;
    }
    launch_dependents_and_wait();
    verify_at_last(streams, stream_count, sums, status);
}
