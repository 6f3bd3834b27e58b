// Computes XXH3-64 of many pieces of a buffer. For chunk records the excluded range is the stored hash (docs/FORMAT.md,
// "Chunk record").
//
// THREADS  threads of a block
// BLOCKS   blocks per multiprocessor, which bounds the registers of a thread
#include "device/sync.cuh"
#include "container/hash.cuh"
#include "container/structs.cuh"

struct Pieces : PiecesFields {
    // A piece that does not lie within the buffer is treated as missing.
    __device__ inline bool is_there(uint32_t piece) const {
        const uint64_t start = starts[piece];
        const uint32_t length = lengths[piece];
        return start <= available && length <= available - start && length >= excluded_bytes &&
               length / HASH_BLOCK <= sums_stride;
    }
    __device__ inline HashInput input(uint32_t piece) const {
        return {bytes + starts[piece], lengths[piece] - excluded_bytes, excluded_at, excluded_bytes};
    }
};

// Hashes the pieces. Up to `most_parts` blocks share a piece of more than LONGEST_SHORT bytes, as many as have work for
// each of their warps. The first parts of all pieces come first, so that all pieces progress evenly.
//
// sums           accumulator sums of each KiB
// progress       one word per piece, 0 before and after
// hashes         if not null, receives the hashes; 0 for a missing piece
// checksummed_bytes: if not null, the buffer: the hash goes to the first 8 bytes of each piece's excluded range
// differs        if not null, whether the hash in the excluded range differs; 0 for a missing piece
// checksummed_pieces  if not null, counts the pieces that are done
__device__ inline void hash_part(const Pieces &pieces, uint32_t most_parts, uint64_t *sums, uint64_t *progress,
                                 uint64_t *hashes, uint8_t *checksummed_bytes, uint32_t *differs,
                                 uint32_t *checksummed_pieces) {
    // A dependent kernel starts after this one has waited, so that it sees all earlier writes.
    grid_dependency_wait();
    launch_dependents();
    __shared__ ChainScratch scratch;
    const uint32_t count = gridDim.x / most_parts, piece = blockIdx.x % count, part = blockIdx.x / count;
    const bool there = pieces.is_there(piece);
    uint64_t hash = 0;
    if (there) {
        const HashInput input = pieces.input(piece);
        const HashParts parts(uint32_t(input.blocks()), most_parts);
        if (part >= parts.count) {
            return;
        }
        uint64_t *own_sums = sums + piece * pieces.sums_stride * HASH_LANES;
        if (!hash_by_parts(input, parts, part, own_sums, progress + piece, scratch, hash)) {
            return;
        }
    }
    if (threadIdx.x > 0 || (part > 0 && !there)) {
        return;
    }
    if (hashes != nullptr) {
        hashes[piece] = hash;
    }
    const bool has_hash = there && pieces.lengths[piece] >= pieces.excluded_at + 8 && pieces.excluded_bytes >= 8;
    if (checksummed_bytes != nullptr && has_hash) {
        *reinterpret_cast<uint64_t *>(checksummed_bytes + pieces.starts[piece] + pieces.excluded_at) = hash;
    }
    if (differs != nullptr) {
        differs[piece] = has_hash && hash_at(pieces.bytes + pieces.starts[piece] + pieces.excluded_at) != hash;
    }
    if (checksummed_pieces != nullptr) {
        signal_release_add(checksummed_pieces, 1);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    container_hash(Pieces pieces, uint32_t most_parts, uint64_t *sums, uint64_t *progress, uint64_t *hashes,
                   uint8_t *checksummed_bytes, uint32_t *differs, uint32_t *checksummed_pieces) {
    hash_part(pieces, most_parts, sums, progress, hashes, checksummed_bytes, differs, checksummed_pieces);
}
