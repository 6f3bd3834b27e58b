// Codes the pieces of the samples of a batch with each plan of a round: a block of threads for each piece and plan.
//
// THREADS        threads of a block
// See also quantize/stored.cuh.
#define LOGARITHM 0
#include "blocks/count.cuh"
#include "blocks/quantize.cuh"
#include "blocks/sample.cuh"
#include "device/block.cuh"
#include "device/sync.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 4096 / ELEMENT_BYTES / THREADS)
    blocks_sample(const __grid_constant__ Geometry geometry, const __grid_constant__ ChunkBatch batch,
                  const Stored *slab, uint64_t first_element, const Step *quantizer, uint32_t interpolates,
                  uint32_t round, const __grid_constant__ EncodedBlocks to,
                  const __grid_constant__ BlockSamples samples) {
    __shared__ SymbolCounts counts;
    __shared__ uint64_t warp_sums[THREADS / WARP];
    __shared__ uint32_t zeros;
    grid_dependency_wait();
    launch_dependents();
    const uint32_t plans = plans_of_round(round), jobs = PIECES_OF_ROUND * plans;
    const uint32_t chunk = blockIdx.x / jobs, job = blockIdx.x % jobs, number = job / plans * 2 + round / 2;
    const Sample sample(geometry, batch, chunk);
    BlockPlan best = to.plans[chunk];
    const uint32_t own_number = first_of_round(round) + job % plans;
    const uint32_t plan_number = round == 2 ? samples.considered[chunk].finalists[job % plans] : own_number;
    if (number >= sample.pieces || !is_tried(geometry, plan_number, best)) {
        return;
    }
    const Step &step = *quantizer;
    best.is_on_grid = interpolates == 0 || is_lattice(step);
    const BlockPlan plan = considered_plan(geometry, plan_number, best);
    const Tile piece = sample.piece(geometry, number);
    const uint32_t elements = piece.elements();
    const BlockShape shape(piece, geometry, plan.slices);
    const Stored *first = slab + (piece.first_element - first_element);
    // Room for a piece and a plan.
    const uint64_t room = uint64_t(chunk) * PIECES_OF_ROUND * FIRST_PLANS + job;
    const CodedBlock block{shape,
                           plan,
                           step,
                           first,
                           static_cast<Element *>(to.values) + room * samples.piece_elements,
                           to.codes + room * samples.piece_elements,
                           samples.bits + room * samples.piece_words,
                           &to.plans[chunk].is_raw};
    const WorkShare everything = WorkShare::all();
    if (threadIdx.x == 0) {
        zeros = 0;
    }
    clear_missed(block, elements, everything);
    __syncthreads();
    if (masks_zeros(block)) {
        count_zeros(block, piece, geometry, everything, zeros);
    }
    __syncthreads();
    const Masked masked{step, zeros > FEW_ZEROS};
    for (uint32_t i = threadIdx.x; i < sizeof(counts) / 4; i += THREADS) {
        (&counts.of[0][0])[i] = 0;
    }
    __syncthreads();
    quantize_levels(block, masked, 0, samples.anchors + room * samples.anchors_stride);
    count_symbols([&](uint32_t place) { return block.codes[place]; }, shape, BlockParts(shape, plan), everything,
                  counts);
    __syncthreads();
    const uint64_t own_plan = uint64_t(chunk) * PLANS + own_number;
    uint32_t *all = samples.counts + own_plan * (sizeof(counts) / 4);
    uint64_t own_bits = 0, total;
    for (uint32_t i = threadIdx.x; i < sizeof(counts) / 4; i += THREADS) {
        const uint32_t count = (&counts.of[0][0])[i];
        if (count != 0) {
            atomicAdd(&all[i], count);
            own_bits += uint64_t(count) * bits_of_symbol(i % blocks::SYMBOLS);
        }
    }
    for (uint32_t i = threadIdx.x; i < ceil_div(elements, 32); i += THREADS) {
        own_bits += uint64_t(__popc(block.missed[i])) * 8 * (4 + sizeof(Stored));
    }
    block_exclusive_sum<THREADS, uint64_t>(own_bits, warp_sums, total);
    if (threadIdx.x == 0) {
        atomicAdd(reinterpret_cast<unsigned long long *>(&samples.bits_of_plans[own_plan]), total);
    }
}
