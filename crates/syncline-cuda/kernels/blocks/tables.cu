// Makes the tables of chunks from counted symbols: a block of threads each, a warp for each precision that is tried.
//
// THREADS  threads of a block
#include "blocks/contexts.cuh"
#include "blocks/logarithm.cuh"
#include "blocks/tables.cuh"
#include "device/sync.cuh"

// Bits of a weight after its highest, at most: those that are tried.
constexpr uint32_t PRECISIONS = 4;
__device__ inline uint32_t precision_of(uint32_t number) { return number < 3 ? number + 1 : 5; }
static_assert(THREADS == PRECISIONS * WARP, "a warp for each precision");
constexpr uint32_t PRECISION_BITS = 3, LENGTH_BITS = 7;
constexpr int32_t FIRST_EXPONENT = 10;

// Contexts that share a table, in shared memory.
struct Groups {
    uint32_t counts[blocks::CONTEXTS][blocks::SYMBOLS];
    uint8_t first[blocks::CONTEXTS]; // whether a group begins with a context
    uint8_t of_context[blocks::CONTEXTS];
    uint32_t count;
    uint64_t prices[PRECISIONS];
};

__device__ inline OfSymbols load(const uint32_t *counts) {
    OfSymbols own;
    for (uint32_t round = 0; round < SYMBOL_ROUNDS; ++round) {
        own.of[round] = OfSymbols::symbol(round) < blocks::SYMBOLS ? counts[OfSymbols::symbol(round)] : 0;
    }
    return own;
}
__device__ inline uint32_t sum_of(const OfSymbols &counts) {
    uint32_t sum = 0;
    for (uint32_t round = 0; round < SYMBOL_ROUNDS; ++round) {
        sum += counts.of[round];
    }
    return warp_reduce_sum(sum);
}

// Returns about what a table for counts and their symbols cost, in bits. Called by a whole warp.
__device__ inline uint64_t cost_of(const OfSymbols &counts) {
    uint64_t of_symbols = 0;
    uint32_t used = 0;
    for (uint32_t round = 0; round < SYMBOL_ROUNDS; ++round) {
        of_symbols += times_log2(counts.of[round]);
        used += counts.of[round] > 0;
    }
    of_symbols = warp_reduce_sum(of_symbols);
    used = warp_reduce_sum(used);
    const uint64_t of_sum = times_log2(sum_of(counts));
    return ((of_sum - min_of(of_symbols, of_sum)) >> LOG_BITS) + 4 * used + 8;
}

// Joins contexts with the ones before where that saves bits. Called by a whole warp.
__device__ inline void group(const uint32_t *counts, Groups &groups) {
    OfSymbols last{};
    uint64_t last_cost = 0;
    uint32_t count = 0;
    for (uint32_t context = 0; context < blocks::CONTEXTS; ++context) {
        const OfSymbols own = load(counts + context * blocks::SYMBOLS);
        const bool is_used = sum_of(own) > 0;
        bool is_new = count == 0;
        if (is_used || is_new) {
            const uint64_t cost = cost_of(own);
            OfSymbols both = own;
            for (uint32_t round = 0; round < SYMBOL_ROUNDS; ++round) {
                both.of[round] += last.of[round];
            }
            const uint64_t joined = cost_of(both);
            is_new |= begins_contexts(context) || joined > last_cost + cost;
            last = is_new ? own : both;
            last_cost = is_new ? cost : joined;
        } else {
            // A table that is joined to nothing costs what it did.
        }
        count += is_new;
        if (lane_id() == 0) {
            groups.first[context] = is_new;
            groups.of_context[context] = uint8_t(count - 1);
        }
        for (uint32_t round = 0; round < SYMBOL_ROUNDS; ++round) {
            if (OfSymbols::symbol(round) < blocks::SYMBOLS) {
                groups.counts[count - 1][OfSymbols::symbol(round)] = last.of[round];
            }
        }
    }
    if (lane_id() == 0) {
        groups.count = count;
    }
}

// Returns the weights of counts: about their share of TOTAL, of which `precision` bits after the highest are kept.
__device__ inline OfSymbols weights_of(const OfSymbols &counts, uint32_t precision) {
    const uint32_t sum = sum_of(counts);
    OfSymbols weights;
    for (uint32_t round = 0; round < SYMBOL_ROUNDS; ++round) {
        const uint32_t count = counts.of[round];
        uint32_t weight = 0;
        if (count > 0) {
            const uint64_t exact = (uint64_t(count) * TOTAL + sum / 2) / sum;
            weight = uint32_t(min_of<uint64_t>(max_of<uint64_t>(exact, 1), TOTAL));
            const uint32_t log2 = 31 - __clz(weight), rest = log2 > precision ? log2 - precision : 0;
            weight = (weight + (1u << rest >> 1)) >> rest << rest;
        }
        weights.of[round] = weight;
    }
    return weights;
}

// The exponents of weights as they are written: calls `visit(symbol, change, exponent, weight)` on the lane of each
// symbol up to the last one that occurs. Returns their number. Called by a whole warp.
template <typename Visit> __device__ inline uint32_t for_each_exponent(const OfSymbols &weights, Visit visit) {
    uint32_t count = 0;
    for (uint32_t round = 0; round < SYMBOL_ROUNDS; ++round) {
        count = max_of(count, weights.of[round] > 0 ? OfSymbols::symbol(round) + 1 : 0);
    }
    count = warp_reduce_max(count);
    int32_t carry = FIRST_EXPONENT;
    for (uint32_t round = 0; round < SYMBOL_ROUNDS; ++round) {
        const uint32_t weight = weights.of[round];
        const int32_t exponent = weight == 0 ? 0 : 32 - __clz(weight);
        const uint32_t present = __ballot_sync(ALL_LANES, weight > 0), below = present & ((1u << lane_id()) - 1);
        const int32_t of_below = __shfl_sync(ALL_LANES, exponent, below == 0 ? 0 : 31 - __clz(below));
        const int32_t of_last = __shfl_sync(ALL_LANES, exponent, present == 0 ? 0 : 31 - __clz(present));
        if (OfSymbols::symbol(round) < count) {
            visit(OfSymbols::symbol(round), exponent - (below == 0 ? carry : of_below), exponent, weight);
        }
        carry = present == 0 ? carry : of_last;
    }
    return count;
}

// Returns the bits of all tables with a precision and of their symbols, in units of 2^-16. Called by a whole warp.
__device__ inline uint64_t price(const Groups &groups, uint32_t precision) {
    uint64_t bits = 0, symbols = 0;
    for (uint32_t i = 0; i < groups.count; ++i) {
        const OfSymbols counts = load(groups.counts[i]), weights = weights_of(counts, precision);
        const uint32_t used = for_each_exponent(weights, [&](uint32_t, int32_t change, int32_t exponent, uint32_t) {
            bits +=
                gamma_bits(zigzag(uint32_t(change))) + (exponent > 0 ? min_of(precision, uint32_t(exponent) - 1) : 0);
        });
        bits += lane_id() == 0 ? LENGTH_BITS : 0;
        if (used > 0) {
            const OfSymbols frequencies = frequencies_of(weights);
            for (uint32_t round = 0; round < SYMBOL_ROUNDS; ++round) {
                const uint32_t frequency = max_of(frequencies.of[round], 1u);
                const uint32_t cost = (blocks::TABLE_LOG2 << LOG_BITS) - uint32_t(times_log2(frequency) / frequency);
                symbols += uint64_t(counts.of[round]) * cost;
            }
        }
    }
    const uint64_t all = warp_reduce_sum(bits) + PRECISION_BITS + blocks::CONTEXTS;
    return (all << LOG_BITS) + warp_reduce_sum(symbols);
}

// Returns the number of events of a chunk, and the bits behind their symbols. Called by a whole warp.
__device__ inline void sum_events(const Groups &groups, uint64_t &events, uint64_t &bits_behind) {
    uint64_t own_events = 0, own_bits = 0;
    for (uint32_t i = 0; i < groups.count; ++i) {
        for (uint32_t symbol = lane_id(); symbol < blocks::SYMBOLS; symbol += WARP) {
            own_events += groups.counts[i][symbol];
            own_bits += uint64_t(groups.counts[i][symbol]) * bits_of_symbol(symbol);
        }
    }
    events = warp_reduce_sum(own_events);
    bits_behind = warp_reduce_sum(own_bits);
}

// Writes the tables, and prepares them for encoding. Called by a whole warp.
__device__ inline void write_tables(const Groups &groups, uint32_t precision, uint32_t *out, EncodeTables &to) {
    PackedWriter writer(out);
    writer.put(precision, PRECISION_BITS);
    uint32_t next = 0;
    for (uint32_t context = 0; context < blocks::CONTEXTS; ++context) {
        writer.put(groups.first[context], 1);
        if (groups.first[context] == 0) {
            continue;
        }
        const uint32_t table = next++;
        const OfSymbols weights = weights_of(load(groups.counts[table]), precision);
        int32_t changes[SYMBOL_ROUNDS] = {};
        const uint32_t used = for_each_exponent(
            weights, [&](uint32_t symbol, int32_t change, int32_t, uint32_t) { changes[symbol / WARP] = change; });
        writer.put(used, LENGTH_BITS);
        for (uint32_t symbol = 0; symbol < used; ++symbol) {
            int32_t change = 0;
            uint32_t weight = 0;
            for (uint32_t round = 0; round < SYMBOL_ROUNDS; ++round) {
                const int32_t own_change = __shfl_sync(ALL_LANES, changes[round], symbol % WARP);
                const uint32_t own_weight = __shfl_sync(ALL_LANES, weights.of[round], symbol % WARP);
                change = round == symbol / WARP ? own_change : change;
                weight = round == symbol / WARP ? own_weight : weight;
            }
            writer.put_signed(change);
            if (weight > 0) {
                const uint32_t log2 = 31 - __clz(weight), kept = min_of(precision, log2);
                writer.put(weight >> (log2 - kept) & ((1u << kept) - 1), kept);
            }
        }
        OfSymbols present = weights;
        present.of[0] = used == 0 && lane_id() == 0 ? 1 : present.of[0];
        for_each_start(frequencies_of(present), [&](uint32_t symbol, uint32_t start, uint32_t frequency) {
            if (symbol < blocks::INTERVALS) {
                to.intervals[table * blocks::INTERVALS + symbol] = EncodeInterval(symbol, start, frequency).word;
            }
        });
    }
    // All lanes write the same words.
    to.bytes = writer.finish();
    for (uint32_t i = lane_id(); i < blocks::CONTEXTS; i += WARP) {
        to.of_context[i] = groups.of_context[i];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) blocks_tables(const __grid_constant__ EncodedBlocks to) {
    __shared__ Groups groups;
    grid_dependency_wait();
    launch_dependents();
    const uint32_t chunk = blockIdx.x;
    if (warp_id() == 0) {
        group(to.counts + uint64_t(chunk) * blocks::CONTEXTS * blocks::SYMBOLS, groups);
    }
    __syncthreads();
    const uint64_t own = price(groups, precision_of(warp_id()));
    if (lane_id() == 0) {
        groups.prices[warp_id()] = own;
    }
    __syncthreads();
    uint32_t best = 0;
    for (uint32_t i = 1; i < PRECISIONS; ++i) {
        best = groups.prices[i] < groups.prices[best] ? i : best;
    }
    if (warp_id() == 0) {
        write_tables(groups, precision_of(best), to.table_words + uint64_t(chunk) * blocks::TABLE_ROOM / 4,
                     to.encode_tables[chunk]);
    } else if (warp_id() == 1) {
        uint64_t events, bits_behind;
        sum_events(groups, events, bits_behind);
        to.encode_tables[chunk].events = events;
        to.encode_tables[chunk].bits = (groups.prices[best] >> LOG_BITS) + bits_behind;
    }
}
