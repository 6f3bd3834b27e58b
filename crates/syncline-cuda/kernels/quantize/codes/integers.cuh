// Conversion of elements to integers stored as floats, shared by both vector paths.
#pragma once
#include "quantize/codes/lanes.cuh"

// Returns the integer of a value as a float. It equals that of `quantize` if `good` stays true and all integers are
// below 2^22 in magnitude.
__device__ inline float quantize_exact(const Step &step, Element x, bool &good) {
#if LOGARITHM
    int32_t q;
    good = quantize(step, x, q) && good;
    q = max_of(min_of(q, 1 << 22), -(1 << 22)); // larger ones are not exact, and are detected by their sums
    return float(q);
#elif ELEMENT_BYTES == 4
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
    // The low word is the integer. Conversions between widths are slow.
    return __uint_as_float(uint32_t(uint64_t(__double_as_longlong(shifted))) + 0x4B400000u) - MAGIC;
#endif
}

// Quantizes a row. All lanes of the warp must call this together.
//
// f32: most values are so far from the midpoint of two integers that a single rounding finds the integer that the
// format defines. With integers of at most Q, `x / step` and the value computed here differ by at most Q * 2^-24 +
// 2^-23. If the error is smaller than half a step by more than that, no other integer is near enough. Otherwise the row
// is computed again on the exact path.
__device__ inline void quantize_row(const Step &step, const Element (&x)[QUAD], float (&q)[QUAD], bool &good) {
#if ELEMENT_BYTES == 4 && !LOGARITHM
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
            // If an integer is outside -reach to reach - 1, bits above those of the range differ from the magic
            // number's, unless it is below -2^21.
            reach |= __float_as_uint(shifted);
        }
        if (__all_sync(ALL_LANES, sure && reach >> step.short_bits == 0x4B400000u >> step.short_bits)) {
            return;
        }
    }
#endif
#pragma unroll
    for (uint32_t j = 0; j < QUAD; ++j) {
        q[j] = quantize_exact(step, x[j], good);
    }
}

// Loads the lane's rows.
__device__ inline void load_integers(const float4 *kept, Integers &q) {
#pragma unroll
    for (uint32_t k = 0; k < ROWS; ++k) {
        const float4 row = kept[k * WARP + lane_id()];
        q[k][0] = row.x, q[k][1] = row.y, q[k][2] = row.z, q[k][3] = row.w;
    }
}

// Chooses the predictor with the smallest sum of the tile, the larger number on a tie, from each lane's sums under all
// four.
__device__ inline void best_predictor_of_sums(const uint32_t (&sums)[4], uint32_t &predictor, uint32_t &activity) {
    const uint32_t lane = lane_id();
    // Twice, half of the lanes continue with half of the sums.
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

// Returns a lane's sum under a predictor.
__device__ inline float sum_under(const float (&sums)[4], uint32_t predictor) {
    float sum = sums[0];
#pragma unroll
    for (uint32_t p = 1; p <= AXES; ++p) {
        sum = predictor == p ? sums[p] : sum;
    }
    return sum;
}

// Returns what a lane's sums come to at least, if no residual counts more than the limit. Sums up to the limit are
// exact. The others matter only if their predictor is the best nevertheless.
__device__ inline void sums_up_to_limit(const float (&sums)[4], uint32_t (&out)[4]) {
#pragma unroll
    for (uint32_t p = 0; p < 4; ++p) {
        out[p] = uint32_t(fminf(sums[p], float(RESIDUAL_LIMIT)));
    }
}

// What happens to codes that were computed under an expected predictor.
struct GuessResult {
    bool live;  // the tile has codes
    bool again; // but different ones
};

// The guess holds if the predictor is right and the lane's sum is below the radius, so that there are no outliers. In
// 3-D the expected predictors are 3 and 2, whose codes are `codes` and `others`.
template <typename Result>
__device__ inline GuessResult apply_guess(const Result &result, const float (&sums)[4], uint32_t guess,
                                          uint2 (&codes)[ROWS], const uint2 (&others)[ROWS]) {
    bool right = result.predictor == guess;
    if constexpr (AXES == 3) {
        right = result.predictor >= 2;
#pragma unroll
        for (uint32_t k = 0; k < ROWS; ++k) {
            codes[k].x = result.predictor == 2 ? others[k].x : codes[k].x;
            codes[k].y = result.predictor == 2 ? others[k].y : codes[k].y;
        }
    }
    const bool live = result.valid && result.activity > 0;
    return {live, live && (!right || sum_under(sums, result.predictor) >= float(RADIUS))};
}

// Returns the expected predictor of the next tiles: that of the unit's first tile. Votes tell the compiler that it is
// the same on all lanes.
__device__ inline uint32_t next_guess(bool live, uint32_t predictor, uint32_t guess) {
    const uint32_t found = lane_id() == 0 ? (live ? predictor : guess) : 0;
    return uint32_t(__any_sync(ALL_LANES, (found & 1) != 0)) | uint32_t(__any_sync(ALL_LANES, (found & 2) != 0)) << 1;
}
