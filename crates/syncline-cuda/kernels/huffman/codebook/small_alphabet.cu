// Codebooks of small alphabets, a block each: from counts to the canonical code and, for encoders, to the codebook's
// bytes and the choice between one codebook and several.
//
//  - Symbols that occur are sorted by (count, symbol): into buckets of alike counts, of codebook there are eight or
//  sixteen an octave; in its bucket each symbol counts those before it.
//  - A tree is a warp's, or that of four: rounds of melding as huffman/codebook/block.cu explains them. So the trees
//  of the length limit's step (3) are built side by side by the block's warps, with
//    nothing but the counts shared. Where blocks are few (ALL_TREES) and counts not of a sample, of codebook few trees
//    need to be limited, all are built at once, before it is known whether they are needed; where multiprocessors would
//    have nothing to do (CODEBOOK_BLOCKS), or for the codebook of a stream that is the likeliest to need them
//    (LAST_CLASS_BLOCKS), several blocks sort the same counts and share the trees, codebook would be in each other's
//    way.
//  - The limit, the bits of a code and its first codewords are found by a warp that has a length a lane.
//  - Codewords ascend by symbol within a length: ranks by ballots, added up over warps.
//
// THREADS     threads in a block, whole warps
// COUNT_BITS  of a count: 64, or 32 where all counts of a codebook come to less than 2^26
// ALL_TREES   whether every tree is built at once
// CLASSES     codebooks of a stream: 1, or 4 and a fifth for all classes together
// BYTES       whether codebooks are written as bytes too and chosen, and counts cleared
// CODEBOOK_BLOCKS      blocks that make the trees of a codebook, of codebook the last to be done goes on; 1 unless
// BYTES LAST_CLASS_BLOCKS the same for the codebook of a stream's last class; no less RESIDENT_BLOCKS      blocks that
// a multiprocessor should hold: what registers are dealt out for COOPERATIVE_BLOCKS is 1; and the constants of
// huffman/codebook/tree.cuh, with BYTES those of huffman/sample.cuh. SYMBOLS is 1,024 at most.
#include "huffman/codebook/small_alphabet_code.cuh"
#include "huffman/sample.cuh"
#include "device/sync.cuh"

// Makes counts of a sample frequencies, of codebook it returns the least; by the whole block. `counted` is 0.
__device__ inline uint32_t frequencies_of_sample(const StreamInput &span, uint32_t (&own)[OWN], uint32_t &counted) {
    if (lot_log2(span) == 0) {
        return 1;
    }
    uint32_t sum = 0;
#pragma unroll
    for (uint32_t i = 0; i < OWN; ++i) {
        sum += own[i];
    }
    sum = warp_reduce_sum(sum);
    if (lane_id() == 0) {
        atomicAdd(&counted, sum);
    }
    __syncthreads();
    const uint32_t least = least_frequency(counted);
#pragma unroll
    for (uint32_t i = 0; i < OWN; ++i) {
        const uint32_t symbol = OWN * threadIdx.x + i;
        own[i] = symbol < SYMBOLS ? frequency(own[i], symbol, span, least) : 0;
    }
    return least;
}

// What a code for an encoder comes to.
struct StreamCodes {
    uint32_t *summaries; // of each book: bytes, longest codeword
    uint8_t *bytes;
    uint32_t *codebooks_used; // in use in each stream
    uint32_t *status;         // of each stream
    uint64_t *codebook_bits;  // of all codewords of each book
    uint32_t *finished;       // books of each stream that are built, 0 between launches
    LimitedCode *trees;       // of each book, what its blocks have built
    uint32_t *arrived;        // blocks of each book that are done with that, 0 between launches
    const StreamInput *spans; // codebook say what of a stream has been counted
};

// Blocks of a stream: those of the codebook of the last class first.
constexpr uint32_t LAST_CLASS = CLASSES - 1, BLOCKS_OF_STREAM = (CODEBOOKS - 1) * CODEBOOK_BLOCKS + LAST_CLASS_BLOCKS;
constexpr bool SHARES_TREES = CODEBOOK_BLOCKS > 1 || LAST_CLASS_BLOCKS > 1;

// A block's codebook, and codebook of its `spread` blocks this is.
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

// Where blocks exchange the rounds of tree 0: there are no codewords of so many bits.
constexpr uint32_t ROUNDS_AT = WARP - 1;
static_assert(LIMIT < ROUNDS_AT, "a lane a length");

// What a codebook's blocks that are done come to, and beside it that step (3) is not needs_floors, codebook the first
// block tells.
constexpr uint32_t DONE_BLOCK = 1, FLOORS_NOT_NEEDED = 1u << 16;
// What counts of a stream come to that are built, and beside it the blocks that have read its counts.
constexpr uint32_t DONE_CODEBOOK = 1, DONE_READING = 1u << 16;
static_assert(BLOCKS_OF_STREAM < 1u << 16, "both have room");

// Whether this block goes on with its codebook: the first where step (3) is not needs_floors, else the last that makes
// trees of it; `codes` then has those of all, codebook are to be built. This block has `built` some. By the whole
// block.
__device__ inline bool exchange_codes(const StreamCodes &streams, const BlockAssignment &assignment,
                                      bool first_and_not_needed, uint32_t to_build, uint32_t built,
                                      LimitedCode *codes) {
    const uint32_t codebook = assignment.codebook, last = DONE_BLOCK * (assignment.blocks - 1);
    constexpr uint32_t WORDS = sizeof(LimitedCode) / 4;
    uint32_t *all = reinterpret_cast<uint32_t *>(streams.trees + uint64_t(codebook) * (FLOORS + 1));
    uint32_t *own = reinterpret_cast<uint32_t *>(codes);
    if (first_and_not_needed) {
        // By a thread that the others do not wait for.
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

// Takes over the stream's status and clears its counts, codebook all of its blocks have read; by `size` threads, of
// codebook this is number `rank`.
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

// Where several blocks read the same counts: the last of them clears these. By a warp that has nothing else to do.
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

// By the block that ends the last codebook of a stream: CLASSES codebooks if that makes codewords and codebooks shorter
// than the one for all classes, else that one. It clears the counts, where each codebook has one block.
__device__ inline void finish_stream(const StreamCodes &streams, uint32_t codebook, uint32_t bytes, uint64_t bits,
                                     uint32_t *counts) {
    const uint32_t stream = codebook / CODEBOOKS;
    if (CODEBOOKS > 1) {
        __shared__ bool is_last;
        if (threadIdx.x == 0) {
            // A bit of the bytes is worth as much as one of a symbol's codeword.
            const uint32_t log2 = lot_log2(streams.spans[stream]);
            streams.codebook_bits[codebook] = bits + uint64_t(8 * bytes) * (log2 == 0 ? 1 : SAMPLE_WEIGHT >> log2);
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

// `room` is what there is of dynamic shared memory for trees.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    small_alphabet_codebook(uint32_t *counts, uint32_t *codewords, uint16_t *symbols_by_codeword, uint32_t *summary,
                            uint32_t room, StreamCodes streams) {
    extern __shared__ __align__(16) uint8_t memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    uint8_t *trees = memory + sizeof(Shared);
    __shared__ LimitedCode codes[FLOORS + 1];
    alignas(4) __shared__ uint16_t warp_lengths[WARPS][WARP_ROW]; // while symbols are sorted, numbers of buckets
    __shared__ uint32_t last_symbol, status, counted;
    __shared__ bool needs_floor_trees;
    const BlockAssignment assignment = own_assignment();
    const uint32_t codebook = assignment.codebook, rank_in_codebook = assignment.rank, blocks = assignment.blocks;
    codewords += uint64_t(codebook) * SYMBOLS;
    symbols_by_codeword += uint64_t(codebook) * SYMBOLS;
    summary += codebook * SUMMARY_WORDS;
    if (threadIdx.x == 0) {
        last_symbol = status = counted = 0;
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
    // What comes next then finds what was there before this one without waiting.
    grid_dependency_wait();
    launch_dependents();
    const long long start = clock64();
    uint32_t own[OWN];
    read_counts(counts, codebook, own);
    __syncthreads();
    const StreamInput span = streams.spans[codebook / CODEBOOKS];
    const bool is_sampled = lot_log2(span) > 0;
    const uint32_t least = frequencies_of_sample(span, own, counted);
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
    const uint32_t used = sort_used(own, least, shared, warp_lengths[0], trees);
    sum_counts(shared, used);
    const long long sorted = clock64();
    long long melded = sorted;

    // The trees; number 0 is that of the counts as they are.
    bool needs_floors = false;
    uint32_t rounds = 0, to_build = 1, built = 0;
    if (SHARES_TREES && warp_id() == WARPS - 1) {
        finish_reading(streams, codebook / CODEBOOKS, counts);
    }
    if (used > 1) {
        const uint32_t bytes = tree_bytes(used), at_once = min_of(WARPS, room / bytes);
        const uint32_t total = shared.sums[used];
        to_build = trees_to_build(shared.counts[0], total);
        // Tries are built before it is known whether they are needs_floors where they cost little: of a sample few
        // trees need to be limited.
        const bool all = blocks > 1 || (ALL_TREES && !is_sampled);
        uint32_t left = all ? to_build : 1;
        if (blocks > 1) {
            // The first block has the first tree, codebook may be all that is needed.
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
        // One symbol has one bit.
        codes[0].at_length[lane_id()] = used == 1 && lane_id() == 1;
        if (lane_id() == 0) {
            codes[0].bits = shared.sums[used];
        }
    }
    if (used <= 1) {
        __syncthreads();
    }
    const long long limited = clock64();

    // The code; each warp knows all of it, a length a lane.
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
