// Tables of symbols: how a chunk has them, and how blocks are decoded with them.
//
// THREADS  threads of a block that reads tables
#pragma once
#include "blocks/constants.cuh"
#include "blocks/packed.cuh"
#include "blocks/structs.cuh"
#include "blocks/symbol.cuh"
#include "device/warp.cuh"

constexpr uint32_t TOTAL = 1u << blocks::TABLE_LOG2;
// States are at least this after each event. Decoders end with it.
constexpr uint32_t LOWEST = 1u << 16;

// The slots of a symbol, and how many bits behind it are coded with it, as a word.
struct Interval {
    uint32_t word;

    static constexpr uint32_t SYMBOL_SHIFT = 2 * blocks::TABLE_LOG2, BITS_SHIFT = SYMBOL_SHIFT + 7;

    __device__ inline explicit Interval(uint32_t word) : word(word) {}
    __device__ inline Interval(uint32_t symbol, uint32_t start, uint32_t frequency)
        : word(start | (frequency - 1) << blocks::TABLE_LOG2 | symbol << SYMBOL_SHIFT |
               min_of(bits_of_symbol(symbol), EARLY_BITS) << BITS_SHIFT) {}
    __device__ inline uint32_t start() const { return word % TOTAL; }
    __device__ inline uint32_t frequency() const { return (word >> blocks::TABLE_LOG2) % TOTAL + 1; }
    __device__ inline uint32_t symbol() const { return word >> SYMBOL_SHIFT & 127; }
    __device__ inline uint32_t early_bits() const { return word >> BITS_SHIFT; }
    // Whether there are more bits behind the symbol: from four times one more than the early ones on.
    __device__ inline bool has_late_bits() const {
        return word >= EARLY_BITS << BITS_SHIFT && symbol() >= 4 * (EARLY_BITS + 1);
    }
};
static_assert(EARLY_BITS < 8 && blocks::SYMBOLS <= 128, "all fields fit into a word");

// A table for decoding. It is small, so that tables fit into shared memory: the slots are in parts of 24, each of which
// has the number of its first interval and, above it, a bit for each other slot with which one begins.
constexpr uint32_t PART_SLOTS = 24, PARTS = (TOTAL + PART_SLOTS - 1) / PART_SLOTS, NUMBER_BITS = 8;

struct DecodeTable {
    uint32_t parts[PARTS];
    uint32_t intervals[blocks::INTERVALS]; // those that are not empty

    // Returns the number of the interval of a slot of a part.
    __device__ inline static uint32_t interval(uint32_t part, uint32_t slot) {
        return (part & 255) + __popc(part >> NUMBER_BITS & ((1u << slot % PART_SLOTS) - 1));
    }
    __device__ inline Interval find(uint32_t slot) const {
        return Interval(intervals[interval(parts[slot / PART_SLOTS], slot)]);
    }
    // Returns the frequency of symbol 0, which may be 0.
    __device__ inline uint32_t of_zero() const {
        const Interval first(intervals[0]);
        return first.symbol() == 0 ? first.frequency() : 0;
    }
};
static_assert(sizeof(DecodeTable) == blocks::DECODE_TABLE_BYTES && blocks::INTERVALS >= blocks::SYMBOLS,
              "the launcher knows the size");

// The slots of a symbol for encoding: the first, 11 bits; their number, 12 bits; how many bits behind the symbol are
// coded with it, 3 bits, and apart from it, 4 bits; and the inverse of the number in units of 2^-32, rounded down.
struct EncodeInterval {
    uint64_t word;

    static constexpr uint32_t FREQUENCY_BITS = blocks::TABLE_LOG2 + 1,
                              EARLY_SHIFT = blocks::TABLE_LOG2 + FREQUENCY_BITS, LATE_SHIFT = EARLY_SHIFT + 3;

    __device__ inline explicit EncodeInterval(uint64_t word) : word(word) {}
    __device__ inline EncodeInterval(uint32_t symbol, uint32_t start, uint32_t frequency) {
        const uint32_t bits = bits_of_symbol(symbol), early = min_of(bits, EARLY_BITS);
        const uint32_t inverse = frequency > 1 ? uint32_t((uint64_t(1) << 32) / frequency) : ALL_LANES;
        word = start | frequency << blocks::TABLE_LOG2 | early << EARLY_SHIFT | (bits - early) << LATE_SHIFT |
               uint64_t(inverse) << 32;
    }
    // Leaves a state as it is: nothing is large enough for it, and the whole is added to nothing.
    __device__ inline static EncodeInterval none() { return EncodeInterval(0, 0, TOTAL); }
    __device__ inline uint32_t start() const { return uint32_t(word) % TOTAL; }
    __device__ inline uint32_t frequency() const {
        return uint32_t(word) >> blocks::TABLE_LOG2 & ((1u << FREQUENCY_BITS) - 1);
    }
    __device__ inline uint32_t early_bits() const { return uint32_t(word) >> EARLY_SHIFT & 7; }
    __device__ inline uint32_t late_bits() const { return uint32_t(word) >> LATE_SHIFT & 15; }
    __device__ inline uint32_t inverse() const { return uint32_t(word >> 32); }
};

// Shared memory for reading tables.
struct TableScratch {
    uint16_t weights[blocks::CONTEXTS][blocks::SYMBOLS];
    uint32_t parts[THREADS / WARP][PARTS]; // of the table that a warp makes
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
__device__ inline void make_table(const uint16_t *weights, uint32_t *parts, DecodeTable &table) {
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
                parts[part] = number;
            }
            __syncwarp();
            if (lane_id() == 0) {
                table.intervals[number] = Interval(of, from, count).word;
                if (from % PART_SLOTS != 0) {
                    parts[from / PART_SLOTS] |= 1u << (NUMBER_BITS + from % PART_SLOTS - 1);
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
