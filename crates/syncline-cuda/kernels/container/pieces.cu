// Writes the checksums of the pieces of quantized chunks' records.
//
// THREADS  threads of a block
#include "device/sync.cuh"
#include "container/pieces.cuh"

constexpr uint32_t WARPS = THREADS / WARP;

// `blocks` blocks for each chunk.
extern "C" __global__ void __launch_bounds__(THREADS)
    container_pieces(const RecordPlan *plans, uint32_t blocks, uint8_t *output) {
    grid_dependency_wait();
    launch_dependents();
    const RecordPlan plan = plans[blockIdx.x / blocks];
    if (plan.kind == KIND_QUANTIZED) {
        write_checksums(plan, CHECKSUMS, output + plan.place, blockIdx.x % blocks * WARPS + warp_id(), blocks * WARPS);
    }
}
