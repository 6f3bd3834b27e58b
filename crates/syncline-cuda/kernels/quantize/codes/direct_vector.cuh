// Unclipped tiles with nothing unusual in them, in registers: 1,024 elements a warp, 32 a lane. That is two tiles side
// by side of 8 x 8 x 8, or one tile.
//
// A lane has 8 rows of 4 elements along x. 3-D: of one tile (lane / 2 % 2), one half (lane % 2) of row lane / 4 of each
// plane; 2-D: a quad (lane % 8) of rows lane / 8 * 8 to + 7; 1-D: elements 128 * row + 4 * lane. So loads and stores
// are of whole lines, and differences along the longest axis need no other lane.
//
// Integers are kept as floats, exact below 2^24: additions of floats have twice the rate of those of integers (sm_80
// and later), and take magnitudes on the way.
#pragma once
#include "quantize/codes/integers.cuh"

struct VectorTile {
    uint64_t first;      // element of the lane's first row, from the slab's start
    uint64_t row_stride; // between the lane's rows
    bool eligible;
};

struct VectorResult {
    bool valid; // of all of the tile; else the rest means nothing
    int32_t base;
    uint32_t predictor;
    uint32_t activity;
    uint32_t sign;
    uint64_t error;
};

// The predictor with the smallest of the tile's sums, ties going to the larger number, from each lane's sums.
__device__ inline void choose_predictor(const float (&lane_sums)[4], uint32_t &predictor, uint32_t &activity) {
    uint32_t sums[4];
#pragma unroll
    for (uint32_t p = 0; p < 4; ++p) {
        // Below 2^24 wherever it counts; predictors that are not in use come out larger.
        sums[p] = p <= AXES ? uint32_t(lane_sums[p]) : 1u << 24;
    }
    best_predictor_of_sums(sums, predictor, activity);
}

// Sums of the residuals' magnitudes under each predictor, and codes of those under predictors GUESS and OTHER.
template <uint32_t GUESS, uint32_t OTHER>
__device__ inline void sums_and_codes(const Integers &q, float base, float (&sums)[4], uint2 (&codes)[ROWS],
                                      uint2 (&others)[ROWS]) {
    for_each_row<(2u << AXES) - 1>(q, base, [&](uint32_t k, const float(&r)[4][QUAD]) {
#pragma unroll
        for (uint32_t p = 0; p <= AXES; ++p) {
#pragma unroll
            for (uint32_t j = 0; j < QUAD; ++j) {
                sums[p] += fabsf(r[p][j]);
            }
        }
        codes[k] = pack(r[GUESS]);
        if constexpr (OTHER != GUESS) {
            others[k] = pack(r[OTHER]);
        }
    });
}

// The codes of the lane's rows under predictor P, from the integers kept, for tiles that have it. Others keep what they
// have.
template <uint32_t P>
__device__ inline void rewrite_codes(const float4 *kept, float base, uint32_t predictor, uint2 (&codes)[ROWS],
                                     uint32_t &outliers, uint32_t &wide_outliers) {
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
    for_each_row<1u << P>(q, base, [&](uint32_t k, const float(&r)[4][QUAD]) {
        uint32_t bits[QUAD];
#pragma unroll
        for (uint32_t j = 0; j < QUAD; ++j) {
            float magnitude = fabsf(r[P][j]);
            bool outside = mine && magnitude >= float(RADIUS);
            bits[j] = outside ? 0 : __float_as_uint(r[P][j] + (MAGIC + float(RADIUS)));
            outliers += outside;
            wide_outliers += mine && magnitude >= float(WIDE_RADIUS);
        }
        uint32_t low = __byte_perm(bits[0], bits[1], 0x5410), high = __byte_perm(bits[2], bits[3], 0x5410);
        codes[k].x = mine ? low : codes[k].x;
        codes[k].y = mine ? high : codes[k].y;
    });
}

// Quantizes and predicts the unit; `slab` is where the element numbers of `tile` count from, `kept` shared memory for
// the warp's integers, `guess` the predictor that the tiles will probably have; it becomes that of these. `codes` are
// those of a fast tile that is not constant.
__device__ inline VectorResult quantize_unit(const Step &step, const Element *slab, const VectorTile &tile,
                                             bool aligned, float4 *kept, uint32_t &guess, uint2 (&codes)[ROWS],
                                             uint32_t &outliers, uint32_t &wide_outliers) {
    Integers q;
    bool good = tile.eligible;
    double error = 0.0;
#if LOGARITHM
    bool any_negative = false, all_negative = true;
#endif
    const Element *from = slab + tile.first;
    // f64 in two turns: all of it at once would not leave enough registers for enough warps.
    constexpr uint32_t TURN = ELEMENT_BYTES == 4 ? ROWS : ROWS / 2;
#pragma unroll
    for (uint32_t turn = 0; turn < ROWS; turn += TURN) {
        Element x[TURN][QUAD];
        if (tile.eligible) {
#pragma unroll
            for (uint32_t k = 0; k < TURN; ++k) {
                load_quad(from + (turn + k) * tile.row_stride, aligned, x[k]);
            }
        } else {
#pragma unroll
            for (uint32_t k = 0; k < TURN; ++k) {
#pragma unroll
                for (uint32_t j = 0; j < QUAD; ++j) {
                    x[k][j] = 0;
                }
            }
        }
#pragma unroll
        for (uint32_t k = 0; k < TURN; ++k) {
#pragma unroll
            for (uint32_t j = 0; j < QUAD; ++j) {
#if PATTERNS
#pragma unroll
                for (uint32_t p = 0; p < MAX_PATTERNS; ++p) {
                    good = bits_of(x[k][j]) != Bits(step.patterns[p]) && good; // the rest repeat the first
                }
#endif
#if LOGARITHM
                bool negative = (bits_of(x[k][j]) & SIGN_BIT) != 0;
                any_negative |= negative;
                all_negative &= negative;
#endif
            }
            quantize_row(step, x[k], q[turn + k], good);
            // For predictors that are seldom the best: their residuals are made again, from here, since registers are
            // short.
            kept[(turn + k) * WARP + lane_id()] =
                make_float4(q[turn + k][0], q[turn + k][1], q[turn + k][2], q[turn + k][3]);
#if MEASURE
#pragma unroll
            for (uint32_t j = 0; j < QUAD; ++j) {
                error += squared_error(step, x[k][j], reconstruct(step, int32_t(q[turn + k][j])));
            }
#endif
        }
    }

    VectorResult result = {};
    const float base = __shfl_sync(ALL_LANES, q[0][0], tile_leader());
    float sums[4] = {};
    // Neighbors mostly agree about the predictor, in 1-D and 2-D; in 3-D it is mostly one of two.
    uint2 others[ROWS];
    if constexpr (AXES == 3) {
        sums_and_codes<3, 2>(q, base, sums, codes, others);
    } else if (guess == 0) {
        sums_and_codes<0, 0>(q, base, sums, codes, others);
    } else if (AXES == 1 || guess == 1) {
        sums_and_codes<1, 1>(q, base, sums, codes, others);
    } else {
        sums_and_codes<AXES, AXES>(q, base, sums, codes, others);
    }
    __syncwarp();
    // Base and distances from it this small make every integer small enough to be exact in `quantize_fast`, and every
    // residual exact; so are sums that stay below 2^24.
    good = good && fabsf(base) < 2097152.0f && sums[0] < 1048576.0f;
#pragma unroll
    for (uint32_t p = 1; p <= AXES; ++p) {
        good = good && sums[p] < 16777216.0f;
    }
    const uint32_t lanes = tile_lanes();
    result.valid = (__ballot_sync(ALL_LANES, good) & lanes) == lanes;
    result.base = int32_t(base);
#if LOGARITHM
    bool any = (__ballot_sync(ALL_LANES, any_negative) & lanes) != 0,
         all = (__ballot_sync(ALL_LANES, all_negative) & lanes) == lanes;
    result.sign = !any ? KIND_NONE : all ? KIND_ALL : KIND_BITMAP;
#endif
#if MEASURE
    result.error = result.valid ? uint64_t(error) : 0;
#pragma unroll
    for (uint32_t distance = 1; distance < WARP; distance *= 2) {
        if (AXES != 3 || distance != 2) {
            result.error += __shfl_xor_sync(ALL_LANES, result.error, distance);
        }
    }
#endif
    choose_predictor(sums, result.predictor, result.activity);

    outliers = 0;
    wide_outliers = 0;
    const auto [live, again] = apply_guess(result, sums, guess, codes, others);
    if (__any_sync(ALL_LANES, again)) {
        const uint32_t predictor = again ? result.predictor : 4;
        rewrite_codes<0>(kept, base, predictor, codes, outliers, wide_outliers);
        rewrite_codes<1>(kept, base, predictor, codes, outliers, wide_outliers);
        if constexpr (AXES >= 2) {
            rewrite_codes<2>(kept, base, predictor, codes, outliers, wide_outliers);
        }
        if constexpr (AXES >= 3) {
            rewrite_codes<3>(kept, base, predictor, codes, outliers, wide_outliers);
        }
    }
    if constexpr (AXES < 3) {
        guess = next_guess(live, result.predictor, guess);
    }
    // Sums over the tile's lanes; there are outliers in few tiles.
    if (__any_sync(ALL_LANES, outliers > 0)) {
#pragma unroll
        for (uint32_t distance = 1; distance < WARP; distance *= 2) {
            if (AXES != 3 || distance != 2) {
                outliers += __shfl_xor_sync(ALL_LANES, outliers, distance);
                wide_outliers += __shfl_xor_sync(ALL_LANES, wide_outliers, distance);
            }
        }
    }
    return result;
}
