// Tables of symbols: how a chunk has them, and how blocks are decoded with them.
//
// THREADS  threads of a block that reads tables
#pragma once
#include "blocks/constants.cuh"
#include "blocks/packed.cuh"
#include "blocks/structs.cuh"
#include "device/warp.cuh"

constexpr uint32_t TOTAL = 1u << blocks::TABLE_LOG2;

// The slots of a symbol, as a word.
struct Interval {
    uint32_t word;

    __device__ inline explicit Interval(uint32_t word) : word(word) {}
    __device__ inline Interval(uint32_t symbol, uint32_t start, uint32_t frequency)
        : word(start | (frequency - 1) << blocks::TABLE_LOG2 | symbol << 2 * blocks::TABLE_LOG2) {}
    __device__ inline uint32_t start() const { return word % TOTAL; }
    __device__ inline uint32_t frequency() const { return (word >> blocks::TABLE_LOG2) % TOTAL + 1; }
    __device__ inline uint32_t symbol() const { return word >> 2 * blocks::TABLE_LOG2; }
};

// A table for decoding. It is small, so that tables fit into shared memory: the slots are in parts of eight, each of
// which has the number of its first interval and, above it, a bit for each other slot with which one begins.
constexpr uint32_t PART_SLOTS = 8, PARTS = TOTAL / PART_SLOTS;

struct DecodeTable {
    uint16_t parts[PARTS];
    uint32_t intervals[blocks::INTERVALS]; // those that are not empty

    __device__ inline Interval find(uint32_t slot) const {
        const uint32_t part = parts[slot / PART_SLOTS], begun = part >> 8 & ((1u << slot % PART_SLOTS) - 1);
        return Interval(intervals[(part & 255) + __popc(begun)]);
    }
    // Returns the frequency of symbol 0, which may be 0.
    __device__ inline uint32_t of_zero() const {
        const Interval first(intervals[0]);
        return first.symbol() == 0 ? first.frequency() : 0;
    }
};
static_assert(sizeof(DecodeTable) == blocks::DECODE_TABLE_BYTES && blocks::INTERVALS >= blocks::SYMBOLS,
              "the launcher knows the size");

// Shared memory for reading tables.
struct TableScratch {
    uint16_t weights[blocks::CONTEXTS][blocks::SYMBOLS];
    uint16_t parts[THREADS / WARP][PARTS]; // of the table that a warp makes
    uint8_t of_context[blocks::CONTEXTS];
    uint32_t tables;
    bool is_good;
};

// Reads the weights of a table. Returns whether they are valid.
__device__ inline bool read_weights(PackedReader &reader, uint32_t precision, uint16_t *weights) {
    constexpr uint32_t LENGTH_BITS = 7;
    constexpr int32_t FIRST_EXPONENT = 10;
    const uint32_t count = reader.take(LENGTH_BITS);
    if (count > blocks::SYMBOLS) {
        return false;
    }
    int32_t before = FIRST_EXPONENT;
    uint32_t any = 0;
    for (uint32_t symbol = 0; symbol < count; ++symbol) {
        const int32_t change = reader.take_signed();
        // Small enough not to overflow; the largest valid exponent is that of the total and one more.
        if (change < -32 || change > 32 || !reader.is_good) {
            return false;
        }
        const int32_t exponent = before + change;
        if (exponent < 0 || exponent > int32_t(blocks::TABLE_LOG2) + 1) {
            return false;
        }
        if (exponent > 0) {
            const uint32_t bits = uint32_t(exponent) - 1, kept = min_of(precision, bits);
            weights[symbol] = uint16_t((1u << kept | reader.take(kept)) << (bits - kept));
            any |= weights[symbol];
            before = exponent;
        }
    }
    if (any == 0) {
        weights[0] = 1;
    }
    return reader.is_good;
}

// Reads the weights of all tables, which are 0 before. Called by one thread.
__device__ inline void read_all_weights(PackedReader &reader, TableScratch &scratch) {
    constexpr uint32_t PRECISION_BITS = 3;
    const uint32_t precision = reader.take(PRECISION_BITS);
    uint32_t tables = 0;
    bool is_good = true;
    for (uint32_t context = 0; context < blocks::CONTEXTS && is_good; ++context) {
        if (reader.take(1) != 0) {
            is_good = read_weights(reader, precision, scratch.weights[tables]);
            ++tables;
        }
        is_good &= tables > 0 && reader.is_good;
        scratch.of_context[context] = uint8_t(tables - 1);
    }
    scratch.tables = tables;
    scratch.is_good = is_good && reader.is_finished();
}

// Rounds in which a warp has all symbols, a lane each, and one more.
constexpr uint32_t SYMBOL_ROUNDS = (blocks::SYMBOLS + WARP) / WARP;

// A number for each symbol, a lane each.
struct OfSymbols {
    uint32_t of[SYMBOL_ROUNDS];

    __device__ inline static uint32_t symbol(uint32_t round) { return round * WARP + lane_id(); }
};

// Returns the frequencies of weights, of which one is not 0. Called by a whole warp.
__device__ inline OfSymbols frequencies_of(const OfSymbols &weights) {
    uint32_t sum = 0;
    for (uint32_t round = 0; round < SYMBOL_ROUNDS; ++round) {
        sum += weights.of[round];
    }
    sum = warp_reduce_sum(sum);
    OfSymbols frequencies;
    uint32_t given = 0, most = 0;
    for (uint32_t round = 0; round < SYMBOL_ROUNDS; ++round) {
        const uint32_t weight = weights.of[round];
        frequencies.of[round] = weight == 0 ? 0 : max_of(weight * TOTAL / sum, 1u);
        given += frequencies.of[round];
        // The most frequent symbol, the first of several.
        most = max_of(most, frequencies.of[round] << 8 | (255 - OfSymbols::symbol(round)));
    }
    given = warp_reduce_sum(given);
    most = 255 - (warp_reduce_max(most) & 255);
    for (uint32_t round = 0; round < SYMBOL_ROUNDS; ++round) {
        frequencies.of[round] += OfSymbols::symbol(round) == most ? TOTAL - given : 0;
    }
    return frequencies;
}

// Calls `visit(symbol, start, frequency)` for every symbol, and for some behind the last one, whose start is TOTAL and
// which have no frequency. Called by a whole warp.
template <typename Visit> __device__ inline void for_each_start(const OfSymbols &frequencies, Visit visit) {
    uint32_t carry = 0;
    for (uint32_t round = 0; round < SYMBOL_ROUNDS; ++round) {
        const uint32_t own = frequencies.of[round], through = warp_inclusive_sum(own);
        visit(OfSymbols::symbol(round), carry + through - own, own);
        carry += warp_broadcast(through, WARP - 1);
    }
}

// Makes a table for decoding from weights, of which one is not 0. Called by a whole warp.
__device__ inline void make_table(const uint16_t *weights, uint16_t *parts, DecodeTable &table) {
    OfSymbols own;
    for (uint32_t round = 0; round < SYMBOL_ROUNDS; ++round) {
        const uint32_t symbol = OfSymbols::symbol(round);
        own.of[round] = symbol < blocks::SYMBOLS ? weights[symbol] : 0;
    }
    uint32_t number = 0;
    for_each_start(frequencies_of(own), [&](uint32_t symbol, uint32_t start, uint32_t frequency) {
        // All lanes make the interval of one symbol after the other.
        for (uint32_t used = __ballot_sync(ALL_LANES, frequency > 0); used != 0; used &= used - 1, ++number) {
            const uint32_t lane = __ffs(int32_t(used)) - 1;
            const uint32_t of = warp_broadcast(symbol, lane), from = warp_broadcast(start, lane),
                           count = warp_broadcast(frequency, lane);
            for (uint32_t part = ceil_div(from, PART_SLOTS) + lane_id(); part * PART_SLOTS < from + count;
                 part += WARP) {
                parts[part] = uint16_t(number);
            }
            __syncwarp();
            if (lane_id() == 0) {
                table.intervals[number] = Interval(of, from, count).word;
                if (from % PART_SLOTS != 0) {
                    parts[from / PART_SLOTS] |= uint16_t(1u << (8 + from % PART_SLOTS - 1));
                }
            }
            __syncwarp();
        }
    });
    for (uint32_t i = lane_id(); i < PARTS; i += WARP) {
        table.parts[i] = parts[i];
    }
    __syncwarp();
}
