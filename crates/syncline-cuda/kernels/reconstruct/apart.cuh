// Sums the codes of clipped tiles after they have been decoded to device memory (APART).
#pragma once
#include "reconstruct/work.cuh"

#if APART && !WIDE
// Sums the codes of a clipped tile, which are dense in device memory, in place. Called by the whole warp; each lane
// processes two rows. Not inlined, because it would slow down the more frequent code.
__device__ __noinline__ void sum_clipped(uint16_t *codes, Work tile) {
    constexpr uint32_t ROUNDS = 2, PLANES = WARP / SIDE;
    const uint32_t y = lane_id() % SIDE, along_x = tile.predictor >= 1;
    uint32_t sums[ROUNDS][SIDE];
#pragma unroll
    for (uint32_t round = 0; round < ROUNDS; ++round) {
        const uint32_t z = lane_id() / SIDE + round * PLANES;
        const uint16_t *row = codes + (z * tile.ny + y) * tile.nx;
#pragma unroll
        for (uint32_t x = 0; x < SIDE; ++x) {
            sums[round][x] = z < tile.nz && y < tile.ny && x < tile.nx ? __ldcg(row + x) : 0;
        }
    }
    __syncwarp();
#pragma unroll
    for (uint32_t round = 0; round < ROUNDS; ++round) {
        const uint32_t z = lane_id() / SIDE + round * PLANES;
        uint32_t(&own)[SIDE] = sums[round];
#pragma unroll
        for (uint32_t x = 1; x < SIDE; ++x) {
            own[x] += own[x - 1] * along_x;
        }
        // Rows of predictor 1 start with the sum of the first codes of the rows before.
        const uint32_t start = own[0];
        uint32_t through = start;
#pragma unroll
        for (uint32_t distance = 1; distance < SIDE; distance *= 2) {
            const uint32_t has = y >= distance, above = __shfl_up_sync(ALL_LANES, through, distance, SIDE);
            through += above * has;
#pragma unroll
            for (uint32_t x = 0; x < SIDE; ++x) {
                own[x] += __shfl_up_sync(ALL_LANES, own[x], distance, SIDE) * (has && tile.predictor >= 2);
            }
        }
        uint16_t *row = codes + (z * tile.ny + y) * tile.nx;
#pragma unroll
        for (uint32_t x = 0; x < SIDE; ++x) {
            if (z < tile.nz && y < tile.ny && x < tile.nx) {
                row[x] = uint16_t(own[x] + (tile.predictor == 1 ? through - start : 0));
            }
        }
    }
}
#endif
