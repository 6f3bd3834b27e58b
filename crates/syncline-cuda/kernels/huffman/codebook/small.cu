// Codebooks of small alphabets, a block each: from counts to the canonical code and, for encoders, to the codebook's
// bytes and the choice between one codebook and several.
//
//  - Symbols that occur are sorted by (count, symbol): into buckets of alike counts, of which there are eight or
//  sixteen an octave; in its bucket each symbol counts those before it.
//  - A tree is a warp's, or that of four: rounds of melding as huffman/codebook/codebook.cu explains them. So the trees
//  of the length limit's step (3) are made side by side by the block's warps, with
//    nothing but the counts shared. Where blocks are few (ALL_TREES) and counts not of a sample, of which few trees
//    need to be limited, all are made at once, before it is known whether they are needed; where multiprocessors would
//    have nothing to do (SPREAD), or for the codebook of a stream that is the likeliest to need them (LAST_SPREAD),
//    several blocks sort the same counts and share the trees, which would be in each other's way.
//  - The limit, the bits of a code and its first codewords are found by a warp that has a length a lane.
//  - Codewords ascend by symbol within a length: ranks by ballots, added up over warps.
//
// THREADS     threads in a block, whole warps
// COUNT_BITS  of a count: 64, or 32 where all counts of a codebook come to less than 2^26
// ALL_TREES   whether every tree is made at once
// CLASSES     codebooks of a stream: 1, or 4 and a fifth for all classes together
// BYTES       whether codebooks are written as bytes too and chosen, and counts cleared
// SPREAD      blocks that make the trees of a codebook, of which the last to be done goes on; 1 unless BYTES
// LAST_SPREAD the same for the codebook of a stream's last class; no less
// BLOCKS      blocks that a multiprocessor should hold: what registers are dealt out for
// COOPERATIVE_BLOCKS is 1; and the constants of huffman/codebook/tree.cuh, with BYTES those of huffman/sample.cuh.
// SYMBOLS is 1,024 at most.
#include "device/sync.cuh"
#include "device/warp.cuh"
#include "huffman/codebook/steps.cuh"
#include "huffman/sample.cuh"

#if BYTES
// Makes counts of a sample frequencies, of which it returns the least; by the whole block. `counted` is 0.
__device__ inline uint32_t weigh(const Span &span, Count (&own)[OWN], uint32_t &counted) {
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
#endif

// What a code for an encoder comes to.
struct Streams {
    uint32_t *summaries; // of each book: bytes, longest codeword
    uint8_t *bytes;
    uint32_t *codebooks; // in use in each stream
    uint32_t *status;    // of each stream
    uint64_t *book_bits; // of all codewords of each book
    uint32_t *done;      // books of each stream that are made, 0 between launches
    Lengths *trees;      // of each book, what its blocks have made
    uint32_t *arrived;   // blocks of each book that are done with that, 0 between launches
    const Span *spans;   // which say what of a stream has been counted
};

// Blocks of a stream: those of the codebook of the last class first.
constexpr uint32_t LAST_CLASS = CLASSES - 1, BLOCKS_OF_STREAM = (BOOKS - 1) * SPREAD + LAST_SPREAD;
constexpr bool SHARES = SPREAD > 1 || LAST_SPREAD > 1;

// A block's codebook, and which of its `spread` blocks this is.
struct Place {
    uint32_t which, part, spread;
};
__device__ inline Place own_place() {
    const uint32_t first_book = blockIdx.x / BLOCKS_OF_STREAM * BOOKS, block = blockIdx.x % BLOCKS_OF_STREAM;
    if (block < LAST_SPREAD) {
        return {first_book + LAST_CLASS, block, LAST_SPREAD};
    }
    const uint32_t other = (block - LAST_SPREAD) / SPREAD;
    return {first_book + other + (other >= LAST_CLASS), (block - LAST_SPREAD) % SPREAD, SPREAD};
}

// Where blocks exchange the rounds of tree 0: there are no codewords of so many bits.
constexpr uint32_t ROUNDS_AT = WARP - 1;
static_assert(LIMIT < ROUNDS_AT, "a lane a length");

// What a codebook's blocks that are done come to, and beside it that step (3) is not due, which the first block tells.
constexpr uint32_t DONE_BLOCK = 1, NOT_DUE = 1u << 16;
// What counts of a stream come to that are made, and beside it the blocks that have read its counts.
constexpr uint32_t DONE_BOOK = 1, DONE_READING = 1u << 16;
static_assert(BLOCKS_OF_STREAM < 1u << 16, "both have room");

// Whether this block goes on with its codebook: the first where step (3) is not due, else the last that makes trees of
// it; `codes` then has those of all, which are to be made. This block has `made` some. By the whole block.
__device__ inline bool gather_trees(const Streams &streams, const Place &place, bool first_and_not_due,
                                    uint32_t to_make, uint32_t made, Lengths *codes) {
    const uint32_t which = place.which, last = DONE_BLOCK * (place.spread - 1);
    constexpr uint32_t WORDS = sizeof(Lengths) / 4;
    uint32_t *all = reinterpret_cast<uint32_t *>(streams.trees + uint64_t(which) * (FLOORS + 1));
    uint32_t *own = reinterpret_cast<uint32_t *>(codes);
    if (first_and_not_due) {
        // By a thread that the others do not wait for.
        if (threadIdx.x == THREADS - 1 && atomicAdd(&streams.arrived[which], DONE_BLOCK | NOT_DUE) == last) {
            streams.arrived[which] = 0;
        }
        return true;
    }
    for (uint32_t i = threadIdx.x; i < (FLOORS + 1) * WORDS; i += THREADS) {
        if (made >> i / WORDS & 1) {
            all[i] = own[i];
        }
    }
    __shared__ bool goes_on;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        const uint32_t before = atomicAdd(&streams.arrived[which], DONE_BLOCK);
        if (before % NOT_DUE == last) {
            streams.arrived[which] = 0;
        }
        goes_on = before == last;
        __threadfence();
    }
    __syncthreads();
    if (goes_on) {
        for (uint32_t i = threadIdx.x; i < (FLOORS + 1) * WORDS; i += THREADS) {
            if (to_make >> i / WORDS & 1) {
                own[i] = __ldcg(&all[i]);
            }
        }
        __syncthreads();
    }
    return goes_on;
}

// Takes over the stream's status and clears its counts, which all of its blocks have read; by `size` threads, of which
// this is number `rank`.
__device__ inline void clear_counts(const Streams &streams, uint32_t stream, Count *counts, uint32_t rank,
                                    uint32_t size) {
    Count *of_stream = counts + stream * uint64_t(STREAM_COUNTS);
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
__device__ inline void note_reading(const Streams &streams, uint32_t stream, Count *counts) {
    uint32_t before = 0;
    if (lane_id() == 0) {
        before = atomicAdd(&streams.done[stream], DONE_READING);
    }
    if (__shfl_sync(ALL_LANES, before, 0) / DONE_READING == BLOCKS_OF_STREAM - 1) {
        if (lane_id() == 0) {
            atomicAdd(&streams.done[stream], 0u - DONE_READING * BLOCKS_OF_STREAM);
        }
        clear_counts(streams, stream, counts, lane_id(), WARP);
    }
}

// By the block that ends the last codebook of a stream: CLASSES codebooks if that makes codewords and codebooks shorter
// than the one for all classes, else that one. It clears the counts, where each codebook has one block.
__device__ inline void finish_stream(const Streams &streams, uint32_t which, uint32_t bytes, uint64_t bits,
                                     Count *counts) {
    const uint32_t stream = which / BOOKS;
    if (BOOKS > 1) {
        __shared__ bool is_last;
        if (threadIdx.x == 0) {
            // A bit of the bytes is worth as much as one of a symbol's codeword.
            const uint32_t log2 = lot_log2(streams.spans[stream]);
            streams.book_bits[which] = bits + uint64_t(8 * bytes) * (log2 == 0 ? 1 : SAMPLE_WEIGHT >> log2);
            __threadfence();
            is_last = atomicAdd(&streams.done[stream], DONE_BOOK) % DONE_READING == DONE_BOOK * (BOOKS - 1);
        }
        __syncthreads();
        if (!is_last) {
            return;
        }
        if (threadIdx.x == 0) {
            __threadfence();
            uint64_t several = 0;
            for (uint32_t book = 0; book < CLASSES; ++book) {
                several += __ldcg(&streams.book_bits[stream * BOOKS + book]);
            }
            streams.codebooks[stream] = several < __ldcg(&streams.book_bits[stream * BOOKS + CLASSES]) ? CLASSES : 1;
            atomicAdd(&streams.done[stream], 0u - DONE_BOOK * BOOKS);
        }
    }
    if (!SHARES) {
        clear_counts(streams, stream, counts, threadIdx.x, THREADS);
    }
}

// `room` is what there is of dynamic shared memory for trees.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    codebook_small(Count *counts, uint32_t *codewords, uint16_t *symbols_by_codeword, uint32_t *summary, uint32_t room,
                   Streams streams) {
    extern __shared__ __align__(16) uint8_t memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    uint8_t *trees = memory + sizeof(Shared);
    __shared__ Lengths codes[FLOORS + 1];
    alignas(4) __shared__ uint16_t of_warp[WARPS][WARP_ROW]; // while symbols are sorted, numbers of buckets
    __shared__ uint32_t last_symbol, status, counted;
    __shared__ bool is_due;
    const Place place = own_place();
    const uint32_t which = place.which, part = place.part, spread = place.spread;
    codewords += uint64_t(which) * SYMBOLS;
    symbols_by_codeword += uint64_t(which) * SYMBOLS;
    summary += which * SUMMARY_WORDS;
    if (threadIdx.x == 0) {
        last_symbol = status = counted = 0;
        is_due = false;
    }
    if (threadIdx.x <= FLOORS) {
        codes[threadIdx.x].bits = ~Count(0); // of those that are not made
    }
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < ROOM / 4; i += THREADS) {
        reinterpret_cast<uint32_t *>(shared.lengths)[i] = 0;
    }
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < WARPS * WARP / 2; i += THREADS) {
        reinterpret_cast<uint32_t *>(of_warp)[i] = 0;
    }
    // What comes next then finds what was there before this one without waiting.
    grid_dependency_wait();
    launch_dependents();
    const long long start = clock64();
    Count own[OWN];
    read_counts(counts, which, own);
    __syncthreads();
#if BYTES
    const Span span = streams.spans[which / BOOKS];
    const bool is_sampled = lot_log2(span) > 0;
    const Count least = weigh(span, own, counted);
#else
    constexpr bool is_sampled = false;
    constexpr Count least = 1;
#endif
    uint32_t last = 0;
#pragma unroll
    for (uint32_t i = 0; i < OWN; ++i) {
        if (own[i] > LARGEST_COUNT) {
            own[i] = LARGEST_COUNT;
            status = STATUS_COUNT_CLAMPED;
        }
        last = own[i] != 0 ? OWN * threadIdx.x + i + 1 : last;
    }
    last = warp_reduce_max(last);
    if (lane_id() == 0) {
        atomicMax(&last_symbol, last);
    }
    const uint32_t used = sort_used(own, least, shared, of_warp[0], trees);
    sum_counts(shared, used);
    const long long sorted = clock64();
    long long melded = sorted;

    // The trees; number 0 is that of the counts as they are.
    bool due = false;
    uint32_t rounds = 0, to_make = 1, made = 0;
    if (SHARES && warp_id() == WARPS - 1) {
        note_reading(streams, which / BOOKS, counts);
    }
    if (used > 1) {
        const uint32_t bytes = tree_bytes(used), at_once = min_of(WARPS, room / bytes);
        const Count total = shared.sums[used];
        to_make = trees_to_make(shared.counts[0], total);
        // Tries are made before it is known whether they are due where they cost little: of a sample few trees need to
        // be limited.
        const bool all = spread > 1 || (ALL_TREES && !is_sampled);
        uint32_t left = all ? to_make : 1;
        if (spread > 1) {
            // The first block has the first tree, which may be all that is needed.
            const uint32_t rank = __popc(left & ((1u << lane_id()) - 1));
            left =
                __ballot_sync(ALL_LANES, (left >> lane_id() & 1) && (rank == 0 ? 0 : 1 + rank % (spread - 1)) == part);
        }
        made = left;
#pragma unroll 1
        while (left != 0) {
            const uint32_t count = min_of<uint32_t>(at_once, __popc(left));
            const TreeTeam team(count <= MOST_TEAMS ? TEAM_WARPS : 1);
            if (team.number < count) {
                const uint32_t number = set_bit(left, team.number);
                const Count floor = floor_of_tree(number, total);
                uint8_t *const own_memory = trees + team.number * bytes;
                const Melding at = meld_by_team<RoundsInTurn>(team, shared, used, floor, own_memory);
                if (team.rank() < WARP) {
                    const Tree tree = note_tree<true>(shared, at.used, floor, own_memory, codes[number]);
                    if (number == 0 && lane_id() == 0) {
                        melded = clock64();
                        rounds = at.rounds;
                        is_due = tries_are_due(tree, codes[0].bits);
                    }
                }
            }
            team.even_out();
            const uint32_t next = set_bit(left, count);
            left = next < 32 ? left >> next << next : 0;
            __syncthreads();
            if (!all && !due && is_due) {
                left = to_make - 1;
            }
            due = is_due;
        }
    }
    if (SHARES && spread > 1) {
        if (part == 0 && threadIdx.x == 0) {
            codes[0].at_length[ROUNDS_AT] = rounds;
        }
        __syncthreads();
        const bool first_and_not_due = part == 0 && !due;
        if (!gather_trees(streams, place, first_and_not_due, to_make, made, codes)) {
            return;
        }
        due = !first_and_not_due;
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
    Count bits;
    const uint32_t at_length = best_code(codes, due, bits), alphabet = last_symbol;
    uint16_t *starts = reinterpret_cast<uint16_t *>(trees);
    const auto put = [&](uint32_t symbol, uint32_t codeword, uint32_t place) {
        codewords[symbol] = codeword;
        if (codeword != 0) {
            symbols_by_codeword[place] = symbol;
        }
    };
    const NewCode code = assign_codewords(shared, used, alphabet, at_length, of_warp, starts, put);
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
#if BYTES
    __syncthreads();
    const uint32_t bytes =
        write_bytes(shared, starts, code.runs, alphabet, streams.bytes + uint64_t(which) * BOOK_BYTES);
    if (threadIdx.x == 0) {
        streams.summaries[2 * which] = bytes;
        streams.summaries[2 * which + 1] = code.longest;
    }
    finish_stream(streams, which, bytes, bits, counts);
#endif
}
