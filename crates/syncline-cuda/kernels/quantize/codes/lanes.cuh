// How the lanes of a warp share a unit of 1,024 elements on the vector paths: the places of a lane's rows, loads,
// residuals and codes.
#pragma once
#include "quantize/quantize.cuh"

constexpr uint32_t ROWS = 8;
constexpr uint32_t QUAD = 4;
constexpr uint32_t UNIT_TILES = AXES == 3 ? 2 : 1;

// Adding this to a number below 2^22 in magnitude rounds it to an integer, in the low bits of the sum.
constexpr float MAGIC = 12582912.0f;
constexpr double WIDE_MAGIC = 6755399441055744.0;

typedef float Integers[ROWS][QUAD];

// Mask of the lanes of this lane's tile.
__device__ inline uint32_t tile_lanes() { return AXES != 3 ? ALL_LANES : (lane_id() & 2) ? 0xCCCCCCCCu : 0x33333333u; }
// First lane of this lane's tile.
__device__ inline uint32_t tile_leader() { return AXES == 3 ? lane_id() & 2 : 0; }

// Place of the lane's rows in a tile in raster order: the first element, and the distance between rows.
__device__ inline uint32_t lane_element() {
    uint32_t lane = lane_id();
    return AXES == 3   ? lane / 4 * 8 + (lane & 1) * QUAD
           : AXES == 2 ? lane / 8 * (ROWS * 32) + lane % 8 * QUAD
                       : lane * QUAD;
}
constexpr uint32_t ROW_DISTANCE = AXES == 3 ? 64 : AXES == 2 ? 32 : 128;

// Loads four elements. `aligned` says whether they start on a multiple of 16 bytes.
__device__ inline void load_quad(const Element *from, bool aligned, Element (&x)[QUAD]) {
#if ELEMENT_BYTES == 4
    if (aligned) {
        float4 quad = __ldcs(reinterpret_cast<const float4 *>(from));
        x[0] = quad.x, x[1] = quad.y, x[2] = quad.z, x[3] = quad.w;
        return;
    }
#else
    if (aligned) {
        double2 low = __ldcs(reinterpret_cast<const double2 *>(from)),
                high = __ldcs(reinterpret_cast<const double2 *>(from) + 1);
        x[0] = low.x, x[1] = low.y, x[2] = high.x, x[3] = high.y;
        return;
    }
#endif
#pragma unroll
    for (uint32_t j = 0; j < QUAD; ++j) {
        x[j] = from[j];
    }
}

// Calls `visit(row, r)` for each row, where r[p][j] are the residuals under predictor p. Only predictors in the bit set
// WANTED are computed.
template <uint32_t WANTED, typename Visit>
__device__ inline void for_each_row(const Integers &q, float base, Visit visit) {
    const uint32_t lane = lane_id();
    float r[4][QUAD] = {};
    if constexpr (AXES == 1) {
        const bool first = lane == 0;
#pragma unroll
        for (uint32_t k = 0; k < ROWS; ++k) {
            // The element before lane 0's is lane 31's of the previous row.
            float last = lane == WARP - 1 && k > 0 ? q[k - (k > 0)][QUAD - 1] : q[k][QUAD - 1];
            float left = __shfl_sync(ALL_LANES, last, (lane + WARP - 1) % WARP);
            left = first && k == 0 ? base : left;
#pragma unroll
            for (uint32_t j = 0; j < QUAD; ++j) {
                r[0][j] = q[k][j] - base;
                r[1][j] = q[k][j] - (j == 0 ? left : q[k][j - (j > 0)]);
            }
            visit(k, r);
        }
        return;
    }
    // Whether the quad's first element has x = 0, and whether the lane's first row has y = 0.
    const bool at_left = AXES == 3 ? (lane & 1) == 0 : lane % 8 == 0;
    const bool at_top = AXES == 3 ? lane < 4 : lane < 8;
    const float has_above = at_top ? 0.0f : 1.0f;
    float before[QUAD] = {}; // 2-D: differences along x in the row above; 3-D: along x and y in the previous plane
    float corner = base;     // 2-D: first element of the row above; 3-D: of the row in the previous plane
    if (AXES == 2) {
        float left = __shfl_up_sync(ALL_LANES, q[ROWS - 1][QUAD - 1], 1);
        left = at_left ? base : left;
#pragma unroll
        for (uint32_t j = 0; j < QUAD; ++j) {
            float along_x = q[ROWS - 1][j] - (j == 0 ? left : q[ROWS - 1][j - (j > 0)]);
            before[j] = __shfl_up_sync(ALL_LANES, along_x, 8) * has_above;
        }
        float above = __shfl_up_sync(ALL_LANES, q[ROWS - 1][0], 8);
        corner = at_top ? base : above;
    }
#pragma unroll
    for (uint32_t k = 0; k < ROWS; ++k) {
        float left = __shfl_up_sync(ALL_LANES, q[k][QUAD - 1], 1);
        float along_x[QUAD];
        along_x[0] = q[k][0] - (at_left ? base : left);
#pragma unroll
        for (uint32_t j = 1; j < QUAD; ++j) {
            along_x[j] = q[k][j] - q[k][j - 1];
        }
        if (WANTED & 1) {
#pragma unroll
            for (uint32_t j = 0; j < QUAD; ++j) {
                r[0][j] = q[k][j] - base;
            }
        }
        if (WANTED & 2) {
            float above = corner;
            if (AXES == 3) {
                float other = __shfl_up_sync(ALL_LANES, q[k][0], 4);
                above = at_top ? corner : other;
            }
            r[1][0] = q[k][0] - (at_left ? above : left);
#pragma unroll
            for (uint32_t j = 1; j < QUAD; ++j) {
                r[1][j] = along_x[j];
            }
        }
        if (WANTED & 12) {
#pragma unroll
            for (uint32_t j = 0; j < QUAD; ++j) {
                if (AXES == 2) {
                    r[2][j] = along_x[j] - before[j];
                    before[j] = along_x[j];
                } else {
                    float along_xy = __fmaf_rn(__shfl_up_sync(ALL_LANES, along_x[j], 4), -has_above, along_x[j]);
                    r[2][j] = along_xy;
                    r[3][j] = along_xy - before[j];
                    before[j] = along_xy;
                }
            }
            if (AXES == 3 && (WANTED & 4)) {
                r[2][0] = at_left && at_top ? q[k][0] - corner : r[2][0];
            }
        }
        corner = q[k][0];
        visit(k, r);
    }
}

// Returns the codes of four residuals, without checking for outliers.
__device__ inline uint2 pack(const float (&r)[QUAD]) {
    uint32_t bits[QUAD];
#pragma unroll
    for (uint32_t j = 0; j < QUAD; ++j) {
        bits[j] = __float_as_uint(r[j] + (MAGIC + float(RADIUS)));
    }
    return make_uint2(__byte_perm(bits[0], bits[1], 0x5410), __byte_perm(bits[2], bits[3], 0x5410));
}
