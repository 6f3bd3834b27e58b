// The constants of a stream's quantizer, and their computation from the range of the elements with exactly the host's
// operations.
#pragma once
#include "common.cuh"

constexpr uint32_t MAX_PATTERNS = 4;

// Mirrored by `Step` in quantize/step.rs.
struct Step {
    double inverse, step;
    double limit;       // the bound; in the logarithmic pipeline the relative bound, lowered by two steps
    double error_scale; // scale of errors in squared_error
    float inverse_high, inverse_low, high, low, bound;
    // f32: an integer of at most `short_reach` whose error is below `short_bound` is the one that the format defines,
    // even if found with a single rounding. Unused if `short_reach` is 0.
    float short_bound, short_reach;
    uint32_t short_bits; // log2 of 2 * short_reach
    // 1: all integers are below 2^21 in magnitude, except those of patterns, infinities and NaN.
    uint32_t reach_known;
    uint32_t pattern_count;
    uint32_t minus_zeros; // 0: no element is -0.0
    uint32_t unused;
    uint64_t patterns[MAX_PATTERNS];
};

// A requested bound. Mirrored by `BoundRequest` in quantize/bound_scan.rs.
struct BoundRequest {
    double bound;
    uint32_t relative; // 1: relative to the range
    uint32_t element_bytes;
};

// Returns the next number towards 0 of a positive number, or towards -infinity of a negative one.
__device__ inline float next_down(float x) { return __uint_as_float(__float_as_uint(x) + (x > 0.0f ? ~0u : 1u)); }

// Returns the constants for elements from `low` to `high`, without patterns. Where the host would decide otherwise, or
// would not quantize at all, the result differs from the host's constants, and the host detects that by comparing them.
__device__ inline Step step_of(const BoundRequest &request, double low, double high, bool minus_zeros) {
    const bool narrow = request.element_bytes == 4;
    const double magnitude = fmax(fabs(low), fabs(high)),
                 resolved = request.relative != 0 ? request.bound * (high - low) : request.bound;
    const double bound = fmin(fmin(resolved, magnitude), narrow ? 0x1p120 : 0x1p1000),
                 rounding = magnitude * (narrow ? 0x1p-24 : 0x1p-53);
    Step out = {};
    out.step = bound - rounding >= bound / 2.0 ? 2.0 * (bound - rounding) : 2.0 * bound;
    if (!(magnitude / out.step < (narrow ? 0x1p22 : 0x1p29))) {
        // Such values are stored verbatim, so that their rounding does not matter.
        out.step = 2.0 * bound;
    }
    out.inverse = 1.0 / out.step;
    out.limit = resolved;
    out.error_scale = 32768.0 / resolved;
    out.inverse_high = float(out.inverse);
    out.inverse_low = float(out.inverse - double(out.inverse_high));
    out.high = float(out.step);
    out.low = float(out.step - double(out.high));
    out.bound = float(resolved);
    out.bound = double(out.bound) > resolved ? next_down(out.bound) : out.bound;
    const double largest = magnitude / out.step;
    // Integers of the single-rounding path have 6 to 14 bits.
    uint32_t bits = 6;
    while (bits <= 14 && !(largest < double(1u << bits) - 2.0)) {
        ++bits;
    }
    if (bits <= 14) {
        const double reach = double(1u << bits), margin = 2.0 * (reach * 0x1p-24 + 0x1p-23);
        out.short_bits = bits + 1;
        out.short_reach = float(reach);
        out.short_bound = fminf(next_down(float((0.5 - margin) * out.step)), out.bound);
    }
    out.reach_known = largest < 2097150.0;
    out.minus_zeros = minus_zeros;
    return out;
}
