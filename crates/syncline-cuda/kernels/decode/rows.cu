// Decodes whole ordinary tiles of one and of two dimensions (decode/units.cuh), row by row. Tiles of one dimension are
// cut into rows.
//
// AXES  axes along which tiles extend, 1 or 2
// See also predict/points.cuh.
#include "decode/units.cuh"
#include "format/constants.cuh"
#include "predict/points.cuh"

// Rows of a tile, each of which has an element for every lane.
constexpr uint32_t HEIGHT = 32;
constexpr uint32_t ROWS_OF_STRIP = strips::STRIP_LEN / WARP;

// Integers from row to row in shared memory: lanes have banks of their own along rows and along columns.
constexpr uint32_t ROW_ROOM = WARP + 1;
static_assert(sizeof(WarpMemory::values) >= HEIGHT * ROW_ROOM * 4, "room for the integers of a tile");

// Sums along all rows, of which each lane has one; rows of one dimension go on in the next one. Leaves out the first
// element of each row, or of the tile of one dimension, if `skips_first`. Called by the whole warp.
__device__ inline void sum_rows(uint32_t *integers, bool skips_first) {
    static_assert(HEIGHT == WARP, "a row for each lane");
    uint32_t *row = integers + lane_id() * ROW_ROOM;
    const bool skips = skips_first && (AXES == 2 || lane_id() == 0);
    uint32_t q[WARP], sum = 0;
#pragma unroll
    for (uint32_t x = 0; x < WARP; ++x) {
        sum += x == 0 && skips ? 0 : row[x];
        q[x] = sum;
    }
    const uint32_t before = AXES == 1 ? warp_inclusive_sum(sum) - sum : 0;
#pragma unroll
    for (uint32_t x = 0; x < WARP; ++x) {
        if (x > 0 || !skips) {
            row[x] = before + q[x];
        }
    }
    __syncwarp();
}

#if !LOGARITHM
// Interpolates a tile by the table of a scheme. Called by the whole warp.
__device__ inline void interpolate(const Target &target, const uint32_t *table, bool is_cubic, const Values &values,
                                   Element *memory) {
    const PointTable<Element> own{table};
    const uint32_t anchors = own.anchors();
    // Anchors are a lattice of two columns, summed along both axes.
    uint32_t above = 0;
    for (uint32_t window = 0; window < anchors; window += WARP) {
        const uint32_t i = window + lane_id();
        uint32_t sum = i < anchors ? uint32_t(int32_t(target.codes[own.code(i)])) : 0;
        const uint32_t left = __shfl_xor_sync(ALL_LANES, sum, 1);
        sum += lane_id() % 2 != 0 ? left : 0;
#pragma unroll
        for (uint32_t distance = 2; distance < WARP; distance *= 2) {
            const uint32_t before = __shfl_up_sync(ALL_LANES, sum, distance);
            sum += lane_id() >= distance ? before : 0;
        }
        sum += above;
        above = __shfl_sync(ALL_LANES, sum, WARP - 2 + lane_id() % 2);
        if (i < anchors) {
            memory[stored_in_row(own.line(i))] = value_of(int32_t(sum + uint32_t(target.base)), values);
        }
    }
    __syncwarp();
    for (uint32_t number = 0; number < own.passes(); ++number) {
        const PointPass pass = own.pass(number);
        const uint32_t count = pass.lines * pass.points;
        for (uint32_t i = lane_id(); i < count; i += WARP) {
            const uint32_t line = __umulhi(2 * i, pass.by_points), point = i - line * pass.points;
            const uint32_t place = own.place(pass, line, point);
            const Element prediction = own.predicted(pass, point, place, is_cubic, memory);
            memory[stored_in_row(place)] = corrected(prediction, target.codes[own.code(pass.first_code + i)], values);
        }
        __syncwarp();
    }
}
#endif

// Writes tiles. A lane has a column.
struct Writer : Place {
    __device__ inline explicit Writer(const Place &place) : Place(place) {}

    __device__ inline uint64_t stride() const { return AXES == 2 ? geometry.strides[2] : WARP; }

    __device__ inline void write_row(Stored *to, Element element) const {
        Element own[1] = {element};
        limit(own);
        __stcs(to + lane_id(), stored_of(own[0], values.origin));
    }

    // Writes a tile that is stored in shared memory.
    __device__ inline void write_stored(const Element *tile, Stored *out) const {
#pragma unroll 4
        for (uint32_t row = 0; row < HEIGHT; ++row) {
            write_row(out + row * stride(), tile[row * ROW_ROOM + lane_id()]);
        }
    }

    // Writes a tile of one value.
    __device__ inline void write_constant(Element value, Stored *out) const {
#pragma unroll 4
        for (uint32_t row = 0; row < HEIGHT; ++row) {
            write_row(out + row * stride(), value);
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
            const uint32_t integer = integers[row * ROW_ROOM + lane_id()] + uint32_t(target.base);
            const Element value = value_of(int32_t(integer), values);
            write_row(target.out + row * stride(), LOGARITHM && is_negative ? -value : value);
        }
    }

    // Copies the codes of a tile to `integers`, summed along columns by a predictor along the axes `x` and `y`.
    __device__ inline void sum_columns(const Target &target, bool is_second, bool x, bool y, uint32_t *integers) const {
        uint32_t before = 0, above = 0, first_column = 0;
#pragma unroll 4
        for (uint32_t row = 0; row < HEIGHT; ++row) {
            const int16_t *codes =
                target.codes + row / ROWS_OF_STRIP * STRIP_ROOM + row % ROWS_OF_STRIP * WARP + lane_id();
            uint32_t q = uint32_t(int32_t(*codes));
            if (AXES == 2 && x && !y) {
                // The edge of a predictor along x alone is the first column.
                first_column += q;
                q = lane_id() == 0 ? first_column : q;
            }
            if (y) {
                if (row == 0 && !x) {
                    // The edge of a predictor along y alone is the first row.
                    q = warp_inclusive_sum(q);
                }
                before = is_second && row >= 2 ? before + q : q;
                above = row >= 1 ? above + before : before;
                q = above;
            }
            integers[row * ROW_ROOM + lane_id()] = q;
        }
        __syncwarp();
    }
};

// Reconstructs and writes the tiles of a unit one after another.
struct EachTile {
    __device__ inline void operator()(const Unit &unit, const OwnChunk &chunk, const Place &place,
                                      const uint32_t *table, WarpMemory &memory) const {
        const Writer to(place);
        for (uint32_t lanes = unit.lanes(false) | unit.lanes(true); lanes != 0; lanes &= lanes - 1) {
            const uint32_t lane = __ffs(lanes) - 1, info = __shfl_sync(ALL_LANES, unit.place.info, lane);
            const Target target = unit.target(lane);
            if (tile_is_constant(info) || tile_predictor(info) != strips::INTERPOLATED) {
                write_lorenzo(to, chunk, target, info, memory.values);
                __syncwarp();
            } else {
#if !LOGARITHM
                interpolate(target, table, chunk.is_cubic, to.values, memory.values);
                to.write_stored(memory.values, target.out);
                __syncwarp();
#endif
            }
        }
    }
};

extern "C" __global__ void __launch_bounds__(WARPS *WARP, 1)
    decode_rows(const uint8_t *input, const __grid_constant__ Geometry geometry, const __grid_constant__ Parsed parsed,
                const __grid_constant__ Values values, const uint32_t *schemes,
                const __grid_constant__ LaunchArguments arguments, Stored *output) {
    extern __shared__ __align__(16) uint8_t shared[];
    const Launch launch{input, geometry, parsed, values, schemes, arguments, output};
    decode_share(launch, *reinterpret_cast<BlockMemory *>(shared), EachTile{});
}
