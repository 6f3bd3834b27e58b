// Segments whose codes are known: the order in which they are coded, and what is coded of them (docs/FORMAT.md,
// "Segments").
#pragma once
#include "blocks/segments.cuh"

// The segments of the classes of some levels that are in a part of a block, the last one first.
struct PartSegments {
    const BlockShape &shape;
    const PartRange range;
    const uint32_t last_level; // one behind the last one
    uint32_t level, pass;
    uint32_t left; // segments of the class up to this one

    // The segments of the single or coarse part, or of a box. The first move leads to the last segment.
    __device__ inline PartSegments(const BlockShape &shape, const BlockParts &parts, bool is_box, uint32_t box)
        : shape(shape), range(is_box ? parts.range(box) : PartRange::everything()),
          last_level(is_box ? min_of(shape.levels, 1u) : shape.levels), level(is_box || !parts.has_boxes() ? 0 : 1),
          pass(PASSES), left(1) {}

    __device__ inline BlockClass of() const { return BlockClass(shape, level, class_of_pass(pass)); }
    // The number of the segment in its class, and its first element.
    __device__ inline uint32_t number() const { return left - 1; }
    __device__ inline uint32_t first() const { return number() * SEGMENT; }

    // Moves on to the next class. Returns whether there is one.
    __device__ inline bool next_class() {
        if (level < last_level && pass == 0) {
            ++level;
            pass = PASSES;
        }
        pass -= level < last_level ? 1 : 0;
        return level < last_level;
    }
    // Moves on by some segments. Returns whether there are so many; if not, `ahead` is how far it is from there to go
    // in the next part.
    __device__ inline bool move(uint32_t &ahead) {
        while (ahead >= left) {
            ahead -= left - 1;
            left = 1;
            if (!next_class()) {
                return false;
            }
            left += ceil_div(PartClass(of(), range).elements(), SEGMENT);
        }
        left -= ahead;
        return true;
    }
};

// Returns the bits of the lanes' words, turned around: bit `i` of lane `l` becomes bit `l` of lane `i`. Called by a
// whole warp.
__device__ inline uint32_t transposed(uint32_t word) {
#pragma unroll
    for (uint32_t distance = WARP / 2; distance > 0; distance /= 2) {
        // Lanes and bits without that of the distance in their numbers, and those with it.
        const bool is_low = (lane_id() & distance) == 0;
        const uint32_t low = ALL_LANES / ((1u << distance) + 1), kept = is_low ? low : ~low;
        const uint32_t other = __shfl_xor_sync(ALL_LANES, word, distance);
        word = (word & kept) | ((is_low ? other << distance : other >> distance) & ~kept);
    }
    return word;
}

// What is coded of a segment. Of its quiet elements, those that are not as expected are found.
struct CodedSegment {
    uint32_t quiet, found;         // on lane `g`, a bit for each of the 32 elements from `32 g` on
    uint32_t all_quiet, all_found; // how many there are

    __device__ inline CodedSegment(uint32_t quiet, uint32_t found)
        : quiet(quiet), found(found), all_quiet(warp_reduce_sum(uint32_t(__popc(quiet)))),
          all_found(warp_reduce_sum(uint32_t(__popc(found)))) {}

    __device__ inline bool has_count() const { return all_quiet >= LEAST_QUIET; }
    // Whether the quiet elements that are as expected are not coded.
    __device__ inline bool skips() const { return has_count() && all_found <= most_found(all_quiet); }
    __device__ inline int32_t count_code() const { return skips() ? code_of_number(all_found) : code_of_mask(0); }

    // Visits the gaps before the elements that are found: calls `visit(i, gap)` on some lane for number `i`. Called by
    // a whole warp.
    template <typename Visit> __device__ inline void for_each_gap(Visit visit) const {
        const uint32_t quiet_before = warp_exclusive_sum(uint32_t(__popc(quiet)));
        const auto rank = [&](uint32_t place) { return quiet_before + __popc(quiet & ((1u << place) - 1)); };
        // Where the last gap of the lanes before has ended.
        const uint32_t end = found == 0 ? 0 : rank(31 - __clz(found)) + 1;
        const uint32_t below = __ballot_sync(ALL_LANES, found != 0) & ((1u << lane_id()) - 1);
        const uint32_t end_before = __shfl_sync(ALL_LANES, end, below == 0 ? 0 : 31 - __clz(below));
        uint32_t number = warp_exclusive_sum(uint32_t(__popc(found))), begin = below == 0 ? 0 : end_before;
        for (uint32_t left = found; left != 0; left &= left - 1) {
            const uint32_t own = rank(__ffs(left) - 1);
            visit(number++, own - begin);
            begin = own + 1;
        }
    }
};

// An element of a segment, which the lane has.
struct CodedElement {
    uint32_t context;
    int32_t code;
    bool is_expected; // and quiet
};

// Finds what is coded of a segment of `count` elements, the first of which is element `first` of the part: calls
// `visit(i, element)` for each. `code_at(place)` is a code. Called by a whole warp.
template <typename Code, typename Visit>
__device__ inline CodedSegment find_coded(const Code &code_at, const Neighbors &neighbors, uint32_t kind,
                                          const PartElements &elements, const CompactClass &own, uint32_t first,
                                          uint32_t count, Visit visit) {
    const KindContexts known(kind);
    const int32_t expected_mask = code_of_mask(0);
    uint32_t quiet = 0, found = 0, at[3];
    const auto load = [&](uint32_t group) {
        elements.coordinates(first + group * WARP, at);
        return group * WARP + lane_id() < count ? code_at(own.place(at)) : 0;
    };
    // Codes are far away, and loaded before those around the ones before are looked at.
    int32_t ahead = load(0);
    for (uint32_t group = 0; group * WARP < count; ++group) {
        const uint32_t i = group * WARP + lane_id(), here[3] = {at[0], at[1], at[2]};
        const int32_t code = ahead;
        ahead = load(group + 1);
        bool is_quiet = false;
        if (i < count) {
            const uint32_t context = context_of(kind, neighbors.activity(code_at, here));
            is_quiet = known.is_quiet(context);
            const bool is_expected = is_quiet && code == (context == known.quiet ? 0 : expected_mask);
            found |= uint32_t(is_quiet && !is_expected) << group;
            visit(i, CodedElement{context, code, is_expected});
        }
        const uint32_t of_group = __ballot_sync(ALL_LANES, is_quiet);
        quiet = lane_id() == group ? of_group : quiet;
    }
    return CodedSegment(quiet, transposed(found));
}
