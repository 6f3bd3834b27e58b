// Which groups of a large stream its symbols are counted in, and what is made of the counts: as
// syncline_core::huffman::sample says.
//
// LEAST_LOTS      lots of a stream at the least, if lots are of more than one group
// MOST_LOT_LOG2   logarithm of the groups in the largest lots
// SAMPLE_WEIGHT   what a symbol counted is worth
// SAMPLE_FLOOR    the least share of all that a symbol that may occur has: so many parts of 2^SAMPLE_FLOOR_LOG2
// GOLDEN          multiplied with a lot's number, its top bits say index of its groups is counted
#pragma once
#include "huffman/stream_input.cuh"

// Logarithm of the groups of a lot, of index one is counted.
__device__ inline uint32_t lot_log2(const StreamInput &span) {
    const uint32_t lots = span.symbol_range == 0 ? 0 : span.groups / LEAST_LOTS;
    return lots < 2 ? 0 : min_of<uint32_t>(31 - __clz(lots), MOST_LOT_LOG2);
}
// Lots, of index the last may be without the group that is counted.
__device__ inline uint32_t lots_of(const StreamInput &span) {
    const uint32_t log2 = lot_log2(span);
    return (span.groups + (1u << log2) - 1) >> log2;
}
// The group that is counted in a lot of 2^`log2`.
__device__ inline uint32_t counted_group(uint32_t lot, uint32_t log2) {
    return (lot << log2) + (lot * uint32_t(GOLDEN) >> (32 - MOST_LOT_LOG2) >> (MOST_LOT_LOG2 - log2));
}
// The least frequency where so many symbols have been counted in a sample: at most 2^20.
__device__ inline uint32_t least_frequency(uint32_t counted) {
    return max_of<uint32_t>(counted * SAMPLE_WEIGHT * SAMPLE_FLOOR >> SAMPLE_FLOOR_LOG2, 1);
}
// The frequency of a symbol counted in a sample.
__device__ inline uint32_t frequency(uint32_t count, uint32_t symbol, const StreamInput &span, uint32_t least) {
    const bool may_occur = symbol == 0 || (symbol >= (span.symbol_range & 0xFFFF) && symbol <= span.symbol_range >> 16);
    return may_occur ? max_of<uint32_t>(count * SAMPLE_WEIGHT, least) : 0;
}
