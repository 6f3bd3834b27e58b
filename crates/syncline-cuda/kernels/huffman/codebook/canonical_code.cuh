// A canonical code from the number of codewords of each length: GenerateCW of the 2021 paper (IPDPS, section IV-B).
// Codewords ascend by symbol within a length (the paper's ascend by count), so a stable partition of the symbols by
// length gives each its codeword, and is also the decoder's table of symbols. First and Entry follow from the number of
// codewords of each length.
#pragma once
#include "device/block.cuh"
#include "device/radix_partition.cuh"

// Words of `summary`, which src/huffman/codebook.rs reads.
constexpr uint32_t SUMMARY_USED = 0, SUMMARY_LONGEST = 1, SUMMARY_STATUS = 2, SUMMARY_ROUNDS = 3, SUMMARY_FIRST = 4,
                   SUMMARY_ENTRY = 36, SUMMARY_CYCLES = 68, SUMMARY_WORDS = 72;

struct CodeTables {
    uint32_t through[WARP], first_code[WARP], entry[WARP];
    Partition<WARP> partition;
};
static_assert(MAX_LENGTH_LARGE < WARP, "a digit is a length");

// Writes the code whose number of codewords of each length the first warp has in `at_length`, one length per lane.
// `symbol_at` returns the symbols from the rarest on, of which the first `unused` do not occur. `lengths` is scratch
// memory, one byte per symbol. Called by the whole group.
template <typename SymbolAt>
__device__ inline void write_codewords(CooperativeGroup &group, CodeTables &code, uint32_t at_length,
                                       SymbolAt symbol_at, uint32_t unused, uint8_t *lengths, uint32_t *codewords,
                                       uint16_t *symbols_by_codeword, uint32_t *summary) {
    if (warp_id() == 0) {
        const uint32_t through = warp_inclusive_sum(at_length);
        // In units of 2^-31: codewords of a length start where shorter ones end.
        const uint32_t units = lane_id() < WARP - 1 ? at_length << (WARP - 1 - lane_id()) : 0;
        const uint32_t first_code = (warp_inclusive_sum(units) - units) >> (WARP - 1 - lane_id());
        code.through[lane_id()] = through;
        code.entry[lane_id()] = through - at_length;
        code.first_code[lane_id()] = first_code;
        const uint32_t longest = 31 - __clz(__ballot_sync(ALL_LANES, at_length > 0) | 1);
        if (block_of_group() == 0) {
            summary[SUMMARY_FIRST + lane_id()] = first_code;
            summary[SUMMARY_ENTRY + lane_id()] = through - at_length;
            if (lane_id() == 0) {
                summary[SUMMARY_LONGEST] = longest;
            }
        }
    }
    __syncthreads();
    const uint32_t through = code.through[lane_id()];
#pragma unroll 4
    for (uint32_t first = group.rank - lane_id(); first < SYMBOLS; first += CooperativeGroup::SIZE) {
        // The rarest symbols get the longest codewords.
        const uint32_t i = first + lane_id(), more_common = SYMBOLS - 1 - min_of<uint32_t>(i, SYMBOLS - 1);
        uint32_t length = 0;
#pragma unroll
        for (uint32_t step = WARP / 2; step > 0; step /= 2) {
            length += __shfl_sync(ALL_LANES, through, length + step - 1) <= more_common ? step : 0;
        }
        if (i < SYMBOLS) {
            lengths[symbol_at(i)] = i >= unused ? length : 0;
        }
    }
    group.sync();
    partition_by_digit(
        group, code.partition, [&](uint32_t symbol) { return uint32_t(load_from_group(&lengths[symbol])); },
        [&](uint32_t length) { return length; },
        [&](uint32_t symbol, uint32_t length, uint32_t position) {
            if (length == 0) {
                codewords[symbol] = 0;
            } else {
                uint32_t index = position - unused;
                codewords[symbol] = length << 27 | (code.first_code[length] + index - code.entry[length]);
                symbols_by_codeword[index] = symbol;
            }
        });
}
