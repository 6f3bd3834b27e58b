// Writes the checksums of the pieces of the records of chunks of blocks.
//
// THREADS  threads of a block
#include "blocks/record.cuh"
#include "container/pieces.cuh"
#include "device/sync.cuh"

constexpr uint32_t WARPS = THREADS / WARP;

// `blocks_each` blocks of threads for each chunk.
extern "C" __global__ void __launch_bounds__(THREADS)
    blocks_pieces(const BlockRecord *records, uint32_t blocks_each, uint8_t *output) {
    grid_dependency_wait();
    launch_dependents();
    const BlockRecord record = records[blockIdx.x / blocks_each];
    if (record.kind == format::KIND_BLOCKS) {
        write_checksums(record, BLOCK_CHECKSUMS, output + record.place, blockIdx.x % blocks_each * WARPS + warp_id(),
                        blocks_each * WARPS);
    }
}
