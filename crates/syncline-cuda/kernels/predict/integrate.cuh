// The inverse of Lorenzo prediction with an order of its own along each axis (`syncline_core::predict::orders`), by a
// warp, on integers in shared memory. All sums wrap.
#pragma once
#include "device/warp.cuh"
#include "format/constants.cuh"
#include "geometry.cuh"

// Extents along z, y, and x.
struct Extents {
    uint32_t of[3];

    __device__ inline uint32_t elements() const { return of[0] * of[1] * of[2]; }
};

// The unsigned type in which integers of a type are added up.
template <typename Value> struct SumOf {
    typedef uint32_t Type;
};
template <> struct SumOf<uint64_t> {
    typedef uint64_t Type;
};

// Replaces elements by their sums along an axis, from position `from` on, in the part of a tile that begins with its
// first element. Called by a whole warp.
template <typename Value>
__device__ inline void sum_along(Value *values, const Extents &tile, const Extents &part, uint32_t axis,
                                 uint32_t from) {
    typedef typename SumOf<Value>::Type Sum;
    const uint32_t strides[3] = {tile.of[1] * tile.of[2], tile.of[2], 1};
    // The other axes, the faster one second.
    const uint32_t slow = axis == 0 ? 1 : 0, fast = axis == 2 ? 1 : 2;
    const uint32_t count = part.of[axis], stride = strides[axis], lines = part.of[slow] * part.of[fast];
    if (count <= from) {
        return;
    }
    const TileDivisor by_fast(part.of[fast]);
    auto line = [&](uint32_t number) {
        const uint32_t at = by_fast.quotient(number);
        return values + at * strides[slow] + (number - at * part.of[fast]) * strides[fast];
    };
    if (lines >= WARP / 4 || count < WARP) {
        for (uint32_t number = lane_id(); number < lines; number += WARP) {
            Value *value = line(number) + (from - 1) * stride;
            Sum sum = *value;
            for (uint32_t i = from; i < count; ++i) {
                value += stride;
                sum += Sum(*value);
                *value = Value(sum);
            }
        }
    } else {
        for (uint32_t number = 0; number < lines; ++number) {
            Value *first = line(number);
            Sum carry = 0;
            for (uint32_t window = from - 1; window < count; window += WARP) {
                const uint32_t i = window + lane_id();
                const Sum sum = carry + warp_inclusive_sum(i < count ? Sum(first[i * stride]) : Sum(0));
                if (i < count) {
                    first[i * stride] = Value(sum);
                }
                carry = __shfl_sync(ALL_LANES, sum, WARP - 1);
            }
        }
    }
    __syncwarp();
}

// Reconstructs the integers of a tile, without its base, from their residuals. Called by a whole warp.
template <typename Value> __device__ inline void integrate(Value *values, const Extents &tile, uint32_t predictor) {
    const bool is_second = predictor == format::SECOND_ORDER;
    auto is_used = [&](uint32_t axis) { return is_second || (predictor >> (2 - axis) & 1) != 0; };
    if (predictor == 0) {
        return;
    }
    // Differences were taken x first, along the predictor's axes everywhere and then along each other axis where all
    // positions along those before are 0; sums are in the opposite order.
    for (uint32_t axis = 0; axis < 3; ++axis) {
        if (!is_used(axis)) {
            Extents face;
            for (uint32_t other = 0; other < 3; ++other) {
                face.of[other] = is_used(other) || other > axis ? 1 : tile.of[other];
            }
            sum_along(values, tile, face, axis, 1);
        }
    }
    for (uint32_t axis = 0; axis < 3; ++axis) {
        if (is_second) {
            sum_along(values, tile, tile, axis, 2);
        }
        if (is_used(axis)) {
            sum_along(values, tile, tile, axis, 1);
        }
    }
}
