// XXH3-64 of many pieces of a buffer at once: of chunk records, whose own hash stands in the gap (docs/FORMAT.md, "Chunk record").
//
// THREADS  threads in a block of hash_blocks
// AHEAD    sums that a lane of the chain fetches ahead: a step of it is some 25 cycles, memory is more than ten times that away
#include "xxh3.cuh"

constexpr uint32_t WARPS = THREADS / WARP;

struct Pieces {
    const uint8_t *bytes;
    uint64_t available;      // bytes that there are
    const uint64_t *starts;  // of each piece, in bytes
    const uint32_t *lengths; // with the gap
    uint64_t gap_at, gap_bytes;
    uint64_t sums_stride; // blocks of a piece that there is room for, AHEAD more than it has

    // A piece that is not wholly there is empty.
    __device__ inline bool is_there(uint32_t piece) const {
        const uint64_t start = starts[piece];
        const uint32_t length = lengths[piece];
        return start <= available && length <= available - start && length >= gap_bytes && length / HASH_BLOCK + AHEAD <= sums_stride;
    }
    __device__ inline Hashed input(uint32_t piece) const { return {bytes + starts[piece], lengths[piece] - gap_bytes, gap_at, gap_bytes}; }
};

// What the blocks of all pieces add, each piece shared by `parts` blocks of threads.
extern "C" __global__ void __launch_bounds__(THREADS) hash_blocks(Pieces pieces, uint32_t parts, uint64_t *sums) {
    const uint32_t piece = blockIdx.x / parts, part = blockIdx.x % parts;
    if (!pieces.is_there(piece)) {
        return;
    }
    const Hashed input = pieces.input(piece);
    uint64_t *own_sums = sums + piece * pieces.sums_stride * HASH_LANES;
    // Zeros behind the last, for the chain to fetch.
    for (uint64_t block = part * WARPS + warp_id(); block < input.blocks() + AHEAD; block += parts * WARPS) {
        const uint64_t sum = block < input.blocks() ? stripes_sum(input, block, STRIPES_IN_BLOCK) : 0;
        if (lane_id() < HASH_LANES) {
            own_sums[block * HASH_LANES + lane_id()] = sum;
        }
    }
}

// Adds up the sums of a piece's blocks one after another. A whole warp, of which eight lanes count.
__device__ inline uint64_t chained(const Hashed &input, const uint64_t *sums) {
    const uint32_t lane = lane_id() % HASH_LANES;
    const uint64_t key = SECRET[16 + lane];
    const uint32_t blocks = uint32_t(input.blocks());
    uint64_t accumulator = FIRST_ACCUMULATORS[lane];
    sums += lane;
    uint64_t next[AHEAD];
#pragma unroll
    for (uint32_t i = 0; i < AHEAD; ++i) {
        next[i] = __ldcg(&sums[i * HASH_LANES]);
    }
    for (uint32_t round = blocks / AHEAD; round > 0; --round) {
        sums += AHEAD * HASH_LANES;
#pragma unroll
        for (uint32_t i = 0; i < AHEAD; ++i) {
            accumulator = scrambled(accumulator + next[i], key);
            next[i] = __ldcg(&sums[i * HASH_LANES]);
        }
    }
#pragma unroll
    for (uint32_t i = 0; i < AHEAD; ++i) {
        if (i < blocks % AHEAD) {
            accumulator = scrambled(accumulator + next[i], key);
        }
    }
    return hash_finished(input, accumulator + stripes_sum(input, blocks, stripes_left(input)));
}

// A warp a piece: its hash goes to `hashes`, if that is given, and to the first eight bytes of the gap in `sign`, if that is given. A piece that is not wholly
// there has hash 0 and is not written to.
extern "C" __global__ void __launch_bounds__(WARP) hash_chain(Pieces pieces, const uint64_t *sums, uint64_t *hashes, uint8_t *sign) {
    const uint32_t piece = blockIdx.x;
    const bool there = pieces.is_there(piece);
    uint64_t hash = 0;
    if (there) {
        const Hashed input = pieces.input(piece);
        hash = input.length > LONGEST_SHORT ? chained(input, sums + piece * pieces.sums_stride * HASH_LANES) : hash_short(input);
    }
    if (lane_id() == 0) {
        if (hashes != nullptr) {
            hashes[piece] = hash;
        }
        if (sign != nullptr && there && pieces.lengths[piece] >= pieces.gap_at + 8 && pieces.gap_bytes >= 8) {
            *reinterpret_cast<uint64_t *>(sign + pieces.starts[piece] + pieces.gap_at) = hash;
        }
    }
}
