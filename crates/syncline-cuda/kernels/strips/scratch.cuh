// Shared memory for the strips of a tile: those of the bitmaps of its mask and its signs, and those of its codes.
#pragma once
#include "quantize/tile.cuh"
#include "strips/alphabet.cuh"

// Words of a bitmap in a strip: four bits in a code.
constexpr uint32_t BITMAP_WORDS = strips::BITS_OF_BITMAP_STRIP / 32;
// Most strips of a tile.
constexpr uint32_t BITMAP_STRIPS = (WORDS + BITMAP_WORDS - 1) / BITMAP_WORDS,
                   STRIPS = TILE_ELEMENTS / STRIP_LEN + 2 * BITMAP_STRIPS;
// Most bits of a strip. A value takes at most a codeword and 32 extra bits, a zero at most a codeword.
constexpr uint32_t MOST_STRIP_BITS = STRIP_LEN * (strips::MAX_LENGTH + 32);

struct StripScratch {
    // The bits of a strip, behind those of the word that it shares with the strip before.
    uint32_t words[(MOST_STRIP_BITS + 31) / 32 + 2];
    // Bitmaps as they are coded.
    uint32_t bitmaps[2][BITMAP_STRIPS * BITMAP_WORDS];
    // First bit of each strip, and the end of the last.
    uint32_t starts[STRIPS + 1];
    // Places of the values of a strip that are not 0.
    uint8_t places[STRIP_LEN];
};
