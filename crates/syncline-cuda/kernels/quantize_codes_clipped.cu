// Elements to codes: quantisation, prediction, the choice of the predictor, and codes dense in each chunk, in one reading.
//
// A block takes UNITS units of 1,024 elements (quantize_unit.cuh) after another, a warp each. What the fast ways cannot do a warp does the plain way
// (quantize_tile.cuh), in shared memory. The elements of a warp's next unit are on their way to shared memory while it works on this one.
//
// Where a tile's codes go depends on how many tiles before it in the chunk are constant: blocks find their place by looking back at those before them (Merrill and Garland 2016).
// To wait for those would cost more than all the rest: each is found only after the codes of the block's next units are made, until when the codes stay in
// shared memory. So a block has one barrier for its units: behind it are the places of its last units and what these take.
// Several chunks are worked on in turn, so that few of a chunk's blocks are under way at a time and there is not far to look. Work is handed out in order, so
// nobody waits for what has not been started.
//
// AXES      axes along which tiles extend
// PATTERNS  1 if there may be fill patterns that the fast way must look for
// MEASURE   1 to sum up squared errors
// MANY_CLIPPED  1 if whole tiles are to go the way of clipped ones: less code
// UNITS     warps in a block
// BLOCKS    blocks on a multiprocessor
#include "quantize_tile.cuh"
#include "quantize_unit.cuh"
#include "successor.cuh"

constexpr uint32_t UNIT_ELEMENTS = 1024;
constexpr uint32_t BLOCK_TILES = UNITS * UNIT_TILES;
constexpr uint32_t AGGREGATE = 1u << 30;
constexpr uint32_t INCLUSIVE = 2u << 30;
constexpr uint32_t VALUE = AGGREGATE - 1;
// Beside the warp that takes work.
constexpr uint32_t LOOKING_BACK = UNITS > 1 ? 1 : 0;
static_assert(BLOCK_TILES < WARP, "a lane a tile, and one for all");

struct Launch {
    uint64_t first_element; // of the slab
    uint32_t chunk_blocks;  // blocks of work of a chunk
    uint32_t aligned;       // quads of elements start on multiples of 16 bytes
    uint32_t use_fast;
    uint32_t chunks_in_turn;
    Divider32 by_turn, by_chunks, by_last_chunks; // by tickets in a turn of chunks, and chunks in each, or in the last
    Divider32 by_grid[3];                         // by tiles along z, y, x
    uint32_t few_tiles;                           // the array's tiles have numbers of 32 bits
    uint32_t unused;

    // Tile `number` of the array.
    __device__ inline Tile tile(const Geometry &geometry, uint64_t number) const {
        if (few_tiles == 0) {
            return geometry.tile(number);
        }
        const uint32_t rows = by_grid[2].quotient(uint32_t(number)), planes = by_grid[1].quotient(rows), b = by_grid[0].quotient(planes);
        const uint32_t z = planes - b * uint32_t(geometry.grid[0]), y = rows - planes * uint32_t(geometry.grid[1]), x = uint32_t(number) - rows * uint32_t(geometry.grid[2]);
        return geometry.tile(Place{b, z, y, x});
    }
};

// The groups of the chunk's blocks before block `own` of it, which has published its own. Called by one warp.
__device__ inline uint32_t look_back(uint32_t *states, uint32_t own, uint32_t own_groups) {
    volatile uint32_t *state = states;
    if (own == 0) {
        return 0;
    }
    uint32_t before = 0;
    int32_t at = int32_t(own) - 1 - int32_t(lane_id());
    for (;;) {
        // Before the chunk's first block there is nothing.
        uint32_t seen = INCLUSIVE;
        if (at >= 0) {
            do {
                seen = state[at];
            } while (seen == 0);
        }
        uint32_t complete = __ballot_sync(ALL_LANES, (seen & INCLUSIVE) != 0);
        uint32_t last = complete != 0 ? __ffs(int32_t(complete)) - 1 : WARP - 1;
        before += warp_sum(lane_id() <= last ? seen & VALUE : 0);
        if (complete != 0) {
            break;
        }
        at -= int32_t(WARP);
    }
    if (lane_id() == 0) {
        state[own] = INCLUSIVE | (before + own_groups);
    }
    return before;
}

// What a block works on: the tiles of the batch from `first_tile` on, those that are of the chunk.
struct Work {
    uint32_t chunk, block; // the batch's chunk, or none; block of it
    uint32_t first_tile, end_tile;
    WorkTile tiles[BLOCK_TILES];
};

// What a block finds about a tile, to be written together.
struct Found {
    int32_t base;
    uint16_t meta, verbatim, outliers, wide_outliers;
    uint32_t bin;
#if MEASURE
    uint64_t error;
    uint32_t counted;
#endif
};

// Turns for which a block has its work: so far ahead that elements of the next are on their way while those of this are worked on.
constexpr uint32_t AHEAD = 3;
constexpr uint32_t WORKS = 8; // a power of two, more than those ahead, this one and the last

struct Shared {
    alignas(16) uint16_t codes[2][UNITS][UNIT_ELEMENTS];
    // Elements of the next unit on their way; or integers, also as floats.
    alignas(16) Element elements[UNITS][UNIT_ELEMENTS];
    Work work[WORKS];
    uint32_t tile_groups[2][BLOCK_TILES];
    Found found[2][BLOCK_TILES];
    uint32_t before[2]; // groups of the chunk before the block's last units
    Step step;
};

static_assert(sizeof(Shared) <= UNITS * UNIT_ELEMENTS * (4 + ELEMENT_BYTES) + 4608, "what the host gives a block");

// Sets out the work of a ticket. Called by one warp.
__device__ inline void take(const Geometry &geometry, const ChunkBatch &batch, const Launch &launch, uint32_t ticket, Work &work) {
    const uint32_t lane = lane_id(), tickets_in_turn = launch.chunks_in_turn * launch.chunk_blocks;
    const uint32_t turn = launch.by_turn.quotient(ticket), first_chunk = turn * launch.chunks_in_turn;
    uint32_t chunk = first_chunk, block = 0;
    if (first_chunk < batch.chunks) {
        const uint32_t chunks = min_of(batch.chunks - first_chunk, launch.chunks_in_turn), within = ticket - turn * tickets_in_turn;
        block = (chunks == launch.chunks_in_turn ? launch.by_chunks : launch.by_last_chunks).quotient(within);
        // Past the batch's last ticket there is no such block.
        chunk = block < launch.chunk_blocks ? first_chunk + (within - block * chunks) : batch.chunks;
    }
    if (lane == 0) {
        work.chunk = chunk;
        work.block = block;
    }
    if (chunk >= batch.chunks) {
        return;
    }
    const uint32_t first_tile = batch.chunk_first(chunk) + block * BLOCK_TILES, end = batch.chunk_first(chunk + 1), number = first_tile + lane;
    if (lane == 0) {
        work.first_tile = first_tile;
        work.end_tile = end;
    }
    if (lane < BLOCK_TILES) {
        WorkTile out = {};
        if (number < end) {
            const Tile tile = launch.tile(geometry, batch.first_tile + number);
            out = {tile.first_element - launch.first_element, tile.nz << 24 | tile.ny << 16 | tile.nx, tile.elements()};
        }
        work.tiles[lane] = out;
    }
}

// The codes of this warp's last unit; and the chunk's extremes. `tile_group` is what the block's tiles before that with the lane's number take.
__device__ inline void store_codes(
    const Geometry &geometry, const ChunkBatch &batch, const Outputs &outputs, const Work &work, uint32_t before, uint32_t tile_group, const uint16_t *unit_codes,
    uint32_t *control
) {
    const uint32_t first = __shfl_sync(ALL_LANES, tile_group, warp_id() * UNIT_TILES), end = __shfl_sync(ALL_LANES, tile_group, (warp_id() + 1) * UNIT_TILES);
    uint16_t *codes = outputs.codes + ((batch.first_slot(work.chunk) + before + first) << geometry.group_log2);
    const uint4 *from = reinterpret_cast<const uint4 *>(unit_codes);
    const uint32_t vectors = (end - first) << geometry.group_log2 >> 3;
    Extremes extremes;
    for (uint32_t i = lane_id(); i < vectors; i += WARP) {
        const uint4 eight = from[i];
        reinterpret_cast<uint4 *>(codes)[i] = eight;
        extremes.add(eight);
    }
    if (vectors > 0) {
        extremes.note(extremes_of(control, work.chunk));
    }
}

// All but the places of the units' tiles. Called by one warp.
__device__ inline void store_found(const Outputs &outputs, const Found (&all)[BLOCK_TILES], const Work &work) {
    const uint32_t number = work.first_tile + lane_id();
    if (lane_id() < BLOCK_TILES && number < work.end_tile) {
        const Found &found = all[lane_id()];
        outputs.metas[number] = found.meta;
        outputs.bases[number] = found.base;
        outputs.bins[number] = uint8_t(found.bin);
        outputs.outliers[number] = found.outliers;
        outputs.wide_outliers[number] = found.wide_outliers;
        outputs.verbatim[number] = found.verbatim;
#if MEASURE
        outputs.errors[number] = found.error;
        outputs.counted[number] = uint16_t(found.counted);
#endif
    }
}

// What the block's tiles before that with the lane's number take.
__device__ inline uint32_t scan_tiles(const uint32_t (&tile_groups)[BLOCK_TILES]) {
    const uint32_t lane = lane_id(), own = lane < BLOCK_TILES ? tile_groups[lane] : 0;
    uint32_t sum = own;
    for (uint32_t distance = 1; distance < WARP; distance *= 2) {
        uint32_t below = __shfl_up_sync(ALL_LANES, sum, distance);
        sum += lane >= distance ? below : 0;
    }
    return sum - own;
}

// Puts the codes of the lane's rows where they belong in the tile's, and fills the last group up.
__device__ inline void place_codes(const FastTile &tile, const WorkTile &extents, uint32_t codes_end, const uint2 (&codes)[ROWS], uint16_t *to) {
    if (tile.whole) {
#pragma unroll
        for (uint32_t k = 0; k < ROWS; ++k) {
            *reinterpret_cast<uint2 *>(to + lane_element() + k * ROW_DISTANCE) = codes[k];
        }
        return;
    }
    const uint32_t lane = lane_id(), nx = extents.nz_ny_nx & 0xFFFF, ny = extents.nz_ny_nx >> 16 & 0xFF;
    const uint32_t row = AXES == 3 ? lane / 4 : lane / 8 * ROWS, x = AXES == 3 ? (lane & 1) * QUAD : lane % 8 * QUAD;
    if (nx % QUAD == 0) {
        uint16_t *at = to + row * nx + x;
        const uint32_t rows = tile.cols > 0 ? tile.rows : 0, distance = AXES == 3 ? ny * nx : nx;
#pragma unroll
        for (uint32_t k = 0; k < ROWS; ++k) {
            if (k < rows) {
                *reinterpret_cast<uint2 *>(at) = codes[k];
            }
            at += distance;
        }
    } else {
#pragma unroll
        for (uint32_t k = 0; k < ROWS; ++k) {
            uint16_t *at = to + (AXES == 3 ? k * ny + row : row + k) * nx + x;
            const uint32_t cols = k < tile.rows ? tile.cols : 0;
            const uint16_t parts[QUAD] = {uint16_t(codes[k].x), uint16_t(codes[k].x >> 16), uint16_t(codes[k].y), uint16_t(codes[k].y >> 16)};
#pragma unroll
            for (uint32_t j = 0; j < QUAD; ++j) {
                if (j < cols) {
                    at[j] = parts[j];
                }
            }
        }
    }
    // By the lanes of the tile: two lanes side by side of every four, or all.
    const uint32_t lanes = WARP / UNIT_TILES, rank = AXES == 3 ? lane / 4 * 2 + (lane & 1) : lane;
    for (uint32_t i = extents.elements + rank; i < codes_end; i += lanes) {
        to[i] = uint16_t(RADIUS);
    }
}

// `control` starts as zeros: the ticket counter, the extreme codes of each chunk, then a state for each block of work. The constants are `known`, or if there is `later` what is there once what was launched before is done.
extern "C" __global__ void __launch_bounds__(UNITS *WARP, BLOCKS) quantize_codes(
    const Element *slab, Geometry geometry, ChunkBatch batch, Step known, Launch launch, Outputs outputs, uint32_t *control, const Step *later
) {
    extern __shared__ uint4 shared_memory[];
    Shared &shared = *reinterpret_cast<Shared *>(shared_memory);
    const Step &step = shared.step;
    const uint32_t lane = lane_id();
    wait_for_all_before();
    if (threadIdx.x < sizeof(Step) / 4) {
        reinterpret_cast<uint32_t *>(&shared.step)[threadIdx.x] = reinterpret_cast<const uint32_t *>(later != nullptr ? later : &known)[threadIdx.x];
    }
    uint32_t ticket = 0; // the next, in the first lane of the first warp: drawn early, as it takes long
    auto take_next = [&](uint32_t turn) {
        take(geometry, batch, launch, __shfl_sync(ALL_LANES, ticket, 0), shared.work[turn % WORKS]);
        if (lane == 0) {
            ticket = atomicAdd(control, 1u);
        }
    };
    if (warp_id() == 0) {
        if (lane == 0) {
            ticket = atomicAdd(control, 1u);
        }
        take_next(0);
    }
    __syncthreads();
    const uint64_t row = geometry.dims[3], plane = geometry.dims[2] * geometry.dims[3];
    const uint32_t own_tile = warp_id() * UNIT_TILES + (tile_leader() != 0); // of the block
    const uint32_t y = AXES == 3 ? lane / 4 : AXES == 2 ? lane / 8 * ROWS : 0;
    const uint32_t x = AXES == 3 ? (lane & 1) * QUAD : AXES == 2 ? lane % 8 * QUAD : lane * QUAD;
    const uint64_t lane_offset = y * row + x;
    auto describe = [&](const WorkTile &extents, FastTile &tile) {
        const uint32_t nx = extents.nz_ny_nx & 0xFFFF, ny = extents.nz_ny_nx >> 16 & 0xFF, nz = extents.nz_ny_nx >> 24;
        // In 1-D a clipped tile goes the plain way: it is the array's last.
        tile.eligible = extents.elements > 0 && launch.use_fast != 0 && (AXES > 1 || nx == MOST_ELEMENTS);
        tile.first = extents.first_element + lane_offset;
        tile.rows = AXES == 3 ? (y < ny ? nz : 0) : AXES == 2 ? min_of(ny - min_of(y, ny), ROWS) : ROWS;
        tile.cols = AXES == 1 ? QUAD : min_of(nx - min_of(x, nx), QUAD);
        tile.rows = tile.eligible ? tile.rows : 0;
        tile.whole = __all_sync(ALL_LANES, tile.rows == ROWS && tile.cols == QUAD);
    };
    FastTile tile;
    tile.row_stride = AXES == 3 ? plane : AXES == 2 ? row : WARP * QUAD;
    Landing landing = {shared.elements[warp_id()], false};
    int32_t *integers = reinterpret_cast<int32_t *>(shared.elements[warp_id()]);
    uint32_t tile_group = 0; // of the last units: what the block's tiles before that with the lane's number take
    Expected expected = {AXES, NARROW, 0};
    // Elements are on their way while the rest of the work ahead is set out.
    if (__any_sync(ALL_LANES, shared.work[0].chunk < batch.chunks)) {
        describe(shared.work[0].tiles[own_tile], tile);
        landing.fetch(slab, tile, shared.work[0].tiles + warp_id() * UNIT_TILES, row, plane, launch.aligned != 0);
    }
    if (warp_id() == 0) {
        for (uint32_t turn = 1; turn < AHEAD; ++turn) {
            take_next(turn);
        }
    }
    __syncthreads();
    for (uint32_t turn = 0;; ++turn) {
        const Work &work = shared.work[turn % WORKS], &last = shared.work[(turn + WORKS - 1) % WORKS];
        // A vote, so that the compiler knows all lanes to agree: else it guards every shuffle below against their being apart.
        const bool more = __any_sync(ALL_LANES, work.chunk < batch.chunks);
        if (more) {
            const WorkTile &extents = work.tiles[own_tile];
            const bool exists = extents.elements > 0;
            describe(extents, tile);
            auto locate = [&]() {
                FastTile again;
                again.row_stride = tile.row_stride;
                describe(work.tiles[own_tile], again);
                return again;
            };
            auto refill = [&]() {
                const Work &next = shared.work[(turn + 1) % WORKS];
                if (ASYNCHRONOUS && __any_sync(ALL_LANES, next.chunk < batch.chunks)) {
                    FastTile following;
                    following.row_stride = tile.row_stride;
                    describe(next.tiles[own_tile], following);
                    landing.fetch(slab, following, next.tiles + warp_id() * UNIT_TILES, row, plane, launch.aligned != 0);
                }
            };
            uint2 codes[ROWS];
            if (!__any_sync(ALL_LANES, landing.full)) {
                landing.fetch(slab, tile, work.tiles + warp_id() * UNIT_TILES, row, plane, launch.aligned != 0);
            }
            landing.wait();
            if (!tile.whole) {
                landing.complete(tile);
            }
            const FastResult fast =
                quantize_unit(step, slab, tile, launch.aligned != 0, extents.elements, landing, refill, locate, expected, codes);
            TileResult result = {};
            result.base = fast.base;
            result.predictor = fast.predictor;
            result.activity = fast.activity;
            result.meta = fast.meta;
            result.verbatim = fast.verbatim;
            result.error = fast.error;
            result.counted = fast.counted;
            uint32_t outliers = fast.outliers, wide_outliers = fast.wide_outliers;
            // The others the plain way. Everything about a tile is in the registers of its lanes.
            const uint32_t plain = __ballot_sync(ALL_LANES, exists && !fast.fast);
            if (plain != 0) {
                landing.discard();
                for (uint32_t t = 0; t < UNIT_TILES; ++t) {
                    if ((plain >> (2 * t) & 1) != 0) {
                        const TileBox other(geometry.tile(batch.first_tile + work.first_tile + warp_id() * UNIT_TILES + t));
                        TileSource source{slab + (other.first_element - launch.first_element), plane, row};
                        TileWords words;
                        TileResult found = quantize_tile(step, other, source, integers + t * MOST_ELEMENTS, words);
                        if (tile_leader() == 2 * t) {
                            result = found;
                        }
                    }
                }
            }
            // The codes, dense as they will stand.
            const uint32_t own_groups = exists && result.activity > 0 ? geometry.groups(extents.elements) : 0;
            const uint32_t first_groups = __shfl_sync(ALL_LANES, own_groups, 0);
            const uint32_t own_start = (tile_leader() != 0 ? first_groups : 0) << geometry.group_log2;
            uint16_t *unit_codes = shared.codes[turn % 2][warp_id()];
            if (exists && fast.fast && own_groups > 0) {
                place_codes(tile, extents, own_groups << geometry.group_log2, codes, unit_codes + own_start);
            }
            if (plain != 0) {
                for (uint32_t t = 0; t < UNIT_TILES; ++t) {
                    const bool live = __shfl_sync(ALL_LANES, own_groups, 2 * t) > 0;
                    if ((plain >> (2 * t) & 1) != 0 && live) {
                        const TileBox other(geometry.tile(batch.first_tile + work.first_tile + warp_id() * UNIT_TILES + t));
                        TileResult found = result;
                        found.base = __shfl_sync(ALL_LANES, result.base, 2 * t);
                        found.predictor = __shfl_sync(ALL_LANES, result.predictor, 2 * t);
                        uint16_t *to = unit_codes + __shfl_sync(ALL_LANES, own_start, 2 * t);
                        uint32_t codes_end = geometry.groups(other.elements()) << geometry.group_log2, near, far;
                        write_codes(other, integers + t * MOST_ELEMENTS, found, codes_end, RADIUS, to, near, far);
                        if (tile_leader() == 2 * t) {
                            outliers = near;
                            wide_outliers = far;
                        }
                    }
                }
            }
            if (!__any_sync(ALL_LANES, landing.full)) {
                refill();
            }
            if (lane == tile_leader()) {
                const bool constant = result.activity == 0;
                Found &found = shared.found[turn % 2][own_tile];
                const uint32_t meta = result.meta | (constant ? META_CONSTANT : result.predictor << META_PREDICTOR);
                found.base = result.base;
                found.meta = uint16_t(meta | (geometry.groups(extents.elements) - 1) << META_GROUPS);
                found.verbatim = uint16_t(result.verbatim);
                found.outliers = uint16_t(constant ? 0 : outliers);
                found.wide_outliers = uint16_t(constant ? 0 : wide_outliers);
                found.bin = activity_bin(result.activity);
#if MEASURE
                found.error = result.error;
                found.counted = result.counted;
#endif
                shared.tile_groups[turn % 2][own_tile] = own_groups;
            }
        }
        // Where the last units' codes go: those before them have said by now what they take.
        if (warp_id() == LOOKING_BACK && turn > 0) {
            const uint32_t all = __shfl_sync(ALL_LANES, tile_group, WARP - 1);
            const uint32_t before = look_back(states_of(control, batch.chunks) + last.chunk * launch.chunk_blocks, last.block, all);
            if (lane == 0) {
                shared.before[(turn + 1) % 2] = before;
            }
        }
        __syncthreads();
        const uint32_t last_tile_group = tile_group;
        if (more) {
            tile_group = scan_tiles(shared.tile_groups[turn % 2]);
            if (warp_id() == 0 && lane == WARP - 1) {
                volatile uint32_t *state = states_of(control, batch.chunks);
                state[work.chunk * launch.chunk_blocks + work.block] = (work.block == 0 ? INCLUSIVE : AGGREGATE) | tile_group;
            }
        }
        if (turn > 0) {
            const uint32_t before = shared.before[(turn + 1) % 2];
            store_codes(geometry, batch, outputs, last, before, last_tile_group, shared.codes[(turn + 1) % 2][warp_id()], control);
            const uint32_t number = last.first_tile + lane;
            if (warp_id() == UNITS - 1 && lane < BLOCK_TILES && number < last.end_tile) {
                outputs.first_groups[number] = before + last_tile_group;
            }
            __syncwarp();
        }
        if (!more) {
            return;
        }
        if (warp_id() == 0) {
            take_next(turn + AHEAD);
        } else if (warp_id() == UNITS - 1) {
            store_found(outputs, shared.found[turn % 2], work);
        }
    }
}
