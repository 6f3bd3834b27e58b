// Codebooks of small alphabets, a block each: from counts to the canonical code and, for encoders, to the codebook's bytes and the choice between one codebook and several.
//
//  - Symbols that occur are sorted by (count, symbol): into buckets of alike counts, of which there are eight or sixteen an octave; in its bucket each symbol counts those before it.
//  - A tree is a warp's: rounds of melding as huffman_codebook.cu explains them. So the trees of the length limit's step (3) are made side by side by the block's warps, with
//    nothing but the counts shared. Where blocks are few (ALL_TREES) all are made at once, before it is known whether they are needed; where they are so few that
//    multiprocessors would have nothing to do (SPREAD), several blocks sort the same counts and share the trees, which would be in each other's way.
//  - The limit, the bits of a code and its first codewords are found by a warp that has a length a lane.
//  - Codewords ascend by symbol within a length: ranks by ballots, added up over warps.
//
// THREADS     threads in a block, whole warps
// COUNT_BITS  of a count: 64, or 32 where all counts of a codebook come to less than 2^26
// ALL_TREES   whether every tree is made at once
// CLASSES     codebooks of a stream: 1, or 4 and a fifth for all classes together
// BYTES       whether codebooks are written as bytes too and chosen, and counts cleared
// SPREAD      blocks that make the trees of a codebook, of which the last to be done goes on; 1 unless ALL_TREES and BYTES
// BLOCKS      blocks that a multiprocessor should hold: what registers are dealt out for
// TEAM is 1; and the constants of huffman_tree.cuh. SYMBOLS is 1,024 at most.
#include "huffman_codebook_small.cuh"

// A code: how many codewords each length has, a lane a length, and the bits of all.
struct Lengths {
    Count bits;
    uint16_t at_length[WARP];
};

struct RaisedWeights {
    const Count *counts;
    Count *trees, floor;

    __device__ inline Count leaf(uint32_t i) const { return max_of(counts[i], floor); }
    __device__ inline Count tree(uint32_t i) const { return trees[i]; }
    __device__ inline void set_tree(uint32_t i, Count weight) const { trees[i] = weight; }
};

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
};

// Where blocks exchange the rounds of tree 0: there are no codewords of so many bits.
constexpr uint32_t ROUNDS_AT = WARP - 1;
static_assert(LIMIT < ROUNDS_AT, "a lane a length");

// What a codebook's blocks that are done come to, and beside it that step (3) is not due, which the first block tells.
constexpr uint32_t DONE_BLOCK = 1, NOT_DUE = 1u << 16;
// What counts of a stream come to that are made, and beside it the blocks that have read its counts.
constexpr uint32_t DONE_BOOK = 1, DONE_READING = 1u << 16;
static_assert(BOOKS * SPREAD < 1u << 16, "both have room");

// Whether this block goes on with the codebook `which`: the first where step (3) is not due, else the last that makes trees of it; `codes` then has those of all. By the whole block.
__device__ inline bool gather_trees(const Streams &streams, uint32_t which, bool first_and_not_due, Lengths *codes) {
    constexpr uint32_t WORDS = sizeof(Lengths) / 4;
    uint32_t *all = reinterpret_cast<uint32_t *>(streams.trees + uint64_t(which) * (FLOORS + 1));
    uint32_t *own = reinterpret_cast<uint32_t *>(codes);
    if (first_and_not_due) {
        // By a thread that the others do not wait for.
        if (threadIdx.x == THREADS - 1 && atomicAdd(&streams.arrived[which], DONE_BLOCK | NOT_DUE) == DONE_BLOCK * (SPREAD - 1)) {
            streams.arrived[which] = 0;
        }
        return true;
    }
    for (uint32_t i = threadIdx.x; i < (FLOORS + 1) * WORDS; i += THREADS) {
        if (i / WORDS % SPREAD == blockIdx.x % SPREAD) {
            all[i] = own[i];
        }
    }
    __shared__ bool goes_on;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        const uint32_t before = atomicAdd(&streams.arrived[which], DONE_BLOCK);
        if (before % NOT_DUE == DONE_BLOCK * (SPREAD - 1)) {
            streams.arrived[which] = 0;
        }
        goes_on = before == DONE_BLOCK * (SPREAD - 1);
        __threadfence();
    }
    __syncthreads();
    if (goes_on) {
        for (uint32_t i = threadIdx.x; i < (FLOORS + 1) * WORDS; i += THREADS) {
            own[i] = __ldcg(&all[i]);
        }
        __syncthreads();
    }
    return goes_on;
}

// Takes over the stream's status and clears its counts, which all of its blocks have read; by `size` threads, of which this is number `rank`.
__device__ inline void clear_counts(const Streams &streams, uint32_t stream, Count *counts, uint32_t rank, uint32_t size) {
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
    constexpr uint32_t BLOCKS_OF_STREAM = BOOKS * SPREAD;
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

// Makes the tree of the counts raised to `floor`, limits its depth, and notes the code; by a warp. `memory` is the tree's. Returns whether there was something to limit.
// The bits without a limit go to `unlimited`.
__device__ inline bool make_tree(const Shared &shared, uint32_t used, Count floor, uint8_t *memory, Lengths &to, Count &unlimited, uint32_t &rounds) {
    Count *trees = reinterpret_cast<Count *>(memory);
    uint16_t *fronts = reinterpret_cast<uint16_t *>(trees + used);
    RaisedWeights weights{shared.counts, trees, floor};
    Melding at{used, 0, 0, 0, 0};
    meld_in_warp<Count, false>(at, weights, fronts);
    rounds = at.rounds;
    // Each count is in as many trees as it is deep.
    unlimited = 0;
#pragma unroll 1
    for (uint32_t i = lane_id(); i + 1 < used; i += WARP) {
        unlimited += trees[i];
    }
    unlimited = warp_sum(unlimited);
    uint32_t over;
    const uint32_t at_length = limited_lengths([&](uint32_t tree) { return uint32_t(fronts[tree]); }, used, LIMIT, over);
    const Count bits = over > 0 || floor > 0 ? coded_bits(shared.sums, used, LIMIT, at_length) : unlimited;
    to.at_length[lane_id()] = at_length;
    if (lane_id() == 0) {
        to.bits = bits;
    }
    return over > 0;
}

// The code with the fewest bits, the earlier of equals; by a warp, a lane a length.
__device__ inline uint32_t best_code(const Lengths *codes, bool due, Count &bits) {
    Count fewest = lane_id() == 0 || (due && lane_id() <= FLOORS) ? codes[min_of(lane_id(), FLOORS + 0u)].bits : ~Count(0);
    uint32_t best = lane_id();
#pragma unroll
    for (uint32_t distance = WARP / 2; distance > 0; distance /= 2) {
        const Count other_bits = __shfl_xor_sync(ALL_LANES, fewest, distance);
        const uint32_t other = __shfl_xor_sync(ALL_LANES, best, distance);
        if (other_bits < fewest || (other_bits == fewest && other < best)) {
            fewest = other_bits;
            best = other;
        }
    }
    bits = fewest;
    return codes[best].at_length[lane_id()];
}

// The lanes that have the same length as this one, and those that have the lane's number as length.
__device__ inline uint2 lanes_of_length(uint32_t length) {
    uint32_t same = ALL_LANES, named = ALL_LANES;
#pragma unroll
    for (uint32_t bit = 0; bit < 5; ++bit) {
        const uint32_t set = __ballot_sync(ALL_LANES, length >> bit & 1);
        same &= length >> bit & 1 ? set : ~set;
        named &= lane_id() >> bit & 1 ? set : ~set;
    }
    return make_uint2(same, named);
}

__device__ inline uint32_t run_bytes(uint32_t run) {
    return run < LONG_RUN ? 1 : run - LONG_RUN < 1u << 7 ? 2 : 3;
}

// Writes the codebook's bytes (docs/FORMAT.md, "Codebook"); returns how many. `starts` are those of the runs of equal lengths among the first `alphabet` symbols.
__device__ inline uint32_t write_bytes(const Shared &shared, const uint16_t *starts, uint32_t runs, uint32_t alphabet, uint8_t *bytes) {
    __shared__ uint32_t warp_sums[WARPS];
    uint32_t written = 4, total;
#pragma unroll 1
    for (uint32_t first = 0; first < runs; first += THREADS) {
        const uint32_t i = first + threadIdx.x;
        uint32_t start = 0, run = 0;
        if (i < runs) {
            start = starts[i];
            run = (i + 1 < runs ? starts[i + 1] : alphabet) - start;
        }
        uint32_t at = written + block_scan<THREADS, uint32_t>(i < runs ? run_bytes(run) : 0, warp_sums, total);
        if (i < runs) {
            bytes[at] = shared.lengths[start] | (run < LONG_RUN ? run - 1 : LONG_RUN - 1) << 5;
            if (run >= LONG_RUN) {
                uint32_t number = run - LONG_RUN;
                for (; number >= 0x80; number >>= 7) {
                    bytes[++at] = number | 0x80;
                }
                bytes[++at] = number;
            }
        }
        written += total;
    }
    if (threadIdx.x < 4) {
        bytes[threadIdx.x] = alphabet >> 8 * threadIdx.x;
    }
    return written;
}

// By the block that ends the last codebook of a stream: CLASSES codebooks if that makes codewords and codebooks shorter than the one for all classes, else that one.
// It clears the counts, where each codebook has one block.
__device__ inline void finish_stream(const Streams &streams, uint32_t which, uint32_t bytes, uint64_t bits, Count *counts) {
    const uint32_t stream = which / BOOKS;
    if (BOOKS > 1) {
        __shared__ bool is_last;
        if (threadIdx.x == 0) {
            streams.book_bits[which] = bits + 8 * bytes;
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
    if (SPREAD == 1) {
        clear_counts(streams, stream, counts, threadIdx.x, THREADS);
    }
}

// `room` is what there is of dynamic shared memory for trees.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    codebook_small(Count *counts, uint32_t *codewords, uint16_t *symbols_by_codeword, uint32_t *summary, uint32_t room, Streams streams) {
    extern __shared__ __align__(16) uint8_t memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    uint8_t *trees = memory + sizeof(Shared);
    __shared__ Lengths codes[FLOORS + 1];
    alignas(4) __shared__ uint16_t of_warp[WARPS][WARP]; // while symbols are sorted, numbers of buckets
    __shared__ uint32_t last_symbol, status;
    __shared__ bool is_due;
    const uint32_t which = blockIdx.x / SPREAD, part = blockIdx.x % SPREAD;
    codewords += uint64_t(which) * SYMBOLS;
    symbols_by_codeword += uint64_t(which) * SYMBOLS;
    summary += which * SUMMARY_WORDS;
    if (threadIdx.x == 0) {
        last_symbol = status = 0;
        is_due = false;
    }
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < ROOM / 4; i += THREADS) {
        reinterpret_cast<uint32_t *>(shared.lengths)[i] = 0;
    }
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < WARPS * WARP / 2; i += THREADS) {
        reinterpret_cast<uint32_t *>(of_warp)[i] = 0;
    }
    wait_for_previous();
    const long long start = clock64();
    Count own[OWN];
    read_counts(counts, which, own);
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
    const uint32_t used = sort_used(own, shared, of_warp[0], trees);
    sum_counts(shared, used);
    const long long sorted = clock64();
    long long melded = sorted;

    // The trees; number 0 is that of the counts as they are.
    bool due = false;
    uint32_t rounds = 0;
    if (SPREAD > 1 && warp_id() == WARPS - 1) {
        note_reading(streams, which / BOOKS, counts);
    }
    if (used > 1) {
        const uint32_t bytes = tree_bytes(used), at_once = min_of(WARPS, room / bytes);
        const Count total = shared.sums[used];
        auto make = [&](uint32_t number) {
            Count unlimited;
            uint32_t own_rounds;
            const Count floor = number == 0 ? 0 : total * (4 + (number - 1) % 4) >> (LIMIT + 4 - (number - 1) / 4);
            const bool limited = make_tree(shared, used, floor, trees + warp_id() * bytes, codes[number], unlimited, own_rounds);
            if (number == 0 && lane_id() == 0) {
                melded = clock64();
                rounds = own_rounds;
                is_due = limited && codes[0].bits > unlimited + unlimited / 2048;
            }
        };
        if (warp_id() < at_once) {
#pragma unroll 1
            for (uint32_t number = part + warp_id() * SPREAD; number <= (ALL_TREES ? FLOORS : 0); number += at_once * SPREAD) {
                make(number);
            }
        }
        __syncthreads();
        due = is_due;
        if (!ALL_TREES && due) {
            if (warp_id() < at_once) {
                for (uint32_t number = 1 + warp_id(); number <= FLOORS; number += at_once) {
                    make(number);
                }
            }
            __syncthreads();
        }
    }
    if (SPREAD > 1) {
        if (part == 0 && threadIdx.x == 0) {
            codes[0].at_length[ROUNDS_AT] = rounds;
        }
        __syncthreads();
        const bool first_and_not_due = part == 0 && !due;
        if (!gather_trees(streams, which, first_and_not_due, codes)) {
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
    const uint32_t at_length = best_code(codes, due, bits);
    const uint32_t through = warp_scan_inclusive(at_length), entry = through - at_length;
    const uint32_t longest = 31 - __clz(__ballot_sync(ALL_LANES, at_length > 0) | 1);
    uint32_t units = lane_id() < WARP - 1 ? at_length << (WARP - 1 - lane_id()) : 0;
    // In units of 2^-31: codewords of a length start where shorter ones end.
    const uint32_t first_code = (warp_scan_inclusive(units) - units) >> (WARP - 1 - lane_id());
#pragma unroll 1
    for (uint32_t first = warp_id() * WARP; first < used; first += THREADS) {
        // Longest codewords to the rarest symbols.
        const uint32_t i = first + lane_id(), more_common = used - 1 - min_of(i, used - 1);
        uint32_t length = 0;
#pragma unroll
        for (uint32_t step = WARP / 2; step > 0; step /= 2) {
            length += __shfl_sync(ALL_LANES, through, length + step - 1) <= more_common ? step : 0;
        }
        if (i < used) {
            shared.lengths[shared.order[i]] = length;
        }
    }
    __syncthreads();
    const uint32_t alphabet = last_symbol;
    uint32_t lengths[STRETCHES], ranks[STRETCHES], run_starts[STRETCHES], seen = 0;
#pragma unroll
    for (uint32_t i = 0; i < STRETCHES; ++i) {
        const uint32_t symbol = (warp_id() * STRETCHES + i) * WARP + lane_id();
        lengths[i] = symbol < ROOM ? shared.lengths[symbol] : 0;
        const uint2 lanes = lanes_of_length(lengths[i]);
        const bool starts = symbol < alphabet && (symbol == 0 || shared.lengths[symbol - 1] != lengths[i]);
        run_starts[i] = BYTES ? __ballot_sync(ALL_LANES, starts) : 0;
        ranks[i] = __shfl_sync(ALL_LANES, seen, lengths[i]) + __popc(lanes.x & ((1u << lane_id()) - 1));
        // There is no length 0: its place counts starts of runs.
        seen += __popc(lane_id() == 0 ? run_starts[i] : lanes.y);
    }
    of_warp[warp_id()][lane_id()] = seen;
    __syncthreads();
    uint32_t before = 0, runs = 0;
#pragma unroll 2
    for (uint32_t warp = 0; warp < WARPS; ++warp) {
        const uint32_t count = of_warp[warp][lane_id()];
        before += warp < warp_id() ? count : 0;
        runs += count;
    }
    runs = __shfl_sync(ALL_LANES, runs, 0);
    uint32_t run = __shfl_sync(ALL_LANES, before, 0);
    uint16_t *starts = reinterpret_cast<uint16_t *>(trees);
#pragma unroll
    for (uint32_t i = 0; i < STRETCHES; ++i) {
        const uint32_t symbol = (warp_id() * STRETCHES + i) * WARP + lane_id();
        const uint32_t rank = __shfl_sync(ALL_LANES, before, lengths[i]) + ranks[i];
        const uint32_t code = __shfl_sync(ALL_LANES, first_code, lengths[i]) + rank, place = __shfl_sync(ALL_LANES, entry, lengths[i]) + rank;
        if (symbol < SYMBOLS) {
            codewords[symbol] = lengths[i] == 0 ? 0 : lengths[i] << 27 | code;
            if (lengths[i] != 0) {
                symbols_by_codeword[place] = symbol;
            }
        }
        if (BYTES) {
            if (run_starts[i] >> lane_id() & 1) {
                starts[run + __popc(run_starts[i] & ((1u << lane_id()) - 1))] = symbol;
            }
            run += __popc(run_starts[i]);
        }
    }
    if (warp_id() == 0) {
        summary[SUMMARY_FIRST + lane_id()] = first_code;
        summary[SUMMARY_ENTRY + lane_id()] = entry;
    }
    if (threadIdx.x == 0) {
        summary[SUMMARY_USED] = used;
        summary[SUMMARY_LONGEST] = longest;
        summary[SUMMARY_STATUS] = status;
        summary[SUMMARY_ROUNDS] = rounds;
        const long long times[] = {start, sorted, melded, limited, clock64()};
        for (uint32_t phase = 0; phase < 4; ++phase) {
            summary[SUMMARY_CYCLES + phase] = times[phase + 1] - times[phase];
        }
    }
#if BYTES
    __syncthreads();
    const uint32_t bytes = write_bytes(shared, starts, runs, alphabet, streams.bytes + uint64_t(which) * BOOK_BYTES);
    if (threadIdx.x == 0) {
        streams.summaries[2 * which] = bytes;
        streams.summaries[2 * which + 1] = longest;
    }
    finish_stream(streams, which, bytes, bits, counts);
#endif
}
