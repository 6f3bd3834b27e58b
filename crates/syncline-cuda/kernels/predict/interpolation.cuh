// Interpolation inside a tile (docs/FORMAT.md, "Interpolation"), as encoder and decoder share it: the predictions of
// the elements of a stage from their neighbors, in the order of operations that the format defines.
#pragma once
#include "common.cuh"
#include "predict/structs.cuh"

// Elements are stored with a gap after each 32, so that neither lanes with adjacent elements nor lanes with adjacent
// rows conflict in shared-memory banks. Places of neighbors in plans have the gaps already.
__device__ inline constexpr uint32_t padded(uint32_t element) { return element + element / WARP; }

// The place that stands for a missing neighbor in a tile of at most `elements`. It has the value -0, and its weight is
// +0: added to any number, their product gives this number.
__device__ inline constexpr uint32_t missing_place(uint32_t elements) { return padded(elements); }
__device__ inline constexpr uint32_t padded_length(uint32_t elements) { return missing_place(elements) + 1; }

__device__ inline float product(float a, float b) { return __fmul_rn(a, b); }
__device__ inline double product(double a, double b) { return __dmul_rn(a, b); }
__device__ inline float product_plus(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ inline double product_plus(double a, double b, double c) { return __fma_rn(a, b, c); }

// Two neighbors of an element. Every element has two at least.
template <typename Element> struct Pair {
    Element weights[2];
    uint32_t places[2];

    __device__ inline Pair(const void *pairs, uint32_t number);
};
template <> __device__ inline Pair<float>::Pair(const void *pairs, uint32_t number) {
    const uint4 pair = static_cast<const uint4 *>(pairs)[number];
    weights[0] = __uint_as_float(pair.x), weights[1] = __uint_as_float(pair.y);
    places[0] = pair.z, places[1] = pair.w;
}
template <> __device__ inline Pair<double>::Pair(const void *pairs, uint32_t number) {
    const double2 both = static_cast<const double2 *>(pairs)[2 * number];
    const uint4 rest = static_cast<const uint4 *>(pairs)[2 * number + 1];
    weights[0] = both.x, weights[1] = both.y;
    places[0] = rest.x, places[1] = rest.y;
}

// Predicts element `number` of a stage of `count` from the elements `values`. `place` receives its place in the tile,
// which is without gaps.
template <typename Element>
__device__ inline Element predict(const void *pairs, const PlanStage &stage, uint32_t count, uint32_t number,
                                  const Element *values, uint32_t &place) {
    uint32_t next = stage.first_pair + number;
    Pair<Element> pair(pairs, next);
    // The first pair has it in the upper half of a place.
    place = pair.places[0] >> 16;
    Element sum = product(values[pair.places[0] & 0xFFFF], pair.weights[0]);
    sum = product_plus(values[pair.places[1]], pair.weights[1], sum);
    for (uint32_t done = 1; done < stage.pairs; ++done) {
        next += count;
        pair = Pair<Element>(pairs, next);
        sum = product_plus(values[pair.places[0]], pair.weights[0], sum);
        sum = product_plus(values[pair.places[1]], pair.weights[1], sum);
    }
    return sum;
}

// Predicts the element in TILES tiles, in which it has the same place. Each pair is loaded before the neighbors of the
// previous pair are added, which hides the latency of loads: `ahead` is the element's first pair, and receives that of
// element `number + WARP`. Padding pairs follow the last pair of an array's plans, so that this stays in bounds.
template <uint32_t TILES, typename Element>
__device__ inline void predict(const void *pairs, const PlanStage &stage, uint32_t count, uint32_t number,
                               const Element *const (&values)[TILES], Pair<Element> &ahead, uint32_t &place,
                               Element (&sums)[TILES]) {
    Pair<Element> pair = ahead;
    place = pair.places[0] >> 16;
    pair.places[0] &= 0xFFFF;
#pragma unroll
    for (uint32_t tile = 0; tile < TILES; ++tile) {
        // Adding -0 changes no product.
        sums[tile] = Element(-0.0);
    }
    const uint32_t first = stage.first_pair + number;
    for (uint32_t done = 1; done <= stage.pairs; ++done) {
        ahead = Pair<Element>(pairs, done < stage.pairs ? first + done * count : first + WARP);
#pragma unroll
        for (uint32_t tile = 0; tile < TILES; ++tile) {
            sums[tile] = product_plus(values[tile][pair.places[0]], pair.weights[0], sums[tile]);
            sums[tile] = product_plus(values[tile][pair.places[1]], pair.weights[1], sums[tile]);
        }
        pair = ahead;
    }
}
