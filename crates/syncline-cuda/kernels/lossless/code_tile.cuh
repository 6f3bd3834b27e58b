// Codes of a tile of numbers, by a warp: `syncline_core::pipeline::numbers`.
#pragma once
#include "lossless/number.cuh"

constexpr uint32_t TILE_WORDS = format::MAX_TILE_ELEMENTS / WARP;

// The type in which differences are computed.
using difference_t = Unsigned < ELEMENT_BYTES<8 ? 4 : 8>::type;

// Extents of a tile, and its predictor.
struct Prediction {
    uint32_t extent[3]; // along z, y, and x
    uint32_t predictor;

    __device__ inline uint32_t elements() const { return extent[0] * extent[1] * extent[2]; }

    // Returns the difference of an element from its prediction, the base left out: differences along the predictor's
    // axes that it has neighbors on; if it has none, along the first other axis, x first, on which it does.
    __device__ inline word_t residual(const word_t *numbers, uint32_t z, uint32_t y, uint32_t x) const {
        const uint32_t nx = extent[2], plane = extent[1] * nx, i = z * plane + y * nx + x;
        uint32_t orders[3] = {0, 0, 0}; // along x, y, and z
        if (predictor == format::SECOND_ORDER) {
            orders[0] = min_of(x, 2u);
            orders[1] = min_of(y, 2u);
            orders[2] = min_of(z, 2u);
        } else if (predictor != 0) {
            orders[0] = predictor & (x > 0 ? 1 : 0);
            orders[1] = predictor >> 1 & (y > 0 ? 1 : 0);
            orders[2] = predictor >> 2 & (z > 0 ? 1 : 0);
            if ((orders[0] | orders[1] | orders[2]) == 0) {
                orders[x > 0 ? 0 : y > 0 ? 1 : 2] = i > 0 ? 1 : 0;
            }
        }
        difference_t sum = 0;
        for (uint32_t dz = 0; dz <= orders[2]; ++dz) {
            for (uint32_t dy = 0; dy <= orders[1]; ++dy) {
                const word_t *row = numbers + i - dz * plane - dy * nx;
                difference_t along = row[0];
                if (orders[0] == 1) {
                    along -= row[-1];
                } else if (orders[0] == 2) {
                    along += difference_t(row[-2]) - 2 * difference_t(row[-1]);
                }
                sum += weight(dz, orders[2]) * weight(dy, orders[1]) * along;
            }
        }
        return word_t(sum);
    }

    // Returns the weight of the element `distance` before, in a difference of an order.
    static __device__ inline difference_t weight(uint32_t distance, uint32_t order) {
        return distance == 0 ? 1 : distance == 1 ? difference_t(0) - order : 1;
    }
};

// Gives the elements whose bits are set the numbers that make their codes 0. An element's number depends on numbers
// before it along each axis, so that elements with the same sum of positions are independent. Called by a whole warp.
__device__ inline void fill_left_out(word_t *numbers, const uint32_t *left_out, const Prediction &tile, word_t base,
                                     word_t center) {
    if (tile.predictor == 0) {
        return;
    }
    const uint32_t ny = tile.extent[1], nx = tile.extent[2], rows = tile.extent[0] * ny;
    const uint32_t waves = tile.extent[0] + ny + nx - 2;
    if (lane_id() == 0 && (left_out[0] & 1) != 0) {
        numbers[0] = base;
    }
    __syncwarp();
    if (rows == 1) {
        // Each element depends on the one before it.
        for (uint32_t word = 0; lane_id() == 0 && word < ceil_div(nx, WARP); ++word) {
            for (uint32_t bits = left_out[word]; bits != 0; bits &= bits - 1) {
                const uint32_t x = word * WARP + uint32_t(__ffs(int32_t(bits))) - 1;
                if (x > 0) {
                    numbers[x] = 0;
                    numbers[x] = word_t(center - tile.residual(numbers, 0, 0, x));
                }
            }
        }
        __syncwarp();
        return;
    }
    for (uint32_t wave = 1; wave < waves; ++wave) {
        for (uint32_t row = lane_id(); row < rows; row += WARP) {
            const uint32_t z = row / ny, y = row - z * ny, x = wave - z - y;
            const uint32_t i = row * nx + x;
            if (z + y <= wave && x < nx && (left_out[i / WARP] >> i % WARP & 1) != 0) {
                numbers[i] = 0;
                numbers[i] = word_t(center - tile.residual(numbers, z, y, x));
            }
        }
        __syncwarp();
    }
}

// Returns the exclusive or of the bit of an element with that of the neighbor before it.
__device__ inline uint32_t mask_difference(const uint32_t *bits, const Prediction &tile, uint32_t i) {
    const uint32_t nx = tile.extent[2], plane = tile.extent[1] * nx;
    const uint32_t distance = i >= plane ? plane : i >= nx ? nx : i > 0 ? 1 : 0;
    const uint32_t before = i - distance;
    return (bits[i / WARP] >> i % WARP ^ (distance > 0 ? bits[before / WARP] >> before % WARP : 0)) & 1;
}
