// The shape of a block of kind 4: the order of its axes, its levels, and their classes (docs/FORMAT.md, "Blocks").
#pragma once
#include "blocks/constants.cuh"
#include "blocks/structs.cuh"
#include "geometry.cuh"

// Classes of a level in the order in which they are predicted: 1, 2, 4, 3, 5, 6, 7.
constexpr uint32_t PASSES = 7;
__device__ inline uint32_t class_of_pass(uint32_t pass) { return 0x7653421u >> 4 * pass & 7; }
// Groups of passes: their classes are interpolated along one axis, two, or three, from those of the groups before.
constexpr uint32_t GROUPS = 3;
__device__ inline uint32_t first_pass(uint32_t group) { return group < GROUPS ? 3 * group : PASSES; }

// Division by a number from 1 to 2^18 of numbers below 2^18.
struct SmallDivider {
    uint64_t magic;
    uint32_t by;

    __device__ inline explicit SmallDivider(uint32_t divisor) : by(divisor) {
        // 2^40 by the divisor, in two steps: a division of 64 bits is a call.
        constexpr uint32_t FIRST = 1u << 30;
        magic = (uint64_t(FIRST / divisor) << 10) + (FIRST % divisor << 10) / divisor + 1;
    }
    __device__ inline uint32_t quotient(uint32_t dividend) const { return uint32_t(dividend * magic >> 40); }
};

// A block, with its axes in order.
struct BlockShape {
    uint32_t extent[3];
    uint32_t in_block[3]; // distances of neighbors in the raster order of the block
    uint64_t stride[3];   // distances of neighbors in the array
    uint32_t levels;
    bool is_sliced; // nothing is interpolated along axis 0

    __device__ inline BlockShape(const Tile &tile, const Geometry &geometry, uint32_t slices) : is_sliced(slices != 0) {
        const uint32_t own[3] = {tile.nz, tile.ny, tile.nx};
        uint32_t axes[3] = {0, 1, 2};
        // Sorted by insertion: the axis of the slices, then the others by ascending extent.
        const auto follows = [&](uint32_t a, uint32_t b) {
            const uint32_t key_a = a + 1 == slices ? 0 : own[a], key_b = b + 1 == slices ? 0 : own[b];
            return key_a > key_b;
        };
        if (follows(axes[0], axes[1])) {
            swap(axes[0], axes[1]);
        }
        if (follows(axes[1], axes[2])) {
            swap(axes[1], axes[2]);
        }
        if (follows(axes[0], axes[1])) {
            swap(axes[0], axes[1]);
        }
        uint32_t longest = 1;
        for (uint32_t i = 0; i < 3; ++i) {
            const uint32_t axis = axes[i];
            extent[i] = axis == 0 ? own[0] : axis == 1 ? own[1] : own[2];
            in_block[i] = axis == 0 ? own[1] * own[2] : axis == 1 ? own[2] : 1;
            stride[i] = axis == 0 ? geometry.strides[1] : axis == 1 ? geometry.strides[2] : 1;
            longest = i == 0 && is_sliced ? longest : max_of(longest, extent[i]);
        }
        levels = longest == 1 ? 0 : 32 - __clz(longest - 1);
    }

    __device__ inline uint32_t anchors() const { return is_sliced ? extent[0] : 1; }
    __device__ inline bool halves(uint32_t axis) const { return axis > 0 || !is_sliced; }

  private:
    __device__ inline static void swap(uint32_t &a, uint32_t &b) {
        const uint32_t other = a;
        a = b;
        b = other;
    }
};

// A class of a level.
struct BlockClass {
    uint32_t number, level, axes; // `axes`: how many it is interpolated along
    uint32_t extent[3];

    // The class has no elements if an extent is 0.
    __device__ inline BlockClass(const BlockShape &shape, uint32_t level, uint32_t number)
        : number(number), level(level), axes(__popc(number)) {
        for (uint32_t axis = 0; axis < 3; ++axis) {
            const bool is_odd = number >> axis & 1;
            const uint32_t of_level = ((shape.extent[axis] - 1) >> level) + 1;
            extent[axis] = shape.halves(axis) ? (of_level + !is_odd) / 2 : is_odd ? 0 : shape.extent[axis];
        }
    }

    __device__ inline uint32_t elements() const { return extent[0] * extent[1] * extent[2]; }

    // Returns the coordinate in the block of coordinate `at` in the class.
    __device__ inline uint32_t coordinate(const BlockShape &shape, uint32_t axis, uint32_t at) const {
        return shape.halves(axis) ? (2 * at + (number >> axis & 1)) << level : at;
    }
};

// Places in raster order of a box to coordinates in it.
struct BoxPlaces {
    const SmallDivider plane, row;

    __device__ inline BoxPlaces(uint32_t ny, uint32_t nx) : plane(ny * nx), row(nx) {}
    __device__ inline void coordinates(uint32_t i, uint32_t (&at)[3]) const {
        at[0] = plane.quotient(i);
        const uint32_t in_plane = i - at[0] * plane.by;
        at[1] = row.quotient(in_plane);
        at[2] = in_plane - at[1] * row.by;
    }
};

__device__ inline uint32_t next_power_of_two(uint32_t number) {
    return number == 1 ? 1 : 1u << (32 - __clz(number - 1));
}

// Finds sides that come from doubling so many times: the shortest side that is below its limit, the last of several.
__device__ inline void balanced_sides(const uint32_t (&most)[3], uint32_t doublings, uint32_t (&sides)[3]) {
    sides[0] = sides[1] = sides[2] = 1;
    for (uint32_t i = 0; i < doublings; ++i) {
        uint32_t best = 3;
        for (uint32_t axis = 0; axis < 3; ++axis) {
            best = sides[axis] < most[axis] && (best == 3 || sides[axis] <= sides[best]) ? axis : best;
        }
        for (uint32_t axis = 0; axis < 3; ++axis) {
            sides[axis] *= axis == best ? 2 : 1;
        }
    }
}

// How the codes of a block are divided into parts: a single one, or the coarse part, which has all levels but the
// first, and a part for each box of the first level.
constexpr uint32_t DIVISION_ONE = 0, DIVISION_BOXES = 1;

// A range of the classes of a level, which a part of the codes has.
struct PartRange {
    uint32_t start[3], end[3]; // in elements of a class; none is beyond an end of the largest number

    __device__ inline static PartRange everything() { return {{0, 0, 0}, {ALL_LANES, ALL_LANES, ALL_LANES}}; }
};

// Units of a part of the codes: each has every `units`-th segment of a class, and words and states of its own.
struct PartUnits {
    uint32_t units; // a power of two, at most MOST_UNITS
    uint32_t lanes; // of each unit: a power of two, at most a warp
};

// Units of a part at most.
constexpr uint32_t MOST_UNITS = (1u << blocks::MAX_LANES_LOG2) / WARP;

// The parts of a block: the single or coarse part, and then the boxes.
struct BlockParts {
    uint32_t side[3], grid[3];
    uint32_t division, boxes; // a single box where there are no parts for boxes

    __device__ inline BlockParts(const BlockShape &shape, const BlockPlan &plan) : division(plan.division) {
        uint32_t most[3], sides[3];
        for (uint32_t axis = 0; axis < 3; ++axis) {
            most[axis] = next_power_of_two(shape.extent[axis]);
        }
        balanced_sides(most, blocks::BOX_LOG2, sides);
        boxes = 1;
        for (uint32_t axis = 0; axis < 3; ++axis) {
            const uint32_t whole = has_boxes() ? sides[axis] : most[axis], halves = shape.halves(axis) ? 2 : 1;
            side[axis] = ceil_div(whole, halves);
            grid[axis] = ceil_div(ceil_div(shape.extent[axis], halves), side[axis]);
            boxes *= grid[axis];
        }
    }

    __device__ inline bool has_boxes() const { return division == DIVISION_BOXES; }
    // Returns the range of a box in the first level.
    __device__ inline PartRange range(uint32_t box) const {
        const uint32_t row = box / grid[2], at[3] = {row / grid[1], row % grid[1], box % grid[2]};
        PartRange range;
        for (uint32_t axis = 0; axis < 3; ++axis) {
            range.start[axis] = at[axis] * side[axis];
            range.end[axis] = range.start[axis] + side[axis];
        }
        return range;
    }
};

// A box has the lanes of the first part divided by this.
constexpr uint32_t LANES_FOR_BOX = 4;

// The parts of a block and their units: those of the first part, and then one of each box.
struct BlockUnits : BlockParts {
    PartUnits first; // of the single or coarse part
    uint32_t box_lanes;

    // The first part has 2^`lanes_log2` lanes.
    __device__ inline BlockUnits(const BlockShape &shape, const BlockPlan &plan, uint32_t lanes_log2)
        : BlockParts(shape, plan) {
        const uint32_t lanes = 1u << lanes_log2;
        first = {max_of(lanes / WARP, 1u), min_of(lanes, WARP)};
        box_lanes = min_of(max_of(lanes / LANES_FOR_BOX, 1u), WARP);
    }

    __device__ inline uint32_t count() const { return first.units + (has_boxes() ? boxes : 0); }
};

// Returns where the words of a block are written while they are coded, in words. `position` elements of the batch are
// before it, and `number` blocks. An event takes two words at most, and so does the state of a lane. There are no more
// events than elements and, for counts, segments of 32 of these.
__device__ inline uint64_t block_words_at(uint64_t position, uint32_t number, uint32_t units_of_block) {
    return 2 * (position + position / 32 + uint64_t(number) * units_of_block * (WARP + 1));
}
