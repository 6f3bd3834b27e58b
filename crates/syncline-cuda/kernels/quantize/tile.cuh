// Quantizes any tile.
//
// Element i of a tile belongs to lane i % 32 of a warp: its bit is bit i % 32 of word i / 32 of a bitmap.
//
// AXES           axes along which tiles extend
// TILE_ELEMENTS  elements of an unclipped tile
// A warp works on a tile. See also quantize/quantize.cuh.
#pragma once
#include "device/warp.cuh"
#include "quantize/quantize.cuh"

// Words of a bitmap of a tile.
constexpr uint32_t WORDS = TILE_ELEMENTS / WARP;

// A tile with reciprocals of its extents, exact for element numbers and extents up to 1,024.
struct TileBox : Tile {
    uint32_t by_nx, by_ny;
    __device__ inline explicit TileBox(const Tile &tile)
        : Tile(tile), by_nx((RECIPROCAL - 1 + tile.nx) / tile.nx), by_ny((RECIPROCAL - 1 + tile.ny) / tile.ny) {}
    __device__ inline uint32_t row_of(uint32_t element) const {
        return AXES == 1 ? 0 : element * by_nx >> RECIPROCAL_LOG2;
    }
    __device__ inline uint32_t plane_of(uint32_t row) const { return AXES == 3 ? row * by_ny >> RECIPROCAL_LOG2 : 0; }

  private:
    static constexpr uint32_t RECIPROCAL_LOG2 = 20, RECIPROCAL = 1u << RECIPROCAL_LOG2;
};

// Coordinates of an element in its tile.
struct Position {
    uint32_t z, y, x;
    __device__ inline Position(const TileBox &tile, uint32_t element) {
        const uint32_t row = tile.row_of(element);
        x = element - row * tile.nx;
        z = tile.plane_of(row);
        y = row - z * tile.ny;
    }
    // Goes on to the next element.
    __device__ inline void advance(const TileBox &tile) {
        if (++x == tile.nx && AXES > 1) {
            x = 0;
            if (++y == tile.ny && AXES > 2) {
                y = 0;
                ++z;
            }
        }
    }
};

// A tile's elements in memory.
struct TileSource {
    const Stored *first;
    uint64_t plane, row;
    const Origin *origin;

    TileSource() = default;
    __device__ inline TileSource(const Stored *slab, uint64_t first_element, const Geometry &geometry, const Tile &tile,
                                 const Origin &origin)
        : first(slab + (tile.first_element - first_element)), plane(geometry.strides[1]), row(geometry.strides[2]),
          origin(&origin) {}
    __device__ inline Element load(const Position &at) const {
        return loaded(first[at.z * plane + at.y * row + at.x], *origin);
    }
};

// Where the value of an element is in shared memory: there is a gap after each 32, so that neither lanes with adjacent
// elements nor lanes with adjacent rows conflict in banks.
__device__ inline constexpr uint32_t padded(uint32_t element) { return element + element / WARP; }

// Calls `visit(word, element)` for the elements of a tile. The lanes of a warp call it for the elements of a word
// together, also for those past the last element of the tile, and always for the same words.
template <typename Visit> __device__ inline void for_each_word(uint32_t elements, Visit visit) {
#pragma unroll 1
    for (uint32_t word = 0; word * WARP < elements; ++word) {
        visit(word, word * WARP + lane_id());
    }
}

// Copies the elements of a tile to `values`, in shared memory, where those of a lane in `for_each_word` are visible to
// it at once.
__device__ inline void load_tile(const TileBox &tile, const TileSource &source, Element *values) {
    // Several loads are in flight at a time.
    constexpr uint32_t AT_ONCE = 4;
    const uint32_t elements = tile.elements();
#pragma unroll 1
    for (uint32_t first = lane_id(); first < elements; first += AT_ONCE * WARP) {
        Element loaded[AT_ONCE];
#pragma unroll
        for (uint32_t k = 0; k < AT_ONCE; ++k) {
            const uint32_t i = first + k * WARP;
            loaded[k] = i < elements ? source.load(Position(tile, i)) : Element(0);
        }
#pragma unroll
        for (uint32_t k = 0; k < AT_ONCE; ++k) {
            const uint32_t i = first + k * WARP;
            if (i < elements) {
                values[padded(i)] = loaded[k];
            }
        }
    }
}

// Bitmaps of the elements of a tile, in shared memory.
struct TileBitmaps {
    uint32_t fill[WORDS];     // with the pattern of the tile
    uint32_t verbatim[WORDS]; // if the tile is not interpolated
    uint32_t foreign[WORDS];  // with another pattern, or outside of the range; among the verbatim ones
    uint32_t other[WORDS];    // LOGARITHM: negative ones that are valid; else: for the caller
    int32_t last[WORDS];      // the last valid element up to the end of each word, -1 if there is none
};

__device__ inline bool bit_of(const uint32_t *bitmap, uint32_t element) {
    return (bitmap[element / WARP] >> element % WARP & 1) != 0;
}

// Returns the bits of word `word` that belong to the first `elements` elements.
__device__ inline uint32_t word_of_first(uint32_t elements, uint32_t word) {
    const uint32_t left = elements > word * WARP ? elements - word * WARP : 0;
    return left >= WARP ? ALL_LANES : (1u << left) - 1;
}

// Returns the number of bits that are set.
__device__ inline uint32_t count_bits(const uint32_t *bitmap) {
    uint32_t count = 0;
    for (uint32_t word = lane_id(); word < WORDS; word += WARP) {
        count += __popc(bitmap[word]);
    }
    return warp_reduce_sum(count);
}

// What quantizing a tile finds beside its integers and bitmaps.
struct QuantizedTile {
    int32_t base;       // 0 for tiles without valid elements
    uint32_t info;      // the fields of mask, pattern, and sign, and INFO_EMPTY
    uint32_t verbatim;  // number of elements that are verbatim if the tile is not interpolated
    bool any_excluded;  // whether there are verbatim or masked elements
    bool any_not_coded; // whether there are foreign or masked elements
    bool any_lost;      // whether there are integers of 64 bits that no value stands for
};

// Gives each excluded element the integer of the last valid element before it in its row, or otherwise that of the
// first element of the row before. Returns false if no element is valid. `bitmaps` says which are excluded.
__device__ inline bool fill_excluded(const TileBox &tile, int32_t *q, TileBitmaps &bitmaps) {
    const uint32_t elements = tile.elements(), nx = tile.nx;
    auto valid_word = [&](uint32_t word) {
        return word_of_first(elements, word) & ~(bitmaps.verbatim[word] | bitmaps.fill[word]);
    };
    const uint32_t own_word = lane_id(), own_valid = own_word < WORDS ? valid_word(own_word) : 0;
    int32_t own_last = own_valid != 0 ? int32_t(own_word * WARP + 31 - __clz(int32_t(own_valid))) : -1;
#pragma unroll
    for (uint32_t distance = 1; distance < WARP; distance *= 2) {
        const int32_t other = __shfl_up_sync(ALL_LANES, own_last, distance);
        own_last = lane_id() >= distance ? max_of(own_last, other) : own_last;
    }
    if (own_word < WORDS) {
        bitmaps.last[own_word] = own_last;
    }
    __syncwarp();
    if (bitmaps.last[WORDS - 1] < 0) {
        return false;
    }
    auto is_valid = [&](uint32_t i) { return !bit_of(bitmaps.verbatim, i) && !bit_of(bitmaps.fill, i); };
    for (uint32_t i = lane_id(); i < elements; i += WARP) {
        if (is_valid(i)) {
            continue;
        }
        // Only valid elements are read, and only others are written.
        const uint32_t word = i / WARP, here = valid_word(word) & ((1u << i % WARP) - 1);
        const int32_t last = here != 0  ? int32_t(word * WARP + 31 - __clz(int32_t(here)))
                             : word > 0 ? bitmaps.last[word - 1]
                                        : -1;
        uint32_t row = tile.row_of(i);
        if (last >= int32_t(row * nx)) {
            q[i] = q[last];
            continue;
        }
        uint32_t plane = tile.plane_of(row);
        while (!is_valid(row * nx) && row > 0) {
            // The row above, or the first one of the plane before.
            const bool is_first = row == plane * tile.ny;
            row -= is_first ? tile.ny : 1;
            plane -= is_first ? 1 : 0;
        }
        // Nothing before is valid: the first element that is.
        uint32_t source = row * nx;
        if (!is_valid(source)) {
            uint32_t first_word = 0;
            while (bitmaps.last[first_word] < 0) {
                ++first_word;
            }
            source = first_word * WARP + __ffs(int32_t(valid_word(first_word))) - 1;
        }
        q[i] = q[source];
    }
    __syncwarp();
    return true;
}

// Finds the pattern with most elements, the lower number on a tie; elements with other patterns are foreign. Returns
// the fields of the info.
__device__ inline uint32_t find_fill(const Step &step, uint32_t elements, const Element *values, TileBitmaps &bitmaps) {
    uint32_t most = 0, pattern = 0;
#pragma unroll 1
    for (uint32_t p = 0; p < step.pattern_count; ++p) {
        const Bits bits = Bits(step.patterns[p]);
        uint32_t count = 0;
        for_each_word(elements, [&](uint32_t, uint32_t i) {
            count += i < elements && bits_of(values[padded(i)]) == bits ? 1 : 0;
        });
        count = warp_reduce_sum(count);
        pattern = count > most ? p : pattern;
        most = max_of(most, count);
    }
    if (most == 0) {
        return KIND_NONE << INFO_MASK;
    }
    for_each_word(elements, [&](uint32_t word, uint32_t i) {
        uint32_t fill = 0, any = 0;
#pragma unroll 1
        for (uint32_t p = 0; p < step.pattern_count; ++p) {
            const bool is_equal = i < elements && bits_of(values[padded(i)]) == Bits(step.patterns[p]);
            const uint32_t mask = __ballot_sync(ALL_LANES, is_equal);
            fill = p == pattern ? mask : fill;
            any |= mask;
        }
        if (lane_id() == 0) {
            bitmaps.fill[word] = fill;
            bitmaps.verbatim[word] = (bitmaps.verbatim[word] | any) & ~fill;
            bitmaps.foreign[word] = (bitmaps.foreign[word] | any) & ~fill;
        }
    });
    return (most == elements ? KIND_ALL : KIND_BITMAP) << INFO_MASK | pattern << INFO_PATTERN;
}

// Quantizes a tile to `q`, in shared memory; all integers of tiles without valid elements are 0. `values` has its
// elements. All lanes call this.
__device__ inline QuantizedTile quantize_tile(const Step &step, const TileBox &tile, const Element *values, int32_t *q,
                                              TileBitmaps &bitmaps) {
    const uint32_t elements = tile.elements();
    const Element low = Element(step.range_low), high = Element(step.range_high);
    for (uint32_t word = lane_id(); word < WORDS; word += WARP) {
        bitmaps.fill[word] = bitmaps.verbatim[word] = bitmaps.foreign[word] = bitmaps.other[word] = 0;
    }
    __syncwarp();
    // Whether there may be fill patterns, or whether elements are excluded.
    bool excludes = step.pattern_count > 0, lost = false;
    for_each_word(elements, [&](uint32_t word, uint32_t i) {
        const bool inside = i < elements;
        const Element x = inside ? values[padded(i)] : Element(0);
        int32_t value;
        bool good = quantize(step, x, value);
#if OF_WIDE_INTEGERS
        lost |= bits_of(x) == LOST;
#endif
        const bool outside = inside && is_outside(x, low, high);
        good = (good && !outside) || !inside;
        if (inside) {
            q[i] = value;
        }
        const uint32_t exact = __ballot_sync(ALL_LANES, !good);
        if (exact != 0) {
            const uint32_t foreign = __ballot_sync(ALL_LANES, outside);
            excludes = true;
            if (lane_id() == 0) {
                bitmaps.verbatim[word] = exact;
                bitmaps.foreign[word] = foreign;
            }
        }
        if (LOGARITHM) {
            const uint32_t negative = __ballot_sync(ALL_LANES, (bits_of(x) & SIGN_BIT) != 0);
            if (lane_id() == 0) {
                bitmaps.other[word] = negative;
            }
        }
    });
    QuantizedTile result = {};
    bool may_exclude = __any_sync(ALL_LANES, excludes);
    result.any_lost = OF_WIDE_INTEGERS && __any_sync(ALL_LANES, lost);
    __syncwarp();
    if (may_exclude && step.pattern_count > 0) {
        result.info = find_fill(step, elements, values, bitmaps);
        __syncwarp();
    }
    if (may_exclude) {
        bool excluded = false, not_coded = false;
        for (uint32_t word = lane_id(); word < WORDS; word += WARP) {
            excluded |= (bitmaps.verbatim[word] | bitmaps.fill[word]) != 0;
            not_coded |= (bitmaps.foreign[word] | bitmaps.fill[word]) != 0;
        }
        result.any_excluded = __any_sync(ALL_LANES, excluded);
        result.any_not_coded = __any_sync(ALL_LANES, not_coded);
    }
    if (result.any_excluded) {
        result.verbatim = count_bits(bitmaps.verbatim);
        if (!fill_excluded(tile, q, bitmaps)) {
            result.info |= INFO_EMPTY;
            for (uint32_t i = lane_id(); i < elements; i += WARP) {
                q[i] = 0;
            }
            __syncwarp();
        }
    }
    if (LOGARITHM) {
        bool any = false, all = true;
        for (uint32_t word = lane_id(); word < WORDS; word += WARP) {
            const uint32_t valid = word_of_first(elements, word) & ~(bitmaps.verbatim[word] | bitmaps.fill[word]),
                           negative = bitmaps.other[word] & valid;
            bitmaps.other[word] = negative;
            any |= negative != 0;
            all &= negative == valid;
        }
        const bool some = __any_sync(ALL_LANES, any), others = __any_sync(ALL_LANES, !all);
        result.info |= (!some ? KIND_NONE : others ? KIND_BITMAP : KIND_ALL) << INFO_SIGN;
        __syncwarp();
    }
    result.base = q[0];
    return result;
}
