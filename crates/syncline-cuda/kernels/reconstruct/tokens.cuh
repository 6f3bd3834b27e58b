// What reconstruction of chunks with token codebooks has in common for tiles of all sizes.
#pragma once
#include "predict/structs.cuh"
#include "reconstruct/work.cuh"

using format::SECOND_ORDER;

// Parallel lines of elements, all of `length`: `inner` adjacent ones for each of `outer` steps.
struct Lines {
    uint32_t length, stride;
    uint32_t inner, inner_stride;
    uint32_t outer, outer_stride;
};

// Inverse of the differences of a predictor (docs/FORMAT.md, "Prediction") in a tile of these extents.
// `sum(lines, from)` replaces the elements of each line by prefix sums, from element `from - 1` on.
template <typename Sum>
__device__ inline void integrate(uint32_t nz, uint32_t ny, uint32_t nx, uint32_t predictor, Sum sum) {
    if (predictor == 0) {
        return;
    }
    const bool second = predictor == SECOND_ORDER;
    const bool x = second || predictor & 1, y = second || predictor & 2, z = second || predictor & 4;
    // Where axes of the set have position 0: the other axes, and those before them only where these have position 0.
    if (!z) {
        sum({nz, ny * nx, 1, 0, 1, 0}, 1);
    }
    if (!y) {
        sum({ny, nx, 1, 0, z ? 1 : nz, ny * nx}, 1);
    }
    if (!x) {
        sum({nx, 1, y ? 1 : ny, nx, z ? 1 : nz, ny * nx}, 1);
    }
    for (uint32_t order = second ? 2 : 1; z && order > 0; --order) {
        sum({nz, ny * nx, nx, 1, ny, nx}, order);
    }
    for (uint32_t order = second ? 2 : 1; y && order > 0; --order) {
        sum({ny, nx, nx, 1, nz, ny * nx}, order);
    }
    for (uint32_t order = second ? 2 : 1; x && order > 0; --order) {
        sum({nx, 1, ny, nx, nz, ny * nx}, order);
    }
}

#if DOUBLE
__device__ inline double element_of(int32_t code) { return __int2double_rn(code); }
__device__ inline double stored_code(int32_t code) { return __longlong_as_double(code); }
__device__ inline int32_t code_of(double stored) { return int32_t(__double_as_longlong(stored)); }
#else
__device__ inline float element_of(int32_t code) { return __int2float_rn(code); }
__device__ inline float stored_code(int32_t code) { return __int_as_float(code); }
__device__ inline int32_t code_of(float stored) { return __float_as_int(stored); }
#endif

// Returns the step by which codes of interpolated elements are multiplied.
__device__ inline Element step_of(const Values &values) {
#if DOUBLE
    return values.step;
#else
    return values.step_high;
#endif
}

// Returns the predictor of a tile that is not constant.
__device__ inline uint32_t predictor_of(uint32_t meta, const ParsedChunk &record) {
    const uint32_t predictor = meta_token_predictor(meta);
    // All elements are anchors.
    const bool lattice = AXES == 1 && predictor == format::INTERPOLATION && record.scheme == format::SCHEME_IN_PLANES;
    return lattice ? 7 : predictor;
}

// What reconstruction from token codes needs in addition to a target.
struct Tokens {
    const int32_t *codes; // of the chunk
    const Plans &plans;
};
