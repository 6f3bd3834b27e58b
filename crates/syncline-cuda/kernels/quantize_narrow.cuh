// Tiles whose integers lie within 32 of their base, four elements to a word: sums of four magnitudes, and four differences, are an instruction each.
//
// A word has the lane's row: byte j its integer less the base, plus 32. Differences are kept plus 128, so that subtracting words borrows nothing from the byte
// above: those along x are within 63, those along x and y within 126. Only residuals under predictor 3 may need more than a byte; they are taken apart.
// Elements that are not there hold the tile's first, so that they are 0 less the base; along x their difference is taken from themselves.
#pragma once
#include "quantize_rows.cuh"

constexpr uint32_t NARROW_BASE = 0x20202020u;
constexpr uint32_t NARROW_ZERO = 0x80808080u;
constexpr float NARROW_LARGEST_BASE = 2097152.0f;

__device__ inline uint32_t add_magnitudes(uint32_t a, uint32_t b, uint32_t sum) {
    asm("vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(sum));
    return sum;
}

// The tile's integers less its base.
struct Narrow {
    uint32_t words[ROWS];
    // Residuals are `minuend` less `subtrahend`: predictors 0 and 1 have `words` first, 2 and 3 these.
    uint32_t along_xy[ROWS];
    uint32_t before_x[ROWS]; // what predictor 1 subtracts
};

#if ELEMENT_BYTES == 4
constexpr Element NARROW_MAGIC = MAGIC + 32.0f;
constexpr Element NARROW_ROUNDING = 0x1p-23f;
__device__ inline Element fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
#else
constexpr Element NARROW_MAGIC = WIDE_MAGIC + 32.0;
constexpr Element NARROW_ROUNDING = 0x1p-51;
__device__ inline Element fused(double a, double b, double c) { return __fma_rn(a, b, c); }
#endif

// Whether bits that an integer within 32 of the base does not have are those of 32 added to the magic number, in all of those put together.
struct Reach {
    uint32_t any = 0, all = ALL_LANES;
#if ELEMENT_BYTES == 8
    uint32_t any_high = 0, all_high = ALL_LANES;
#endif
    __device__ inline uint32_t add(Element shifted) {
#if ELEMENT_BYTES == 4
        const uint32_t low = __float_as_uint(shifted);
#else
        const uint32_t low = uint32_t(__double2loint(shifted)), high = uint32_t(__double2hiint(shifted));
        any_high |= high;
        all_high &= high;
#endif
        any |= low;
        all &= low;
        return low;
    }
    __device__ inline bool inside() const {
#if ELEMENT_BYTES == 4
        return any >> 6 == 0x4B400000u >> 6 && all >> 6 == 0x4B400000u >> 6;
#else
        return any >> 6 == 0 && any_high == 0x43380000u && all_high == 0x43380000u;
#endif
    }
};

// The words of the lane's rows. False for the warp if there is an integer too far from the base, or an element that has none.
//
// One rounding finds the integer that the format's operations find, and its error is within the bound, where `x / step` lies further from the middle between two
// integers than all roundings together can take it: those of the inverse and of what is reconstructed, each of them at most an integer's 2^-24 (2^-53) share,
// and some of half a step. Where it does not, all is done again the long way.
__device__ inline bool narrow_words(const Step &step, const Element (&x)[ROWS][QUAD], bool eligible, float &base, uint32_t (&words)[ROWS]) {
    bool good = true;
    base = quantize_long(step, __shfl_sync(ALL_LANES, x[0][0], tile_leader()), good);
    good = good && fabsf(base) < NARROW_LARGEST_BASE;
    const Element inverse = quick_inverse(step), shift = NARROW_MAGIC - Element(base);
    const Element sure_below = Element(0.5) - (Element(fabsf(base)) * NARROW_ROUNDING + 72 * NARROW_ROUNDING);
    Reach reach;
    bool sure = good;
#pragma unroll
    for (uint32_t k = 0; k < ROWS; ++k) {
        uint32_t low[QUAD];
#pragma unroll
        for (uint32_t j = 0; j < QUAD; ++j) {
            const Element shifted = fused(x[k][j], inverse, shift), integer = shifted - shift;
            sure = fabs(fused(x[k][j], inverse, -integer)) < sure_below && sure;
            low[j] = reach.add(shifted);
        }
        words[k] = __byte_perm(__byte_perm(low[0], low[1], 0x0040), __byte_perm(low[2], low[3], 0x0040), 0x5410);
        if (k == ROWS / 2 - 1 && !__all_sync(ALL_LANES, reach.inside() || !eligible)) {
            return false;
        }
    }
    if (!__all_sync(ALL_LANES, reach.inside() || !eligible)) {
        return false;
    }
    // -0.0 is not 0, which lies within 32 of few bases.
    if (__any_sync(ALL_LANES, fabsf(base) <= 32.0f)) {
#pragma unroll
        for (uint32_t k = 0; k < ROWS; ++k) {
#pragma unroll
            for (uint32_t j = 0; j < QUAD; ++j) {
                good = bits_of(x[k][j]) != SIGN_BIT && good;
            }
        }
    }
#if PATTERNS
    for (uint32_t p = 0; p < step.pattern_count; ++p) {
#pragma unroll
        for (uint32_t k = 0; k < ROWS; ++k) {
#pragma unroll
            for (uint32_t j = 0; j < QUAD; ++j) {
                good = bits_of(x[k][j]) != Bits(step.patterns[p]) && good;
            }
        }
    }
#endif
    if (!__all_sync(ALL_LANES, good || !eligible)) {
        return false;
    }
    if (__all_sync(ALL_LANES, sure || !eligible)) {
        return true;
    }
    Reach again;
#pragma unroll
    for (uint32_t k = 0; k < ROWS; ++k) {
        uint32_t low[QUAD];
#pragma unroll
        for (uint32_t j = 0; j < QUAD; ++j) {
            low[j] = again.add((Element(quantize_long(step, x[k][j], good)) - Element(base)) + NARROW_MAGIC);
        }
        words[k] = __byte_perm(__byte_perm(low[0], low[1], 0x0040), __byte_perm(low[2], low[3], 0x0040), 0x5410);
    }
    return __all_sync(ALL_LANES, (good && again.inside()) || !eligible);
}

// Differences and each lane's sums of magnitudes under each predictor.
__device__ inline void narrow_sums(const FastTile &tile, Narrow &narrow, uint32_t (&sums)[4]) {
    const uint32_t lane = lane_id();
    const uint32_t(&words)[ROWS] = narrow.words;
    // Bytes that are not there take themselves: selectors have a digit for each byte.
    const uint32_t there = tile.cols < QUAD ? (1u << 4 * tile.cols) - 1 : 0xFFFFu;
    const uint32_t take_left = (0x2107u & there) | (0x3210u & ~there & 0xFFFFu);
    if constexpr (AXES == 1) {
#pragma unroll
        for (uint32_t k = 0; k < ROWS; ++k) {
            // The element before lane 0's is lane 31's of the row before.
            uint32_t last = lane == WARP - 1 && k > 0 ? words[k - (k > 0)] : words[k];
            uint32_t left = __shfl_sync(ALL_LANES, last, (lane + WARP - 1) % WARP);
            left = lane == 0 && k == 0 ? NARROW_BASE : left;
            narrow.before_x[k] = __byte_perm(words[k], left, take_left);
            sums[1] = add_magnitudes(words[k], narrow.before_x[k], sums[1]);
        }
        return;
    }
    const bool at_left = AXES == 3 ? (lane & 1) == 0 : lane % 8 == 0;
    const bool at_top = AXES == 3 ? lane < 4 : lane < 8;
    const uint32_t take_first = at_left && tile.cols > 0 ? 0x3214 : 0x3210;
    uint32_t along_x[ROWS];
    uint32_t above = NARROW_BASE, along_x_above = NARROW_ZERO;
#pragma unroll
    for (uint32_t k = 0; k < ROWS; ++k) {
        uint32_t left = __shfl_up_sync(ALL_LANES, words[k], 1);
        left = at_left ? NARROW_BASE : left;
        narrow.before_x[k] = __byte_perm(words[k], left, take_left);
        along_x[k] = words[k] + NARROW_ZERO - narrow.before_x[k];
    }
    if constexpr (AXES == 2) {
        above = __shfl_up_sync(ALL_LANES, words[ROWS - 1], 8);
        above = at_top ? NARROW_BASE : above;
        along_x_above = __shfl_up_sync(ALL_LANES, along_x[ROWS - 1], 8);
        along_x_above = at_top ? NARROW_ZERO : along_x_above;
    }
    // 3-D: the element that has no other before it in its plane is differenced along z alone.
    const uint32_t take_corner = at_left && at_top ? 0x3214 : 0x3210;
#pragma unroll
    for (uint32_t k = 0; k < ROWS; ++k) {
        uint32_t before_z = NARROW_ZERO;
        if constexpr (AXES == 3) {
            const uint32_t corner = k > 0 ? words[k - (k > 0)] : NARROW_BASE;
            above = __shfl_up_sync(ALL_LANES, words[k], 4);
            above = at_top ? corner : above;
            const uint32_t along_x_before = k > 0 ? along_x[k - (k > 0)] : NARROW_ZERO;
            along_x_above = __shfl_up_sync(ALL_LANES, along_x[k], 4);
            along_x_above = at_top ? __byte_perm(NARROW_ZERO, along_x_before, take_corner) : along_x_above;
            before_z = k > 0 ? __byte_perm(narrow.along_xy[k - (k > 0)], NARROW_ZERO, take_corner) : NARROW_ZERO;
        }
        narrow.before_x[k] = __byte_perm(narrow.before_x[k], above, take_first);
        narrow.along_xy[k] = along_x[k] + NARROW_ZERO - along_x_above;
        if (k < tile.rows) {
            sums[1] = add_magnitudes(words[k], narrow.before_x[k], sums[1]);
            sums[2] = add_magnitudes(along_x[k], along_x_above, sums[2]);
            if constexpr (AXES == 3) {
                sums[3] = add_magnitudes(narrow.along_xy[k], before_z, sums[3]);
            }
        }
        if constexpr (AXES == 2) {
            above = words[k];
            along_x_above = along_x[k];
        }
    }
}

// The codes of four residuals.
__device__ inline uint2 narrow_codes(uint32_t minuend, uint32_t subtrahend) {
    constexpr uint32_t CENTRE = uint32_t(RADIUS) << 16 | uint32_t(RADIUS);
    return make_uint2(
        __byte_perm(minuend, 0, 0x4140) + CENTRE - __byte_perm(subtrahend, 0, 0x4140), __byte_perm(minuend, 0, 0x4342) + CENTRE - __byte_perm(subtrahend, 0, 0x4342)
    );
}

// The codes under predictor P, in lanes whose tile has it.
template <uint32_t P> __device__ inline void narrow_codes_if_any(const Narrow &narrow, bool mine, uint2 (&codes)[ROWS]) {
    if (!__any_sync(ALL_LANES, mine)) {
        return;
    }
    const uint32_t take_corner = AXES == 3 && (lane_id() & ~2u) == 0 ? 0x3214 : 0x3210;
#pragma unroll
    for (uint32_t k = 0; k < ROWS; ++k) {
        const uint32_t before_z = k > 0 ? __byte_perm(narrow.along_xy[k - (k > 0)], NARROW_ZERO, take_corner) : NARROW_ZERO;
        const uint32_t subtrahend = P == 0 ? NARROW_BASE : P == 1 ? narrow.before_x[k] : P == 2 ? NARROW_ZERO : before_z;
        const uint2 found = narrow_codes(P < 2 ? narrow.words[k] : narrow.along_xy[k], subtrahend);
        codes[k].x = mine ? found.x : codes[k].x;
        codes[k].y = mine ? found.y : codes[k].y;
    }
}

// Predictor, activity and codes of a unit whose tiles all are narrow.
__device__ inline void narrow_unit(const FastTile &tile, Narrow &narrow, FastResult &result, uint2 (&codes)[ROWS]) {
    uint32_t sums[4] = {};
#pragma unroll
    for (uint32_t k = 0; k < ROWS; ++k) {
        sums[0] = add_magnitudes(narrow.words[k], NARROW_BASE, sums[0]);
    }
    result.predictor = 0;
    result.activity = 0;
    if (!__any_sync(ALL_LANES, sums[0] > 0)) {
        return;
    }
    narrow_sums(tile, narrow, sums);
    choose(sums, result.predictor, result.activity);
    const uint32_t predictor = result.activity > 0 ? result.predictor : 4;
    narrow_codes_if_any<0>(narrow, predictor == 0, codes);
    narrow_codes_if_any<1>(narrow, predictor == 1, codes);
    if constexpr (AXES >= 2) {
        narrow_codes_if_any<2>(narrow, predictor == 2, codes);
    }
    if constexpr (AXES >= 3) {
        narrow_codes_if_any<3>(narrow, predictor == 3, codes);
    }
}
