// Quantizes tiles for token codebooks, and predicts each by the cheaper of a Lorenzo predictor and the interpolation
// scheme of its chunk: `syncline_core::pipeline::lossy::token_codes` up to the token stream. One warp per tile.
//
// AXES            axes along which tiles extend
// WARPS           warps of a block
// MEASURE         whether squared errors are summed
// SAMPLE_STEP     a sample has one tile of so many consecutive ones
// FEWEST_SAMPLED  chunks with fewer tiles are their own sample
// and the constants of quantize/quantize.cuh
#include "quantize/interpolate.cuh"

constexpr uint32_t WORDS = MAX_ELEMENTS / WARP;
// Resident warps per multiprocessor, for the allocation of registers: with more, registers are spilled.
constexpr uint32_t RESIDENT_WARPS = 32;
constexpr uint32_t SCHEMES = AXES == 1 ? 2 : 3;
// Streams of a chunk's sample: without interpolation, and with each scheme.
constexpr uint32_t CANDIDATES = 1 + SCHEMES;

// Returns the number in its chunk of tile `slot` of the sample of a chunk of `tiles` tiles. Places in the lots change,
// so that a sample does not follow the rows of tiles.
__device__ inline uint32_t sampled_tile(uint32_t slot, uint32_t tiles) {
    return tiles < FEWEST_SAMPLED ? slot : slot * SAMPLE_STEP + __umulhi(slot * 2654435769u, SAMPLE_STEP);
}

// A chunk's elements.
struct ChunkSource {
    const Element *slab;
    uint64_t first_element;
    const Geometry &geometry;
    uint64_t first_tile;

    __device__ inline TileSource of(const Tile &tile) const {
        return {slab + (tile.first_element - first_element), geometry.dims[2] * geometry.dims[3], geometry.dims[3]};
    }
};

__device__ inline bool is_pattern(const Step &step, Element x) {
    bool is = false;
#pragma unroll
    for (uint32_t p = 0; p < MAX_PATTERNS; ++p) {
        is |= p < step.pattern_count && bits_of(x) == Bits(step.patterns[p]);
    }
    return is;
}

// Returns the base of the last tile with valid elements among the first `slots` tiles, whose numbers in the chunk
// `number_of` returns; 0 if there is none. Called by the whole warp.
template <typename NumberOf>
__device__ inline int32_t base_before(const Step &step, const ChunkSource &chunk, uint32_t slots, NumberOf number_of) {
    while (slots > 0) {
        --slots;
        const TileBox tile(chunk.geometry.tile(chunk.first_tile + number_of(slots)));
        const TileSource source = chunk.of(tile);
        for (uint32_t first = 0; first < tile.elements(); first += WARP) {
            const uint32_t i = first + lane_id();
            int32_t integer = 0;
            bool valid = false;
            if (i < tile.elements()) {
                const Element x = source.load(Position(tile, i));
                valid = quantize(step, x, integer) && !is_pattern(step, x);
            }
            const uint32_t all = __ballot_sync(ALL_LANES, valid);
            if (all != 0) {
                return __shfl_sync(ALL_LANES, integer, __ffs(int32_t(all)) - 1);
            }
        }
    }
    return 0;
}

// Whether interpolation may find a code for some element of a tile without valid elements: one that is finite but not a
// negative zero or a fill pattern. Called by the whole warp.
__device__ inline bool may_be_interpolated(const Step &step, const TileBox &tile, const TileSource &source) {
    bool any = false;
    for (uint32_t i = lane_id(); i < tile.elements(); i += WARP) {
        const Element x = source.load(Position(tile, i));
        any |= x - x == Element(0) && bits_of(x) != SIGN_BIT && !is_pattern(step, x);
    }
    return __any_sync(ALL_LANES, any);
}

// A tile that is quantized and predicted without interpolation.
struct PreparedTile {
    TileResult result;
    TileBitmaps words;
    OrderChoice choice;
    uint32_t cost; // with that of the verbatim values
    bool may_interpolate;
};

// Prepares a tile, whose integers without the base are written to `memory`. `interpolates` says whether it may be
// interpolated; then tiles without valid elements need the base of the tiles before, the first `slots` of those that
// `number_of` returns. Called by the whole warp.
template <typename NumberOf>
__device__ inline PreparedTile prepare(const Step &step, const ChunkSource &chunk, const TileBox &tile,
                                       const TileSource &source, bool interpolates, uint32_t slots, NumberOf number_of,
                                       TileMemory &memory) {
    PreparedTile prepared;
    prepared.result = quantize_integers(step, tile, source, memory.q, prepared.words);
    TileResult &result = prepared.result;
    const bool all_masked = (result.meta >> META_MASK & 3) == KIND_ALL;
    prepared.may_interpolate = interpolates && !all_masked;
    prepared.choice = {0, 0};
    if ((result.meta & META_EMPTY) == 0) {
        __syncwarp();
        for (uint32_t i = 4 * lane_id(); i < tile.elements(); i += 4 * WARP) {
            uint4 &four = *reinterpret_cast<uint4 *>(memory.q + i);
            const uint32_t base = uint32_t(result.base);
            four = make_uint4(four.x - base, four.y - base, four.z - base, four.w - base);
        }
        __syncwarp();
        prepared.choice = cheapest_order(tile, memory.q);
    } else if (prepared.may_interpolate) {
        prepared.may_interpolate = may_be_interpolated(step, tile, source);
        if (prepared.may_interpolate) {
            result.base = base_before(step, chunk, slots, number_of);
            __syncwarp();
            for (uint32_t i = lane_id(); i < tile.elements(); i += WARP) {
                memory.q[i] = 0;
            }
            __syncwarp();
        }
    }
    prepared.cost = prepared.choice.cost + verbatim_cost(result.verbatim);
    prepared.may_interpolate &= prepared.cost > 0;
    return prepared;
}

// Returns the plan of a scheme, 1 to SCHEMES, for tiles of these extents.
__device__ inline PlanHead plan_of(const Plans &plans, const Geometry &geometry, const TileBox &tile, uint32_t scheme) {
    const uint32_t clipped = (tile.nz < geometry.side[0] ? 4 : 0) | (tile.ny < geometry.side[1] ? 2 : 0) |
                             (tile.nx < geometry.side[2] ? 1 : 0);
    return plans.heads[(scheme - 1) * 8 + clipped];
}

// Writes the residuals of a tile under one predictor. `memory` has its integers. Called by the whole warp.
__device__ inline Activities write_residuals(const TileBox &tile, const TileMemory &memory, uint32_t order,
                                             int32_t *codes) {
    Activities activities;
    for_each_residual_of(tile, memory.q, order, [&](uint32_t element, uint32_t residual) {
        codes[element] = int32_t(residual);
        activities.add(element, magnitude_of(int32_t(residual)));
    });
    return activities;
}

// Describes the groups of a tile whose codes have these activities. Called by the whole warp.
__device__ inline void write_groups(const Activities &activities, uint32_t elements, uint32_t *groups) {
#pragma unroll
    for (uint32_t group = 0; group < GROUPS_OF_TILE; ++group) {
        const uint32_t first = group * TOKEN_GROUP,
                       length = elements > first ? min_of(elements - first, TOKEN_GROUP) : 0;
        // Most sums over a warp fit into 32 bits, which are added faster.
        const uint64_t own = activities.of[group];
        const uint64_t activity =
            __any_sync(ALL_LANES, own >> 27 != 0) ? warp_reduce_sum(own) : warp_reduce_sum(uint32_t(own));
        if (lane_id() == 0) {
            groups[group] = length == 0 ? 0 : group_word(length, activity_bin(activity));
        }
    }
}

// Codes the sample of each chunk without interpolation and with each scheme, each as a stream of its own. `codes` has
// room for `slots` tiles of each stream; groups of tiles that do not exist are not written. `verbatim` counts the
// verbatim values of each stream. The grid is (tiles of a sample over warps of a block, chunks). Logarithmic streams
// are not interpolated and take no samples.
extern "C" __global__ void __launch_bounds__(WARPS *WARP, RESIDENT_WARPS / WARPS)
    quantize_token_sample(const Element *slab, uint64_t first_element, const __grid_constant__ Geometry geometry,
                          const __grid_constant__ ChunkBatch batch, const __grid_constant__ Step step,
                          const __grid_constant__ InterpolationStep constants, const __grid_constant__ Plans plans,
                          uint32_t slots, int32_t *codes, uint32_t *groups, uint32_t *verbatim) {
#if !LOGARITHM
    __shared__ TileMemory memories[WARPS];
    const uint32_t number = blockIdx.y, first = batch.chunk_first(number),
                   tiles = batch.chunk_first(number + 1) - first;
    const uint32_t slot = blockIdx.x * WARPS + warp_id();
    auto number_of = [&](uint32_t slot) { return sampled_tile(slot, tiles); };
    if (slot >= slots || number_of(slot) >= tiles) {
        return;
    }
    TileMemory &memory = memories[warp_id()];
    const ChunkSource chunk{slab, first_element, geometry, batch.first_tile + first};
    const TileBox tile(geometry.tile(chunk.first_tile + number_of(slot)));
    const TileSource source = chunk.of(tile);
    const PreparedTile prepared = prepare(step, chunk, tile, source, true, slot, number_of, memory);
    const TileResult &result = prepared.result;
    const bool constant = prepared.choice.cost == 0;
    for (uint32_t candidate = 0; candidate <= SCHEMES; ++candidate) {
        const uint32_t stream = number * CANDIDATES + candidate;
        const uint64_t place = uint64_t(stream) * slots + slot;
        int32_t *to = codes + place * MAX_ELEMENTS;
        Activities activities;
        uint32_t values = result.verbatim;
        bool interpolated = false;
        if (candidate > 0 && prepared.may_interpolate) {
            const Interpolated found =
                interpolate(step, constants, tile, source, plans, plan_of(plans, geometry, tile, candidate),
                            prepared.words, uint32_t(result.base), prepared.cost, memory, to, activities);
            interpolated = found.cost < prepared.cost;
            values = interpolated ? warp_reduce_sum(uint32_t(__popc(found.verbatim))) : values;
        }
        if (!interpolated && !constant) {
            __syncwarp();
            activities = write_residuals(tile, memory, prepared.choice.order, to);
        }
        if (interpolated || !constant) {
            write_groups(activities, tile.elements(), groups + place * GROUPS_OF_TILE);
        }
        if (lane_id() == 0 && values > 0) {
            atomicAdd(&verbatim[stream], values);
        }
        __syncwarp();
    }
#endif
}

// Codes all tiles of a batch, those of each chunk by its scheme, 0 for none.
extern "C" __global__ void __launch_bounds__(WARPS *WARP, RESIDENT_WARPS / WARPS)
    quantize_token_codes(const Element *slab, uint64_t first_element, const __grid_constant__ Geometry geometry,
                         const __grid_constant__ ChunkBatch batch, const __grid_constant__ Step step,
                         const __grid_constant__ InterpolationStep constants, const __grid_constant__ Plans plans,
                         const uint32_t *schemes, const __grid_constant__ TokenOutputs outputs) {
    __shared__ TileMemory memories[WARPS];
    const uint32_t number = blockIdx.x * WARPS + warp_id(), lane = lane_id();
    if (number >= batch.tiles) {
        return;
    }
    const uint32_t chunk_number = number / batch.chunk_tiles, first = batch.chunk_first(chunk_number);
    TileMemory &memory = memories[warp_id()];
    const ChunkSource chunk{slab, first_element, geometry, batch.first_tile + first};
    const TileBox tile(geometry.tile(batch.first_tile + number));
    const TileSource source = chunk.of(tile);
    const uint32_t scheme = LOGARITHM ? 0 : schemes[chunk_number], elements = tile.elements();
    PreparedTile prepared =
        prepare(step, chunk, tile, source, scheme != 0, number - first, [](uint32_t slot) { return slot; }, memory);
    TileResult &result = prepared.result;
    uint32_t verbatim = prepared.words.verbatim, predictor = predictor_of(prepared.choice.order);
    bool constant = prepared.choice.cost == 0, interpolated = false;
    int32_t *codes = outputs.codes + uint64_t(number) * MAX_ELEMENTS;
    Activities activities;
#if !LOGARITHM
    if (prepared.may_interpolate) {
        const Interpolated found =
            interpolate(step, constants, tile, source, plans, plan_of(plans, geometry, tile, scheme), prepared.words,
                        uint32_t(result.base), prepared.cost, memory, codes, activities);
        if (found.cost < prepared.cost) {
            interpolated = true;
            constant = false;
            predictor = format::INTERPOLATION;
            verbatim = found.verbatim;
            result.verbatim = warp_reduce_sum(uint32_t(__popc(verbatim)));
        }
    }
#if MEASURE
    if (interpolated) {
        const uint32_t measured =
            word_of_first(elements, lane) & ~(verbatim | prepared.words.fill | prepared.words.foreign);
        double error = 0.0;
        for (uint32_t word = 0; word * WARP < elements; ++word) {
            const uint32_t i = word * WARP + lane;
            if ((__shfl_sync(ALL_LANES, measured, word) >> lane & 1) != 0) {
                error += squared_error(step, source.load(Position(tile, i)), memory.values[padded(i)]);
            }
        }
        result.error = warp_reduce_sum(uint64_t(error));
        result.counted = warp_reduce_sum(uint32_t(__popc(measured)));
    }
#endif
#endif
    if (!constant && !interpolated) {
        __syncwarp();
        activities = write_residuals(tile, memory, prepared.choice.order, codes);
    }
    uint32_t *groups = outputs.groups + uint64_t(number) * GROUPS_OF_TILE;
    if (constant) {
        if (lane < GROUPS_OF_TILE) {
            groups[lane] = 0;
        }
    } else {
        write_groups(activities, elements, groups);
    }
    if (result.verbatim > 0 && lane < WORDS) {
        outputs.exact[uint64_t(number) * WORDS + lane] = verbatim;
    }
    if (lane == 0) {
        const uint32_t code_groups = ceil_div(elements, TOKEN_GROUP);
        outputs.metas[number] = uint16_t(result.meta | (constant ? META_CONSTANT : predictor << META_PREDICTOR) |
                                         (code_groups - 1) << META_GROUPS);
        outputs.bases[number] = result.base;
        outputs.verbatim[number] = uint16_t(result.verbatim);
        if (MEASURE) {
            outputs.errors[number] = result.error;
            outputs.counted[number] = uint16_t(result.counted);
        }
    }
}
