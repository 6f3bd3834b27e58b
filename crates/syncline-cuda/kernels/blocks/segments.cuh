// Segments of the elements of a class in a part of the codes, and the contexts of these (docs/FORMAT.md, "Segments"). A
// warp has a segment, 32 elements at a time.
#pragma once
#include "blocks/contexts.cuh"
#include "device/warp.cuh"

constexpr uint32_t SEGMENT = blocks::SEGMENT, LEAST_QUIET = blocks::LEAST_QUIET;
static_assert(SEGMENT == WARP * WARP, "a lane has a bit for each of 32 elements");

// The range of a class that is in a part.
struct PartClass {
    uint32_t start[3], extent[3];

    __device__ inline PartClass(const BlockClass &of, const PartRange &range) {
        for (uint32_t axis = 0; axis < 3; ++axis) {
            start[axis] = min_of(range.start[axis], of.extent[axis]);
            extent[axis] = min_of(range.end[axis], of.extent[axis]) - start[axis];
        }
    }
    __device__ inline uint32_t elements() const { return extent[0] * extent[1] * extent[2]; }
};

// The elements of a class that are in a part, which has some, in order.
struct PartElements {
    const PartClass &part;
    const BoxPlaces places;

    __device__ inline explicit PartElements(const PartClass &part)
        : part(part), places(part.extent[1], part.extent[2]) {}
    // Finds the coordinates in its class of an element.
    __device__ inline void coordinates_of(uint32_t i, uint32_t (&at)[3]) const {
        places.coordinates(i, at);
        for (uint32_t axis = 0; axis < 3; ++axis) {
            at[axis] += part.start[axis];
        }
    }
    // Finds the coordinates in its class of the element that a lane has of those from `first` on, or of the last one of
    // all. Called by a whole warp.
    __device__ inline void coordinates(uint32_t first, uint32_t (&at)[3]) const {
        // Of long rows, 32 elements are a part of one.
        const bool is_row = part.extent[2] % WARP == 0;
        coordinates_of(is_row ? uniform(first) : min_of(first + lane_id(), part.elements() - 1), at);
        at[2] += is_row ? lane_id() : 0;
    }
};

// Groups of elements whose contexts are found together.
constexpr uint32_t TOGETHER = 2;

// Finds the contexts of a segment of `count` elements, the first of which is element `first` of the part: calls
// `store(i, at, context)` for each. Returns its quiet elements: on lane `g`, a bit for each of the 32 from `32 g` on.
// Called by a whole warp.
template <typename Code, typename Store>
__device__ inline uint32_t find_contexts(const Code &code, const Neighbors &neighbors, uint32_t kind,
                                         const PartElements &elements, uint32_t first, uint32_t count, Store store) {
    const KindContexts known(kind);
    uint32_t quiet = 0;
    for (uint32_t begin = 0; begin * WARP < count; begin += TOGETHER) {
        uint32_t at[TOGETHER][3];
        int32_t activities[TOGETHER];
#pragma unroll
        for (uint32_t j = 0; j < TOGETHER; ++j) {
            // Behind the end, those of a group before are found again.
            const uint32_t group = min_of(begin + j, (count - 1) / WARP);
            elements.coordinates(first + group * WARP, at[j]);
        }
        neighbors.activities(code, at, activities);
#pragma unroll
        for (uint32_t j = 0; j < TOGETHER; ++j) {
            const uint32_t context = context_of(kind, activities[j]), i = (begin + j) * WARP + lane_id();
            if (i < count) {
                store(i, at[j], context);
            }
            const uint32_t of_group = __ballot_sync(ALL_LANES, i < count && known.is_quiet(context));
            quiet = lane_id() == begin + j ? of_group : quiet;
        }
    }
    return quiet;
}
