// Decodes whole ordinary tiles of one and of two dimensions (decode/units.cuh), row by row. Tiles of one dimension are
// cut into rows of 32.
//
// AXES           axes along which tiles extend, 1 or 2
// WIDTH, HEIGHT  elements of a row, and rows of a tile
#include "decode/points.cuh"

constexpr uint32_t COLUMNS = WIDTH / WARP; // of a lane
constexpr uint32_t ROWS_OF_STRIP = strips::STRIP_LEN / WIDTH;
static_assert(COLUMNS == 1 || COLUMNS == 2, "lanes have one element of a row, or two");

// Integers from row to row in shared memory: lanes have banks of their own along rows and along columns.
constexpr uint32_t ROW_ROOM = WIDTH + 1;
static_assert(sizeof(WarpMemory::values) >= HEIGHT * ROW_ROOM * 4, "room for the integers of a tile");

// Sums along the row that the warp has.
__device__ inline void sum_row(uint32_t (&q)[COLUMNS]) {
#pragma unroll
    for (uint32_t i = 1; i < COLUMNS; ++i) {
        q[i] += q[i - 1];
    }
    const uint32_t before = warp_inclusive_sum(q[COLUMNS - 1]) - q[COLUMNS - 1];
#pragma unroll
    for (uint32_t i = 0; i < COLUMNS; ++i) {
        q[i] += before;
    }
}

// Sums along all rows, of which each lane has one at a time; rows of one dimension go on in the next one. Leaves out
// the first element of each row, or of the tile of one dimension, if `skips_first`. Called by the whole warp.
__device__ inline void sum_rows(uint32_t *integers, bool skips_first) {
    uint32_t carry = 0;
    for (uint32_t window = 0; window < HEIGHT; window += WARP) {
        uint32_t *row = integers + (window + lane_id()) * ROW_ROOM;
        const bool skips = skips_first && (AXES == 2 || window + lane_id() == 0);
        uint32_t q[WIDTH], sum = 0;
#pragma unroll
        for (uint32_t x = 0; x < WIDTH; ++x) {
            sum += x == 0 && skips ? 0 : row[x];
            q[x] = sum;
        }
        uint32_t before = 0;
        if constexpr (AXES == 1) {
            before = carry + warp_inclusive_sum(sum) - sum;
            carry = __shfl_sync(ALL_LANES, before + sum, WARP - 1);
        }
#pragma unroll
        for (uint32_t x = 0; x < WIDTH; ++x) {
            if (x > 0 || !skips) {
                row[x] = before + q[x];
            }
        }
    }
    __syncwarp();
}

// Writes tiles.
struct Writer : Place {
    __device__ inline explicit Writer(const Place &place) : Place(place) {}

    __device__ inline uint64_t stride() const { return AXES == 2 ? geometry.strides[2] : WIDTH; }

    __device__ inline void write_row(Stored *to, Element (&elements)[COLUMNS]) const {
        limit(elements);
        if constexpr (COLUMNS == 1) {
            __stcs(to + lane_id(), stored_of(elements[0], values.origin));
        } else {
            if (vectors) {
                write(to + COLUMNS * lane_id(), elements);
                return;
            }
#pragma unroll
            for (uint32_t i = 0; i < COLUMNS; ++i) {
                __stcs(to + COLUMNS * lane_id() + i, stored_of(elements[i], values.origin));
            }
        }
    }

    // Writes a tile that is stored in shared memory.
    __device__ inline void write_stored(const Element *tile, Stored *out) const {
#pragma unroll 4
        for (uint32_t row = 0; row < HEIGHT; ++row) {
            Element elements[COLUMNS];
#pragma unroll
            for (uint32_t i = 0; i < COLUMNS; ++i) {
                elements[i] = tile[row * (WIDTH + 1) + COLUMNS * lane_id() + i];
            }
            write_row(out + row * stride(), elements);
        }
    }

    // Writes a tile of one value.
    __device__ inline void write_constant(Element value, Stored *out) const {
#pragma unroll 4
        for (uint32_t row = 0; row < HEIGHT; ++row) {
            Element elements[COLUMNS];
#pragma unroll
            for (uint32_t i = 0; i < COLUMNS; ++i) {
                elements[i] = value;
            }
            write_row(out + row * stride(), elements);
        }
    }

    // Reconstructs and writes a tile of residuals (predict/integrate.cuh says in which order they are summed; sums
    // along different axes commute). `memory` has room for a tile.
    __device__ inline void write_sums(const Target &target, uint32_t predictor, bool is_negative,
                                      Element *memory) const {
        const bool is_second = predictor == format::SECOND_ORDER;
        // Differences along an axis that tiles do not extend along are none, and leave all others to the edges.
        const bool y = AXES == 2 && (is_second || (predictor & 2) != 0),
                   x = predictor != 0 && (!y || (predictor & 1) != 0 || is_second);
        uint32_t *integers = reinterpret_cast<uint32_t *>(memory);
        sum_columns(target, is_second, x, y, integers);
        if (is_second) {
            sum_rows(integers, true);
        }
        if (x) {
            sum_rows(integers, false);
        }
#pragma unroll 4
        for (uint32_t row = 0; row < HEIGHT; ++row) {
            Element elements[COLUMNS];
#pragma unroll
            for (uint32_t i = 0; i < COLUMNS; ++i) {
                const uint32_t integer = integers[row * ROW_ROOM + COLUMNS * lane_id() + i] + uint32_t(target.base);
                const Element value = value_of(int32_t(integer), values);
                elements[i] = LOGARITHM && is_negative ? -value : value;
            }
            write_row(target.out + row * stride(), elements);
        }
    }

    // Copies the codes of a tile to `integers`, summed along columns by a predictor along the axes `x` and `y`.
    __device__ inline void sum_columns(const Target &target, bool is_second, bool x, bool y, uint32_t *integers) const {
        uint32_t before[COLUMNS] = {}, above[COLUMNS] = {}, first_column = 0;
#pragma unroll 4
        for (uint32_t row = 0; row < HEIGHT; ++row) {
            const int16_t *codes =
                target.codes + row / ROWS_OF_STRIP * STRIP_ROOM + row % ROWS_OF_STRIP * WIDTH + COLUMNS * lane_id();
            uint32_t q[COLUMNS];
            if constexpr (COLUMNS == 1) {
                q[0] = uint32_t(int32_t(codes[0]));
            } else {
                const int32_t both = *reinterpret_cast<const int32_t *>(codes);
                q[0] = uint32_t(int32_t(int16_t(both)));
                q[COLUMNS - 1] = uint32_t(both >> 16);
            }
            if (AXES == 2 && x && !y) {
                // The edge of a predictor along x alone is the first column.
                first_column += q[0];
                q[0] = lane_id() == 0 ? first_column : q[0];
            }
            if (y) {
                if (row == 0 && !x) {
                    // The edge of a predictor along y alone is the first row.
                    sum_row(q);
                }
#pragma unroll
                for (uint32_t i = 0; i < COLUMNS; ++i) {
                    before[i] = is_second && row >= 2 ? before[i] + q[i] : q[i];
                    above[i] = row >= 1 ? above[i] + before[i] : before[i];
                    q[i] = above[i];
                }
            }
#pragma unroll
            for (uint32_t i = 0; i < COLUMNS; ++i) {
                integers[row * ROW_ROOM + COLUMNS * lane_id() + i] = q[i];
            }
        }
        __syncwarp();
    }
};

extern "C" __global__ void __launch_bounds__(WARPS *WARP, 1)
    decode_rows(const uint8_t *input, const __grid_constant__ Geometry geometry, const __grid_constant__ Parsed parsed,
                const __grid_constant__ Values values, const uint32_t *schemes, const __grid_constant__ Request request,
                Stored *output) {
    extern __shared__ __align__(16) uint8_t shared[];
    const Launch launch{input, geometry, parsed, values, schemes, request, output};
    decode_share(launch, *reinterpret_cast<BlockMemory *>(shared), EachTile<Writer>{});
}
