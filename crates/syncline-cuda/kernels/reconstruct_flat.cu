// Strips of one value throughout each row of tiles, beside the kernel that decodes all others: they need nothing of it. A warp a strip. What it has filled its image with serves the next strip, too, if that
// has the same value. The others are listed for reconstruct_strips.cu.
//
// THREADS   in a block
// RESIDENT  blocks that registers are dealt out for
#include "reconstruct_segments.cuh"
#include "successor.cuh"

// Whether a tile has nothing but its base.
__device__ inline bool is_flat(const Parsed &parsed, const TileOfBatch &tile, uint32_t &base) {
    const ParsedChunk &record = parsed.chunks[tile.chunk];
    if (record.status != 0 || record.kind == CHUNK_RAW) {
        return false;
    }
    const uint64_t place = uint64_t(tile.chunk) * parsed.tiles + tile.number, entry = place + tile.chunk;
    const uint32_t meta = parsed.metas[place];
    base = uint32_t(parsed.bases[place]);
    const bool constant = meta_constant(meta) && meta_mask(meta) == 0 && meta_sign(meta) == 0;
    return constant && (record.verbatim == 0 || parsed.verbatim_starts[entry] == parsed.verbatim_starts[entry + 1]);
}

// Whether all tiles of a segment are flat and have the same base. By a warp, a lane a tile.
__device__ inline bool is_flat(const Parsed &parsed, uint32_t chunk_tiles, const Segment &line, uint32_t &base) {
    const uint32_t x = lane_id() * SIDE;
    const bool wanted = x >= line.from && x < line.to;
    uint32_t own = 0;
    const bool flat = !wanted || is_flat(parsed, TileOfBatch(line, lane_id(), chunk_tiles), own);
    const uint32_t lanes = __ballot_sync(ALL_LANES, wanted);
    base = __shfl_sync(ALL_LANES, own, lanes == 0 ? 0 : __ffs(lanes) - 1);
    return __all_sync(ALL_LANES, flat && (!wanted || own == base));
}

// `strip_count` strips, segments of a row of tiles counted apart. What parsing has left is there already, as the kernel before has waited for it before it let this one begin; that one has nothing to do with
// what this one writes. `others` gets the numbers of strips that are not flat, and a word of `sums` how many these are.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    reconstruct_flat(const __grid_constant__ Geometry geometry, const __grid_constant__ Parsed parsed, const __grid_constant__ Values values,
                     const __grid_constant__ Request request, const __grid_constant__ Strips strips, uint32_t strip_count, Element *out, uint32_t *others, uint32_t *sums) {
    let_next_begin();
    constexpr uint32_t WARPS = THREADS / WARP;
    const uint32_t lane = lane_id();
    Element *image = reinterpret_cast<Element *>(dynamic) + warp_id() * strips.plane_pitch;
    uint32_t filled = 0;
    bool is_filled = false;
    for (uint32_t number = blockIdx.x * WARPS + warp_id(); number < strip_count; number += gridDim.x * WARPS) {
        const Strip strip(geometry, strips, number);
        bool flat = true;
        uint32_t base = 0;
        for (uint32_t row = 0; row < strip.rows && flat; ++row) {
            flat = is_flat(parsed, geometry.chunk_tiles, strip.line(geometry, request, strips, row), base);
        }
        if (!flat) {
            if (lane == 0) {
                others[atomicAdd(listed_strips(sums, parsed.chunk_count), 1u)] = number;
            }
            continue;
        }
        for (uint32_t row = 0; row < strip.rows; ++row) {
            const Segment line = strip.line(geometry, request, strips, row);
            if (strip.rows != 1) {
                is_flat(parsed, geometry.chunk_tiles, line, base);
            }
            if (!is_filled || filled != base) {
                copies_have_read();
                __syncwarp();
                const Element element = dequantised(int32_t(base), Quantum(values));
                for (uint32_t i = lane; i < strips.plane_pitch; i += WARP) {
                    image[i] = element;
                }
                filled = base;
                is_filled = true;
                let_copies_see();
                __syncwarp();
            }
            // A run for each plane of whole rows, else for each row.
            const bool is_whole = line.to - line.from == geometry.dims[3];
            const uint32_t rows = is_whole ? 1 : line.ny, length = is_whole ? line.ny * line.to : line.to - line.from;
            for (uint32_t run = lane / RUN_LANES; run < line.nz * rows; run += WARP / RUN_LANES) {
                const uint32_t plane = run / rows, y = run - plane * rows;
                Element *to = out + line.first_element + plane * geometry.strides[1] + y * geometry.strides[2] + line.from;
                copy_run(image, uint32_t(reinterpret_cast<uint64_t>(to) / sizeof(Element)) % VECTOR, length, to);
            }
        }
    }
    copies_have_read();
    // What comes behind this kernel is to come behind the one before, too.
    if (blockIdx.x == 0) {
        wait_for_all_before();
    }
}
