// Elements to codes in one pass: quantization, prediction, the choice of the predictor, and codes that are dense within
// each chunk. Elements are staged in shared memory by asynchronous copies (compare direct.cu).
//
// A block takes UNITS units of 1,024 elements at a time, one per warp, on the vector path (quantize/codes/unit.cuh).
// Tiles that it does not support take the scalar path (quantize/scalar_tile.cuh). While a warp works on a unit, the
// elements of its next unit are copied to shared memory. An additional scheduler warp sets up the work of the others.
//
// The place of a tile's codes depends on the number of constant tiles before it in the chunk, which blocks find by
// decoupled look-back (device/lookback.cuh). To hide its latency, each look-back is completed only after the codes of
// the block's next units are computed; until then codes stay in shared memory. So a block needs one barrier per
// iteration: behind it the places of the previous units and the sizes of these are known. Waves of chunks are processed
// alternately, so that few blocks of a chunk are active at a time and look-back is short. Tickets are taken in order,
// so that no block waits for one that has not started.
//
// AXES          axes along which tiles extend
// PATTERNS      1 if there may be fill patterns, which the vector path must detect
// MEASURE       1 to sum squared errors
// MANY_CLIPPED  1 if unclipped tiles take the code path of clipped ones, which is less code
// UNITS         units that a block works on at a time
// BLOCKS        blocks per multiprocessor
#include "device/lookback.cuh"
#include "device/sync.cuh"
#include "quantize/codes/schedule.cuh"
#include "quantize/codes/unit.cuh"
#include "quantize/scalar_tile.cuh"

constexpr uint32_t UNIT_ELEMENTS = 1024;

// Results for a tile, which the block writes together.
struct TileOutput {
    int32_t base;
    uint16_t meta, verbatim, outliers, wide_outliers;
    uint32_t bin;
#if MEASURE
    uint64_t error;
    uint32_t counted;
#endif
};

// Iterations that work is set up ahead: the next iteration's elements are being copied during this one.
constexpr uint32_t LOOKAHEAD = 2;
constexpr uint32_t WORK_SLOTS = 8; // power of two; more than those ahead, the current one and the two before
// The warp without units of its own. It sets up the others' work, and finds where their codes go, one iteration behind
// them.
constexpr uint32_t SCHEDULER_WARP = UNITS;
constexpr uint32_t THREADS = (UNITS + 1) * WARP;
// The barrier of the scheduler warp and the others, which arrive from different places. Synccheck reports that as an
// error for the usual barrier. The one that allows it costs 1 to 2 % of a call.
__device__ inline void turn_barrier() {
#if UNDER_SYNCCHECK
    asm volatile("barrier.sync 1, %0;" ::"n"(THREADS) : "memory");
#else
    __syncthreads();
#endif
}
// The iteration before the first. It runs the code once while the kernel waits for its constants, because every launch
// starts with a cold instruction cache and fetching instructions takes longer than loading elements.
constexpr uint32_t ICACHE_WARMUP = ~0u;
constexpr bool HAS_ICACHE_WARMUP = PATTERNS == 0 && MEASURE == 0;

struct Shared {
    alignas(16) uint16_t codes[2][UNITS][UNIT_ELEMENTS];
    // Elements of the next unit; or integers, also as floats.
    alignas(16) Element elements[UNITS][UNIT_ELEMENTS];
    WorkItem work[WORK_SLOTS];
    uint32_t tile_groups[2][BLOCK_TILES];
    TileOutput tile_outputs[2][BLOCK_TILES];
    uint32_t before[2];             // groups of the chunk before the block's previous units
    uint32_t tiles_before[2][WARP]; // groups of the block before each of their tiles, and before the next block
    Step step;
};

static_assert(sizeof(Shared) <= UNITS * UNIT_ELEMENTS * (4 + ELEMENT_BYTES) + 4608, "what the host gives a block");

// Stores the codes of this warp's previous unit and updates the chunk's extremes. `before` counts the chunk's groups
// before the block, and `tiles_before` the block's groups before each tile.
__device__ inline void store_codes(const Geometry &geometry, const ChunkBatch &batch, const Outputs &outputs,
                                   const WorkItem &work, uint32_t before, const uint32_t (&tiles_before)[WARP],
                                   const uint16_t *unit_codes, uint32_t *control) {
    const uint32_t first = tiles_before[warp_id() * UNIT_TILES], end = tiles_before[(warp_id() + 1) * UNIT_TILES];
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
        extremes.merge_into(extremes_of(control, work.chunk));
    }
}

// Stores all results for tiles except their first groups. Called by one warp.
__device__ inline void store_tile_outputs(const Outputs &outputs, const TileOutput (&all)[BLOCK_TILES],
                                          const WorkItem &work) {
    const uint32_t number = work.first_tile + lane_id();
    if (lane_id() < BLOCK_TILES && number < work.end_tile) {
        const TileOutput &found = all[lane_id()];
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

// Places the codes of the lane's rows among the tile's, and fills up the last group.
__device__ inline void place_codes(const VectorTile &tile, const TileExtents &extents, uint32_t codes_end,
                                   const uint2 (&codes)[ROWS], uint16_t *to) {
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
            const uint16_t parts[QUAD] = {uint16_t(codes[k].x), uint16_t(codes[k].x >> 16), uint16_t(codes[k].y),
                                          uint16_t(codes[k].y >> 16)};
#pragma unroll
            for (uint32_t j = 0; j < QUAD; ++j) {
                if (j < cols) {
                    at[j] = parts[j];
                }
            }
        }
    }
    // By the lanes of the tile: two adjacent lanes of every four, or all.
    const uint32_t lanes = WARP / UNIT_TILES, rank = AXES == 3 ? lane / 4 * 2 + (lane & 1) : lane;
    for (uint32_t i = extents.elements + rank; i < codes_end; i += lanes) {
        to[i] = uint16_t(RADIUS);
    }
}

// Runs the scheduler warp until the block has no more work. `ticket` is that of the third iteration, on the first lane.
__device__ inline void run_scheduler_warp(const Geometry &geometry, const ChunkBatch &batch, const StagedLaunch &launch,
                                          const Outputs &outputs, uint32_t *control, Shared &shared, uint32_t ticket) {
    const uint32_t lane = lane_id();
    for (uint32_t turn = 0;; ++turn) {
        const bool more = __any_sync(ALL_LANES, shared.work[turn % WORK_SLOTS].chunk < batch.chunks);
        const WorkItem &last = shared.work[(turn + WORK_SLOTS - 1) % WORK_SLOTS];
        const uint32_t parity = (turn + 1) % 2; // of the previous iteration
        uint32_t *states = states_of(control, batch.chunks), tile_group = 0;
        if (turn > 0) {
            states += last.chunk * launch.codes.chunk_blocks;
            tile_group = scan_tiles(shared.tile_groups[parity]);
            shared.tiles_before[parity][lane] = tile_group;
            // Other blocks wait for this.
            if (lane == WARP - 1) {
                store_aggregate(states, 0, last.block, tile_group);
            }
        }
        if (more) {
            set_up_work(geometry, batch, launch, __shfl_sync(ALL_LANES, ticket, 0),
                        shared.work[(turn + LOOKAHEAD) % WORK_SLOTS]);
            // Drawn one iteration early, because the atomic takes long.
            ticket = lane == 0 ? atomicAdd(control, 1u) : 0;
        }
        if (turn > 0) {
            store_tile_outputs(outputs, shared.tile_outputs[parity], last);
            const uint32_t before = look_back(states, 0, last.block, __shfl_sync(ALL_LANES, tile_group, WARP - 1)),
                           number = last.first_tile + lane;
            if (lane == 0) {
                shared.before[parity] = before;
            }
            if (lane < BLOCK_TILES && number < last.end_tile) {
                outputs.first_groups[number] = before + tile_group;
            }
        }
        turn_barrier();
        if (!more) {
            return;
        }
    }
}

// Sets up units for the instruction-cache warm-up. The elements in shared memory are small integers; of every four
// units one is clipped along x, and in 3-D one along z, so that all code paths run.
__device__ inline void set_up_icache_warmup(Shared &shared) {
    if (threadIdx.x == 0) {
        Step unit_step = {};
        unit_step.inverse = unit_step.step = 1.0;
        unit_step.inverse_high = unit_step.high = 1.0f;
        unit_step.limit = 0.75;
        unit_step.bound = 0.75f;
        unit_step.reach_known = 1;
        shared.step = unit_step;
    }
    if (threadIdx.x < BLOCK_TILES) {
        constexpr uint32_t SIDE_Z = AXES == 3 ? 8 : 1,
                           SIDE_Y = AXES == 3   ? 8
                                    : AXES == 2 ? 32
                                                : 1,
                           SIDE_X = MAX_ELEMENTS / SIDE_Y / SIDE_Z;
        const uint32_t unit = threadIdx.x / UNIT_TILES % 4;
        const uint32_t nz = AXES == 3 && unit == 3 ? THIN_ROWS : SIDE_Z,
                       nx = AXES > 1 && unit == 1 ? SIDE_X - 5 : SIDE_X;
        shared.work[ICACHE_WARMUP % WORK_SLOTS].tiles[threadIdx.x] = {0, nz << 24 | SIDE_Y << 16 | nx,
                                                                      nz * SIDE_Y * nx};
    }
    for (uint32_t i = lane_id(); i < UNIT_ELEMENTS; i += WARP) {
        shared.elements[warp_id()][i] = Element(i * 5 % 13);
    }
}

// `control` is 0 at first: the ticket counter, the extreme codes of each chunk, and a status word for each block of
// work. The constants are `known`, or those in `later`, if not null, once the previous kernel is done.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    quantize_codes_staged(const Element *slab, Geometry geometry, ChunkBatch batch, Step known, StagedLaunch launch,
                          Outputs outputs, uint32_t *control, const Step *later) {
    extern __shared__ uint4 shared_memory[];
    Shared &shared = *reinterpret_cast<Shared *>(shared_memory);
    const Step &step = shared.step;
    const uint32_t lane = lane_id();
    // With `later`, the previous kernel only reads the same elements and writes the constants. So elements may be read
    // and tickets drawn while it runs.
    if (later == nullptr || launch.codes.skips_unfit != 0) {
        grid_dependency_wait();
    }
    if (launch.codes.skips_unfit != 0 && (later->pattern_count > 0) != (PATTERNS != 0)) {
        return;
    }
    if (warp_id() == SCHEDULER_WARP) {
        auto draw = [&]() { return lane == 0 ? atomicAdd(control, 1u) : 0; };
        auto set_up_drawn = [&](uint32_t ticket, uint32_t turn) {
            set_up_work(geometry, batch, launch, __shfl_sync(ALL_LANES, ticket, 0), shared.work[turn]);
        };
        set_up_drawn(draw(), 0);
        turn_barrier();
        turn_barrier();
        grid_dependency_wait();
        // Not earlier: blocks that start first would take work for their second iteration, for which blocks that start
        // last would have to wait in their first.
        const uint32_t ticket = draw();
        turn_barrier();
        set_up_drawn(ticket, 1);
        // The other warps wait for this in their first iteration, if they have one.
        if (__any_sync(ALL_LANES, shared.work[0].chunk < batch.chunks)) {
            turn_barrier();
        }
        run_scheduler_warp(geometry, batch, launch, outputs, control, shared, draw());
        return;
    }
    const bool warms_up =
        HAS_ICACHE_WARMUP && later != nullptr && launch.codes.skips_unfit == 0 && launch.codes.use_vector != 0;
    if (warms_up) {
        set_up_icache_warmup(shared);
    }
    turn_barrier();
    const uint64_t row = geometry.dims[3], plane = geometry.dims[2] * geometry.dims[3];
    const uint32_t own_tile = warp_id() * UNIT_TILES + (tile_leader() != 0); // in the block
    const uint32_t y = AXES == 3 ? lane / 4 : AXES == 2 ? lane / 8 * ROWS : 0;
    const uint32_t x = AXES == 3 ? (lane & 1) * QUAD : AXES == 2 ? lane % 8 * QUAD : lane * QUAD;
    const uint64_t lane_offset = y * row + x;
    auto describe = [&](const TileExtents &extents, VectorTile &tile) {
        const uint32_t nx = extents.nz_ny_nx & 0xFFFF, ny = extents.nz_ny_nx >> 16 & 0xFF, nz = extents.nz_ny_nx >> 24;
        // In 1-D a clipped tile takes the scalar path, because there is only one: the array's last.
        tile.eligible = extents.elements > 0 && launch.codes.use_vector != 0 && (AXES > 1 || nx == MAX_ELEMENTS);
        tile.first = extents.first_element + lane_offset;
        tile.rows = AXES == 3 ? (y < ny ? nz : 0) : AXES == 2 ? min_of(ny - min_of(y, ny), ROWS) : ROWS;
        tile.cols = AXES == 1 ? QUAD : min_of(nx - min_of(x, nx), QUAD);
        tile.rows = tile.eligible ? tile.rows : 0;
        tile.whole = __all_sync(ALL_LANES, tile.rows == ROWS && tile.cols == QUAD);
    };
    VectorTile tile;
    tile.row_stride = AXES == 3 ? plane : AXES == 2 ? row : WARP * QUAD;
    StagingBuffer staging = {shared.elements[warp_id()], false};
    int32_t *integers = reinterpret_cast<int32_t *>(shared.elements[warp_id()]);
    UnitHint hint = {AXES, STRATEGY_HALF2, 0};
    bool has_second = false; // whether the second iteration's work is set up
    // The warm-up starts the copies of the first units' elements, and discards its results.
    staging.full = __any_sync(ALL_LANES, warms_up);
    for (uint32_t turn = ICACHE_WARMUP;; ++turn) {
        const bool begun = turn != ICACHE_WARMUP;
        const WorkItem &work = shared.work[turn % WORK_SLOTS],
                       &last = shared.work[(turn + WORK_SLOTS - 1) % WORK_SLOTS];
        // The vote tells the compiler that the condition is uniform. Otherwise it would guard every shuffle below
        // against divergence.
        const bool more = __any_sync(ALL_LANES, begun ? work.chunk < batch.chunks : warms_up);
        if (more) {
            const TileExtents &extents = work.tiles[own_tile];
            const bool exists = extents.elements > 0;
            describe(extents, tile);
            auto locate = [&]() {
                VectorTile again;
                again.row_stride = tile.row_stride;
                describe(work.tiles[own_tile], again);
                return again;
            };
            auto refill = [&]() {
                const WorkItem &next = shared.work[(turn + 1) % WORK_SLOTS];
                // The scheduler warp sets up the second iteration's work while this warp computes its first integers.
                if (turn == 0 && !has_second) {
                    turn_barrier();
                }
                has_second = true;
                if (ASYNCHRONOUS && __any_sync(ALL_LANES, next.chunk < batch.chunks)) {
                    VectorTile following;
                    following.row_stride = tile.row_stride;
                    describe(next.tiles[own_tile], following);
                    staging.fetch(slab, following, next.tiles + warp_id() * UNIT_TILES, row, plane,
                                  launch.codes.aligned != 0);
                }
            };
            uint2 codes[ROWS];
            if (!__any_sync(ALL_LANES, staging.full)) {
                staging.fetch(slab, tile, work.tiles + warp_id() * UNIT_TILES, row, plane, launch.codes.aligned != 0);
            }
            staging.wait();
            if (!tile.whole) {
                staging.complete(tile);
            }
            const VectorResult fast = quantize_unit(step, slab, tile, launch.codes.aligned != 0, extents.elements,
                                                    staging, refill, locate, hint, codes);
            // The vector path does not know reserved patterns.
            const bool valid = fast.valid && (PATTERNS == 0 || step.reserved == 0);
            TileResult result = {};
            result.base = fast.base;
            result.predictor = fast.predictor;
            result.activity = fast.activity;
            result.meta = fast.meta;
            result.verbatim = fast.verbatim;
            result.error = fast.error;
            result.counted = fast.counted;
            uint32_t outliers = fast.outliers, wide_outliers = fast.wide_outliers;
            // The remaining tiles take the scalar path. A tile's results are in the registers of its lanes.
            const uint32_t scalar_lanes = __ballot_sync(ALL_LANES, begun && exists && !valid);
            if (scalar_lanes != 0) {
                staging.discard();
                for (uint32_t t = 0; t < UNIT_TILES; ++t) {
                    if ((scalar_lanes >> (2 * t) & 1) != 0) {
                        const TileBox other(
                            geometry.tile(batch.first_tile + work.first_tile + warp_id() * UNIT_TILES + t));
                        TileSource source{slab + (other.first_element - launch.codes.first_element), plane, row};
                        TileBitmaps words;
                        TileResult found = quantize_tile(step, other, source, integers + t * MAX_ELEMENTS, words);
                        if (tile_leader() == 2 * t) {
                            result = found;
                        }
                    }
                }
            }
            // The codes, dense as they will be stored.
            const uint32_t own_groups = exists && result.activity > 0 ? geometry.groups(extents.elements) : 0;
            const uint32_t first_groups = __shfl_sync(ALL_LANES, own_groups, 0);
            const uint32_t own_start = (tile_leader() != 0 ? first_groups : 0) << geometry.group_log2;
            uint16_t *unit_codes = shared.codes[turn % 2][warp_id()];
            if (exists && valid && own_groups > 0) {
                place_codes(tile, extents, own_groups << geometry.group_log2, codes, unit_codes + own_start);
            }
            if (scalar_lanes != 0) {
                for (uint32_t t = 0; t < UNIT_TILES; ++t) {
                    const bool live = __shfl_sync(ALL_LANES, own_groups, 2 * t) > 0;
                    if ((scalar_lanes >> (2 * t) & 1) != 0 && live) {
                        const TileBox other(
                            geometry.tile(batch.first_tile + work.first_tile + warp_id() * UNIT_TILES + t));
                        TileResult found = result;
                        found.base = __shfl_sync(ALL_LANES, result.base, 2 * t);
                        found.predictor = __shfl_sync(ALL_LANES, result.predictor, 2 * t);
                        uint16_t *to = unit_codes + __shfl_sync(ALL_LANES, own_start, 2 * t);
                        uint32_t codes_end = geometry.groups(other.elements()) << geometry.group_log2, near, far;
                        write_codes(other, integers + t * MAX_ELEMENTS, found, codes_end, RADIUS, to, near, far);
                        if (tile_leader() == 2 * t) {
                            outliers = near;
                            wide_outliers = far;
                        }
                    }
                }
            }
            if (!__any_sync(ALL_LANES, staging.full)) {
                refill();
            }
            if (lane == tile_leader()) {
                const bool constant = result.activity == 0;
                TileOutput &found = shared.tile_outputs[turn % 2][own_tile];
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
        if (!begun) {
            if (!more && __any_sync(ALL_LANES, shared.work[0].chunk < batch.chunks)) {
                describe(shared.work[0].tiles[own_tile], tile);
                staging.fetch(slab, tile, shared.work[0].tiles + warp_id() * UNIT_TILES, row, plane,
                              launch.codes.aligned != 0);
            }
            turn_barrier();
            grid_dependency_wait();
            if (threadIdx.x < sizeof(Step) / 4) {
                reinterpret_cast<uint32_t *>(&shared.step)[threadIdx.x] =
                    reinterpret_cast<const uint32_t *>(later != nullptr ? later : &known)[threadIdx.x];
            }
            turn_barrier();
            has_second = false;
            hint = {AXES, STRATEGY_HALF2, 0};
            continue;
        }
        turn_barrier();
        if (turn > 0) {
            const uint32_t parity = (turn + 1) % 2;
            store_codes(geometry, batch, outputs, last, shared.before[parity], shared.tiles_before[parity],
                        shared.codes[parity][warp_id()], control);
            __syncwarp();
        }
        if (!more) {
            return;
        }
    }
}
