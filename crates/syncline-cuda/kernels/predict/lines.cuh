// Interpolation along lines of a tile whose axes have SIDE elements: the known values of a line are read once, and
// those between them are predicted with weights that are constants (`syncline_core::predict::interpolate`).
#pragma once
#include "predict/arithmetic.cuh"

// A position between known ones along an axis of N positions, at distance S from its neighbors.
template <uint32_t N, uint32_t S, uint32_t P> struct Between {
    static constexpr int32_t LAST = N - 1, BEFORE = P - S, AFTER = P + S < N - 1 ? P + S : N - 1;
    static constexpr bool HAS_FAR_BEFORE = P >= 3 * S, HAS_FAR_AFTER = AFTER < LAST;
    static constexpr int32_t FAR_BEFORE = HAS_FAR_BEFORE ? int32_t(P) - int32_t(3 * S) : BEFORE;
    static constexpr int32_t FAR_AFTER = HAS_FAR_AFTER ? (P + 3 * S < N - 1 ? P + 3 * S : N - 1) : AFTER;

    // The weight of neighbor number `of`, 0 to 3, among those that exist.
    __host__ __device__ static constexpr double weight(uint32_t of, bool is_cubic) {
        const int32_t places[4] = {FAR_BEFORE, BEFORE, AFTER, FAR_AFTER};
        const bool exists[4] = {is_cubic && HAS_FAR_BEFORE, true, true, is_cubic && HAS_FAR_AFTER};
        int32_t numerator = exists[of] ? 1 : 0, denominator = 1;
        for (uint32_t other = 0; other < 4; ++other) {
            if (other != of && exists[other] && exists[of]) {
                numerator *= int32_t(P) - places[other];
                denominator *= places[of] - places[other];
            }
        }
        return double(numerator) / double(denominator);
    }
};

// Predicts position P of a line from its values: `at(i)` is that of position `i`. `Place` says where positions are.
template <uint32_t N, uint32_t S, uint32_t P, bool IS_CUBIC, typename Place, typename Value>
__device__ inline Value predict_between(const Value *line) {
    typedef Between<N, S, P> Own;
    constexpr Value BEFORE = Value(Own::weight(1, IS_CUBIC)), AFTER = Value(Own::weight(2, IS_CUBIC));
    const Value before = line[Place::of(Own::BEFORE)], after = line[Place::of(Own::AFTER)];
    if constexpr (!IS_CUBIC) {
        return product_plus(after, AFTER, product(before, BEFORE));
    } else {
        constexpr Value FAR_BEFORE = Value(Own::weight(0, true)), FAR_AFTER = Value(Own::weight(3, true));
        // A neighbor that does not exist is the one next to it, with a weight of 0.
        const Value far_before = line[Place::of(Own::FAR_BEFORE)], far_after = line[Place::of(Own::FAR_AFTER)];
        const Value sum = product_plus(before, BEFORE, product(far_before, FAR_BEFORE));
        return product_plus(far_after, FAR_AFTER, product_plus(after, AFTER, sum));
    }
}

// Predicts the positions S, 3 S, 5 S, ... below N - 1 of a line, from P on, to `predictions`.
template <uint32_t N, uint32_t S, uint32_t P, bool IS_CUBIC, typename Place, typename Value>
__device__ inline void predict_line(const Value *line, Value *predictions) {
    if constexpr (P < N - 1) {
        *predictions = predict_between<N, S, P, IS_CUBIC, Place>(line);
        predict_line<N, S, P + 2 * S, IS_CUBIC, Place>(line, predictions + 1);
    }
}

// Reconstructs these positions from the codes, which follow each other: `correct` is called with each prediction and
// its code.
template <uint32_t N, uint32_t S, bool IS_CUBIC, typename Place, typename Value, typename Correct>
__device__ inline void reconstruct_line(Value *line, const int16_t *codes, Correct correct) {
    constexpr uint32_t COUNT = (N - 1 - S + 2 * S - 1) / (2 * S);
    Value predictions[COUNT];
    predict_line<N, S, S, IS_CUBIC, Place>(line, predictions);
#pragma unroll
    for (uint32_t i = 0; i < COUNT; ++i) {
        line[Place::of(S + 2 * S * i)] = correct(predictions[i], int32_t(codes[i]));
    }
}
