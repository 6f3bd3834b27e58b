// From the counts of an alphabet to its canonical Huffman code, in one kernel unless the length limit costs much.
//
// The two phases of the 2021 encoder paper (after Ostadzadeh et al. 2007), with the differences that the stream's exact lengths ask for:
//  - Symbols are sorted by (count, symbol): a radix sort, stable from symbol order.
//  - GenerateCL melds, in each round, every tree that is not above the sum t of the two smallest. All internal trees in the queue are (sums ascend), so are
//    the leaves up to t, found by searching; merge path brings the two in order, leaves first where equal, and neighbours are melded. If their number is odd the
//    largest waits. Each round therefore does, in parallel, exactly what the sequential two-queue method does next: the same tree.
//  - Depths never rise in the order of trees' making. So each tree only notes which tree was next when it was made, and one thread walks down the levels at the end, instead of
//    the paper's updating of every leaf in every round.
//  - The limit is that of syncline_core::huffman::lengths. Where its step (3) is due the codebook is left to huffman_codebook_tries.cu.
//  - GenerateCW: huffman_code.cuh.
//
// A team of TEAM blocks works in step. A team of one keeps everything in shared memory; a larger one in `memory`, launched cooperatively so that
// all of its blocks run at the same time and its barrier cannot wait for ever.
//
// THREADS     threads in a block, a multiple of 256
// TEAM        blocks
// CONTROL_BYTES, MEMORY_BYTES   of `memory`: the part that is zero at the start, and all of it
// and those of huffman_tree.cuh.
#include "huffman_code.cuh"
#include "huffman_tree.cuh"

constexpr uint32_t SYMBOL_BITS = 16;
constexpr uint32_t DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS;
// Counts are clamped to this: with the symbol they fit 64 bits, and no sum overflows. All counts are below 2^59, their codewords' bits below 32 times that.
constexpr uint64_t LARGEST_COUNT = (1ull << 43) - 1;
constexpr uint32_t STATUS_COUNT_CLAMPED = 1;

// Shared by the team; zero at the start.
struct Control {
    uint32_t barrier;
    uint32_t status;
    uint64_t all_counts; // bitwise or
    uint64_t root;       // weight of the last tree made
    uint32_t rounds;
    uint32_t unused;
};

struct Arrays {
    uint64_t *keys;     // count << SYMBOL_BITS | symbol, ascending when sorted
    uint64_t *internal; // weights of internal trees in the order of their making; the sort's other buffer before that
    uint32_t *digit_counts; // TEAM x DIGITS
    uint16_t *fronts;   // of internal trees: the next internal tree when it was made
    uint8_t *lengths;
    Control *control;
};

constexpr uint32_t SHARED_DIGIT_COUNTS = TEAM > 1 ? TEAM * DIGITS : 0;
static_assert(sizeof(Control) <= CONTROL_BYTES && CONTROL_BYTES % 16 == 0, "the host clears the control");
static_assert(CONTROL_BYTES + SYMBOLS * 19 + SHARED_DIGIT_COUNTS * 4 <= MEMORY_BYTES, "the host gives enough memory");

__device__ inline Arrays layout(uint8_t *memory) {
    Arrays a;
    a.control = reinterpret_cast<Control *>(memory);
    a.keys = reinterpret_cast<uint64_t *>(memory + CONTROL_BYTES);
    a.internal = a.keys + SYMBOLS;
    a.digit_counts = reinterpret_cast<uint32_t *>(a.internal + SYMBOLS);
    a.fronts = reinterpret_cast<uint16_t *>(a.digit_counts + SHARED_DIGIT_COUNTS);
    a.lengths = reinterpret_cast<uint8_t *>(a.fronts + SYMBOLS);
    return a;
}

// Makes the keys in symbol order, and sorts them. Returns the number of symbols that do not occur: their keys come first.
__device__ inline uint32_t sort_symbols(Team &team, Partition<DIGITS> &partition, Arrays &a, const uint64_t *counts) {
    uint64_t all = 0;
    for (uint32_t symbol = team.rank; symbol < SYMBOLS; symbol += Team::SIZE) {
        uint64_t count = counts[symbol];
        if (count > LARGEST_COUNT) {
            count = LARGEST_COUNT;
            atomicOr(&a.control->status, STATUS_COUNT_CLAMPED);
        }
        all |= count;
        a.keys[symbol] = count << SYMBOL_BITS | symbol;
    }
    for (uint32_t distance = WARP / 2; distance > 0; distance /= 2) {
        all |= __shfl_xor_sync(ALL_LANES, all, distance);
    }
    if (lane_id() == 0 && all != 0) {
        atomicOr(&a.control->all_counts, all);
    }
    team.sync();
    all = read(&a.control->all_counts);
    uint64_t *from = a.keys, *to = a.internal;
    for (uint32_t shift = SYMBOL_BITS; shift < 64 && all >> (shift - SYMBOL_BITS) != 0; shift += DIGIT_BITS) {
        if ((all >> (shift - SYMBOL_BITS) & (DIGITS - 1)) == 0) {
            continue;
        }
        partition_by_digit(
            team, partition, [&](uint32_t item) { return read(&from[item]); }, [&](uint64_t key) { return uint32_t(key >> shift) & (DIGITS - 1); },
            [&](uint32_t, uint64_t key, uint32_t position) { to[position] = key; });
        uint64_t *other = from;
        from = to;
        to = other;
    }
    a.keys = from;
    a.internal = to;
    return partition_point(0, SYMBOLS, [&](uint32_t i) { return read(&a.keys[i]) >> SYMBOL_BITS == 0; });
}

// Weights of leaves, ascending, and of internal trees in the order of their making, which is ascending too.
struct TeamWeights {
    const uint64_t *keys;
    uint64_t *internal;

    __device__ inline uint64_t leaf(uint32_t i) const { return read(&keys[i]) >> SYMBOL_BITS; }
    __device__ inline uint64_t tree(uint32_t i) const { return read(&internal[i]); }
    __device__ inline void set_tree(uint32_t i, uint64_t weight) const { internal[i] = weight; }
};

// Melds `used` leaves, at least 2, into one tree; tells the number of rounds and the tree's weight in `control`.
__device__ inline void meld_all(Team &team, const Arrays &a, const uint64_t *leaf_keys, uint32_t used) {
    TeamWeights weights{leaf_keys, a.internal};
    Melding at{used, 0, 0, 0, 0};
    uint64_t root = 0;
#if TEAM == 1
    meld_in_block(at, weights, a.fronts);
    if (threadIdx.x == 0) {
        root = weights.tree(used - 2);
    }
#else
    meld(at, weights, a.fronts, SOLO, team.rank, Team::SIZE, [&] { team.sync(); });
    // The many rounds with few trees are for one block: its barriers and its copy of the weights are far cheaper than the team's.
    __shared__ SoloWeights solo;
    if (blockIdx.x == 0) {
        meld_solo(at, weights, a.fronts, solo);
        if (threadIdx.x == 0) {
            root = solo.tree(used - 2);
        }
    }
#endif
    if (team.rank == 0) {
        a.control->rounds = at.rounds;
        a.control->root = root;
    }
    team.sync();
}

// At least as much as the limited code has more bits than the unlimited one. Called by a whole warp; a lane sees to the depths 1 + lane, 33 + lane, ...
// Bits are the sum over depths of the counts of leaves that are as deep or deeper, and those are the rarest. Where the limited code has more of them,
// each of the additional ones is at most as common as the last. (Where it has fewer, which is below the limit, nothing is taken off.)
__device__ inline uint64_t most_extra_bits(const uint32_t *limited, const uint32_t *unlimited, uint32_t limit, const uint64_t *leaf_keys, uint32_t used) {
    uint64_t bits = 0;
    for (uint32_t depth = 1 + lane_id(); depth <= limit; depth += WARP) {
        uint32_t deeper = used, deeper_unlimited = used;
        for (uint32_t above = 1; above < depth; ++above) {
            deeper -= limited[above];
            deeper_unlimited -= unlimited[above];
        }
        if (deeper > deeper_unlimited) {
            bits += (deeper - deeper_unlimited) * uint64_t(read(&leaf_keys[deeper - 1]) >> SYMBOL_BITS);
        }
    }
    for (uint32_t distance = WARP / 2; distance > 0; distance /= 2) {
        bits += __shfl_xor_sync(ALL_LANES, bits, distance);
    }
    return bits;
}

// Sums of the counts of the 0, 1, 2, ... rarest of the used symbols.
__device__ inline void sum_counts(Team &team, const Arrays &a, const uint64_t *leaf_keys, uint32_t used, uint64_t *sums) {
    constexpr uint32_t PER_THREAD = (SYMBOLS + Team::SIZE - 1) / Team::SIZE;
    __shared__ uint64_t warp_totals[WARPS];
    const uint32_t first = min_of(used, team.rank * PER_THREAD), end = min_of(used, first + PER_THREAD);
    uint64_t own = 0;
    for (uint32_t i = first; i < end; ++i) {
        own += read(&leaf_keys[i]) >> SYMBOL_BITS;
    }
    uint64_t sum = own;
    for (uint32_t distance = 1; distance < WARP; distance *= 2) {
        const uint64_t below = __shfl_up_sync(ALL_LANES, sum, distance);
        sum += lane_id() >= distance ? below : 0;
    }
    if (lane_id() == WARP - 1) {
        warp_totals[warp_id()] = sum;
    }
    __syncthreads();
    uint64_t before = sum - own, total = 0;
    for (uint32_t warp = 0; warp < WARPS; ++warp) {
        before += warp < warp_id() ? warp_totals[warp] : 0;
        total += warp_totals[warp];
    }
#if TEAM > 1
    uint64_t *block_totals = reinterpret_cast<uint64_t *>(a.digit_counts);
    if (threadIdx.x == 0) {
        block_totals[blockIdx.x] = total;
    }
    team.sync();
    for (uint32_t block = 0; block < blockIdx.x; ++block) {
        before += read(&block_totals[block]);
    }
#endif
    if (team.rank == 0) {
        sums[0] = 0;
    }
    for (uint32_t i = first; i < end; ++i) {
        before += read(&leaf_keys[i]) >> SYMBOL_BITS;
        sums[i + 1] = before;
    }
    team.sync();
}

// The limited code's leaves at each depth, of at least two symbols, the same in every block, in `best`; `unlimited` is memory for it. Both have DEPTHS entries in shared memory, 0 at the start. Returns
// whether step (3) is due; `pending` has what it needs then.
__device__ inline bool limited_code(Team &team, Arrays &a, uint64_t *leaf_keys, uint32_t used, uint32_t limit, uint32_t *best, uint32_t *unlimited,
                                    Pending &pending) {
    __shared__ bool suspicious, due;
    const uint64_t total = read(&a.control->root);
    if (warp_id() == 0) {
        uint32_t deepest = 0;
        if (lane_id() == 0) {
            deepest = leaves_per_depth(a.fronts, used, unlimited);
        }
        __syncwarp();
        for (uint32_t depth = lane_id(); depth < DEPTHS; depth += WARP) {
            best[depth] = unlimited[depth];
        }
        __syncwarp();
        bool limited = lane_id() == 0 && limit_lengths(best, deepest, limit);
        __syncwarp();
        // The bits themselves take sums of all counts. Nearly always this says that there is no need.
        limited = __shfl_sync(ALL_LANES, limited, 0);
        if (limited) {
            limited = most_extra_bits(best, unlimited, limit, leaf_keys, used) > total / 2048;
        }
        if (lane_id() == 0) {
            suspicious = limited;
        }
    }
    __syncthreads();
    if (!suspicious) {
        return false;
    }
    uint64_t *sums = pending.sums();
    sum_counts(team, a, leaf_keys, used, sums);
    if (warp_id() == 0) {
        const uint64_t unlimited_bits = coded_bits(sums, used, unlimited), bits = coded_bits(sums, used, best);
        if (lane_id() == 0) {
            due = bits > unlimited_bits + unlimited_bits / 2048;
        }
        if (block_of_team() == 0) {
            pending.best[lane_id()] = best[lane_id()];
            if (lane_id() == 0) {
                pending.used = used;
                pending.finished = 0;
                pending.total = total;
                pending.best_bits = bits;
            }
        }
    }
    __syncthreads();
    if (due) {
        for (uint32_t i = team.rank; i < SYMBOLS; i += Team::SIZE) {
            pending.order()[i] = read(&a.keys[i]) & 0xFFFF;
        }
    }
    return due;
}

// `due` has a word for each codebook: whether it is left, in `pending`, to the tries.
extern "C" __global__ void __launch_bounds__(THREADS) codebook(const uint64_t *counts, uint32_t *codewords, uint16_t *symbols_by_codeword, uint32_t *summary,
                                                               uint8_t *memory, uint32_t *due, uint8_t *pending) {
    if (TEAM == 1) {
        counts += uint64_t(blockIdx.x) * SYMBOLS;
        codewords += uint64_t(blockIdx.x) * SYMBOLS;
        symbols_by_codeword += uint64_t(blockIdx.x) * SYMBOLS;
        summary += blockIdx.x * SUMMARY_WORDS;
        due += blockIdx.x;
        pending += uint64_t(blockIdx.x) * PENDING_BYTES;
    }
#if TEAM > 1
    Arrays a = layout(memory);
#else
    extern __shared__ __align__(16) uint8_t shared_memory[];
    Arrays a = layout(shared_memory);
    for (uint32_t i = threadIdx.x; i < sizeof(Control) / 4; i += THREADS) {
        reinterpret_cast<uint32_t *>(a.control)[i] = 0;
    }
    __syncthreads();
#endif
    __shared__ Partition<DIGITS> partition;
    __shared__ Code code;
    __shared__ uint32_t best[DEPTHS], unlimited[DEPTHS];
    Team team{&a.control->barrier, a.digit_counts, 0, block_of_team() * THREADS + threadIdx.x};
    const long long start = clock64();
    const uint32_t unused = sort_symbols(team, partition, a, counts);
    const uint32_t used = SYMBOLS - unused;
    uint64_t *leaf_keys = a.keys + unused;
    if (threadIdx.x < DEPTHS) {
        // One symbol has one bit.
        best[threadIdx.x] = used == 1 && threadIdx.x == 1;
        unlimited[threadIdx.x] = 0;
    }
    const long long sorted = clock64();
    long long melded = sorted;
    bool is_due = false;
    if (used > 1) {
        meld_all(team, a, leaf_keys, used);
        melded = clock64();
        is_due = limited_code(team, a, leaf_keys, used, used > LARGE ? MAX_LENGTH_LARGE : MAX_LENGTH, best, unlimited, *reinterpret_cast<Pending *>(pending));
    } else {
        __syncthreads();
    }
    const long long limited = clock64();
    if (!is_due) {
        if (threadIdx.x < WARP) {
            code.at_length[threadIdx.x] = best[threadIdx.x];
        }
        __syncthreads();
        write_code(
            team, code, [&](uint32_t i) { return uint32_t(read(&a.keys[i]) & 0xFFFF); }, unused, a.lengths, codewords, symbols_by_codeword, summary);
    }
    if (team.rank == 0) {
        *due = is_due;
        summary[SUMMARY_USED] = used;
        summary[SUMMARY_STATUS] = read(&a.control->status);
        summary[SUMMARY_ROUNDS] = read(&a.control->rounds);
        const long long times[] = {start, sorted, melded, limited, clock64()};
        for (uint32_t phase = 0; phase < 4; ++phase) {
            summary[SUMMARY_CYCLES + phase] = times[phase + 1] - times[phase];
        }
    }
}
