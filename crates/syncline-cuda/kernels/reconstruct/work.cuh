// Distribution of a batch's work, and writing the tiles of a warp.
//
// Work is divided into units of TILES tiles with codes, or of WARP constant tiles; tiles of each kind are consecutive
// in a chunk's order. Constant tiles are limited by stores, the others mostly by instructions.
#pragma once
#include "reconstruct/any.cuh"

// The requested tiles of a chunk, as ranges of entries of its order.
struct Items {
    uint32_t first_live, live;
    uint32_t first_constant, constant;

    __device__ inline uint32_t live_units() const { return ceil_div(live, TILES); }
    __device__ inline uint32_t constant_units() const { return ceil_div(constant, WARP); }
    // Cost of these tiles, in constant tiles.
    __device__ inline uint32_t cost() const { return live * LIVE_COST + constant; }
};

// Returns the number of entries below `limit` among `count` ascending ones.
__device__ inline uint32_t entries_below(const uint16_t *entries, uint32_t count, uint32_t limit) {
    uint32_t low = 0, high = count;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (entries[middle] < limit) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

// Returns the requested tiles of a chunk of the batch. All tiles of a raw chunk count as constant. Those of chunks with
// token codebooks are left to reconstruct/token_codes.cu.
__device__ inline Items items_of(const Geometry &geometry, const Parsed &parsed, const Request &request,
                                 uint32_t chunk) {
    const ParsedChunk &record = parsed.chunks[chunk];
    const uint64_t first = geometry.first_tile(request.first_chunk + chunk),
                   end = geometry.first_tile(request.first_chunk + chunk + 1);
    const uint64_t start = max_of(first, request.tiles_start), stop = min_of(end, request.tiles_end);
    Items items{};
    if (record.status != 0 || record.kind == KIND_TOKEN_CODES || start >= stop) {
        return items;
    }
    const uint32_t from = uint32_t(start - first), to = uint32_t(stop - first);
    if (record.kind == KIND_RAW) {
        items.first_constant = from;
        items.constant = to - from;
        return items;
    }
    const uint16_t *order = parsed.order + uint64_t(chunk) * parsed.tiles;
    const uint32_t live = record.live_tiles;
    items.first_live = from == 0 ? 0 : entries_below(order, live, from);
    items.live = (stop == end ? live : entries_below(order, live, to)) - items.first_live;
    items.first_constant = live + from - items.first_live;
    items.constant = to - from - items.live;
    return items;
}

// The first tile of a chunk.
struct ChunkStart {
    uint64_t tile, elements_before; // number in the array
    TileCoord place;                // coordinates of the chunk's first tile
    bool has_32_bit_coords;         // as in Geometry

    __device__ inline ChunkStart() {}
    __device__ inline ChunkStart(const Geometry &geometry, uint64_t chunk)
        : tile(geometry.first_tile(chunk)), elements_before(geometry.elements_before(tile)),
          place(geometry.coord(tile)), has_32_bit_coords(geometry.has_32_bit_coords()) {}
};

// Returns the coordinates of a tile of a chunk.
__device__ inline TileCoord place_in_chunk(const Geometry &geometry, const ChunkStart &start, uint32_t number) {
    return start.has_32_bit_coords ? geometry.nearby_coord(start.place, number) : geometry.coord(start.tile + number);
}

// The results of parsing for a tile.
struct Found {
    uint32_t meta;
    int32_t base;
    uint32_t first_group;
};

// Returns the results of parsing for tile `number` of the chunk, if the tile is requested and has been parsed.
__device__ inline Found find_tile(const Parsed &parsed, uint32_t chunk, uint32_t number, bool wanted) {
    Found found{1, 0, 0};
    if (wanted) {
        const uint64_t place = uint64_t(chunk) * parsed.tiles + number;
        found = {parsed.metas[place], parsed.bases[place], parsed.first_groups[place]};
    }
    return found;
}

// Returns the work for a lane's tile, which has number `number` in the chunk.
__device__ inline Work work_of(const Geometry &geometry, const Request &request, const ChunkStart &start,
                               uint32_t number, bool wanted, const Found &found) {
    Work work;
    work.wanted = wanted;
    work.number = number;
    work.meta = found.meta;
    work.base = found.base;
    work.first_group = found.first_group;
    const Tile tile = geometry.tile(place_in_chunk(geometry, start, work.number));
    work.first_element = tile.first_element - request.first_element;
    work.position = uint32_t(tile.elements_before - start.elements_before);
    work.nz = tile.nz;
    work.ny = tile.ny;
    work.nx = tile.nx;
    work.predictor = meta_constant(work.meta) ? 0 : meta_predictor(work.meta);
    return work;
}

// Writes a warp's constant tiles.
__device__ inline void write_constant(const Rows &rows, const Work &own, const Target &target) {
    const uint32_t plains = __ballot_sync(ALL_LANES, own.wanted && own.is_plain());
    uint32_t odd = __ballot_sync(ALL_LANES, own.wanted) & ~plains;
#pragma unroll 1
    for (uint32_t first = 0; first < WARP; first += TILES) {
        if (plains >> first & ((1u << TILES) - 1)) {
            write_plain<Ways::FLAT>(
                rows, own, lane_id() < TILES && plains >> (first + lane_id()) & 1 ? first + lane_id() : NONE, target);
        }
    }
    while (odd != 0) {
        uint32_t slots = NONE;
        for (uint32_t i = 0; i < TILES; ++i) {
            slots = lane_id() == i ? __ffs(odd) - 1 : slots;
            odd &= odd - 1;
        }
        write_any(rows, own, slots, __ballot_sync(ALL_LANES, slots != NONE), target);
    }
    if (target.record.verbatim != 0) {
        write_verbatim(own, target);
    }
}

// Writes a warp's tiles that have codes, one tile for each of the first TILES lanes. `produce(slots, needed)` computes
// their rows and returns whether any of their groups has codewords. If none has and the rows are not needed, it may
// skip them.
template <typename Produce>
__device__ inline void write_live(const Rows &rows, const Work &own, const Target &target, Produce produce) {
    bool plain = own.is_plain();
    if (target.record.outliers != 0 && own.wanted) {
        const uint32_t *starts =
            target.parsed.outlier_starts + uint64_t(target.chunk) * (target.parsed.tiles + 1) + own.number;
        plain = plain && starts[0] == starts[1];
    }
    const uint32_t easy = __ballot_sync(ALL_LANES, own.wanted && plain),
                   others = __ballot_sync(ALL_LANES, own.wanted && !plain);
    const uint32_t slots = own.wanted ? lane_id() : NONE;
    const bool any_live = produce(slots, others != 0);
    if (AXES != 1 && (any_live || others != 0)) {
        for (uint32_t to_spread = __ballot_sync(ALL_LANES, own.wanted && !own.is_regular()); to_spread != 0;
             to_spread &= to_spread - 1) {
            const uint32_t slot = __ffs(to_spread) - 1;
            const Work tile = own.of(slot);
            unpack_clipped(rows, slot, tile.nz, tile.ny, tile.nx, tile.predictor);
        }
    }
    if (easy != 0) {
        const uint32_t chosen = easy >> lane_id() & 1 ? lane_id() : NONE;
        if (!any_live) {
            write_plain<Ways::FLAT>(rows, own, chosen, target);
        } else if (__all_sync(ALL_LANES, chosen == NONE || own.predictor >= AXES)) {
            write_plain<Ways::FULL>(rows, own, chosen, target);
        } else {
            write_plain<Ways::ANY>(rows, own, chosen, target);
        }
    }
    if (others != 0) {
        write_any(rows, own, slots, others, target);
    }
    __syncwarp();
    if (target.record.verbatim != 0) {
        write_verbatim(own, target);
    }
}

// The group of a lane for which rows are computed.
struct Lane {
    uint32_t number; // number of the group in the chunk
    bool exists;
    uint32_t predictor; // predictor to sum by: clipped tiles are summed later
    uint32_t meta;

    __device__ inline Lane(const Work &own, uint32_t slots) {
        const uint32_t source = __shfl_sync(ALL_LANES, slots, lane_id() / TILE_GROUPS), group = lane_id() % TILE_GROUPS;
        const uint32_t first_group = __shfl_sync(ALL_LANES, own.first_group, source);
        const uint32_t packed = __shfl_sync(
            ALL_LANES, own.meta & 0x7FFF | (own.is_regular() ? 0x8000u : 0) | (own.nz * own.ny * own.nx) << 16, source);
        const uint32_t elements = packed >> 16;
        meta = packed & 0x7FFF;
        exists = source != NONE && group * CODES < elements;
        number = first_group + group;
        predictor = AXES == 1 || packed & 0x8000 ? meta_predictor(meta) : 0;
    }
};

// Maps draw `number` to a unit among `live` and `constant` ones. Both kinds alternate, so that stores of constant tiles
// overlap with computation of the others.
struct Draw {
    bool is_constant;
    uint32_t number;

    __device__ inline Draw(uint32_t draw, uint32_t live, uint32_t constant) {
        const uint32_t all = live + constant, before = draw * constant / all, after = (draw + 1) * constant / all;
        is_constant = after > before;
        number = is_constant ? before : draw - before;
    }
};
