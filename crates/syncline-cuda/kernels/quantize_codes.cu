// Elements to codes: quantisation, prediction, the choice of the predictor, and codes dense in each chunk, in one reading.
//
// A block has UNITS units of 1,024 elements (quantize_fast.cuh), a warp each. What the fast way cannot do a warp does the plain way (quantize_tile.cuh), in shared
// memory. Where a tile's codes go depends on how many tiles before it in the chunk are constant: blocks find their place by looking back at those before them
// (Merrill and Garland 2016). They are numbered in the order in which they start, so none waits for one that has not started.
//
// AXES      axes along which tiles extend
// PATTERNS  1 if there may be fill patterns that the fast way must look for
// MEASURE   1 to sum up squared errors
// UNITS     warps in a block
#include "quantize_fast.cuh"
#include "quantize_tile.cuh"

constexpr uint32_t UNIT_ELEMENTS = 1024;
constexpr uint32_t AGGREGATE = 1u << 30;
constexpr uint32_t INCLUSIVE = 2u << 30;
constexpr uint32_t VALUE = AGGREGATE - 1;

struct Launch {
    uint64_t first_element; // of the slab
    uint32_t chunk_blocks;  // blocks of a chunk
    uint32_t aligned;       // quads of elements start on multiples of 16 bytes
    uint32_t use_fast;
    uint32_t unused;
};

// The groups of all blocks of the chunk before block `ticket`, of which `first` is the chunk's first. Called by one warp.
__device__ inline uint32_t look_back(uint32_t *states, uint32_t first, uint32_t ticket, uint32_t own) {
    volatile uint32_t *state = states;
    if (ticket == first) {
        if (lane_id() == 0) {
            state[ticket] = INCLUSIVE | own;
        }
        return 0;
    }
    if (lane_id() == 0) {
        state[ticket] = AGGREGATE | own;
    }
    uint32_t before = 0;
    int64_t at = int64_t(ticket) - 1 - lane_id();
    for (;;) {
        // Before the chunk's first block there is nothing.
        uint32_t seen = INCLUSIVE;
        if (at >= int64_t(first)) {
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
        at -= WARP;
    }
    if (lane_id() == 0) {
        state[ticket] = INCLUSIVE | (before + own);
    }
    return before;
}

// `control` starts as zeros: the ticket counter, then a state for each block.
extern "C" __global__ void __launch_bounds__(UNITS *WARP, BLOCKS) quantize_codes(
    const Element *slab, Geometry geometry, ChunkBatch batch, Step step, Launch launch, Outputs outputs, uint32_t *control
) {
    __shared__ int32_t integers[UNITS][UNIT_ELEMENTS];
    __shared__ uint32_t unit_groups[UNITS];
    __shared__ uint32_t block_ticket;
    if (threadIdx.x == 0) {
        block_ticket = atomicAdd(control, 1u);
    }
    __syncthreads();
    const uint32_t ticket = block_ticket, lane = lane_id();
    const uint32_t chunk = ticket / launch.chunk_blocks, first_ticket = chunk * launch.chunk_blocks;
    // Tiles are numbered from the batch's first.
    const uint32_t unit_tile = batch.chunk_first(chunk) + ((ticket - first_ticket) * UNITS + warp_id()) * UNIT_TILES;
    const uint32_t number = unit_tile + (tile_leader() != 0), end = batch.chunk_first(chunk + 1);
    const bool exists = number < end;

    Tile tile = {};
    FastTile fast_tile = {};
    const uint64_t row = geometry.dims[3], plane = geometry.dims[2] * geometry.dims[3];
    if (exists) {
        tile = geometry.tile(batch.first_tile + number);
        fast_tile.eligible = geometry.is_unclipped(tile) && launch.use_fast != 0;
        uint32_t y = AXES == 3 ? lane / 4 : AXES == 2 ? lane / 8 * ROWS : 0;
        uint32_t x = AXES == 3 ? (lane & 1) * QUAD : AXES == 2 ? lane % 8 * QUAD : lane * QUAD;
        fast_tile.first = tile.first_element - launch.first_element + y * row + x;
        fast_tile.row_stride = AXES == 3 ? plane : AXES == 2 ? row : WARP * QUAD;
    }
    uint2 codes[ROWS] = {};
    uint32_t outliers, wide_outliers;
    FastResult fast = quantize_unit(step, slab, fast_tile, launch.aligned != 0, codes, outliers, wide_outliers);

    TileResult result = {};
    result.base = fast.base;
    result.predictor = fast.predictor;
    result.activity = fast.activity;
    result.meta = fast.sign << META_SIGN;
    result.error = fast.error;
    result.counted = tile.elements();
    // The others the plain way. Everything about a tile is in the registers of its lanes.
    const uint32_t plain = __ballot_sync(ALL_LANES, exists && !fast.fast);
    for (uint32_t t = 0; t < UNIT_TILES; ++t) {
        if ((plain >> (2 * t) & 1) != 0) {
            Tile other = geometry.tile(batch.first_tile + unit_tile + t);
            TileSource source{slab + (other.first_element - launch.first_element), plane, row};
            TileWords words;
            TileResult found = quantize_tile(step, other, source, integers[warp_id()] + t * MOST_ELEMENTS, words);
            if (tile_leader() == 2 * t) {
                result = found;
            }
        }
    }
    const bool constant = result.activity == 0;
    const uint32_t groups = exists && !constant ? geometry.groups(tile.elements()) : 0;
    // Groups of the unit's first tile and of both.
    const uint32_t first_groups = __shfl_sync(ALL_LANES, groups, 0);
    const uint32_t all_groups = UNIT_TILES == 1 ? first_groups : first_groups + __shfl_sync(ALL_LANES, groups, 2);
    if (lane == 0) {
        unit_groups[warp_id()] = all_groups;
    }
    __syncthreads();
    if (warp_id() == 0) {
        uint32_t own = lane < UNITS ? unit_groups[lane] : 0, sum = own;
        for (uint32_t distance = 1; distance < UNITS; distance *= 2) {
            uint32_t below = __shfl_up_sync(ALL_LANES, sum, distance);
            sum += lane >= distance ? below : 0;
        }
        uint32_t before = look_back(control + 1, first_ticket, ticket, __shfl_sync(ALL_LANES, sum, UNITS - 1));
        if (lane < UNITS) {
            unit_groups[lane] = before + sum - own;
        }
    }
    __syncthreads();

    const uint32_t first_group = unit_groups[warp_id()] + (tile_leader() != 0 ? first_groups : 0);
    uint16_t *chunk_codes = outputs.codes + (uint64_t(chunk) * batch.slots << geometry.group_log2);
    uint16_t *tile_codes = chunk_codes + (uint64_t(first_group) << geometry.group_log2);
    if (exists && fast.fast && !constant) {
        uint16_t *to = tile_codes + lane_element();
#pragma unroll
        for (uint32_t k = 0; k < ROWS; ++k) {
            *reinterpret_cast<uint2 *>(to + k * ROW_DISTANCE) = codes[k];
        }
    }
    const uint32_t plain_live = __ballot_sync(ALL_LANES, exists && !fast.fast && !constant);
    for (uint32_t t = 0; t < UNIT_TILES; ++t) {
        if ((plain_live >> (2 * t) & 1) != 0) {
            Tile other = geometry.tile(batch.first_tile + unit_tile + t);
            uint32_t of_first = t == 0 ? 0 : first_groups;
            TileResult found = result;
            found.base = __shfl_sync(ALL_LANES, result.base, 2 * t);
            found.predictor = __shfl_sync(ALL_LANES, result.predictor, 2 * t);
            uint16_t *to = chunk_codes + (uint64_t(unit_groups[warp_id()] + of_first) << geometry.group_log2);
            uint32_t codes_end = geometry.groups(other.elements()) << geometry.group_log2, near, far;
            write_codes(other, integers[warp_id()] + t * MOST_ELEMENTS, found, codes_end, RADIUS, to, near, far);
            if (tile_leader() == 2 * t) {
                outliers = near;
                wide_outliers = far;
            }
        }
    }
    if (exists && lane == tile_leader()) {
        uint32_t meta = result.meta | (constant ? META_CONSTANT : result.predictor << META_PREDICTOR);
        outputs.metas[number] = uint16_t(meta);
        outputs.bases[number] = result.base;
        outputs.bins[number] = uint8_t(activity_bin(result.activity));
        outputs.outliers[number] = uint16_t(constant ? 0 : outliers);
        outputs.wide_outliers[number] = uint16_t(constant ? 0 : wide_outliers);
        outputs.verbatim[number] = uint16_t(result.verbatim);
        outputs.first_groups[number] = first_group;
#if MEASURE
        outputs.errors[number] = result.error;
        outputs.counted[number] = uint16_t(result.counted);
#endif
    }
}
