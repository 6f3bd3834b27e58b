// Steps on the way from sorted counts to a codebook that are a warp's or a block's: trees, the best code, the codebook's bytes. See huffman_codebook_small.cu.
#pragma once
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

// A canonical code, a lane a length: the first codeword of each, how many are shorter. And the longest, and how many runs of equal lengths the symbols have.
struct NewCode {
    uint32_t first_code, entry, longest, runs;
};

// From the numbers of each length, a lane a length in every warp, to each symbol's codeword, as `put(symbol, codeword, place among all codewords)`, and to where the runs of equal lengths
// start among the first `alphabet` symbols. By the whole block; `of_warp` has a row for each warp.
template <typename Put>
__device__ inline NewCode assign_codewords(Shared &shared, uint32_t used, uint32_t alphabet, uint32_t at_length, uint16_t (*of_warp)[WARP], uint16_t *starts, Put put) {
    const uint32_t through = warp_scan_inclusive(at_length), entry = through - at_length;
    const uint32_t longest = 31 - __clz(__ballot_sync(ALL_LANES, at_length > 0) | 1);
    const uint32_t units = lane_id() < WARP - 1 ? at_length << (WARP - 1 - lane_id()) : 0;
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
    uint32_t lengths[STRETCHES], ranks[STRETCHES], run_starts[STRETCHES], seen = 0;
#pragma unroll
    for (uint32_t i = 0; i < STRETCHES; ++i) {
        const uint32_t symbol = (warp_id() * STRETCHES + i) * WARP + lane_id();
        lengths[i] = symbol < ROOM ? shared.lengths[symbol] : 0;
        const uint2 lanes = lanes_of_length(lengths[i]);
        const bool is_start = symbol < alphabet && (symbol == 0 || shared.lengths[symbol - 1] != lengths[i]);
        run_starts[i] = BYTES ? __ballot_sync(ALL_LANES, is_start) : 0;
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
#pragma unroll
    for (uint32_t i = 0; i < STRETCHES; ++i) {
        const uint32_t symbol = (warp_id() * STRETCHES + i) * WARP + lane_id();
        const uint32_t rank = __shfl_sync(ALL_LANES, before, lengths[i]) + ranks[i];
        const uint32_t code = __shfl_sync(ALL_LANES, first_code, lengths[i]) + rank, place = __shfl_sync(ALL_LANES, entry, lengths[i]) + rank;
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
