// The rows of quantize_fast.cuh for arrays with clipped tiles or rows that are not multiples of 16 bytes, and with fill patterns: 1,024 elements a warp, 32 a lane. That is two tiles of 8 x 8 x 8, or one tile.
//
// A lane has 8 rows of 4 elements along x. 3-D: of one tile (lane / 2 % 2), one half (lane % 2) of row lane / 4 of each plane; 2-D: a quad (lane % 8) of rows
// lane / 8 * 8 to + 7; 1-D: elements 128 * row + 4 * lane. So loads and stores are of whole lines, and differences along the longest axis need no other lane.
// Of tiles that the array's edges clip, elements that are not there hold the tile's first, and count nowhere. (In 1-D such a tile goes the plain way.)
//
// Integers are kept as floats, exact below 2^24: additions of floats have twice the rate of those of integers (sm_80 and later), and take magnitudes on the way.
#pragma once
#include "quantize.cuh"

constexpr uint32_t ROWS = 8;
constexpr uint32_t QUAD = 4;
constexpr uint32_t UNIT_TILES = AXES == 3 ? 2 : 1;

// Adding it to an integer below 2^22 in magnitude puts the integer into the low bits; so it rounds.
constexpr float MAGIC = 12582912.0f;
constexpr double WIDE_MAGIC = 6755399441055744.0;

typedef float Integers[ROWS][QUAD];

struct FastTile {
    uint64_t first;      // element of the lane's first row, from the slab's start
    uint64_t row_stride; // between the lane's rows
    uint32_t rows, cols; // of the lane that are there; elements in each of them
    bool whole;          // all of them, in all lanes of the warp
    bool eligible;
};

struct FastResult {
    bool fast; // of all of the tile; else the rest means nothing
    int32_t base;
    uint32_t predictor;
    uint32_t activity;
    uint32_t meta; // mask, pattern, sign, empty
    uint32_t verbatim;
    uint64_t error;
    uint32_t counted;
    uint32_t outliers, wide_outliers;
};

// Lanes of this lane's tile.
__device__ inline uint32_t tile_lanes() { return AXES != 3 ? ALL_LANES : (lane_id() & 2) ? 0xCCCCCCCCu : 0x33333333u; }
// The first of them.
__device__ inline uint32_t tile_leader() { return AXES == 3 ? lane_id() & 2 : 0; }

// Sums and votes over the lanes of each tile.
template <typename T> __device__ inline T tile_sum(T value) {
#pragma unroll
    for (uint32_t distance = 1; distance < WARP; distance *= 2) {
        if (AXES != 3 || distance != 2) {
            value += __shfl_xor_sync(ALL_LANES, value, distance);
        }
    }
    return value;
}
__device__ inline bool any_of_tile(bool value) { return (__ballot_sync(ALL_LANES, value) & tile_lanes()) != 0; }
__device__ inline bool all_of_tile(bool value) { return (~__ballot_sync(ALL_LANES, value) & tile_lanes()) == 0; }

// Where the lane's rows are in a tile: element of the first, distance between them (in the tile's raster order).
__device__ inline uint32_t lane_element() {
    uint32_t lane = lane_id();
    return AXES == 3 ? lane / 4 * 8 + (lane & 1) * QUAD : AXES == 2 ? lane / 8 * (ROWS * 32) + lane % 8 * QUAD : lane * QUAD;
}
constexpr uint32_t ROW_DISTANCE = AXES == 3 ? 64 : AXES == 2 ? 32 : 128;

#if ELEMENT_BYTES == 4
__device__ inline Element quick_inverse(const Step &step) { return step.inverse_high; }
#else
__device__ inline Element quick_inverse(const Step &step) { return step.inverse; }
#endif

// The integer of a value as a float, the same as that of `quantize` where this and the magnitudes of the integers (below 2^22) are good.
__device__ inline float quantize_long(const Step &step, Element x, bool &good) {
#if ELEMENT_BYTES == 4
    float rounded = (x * step.inverse_high + MAGIC) - MAGIC;
    float rest = __fmaf_rn(x, step.inverse_low, __fmaf_rn(x, step.inverse_high, -rounded));
    float q = rounded + ((rest + MAGIC) - MAGIC);
    float back = __fmaf_rn(q, step.high, q * step.low);
    good = fabsf(x - back) < step.bound && bits_of(x) != SIGN_BIT && good;
    return q;
#else
    double shifted = x * step.inverse + WIDE_MAGIC;
    double q = shifted - WIDE_MAGIC;
    good = fabs(x - q * step.step) < step.limit && fabs(q) < 4194304.0 && bits_of(x) != SIGN_BIT && good;
    // The low word is the integer; conversions between widths are slow.
    return __uint_as_float(uint32_t(uint64_t(__double_as_longlong(shifted))) + 0x4B400000u) - MAGIC;
#endif
}

// The integers of a row, all of the warp's together.
//
// f32: most values lie so far from the middle between two integers that one rounding finds the one that the format's operations find. With integers of
// at most Q, `x / step` and what is computed here differ by at most Q * 2^-24 + 2^-23: where the error leaves that much to half a step, there is no other
// integer near enough. Where it does not, the row is done again the long way.
__device__ inline void quantize_row(const Step &step, const Element (&x)[QUAD], float (&q)[QUAD], bool &good) {
#if ELEMENT_BYTES == 4
    if (step.short_bits > 0) {
        const float magic = MAGIC + step.short_reach;
        uint32_t reach = 0;
        bool sure = true;
#pragma unroll
        for (uint32_t j = 0; j < QUAD; ++j) {
            float shifted = __fmaf_rn(x[j], step.inverse_high, magic);
            q[j] = shifted - magic;
            float back = __fmaf_rn(q[j], step.high, q[j] * step.low);
            sure = fabsf(x[j] - back) < step.short_bound && bits_of(x[j]) != SIGN_BIT && sure;
            // Bits above those of -reach to reach - 1 differ from the magic number's where an integer is larger, unless it is below -2^21.
            reach |= __float_as_uint(shifted);
        }
        if (__all_sync(ALL_LANES, sure && reach >> step.short_bits == 0x4B400000u >> step.short_bits)) {
            return;
        }
    }
#endif
#pragma unroll
    for (uint32_t j = 0; j < QUAD; ++j) {
        q[j] = quantize_long(step, x[j], good);
    }
}

// Four elements; `aligned` to 16 bytes or not.
__device__ inline void load_quad(const Element *from, bool aligned, Element (&x)[QUAD]) {
#if ELEMENT_BYTES == 4
    if (aligned) {
        float4 quad = __ldcs(reinterpret_cast<const float4 *>(from));
        x[0] = quad.x, x[1] = quad.y, x[2] = quad.z, x[3] = quad.w;
        return;
    }
#else
    if (aligned) {
        double2 low = __ldcs(reinterpret_cast<const double2 *>(from)), high = __ldcs(reinterpret_cast<const double2 *>(from) + 1);
        x[0] = low.x, x[1] = low.y, x[2] = high.x, x[3] = high.y;
        return;
    }
#endif
#pragma unroll
    for (uint32_t j = 0; j < QUAD; ++j) {
        x[j] = from[j];
    }
}

// The first `cols` elements of a row; the rest stay as they are.
__device__ inline void load_row(const Element *from, bool aligned, uint32_t cols, Element (&x)[QUAD]) {
    if (aligned && cols == QUAD) {
        load_quad(from, true, x);
        return;
    }
#pragma unroll
    for (uint32_t j = 0; j < QUAD; ++j) {
        if (j < cols) {
            x[j] = from[j];
        }
    }
}

// The elements of the lane's rows.
__device__ inline void load_unit(const Element *slab, const FastTile &tile, bool aligned, Element (&x)[ROWS][QUAD]) {
    const Element *from = slab + tile.first;
    if (tile.whole) {
#pragma unroll
        for (uint32_t k = 0; k < ROWS; ++k) {
            load_quad(from + k * tile.row_stride, aligned, x[k]);
        }
        return;
    }
#pragma unroll
    for (uint32_t k = 0; k < ROWS; ++k) {
#pragma unroll
        for (uint32_t j = 0; j < QUAD; ++j) {
            x[k][j] = 0;
        }
        load_row(from + k * tile.row_stride, aligned, k < tile.rows ? tile.cols : 0, x[k]);
    }
    const Element first = __shfl_sync(ALL_LANES, x[0][0], tile_leader());
#pragma unroll
    for (uint32_t k = 0; k < ROWS; ++k) {
        const uint32_t cols = k < tile.rows ? tile.cols : 0;
#pragma unroll
        for (uint32_t j = 0; j < QUAD; ++j) {
            x[k][j] = j < cols ? x[k][j] : first;
        }
    }
}

// Calls `visit(row, r)` for each row with r[p][j] the residuals under the predictors p of the bit set WANTED; others are not computed.
template <uint32_t WANTED, typename Visit> __device__ inline void each_row(const Integers &q, float base, Visit visit) {
    const uint32_t lane = lane_id();
    float r[4][QUAD] = {};
    if constexpr (AXES == 1) {
        const bool first = lane == 0;
#pragma unroll
        for (uint32_t k = 0; k < ROWS; ++k) {
            // The element before lane 0's is lane 31's of the row before.
            float last = lane == WARP - 1 && k > 0 ? q[k - (k > 0)][QUAD - 1] : q[k][QUAD - 1];
            float left = __shfl_sync(ALL_LANES, last, (lane + WARP - 1) % WARP);
            left = first && k == 0 ? base : left;
#pragma unroll
            for (uint32_t j = 0; j < QUAD; ++j) {
                r[0][j] = q[k][j] - base;
                r[1][j] = q[k][j] - (j == 0 ? left : q[k][j - (j > 0)]);
            }
            visit(k, r);
        }
        return;
    }
    // Whether the quad's first element has x = 0, and whether the lane's first row has y = 0.
    const bool at_left = AXES == 3 ? (lane & 1) == 0 : lane % 8 == 0;
    const bool at_top = AXES == 3 ? lane < 4 : lane < 8;
    const float has_above = at_top ? 0.0f : 1.0f;
    float before[QUAD] = {}; // 2-D: along x, of the row above; 3-D: along x and y, of the plane before
    float corner = base;     // 2-D: first element of the row above; 3-D: of the row in the plane before
    if (AXES == 2) {
        float left = __shfl_up_sync(ALL_LANES, q[ROWS - 1][QUAD - 1], 1);
        left = at_left ? base : left;
#pragma unroll
        for (uint32_t j = 0; j < QUAD; ++j) {
            float along_x = q[ROWS - 1][j] - (j == 0 ? left : q[ROWS - 1][j - (j > 0)]);
            before[j] = __shfl_up_sync(ALL_LANES, along_x, 8) * has_above;
        }
        float above = __shfl_up_sync(ALL_LANES, q[ROWS - 1][0], 8);
        corner = at_top ? base : above;
    }
#pragma unroll
    for (uint32_t k = 0; k < ROWS; ++k) {
        float left = __shfl_up_sync(ALL_LANES, q[k][QUAD - 1], 1);
        float along_x[QUAD];
        along_x[0] = q[k][0] - (at_left ? base : left);
#pragma unroll
        for (uint32_t j = 1; j < QUAD; ++j) {
            along_x[j] = q[k][j] - q[k][j - 1];
        }
        if (WANTED & 1) {
#pragma unroll
            for (uint32_t j = 0; j < QUAD; ++j) {
                r[0][j] = q[k][j] - base;
            }
        }
        if (WANTED & 2) {
            float above = corner;
            if (AXES == 3) {
                float other = __shfl_up_sync(ALL_LANES, q[k][0], 4);
                above = at_top ? corner : other;
            }
            r[1][0] = q[k][0] - (at_left ? above : left);
#pragma unroll
            for (uint32_t j = 1; j < QUAD; ++j) {
                r[1][j] = along_x[j];
            }
        }
        if (WANTED & 12) {
#pragma unroll
            for (uint32_t j = 0; j < QUAD; ++j) {
                if (AXES == 2) {
                    r[2][j] = along_x[j] - before[j];
                    before[j] = along_x[j];
                } else {
                    float along_xy = __fmaf_rn(__shfl_up_sync(ALL_LANES, along_x[j], 4), -has_above, along_x[j]);
                    r[2][j] = along_xy;
                    r[3][j] = along_xy - before[j];
                    before[j] = along_xy;
                }
            }
            if (AXES == 3 && (WANTED & 4)) {
                r[2][0] = at_left && at_top ? q[k][0] - corner : r[2][0];
            }
        }
        corner = q[k][0];
        visit(k, r);
    }
}

// The predictor with the smallest of the tile's sums, ties going to the larger number, from each lane's sums.
__device__ inline void choose(uint32_t (&sums)[4], uint32_t &predictor, uint32_t &activity) {
    const uint32_t lane = lane_id();
#pragma unroll
    for (uint32_t p = AXES + 1; p < 4; ++p) {
        sums[p] = 1u << 24; // the others are smaller wherever it counts
    }
    // Half of the lanes go on with half of the sums, twice.
    const bool upper = (lane & 1) != 0, odd = (lane & 4) != 0;
    uint32_t low = (upper ? sums[2] : sums[0]) + __shfl_xor_sync(ALL_LANES, upper ? sums[0] : sums[2], 1);
    uint32_t high = (upper ? sums[3] : sums[1]) + __shfl_xor_sync(ALL_LANES, upper ? sums[1] : sums[3], 1);
    uint32_t sum = (odd ? high : low) + __shfl_xor_sync(ALL_LANES, odd ? low : high, 4);
    if (AXES != 3) {
        sum += __shfl_xor_sync(ALL_LANES, sum, 2);
    }
    sum += __shfl_xor_sync(ALL_LANES, sum, 8);
    sum += __shfl_xor_sync(ALL_LANES, sum, 16);
    uint32_t key = sum << 2 | (3 - (2 * upper + odd));
    key = min_of(key, __shfl_xor_sync(ALL_LANES, key, 1));
    key = min_of(key, __shfl_xor_sync(ALL_LANES, key, 4));
    predictor = 3 - (key & 3);
    activity = key >> 2;
}

// The codes of four residuals, not looking for outliers.
__device__ inline uint2 pack(const float (&r)[QUAD]) {
    uint32_t bits[QUAD];
#pragma unroll
    for (uint32_t j = 0; j < QUAD; ++j) {
        bits[j] = __float_as_uint(r[j] + (MAGIC + float(RADIUS)));
    }
    return make_uint2(__byte_perm(bits[0], bits[1], 0x5410), __byte_perm(bits[2], bits[3], 0x5410));
}

// Sums of the residuals' magnitudes under each predictor, and codes of those under predictors GUESS and OTHER.
template <bool CLIPPED, uint32_t GUESS, uint32_t OTHER>
__device__ inline void sums_and_codes(const FastTile &tile, const Integers &q, float base, float (&sums)[4], uint2 (&codes)[ROWS], uint2 (&others)[ROWS]) {
    each_row<(2u << AXES) - 1>(q, base, [&](uint32_t k, const float (&r)[4][QUAD]) {
        const uint32_t cols = !CLIPPED ? QUAD : k < tile.rows ? tile.cols : 0;
#pragma unroll
        for (uint32_t j = 0; j < QUAD; ++j) {
            if (j < cols) {
#pragma unroll
                for (uint32_t p = 0; p <= AXES; ++p) {
                    sums[p] += fabsf(r[p][j]);
                }
            }
        }
        codes[k] = pack(r[GUESS]);
        if constexpr (OTHER != GUESS) {
            others[k] = pack(r[OTHER]);
        }
    });
}

// Neighbours mostly agree about the predictor, in 1-D and 2-D; in 3-D it is mostly one of two.
template <bool CLIPPED>
__device__ inline void sums_and_likely_codes(
    const FastTile &tile, const Integers &q, float base, uint32_t guess, float (&sums)[4], uint2 (&codes)[ROWS], uint2 (&others)[ROWS]
) {
    if constexpr (AXES == 3) {
        sums_and_codes<CLIPPED, 3, 2>(tile, q, base, sums, codes, others);
    } else if (guess == 0) {
        sums_and_codes<CLIPPED, 0, 0>(tile, q, base, sums, codes, others);
    } else if (AXES == 1 || guess == 1) {
        sums_and_codes<CLIPPED, 1, 1>(tile, q, base, sums, codes, others);
    } else {
        sums_and_codes<CLIPPED, AXES, AXES>(tile, q, base, sums, codes, others);
    }
}

// The codes of the lane's rows under predictor P, from the integers kept, for tiles that have it. Others keep what they have.
template <uint32_t P>
__device__ inline void codes_if_any(
    const FastTile &tile, const float4 *kept, float base, uint32_t predictor, uint2 (&codes)[ROWS], uint32_t &outliers, uint32_t &wide_outliers
) {
    const bool mine = predictor == P;
    if (!__any_sync(ALL_LANES, mine)) {
        return;
    }
    Integers q;
#pragma unroll
    for (uint32_t k = 0; k < ROWS; ++k) {
        float4 row = kept[k * WARP + lane_id()];
        q[k][0] = row.x, q[k][1] = row.y, q[k][2] = row.z, q[k][3] = row.w;
    }
    each_row<1u << P>(q, base, [&](uint32_t k, const float (&r)[4][QUAD]) {
        uint32_t bits[QUAD];
#pragma unroll
        for (uint32_t j = 0; j < QUAD; ++j) {
            const float magnitude = fabsf(r[P][j]);
            const bool counts = mine && k < tile.rows && j < tile.cols, outside = counts && magnitude >= float(RADIUS);
            bits[j] = outside ? 0 : __float_as_uint(r[P][j] + (MAGIC + float(RADIUS)));
            outliers += outside;
            wide_outliers += counts && magnitude >= float(WIDE_RADIUS);
        }
        uint32_t low = __byte_perm(bits[0], bits[1], 0x5410), high = __byte_perm(bits[2], bits[3], 0x5410);
        codes[k].x = mine ? low : codes[k].x;
        codes[k].y = mine ? high : codes[k].y;
    });
}

