// Codebooks of small alphabets, a block each: from counts to the canonical code and, for encoders, to the codebook's bytes and the choice between one codebook and several.
//
//  - Symbols that occur are sorted by (count, symbol): ranks within runs of 32, then runs merged in pairs, each symbol by searching its place in the other run.
//  - A tree is a warp's: rounds of melding as huffman_codebook.cu explains them. So the trees of the length limit's step (3) are made side by side by the block's warps, with
//    nothing but the counts shared. Where blocks are few (ALL_TREES) all are made at once, before it is known whether they are needed.
//  - The limit, the bits of a code and its first codewords are found by a warp that has a length a lane.
//  - Codewords ascend by symbol within a length: ranks by ballots, added up over warps.
//
// THREADS     threads in a block, whole warps
// COUNT_BITS  of a count: 64, or 32 where all counts of a codebook come to less than 2^26
// ALL_TREES   whether every tree is made at once
// CLASSES     codebooks of a stream: 1, or 4 and a fifth for all classes together
// BYTES       whether codebooks are written as bytes too and chosen, and counts cleared
// BLOCKS      blocks that a multiprocessor should hold: what registers are dealt out for
// TEAM is 1; and the constants of huffman_tree.cuh. SYMBOLS is 1,024 at most.
#include "huffman_code.cuh"
#include "huffman_tree.cuh"
#include "scan.cuh"

#if COUNT_BITS == 32
typedef uint32_t Count;
#else
typedef uint64_t Count;
#endif
// With the symbol's place in its run they fit, and no sum overflows.
constexpr Count LARGEST_COUNT = COUNT_BITS == 32 ? Count(1) << 26 : (Count(1) << 43) - 1;
constexpr uint32_t STATUS_COUNT_CLAMPED = 1;
constexpr uint32_t BOOKS = CLASSES == 1 ? 1 : CLASSES + 1;
// Counts of a stream; an encoder's are followed by what is wrong with the stream.
constexpr uint32_t STREAM_COUNTS = CLASSES * SYMBOLS + (BYTES ? 4 : 0);
// Symbols that a thread has, one after another.
constexpr uint32_t OWN = (SYMBOLS + THREADS - 1) / THREADS;
constexpr uint32_t ROOM = (SYMBOLS + WARP - 1) / WARP * WARP;
// Stretches of 32 symbols that a warp has.
constexpr uint32_t STRETCHES = (ROOM / WARP + WARPS - 1) / WARPS;
constexpr uint32_t LIMIT = SYMBOLS > LARGE ? MAX_LENGTH_LARGE : MAX_LENGTH;
[[maybe_unused]] constexpr uint32_t BOOK_BYTES = SYMBOLS + 4;
// Runs of at least this many equal lengths have their length coded as a number of its own.
constexpr uint32_t LONG_RUN = 8;
static_assert(TEAM == 1 && SYMBOLS <= 1024 && THREADS % WARP == 0, "a block is on its own");

// Dynamic shared memory, but for the trees.
struct Shared {
    Count counts[ROOM];   // of the symbols that occur, ascending
    Count sums[ROOM + 4]; // of the 0, 1, 2, ... rarest
    uint16_t order[ROOM]; // the symbols
    alignas(4) uint8_t lengths[ROOM]; // of codewords, by symbol
};
// Memory of a tree: weights of internal trees, and their fronts.
__device__ inline uint32_t tree_bytes(uint32_t used) { return used * (sizeof(Count) + 2) + 15 & ~15u; }
// Symbols on their way, before there are any trees.
constexpr uint32_t SORT_BYTES = ROOM * (sizeof(Count) + 2);
static_assert(sizeof(Shared) % 16 == 0, "trees are aligned");
static_assert(sizeof(Shared) == SHARED_BYTES && SORT_BYTES <= LEAST_TREE_BYTES && ROOM * 2 <= LEAST_TREE_BYTES, "the host gives enough memory");

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
};

// The counts of the block's codebook that its thread has, symbols OWN * threadIdx.x and on.
__device__ inline void read_counts(const Count *counts, Count (&own)[OWN]) {
#pragma unroll
    for (uint32_t i = 0; i < OWN; ++i) {
        const uint32_t symbol = OWN * threadIdx.x + i;
        own[i] = 0;
        if (symbol < SYMBOLS) {
            const Count *of_stream = counts + blockIdx.x / BOOKS * uint64_t(STREAM_COUNTS) + symbol;
            const uint32_t book = blockIdx.x % BOOKS;
            if (book < CLASSES) {
                own[i] = of_stream[book * SYMBOLS];
            } else {
#pragma unroll
                for (uint32_t other = 0; other < CLASSES; ++other) {
                    own[i] += of_stream[other * SYMBOLS];
                }
            }
        }
    }
}

// Sorts the symbols that occur by count, then symbol; returns how many there are. By the whole block.
__device__ inline uint32_t sort_used(const Count (&own)[OWN], Shared &shared, uint8_t *memory) {
    __shared__ uint32_t warp_sums[WARPS];
    Count *other_counts = reinterpret_cast<Count *>(memory);
    uint16_t *other_order = reinterpret_cast<uint16_t *>(other_counts + ROOM);
    uint32_t here = 0, used;
#pragma unroll
    for (uint32_t i = 0; i < OWN; ++i) {
        here += own[i] != 0;
    }
    uint32_t at = block_scan<THREADS, uint32_t>(here, warp_sums, used);
    uint32_t merges = 0;
    while (WARP << merges < used) {
        ++merges;
    }
    // So that the last pass ends where the sorted symbols are to be.
    Count *from = merges % 2 == 0 ? other_counts : shared.counts, *to = merges % 2 == 0 ? shared.counts : other_counts;
    uint16_t *from_order = merges % 2 == 0 ? other_order : shared.order, *to_order = merges % 2 == 0 ? shared.order : other_order;
#pragma unroll
    for (uint32_t i = 0; i < OWN; ++i) {
        if (own[i] != 0) {
            from[at] = own[i];
            from_order[at++] = OWN * threadIdx.x + i;
        }
    }
    __syncthreads();
    // Runs of 32: how many are before each, the place telling equal ones apart.
#pragma unroll 1
    for (uint32_t first = warp_id() * WARP; first < used; first += THREADS) {
        const uint32_t i = first + lane_id();
        const Count key = i < used ? from[i] * WARP + lane_id() : ~Count(0);
        uint32_t rank = 0;
#pragma unroll 4
        for (uint32_t lane = 0; lane < WARP; ++lane) {
            rank += __shfl_sync(ALL_LANES, key, lane) < key;
        }
        if (i < used) {
            to[first + rank] = key / WARP;
            to_order[first + rank] = from_order[i];
        }
    }
#pragma unroll 1
    for (uint32_t merge = 0; merge < merges; ++merge) {
        const uint32_t run = WARP << merge;
        __syncthreads();
        Count *const other_counts = from;
        from = to;
        to = other_counts;
        uint16_t *const other_order = from_order;
        from_order = to_order;
        to_order = other_order;
        // All of a thread's searches in step, so that they wait together.
        Count sought[OWN];
        uint32_t sibling[OWN], length[OWN], before[OWN];
#pragma unroll
        for (uint32_t i = 0; i < OWN; ++i) {
            const uint32_t item = i * THREADS + threadIdx.x, own_run = item / WARP >> merge;
            // Of equal counts those of the first run come first.
            sought[i] = item < used ? from[item] + (own_run & 1) : 0;
            sibling[i] = (own_run ^ 1) * run;
            length[i] = item < used && sibling[i] < used ? min_of(run, used - sibling[i]) : 0;
            before[i] = 0;
        }
#pragma unroll 1
        for (uint32_t step = run; step > 0; step /= 2) {
#pragma unroll
            for (uint32_t i = 0; i < OWN; ++i) {
                const uint32_t probe = before[i] + step;
                if (probe <= length[i] && from[sibling[i] + probe - 1] < sought[i]) {
                    before[i] = probe;
                }
            }
        }
#pragma unroll
        for (uint32_t i = 0; i < OWN; ++i) {
            const uint32_t item = i * THREADS + threadIdx.x, own_run = item / WARP >> merge;
            if (item < used) {
                const uint32_t place = item - (own_run & 1) * run + before[i];
                to[place] = sought[i] - (own_run & 1);
                to_order[place] = from_order[item];
            }
        }
    }
    __syncthreads();
    return used;
}

// Sums of the counts of the rarest symbols; by the whole block.
__device__ inline void sum_counts(Shared &shared, uint32_t used) {
    __shared__ Count warp_sums[WARPS];
    Count own[OWN], here = 0, total;
#pragma unroll
    for (uint32_t i = 0; i < OWN; ++i) {
        const uint32_t item = OWN * threadIdx.x + i;
        own[i] = item < used ? shared.counts[item] : 0;
        here += own[i];
    }
    Count sum = block_scan<THREADS, Count>(here, warp_sums, total);
#pragma unroll
    for (uint32_t i = 0; i < OWN; ++i) {
        const uint32_t item = OWN * threadIdx.x + i;
        if (item < used) {
            shared.sums[item] = sum;
        }
        sum += own[i];
    }
    if (threadIdx.x == 0) {
        shared.sums[used] = total;
    }
    __syncthreads();
}

// Bits of all codewords, from the number of each length, of LIMIT bits at most; by a warp, a lane a length.
__device__ inline Count coded_bits(const Shared &shared, uint32_t used, uint32_t at_length) {
    // Bits are the sum over lengths of the counts of symbols that have as many bits or more, and those are the rarest.
    const uint32_t shorter = warp_scan_inclusive(at_length) - at_length;
    return warp_sum(lane_id() > 0 && lane_id() <= LIMIT ? shared.sums[used - shorter] : Count(0));
}

// Steps (1) and (2) of the limit, as limit_lengths in length_limit.cuh has them; by a warp, a lane a length. `over` leaves are deeper than the limit.
__device__ inline uint32_t limit_in_warp(uint32_t at_length, uint32_t over) {
    at_length = lane_id() <= LIMIT ? at_length + (lane_id() == LIMIT ? over : 0) : 0;
    // In units of 2^-LIMIT.
    uint32_t excess = warp_sum(lane_id() <= LIMIT ? at_length << (LIMIT - lane_id()) : 0) - (1u << LIMIT);
#pragma unroll 1
    for (uint32_t depth = LIMIT - 1; excess > 0;) {
        // The deepest level from here up that has a leaf.
        const uint32_t levels = __ballot_sync(ALL_LANES, at_length > 0 && lane_id() > 0 && lane_id() <= depth);
        if (levels == 0) {
            break;
        }
        depth = 31 - __clz(levels);
        const uint32_t steps = (1u << (LIMIT - depth)) - 1, have = __shfl_sync(ALL_LANES, at_length, depth);
        if (excess >= steps) {
            const uint32_t whole = min_of(have, excess / steps);
            at_length += lane_id() == LIMIT ? whole : lane_id() == depth ? 0 - whole : 0;
            excess -= whole * steps;
        } else {
            at_length += lane_id() == depth ? ~0u : lane_id() == depth + 1 ? 2 : lane_id() == LIMIT ? ~0u : 0;
            ++depth;
            --excess;
        }
    }
    return at_length;
}

// Makes the tree of the counts raised to `floor`, limits its depth, and notes the code; by a warp. `memory` is the tree's. Returns whether there was something to limit.
// The bits without a limit go to `unlimited`.
__device__ inline bool make_tree(const Shared &shared, uint32_t used, Count floor, uint8_t *memory, Lengths &to, Count &unlimited, uint32_t &rounds) {
    Count *trees = reinterpret_cast<Count *>(memory);
    uint16_t *fronts = reinterpret_cast<uint16_t *>(trees + used);
    RaisedWeights weights{shared.counts, trees, floor};
    Melding at{used, 0, 0, 0, 0};
    meld_in_warp(at, weights, fronts);
    rounds = at.rounds;
    // Each count is in as many trees as it is deep.
    unlimited = 0;
#pragma unroll 1
    for (uint32_t i = lane_id(); i + 1 < used; i += WARP) {
        unlimited += trees[i];
    }
    unlimited = warp_sum(unlimited);
    // Depths never rise in the order of trees' making, so the trees of a level stand together.
    uint32_t at_length = 0, over = 0, depth = 0;
#pragma unroll 1
    for (uint32_t first = used - 2, level = 1; level > 0 && depth + 1 < DEPTHS;) {
        const uint32_t front = fronts[first], below = first - front, leaves = 2 * level - below;
        ++depth;
        at_length = lane_id() == depth ? leaves : at_length;
        over += depth > LIMIT ? leaves : 0;
        first = front;
        level = below;
    }
    if (over > 0) {
        at_length = limit_in_warp(at_length, over);
    }
    const Count bits = over > 0 || floor > 0 ? coded_bits(shared, used, at_length) : unlimited;
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
// Takes over the stream's status and clears its counts, which all of its blocks have read.
__device__ inline void finish_stream(const Streams &streams, uint32_t bytes, uint64_t bits, Count *counts) {
    const uint32_t stream = blockIdx.x / BOOKS;
    if (BOOKS > 1) {
        __shared__ bool is_last;
        if (threadIdx.x == 0) {
            streams.book_bits[blockIdx.x] = bits + 8 * bytes;
            __threadfence();
            is_last = atomicAdd(&streams.done[stream], 1u) == BOOKS - 1;
        }
        __syncthreads();
        if (!is_last) {
            return;
        }
    }
    Count *of_stream = counts + stream * uint64_t(STREAM_COUNTS);
    if (threadIdx.x == 0) {
        if (BOOKS > 1) {
            __threadfence();
            uint64_t several = 0;
            for (uint32_t book = 0; book < CLASSES; ++book) {
                several += __ldcg(&streams.book_bits[stream * BOOKS + book]);
            }
            streams.codebooks[stream] = several < __ldcg(&streams.book_bits[stream * BOOKS + CLASSES]) ? CLASSES : 1;
            streams.done[stream] = 0;
        }
        streams.status[stream] = of_stream[CLASSES * SYMBOLS];
        of_stream[CLASSES * SYMBOLS] = 0;
    }
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < CLASSES * SYMBOLS; i += THREADS) {
        of_stream[i] = 0;
    }
}

// `room` is what there is of dynamic shared memory for trees.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    codebook_small(Count *counts, uint32_t *codewords, uint16_t *symbols_by_codeword, uint32_t *summary, uint32_t room, Streams streams) {
    extern __shared__ __align__(16) uint8_t memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    uint8_t *trees = memory + sizeof(Shared);
    __shared__ Lengths codes[FLOORS + 1];
    __shared__ uint16_t of_warp[WARPS][WARP];
    __shared__ uint32_t last_symbol, status;
    __shared__ bool is_due;
    codewords += uint64_t(blockIdx.x) * SYMBOLS;
    symbols_by_codeword += uint64_t(blockIdx.x) * SYMBOLS;
    summary += blockIdx.x * SUMMARY_WORDS;
    const long long start = clock64();
    if (threadIdx.x == 0) {
        last_symbol = status = 0;
    }
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < ROOM / 4; i += THREADS) {
        reinterpret_cast<uint32_t *>(shared.lengths)[i] = 0;
    }
    wait_for_previous();
    Count own[OWN];
    read_counts(counts, own);
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
    const uint32_t used = sort_used(own, shared, trees);
    sum_counts(shared, used);
    const long long sorted = clock64();
    long long melded = sorted;

    // The trees; number 0 is that of the counts as they are.
    bool due = false;
    uint32_t rounds = 0;
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
            for (uint32_t number = warp_id(); number <= (ALL_TREES ? FLOORS : 0); number += at_once) {
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
    } else if (warp_id() == 0) {
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
    const uint32_t bytes = write_bytes(shared, starts, runs, alphabet, streams.bytes + uint64_t(blockIdx.x) * BOOK_BYTES);
    if (threadIdx.x == 0) {
        streams.summaries[2 * blockIdx.x] = bytes;
        streams.summaries[2 * blockIdx.x + 1] = longest;
    }
    finish_stream(streams, bytes, bits, counts);
#endif
}
