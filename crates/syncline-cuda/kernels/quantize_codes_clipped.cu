// What quantize_codes.cu does, for arrays with clipped tiles, rows that are not multiples of 16 bytes, or fill patterns. Not for logarithms.
//
// Elements to codes: quantisation, prediction, the choice of the predictor, and codes dense in each chunk, in one reading.
//
// A block takes UNITS units of 1,024 elements (quantize_unit.cuh) after another, a warp each. What the fast ways cannot do a warp does the plain way
// (quantize_tile.cuh), in shared memory. Where a tile's codes go depends on how many tiles before it in the chunk are constant: blocks find their place by looking back
// at those before them (Merrill and Garland 2016). To wait for those would cost more than all the rest: each is found only after the codes of the block's
// next units are made, until when the codes stay in shared memory.
// Several chunks are worked on in turn, so that few of a chunk's blocks are under way at a time and there is not far to look. Work is handed out in order, so
// nobody waits for what has not been started.
//
// AXES      axes along which tiles extend
// PATTERNS  1 if there may be fill patterns that the fast way must look for
// MEASURE   1 to sum up squared errors
// UNITS     warps in a block
// BLOCKS    blocks on a multiprocessor
#include "quantize_tile.cuh"
#include "quantize_unit.cuh"

constexpr uint32_t UNIT_ELEMENTS = 1024;
constexpr uint32_t BLOCK_TILES = UNITS * UNIT_TILES;
constexpr uint32_t AGGREGATE = 1u << 30;
constexpr uint32_t INCLUSIVE = 2u << 30;
constexpr uint32_t VALUE = AGGREGATE - 1;
static_assert(BLOCK_TILES <= WARP, "a lane a tile");

struct Launch {
    uint64_t first_element; // of the slab
    uint32_t chunk_blocks;  // blocks of work of a chunk
    uint32_t aligned;       // quads of elements start on multiples of 16 bytes
    uint32_t use_fast;
    uint32_t chunks_in_turn;
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

// A tile of a block's work.
struct WorkTile {
    uint64_t first_element; // from the slab's start
    uint32_t nz_ny_nx;      // 8, 8 and 16 bits; 0 if there is no such tile
    uint32_t elements;
};

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

// Two of what is needed until after the next units.
struct Shared {
    alignas(16) uint16_t codes[UNITS][UNIT_ELEMENTS];
    alignas(16) int32_t integers[UNITS][UNIT_ELEMENTS]; // also as floats, of the fast way
    Work work[2];
    uint32_t tile_groups[2][BLOCK_TILES]; // each tile's; then those of the tiles before it in the block
    Found found[BLOCK_TILES];
    uint32_t block_groups[2];
    uint32_t before; // groups of the chunk before the block's last units
};

// Sets out the work of a ticket. Called by one warp.
__device__ inline void take(const Geometry &geometry, const ChunkBatch &batch, const Launch &launch, uint32_t ticket, Work &work) {
    const uint32_t lane = lane_id(), tickets_in_turn = launch.chunks_in_turn * launch.chunk_blocks;
    const uint32_t turn = ticket / tickets_in_turn, first_chunk = turn * launch.chunks_in_turn;
    uint32_t chunk = first_chunk, block = 0;
    if (first_chunk < batch.chunks) {
        const uint32_t chunks = min_of(batch.chunks - first_chunk, launch.chunks_in_turn), within = ticket - turn * tickets_in_turn;
        block = within / chunks;
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
            const Tile tile = geometry.tile(batch.first_tile + number);
            out = {tile.first_element - launch.first_element, tile.nz << 24 | tile.ny << 16 | tile.nx, tile.elements()};
        }
        work.tiles[lane] = out;
    }
}

// What is left to do of a block's last units once their place is known.
struct Pending {
    uint32_t chunk, block, first_tile, end_tile;
    uint32_t first_group, end_group; // of the warp's unit, in the block
    uint32_t tile_group;             // of the tile with the lane's number
};

// The codes of this warp's last unit.
__device__ inline void store_codes(const Geometry &geometry, const ChunkBatch &batch, const Outputs &outputs, const Shared &shared, const Pending &pending) {
    uint16_t *codes = outputs.codes + ((uint64_t(pending.chunk) * batch.slots + shared.before + pending.first_group) << geometry.group_log2);
    const uint4 *from = reinterpret_cast<const uint4 *>(shared.codes[warp_id()]);
    const uint32_t vectors = (pending.end_group - pending.first_group) << geometry.group_log2 >> 3;
    for (uint32_t i = lane_id(); i < vectors; i += WARP) {
        reinterpret_cast<uint4 *>(codes)[i] = from[i];
    }
}

// All but the places of the last units' tiles. Called by one warp.
__device__ inline void store_found(const Outputs &outputs, const Shared &shared, const Pending &pending) {
    const uint32_t number = pending.first_tile + lane_id();
    if (lane_id() < BLOCK_TILES && number < pending.end_tile) {
        const Found &found = shared.found[lane_id()];
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

// Sums over the block's tiles before each, in place of what each has, and over all. Called by one warp.
__device__ inline uint32_t scan_tiles(uint32_t (&tile_groups)[BLOCK_TILES]) {
    const uint32_t lane = lane_id(), own = lane < BLOCK_TILES ? tile_groups[lane] : 0;
    uint32_t sum = own;
    for (uint32_t distance = 1; distance < BLOCK_TILES; distance *= 2) {
        uint32_t below = __shfl_up_sync(ALL_LANES, sum, distance);
        sum += lane >= distance ? below : 0;
    }
    if (lane < BLOCK_TILES) {
        tile_groups[lane] = sum - own;
    }
    return __shfl_sync(ALL_LANES, sum, BLOCK_TILES - 1);
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
    // By the lanes of the tile: two lanes side by side of every four, or all.
    const uint32_t lanes = WARP / UNIT_TILES, rank = AXES == 3 ? lane / 4 * 2 + (lane & 1) : lane;
    for (uint32_t i = extents.elements + rank; i < codes_end; i += lanes) {
        to[i] = uint16_t(RADIUS);
    }
}

// `control` starts as zeros: the ticket counter, then a state for each block of work.
extern "C" __global__ void __launch_bounds__(UNITS *WARP, BLOCKS) quantize_codes(
    const Element *slab, Geometry geometry, ChunkBatch batch, Step step, Launch launch, Outputs outputs, uint32_t *control
) {
    extern __shared__ uint4 shared_memory[];
    Shared &shared = *reinterpret_cast<Shared *>(shared_memory);
    const uint32_t lane = lane_id();
    uint32_t ticket = 0; // the next, in the first lane of the first warp: drawn early, as it takes long
    if (warp_id() == 0) {
        if (lane == 0) {
            ticket = atomicAdd(control, 1u);
        }
        take(geometry, batch, launch, __shfl_sync(ALL_LANES, ticket, 0), shared.work[0]);
        if (lane == 0) {
            ticket = atomicAdd(control, 1u);
        }
    }
    __syncthreads();
    const uint64_t row = geometry.dims[3], plane = geometry.dims[2] * geometry.dims[3];
    const uint32_t own_tile = warp_id() * UNIT_TILES + (tile_leader() != 0); // of the block
    const uint32_t y = AXES == 3 ? lane / 4 : AXES == 2 ? lane / 8 * ROWS : 0;
    const uint32_t x = AXES == 3 ? (lane & 1) * QUAD : AXES == 2 ? lane % 8 * QUAD : lane * QUAD;
    const uint64_t lane_offset = y * row + x;
    FastTile tile;
    tile.row_stride = AXES == 3 ? plane : AXES == 2 ? row : WARP * QUAD;
    Pending pending = {};
    bool any_pending = false; // the same for the block
    Expected expected = {AXES, NARROW, 0};
    for (uint32_t turn = 0;; turn ^= 1) {
        const Work &work = shared.work[turn];
        // A vote, so that the compiler knows all lanes to agree: else it guards every shuffle below against their being apart.
        const bool more = __any_sync(ALL_LANES, work.chunk < batch.chunks);
        uint2 codes[ROWS];
        uint32_t outliers = 0, wide_outliers = 0;
        TileResult result = {};
        uint32_t own_groups = 0, plain = 0;
        WorkTile extents = {};
        bool fast_lane = false;
        if (more) {
            extents = work.tiles[own_tile];
            const bool exists = extents.elements > 0;
            const uint32_t nx = extents.nz_ny_nx & 0xFFFF, ny = extents.nz_ny_nx >> 16 & 0xFF, nz = extents.nz_ny_nx >> 24;
            // In 1-D a clipped tile goes the plain way: it is the array's last.
            tile.eligible = exists && launch.use_fast != 0 && (AXES > 1 || nx == MOST_ELEMENTS);
            tile.first = extents.first_element + lane_offset;
            tile.rows = AXES == 3 ? (y < ny ? nz : 0) : AXES == 2 ? min_of(ny - min_of(y, ny), ROWS) : ROWS;
            tile.cols = AXES == 1 ? QUAD : min_of(nx - min_of(x, nx), QUAD);
            tile.rows = tile.eligible ? tile.rows : 0;
            tile.whole = __all_sync(ALL_LANES, tile.rows == ROWS && tile.cols == QUAD);
            const FastResult fast = quantize_unit(
                step, slab, tile, launch.aligned != 0, extents.elements, reinterpret_cast<float4 *>(shared.integers[warp_id()]), expected, codes
            );
            result.base = fast.base;
            result.predictor = fast.predictor;
            result.activity = fast.activity;
            result.meta = fast.meta;
            result.verbatim = fast.verbatim;
            result.error = fast.error;
            result.counted = fast.counted;
            outliers = fast.outliers;
            wide_outliers = fast.wide_outliers;
            fast_lane = exists && fast.fast;
            // The others the plain way. Everything about a tile is in the registers of its lanes.
            plain = __ballot_sync(ALL_LANES, exists && !fast.fast);
            for (uint32_t t = 0; t < UNIT_TILES; ++t) {
                if ((plain >> (2 * t) & 1) != 0) {
                    const TileBox other(geometry.tile(batch.first_tile + work.first_tile + warp_id() * UNIT_TILES + t));
                    TileSource source{slab + (other.first_element - launch.first_element), plane, row};
                    TileWords words;
                    TileResult found = quantize_tile(step, other, source, shared.integers[warp_id()] + t * MOST_ELEMENTS, words);
                    if (tile_leader() == 2 * t) {
                        result = found;
                    }
                }
            }
            own_groups = exists && result.activity > 0 ? geometry.groups(extents.elements) : 0;
            if (lane == tile_leader()) {
                shared.tile_groups[turn][own_tile] = own_groups;
            }
        }
        __syncthreads();
        if (warp_id() == 0) {
            if (more) {
                const uint32_t sum = scan_tiles(shared.tile_groups[turn]);
                if (lane == 0) {
                    shared.block_groups[turn] = sum;
                    volatile uint32_t *state = control + 1;
                    state[work.chunk * launch.chunk_blocks + work.block] = (work.block == 0 ? INCLUSIVE : AGGREGATE) | sum;
                }
                take(geometry, batch, launch, __shfl_sync(ALL_LANES, ticket, 0), shared.work[turn ^ 1]);
                if (lane == 0) {
                    ticket = atomicAdd(control, 1u);
                }
            }
            if (any_pending) {
                uint32_t before = look_back(control + 1 + pending.chunk * launch.chunk_blocks, pending.block, shared.block_groups[turn ^ 1]);
                if (lane == 0) {
                    shared.before = before;
                }
            }
        } else if (warp_id() == UNITS - 1 && any_pending) {
            store_found(outputs, shared, pending);
        }
        __syncthreads();
        if (any_pending) {
            store_codes(geometry, batch, outputs, shared, pending);
            const uint32_t number = pending.first_tile + lane;
            if (warp_id() == 0 && lane < BLOCK_TILES && number < pending.end_tile) {
                outputs.first_groups[number] = shared.before + pending.tile_group;
            }
            __syncwarp();
        }
        if (!more) {
            return;
        }

        // The codes of this turn, dense as they will stand.
        const uint32_t *starts = shared.tile_groups[turn];
        const uint32_t own_start = (starts[own_tile] - starts[warp_id() * UNIT_TILES]) << geometry.group_log2;
        uint16_t *unit_codes = shared.codes[warp_id()];
        if (fast_lane && own_groups > 0) {
            place_codes(tile, extents, own_groups << geometry.group_log2, codes, unit_codes + own_start);
        }
        for (uint32_t t = 0; t < UNIT_TILES; ++t) {
            const bool live = __shfl_sync(ALL_LANES, own_groups, 2 * t) > 0;
            if ((plain >> (2 * t) & 1) != 0 && live) {
                const TileBox other(geometry.tile(batch.first_tile + work.first_tile + warp_id() * UNIT_TILES + t));
                TileResult found = result;
                found.base = __shfl_sync(ALL_LANES, result.base, 2 * t);
                found.predictor = __shfl_sync(ALL_LANES, result.predictor, 2 * t);
                uint16_t *to = unit_codes + __shfl_sync(ALL_LANES, own_start, 2 * t);
                uint32_t codes_end = geometry.groups(other.elements()) << geometry.group_log2, near, far;
                write_codes(other, shared.integers[warp_id()] + t * MOST_ELEMENTS, found, codes_end, RADIUS, to, near, far);
                if (tile_leader() == 2 * t) {
                    outliers = near;
                    wide_outliers = far;
                }
            }
        }
        if (lane == tile_leader()) {
            const bool constant = result.activity == 0;
            Found &found = shared.found[own_tile];
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
        }
        const uint32_t next_tile = (warp_id() + 1) * UNIT_TILES;
        pending = {work.chunk, work.block, work.first_tile, work.end_tile};
        pending.first_group = starts[warp_id() * UNIT_TILES];
        pending.end_group = next_tile < BLOCK_TILES ? starts[next_tile] : shared.block_groups[turn];
        pending.tile_group = starts[min_of(lane, BLOCK_TILES - 1)];
        any_pending = true;
    }
}
