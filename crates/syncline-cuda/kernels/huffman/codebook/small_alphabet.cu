// Codebooks of the streams of an encoder for small alphabets: from counts to canonical codes, serialized codebooks, and
// the choice between one codebook and several.
//
// - Symbols are sorted by (count, symbol): into buckets of similar counts, sixteen per octave, and within a bucket by
//   counting smaller keys.
// - One warp or four build a tree, in the melding rounds that huffman/codebook/tree.cuh explains. The warps of a block
//   build the floor trees of the length limit in parallel. If blocks are few (ALL_TREES), all trees are built before
//   it is known whether they are needed. If multiprocessors would be idle (CODEBOOK_BLOCKS), or for the codebook that
//   is the most likely to need floor trees (LAST_CLASS_BLOCKS), several blocks sort the same counts and share the
//   trees.
// - A warp with one length per lane finds the limit, the bits of a code and its first codewords.
// - Codewords ascend by symbol within a length: ranks are computed by ballots and added up over warps.
//
// THREADS            threads of a block, whole warps
// ALL_TREES          whether all candidate trees are built at once
// CLASSES            1; or 4, with a codebook for each class and one for all classes together
// CODEBOOK_BLOCKS    blocks that build the trees of a codebook; the last to finish continues
// LAST_CLASS_BLOCKS  the same for the codebook of a stream's last class; not fewer
// RESIDENT_BLOCKS    resident blocks per multiprocessor, for the allocation of registers
//
// COOPERATIVE_BLOCKS is 1, and SYMBOLS is at most 4,096. See also huffman/codebook/tree.cuh. All
// counts of a stream sum to less than 2^24.
#include "huffman/codebook/small_alphabet_code.cuh"
#include "device/sync.cuh"
#include "huffman/codebook/structs.cuh"

// The blocks of a stream start with those of the codebook of the last class.
constexpr uint32_t LAST_CLASS = CLASSES - 1, BLOCKS_OF_STREAM = (CODEBOOKS - 1) * CODEBOOK_BLOCKS + LAST_CLASS_BLOCKS;
constexpr bool SHARES_TREES = CODEBOOK_BLOCKS > 1 || LAST_CLASS_BLOCKS > 1;

// The codebook of a block, and the rank of the block among the `blocks` blocks of that codebook.
struct BlockAssignment {
    uint32_t codebook, rank, blocks;
};
__device__ inline BlockAssignment own_assignment() {
    const uint32_t first_book = blockIdx.x / BLOCKS_OF_STREAM * CODEBOOKS, block = blockIdx.x % BLOCKS_OF_STREAM;
    if (block < LAST_CLASS_BLOCKS) {
        return {first_book + LAST_CLASS, block, LAST_CLASS_BLOCKS};
    }
    const uint32_t other = (block - LAST_CLASS_BLOCKS) / CODEBOOK_BLOCKS;
    return {first_book + other + (other >= LAST_CLASS), (block - LAST_CLASS_BLOCKS) % CODEBOOK_BLOCKS, CODEBOOK_BLOCKS};
}

// The word in which blocks exchange the rounds of tree 0: its index exceeds the maximum codeword length.
constexpr uint32_t ROUNDS_AT = WARP - 1;
static_assert(LIMIT < ROUNDS_AT, "a lane a length");

// Counter of a codebook's finished blocks; the first block adds FLOORS_NOT_NEEDED if the length limit needs no floor
// trees.
constexpr uint32_t DONE_BLOCK = 1, FLOORS_NOT_NEEDED = 1u << 16;
// Counter of a stream's finished codebooks, and above it of the blocks that have read its counts.
constexpr uint32_t DONE_CODEBOOK = 1, DONE_READING = 1u << 16;
static_assert(BLOCKS_OF_STREAM < 1u << 16, "both have room");

// Returns whether this block continues with its codebook: the first block if no floor trees are needed, otherwise the
// last to finish, which receives the trees of all blocks in `codes`. `built` is the set of trees that this block has
// built, `to_build` the set of all. Called by the whole block.
__device__ inline bool exchange_codes(const StreamCodes &streams, const BlockAssignment &assignment,
                                      bool first_and_not_needed, uint32_t to_build, uint32_t built,
                                      LimitedCode *codes) {
    const uint32_t codebook = assignment.codebook, last = DONE_BLOCK * (assignment.blocks - 1);
    constexpr uint32_t WORDS = sizeof(LimitedCode) / 4;
    uint32_t *all = reinterpret_cast<uint32_t *>(streams.trees + uint64_t(codebook) * (FLOORS + 1));
    uint32_t *own = reinterpret_cast<uint32_t *>(codes);
    if (first_and_not_needed) {
        // A thread that the others do not wait for.
        if (threadIdx.x == THREADS - 1 &&
            atomicAdd(&streams.arrived[codebook], DONE_BLOCK | FLOORS_NOT_NEEDED) == last) {
            streams.arrived[codebook] = 0;
        }
        return true;
    }
    for (uint32_t i = threadIdx.x; i < (FLOORS + 1) * WORDS; i += THREADS) {
        if (built >> i / WORDS & 1) {
            all[i] = own[i];
        }
    }
    __shared__ bool goes_on;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        const uint32_t before = atomicAdd(&streams.arrived[codebook], DONE_BLOCK);
        if (before % FLOORS_NOT_NEEDED == last) {
            streams.arrived[codebook] = 0;
        }
        goes_on = before == last;
        __threadfence();
    }
    __syncthreads();
    if (goes_on) {
        for (uint32_t i = threadIdx.x; i < (FLOORS + 1) * WORDS; i += THREADS) {
            if (to_build >> i / WORDS & 1) {
                own[i] = __ldcg(&all[i]);
            }
        }
        __syncthreads();
    }
    return goes_on;
}

// Takes over the stream's status and clears its counts, after all blocks have read them. Called by `size` threads; this
// one is number `rank`.
__device__ inline void clear_counts(const StreamCodes &streams, uint32_t stream, uint32_t *counts, uint32_t rank,
                                    uint32_t size) {
    uint32_t *of_stream = counts + stream * uint64_t(STREAM_COUNTS);
    if (rank == 0) {
        streams.status[stream] = of_stream[CLASSES * SYMBOLS];
        of_stream[CLASSES * SYMBOLS] = 0;
    }
#pragma unroll 4
    for (uint32_t i = rank; i < CLASSES * SYMBOLS; i += size) {
        of_stream[i] = 0;
    }
}

// The last block that has read a stream's counts clears them. Called by an idle warp.
__device__ inline void finish_reading(const StreamCodes &streams, uint32_t stream, uint32_t *counts) {
    uint32_t before = 0;
    if (lane_id() == 0) {
        before = atomicAdd(&streams.finished[stream], DONE_READING);
    }
    if (__shfl_sync(ALL_LANES, before, 0) / DONE_READING == BLOCKS_OF_STREAM - 1) {
        if (lane_id() == 0) {
            atomicAdd(&streams.finished[stream], 0u - DONE_READING * BLOCKS_OF_STREAM);
        }
        clear_counts(streams, stream, counts, lane_id(), WARP);
    }
}

// The block that finishes the last codebook of a stream chooses CLASSES codebooks if codewords and codebooks are then
// shorter than with the codebook for all classes. It clears the counts if each codebook has one block.
__device__ inline void finish_stream(const StreamCodes &streams, uint32_t codebook, uint32_t bytes, uint64_t bits,
                                     uint32_t *counts) {
    const uint32_t stream = codebook / CODEBOOKS;
    if (CODEBOOKS > 1) {
        __shared__ bool is_last;
        if (threadIdx.x == 0) {
            // A bit of a serialized codebook costs as much as a bit of a codeword.
            streams.codebook_bits[codebook] = bits + uint64_t(8 * bytes);
            __threadfence();
            is_last =
                atomicAdd(&streams.finished[stream], DONE_CODEBOOK) % DONE_READING == DONE_CODEBOOK * (CODEBOOKS - 1);
        }
        __syncthreads();
        if (!is_last) {
            return;
        }
        if (threadIdx.x == 0) {
            __threadfence();
            uint64_t several = 0;
            for (uint32_t book = 0; book < CLASSES; ++book) {
                several += __ldcg(&streams.codebook_bits[stream * CODEBOOKS + book]);
            }
            streams.codebooks_used[stream] =
                several < __ldcg(&streams.codebook_bits[stream * CODEBOOKS + CLASSES]) ? CLASSES : 1;
            atomicAdd(&streams.finished[stream], 0u - DONE_CODEBOOK * CODEBOOKS);
        }
    }
    if (!SHARES_TREES) {
        clear_counts(streams, stream, counts, threadIdx.x, THREADS);
    }
}

// `room` is the dynamic shared memory for trees in bytes.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    small_alphabet_codebook(uint32_t *counts, uint32_t *codewords, uint16_t *symbols_by_codeword, uint32_t *summary,
                            uint32_t room, StreamCodes streams) {
    extern __shared__ __align__(16) uint8_t memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    uint8_t *trees = memory + sizeof(Shared);
    __shared__ LimitedCode codes[FLOORS + 1];
    alignas(4) __shared__ uint16_t warp_lengths[WARPS][WARP_ROW]; // buckets while symbols are sorted
    __shared__ uint32_t last_symbol, status;
    __shared__ bool needs_floor_trees;
    const BlockAssignment assignment = own_assignment();
    const uint32_t codebook = assignment.codebook, rank_in_codebook = assignment.rank, blocks = assignment.blocks;
    codewords += uint64_t(codebook) * SYMBOLS;
    symbols_by_codeword += uint64_t(codebook) * SYMBOLS;
    summary += codebook * SUMMARY_WORDS;
    if (threadIdx.x == 0) {
        last_symbol = status = 0;
        needs_floor_trees = false;
    }
    if (threadIdx.x <= FLOORS) {
        codes[threadIdx.x].bits = ~uint32_t(0); // of those that are not built
    }
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < ROOM / 4; i += THREADS) {
        reinterpret_cast<uint32_t *>(shared.lengths)[i] = 0;
    }
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < WARPS * WARP / 2; i += THREADS) {
        reinterpret_cast<uint32_t *>(warp_lengths)[i] = 0;
    }
    // The next kernel may then read, without waiting, the data that was valid before this one.
    grid_dependency_wait();
    launch_dependents();
    const long long start = clock64();
    uint32_t own[OWN];
    read_counts(counts, codebook, own);
    __syncthreads();
    uint32_t last = 0;
#pragma unroll
    for (uint32_t i = 0; i < OWN; ++i) {
        if (own[i] > LARGEST_COUNT) {
            own[i] = LARGEST_COUNT;
            status = STATUS_COUNT_CLAMPED;
        }
        last = own[i] != 0 ? OWN * threadIdx.x + i + 1 : last;
    }
#pragma unroll
    for (uint32_t distance = WARP / 2; distance > 0; distance /= 2) {
        last = max_of(last, __shfl_xor_sync(ALL_LANES, last, distance));
    }
    if (lane_id() == 0) {
        atomicMax(&last_symbol, last);
    }
    const uint32_t used = sort_used(own, shared, warp_lengths[0], trees);
    sum_counts(shared, used);
    const long long sorted = clock64();
    long long melded = sorted;

    // Builds the trees. Tree 0 is that of the unmodified counts.
    bool needs_floors = false;
    uint32_t rounds = 0, to_build = 1, built = 0;
    if (SHARES_TREES && warp_id() == WARPS - 1) {
        finish_reading(streams, codebook / CODEBOOKS, counts);
    }
    if (used > 1) {
        const uint32_t bytes = tree_bytes(used), at_once = min_of(WARPS, room / bytes);
        const uint32_t total = shared.sums[used];
        to_build = trees_to_build(shared.counts[0], total);
        // Floor trees are built before it is known whether they are needed if that is cheap.
        const bool all = blocks > 1 || ALL_TREES;
        uint32_t left = all ? to_build : 1;
        if (blocks > 1) {
            // The first block builds tree 0, which may be all that is needed.
            const uint32_t rank = __popc(left & ((1u << lane_id()) - 1));
            left = __ballot_sync(ALL_LANES, (left >> lane_id() & 1) &&
                                                (rank == 0 ? 0 : 1 + rank % (blocks - 1)) == rank_in_codebook);
        }
        built = left;
#pragma unroll 1
        while (left != 0) {
            const uint32_t count = min_of<uint32_t>(at_once, __popc(left));
            const TreeWarps tree_warps(count <= MAX_TREE_GROUPS ? WARPS_OF_TREE : 1);
            if (tree_warps.number < count) {
                const uint32_t number = set_bit(left, tree_warps.number);
                const uint32_t floor = floor_of_tree(number, total);
                uint8_t *const own_memory = trees + tree_warps.number * bytes;
                const Melding at = meld_by_warps(tree_warps, shared, used, floor, own_memory);
                if (tree_warps.rank() < WARP) {
                    const Tree tree = record_code(shared, at.used, floor, own_memory, codes[number]);
                    if (number == 0 && lane_id() == 0) {
                        melded = clock64();
                        rounds = at.rounds;
                        needs_floor_trees = floor_trees_needed(tree, codes[0].bits);
                    }
                }
            }
            tree_warps.even_out();
            const uint32_t next = set_bit(left, count);
            left = next < 32 ? left >> next << next : 0;
            __syncthreads();
            if (!all && !needs_floors && needs_floor_trees) {
                left = to_build - 1;
            }
            needs_floors = needs_floor_trees;
        }
    }
    if (SHARES_TREES && blocks > 1) {
        if (rank_in_codebook == 0 && threadIdx.x == 0) {
            codes[0].at_length[ROUNDS_AT] = rounds;
        }
        __syncthreads();
        const bool first_and_not_needed = rank_in_codebook == 0 && !needs_floors;
        if (!exchange_codes(streams, assignment, first_and_not_needed, to_build, built, codes)) {
            return;
        }
        needs_floors = !first_and_not_needed;
        rounds = codes[0].at_length[ROUNDS_AT];
        __syncthreads();
        if (threadIdx.x == 0) {
            codes[0].at_length[ROUNDS_AT] = 0;
        }
        __syncthreads();
    }
    if (used <= 1 && warp_id() == 0) {
        // A single symbol has a codeword of one bit.
        codes[0].at_length[lane_id()] = used == 1 && lane_id() == 1;
        if (lane_id() == 0) {
            codes[0].bits = shared.sums[used];
        }
    }
    if (used <= 1) {
        __syncthreads();
    }
    const long long limited = clock64();

    // Each warp holds the whole code, one length per lane.
    uint32_t bits;
    const uint32_t at_length = best_code(codes, needs_floors, bits), alphabet = last_symbol;
    uint16_t *starts = reinterpret_cast<uint16_t *>(trees);
    const auto put = [&](uint32_t symbol, uint32_t codeword, uint32_t place) {
        codewords[symbol] = codeword;
        if (codeword != 0) {
            symbols_by_codeword[place] = symbol;
        }
    };
    const CanonicalCode code = assign_codewords(shared, used, alphabet, at_length, warp_lengths, starts, put);
    if (warp_id() == 0) {
        summary[SUMMARY_FIRST + lane_id()] = code.first_code;
        summary[SUMMARY_ENTRY + lane_id()] = code.entry;
    }
    if (threadIdx.x == 0) {
        summary[SUMMARY_USED] = used;
        summary[SUMMARY_LONGEST] = code.longest;
        summary[SUMMARY_STATUS] = status;
        summary[SUMMARY_ROUNDS] = rounds;
        const long long times[] = {start, sorted, melded, limited, clock64()};
        for (uint32_t phase = 0; phase < 4; ++phase) {
            summary[SUMMARY_CYCLES + phase] = times[phase + 1] - times[phase];
        }
    }
    __syncthreads();
    const uint32_t bytes =
        write_bytes(shared, starts, code.runs, alphabet, streams.bytes + uint64_t(codebook) * MAX_CODEBOOK_BYTES);
    if (threadIdx.x == 0) {
        streams.summaries[2 * codebook] = bytes;
        streams.summaries[2 * codebook + 1] = code.longest;
    }
    finish_stream(streams, codebook, bytes, bits, counts);
}
