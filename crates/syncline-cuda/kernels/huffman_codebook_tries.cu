// Step (3) of the length limit of syncline_core::huffman::lengths, for the codebooks that huffman_codebook.cu has left over: as many trees as there are floors are made side by
// side, a block each. The block that finishes a codebook's last takes the code with the fewest bits, the earlier of equals, and writes it.
//
// THREADS     threads in a block
// IN_SHARED   whether a try's arrays are in shared memory; else in `memory`
// TRY_BYTES   of a try's arrays
// TEAM is 1; and the constants of huffman_tree.cuh.
#include "huffman_code.cuh"
#include "huffman_tree.cuh"

static_assert(TEAM == 1, "a block is on its own");

#if IN_SHARED
static_assert(SYMBOLS * 18 <= TRY_BYTES, "the host gives enough memory");
// Weights as huffman_codebook.cu has them, those of leaves raised to the floor.
struct TryWeights {
    uint64_t *leaves, *trees;

    __device__ inline uint64_t leaf(uint32_t i) const { return leaves[i]; }
    __device__ inline uint64_t tree(uint32_t i) const { return trees[i]; }
    __device__ inline void set_tree(uint32_t i, uint64_t weight) const { trees[i] = weight; }
};
#else
static_assert(SYMBOLS * 10 <= TRY_BYTES, "the host gives enough memory");
struct TryWeights {
    const uint64_t *sums;
    uint64_t *trees, floor;

    __device__ inline uint64_t leaf(uint32_t i) const { return max_of(sums[i + 1] - sums[i], floor); }
    __device__ inline uint64_t tree(uint32_t i) const { return trees[i]; }
    __device__ inline void set_tree(uint32_t i, uint64_t weight) const { trees[i] = weight; }
};
#endif

// Makes the tree of try `number` and, if it is the last to finish, writes the code. By a whole block; the pointers are those of the codebook. Not inlined: called from
// several places of a loop.
__device__ __noinline__ void try_floor(Pending &pending, uint32_t number, uint8_t *memory, uint32_t *codewords, uint16_t *symbols_by_codeword,
                                       uint32_t *summary) {
    __shared__ uint32_t at_depth[DEPTHS];
    __shared__ Code code;
    __shared__ bool is_last;
    const long long start = clock64();
    const uint32_t used = pending.used, limit = used > LARGE ? MAX_LENGTH_LARGE : MAX_LENGTH;
    const uint64_t floor = pending.total * (4 + number % 4) >> (limit + 4 - number / 4);
    const uint64_t *sums = pending.sums();
    __syncthreads(); // done with the try before
    for (uint32_t i = threadIdx.x; i < DEPTHS; i += THREADS) {
        at_depth[i] = 0;
    }
    uint64_t *trees = reinterpret_cast<uint64_t *>(memory);
    Melding at{used, 0, 0, 0, 0};
#if IN_SHARED
    uint64_t *leaves = trees + SYMBOLS;
    uint16_t *fronts = reinterpret_cast<uint16_t *>(leaves + SYMBOLS);
    TryWeights weights{leaves, trees};
#pragma unroll 4
    for (uint32_t i = threadIdx.x; i < used; i += THREADS) {
        leaves[i] = max_of(sums[i + 1] - sums[i], floor);
    }
    __syncthreads();
    meld_in_block(at, weights, fronts);
#else
    uint16_t *fronts = reinterpret_cast<uint16_t *>(trees + SYMBOLS);
    TryWeights weights{sums, trees, floor};
    __shared__ SoloWeights solo;
    __syncthreads();
    meld(at, weights, fronts, SOLO, threadIdx.x, THREADS, [] { __syncthreads(); });
    meld_solo(at, weights, fronts, solo);
#endif
    __syncthreads();
    if (warp_id() == 0) {
        if (lane_id() == 0) {
            limit_lengths(at_depth, leaves_per_depth(fronts, used, at_depth), limit);
        }
        __syncwarp();
        const uint64_t bits = coded_bits(sums, used, at_depth);
        Pending::Try &own = pending.tries[number];
        own.leaves[lane_id()] = at_depth[lane_id()];
        if (lane_id() == 0) {
            own.bits = bits;
        }
        __threadfence();
        __syncwarp();
        if (lane_id() == 0) {
            is_last = atomicAdd(&pending.finished, 1u) == FLOORS - 1;
        }
    }
    __syncthreads();
    if (!is_last) {
        return;
    }
    __threadfence();
    if (warp_id() == 0) {
        uint64_t fewest = lane_id() < FLOORS ? __ldcg(&pending.tries[min_of(lane_id(), FLOORS - 1u)].bits) : ~0ull;
        uint32_t best = lane_id();
        for (uint32_t distance = WARP / 2; distance > 0; distance /= 2) {
            const uint64_t bits = __shfl_xor_sync(ALL_LANES, fewest, distance);
            const uint32_t other = __shfl_xor_sync(ALL_LANES, best, distance);
            if (bits < fewest || (bits == fewest && other < best)) {
                fewest = bits;
                best = other;
            }
        }
        code.at_length[lane_id()] = fewest < pending.best_bits ? __ldcg(&pending.tries[best].leaves[lane_id()]) : pending.best[lane_id()];
    }
    __syncthreads();
    const long long decided = clock64();
    Team team{nullptr, nullptr, 0, threadIdx.x};
    const uint16_t *order = pending.order();
    write_code(
        team, code, [&](uint32_t i) { return uint32_t(order[i]); }, SYMBOLS - used, reinterpret_cast<uint8_t *>(trees), codewords, symbols_by_codeword,
        summary);
    if (threadIdx.x == 0) {
        summary[SUMMARY_CYCLES + 2] += decided - start;
        summary[SUMMARY_CYCLES + 3] = clock64() - decided;
    }
}

// The codebooks of which `due` is not 0; there are at least FLOORS blocks. Tries are dealt out to them in turn.
extern "C" __global__ void __launch_bounds__(THREADS) codebook_tries(const uint32_t *due, uint32_t books, uint8_t *pending, uint8_t *memory,
                                                                     uint32_t *codewords, uint16_t *symbols_by_codeword, uint32_t *summary) {
#if IN_SHARED
    extern __shared__ __align__(16) uint8_t own_memory[];
#endif
    constexpr uint32_t AT_ONCE = 4;
    uint32_t dealt = 0; // modulo the number of blocks
    for (uint32_t first = 0; first < books; first += AT_ONCE * WARP) {
        bool is_due[AT_ONCE];
#pragma unroll
        for (uint32_t i = 0; i < AT_ONCE; ++i) {
            const uint32_t book = first + i * WARP + lane_id();
            is_due[i] = book < books && due[book] != 0;
        }
#pragma unroll
        for (uint32_t i = 0; i < AT_ONCE; ++i) {
            for (uint32_t found = __ballot_sync(ALL_LANES, is_due[i]); found != 0; found &= found - 1) {
                const uint64_t book = first + i * WARP + __ffs(found) - 1;
                const uint32_t number = (blockIdx.x + gridDim.x - dealt) % gridDim.x;
                dealt = (dealt + FLOORS) % gridDim.x;
                if (number < FLOORS) {
#if !IN_SHARED
                    uint8_t *own_memory = memory + uint64_t(number) * TRY_BYTES;
#endif
                    try_floor(*reinterpret_cast<Pending *>(pending + book * PENDING_BYTES), number, own_memory, codewords + book * SYMBOLS,
                              symbols_by_codeword + book * SYMBOLS, summary + book * SUMMARY_WORDS);
                }
            }
        }
    }
}
