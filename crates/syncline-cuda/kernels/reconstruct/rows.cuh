// The sums of residuals of a warp's tiles in shared memory, one per element, and how a lane computes the sums of its
// group.
//
// A warp processes TILES consecutive tiles. A lane processes one group of one tile and has a row of shared memory for
// it. Tiles are laid out as if they were not clipped. A lane sums residuals within its group: along rows and planes of
// 3-D tiles, rows of 2-D tiles, and segments of 64 elements of 1-D tiles. Sums across groups are computed when elements
// are written.
//
// With radius 512 and symbols below 1,024 (WIDE 0) the sums are those of codes, not of residuals: they have at most 64
// terms, so that 16 bits are enough and no sum is negative, and one instruction adds two sums. The contribution of the
// radius is known and is subtracted when sums are read (bias_of).
//
// AXES        axes along which tiles extend, 1 to 3
// GROUP_LOG2  log2 of the codes in a group, 6 or 7
// WIDE        1 if sums have 32 bits and are of residuals, for any radius and symbols
// APART       1 if rows go to device memory for reconstruct/strips.cu, which sums wide codes itself
#pragma once
#include "common.cuh"
#include "format/constants.cuh"

#if WIDE && !APART
typedef uint32_t Sum;
#else
typedef uint16_t Sum;
#endif

constexpr uint32_t CODES = 1u << GROUP_LOG2;
using format::RADIUS;
constexpr uint32_t MOST_SYMBOLS = 1024;
constexpr uint32_t TILE_ELEMENTS = AXES == 3 ? 512 : 1024;
constexpr uint32_t TILE_GROUPS = TILE_ELEMENTS / CODES;
constexpr uint32_t TILES = WARP / TILE_GROUPS;
// Elements of a tile along x, and elements of a step: a plane, a row or a segment, one of which is written at a time.
constexpr uint32_t SIDE = AXES == 3 ? 8 : AXES == 2 ? 32 : 1024;
constexpr uint32_t STEPS = AXES == 3 ? 8 : AXES == 2 ? 32 : 16;
constexpr uint32_t STEP = TILE_ELEMENTS / STEPS;
// Rows are stored in units of 16 bytes.
constexpr uint32_t UNIT_SUMS = 16 / sizeof(Sum);
constexpr uint32_t ROW_UNITS = CODES / UNIT_SUMS;
// Units of a row that are in shared memory at a time.
constexpr uint32_t KEPT_UNITS = APART ? 4 : ROW_UNITS;
constexpr uint32_t ROWS_BYTES = WARP * KEPT_UNITS * 16;
// Codes are processed eight at a time.
constexpr uint32_t EIGHTS = CODES / 8;
// Number of groups of eight codes after which the sums along x start again (in 3-D also those along y: a plane), with
// Summing::begin.
constexpr uint32_t RUN = AXES == 2 ? 4 : 8;
constexpr uint32_t FREE_PAIR = RADIUS * 0x10001u;

extern __shared__ uint4 dynamic[];

// Returns the permutation of a tile's units. Units are permuted by exclusive or with the row and with this value, so
// that neither lanes that write the same unit of their rows nor lanes that read adjacent elements of the array conflict
// in shared-memory banks.
__device__ inline uint32_t unit_permutation(uint32_t tile) {
    return AXES == 3 ? (TILE_GROUPS == 4 ? tile >> 1 : tile << 1) & 7 : AXES == 2 ? (tile & 1) << 2 : 0;
}

// Returns the index of a unit of a row in shared memory.
__device__ inline uint32_t unit_index(uint32_t row, uint32_t unit) {
    return row * ROW_UNITS + (unit ^ (row & 7) ^ unit_permutation(row / TILE_GROUPS));
}

// The rows of a warp.
struct Rows {
    uint32_t first; // index of the first unit in the block's shared memory
#if APART
    uint4 *to;      // the row of group 0 in device memory
    uint32_t group; // group of the lane; ALL_LANES if it has none

    // Returns the place of a lane's unit until it is written to device memory. Neither lanes that write the same unit
    // nor those that read adjacent units conflict in shared-memory banks.
    static __device__ inline uint32_t place(uint32_t lane, uint32_t number) {
        return lane * KEPT_UNITS + (number ^ lane >> 1) % KEPT_UNITS;
    }

    // Stores a unit. KEPT_UNITS units go to device memory together, as whole sectors. Called by the whole warp.
    __device__ inline void put(uint32_t number, uint4 sums) const {
        dynamic[first + place(lane_id(), number)] = sums;
        if (number % KEPT_UNITS != KEPT_UNITS - 1) {
            return;
        }
        __syncwarp();
#pragma unroll
        for (uint32_t round = 0; round < KEPT_UNITS; ++round) {
            const uint32_t lane = (round * WARP + lane_id()) / KEPT_UNITS, unit = lane_id() % KEPT_UNITS;
            const uint32_t of = __shfl_sync(ALL_LANES, group, lane);
            const uint4 kept = dynamic[first + place(lane, unit)];
            if (of != ALL_LANES) {
                to[of * ROW_UNITS + (number - (KEPT_UNITS - 1)) + unit] = kept;
            }
        }
        __syncwarp();
    }
#else
    // Stores unit `number` of the lane's row.
    __device__ inline void put(uint32_t number, uint4 sums) const { unit(lane_id(), number) = sums; }
#endif

    __device__ inline uint4 &unit(uint32_t row, uint32_t number) const {
        return dynamic[first + unit_index(row, number)];
    }

    // Returns the address of sum `element` of a tile, numbered as if the tile were not clipped.
    __device__ inline Sum *at(uint32_t tile, uint32_t element) const {
        const uint32_t row = tile * TILE_GROUPS + element / CODES, place = element % CODES;
        return reinterpret_cast<Sum *>(&unit(row, place / UNIT_SUMS)) + place % UNIT_SUMS;
    }
};

// The sums at the same position in each step of a tile. Computes the common part of `Rows::at` once.
struct Steps {
    uint32_t first, permuted; // in bytes

    __device__ inline Steps(const Rows &rows, uint32_t tile, uint32_t place)
        : first((rows.first + tile * TILE_GROUPS * ROW_UNITS) * 16 + place % UNIT_SUMS * uint32_t(sizeof(Sum))),
          permuted((place / UNIT_SUMS ^ unit_permutation(tile) ^ (tile * TILE_GROUPS & 7)) * 16) {}

    // The parts that only depend on `step` and `below` are constants in unrolled loops. `below` is a number of rows
    // further in the plane, among four rows that start with row 0 or 4.
    __device__ inline const uint8_t *at(uint32_t step, uint32_t below = 0) const {
        const uint32_t row = step * STEP / CODES, unit = step * STEP % CODES / UNIT_SUMS;
        const uint32_t change = (unit & 7) ^ (row & 7) ^ below * (SIDE / UNIT_SUMS);
        return reinterpret_cast<const uint8_t *>(dynamic) + first + (row * ROW_UNITS + (unit & ~7u)) * 16 +
               (permuted ^ change * 16);
    }
};

#if WIDE && APART
// Stores codes without summing them.
struct Summing {
    __device__ inline Summing(uint32_t, uint32_t) {}
    __device__ inline void begin() {}
    __device__ inline void add(uint4 codes, uint32_t eight, const Rows &rows) { rows.put(eight, codes); }
};
#elif WIDE
// Sums the residuals of a lane's group, eight at a time.
struct Summing {
    uint32_t radius, along_x, along_y, from_start;
    uint32_t above[8];
    uint32_t running;

    __device__ inline Summing(uint32_t code_radius, uint32_t predictor)
        : radius(code_radius), along_x(predictor >= 1), along_y(AXES == 3 && predictor >= 2),
          from_start(AXES == 3 && predictor == 1), running(0) {}

    __device__ inline void begin() {
        running = 0;
#pragma unroll
        for (uint32_t i = 0; i < 8; ++i) {
            above[i] = 0;
        }
    }

    // Writes the sums of eight codes to units 2 `eight` and 2 `eight` + 1 of the lane's row.
    __device__ inline void add(uint4 codes, uint32_t eight, const Rows &rows) {
        if (AXES == 3) {
            running = above[0] * from_start;
        }
        const uint32_t words[4] = {codes.x, codes.y, codes.z, codes.w};
#pragma unroll
        for (uint32_t i = 0; i < 8; ++i) {
            const uint32_t code = i % 2 == 0 ? words[i / 2] & 0xFFFF : words[i / 2] >> 16;
            running = running * along_x + code - radius;
            above[i] = above[i] * along_y + running;
        }
        rows.put(2 * eight, make_uint4(above[0], above[1], above[2], above[3]));
        rows.put(2 * eight + 1, make_uint4(above[4], above[5], above[6], above[7]));
    }
};
#else
struct Summing {
    // Multipliers and byte selectors: the half of a word that is carried to both halves of the next word, or zeros.
    uint32_t along_x, along_y, carry, start;
    uint4 above;
    uint32_t running;

    __device__ inline Summing(uint32_t, uint32_t predictor)
        : along_x(predictor >= 1 ? 0x10001 : 1), along_y(AXES == 3 && predictor >= 2),
          carry(predictor >= 1 ? 0x3232 : 0x4444), start(AXES == 3 && predictor == 1 ? 0x1010 : 0x4444),
          above(make_uint4(0, 0, 0, 0)), running(0) {
        // Hides the value from the compiler, which would otherwise replace a multiply-add by a selection and an
        // addition.
        asm("" : "+r"(along_y));
    }

    __device__ inline void begin() {
        running = 0;
        above = make_uint4(0, 0, 0, 0);
    }

    // Writes the sums of eight codes to unit `eight` of the lane's row.
    __device__ inline void add(uint4 codes, uint32_t eight, const Rows &rows) {
        if (AXES == 3) {
            running = __byte_perm(above.x, 0, start);
        }
        uint4 sums;
        sums.x = codes.x * along_x + running;
        sums.y = codes.y * along_x + __byte_perm(sums.x, 0, carry);
        sums.z = codes.z * along_x + __byte_perm(sums.y, 0, carry);
        sums.w = codes.w * along_x + __byte_perm(sums.z, 0, carry);
        if (AXES == 3) {
            sums.x += above.x * along_y;
            sums.y += above.y * along_y;
            sums.z += above.z * along_y;
            sums.w += above.w * along_y;
            above = sums;
        } else {
            running = __byte_perm(sums.w, 0, carry);
        }
        rows.put(eight, sums);
    }
};
#endif

// Returns the contribution of the radius to the sum of narrow codes at (y, x) of a plane; x counts within a row or a
// segment.
__device__ inline uint32_t narrow_bias(uint32_t predictor, uint32_t y, uint32_t x) {
    if (predictor == 0) {
        return RADIUS;
    }
    if (AXES == 3) {
        return RADIUS * (predictor == 1 ? x + 1 + y : (x + 1) * (y + 1));
    }
    return RADIUS * (x + 1);
}

// Returns the contribution of the radius for any codes: 0 for wide ones, whose sums are of residuals.
__device__ inline uint32_t bias_of(uint32_t predictor, uint32_t y, uint32_t x) {
    return WIDE ? 0 : narrow_bias(predictor, y, x);
}

#if AXES == 3 && !WIDE
// Returns eight 16-bit codes from a row of units, starting with code `first` of the tile; codes from `count` on are 0.
__device__ inline uint4 codes_from(const Rows &rows, uint32_t tile, uint32_t first, uint32_t count) {
    constexpr uint32_t TILE_UNITS = TILE_ELEMENTS / UNIT_SUMS;
    const uint32_t number = min_of(first / UNIT_SUMS, TILE_UNITS - 1), following = min_of(number + 1, TILE_UNITS - 1),
                   shift = first % UNIT_SUMS;
    const uint4 low = rows.unit(tile * TILE_GROUPS + number / ROW_UNITS, number % ROW_UNITS);
    const uint4 high = rows.unit(tile * TILE_GROUPS + following / ROW_UNITS, following % ROW_UNITS);
    const uint32_t words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    // Shifts by four codes, by two, and by one.
    uint32_t by_four[6], by_two[5], codes[4];
#pragma unroll
    for (uint32_t i = 0; i < 6; ++i) {
        by_four[i] = shift & 4 ? words[i + 2] : words[i];
    }
#pragma unroll
    for (uint32_t i = 0; i < 5; ++i) {
        by_two[i] = shift & 2 ? by_four[i + 1] : by_four[i];
    }
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
        codes[i] = __funnelshift_r(by_two[i], by_two[i + 1], shift % 2 * 16);
        codes[i] = count > 2 * i + 1 ? codes[i] : count > 2 * i ? codes[i] & 0xFFFF : 0;
    }
    return make_uint4(codes[0], codes[1], codes[2], codes[3]);
}

// Moves the dense codes of a clipped tile to the positions of an unclipped one, and sums them. Called by the whole
// warp; each lane processes two rows. Not inlined, because it would slow down the more frequent code.
__device__ __noinline__ void unpack_clipped(Rows rows, uint32_t tile, uint32_t nz, uint32_t ny, uint32_t nx,
                                            uint32_t predictor) {
    constexpr uint32_t ROUNDS = 2, PLANES = WARP / SIDE;
    const uint32_t y = lane_id() % SIDE;
    // Multipliers and selectors as in Summing.
    const uint32_t along_x = predictor >= 1 ? 0x10001 : 1, carry = predictor >= 1 ? 0x3232 : 0x4444;
    uint4 sums[ROUNDS];
    __syncwarp();
#pragma unroll
    for (uint32_t round = 0; round < ROUNDS; ++round) {
        const uint32_t z = lane_id() / SIDE + round * PLANES;
        uint4 row = codes_from(rows, tile, (z * ny + y) * nx, y < ny && z < nz ? nx : 0);
        row.x *= along_x;
        row.y = row.y * along_x + __byte_perm(row.x, 0, carry);
        row.z = row.z * along_x + __byte_perm(row.y, 0, carry);
        row.w = row.w * along_x + __byte_perm(row.z, 0, carry);
        if (predictor == 1) {
            const uint32_t start = row.x & 0xFFFF;
            uint32_t before = start;
#pragma unroll
            for (uint32_t distance = 1; distance < SIDE; distance *= 2) {
                const uint32_t above = __shfl_up_sync(ALL_LANES, before, distance, SIDE);
                before += y >= distance ? above : 0;
            }
            const uint32_t both = (before - start) * 0x10001u;
            row.x += both;
            row.y += both;
            row.z += both;
            row.w += both;
        } else if (predictor >= 2) {
#pragma unroll
            for (uint32_t distance = 1; distance < SIDE; distance *= 2) {
                const uint32_t has = y >= distance;
                row.x += __shfl_up_sync(ALL_LANES, row.x, distance, SIDE) * has;
                row.y += __shfl_up_sync(ALL_LANES, row.y, distance, SIDE) * has;
                row.z += __shfl_up_sync(ALL_LANES, row.z, distance, SIDE) * has;
                row.w += __shfl_up_sync(ALL_LANES, row.w, distance, SIDE) * has;
            }
        }
        sums[round] = row;
    }
    __syncwarp();
#pragma unroll
    for (uint32_t round = 0; round < ROUNDS; ++round) {
        const uint32_t unit = (lane_id() / SIDE + round * PLANES) * SIDE + y;
        rows.unit(tile * TILE_GROUPS + unit / ROW_UNITS, unit % ROW_UNITS) = sums[round];
    }
    __syncwarp();
}
#else
// Moves the dense codes of a clipped tile to the positions of an unclipped one, and sums them. Called by the whole
// warp; each lane processes one row, or two in 3-D. Not inlined, because it is rarely called.
__device__ __noinline__ void unpack_clipped(Rows rows, uint32_t tile, uint32_t nz, uint32_t ny, uint32_t nx,
                                            uint32_t predictor) {
#if AXES > 1
    constexpr uint32_t ROUNDS = AXES == 3 ? 2 : 1, ROW_WORDS = SIDE * sizeof(Sum) / 4, IN_WORD = 4 / sizeof(Sum);
    const uint32_t y = AXES == 3 ? lane_id() % SIDE : lane_id();
    const uint32_t along_x = predictor >= 1;
    uint32_t words[ROUNDS][ROW_WORDS];
    __syncwarp();
#pragma unroll
    for (uint32_t round = 0; round < ROUNDS; ++round) {
        const uint32_t z = AXES == 3 ? lane_id() / SIDE + round * (WARP / SIDE) : 0;
        const uint32_t first = (z * ny + y) * nx, count = y < ny && z < nz ? nx : 0;
        uint32_t sum = 0;
#pragma unroll
        for (uint32_t x = 0; x < SIDE; ++x) {
            sum = sum * along_x + (x < count ? uint32_t(*rows.at(tile, first + x)) : 0);
            words[round][x / IN_WORD] = x % IN_WORD == 0 ? sum : words[round][x / IN_WORD] | sum << 16;
        }
        if (AXES == 3 && predictor == 1) {
            constexpr uint32_t ALL = IN_WORD == 1 ? 1 : 0x10001;
            const uint32_t start = IN_WORD == 1 ? words[round][0] : words[round][0] & 0xFFFF;
            uint32_t before = start;
#pragma unroll
            for (uint32_t distance = 1; distance < SIDE; distance *= 2) {
                const uint32_t above = __shfl_up_sync(ALL_LANES, before, distance, SIDE);
                before += y >= distance ? above : 0;
            }
#pragma unroll
            for (uint32_t i = 0; i < ROW_WORDS; ++i) {
                words[round][i] += (before - start) * ALL;
            }
        } else if (AXES == 3 && predictor >= 2) {
#pragma unroll
            for (uint32_t i = 0; i < ROW_WORDS; ++i) {
#pragma unroll
                for (uint32_t distance = 1; distance < SIDE; distance *= 2) {
                    const uint32_t above = __shfl_up_sync(ALL_LANES, words[round][i], distance, SIDE);
                    words[round][i] += y >= distance ? above : 0;
                }
            }
        }
    }
    __syncwarp();
#pragma unroll
    for (uint32_t round = 0; round < ROUNDS; ++round) {
        const uint32_t z = AXES == 3 ? lane_id() / SIDE + round * (WARP / SIDE) : 0;
#pragma unroll
        for (uint32_t i = 0; i < ROW_WORDS; i += 4) {
            *reinterpret_cast<uint4 *>(rows.at(tile, (z * SIDE + y) * SIDE + i * IN_WORD)) =
                make_uint4(words[round][i], words[round][i + 1], words[round][i + 2], words[round][i + 3]);
        }
    }
    __syncwarp();
#endif
}
#endif
