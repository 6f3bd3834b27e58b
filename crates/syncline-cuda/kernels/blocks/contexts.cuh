// The context of an element: its level, and the magnitudes of the codes around it (docs/FORMAT.md, "Contexts").
#pragma once
#include "blocks/blocks.cuh"

// Magnitudes count as no more than this.
constexpr int32_t LARGEST_COUNTED = 4095;

// Returns 12 times the mean magnitude of the codes that an element is interpolated from. `codes` has the codes of a
// block: `codes.code(at)` is one, and `codes.stride(axis)` the distance of neighbors. In the first level, codes of
// other units are not known, but for those of class 0.
template <typename Codes>
__device__ inline int32_t activity(const Codes &codes, const BlockShape &shape, const BlockClass &of,
                                   const UnitRange &unit, const BlockElement &element, uint64_t at) {
    const auto counted = [&](uint64_t at) { return min_of(abs(codes.code(at)), LARGEST_COUNTED); };
    int32_t sum = 0;
    for (uint32_t axis = 0; axis < 3; ++axis) {
        if ((of.number >> axis & 1) != 0) {
            const uint64_t distance = codes.stride(axis) << of.level;
            const int32_t before = counted(at - distance);
            const bool is_known = of.level > 0 || of.axes == 1 || element.at[axis] / 2 + 1 < unit.end[axis];
            const bool has_after = is_known && element.at[axis] + (1u << of.level) < shape.extent[axis];
            sum += before + (has_after ? counted(at + distance) : before);
        }
    }
    return sum * (6 / int32_t(of.axes));
}

// Returns the context of an element of a class with this activity.
__device__ inline uint32_t context_of(const BlockClass &of, int32_t activity) {
    // Half octaves of 3 and more, two thirds as many of large ones. The number is exact in f32.
    constexpr uint32_t THREE = 0x40400000u >> 22, LAST_OWN = 10;
    const uint32_t half_octave = (__float_as_uint(__int2float_rn(3 + 2 * activity)) >> 22) - THREE;
    const uint32_t bin = half_octave <= LAST_OWN ? half_octave : LAST_OWN + (half_octave - LAST_OWN) * 2 / 3;
    const uint32_t kind = of.level == 0 ? of.axes - 1 : of.level == 1 ? 3 : 4;
    return kind * blocks::BINS + bin;
}
