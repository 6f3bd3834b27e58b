// The strips of a tile as symbols. A warp works on a strip, and a lane on four of its codes.
#pragma once
#include "strips/scratch.cuh"

// The strips of a tile, in their order.
struct TileStrips {
    uint32_t of_mask, of_signs, of_codes;

    // `meta` has the kinds of mask and signs.
    __device__ inline TileStrips(uint32_t elements, uint32_t meta, bool is_constant) {
        const uint32_t of_bitmap = ceil_div(elements, strips::BITS_OF_BITMAP_STRIP);
        of_mask = (meta >> META_MASK & 3) == KIND_BITMAP ? of_bitmap : 0;
        of_signs = (meta >> META_SIGN & 3) == KIND_BITMAP ? of_bitmap : 0;
        of_codes = is_constant ? 0 : ceil_div(elements, STRIP_LEN);
    }
    __device__ inline uint32_t of_bitmaps() const { return of_mask + of_signs; }
    __device__ inline uint32_t count() const { return of_bitmaps() + of_codes; }
};

// Writes the bitmap as it is coded: the exclusive or of each bit with that of the element one plane above, else one row
// above, else before. All threads of the tile call this.
__device__ inline void code_bitmap(const TileBox &tile, const uint32_t *bitmap, uint32_t *coded) {
    const uint32_t elements = tile.elements();
    for (uint32_t word = tile_warp(); word < BITMAP_STRIPS * BITMAP_WORDS; word += TILE_WARPS) {
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

// Four codes of a strip.
struct LaneCodes {
    int32_t of[4];

    // `strip` is the number of the strip among all of the tile.
    __device__ inline LaneCodes(const TileStrips &counts, const StripScratch &scratch, const int32_t *codes,
                                uint32_t strip) {
        if (strip < counts.of_bitmaps()) {
            const bool is_mask = strip < counts.of_mask;
            const uint32_t first = (is_mask ? strip : strip - counts.of_mask) * BITMAP_WORDS;
            const uint32_t word = scratch.bitmaps[is_mask ? 0 : 1][first + lane_id() / 2],
                           bits = word >> lane_id() % 2 * 16;
#pragma unroll
            for (uint32_t k = 0; k < 4; ++k) {
                of[k] = int32_t((bits >> 4 * k & 15) ^ 8) - 8;
            }
        } else {
            const int4 four =
                *reinterpret_cast<const int4 *>(codes + (strip - counts.of_bitmaps()) * STRIP_LEN + 4 * lane_id());
            of[0] = four.x, of[1] = four.y, of[2] = four.z, of[3] = four.w;
        }
    }

    // Calls `put` with the symbols of the lane's codes: `for_symbols` in strips/alphabet.cuh. All lanes call this.
    template <typename Has, typename Put>
    __device__ inline void for_each_symbol(bool is_dense, Has has, Put put) const {
        int32_t last = -1;
#pragma unroll
        for (uint32_t k = 0; k < 4; ++k) {
            last = of[k] != 0 ? int32_t(4 * lane_id() + k) : last;
        }
        const uint32_t with_values = __ballot_sync(ALL_LANES, last >= 0) & ((1u << lane_id()) - 1);
        // The last value before those of the lane.
        int32_t before = __shfl_sync(ALL_LANES, last, with_values != 0 ? 31 - __clz(int32_t(with_values)) : 0);
        before = with_values != 0 ? before : -1;
#pragma unroll
        for (uint32_t k = 0; k < 4; ++k) {
            if (of[k] != 0) {
                const int32_t place = int32_t(4 * lane_id() + k);
                for_symbols(uint32_t(place - before - 1), of[k], is_dense, has, put);
                before = place;
            }
        }
        __syncwarp();
    }
};
