// Writes the checksums of the pieces of quantized chunks' records (docs/FORMAT.md, "Pieces"), which are complete but
// for these and the records' own checksums.
//
// THREADS  threads of a block
#include "device/sync.cuh"
#include "container/record.cuh"
#include "container/xxh3.cuh"

constexpr uint32_t WARPS = THREADS / WARP;

// `blocks` blocks for each chunk; a warp takes a piece at a time.
extern "C" __global__ void __launch_bounds__(THREADS)
    container_pieces(const RecordPlan *plans, uint32_t blocks, uint8_t *output) {
    grid_dependency_wait();
    launch_dependents();
    const RecordPlan plan = plans[blockIdx.x / blocks];
    const uint32_t count = plan.lengths[CHECKSUMS] / CHECKSUM_BYTES;
    if (plan.kind != KIND_QUANTIZED || count == 0) {
        return;
    }
    uint8_t *record = output + plan.place;
    const uint32_t checksums_at = section_start(plan.lengths, CHECKSUMS), codes_at = section_start(plan.lengths, CODES),
                   before = ceil_div(checksums_at, PIECE_BYTES);
    uint32_t *checksums = reinterpret_cast<uint32_t *>(record + checksums_at);
    for (uint32_t piece = blockIdx.x % blocks * WARPS + warp_id(); piece < count; piece += blocks * WARPS) {
        const bool is_before = piece < before;
        const uint32_t start = is_before ? piece * PIECE_BYTES : codes_at + (piece - before) * PIECE_BYTES,
                       end = min_of(start + PIECE_BYTES, is_before ? checksums_at : plan.bytes);
        // The first piece is taken without the record's own checksum.
        const uint32_t excluded = piece == 0 ? CHECKSUM_OF_RECORD_BYTES : 0;
        const uint64_t hash =
            hash_by_warp(HashInput{record + start, end - start - excluded, CHECKSUM_OF_RECORD_AT, excluded});
        if (lane_id() == 0) {
            checksums[piece] = uint32_t(hash);
        }
    }
}
