// Step (3) of the length limit of syncline_core::huffman::lengths, for codebooks that codebook/block.cu has
// left because there are many: builds one tree per floor, one block each. The block that finishes the last tree of a
// codebook writes the code with the fewest bits, the earlier of equal ones.
//
// THREADS           threads of a block
// FLOOR_TREE_BYTES  bytes of a tree's arrays in shared memory
//
// COOPERATIVE_BLOCKS is 1. See also the constants of huffman/codebook/tree.cuh.
#include "huffman/codebook/canonical_code.cuh"
#include "codebook/floor_trees.cuh"

static_assert(COOPERATIVE_BLOCKS == 1, "a block is on its own");

static_assert(SYMBOLS * 18 <= FLOOR_TREE_BYTES, "the host gives enough memory");
// Weights of leaves, raised to the floor, and of internal trees.
struct FloorWeights {
    uint64_t *leaves, *trees;

    __device__ inline uint64_t leaf(uint32_t i) const { return leaves[i]; }
    __device__ inline uint64_t tree(uint32_t i) const { return trees[i]; }
    __device__ inline void set_tree(uint32_t i, uint64_t weight) const { trees[i] = weight; }
};

// Builds the tree of floor `number` and, if it is the last to finish, writes the code. Called by a whole block; the
// pointers are those of the codebook. Not inlined, because it is called from an unrolled loop.
__device__ __noinline__ void build_floor_tree(FloorTrees &floor_trees, uint32_t number, uint8_t *memory,
                                              uint32_t *codewords, uint16_t *symbols_by_codeword, uint32_t *summary) {
    __shared__ CodeTables code;
    __shared__ bool is_last;
    const long long start = clock64();
    const uint32_t used = floor_trees.used, limit = used > LARGE_ALPHABET ? MAX_LENGTH_LARGE : MAX_LENGTH;
    const uint64_t floor = floor_of(number, floor_trees.total, limit);
    const uint64_t *sums = floor_trees.sums();
    __syncthreads(); // the previous tree is finished
    uint64_t *trees = reinterpret_cast<uint64_t *>(memory);
    Melding at{used, 0, 0, 0, 0};
    uint64_t *leaves = trees + SYMBOLS;
    uint16_t *fronts = reinterpret_cast<uint16_t *>(leaves + SYMBOLS);
    FloorWeights weights{leaves, trees};
#pragma unroll 4
    for (uint32_t i = threadIdx.x; i < used; i += THREADS) {
        leaves[i] = max_of(sums[i + 1] - sums[i], floor);
    }
    __syncthreads();
    meld_in_block(at, weights, fronts, floor_trees.total);
    __syncthreads();
    if (warp_id() == 0) {
        uint32_t over;
        const uint32_t at_length =
            limited_lengths([&](uint32_t tree) { return uint32_t(fronts[tree]); }, used, limit, over);
        const uint64_t bits = coded_bits(sums, used, limit, at_length);
        FloorTrees::LimitedCode &own = floor_trees.codes[number];
        own.leaves[lane_id()] = at_length;
        if (lane_id() == 0) {
            own.bits = bits;
        }
        __threadfence();
        __syncwarp();
        if (lane_id() == 0) {
            is_last = atomicAdd(&floor_trees.finished, 1u) == FLOORS - 1;
        }
    }
    __syncthreads();
    if (!is_last) {
        return;
    }
    __threadfence();
    const uint32_t at_length = warp_id() == 0 ? floor_trees.best_code() : 0;
    const long long decided = clock64();
    CooperativeGroup group{nullptr, nullptr, 0, threadIdx.x};
    const uint16_t *order = floor_trees.order();
    write_codewords(
        group, code, at_length, [&](uint32_t i) { return uint32_t(order[i]); }, SYMBOLS - used,
        reinterpret_cast<uint8_t *>(trees), codewords, symbols_by_codeword, summary);
    if (threadIdx.x == 0) {
        summary[SUMMARY_CYCLES + 2] += decided - start;
        summary[SUMMARY_CYCLES + 3] = clock64() - decided;
    }
}

// Builds the floor trees of the codebooks whose `needs_floors` is not 0. The trees are distributed round-robin to the
// blocks, of which there are at least FLOORS.
extern "C" __global__ void __launch_bounds__(THREADS)
    floor_trees(const uint32_t *needs_floors, uint32_t books, uint8_t *floor_trees, uint32_t *codewords,
                uint16_t *symbols_by_codeword, uint32_t *summary) {
    extern __shared__ __align__(16) uint8_t own_memory[];
    constexpr uint32_t AT_ONCE = 4;
    uint32_t dealt = 0; // modulo the number of blocks
    for (uint32_t first = 0; first < books; first += AT_ONCE * WARP) {
        bool needs_floor_trees[AT_ONCE];
#pragma unroll
        for (uint32_t i = 0; i < AT_ONCE; ++i) {
            const uint32_t book = first + i * WARP + lane_id();
            needs_floor_trees[i] = book < books && needs_floors[book] != 0;
        }
#pragma unroll
        for (uint32_t i = 0; i < AT_ONCE; ++i) {
            for (uint32_t found = __ballot_sync(ALL_LANES, needs_floor_trees[i]); found != 0; found &= found - 1) {
                const uint64_t book = first + i * WARP + __ffs(found) - 1;
                const uint32_t number = (blockIdx.x + gridDim.x - dealt) % gridDim.x;
                dealt = (dealt + FLOORS) % gridDim.x;
                if (number < FLOORS) {
                    build_floor_tree(*reinterpret_cast<FloorTrees *>(floor_trees + book * FLOOR_TREES_BYTES), number,
                                     own_memory, codewords + book * SYMBOLS, symbols_by_codeword + book * SYMBOLS,
                                     summary + book * SUMMARY_WORDS);
                }
            }
        }
    }
}
