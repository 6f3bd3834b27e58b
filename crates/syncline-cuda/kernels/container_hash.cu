// XXH3-64 of many pieces of a buffer at once: of chunk records, whose own hash stands in the gap (docs/FORMAT.md, "Chunk record").
//
// THREADS  threads in a block
#include "xxh3.cuh"

constexpr uint32_t WARPS = THREADS / WARP;
// Sums that a lane fetches ahead while it scrambles: the chain of dependent steps through a block of 1 KiB is some 30 cycles, memory is 10 times that away.
constexpr uint32_t AHEAD = 16;

struct Pieces {
    const uint8_t *bytes;
    uint64_t available;      // bytes that there are
    const uint64_t *starts;  // of each piece, in bytes
    const uint32_t *lengths; // with the gap
    uint64_t gap_at, gap_bytes;
};

// Adds up the sums of a piece's blocks one after another.
__device__ inline uint64_t chained(const Hashed &input, const uint64_t *sums) {
    const uint32_t lane = lane_id() % HASH_LANES;
    const uint64_t key = SECRET[16 + lane];
    const uint64_t blocks = input.blocks();
    uint64_t accumulator = FIRST_ACCUMULATORS[lane];
    uint64_t next[AHEAD];
#pragma unroll
    for (uint32_t i = 0; i < AHEAD; ++i) {
        next[i] = i < blocks ? __ldcg(&sums[i * HASH_LANES + lane]) : 0;
    }
    uint64_t block = 0;
    for (; block + AHEAD <= blocks; block += AHEAD) {
        uint64_t own[AHEAD];
#pragma unroll
        for (uint32_t i = 0; i < AHEAD; ++i) {
            own[i] = next[i];
            const uint64_t later = block + AHEAD + i;
            next[i] = later < blocks ? __ldcg(&sums[later * HASH_LANES + lane]) : 0;
        }
#pragma unroll
        for (uint32_t i = 0; i < AHEAD; ++i) {
            accumulator = scrambled(accumulator + own[i], key);
        }
    }
#pragma unroll
    for (uint32_t i = 0; i < AHEAD; ++i) {
        if (block + i < blocks) {
            accumulator = scrambled(accumulator + next[i], key);
        }
    }
    return hash_finished(input, accumulator + stripes_sum(input, blocks, stripes_left(input)));
}

// The blocks of a piece are shared by `parts` blocks of threads; the last of them to finish makes the hash. It goes to `hashes`, if that is given, and to the first
// eight bytes of the gap in `sign`, if that is given. A piece that is not wholly there has hash 0 and is not written to. `done` has a 0 for each piece, and is left so.
extern "C" __global__ void __launch_bounds__(THREADS)
    container_hash(Pieces pieces, uint32_t parts, uint32_t blocks_in_piece, uint64_t *sums, uint32_t *done, uint64_t *hashes, uint8_t *sign) {
    const uint32_t piece = blockIdx.x / parts, part = blockIdx.x % parts;
    const uint64_t start = pieces.starts[piece];
    const uint32_t length = pieces.lengths[piece];
    const bool there = start <= pieces.available && length <= pieces.available - start && length >= pieces.gap_bytes &&
                       length / HASH_BLOCK <= blocks_in_piece;
    const Hashed input{pieces.bytes + start, there ? length - pieces.gap_bytes : 0, pieces.gap_at, pieces.gap_bytes};
    uint64_t *own_sums = sums + uint64_t(piece) * blocks_in_piece * HASH_LANES;
    if (there && input.length > LONGEST_SHORT) {
        for (uint64_t block = part * WARPS + warp_id(); block < input.blocks(); block += parts * WARPS) {
            const uint64_t sum = stripes_sum(input, block, STRIPES_IN_BLOCK);
            if (lane_id() < HASH_LANES) {
                own_sums[block * HASH_LANES + lane_id()] = sum;
            }
        }
    }
    __threadfence();
    __syncthreads();
    __shared__ bool last;
    if (threadIdx.x == 0) {
        last = atomicAdd(&done[piece], 1u) == parts - 1;
    }
    __syncthreads();
    if (!last || warp_id() > 0) {
        return;
    }
    __threadfence();
    const uint64_t hash = !there ? 0 : input.length > LONGEST_SHORT ? chained(input, own_sums) : hash_short(input);
    if (lane_id() == 0) {
        done[piece] = 0;
        if (hashes != nullptr) {
            hashes[piece] = hash;
        }
        if (sign != nullptr && there && length >= pieces.gap_at + 8 && pieces.gap_bytes >= 8) {
            *reinterpret_cast<uint64_t *>(sign + start + pieces.gap_at) = hash;
        }
    }
}
