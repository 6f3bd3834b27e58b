// After the codes: for each chunk its sums, which radius it takes, where each tile's outliers, verbatim values and bitmaps go, the bases of tiles without
// elements of their own, and the activity classes. A block a chunk; reads and writes some 40 bytes a tile.
//
// THREADS  threads in a block
#include "common.cuh"
#define ELEMENT_BYTES 4
#define LOGARITHM 0
#include "quantize.cuh"

constexpr uint32_t WARPS = THREADS / WARP;
constexpr uint32_t BINS = 2 * 64 + 1;
constexpr uint32_t BINS_OF_LANE = (BINS + WARP - 1) / WARP;
// More outliers than this share of the elements make a chunk take the wide radius.
constexpr uint32_t WIDE_SHARE = 64;

// Mirrored by `ChunkSummary` in quantize/quantizer.rs.
struct ChunkSummary {
    uint32_t groups, outliers, verbatim, mask_bytes, sign_bytes, radius;
    uint64_t squared_error, counted;
};
struct SideOffsets {
    uint32_t outliers, verbatim, masks, signs;
};

// Sums of the tiles before a tile, in one round of the block.
struct Running {
    uint64_t lists;   // outliers, verbatim values << 32
    uint64_t bitmaps; // bytes of masks, of signs << 32
    uint32_t based;   // number of the last tile that has a base of its own, plus 1

    __device__ inline Running plus(const Running &later) const {
        return {lists + later.lists, bitmaps + later.bitmaps, max_of(based, later.based)};
    }
    __device__ inline Running up(uint32_t distance) const {
        return {
            __shfl_up_sync(ALL_LANES, lists, distance), __shfl_up_sync(ALL_LANES, bitmaps, distance), __shfl_up_sync(ALL_LANES, based, distance)
        };
    }
};

template <typename T> __device__ inline T block_sum(T value, T *of_warps) {
    value = warp_sum(value);
    __syncthreads();
    if (lane_id() == 0) {
        of_warps[warp_id()] = value;
    }
    __syncthreads();
    T sum = 0;
    for (uint32_t i = 0; i < WARPS; ++i) {
        sum += of_warps[i];
    }
    return sum;
}

extern "C" __global__ void __launch_bounds__(THREADS) quantize_finish(
    Geometry geometry, ChunkBatch batch, uint32_t with_classes, Outputs outputs, SideOffsets *offsets, uint8_t *group_classes, ChunkSummary *summaries
) {
    __shared__ uint32_t bins[BINS_OF_LANE * WARP];
    __shared__ uint64_t of_warps[WARPS];
    __shared__ Running warp_running[WARPS];
    const uint32_t chunk = blockIdx.x, first = batch.chunk_first(chunk), end = batch.chunk_first(chunk + 1);
    for (uint32_t i = threadIdx.x; i < BINS_OF_LANE * WARP; i += THREADS) {
        bins[i] = 0;
    }
    __syncthreads();

    auto mask_of = [](uint32_t meta) { return meta >> META_MASK & 3; };
    auto sign_of = [](uint32_t meta) { return meta >> META_SIGN & 3; };
    auto groups_of = [](uint32_t meta) { return (meta >> META_GROUPS) + 1; };
    // Bytes of the tile's bitmaps: 64 for each 512 elements, which are whole groups.
    auto bitmap_bytes = [&](uint32_t meta) { return groups_of(meta) > 512u >> geometry.group_log2 ? 128u : 64u; };
    uint64_t groups = 0, outliers = 0, wide_outliers = 0, verbatim = 0, masks = 0, signs = 0, error = 0, counted = 0;
    for (uint32_t number = first + threadIdx.x; number < end; number += THREADS) {
        const uint32_t meta = outputs.metas[number];
        if ((meta & META_CONSTANT) == 0) {
            groups += groups_of(meta);
            atomicAdd(&bins[outputs.bins[number]], 1u);
        }
        outliers += outputs.outliers[number];
        wide_outliers += outputs.wide_outliers[number];
        verbatim += outputs.verbatim[number];
        masks += mask_of(meta) == KIND_BITMAP ? bitmap_bytes(meta) : 0;
        signs += sign_of(meta) == KIND_BITMAP ? bitmap_bytes(meta) : 0;
        if (outputs.errors != nullptr) {
            error += outputs.errors[number];
            counted += outputs.counted[number];
        }
    }
    groups = block_sum(groups, of_warps);
    outliers = block_sum(outliers, of_warps);
    wide_outliers = block_sum(wide_outliers, of_warps);
    verbatim = block_sum(verbatim, of_warps);
    masks = block_sum(masks, of_warps);
    signs = block_sum(signs, of_warps);
    error = block_sum(error, of_warps);
    counted = block_sum(counted, of_warps);
    const uint64_t elements_of_chunk = geometry.elements_before(batch.first_tile + end) - geometry.elements_before(batch.first_tile + first);
    const bool wide = outliers > elements_of_chunk / WIDE_SHARE;
    if (threadIdx.x == 0) {
        summaries[chunk] = {
            uint32_t(groups), uint32_t(wide ? wide_outliers : outliers), uint32_t(verbatim), uint32_t(masks), uint32_t(signs),
            uint32_t(wide ? WIDE_RADIUS : RADIUS), error, counted
        };
    }
    // Bins to classes: a lane has consecutive bins.
    const bool classify = with_classes != 0 && !wide;
    if (warp_id() == 0) {
        uint32_t own[BINS_OF_LANE], sum = 0;
        for (uint32_t i = 0; i < BINS_OF_LANE; ++i) {
            own[i] = bins[lane_id() * BINS_OF_LANE + i];
            sum += own[i];
        }
        uint32_t below = sum;
        for (uint32_t distance = 1; distance < WARP; distance *= 2) {
            uint32_t other = __shfl_up_sync(ALL_LANES, below, distance);
            below += lane_id() >= distance ? other : 0;
        }
        const uint32_t total = max_of(__shfl_sync(ALL_LANES, below, WARP - 1), 1u);
        below -= sum;
        for (uint32_t i = 0; i < BINS_OF_LANE; ++i) {
            bins[lane_id() * BINS_OF_LANE + i] = min_of(uint32_t(uint64_t(4) * below / total), 3u);
            below += own[i];
        }
    }
    __syncthreads();

    Running carried = {};
    for (uint32_t round = first; round < end; round += THREADS) {
        const uint32_t number = round + threadIdx.x;
        uint32_t meta = 0;
        Running own = {};
        if (number < end) {
            meta = outputs.metas[number];
            own.lists = uint64_t(wide ? outputs.wide_outliers[number] : outputs.outliers[number]) | uint64_t(outputs.verbatim[number]) << 32;
            own.bitmaps = uint64_t(mask_of(meta) == KIND_BITMAP ? bitmap_bytes(meta) : 0) |
                          uint64_t(sign_of(meta) == KIND_BITMAP ? bitmap_bytes(meta) : 0) << 32;
            own.based = (meta & META_EMPTY) == 0 ? number + 1 : 0;
        }
        Running sum = own;
        for (uint32_t distance = 1; distance < WARP; distance *= 2) {
            Running other = sum.up(distance);
            if (lane_id() >= distance) {
                sum = other.plus(sum);
            }
        }
        __syncthreads();
        if (lane_id() == WARP - 1) {
            warp_running[warp_id()] = sum;
        }
        __syncthreads();
        Running before = carried;
        for (uint32_t i = 0; i < WARPS; ++i) {
            if (i < warp_id()) {
                before = before.plus(warp_running[i]);
            }
            carried = carried.plus(warp_running[i]);
        }
        sum = before.plus(sum);
        if (number < end) {
            const uint64_t lists = sum.lists - own.lists, bitmaps = sum.bitmaps - own.bitmaps;
            offsets[number] = {uint32_t(lists), uint32_t(lists >> 32), uint32_t(bitmaps), uint32_t(bitmaps >> 32)};
            if ((meta & META_EMPTY) != 0) {
                // Tiles with a base of their own are not written here.
                outputs.bases[number] = sum.based > 0 ? outputs.bases[sum.based - 1] : 0;
            }
            const bool live = (meta & META_CONSTANT) == 0;
            uint32_t class_of = classify && live ? bins[outputs.bins[number]] : 0;
            outputs.metas[number] = uint16_t((meta & META_LASTING) | class_of << META_CLASS);
            if (wide) {
                outputs.outliers[number] = outputs.wide_outliers[number];
            }
            if (live) {
                uint8_t *classes = group_classes + uint64_t(chunk) * batch.slots + outputs.first_groups[number];
                for (uint32_t group = 0; group < groups_of(meta); ++group) {
                    classes[group] = uint8_t(class_of);
                }
            }
        }
    }
}
