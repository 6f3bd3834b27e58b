// Where the elements of a block are while it is coded: first the lattice of the second level in raster order, then the
// classes of the first level, each in raster order. So neighbors along a row are neighbors in memory. The classes of
// other levels are within that lattice.
#pragma once
#include "blocks/blocks.cuh"

// A class in this memory: the place of its first element, and the distances of neighbors along each axis.
struct CompactClass {
    uint32_t base, stride[3];

    __device__ inline CompactClass() : base(0), stride{0, 0, 0} {}
    __device__ inline CompactClass(const BlockShape &shape, uint32_t level, uint32_t number) : base(0) {
        const BlockClass of(shape, 0, level == 0 ? number : 0);
        stride[2] = 1;
        stride[1] = of.extent[2];
        stride[0] = of.extent[1] * of.extent[2];
        for (uint32_t before = 0; before < number && level == 0; ++before) {
            base += BlockClass(shape, 0, before).elements();
        }
        for (uint32_t axis = 0; axis < 3 && level > 0; ++axis) {
            base += (number >> axis & 1) != 0 ? stride[axis] << (level - 1) : 0;
            stride[axis] <<= shape.halves(axis) ? level : 0;
        }
    }
    __device__ inline uint32_t place(const uint32_t (&at)[3]) const {
        return base + at[0] * stride[0] + at[1] * stride[1] + at[2] * stride[2];
    }
};

// The classes that a class is interpolated from: along each of its axes another one, whose elements stand before and
// behind its own.
struct Around {
    CompactClass from[3];
    uint32_t extent[3]; // elements of `from[axis]` along the axis
    uint32_t number, axes;

    __device__ inline Around(const BlockShape &shape, const BlockClass &of) : number(of.number), axes(of.axes) {
#pragma unroll
        for (uint32_t axis = 0; axis < 3; ++axis) {
            if (has(axis)) {
                const uint32_t other = of.number ^ 1u << axis;
                from[axis] = CompactClass(shape, of.level, other);
                extent[axis] = BlockClass(shape, of.level, other).extent[axis];
            }
        }
    }
    __device__ inline bool has(uint32_t axis) const { return (number >> axis & 1) != 0; }
};

// Where the anchors are.
__device__ inline uint32_t anchor_place(const BlockShape &shape, uint32_t anchor) {
    const BlockClass lattice(shape, 0, 0);
    return anchor * lattice.extent[1] * lattice.extent[2];
}
