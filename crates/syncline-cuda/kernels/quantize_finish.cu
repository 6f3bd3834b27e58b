// After the codes: for each chunk its sums, which radius it takes, where each tile's outliers, verbatim values and bitmaps go, the bases of tiles without
// elements of their own, and the activity classes. Reads and writes some 40 bytes a tile. There are fewer chunks than multiprocessors: PARTS blocks share a chunk, a cluster
// whose blocks read each other's sums.
//
// THREADS  threads in a block
// CLUSTER  blocks of a chunk, a power of two, on devices of compute capability 9.0 or more; on others a chunk has one
#include "common.cuh"
#define ELEMENT_BYTES 4
#define LOGARITHM 0
#include "quantize.cuh"

#if __CUDA_ARCH__ >= 900
#define PARTS CLUSTER
#define CLUSTER_SIZE __cluster_dims__(CLUSTER, 1, 1)
#else
#define PARTS 1
#define CLUSTER_SIZE
#endif

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

// Sums of tiles, or of the tiles before one.
struct Running {
    uint64_t lists;   // outliers, verbatim values << 32
    uint64_t bitmaps; // bytes of masks, of signs << 32
    uint32_t based;   // number of the last tile that has a base of its own, plus 1; 0: none

    __device__ inline Running plus(const Running &later) const { return {lists + later.lists, bitmaps + later.bitmaps, later.based > 0 ? later.based : based}; }
    // Of the lanes below. Most tiles have neither lists nor bitmaps.
    __device__ inline Running before() const {
        Running sum = {};
        if (__any_sync(ALL_LANES, lists != 0 || bitmaps != 0)) {
            sum.lists = lists, sum.bitmaps = bitmaps;
            for (uint32_t distance = 1; distance < WARP; distance *= 2) {
                const uint64_t lists_below = __shfl_up_sync(ALL_LANES, sum.lists, distance), bitmaps_below = __shfl_up_sync(ALL_LANES, sum.bitmaps, distance);
                sum.lists += lane_id() >= distance ? lists_below : 0;
                sum.bitmaps += lane_id() >= distance ? bitmaps_below : 0;
            }
            sum.lists -= lists, sum.bitmaps -= bitmaps;
        }
        const uint32_t based_below = __ballot_sync(ALL_LANES, based > 0) & ((1u << lane_id()) - 1);
        const uint32_t nearest = __shfl_sync(ALL_LANES, based, 31 - __clz(based_below | 1));
        sum.based = based_below != 0 ? nearest : 0;
        return sum;
    }
};

// A chunk's tiles, a few for each thread: THREADS consecutive ones in each round. What is read of them stays in registers, so that all loads wait for memory together.
constexpr uint32_t MOST_TILES = 1 << 13;
constexpr uint32_t ROUNDS = MOST_TILES / PARTS / THREADS;

#if PARTS > 1
__device__ inline void cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" : : : "memory"); }
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" : : : "memory"); }
// A word of another block's shared memory, where this block has `own`.
template <typename T> __device__ inline T word_of_part(const T &own, uint32_t part) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a word");
    uint32_t address;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(&own)), "r"(part));
    if constexpr (sizeof(T) == 4) {
        uint32_t value;
        asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
        return value;
    } else {
        uint64_t value;
        asm volatile("ld.shared::cluster.u64 %0, [%1];" : "=l"(value) : "r"(address) : "memory");
        return value;
    }
}
#else
__device__ inline void cluster_arrive() {}
__device__ inline void cluster_wait() { __syncthreads(); }
template <typename T> __device__ inline T word_of_part(const T &own, uint32_t) { return own; }
#endif

enum { OUTLIERS_GROUPS, VERBATIM_WIDE, MASKS_SIGNS, ERROR, COUNTED, SUMS };

extern "C" __global__ void CLUSTER_SIZE __launch_bounds__(THREADS) quantize_finish(
    Geometry geometry, ChunkBatch batch, uint32_t with_classes, Outputs outputs, SideOffsets *offsets, uint8_t *group_classes, ChunkSummary *summaries
) {
    __shared__ uint32_t part_bins[BINS_OF_LANE * WARP], bins[BINS_OF_LANE * WARP];
    __shared__ uint64_t part_sums[SUMS];
    __shared__ Running part_running;
    __shared__ uint64_t warp_sums[SUMS][WARPS];
    __shared__ Running warp_running[ROUNDS][WARPS];
    const uint32_t chunk = blockIdx.x / PARTS, part = blockIdx.x % PARTS, first_of_part = part * (MOST_TILES / PARTS);
    const uint32_t first = batch.chunk_first(chunk), tiles = batch.chunk_first(chunk + 1) - first;
    for (uint32_t i = threadIdx.x; i < BINS_OF_LANE * WARP; i += THREADS) {
        part_bins[i] = 0;
    }

    wait_for_previous();
    auto mask_of = [](uint32_t meta) { return meta >> META_MASK & 3; };
    auto sign_of = [](uint32_t meta) { return meta >> META_SIGN & 3; };
    auto groups_of = [](uint32_t meta) { return (meta >> META_GROUPS & 15) + 1; };
    // Bytes of the tile's bitmaps: 64 for each 512 elements, which are whole groups.
    auto bitmap_bytes = [&](uint32_t meta) { return groups_of(meta) > 512u >> geometry.group_log2 ? 128u : 64u; };
    // Bytes of masks, of signs << 32.
    auto bitmaps_of = [&](uint32_t meta) {
        const uint64_t bytes = bitmap_bytes(meta);
        return (mask_of(meta) == KIND_BITMAP ? bytes : 0) | (sign_of(meta) == KIND_BITMAP ? bytes << 32 : 0);
    };
    // The meta and above it the outliers; those of the wide radius and above them verbatim values; the bin.
    uint32_t metas[ROUNDS], counts[ROUNDS], own_bins[ROUNDS];
    uint64_t error = 0, counted = 0;
#pragma unroll
    for (uint32_t round = 0; round < ROUNDS; ++round) {
        const uint32_t tile = first_of_part + round * THREADS + threadIdx.x, number = first + tile;
        metas[round] = META_CONSTANT | META_EMPTY;
        counts[round] = own_bins[round] = 0;
        if (tile < tiles) {
            metas[round] = outputs.metas[number] | uint32_t(outputs.outliers[number]) << 16;
            counts[round] = outputs.wide_outliers[number] | uint32_t(outputs.verbatim[number]) << 16;
            own_bins[round] = outputs.bins[number];
            if (outputs.errors != nullptr) {
                error += outputs.errors[number];
                counted += outputs.counted[number];
            }
        }
    }
    const uint64_t elements_of_chunk = geometry.elements_before(batch.first_tile + first + tiles) - geometry.elements_before(batch.first_tile + first);
    __syncthreads();
    uint64_t sums[SUMS] = {0, 0, 0, error, counted};
#pragma unroll
    for (uint32_t round = 0; round < ROUNDS; ++round) {
        if (first_of_part + round * THREADS + threadIdx.x < tiles) {
            const uint32_t meta = metas[round];
            if ((meta & META_CONSTANT) == 0) {
                sums[OUTLIERS_GROUPS] += uint64_t(groups_of(meta)) << 32;
                atomicAdd(&part_bins[own_bins[round]], 1u);
            }
            sums[OUTLIERS_GROUPS] += meta >> 16;
            sums[VERBATIM_WIDE] += counts[round] >> 16 | uint64_t(counts[round] & 0xFFFF) << 32;
            sums[MASKS_SIGNS] += bitmaps_of(meta);
        }
    }
#pragma unroll
    for (uint32_t i = 0; i < SUMS; ++i) {
        const uint64_t sum = i >= ERROR && outputs.errors == nullptr ? 0 : warp_sum(sums[i]);
        if (lane_id() == 0) {
            warp_sums[i][warp_id()] = sum;
        }
    }
    __syncthreads();
    if (warp_id() < SUMS) {
        const uint64_t sum = warp_sum(lane_id() < WARPS ? warp_sums[warp_id()][lane_id()] : 0);
        if (lane_id() == 0) {
            part_sums[warp_id()] = sum;
        }
    }
    cluster_arrive();
    cluster_wait();
    auto all_of = [&](uint32_t i) {
        uint64_t sum = 0;
        for (uint32_t other = 0; other < PARTS; ++other) {
            sum += word_of_part(part_sums[i], other);
        }
        return sum;
    };
    const uint64_t outliers_groups = all_of(OUTLIERS_GROUPS);
    const bool wide = uint32_t(outliers_groups) > elements_of_chunk / WIDE_SHARE;
    const bool classify = with_classes != 0 && !wide;
    if (warp_id() == 0) {
        // Bins to classes: a lane has consecutive bins. They count tiles, so that no product is large.
        uint32_t own[BINS_OF_LANE], sum = 0;
        for (uint32_t i = 0; i < BINS_OF_LANE; ++i) {
            own[i] = 0;
            for (uint32_t other = 0; other < PARTS; ++other) {
                own[i] += word_of_part(part_bins[lane_id() * BINS_OF_LANE + i], other);
            }
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
            bins[lane_id() * BINS_OF_LANE + i] = min_of(4 * below / total, 3u);
            below += own[i];
        }
    } else if (warp_id() == 1 && part == 0) {
        const uint64_t verbatim_wide = all_of(VERBATIM_WIDE), masks_signs = all_of(MASKS_SIGNS), errors = all_of(ERROR), all_counted = all_of(COUNTED);
        if (lane_id() == 0) {
            summaries[chunk] = {
                uint32_t(outliers_groups >> 32), uint32_t(wide ? verbatim_wide >> 32 : outliers_groups), uint32_t(verbatim_wide), uint32_t(masks_signs),
                uint32_t(masks_signs >> 32), uint32_t(wide ? WIDE_RADIUS : RADIUS), errors, all_counted
            };
        }
    }
    auto own_of = [&](uint32_t round) -> Running {
        const uint32_t meta = metas[round], tile = first_of_part + round * THREADS + threadIdx.x;
        if (tile >= tiles) {
            return {};
        }
        return {(wide ? counts[round] & 0xFFFF : meta >> 16) | uint64_t(counts[round] >> 16) << 32, bitmaps_of(meta), (meta & META_EMPTY) == 0 ? first + tile + 1 : 0};
    };
#pragma unroll
    for (uint32_t round = 0; round < ROUNDS; ++round) {
        if (first_of_part + round * THREADS < tiles) {
            const Running own = own_of(round), through = own.before().plus(own);
            if (lane_id() == WARP - 1) {
                warp_running[round][warp_id()] = through;
            }
        }
    }
    __syncthreads();
    if (PARTS > 1) {
        if (warp_id() == 0) {
            Running sum = {};
#pragma unroll
            for (uint32_t round = 0; round < ROUNDS; ++round) {
                if (first_of_part + round * THREADS < tiles && lane_id() < WARPS) {
                    const Running &of_warp = warp_running[round][lane_id()];
                    // The last base's number is the greatest.
                    sum = {sum.lists + of_warp.lists, sum.bitmaps + of_warp.bitmaps, max_of(sum.based, of_warp.based)};
                }
            }
            for (uint32_t distance = 1; distance < WARP; distance *= 2) {
                sum.lists += __shfl_xor_sync(ALL_LANES, sum.lists, distance);
                sum.bitmaps += __shfl_xor_sync(ALL_LANES, sum.bitmaps, distance);
                sum.based = max_of(sum.based, __shfl_xor_sync(ALL_LANES, sum.based, distance));
            }
            if (lane_id() == 0) {
                part_running = sum;
            }
        }
        cluster_arrive();
        cluster_wait();
    }

    Running carried = {};
    for (uint32_t other = 0; other < part; ++other) {
        carried = carried.plus({word_of_part(part_running.lists, other), word_of_part(part_running.bitmaps, other), word_of_part(part_running.based, other)});
    }
    cluster_arrive();
#pragma unroll
    for (uint32_t round = 0; round < ROUNDS; ++round) {
        if (first_of_part + round * THREADS >= tiles) {
            break;
        }
        const Running of_warps = lane_id() < WARPS ? warp_running[round][lane_id()] : Running{}, warps_before = of_warps.before();
        auto from = [&](const Running &running, uint32_t lane) -> Running {
            return {__shfl_sync(ALL_LANES, running.lists, lane), __shfl_sync(ALL_LANES, running.bitmaps, lane), __shfl_sync(ALL_LANES, running.based, lane)};
        };
        const Running own = own_of(round), sum = carried.plus(from(warps_before, warp_id())).plus(own.before());
        carried = carried.plus(from(warps_before.plus(of_warps), WARPS - 1));
        const uint32_t tile = first_of_part + round * THREADS + threadIdx.x, number = first + tile;
        if (tile >= tiles) {
            continue;
        }
        const uint32_t meta = metas[round] & 0xFFFF;
        offsets[number] = {uint32_t(sum.lists), uint32_t(sum.lists >> 32), uint32_t(sum.bitmaps), uint32_t(sum.bitmaps >> 32)};
        if ((meta & META_EMPTY) != 0) {
            // Tiles with a base of their own are not written here.
            outputs.bases[number] = sum.based > 0 ? outputs.bases[sum.based - 1] : 0;
        }
        const bool live = (meta & META_CONSTANT) == 0;
        uint32_t class_of = classify && live ? bins[own_bins[round]] : 0;
        outputs.metas[number] = uint16_t((meta & META_LASTING) | class_of << META_CLASS);
        if (wide) {
            outputs.outliers[number] = uint16_t(counts[round]);
        }
        if (live) {
            uint8_t *classes = group_classes + uint64_t(chunk) * batch.slots + outputs.first_groups[number];
            const uint32_t count = groups_of(meta);
            if (count == 4 && reinterpret_cast<uint64_t>(classes) % 4 == 0) {
                *reinterpret_cast<uint32_t *>(classes) = class_of * 0x01010101u;
            } else {
                for (uint32_t group = 0; group < count; ++group) {
                    classes[group] = uint8_t(class_of);
                }
            }
        }
    }
    // The others have read this block's sums.
    cluster_wait();
}
