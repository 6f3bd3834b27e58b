// Units are coded in windows: all threads of a team find the contexts of the elements of a window, or store its codes,
// and the team's first warp codes them one group after another. So what each code waits for is short.
#pragma once
#include "blocks/blocks.cuh"
#include "device/warp.cuh"

// Elements of a window for each thread of a team.
constexpr uint32_t WINDOW_OF_THREAD = 8;
// The number of the table of elements without a code. Coding by it leaves a state as it is.
constexpr uint32_t NO_TABLE = 127;
static_assert(NO_TABLE >= blocks::CONTEXTS, "no other table has this number");
// Groups that are coded at once if all of their codes are 0 and no state takes or gives a word.
constexpr uint32_t AHEAD = 8;

// A team of SIZE threads: a warp, or a block of threads.
template <uint32_t SIZE> struct Team {
    static constexpr uint32_t WINDOW = SIZE * WINDOW_OF_THREAD;

    __device__ inline static uint32_t rank() { return threadIdx.x % SIZE; }
    __device__ inline static bool is_first_warp() { return SIZE == WARP || threadIdx.x < WARP; }
    __device__ inline static void sync() {
        if (SIZE == WARP) {
            __syncwarp();
        } else {
            __syncthreads();
        }
    }
};

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
    const BlockShape &shape;
    const BlockClass &of;
    const UnitClass &part;
    const BoxPlaces places;

    __device__ inline UnitElements(const BlockShape &shape, const BlockClass &of, const UnitClass &part)
        : shape(shape), of(of), part(part), places(part.extent[1], part.extent[2]) {}
    __device__ inline BlockElement operator[](uint32_t i) const {
        uint32_t at[3];
        places.coordinates(i, at);
        return BlockElement(shape, of, part.start[0] + at[0], part.start[1] + at[1], part.start[2] + at[2]);
    }
};
