// Writes strips that have a single value in each row of tiles, concurrently with the kernel that decodes all other
// strips. Each warp writes one strip at a time. A warp reuses the image that it has filled for its next strip if that
// has the same value. The other strips are written by reconstruct/strips.cu.
//
// THREADS   threads of a block
// RESIDENT  resident blocks per multiprocessor for which registers are limited
#include "device/sync.cuh"
#include "reconstruct/segments.cuh"

// The properties of a segment that a warp finds.
struct Seen {
    bool coded; // none of its chunks is damaged or raw
    bool flat;  // all of its tiles consist of the same base only
    uint32_t base;
};

// Finds the properties of a segment; each lane checks one tile.
__device__ inline Seen find_properties(const Parsed &parsed, uint32_t chunk_tiles, const Segment &line) {
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

// `strip_count` is the number of strips, where segments of a row of tiles are separate strips. The results of parsing
// are available, because the previous kernel waited for them before it let this one begin; that kernel does not access
// the memory that this one writes. `states` receives a byte for each strip, and words of `sums` the number of strips
// that are not flat and the signal that the states are complete. The grid has as many blocks as that of the previous
// kernel.
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
            const Seen seen = find_properties(parsed, geometry.chunk_tiles, strip.line(geometry, request, strips, row));
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
            const uint32_t base = strip.rows == 1 ? all.base : find_properties(parsed, geometry.chunk_tiles, line).base;
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
            // Consecutive rows of a plane are written in one run if they are complete, else each row separately.
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
    // The next kernel must also wait for the kernel before this one.
    if (blockIdx.x == 0) {
        grid_dependency_wait();
    }
}
