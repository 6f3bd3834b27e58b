// Decodes tiles to the rows that their elements are computed from.
#pragma once
#include "device/warp.cuh"
#include "reconstruct/apart.cuh"
#include "reconstruct/decode.cuh"
#include "reconstruct/work.cuh"

constexpr uint32_t BOOKS = 4;
// Returns the average number of words of a warp's input, with some margin.
__device__ inline uint32_t words_wanted(const StreamDescriptor &stream) {
    const uint32_t blocks = max_of<uint32_t>(1, ceil_div(stream.live, WARP));
    return min_of<uint32_t>(stream.bits / 32 / blocks * 5 / 4 + 16, 1024) / 4 * 4;
}

// The group of a lane: whether it has codewords, its rank among the groups that have, and where the codewords are.
struct Group {
    uint32_t rank;
    bool live;
};

__device__ inline Group group_of_lane(const uint8_t *input, const Parsed &parsed, const StreamDescriptor &stream,
                                      const Lane &lane, uint32_t chunk) {
    Group group{lane.number, lane.exists && lane.number < stream.groups};
    if (group.live && stream.has_zero_bit_groups) {
        const uint32_t word = reinterpret_cast<const uint32_t *>(input + stream.bitmap)[lane.number / 32],
                       bit = lane.number % 32;
        group.live = !(word >> bit & 1);
        group.rank =
            parsed.ranks[uint64_t(chunk) * parsed.rank_stride + lane.number / 32] + __popc(~word & ((1u << bit) - 1));
    }
    return group;
}

// The checksum of a group: the sum of its symbols, and the sum of symbols times their positions, counted from 1.
struct GroupSums {
    uint32_t packed, inner, outer;

    __device__ inline GroupSums() : packed(0), inner(0), outer(0) {}

    // Adds the symbols of octet `eight` of the group.
    __device__ inline void add(uint4 codes, uint32_t eight) {
#if WIDE
        Checksum own{0, 0};
        own.add(codes, eight * 8);
        packed += own.sum;
        inner += own.weighted;
#else
        // Weights within the octet, and the sum of all symbols so far in 16-bit halves, which is accumulated at each
        // octet: the weights of whole octets follow from it.
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

// The results for a lane's group: the end of its codewords in bits, counted from the first of its words, and its
// checksum.
struct Decoded {
    uint32_t end, sum, weighted;
};

// Decodes a lane's group to its row. Not inlined, because registers are scarce and matter most here.
template <bool PAIRED>
__device__ __noinline__ Decoded decode(Lookup<PAIRED> lookup, Near words, uint32_t start, uint32_t radius,
                                       uint32_t predictor, Rows rows) {
    BitReader reader(words, start);
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

// Layout of a block's shared memory for a chunk: tables, followed by rows and words of each warp.
struct Layout {
    uint32_t own_long, table_bytes; // entries for long codewords, and bytes of a codebook's tables
    uint32_t first, stride, warps;  // where the first warp's rows are and from one warp's to the next, in units of 16
                                    // bytes; warps that have a place
    uint32_t staged_words;          // words of input behind a warp's rows
    uint32_t live_units, units;     // units of work with codes, and all units
};

// The data of a chunk that a block shares. The loop over units reads it from shared memory each time, because registers
// are scarce.
struct Shared {
    StreamDescriptor stream;
    ParsedChunk record;
    CodebookDescriptor books[BOOKS];
    ChunkStart start;
    Items items;
    Layout layout;
    uint32_t *draws;                    // number of the chunk's units that all blocks have drawn
    uint32_t first, last, best, visits; // chunks of the block's share: first, last, largest part; number
    uint32_t is_over;                   // no units of the chunk are left
    uint32_t most_left;                 // number of units left in a chunk, and the chunk
    uint32_t paired;
    uint32_t idle; // table entry of lanes that have nothing to decode
    uint32_t sum, weighted;
};

// The state of a block's work on a chunk that is not in shared memory.
struct Task {
    const Geometry &geometry;
    const Parsed &parsed;
    const Request &request;
    const uint16_t *symbols;
    uint32_t *sums, *status;
#if APART
    uint16_t *rows; // destination of the rows of groups
#endif
};

// Start and end of the groups of a warp's lanes, in bits of the stream.
struct Span {
    uint32_t start, end;
};

// Reads an index block, as IndexBlock does, in steps: the loads of two blocks are then in flight together.
struct IndexStep {
    uint64_t descriptor;
    uint32_t low, high;

    __device__ inline IndexStep(const uint8_t *input, const StreamDescriptor &stream, uint32_t block)
        : descriptor(reinterpret_cast<const uint64_t *>(input + stream.index)[block]), low(0), high(0) {}

    __device__ inline uint32_t width() const { return uint32_t(descriptor >> 44) & 15; }

    __device__ inline void load(const uint8_t *input, const StreamDescriptor &stream) {
        const uint32_t blocks = ceil_div(stream.live, WARP), delta_words = (stream.index_bytes - blocks * 8) / 4;
        const uint32_t *deltas = reinterpret_cast<const uint32_t *>(input + stream.index + uint64_t(blocks) * 8);
        const uint32_t word = uint32_t(descriptor >> 48) + lane_id() * width() / 32;
        if (width() != 0) {
            low = word < delta_words ? deltas[word] : 0;
            high = word + 1 < delta_words ? deltas[word + 1] : 0;
        }
    }

    // Returns the range of the block's groups, one per lane; sets `damaged` if it is not within the stream.
    __device__ inline Span span(const StreamDescriptor &stream, uint32_t block, bool &damaged) const {
        const uint32_t shortest = uint32_t(descriptor >> 32) & 0xFFF;
        uint32_t length = __funnelshift_r(low, high, lane_id() * width()) & ((1u << width()) - 1);
        length = block * WARP + lane_id() < stream.live ? length + shortest : 0;
        uint32_t sum = warp_inclusive_sum(length);
        const uint32_t start = uint32_t(descriptor) + sum - length, end = start + length;
        // Sums are below 2^21, so that this also detects overflow.
        damaged |= uint32_t(descriptor) > stream.bits || end > stream.bits || end < start;
        return {start, end};
    }
};

// Locates the groups with the index. Errors are added to `problems`; in that case no group is live.
__device__ inline Span find_groups(const uint8_t *input, const StreamDescriptor &stream, Group &group,
                                   uint32_t &problems) {
    Span span{0, 0};
    const uint32_t lanes = __ballot_sync(ALL_LANES, group.live);
    if (lanes == 0) {
        return span;
    }
    // Ranks ascend, so that they lie in at most two index blocks.
    const uint32_t block = __shfl_sync(ALL_LANES, group.rank, __ffs(lanes) - 1) / WARP;
    const bool later = group.rank / WARP != block;
    const bool both = __any_sync(ALL_LANES, group.live && later);
    const uint32_t after = both && (block + 1) * WARP < stream.live ? block + 1 : block;
    IndexStep at(input, stream, block), beyond(input, stream, after);
    at.load(input, stream);
    beyond.load(input, stream);
    bool damaged = group.live && later && group.rank / WARP != block + 1;
    const Span own = at.span(stream, block, damaged);
    span = {__shfl_sync(ALL_LANES, own.start, group.rank), __shfl_sync(ALL_LANES, own.end, group.rank)};
    if (both) {
        const Span next = beyond.span(stream, after, damaged);
        const Span other{__shfl_sync(ALL_LANES, next.start, group.rank), __shfl_sync(ALL_LANES, next.end, group.rank)};
        span = later ? other : span;
    }
    if (__any_sync(ALL_LANES, damaged)) {
        problems |= STATUS_INDEX;
        group.live = false;
    }
    return span;
}

// Computes the rows of TILES tiles. Returns whether any group has codewords. If none has and the rows are not needed,
// they are not computed.
template <bool PAIRED>
__device__ inline bool decode_tiles(Shared &shared, const Task &task, const Lane &lane, bool needed,
                                    const Target &target, const Rows &rows) {
    const StreamDescriptor &stream = shared.stream;
    uint32_t problems = 0;
    Group group = group_of_lane(target.input, target.parsed, stream, lane, target.chunk);
    const uint32_t book = min_of(stream.codebooks == 1 ? 0 : meta_class(lane.meta), stream.codebooks - 1);
    if (group.live && (group.rank >= stream.live || shared.books[book].longest == 0)) {
        problems = group.rank >= stream.live ? STATUS_INDEX : STATUS_CLASS;
        group.live = false;
    }
    const Span span = find_groups(target.input, stream, group, problems);
    const uint32_t lanes = __ballot_sync(ALL_LANES, group.live);
    if (lanes != 0 || needed) {
        const uint32_t *words = reinterpret_cast<const uint32_t *>(target.input + stream.words);
        uint32_t *staged = reinterpret_cast<uint32_t *>(dynamic) + rows.first * 4 + ROWS_BYTES / 4;
        const uint32_t staged_words = shared.layout.staged_words;
        Lookup<PAIRED> lookup(shared_address(dynamic) + book * shared.layout.table_bytes, shared.layout.own_long,
                              &shared.books[book], task.symbols);
        if (!group.live) {
            lookup.rest(shared_address(&shared.idle));
        }
        const uint32_t radius = target.record.radius, predictor = lane.predictor;
        Decoded decoded{};
        // Decodes as many groups at a time as their words fit, usually all. Reading words from device memory instead
        // would be ten times as slow, and all other warps would wait for that.
        uint32_t left = lanes;
        bool pending = true;
        do {
            const uint32_t first = left == 0 ? 0 : __shfl_sync(ALL_LANES, span.start, __ffs(left) - 1) / 32 / 4 * 4;
            const uint32_t end = span.end / 32 + 1;
            const bool fits = pending && (!group.live || (end - first < staged_words && end >= first));
            const uint32_t chosen = __ballot_sync(ALL_LANES, fits && group.live);
            if (left != 0 && chosen == 0) {
                break;
            }
            if (chosen != 0) {
                stage(staged, words, first, __shfl_sync(ALL_LANES, end, 31 - __clz(chosen)) + 1);
            }
            // In a valid stream no group starts before the first one.
            const uint32_t from = span.start - first * 32;
            const uint32_t begin = group.live && from < staged_words * 32 ? from : 0;
#if APART
            // The whole warp writes rows to device memory; lanes whose turn it is not take part without data.
            Lookup<PAIRED> own_lookup = lookup;
            Rows own_rows = rows;
            if (!fits) {
                own_lookup.rest(shared_address(&shared.idle));
                own_rows.group = ALL_LANES;
            }
            const Decoded found = decode(own_lookup, Near(staged, begin / 32), begin, radius, predictor, own_rows);
            decoded = fits ? found : decoded;
#else
            if (fits) {
                decoded = decode(lookup, Near(staged, begin / 32), begin, radius, predictor, rows);
            }
#endif
            if (fits) {
                decoded.end += (first - shared_address(staged) / 4) * 32;
                pending = false;
            }
            left &= ~chosen;
            __syncwarp();
        } while (left != 0);
        if (pending) {
            // The length exceeds that of any valid group.
            problems |= STATUS_INDEX;
            group.live = false;
        }
        problems |= group.live && decoded.end != span.end ? STATUS_INDEX : 0;
        const uint32_t sum = warp_reduce_sum(group.live ? decoded.sum : 0);
        const uint32_t weighted = warp_reduce_sum(group.live ? decoded.weighted + group.rank * CODES * decoded.sum : 0);
        if (lane_id() == 0) {
            atomicAdd(&shared.sum, sum);
            atomicAdd(&shared.weighted, weighted);
        }
        __syncwarp();
    }
    if (__any_sync(ALL_LANES, problems != 0)) {
        problems = warp_reduce_or(problems);
        if (lane_id() == 0) {
            atomicOr(&task.status[target.chunk], problems);
        }
    }
    return lanes != 0;
}

// Location of symbols while tables are built, and of tables of single codewords: at the end of the block's shared
// memory, where warps have rows later.
constexpr uint32_t NEAR_BYTES = BOOKS * MOST_SYMBOLS * 2, SINGLES_BYTES = TABLE * sizeof(Single);
__device__ inline uint8_t *last_bytes(uint32_t dynamic_bytes, uint32_t bytes) {
    return reinterpret_cast<uint8_t *>(dynamic) + dynamic_bytes / 16 * 16 - bytes;
}
__device__ inline uint16_t *near_symbols(uint32_t dynamic_bytes) {
    return reinterpret_cast<uint16_t *>(last_bytes(dynamic_bytes, NEAR_BYTES));
}

// Copies the codebooks' symbols to shared memory. Called by the threads from number FIRST on.
template <uint32_t FIRST>
__device__ inline void bring_symbols(uint16_t *near, const Shared &shared, uint32_t books, const uint16_t *symbols) {
    constexpr uint32_t OWN = (BOOKS * MOST_SYMBOLS + THREADS - FIRST - 1) / (THREADS - FIRST);
    uint16_t own[OWN];
    // All loads precede the first store, so that they wait for memory once.
#pragma unroll
    for (uint32_t i = 0; i < OWN; ++i) {
        const uint32_t at = threadIdx.x - FIRST + i * (THREADS - FIRST), number = min_of(at / MOST_SYMBOLS, BOOKS - 1);
        const CodebookDescriptor &book = shared.books[number];
        own[i] = at < books * MOST_SYMBOLS && at % MOST_SYMBOLS < book.symbol_count
                     ? symbols[book.symbols + at % MOST_SYMBOLS]
                     : 0;
    }
#pragma unroll
    for (uint32_t i = 0; i < OWN; ++i) {
        const uint32_t at = threadIdx.x - FIRST + i * (THREADS - FIRST);
        if (at < BOOKS * MOST_SYMBOLS) {
            near[at] = own[i];
        }
    }
}

// Builds the tables of all codebooks in shared memory. Called by the whole block.
template <bool PAIRED>
__device__ __noinline__ void make_tables(uint8_t *to, const uint16_t *near, const Shared &shared, uint32_t books,
                                         const uint16_t *symbols) {
    typedef typename Entries<PAIRED>::Entry Entry;
    const uint32_t bytes = shared.layout.table_bytes, own_long = shared.layout.own_long;
    const BookSymbols all{symbols, near};
    make_long(to + TABLE * sizeof(Entry), bytes, own_long, shared.books, books, all);
    if (!PAIRED) {
        make_singles(reinterpret_cast<Single *>(to), bytes / sizeof(Single), shared.books, 0, books, all);
        return;
    }
    Single *singles = reinterpret_cast<Single *>(const_cast<uint16_t *>(near)) - TABLE;
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

// Starts copying the tables that parsing has built to shared memory. Called by the whole block.
template <bool PAIRED>
__device__ inline void fetch_tables(uint8_t *to, const Shared &shared, uint32_t dynamic_bytes, uint32_t books,
                                    const uint16_t *symbols) {
    typedef typename Entries<PAIRED>::Entry Entry;
    const uint32_t bytes = shared.layout.table_bytes;
    // At the end of the block's shared memory, where warps have rows later.
    Single *singles = reinterpret_cast<Single *>(last_bytes(dynamic_bytes, BOOKS * SINGLES_BYTES));
    constexpr uint32_t SHORT_UNITS = SINGLES_BYTES / 16;
    const uint32_t units = SHORT_UNITS + shared.layout.own_long * uint32_t(sizeof(Single)) / 16;
    for (uint32_t i = threadIdx.x; i < books * units; i += THREADS) {
        const uint32_t number = i / units, unit = i - number * units;
        const CodebookDescriptor &book = shared.books[number];
        uint4 *own = reinterpret_cast<uint4 *>(to + number * bytes);
        if (PAIRED) {
            own = unit < SHORT_UNITS ? reinterpret_cast<uint4 *>(singles + number * TABLE)
                                     : own + (TABLE * sizeof(Entry) / 16 - SHORT_UNITS);
        }
        if (book.longest != 0) {
            copy_async(own + unit, reinterpret_cast<const uint4 *>(symbols + book.symbols + TABLES_AT) + unit);
        }
    }
}

// Waits for the copied tables and builds tables with pairs of symbols from them. Called by the whole block.
template <bool PAIRED>
__device__ inline void finish_tables(uint8_t *to, const Shared &shared, uint32_t dynamic_bytes, uint32_t books) {
    typedef typename Entries<PAIRED>::Entry Entry;
    const uint32_t bytes = shared.layout.table_bytes;
    const Single *singles = reinterpret_cast<const Single *>(last_bytes(dynamic_bytes, BOOKS * SINGLES_BYTES));
    wait_for_copies();
    if (PAIRED) {
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < books * TABLE; i += THREADS) {
            const uint32_t number = i / TABLE;
            if (shared.books[number].longest != 0) {
                reinterpret_cast<Entry *>(to + number * bytes)[i % TABLE] =
                    paired_entry(singles + number * TABLE, i % TABLE);
            }
        }
    }
}

// A unit that the warp has drawn: the number of the lane's tile, or NONE, and the results of parsing for it.
struct Drawn {
    uint32_t draw, number;
    Found found;

    // Draws the next unit. It is not drawn before the previous one is complete, because other warps may be idle.
    __device__ inline void next(const Shared &shared, const Task &task, uint32_t chunk) {
        number = NONE;
        draw = 0;
        if (lane_id() == 0) {
            draw = atomicAdd(shared.draws, 1u);
        }
        draw = __shfl_sync(ALL_LANES, draw, 0);
        if (draw < shared.layout.units) {
            const Draw own(draw, shared.layout.live_units, shared.layout.units - shared.layout.live_units);
            const Items &items = shared.items;
            const uint32_t entry = own.number * (own.is_constant ? WARP : TILES) + lane_id();
            if (own.is_constant ? entry < items.constant : lane_id() < TILES && entry < items.live) {
                const uint32_t place = entry + (own.is_constant ? items.first_constant : items.first_live);
                number = shared.record.kind == KIND_RAW
                             ? place
                             : task.parsed.order[uint64_t(chunk) * task.parsed.tiles + place];
            }
        }
        found = find_tile(task.parsed, chunk, number, number != NONE && shared.record.kind != KIND_RAW);
    }
};

// Returns the layout for a chunk's stream. `items` are the tiles of this block.
template <bool PAIRED>
__device__ inline Layout layout_of(const StreamDescriptor &stream, const Items &items, uint32_t books,
                                   uint32_t dynamic_bytes) {
    Layout layout;
    layout.own_long = books == 1 ? OWN_LONG : OWN_LONG_MANY;
    layout.table_bytes = Lookup<PAIRED>::bytes(layout.own_long);
    // As many warps as have room for their input; after the last warp's input there is space for what a damaged stream
    // may read.
    const uint32_t tables_words = books * layout.table_bytes / 4;
    const uint32_t room = dynamic_bytes / 4 - tables_words - MOST_GROUP_WORDS;
    layout.warps =
        max_of<uint32_t>(1, min_of<uint32_t>(THREADS / WARP, room / (ROWS_BYTES / 4 + words_wanted(stream))));
    layout.staged_words = (room / layout.warps - ROWS_BYTES / 4) / 4 * 4;
    layout.first = tables_words / 4;
    layout.stride = (ROWS_BYTES / 4 + layout.staged_words) / 4;
    layout.live_units = items.live_units();
    layout.units = layout.live_units + items.constant_units();
    return layout;
}

// Draws units of a chunk and writes them until none is left. Called by the whole block.
template <bool PAIRED> __device__ inline void write_chunk(Shared &shared, const Task &task, const Target &target) {
    uint8_t *tables = reinterpret_cast<uint8_t *>(dynamic);
    const uint32_t books = min_of<uint32_t>(shared.stream.codebooks, BOOKS);
    const bool has_tables = shared.items.live != 0, fetched = has_tables && !WIDE && task.request.tabled != 0;
    if (fetched) {
        fetch_tables<PAIRED>(tables, shared, task.request.dynamic_bytes, books, task.symbols);
    }
    // The first unit is drawn and its tiles are looked up while tables are being copied.
    Drawn drawn{ALL_LANES, NONE, {}};
    if (warp_id() < shared.layout.warps) {
        drawn.next(shared, task, target.chunk);
    }
    if (fetched) {
        finish_tables<PAIRED>(tables, shared, task.request.dynamic_bytes, books);
    } else if (has_tables) {
        make_tables<PAIRED>(tables, near_symbols(task.request.dynamic_bytes), shared, books, task.symbols);
    }
    __syncthreads();
    while (drawn.draw < shared.layout.units) {
        const Draw draw(drawn.draw, shared.layout.live_units, shared.layout.units - shared.layout.live_units);
        const bool wanted = drawn.number != NONE;
        const Work work =
            work_of(task.geometry, task.request, shared.start, wanted ? drawn.number : 0, wanted, drawn.found);
        Rows rows{shared.layout.first + warp_id() * shared.layout.stride};
#if APART
        const Lane lane(work, work.wanted ? lane_id() : NONE);
        rows.to = reinterpret_cast<uint4 *>(task.rows + uint64_t(target.chunk) * task.parsed.slots * CODES);
        rows.group = lane.exists ? lane.number : ALL_LANES;
        decode_tiles<PAIRED>(shared, task, lane, true, target, rows);
#if !WIDE
        __syncwarp();
        for (uint32_t to_sum = __ballot_sync(ALL_LANES, work.wanted && !work.is_regular()); to_sum != 0;
             to_sum &= to_sum - 1) {
            const uint32_t slot = __ffs(to_sum) - 1, group = __shfl_sync(ALL_LANES, work.first_group, slot);
            sum_clipped(reinterpret_cast<uint16_t *>(rows.to + uint64_t(group) * ROW_UNITS), work.of(slot));
        }
#endif
#else
        if (!draw.is_constant) {
            write_live(rows, work, target, [&](uint32_t slots, bool needed) {
                return decode_tiles<PAIRED>(shared, task, Lane(work, slots), needed, target, rows);
            });
        } else if (shared.record.kind == KIND_RAW) {
            write_raw(work, target);
        } else {
            write_constant(rows, work, target);
        }
#endif
        drawn.next(shared, task, target.chunk);
    }
}
