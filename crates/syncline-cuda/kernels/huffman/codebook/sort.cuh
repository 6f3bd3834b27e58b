// Sorts symbols by (count, symbol), by a group of blocks.
//
// CONTROL_BYTES  bytes of the control block, which is 0 at the start and may be elsewhere
// MEMORY_BYTES   bytes of the group's memory, including the control block
#pragma once
#include "device/radix_partition.cuh"

constexpr uint32_t SYMBOL_BITS = 16;
constexpr uint32_t DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS;
// Larger counts are clamped. Count and symbol then fit into 64 bits, and no sum overflows: all counts sum to less than
// 2^59, and the bits of their codewords to less than 32 times that.
constexpr uint64_t LARGEST_COUNT = (1ull << 43) - 1;
constexpr uint32_t STATUS_COUNT_CLAMPED = 1;

// Shared by the group; 0 at the start.
struct Control {
    uint32_t barrier, barrier_of_writers;
    uint64_t all_counts; // bitwise or
    uint64_t total;      // of the counts
    uint32_t status;
};

struct Arrays {
    uint64_t *keys; // count << SYMBOL_BITS | symbol, ascending when sorted; with one more entry, like the next array
    uint64_t *internal;     // weights of internal trees; before that the sort's second buffer, after that prefix sums
    uint32_t *digit_counts; // COOPERATIVE_BLOCKS x DIGITS
    uint16_t *fronts;       // of internal trees: the next internal tree when it was made
    uint8_t *lengths;
    Control *control;
};

constexpr uint32_t SHARED_DIGIT_COUNTS = COOPERATIVE_BLOCKS > 1 ? COOPERATIVE_BLOCKS *DIGITS : 0;
static_assert(sizeof(Control) <= CONTROL_BYTES && CONTROL_BYTES % 16 == 0, "the host gives the control");
static_assert(CONTROL_BYTES + SYMBOLS * 19 + 16 + SHARED_DIGIT_COUNTS * 4 <= MEMORY_BYTES,
              "the host gives enough memory");

__device__ inline Arrays layout(uint8_t *memory, void *control) {
    Arrays a;
    a.control = static_cast<Control *>(control);
    a.keys = reinterpret_cast<uint64_t *>(memory + CONTROL_BYTES);
    a.internal = a.keys + SYMBOLS + 1;
    a.digit_counts = reinterpret_cast<uint32_t *>(a.internal + SYMBOLS + 1);
    a.fronts = reinterpret_cast<uint16_t *>(a.digit_counts + SHARED_DIGIT_COUNTS);
    a.lengths = reinterpret_cast<uint8_t *>(a.fronts + SYMBOLS);
    return a;
}

// Sorts the keys. Returns the number of symbols that do not occur, whose keys come first.
__device__ inline uint32_t sort_symbols(CooperativeGroup &group, Partition<DIGITS> &partition, Arrays &a,
                                        const uint64_t *counts) {
    uint64_t all = 0, total = 0;
    for (uint32_t symbol = group.rank; symbol < SYMBOLS; symbol += CooperativeGroup::SIZE) {
        uint64_t count = counts[symbol];
        if (count > LARGEST_COUNT) {
            count = LARGEST_COUNT;
            atomicOr(&a.control->status, STATUS_COUNT_CLAMPED);
        }
        all |= count;
        total += count;
        a.keys[symbol] = count << SYMBOL_BITS | symbol;
    }
    for (uint32_t distance = WARP / 2; distance > 0; distance /= 2) {
        all |= __shfl_xor_sync(ALL_LANES, all, distance);
        total += __shfl_xor_sync(ALL_LANES, total, distance);
    }
    if (lane_id() == 0 && all != 0) {
        atomicOr(&a.control->all_counts, all);
        atomicAdd(&a.control->total, total);
    }
    group.sync();
    all = load_from_group(&a.control->all_counts);
    uint64_t *from = a.keys, *to = a.internal;
    for (uint32_t shift = SYMBOL_BITS; shift < 64 && all >> (shift - SYMBOL_BITS) != 0; shift += DIGIT_BITS) {
        if ((all >> (shift - SYMBOL_BITS) & (DIGITS - 1)) == 0) {
            continue;
        }
        partition_by_digit(
            group, partition, [&](uint32_t item) { return load_from_group(&from[item]); },
            [&](uint64_t key) { return uint32_t(key >> shift) & (DIGITS - 1); },
            [&](uint32_t, uint64_t key, uint32_t position) { to[position] = key; });
        uint64_t *other = from;
        from = to;
        to = other;
    }
    a.keys = from;
    a.internal = to;
    return partition_point(0, SYMBOLS, [&](uint32_t i) { return load_from_group(&a.keys[i]) >> SYMBOL_BITS == 0; });
}
