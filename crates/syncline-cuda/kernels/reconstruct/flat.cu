// Strips of one value throughout each row of tiles, beside the kernel that decodes all others: they need nothing of it.
// A warp a strip. What it has filled its image with serves the next strip, too, if that has the same value. The others
// are reconstruct/strips.cu's.
//
// THREADS   in a block
// RESIDENT  blocks that registers are dealt out for
#include "device/sync.cuh"
#include "reconstruct/segments.cuh"

// What a warp finds about a segment.
struct Seen {
    bool coded; // none of its chunks is damaged or raw
    bool flat;  // its tiles have a base and nothing else, the same
    uint32_t base;
};

// A lane a tile.
__device__ inline Seen look_at(const Parsed &parsed, uint32_t chunk_tiles, const Segment &line) {
    const uint32_t x = lane_id() * SIDE;
    const bool wanted = x >= line.from && x < line.to;
    bool coded = true, flat = true;
    uint32_t own = 0;
    if (wanted) {
        const TileOfBatch tile(line, lane_id(), chunk_tiles);
        const ParsedChunk &record = parsed.chunks[tile.chunk];
        coded = record.status == 0 && record.kind != KIND_RAW;
        flat = coded;
        if (coded) {
            const uint64_t place = uint64_t(tile.chunk) * parsed.tiles + tile.number, entry = place + tile.chunk;
            const uint32_t meta = parsed.metas[place];
            own = uint32_t(parsed.bases[place]);
            flat = meta_constant(meta) && meta_mask(meta) == 0 && meta_sign(meta) == 0;
            flat = flat && (record.verbatim == 0 || parsed.verbatim_starts[entry] == parsed.verbatim_starts[entry + 1]);
        }
    }
    const uint32_t lanes = __ballot_sync(ALL_LANES, wanted),
                   base = __shfl_sync(ALL_LANES, own, lanes == 0 ? 0 : __ffs(lanes) - 1);
    return {bool(__all_sync(ALL_LANES, coded)), bool(__all_sync(ALL_LANES, flat && (!wanted || own == base))), base};
}

// `strip_count` strips, segments of a row of tiles counted apart. What parsing has left is there already, as the kernel
// before has waited for it before it let this one begin; that one has nothing to do with what this one writes. `states`
// gets a byte for each strip, and words of `sums` how many are not flat, and that this is known. As many blocks as the
// kernel before has.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    reconstruct_flat(const __grid_constant__ Geometry geometry, const __grid_constant__ Parsed parsed,
                     const __grid_constant__ Values values, const __grid_constant__ Request request,
                     const __grid_constant__ Strips strips, uint32_t strip_count, Element *out, uint8_t *states,
                     uint32_t *sums) {
    launch_dependents();
    constexpr uint32_t WARPS = THREADS / WARP;
    const uint32_t lane = lane_id();
    Element *image = reinterpret_cast<Element *>(dynamic) + warp_id() * strips.plane_pitch;
    uint32_t filled = 0;
    bool is_filled = false;
    for (uint32_t number = blockIdx.x * WARPS + warp_id(); number < strip_count; number += gridDim.x * WARPS) {
        const Strip strip(geometry, strips, number);
        Seen all{true, true, 0};
        for (uint32_t row = 0; row < strip.rows; ++row) {
            const Seen seen = look_at(parsed, geometry.chunk_tiles, strip.line(geometry, request, strips, row));
            all = {all.coded && seen.coded, all.flat && seen.flat, seen.base};
        }
        if (lane == 0) {
            states[number] = uint8_t((all.coded ? STRIP_CODED : 0) | (all.flat ? STRIP_FLAT : 0));
            if (!all.flat) {
                atomicAdd(strips_left(sums, parsed.chunk_count), 1u);
            }
        }
        if (!all.flat) {
            continue;
        }
        for (uint32_t row = 0; row < strip.rows; ++row) {
            const Segment line = strip.line(geometry, request, strips, row);
            const uint32_t base = strip.rows == 1 ? all.base : look_at(parsed, geometry.chunk_tiles, line).base;
            if (!is_filled || filled != base) {
                copies_have_read();
                __syncwarp();
                const Element element = dequantized(int32_t(base), Quantum(values));
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
                Element *to =
                    out + line.first_element + plane * geometry.strides[1] + y * geometry.strides[2] + line.from;
                copy_run(image, uint32_t(reinterpret_cast<uint64_t>(to) / sizeof(Element)) % SECTOR, length, to);
            }
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        signal_release_add(flat_unseen(sums, parsed.chunk_count), uint32_t(-1));
    }
    copies_have_read();
    // What comes behind this kernel is to come behind the one before, too.
    if (blockIdx.x == 0) {
        grid_dependency_wait();
    }
}
