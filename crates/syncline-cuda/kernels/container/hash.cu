// XXH3-64 of many pieces of a buffer at once: of chunk records, whose own hash stands in the gap (docs/FORMAT.md,
// "Chunk record").
//
// THREADS  threads in a block
// BLOCKS   blocks that a multiprocessor should hold: what registers are dealt out for
#include "device/sync.cuh"
#include "container/hash.cuh"
#include "huffman/span.cuh"

struct Pieces {
    const uint8_t *bytes;
    uint64_t available;      // bytes that there are
    const uint64_t *starts;  // of each piece, in bytes
    const uint32_t *lengths; // with the gap
    uint64_t excluded_at, excluded_bytes;
    uint64_t sums_stride; // blocks of a piece that there is room for

    // A piece that is not wholly there is empty.
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

// Pieces of more than LONGEST_SHORT bytes are shared by up to `most_parts` blocks of threads each, as many as have
// something for each warp to do: what their KiB add goes to `sums`. `unwritten`, if it is given, has for each piece the
// number of blocks of the kernels before that have yet to write something of it: it is read when that is 0.
// `signed_pieces`, if it is given, counts pieces that are done. Sums go to where the groups of a piece's stream were,
// of `group_bytes` bytes each, if there are `spans`: other streams may still be read there. First parts of all pieces
// come first, so that all get on alike. `progress` has a word a piece. The hash goes to `hashes`, if that is given, and
// to the first eight bytes of the gap in `sign`, if that is given. A piece that is not wholly there has hash 0 and is
// not written to. `differs`, if that is given, is whether the hash that a piece has in the first eight bytes of its gap
// is another; not where there is no such piece.
__device__ inline void hash_part(const Pieces &pieces, uint32_t most_parts, uint64_t *sums, uint64_t *progress,
                                 uint64_t *hashes, uint8_t *sign, uint32_t *differs, const uint32_t *unwritten,
                                 uint32_t *signed_pieces, const Span *spans, uint32_t group_bytes) {
    // What comes next, if it knows how to wait, is_first when this one has waited: it then finds all that was there
    // before.
    if (unwritten == nullptr) {
        grid_dependency_wait();
        launch_dependents();
    }
    __shared__ ChainScratch scratch;
    const uint32_t count = gridDim.x / most_parts, piece = blockIdx.x % count, part = blockIdx.x / count;
    // The kernel before lets this one begin when starts and lengths are there.
    const bool there = pieces.is_there(piece);
    uint64_t hash = 0;
    if (there) {
        const HashInput input = pieces.input(piece);
        const HashParts parts(uint32_t(input.blocks()), most_parts);
        if (part >= parts.count) {
            return;
        }
        if (unwritten != nullptr) {
            if (threadIdx.x == 0) {
                wait_for_signal(&unwritten[piece], 0u);
            }
            __syncthreads();
            launch_dependents();
        }
        uint64_t *own_sums = sums + (spans != nullptr ? spans[piece].first_group * (group_bytes / 8)
                                                      : piece * pieces.sums_stride * HASH_LANES);
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
    if (sign != nullptr && has_hash) {
        *reinterpret_cast<uint64_t *>(sign + pieces.starts[piece] + pieces.excluded_at) = hash;
    }
    if (differs != nullptr) {
        differs[piece] = has_hash && hash_at(pieces.bytes + pieces.starts[piece] + pieces.excluded_at) != hash;
    }
    if (signed_pieces != nullptr) {
        signal_release_add(signed_pieces, 1);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    container_hash(Pieces pieces, uint32_t most_parts, uint64_t *sums, uint64_t *progress, uint64_t *hashes,
                   uint8_t *sign, uint32_t *differs, const uint32_t *unwritten, uint32_t *signed_pieces,
                   const Span *spans, uint32_t group_bytes) {
    hash_part(pieces, most_parts, sums, progress, hashes, sign, differs, unwritten, signed_pieces, spans, group_bytes);
    if (unwritten != nullptr && blockIdx.x == 0) {
        grid_dependency_wait();
    }
}
