// Units of 1,024 elements in registers, 32 per lane, with integers stored as floats: two tiles of 8 x 8 x 8, or one
// tile.
//
// A lane has 8 rows of 4 elements along x. In 3-D they belong to tile lane / 2 % 2: half lane % 2 of row lane / 4 of
// each plane. In 2-D they are quad lane % 8 of rows lane / 8 * 8 to + 7. In 1-D they are elements 128 * row + 4 * lane.
// So loads and stores cover whole cache lines, and differences along the slowest axis need no other lane. In clipped
// tiles, elements outside the array hold the tile's first element and do not count. (In 1-D such a tile takes the
// scalar path.)
//
// Integers are stored as floats, which is exact below 2^24: from sm_80 on, float additions have twice the rate of
// integer additions, and include taking magnitudes.
#pragma once
#include "quantize/codes/integers.cuh"

struct VectorTile {
    uint64_t first;      // the lane's first element in the slab
    uint64_t row_stride; // distance of the lane's rows
    uint32_t rows, cols; // rows of the lane inside the array, and elements in each
    bool whole;          // all of them, on all lanes of the warp
    bool eligible;
};

struct VectorResult {
    bool valid; // for the whole tile; otherwise the other fields are meaningless
    int32_t base;
    uint32_t predictor;
    uint32_t activity;
    uint32_t meta; // mask, pattern, sign, empty
    uint32_t verbatim;
    uint64_t error;
    uint32_t counted;
    uint32_t outliers, wide_outliers;
};

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

#if ELEMENT_BYTES == 4
__device__ inline Element quick_inverse(const Step &step) { return step.inverse_high; }
#else
__device__ inline Element quick_inverse(const Step &step) { return step.inverse; }
#endif

// Loads the first `cols` elements of a row. The others stay unchanged.
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

// Loads the elements of the lane's rows.
__device__ inline void load_unit(const Element *slab, const VectorTile &tile, bool aligned, Element (&x)[ROWS][QUAD]) {
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

// Chooses the predictor with the smallest sum of the tile, the larger number on a tie, from each lane's sums.
__device__ inline void choose_predictor(uint32_t (&sums)[4], uint32_t &predictor, uint32_t &activity) {
#pragma unroll
    for (uint32_t p = AXES + 1; p < 4; ++p) {
        sums[p] = 1u << 24; // others are smaller
    }
#if __CUDA_ARCH__ >= 800
    if constexpr (AXES != 3) {
        uint32_t key = ~0u;
#pragma unroll
        for (uint32_t p = 0; p <= AXES; ++p) {
            key = min_of(key, __reduce_add_sync(ALL_LANES, sums[p]) << 2 | (3 - p));
        }
        predictor = 3 - (key & 3);
        activity = key >> 2;
        return;
    }
#endif
    best_predictor_of_sums(sums, predictor, activity);
}

// Sums the residuals' magnitudes under each predictor, and computes the codes under predictors GUESS and OTHER.
template <bool CLIPPED, uint32_t GUESS, uint32_t OTHER>
__device__ inline void sums_and_codes(const VectorTile &tile, const Integers &q, float base, float (&sums)[4],
                                      uint2 (&codes)[ROWS], uint2 (&others)[ROWS]) {
    for_each_row<(2u << AXES) - 1>(q, base, [&](uint32_t k, const float(&r)[4][QUAD]) {
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

// In 1-D and 2-D adjacent tiles mostly have the same predictor. In 3-D it is mostly one of two.
template <bool CLIPPED>
__device__ inline void sums_and_likely_codes(const VectorTile &tile, const Integers &q, float base, uint32_t guess,
                                             float (&sums)[4], uint2 (&codes)[ROWS], uint2 (&others)[ROWS]) {
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

// Sums the residuals' magnitudes up to the limit under each predictor, from the integers in `kept`.
__device__ inline void limited_sums(const VectorTile &tile, const float4 *kept, float base, uint32_t (&out)[4]) {
    Integers q;
    load_integers(kept, q);
    float sums[4] = {};
    for_each_row<(2u << AXES) - 1>(q, base, [&](uint32_t k, const float(&r)[4][QUAD]) {
        const uint32_t cols = k < tile.rows ? tile.cols : 0;
#pragma unroll
        for (uint32_t j = 0; j < QUAD; ++j) {
#pragma unroll
            for (uint32_t p = 0; p <= AXES; ++p) {
                sums[p] += j < cols ? fminf(fabsf(r[p][j]), float(RESIDUAL_LIMIT)) : 0.0f;
            }
        }
    });
#pragma unroll
    for (uint32_t p = 0; p < 4; ++p) {
        out[p] = uint32_t(sums[p]);
    }
}

// Recomputes the codes of the lane's rows under predictor P from the integers in `kept`, for tiles with that predictor.
// Other tiles keep their codes.
template <uint32_t P>
__device__ inline void rewrite_codes(const VectorTile &tile, const float4 *kept, float base, uint32_t predictor,
                                     uint2 (&codes)[ROWS], uint32_t &outliers, uint32_t &wide_outliers) {
    const bool mine = predictor == P;
    if (!__any_sync(ALL_LANES, mine)) {
        return;
    }
    Integers q;
    load_integers(kept, q);
    for_each_row<1u << P>(q, base, [&](uint32_t k, const float(&r)[4][QUAD]) {
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
