// The lines of interpolated tiles of 8x8x8 in shared memory. A table for each scheme says where they and their codes
// are: src/predict/lines.rs.
//
// ROW, PLANE   elements of shared memory from row to row, and from plane to plane
// STORED       digit `i`, from the lowest, is where plane or row `i` is stored: in this order the lanes of most passes
//              have banks of their own
// LINES_AT     word of the first line in the table of a scheme
#pragma once
#include "predict/lines.cuh"

constexpr uint32_t SIDE = 8;

__host__ __device__ constexpr uint32_t stored(uint32_t number) { return uint32_t(STORED) >> 4 * number & 15; }

// Where the positions of a line along axis AXIS (0 z, 1 y, 2 x) are, from its first one.
template <uint32_t AXIS> struct Along {
    __host__ __device__ static constexpr uint32_t of(uint32_t position) {
        return AXIS == 2 ? position : stored(position) * (AXIS == 1 ? ROW : PLANE);
    }
};

// A pass of a scheme: its lines are along an axis at a distance from their neighbors.
struct CubePass {
    uint32_t kind; // three times the axis, 0 for z, plus the level: 0 for a distance of 4, 2 for 1
    uint32_t first, count;

    __device__ inline CubePass(const uint32_t *table, uint32_t number) {
        const uint32_t word = table[1 + number];
        kind = word & 0xFF;
        first = word >> 8 & 0xFFF;
        count = word >> 20;
    }
};

// Calls `pass.run<axis, level, IS_CUBIC>()` with the axis and the level of a kind of passes.
template <bool IS_CUBIC, typename Pass> __device__ inline void run_pass(const Pass &pass, uint32_t kind) {
    switch (kind) {
    case 0:
        return pass.template run<0, 0, IS_CUBIC>();
    case 1:
        return pass.template run<0, 1, IS_CUBIC>();
    case 2:
        return pass.template run<0, 2, IS_CUBIC>();
    case 3:
        return pass.template run<1, 0, IS_CUBIC>();
    case 4:
        return pass.template run<1, 1, IS_CUBIC>();
    case 5:
        return pass.template run<1, 2, IS_CUBIC>();
    case 6:
        return pass.template run<2, 0, IS_CUBIC>();
    case 7:
        return pass.template run<2, 1, IS_CUBIC>();
    default:
        return pass.template run<2, 2, IS_CUBIC>();
    }
}

// Schemes of cubes, by their codes from 1 on.
constexpr uint32_t CUBE_SCHEMES = 8;

// The passes of a scheme, as constants: levels from the coarsest on, and the axes of each.
template <uint32_t SCHEME> struct CubeScheme {
    static constexpr uint32_t LEVELS = 3;
    static constexpr bool IS_CUBIC = (SCHEME - 1 & 1) != 0, X_FIRST = (SCHEME - 1 & 2) != 0,
                          IN_PLANES = (SCHEME - 1 & 4) != 0;
    static constexpr uint32_t OF_LEVEL = IN_PLANES ? 2 : 3, PASSES = LEVELS * OF_LEVEL;
    static constexpr uint32_t ANCHORS = IN_PLANES ? 4 * SIDE : 8;

    __host__ __device__ static constexpr uint32_t level(uint32_t pass) { return pass / OF_LEVEL; }
    // 0 for z, 2 for x.
    __host__ __device__ static constexpr uint32_t axis(uint32_t pass) {
        return X_FIRST ? 2 - pass % OF_LEVEL : pass % OF_LEVEL + (3 - OF_LEVEL);
    }
    // Positions along an axis that are known before a level.
    __host__ __device__ static constexpr uint32_t known(uint32_t level) {
        return level == LEVELS ? SIDE : (1u << level) + 1;
    }
    // Lines of a pass.
    __host__ __device__ static constexpr uint32_t lines(uint32_t pass) {
        uint32_t count = IN_PLANES ? SIDE : 1;
        for (uint32_t other = level(pass) * OF_LEVEL; other < (level(pass) + 1) * OF_LEVEL; ++other) {
            count *= other == pass ? 1 : known(level(pass) + (other < pass ? 1 : 0));
        }
        return count;
    }
};
