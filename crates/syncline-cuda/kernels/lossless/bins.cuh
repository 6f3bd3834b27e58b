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

// Finds the bins of codes. What most chunks need is in registers.
struct BinFinder {
    const ChunkBins &bins;
    const uint8_t *of_cell;
    int64_t cell_low;
    uint32_t families, shift, cell_shift;

    __device__ inline BinFinder(const ChunkBins &bins, const uint8_t *of_all_cells)
        : bins(bins), of_cell(of_all_cells + bins.of_cell), cell_low(bins.cell_lows[0]), families(bins.families),
          shift(bins.shifts[0]), cell_shift(bins.cell_shifts[0]) {}

    // Returns the bin of a code.
    __device__ inline uint32_t of(word_t word) const {
        const int64_t code = signed_of(word);
        if (families == 1) {
            return of_cell[cell(code >> shift, cell_shift, cell_low)];
        }
        uint32_t family = 0;
        if (code != 0) {
            const uint32_t zeros = uint32_t(__ffsll(code)) - 1;
            for (uint32_t other = 1; other < families; ++other) {
                family = bins.shifts[other] <= zeros ? other : family;
            }
        }
        const uint32_t place = cell(code >> bins.shifts[family], bins.cell_shifts[family], bins.cell_lows[family]);
        return of_cell[family * CELLS + place];
    }

  private:
    static __device__ inline uint32_t cell(int64_t code, uint32_t shift, int64_t low) {
        return shift == OCTAVES ? octave_cell(code) : uint32_t(uint64_t(code - low) >> shift) & (CELLS - 1);
    }
};
