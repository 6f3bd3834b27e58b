// The constants of a stream's quantizer, and their computation from the range of the elements with exactly the host's
// operations.
#pragma once
#include "common.cuh"
#include "format/constants.cuh"
#include "quantize/structs.cuh"

using format::MAX_PATTERNS;

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
    out.range_low = low;
    out.range_high = high;
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
