// Vector path of quantize/codes/direct.cu, for unclipped tiles without exceptional values: 1,024 elements per warp in
// registers, 32 per lane. A unit is two adjacent tiles of 8 x 8 x 8, or one tile.
//
// A lane has 8 rows of 4 elements along x. In 3-D they belong to tile lane / 2 % 2: half lane % 2 of row lane / 4 of
// each plane. In 2-D they are quad lane % 8 of rows lane / 8 * 8 to + 7. In 1-D they are elements 128 * row + 4 * lane.
// So loads and stores cover whole cache lines, and differences along the slowest axis need no other lane.
//
// Integers are stored as floats, which is exact below 2^24: from sm_80 on, float additions have twice the rate of
// integer additions, and include taking magnitudes.
#pragma once
#include "quantize/codes/integers.cuh"

struct VectorTile {
    uint64_t first;      // the lane's first element in the slab
    uint64_t row_stride; // distance of the lane's rows
    bool eligible;
};

struct VectorResult {
    bool valid; // for the whole tile; otherwise the other fields are meaningless
    int32_t base;
    uint32_t predictor;
    uint32_t activity;
    uint32_t sign;
    uint64_t error;
};

// Chooses the predictor with the smallest sum of the tile, the larger number on a tie, from each lane's sums.
__device__ inline void choose_predictor(uint32_t (&sums)[4], uint32_t &predictor, uint32_t &activity) {
#pragma unroll
    for (uint32_t p = AXES + 1; p < 4; ++p) {
        sums[p] = 1u << 24; // others are smaller
    }
    best_predictor_of_sums(sums, predictor, activity);
}

// Sums the residuals' magnitudes under each predictor, and computes the codes under predictors GUESS and OTHER.
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

// Sums the residuals' magnitudes up to the limit under each predictor, from the integers in `kept`.
__device__ inline void limited_sums(const float4 *kept, float base, uint32_t (&out)[4]) {
    Integers q;
    load_integers(kept, q);
    float sums[4] = {};
    for_each_row<(2u << AXES) - 1>(q, base, [&](uint32_t, const float(&r)[4][QUAD]) {
#pragma unroll
        for (uint32_t p = 0; p <= AXES; ++p) {
#pragma unroll
            for (uint32_t j = 0; j < QUAD; ++j) {
                sums[p] += fminf(fabsf(r[p][j]), float(RESIDUAL_LIMIT));
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
__device__ inline void rewrite_codes(const float4 *kept, float base, uint32_t predictor, uint2 (&codes)[ROWS],
                                     uint32_t &outliers, uint32_t &wide_outliers) {
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

// Quantizes and predicts a unit. `slab` is the origin of the element numbers in `tile`. `kept` is shared memory for the
// warp's integers. `guess` is the expected predictor, and becomes that of these tiles. `codes` are valid for vector
// tiles that are not constant.
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
    // f64 takes two iterations, because all elements at once would take too many registers.
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
                    good = bits_of(x[k][j]) != Bits(step.patterns[p]) && good; // unused ones repeat the first
                }
#endif
#if LOGARITHM
                bool negative = (bits_of(x[k][j]) & SIGN_BIT) != 0;
                any_negative |= negative;
                all_negative &= negative;
#endif
            }
            quantize_row(step, x[k], q[turn + k], good);
            // Residuals under rarely chosen predictors are recomputed from here, which saves registers.
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
    // In 1-D and 2-D adjacent tiles mostly have the same predictor. In 3-D it is mostly one of two.
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
    // With base and distances this small, all integers are exact in `quantize_exact`, and all residuals are exact; so
    // are sums below 2^24.
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
    uint32_t counted[4];
    sums_up_to_limit(sums, counted);
    choose_predictor(counted, result.predictor, result.activity);
    if (__any_sync(ALL_LANES, result.valid && sum_under(sums, result.predictor) > float(RESIDUAL_LIMIT))) {
        limited_sums(kept, base, counted);
        choose_predictor(counted, result.predictor, result.activity);
    }

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
    // Sums over the tile's lanes. Few tiles have outliers.
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
