// The constants of a stream's quantizer, and how they follow from the range of its elements, as the host finds them:
// every operation is the same.
#pragma once
#include "common.cuh"

constexpr uint32_t MAX_PATTERNS = 4;

// Mirrored by `Step` in quantize/step.rs.
struct Step {
    double inverse, step;
    double limit;       // the bound, or the relative bound two steps lower
    double error_scale; // units of the squared error's root in 1
    float inverse_high, inverse_low, high, low, bound;
    // f32: within this error an integer of at most `short_reach` is the one that the format wants, however it was
    // found; no error is if `short_reach` is 0.
    float short_bound, short_reach;
    uint32_t short_bits;  // log2 of 2 * short_reach
    uint32_t reach_known; // 1: no element's integer is 2^21 or larger but those of patterns, infinite ones and those
                          // that are no numbers
    uint32_t pattern_count;
    uint32_t minus_zeros; // 0: no element is -0.0
    uint32_t unused;
    uint64_t patterns[MAX_PATTERNS];
};

// A bound as it is asked for; mirrored by `BoundRequest` in quantize/scan.rs.
struct BoundRequest {
    double bound;
    uint32_t relative; // 1: to the range
    uint32_t element_bytes;
};

// The next number towards 0 of a positive one, or towards -infinity of others that are not 0.
__device__ inline float next_down(float x) { return __uint_as_float(__float_as_uint(x) + (x > 0.0f ? ~0u : 1u)); }

// The constants for elements from `low` to `high`, without patterns. Where the host would do otherwise, or not quantize
// at all, they are others than it finds: it compares them.
__device__ inline Step step_of(const BoundRequest &request, double low, double high, bool minus_zeros) {
    const bool narrow = request.element_bytes == 4;
    const double magnitude = fmax(fabs(low), fabs(high)),
                 resolved = request.relative != 0 ? request.bound * (high - low) : request.bound;
    const double bound = fmin(fmin(resolved, magnitude), narrow ? 0x1p120 : 0x1p1000),
                 rounding = magnitude * (narrow ? 0x1p-24 : 0x1p-53);
    Step out = {};
    out.step = bound - rounding >= bound / 2.0 ? 2.0 * (bound - rounding) : 2.0 * bound;
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
    // Integers of the short way have 6 to 14 bits.
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
