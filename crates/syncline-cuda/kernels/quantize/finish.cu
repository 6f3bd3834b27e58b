// Summarizes each chunk after its codes: its sums, its radius, the offsets of each tile's outliers, verbatim values and
// bitmaps, the bases of tiles without valid elements, the activity classes, and the parts of these that the record
// needs. Reads and writes about 40 bytes per tile. There are fewer chunks than multiprocessors, so that PARTS blocks
// share a chunk: a cluster, whose blocks read each other's sums from shared memory.
//
// THREADS  threads of a block
// CLUSTER  blocks per chunk, a power of two, from compute capability 9.0 on; before that, one block per chunk
#include "device/sync.cuh"
#include "device/warp.cuh"
#define ELEMENT_BYTES 4
#define LOGARITHM 0
#include "quantize/quantize.cuh"
#include "quantize/structs.cuh"
#include "quantize/summary.cuh"

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
// A chunk takes the wide radius if more than one in this many elements is an outlier.
constexpr uint32_t WIDE_SHARE = 64;

// Sums over some tiles, or over all tiles before one.
struct TilePrefix {
    uint64_t lists;   // outliers, verbatim values << 32
    uint64_t bitmaps; // bytes of masks, of signs << 32
    uint32_t based;   // number plus 1 of the last tile that has a base of its own; 0 if there is none

    __device__ inline TilePrefix plus(const TilePrefix &later) const {
        return {lists + later.lists, bitmaps + later.bitmaps, later.based > 0 ? later.based : based};
    }
    // Returns the sums over the lanes below. Most tiles have neither lists nor bitmaps.
    __device__ inline TilePrefix exclusive_scan() const {
        TilePrefix sum = {};
        if (__any_sync(ALL_LANES, lists != 0 || bitmaps != 0)) {
            sum.lists = lists, sum.bitmaps = bitmaps;
            for (uint32_t distance = 1; distance < WARP; distance *= 2) {
                const uint64_t lists_below = __shfl_up_sync(ALL_LANES, sum.lists, distance),
                               bitmaps_below = __shfl_up_sync(ALL_LANES, sum.bitmaps, distance);
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

// The tiles of a chunk: THREADS consecutive ones in each round. Their data stays in registers, so that all loads wait
// for memory together.
constexpr uint32_t MAX_TILES = 1 << 13;
constexpr uint32_t ROUNDS = MAX_TILES / PARTS / THREADS;

#if PARTS > 1
__device__ inline void cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" : : : "memory"); }
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" : : : "memory"); }
// Loads from another block's shared memory the word at the address of `own`.
template <typename T> __device__ inline T load_from_block(const T &own, uint32_t part) {
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
template <typename T> __device__ inline T load_from_block(const T &own, uint32_t) { return own; }
#endif

// Returns the sum over the blocks of the cluster.
template <typename T> __device__ inline T cluster_sum(const T &own) {
    T sum = 0;
#pragma unroll
    for (uint32_t part = 0; part < PARTS; ++part) {
        sum += load_from_block(own, part);
    }
    return sum;
}

// Sums over a chunk's tiles, which fit 32 bits except for errors. BASED is the number plus 1 of the last tile that has
// a base of its own; 0 if there is none.
enum { GROUPS, OUTLIERS, WIDE, VERBATIM, MASKS, SIGNS, BASED, SUMS };
enum { ERROR, COUNTED, ERRORS };

__device__ inline uint32_t reduced(uint32_t value, bool largest) {
#if __CUDA_ARCH__ >= 800
    return largest ? __reduce_max_sync(ALL_LANES, value) : __reduce_add_sync(ALL_LANES, value);
#else
    for (uint32_t distance = 1; distance < WARP; distance *= 2) {
        const uint32_t other = __shfl_xor_sync(ALL_LANES, value, distance);
        value = largest ? max_of(value, other) : value + other;
    }
    return value;
#endif
}

// Combines the sums of the cluster's blocks whose `take` is set, one word of a block per lane. Lane `i` gets sum `i`.
constexpr uint32_t SLOTS = 8;
static_assert(SUMS <= SLOTS && PARTS * SLOTS <= WARP, "a lane a word");
__device__ inline uint32_t reduce_over_blocks(uint32_t word, bool take) {
    uint32_t value = take ? word : 0;
#pragma unroll
    for (uint32_t distance = SLOTS; distance < PARTS * SLOTS; distance *= 2) {
        const uint32_t other = __shfl_xor_sync(ALL_LANES, value, distance);
        value = lane_id() % SLOTS == BASED ? max_of(value, other) : value + other;
    }
    return value;
}

extern "C" __global__ void CLUSTER_SIZE __launch_bounds__(THREADS)
    quantize_finish(Geometry geometry, ChunkBatch batch, uint32_t with_classes, Outputs outputs, SideOffsets *offsets,
                    uint8_t *group_classes, ChunkSummary *summaries, RecordInputs records) {
    __shared__ uint32_t part_bins[BINS_OF_LANE * WARP], bins[BINS_OF_LANE * WARP];
    __shared__ uint32_t part_sums[SLOTS];
    __shared__ uint64_t part_errors[ERRORS];
    __shared__ uint32_t warp_sums[SUMS][WARPS];
    __shared__ uint64_t warp_errors[ERRORS][WARPS];
    __shared__ TilePrefix warp_running[ROUNDS][WARPS];
    const uint32_t chunk = blockIdx.x / PARTS, part = blockIdx.x % PARTS;
    const uint32_t first = batch.chunk_first(chunk), tiles_of_chunk = batch.chunk_first(chunk + 1) - first;
    // All blocks of a chunk have the same number of tiles, in whole warps.
    const uint32_t tiles_of_part = ceil_div(ceil_div(tiles_of_chunk, PARTS), WARP) * WARP,
                   first_of_part = part * tiles_of_part;
    const uint32_t tiles = min_of(tiles_of_chunk, first_of_part + tiles_of_part);
    for (uint32_t i = threadIdx.x; i < BINS_OF_LANE * WARP; i += THREADS) {
        part_bins[i] = 0;
    }
    __shared__ uint32_t live_tiles, tile_flags, words_of_bases;
    launch_dependents_and_wait();
    const bool for_records = records.spans != nullptr;
    if (for_records) {
        if (threadIdx.x == 0) {
            live_tiles = tile_flags = words_of_bases = 0;
        }
        for (uint64_t i = blockIdx.x * THREADS + threadIdx.x; i < records.control_words; i += gridDim.x * THREADS) {
            // The extremes of a chunk are cleared by its own blocks.
            if (i < LINE_WORDS || i >= LINE_WORDS * (1 + uint64_t(batch.chunks))) {
                records.control[i] = 0;
            }
        }
        for (uint32_t i = batch.chunks + blockIdx.x * THREADS + threadIdx.x; i < records.streams;
             i += gridDim.x * THREADS) {
            records.spans[i] = {0, 0, RADIUS, 0, 0};
        }
    }

    auto mask_of = [](uint32_t meta) { return meta >> META_MASK & 3; };
    auto sign_of = [](uint32_t meta) { return meta >> META_SIGN & 3; };
    auto groups_of = [](uint32_t meta) { return (meta >> META_GROUPS & 15) + 1; };
    // Bytes of a tile's bitmap: 64 for each 512 elements, which are whole groups.
    auto bitmap_bytes = [&](uint32_t meta) { return groups_of(meta) > 512u >> geometry.group_log2 ? 128u : 64u; };
    // Bytes of masks, of signs << 32.
    auto bitmaps_of = [&](uint32_t meta) {
        const uint64_t bytes = bitmap_bytes(meta);
        return (mask_of(meta) == KIND_BITMAP ? bytes : 0) | (sign_of(meta) == KIND_BITMAP ? bytes << 32 : 0);
    };
    // Per tile: the meta with the outliers above it; the wide outliers with the verbatim values above them; the bin.
    uint32_t metas[ROUNDS], counts[ROUNDS], own_bins[ROUNDS], first_groups[ROUNDS];
    // With few tiles per thread, their bases stay in registers, with the base before each warp; otherwise they are
    // loaded later.
    constexpr uint32_t BASES = PARTS > 1 ? ROUNDS : 1;
    uint32_t bases[BASES] = {}, bases_before[BASES] = {};
    uint64_t error = 0, counted = 0;
    // The lowest and highest code of the chunk, on the thread that writes the summary.
    uint32_t *extremes = threadIdx.x == WARP && part == 0 && for_records && records.control_words != 0
                             ? extremes_of(records.control, chunk)
                             : nullptr;
    uint32_t symbols = 0;
    if (extremes != nullptr) {
        symbols = extremes[0] << 16 | (0xFFFF - extremes[1] + 1 & 0xFFFF);
    }
#pragma unroll
    for (uint32_t round = 0; round < ROUNDS; ++round) {
        const uint32_t tile = first_of_part + round * THREADS + threadIdx.x, number = first + tile;
        metas[round] = META_CONSTANT | META_EMPTY;
        counts[round] = own_bins[round] = first_groups[round] = 0;
        if (tile < tiles) {
            metas[round] = outputs.metas[number] | uint32_t(outputs.outliers[number]) << 16;
            counts[round] = outputs.wide_outliers[number] | uint32_t(outputs.verbatim[number]) << 16;
            own_bins[round] = outputs.bins[number];
            first_groups[round] = outputs.first_groups[number];
            if (PARTS > 1 && for_records) {
                bases[round] = uint32_t(outputs.bases[number]);
                bases_before[round] = lane_id() == 0 && number > 0 ? uint32_t(outputs.bases[number - 1]) : 0;
            }
            if (outputs.errors != nullptr) {
                error += outputs.errors[number];
                counted += outputs.counted[number];
            }
        }
    }
    const uint64_t elements_of_chunk = geometry.elements_before(batch.first_tile + first + tiles_of_chunk) -
                                       geometry.elements_before(batch.first_tile + first);
    __syncthreads();
    uint32_t sums[SUMS] = {};
#pragma unroll
    for (uint32_t round = 0; round < ROUNDS; ++round) {
        if (first_of_part + round * THREADS + threadIdx.x < tiles) {
            const uint32_t meta = metas[round];
            const uint64_t bitmaps = bitmaps_of(meta);
            if ((meta & META_CONSTANT) == 0) {
                sums[GROUPS] += groups_of(meta);
                atomicAdd(&part_bins[own_bins[round]], 1u);
            }
            sums[OUTLIERS] += meta >> 16;
            sums[WIDE] += counts[round] & 0xFFFF;
            sums[VERBATIM] += counts[round] >> 16;
            sums[MASKS] += uint32_t(bitmaps);
            sums[SIGNS] += uint32_t(bitmaps >> 32);
            sums[BASED] =
                (meta & META_EMPTY) == 0 ? first + first_of_part + round * THREADS + threadIdx.x + 1 : sums[BASED];
        }
    }
#pragma unroll
    for (uint32_t i = 0; i < SUMS; ++i) {
        const uint32_t sum = reduced(sums[i], i == BASED);
        if (lane_id() == 0) {
            warp_sums[i][warp_id()] = sum;
        }
    }
    if (outputs.errors != nullptr) {
        error = warp_reduce_sum(error), counted = warp_reduce_sum(counted);
        if (lane_id() == 0) {
            warp_errors[ERROR][warp_id()] = error;
            warp_errors[COUNTED][warp_id()] = counted;
        }
    }
    __syncthreads();
    if (warp_id() < SUMS) {
        const uint32_t sum = reduced(lane_id() < WARPS ? warp_sums[warp_id()][lane_id()] : 0, warp_id() == BASED);
        if (lane_id() == 0) {
            part_sums[warp_id()] = sum;
        }
    } else if (warp_id() - SUMS < ERRORS) {
        const uint64_t sum = outputs.errors == nullptr
                                 ? 0
                                 : warp_reduce_sum(lane_id() < WARPS ? warp_errors[warp_id() - SUMS][lane_id()] : 0);
        if (lane_id() == 0) {
            part_errors[warp_id() - SUMS] = sum;
        }
    }
    cluster_arrive();
    cluster_wait();
    const bool has_word = lane_id() < PARTS * SLOTS;
    const uint32_t word = has_word ? load_from_block(part_sums[lane_id() % SLOTS], lane_id() / SLOTS) : 0;
    const uint32_t chunk_sums = reduce_over_blocks(word, true),
                   sums_before = reduce_over_blocks(word, lane_id() / SLOTS < part);
    auto of_chunk = [&](uint32_t i) { return __shfl_sync(ALL_LANES, chunk_sums, i); };
    auto before_part = [&](uint32_t i) { return __shfl_sync(ALL_LANES, sums_before, i); };
    const uint32_t outliers = of_chunk(OUTLIERS);
    const bool wide = outliers > elements_of_chunk / WIDE_SHARE;
    const bool classify = with_classes != 0 && !wide;
    if (warp_id() == 0) {
        // Bins to classes: each lane has consecutive bins. They count tiles, so that the products fit.
        uint32_t own[BINS_OF_LANE], sum = 0;
        for (uint32_t i = 0; i < BINS_OF_LANE; ++i) {
            own[i] = 0;
            for (uint32_t other = 0; other < PARTS; ++other) {
                own[i] += load_from_block(part_bins[lane_id() * BINS_OF_LANE + i], other);
            }
            sum += own[i];
        }
        uint32_t below = warp_inclusive_sum(sum);
        const uint32_t total = max_of(__shfl_sync(ALL_LANES, below, WARP - 1), 1u);
        below -= sum;
        for (uint32_t i = 0; i < BINS_OF_LANE; ++i) {
            bins[lane_id() * BINS_OF_LANE + i] = min_of(4 * below / total, 3u);
            below += own[i];
        }
    } else if (warp_id() == 1 && part == 0) {
        ChunkSummary summary;
        summary.groups = of_chunk(GROUPS);
        summary.outliers = of_chunk(wide ? WIDE : OUTLIERS);
        summary.verbatim = of_chunk(VERBATIM);
        summary.mask_bytes = of_chunk(MASKS);
        summary.sign_bytes = of_chunk(SIGNS);
        summary.radius = wide ? WIDE_RADIUS : RADIUS;
        summary.squared_error = cluster_sum(part_errors[ERROR]);
        summary.counted = cluster_sum(part_errors[COUNTED]);
        if (lane_id() == 0) {
            summaries[chunk] = summary;
            if (for_records) {
                const bool is_raw = summary.is_raw(elements_of_chunk, records.element_bytes);
                if (extremes != nullptr) {
                    extremes[0] = extremes[1] = 0;
                }
                records.spans[chunk] = {batch.first_slot(chunk), wide || is_raw ? 0 : summary.groups, RADIUS, symbols,
                                        0};
                records.hash_progress[chunk] = 0;
                if (records.host != nullptr) {
                    records.host[chunk] = is_raw ? summary.of_raw(RADIUS) : summary;
                }
            }
        }
    }
    auto own_of = [&](uint32_t round) -> TilePrefix {
        const uint32_t meta = metas[round], tile = first_of_part + round * THREADS + threadIdx.x;
        if (tile >= tiles) {
            return {};
        }
        return {(wide ? counts[round] & 0xFFFF : meta >> 16) | uint64_t(counts[round] >> 16) << 32, bitmaps_of(meta),
                (meta & META_EMPTY) == 0 ? first + tile + 1 : 0};
    };
#pragma unroll
    for (uint32_t round = 0; round < ROUNDS; ++round) {
        if (first_of_part + round * THREADS < tiles) {
            const TilePrefix own = own_of(round), through = own.exclusive_scan().plus(own);
            if (lane_id() == WARP - 1) {
                warp_running[round][warp_id()] = through;
            }
        }
    }
    __syncthreads();
    TilePrefix carried = {before_part(wide ? WIDE : OUTLIERS) | uint64_t(before_part(VERBATIM)) << 32,
                          before_part(MASKS) | uint64_t(before_part(SIGNS)) << 32, before_part(BASED)};
    cluster_arrive();
    TileSums own_sums = {};
#pragma unroll
    for (uint32_t round = 0; round < ROUNDS; ++round) {
        if (first_of_part + round * THREADS >= tiles) {
            break;
        }
        const TilePrefix of_warps = lane_id() < WARPS ? warp_running[round][lane_id()] : TilePrefix{},
                         warps_before = of_warps.exclusive_scan();
        auto from = [&](const TilePrefix &running, uint32_t lane) -> TilePrefix {
            return {__shfl_sync(ALL_LANES, running.lists, lane), __shfl_sync(ALL_LANES, running.bitmaps, lane),
                    __shfl_sync(ALL_LANES, running.based, lane)};
        };
        const TilePrefix own = own_of(round),
                         sum = carried.plus(from(warps_before, warp_id())).plus(own.exclusive_scan());
        carried = carried.plus(from(warps_before.plus(of_warps), WARPS - 1));
        const uint32_t tile = first_of_part + round * THREADS + threadIdx.x, number = first + tile;
        const uint32_t meta = metas[round] & 0xFFFF;
        if (for_records) {
            // Tiles without a base of their own take that of the last tile before that has one.
            const bool empty = (meta & META_EMPTY) != 0;
            // In most cases the previous tile has one.
            const bool is_there = PARTS > 1 && lane_id() == 0 && sum.based == number;
            uint32_t base_before = is_there ? bases_before[round % BASES] : 0;
            if ((empty || lane_id() == 0) && !is_there && sum.based > 0) {
                base_before = uint32_t(outputs.bases[sum.based - 1]);
            }
            const uint32_t own_base = PARTS > 1 ? bases[round % BASES] : empty ? 0 : uint32_t(outputs.bases[number]);
            const uint32_t base = empty ? base_before : own_base, neighbor = __shfl_up_sync(ALL_LANES, base, 1);
            const uint32_t width =
                width_of(tile < tiles ? zigzag(base - (lane_id() == 0 ? base_before : neighbor)) : 0);
            const uint32_t live = __popc(__ballot_sync(ALL_LANES, (meta & META_CONSTANT) == 0));
            const bool masks = __any_sync(ALL_LANES, mask_of(meta) != KIND_NONE),
                       signs = __any_sync(ALL_LANES, sign_of(meta) != KIND_NONE);
            own_sums.live += live;
            own_sums.words_of_bases += width;
            own_sums.flags |= (masks ? FLAG_MASKS : 0) | (signs ? FLAG_SIGNS : 0);
        }
        if (tile >= tiles) {
            continue;
        }
        offsets[number] = {uint32_t(sum.lists), uint32_t(sum.lists >> 32), uint32_t(sum.bitmaps),
                           uint32_t(sum.bitmaps >> 32)};
        if ((meta & META_EMPTY) != 0) {
            // Tiles with a base of their own are not written here, so that reading their bases is safe.
            outputs.bases[number] = sum.based > 0 ? outputs.bases[sum.based - 1] : 0;
        }
        const bool live = (meta & META_CONSTANT) == 0;
        uint32_t class_of = classify && live ? bins[own_bins[round]] : 0;
        outputs.metas[number] = uint16_t((meta & META_LASTING) | class_of << META_CLASS);
        if (wide) {
            outputs.outliers[number] = uint16_t(counts[round]);
        }
        if (live && group_classes != nullptr) {
            uint8_t *classes = group_classes + batch.first_slot(chunk) + first_groups[round];
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
    if (for_records && lane_id() == 0) {
        atomicAdd(&live_tiles, own_sums.live);
        atomicAdd(&words_of_bases, own_sums.words_of_bases);
        atomicOr(&tile_flags, own_sums.flags);
    }
    // Waits until the other blocks have read this block's sums.
    cluster_wait();
    __syncthreads();
    if (for_records && threadIdx.x == 0) {
        records.tile_sums[chunk * PARTS + part] = {live_tiles, tile_flags, words_of_bases, 0};
    }
}
