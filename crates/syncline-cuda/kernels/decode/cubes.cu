// Decodes whole ordinary tiles of 8x8x8 (decode/units.cuh).
//
// See also predict/cube_lines.cuh.
#include "decode/units.cuh"
#include "predict/cube_lines.cuh"
#include "predict/cube_sums.cuh"

// Elements of a tile in shared memory, and some more, so that two tiles are in different banks.
constexpr uint32_t TILE_VALUES = SIDE * PLANE + 4;
static_assert(VALUES == 2 * TILE_VALUES, "two tiles are reconstructed side by side");

#if !LOGARITHM
// Sums the integers of anchors: a lattice of two positions along x and y, and of two or eight along z.
__device__ inline int32_t sum_lattice(int32_t integer) {
#pragma unroll
    for (uint32_t axis = 1; axis <= 2; axis *= 2) {
        const int32_t before = __shfl_xor_sync(ALL_LANES, integer, axis);
        integer += (lane_id() & axis) != 0 ? before : 0;
    }
#pragma unroll
    for (uint32_t distance = 4; distance < WARP; distance *= 2) {
        const int32_t before = __shfl_up_sync(ALL_LANES, integer, distance);
        integer += lane_id() >= distance ? before : 0;
    }
    return integer;
}

// The lines of a pass in one tile, or in two side by side.
struct Pass {
    const uint32_t *lines;
    uint32_t count, tiles;
    const int16_t *first, *second; // codes of the tiles
    Element *memory;
    const Values &values;

    // Reconstructs the lines, which are along an axis at a level: 0 is distance 4, 2 is distance 1.
    template <uint32_t AXIS, uint32_t LEVEL, bool IS_CUBIC> __device__ inline void run() const {
        for (uint32_t i = lane_id(); i < count * tiles; i += WARP) {
            const bool is_second = i >= count;
            const uint32_t line = lines[is_second ? i - count : i];
            auto correct = [&](Element prediction, int32_t code) { return corrected(prediction, code, values); };
            reconstruct_line<SIDE, (SIDE / 2 >> LEVEL), IS_CUBIC, Along<AXIS>>(
                memory + (is_second ? TILE_VALUES : 0) + (line & 0xFFFF), (is_second ? second : first) + (line >> 16),
                correct);
        }
    }
};

// Reconstructs the anchors of a tile, whose lines are the first ones. Called by the whole warp.
__device__ inline void reconstruct_anchors(const uint32_t *lines, uint32_t anchors, const Target &target,
                                           const Values &values, Element *memory) {
    const bool is_anchor = lane_id() < anchors;
    const uint32_t line = is_anchor ? lines[lane_id()] : 0;
    const uint32_t integer = uint32_t(sum_lattice(is_anchor ? target.codes[line >> 16] : 0)) + uint32_t(target.base);
    if (is_anchor) {
        memory[line & 0xFFFF] = value_of(int32_t(integer), values);
    }
}

// Interpolates a tile, and another one if there are two. Called by the whole warp.
__device__ inline void interpolate(const Target &first, const Target &second, uint32_t tiles, const uint32_t *table,
                                   bool is_cubic, const Values &values, Element *memory) {
    const uint32_t passes = table[0] & 0xFFFF, anchors = table[0] >> 16;
    const uint32_t *lines = table + LINES_AT;
    reconstruct_anchors(lines, anchors, first, values, memory);
    if (tiles > 1) {
        reconstruct_anchors(lines, anchors, second, values, memory + TILE_VALUES);
    }
    __syncwarp();
    for (uint32_t number = 0; number < passes; ++number) {
        const CubePass own(table, number);
        const Pass pass{lines + own.first, own.count, tiles, first.codes, second.codes, memory, values};
        if (is_cubic) {
            run_pass<true>(pass, own.kind);
        } else {
            run_pass<false>(pass, own.kind);
        }
        __syncwarp();
    }
}
#endif

// Writes tiles.
struct Writer : Place {
    __device__ inline explicit Writer(const Place &place) : Place(place) {}

    // Returns where an element of a tile is stored in shared memory.
    __device__ static inline uint32_t place(uint32_t z, uint32_t y, uint32_t x) {
        return stored(z) * PLANE + stored(y) * ROW + x;
    }

    // Writes a tile that is stored in shared memory: each lane has half rows.
    __device__ inline void write_stored(const Element *tile, Stored *out) const {
        if (!vectors) {
            write_apart<SIDE>([&](uint32_t z, uint32_t y, uint32_t x) { return tile[place(z, y, x)]; }, out);
            return;
        }
        const uint32_t y = lane_id() / 2 % SIDE, x = lane_id() % 2 * 4;
#pragma unroll
        for (uint32_t k = 0; k < SIDE / 2; ++k) {
            const uint32_t z = 2 * k + lane_id() / 16;
            const Element *from = tile + place(z, y, x);
            Element elements[4];
#pragma unroll
            for (uint32_t i = 0; i < 4; ++i) {
                elements[i] = from[i];
            }
            limit(elements);
            write(out + z * geometry.strides[1] + y * geometry.strides[2] + x, elements);
        }
    }

    // Writes a tile of one value.
    __device__ inline void write_constant(Element value, Stored *out) const {
        if (!vectors) {
            write_apart<SIDE>([&](uint32_t, uint32_t, uint32_t) { return value; }, out);
            return;
        }
        const Element own = limited(value, values), elements[4] = {own, own, own, own};
        const uint32_t y = lane_id() / 2 % SIDE, x = lane_id() % 2 * 4;
#pragma unroll
        for (uint32_t k = 0; k < SIDE / 2; ++k) {
            const uint32_t z = 2 * k + lane_id() / 16;
            write(out + z * geometry.strides[1] + y * geometry.strides[2] + x, elements);
        }
    }

    // Reconstructs and writes a tile of residuals. `memory` has room for a tile.
    __device__ inline void write_sums(const Target &target, uint32_t predictor, bool is_negative,
                                      Element *memory) const {
        const uint32_t y = lane_id() / 4, x = lane_id() % 4 * 2;
        CubeIntegers q;
#pragma unroll
        for (uint32_t z = 0; z < SIDE; ++z) {
            // Codes of a strip are those of two planes.
            const uint32_t at = z / 2 * STRIP_ROOM + z % 2 * (SIDE * SIDE) + y * SIDE + x;
            const int32_t both = *reinterpret_cast<const int32_t *>(target.codes + at);
            q[z][0] = int16_t(both);
            q[z][1] = both >> 16;
        }
        integrate_cube(q, predictor);
        Stored *out = target.out + y * geometry.strides[2] + x;
#pragma unroll
        for (uint32_t z = 0; z < SIDE; ++z) {
            Element elements[2];
#pragma unroll
            for (uint32_t i = 0; i < 2; ++i) {
                const Element value = value_of(int32_t(uint32_t(q[z][i]) + uint32_t(target.base)), values);
                elements[i] = LOGARITHM && is_negative ? -value : value;
            }
            if (vectors) {
                limit(elements);
                write(out + z * geometry.strides[1], elements);
            } else {
                memory[place(z, y, x)] = elements[0];
                memory[place(z, y, x + 1)] = elements[1];
            }
        }
        if (!vectors) {
            __syncwarp();
            write_stored(memory, target.out);
        }
    }
};

// Reconstructs and writes the tiles of a unit.
struct Cubes {
    __device__ inline void operator()(const Unit &unit, const OwnChunk &chunk, const Place &place,
                                      const uint32_t *table, WarpMemory &memory) const {
        const Writer to(place);
        uint32_t lanes = unit.lanes(true);
#if !LOGARITHM
        while (lanes != 0) {
            const uint32_t one = __ffs(lanes) - 1;
            lanes &= lanes - 1;
            const uint32_t tiles = lanes != 0 ? 2 : 1, other = lanes != 0 ? __ffs(lanes) - 1 : one;
            lanes &= lanes - 1;
            const Target target = unit.target(one), second = unit.target(other);
            interpolate(target, second, tiles, table, chunk.is_cubic, to.values, memory.values);
            to.write_stored(memory.values, target.out);
            if (tiles > 1) {
                to.write_stored(memory.values + TILE_VALUES, second.out);
            }
            __syncwarp();
        }
#endif
        for (lanes = unit.lanes(false); lanes != 0; lanes &= lanes - 1) {
            const uint32_t lane = __ffs(lanes) - 1, info = __shfl_sync(ALL_LANES, unit.place.info, lane);
            const Target target = unit.target(lane);
            write_lorenzo(to, chunk, target, info, memory.values);
            __syncwarp();
        }
    }
};

extern "C" __global__ void __launch_bounds__(WARPS *WARP, 1)
    decode_cubes(const uint8_t *input, const __grid_constant__ Geometry geometry, const __grid_constant__ Parsed parsed,
                 const __grid_constant__ Values values, const uint32_t *schemes,
                 const __grid_constant__ LaunchArguments arguments, Stored *output) {
    extern __shared__ __align__(16) uint8_t shared[];
    const Launch launch{input, geometry, parsed, values, schemes, arguments, output};
    decode_share(launch, *reinterpret_cast<BlockMemory *>(shared), Cubes{});
}
