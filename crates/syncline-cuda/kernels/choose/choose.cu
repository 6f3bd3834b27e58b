// Chooses predictors, the interpolation scheme, and the classes of each chunk by the costs of a sample of its tiles:
// `choose` in syncline_core::pipeline::lossy::sample.
//
// WARPS  warps of a block
// See also predict/code_tile.cuh and strips/sample.cuh.
#include "predict/code_tile.cuh"
#include "predict/ordinary.cuh"
#include "strips/sample.cuh"

// Rows of costs of a chunk: a predictor, or a candidate for the scheme.
constexpr uint32_t MOST_CANDIDATES = 6, COST_ROWS = strips::PREDICTORS + MOST_CANDIDATES;
// Most tiles of a sample: there are fewer than twice FEWEST_CHOOSING intervals, or as many tiles in each as can be.
constexpr uint32_t MOST_SAMPLED = (1u << 22) / TILE_ELEMENTS / CHOOSING_STEP > 2 * FEWEST_CHOOSING
                                      ? (1u << 22) / TILE_ELEMENTS / CHOOSING_STEP
                                      : 2 * FEWEST_CHOOSING;
constexpr uint32_t THREADS = WARPS * WARP;
constexpr uint32_t AXIS_SETS = 1u << AXES;
// Predictors of tiles that extend along AXES axes: the sets of axes, then second differences.
constexpr uint32_t ORDERS = AXIS_SETS + 1;
__device__ inline uint32_t predictor_of(uint32_t order) { return order < AXIS_SETS ? order : SECOND_ORDER; }

struct Decision {
    uint32_t cheapest[MOST_SAMPLED]; // costs of the sampled tiles under what has been chosen so far
    uint64_t sums[COST_ROWS];
    uint64_t total;
    uint32_t chosen;
    uint32_t with_cost; // tiles with costs
    ChunkChoice choice;
};

// Computes, for `count` rows of costs from `rows` on, the sum over the sampled tiles of the smaller of the cost and the
// cheapest so far. Called by the whole block.
__device__ inline void sum_rows(const uint32_t *rows, uint32_t count, uint32_t tiles, Decision &decision) {
    for (uint32_t row = warp_id(); row < count; row += WARPS) {
        uint64_t sum = 0;
        for (uint32_t tile = lane_id(); tile < tiles; tile += WARP) {
            sum += min_of(decision.cheapest[tile], __ldcg(&rows[row * MOST_SAMPLED + tile]));
        }
        sum = warp_reduce_sum(sum);
        if (lane_id() == 0) {
            decision.sums[row] = sum;
        }
    }
    __syncthreads();
}

// Lets the sampled tiles also take what the row of costs is of. Called by the whole block.
__device__ inline void take_row(const uint32_t *row, uint32_t tiles, Decision &decision) {
    for (uint32_t tile = threadIdx.x; tile < tiles; tile += THREADS) {
        decision.cheapest[tile] = min_of(decision.cheapest[tile], __ldcg(&row[tile]));
    }
    __syncthreads();
}

// Lists up to three predictors. Each next one makes the sum of the costs the smallest. Called by the whole block.
__device__ inline void list_predictors(const uint32_t *costs, uint32_t tiles, Decision &decision) {
    for (uint32_t listed = 0; listed < strips::MOST_LISTED; ++listed) {
        sum_rows(costs, ORDERS, tiles, decision);
        if (threadIdx.x == 0) {
            uint32_t best = 0;
            for (uint32_t order = 1; order < ORDERS; ++order) {
                best = decision.sums[order] < decision.sums[best] ? order : best;
            }
            decision.chosen = listed == 0 || decision.sums[best] < decision.total ? best : ORDERS;
            if (decision.chosen < ORDERS) {
                decision.total = decision.sums[best];
                for (uint32_t place = listed; place < strips::MOST_LISTED; ++place) {
                    decision.choice.predictors[place] = predictor_of(place == listed ? best : 0);
                }
                decision.choice.listed = listed + 1;
            }
        }
        __syncthreads();
        if (decision.chosen == ORDERS) {
            break;
        }
        take_row(costs + decision.chosen * MOST_SAMPLED, tiles, decision);
    }
    if (threadIdx.x == 0) {
        for (uint32_t place = decision.choice.listed; place < strips::MOST_LISTED; ++place) {
            decision.choice.predictors[place] = decision.choice.predictors[0];
        }
    }
}

// Chooses the cheapest of the candidates if it saves more than 1 %. Called by the whole block.
__device__ inline void choose_scheme(const uint32_t *costs, uint32_t tiles, uint32_t candidates, uint32_t codes,
                                     Decision &decision) {
    sum_rows(costs, candidates, tiles, decision);
    if (threadIdx.x == 0) {
        uint32_t best = 0;
        for (uint32_t number = 1; number < candidates; ++number) {
            best = decision.sums[number] < decision.sums[best] ? number : best;
        }
        const bool saves = candidates > 0 && decision.sums[best] * 100 < decision.total * 96;
        decision.chosen = saves ? best : candidates;
        decision.choice.scheme = saves ? codes >> 4 * best & 15 : 0;
    }
    __syncthreads();
    if (decision.chosen < candidates) {
        take_row(costs + decision.chosen * MOST_SAMPLED, tiles, decision);
    }
}

// Makes the quartiles of the costs in bits, of tiles that cost anything, the thresholds. Called by the whole block.
__device__ inline void find_thresholds(uint32_t tiles, Decision &decision) {
    if (threadIdx.x == 0) {
        decision.with_cost = 0;
    }
    if (threadIdx.x < strips::MAX_CLASSES - 1) {
        decision.choice.thresholds[threadIdx.x] = ~0u;
    }
    __syncthreads();
    for (uint32_t tile = threadIdx.x; tile < tiles; tile += THREADS) {
        decision.cheapest[tile] >>= strips::COST_LOG2;
        if (decision.cheapest[tile] > 0) {
            atomicAdd(&decision.with_cost, 1u);
        }
    }
    __syncthreads();
    for (uint32_t tile = threadIdx.x; tile < tiles; tile += THREADS) {
        const uint32_t own = decision.cheapest[tile];
        uint32_t rank = 0;
        for (uint32_t other = 0; other < tiles; ++other) {
            const uint32_t cost = decision.cheapest[other];
            rank += cost > 0 && (cost < own || (cost == own && other < tile)) ? 1 : 0;
        }
        for (uint32_t quarter = 1; own > 0 && quarter < strips::MAX_CLASSES; ++quarter) {
            if (rank == decision.with_cost * quarter / strips::MAX_CLASSES) {
                decision.choice.thresholds[quarter - 1] = own;
            }
        }
    }
    __syncthreads();
}

// Calls `put(row, cost)` with the costs of a tile that candidate `number` of all computes: that of its scheme, if that
// is not 0, and those of every so many predictors, unless others have computed all. All lanes call this.
template <typename Put>
__device__ inline void cost_of_tile(TileWork &work, uint32_t number, uint32_t all, uint32_t scheme, bool has_predictors,
                                    const Plans &plans, const Geometry &geometry, Put put) {
    work.quantize();
    const uint32_t verbatim = verbatim_cost(work.quantized.verbatim);
#pragma unroll 1
    for (uint32_t order = has_predictors ? ORDERS : number; order < ORDERS; order += all) {
        put(order, lorenzo_cost(work.tile, work.memory.v, predictor_of(order)) + verbatim);
    }
#if !LOGARITHM
    if (scheme != 0) {
        uint32_t cost = ~0u, missed;
        if (!tile_is_empty(work.quantized.info)) {
            cost = work.interpolate(plans, plan_of(plans, geometry, work.tile, scheme), missed);
        }
        put(strips::PREDICTORS + number - 1, cost);
    }
#endif
}

// What was found of a tile.
enum class Costs { NONE, OF_PREDICTORS, ALL };

// Does the same for a whole tile, but that the first candidate takes all predictors. Returns the costs that are found
// if all candidates do this. Called by the whole warp.
template <typename Put>
__device__ inline Costs cost_of_ordinary(TileWork &work, uint32_t number, uint32_t scheme, const uint32_t *schemes,
                                         bool vectors, Put put) {
    OrdinaryMemory &memory = reinterpret_cast<OrdinaryMemory &>(work.memory);
    const OrdinaryElements elements(work.source, vectors);
    const OrdinaryStep step(work.step);
    QuantizedOrdinary tile;
    if (!quantize_ordinary(step, elements, scheme != 0 ? memory.values : nullptr, tile)) {
        return Costs::NONE;
    }
    // A constant tile costs nothing whatever is chosen.
    const bool is_constant = all_zero(tile.integers);
    if (scheme == 0) {
#pragma unroll 1
        for (uint32_t order = 0; order < ORDERS; ++order) {
            bool fits;
            put(order, is_constant ? 0 : predict_lorenzo(step, tile.integers, predictor_of(order), nullptr, fits));
        }
        return Costs::ALL;
    }
    bool is_ordinary = is_constant;
    uint32_t cost = 0;
#if !LOGARITHM
    if (!is_constant) {
        cost = interpolate_ordinary(step, tile.base, schemes + (scheme - 1) * TABLE_WORDS, scheme, memory.values,
                                    memory.codes[0], is_ordinary);
        is_ordinary = is_ordinary && keeps_zeros(tile.zeros, memory.values);
    }
    __syncwarp();
#endif
    if (is_ordinary) {
        put(strips::PREDICTORS + number - 1, cost);
    }
    return is_ordinary ? Costs::ALL : Costs::OF_PREDICTORS;
}

// Computes costs of the sampled tiles: row `i` of blocks takes candidate `i` of all tiles, where 0 stands for
// predictors alone, so that blocks that run side by side do the same; those of a row are shared equally among the
// chunks. The last block of a chunk chooses. `codes` has the code of each candidate in four bits. Clears the number of
// listed tiles, if there is a list. `costs` has COST_ROWS rows of MOST_SAMPLED for each chunk, and `done` counts blocks
// and is 0 before.
extern "C" __global__ void __launch_bounds__(WARPS *WARP)
    choose(const Stored *slab, uint64_t first_element, const __grid_constant__ Geometry geometry,
           const __grid_constant__ ChunkBatch batch, const Step *__restrict__ quantizer,
           const __grid_constant__ Plans plans, uint32_t vectors, const uint32_t *schemes, uint32_t candidates,
           uint32_t codes, uint32_t *costs, uint32_t *done, ChunkChoice *choices, uint32_t *listed) {
    extern __shared__ __align__(16) uint8_t dynamic[];
    if (listed != nullptr && blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) {
        listed[0] = 0;
    }
    __shared__ Decision decision;
    __shared__ bool is_last;
    TileMemory &memory = reinterpret_cast<TileMemory *>(dynamic)[warp_id()];
    const uint32_t blocks = gridDim.x / batch.chunks, chunk = blockIdx.x / blocks, first = batch.chunk_first(chunk);
    const Sample sample = Sample::choosing(batch.chunk_first(chunk + 1) - first);
    const bool interpolates = !quantizer->is_lattice;
    costs += uint64_t(chunk) * COST_ROWS * MOST_SAMPLED;
    // Interpolated values are no multiples of the step, as those of a lattice have to be.
    const Step &step = *quantizer;
    candidates = is_lattice(step) ? 0 : candidates;
    const uint32_t interval = (blockIdx.x - chunk * blocks) * WARPS + warp_id(), candidate = blockIdx.y,
                   number = sample.tile(interval);
    auto put = [&](uint32_t row, uint32_t cost) {
        if (lane_id() == 0) {
            costs[row * MOST_SAMPLED + interval] = cost;
        }
    };
    if (number < sample.tiles && candidate <= candidates) {
        TileWork work(step, slab, first_element, geometry, batch.first_tile + first + number, memory);
        const uint32_t scheme = candidate > 0 ? codes >> 4 * (candidate - 1) & 15 : 0;
        Costs found = Costs::NONE;
        if (geometry.is_unclipped(work.tile)) {
            found = cost_of_ordinary(work, candidate, scheme, schemes, vectors != 0, put);
        }
        if (found != Costs::ALL) {
            cost_of_tile(work, candidate, 1 + candidates, scheme, found == Costs::OF_PREDICTORS, plans, geometry, put);
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        is_last = atomicAdd(&done[chunk], 1u) == blocks * gridDim.y - 1;
        __threadfence();
    }
    __syncthreads();
    if (!is_last) {
        return;
    }
    const uint32_t tiles = sample.count();
    for (uint32_t tile = threadIdx.x; tile < tiles; tile += THREADS) {
        decision.cheapest[tile] = ~0u;
    }
    if (threadIdx.x == 0) {
        decision.choice = {};
        decision.total = 0;
    }
    __syncthreads();
    list_predictors(costs, tiles, decision);
    choose_scheme(costs + strips::PREDICTORS * MOST_SAMPLED, tiles, interpolates ? candidates : 0, codes, decision);
    find_thresholds(tiles, decision);
    if (threadIdx.x == 0) {
        choices[chunk] = decision.choice;
    }
}
