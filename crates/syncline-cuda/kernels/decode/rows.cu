// Decodes whole ordinary tiles of one and of two dimensions (decode/units.cuh), row by row. Tiles of one dimension are
// cut into rows of 32.
//
// AXES           axes along which tiles extend, 1 or 2
// WIDTH, HEIGHT  elements of a row, and rows of a tile
#include "decode/points.cuh"

constexpr uint32_t COLUMNS = WIDTH / WARP; // of a lane
constexpr uint32_t ROWS_OF_STRIP = strips::STRIP_LEN / WIDTH;
static_assert(COLUMNS == 1 || COLUMNS == 2, "lanes have one element of a row, or two");

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

extern "C" __global__ void __launch_bounds__(WARPS *WARP, 1)
    decode_rows(const uint8_t *input, const __grid_constant__ Geometry geometry, const __grid_constant__ Parsed parsed,
                const __grid_constant__ Values values, const uint32_t *schemes, const __grid_constant__ Request request,
                Element *output) {
    extern __shared__ __align__(16) uint8_t shared[];
    const Launch launch{input, geometry, parsed, values, schemes, request, output};
    decode_share(launch, *reinterpret_cast<BlockMemory *>(shared), EachTile<Writer>{});
}
