// XXH3-64 of many pieces of a buffer at once: of chunk records, whose own hash stands in the gap (docs/FORMAT.md, "Chunk record").
//
// THREADS  threads in a block
// BLOCKS   blocks that a multiprocessor should hold: what registers are dealt out for
#include "xxh3.cuh"

constexpr uint32_t WARPS = THREADS / WARP;

struct Pieces {
    const uint8_t *bytes;
    uint64_t available;      // bytes that there are
    const uint64_t *starts;  // of each piece, in bytes
    const uint32_t *lengths; // with the gap
    uint64_t gap_at, gap_bytes;
    uint64_t sums_stride; // blocks of a piece that there is room for

    // A piece that is not wholly there is empty.
    __device__ inline bool is_there(uint32_t piece) const {
        const uint64_t start = starts[piece];
        const uint32_t length = lengths[piece];
        return start <= available && length <= available - start && length >= gap_bytes && length / HASH_BLOCK <= sums_stride;
    }
    __device__ inline Hashed input(uint32_t piece) const { return {bytes + starts[piece], lengths[piece] - gap_bytes, gap_at, gap_bytes}; }
};

// Blocks whose sums are fetched to shared memory while those before are scrambled: a step is some 15 cycles, the sums are fifty times that away.
constexpr uint32_t BATCH = 128;

// An accumulator scrambled, and what comes next added. Written so that a multiplication with addition does most of it: three instructions wait for each other.
__device__ inline uint64_t scrambled_plus(uint64_t accumulator, uint64_t key, uint64_t next) {
    const uint32_t low = uint32_t(accumulator), high = uint32_t(accumulator >> 32);
    const uint32_t front = (high ^ uint32_t(key >> 32)) * uint32_t(PRIME32_1) + uint32_t(next >> 32);
    const uint32_t back = low ^ high >> 15 ^ uint32_t(key);
    return uint64_t(back) * uint32_t(PRIME32_1) + (uint64_t(front) << 32 | uint32_t(next));
}

// Adds up the sums of a piece's blocks one after another: eight lanes of the first warp do, the other warps fetch. Called by the whole block; the first warp gets the hash.
__device__ inline uint64_t chained(const Hashed &input, const uint64_t *sums) {
    __shared__ uint64_t fetched[2][BATCH * HASH_LANES];
    const uint32_t lane = lane_id() % HASH_LANES;
    const uint64_t key = SECRET[16 + lane];
    const uint32_t blocks = uint32_t(input.blocks());
    uint64_t accumulator = FIRST_ACCUMULATORS[lane], rest = 0;
    // The first batch is fetched by the first round, which scrambles nothing.
    for (uint32_t begin = 0, round = 0; begin < blocks + BATCH; begin += BATCH, ++round) {
        if (warp_id() > 0) {
            const uint32_t words = min_of(blocks - min_of(begin, blocks), BATCH) * HASH_LANES;
            for (uint32_t i = threadIdx.x - WARP; i < words; i += THREADS - WARP) {
                fetched[round % 2][i] = __ldcg(&sums[uint64_t(begin) * HASH_LANES + i]);
            }
        } else if (begin == 0) {
            rest = stripes_sum(input, blocks, stripes_left(input));
        } else {
            const uint64_t *own = fetched[(round + 1) % 2] + lane;
            const uint32_t count = min_of(blocks - (begin - BATCH), BATCH);
            constexpr uint32_t UNROLLED = 16;
            accumulator += own[0];
            uint32_t step = 1;
            for (; step + UNROLLED <= count; step += UNROLLED) {
                uint64_t next[UNROLLED];
#pragma unroll
                for (uint32_t i = 0; i < UNROLLED; ++i) {
                    next[i] = own[(step + i) * HASH_LANES];
                }
#pragma unroll
                for (uint32_t i = 0; i < UNROLLED; ++i) {
                    accumulator = scrambled_plus(accumulator, key, next[i]);
                }
            }
            for (; step < count; ++step) {
                accumulator = scrambled_plus(accumulator, key, own[step * HASH_LANES]);
            }
            accumulator = scrambled_plus(accumulator, key, 0);
        }
        __syncthreads();
    }
    return warp_id() > 0 ? 0 : hash_finished(input, accumulator + rest);
}

// What whole KiB add, several of a warp's at a time so that all loads are under way together.
constexpr uint32_t AT_ONCE = 2;
constexpr uint32_t LOADS = HASH_BLOCK / (8 * WARP);

struct BlockKeys {
    uint64_t keys[LOADS];

    __device__ inline BlockKeys() {
#pragma unroll
        for (uint32_t i = 0; i < LOADS; ++i) {
            keys[i] = SECRET[i * (WARP / HASH_LANES) + lane_id() / HASH_LANES + lane_id() % HASH_LANES];
        }
    }
    // Sums of the lane's words of a KiB, for accumulator `lane % 8`; every lane gets them all.
    __device__ inline uint64_t sum(const uint64_t *values) const {
        uint64_t plain = 0, products = 0;
#pragma unroll
        for (uint32_t i = 0; i < LOADS; ++i) {
            const uint64_t keyed = values[i] ^ keys[i];
            plain += values[i];
            products += uint64_t(uint32_t(keyed)) * uint32_t(keyed >> 32);
        }
        // A word itself goes to the neighbouring accumulator.
        uint64_t sum = products + __shfl_xor_sync(ALL_LANES, plain, 1);
        sum += __shfl_xor_sync(ALL_LANES, sum, 8);
        return sum + __shfl_xor_sync(ALL_LANES, sum, 16);
    }
};

// Pieces of more than LONGEST_SHORT bytes are shared by up to `most_parts` blocks of threads each, as many as have something for each warp to do: what their KiB add goes to `sums`. The block that finishes a piece last, as
// `blocks_done` tells, which is 0 and is again when all is done, adds its KiB up. The hash goes to `hashes`, if that is given, and to the first eight bytes of the
// gap in `sign`, if that is given. A piece that is not wholly there has hash 0 and is not written to.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    hash_pieces(Pieces pieces, uint32_t most_parts, uint64_t *sums, uint32_t *blocks_done, uint64_t *hashes, uint8_t *sign) {
    const uint32_t piece = blockIdx.x / most_parts, part = blockIdx.x % most_parts;
    const bool there = pieces.is_there(piece);
    uint64_t hash = 0;
    if (there) {
        const Hashed input = pieces.input(piece);
        const uint32_t parts = min_of(most_parts, max_of(ceil_div(uint32_t(input.blocks()), WARPS * AT_ONCE), 1u));
        if (part >= parts) {
            return;
        }
        if (input.length > LONGEST_SHORT) {
            uint64_t *own_sums = sums + piece * pieces.sums_stride * HASH_LANES;
            const uint32_t blocks = uint32_t(input.blocks()), step = parts * WARPS;
            const BlockKeys keys;
            uint32_t block = part * WARPS + warp_id();
            // KiB with the gap in them, or not on words' boundaries.
            const bool aligned = reinterpret_cast<uint64_t>(input.bytes + input.gap_bytes) % 8 == 0;
            for (; block < blocks && (!aligned || uint64_t(block) * HASH_BLOCK < input.gap_at); block += step) {
                const uint64_t sum = stripes_sum(input, block, STRIPES_IN_BLOCK);
                if (lane_id() < HASH_LANES) {
                    own_sums[uint64_t(block) * HASH_LANES + lane_id()] = sum;
                }
            }
            const uint64_t *words = reinterpret_cast<const uint64_t *>(input.bytes + input.gap_bytes) + lane_id();
            for (; block < blocks; block += AT_ONCE * step) {
                uint64_t values[AT_ONCE][LOADS];
#pragma unroll
                for (uint32_t k = 0; k < AT_ONCE; ++k) {
                    const uint64_t *from = words + uint64_t(min_of(block + k * step, blocks - 1)) * (HASH_BLOCK / 8);
#pragma unroll
                    for (uint32_t i = 0; i < LOADS; ++i) {
                        values[k][i] = from[i * WARP];
                    }
                }
#pragma unroll
                for (uint32_t k = 0; k < AT_ONCE; ++k) {
                    const uint64_t sum = keys.sum(values[k]);
                    if (lane_id() / HASH_LANES == k && block + k * step < blocks) {
                        own_sums[uint64_t(block + k * step) * HASH_LANES + lane_id() % HASH_LANES] = sum;
                    }
                }
            }
            __shared__ bool last_part;
            __threadfence();
            __syncthreads();
            if (threadIdx.x == 0) {
                last_part = atomicInc(&blocks_done[piece], parts - 1) == parts - 1;
            }
            __syncthreads();
            if (!last_part) {
                return;
            }
            __threadfence();
            hash = chained(input, own_sums);
        } else {
            hash = hash_short(input);
        }
    }
    if (threadIdx.x > 0 || (part > 0 && !there)) {
        return;
    }
    if (hashes != nullptr) {
        hashes[piece] = hash;
    }
    if (sign != nullptr && there && pieces.lengths[piece] >= pieces.gap_at + 8 && pieces.gap_bytes >= 8) {
        *reinterpret_cast<uint64_t *>(sign + pieces.starts[piece] + pieces.gap_at) = hash;
    }
}
