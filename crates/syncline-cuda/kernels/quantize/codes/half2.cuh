// Tiles whose integers lie within 1024 of their base, with two elements per word, so that one instruction adds,
// subtracts or takes the magnitudes of two elements.
//
// The bits of an integer k of up to 2048 are those of the half k * 2^-24, which is subnormal or equally spaced. So a
// word is two 16-bit integers and two halves at the same time, and no conversion is needed. Sums up to 2048 are exact,
// and a larger sum stays larger however it is rounded.
//
// Words hold the integers minus the tile's base, plus 1024 while they are being computed. Elements outside the array
// hold the tile's first element; along x their differences are 0. In thin units each lane has at most DEPTH rows.
#pragma once
#include "quantize/codes/async_staging.cuh"

constexpr uint32_t PAIRS = QUAD / 2;
constexpr uint32_t PAIR_REACH_LOG2 = 11; // integers minus the base are -1024 to 1023
constexpr uint32_t PAIR_BASE = 0x04000400u;
constexpr uint32_t PAIR_CENTER = uint32_t(RADIUS) << 16 | uint32_t(RADIUS); // the code of residual 0
constexpr uint32_t PAIR_MINUS_ONE = 0xBC00BC00u;                            // -1.0 in both halves
// Bits that are 0 in halves below 2048.
constexpr uint32_t PAIR_INEXACT = 0xF800F800u;
constexpr float PAIR_MAX_BASE = 2097152.0f;

__device__ inline uint32_t pair_add(uint32_t a, uint32_t b) {
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(a) : "r"(a), "r"(b));
    return a;
}
__device__ inline uint32_t pair_subtract(uint32_t a, uint32_t b) {
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(a) : "r"(a), "r"(b));
    return a;
}
// a * factor + b
__device__ inline uint32_t pair_fused(uint32_t a, uint32_t factor, uint32_t b) {
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(a) : "r"(a), "r"(factor), "r"(b));
    return a;
}
__device__ inline uint32_t pair_add_magnitudes(uint32_t sum, uint32_t a) {
    asm("{ .reg .b32 m; abs.f16x2 m, %1; add.rn.f16x2 %0, %2, m; }" : "=r"(sum) : "r"(a), "r"(sum));
    return sum;
}
// Returns the sum of both halves, each limited to 2048.
__device__ inline uint32_t pair_sum(uint32_t pair, uint32_t more = 0) {
#if __CUDA_ARCH__ >= 800
    asm("min.f16x2 %0, %1, %2;" : "=r"(pair) : "r"(pair), "r"(0x08000800u));
    return __dp2a_lo(pair, 0x0101u, more);
#else
    return min_of(pair & 0xFFFF, 2048u) + min_of(pair >> 16, 2048u) + more;
#endif
}

typedef uint32_t PairRows[ROWS][PAIRS];

#if ELEMENT_BYTES == 4
constexpr Element PAIR_MAGIC = MAGIC + 1024.0f;
constexpr Element PAIR_ROUNDING = 0x1p-23f;
__device__ inline Element fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ inline uint32_t sign_word(float a) { return __float_as_uint(a); }
#else
constexpr Element PAIR_MAGIC = WIDE_MAGIC + 1024.0;
constexpr Element PAIR_ROUNDING = 0x1p-51;
__device__ inline Element fused(double a, double b, double c) { return __fma_rn(a, b, c); }
__device__ inline uint32_t sign_word(double a) { return uint32_t(__double2hiint(a)); }
#endif

// Checks that 1024 plus all integers minus the base are 0 to 2047: then higher bits are those of the magic number in
// all shifted values. Values with the same higher bits that differ by 2^22 or more are excluded by `Step::reach_known`.
struct RangeCheck {
    uint32_t any = 0;
#if ELEMENT_BYTES == 8
    uint32_t any_high = 0;
#endif
    __device__ inline uint32_t add(Element shifted) {
#if ELEMENT_BYTES == 4
        const uint32_t low = __float_as_uint(shifted);
#else
        const uint32_t low = uint32_t(__double2loint(shifted));
        any_high |= uint32_t(__double2hiint(shifted));
#endif
        any |= low;
        return low;
    }
    __device__ inline bool inside() const {
#if ELEMENT_BYTES == 4
        return any >> PAIR_REACH_LOG2 == 0x4B400000u >> PAIR_REACH_LOG2;
#else
        return any >> PAIR_REACH_LOG2 == 0 && any_high == 0x43380000u;
#endif
    }
};

// Computes the words of the lane's rows. Returns false on the whole warp if an integer is too far from the base, or if
// an element has no integer.
//
// A single rounding finds the integer that the format defines, with an error within the bound, if `x / step` is farther
// from the midpoint of two integers than all rounding errors together: those of the inverse and of the reconstruction,
// each at most 2^-24 (2^-53) of an integer, and some of half a step. Rows with other elements, or with -0.0, are
// computed again on the exact path.
template <uint32_t DEPTH>
__device__ inline bool pair_words(const Step &step, const StagingBuffer &staging, const VectorTile &tile, float &base,
                                  PairRows &words) {
    bool good = true;
    const Element first = staging.first();
    base = quantize_exact(step, first, good);
    good = good && fabsf(base) < PAIR_MAX_BASE;
    const Element inverse = quick_inverse(step), shift = PAIR_MAGIC - Element(base);
    // No integer here exceeds what the unit's range allows, nor the array's largest.
    const float largest = step.short_bits > 0 ? min_of(fabsf(base) + 1024.0f, step.short_reach) : fabsf(base) + 1024.0f;
    const Element sure_below = Element(0.5) - (Element(largest) + 64) * PAIR_ROUNDING;
    RangeCheck reach;
    uint32_t doubtful = 0;
#pragma unroll
    for (uint32_t k = 0; k < DEPTH; ++k) {
        Element x[QUAD];
        staging.row(k, x);
        uint32_t low[QUAD], unsure = 0;
#pragma unroll
        for (uint32_t j = 0; j < QUAD; ++j) {
            const Element shifted = fused(x[j], inverse, shift), integer = shifted - shift;
            // Testing the sign of a difference costs less than a comparison, because more units can add. NaN fails the
            // range check.
            unsure |= sign_word(sure_below - fabs(fused(x[j], inverse, -integer)));
            low[j] = reach.add(shifted);
        }
#if PATTERNS
#pragma unroll
        for (uint32_t j = 0; j < QUAD; ++j) {
#pragma unroll
            for (uint32_t p = 0; p < MAX_PATTERNS; ++p) {
                good = bits_of(x[j]) != Bits(step.patterns[p]) && good; // unused ones repeat the first
            }
        }
#endif
        // The last row is bit 0, the one before it bit 1, and so on.
        doubtful = __funnelshift_l(unsure, doubtful, 1);
        words[k][0] = __byte_perm(low[0], low[1], 0x5410);
        words[k][1] = __byte_perm(low[2], low[3], 0x5410);
    }
    // -0.0 must be stored verbatim, but 0 may be within 1024 of the base.
    if (step.minus_zeros != 0 && __any_sync(ALL_LANES, fabsf(base) <= 1024.0f)) {
#pragma unroll 1
        for (uint32_t k = 0; k < DEPTH; ++k) {
            Element x[QUAD];
            staging.row(k, x);
            const bool any = bits_of(x[0]) == SIGN_BIT || bits_of(x[1]) == SIGN_BIT || bits_of(x[2]) == SIGN_BIT ||
                             bits_of(x[3]) == SIGN_BIT;
            doubtful |= any ? 1u << (DEPTH - 1 - k) : 0;
        }
    }
    if (step.reach_known == 0) {
#pragma unroll 1
        for (uint32_t k = 0; k < DEPTH; ++k) {
            Element x[QUAD];
            staging.row(k, x);
#pragma unroll
            for (uint32_t j = 0; j < QUAD; ++j) {
                good = fabs(x[j] * inverse) < Element(PAIR_MAX_BASE) && good;
            }
        }
    }
    if (!__all_sync(ALL_LANES, (good && reach.inside()) || !tile.eligible)) {
        return false;
    }
    if (__any_sync(ALL_LANES, doubtful != 0)) {
#pragma unroll 1
        for (uint32_t k = 0; k < DEPTH; ++k) {
            if (!__any_sync(ALL_LANES, (doubtful >> (DEPTH - 1 - k) & 1) != 0)) {
                continue;
            }
            Element x[QUAD];
            staging.row(k, x);
            uint32_t low[QUAD];
#pragma unroll
            for (uint32_t j = 0; j < QUAD; ++j) {
                low[j] = reach.add((Element(quantize_exact(step, x[j], good)) - Element(base)) + PAIR_MAGIC);
            }
            const uint32_t low_word = __byte_perm(low[0], low[1], 0x5410),
                           high_word = __byte_perm(low[2], low[3], 0x5410);
#pragma unroll
            for (uint32_t row = 0; row < DEPTH; ++row) {
                words[row][0] = row == k ? low_word : words[row][0];
                words[row][1] = row == k ? high_word : words[row][1];
            }
        }
        return __all_sync(ALL_LANES, (good && reach.inside()) || !tile.eligible);
    }
    return true;
}

// The left neighbors of a row's words along x. Elements outside the array are their own neighbors.
template <bool WHOLE> struct LeftNeighbors {
    uint32_t first, second;  // byte selectors of the left neighbors of both words
    uint32_t source;         // 3-D: the lane that has the element before the row, or the one above its first element
    bool at_left, at_corner; // no quad to the left; no row above either
    uint32_t not_left;       // -1, but 0 for the first element along x

    __device__ inline explicit LeftNeighbors(const VectorTile &tile) {
        const uint32_t lane = lane_id();
        at_left = AXES == 3 ? (lane & 1) == 0 : AXES == 2 ? lane % 8 == 0 : lane == 0;
        at_corner = AXES == 3 ? (lane & ~2u) == 0 : lane == 0;
        source = at_left ? (lane + WARP - 4) % WARP : lane - 1;
        const uint32_t half = AXES == 3 && at_left ? 0x0010u : 0x0032u;
        first = (WHOLE || tile.cols > 0 ? half : 0x0054u) | (WHOLE || tile.cols > 1 ? 0x5400u : 0x7600u);
        not_left = at_left && (WHOLE || tile.cols > 0) ? PAIR_MINUS_ONE & 0xFFFF0000u : PAIR_MINUS_ONE;
        second = (WHOLE || tile.cols > 2 ? 0x0032u : 0x0054u) | (WHOLE || tile.cols > 3 ? 0x5400u : 0x7600u);
    }
    __device__ inline uint32_t of_first(uint32_t left, uint32_t word) const { return __byte_perm(left, word, first); }
    __device__ inline uint32_t of_second(const uint32_t (&words)[PAIRS]) const {
        return __byte_perm(words[0], words[1], second);
    }
    // Returns the left neighbor of row k; for quads at the left edge the element above, in both halves.
    __device__ inline uint32_t left(const PairRows &words, uint32_t k) const {
        if constexpr (AXES == 3) {
            // For a quad at the left edge, the row below needs its first element, and the quad to its right its last.
            const uint32_t other = __shfl_sync(ALL_LANES, __byte_perm(words[k][0], words[k][1], 0x7610), source);
            return at_corner ? (k > 0 ? words[k - (k > 0)][0] : 0) : other;
        } else if constexpr (AXES == 2) {
            const uint32_t other = __shfl_up_sync(ALL_LANES, words[k][1], 1);
            uint32_t above = words[(k + ROWS - 1) % ROWS][0];
            if (k == 0) {
                above = __shfl_up_sync(ALL_LANES, above, 8);
                above = at_corner ? 0 : above;
            }
            return at_left ? __byte_perm(above, 0, 0x1010) : other;
        } else {
            // The element before lane 0's is lane 31's of the previous row.
            const uint32_t last = lane_id() == WARP - 1 && k > 0 ? words[k - (k > 0)][1] : words[k][1];
            const uint32_t other = __shfl_sync(ALL_LANES, last, (lane_id() + WARP - 1) % WARP);
            return at_left && k == 0 ? 0 : other;
        }
    }
};

// Computes the differences along x and y (in 1-D along x), and each lane's sums of magnitudes under each predictor
// except 0.
template <bool WHOLE, uint32_t DEPTH>
__device__ inline void pair_sums(const VectorTile &tile, const PairRows &words, PairRows &along, uint32_t (&sums)[4]) {
    const uint32_t lane = lane_id();
    const LeftNeighbors<WHOLE> before(tile);
    // Rows outside the array do not count.
    auto add = [&](uint32_t p, uint32_t k, uint32_t residuals) {
        sums[p] = pair_add_magnitudes(sums[p], WHOLE || k < tile.rows ? residuals : 0);
    };
    if constexpr (AXES == 1) {
#pragma unroll
        for (uint32_t k = 0; k < DEPTH; ++k) {
            along[k][0] = pair_subtract(words[k][0], before.of_first(before.left(words, k), words[k][0]));
            along[k][1] = pair_subtract(words[k][1], before.of_second(words[k]));
            add(1, k, along[k][0]);
            add(1, k, along[k][1]);
        }
        return;
    }
    const bool at_top = AXES == 3 ? lane < 4 : lane < 8;
    const uint32_t has_above = at_top ? 0 : PAIR_MINUS_ONE;
    const uint32_t corner = before.at_corner ? PAIR_MINUS_ONE & 0xFFFF : 0, not_corner = PAIR_MINUS_ONE ^ corner;
    uint32_t along_x[PAIRS], along_x_above[PAIRS] = {};
    if constexpr (AXES == 2) {
        // Differences along x in the row above the lane's first.
        const uint32_t(&last)[PAIRS] = words[ROWS - 1];
        const uint32_t left = __shfl_up_sync(ALL_LANES, last[1], 1);
        along_x[0] = pair_fused(before.of_first(left, last[0]), before.not_left, last[0]);
        along_x[1] = pair_subtract(last[1], before.of_second(last));
#pragma unroll
        for (uint32_t i = 0; i < PAIRS; ++i) {
            const uint32_t other = __shfl_up_sync(ALL_LANES, along_x[i], 8);
            along_x_above[i] = at_top ? 0 : other;
        }
    }
#pragma unroll
    for (uint32_t k = 0; k < DEPTH; ++k) {
        const uint32_t first = before.of_first(before.left(words, k), words[k][0]);
        along_x[0] = pair_fused(first, before.not_left, words[k][0]);
        along_x[1] = pair_subtract(words[k][1], before.of_second(words[k]));
        add(1, k, pair_subtract(words[k][0], first));
        add(1, k, along_x[1]);
#pragma unroll
        for (uint32_t i = 0; i < PAIRS; ++i) {
            if constexpr (AXES == 3) {
                along[k][i] = pair_fused(__shfl_up_sync(ALL_LANES, along_x[i], 4), has_above, along_x[i]);
            } else {
                along[k][i] = pair_subtract(along_x[i], along_x_above[i]);
            }
        }
        if (AXES == 3 && k > 0) {
            // The first element of a plane is differenced along z only.
            along[k][0] = pair_fused(along_x_above[0], corner, along[k][0]);
        }
        add(2, k, along[k][0]);
        add(2, k, along[k][1]);
        if constexpr (AXES == 3) {
            const uint32_t(&plane_before)[PAIRS] = along[k - (k > 0)];
            add(3, k, k == 0 ? along[k][0] : pair_fused(plane_before[0], not_corner, along[k][0]));
            add(3, k, k == 0 ? along[k][1] : pair_subtract(along[k][1], plane_before[1]));
        }
        along_x_above[0] = along_x[0];
        along_x_above[1] = along_x[1];
    }
}

// Computes the codes under the tile's predictor.
template <bool WHOLE, uint32_t DEPTH>
__device__ inline void pair_codes(const Step &step, const VectorTile &tile, const PairRows &words,
                                  const PairRows &along, uint32_t predictor, uint2 (&codes)[ROWS]) {
    if (AXES > 1 && __any_sync(ALL_LANES, predictor == 2 || predictor == 3)) {
        const uint32_t factor = AXES == 3 && predictor == 3 ? PAIR_MINUS_ONE : 0;
        const uint32_t first_factor = (lane_id() & ~2u) == 0 ? factor & 0xFFFF0000u : factor;
#pragma unroll
        for (uint32_t k = 0; k < DEPTH; ++k) {
            codes[k].x = pair_add(along[k][0], PAIR_CENTER);
            codes[k].y = pair_add(along[k][1], PAIR_CENTER);
            if (AXES == 3 && k > 0) {
                codes[k].x = pair_fused(along[k - (k > 0)][0], first_factor, codes[k].x);
                codes[k].y = pair_fused(along[k - (k > 0)][1], factor, codes[k].y);
            }
        }
    }
    if constexpr (AXES == 1) {
        if (__any_sync(ALL_LANES, predictor == 1)) {
#pragma unroll
            for (uint32_t k = 0; k < DEPTH; ++k) {
                codes[k].x = pair_add(along[k][0], PAIR_CENTER);
                codes[k].y = pair_add(along[k][1], PAIR_CENTER);
            }
        }
    } else if (__any_sync(ALL_LANES, predictor == 1)) {
        const LeftNeighbors<WHOLE> before(tile);
        const bool mine = predictor == 1;
        // Recomputes the left neighbors. The exclusive or with 0 hides from the compiler that these are the same words;
        // otherwise it would keep the earlier results in registers, which are scarce.
        const uint32_t nothing = step.reach_known >> 1;
        PairRows again;
#pragma unroll
        for (uint32_t k = 0; k < DEPTH; ++k) {
#pragma unroll
            for (uint32_t i = 0; i < PAIRS; ++i) {
                again[k][i] = words[k][i] ^ nothing;
            }
        }
#pragma unroll
        for (uint32_t k = 0; k < DEPTH; ++k) {
            const uint32_t low =
                pair_add(pair_subtract(again[k][0], before.of_first(before.left(again, k), again[k][0])), PAIR_CENTER);
            const uint32_t high = pair_add(pair_subtract(again[k][1], before.of_second(again[k])), PAIR_CENTER);
            codes[k].x = mine ? low : codes[k].x;
            codes[k].y = mine ? high : codes[k].y;
        }
    }
    if (__any_sync(ALL_LANES, predictor == 0)) {
#pragma unroll
        for (uint32_t k = 0; k < DEPTH; ++k) {
            codes[k].x = predictor == 0 ? pair_add(words[k][0], PAIR_CENTER) : codes[k].x;
            codes[k].y = predictor == 0 ? pair_add(words[k][1], PAIR_CENTER) : codes[k].y;
        }
    }
}

// Sets codes outside 1 to 1023 to 0 and counts them, for tiles with `live` set. Skips rows without any: as halves,
// residuals of 512 and more have bits that smaller ones lack, whatever their sign.
template <uint32_t DEPTH>
__device__ inline uint32_t pair_outliers(const VectorTile &tile, bool live, uint2 (&codes)[ROWS]) {
    uint32_t outliers = 0;
#pragma unroll
    for (uint32_t k = 0; k < DEPTH; ++k) {
        const uint32_t residuals = pair_subtract(codes[k].x, PAIR_CENTER) | pair_subtract(codes[k].y, PAIR_CENTER);
        if (__any_sync(ALL_LANES, live && (residuals & 0x7E007E00u) != 0)) {
            uint32_t parts[QUAD] = {codes[k].x & 0xFFFF, codes[k].x >> 16, codes[k].y & 0xFFFF, codes[k].y >> 16};
#pragma unroll
            for (uint32_t j = 0; j < QUAD; ++j) {
                const bool outside = parts[j] - 1 >= 2 * uint32_t(RADIUS) - 1;
                outliers += outside && k < tile.rows && j < tile.cols;
                parts[j] = outside ? 0 : parts[j];
            }
            codes[k] = make_uint2(parts[0] | parts[1] << 16, parts[2] | parts[3] << 16);
        }
    }
    return live ? outliers : 0;
}

// The sums are of all magnitudes: residuals of integers this close to the base are below the limit.
static_assert(8 << (PAIR_REACH_LOG2 - 1) <= RESIDUAL_LIMIT, "the limit has no effect");

// Finds predictor, activity and codes of a unit whose tiles are all within range. Returns false on the whole warp if a
// sum that matters is not exact.
template <bool WHOLE, uint32_t DEPTH>
__device__ inline bool pair_unit(const Step &step, const VectorTile &tile, PairRows &words, VectorResult &result,
                                 uint2 (&codes)[ROWS]) {
    uint32_t sums[4] = {}, second = 0;
#pragma unroll
    for (uint32_t k = 0; k < DEPTH; ++k) {
        words[k][0] = pair_subtract(words[k][0], PAIR_BASE);
        words[k][1] = pair_subtract(words[k][1], PAIR_BASE);
        sums[0] = pair_add_magnitudes(sums[0], words[k][0]);
        second = pair_add_magnitudes(second, words[k][1]);
    }
    result.predictor = 0;
    result.activity = 0;
    if (!__any_sync(ALL_LANES, (sums[0] | second) != 0)) {
        return true;
    }
    PairRows along;
    pair_sums<WHOLE, DEPTH>(tile, words, along, sums);
    // Inexact sums of predictors 0 and 1 are known to be too large, because their residuals are exact. They matter only
    // if such a predictor is the best nevertheless.
    const bool inexact[2] = {((sums[0] | second) & PAIR_INEXACT) != 0, (sums[1] & PAIR_INEXACT) != 0};
    uint32_t lane_sums[4] = {pair_sum(sums[0], pair_sum(second)), pair_sum(sums[1]), pair_sum(sums[2]),
                             pair_sum(sums[3])};
    uint32_t of_tile[4] = {lane_sums[0], lane_sums[1], lane_sums[2], lane_sums[3]};
    choose_predictor(of_tile, result.predictor, result.activity);
    bool exact = ((sums[2] | sums[3]) & PAIR_INEXACT) == 0;
    exact = exact && !(inexact[0] && result.predictor == 0) && !(inexact[1] && result.predictor == 1);
    if (!__all_sync(ALL_LANES, exact || !tile.eligible)) {
        return false;
    }
    uint32_t own = lane_sums[0];
#pragma unroll
    for (uint32_t p = 1; p <= AXES; ++p) {
        own = result.predictor == p ? lane_sums[p] : own;
    }
    const bool live = result.activity > 0;
    pair_codes<WHOLE, DEPTH>(step, tile, words, along, live ? result.predictor : 4, codes);
    if (__any_sync(ALL_LANES, own >= uint32_t(RADIUS) && live)) {
        result.outliers = tile_sum(pair_outliers<DEPTH>(tile, live, codes));
    }
    return true;
}
