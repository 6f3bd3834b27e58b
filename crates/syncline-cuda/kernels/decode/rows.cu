// Decodes whole ordinary tiles of one and of two dimensions (decode/units.cuh), row by row. Tiles of one dimension are
// cut into rows of 32.
//
// AXES           axes along which tiles extend, 1 or 2
// WIDTH, HEIGHT  elements of a row, and rows of a tile
// See decode/rows.rs for the table of a scheme: PASSES_AT, CLASSES_AT, LINES_AT, and CODES_AT are words where its parts
// begin.
#include "decode/units.cuh"
#include "predict/arithmetic.cuh"
#include "format/constants.cuh"

constexpr uint32_t COLUMNS = WIDTH / WARP; // of a lane
constexpr uint32_t ROWS_OF_STRIP = strips::STRIP_LEN / WIDTH;
static_assert(COLUMNS == 1 || COLUMNS == 2, "lanes have one element of a row, or two");

// Where an element is in shared memory. Rows are one element longer, so that the lanes of a pass along columns have
// banks of their own.
__device__ inline uint32_t stored(uint32_t element) { return element + element / WIDTH; }

#if !LOGARITHM
// Elements that are interpolated along one axis at one distance from their neighbors, line by line.
struct Pass {
    uint32_t lines, points, by_points, first_line, first_code, spacing, offset, first_class;
};

// The neighbors of a point, relative to it, and their weights. Points of a line are alike but for the first one and the
// last two.
struct alignas(16) PointClass {
    Element weights[4];
    int32_t neighbors[4];
};

// Interpolates a tile. Called by the whole warp.
__device__ inline void interpolate(const Target &target, const uint32_t *table, bool is_cubic, const Values &values,
                                   Element *memory) {
    const uint32_t passes = table[0], anchors = table[1];
    const uint16_t *lines = reinterpret_cast<const uint16_t *>(table + LINES_AT),
                   *codes = reinterpret_cast<const uint16_t *>(table + CODES_AT);
    const Pass *all_passes = reinterpret_cast<const Pass *>(table + PASSES_AT);
    const PointClass *classes = reinterpret_cast<const PointClass *>(table + CLASSES_AT);
    // Anchors are a lattice of two columns, summed along both axes.
    uint32_t above = 0;
    for (uint32_t window = 0; window < anchors; window += WARP) {
        const uint32_t i = window + lane_id();
        uint32_t sum = i < anchors ? uint32_t(int32_t(target.codes[codes[i]])) : 0;
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
            memory[stored(lines[i])] = value_of(int32_t(sum + uint32_t(target.base)), values);
        }
    }
    __syncwarp();
    for (uint32_t number = 0; number < passes; ++number) {
        const Pass pass = all_passes[number];
        const uint32_t count = pass.lines * pass.points;
        for (uint32_t i = lane_id(); i < count; i += WARP) {
            const uint32_t line = __umulhi(2 * i, pass.by_points), point = i - line * pass.points,
                           left = pass.points - 1 - point;
            const uint32_t place = lines[pass.first_line + line] + pass.offset + point * pass.spacing;
            const PointClass &own = classes[pass.first_class + (left < 2 ? 3 - left : point == 0 ? 0 : 1)];
            auto value = [&](uint32_t neighbor) { return memory[stored(place + own.neighbors[neighbor])]; };
            Element prediction;
            if (is_cubic) {
                prediction = product(value(0), own.weights[0]);
                prediction = product_plus(value(1), own.weights[1], prediction);
                prediction = product_plus(value(2), own.weights[2], prediction);
                prediction = product_plus(value(3), own.weights[3], prediction);
            } else {
                prediction = product_plus(value(2), own.weights[2], product(value(1), own.weights[1]));
            }
            memory[stored(place)] = corrected(prediction, target.codes[codes[pass.first_code + i]], values);
        }
        __syncwarp();
    }
}
#endif

// Sums along rows, without the first element of the tile or row if `skips_first`. With `carry`, the sums go on from row
// to row.
__device__ inline void sum_row(uint32_t (&q)[COLUMNS], bool skips_first, uint32_t *carry) {
    const bool skips = skips_first && lane_id() == 0;
    const uint32_t first = skips ? 0 : q[0];
    uint32_t own = first;
#pragma unroll
    for (uint32_t i = 1; i < COLUMNS; ++i) {
        own += q[i];
    }
    uint32_t before = warp_inclusive_sum(own) - own;
    if (carry != nullptr) {
        before += *carry;
        *carry = __shfl_sync(ALL_LANES, before + own, WARP - 1);
    }
    uint32_t sum = before + first;
    q[0] = skips ? q[0] : sum;
#pragma unroll
    for (uint32_t i = 1; i < COLUMNS; ++i) {
        sum += q[i];
        q[i] = sum;
    }
}

// Writes tiles.
struct Writer : Place {
    __device__ inline explicit Writer(const Place &place) : Place(place) {}

    __device__ inline uint64_t stride() const { return AXES == 2 ? geometry.strides[2] : WIDTH; }

    __device__ inline void write_row(Element *to, Element (&elements)[COLUMNS]) const {
        limit(elements);
        if constexpr (COLUMNS == 1) {
            __stcs(to + lane_id(), elements[0]);
        } else {
            write(to + COLUMNS * lane_id(), elements, vectors);
        }
    }

    // Writes a tile that is stored in shared memory.
    __device__ inline void write_stored(const Element *tile, Element *out) const {
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
    __device__ inline void write_constant(Element value, Element *out) const {
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

    // Reconstructs and writes a tile of residuals (predict/integrate.cuh says in which order they are summed).
    __device__ inline void write_sums(const Target &target, uint32_t predictor, bool is_negative) const {
        const bool is_second = predictor == format::SECOND_ORDER;
        // Differences along an axis that tiles do not extend along are none, and leave all others to the edges.
        const bool y = AXES == 2 && (is_second || (predictor & 2) != 0),
                   x = predictor != 0 && (!y || (predictor & 1) != 0 || is_second);
        uint32_t before[COLUMNS] = {}, above[COLUMNS] = {}, first_column = 0, carry = 0, second_carry = 0;
#pragma unroll 2
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
                first_column += lane_id() == 0 ? q[0] : 0;
                q[0] = lane_id() == 0 ? first_column : q[0];
            }
            if (is_second) {
                sum_row(q, AXES == 2 || row == 0, AXES == 1 ? &second_carry : nullptr);
            }
            // The edge of a predictor along y alone is the first row.
            if (x || (y && row == 0)) {
                sum_row(q, false, AXES == 1 ? &carry : nullptr);
            }
            if (y) {
#pragma unroll
                for (uint32_t i = 0; i < COLUMNS; ++i) {
                    before[i] = is_second && row >= 2 ? before[i] + q[i] : q[i];
                    above[i] = row >= 1 ? above[i] + before[i] : before[i];
                    q[i] = above[i];
                }
            }
            Element elements[COLUMNS];
#pragma unroll
            for (uint32_t i = 0; i < COLUMNS; ++i) {
                const Element value = value_of(int32_t(q[i] + uint32_t(target.base)), values);
                elements[i] = LOGARITHM && is_negative ? -value : value;
            }
            write_row(target.out + row * stride(), elements);
        }
    }
};

// Reconstructs and writes the tiles of a unit.
struct Rows {
    __device__ inline void operator()(const Unit &unit, const OwnChunk &chunk, const Place &place,
                                      const uint32_t *table, WarpMemory &memory) const {
        const Writer to(place);
        for (uint32_t lanes = unit.lanes(false) | unit.lanes(true); lanes != 0; lanes &= lanes - 1) {
            const uint32_t lane = __ffs(lanes) - 1, meta = __shfl_sync(ALL_LANES, unit.place.meta, lane);
            const Target target = unit.target(lane);
            const bool is_negative = meta_sign(meta) == 1;
            if (meta_constant(meta)) {
                const Element value = value_of(target.base, to.values);
                to.write_constant(LOGARITHM && is_negative ? -value : value, target.out);
            } else if (meta_predictor(meta) != strips::INTERPOLATED) {
                to.write_sums(target, chunk.predictor(meta), is_negative);
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
                const __grid_constant__ Values values, const uint32_t *schemes, const __grid_constant__ Request request,
                Element *output) {
    extern __shared__ __align__(16) uint8_t shared[];
    const Launch launch{input, geometry, parsed, values, schemes, request, output};
    decode_share(launch, *reinterpret_cast<BlockMemory *>(shared), Rows{});
}
