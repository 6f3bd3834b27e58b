// Chooses the plans of chunks from what a round of `blocks_sample` has found: a block of threads for each chunk, with a
// warp for each plan.
//
// THREADS  threads of a block
#include "blocks/logarithm.cuh"
#include "blocks/masks.cuh"
#include "blocks/sample.cuh"
#include "blocks/tables.cuh"
#include "device/sync.cuh"

static_assert(THREADS == FIRST_PLANS * WARP, "a warp for each plan");
// A lane takes about two bytes more than it carries.
constexpr uint32_t BYTES_OF_LANE = 512;

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

// Sets how blocks of so many bytes are divided, and the most lanes of a unit.
__device__ inline void divide(uint64_t bytes, BlockPlan &plan) {
    plan.division = bytes < 4096 ? DIVISION_ONE : bytes < 32768 ? DIVISION_TWO : DIVISION_BOXES;
    const uint32_t units = plan.division == DIVISION_ONE ? 1 : plan.division == DIVISION_TWO ? 2 : 9;
    const uint64_t lanes = min_of<uint64_t>(max_of<uint64_t>(bytes / units / BYTES_OF_LANE, 1), WARP);
    plan.lanes_log2 = 31 - __clz(uint32_t(lanes));
}

extern "C" __global__ void __launch_bounds__(THREADS)
    blocks_choose(const __grid_constant__ Geometry geometry, const __grid_constant__ ChunkBatch batch,
                  const Step *quantizer, uint32_t interpolates, uint32_t round,
                  const __grid_constant__ EncodedBlocks to, const __grid_constant__ BlockSamples samples) {
    __shared__ uint64_t prices[FIRST_PLANS];
    grid_dependency_wait();
    launch_dependents();
    const uint32_t chunk = blockIdx.x, begin = round == 0 ? 0 : FIRST_PLANS;
    BlockPlan best = to.plans[chunk];
    const uint32_t plans = round == 0 ? first_plans(geometry) : best.slices != 0 ? SECOND_PLANS : 0;
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
    uint64_t bits = round == 0 ? ~uint64_t(0) : samples.best_bits[chunk];
    best.masks = masks_of(*quantizer);
    best.is_on_grid = interpolates == 0 || quantizer->step > 2.0 * quantizer->limit;
    const BlockPlan first = best;
    for (uint32_t i = 0; i < plans; ++i) {
        if (prices[i] < bits) {
            bits = prices[i];
            best = considered_plan(geometry, begin + i, first);
        }
    }
    samples.best_bits[chunk] = bits;
    const Sample sample(geometry, batch, chunk);
    uint64_t elements = 0;
    for (uint32_t i = 0; i < sample.pieces; ++i) {
        elements += sample.piece(geometry, i).elements();
    }
    const uint64_t of_block = uint64_t(geometry.side[0]) * geometry.side[1] * geometry.side[2];
    divide(bits * of_block / 8 / max_of<uint64_t>(elements, 1), best);
    to.plans[chunk] = best;
}
