// Writes the checksums of the pieces of a record (docs/FORMAT.md, "Pieces"), which is complete but for these and its
// own checksum.
#pragma once
#include "container/record.cuh"
#include "container/xxh3.cuh"

// The plan of a record has the lengths of its sections, of which `section` has the checksums. A warp takes a piece at a
// time: it is number `worker` of `workers`.
template <typename Plan>
__device__ inline void write_checksums(const Plan &plan, uint32_t section, uint8_t *record, uint32_t worker,
                                       uint32_t workers) {
    const uint32_t count = plan.lengths[section] / CHECKSUM_BYTES, checksums_at = section_start(plan.lengths, section),
                   codes_at = section_start(plan.lengths, section + 1), before = ceil_div(checksums_at, PIECE_BYTES);
    uint32_t *checksums = reinterpret_cast<uint32_t *>(record + checksums_at);
    for (uint32_t piece = worker; piece < count; piece += workers) {
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
