// Interpolation of the elements of a block (docs/FORMAT.md, "Prediction"), with exactly its operations.
//
// ELEMENT_BYTES  4: f32, 8: f64
#pragma once
#include "blocks/blocks.cuh"
#include "predict/arithmetic.cuh"

#if ELEMENT_BYTES == 8
typedef double Element;
#else
typedef float Element;
#endif

// Interpolates along an axis from the values at odd distances. `values` has those of a block: `values.value(at)` is
// one, and `values.stride(axis)` the distance of neighbors.
template <typename Values>
__device__ inline Element interpolated(const Values &values, const BlockShape &shape, bool is_cubic, uint32_t axis,
                                       uint32_t level, const BlockElement &element, uint64_t at) {
    const uint32_t extent = shape.extent[axis], place = element.at[axis], step = 1u << level;
    const uint64_t distance = values.stride(axis) << level;
    const bool has_before = place >= 3 * step, has_b = place + step < extent, has_after = place + 3 * step < extent;
    const Element a = values.value(at - distance);
    if (!has_b) {
        return has_before ? product_plus(a, Element(1.5), product(values.value(at - 3 * distance), Element(-0.5))) : a;
    }
    const Element b = values.value(at + distance);
    if (!is_cubic || (!has_before && !has_after)) {
        return product(a + b, Element(0.5));
    }
    if (!has_after) {
        const Element before = product(values.value(at - 3 * distance), Element(-0.125));
        return product_plus(a, Element(0.75), product_plus(b, Element(0.375), before));
    }
    const Element after = values.value(at + 3 * distance);
    if (!has_before) {
        return product_plus(b, Element(0.75), product_plus(a, Element(0.375), product(after, Element(-0.125))));
    }
    const Element outer = product(values.value(at - 3 * distance) + after, Element(-0.0625));
    return product_plus(a + b, Element(0.5625), outer);
}

// Returns the mean of the interpolations of an element of a class.
template <typename Values>
__device__ inline Element predicted(const Values &values, const BlockShape &shape, bool is_cubic, const BlockClass &of,
                                    const BlockElement &element, uint64_t at) {
    Element all = Element(0);
    bool is_first = true;
    for (uint32_t axis = 0; axis < 3; ++axis) {
        if ((of.number >> axis & 1) != 0) {
            const Element own = interpolated(values, shape, is_cubic, axis, of.level, element, at);
            all = is_first ? own : all + own;
            is_first = false;
        }
    }
    return of.axes == 1 ? all : product(all, of.axes == 2 ? Element(0.5) : Element(1.0 / 3.0));
}

// The share of the error of the slice before, by its number in the plan.
__device__ inline Element share_of(uint32_t number) { return number == 1 ? Element(0.75) : Element(1); }

// Returns the integer that a prediction is rounded to on a grid, 0 if it is too large.
__device__ inline int32_t on_grid(Element prediction, Element inverse) {
    constexpr Element LIMIT = Element(1 << 30);
    const Element rounded = rint(product(prediction, inverse));
    return fabs(rounded) < LIMIT ? int32_t(rounded) : 0;
}

// Visits the elements of a class that are predicted one after another, a thread each: `visit(element, at, is_first)`
// for every element, or with `follows` those at a place of each slice in order. Called by the whole block of THREADS.
template <typename Memory, typename Visit>
__device__ inline void for_each_element(const Memory &memory, const BlockShape &shape, const BlockClass &of,
                                        bool follows, Visit visit) {
    const uint32_t in_slice = of.extent[1] * of.extent[2];
    const BoxPlaces places(of.extent[1], of.extent[2]);
    const uint32_t count = follows ? in_slice : of.elements(), slices = follows ? of.extent[0] : 1;
    for (uint32_t i = threadIdx.x; i < count; i += THREADS) {
        uint32_t in_class[3];
        places.coordinates(i, in_class);
        BlockElement element(shape, of, in_class[0], in_class[1], in_class[2]);
        uint64_t at = memory.place(element);
        for (uint32_t z = 0; z < slices; ++z) {
            visit(element, at, z == 0);
            ++element.at[0];
            at += memory.stride(0);
        }
    }
}
