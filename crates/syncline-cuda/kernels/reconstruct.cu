// From parsed chunks to elements, in one kernel.
//
// A block takes a part of a chunk; its warps draw units of it: TILES consecutive tiles, 32 groups of codes. Each lane decodes a group (FUSED: codewords to symbols with
// the symbol index; else symbols that were decoded before) and adds up residuals inside of it (reconstruct_rows.cuh); then the warp writes its tiles
// (reconstruct_elements.cuh). Nothing waits for another warp.
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
    uint32_t whole;              // 0: nothing is to be checked
};

// The tile that a lane's group belongs to.
__device__ inline Work work_of(const Geometry &geometry, const Parsed &parsed, const Request &request, uint32_t chunk, uint32_t unit, bool raw) {
    const uint64_t first = geometry.first_tile(request.first_chunk + chunk);
    const uint32_t number = unit * TILES + lane_id() / TILE_GROUPS;
    const uint64_t absolute = first + number;
    Work work;
    work.wanted = number < geometry.chunk_tiles && absolute < geometry.tiles && absolute >= request.tiles_start && absolute < request.tiles_end;
    const Tile tile = geometry.tile(work.wanted ? absolute : first);
    work.number = work.wanted ? number : 0;
    work.first_element = tile.first_element - request.first_element;
    work.position = uint32_t(tile.elements_before - geometry.elements_before(first));
    work.nz = tile.nz;
    work.ny = tile.ny;
    work.nx = tile.nx;
    work.meta = 1;
    work.base = 0;
    if (work.wanted && !raw) {
        const uint64_t entry = uint64_t(chunk) * parsed.tiles + number;
        work.meta = parsed.metas[entry];
        work.base = parsed.bases[entry];
    }
    // A constant tile's sums are 0 along any axes: those that need least are chosen.
    work.predictor = meta_constant(work.meta) ? (work.is_unclipped() ? 3 : 0) : meta_predictor(work.meta);
    return work;
}

// What is left to do once the rows are there.
__device__ inline void write(const Rows &rows, const Work &work, const Target &target, bool any_live) {
    bool plain = !work.wanted || work.is_plain();
    if (target.record.outliers != 0 && work.wanted) {
        const uint32_t *starts = target.parsed.outlier_starts + uint64_t(target.chunk) * (target.parsed.tiles + 1) + work.number;
        plain = plain && starts[0] == starts[1];
    }
    plain = __all_sync(ALL_LANES, plain);
    if (plain && !any_live) {
        write_plain<true>(rows, work, target);
    } else if (plain) {
        write_plain<false>(rows, work, target);
    } else {
        // Tiles that an edge clips.
        uint32_t clipped = AXES == 1 ? 0 : __ballot_sync(ALL_LANES, work.wanted && !work.is_unclipped() && !meta_constant(work.meta) && lane_id() % TILE_GROUPS == 0);
        while (clipped != 0) {
            const uint32_t lane = __ffs(clipped) - 1;
            clipped &= clipped - 1;
            const Work tile = work.of(lane);
            spread(rows, lane / TILE_GROUPS, tile.nz, tile.ny, tile.nx, tile.predictor);
        }
        write_any(rows, work, target);
    }
    if (target.record.verbatim != 0) {
        write_verbatim(work, target);
    }
    __syncwarp();
}

// The predictor that a lane adds up its group by: tiles that an edge clips are added up later.
__device__ inline uint32_t summed_by(const Work &work) { return AXES == 1 || work.is_unclipped() ? work.predictor : 0; }

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

__device__ inline Group group_of_lane(const uint8_t *input, const Parsed &parsed, const Stream &stream, const Work &work, uint32_t chunk) {
    const uint32_t own = lane_id() % TILE_GROUPS;
    Group group{0, work.wanted && !meta_constant(work.meta) && own * CODES < work.nz * work.ny * work.nx};
    if (group.live) {
        const uint32_t number = parsed.first_groups[uint64_t(chunk) * parsed.tiles + work.number] + own;
        group.rank = number;
        group.live = number < stream.groups;
        if (group.live && stream.has_free) {
            const uint32_t word = reinterpret_cast<const uint32_t *>(input + stream.bitmap)[number / 32], bit = number % 32;
            group.live = !(word >> bit & 1);
            group.rank = parsed.ranks[uint64_t(chunk) * parsed.rank_stride + number / 32] + __popc(~word & ((1u << bit) - 1));
        }
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
    uint32_t next, wide, paired;
};

// Whether any symbol needs wide sums. By the whole block.
__device__ inline bool needs_wide(const Shared &shared, uint32_t radius, const uint16_t *symbols) {
    bool wide = radius != RADIUS;
    for (uint32_t book = 0; book < shared.stream.books && book < BOOKS; ++book) {
        const Book &code = shared.books[book];
        wide |= code.symbol_count > MOST_SYMBOLS;
        for (uint32_t i = threadIdx.x; i < min_of(code.symbol_count, MOST_SYMBOLS); i += THREADS) {
            wide |= symbols[code.symbols + i] >= MOST_SYMBOLS;
        }
    }
    return __syncthreads_or(wide);
}

// A unit of TILES tiles. Returns what is wrong.
template <bool PAIRED>
__device__ inline uint32_t decode_unit(const Shared &shared, const uint32_t *tables, uint32_t table_words, uint32_t own_long, const uint16_t *symbols,
                                       const Work &work, const Target &target, const Rows &rows, uint32_t *staged, uint32_t staged_words, Checksum &checksum,
                                       bool &any_live) {
    const Stream &stream = shared.stream;
    const uint32_t *words = reinterpret_cast<const uint32_t *>(target.input + stream.words);
    uint32_t problems = 0;
    Group group = group_of_lane(target.input, target.parsed, stream, work, target.chunk);
    const uint32_t book = min_of(stream.books == 1 ? 0 : meta_class(work.meta), stream.books - 1);
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
    if (lanes == 0 && __all_sync(ALL_LANES, !work.wanted || work.is_plain())) {
        return problems;
    }
    uint32_t first = 0, last = 0;
    if (lanes != 0) {
        first = __shfl_sync(ALL_LANES, start, __ffs(lanes) - 1) / 32 / 4 * 4;
        last = __shfl_sync(ALL_LANES, end, 31 - __clz(lanes)) / 32 + 1;
    }
    start = group.live ? start : first * 32;
    const Lookup<PAIRED> lookup(tables + book * table_words, own_long, &shared.books[book], symbols);
    const uint32_t radius = target.record.radius, predictor = summed_by(work);
    uint32_t position;
    if (last - first < staged_words && last >= first) {
        if (lanes != 0) {
            stage(staged, words, first, last + 1);
        }
        // A start that is not behind the first one is none of a stream that is right.
        const uint32_t near = start - first * 32;
        position = first * 32 + decode(lookup, Near{staged}, near < staged_words * 32 ? near : 0, group.live, radius, predictor, rows, checksum, group.rank);
    } else {
        position = decode(lookup, Far{words, ceil_div(stream.bits, 32) + 1}, start, group.live, radius, predictor, rows, checksum, group.rank);
    }
    if (group.live && position != end) {
        problems |= STATUS_INDEX;
    }
    __syncwarp();
    return problems;
}

template <bool PAIRED>
__device__ inline void load_own_tables(uint32_t *to, const uint32_t *from, uint32_t entries_for_long, const Book &book) {
    for (uint32_t i = threadIdx.x; i < TABLE; i += THREADS) {
        to[i] = own_entry<PAIRED>(from[i], book);
    }
    load_words(to + TABLE, from + TABLE, entries_for_long);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    reconstruct(const uint8_t *input, const __grid_constant__ Geometry geometry, const __grid_constant__ Parsed parsed, const __grid_constant__ Values values,
                const __grid_constant__ Request request, const Stream *streams, const Book *books, const uint32_t *tables, const uint16_t *symbols,
                uint32_t *sums, uint32_t *status, Element *out) {
    extern __shared__ uint4 dynamic[];
    __shared__ Shared shared;
    const uint32_t chunk = blockIdx.x / request.parts, part = blockIdx.x % request.parts;
    const ParsedChunk &record = parsed.chunks[chunk];
    const uint64_t first_tile = geometry.first_tile(request.first_chunk + chunk), end_tile = geometry.first_tile(request.first_chunk + chunk + 1);
    const uint32_t units = ceil_div(uint32_t(end_tile - first_tile), TILES), per_part = ceil_div(units, request.parts);
    const uint32_t end = min_of(units, (part + 1) * per_part);
    const bool outside = first_tile + uint64_t(end) * TILES <= request.tiles_start || first_tile + uint64_t(part) * per_part * TILES >= request.tiles_end;
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
    if (needs_wide(shared, record.radius, symbols) != (WIDE != 0)) {
        return;
    }
    if (threadIdx.x == 0) {
        float share = 0;
        for (uint32_t book = 0; book < book_count; ++book) {
            share += paired_share(shared.books[book]);
        }
        shared.paired = !WIDE && share >= PAIRED_PERCENT * 0.01f * float(book_count);
    }
    __syncthreads();
    const bool paired = shared.paired;
    const uint32_t own_long = book_count == 1 ? OWN_LONG : OWN_LONG_MANY, table_words = TABLE + own_long;
    uint32_t *own_tables = reinterpret_cast<uint32_t *>(dynamic);
    for (uint32_t book = 0; book < book_count; ++book) {
        if (shared.books[book].longest != 0) {
            const uint32_t *from = tables + uint64_t(stream.first_book + book) * BOOK_WORDS;
            if (paired) {
                load_own_tables<true>(own_tables + book * table_words, from, own_long, shared.books[book]);
            } else {
                load_own_tables<false>(own_tables + book * table_words, from, own_long, shared.books[book]);
            }
        }
    }
    __syncthreads();
    // As many warps as have room for their input; behind the last one's there is room for what a damaged stream may read.
    const uint32_t room = request.dynamic_bytes / 4 - book_count * table_words - MOST_GROUP_WORDS;
    const uint32_t wanted = words_wanted(stream);
    const uint32_t warps = max_of<uint32_t>(1, min_of<uint32_t>(THREADS / WARP, room / (ROWS_BYTES / 4 + wanted)));
    const uint32_t staged_words = (room / warps - ROWS_BYTES / 4) / 4 * 4;
    uint32_t *own = own_tables + book_count * table_words + warp_id() * (ROWS_BYTES / 4 + staged_words);
    const Rows rows{reinterpret_cast<uint4 *>(own)};
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
        uint32_t *staged = own + ROWS_BYTES / 4;
        bool any_live;
#if WIDE
        problems |= decode_unit<false>(shared, own_tables, table_words, own_long, symbols, work, target, rows, staged, staged_words, checksum, any_live);
#else
        problems |= paired ? decode_unit<true>(shared, own_tables, table_words, own_long, symbols, work, target, rows, staged, staged_words, checksum, any_live)
                           : decode_unit<false>(shared, own_tables, table_words, own_long, symbols, work, target, rows, staged, staged_words, checksum, any_live);
#endif
        write(rows, work, target, any_live);
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
            rows.units[slot(row, ROW_UNITS - UNITS + unit)] = __ldcs(reinterpret_cast<const uint4 *>(codes + uint64_t(from) * CODES) + unit);
        }
    }
    __syncwarp();
}

// A warp a unit of TILES tiles. `codes` has room for parsed.slots groups for each chunk.
extern "C" __global__ void __launch_bounds__(THREADS)
    reconstruct_codes(const uint8_t *input, const __grid_constant__ Geometry geometry, const __grid_constant__ Parsed parsed, const __grid_constant__ Values values,
                      const __grid_constant__ Request request, const uint16_t *codes, Element *out) {
    extern __shared__ uint4 dynamic[];
    const Rows rows{dynamic + warp_id() * (ROWS_BYTES / 16)};
    const uint32_t units = ceil_div(geometry.chunk_tiles, TILES);
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
    const uint32_t own = lane_id() % TILE_GROUPS;
    bool live = work.wanted && !meta_constant(work.meta) && own * CODES < work.nz * work.ny * work.nx;
    const uint32_t group = live ? parsed.first_groups[uint64_t(chunk) * parsed.tiles + work.number] + own : 0;
    live = live && group < parsed.slots;
    const bool any_live = __any_sync(ALL_LANES, live);
    if (any_live || !__all_sync(ALL_LANES, !work.wanted || work.is_plain())) {
        load_codes(rows, codes + uint64_t(chunk) * parsed.slots * CODES, group, live);
        Summing summing(record.radius, summed_by(work));
        const uint32_t free = record.radius * 0x10001u;
#pragma unroll 1
        for (uint32_t eight = 0; eight < EIGHTS; ++eight) {
            // Units of sums only reach those of codes that were read before.
            const uint4 here = live ? rows.units[slot(lane_id(), ROW_UNITS - EIGHTS + eight)] : make_uint4(free, free, free, free);
            summing.add(here, eight, rows);
        }
        __syncwarp();
    }
    write(rows, work, target, any_live);
}
#endif
