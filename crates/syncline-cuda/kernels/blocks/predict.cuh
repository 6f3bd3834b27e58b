// Interpolation of the elements of a block (docs/FORMAT.md, "Prediction"), with exactly its operations.
//
// See also quantize/stored.cuh.
#pragma once
#include "blocks/compact.cuh"
#include "device/warp.cuh"
#include "predict/arithmetic.cuh"
#include "quantize/stored.cuh"

// Interpolates along an axis from the values at odd distances, which are element `at[axis]` of another class and those
// next to it. `value(place)` is a value.
template <typename Value>
__device__ inline Element interpolated(const Value &value, const Around &around, bool is_cubic, uint32_t axis,
                                       const uint32_t (&at)[3]) {
    const CompactClass &from = around.from[axis];
    const uint32_t place = from.place(at), stride = from.stride[axis], number = at[axis];
    const bool has_before = number > 0, has_b = number + 1 < around.extent[axis],
               has_after = number + 2 < around.extent[axis];
    const Element a = value(place);
    if (!has_b) {
        return has_before ? product_plus(a, Element(1.5), product(value(place - stride), Element(-0.5))) : a;
    }
    const Element b = value(place + stride);
    if (!is_cubic || (!has_before && !has_after)) {
        return product(a + b, Element(0.5));
    }
    if (!has_after) {
        const Element before = product(value(place - stride), Element(-0.125));
        return product_plus(a, Element(0.75), product_plus(b, Element(0.375), before));
    }
    const Element after = value(place + 2 * stride);
    if (!has_before) {
        return product_plus(b, Element(0.75), product_plus(a, Element(0.375), product(after, Element(-0.125))));
    }
    const Element outer = product(value(place - stride) + after, Element(-0.0625));
    return product_plus(a + b, Element(0.5625), outer);
}

// Returns the mean of the interpolations of an element of a class.
template <typename Value>
__device__ inline Element predicted(const Value &value, const Around &around, bool is_cubic, const uint32_t (&at)[3]) {
    Element all = Element(0);
    bool is_first = true;
#pragma unroll
    for (uint32_t axis = 0; axis < 3; ++axis) {
        if (around.has(axis)) {
            const Element own = interpolated(value, around, is_cubic, axis, at);
            all = is_first ? own : all + own;
            is_first = false;
        }
    }
    return around.axes == 1 ? all : product(all, around.axes == 2 ? Element(0.5) : Element(1.0 / 3.0));
}

// The share of the error of the slice before, by its number in the plan.
__device__ inline Element share_of(uint32_t number) { return number == 1 ? Element(0.75) : Element(1); }

// Returns the integer that a prediction is rounded to on a grid, 0 if it is too large.
__device__ inline int32_t on_grid(Element prediction, Element inverse) {
    constexpr Element LIMIT = Element(1 << 30);
    const Element rounded = rint(product(prediction, inverse));
    return fabs(rounded) < LIMIT ? int32_t(rounded) : 0;
}

// The part of the work on a block that a block of threads does: every `count`-th item from `number` on.
struct WorkShare {
    uint32_t number, count;

    __device__ inline static WorkShare all() { return {0, 1}; }
    // That of this block of threads, where `shares` in a row have a block of elements.
    __device__ inline static WorkShare own(uint32_t shares) { return {blockIdx.x % shares, shares}; }
    // The first item of this thread or warp, and how many items further the next one is.
    __device__ inline uint32_t thread() const { return number * THREADS + threadIdx.x; }
    __device__ inline uint32_t threads() const { return count * THREADS; }
    __device__ inline uint32_t warp() const { return uniform(number * (THREADS / WARP) + warp_id()); }
    __device__ inline uint32_t warps() const { return count * (THREADS / WARP); }
};

// Visits a share of the elements of a class: `visit(at, is_first)` for every one, or with `follows` those at a place of
// each slice in order, by one thread. Called by the whole block of THREADS.
template <typename Visit>
__device__ inline void for_each_element(const BlockClass &of, bool follows, const WorkShare &share, Visit visit) {
    const uint32_t in_slice = of.extent[1] * of.extent[2];
    if (follows || of.extent[2] < WARP) {
        const BoxPlaces places(of.extent[1], of.extent[2]);
        const uint32_t count = follows ? in_slice : of.elements(), slices = follows ? of.extent[0] : 1;
        for (uint32_t i = share.thread(); i < count; i += share.threads()) {
            uint32_t at[3];
            places.coordinates(i, at);
            for (uint32_t z = 0; z < slices; ++z) {
                visit(at, z == 0);
                ++at[0];
            }
        }
        return;
    }
    // A warp visits a part of a row.
    const uint32_t parts = ceil_div(of.extent[2], WARP), rows = of.extent[0] * of.extent[1];
    const SmallDivider by_parts(parts), by_rows(of.extent[1]);
    for (uint32_t i = share.warp(); i < rows * parts; i += share.warps()) {
        const uint32_t row = by_parts.quotient(i), z = by_rows.quotient(row);
        const uint32_t at[3] = {z, row - z * of.extent[1], (i - row * parts) * WARP + lane_id()};
        if (at[2] < of.extent[2]) {
            visit(at, true);
        }
    }
}
