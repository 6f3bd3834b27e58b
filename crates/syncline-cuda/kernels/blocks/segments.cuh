// Runs and segments of the elements of a class in a unit (docs/FORMAT.md, "Segments"). A warp has a run in shared
// memory, and a lane of it an element of a segment.
#pragma once
#include "blocks/contexts.cuh"
#include "device/warp.cuh"

constexpr uint32_t SEGMENT = WARP, RUN = blocks::LONGEST_RUN, SEGMENTS = RUN / SEGMENT;
static_assert(blocks::SEGMENT == SEGMENT && SEGMENTS == 32, "a segment is a warp, and the flags of a run are a word");

// The part of a class that is in a unit.
struct UnitClass {
    uint32_t start[3], extent[3];

    __device__ inline UnitClass(const BlockClass &of, const UnitRange &range) {
        for (uint32_t axis = 0; axis < 3; ++axis) {
            start[axis] = min_of(range.start[axis], of.extent[axis]);
            extent[axis] = min_of(range.end[axis], of.extent[axis]) - start[axis];
        }
    }
    __device__ inline uint32_t elements() const { return extent[0] * extent[1] * extent[2]; }
};

// The elements of a unit's part of a class, which has some, in order.
struct UnitElements {
    const UnitClass &part;
    const BoxPlaces places;

    __device__ inline explicit UnitElements(const UnitClass &part)
        : part(part), places(part.extent[1], part.extent[2]) {}
    // Finds the coordinates in its class of the element that a lane has of those from `first` on. Called by a whole
    // warp.
    __device__ inline void coordinates(uint32_t first, uint32_t (&at)[3]) const {
        // Of long rows, a segment is a part of one.
        const bool is_row = part.extent[2] % SEGMENT == 0;
        places.coordinates(is_row ? uniform(first) : first + lane_id(), at);
        at[2] += is_row ? lane_id() : 0;
        for (uint32_t axis = 0; axis < 3; ++axis) {
            at[axis] += part.start[axis];
        }
    }
};

// Finds the contexts of a run of `count` elements: calls `store(i, context)`. Returns its calm segments, a bit each.
// Called by a whole warp.
template <typename Code, typename Store>
__device__ inline uint32_t find_contexts(const Code &code, const Neighbors &neighbors, uint32_t kind,
                                         const UnitElements &elements, uint32_t first, uint32_t count, Store store) {
    const KindContexts known(kind);
    uint32_t calm = 0;
    for (uint32_t segment = 0; segment * SEGMENT < count; ++segment) {
        const uint32_t i = segment * SEGMENT + lane_id();
        bool is_calm = false;
        uint32_t at[3];
        elements.coordinates(first + segment * SEGMENT, at);
        if (i < count) {
            const uint32_t context = context_of(kind, neighbors.activity(code, at));
            store(i, context);
            is_calm = known.is_calm(context);
        }
        calm |= __all_sync(ALL_LANES, is_calm) ? 1u << segment : 0;
    }
    return calm;
}

// A segment of codes that are known, and the lane's element of it.
struct CodedSegment {
    uint32_t number;
    bool is_calm, is_flagged; // has a flag, and that is set
    bool exists;
    uint32_t context;
    int32_t code;

    __device__ inline bool is_coded() const { return !is_calm || is_flagged; }
    // Returns the context that the element is coded in.
    __device__ inline uint32_t coded_context(const KindContexts &known) const {
        return is_flagged && context == known.calm ? known.flagged : context;
    }
};

// Visits the segments of a run of `count` elements, and behind them the rest, which is no segment. Called by a whole
// warp.
template <typename Code, typename Visit>
__device__ inline void for_each_segment(const Code &code, const Neighbors &neighbors, uint32_t kind,
                                        const UnitElements &elements, const CompactClass &own, uint32_t first,
                                        uint32_t count, Visit visit) {
    const KindContexts known(kind);
    const int32_t expected_mask = code_of_mask(0);
    for (uint32_t number = 0; number * SEGMENT < count; ++number) {
        const uint32_t i = number * SEGMENT + lane_id();
        CodedSegment segment{number, false, false, i < count, 0, 0};
        bool is_calm = false, is_expected = false;
        uint32_t at[3];
        elements.coordinates(first + number * SEGMENT, at);
        if (segment.exists) {
            segment.context = context_of(kind, neighbors.activity(code, at));
            segment.code = code(own.place(at));
            is_calm = known.is_calm(segment.context);
            is_expected = segment.code == (segment.context == known.masked ? expected_mask : 0);
        }
        segment.is_calm = __all_sync(ALL_LANES, is_calm);
        segment.is_flagged = segment.is_calm && !__all_sync(ALL_LANES, is_expected);
        visit(segment);
    }
}

// Returns the segments whose flags are set, a bit each. `flags` has a bit for each calm segment, in order. Called by a
// whole warp.
__device__ inline uint32_t flagged_segments(uint32_t calm, uint32_t flags) {
    const bool is_calm = calm >> lane_id() & 1;
    return __ballot_sync(ALL_LANES, is_calm && (flags >> __popc(calm & ((1u << lane_id()) - 1)) & 1) != 0);
}
