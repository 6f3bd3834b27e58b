// Steps on the way from sorted counts to a codebook that are a warp's or a block's: trees, the best code, the
// codebook's bytes. See huffman/codebook/small.cu.
#pragma once
#include "device/sync.cuh"
#include "device/block.cuh"
#include "huffman/codebook/small.cuh"

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

// What the counts are raised to for tree `number`: 0 is that of the counts as they are, the others are the tries of the
// limit's step (3).
__device__ inline Count floor_of_tree(uint32_t number, Count total) {
    return number == 0 ? 0 : Count(floor_of(number - 1, total, LIMIT));
}

__device__ inline uint16_t *fronts_of(uint8_t *memory, uint32_t used) {
    return reinterpret_cast<uint16_t *>(reinterpret_cast<Count *>(memory) + used);
}
__device__ inline const uint16_t *fronts_of(const uint8_t *memory, uint32_t used) {
    return reinterpret_cast<const uint16_t *>(reinterpret_cast<const Count *>(memory) + used);
}

// Trees that are to be made, a bit each: that of the counts as they are, and of the tries those that raise a count and
// differ from the one before. By a warp, a lane a tree.
__device__ inline uint32_t trees_to_make(Count least, Count total) {
    const uint32_t number = lane_id();
    const Count floor = number <= FLOORS ? floor_of_tree(number, total) : 0,
                before = __shfl_up_sync(ALL_LANES, floor, 1);
    return __ballot_sync(ALL_LANES, number == 0 || (floor > least && floor != before));
}

// The number of the `rank`th set bit, or 32 if there are not so many; by a warp.
__device__ inline uint32_t set_bit(uint32_t bits, uint32_t rank) {
    const uint32_t before = __popc(bits & ((1u << lane_id()) - 1));
    return __clz(__brev(__ballot_sync(ALL_LANES, before == rank && (bits >> lane_id() & 1))));
}

// A tree's warps: one, or as many as a multiprocessor has parts, of which all have the rounds of many and the first has
// the others. More would be in each other's way.
constexpr uint32_t TEAM_WARPS = 4, MOST_TEAMS = WARPS / TEAM_WARPS;

struct TreeTeam {
    uint32_t number, warps;
#if UNDER_RACECHECK
    mutable uint32_t passed = 0; // barriers
#endif

    __device__ inline explicit TreeTeam(uint32_t warps) : number(warp_id() / warps), warps(warps) {}
    __device__ inline uint32_t threads() const { return warps * WARP; }
    __device__ inline uint32_t rank() const { return threadIdx.x - number * threads(); }
    __device__ inline void sync() const {
        if (warps == 1) {
            __syncwarp();
        } else {
            asm volatile("bar.sync %0, %1;" : : "r"(number + 1), "n"(TEAM_WARPS * WARP) : "memory");
#if UNDER_RACECHECK
            ++passed;
#endif
        }
    }

    // By all warps of the block, those without a tree too, before they meet: all have passed as many barriers then,
    // under racecheck.
    __device__ inline void even_out() const {
#if UNDER_RACECHECK
        constexpr uint32_t MOST = 256;
        for (; passed < MOST; ++passed) {
            racecheck_barrier();
        }
#endif
    }
};
static_assert(MOST_TEAMS < 15, "that barrier is nobody's");

// Rounds of many, until one tree is left or the next round has few: by a team, pairs by turns.
struct RoundsInTurn {
    __device__ inline void operator()(const TreeTeam &team, uint32_t used, Melding &at, const RaisedWeights &weights,
                                      uint16_t *fronts) const {
        constexpr Count NONE = ~Count(0);
        __shared__ uint32_t leaf_ends[WARPS];
        auto leaf_or_none = [&](uint32_t i) { return i < used ? weights.leaf(i) : NONE; };
        auto tree_or_none = [&](uint32_t i, uint32_t back) { return i < back ? weights.tree(i) : NONE; };
#pragma unroll 1
        while (at.left() >= FEW) {
            const Count sum = two_smallest(leaf_or_none(at.leaf_front), leaf_or_none(at.leaf_front + 1),
                                           tree_or_none(at.front, at.back), tree_or_none(at.front + 1, at.back));
            // One thread finds the last leaf that is no larger.
            uint32_t leaf = at.leaf_front + team.rank();
            if (team.rank() == 0 && leaf_or_none(leaf) > sum) {
                leaf_ends[team.number] = leaf;
            }
#pragma unroll 1
            for (; leaf < used && weights.leaf(leaf) <= sum; leaf += team.threads()) {
                if (leaf_or_none(leaf + 1) > sum) {
                    leaf_ends[team.number] = leaf + 1;
                }
            }
            team.sync();
            const uint32_t leaf_end = leaf_ends[team.number];
            if (leaf_end - at.leaf_front < FEW && at.back - at.front <= FEW) {
                break;
            }
            meld_in_turn(at, weights, fronts, leaf_end, team.rank(), team.threads());
            team.sync();
        }
    }
};

// Melds the counts raised to `floor` until one tree is left; by a team, whose tree's `memory` is. `Rounds` are those of
// many.
template <typename Rounds>
__device__ inline Melding meld_by_team(const TreeTeam &team, const Shared &shared, uint32_t used, Count floor,
                                       uint8_t *memory) {
    __shared__ Melding handed_over[WARPS];
    uint16_t *fronts = fronts_of(memory, used);
    RaisedWeights weights{shared.counts, reinterpret_cast<Count *>(memory), floor};
    Melding at{used, 0, 0, 0, 0};
#pragma unroll 1
    while (at.left() > 1) {
        // What a warp leaves to the team may be all that is left.
        Rounds()(team, used, at, weights, fronts);
        if (team.rank() < WARP) {
            meld_in_warp<Count>(at, weights, fronts);
            if (lane_id() == 0) {
                handed_over[team.number] = at;
            }
        }
        team.sync();
        at = handed_over[team.number];
        // Before it is written again.
        team.sync();
    }
    return at;
}

// What is known of a tree that has been made.
struct Tree {
    bool limited;    // whether there was something to limit
    Count unlimited; // bits without a limit, of counts as they are, where that is asked for
};

// Bits of all codewords without a limit, of a tree of the counts as they are: each count is in as many trees as it is
// deep. By a warp.
__device__ inline Count unlimited_bits(uint32_t used, const uint8_t *memory) {
    const Count *trees = reinterpret_cast<const Count *>(memory);
    Count sum = 0;
#pragma unroll 4
    for (uint32_t i = lane_id(); i + 1 < used; i += WARP) {
        sum += trees[i];
    }
    return warp_reduce_sum(sum);
}

// Of a tree that has been melded from the counts raised to `floor`: limits its depth, and notes the code; by a warp.
// `memory` is the tree's.
template <bool UNLIMITED>
__device__ inline Tree note_tree(const Shared &shared, uint32_t used, Count floor, const uint8_t *memory, Lengths &to) {
    const uint16_t *fronts = fronts_of(memory, used);
    uint32_t over;
    const uint32_t at_length =
        limited_lengths([&](uint32_t tree) { return uint32_t(fronts[tree]); }, used, LIMIT, over);
    const Count bits = coded_bits(shared.sums, used, LIMIT, at_length);
    Count unlimited = bits;
    if (UNLIMITED && over > 0 && floor == 0) {
        unlimited = unlimited_bits(used, memory);
    }
    to.at_length[lane_id()] = at_length;
    if (lane_id() == 0) {
        to.bits = bits;
    }
    return {over > 0, unlimited};
}

// Whether the tries of the limit's step (3) are due, of the tree of the counts as they are and its `bits`.
__device__ inline bool tries_are_due(const Tree &tree, Count bits) {
    return tree.limited && bits > tree.unlimited + tree.unlimited / 2048;
}

// The code with the fewest bits, the earlier of equals; by a warp, a lane a length.
__device__ inline uint32_t best_code(const Lengths *codes, bool due, Count &bits) {
    Count fewest =
        lane_id() == 0 || (due && lane_id() <= FLOORS) ? codes[min_of(lane_id(), FLOORS + 0u)].bits : ~Count(0);
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

__device__ inline uint32_t run_bytes(uint32_t run) { return run < LONG_RUN ? 1 : run - LONG_RUN < 1u << 7 ? 2 : 3; }

// Writes the codebook's bytes (docs/FORMAT.md, "Codebook"); returns how many. `starts` are those of the runs of equal
// lengths among the first `alphabet` symbols.
__device__ inline uint32_t write_bytes(const Shared &shared, const uint16_t *starts, uint32_t runs, uint32_t alphabet,
                                       uint8_t *bytes) {
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
        uint32_t at = written + block_exclusive_sum<THREADS, uint32_t>(i < runs ? run_bytes(run) : 0, warp_sums, total);
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

// Words of lengths that warps exchange: rows that start in banks of their own.
constexpr uint32_t WARP_ROW = WARP + 2;

// A canonical code, a lane a length: the first codeword of each, how many are shorter. And the longest, and how many
// runs of equal lengths the symbols have.
struct NewCode {
    uint32_t first_code, entry, longest, runs;
};

// From the numbers of each length, a lane a length in every warp, to each symbol's codeword, as `put(symbol, codeword,
// place among all codewords)`, and to where the runs of equal lengths start among the first `alphabet` symbols. By the
// whole block; `of_warp` has a row for each warp.
template <typename Put>
__device__ inline NewCode assign_codewords(Shared &shared, uint32_t used, uint32_t alphabet, uint32_t at_length,
                                           uint16_t (*of_warp)[WARP_ROW], uint16_t *starts, Put put) {
    __shared__ uint32_t runs;
    const uint32_t through = warp_inclusive_sum(at_length), entry = through - at_length;
    const uint32_t longest = 31 - __clz(__ballot_sync(ALL_LANES, at_length > 0) | 1);
    const uint32_t units = lane_id() < WARP - 1 ? at_length << (WARP - 1 - lane_id()) : 0;
    // In units of 2^-31: codewords of a length start where shorter ones end.
    const uint32_t first_code = (warp_inclusive_sum(units) - units) >> (WARP - 1 - lane_id());
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
    uint32_t lengths[STRETCHES], ranks[STRETCHES], run_starts[STRETCHES], seen = 0;
    bool any[STRETCHES];
#pragma unroll
    for (uint32_t i = 0; i < STRETCHES; ++i) {
        const uint32_t symbol = (warp_id() * STRETCHES + i) * WARP + lane_id();
        lengths[i] = symbol < ROOM ? shared.lengths[symbol] : 0;
        // Most stretches of a quiet field's codes have no symbol that occurs.
        any[i] = __any_sync(ALL_LANES, lengths[i] != 0);
        const uint2 lanes = any[i] ? lanes_of_length(lengths[i]) : make_uint2(0, 0);
        const bool is_start = symbol < alphabet && (symbol == 0 || shared.lengths[symbol - 1] != lengths[i]);
        run_starts[i] = BYTES ? __ballot_sync(ALL_LANES, is_start) : 0;
        ranks[i] = __shfl_sync(ALL_LANES, seen, lengths[i]) + __popc(lanes.x & ((1u << lane_id()) - 1));
        // There is no length 0: its place counts starts of runs.
        seen += __popc(lane_id() == 0 ? run_starts[i] : lanes.y);
    }
    of_warp[warp_id()][lane_id()] = seen;
    __syncthreads();
    // Sums over warps, a length a warp: each for itself they would all do the same.
#pragma unroll 1
    for (uint32_t length = warp_id(); length <= LIMIT; length += WARPS) {
        const uint32_t count = lane_id() < WARPS ? of_warp[lane_id()][length] : 0,
                       through_warp = warp_inclusive_sum(count);
        if (lane_id() < WARPS) {
            of_warp[lane_id()][length] = through_warp - count;
        }
        if (length == 0 && lane_id() == WARP - 1) {
            runs = through_warp;
        }
    }
    __syncthreads();
    const uint32_t before = of_warp[warp_id()][lane_id()];
    uint32_t run = __shfl_sync(ALL_LANES, before, 0);
#pragma unroll
    for (uint32_t i = 0; i < STRETCHES; ++i) {
        const uint32_t symbol = (warp_id() * STRETCHES + i) * WARP + lane_id();
        uint32_t code = 0, place = 0;
        if (any[i]) {
            const uint32_t rank = __shfl_sync(ALL_LANES, before, lengths[i]) + ranks[i];
            code = __shfl_sync(ALL_LANES, first_code, lengths[i]) + rank;
            place = __shfl_sync(ALL_LANES, entry, lengths[i]) + rank;
        }
        if (symbol < SYMBOLS) {
            put(symbol, lengths[i] == 0 ? 0 : lengths[i] << 27 | code, place);
        }
        if (BYTES) {
            if (run_starts[i] >> lane_id() & 1) {
                starts[run + __popc(run_starts[i] & ((1u << lane_id()) - 1))] = symbol;
            }
            run += __popc(run_starts[i]);
        }
    }
    return {first_code, entry, longest, runs};
}
