// Interpolation of whole tiles point by point, by a table of the scheme (predict/points.cuh).
//
// AXES   axes along which tiles extend
// WIDTH  elements of a row
// PASSES_AT, CLASSES_AT, LINES_AT, CODES_AT  words where the parts of the table begin
#pragma once
#include "decode/units.cuh"
#include "format/constants.cuh"
#include "predict/points.cuh"

#if !LOGARITHM
// Interpolates a tile. Called by the whole warp.
__device__ inline void interpolate(const Target &target, const uint32_t *table, bool is_cubic, const Values &values,
                                   Element *memory) {
    const PointTable<Element> own{table};
    const uint32_t anchors = own.anchors();
    // Anchors are a lattice of two columns, and of two rows if there are planes, summed along all axes.
    constexpr uint32_t IN_PLANE = AXES == 3 ? 4 : 2;
    uint32_t above = 0;
    for (uint32_t window = 0; window < anchors; window += WARP) {
        const uint32_t i = window + lane_id();
        uint32_t sum = i < anchors ? uint32_t(int32_t(target.codes[own.code(i)])) : 0;
#pragma unroll
        for (uint32_t axis = 1; axis < IN_PLANE; axis *= 2) {
            const uint32_t before = __shfl_xor_sync(ALL_LANES, sum, axis);
            sum += (lane_id() & axis) != 0 ? before : 0;
        }
#pragma unroll
        for (uint32_t distance = IN_PLANE; distance < WARP; distance *= 2) {
            const uint32_t before = __shfl_up_sync(ALL_LANES, sum, distance);
            sum += lane_id() >= distance ? before : 0;
        }
        sum += above;
        above = __shfl_sync(ALL_LANES, sum, WARP - IN_PLANE + lane_id() % IN_PLANE);
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

// Reconstructs and writes the tiles of a unit one after another. `Writer` writes a tile that is stored, one of a value,
// and one of residuals.
template <typename Writer> struct EachTile {
    __device__ inline void operator()(const Unit &unit, const OwnChunk &chunk, const Place &place,
                                      const uint32_t *table, WarpMemory &memory) const {
        const Writer to(place);
        for (uint32_t lanes = unit.lanes(false) | unit.lanes(true); lanes != 0; lanes &= lanes - 1) {
            const uint32_t lane = __ffs(lanes) - 1, meta = __shfl_sync(ALL_LANES, unit.place.meta, lane);
            const Target target = unit.target(lane);
            if (meta_constant(meta) || meta_predictor(meta) != strips::INTERPOLATED) {
                write_lorenzo(to, chunk, target, meta, memory.values);
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
