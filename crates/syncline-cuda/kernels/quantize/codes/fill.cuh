// Units with excluded elements, which are fill or stored verbatim, in registers as in quantize/codes/vector.cuh.
//
// A bitmap over a unit has one word per lane: bit 4 * k + j is element j of the lane's row k. Within a tile, raster
// order is row 0 of all lanes, then row 1 and so on; in 2-D first all rows of eight lanes, then those of the next
// eight.
#pragma once
#include "quantize/codes/vector.cuh"

// Integers up to this magnitude equal those of `quantize` and are exact as floats.
constexpr float MAX_VECTOR_INTEGER = 4194000.0f;
#if ELEMENT_BYTES == 4
// Larger than any integer of the format.
constexpr Element MAX_INTEGER = 8388608.0f;
#else
constexpr Element MAX_INTEGER = 2147483648.0;
#endif

struct Excluded {
    uint32_t inside;   // elements inside the array
    uint32_t fill;     // with the tile's pattern
    uint32_t verbatim; // stored verbatim
    uint32_t meta;     // mask, pattern
    bool fast;         // no integer of the lane is too large
    double error;      // of the lane, if measured
};

// Reads the unit again, and finds the excluded elements and the integers of the others.
__device__ inline Excluded find_excluded(const Step &step, const Element *slab, const VectorTile &tile, bool aligned,
                                         uint32_t elements, Integers &q) {
    Excluded out = {};
    uint32_t exact = 0, matching[MAX_PATTERNS] = {};
    out.fast = true;
#pragma unroll
    for (uint32_t k = 0; k < ROWS; ++k) {
        const uint32_t cols = k < tile.rows ? tile.cols : 0;
        Element x[QUAD] = {};
        load_row(slab + tile.first + k * tile.row_stride, aligned, cols, x);
        uint32_t same[QUAD] = {};
#pragma unroll
        for (uint32_t j = 0; j < QUAD; ++j) {
#pragma unroll
            for (uint32_t p = 0; p < MAX_PATTERNS; ++p) {
                if (p < step.pattern_count && bits_of(x[j]) == Bits(step.patterns[p])) {
                    same[j] = 1u << p;
                }
            }
        }
#pragma unroll
        for (uint32_t j = 0; j < QUAD; ++j) {
            const uint32_t bit = j < cols ? 1u << (QUAD * k + j) : 0;
            bool good = true;
            q[k][j] = quantize_exact(step, x[j], good);
            // Too large for the vector path, but perhaps not for the format, which allows up to 2^22 (2^30 for f64).
            const Element scaled = fabs(x[j] * quick_inverse(step));
            good = good && scaled < Element(MAX_VECTOR_INTEGER);
            const bool large = scaled >= Element(MAX_VECTOR_INTEGER) && scaled < MAX_INTEGER;
            out.inside |= bit;
            exact |= good ? 0 : bit;
            const bool any = same[j] != 0;
#pragma unroll
            for (uint32_t p = 0; p < MAX_PATTERNS; ++p) {
                matching[p] |= (same[j] >> p & 1) != 0 ? bit : 0;
            }
            out.fast = out.fast && !(large && !any && bit != 0);
#if MEASURE
            out.error +=
                good && !any && bit != 0 ? squared_error(step, x[j], reconstruct(step, int32_t(q[k][j]))) : 0.0;
#endif
        }
    }
    // The pattern with most elements wins, the lower number on a tie. Elements with other patterns are stored verbatim.
    uint32_t most = 0, pattern = 0, any_pattern = 0;
#pragma unroll
    for (uint32_t p = 0; p < MAX_PATTERNS; ++p) {
        if (p < step.pattern_count) {
            const uint32_t count = tile_sum(uint32_t(__popc(matching[p])));
            any_pattern |= matching[p];
            out.fill = count > most ? matching[p] : out.fill;
            pattern = count > most ? p : pattern;
            most = max_of(most, count);
        }
    }
    const uint32_t excluded = exact | any_pattern;
    out.verbatim = excluded & ~out.fill;
    out.meta = (most == 0          ? KIND_NONE
                : most == elements ? KIND_ALL
                                   : KIND_BITMAP)
                   << META_MASK |
               pattern << META_PATTERN;
    return out;
}

// Gives each excluded element the integer of the last valid element before it in its row, or otherwise that of the
// first element of the row before, filled likewise, or otherwise that of the first valid element. `kept` is shared
// memory for the integers. Returns false in tiles without valid elements, whose integers are then all 0.
__device__ inline bool fill_excluded(Integers &q, uint32_t valid, float4 *kept) {
    const uint32_t lane = lane_id();
    const float *values = reinterpret_cast<const float *>(kept);
#pragma unroll
    for (uint32_t k = 0; k < ROWS; ++k) {
        kept[k * WARP + lane] = make_float4(q[k][0], q[k][1], q[k][2], q[k][3]);
    }
    __syncwarp();
    // Finds the first valid element by a number that ascends in raster order and encodes its place.
    const uint32_t bit = valid != 0 ? __ffs(int32_t(valid)) - 1 : 0;
    uint32_t first = AXES == 2 ? lane / 8 << 8 | bit / QUAD << 5 | lane % 8 << 2 | bit % QUAD
                               : bit / QUAD << 7 | lane << 2 | bit % QUAD;
    first = valid != 0 ? first : ALL_LANES;
#pragma unroll
    for (uint32_t distance = 1; distance < WARP; distance *= 2) {
        if (AXES != 3 || distance != 2) {
            first = min_of(first, __shfl_xor_sync(ALL_LANES, first, distance));
        }
    }
    const bool any = first != ALL_LANES;
    const uint32_t k_of_first = AXES == 2 ? first >> 5 & 7 : first >> 7,
                   lane_of_first = AXES == 2 ? first >> 8 << 3 | (first >> 2 & 7) : first >> 2 & 31;
    const float base = any ? values[((k_of_first & 7) * WARP + (lane_of_first & 31)) * QUAD + first % QUAD] : 0.0f;
    __syncwarp();

    const uint32_t to_lane = (2u << lane) - 1, before_lane = (1u << lane) - 1;
    // Lanes that share this lane's rows.
    const uint32_t row_lanes = AXES == 3 ? 3u << (lane & ~1u) : AXES == 2 ? 0xFFu << (lane & ~7u) : ALL_LANES;
    float carried = base; // value of a row without a valid element before
    if constexpr (AXES == 2) {
        // From the lanes above: the last valid first element of their rows.
        const uint32_t firsts = valid & 0x11111111u;
        const uint32_t last_row = firsts != 0 ? (31 - __clz(int32_t(firsts))) / QUAD : 0;
        const float last = values[(last_row * WARP + lane) * QUAD];
        const uint32_t above = __ballot_sync(ALL_LANES, firsts != 0) & 0x01010101u & ((1u << (lane & ~7u)) - 1);
        const float from_above = __shfl_sync(ALL_LANES, last, above != 0 ? 31 - __clz(int32_t(above)) : 0);
        carried = above != 0 ? from_above : base;
        __syncwarp();
    }
#pragma unroll
    for (uint32_t k = 0; k < ROWS; ++k) {
        const uint32_t own = valid >> (QUAD * k) & 15;
        float row_value = carried;
        if constexpr (AXES == 3) {
            const uint32_t firsts = __ballot_sync(ALL_LANES, (lane & 1) == 0 && (own & 1) != 0) & tile_lanes();
            const uint32_t above = firsts & to_lane;
            const float from_above = __shfl_sync(ALL_LANES, q[k][0], above != 0 ? 31 - __clz(int32_t(above)) : 0);
            row_value = above != 0 ? from_above : carried;
            const float corner = __shfl_sync(ALL_LANES, q[k][0], tile_leader());
            carried = (firsts >> tile_leader() & 1) != 0 ? corner : carried;
        }
        if constexpr (AXES == 2) {
            const float start = __shfl_sync(ALL_LANES, q[k][0], lane & ~7u);
            const bool start_is_valid = (__ballot_sync(ALL_LANES, (own & 1) != 0) >> (lane & ~7u) & 1) != 0;
            carried = start_is_valid ? start : carried;
        }
        // The last valid element of the lane, and of the lanes before it in the row.
        const float last = (own & 8) != 0 ? q[k][3] : (own & 4) != 0 ? q[k][2] : (own & 2) != 0 ? q[k][1] : q[k][0];
        const uint32_t with = __ballot_sync(ALL_LANES, own != 0), before = with & row_lanes & before_lane;
        float left = __shfl_sync(ALL_LANES, last, before != 0 ? 31 - __clz(int32_t(before)) : 0);
        left = before != 0 ? left : row_value;
        if constexpr (AXES == 1) {
            const float end = __shfl_sync(ALL_LANES, last, with != 0 ? 31 - __clz(int32_t(with)) : 0);
            carried = with != 0 ? end : carried;
        }
#pragma unroll
        for (uint32_t j = 0; j < QUAD; ++j) {
            left = (own >> j & 1) != 0 ? q[k][j] : left;
            q[k][j] = left;
        }
    }
    return any;
}
