// Tables of symbols: how a chunk has them, and how blocks are decoded with them.
//
// THREADS  threads of a block that reads tables
#pragma once
#include "blocks/constants.cuh"
#include "blocks/packed.cuh"
#include "blocks/structs.cuh"
#include "device/warp.cuh"

constexpr uint32_t TOTAL = 1u << blocks::TABLE_LOG2;

// A table for decoding: the symbol of each slot, and of each symbol its first slot and, above it, its number of slots.
struct DecodeTable {
    uint8_t symbols[TOTAL];
    uint32_t intervals[blocks::INTERVALS];
};
static_assert(sizeof(DecodeTable) == blocks::DECODE_TABLE_BYTES && blocks::INTERVALS >= blocks::SYMBOLS,
              "the launcher knows the size");

// Shared memory for reading tables.
struct TableScratch {
    uint16_t weights[blocks::CONTEXTS][blocks::SYMBOLS];
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
__device__ inline void make_table(const uint16_t *weights, DecodeTable &table) {
    OfSymbols own;
    for (uint32_t round = 0; round < SYMBOL_ROUNDS; ++round) {
        const uint32_t symbol = OfSymbols::symbol(round);
        own.of[round] = symbol < blocks::SYMBOLS ? weights[symbol] : 0;
    }
    for_each_start(frequencies_of(own), [&](uint32_t symbol, uint32_t start, uint32_t frequency) {
        if (symbol < blocks::INTERVALS) {
            table.intervals[symbol] = start | frequency << 16;
        }
        // All lanes write the slots of one symbol after the other.
        for (uint32_t used = __ballot_sync(ALL_LANES, frequency > 0); used != 0; used &= used - 1) {
            const uint32_t lane = __ffs(int32_t(used)) - 1;
            const uint32_t of = warp_broadcast(symbol, lane), from = warp_broadcast(start, lane),
                           end = from + warp_broadcast(frequency, lane);
            for (uint32_t slot = from + lane_id(); slot < end; slot += WARP) {
                table.symbols[slot] = uint8_t(of);
            }
        }
    });
}
