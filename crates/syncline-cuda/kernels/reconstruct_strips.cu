// From sums of the codes of 3-D tiles to elements, a strip of whole rows at a time (reconstruct_strips.cuh): a block a strip. Nothing waits for another block.
//
// THREADS   eight a tile
// RESIDENT  blocks that a multiprocessor is to have registers for
#include "reconstruct_strips.cuh"

// A segment of row `number` of tiles, as much of it as is wanted.
__device__ inline Segment line_of(const Geometry &geometry, const Request &request, const Strips &strips, uint64_t number, uint32_t segment) {
    const uint64_t planes = geometry.by_grid[1].quotient(number), b = geometry.by_grid[0].quotient(planes);
    const uint64_t z = (planes - b * geometry.grid[0]) * SIDE, y = (number - planes * geometry.grid[1]) * SIDE, x = uint64_t(segment) * strips.width * SIDE;
    const uint64_t tile = number * geometry.grid[2] + uint64_t(segment) * strips.width;
    const uint64_t start = max_of(tile, request.tiles_start);
    const uint64_t end = min_of(min_of(tile + strips.width, (number + 1) * geometry.grid[2]), request.tiles_end);
    Segment line{};
    if (start >= end) {
        return line;
    }
    line.first_element = b * geometry.strides[0] + z * geometry.strides[1] + y * geometry.strides[2] + x - request.first_element;
    line.nz = uint32_t(min_of<uint64_t>(geometry.dims[1] - z, SIDE));
    line.ny = uint32_t(min_of<uint64_t>(geometry.dims[2] - y, SIDE));
    line.from = uint32_t(start - tile) * SIDE;
    line.to = uint32_t(min_of<uint64_t>((end - tile) * SIDE, geometry.dims[3] - x));
    line.is_whole = strips.whole && line.to - line.from == geometry.dims[3];
    const uint64_t chunk = geometry.chunk_of(tile);
    line.chunk = uint32_t(chunk - request.first_chunk);
    line.tile = uint32_t(tile - chunk * geometry.chunk_tiles);
    return line;
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    reconstruct_strips(const uint8_t *input, const __grid_constant__ Geometry geometry, const __grid_constant__ Parsed parsed, const __grid_constant__ Values values,
                       const __grid_constant__ Request request, const __grid_constant__ Strips strips, const uint16_t *codes, Element *out, uint32_t *ended,
                       const __grid_constant__ Ending ending, const uint32_t *status) {
    const uint64_t strip = blockIdx.x / strips.segments;
    const uint32_t segment = blockIdx.x % strips.segments, slot = threadIdx.x / SIDE;
    const uint32_t row = slot * strips.by_width >> 16, tile = slot - row * strips.width;
    const uint64_t first_row = strips.first_row + strip * strips.rows;
    const uint32_t rows = uint32_t(min_of<uint64_t>(strips.rows, geometry.dims[0] * geometry.grid[0] * geometry.grid[1] - first_row));
    if (threadIdx.x < rows) {
        segments_of_block()[threadIdx.x] = line_of(geometry, request, strips, first_row + threadIdx.x, segment);
    }
    __syncthreads();
    wait_for_previous();
    const Segment line = row < rows ? segments_of_block()[row] : Segment{};
    const uint32_t x = tile * SIDE;
    Strand own = strand_of(parsed, geometry.chunk_tiles, line, codes, tile, x >= line.from && x < line.to, min_of(SIDE, line.to - min_of(line.to, x)));
    own.y = threadIdx.x % SIDE;
    own.first = row * PLANES * strips.plane_pitch + own.y * strips.row_pitch + x;
    bool plain = own.is_plain();
    if (own.wanted && plain) {
        const ParsedChunk &record = parsed.chunks[own.chunk];
        const uint64_t entry = uint64_t(own.chunk) * (parsed.tiles + 1) + own.number;
        plain = record.verbatim == 0 || parsed.verbatim_starts[entry] == parsed.verbatim_starts[entry + 1];
        plain = plain && (!own.live || record.outliers == 0 || parsed.outlier_starts[entry] == parsed.outlier_starts[entry + 1]);
    }
    const bool vectors = request.vectors != 0;
    const Shifts shifts(line, geometry, out);
    const Copier copier{out, geometry, strips, rows};
    if (!__all_sync(ALL_LANES, plain || !own.wanted)) {
        make_any(own, shifts, input, geometry, parsed, request, values, copier);
    } else if (!__any_sync(ALL_LANES, own.live)) {
        make_flat(own, shifts, Quantum(values), vectors, copier);
    } else if (__any_sync(ALL_LANES, own.live && own.is_clipped())) {
        make_plain<false, true>(own, shifts, Quantum(values), vectors, copier);
    } else if (__all_sync(ALL_LANES, !own.live || own.predictor >= AXES)) {
        make_plain<true, false>(own, shifts, Quantum(values), vectors, copier);
    } else {
        make_plain<false, false>(own, shifts, Quantum(values), vectors, copier);
    }
    // The last block to come here ends the batch, if `ending` says so: none reads any more what parsing has left.
    bool last = false;
    if (ending.result != nullptr && threadIdx.x == 0) {
        __threadfence();
        last = atomicAdd(ended, 1u) + 1 == gridDim.x;
    }
    if (ending.result != nullptr && __syncthreads_or(last)) {
        if (threadIdx.x == 0) {
            *ended = 0;
        }
        for (uint32_t first = 0; first < parsed.chunk_count; first += THREADS) {
            end_chunks(ending, parsed.chunks, status, first, parsed.chunk_count);
        }
        __syncthreads();
        clear_for_next(ending);
    }
}
