// Bins of codes: `syncline_core::numbers::cells`.
#pragma once
#include "lossless/number.cuh"

// Cells of a family; `cell_shifts` of families whose cells are by magnitude.
constexpr uint32_t CELLS = 4096, OCTAVES = 64;
// Binary logarithms of the magnitudes that have cells of their own, and of the parts of each power of two above.
constexpr uint32_t SINGLE_LOG2 = 9, PARTS_LOG2 = 3;

// Returns the cell of a code by its magnitude.
__device__ inline uint32_t octave_cell(int64_t code) {
    const uint64_t magnitude = uint64_t(code ^ (code >> 63));
    const uint32_t sign = code < 0 ? 1 : 0;
    if (magnitude >> SINGLE_LOG2 == 0) {
        return uint32_t(magnitude) << 1 | sign;
    }
    const uint32_t bits = 64 - uint32_t(__clzll(int64_t(magnitude)));
    const uint32_t part = uint32_t(magnitude >> (bits - PARTS_LOG2 - 1)) & 7;
    return ((1u << SINGLE_LOG2) + ((bits - SINGLE_LOG2 - 1) << PARTS_LOG2) + part) << 1 | sign;
}

// Returns the bin of a code.
__device__ inline uint32_t bin_of(const ChunkBins &bins, const uint8_t *of_cell, word_t word) {
    int64_t code = signed_of(word);
    uint32_t family = 0;
    if (bins.families > 1 && code != 0) {
        const uint32_t zeros = uint32_t(__ffsll(code)) - 1;
        for (uint32_t other = 1; other < bins.families; ++other) {
            family = bins.shifts[other] <= zeros ? other : family;
        }
    }
    code >>= bins.shifts[family];
    const uint32_t shift = bins.cell_shifts[family];
    const uint32_t cell =
        shift == OCTAVES ? octave_cell(code) : uint32_t(uint64_t(code - bins.cell_lows[family]) >> shift) & (CELLS - 1);
    return of_cell[bins.of_cell + family * CELLS + cell];
}
