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
    // Around an element with one of the first two are only zeros, or only masks: it is quiet.
    uint32_t quiet, masked;
    // The number of quiet elements of a segment that are found, and those of them that are `quiet`.
    uint32_t count, found;

    __device__ inline explicit KindContexts(uint32_t kind)
        : quiet(kind * blocks::OF_KIND), masked(quiet + blocks::OF_KIND - 1),
          count(blocks::KINDS * blocks::OF_KIND + kind), found(count + blocks::KINDS) {}
    __device__ inline bool is_quiet(uint32_t context) const { return context == quiet || context == masked; }
};

// Contexts of gaps, for all kinds, by the binary logarithm of the quiet elements for each that is found.
constexpr uint32_t FIRST_GAPS = blocks::KINDS * (blocks::OF_KIND + 2), LEAST_GAPS_LOG2 = 3, MOST_GAPS_LOG2 = 10;
static_assert(FIRST_GAPS + MOST_GAPS_LOG2 - LEAST_GAPS_LOG2 + 1 == blocks::CONTEXTS, "gaps have the last contexts");

// Returns the context of the gaps where `found` of `quiet` elements are found, from one to one of eight.
__device__ inline uint32_t gaps_context(uint32_t quiet, uint32_t found) {
    const uint32_t log2 = __clz(found) - __clz(quiet);
    return FIRST_GAPS - LEAST_GAPS_LOG2 + log2 - (found << log2 > quiet ? 1 : 0);
}
// A segment is plain where more of its quiet elements than this are not as expected.
__device__ inline uint32_t most_found(uint32_t quiet) { return quiet / blocks::QUIET_FOR_FOUND; }

// Returns the number of a count or a gap that a code stands for, and the code of a number.
__device__ inline uint32_t number_of_code(int32_t code) {
    return code < 0 ? uint32_t(-2 * code - 1) : 2 * uint32_t(code);
}
__device__ inline int32_t code_of_number(uint32_t number) {
    return number % 2 == 0 ? int32_t(number / 2) : -int32_t((number + 1) / 2);
}

// Returns whether a context is one of elements with masks only around them.
__device__ inline bool is_among_masks(uint32_t context) {
    return context < blocks::KINDS * blocks::OF_KIND && context % blocks::OF_KIND == blocks::OF_KIND - 1;
}

// Returns whether a context has nothing in common with the one before.
__device__ inline bool begins_contexts(uint32_t context) {
    constexpr uint32_t COUNTS = blocks::KINDS * blocks::OF_KIND;
    const uint32_t in_kind = context % blocks::OF_KIND;
    return context < COUNTS ? in_kind == 0 || in_kind == BINS
                            : context == COUNTS || context == COUNTS + blocks::KINDS || context == FIRST_GAPS;
}

// What is known around the elements of a class in a part.
struct Neighbors {
    Around around;
    uint32_t limit[3]; // elements along each axis that are known

    // In the first level, codes of other parts are not known, but for those of class 0.
    __device__ inline Neighbors(const BlockShape &shape, const BlockClass &of, const PartRange &part)
        : around(shape, of) {
#pragma unroll
        for (uint32_t axis = 0; axis < 3; ++axis) {
            const bool is_free = of.level > 0 || of.axes == 1;
            limit[axis] = is_free ? around.extent[axis] : min_of(around.extent[axis], part.end[axis]);
        }
    }

    // Finds for some elements 12 times the mean magnitude of the codes that they are interpolated from, and above it
    // the number of masks among 12. `code(place)` is a code. Loads for one element do not wait for those for another.
    template <uint32_t COUNT, typename Code>
    __device__ inline void activities(const Code &code, const uint32_t (&at)[COUNT][3],
                                      int32_t (&activities)[COUNT]) const {
        const auto counted = [](int32_t own) {
            return own >= int32_t(blocks::CODE_LIMIT) ? 1 << COUNTED_MASK_SHIFT : min_of(abs(own), LARGEST_COUNTED);
        };
        int32_t sums[COUNT] = {};
#pragma unroll
        for (uint32_t axis = 0; axis < 3; ++axis) {
            if (around.has(axis)) {
                const CompactClass &from = around.from[axis];
                int32_t before[COUNT], behind[COUNT];
#pragma unroll
                for (uint32_t i = 0; i < COUNT; ++i) {
                    const uint32_t place = from.place(at[i]);
                    before[i] = code(place);
                    // The one before counts twice if there is none behind.
                    behind[i] = code(place + (at[i][axis] + 1 < limit[axis] ? from.stride[axis] : 0));
                }
#pragma unroll
                for (uint32_t i = 0; i < COUNT; ++i) {
                    sums[i] += counted(before[i]) + counted(behind[i]);
                }
            }
        }
#pragma unroll
        for (uint32_t i = 0; i < COUNT; ++i) {
            activities[i] = sums[i] * (around.axes == 1 ? 6 : around.axes == 2 ? 3 : 2);
        }
    }
    template <typename Code> __device__ inline int32_t activity(const Code &code, const uint32_t (&at)[3]) const {
        const uint32_t all[1][3] = {{at[0], at[1], at[2]}};
        int32_t found[1];
        activities(code, all, found);
        return found[0];
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
