// Elements to codes in one pass: quantization, prediction, the choice of the predictor, and codes that are dense within
// each chunk. Elements are loaded straight into registers (compare staged.cu).
//
// A block takes UNITS units of 1,024 elements at a time, one per warp, on the vector path
// (quantize/codes/direct_vector.cuh). Tiles that it does not support take the scalar path (quantize/scalar_tile.cuh).
// The place of a tile's codes depends on the number of constant tiles before it in the chunk, which blocks find by
// decoupled look-back (device/lookback.cuh). To hide its latency, each look-back is completed only after the codes of
// the block's next units are computed; until then codes stay in shared memory. Tickets are taken in order, so that no
// block waits for one that has not started.
//
// AXES      axes along which tiles extend
// PATTERNS  1 if there may be fill patterns, which the vector path must detect
// MEASURE   1 to sum squared errors
// UNITS     warps of a block
// BLOCKS    blocks per multiprocessor
//
// and the constant of quantize/step_argument.cuh.
#include "device/lookback.cuh"
#include "device/warp.cuh"
#include "quantize/codes/direct_vector.cuh"
#include "quantize/scalar_tile.cuh"
#include "quantize/step_argument.cuh"
#include "quantize/structs.cuh"

constexpr uint32_t UNIT_ELEMENTS = 1024;

// A block's work: units from tile `first_tile` of the batch on.
struct WorkItem {
    uint32_t ticket, first_ticket; // its own, and that of the chunk's first block
    uint32_t chunk, first_tile;
    TileCoord coord; // of that tile
    // Whether all of the block's tiles exist, are unclipped and lie in one row. If so, `first_element` is the first
    // element of the first of them in the slab.
    uint32_t in_row;
    uint64_t first_element;
};

struct Shared {
    alignas(16) uint16_t codes[UNITS][UNIT_ELEMENTS];
    alignas(16) int32_t integers[UNITS][UNIT_ELEMENTS]; // on the vector path, as floats
    uint32_t unit_groups[2][UNITS];                     // first of each unit, then of the units before it in the block
    uint32_t block_groups[2];
    uint32_t before; // groups of the chunk before the block's previous units
    WorkItem work[2];
};

// Takes the next work. Called by one thread.
__device__ inline void take_work(const Geometry &geometry, const ChunkBatch &batch, const CodesLaunch &launch,
                                 uint32_t *control, WorkItem &work) {
    work.ticket = atomicAdd(control, 1u);
    work.chunk = work.ticket / launch.chunk_blocks;
    work.first_ticket = work.chunk * launch.chunk_blocks;
    if (work.chunk < batch.chunks) {
        work.first_tile = batch.chunk_first(work.chunk) + (work.ticket - work.first_ticket) * (UNITS * UNIT_TILES);
        const TileCoord coord = geometry.coord(batch.first_tile + work.first_tile);
        const bool exist = work.first_tile + UNITS * UNIT_TILES <= batch.chunk_first(work.chunk + 1);
        const Tile tile = geometry.tile(coord);
        work.coord = coord;
        work.in_row = exist && (coord.x + UNITS * UNIT_TILES) * geometry.side[2] <= geometry.dims[3] &&
                      geometry.is_unclipped(tile);
        work.first_element = tile.first_element - launch.first_element;
    }
}

// The work that remains for a warp's previous unit once the place of its codes is known.
struct PendingUnit {
    uint32_t chunk, first_ticket, ticket;
    uint32_t number;        // of the lane's tile
    uint32_t exists;        // the tile exists, and this lane is its leader
    uint32_t groups_before; // of the unit's other tile, if that comes first
    uint32_t unit_groups;
};

__device__ inline void store(const Geometry &geometry, const ChunkBatch &batch, const Outputs &outputs,
                             const Shared &shared, const PendingUnit &pending, uint32_t turn, uint32_t *control) {
    const uint32_t first = shared.before + shared.unit_groups[turn][warp_id()];
    uint16_t *codes = outputs.codes + ((batch.first_slot(pending.chunk) + first) << geometry.group_log2);
    const uint4 *from = reinterpret_cast<const uint4 *>(shared.codes[warp_id()]);
    const uint32_t vectors = pending.unit_groups << geometry.group_log2 >> 3;
    Extremes extremes;
    for (uint32_t i = lane_id(); i < vectors; i += WARP) {
        const uint4 eight = from[i];
        reinterpret_cast<uint4 *>(codes)[i] = eight;
        extremes.add(eight);
    }
    if (vectors > 0) {
        extremes.merge_into(extremes_of(control, pending.chunk));
    }
    if (pending.exists) {
        outputs.first_groups[pending.number] = first + pending.groups_before;
    }
    __syncwarp();
}

// `control` is 0 at first: the ticket counter, the extreme codes of each chunk, and a status word for each block of
// work.
extern "C" __global__ void __launch_bounds__(UNITS *WARP, BLOCKS)
    quantize_codes_direct(const Element *slab, Geometry geometry, ChunkBatch batch, StepArgument constants,
                          CodesLaunch launch, Outputs outputs, uint32_t *control) {
    const Step &step = step_in(constants);
    if (launch.skips_unfit != 0 && (step.pattern_count > 0) != (PATTERNS != 0)) {
        return;
    }
    const bool use_vector = launch.use_vector != 0 && step.reserved == 0;
    extern __shared__ uint4 shared_memory[];
    Shared &shared = *reinterpret_cast<Shared *>(shared_memory);
    if (threadIdx.x == 0) {
        take_work(geometry, batch, launch, control, shared.work[0]);
    }
    __syncthreads();
    const uint32_t lane = lane_id();
    const uint64_t row = geometry.dims[3], plane = geometry.dims[2] * geometry.dims[3];
    PendingUnit pending = {};
    bool any_pending = false; // the same on all threads of the block
    uint32_t guess = AXES;    // expected predictor, the same on all lanes
    for (uint32_t turn = 0;; turn ^= 1) {
        const WorkItem &work = shared.work[turn];
        const uint32_t chunk = work.chunk;
        // The vote tells the compiler that the condition is uniform. Otherwise it would guard every shuffle below
        // against divergence.
        const bool more = __any_sync(ALL_LANES, chunk < batch.chunks);
        uint2 codes[ROWS];
        uint32_t outliers = 0, wide_outliers = 0;
        TileResult result = {};
        PendingUnit next = {};
        uint32_t unit_tile = 0, end = 0, own_groups = 0, scalar_lanes = 0, tile_elements = 0;
        bool vector_lane = false;
        if (more) {
            unit_tile = work.first_tile + warp_id() * UNIT_TILES;
            end = batch.chunk_first(chunk + 1);
            const uint32_t number = unit_tile + (tile_leader() != 0);
            const bool exists = number < end;
            const uint32_t y = AXES == 3 ? lane / 4 : AXES == 2 ? lane / 8 * ROWS : 0;
            const uint32_t x = AXES == 3 ? (lane & 1) * QUAD : AXES == 2 ? lane % 8 * QUAD : lane * QUAD;
            uint32_t elements = MAX_ELEMENTS;
            VectorTile vector_tile;
            vector_tile.row_stride = AXES == 3 ? plane : AXES == 2 ? row : WARP * QUAD;
            if (work.in_row != 0) {
                vector_tile.eligible = use_vector;
                vector_tile.first = work.first_element + (number - work.first_tile) * geometry.side[2] + y * row + x;
            } else {
                vector_tile.eligible = false;
                vector_tile.first = 0;
                elements = 0;
                if (exists) {
                    TileCoord coord = work.coord;
                    geometry.advance(coord, number - work.first_tile);
                    const Tile tile = geometry.tile(coord);
                    elements = tile.elements();
                    vector_tile.eligible = geometry.is_unclipped(tile) && use_vector;
                    vector_tile.first = tile.first_element - launch.first_element + y * row + x;
                }
            }
            const VectorResult fast = quantize_unit(step, slab, vector_tile, launch.aligned != 0,
                                                    reinterpret_cast<float4 *>(shared.integers[warp_id()]), guess,
                                                    codes, outliers, wide_outliers);
            result.base = fast.base;
            result.predictor = fast.predictor;
            result.activity = fast.activity;
            result.meta = fast.sign << META_SIGN;
            result.error = fast.error;
            result.counted = elements;
            vector_lane = exists && fast.valid;
            tile_elements = elements;
            // The remaining tiles take the scalar path. A tile's results are in the registers of its lanes.
            scalar_lanes = __ballot_sync(ALL_LANES, exists && !fast.valid);
            for (uint32_t t = 0; t < UNIT_TILES; ++t) {
                if ((scalar_lanes >> (2 * t) & 1) != 0) {
                    const TileBox other(geometry.tile(batch.first_tile + unit_tile + t));
                    TileSource source{slab + (other.first_element - launch.first_element), plane, row};
                    TileBitmaps words;
                    TileResult found =
                        quantize_tile(step, other, source, shared.integers[warp_id()] + t * MAX_ELEMENTS, words);
                    if (tile_leader() == 2 * t) {
                        result = found;
                    }
                }
            }
            own_groups = exists && result.activity > 0 ? geometry.groups(elements) : 0;
            // Groups of the unit's first tile.
            const uint32_t first_groups = __shfl_sync(ALL_LANES, own_groups, 0);
            next.chunk = chunk;
            next.first_ticket = work.first_ticket;
            next.ticket = work.ticket;
            next.number = number;
            next.exists = exists && lane == tile_leader();
            next.groups_before = tile_leader() != 0 ? first_groups : 0;
            next.unit_groups = UNIT_TILES == 1 ? first_groups : first_groups + __shfl_sync(ALL_LANES, own_groups, 2);
            if (lane == 0) {
                shared.unit_groups[turn][warp_id()] = next.unit_groups;
            }
        }
        __syncthreads();
        if (warp_id() == 0) {
            if (more) {
                uint32_t own = lane < UNITS ? shared.unit_groups[turn][lane] : 0, sum = own;
                for (uint32_t distance = 1; distance < UNITS; distance *= 2) {
                    uint32_t below = __shfl_up_sync(ALL_LANES, sum, distance);
                    sum += lane >= distance ? below : 0;
                }
                if (lane < UNITS) {
                    shared.unit_groups[turn][lane] = sum - own;
                }
                if (lane == UNITS - 1) {
                    shared.block_groups[turn] = sum;
                    store_aggregate(states_of(control, batch.chunks), work.first_ticket, work.ticket, sum);
                }
                if (lane == 0) {
                    take_work(geometry, batch, launch, control, shared.work[turn ^ 1]);
                }
                __syncwarp();
            }
            if (any_pending) {
                uint32_t before = look_back(states_of(control, batch.chunks), pending.first_ticket, pending.ticket,
                                            shared.block_groups[turn ^ 1]);
                if (lane == 0) {
                    shared.before = before;
                }
            }
        }
        __syncthreads();
        if (any_pending) {
            store(geometry, batch, outputs, shared, pending, turn ^ 1, control);
        }
        if (!more) {
            return;
        }

        // The codes of this iteration, dense as they will be stored.
        uint16_t *unit_codes = shared.codes[warp_id()];
        if (vector_lane && own_groups > 0) {
            uint16_t *to = unit_codes + (next.groups_before << geometry.group_log2) + lane_element();
#pragma unroll
            for (uint32_t k = 0; k < ROWS; ++k) {
                *reinterpret_cast<uint2 *>(to + k * ROW_DISTANCE) = codes[k];
            }
        }
        for (uint32_t t = 0; t < UNIT_TILES; ++t) {
            const bool live = __shfl_sync(ALL_LANES, own_groups, 2 * t) > 0;
            if ((scalar_lanes >> (2 * t) & 1) != 0 && live) {
                const TileBox other(geometry.tile(batch.first_tile + unit_tile + t));
                TileResult found = result;
                found.base = __shfl_sync(ALL_LANES, result.base, 2 * t);
                found.predictor = __shfl_sync(ALL_LANES, result.predictor, 2 * t);
                uint16_t *to = unit_codes + (__shfl_sync(ALL_LANES, next.groups_before, 2 * t) << geometry.group_log2);
                uint32_t codes_end = geometry.groups(other.elements()) << geometry.group_log2, near, far;
                write_codes(other, shared.integers[warp_id()] + t * MAX_ELEMENTS, found, codes_end, RADIUS, to, near,
                            far);
                if (tile_leader() == 2 * t) {
                    outliers = near;
                    wide_outliers = far;
                }
            }
        }
        if (next.exists) {
            const uint32_t number = next.number;
            const bool constant = result.activity == 0;
            uint32_t meta = result.meta | (constant ? META_CONSTANT : result.predictor << META_PREDICTOR);
            outputs.metas[number] = uint16_t(meta | (geometry.groups(tile_elements) - 1) << META_GROUPS);
            outputs.bases[number] = result.base;
            outputs.bins[number] = uint8_t(activity_bin(result.activity));
            outputs.outliers[number] = uint16_t(constant ? 0 : outliers);
            outputs.wide_outliers[number] = uint16_t(constant ? 0 : wide_outliers);
            outputs.verbatim[number] = uint16_t(result.verbatim);
#if MEASURE
            outputs.errors[number] = result.error;
            outputs.counted[number] = uint16_t(result.counted);
#endif
        }
        pending = next;
        any_pending = true;
    }
}
