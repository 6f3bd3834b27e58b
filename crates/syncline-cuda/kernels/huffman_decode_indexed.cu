// Decoding with the symbol index: a warp an index block of 32 live groups, a lane a group.
//
// The block's words are copied to shared memory; each lane's start is the running sum of the lengths in the index. A lookup gives up to two symbols. Symbols gather in
// registers, 16 bytes at a time go to a tile in shared memory (a row a lane; 16-byte units are permuted by lane, so that neither side has bank conflicts), and a
// full tile of 128-byte rows goes to memory in whole lines. No lane waits for another block: there is nothing to spin on.
//
// BOOKS        tables that a block has room for: 1 or 4
// OWN_LONG     entries for long codewords in them
// THREADS      threads in a block, at most
// ROW          bytes of a row of the tile, 64 or 128, at most
#include "huffman_decode_index.cuh"
#include "huffman_decode_ring.cuh"
#include "scan.cuh"

constexpr uint32_t OWN_WORDS = LOOKUPS + OWN_LONG;
static_assert(OWN_LONG <= LONG_ENTRIES, "there are no more");
constexpr uint32_t GROUP_BYTES = GROUP * SYMBOL_BYTES;
constexpr uint32_t ROW_BYTES = GROUP_BYTES < ROW ? GROUP_BYTES : ROW;
constexpr uint32_t ROUNDS = GROUP_BYTES / ROW_BYTES;
constexpr uint32_t UNITS = ROW_BYTES / 16;
// Rows that a warp's 16-byte accesses cover.
constexpr uint32_t ROWS_AT_ONCE = WARP / UNITS;
constexpr uint32_t TILE_BYTES = WARP * ROW_BYTES;

// Where a unit of a row is in the tile: eight lanes' units, 128 bytes, take every bank once.
__device__ inline uint32_t tile_slot(uint32_t row, uint32_t unit) { return row * UNITS + (unit ^ (row * UNITS / 8 & (UNITS - 1))); }

// A warp's words in shared memory, from address `at` on. Predicated as a whole: a branch would cost as much as what it skips.
struct Staged {
    uint32_t at;
    __device__ inline void move_on(uint32_t there, uint32_t &word0, uint32_t &word1) {
        asm volatile("{ .reg .pred there; setp.ne.u32 there, %3, 0;\n"
                     "  @there mov.u32 %0, %1;\n"
                     "  @there ld.shared.u32 %1, [%2];\n"
                     "  @there add.u32 %2, %2, 4; }"
                     : "+r"(word0), "+r"(word1), "+r"(at)
                     : "r"(there)
                     : "memory");
    }
};
// So many words are looked at without asking whether they are there.
constexpr uint32_t SLACK_WORDS = (WORDS_AT_ONCE + 2 + 3) / 4 * 4;

// Decodes this lane's group and writes the warp's tile, round by round.
struct Work {
    const Lookup &lookup;
    uint4 *tile;
    uint8_t *out; // of the stream
    uint32_t group;
    uint32_t rank;
    bool live;

    // From bit `start` of staged words on, of which there are `count`, and SLACK_WORDS that may be anything. Returns where it ended.
    __device__ inline uint32_t decode(const uint32_t *words, uint32_t count, uint32_t start, Checksum &checksum) const {
        const uint32_t *own = words + start / 32;
        const uint32_t base = shared_address(words), end = base + 4 * count + 8;
        Bits<Staged> bits{{shared_address(own + 2)}, own[0], own[1], start % 32};
        rounds(checksum, [&] {
            bits.words.at = min_of(bits.words.at, end);
            return lookup.unit(bits);
        });
        return (bits.words.at - base) * 8 - 64 + bits.position % 32;
    }

    // The same from bit `start` of what the feed brings, which is in its first unit.
    __device__ inline uint32_t decode(Feed feed, uint32_t start, Checksum &checksum) const {
        feed.start();
        const uint32_t first = start / 32 * 4;
        Bits<Ring> bits{{first + 8, feed.ring}, feed.word(first), feed.word(first + 4), start % 32};
        rounds(checksum, [&] {
            feed.wait();
            const uint4 symbols = lookup.unit(bits);
            feed.go_on(bits.words.at);
            return symbols;
        });
        copies_done();
        return bits.words.at * 8 - 64 + bits.position % 32;
    }

    // All of the group, 16 bytes of symbols at a time.
    template <typename Unit> __device__ inline void rounds(Checksum &checksum, Unit next) const {
        uint32_t sum = 0, weighted = 0;
        for (uint32_t round = 0; round < ROUNDS; ++round) {
#pragma unroll 1
            for (uint32_t unit = 0; unit < UNITS; ++unit) {
                const uint4 symbols = next();
                Checksum own_sum{0, 0};
                own_sum.add(symbols, (round * UNITS + unit) * SYMBOLS_IN_UNIT);
                sum += own_sum.sum;
                weighted += own_sum.weighted;
                tile[tile_slot(lane_id(), unit)] = symbols;
            }
            __syncwarp();
            flush(round);
            __syncwarp();
        }
        if (live) {
            checksum.sum += sum;
            checksum.weighted += weighted + rank * GROUP * sum;
        }
    }

    __device__ inline void flush(uint32_t round) const {
        const uint32_t unit = lane_id() % UNITS;
#pragma unroll
        for (uint32_t first = 0; first < WARP; first += ROWS_AT_ONCE) {
            uint32_t row = first + lane_id() / UNITS;
            uint32_t to = __shfl_sync(ALL_LANES, live ? group : ALL_LANES, row);
            if (to != ALL_LANES) {
                uint4 value = tile[tile_slot(row, unit)];
                store_streaming(reinterpret_cast<uint4 *>(out + uint64_t(to) * GROUP_BYTES + round * ROW_BYTES + unit * 16), value);
            }
        }
    }
};

// The share of a block that is to have `most` index blocks of one stream at most: a block of a small batch has about one for each warp, and those of a second stream would
// have to wait until the first's are done and tables have been loaded again.
__device__ inline void share_of_one(const Stream *streams, uint32_t count, uint32_t most, uint32_t &task, uint32_t &end) {
    task = end = 0;
    uint32_t block = blockIdx.x;
    for (uint32_t first = 0; first < count; first += WARP) {
        const uint32_t i = first + lane_id();
        const uint32_t tasks = i < count ? ceil_div(streams[i].live, WARP) : 0, blocks = ceil_div(tasks, most);
        const uint32_t start = i < count ? streams[i].first_task : 0;
        const uint32_t through = warp_scan_inclusive(blocks), found = __ballot_sync(ALL_LANES, block < through);
        if (found != 0) {
            const uint32_t lane = __ffs(found) - 1;
            const uint32_t own = block - __shfl_sync(ALL_LANES, through - blocks, lane), of = __shfl_sync(ALL_LANES, blocks, lane);
            const uint32_t from = __shfl_sync(ALL_LANES, start, lane), all = __shfl_sync(ALL_LANES, tasks, lane);
            task = from + uint64_t(all) * own / of;
            end = from + uint64_t(all) * (own + 1) / of;
            return;
        }
        block -= __shfl_sync(ALL_LANES, through, WARP - 1);
    }
}

// `sums` and `status` have two words and one for each stream, `sums` one more. `staged_words`, a multiple of 4, is the room for a warp's input; an index block that is longer is
// decoded in parts. Blocks share the index blocks of all streams equally; or if `most_tasks` is not 0, a block has so many at most and of one stream only.
extern "C" __global__ void __launch_bounds__(THREADS)
    decode_indexed(const uint8_t *input, const Stream *streams, uint32_t stream_count, const Book *books, const uint32_t *tables,
                   const uint16_t *symbols, const uint8_t *classes, const uint32_t *map, const Totals *totals, uint32_t most_tasks, uint32_t staged_words, uint32_t *sums, uint32_t *status,
                   uint8_t *out) {
    extern __shared__ uint4 dynamic[];
    __shared__ Book own_books[BOOKS];
    __shared__ Stream stream;
    uint32_t *own_tables = reinterpret_cast<uint32_t *>(dynamic);
    uint4 *tile = dynamic + BOOKS * OWN_WORDS / 4 + warp_id() * (TILE_BYTES + staged_words * 4) / 16;
    uint32_t *staged = reinterpret_cast<uint32_t *>(tile + TILE_BYTES / 16);
    const uint32_t room = staged_words - SLACK_WORDS;

    // What decode_prepare writes is not touched before it is waited for: tables, map, sums and status.
    uint32_t task, end;
    if (most_tasks != 0) {
        share_of_one(streams, stream_count, most_tasks, task, end);
    } else {
        const uint32_t tasks = totals->tasks, share = ceil_div(tasks, gridDim.x);
        task = blockIdx.x * share;
        end = min_of(tasks, task + share);
    }
    while (task < end) {
        const uint32_t number = stream_of_warp(task, stream_count, [&](uint32_t i) { return streams[i].first_task; });
        __syncthreads();
        if (threadIdx.x < sizeof(Stream) / 4) {
            reinterpret_cast<uint32_t *>(&stream)[threadIdx.x] = reinterpret_cast<const uint32_t *>(&streams[number])[threadIdx.x];
        }
        __syncthreads();
        const uint32_t book_count = min_of<uint32_t>(stream.books, BOOKS);
        for (uint32_t i = threadIdx.x; i < book_count * sizeof(Book) / 4; i += blockDim.x) {
            reinterpret_cast<uint32_t *>(own_books)[i] = reinterpret_cast<const uint32_t *>(&books[stream.first_book])[i];
        }
        __syncthreads();
        wait_for_previous();
        const bool paired = load_lookups<OWN_WORDS>(own_tables, tables + uint64_t(stream.first_book) * BOOK_WORDS, OWN_LONG, own_books, book_count);

        const uint32_t *words = reinterpret_cast<const uint32_t *>(input + stream.words);
        const uint32_t stop = min_of(end, stream.first_task + ceil_div(stream.live, WARP));
        Checksum checksum{0, 0};
        uint32_t problems = 0;
        for (uint32_t next = task + warp_id(); next < stop; next += blockDim.x / WARP) {
            const uint32_t block = next - stream.first_task;
            const IndexBlock at(input, stream, block);
            if (__any_sync(ALL_LANES, at.damaged)) {
                problems |= STATUS_INDEX;
                continue;
            }
            const uint32_t rank = block * WARP + lane_id();
            const bool live = rank < stream.live;
            const uint32_t group = group_of(stream, map, live ? rank : 0);
            uint32_t book = 0;
#if BOOKS > 1
            if (book_count > 1) {
                book = classes[stream.classes + group];
                if (live && (book >= book_count || own_books[min_of<uint32_t>(book, BOOKS - 1)].longest == 0)) {
                    problems |= STATUS_CLASS;
                }
                book = min_of(book, book_count - 1);
            }
#endif
            const Lookup lookup(own_tables + book * OWN_WORDS, &own_books[book], symbols, OWN_LONG, paired);
#if !PAIRS
            // Only where codewords are long: with pairs it cost 1 to 3 %, in registers, where hardly an index block has no room.
            const uint32_t first_word = __shfl_sync(ALL_LANES, at.start, 0) / 32 / 4 * 4, end_word = ceil_div(__shfl_sync(ALL_LANES, at.end, WARP - 1), 32);
            if (end_word - first_word > room && staged_words >= RING_WORDS) {
                const uint32_t first = at.start / 128 * 4, rings = (shared_address(staged) + RING_BYTES - 1) / RING_BYTES * RING_BYTES;
                const Feed feed{reinterpret_cast<const uint8_t *>(words + first), rings + lane_id() * RING_BYTES, 0, live ? (ceil_div(at.end, 32) - first) * 4 : 0,
                                (ceil_div(stream.bits, 32) + 2 - first) * 4};
                const Work work{lookup, tile, out + stream.out * SYMBOL_BYTES, group, rank, live};
                const uint32_t ended = work.decode(feed, at.start % 128, checksum);
                if (live && first * 32 + ended != at.end) {
                    problems |= STATUS_INDEX;
                }
                continue;
            }
#endif
            // As many groups at a time as there is room for: all, but where a field is uneven. Less than half of the warp then has nothing to do for a while;
            // reading words where they are would take ten times as long.
            for (uint32_t lane = 0; lane < WARP;) {
                const uint32_t first = __shfl_sync(ALL_LANES, at.start, lane) / 32 / 4 * 4;
                const uint32_t fitting = __ballot_sync(ALL_LANES, lane_id() >= lane && ceil_div(at.end, 32) - first <= room);
                if (fitting == 0) {
                    // No group is so long.
                    problems |= STATUS_INDEX;
                    break;
                }
                const uint32_t lanes = WARP - __clz(fitting);
                const uint32_t count = ceil_div(__shfl_sync(ALL_LANES, at.end, lanes - 1), 32) - first;
                const bool is_turn = lane_id() >= lane && lane_id() < lanes;
                // The others' lanes go along, somewhere.
                const uint32_t start = is_turn ? at.start - first * 32 : 0;
                const Work work{lookup, tile, out + stream.out * SYMBOL_BYTES, group, rank, live && is_turn};
                stage(staged, words, first, first + count);
                const uint32_t end = work.decode(staged, count, start, checksum);
                if (work.live && first * 32 + end != at.end) {
                    problems |= STATUS_INDEX;
                }
                lane = lanes;
            }
        }
        checksum.flush(&sums[2 * number]);
        problems = any_of(problems);
        if (problems != 0 && lane_id() == 0) {
            atomicOr(&status[number], problems);
        }
        task = stop;
    }
    wait_for_previous();
    verify_at_last(streams, stream_count, sums, status);
}
