// Decodes whole ordinary tiles of 16x16x16 (decode/units.cuh), plane by plane.
#include "decode/points.cuh"

constexpr uint32_t SIDE = WIDTH, COLUMNS = 8; // of a lane, which has half a row of each plane
static_assert(SIDE == 16 && VALUES == SIDE * SIDE * (SIDE + 1), "a plane is half rows of 32 lanes");

// Half a row.
typedef uint32_t HalfRow[COLUMNS];

// Sums along x, without the first element of each row if `skips_first`, on lanes of which `applies` is true.
__device__ inline void sum_x(HalfRow &q, bool applies, bool skips_first) {
    const bool is_right = lane_id() % 2 != 0, skips = skips_first && !is_right;
    uint32_t own = skips ? 0 : q[0];
#pragma unroll
    for (uint32_t i = 1; i < COLUMNS; ++i) {
        own += q[i];
    }
    const uint32_t left = __shfl_up_sync(ALL_LANES, own, 1);
    uint32_t sum = (is_right ? left : 0) + (skips ? 0 : q[0]);
    q[0] = applies && !skips ? sum : q[0];
#pragma unroll
    for (uint32_t i = 1; i < COLUMNS; ++i) {
        sum += q[i];
        q[i] = applies ? sum : q[i];
    }
}

// Sums along y, without the first row if `skips_first`: in all columns, or only in that of x = 0.
__device__ inline void sum_y(HalfRow &q, bool only_x0, bool skips_first) {
    const bool skips = skips_first && lane_id() < 2, is_left = lane_id() % 2 == 0;
#pragma unroll
    for (uint32_t i = 0; i < COLUMNS; ++i) {
        if (i > 0 && only_x0) {
            break;
        }
        uint32_t sum = skips ? 0 : q[i];
#pragma unroll
        for (uint32_t distance = 2; distance < WARP; distance *= 2) {
            const uint32_t before = __shfl_up_sync(ALL_LANES, sum, distance);
            sum += lane_id() >= distance ? before : 0;
        }
        q[i] = skips || (only_x0 && !is_left) ? q[i] : sum;
    }
}

// Writes tiles.
struct Writer : Place {
    __device__ inline explicit Writer(const Place &place) : Place(place) {}

    // Returns where an element of a tile is stored in shared memory.
    __device__ static inline uint32_t place(uint32_t z, uint32_t y, uint32_t x) {
        return (z * SIDE + y) * (SIDE + 1) + x;
    }

    // Writes a tile that is stored in shared memory: each lane has quarters of rows.
    __device__ inline void write_stored(const Element *tile, Stored *out) const {
        if (!vectors) {
            write_apart<SIDE>([&](uint32_t z, uint32_t y, uint32_t x) { return tile[place(z, y, x)]; }, out);
            return;
        }
        const uint32_t y = lane_id() / 4, x = lane_id() % 4 * 4;
#pragma unroll 4
        for (uint32_t k = 0; k < SIDE * 2; ++k) {
            const uint32_t z = k / 2, row = k % 2 * 8 + y;
            const Element *from = tile + place(z, row, x);
            Element elements[4] = {from[0], from[1], from[2], from[3]};
            limit(elements);
            write(out + z * geometry.strides[1] + row * geometry.strides[2] + x, elements);
        }
    }

    // Writes a tile of one value.
    __device__ inline void write_constant(Element value, Stored *out) const {
        if (!vectors) {
            write_apart<SIDE>([&](uint32_t, uint32_t, uint32_t) { return value; }, out);
            return;
        }
        Element elements[4] = {value, value, value, value};
        limit(elements);
        const uint32_t y = lane_id() / 4, x = lane_id() % 4 * 4;
#pragma unroll 4
        for (uint32_t k = 0; k < SIDE * 2; ++k) {
            write(out + k / 2 * geometry.strides[1] + (k % 2 * 8 + y) * geometry.strides[2] + x, elements);
        }
    }

    // Reconstructs and writes a tile of residuals (predict/integrate.cuh says in which order they are summed). `memory`
    // has room for a tile.
    __device__ inline void write_sums(const Target &target, uint32_t predictor, bool is_negative,
                                      Element *memory) const {
        const bool is_second = predictor == format::SECOND_ORDER, is_some = predictor != 0;
        const bool x = is_second || (predictor & 1) != 0, y = is_second || (predictor & 2) != 0,
                   z = is_second || (predictor & 4) != 0;
        const uint32_t row = lane_id() / 2, column = lane_id() % 2 * COLUMNS;
        HalfRow before = {}, above = {};
        uint32_t corner = 0;
        for (uint32_t plane = 0; plane < SIDE; ++plane) {
            // A strip has half a plane.
            const int16_t *codes = target.codes + (2 * plane + row / 8) * STRIP_ROOM + row % 8 * SIDE + column;
            const uint4 packed = *reinterpret_cast<const uint4 *>(codes);
            const uint32_t pairs[4] = {packed.x, packed.y, packed.z, packed.w};
            HalfRow q;
#pragma unroll
            for (uint32_t i = 0; i < COLUMNS; ++i) {
                q[i] = i % 2 == 0 ? uint32_t(int32_t(int16_t(pairs[i / 2]))) : uint32_t(int32_t(pairs[i / 2]) >> 16);
            }
            // The edges, along axes that the predictor has not.
            if (is_some && !z) {
                corner += lane_id() == 0 ? q[0] : 0;
                q[0] = lane_id() == 0 ? corner : q[0];
            }
            const bool is_edge = plane == 0 || !z;
            if (is_some && !y && is_edge) {
                sum_y(q, true, false);
            }
            if (is_some && !x && is_edge) {
                sum_x(q, !y || row == 0, false);
            }
            for (uint32_t pass = is_second ? 0 : 1; pass < 2; ++pass) {
                if (y) {
                    sum_y(q, false, pass == 0);
                }
                if (x) {
                    sum_x(q, true, pass == 0);
                }
            }
            if (z) {
#pragma unroll
                for (uint32_t i = 0; i < COLUMNS; ++i) {
                    before[i] = is_second && plane >= 2 ? before[i] + q[i] : q[i];
                    above[i] = plane >= 1 ? above[i] + before[i] : before[i];
                    q[i] = above[i];
                }
            }
            Stored *out = target.out + plane * geometry.strides[1] + row * geometry.strides[2] + column;
#pragma unroll
            for (uint32_t half = 0; half < 2; ++half) {
                Element elements[4];
#pragma unroll
                for (uint32_t i = 0; i < 4; ++i) {
                    const Element value = value_of(int32_t(q[4 * half + i] + uint32_t(target.base)), values);
                    elements[i] = LOGARITHM && is_negative ? -value : value;
                }
                if (vectors) {
                    limit(elements);
                    write(out + 4 * half, elements);
                    continue;
                }
#pragma unroll
                for (uint32_t i = 0; i < 4; ++i) {
                    memory[place(plane, row, column + 4 * half + i)] = elements[i];
                }
            }
        }
        if (!vectors) {
            __syncwarp();
            write_stored(memory, target.out);
        }
    }
};

extern "C" __global__ void __launch_bounds__(WARPS *WARP, 1)
    decode_large_cubes(const uint8_t *input, const __grid_constant__ Geometry geometry,
                       const __grid_constant__ Parsed parsed, const __grid_constant__ Values values,
                       const uint32_t *schemes, const __grid_constant__ Request request, Stored *output) {
    extern __shared__ __align__(16) uint8_t shared[];
    const Launch launch{input, geometry, parsed, values, schemes, request, output};
    decode_share(launch, *reinterpret_cast<BlockMemory *>(shared), EachTile<Writer>{});
}
