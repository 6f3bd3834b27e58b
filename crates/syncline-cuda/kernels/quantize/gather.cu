// Collects outliers, verbatim values, and bitmaps of masks and signs, one tile of a warp at a time.
//
// AXES   axes along which tiles extend
// WARPS  warps of a block
//
// and the constant of quantize/step_argument.cuh.
#define MEASURE 0
#include "quantize/scalar_tile.cuh"
#include "quantize/step_argument.cuh"
#include "quantize/structs.cuh"

__device__ inline uint32_t before_lane() { return (1u << lane_id()) - 1; }

// Shifts a bitmap with one word per lane by `distance` bits, so that each bit is that of the element `distance` before.
__device__ inline uint32_t bits_before(uint32_t own_word, uint32_t distance) {
    const uint32_t words = distance / WARP, high = __shfl_up_sync(ALL_LANES, own_word, words),
                   low = __shfl_up_sync(ALL_LANES, own_word, words + 1);
    return __funnelshift_l(lane_id() > words ? low : 0, lane_id() >= words ? high : 0, distance);
}

// Writes a bitmap as stored: each bit is the exclusive or with its neighbor's. The neighbor is in the previous plane,
// in the first plane in the previous row, and in that plane's first row the previous element. Zeros fill up to a
// multiple of 64 bytes.
__device__ inline void write_bitmap(const TileBox &tile, uint32_t own_word, uint32_t *to) {
    const uint32_t elements = tile.elements(), lane = lane_id(), row = tile.nx, plane = tile.nx * tile.ny;
    const uint32_t in_row = word_of_first(row, lane), in_plane = word_of_first(plane, lane);
    uint32_t neighbors = bits_before(own_word, 1) & in_row;
    if (row < plane) {
        neighbors |= bits_before(own_word, row) & in_plane & ~in_row;
    }
    if (plane < elements) {
        neighbors |= bits_before(own_word, plane) & ~in_plane;
    }
    if (lane < (elements + 511) / 512 * 16) {
        to[lane] = (own_word ^ neighbors) & word_of_first(elements, lane);
    }
}

// Finds the bitmaps of a tile without verbatim values: elements with the pattern are fill, and all others have an
// integer.
__device__ inline void find_bitmaps(const Step &step, const TileBox &tile, const TileSource &source, uint32_t meta,
                                    TileBitmaps &words) {
    const uint32_t elements = tile.elements(), lane = lane_id();
    const Bits pattern = Bits(step.patterns[meta >> META_PATTERN & 3]);
    const bool has_mask = (meta >> META_MASK & 3) != KIND_NONE;
    constexpr uint32_t TOGETHER = 8;
    words = {};
#pragma unroll 1
    for (uint32_t first_word = 0; first_word * WARP < elements; first_word += TOGETHER) {
        Element values[TOGETHER];
#pragma unroll
        for (uint32_t k = 0; k < TOGETHER; ++k) {
            const uint32_t i = (first_word + k) * WARP + lane;
            values[k] = i < elements ? source.load(Position(tile, i)) : Element(0);
        }
#pragma unroll
        for (uint32_t k = 0; k < TOGETHER; ++k) {
            const uint32_t word = first_word + k;
            const bool inside = word * WARP + lane < elements,
                       fill = has_mask && inside && bits_of(values[k]) == pattern;
            const uint32_t filled = __ballot_sync(ALL_LANES, fill),
                           negative = __ballot_sync(ALL_LANES, inside && !fill && (bits_of(values[k]) & SIGN_BIT) != 0);
            words.fill = lane == word ? filled : words.fill;
            words.negative = lane == word ? negative : words.negative;
        }
    }
}

// Returns whether a tile has anything to collect.
__device__ inline bool has_entries(uint32_t number, const ChunkBatch &batch, const SideStarts *starts,
                                   const Outputs &outputs) {
    const uint32_t meta = outputs.metas[number];
    return (outputs.outliers[number] > 0 || outputs.verbatim[number] > 0 || (meta >> META_MASK & 3) == KIND_BITMAP ||
            (meta >> META_SIGN & 3) == KIND_BITMAP) &&
           starts[number / batch.chunk_tiles].radius != 0;
}

// Collects what tile `number` has. Called by one warp, with memory for the integers of a tile.
__device__ inline void gather_tile(uint32_t number, const Element *slab, uint64_t first_element,
                                   const Geometry &geometry, const ChunkBatch &batch, const Step &step,
                                   const SideStarts *starts, const SideOffsets *offsets, const Outputs &outputs,
                                   const uint32_t *exact, const SideLists &lists, int32_t *integers) {
    const uint32_t lane = lane_id(), chunk = number / batch.chunk_tiles;
    const SideStarts start = starts[chunk];
    const uint32_t meta = outputs.metas[number];
    const uint32_t outliers = outputs.outliers[number], verbatim = outputs.verbatim[number];
    const bool has_mask = (meta >> META_MASK & 3) == KIND_BITMAP, has_signs = (meta >> META_SIGN & 3) == KIND_BITMAP;
    const SideOffsets offset = offsets[number];
    const TileBox tile(geometry.tile(batch.first_tile + number));
    const uint32_t position =
        uint32_t(tile.elements_before - geometry.elements_before(batch.first_tile + batch.chunk_first(chunk)));
    const TileSource source{slab + (tile.first_element - first_element), geometry.dims[2] * geometry.dims[3],
                            geometry.dims[3]};
    TileBitmaps words;
    TileResult result = {};
    if (exact != nullptr) {
        find_bitmaps(step, tile, source, meta, words);
        words.verbatim = verbatim > 0 && lane < MAX_ELEMENTS / WARP ? exact[number * (MAX_ELEMENTS / WARP) + lane] : 0;
        words.negative &= ~words.verbatim;
    } else if (outliers > 0 || verbatim > 0) {
        result = quantize_tile(step, tile, source, integers, words);
    } else {
        find_bitmaps(step, tile, source, meta, words);
    }
    const uint32_t elements = tile.elements();

    if (outliers > 0) {
        uint64_t at = uint64_t(start.outliers) + offset.outliers;
        const int32_t radius = int32_t(start.radius);
        for_each_residual(tile, integers, result, (elements + WARP - 1) / WARP * WARP,
                          [&](uint32_t i, int32_t residual) {
                              bool outside = is_outlier(residual, radius);
                              uint32_t all = __ballot_sync(ALL_LANES, outside);
                              if (outside) {
                                  uint64_t to = at + __popc(all & before_lane());
                                  lists.outlier_positions[to] = position + i;
                                  lists.residuals[to] = residual;
                              }
                              at += __popc(all);
                          });
    }
    if (verbatim > 0) {
        uint64_t at = uint64_t(start.verbatim) + offset.verbatim;
        for (uint32_t word = 0; word * WARP < elements; ++word) {
            uint32_t all = __shfl_sync(ALL_LANES, words.verbatim, word);
            if ((all >> lane & 1) != 0) {
                uint32_t i = word * WARP + lane;
                uint64_t to = at + __popc(all & before_lane());
                lists.verbatim_positions[to] = position + i;
                static_cast<Bits *>(lists.verbatim_values)[to] = bits_of(source.load(Position(tile, i)));
            }
            at += __popc(all);
        }
    }
    if (has_mask) {
        uint32_t *to = reinterpret_cast<uint32_t *>(lists.masks + uint64_t(start.masks) + offset.masks);
        write_bitmap(tile, words.fill, to);
    }
    if (has_signs) {
        uint32_t *to = reinterpret_cast<uint32_t *>(lists.signs + uint64_t(start.signs) + offset.signs);
        write_bitmap(tile, words.negative, to);
    }
}

// A warp has `tiles_of_warp` tiles, at most one a lane, most of which have nothing. `exact`, if not null, has the
// bitmap of the verbatim values of each tile that has any.
extern "C" __global__ void __launch_bounds__(WARPS *WARP)
    quantize_gather(const Element *slab, uint64_t first_element, Geometry geometry, ChunkBatch batch,
                    StepArgument constants, const SideStarts *starts, const SideOffsets *offsets, Outputs outputs,
                    const uint32_t *exact, SideLists lists, uint32_t tiles_of_warp) {
    __shared__ int32_t integers[WARPS][MAX_ELEMENTS];
    const uint32_t first = (blockIdx.x * WARPS + warp_id()) * tiles_of_warp, own = first + lane_id();
    const bool any = lane_id() < tiles_of_warp && own < batch.tiles && has_entries(own, batch, starts, outputs);
    for (uint32_t left = __ballot_sync(ALL_LANES, any); left != 0; left &= left - 1) {
        gather_tile(first + __ffs(left) - 1, slab, first_element, geometry, batch, step_in(constants), starts, offsets,
                    outputs, exact, lists, integers[warp_id()]);
        __syncwarp();
    }
}
