// The inverse of Lorenzo prediction of a tile of 8x8x8 in registers. Lane `l` has the elements (z, l / 4, 2 (l % 4))
// and those beside them along x, for all z. All sums wrap.
#pragma once
#include "device/warp.cuh"
#include "format/constants.cuh"

typedef int32_t CubeIntegers[8][2];

// Sums along z, without the first plane if `skips_first`, on lanes of which `applies` is true.
__device__ inline void sum_cube_z(CubeIntegers &q, bool applies, bool skips_first, bool both) {
#pragma unroll
    for (uint32_t z = 1; z < 8; ++z) {
        if (z > 1 || !skips_first) {
            q[z][0] += applies ? q[z - 1][0] : 0;
            q[z][1] += applies && both ? q[z - 1][1] : 0;
        }
    }
}

// Sums along y, without the first row if `skips_first`: in all columns, or only in those at x = 0, or z = 0.
__device__ inline void sum_cube_y(CubeIntegers &q, bool only_x0, bool only_z0, bool skips_first) {
    const bool is_row_0 = lane_id() < 4, is_x0 = lane_id() % 4 == 0;
#pragma unroll
    for (uint32_t z = 0; z < 8; ++z) {
        if (z > 0 && only_z0) {
            break;
        }
#pragma unroll
        for (uint32_t i = 0; i < 2; ++i) {
            if (i > 0 && only_x0) {
                break;
            }
            int32_t sum = skips_first && is_row_0 ? 0 : q[z][i];
#pragma unroll
            for (uint32_t distance = 4; distance < WARP; distance *= 2) {
                const int32_t before = __shfl_up_sync(ALL_LANES, sum, distance);
                sum += lane_id() >= distance ? before : 0;
            }
            q[z][i] = (only_x0 && !is_x0) || (skips_first && is_row_0) ? q[z][i] : sum;
        }
    }
}

// Sums along x, without the first element if `skips_first`: in all rows, or only in those at y = 0, or z = 0.
__device__ inline void sum_cube_x(CubeIntegers &q, bool only_y0, bool only_z0, bool skips_first) {
    const uint32_t pair = lane_id() % 4;
    const bool applies = !only_y0 || lane_id() < 4, skips = skips_first && pair == 0;
#pragma unroll
    for (uint32_t z = 0; z < 8; ++z) {
        if (z > 0 && only_z0) {
            break;
        }
        const int32_t first = skips ? 0 : q[z][0], own = first + q[z][1];
        int32_t sum = own, before = __shfl_up_sync(ALL_LANES, sum, 1, 4);
        sum += pair >= 1 ? before : 0;
        before = __shfl_up_sync(ALL_LANES, sum, 2, 4);
        sum += pair >= 2 ? before : 0;
        q[z][0] = applies && !skips ? sum - own + first : q[z][0];
        q[z][1] = applies ? sum : q[z][1];
    }
}

// Reconstructs the integers of a tile, without its base, from their residuals (predict/integrate.cuh says in which
// order). Called by the whole warp.
__device__ inline void integrate_cube(CubeIntegers &q, uint32_t predictor) {
    const bool is_second = predictor == format::SECOND_ORDER;
    const bool x = is_second || (predictor & 1) != 0, y = is_second || (predictor & 2) != 0,
               z = is_second || (predictor & 4) != 0;
    if (predictor == 0) {
        return;
    }
    if (!z) {
        sum_cube_z(q, lane_id() == 0, false, false);
    }
    if (!y) {
        sum_cube_y(q, true, z, false);
    }
    if (!x) {
        sum_cube_x(q, y, z, false);
    }
    for (uint32_t pass = is_second ? 0 : 1; pass < 2; ++pass) {
        if (z) {
            sum_cube_z(q, true, pass == 0, true);
        }
        // Sums along different axes commute.
        if (y) {
            sum_cube_y(q, false, false, pass == 0);
        }
        if (x) {
            sum_cube_x(q, false, false, pass == 0);
        }
    }
}
