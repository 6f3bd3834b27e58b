// The context of an element: its level, and the magnitudes of the codes around it, or how many of them are masks
// (docs/FORMAT.md, "Contexts").
#pragma once
#include "blocks/compact.cuh"
#include "blocks/symbol.cuh"

// Magnitudes count as no more than this, and masks more than all magnitudes around an element.
constexpr int32_t LARGEST_COUNTED = 4095, COUNTED_MASK_SHIFT = 16;
// The weighted number of neighbors.
constexpr int32_t WEIGHTED_NEIGHBORS = 12;

// Contexts of a kind of elements: those of half octaves, and behind them three of elements among masks.
constexpr uint32_t AMONG_MASKS = 3, BINS = blocks::OF_KIND - AMONG_MASKS;

__device__ inline uint32_t kind_of(const BlockClass &of) { return of.level == 0 ? of.axes - 1 : of.level == 1 ? 3 : 4; }

// Contexts of a kind that have a meaning beside magnitudes.
struct KindContexts {
    uint32_t calm, masked, flag, flagged;

    __device__ inline explicit KindContexts(uint32_t kind)
        : calm(kind * blocks::OF_KIND), masked(calm + blocks::OF_KIND - 1),
          flag(blocks::KINDS * blocks::OF_KIND + kind), flagged(flag + blocks::KINDS) {}
    __device__ inline bool is_calm(uint32_t context) const { return context == calm || context == masked; }
};

// Returns whether a context has nothing in common with the one before.
__device__ inline bool begins_contexts(uint32_t context) {
    constexpr uint32_t FLAGS = blocks::KINDS * blocks::OF_KIND;
    const uint32_t in_kind = context % blocks::OF_KIND;
    return context < FLAGS ? in_kind == 0 || in_kind == BINS : context == FLAGS || context == FLAGS + blocks::KINDS;
}

// What is known around the elements of a class in a unit.
struct Neighbors {
    Around around;
    uint32_t limit[3]; // elements along each axis that are known

    // In the first level, codes of other units are not known, but for those of class 0.
    __device__ inline Neighbors(const BlockShape &shape, const BlockClass &of, const UnitRange &unit)
        : around(shape, of) {
#pragma unroll
        for (uint32_t axis = 0; axis < 3; ++axis) {
            const bool is_free = of.level > 0 || of.axes == 1;
            limit[axis] = is_free ? around.extent[axis] : min_of(around.extent[axis], unit.end[axis]);
        }
    }

    // Returns 12 times the mean magnitude of the codes that an element is interpolated from, and above it the number of
    // masks among 12. `code(place)` is a code.
    template <typename Code> __device__ inline int32_t activity(const Code &code, const uint32_t (&at)[3]) const {
        const auto counted = [&](uint32_t place) {
            const int32_t own = code(place);
            return own >= int32_t(blocks::CODE_LIMIT) ? 1 << COUNTED_MASK_SHIFT : min_of(abs(own), LARGEST_COUNTED);
        };
        int32_t sum = 0;
#pragma unroll
        for (uint32_t axis = 0; axis < 3; ++axis) {
            if (around.has(axis)) {
                const CompactClass &from = around.from[axis];
                const uint32_t place = from.place(at);
                const int32_t before = counted(place);
                sum += before + (at[axis] + 1 < limit[axis] ? counted(place + from.stride[axis]) : before);
            }
        }
        return sum * (around.axes == 1 ? 6 : around.axes == 2 ? 3 : 2);
    }
};

// Returns the context of an element of a kind with this activity.
__device__ inline uint32_t context_of(uint32_t kind, int32_t activity) {
    // Half octaves of 3 and more, half as many of large ones. The number is exact in f32.
    constexpr uint32_t THREE = 0x40400000u >> 22, LAST_OWN = 10;
    const int32_t masks = activity >> COUNTED_MASK_SHIFT;
    const uint32_t half_octave = (__float_as_uint(__int2float_rn(3 + 2 * activity)) >> 22) - THREE;
    const uint32_t bin = half_octave <= LAST_OWN ? half_octave : LAST_OWN + (half_octave - LAST_OWN) / 2;
    const uint32_t among = BINS + (2 * masks >= WEIGHTED_NEIGHBORS) + (masks == WEIGHTED_NEIGHBORS);
    return kind * blocks::OF_KIND + (masks > 0 ? among : min_of(bin, BINS - 1));
}
