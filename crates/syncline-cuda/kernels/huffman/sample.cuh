// The sample of a large stream whose symbols are counted, and frequencies from the counts, as in
// syncline_core::huffman::sample. A lot is a run of 2^k groups of which one is counted.
//
// LEAST_LOTS         minimum number of lots if lots have more than one group
// MOST_LOT_LOG2      logarithm of the groups in the largest lots
// SAMPLE_WEIGHT      weight of a counted symbol
// SAMPLE_FLOOR       minimum frequency of a symbol that may occur, as a share of all in units of 2^-SAMPLE_FLOOR_LOG2
// GOLDEN             multiplier; the top bits of its product with a lot's number select the group
#pragma once
#include "huffman/encode/structs.cuh"

// Returns the logarithm of the groups in a lot.
__device__ inline uint32_t lot_log2(const StreamInput &span) {
    const uint32_t lots = span.symbol_range == 0 ? 0 : span.groups / LEAST_LOTS;
    return lots < 2 ? 0 : min_of<uint32_t>(31 - __clz(lots), MOST_LOT_LOG2);
}
// Returns the number of lots. The last may lack the group that is counted.
__device__ inline uint32_t lots_of(const StreamInput &span) {
    const uint32_t log2 = lot_log2(span);
    return (span.groups + (1u << log2) - 1) >> log2;
}
// Returns the group that is counted in a lot of 2^`log2` groups.
__device__ inline uint32_t counted_group(uint32_t lot, uint32_t log2) {
    return (lot << log2) + (lot * uint32_t(GOLDEN) >> (32 - MOST_LOT_LOG2) >> (MOST_LOT_LOG2 - log2));
}
// Returns the minimum frequency if `counted` symbols, at most 2^20, have been counted.
__device__ inline uint32_t least_frequency(uint32_t counted) {
    return max_of<uint32_t>(counted * SAMPLE_WEIGHT * SAMPLE_FLOOR >> SAMPLE_FLOOR_LOG2, 1);
}
// Returns the frequency of a symbol from its count in a sample.
__device__ inline uint32_t frequency(uint32_t count, uint32_t symbol, const StreamInput &span, uint32_t least) {
    const bool may_occur = symbol == 0 || (symbol >= (span.symbol_range & 0xFFFF) && symbol <= span.symbol_range >> 16);
    return may_occur ? max_of<uint32_t>(count * SAMPLE_WEIGHT, least) : 0;
}
