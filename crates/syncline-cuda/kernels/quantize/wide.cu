// Rewrites codes of radius 512 with radius 32768, for the listed chunks. One warp per tile. The constants are those of
// quantize/gather.cu.
#define MEASURE 0
#include "quantize/scalar_tile.cuh"
#include "quantize/step_argument.cuh"
#include "quantize/summary.cuh"

extern "C" __global__ void __launch_bounds__(WARPS *WARP)
    quantize_wide(const Element *slab, uint64_t first_element, Geometry geometry, ChunkBatch batch,
                  StepArgument constants, const uint32_t *chunks, Outputs outputs) {
    __shared__ int32_t integers[WARPS][MAX_ELEMENTS];
    const Step &step = step_in(constants);
    const uint32_t chunk = chunks[blockIdx.y];
    if (chunk == NO_CHUNK) {
        return;
    }
    const uint32_t number = batch.chunk_first(chunk) + blockIdx.x * WARPS + warp_id();
    if (number >= batch.chunk_first(chunk + 1) || (outputs.metas[number] & META_CONSTANT) != 0) {
        return;
    }
    const TileBox tile(geometry.tile(batch.first_tile + number));
    const TileSource source{slab + (tile.first_element - first_element), geometry.dims[2] * geometry.dims[3],
                            geometry.dims[3]};
    TileBitmaps words;
    const TileResult result = quantize_tile(step, tile, source, integers[warp_id()], words);
    uint16_t *codes = outputs.codes + ((batch.first_slot(chunk) + outputs.first_groups[number]) << geometry.group_log2);
    uint32_t outliers, wide_outliers;
    write_codes(tile, integers[warp_id()], result, geometry.groups(tile.elements()) << geometry.group_log2, WIDE_RADIUS,
                codes, outliers, wide_outliers);
}
