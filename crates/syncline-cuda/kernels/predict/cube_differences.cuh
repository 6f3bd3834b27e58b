// The Lorenzo predictors of a tile of 8x8x8 in registers. Lane `l` has the half rows of four elements along x from
// 4 (l % 2) on, at y = l / 2 % 8 and z = l / 16 + 2 k for `k` from 0 to 3. See predict/ordinary.cuh.
#pragma once
#include "device/warp.cuh"
#include "format/constants.cuh"

// What the element before is multiplied with and added: -1, or 0 where there is none.
struct CubeFactors {
    float x, x_second; // of the first element of a half row, and of the second one
    float y, z_low;    // of the elements at z = 0 or 1; those at other z have elements before

    // `skips_first`: whether the elements at position 1 keep their first difference.
    __device__ inline explicit CubeFactors(bool skips_first) {
        const uint32_t lane = lane_id(), row = lane / 2 % 8;
        x = lane % 2 == 1 ? -1.0f : 0.0f;
        x_second = lane % 2 == 1 || !skips_first ? -1.0f : 0.0f;
        y = row > (skips_first ? 1 : 0) ? -1.0f : 0.0f;
        z_low = lane >= 16 && !skips_first ? -1.0f : 0.0f;
    }
};

// Differences along x of the half rows `k` below `planes`, where `applies` is 1 and not 0.
__device__ inline void difference_x(Quads &d, const CubeFactors &factors, uint32_t planes, float applies) {
#pragma unroll
    for (uint32_t k = 0; k < 4; ++k) {
        if (k < planes) {
            const float left = __shfl_up_sync(ALL_LANES, d.of[k][3], 1);
            d.of[k][3] = __fmaf_rn(-applies, d.of[k][2], d.of[k][3]);
            d.of[k][2] = __fmaf_rn(-applies, d.of[k][1], d.of[k][2]);
            d.of[k][1] = __fmaf_rn(factors.x_second * applies, d.of[k][0], d.of[k][1]);
            d.of[k][0] = __fmaf_rn(factors.x * applies, left, d.of[k][0]);
        }
    }
}

// Differences along y of the elements `j` below `columns` of the half rows `k` below `planes`, where `applies` is 1.
__device__ inline void difference_y(Quads &d, const CubeFactors &factors, uint32_t planes, uint32_t columns,
                                    float applies) {
#pragma unroll
    for (uint32_t k = 0; k < 4; ++k) {
        if (k < planes) {
#pragma unroll
            for (uint32_t j = 0; j < 4; ++j) {
                if (j < columns) {
                    const float above = __shfl_up_sync(ALL_LANES, d.of[k][j], 2);
                    d.of[k][j] = __fmaf_rn(factors.y * applies, above, d.of[k][j]);
                }
            }
        }
    }
}

// Differences along z of the elements `j` below `columns`, where `applies` is 1.
__device__ inline void difference_z(Quads &d, const CubeFactors &factors, uint32_t columns, float applies) {
    const bool is_low = lane_id() < 16;
#pragma unroll
    for (uint32_t j = 0; j < 4; ++j) {
        if (j < columns) {
            float before = 0.0f;
#pragma unroll
            for (uint32_t k = 0; k < 4; ++k) {
                // The upper half of the lanes needs the lower half's at the same k, this one the upper half's before.
                const float given = is_low ? d.of[k][j] : before;
                const float below = __shfl_xor_sync(ALL_LANES, given, 16);
                before = d.of[k][j];
                const float factor = k == 0 ? factors.z_low : -1.0f;
                d.of[k][j] = __fmaf_rn(factor * applies, below, d.of[k][j]);
            }
        }
    }
}

// Replaces integers by their residuals under a predictor (docs/FORMAT.md, "Prediction"). Called by the whole warp.
__device__ inline void difference_cube(Quads &d, uint32_t predictor) {
    if (predictor == 0) {
        return;
    }
    const bool is_second = predictor == format::SECOND_ORDER;
    const bool along_x = is_second || (predictor & 1) != 0, along_y = is_second || (predictor & 2) != 0,
               along_z = is_second || (predictor & 4) != 0;
    auto along_axes = [&](const CubeFactors &factors) {
        if (along_x) {
            difference_x(d, factors, 4, 1.0f);
        }
        if (along_y) {
            difference_y(d, factors, 4, 4, 1.0f);
        }
        if (along_z) {
            difference_z(d, factors, 4, 1.0f);
        }
    };
    along_axes(CubeFactors(false));
    if (is_second) {
        along_axes(CubeFactors(true));
    }
    // Along each other axis, x first, where the positions along all axes before are 0.
    const CubeFactors factors(false);
    const uint32_t lane = lane_id();
    const bool is_x0 = lane % 2 == 0, is_y0 = lane / 2 % 8 == 0, is_z0 = lane < 16;
    if (!along_x) {
        const bool applies = (!along_y || is_y0) && (!along_z || is_z0);
        difference_x(d, factors, along_z ? 1 : 4, applies ? 1.0f : 0.0f);
    }
    if (!along_y) {
        difference_y(d, factors, along_z ? 1 : 4, 1, is_x0 && (!along_z || is_z0) ? 1.0f : 0.0f);
    }
    if (!along_z) {
        difference_z(d, factors, 1, is_x0 && is_y0 ? 1.0f : 0.0f);
    }
}
