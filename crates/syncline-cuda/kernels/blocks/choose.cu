// Chooses the plans of chunks from what a round of `blocks_sample` has found: a block of threads for each chunk, with a
// warp for each plan.
//
// THREADS  threads of a block
#include "blocks/logarithm.cuh"
#include "blocks/sample.cuh"
#include "blocks/tables.cuh"
#include "device/sync.cuh"
#include "quantize/structs.cuh"

static_assert(THREADS == FIRST_PLANS * WARP, "a warp for each plan");
// Blocks of fewer bytes have one part.
constexpr uint32_t BYTES_OF_BOXES = 73728;

// Returns the bits of counted symbols, in units of 2^-16. Called by a whole warp.
__device__ inline uint64_t cost_of(const uint32_t *counts) {
    uint64_t cost = 0;
    for (uint32_t context = 0; context < blocks::CONTEXTS; ++context, counts += blocks::SYMBOLS) {
        uint64_t of_symbols = 0;
        uint32_t sum = 0;
        for (uint32_t symbol = lane_id(); symbol < blocks::SYMBOLS; symbol += WARP) {
            of_symbols += times_log2(counts[symbol]);
            sum += counts[symbol];
        }
        sum = warp_reduce_sum(sum);
        if (sum > 0) {
            const uint64_t of_sum = times_log2(sum), all = warp_reduce_sum(of_symbols);
            cost += of_sum - min_of(of_sum, all);
        }
    }
    return cost;
}

// Lists the cheapest of the plans that were tried, of equal ones the first.
__device__ inline void list_finalists(BlockConsidered &considered) {
    uint32_t listed = 0;
    for (uint32_t i = 0; i < FINALISTS; ++i) {
        uint64_t bits = NOT_TRIED;
        uint32_t best = TRIED_PLANS;
        for (uint32_t plan = 0; plan < TRIED_PLANS; ++plan) {
            const bool is_better = (listed >> plan & 1) == 0 && considered.bits[plan] < bits;
            best = is_better ? plan : best;
            bits = is_better ? considered.bits[plan] : bits;
        }
        listed |= 1u << best;
        considered.finalists[i] = best;
    }
}

// Sets the plan that the finalists' bits for the other pieces choose.
__device__ inline void settle(const Geometry &geometry, const ChunkBatch &batch, uint32_t chunk,
                              const BlockConsidered &considered, const uint64_t *bits_of_others, BlockPlan &plan) {
    uint64_t bits = NOT_TRIED;
    uint32_t best = 0;
    for (uint32_t i = 0; i < FINALISTS; ++i) {
        const uint32_t number = considered.finalists[i];
        const uint64_t own = number < TRIED_PLANS ? considered.bits[number] + bits_of_others[i] : bits;
        best = own < bits ? number : best;
        bits = min_of(own, bits);
    }
    plan = considered_plan(geometry, best, plan);
    const Sample sample(geometry, batch, chunk);
    uint64_t elements = 0;
    for (uint32_t i = 0; i < sample.pieces; ++i) {
        elements += sample.piece(geometry, i).elements();
    }
    const uint64_t of_block = uint64_t(geometry.side[0]) * geometry.side[1] * geometry.side[2];
    const uint64_t bytes = bits * of_block / 8 / max_of<uint64_t>(elements, 1);
    plan.division = bytes < BYTES_OF_BOXES ? DIVISION_ONE : DIVISION_BOXES;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    blocks_choose(const __grid_constant__ Geometry geometry, const __grid_constant__ ChunkBatch batch,
                  const Step *quantizer, uint32_t interpolates, uint32_t round,
                  const __grid_constant__ EncodedBlocks to, const __grid_constant__ BlockSamples samples) {
    __shared__ uint64_t prices[FIRST_PLANS];
    grid_dependency_wait();
    launch_dependents();
    const uint32_t chunk = blockIdx.x, begin = first_of_round(round);
    BlockPlan best = to.plans[chunk];
    const uint32_t plans = plans_of_round(round);
    if (warp_id() < plans) {
        const uint64_t own = uint64_t(chunk) * PLANS + begin + warp_id();
        const uint64_t cost = cost_of(samples.counts + own * blocks::CONTEXTS * blocks::SYMBOLS);
        if (lane_id() == 0) {
            prices[warp_id()] = samples.bits_of_plans[own] + (cost >> LOG_BITS);
        }
    }
    __syncthreads();
    if (threadIdx.x != 0) {
        return;
    }
    BlockConsidered &considered = samples.considered[chunk];
    if (round == 2) {
        settle(geometry, batch, chunk, considered, prices, best);
        to.plans[chunk] = best;
        return;
    }
    for (uint32_t i = 0; i < plans; ++i) {
        considered.bits[begin + i] = is_tried(geometry, begin + i, best) ? prices[i] : NOT_TRIED;
    }
    if (round == 1) {
        list_finalists(considered);
        return;
    }
    best.is_on_grid = interpolates == 0 || quantizer->step > 2.0 * quantizer->limit;
    uint32_t cheapest = 0;
    for (uint32_t i = 1; i < plans; ++i) {
        cheapest = considered.bits[i] < considered.bits[cheapest] ? i : cheapest;
    }
    to.plans[chunk] = considered_plan(geometry, cheapest, best);
}
