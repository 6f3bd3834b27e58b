// From parsed chunks to elements, in one kernel.
//
// A block takes a part of a chunk; its warps draw units of it: some consecutive tiles, each looked after by a lane at first. Constant tiles are written at once. Of the
// others a warp takes TILES at a time, which have 32 groups of codes at most: each lane decodes a group (FUSED: codewords to symbols with the symbol index; else
// symbols that were decoded before) and adds up residuals inside of it (reconstruct_rows.cuh); then the warp writes the tiles (reconstruct_elements.cuh). Nothing
// waits for another warp.
//
// FUSED    codes are decoded here
// OWN_LONG entries for long codewords in a block's tables, with one codebook and with several (OWN_LONG_MANY)
// THREADS  threads in a block
#include "reconstruct_elements.cuh"
#if FUSED
#include "reconstruct_decode.cuh"
#endif

// What a launch is asked for; mirrored in reconstruct/launch.rs.
struct Request {
    uint64_t first_chunk;        // of the batch
    uint64_t tiles_start, tiles_end;
    uint64_t first_element;      // that the slab starts with
    uint32_t parts;              // blocks for each chunk
    uint32_t dynamic_bytes;      // of shared memory
    uint32_t vectors;
    uint32_t unit;               // tiles that a warp draws, a multiple of TILES and WARP at most
};

// A lane's tile of a unit.
__device__ inline Work work_of(const Geometry &geometry, const Parsed &parsed, const Request &request, uint32_t chunk, uint32_t unit, bool raw) {
    const uint64_t first = geometry.first_tile(request.first_chunk + chunk);
    const uint32_t number = unit * request.unit + lane_id();
    const uint64_t absolute = first + number;
    Work work;
    work.wanted = lane_id() < request.unit && number < geometry.chunk_tiles && absolute < geometry.tiles && absolute >= request.tiles_start &&
                  absolute < request.tiles_end;
    const Tile tile = geometry.tile(work.wanted ? absolute : first);
    work.number = work.wanted ? number : 0;
    work.first_element = tile.first_element - request.first_element;
    work.position = uint32_t(tile.elements_before - geometry.elements_before(first));
    work.nz = tile.nz;
    work.ny = tile.ny;
    work.nx = tile.nx;
    work.meta = 1;
    work.base = 0;
    work.first_group = 0;
    if (work.wanted && !raw) {
        const uint64_t entry = uint64_t(chunk) * parsed.tiles + number;
        work.meta = parsed.metas[entry];
        work.base = parsed.bases[entry];
        work.first_group = parsed.first_groups[entry];
    }
    work.predictor = meta_constant(work.meta) ? 0 : meta_predictor(work.meta);
    return work;
}

// The places of the `count` lowest bits of a mask, which are taken from it: lane `i` gets that of the bit number `i`, or NONE.
__device__ inline uint32_t take(uint32_t &mask, uint32_t count) {
    uint32_t own = NONE;
    for (uint32_t i = 0; i < count; ++i) {
        own = lane_id() == i ? __ffs(mask) - 1 : own;
        mask &= mask - 1;
    }
    return own;
}

// Writes a warp's tiles. `produce(slots, needed)` makes the rows of up to TILES tiles, and says whether any of their groups has codewords; if none has and the rows are
// not needed, it may leave them.
template <typename Produce> __device__ inline void write(const Rows &rows, const Work &own, const Target &target, Produce produce) {
    const bool constant = meta_constant(own.meta);
    bool plain = own.is_plain();
    if (target.record.outliers != 0 && own.wanted && !constant) {
        const uint32_t *starts = target.parsed.outlier_starts + uint64_t(target.chunk) * (target.parsed.tiles + 1) + own.number;
        plain = plain && starts[0] == starts[1];
    }
    const uint32_t constants = __ballot_sync(ALL_LANES, own.wanted && constant), plains = __ballot_sync(ALL_LANES, own.wanted && plain);
    const uint32_t full = __ballot_sync(ALL_LANES, own.predictor >= AXES && own.is_unclipped()), irregular = __ballot_sync(ALL_LANES, !own.is_regular());
    uint32_t live = __ballot_sync(ALL_LANES, own.wanted && !constant);
    for (uint32_t first = 0; first < WARP; first += TILES) {
        const uint32_t flat = (constants & plains) >> first & ((1u << TILES) - 1);
        if (flat != 0) {
            write_plain<Ways::FLAT>(rows, own, lane_id() < TILES && flat >> lane_id() & 1 ? first + lane_id() : NONE, target);
        }
    }
    for (uint32_t odd = constants & ~plains; odd != 0;) {
        const uint32_t slots = take(odd, TILES);
        write_any(rows, own, slots, __ballot_sync(ALL_LANES, slots != NONE), target);
    }
    while (live != 0) {
        const uint32_t slots = take(live, TILES);
        const bool there = slots != NONE;
        const uint32_t easy = __ballot_sync(ALL_LANES, there && plains >> (slots & 31) & 1);
        const uint32_t others = __ballot_sync(ALL_LANES, there && !(plains >> (slots & 31) & 1));
        const bool any_live = produce(slots, others != 0);
        if (easy != 0) {
            const uint32_t chosen = easy >> lane_id() & 1 ? slots : NONE;
            if (!any_live) {
                write_plain<Ways::FLAT>(rows, own, chosen, target);
            } else if (__all_sync(ALL_LANES, chosen == NONE || full >> (chosen & 31) & 1)) {
                write_plain<Ways::FULL>(rows, own, chosen, target);
            } else {
                write_plain<Ways::ANY>(rows, own, chosen, target);
            }
        }
        if (others != 0) {
            uint32_t to_spread = AXES == 1 ? 0 : __ballot_sync(ALL_LANES, there && irregular >> (slots & 31) & 1);
            for (; to_spread != 0; to_spread &= to_spread - 1) {
                const uint32_t slot = __ffs(to_spread) - 1;
                const Work tile = own.of(__shfl_sync(ALL_LANES, slots, slot));
                spread(rows, slot, tile.nz, tile.ny, tile.nx, tile.predictor);
            }
            write_any(rows, own, slots, others, target);
        }
        __syncwarp();
    }
    if (target.record.verbatim != 0) {
        write_verbatim(own, target);
    }
}

// A lane's group when rows are made.
struct Lane {
    uint32_t number; // of the group in the chunk
    bool exists;
    uint32_t predictor; // to add up by: tiles that an edge clips are added up later
    uint32_t meta;

    __device__ inline Lane(const Work &own, uint32_t slots) {
        const uint32_t source = __shfl_sync(ALL_LANES, slots, lane_id() / TILE_GROUPS), group = lane_id() % TILE_GROUPS;
        const uint32_t first_group = __shfl_sync(ALL_LANES, own.first_group, source);
        const uint32_t packed = __shfl_sync(ALL_LANES, own.meta & 0x7FFF | (own.is_regular() ? 0x8000u : 0) | (own.nz * own.ny * own.nx) << 16, source);
        const uint32_t elements = packed >> 16;
        meta = packed & 0x7FFF;
        exists = source != NONE && group * CODES < elements;
        number = first_group + group;
        predictor = AXES == 1 || packed & 0x8000 ? meta_predictor(meta) : 0;
    }
};

#if FUSED
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

// Decodes a lane's group to its row. Lanes without one get the sums of free groups.
template <bool PAIRED, typename Words>
__device__ inline uint32_t decode(const Lookup<PAIRED> &lookup, Words words, uint32_t start, bool live, uint32_t radius, uint32_t predictor, const Rows &rows,
                                  Checksum &checksum, uint32_t rank) {
    BitReader<Words> reader(words, start);
    Summing summing(radius, predictor);
    uint32_t sum = 0, weighted = 0;
    const uint32_t free = radius * 0x10001u;
#pragma unroll 1
    for (uint32_t eight = 0; eight < EIGHTS; ++eight) {
        uint4 codes = make_uint4(free, free, free, free);
        if (live) {
            codes.x = lookup.two(reader);
            codes.y = lookup.two(reader);
            codes.z = lookup.two(reader);
            codes.w = lookup.two(reader);
        }
        Checksum own{0, 0};
        own.add(codes, eight * 8);
        sum += own.sum;
        weighted += own.weighted;
        summing.add(codes, eight, rows);
    }
    if (live) {
        checksum.sum += sum;
        checksum.weighted += weighted + rank * CODES * sum;
    }
    return reader.position;
}

// What a block shares.
struct Shared {
    Stream stream;
    Book books[BOOKS];
    uint32_t next, paired;
};

// Whether any symbol needs wide sums. By the whole block.
__device__ inline bool needs_wide(const Shared &shared, uint32_t radius, const uint16_t *symbols) {
    bool wide = radius != RADIUS;
    const uint32_t books = min_of<uint32_t>(shared.stream.books, BOOKS);
#pragma unroll 4
    for (uint32_t i = threadIdx.x; i < books * MOST_SYMBOLS; i += THREADS) {
        const Book &code = shared.books[i / MOST_SYMBOLS];
        wide |= code.symbol_count > MOST_SYMBOLS;
        if (i % MOST_SYMBOLS < code.symbol_count) {
            wide |= symbols[code.symbols + i % MOST_SYMBOLS] >= MOST_SYMBOLS;
        }
    }
    return __syncthreads_or(wide);
}

// Makes the rows of TILES tiles. Returns what is wrong.
template <bool PAIRED>
__device__ inline uint32_t decode_tiles(const Shared &shared, const uint32_t *tables, uint32_t table_words, uint32_t own_long, const uint16_t *symbols,
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
    const Lookup<PAIRED> lookup(tables + book * table_words, own_long, &shared.books[book], symbols);
    const uint32_t radius = target.record.radius, predictor = lane.predictor;
    uint32_t position;
    if (last - first < staged_words && last >= first) {
        if (lanes != 0) {
            stage(staged, words, first, last + 1);
        }
        // A start that is not behind the first one is none of a stream that is right.
        const uint32_t near = start - first * 32;
        const uint32_t begin = near < staged_words * 32 ? near : 0;
        position = first * 32 + decode(lookup, Near(staged, begin / 32), begin, group.live, radius, predictor, rows, checksum, group.rank);
    } else {
        position = decode(lookup, Far(words, start / 32, ceil_div(stream.bits, 32) + 1), start, group.live, radius, predictor, rows, checksum, group.rank);
    }
    if (group.live && position != end) {
        problems |= STATUS_INDEX;
    }
    __syncwarp();
    return problems;
}

// Brings the tables of all codebooks to shared memory. By the whole block.
template <bool PAIRED>
__device__ inline void load_own_tables(uint32_t *to, const uint32_t *from, uint32_t own_long, const Shared &shared, uint32_t books) {
    const uint32_t units = TABLE / 4, all = units + own_long / 4;
#pragma unroll 4
    for (uint32_t i = threadIdx.x; i < books * all; i += THREADS) {
        const uint32_t number = i / all, unit = i - number * all;
        const Book &book = shared.books[number];
        if (book.longest != 0) {
            uint4 entries = reinterpret_cast<const uint4 *>(from + uint64_t(shared.stream.first_book + number) * BOOK_WORDS)[unit];
            if (unit < units) {
                entries.x = own_entry<PAIRED>(entries.x, book);
                entries.y = own_entry<PAIRED>(entries.y, book);
                entries.z = own_entry<PAIRED>(entries.z, book);
                entries.w = own_entry<PAIRED>(entries.w, book);
            }
            reinterpret_cast<uint4 *>(to)[i] = entries;
        }
    }
}

// Runs with WIDE 0 first, which notes for each chunk in `wide` whether it is one for the other.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    reconstruct(const uint8_t *input, const __grid_constant__ Geometry geometry, const __grid_constant__ Parsed parsed, const __grid_constant__ Values values,
                const __grid_constant__ Request request, const Stream *streams, const Book *books, const uint32_t *tables, const uint16_t *symbols,
                uint32_t *sums, uint32_t *status, uint32_t *wide, Element *out) {
    __shared__ Shared shared;
    const uint32_t chunk = blockIdx.x / request.parts, part = blockIdx.x % request.parts;
    const ParsedChunk &record = parsed.chunks[chunk];
    const uint64_t first_tile = geometry.first_tile(request.first_chunk + chunk), end_tile = geometry.first_tile(request.first_chunk + chunk + 1);
    const uint32_t units = ceil_div(uint32_t(end_tile - first_tile), request.unit), per_part = ceil_div(units, request.parts);
    const uint32_t end = min_of(units, (part + 1) * per_part);
    const bool outside = first_tile + uint64_t(end) * request.unit <= request.tiles_start ||
                         first_tile + uint64_t(part) * per_part * request.unit >= request.tiles_end;
    if (record.status != 0 || part * per_part >= end || outside) {
        return;
    }
    const Target target{input, parsed, record, values, geometry, chunk, request.vectors != 0, out};
    if (threadIdx.x == 0) {
        shared.next = part * per_part;
    }
    if (record.kind == CHUNK_RAW) {
#if !WIDE
        for (uint32_t unit = part * per_part + warp_id(); unit < end; unit += THREADS / WARP) {
            write_raw(work_of(geometry, parsed, request, chunk, unit, true), target);
        }
#endif
        return;
    }
#if WIDE
    if (!wide[chunk]) {
        return;
    }
#endif
    if (threadIdx.x < sizeof(Stream) / 4) {
        reinterpret_cast<uint32_t *>(&shared.stream)[threadIdx.x] = reinterpret_cast<const uint32_t *>(&streams[chunk])[threadIdx.x];
    }
    __syncthreads();
    const Stream &stream = shared.stream;
    const uint32_t book_count = min_of<uint32_t>(stream.books, BOOKS);
    for (uint32_t i = threadIdx.x; i < book_count * sizeof(Book) / 4; i += THREADS) {
        reinterpret_cast<uint32_t *>(shared.books)[i] = reinterpret_cast<const uint32_t *>(&books[stream.first_book])[i];
    }
    __syncthreads();
#if !WIDE
    const bool is_wide = needs_wide(shared, record.radius, symbols);
    if (threadIdx.x == 0) {
        wide[chunk] = is_wide;
    }
    if (is_wide) {
        return;
    }
#endif
    if (threadIdx.x == 0) {
        // A lane whose lookup gives one symbol holds up the warp, whatever the other lanes' codebooks.
        float share = 1;
        for (uint32_t book = 0; book < book_count; ++book) {
            share = shared.books[book].longest == 0 ? share : min_of(share, paired_share(shared.books[book]));
        }
        shared.paired = !WIDE && share >= PAIRED_PERCENT * 0.01f;
    }
    __syncthreads();
    const bool paired = shared.paired;
    const uint32_t own_long = book_count == 1 ? OWN_LONG : OWN_LONG_MANY, table_words = TABLE + own_long;
    uint32_t *own_tables = reinterpret_cast<uint32_t *>(dynamic);
    if (paired) {
        load_own_tables<true>(own_tables, tables, own_long, shared, book_count);
    } else {
        load_own_tables<false>(own_tables, tables, own_long, shared, book_count);
    }
    __syncthreads();
    // As many warps as have room for their input; behind the last one's there is room for what a damaged stream may read.
    const uint32_t room = request.dynamic_bytes / 4 - book_count * table_words - MOST_GROUP_WORDS;
    const uint32_t wanted = words_wanted(stream);
    const uint32_t warps = max_of<uint32_t>(1, min_of<uint32_t>(THREADS / WARP, room / (ROWS_BYTES / 4 + wanted)));
    const uint32_t staged_words = (room / warps - ROWS_BYTES / 4) / 4 * 4;
    const uint32_t own = book_count * table_words + warp_id() * (ROWS_BYTES / 4 + staged_words);
    const Rows rows{own / 4};
    uint32_t *staged = own_tables + own + ROWS_BYTES / 4;
    if (warp_id() >= warps) {
        return;
    }
    Checksum checksum{0, 0};
    uint32_t problems = 0;
    while (true) {
        uint32_t unit = 0;
        if (lane_id() == 0) {
            unit = atomicAdd(&shared.next, 1u);
        }
        unit = __shfl_sync(ALL_LANES, unit, 0);
        if (unit >= end) {
            break;
        }
        const Work work = work_of(geometry, parsed, request, chunk, unit, false);
        write(rows, work, target, [&](uint32_t slots, bool needed) {
            const Lane lane(work, slots);
            bool any_live;
#if !WIDE
            if (paired) {
                problems |= decode_tiles<true>(shared, own_tables, table_words, own_long, symbols, lane, needed, target, rows, staged, staged_words, checksum,
                                               any_live);
                return any_live;
            }
#endif
            problems |= decode_tiles<false>(shared, own_tables, table_words, own_long, symbols, lane, needed, target, rows, staged, staged_words, checksum,
                                            any_live);
            return any_live;
        });
    }
    checksum.flush(&sums[2 * chunk]);
    problems = any_of(problems);
    if (problems != 0 && lane_id() == 0) {
        atomicOr(&status[chunk], problems);
    }
}

// Compares the checksums of the chunks all of whose tiles were decoded; a thread a chunk.
extern "C" __global__ void reconstruct_verify(const __grid_constant__ Geometry geometry, const __grid_constant__ Parsed parsed,
                                              const __grid_constant__ Request request, const Stream *streams, const uint32_t *sums, uint32_t *status) {
    const uint32_t chunk = blockIdx.x * blockDim.x + threadIdx.x;
    if (chunk >= parsed.chunk_count || parsed.chunks[chunk].status != 0 || parsed.chunks[chunk].kind == CHUNK_RAW) {
        return;
    }
    const uint64_t number = request.first_chunk + chunk;
    const bool whole = geometry.first_tile(number) >= request.tiles_start && geometry.first_tile(number + 1) <= request.tiles_end;
    if (whole && (sums[2 * chunk] != streams[chunk].sum || sums[2 * chunk + 1] != streams[chunk].weighted)) {
        atomicOr(&status[chunk], STATUS_CHECKSUM);
    }
}
#else
// Copies the codes of a warp's groups to the upper halves of their rows.
__device__ inline void load_codes(const Rows &rows, const uint16_t *codes, uint32_t group, bool exists) {
    constexpr uint32_t UNITS = CODES * 2 / 16, AT_ONCE = WARP / UNITS;
    for (uint32_t first = 0; first < WARP; first += AT_ONCE) {
        const uint32_t row = first + lane_id() / UNITS, unit = lane_id() % UNITS;
        const uint32_t from = __shfl_sync(ALL_LANES, exists ? group : ALL_LANES, row);
        if (from != ALL_LANES) {
            rows.unit(row, ROW_UNITS - UNITS + unit) = __ldcs(reinterpret_cast<const uint4 *>(codes + uint64_t(from) * CODES) + unit);
        }
    }
    __syncwarp();
}

// A warp a unit. `codes` has room for parsed.slots groups for each chunk.
extern "C" __global__ void __launch_bounds__(THREADS)
    reconstruct_codes(const uint8_t *input, const __grid_constant__ Geometry geometry, const __grid_constant__ Parsed parsed, const __grid_constant__ Values values,
                      const __grid_constant__ Request request, const uint16_t *codes, Element *out) {
    const Rows rows{warp_id() * (ROWS_BYTES / 16)};
    const uint32_t units = ceil_div(geometry.chunk_tiles, request.unit);
    const uint32_t chunk = blockIdx.x / request.parts;
    const uint32_t unit = blockIdx.x % request.parts * (THREADS / WARP) + warp_id();
    if (unit >= units) {
        return;
    }
    const ParsedChunk &record = parsed.chunks[chunk];
    if (record.status != 0) {
        return;
    }
    const Target target{input, parsed, record, values, geometry, chunk, request.vectors != 0, out};
    const bool raw = record.kind == CHUNK_RAW;
    const Work work = work_of(geometry, parsed, request, chunk, unit, raw);
    if (!__any_sync(ALL_LANES, work.wanted)) {
        return;
    }
    if (raw) {
        write_raw(work, target);
        return;
    }
    write(rows, work, target, [&](uint32_t slots, bool needed) {
        const Lane lane(work, slots);
        const bool exists = lane.exists && lane.number < parsed.slots;
        const bool any = __any_sync(ALL_LANES, exists);
        if (any || needed) {
            load_codes(rows, codes + uint64_t(chunk) * parsed.slots * CODES, lane.number, exists);
            Summing summing(record.radius, lane.predictor);
            const uint32_t free = record.radius * 0x10001u;
#pragma unroll 1
            for (uint32_t eight = 0; eight < EIGHTS; ++eight) {
                // Units of sums only reach those of codes that were read before.
                const uint4 here = exists ? rows.unit(lane_id(), ROW_UNITS - EIGHTS + eight) : make_uint4(free, free, free, free);
                summing.add(here, eight, rows);
            }
            __syncwarp();
        }
        return any;
    });
}
#endif
