// Quantizes any tile by one warp: the scalar path, taken by tiles that the vector path does not support, such as those
// with large integers.
//
// Element i of a tile belongs to lane i % 32 in iteration i / 32. Lane k holds word k of a bitmap.
//
// AXES  axes along which tiles extend
#pragma once
#include "device/warp.cuh"
#include "quantize/quantize.cuh"

constexpr uint32_t MAX_ELEMENTS = AXES == 3 ? 512 : 1024;
// Words of elements that are loaded together.
constexpr uint32_t WORDS_AT_ONCE = LOGARITHM ? 1 : 4;

// A tile with reciprocals of its extents, exact for element numbers up to 1,024 and extents up to 32.
struct TileBox : Tile {
    uint32_t by_nx, by_ny;
    __device__ inline explicit TileBox(const Tile &tile)
        : Tile(tile), by_nx((65535 + tile.nx) / tile.nx), by_ny((65535 + tile.ny) / tile.ny) {}
    __device__ inline uint32_t row_of(uint32_t element) const { return AXES == 1 ? 0 : element * by_nx >> 16; }
};

// Coordinates of an element in its tile.
struct Position {
    uint32_t z, y, x;
    __device__ inline Position(const TileBox &tile, uint32_t element) {
        uint32_t row = tile.row_of(element);
        x = element - row * tile.nx;
        z = AXES == 3 ? row * tile.by_ny >> 16 : 0;
        y = row - z * tile.ny;
    }
};

// A tile's elements in memory.
struct TileSource {
    const Element *first;
    uint64_t plane, row;

    __device__ inline Element load(const Position &at) const { return first[at.z * plane + at.y * row + at.x]; }
};

// Extents of most tiles. The offset of their elements from the first one of the lane is the same on all lanes.
constexpr uint32_t USUAL_ROW = AXES == 3 ? 8 : AXES == 2 ? 32 : MAX_ELEMENTS;
constexpr uint32_t USUAL_ROWS = AXES == 1 ? 1 : USUAL_ROW, USUAL_PLANES = AXES == 3 ? USUAL_ROW : 1;
__device__ inline bool is_usual(const TileBox &tile) {
    return tile.nx == USUAL_ROW && tile.ny == USUAL_ROWS && tile.nz == USUAL_PLANES;
}

// Loads the lane's elements of a tile, COUNT words after COUNT words, 0 past the last element.
template <uint32_t COUNT> struct WordLoader {
    const TileBox &tile;
    const TileSource &source;
    // The lane's first element of the next words, of usual tiles.
    const Element *next;
    const bool usual;

    __device__ inline WordLoader(const TileBox &tile, const TileSource &source)
        : tile(tile), source(source), next(source.first + lane_id()), usual(is_usual(tile)) {
        if (AXES == 3) {
            next = source.first + lane_id() / USUAL_ROW * source.row + lane_id() % USUAL_ROW;
        }
    }
    __device__ inline void load(uint32_t first_word, Element (&values)[COUNT]) {
        if (!usual) {
#pragma unroll
            for (uint32_t k = 0; k < COUNT; ++k) {
                const uint32_t i = (first_word + k) * WARP + lane_id();
                values[k] = i < tile.elements() ? source.load(Position(tile, i)) : Element(0);
            }
            return;
        }
        // A word has four rows of half a plane, a row, or a part of the only row.
        const uint64_t half = AXES == 3 ? 4 * source.row : AXES == 2 ? source.row : WARP;
#pragma unroll
        for (uint32_t k = 0; k < COUNT; ++k) {
            values[k] = *next;
            next += AXES != 3 || (first_word + k) % 2 == 0 ? half : source.plane - half;
        }
    }
};

// Calls `visit(element, value)` for the elements of a tile.
template <typename Visit>
__device__ inline void for_each_element(const TileBox &tile, const TileSource &source, Visit visit) {
    WordLoader<4> loader(tile, source);
    for (uint32_t first_word = 0; first_word * WARP < tile.elements(); first_word += 4) {
        Element values[4];
        loader.load(first_word, values);
#pragma unroll
        for (uint32_t k = 0; k < 4; ++k) {
            const uint32_t i = (first_word + k) * WARP + lane_id();
            if (i < tile.elements()) {
                visit(i, values[k]);
            }
        }
    }
}

// Bitmaps of a tile's elements, one word per lane.
struct TileBitmaps {
    uint32_t fill;
    uint32_t verbatim;
    uint32_t foreign;  // with another pattern than that of the fill, among the verbatim ones
    uint32_t negative; // without excluded elements
};

struct TileResult {
    int32_t base;
    uint32_t predictor;
    uint32_t activity;
    uint32_t meta; // mask, pattern, sign, empty
    uint32_t verbatim;
    uint64_t error;
    uint32_t counted;
};

// Returns the bits of word `word` that belong to the first `elements` elements.
__device__ inline uint32_t word_of_first(uint32_t elements, uint32_t word) {
    uint32_t left = elements > word * WARP ? elements - word * WARP : 0;
    return left >= WARP ? ALL_LANES : (1u << left) - 1;
}

__device__ inline uint32_t up_to_lane() { return (2u << lane_id()) - 1; }

// Returns the residual of an element under a predictor. `q` holds the tile's integers.
__device__ inline uint32_t residual(const TileBox &tile, const int32_t *q, int32_t base, uint32_t i, const Position &at,
                                    uint32_t predictor) {
    auto value = [&](uint32_t element, bool there) { return there ? uint32_t(q[element]) - uint32_t(base) : 0; };
    uint32_t nx = tile.nx, plane = tile.nx * tile.ny;
    auto along_x = [&](uint32_t element, bool there) {
        return value(element, there) - value(element - 1, there && at.x > 0);
    };
    auto along_xy = [&](uint32_t element, bool there) {
        return along_x(element, there) - along_x(element - nx, there && at.y > 0);
    };
    if (predictor == 0) {
        return value(i, true);
    }
    if (predictor == 3) {
        return along_xy(i, true) - along_xy(i - plane, at.z > 0);
    }
    if (at.x == 0 && at.y == 0) {
        return value(i, true) - value(i - plane, at.z > 0);
    }
    if (predictor == 2) {
        return along_xy(i, true);
    }
    return at.x > 0 ? along_x(i, true) : value(i, true) - value(i - nx, at.y > 0);
}

// Gives each excluded element the integer of the last valid element before it in its row, or otherwise that of the
// first element of the row before. `valid` is the lane's word of elements that are not excluded. Returns false if there
// are none.
__device__ inline bool fill_excluded(const TileBox &tile, int32_t *q, uint32_t valid) {
    const uint32_t elements = tile.elements(), lane = lane_id();
    // The last valid element up to the end of this lane's word, and before this lane's word.
    int32_t last = valid ? int32_t(lane * WARP + 31 - __clz(int32_t(valid))) : -1;
    for (uint32_t distance = 1; distance < WARP; distance *= 2) {
        int32_t other = __shfl_up_sync(ALL_LANES, last, distance);
        last = lane >= distance ? max_of(last, other) : last;
    }
    int32_t before = __shfl_up_sync(ALL_LANES, last, 1);
    before = lane == 0 ? -1 : before;
    if (__shfl_sync(ALL_LANES, last, WARP - 1) < 0) {
        return false;
    }
    uint32_t first_word = __ffs(int32_t(__ballot_sync(ALL_LANES, valid != 0))) - 1;
    uint32_t first = first_word * WARP + __ffs(int32_t(__shfl_sync(ALL_LANES, valid, first_word))) - 1;
    const int32_t base = q[first];

    // There are at most 64 rows. Bit r of `starts` says whether row r's first element is valid.
    const uint32_t rows = tile.nz * tile.ny;
    uint64_t starts = 0;
    for (uint32_t part = 0; part < 2; ++part) {
        uint32_t row = part * WARP + lane, element = min_of(row * tile.nx, elements - 1);
        uint32_t word = __shfl_sync(ALL_LANES, valid, element / WARP);
        bool is_valid = row < rows && (word >> element % WARP & 1) != 0;
        starts |= uint64_t(__ballot_sync(ALL_LANES, is_valid)) << (part * WARP);
    }
    int32_t row_value[2];
    for (uint32_t part = 0; part < 2; ++part) {
        uint32_t row = min_of(part * WARP + lane, rows - 1);
        uint32_t z = row / tile.ny, y = row - z * tile.ny;
        uint64_t above = starts >> (z * tile.ny) & ((uint64_t(2) << y) - 1);
        int32_t source = above ? int32_t(z * tile.ny + 63 - __clzll(int64_t(above))) : -1;
        while (source < 0 && z > 0) {
            --z;
            source = (starts >> (z * tile.ny) & 1) != 0 ? int32_t(z * tile.ny) : -1;
        }
        row_value[part] = source < 0 ? base : q[source * tile.nx];
    }
    __syncwarp();
    for (uint32_t word = 0; word * WARP < elements; ++word) {
        uint32_t i = word * WARP + lane;
        uint32_t bits = __shfl_sync(ALL_LANES, valid, word);
        int32_t source = __shfl_sync(ALL_LANES, before, word);
        uint32_t here = bits & up_to_lane();
        source = here ? int32_t(word * WARP + 31 - __clz(int32_t(here))) : source;
        uint32_t row = tile.row_of(min_of(i, elements - 1));
        int32_t low = __shfl_sync(ALL_LANES, row_value[0], row % WARP),
                high = __shfl_sync(ALL_LANES, row_value[1], row % WARP);
        // Only valid elements are read here, and only others are written.
        if (i < elements && (bits >> lane & 1) == 0) {
            q[i] = source >= int32_t(row * tile.nx) ? q[source] : row < WARP ? low : high;
        }
    }
    __syncwarp();
    return true;
}

// Quantizes a tile. `q`, in shared memory, receives the integers, except those of a tile without valid elements, which
// is marked as empty.
__device__ inline TileResult quantize_integers(const Step &step, const TileBox &tile, const TileSource &source,
                                               int32_t *q, TileBitmaps &words) {
    const uint32_t elements = tile.elements(), lane = lane_id();
    uint32_t exact = 0, negative = 0, matching[MAX_PATTERNS] = {};
    __syncwarp();
    WordLoader<WORDS_AT_ONCE> loader(tile, source);
    for (uint32_t first_word = 0; first_word * WARP < elements; first_word += WORDS_AT_ONCE) {
        // Several loads are in flight at a time.
        Element values[WORDS_AT_ONCE];
        loader.load(first_word, values);
#pragma unroll
        for (uint32_t k = 0; k < WORDS_AT_ONCE; ++k) {
            const uint32_t word = first_word + k, i = word * WARP + lane;
            const bool inside = i < elements;
            const Element x = values[k];
            int32_t value;
            const bool good = quantize(step, x, value) || !inside;
            if (inside) {
                q[i] = value;
            }
            uint32_t mask = __ballot_sync(ALL_LANES, !good);
            exact = lane == word ? mask : exact;
            mask = __ballot_sync(ALL_LANES, (bits_of(x) & SIGN_BIT) != 0);
            negative = lane == word ? mask : negative;
            if (step.pattern_count == 0) {
                continue;
            }
#pragma unroll
            for (uint32_t p = 0; p < MAX_PATTERNS; ++p) {
                if (p < step.pattern_count) {
                    mask = __ballot_sync(ALL_LANES, inside && bits_of(x) == Bits(step.patterns[p]));
                    matching[p] = lane == word ? mask : matching[p];
                }
            }
        }
    }
    __syncwarp();

    // The pattern with most elements wins, the lower number on a tie. Elements with other patterns are stored verbatim.
    TileResult result = {};
    uint32_t most = 0, pattern = 0, fill = 0, any_pattern = 0;
#pragma unroll
    for (uint32_t p = 0; p < MAX_PATTERNS; ++p) {
        if (p < step.pattern_count) {
            uint32_t count = warp_reduce_sum(uint32_t(__popc(matching[p])));
            any_pattern |= matching[p];
            fill = count > most ? matching[p] : fill;
            pattern = count > most ? p : pattern;
            most = max_of(most, count);
        }
    }
    const uint32_t full = word_of_first(elements, lane), excluded = exact | any_pattern, valid = full & ~excluded;
    words.fill = fill;
    words.verbatim = excluded & ~fill;
    words.foreign = any_pattern & ~fill;
    words.negative = negative & valid;
    result.verbatim = warp_reduce_sum(uint32_t(__popc(words.verbatim)));
    uint32_t mask_kind = most == 0 ? KIND_NONE : most == elements ? KIND_ALL : KIND_BITMAP;
    result.meta = mask_kind << META_MASK | pattern << META_PATTERN;
    if (LOGARITHM) {
        bool any = __any_sync(ALL_LANES, words.negative != 0), all = __all_sync(ALL_LANES, words.negative == valid);
        result.meta |= (!any ? KIND_NONE : all ? KIND_ALL : KIND_BITMAP) << META_SIGN;
    }
#if MEASURE
    double error = 0.0;
    for (uint32_t word = 0; word * WARP < elements; ++word) {
        uint32_t i = word * WARP + lane;
        if ((__shfl_sync(ALL_LANES, valid, word) >> lane & 1) != 0) {
            error += squared_error(step, source.load(Position(tile, i)), reconstruct(step, q[i]));
        }
    }
    result.error = warp_reduce_sum(uint64_t(error));
    result.counted = warp_reduce_sum(uint32_t(__popc(valid)));
#endif
    if (__any_sync(ALL_LANES, excluded != 0) && !fill_excluded(tile, q, valid)) {
        result.meta |= META_EMPTY;
    } else {
        result.base = q[0];
    }
    return result;
}

// Quantizes a tile and finds its predictor. `q`, in shared memory, receives the integers.
__device__ inline TileResult quantize_tile(const Step &step, const TileBox &tile, const TileSource &source, int32_t *q,
                                           TileBitmaps &words) {
    const uint32_t elements = tile.elements(), lane = lane_id();
    TileResult result = quantize_integers(step, tile, source, q, words);
    if ((result.meta & META_EMPTY) != 0) {
        return result; // constant, because the activity is 0
    }
    uint32_t sums[AXES + 1] = {};
    for (uint32_t i = lane; i < elements; i += WARP) {
        Position at(tile, i);
#pragma unroll
        for (uint32_t predictor = 0; predictor <= AXES; ++predictor) {
            int32_t r = int32_t(residual(tile, q, result.base, i, at, predictor));
            sums[predictor] += min_of(r < 0 ? -uint32_t(r) : uint32_t(r), RESIDUAL_LIMIT);
        }
    }
    result.activity = ~0u;
#pragma unroll
    for (uint32_t predictor = 0; predictor <= AXES; ++predictor) {
        uint32_t sum = warp_reduce_sum(sums[predictor]);
        result.predictor = sum <= result.activity ? predictor : result.predictor;
        result.activity = min_of(result.activity, sum);
    }
    return result;
}

// Calls `visit(element, residual)` for elements up to `end`, one per lane at a time. Elements past the last have
// residual 0.
template <typename Visit>
__device__ inline void for_each_residual(const TileBox &tile, const int32_t *q, const TileResult &result, uint32_t end,
                                         Visit visit) {
    const uint32_t elements = tile.elements();
    for (uint32_t i = lane_id(); i < end; i += WARP) {
        uint32_t value = 0;
        if (i < elements) {
            value = residual(tile, q, result.base, i, Position(tile, i), result.predictor);
        }
        visit(i, int32_t(value));
    }
}

__device__ inline bool is_outlier(int32_t residual, int32_t radius) {
    return residual >= radius || residual <= -radius;
}

// Writes the codes of a tile that is not constant, padded to whole groups. Counts the outliers for this radius and for
// the wide one.
__device__ inline void write_codes(const TileBox &tile, const int32_t *q, const TileResult &result, uint32_t codes_end,
                                   int32_t radius, uint16_t *codes, uint32_t &outliers, uint32_t &wide_outliers) {
    outliers = 0;
    wide_outliers = 0;
    for_each_residual(tile, q, result, codes_end, [&](uint32_t i, int32_t residual) {
        bool outside = is_outlier(residual, radius);
        outliers += outside;
        wide_outliers += is_outlier(residual, WIDE_RADIUS);
        codes[i] = uint16_t(outside ? 0 : residual + radius);
    });
    outliers = warp_reduce_sum(outliers);
    wide_outliers = warp_reduce_sum(wide_outliers);
}
