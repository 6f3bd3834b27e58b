// What few tiles have: outliers, verbatim values, bitmaps of masks and signs. A warp a tile; most have nothing to do.
//
// AXES   axes along which tiles extend
// WARPS  warps in a block
#define MEASURE 0
#include "quantize_tile.cuh"

// Where things start; mirrored in quantize/gather.rs. For each chunk, in entries, and for bitmaps in bytes.
struct SideStarts {
    uint32_t outliers, verbatim, masks, signs;
    uint32_t radius, unused;
};
// Of each tile, in its chunk.
struct SideOffsets {
    uint32_t outliers, verbatim, masks, signs;
};
struct SideLists {
    uint32_t *outlier_positions;
    int32_t *residuals;
    uint32_t *verbatim_positions;
    Bits *verbatim_values;
    uint8_t *masks;
    uint8_t *signs;
};

__device__ inline uint32_t before_lane() { return (1u << lane_id()) - 1; }

// Writes a bitmap as it is stored: each bit's exclusive or with its neighbour's, then zeros up to a multiple of 64 bytes.
__device__ inline void write_bitmap(const TileBox &tile, uint32_t own_word, uint32_t *words, uint32_t *to) {
    const uint32_t elements = tile.elements(), lane = lane_id();
    words[lane] = own_word;
    __syncwarp();
    const uint32_t stored = (elements + 511) / 512 * 16;
    for (uint32_t word = 0; word < stored; ++word) {
        uint32_t i = word * WARP + lane;
        uint32_t bit = 0;
        if (i < elements) {
            Position at(tile, i);
            uint32_t distance = at.z > 0 ? tile.nx * tile.ny : at.y > 0 ? tile.nx : at.x > 0 ? 1 : 0;
            uint32_t neighbour = i - distance;
            bit = (words[word] >> lane ^ (distance > 0 ? words[neighbour / WARP] >> neighbour % WARP : 0)) & 1;
        }
        bit = __ballot_sync(ALL_LANES, bit != 0);
        if (lane == 0) {
            to[word] = bit;
        }
    }
    __syncwarp();
}

extern "C" __global__ void __launch_bounds__(WARPS *WARP) quantize_gather(
    const Element *slab, uint64_t first_element, Geometry geometry, ChunkBatch batch, Step step, const SideStarts *starts, const SideOffsets *offsets,
    Outputs outputs, SideLists lists
) {
    __shared__ int32_t integers[WARPS][MOST_ELEMENTS];
    __shared__ uint32_t bitmaps[WARPS][WARP];
    const uint32_t number = blockIdx.x * WARPS + warp_id(), lane = lane_id();
    if (number >= batch.tiles) {
        return;
    }
    const uint32_t meta = outputs.metas[number];
    const uint32_t outliers = outputs.outliers[number], verbatim = outputs.verbatim[number];
    const bool has_mask = (meta >> META_MASK & 3) == KIND_BITMAP, has_signs = (meta >> META_SIGN & 3) == KIND_BITMAP;
    if (outliers == 0 && verbatim == 0 && !has_mask && !has_signs) {
        return;
    }
    const uint32_t chunk = number / batch.chunk_tiles;
    const SideStarts start = starts[chunk];
    const SideOffsets offset = offsets[number];
    const TileBox tile(geometry.tile(batch.first_tile + number));
    const uint32_t position = uint32_t(tile.elements_before - geometry.elements_before(batch.first_tile + batch.chunk_first(chunk)));
    const TileSource source{slab + (tile.first_element - first_element), geometry.dims[2] * geometry.dims[3], geometry.dims[3]};
    TileWords words;
    const TileResult result = quantize_tile(step, tile, source, integers[warp_id()], words);
    const uint32_t elements = tile.elements();

    if (outliers > 0) {
        uint64_t at = uint64_t(start.outliers) + offset.outliers;
        const int32_t radius = int32_t(start.radius);
        each_residual(tile, integers[warp_id()], result, (elements + WARP - 1) / WARP * WARP, [&](uint32_t i, int32_t residual) {
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
                lists.verbatim_values[to] = bits_of(source.load(Position(tile, i)));
            }
            at += __popc(all);
        }
    }
    if (has_mask) {
        uint32_t *to = reinterpret_cast<uint32_t *>(lists.masks + uint64_t(start.masks) + offset.masks);
        write_bitmap(tile, words.fill, bitmaps[warp_id()], to);
    }
    if (has_signs) {
        uint32_t *to = reinterpret_cast<uint32_t *>(lists.signs + uint64_t(start.signs) + offset.signs);
        write_bitmap(tile, words.negative, bitmaps[warp_id()], to);
    }
}
