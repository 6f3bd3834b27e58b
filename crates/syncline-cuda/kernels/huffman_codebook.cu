// From the counts of an alphabet to its canonical Huffman code, in one kernel.
//
// The two phases of the 2021 encoder paper (after Ostadzadeh et al. 2007), with the differences that the stream's exact lengths ask for:
//  - Symbols are sorted by (count, symbol): a radix sort, stable from symbol order.
//  - GenerateCL melds, in each round, every tree that is not above the sum t of the two smallest. All internal trees in the queue are (sums ascend), so are
//    the leaves up to t, found by searching; merge path brings the two in order, leaves first where equal, and neighbours are melded. If their number is odd the
//    largest waits. Each round therefore does, in parallel, exactly what the sequential two-queue method does next: the same tree.
//  - Lengths come from parent links at the end, by pointer jumping, not from updating every leaf in every round.
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
#include "common.cuh"

constexpr uint32_t WARPS = THREADS / WARP;
constexpr uint32_t DIGITS = 256;
constexpr uint32_t DIGIT_BITS = 8;
constexpr uint32_t SYMBOL_BITS = 16;
// Counts are clamped to this: with the symbol they fit 64 bits, and no sum overflows.
constexpr uint64_t LARGEST_COUNT = (1ull << 47) - 1;
// A tree whose root is below 2^63 is less deep than this: its weights grow at least like Fibonacci's numbers.
constexpr uint32_t DEPTHS = 128;

// What `summary` holds, in words. huffman/codebook.rs reads it.
constexpr uint32_t SUMMARY_USED = 0, SUMMARY_LONGEST = 1, SUMMARY_STATUS = 2, SUMMARY_ROUNDS = 3, SUMMARY_FIRST = 4, SUMMARY_ENTRY = 36;
constexpr uint32_t SUMMARY_WORDS = 68;
constexpr uint32_t STATUS_COUNT_CLAMPED = 1;

// Shared by the team; zero at the start.
struct Control {
    uint32_t barrier;
    uint32_t status;
    uint64_t all_counts; // bitwise or
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

// Reads what another block of the team may have written: past the first-level cache, which is not kept coherent.
template <typename T> __device__ inline T read(const T *from) {
#if TEAM > 1
    return __ldcg(from);
#else
    return *from;
#endif
}

// Shared memory that a block partitions with.
struct Partition {
    uint16_t warp_counts[WARPS][DIGITS];
    uint32_t digit_start[DIGITS];
    uint32_t warp_sums[DIGITS / WARP];
};

// Number of this block in its team. Blocks that are teams of their own build a codebook each.
__device__ inline uint32_t block_of_team() { return TEAM > 1 ? blockIdx.x : 0; }

struct Team {
    Control *control;
    Partition *partition;
    uint32_t barriers_passed;
    uint32_t rank; // of this thread
    static constexpr uint32_t SIZE = TEAM * THREADS;

    __device__ inline void sync() {
        __syncthreads();
#if TEAM > 1
        ++barriers_passed;
        if (threadIdx.x == 0) {
            __threadfence();
            atomicAdd(&control->barrier, 1u);
            while (*reinterpret_cast<volatile uint32_t *>(&control->barrier) < barriers_passed * TEAM) {
            }
            __threadfence();
        }
        __syncthreads();
#endif
    }
};

// Exclusive sums over the DIGITS first threads of a block; called by the whole block.
__device__ inline uint32_t digit_scan(uint32_t value, uint32_t *warp_sums) {
    uint32_t sum = value;
    for (uint32_t distance = 1; distance < WARP; distance *= 2) {
        uint32_t below = __shfl_up_sync(ALL_LANES, sum, distance);
        sum += lane_id() >= distance ? below : 0;
    }
    if (lane_id() == WARP - 1 && threadIdx.x < DIGITS) {
        warp_sums[warp_id()] = sum;
    }
    __syncthreads();
    uint32_t before = 0;
    for (uint32_t warp = 0; warp < min_of<uint32_t>(warp_id(), DIGITS / WARP); ++warp) {
        before += warp_sums[warp];
    }
    return before + sum - value;
}

// A stable partition of the items 0 to SYMBOLS - 1 by `digit(item)` (below DIGITS): calls `place(item, position)` for each.
// Blocks, and warps within them, take consecutive items, so that ranks follow the items' order.
template <typename Digit, typename Place>
__device__ inline void partition_by_digit(Team &team, const Arrays &a, Digit digit, Place place) {
    auto &warp_counts = team.partition->warp_counts;
    auto &digit_start = team.partition->digit_start;
    constexpr uint32_t PER_WARP = (SYMBOLS + TEAM * WARPS * WARP - 1) / (TEAM * WARPS * WARP) * WARP;
    const uint32_t first = (block_of_team() * WARPS + warp_id()) * PER_WARP;
    for (uint32_t i = threadIdx.x; i < WARPS * DIGITS; i += THREADS) {
        warp_counts[i / DIGITS][i % DIGITS] = 0;
    }
    __syncthreads();
    // Lanes past the end take a digit that none has.
    auto digit_or_none = [&](uint32_t item) { return item < SYMBOLS ? digit(item) : DIGITS; };
    for (uint32_t i = 0; i < PER_WARP; i += WARP) {
        uint32_t own = digit_or_none(first + i + lane_id());
        uint32_t same = __match_any_sync(ALL_LANES, own);
        if (own < DIGITS && lane_id() == __ffs(same) - 1) {
            warp_counts[warp_id()][own] += __popc(same);
        }
        __syncwarp();
    }
    __syncthreads();
    uint32_t total = 0;
    if (threadIdx.x < DIGITS) {
        for (uint32_t warp = 0; warp < WARPS; ++warp) {
            uint32_t count = warp_counts[warp][threadIdx.x];
            warp_counts[warp][threadIdx.x] = total;
            total += count;
        }
    }
    uint32_t before = 0;
#if TEAM > 1
    if (threadIdx.x < DIGITS) {
        a.digit_counts[block_of_team() * DIGITS + threadIdx.x] = total;
    }
    team.sync();
    if (threadIdx.x < DIGITS) {
        total = 0;
        for (uint32_t block = 0; block < TEAM; ++block) {
            uint32_t count = read(&a.digit_counts[block * DIGITS + threadIdx.x]);
            before += block < block_of_team() ? count : 0;
            total += count;
        }
    }
#endif
    uint32_t start = digit_scan(total, team.partition->warp_sums);
    if (threadIdx.x < DIGITS) {
        digit_start[threadIdx.x] = start + before;
    }
    __syncthreads();
    for (uint32_t i = 0; i < PER_WARP; i += WARP) {
        uint32_t item = first + i + lane_id();
        uint32_t own = digit_or_none(item);
        uint32_t same = __match_any_sync(ALL_LANES, own);
        uint32_t rank = __popc(same & ((1u << lane_id()) - 1));
        if (own < DIGITS) {
            place(item, digit_start[own] + warp_counts[warp_id()][own] + rank);
        }
        __syncwarp();
        if (own < DIGITS && rank == 0) {
            warp_counts[warp_id()][own] += __popc(same);
        }
        __syncwarp();
    }
    team.sync();
}

// The items from `low` up to the first of `high` for which `before(item)` does not hold, given that those for which it holds come first.
// The lanes of a warp probe together; every warp finds the same.
template <typename Before> __device__ inline uint32_t partition_point(uint32_t low, uint32_t high, Before before) {
    while (low < high) {
        uint32_t step = ceil_div(high - low, WARP);
        uint32_t probe = low + (lane_id() + 1) * step - 1;
        bool holds = probe < high && before(probe);
        low += __popc(__ballot_sync(ALL_LANES, holds)) * step;
        high = min_of(high, low + step - 1);
    }
    return high;
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
            team, a, [&](uint32_t item) { return uint32_t(read(&from[item]) >> shift) & (DIGITS - 1); },
            [&](uint32_t item, uint32_t position) { to[position] = read(&from[item]); });
        uint64_t *other = from;
        from = to;
        to = other;
    }
    a.keys = from;
    a.internal = to;
    return partition_point(0, SYMBOLS, [&](uint32_t i) { return read(&a.keys[i]) >> SYMBOL_BITS == 0; });
}

// Two ascending queues, of leaves and of internal trees, as one: leaves come first where equal.
struct Queues {
    const uint64_t *keys, *internal;
    uint32_t leaves, internals;

    __device__ inline uint64_t leaf(uint32_t i) const { return read(&keys[i]) >> SYMBOL_BITS; }
    __device__ inline uint64_t tree(uint32_t i) const { return read(&internal[i]); }

    // How many of the first `count` are leaves (Green et al. 2012, merge path).
    __device__ inline uint32_t leaves_among(uint32_t count) const {
        uint32_t low = count > internals ? count - internals : 0;
        uint32_t high = min_of(count, leaves);
        while (low < high) {
            uint32_t middle = (low + high) / 2;
            if (leaf(middle) <= tree(count - 1 - middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }
};

// GenerateCL: melds until one tree is left. `leaf(i)` is the i-th smallest leaf of `used`, at least 2. Returns the number of rounds.
__device__ inline uint32_t meld(Team &team, const Arrays &a, const uint64_t *leaf_keys, uint32_t used) {
    const Queues all{leaf_keys, a.internal, used, 0};
    // Leaves from `leaf_front` and internal trees [front, back) are without a parent.
    uint32_t leaf_front = 0, front = 0, back = 0, rounds = 0;
    while (used - leaf_front + back - front > 1) {
        constexpr uint64_t NONE = ~0ull;
        uint64_t leaf0 = leaf_front < used ? all.leaf(leaf_front) : NONE;
        uint64_t leaf1 = leaf_front + 1 < used ? all.leaf(leaf_front + 1) : NONE;
        uint64_t tree0 = front < back ? all.tree(front) : NONE;
        uint64_t tree1 = front + 1 < back ? all.tree(front + 1) : NONE;
        // The two smallest of four, each pair ascending.
        uint64_t sum = leaf0 <= tree0 ? leaf0 + min_of(leaf1, tree0) : tree0 + min_of(leaf0, tree1);
        uint32_t leaf_end = partition_point(leaf_front, used, [&](uint32_t i) { return all.leaf(i) <= sum; });
        const Queues eligible{leaf_keys + leaf_front, a.internal + front, leaf_end - leaf_front, back - front};
        const uint32_t count = eligible.leaves + eligible.internals;
        const uint32_t pairs = count / 2;
        const uint32_t per_thread = ceil_div(pairs, Team::SIZE);
        const uint32_t first = min_of(pairs, team.rank * per_thread), end = min_of(pairs, first + per_thread);
        if (first < end) {
            uint32_t leaf = eligible.leaves_among(2 * first), tree = 2 * first - leaf;
            for (uint32_t pair = first; pair < end; ++pair) {
                uint64_t weight = 0;
                for (uint32_t side = 0; side < 2; ++side) {
                    uint64_t leaf_weight = leaf < eligible.leaves ? eligible.leaf(leaf) : NONE;
                    uint64_t tree_weight = tree < eligible.internals ? eligible.tree(tree) : NONE;
                    if (leaf_weight <= tree_weight) {
                        a.leaf_parent[leaf_front + leaf++] = back + pair;
                        weight += leaf_weight;
                    } else {
                        a.links[front + tree++] = (back + pair) << 16 | 1;
                        weight += tree_weight;
                    }
                }
                a.internal[back + pair] = weight;
            }
        }
        // An odd one out is the last in order.
        bool odd = count % 2 == 1;
        bool leaf_is_last = eligible.leaves > 0 && (eligible.internals == 0 || eligible.leaf(eligible.leaves - 1) > eligible.tree(eligible.internals - 1));
        leaf_front = leaf_end - (odd && leaf_is_last);
        front = back - (odd && !leaf_is_last);
        back += pairs;
        ++rounds;
        team.sync();
    }
    if (team.rank == 0) {
        a.links[used - 2] = (used - 2) << 16; // the root
    }
    team.sync();
    return rounds;
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

// The limit of syncline_core::huffman::lengths: leaves below it come up to it, and while the code is over-full a leaf of the deepest level above it goes
// down by one, with one from the limit for its sibling. A leaf of level d taken down all the way costs 2^(limit - d) - 1 such steps and ends as one leaf
// more at the limit, so whole ones are counted at once.
__device__ inline void limit_lengths(uint32_t *at_depth, uint32_t limit) {
    uint32_t over = 0;
    for (uint32_t depth = limit + 1; depth < DEPTHS; ++depth) {
        over += at_depth[depth];
        at_depth[depth] = 0;
    }
    if (over == 0) {
        return;
    }
    at_depth[limit] += over;
    uint64_t kraft = 0;
    for (uint32_t depth = 1; depth <= limit; ++depth) {
        kraft += uint64_t(at_depth[depth]) << (limit - depth);
    }
    uint64_t excess = kraft - (1ull << limit);
    for (uint32_t depth = limit - 1; excess > 0 && depth > 0;) {
        if (at_depth[depth] == 0) {
            --depth;
            continue;
        }
        uint64_t steps = (1ull << (limit - depth)) - 1;
        if (excess >= steps) {
            uint32_t whole = min_of<uint64_t>(at_depth[depth], excess / steps);
            at_depth[depth] -= whole;
            at_depth[limit] += whole;
            excess -= whole * steps;
        } else {
            --at_depth[depth];
            ++depth;
            at_depth[depth] += 2;
            --at_depth[limit];
            --excess;
        }
    }
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
    Team team{a.control, &partition, 0, block_of_team() * THREADS + threadIdx.x};
    const uint32_t unused = sort_symbols(team, a, counts);
    const uint32_t used = SYMBOLS - unused;
    const uint64_t *leaf_keys = a.keys + unused;

    uint32_t rounds = 0;
    if (used > 1) {
        rounds = meld(team, a, leaf_keys, used);
        count_depths(team, a, used, rounds);
    }

    // The code's numbers of each length, the same in every block.
    __shared__ uint32_t at_length[WARP], first_code[WARP], entry[WARP], longest;
    if (threadIdx.x == 0) {
        uint32_t at_depth[DEPTHS];
        for (uint32_t depth = 0; depth < DEPTHS; ++depth) {
            at_depth[depth] = read(&a.control->at_depth[depth]);
        }
        if (used == 1) {
            at_depth[1] = 1;
        }
        limit_lengths(at_depth, used > LARGE ? MAX_LENGTH_LARGE : MAX_LENGTH);
        uint32_t code = 0, before = 0, last = 0;
        for (uint32_t length = 0; length < WARP; ++length) {
            at_length[length] = length == 0 ? 0 : at_depth[length];
            code = length == 0 ? 0 : (code + at_length[length - 1]) << 1;
            first_code[length] = code;
            entry[length] = before;
            before += at_length[length];
            last = at_length[length] > 0 ? length : last;
        }
        longest = last;
    }
    __syncthreads();

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
        team, a, [&](uint32_t symbol) { return uint32_t(read(&a.lengths[symbol])); },
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
            summary[SUMMARY_ROUNDS] = rounds;
        }
        if (threadIdx.x < WARP) {
            summary[SUMMARY_FIRST + threadIdx.x] = first_code[threadIdx.x];
            summary[SUMMARY_ENTRY + threadIdx.x] = entry[threadIdx.x];
        }
    }
}
