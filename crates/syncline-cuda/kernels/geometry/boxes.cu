// Boxes of an array's elements, one after another.
//
// THREADS  threads of a block in which each warp copies rows
// See also lossless/words.cuh.
#include "lossless/words.cuh"
#include "geometry/structs.cuh"

constexpr uint32_t WARPS = THREADS / WARP;

// Copies all `rows` rows of boxes, of `length` elements each, to `packed`. Rows are `strides[1]` elements apart, and
// planes of `in_plane` rows `strides[0]`. `boxes` are in the order of their rows.
extern "C" __global__ void __launch_bounds__(THREADS)
    boxes_pack(const BoxRows *boxes, uint32_t count, BoxShape shape, const word_t *slab, word_t *packed) {
    const uint64_t warps = uint64_t(gridDim.x) * WARPS;
    for (uint64_t row = uint64_t(blockIdx.x) * WARPS + warp_id(); row < shape.rows; row += warps) {
        // The last box with at most as many rows before it.
        uint32_t low = 0, high = count;
        while (low + 1 < high) {
            const uint32_t middle = (low + high) / 2;
            if (boxes[middle].first_row <= row) {
                low = middle;
            } else {
                high = middle;
            }
        }
        const uint64_t own = row - boxes[low].first_row, z = own / shape.in_plane, y = own - z * shape.in_plane;
        const word_t *from = slab + (boxes[low].from + z * shape.strides[0] + y * shape.strides[1]);
        word_t *to = packed + row * shape.length;
        for (uint64_t i = lane_id(); i < shape.length; i += WARP) {
            to[i] = from[i];
        }
    }
}
