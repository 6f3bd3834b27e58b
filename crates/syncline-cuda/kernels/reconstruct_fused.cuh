// Decoding of tiles to the rows that they are written from.
#pragma once
#include "reconstruct_decode.cuh"
#include "reconstruct_work.cuh"

constexpr uint32_t BOOKS = 4;
// Words that a warp's input needs on average, with some more.
__device__ inline uint32_t words_wanted(const Stream &stream) {
    const uint32_t blocks = max_of<uint32_t>(1, ceil_div(stream.live, WARP));
    return min_of<uint32_t>(stream.bits / 32 / blocks * 5 / 4 + 16, 1024) / 4 * 4;
}

// The group of a lane: whether it has codewords, which number it has among those that do, and where they are.
struct Group {
    uint32_t rank;
    bool live;
};

__device__ inline Group group_of_lane(const uint8_t *input, const Parsed &parsed, const Stream &stream, const Lane &lane, uint32_t chunk) {
    Group group{lane.number, lane.exists && lane.number < stream.groups};
    if (group.live && stream.has_free) {
        const uint32_t word = reinterpret_cast<const uint32_t *>(input + stream.bitmap)[lane.number / 32], bit = lane.number % 32;
        group.live = !(word >> bit & 1);
        group.rank = parsed.ranks[uint64_t(chunk) * parsed.rank_stride + lane.number / 32] + __popc(~word & ((1u << bit) - 1));
    }
    return group;
}

// The checksum of a group: its symbols' sum, and that weighted with their places from 1 on.
struct GroupSums {
    uint32_t packed, inner, outer;

    __device__ inline GroupSums() : packed(0), inner(0), outer(0) {}

    // Adds eight symbols, number `eight`.
    __device__ inline void add(uint4 codes, uint32_t eight) {
#if WIDE
        Checksum own{0, 0};
        own.add(codes, eight * 8);
        packed += own.sum;
        inner += own.weighted;
#else
        // Weights within the eight; and the sums of all so far, in halves of 16 bits, added up at each eight: from them follows what a symbol's eight contributes.
        inner = __dp2a_lo(codes.x, 0x0201u, inner);
        inner = __dp2a_lo(codes.y, 0x0403u, inner);
        inner = __dp2a_lo(codes.z, 0x0605u, inner);
        inner = __dp2a_lo(codes.w, 0x0807u, inner);
        packed += codes.x + codes.y + codes.z + codes.w;
        outer = __dp2a_lo(packed, 0x0101u, outer);
#endif
    }
    __device__ inline uint32_t sum() const { return WIDE ? packed : __dp2a_lo(packed, 0x0101u, 0u); }
    __device__ inline uint32_t weighted() const { return WIDE ? inner : inner + 8 * (EIGHTS * sum() - outer); }
};
static_assert(WIDE || CODES / 2 * (MOST_SYMBOLS - 1) < 1 << 16, "halves of the sums");

// What a lane's group gave: where its codewords end, as its words count, and its checksum.
struct Decoded {
    uint32_t end, sum, weighted;
};

// Decodes a lane's group to its row. Not inlined: registers are short, and here they matter most.
template <bool PAIRED, typename Words>
__device__ __noinline__ Decoded decode(Lookup<PAIRED> lookup, Words words, uint32_t start, uint32_t radius, uint32_t predictor, Rows rows) {
    BitReader<Words> reader(words, start);
    Summing summing(radius, predictor);
    GroupSums sums;
#pragma unroll 1
    for (uint32_t run = 0; run < EIGHTS; run += RUN) {
        summing.begin();
#pragma unroll 1
        for (uint32_t eight = run; eight < run + RUN; ++eight) {
            uint4 codes;
            codes.x = lookup.two(reader);
            codes.y = lookup.two(reader);
            codes.z = lookup.two(reader);
            codes.w = lookup.two(reader);
            sums.add(codes, eight);
            summing.add(codes, eight, rows);
        }
    }
    return {reader.end(), sums.sum(), sums.weighted()};
}

// What a block shares of a chunk.
struct Shared {
    Stream stream;
    ParsedChunk record;
    Book books[BOOKS];
    ChunkStart start;
    Items items; // of this block
    uint32_t next, paired;
    uint32_t idle; // the table entry of lanes that have nothing to decode
};

// Makes the rows of TILES tiles. Returns what is wrong.
template <bool PAIRED>
__device__ inline uint32_t decode_tiles(const Shared &shared, uint32_t table_bytes, uint32_t own_long, const uint16_t *symbols,
                                        const Lane &lane, bool needed, const Target &target, const Rows &rows, uint32_t *staged, uint32_t staged_words,
                                        Checksum &checksum, bool &any_live) {
    const Stream &stream = shared.stream;
    const uint32_t *words = reinterpret_cast<const uint32_t *>(target.input + stream.words);
    uint32_t problems = 0;
    Group group = group_of_lane(target.input, target.parsed, stream, lane, target.chunk);
    const uint32_t book = min_of(stream.books == 1 ? 0 : meta_class(lane.meta), stream.books - 1);
    if (group.live && (group.rank >= stream.live || shared.books[book].longest == 0)) {
        problems = group.rank >= stream.live ? STATUS_INDEX : STATUS_CLASS;
        group.live = false;
    }
    uint32_t lanes = __ballot_sync(ALL_LANES, group.live);
    uint32_t start = 0, end = 0;
    if (lanes != 0) {
        // Ranks ascend, so that they lie in two index blocks at most.
        const uint32_t block = __shfl_sync(ALL_LANES, group.rank, __ffs(lanes) - 1) / WARP;
        const IndexBlock at(target.input, stream, block);
        start = __shfl_sync(ALL_LANES, at.start, group.rank);
        end = __shfl_sync(ALL_LANES, at.end, group.rank);
        bool damaged = at.damaged;
        if (__any_sync(ALL_LANES, group.live && group.rank / WARP != block)) {
            const bool there = (block + 1) * WARP < stream.live;
            const IndexBlock after(target.input, stream, there ? block + 1 : block);
            const uint32_t later_start = __shfl_sync(ALL_LANES, after.start, group.rank), later_end = __shfl_sync(ALL_LANES, after.end, group.rank);
            if (group.rank / WARP != block) {
                start = later_start;
                end = later_end;
                damaged |= group.live && group.rank / WARP != block + 1;
            }
            damaged |= after.damaged;
        }
        if (__any_sync(ALL_LANES, damaged)) {
            problems |= STATUS_INDEX;
            group.live = false;
            lanes = 0;
        }
    }
    any_live = lanes != 0;
    if (lanes == 0 && !needed) {
        return problems;
    }
    uint32_t first = 0, last = 0;
    if (lanes != 0) {
        first = __shfl_sync(ALL_LANES, start, __ffs(lanes) - 1) / 32 / 4 * 4;
        last = __shfl_sync(ALL_LANES, end, 31 - __clz(lanes)) / 32 + 1;
    }
    start = group.live ? start : first * 32;
    Lookup<PAIRED> lookup(shared_address(dynamic) + book * table_bytes, own_long, &shared.books[book], symbols);
    if (!group.live) {
        lookup.rest(shared_address(&shared.idle));
    }
    const uint32_t radius = target.record.radius, predictor = lane.predictor;
    Decoded decoded;
    if (last - first < staged_words && last >= first) {
        if (lanes != 0) {
            stage(staged, words, first, last + 1);
        }
        // A start that is not behind the first one is none of a stream that is right.
        const uint32_t near = start - first * 32;
        const uint32_t begin = near < staged_words * 32 ? near : 0;
        decoded = decode(lookup, Near(staged, begin / 32), begin, radius, predictor, rows);
        decoded.end += (first - shared_address(staged) / 4) * 32;
    } else {
        decoded = decode(lookup, Far(words, start / 32, ceil_div(stream.bits, 32) + 1), start, radius, predictor, rows);
    }
    if (group.live) {
        problems |= decoded.end != end ? STATUS_INDEX : 0;
        checksum.sum += decoded.sum;
        checksum.weighted += decoded.weighted + group.rank * CODES * decoded.sum;
    }
    __syncwarp();
    return problems;
}

// Makes the tables of all codebooks in shared memory. Behind them there is room for their symbols and one table of single codewords. By the whole block.
template <bool PAIRED> __device__ inline void make_tables(uint8_t *to, uint32_t own_long, const Shared &shared, uint32_t books, const uint16_t *symbols) {
    typedef typename Entries<PAIRED>::Entry Entry;
    const uint32_t bytes = Lookup<PAIRED>::bytes(own_long);
    uint16_t *near = reinterpret_cast<uint16_t *>(to + books * bytes);
    for (uint32_t number = 0; number < books && !WIDE; ++number) {
        const Book &book = shared.books[number];
        for (uint32_t i = threadIdx.x; i < min_of(book.symbol_count, MOST_SYMBOLS); i += THREADS) {
            near[number * MOST_SYMBOLS + i] = symbols[book.symbols + i];
        }
    }
    __syncthreads();
    const BookSymbols all{symbols, near};
    make_long(to + TABLE * sizeof(Entry), bytes, own_long, shared.books, books, all);
    if (!PAIRED) {
        make_singles(reinterpret_cast<Single *>(to), bytes / sizeof(Single), shared.books, 0, books, all);
        return;
    }
    Single *singles = reinterpret_cast<Single *>(near + BOOKS * MOST_SYMBOLS);
    for (uint32_t number = 0; number < books; ++number) {
        if (shared.books[number].longest != 0) {
            make_singles(singles, 0, shared.books, number, number + 1, all);
            __syncthreads();
            for (uint32_t i = threadIdx.x; i < TABLE; i += THREADS) {
                reinterpret_cast<Entry *>(to + number * bytes)[i] = paired_entry(singles, i);
            }
            __syncthreads();
        }
    }
}

// Whether lookups by pairs pay in every codebook of the stream: a lane whose lookup gives one symbol holds up the warp.
__device__ inline bool pairs_pay(const Shared &shared, uint32_t books) {
    float share = 1;
    for (uint32_t book = 0; book < books; ++book) {
        share = shared.books[book].longest == 0 ? share : min_of(share, paired_share(shared.books[book]));
    }
    return !WIDE && share >= PAIRED_PERCENT * 0.01f;
}

// A block's work on a chunk: what it needs besides shared memory.
struct Task {
    const Geometry &geometry;
    const Parsed &parsed;
    const Request &request;
    const uint16_t *symbols;
    uint32_t *sums, *status;
};

// A unit that the warp has drawn, and the number of the lane's tile.
struct Ahead {
    uint32_t draw, number;
    bool wanted;

    __device__ inline void fetch(Shared &shared, const Task &task, uint32_t chunk, uint32_t live_units, uint32_t constant_units, bool raw) {
        number = 0;
        wanted = false;
        draw = 0;
        if (lane_id() == 0) {
            draw = atomicAdd(&shared.next, 1u);
        }
        draw = __shfl_sync(ALL_LANES, draw, 0);
        if (draw < live_units + constant_units) {
            const Draw own(draw, live_units, constant_units);
            const Items &items = shared.items;
            const uint32_t entry = own.number * (own.is_constant ? WARP : TILES) + lane_id();
            wanted = own.is_constant ? entry < items.constant : lane_id() < TILES && entry < items.live;
            if (wanted) {
                const uint32_t place = entry + (own.is_constant ? items.first_constant : items.first_live);
                number = raw ? place : task.parsed.order[uint64_t(chunk) * task.parsed.tiles + place];
            }
        }
    }
};

// Writes the block's share of a chunk. By the whole block.
template <bool PAIRED> __device__ inline void write_share(Shared &shared, const Task &task, const Target &target) {
    const Stream &stream = shared.stream;
    const Items items = shared.items;
    const uint32_t books = min_of<uint32_t>(stream.books, BOOKS);
    const uint32_t own_long = books == 1 ? OWN_LONG : OWN_LONG_MANY, table_bytes = Lookup<PAIRED>::bytes(own_long);
    uint8_t *tables = reinterpret_cast<uint8_t *>(dynamic);
    if (items.live != 0) {
        make_tables<PAIRED>(tables, own_long, shared, books, task.symbols);
    }
    // As many warps as have room for their input; behind the last one's there is room for what a damaged stream may read.
    const uint32_t tables_words = books * table_bytes / 4;
    const uint32_t room = task.request.dynamic_bytes / 4 - tables_words - MOST_GROUP_WORDS;
    const uint32_t wanted = words_wanted(stream);
    const uint32_t warps = max_of<uint32_t>(1, min_of<uint32_t>(THREADS / WARP, room / (ROWS_BYTES / 4 + wanted)));
    const uint32_t staged_words = (room / warps - ROWS_BYTES / 4) / 4 * 4;
    const uint32_t own_words = tables_words + warp_id() * (ROWS_BYTES / 4 + staged_words);
    const Rows rows{own_words / 4};
    uint32_t *staged = reinterpret_cast<uint32_t *>(dynamic) + own_words + ROWS_BYTES / 4;
    const bool raw = target.record.kind == CHUNK_RAW;
    if (threadIdx.x == 0) {
        shared.idle = Lookup<PAIRED>::idle_entry(target.record.radius);
    }
    __syncthreads();
    const uint32_t live_units = items.live_units(), constant_units = items.constant_units();
    Checksum checksum{0, 0};
    uint32_t problems = 0;
    const uint32_t units = live_units + constant_units;
    // A draw and its tiles' numbers are fetched while those before are worked on.
    Ahead ahead;
    ahead.draw = units;
    if (warp_id() < warps) {
        ahead.fetch(shared, task, target.chunk, live_units, constant_units, raw);
    }
    while (ahead.draw < units) {
        const Draw draw(ahead.draw, live_units, constant_units);
        const Work work = work_of(task.geometry, task.parsed, task.request, shared.start, target.chunk, ahead.number, ahead.wanted, raw);
        ahead.fetch(shared, task, target.chunk, live_units, constant_units, raw);
        if (raw) {
            write_raw(work, target);
        } else if (draw.is_constant) {
            write_constant(rows, work, target);
        } else {
            write_live(rows, work, target, [&](uint32_t slots, bool needed) {
                const Lane lane(work, slots);
                bool any_live;
                problems |= decode_tiles<PAIRED>(shared, table_bytes, own_long, task.symbols, lane, needed, target, rows, staged, staged_words, checksum,
                                                 any_live);
                return any_live;
            });
        }
    }
    if (items.live != 0) {
        checksum.flush(&task.sums[2 * target.chunk]);
        problems = any_of(problems);
        if (problems != 0 && lane_id() == 0) {
            atomicOr(&task.status[target.chunk], problems);
        }
    }
}
