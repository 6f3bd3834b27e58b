// From the counts of an alphabet to its canonical Huffman code, in one kernel.
//
// The two phases of the 2021 encoder paper (after Ostadzadeh et al. 2007), with the differences that the stream's exact lengths ask for:
//  - Symbols are sorted by (count, symbol): a radix sort, stable from symbol order.
//  - GenerateCL melds, in each round, every tree that is not above the sum t of the two smallest. All internal trees in the queue are (sums ascend), so are
//    the leaves up to t, found by searching; merge path brings the two in order, leaves first where equal, and neighbours are melded. If their number is odd the
//    largest waits. Each round therefore does, in parallel, exactly what the sequential two-queue method does next: the same tree.
//  - Lengths come from parent links at the end, by pointer jumping, not from updating every leaf in every round.
//  - The limit is that of syncline_core::huffman::lengths. Its step (3), which codes of real data do not need, melds again with the counts raised to a floor: the
//    sorted order stays what it is.
//  - GenerateCW: codewords ascend by symbol within a length (the paper's ascend by count), so a stable partition of the symbols by length gives
//    each its codeword, and is itself the decoder's table of symbols; First and Entry come from the numbers of each length.
//
// A team of TEAM blocks works in step. A team of one keeps everything in shared memory; a larger one in `memory`, launched cooperatively so that
// all of its blocks run at the same time and its barrier cannot wait for ever.
//
// SYMBOLS     size of the alphabet, up to 65,536
// THREADS     threads in a block, a multiple of 256
// TEAM        blocks
// CONTROL_BYTES, MEMORY_BYTES   of `memory`: the part that is zero at the start, and all of it
// MAX_LENGTH, MAX_LENGTH_LARGE, LARGE   longest codeword, and longest if more than LARGE symbols are used
// FLOORS      tries of the limit's step (3)
#include "common.cuh"
#include "length_limit.cuh"
#include "team.cuh"

constexpr uint32_t SYMBOL_BITS = 16;
// Counts are clamped to this: with the symbol they fit 64 bits, and no sum overflows. All counts are below 2^59, their codewords' bits below 32 times that.
constexpr uint64_t LARGEST_COUNT = (1ull << 43) - 1;
// A tree whose root is below 2^60 is less deep than this: its weights grow at least like Fibonacci's numbers.
constexpr uint32_t DEPTHS = 128;

// What `summary` holds, in words. huffman/codebook.rs reads it.
constexpr uint32_t SUMMARY_USED = 0, SUMMARY_LONGEST = 1, SUMMARY_STATUS = 2, SUMMARY_ROUNDS = 3, SUMMARY_FIRST = 4, SUMMARY_ENTRY = 36,
                   SUMMARY_CYCLES = 68, SUMMARY_WORDS = 72;
constexpr uint32_t STATUS_COUNT_CLAMPED = 1;

// Shared by the team; zero at the start.
struct Control {
    uint32_t barrier;
    uint32_t status;
    uint64_t all_counts; // bitwise or
    uint32_t rounds;
    uint32_t unused;
    uint64_t root;       // weight of the last tree made
    uint64_t coded_bits; // of all codes tried so far
    uint32_t at_depth[DEPTHS];
};

struct Arrays {
    uint64_t *keys;     // count << SYMBOL_BITS | symbol, ascending when sorted
    uint64_t *internal; // weights of internal trees in the order of their making; the sort's other buffer before that
    uint32_t *links;    // of internal trees: ancestor << 16 | levels up to it
    uint32_t *links_after;
    uint16_t *leaf_parent;
    uint8_t *lengths;
    uint32_t *digit_counts; // TEAM x DIGITS
    Control *control;
};

constexpr uint32_t SHARED_DIGIT_COUNTS = TEAM > 1 ? TEAM * DIGITS : 0;
static_assert(sizeof(Control) <= CONTROL_BYTES && CONTROL_BYTES % 16 == 0, "the host clears the control");
static_assert(CONTROL_BYTES + SYMBOLS * 27 + SHARED_DIGIT_COUNTS * 4 <= MEMORY_BYTES, "the host gives enough memory");

__device__ inline Arrays layout(uint8_t *memory) {
    Arrays a;
    a.control = reinterpret_cast<Control *>(memory);
    a.keys = reinterpret_cast<uint64_t *>(memory + CONTROL_BYTES);
    a.internal = a.keys + SYMBOLS;
    a.links = reinterpret_cast<uint32_t *>(a.internal + SYMBOLS);
    a.links_after = a.links + SYMBOLS;
    a.digit_counts = a.links_after + SYMBOLS;
    a.leaf_parent = reinterpret_cast<uint16_t *>(a.digit_counts + SHARED_DIGIT_COUNTS);
    a.lengths = reinterpret_cast<uint8_t *>(a.leaf_parent + SYMBOLS);
    return a;
}

// Makes the keys in symbol order, and sorts them. Returns the number of symbols that do not occur: their keys come first.
__device__ inline uint32_t sort_symbols(Team &team, Arrays &a, const uint64_t *counts) {
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
            team, [&](uint32_t item) { return uint32_t(read(&from[item]) >> shift) & (DIGITS - 1); },
            [&](uint32_t item, uint32_t position) { to[position] = read(&from[item]); });
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

// The same, of the few trees that one block finishes: its own copy, which starts at the first that has no parent.
constexpr uint32_t SOLO = 1024;
struct SoloWeights {
    uint64_t leaves[SOLO], trees[2 * SOLO];
    uint32_t first_leaf, first_tree;

    __device__ inline uint64_t leaf(uint32_t i) const { return leaves[i - first_leaf]; }
    __device__ inline uint64_t tree(uint32_t i) const { return trees[i - first_tree]; }
    __device__ inline void set_tree(uint32_t i, uint64_t weight) { trees[i - first_tree] = weight; }
};

// Where melding stands: leaves from `leaf_front` to `used` and internal trees from `front` to `back` have no parent.
struct Melding {
    uint32_t used, leaf_front, front, back, rounds;

    __device__ inline uint32_t left() const { return used - leaf_front + back - front; }
};

// How many of the first `count` trees without a parent are leaves, of `leaves` leaves and `trees` internal ones; leaves come first where equal
// (Green et al. 2012, merge path).
template <typename Weights>
__device__ inline uint32_t leaves_among(const Weights &weights, const Melding &at, uint32_t leaves, uint32_t trees, uint32_t count) {
    uint32_t low = count > trees ? count - trees : 0;
    uint32_t high = min_of(count, leaves);
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (weights.leaf(at.leaf_front + middle) <= weights.tree(at.front + count - 1 - middle)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

// A round of a warp takes about as long as this many melds of one thread.
constexpr uint32_t FEW_PAIRS = 8;

// GenerateCL: melds until no more than `leave` trees are left; a lone warp also stops before a round that is not worth it. Called by `size` threads in whole warps; `rank` is the thread's number among them.
template <typename Weights, typename Sync>
__device__ inline void meld(Melding &at, Weights &weights, const Arrays &a, uint32_t leave, uint32_t rank, uint32_t size, Sync sync) {
    constexpr uint64_t NONE = ~0ull;
    while (at.left() > leave) {
        uint64_t leaf0 = at.leaf_front < at.used ? weights.leaf(at.leaf_front) : NONE;
        uint64_t leaf1 = at.leaf_front + 1 < at.used ? weights.leaf(at.leaf_front + 1) : NONE;
        uint64_t tree0 = at.front < at.back ? weights.tree(at.front) : NONE;
        uint64_t tree1 = at.front + 1 < at.back ? weights.tree(at.front + 1) : NONE;
        // The two smallest of four, each pair ascending.
        uint64_t sum = leaf0 <= tree0 ? leaf0 + min_of(leaf1, tree0) : tree0 + min_of(leaf0, tree1);
        const uint32_t leaf_end = partition_point(at.leaf_front, at.used, [&](uint32_t i) { return weights.leaf(i) <= sum; });
        const uint32_t leaves = leaf_end - at.leaf_front, trees = at.back - at.front;
        const uint32_t pairs = (leaves + trees) / 2;
        if (size == WARP && pairs < FEW_PAIRS) {
            return;
        }
        const uint32_t per_thread = ceil_div(pairs, size);
        const uint32_t first = min_of(pairs, rank * per_thread), end = min_of(pairs, first + per_thread);
        if (first < end) {
            uint32_t leaf = at.leaf_front + leaves_among(weights, at, leaves, trees, 2 * first);
            uint32_t tree = at.front + 2 * first - (leaf - at.leaf_front);
            uint64_t next_leaf = leaf < leaf_end ? weights.leaf(leaf) : NONE;
            uint64_t next_tree = tree < at.back ? weights.tree(tree) : NONE;
            for (uint32_t parent = at.back + first; parent < at.back + end; ++parent) {
                uint64_t weight = 0;
                for (uint32_t side = 0; side < 2; ++side) {
                    if (next_leaf <= next_tree) {
                        weight += next_leaf;
                        a.leaf_parent[leaf++] = parent;
                        next_leaf = leaf < leaf_end ? weights.leaf(leaf) : NONE;
                    } else {
                        weight += next_tree;
                        a.links[tree++] = parent << 16 | 1;
                        next_tree = tree < at.back ? weights.tree(tree) : NONE;
                    }
                }
                weights.set_tree(parent, weight);
            }
        }
        // An odd one out is the last in order.
        const bool odd = (leaves + trees) % 2 == 1;
        const bool leaf_is_last = leaves > 0 && (trees == 0 || weights.leaf(leaf_end - 1) > weights.tree(at.back - 1));
        at.leaf_front = leaf_end - (odd && leaf_is_last);
        at.front = at.back - (odd && !leaf_is_last);
        at.back += pairs;
        ++at.rounds;
        sync();
    }
}

// The two-queue method itself, for the many rounds of few pairs that a steep code ends with; by one thread. Rounds are counted as `meld` has them.
template <typename Weights> __device__ inline void meld_serially(Melding &at, Weights &weights, const Arrays &a) {
    constexpr uint64_t NONE = ~0ull;
    auto leaf_or_none = [&](uint32_t i) { return i < at.used ? weights.leaf(i) : NONE; };
    auto tree_or_none = [&](uint32_t i) { return i < at.back ? weights.tree(i) : NONE; };
    // Two of each queue, so that what is loaded next is not waited for at once.
    uint64_t leaf0 = leaf_or_none(at.leaf_front), leaf1 = leaf_or_none(at.leaf_front + 1);
    uint64_t tree0 = tree_or_none(at.front), tree1 = tree_or_none(at.front + 1);
    uint64_t sum = 0;           // of the round's two smallest
    uint32_t round_end = 0;     // trees made before the round
    while (at.left() > 1) {
        bool in_round = true;
        auto take = [&] {
            const bool is_leaf = leaf0 <= tree0;
            const uint64_t weight = is_leaf ? leaf0 : tree0;
            in_round = is_leaf ? weight <= sum : at.front < round_end;
            if (is_leaf) {
                a.leaf_parent[at.leaf_front++] = at.back;
                leaf0 = leaf1;
                leaf1 = leaf_or_none(at.leaf_front + 1);
            } else {
                a.links[at.front++] = at.back << 16 | 1;
                tree0 = tree1;
                tree1 = tree_or_none(at.front + 1);
            }
            return weight;
        };
        const uint64_t first = take(), weight = first + take();
        // The second tells: where a round has an odd number of trees, the last waits for the next.
        if (!in_round) {
            ++at.rounds;
            sum = weight;
            round_end = at.back;
        }
        weights.set_tree(at.back, weight);
        tree1 = at.front + 1 == at.back ? weight : tree1;
        tree0 = at.front == at.back ? weight : tree0;
        ++at.back;
    }
}

// With this many trees left one warp goes on alone: the rounds are many, and a block's other warps would only be in its way.
constexpr uint32_t WARP_SOLO = 128;

// Melds until one tree is left, in one block, and tells the team the number of rounds and the tree's weight.
template <typename Weights> __device__ inline void meld_in_block(Melding &at, Weights &weights, const Arrays &a) {
    meld(at, weights, a, WARP_SOLO, threadIdx.x, THREADS, [] { __syncthreads(); });
    if (warp_id() == 0) {
        meld(at, weights, a, 1, lane_id(), WARP, [] { __syncwarp(); });
        if (lane_id() == 0) {
            meld_serially(at, weights, a);
            a.control->rounds = at.rounds;
            a.control->root = weights.tree(at.used - 2);
        }
    }
}

// Melds `used` leaves, at least 2, into one tree. Returns the number of rounds.
__device__ inline uint32_t meld_all(Team &team, const Arrays &a, const uint64_t *leaf_keys, uint32_t used) {
    TeamWeights weights{leaf_keys, a.internal};
    Melding at{used, 0, 0, 0, 0};
#if TEAM == 1
    meld_in_block(at, weights, a);
#else
    meld(at, weights, a, SOLO, team.rank, Team::SIZE, [&] { team.sync(); });
    // The many rounds with few trees are for one block: its barriers and its copy of the weights are far cheaper than the team's.
    __shared__ SoloWeights solo;
    if (blockIdx.x == 0) {
        for (uint32_t i = at.leaf_front + threadIdx.x; i < used; i += THREADS) {
            solo.leaves[i - at.leaf_front] = weights.leaf(i);
        }
        for (uint32_t i = at.front + threadIdx.x; i < at.back; i += THREADS) {
            solo.trees[i - at.front] = weights.tree(i);
        }
        if (threadIdx.x == 0) {
            solo.first_leaf = at.leaf_front;
            solo.first_tree = at.front;
        }
        __syncthreads();
        meld_in_block(at, solo, a);
    }
#endif
    if (team.rank == 0) {
        a.links[used - 2] = (used - 2) << 16; // the root
    }
    team.sync();
    return read(&a.control->rounds);
}

// Counts the leaves at each depth. A tree of `rounds` rounds is at most that deep: each round's trees are children of later ones.
__device__ inline void count_depths(Team &team, Arrays &a, uint32_t used, uint32_t rounds) {
    for (uint32_t reach = 1; reach < rounds; reach *= 2) {
        for (uint32_t i = team.rank; i < used - 1; i += Team::SIZE) {
            uint32_t link = read(&a.links[i]);
            uint32_t further = read(&a.links[link >> 16]);
            a.links_after[i] = (further & 0xFFFF0000u) | ((link + further) & 0xFFFF);
        }
        uint32_t *other = a.links;
        a.links = a.links_after;
        a.links_after = other;
        team.sync();
    }
    // Whole warps, for the matching.
    for (uint32_t i = team.rank; i < ceil_div(used, WARP) * WARP; i += Team::SIZE) {
        uint32_t depth = i < used ? (read(&a.links[read(&a.leaf_parent[i])]) & 0xFFFF) + 1 : 0;
        uint32_t same = __match_any_sync(ALL_LANES, depth);
        if (depth > 0 && lane_id() == __ffs(same) - 1) {
            atomicAdd(&a.control->at_depth[min_of(depth, DEPTHS - 1)], uint32_t(__popc(same)));
        }
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

// Bits of all codewords, by the true counts, if so many leaves are at each depth. `before`: what the team has counted so far.
__device__ inline uint64_t coded_bits(Team &team, const Arrays &a, const uint64_t *counts, const uint64_t *leaf_keys, uint32_t used,
                                      const uint32_t *at_depth, uint64_t &before) {
    uint64_t bits = 0;
    for (uint32_t i = team.rank; i < used; i += Team::SIZE) {
        uint32_t depth = 1;
        for (uint32_t shorter = at_depth[1]; shorter < used - i; shorter += at_depth[depth]) {
            ++depth;
        }
        bits += depth * min_of(counts[read(&leaf_keys[i]) & 0xFFFF], LARGEST_COUNT);
    }
    for (uint32_t distance = WARP / 2; distance > 0; distance /= 2) {
        bits += __shfl_down_sync(ALL_LANES, bits, distance);
    }
    if (lane_id() == 0 && bits > 0) {
        atomicAdd(&a.control->coded_bits, bits);
    }
    team.sync();
    bits = read(&a.control->coded_bits) - before;
    before += bits;
    team.sync(); // nobody adds more before all have read
    return bits;
}

// How a tree came about.
struct Melded {
    uint32_t rounds;
    long long at; // clock
};

// The limited code's leaves at each depth, of at least two symbols: the same in every block. `best` and `trial` have DEPTHS entries in shared memory.
// May raise the counts in the keys.
__device__ inline Melded limited_code(Team &team, Arrays &a, const uint64_t *counts, uint64_t *leaf_keys, uint32_t used, uint32_t limit, uint32_t *best,
                                      uint32_t *trial) {
    __shared__ bool suspicious;
    Melded melded;
    uint64_t total = 0, best_bits = 0, counted = 0;
    // One loop, so that melding is there once: first with the counts as they are, then step (3).
#pragma unroll 1
    for (uint32_t attempt = 0; attempt <= FLOORS; ++attempt) {
        const uint32_t rounds = meld_all(team, a, leaf_keys, used);
        count_depths(team, a, used, rounds);
        const uint32_t deepest = min_of(rounds, DEPTHS - 1);
        if (attempt == 0) {
            melded = {rounds, clock64()};
        }
        if (threadIdx.x < DEPTHS) {
            trial[threadIdx.x] = read(&a.control->at_depth[threadIdx.x]);
            if (attempt == 0) {
                best[threadIdx.x] = trial[threadIdx.x];
            }
        }
        __syncthreads();
        if (attempt == 0) {
            total = read(&a.control->root);
            if (warp_id() == 0) {
                bool limited = lane_id() == 0 && limit_lengths(best, deepest, limit);
                __syncwarp();
                // The bits themselves take the whole team. Nearly always this says that there is no need.
                limited = __shfl_sync(ALL_LANES, limited, 0);
                if (limited) {
                    limited = most_extra_bits(best, trial, limit, leaf_keys, used) > total / 2048;
                }
                if (lane_id() == 0) {
                    suspicious = limited;
                }
            }
            __syncthreads();
            if (!suspicious) {
                break;
            }
            const uint64_t unlimited = coded_bits(team, a, counts, leaf_keys, used, trial, counted);
            best_bits = coded_bits(team, a, counts, leaf_keys, used, best, counted);
            if (best_bits <= unlimited + unlimited / 2048) {
                break;
            }
        } else {
            if (threadIdx.x == 0) {
                limit_lengths(trial, deepest, limit);
            }
            __syncthreads();
            const uint64_t bits = coded_bits(team, a, counts, leaf_keys, used, trial, counted);
            if (bits < best_bits) {
                best_bits = bits;
                if (threadIdx.x < DEPTHS) {
                    best[threadIdx.x] = trial[threadIdx.x];
                }
            }
        }
        if (team.rank < DEPTHS) {
            a.control->at_depth[team.rank] = 0;
        }
        // Floors ascend, so the keys can be raised where they are, which keeps melding as fast as it is without.
        const uint64_t floor = total * (4 + attempt % 4) >> (limit + 4 - attempt / 4);
        for (uint32_t i = team.rank; i < used; i += Team::SIZE) {
            uint64_t key = read(&leaf_keys[i]);
            leaf_keys[i] = max_of(key >> SYMBOL_BITS, floor) << SYMBOL_BITS | (key & 0xFFFF);
        }
        team.sync();
    }
    __syncthreads();
    return melded;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    codebook(const uint64_t *counts, uint32_t *codewords, uint16_t *symbols_by_codeword, uint32_t *summary, uint8_t *memory) {
    if (TEAM == 1) {
        counts += uint64_t(blockIdx.x) * SYMBOLS;
        codewords += uint64_t(blockIdx.x) * SYMBOLS;
        symbols_by_codeword += uint64_t(blockIdx.x) * SYMBOLS;
        summary += blockIdx.x * SUMMARY_WORDS;
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
    __shared__ Partition partition;
    Team team{&a.control->barrier, a.digit_counts, &partition, 0, block_of_team() * THREADS + threadIdx.x};
    const long long start = clock64();
    const uint32_t unused = sort_symbols(team, a, counts);
    const uint32_t used = SYMBOLS - unused;
    uint64_t *leaf_keys = a.keys + unused;

    const long long sorted = clock64();
    // The code's numbers of each length, the same in every block.
    __shared__ uint32_t at_length[DEPTHS], trial[DEPTHS], first_code[WARP], entry[WARP], longest;
    const uint32_t limit = used > LARGE ? MAX_LENGTH_LARGE : MAX_LENGTH;
    Melded melded{0, sorted};
    if (used > 1) {
        melded = limited_code(team, a, counts, leaf_keys, used, limit, at_length, trial);
    } else {
        if (threadIdx.x < DEPTHS) {
            at_length[threadIdx.x] = threadIdx.x == used; // one symbol has one bit
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        uint32_t code = 0, before = 0, last = 0;
        for (uint32_t length = 0; length < WARP; ++length) {
            uint32_t count = length <= limit && length > 0 ? at_length[length] : 0;
            code <<= 1;
            first_code[length] = code;
            entry[length] = before;
            code += count;
            before += count;
            last = count > 0 ? length : last;
        }
        longest = last;
    }
    __syncthreads();

    const long long limited = clock64();
    // Longest codewords to the rarest symbols.
    for (uint32_t i = team.rank; i < SYMBOLS; i += Team::SIZE) {
        uint32_t length = 0;
        if (i >= unused) {
            uint32_t shorter = SYMBOLS - 1 - i; // symbols that are more common
            for (length = 1; length < longest && entry[length] + at_length[length] <= shorter; ++length) {
            }
        }
        a.lengths[read(&a.keys[i]) & 0xFFFF] = length;
    }
    team.sync();

    partition_by_digit(
        team, [&](uint32_t symbol) { return uint32_t(read(&a.lengths[symbol])); },
        [&](uint32_t symbol, uint32_t position) {
            uint32_t length = read(&a.lengths[symbol]);
            if (length == 0) {
                codewords[symbol] = 0;
            } else {
                uint32_t index = position - unused;
                codewords[symbol] = length << 27 | (first_code[length] + index - entry[length]);
                symbols_by_codeword[index] = symbol;
            }
        });
    if (block_of_team() == 0) {
        if (threadIdx.x == 0) {
            summary[SUMMARY_USED] = used;
            summary[SUMMARY_LONGEST] = longest;
            summary[SUMMARY_STATUS] = read(&a.control->status);
            summary[SUMMARY_ROUNDS] = melded.rounds;
            const long long times[] = {start, sorted, melded.at, limited, clock64()};
            for (uint32_t phase = 0; phase < 4; ++phase) {
                summary[SUMMARY_CYCLES + phase] = times[phase + 1] - times[phase];
            }
        }
        if (threadIdx.x < WARP) {
            summary[SUMMARY_FIRST + threadIdx.x] = first_code[threadIdx.x];
            summary[SUMMARY_ENTRY + threadIdx.x] = entry[threadIdx.x];
        }
    }
}
