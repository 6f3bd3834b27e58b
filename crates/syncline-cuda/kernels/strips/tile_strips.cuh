// The strips of a tile as symbols. A warp works on a strip, and a lane on four of its codes.
#pragma once
#include "strips/scratch.cuh"

// The strips of a tile, in their order.
struct TileStrips {
    uint32_t of_mask, of_signs, of_codes;

    // `info` has the kinds of mask and signs.
    __device__ inline TileStrips(uint32_t elements, uint32_t info, bool is_constant) {
        const uint32_t of_bitmap = ceil_div(elements, strips::BITS_OF_BITMAP_STRIP);
        of_mask = tile_mask(info) == KIND_BITMAP ? of_bitmap : 0;
        of_signs = tile_sign(info) == KIND_BITMAP ? of_bitmap : 0;
        of_codes = is_constant ? 0 : ceil_div(elements, STRIP_LEN);
    }
    __device__ inline uint32_t of_bitmaps() const { return of_mask + of_signs; }
    __device__ inline uint32_t count() const { return of_bitmaps() + of_codes; }
};

// Writes the bitmap as it is coded: the exclusive or of each bit with that of the element one plane above, else one row
// above, else before. All lanes call this.
__device__ inline void code_bitmap(const TileBox &tile, const uint32_t *bitmap, uint32_t *coded) {
    const uint32_t elements = tile.elements();
    for (uint32_t word = 0; word < BITMAP_STRIPS * BITMAP_WORDS; ++word) {
        const uint32_t i = word * WARP + lane_id();
        bool differs = false;
        if (i < elements) {
            const Position at(tile, i);
            const uint32_t back = at.z > 0 ? tile.nx * tile.ny : at.y > 0 ? tile.nx : at.x > 0 ? 1 : 0;
            differs = bit_of(bitmap, i) != (back > 0 && bit_of(bitmap, i - back));
        }
        const uint32_t bits = __ballot_sync(ALL_LANES, differs);
        if (lane_id() == 0) {
            coded[word] = bits;
        }
    }
}

// Writes the bitmaps that the tile has as they are coded: that of the mask to the first place, that of the signs to the
// second one.
__device__ inline void code_bitmaps(const TileBox &tile, const TileStrips &counts, const TileBitmaps &bitmaps,
                                    StripScratch &scratch) {
    if (counts.of_mask > 0) {
        code_bitmap(tile, bitmaps.fill, scratch.bitmaps[0]);
    }
    if (counts.of_signs > 0) {
        code_bitmap(tile, bitmaps.other, scratch.bitmaps[1]);
    }
}

// The values of a strip that are not 0, and the zeros in front of them. A warp lists them, so that its lanes have the
// same number of them whatever their places are.
class StripValues {
    const int32_t *codes;   // null for strips of bitmaps
    const uint32_t *bitmap; // bits of the strip, if it is one of a bitmap
    const uint8_t *places;
    uint32_t count;

    __device__ inline int32_t code(uint32_t place) const {
        return codes != nullptr ? codes[place] : int32_t((bitmap[place / 8] >> place % 8 * 4 & 15) ^ 8) - 8;
    }

  public:
    // `strip` is the number of the strip among all of the tile. All lanes call this.
    __device__ inline StripValues(const TileStrips &counts, StripScratch &scratch, const int32_t *codes, uint32_t strip)
        : codes(nullptr), bitmap(nullptr), count(0) {
        if (strip < counts.of_bitmaps()) {
            const bool is_mask = strip < counts.of_mask;
            bitmap = scratch.bitmaps[is_mask ? 0 : 1] + (is_mask ? strip : strip - counts.of_mask) * BITMAP_WORDS;
        } else {
            this->codes = codes + (strip - counts.of_bitmaps()) * STRIP_LEN;
        }
        uint8_t *list = scratch.places;
        places = list;
        __syncwarp();
#pragma unroll
        for (uint32_t first = 0; first < STRIP_LEN; first += WARP) {
            const uint32_t place = first + lane_id();
            const bool is_value = code(place) != 0;
            const uint32_t values = __ballot_sync(ALL_LANES, is_value);
            if (is_value) {
                list[count + __popc(values & ((1u << lane_id()) - 1))] = uint8_t(place);
            }
            count += __popc(values);
        }
        __syncwarp();
    }

    // Calls `visit(zeros, value)` for the values in order, one per lane at a time, and with a value of 0 where lanes
    // have none. All lanes call this.
    template <typename Visit> __device__ inline void for_each(Visit visit) const {
#pragma unroll 1
        for (uint32_t first = 0; first < count; first += WARP) {
            const uint32_t number = first + lane_id();
            uint32_t zeros = 0;
            int32_t value = 0;
            if (number < count) {
                const uint32_t place = places[number];
                zeros = number > 0 ? place - places[number - 1] - 1 : place;
                value = code(place);
            }
            visit(zeros, value);
        }
    }
};
