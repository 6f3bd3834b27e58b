// From sums of the codes of 3-D tiles to elements, a strip of whole rows at a time (reconstruct_strips.cuh): a block a strip, of those that reconstruct_flat.cu has listed. Nothing waits for another block.
//
// THREADS   eight a tile
// RESIDENT  blocks that a multiprocessor is to have registers for
#include "reconstruct_strips.cuh"

// Whether a tile has neither outliers nor verbatim values, nor anything else that sums do not tell.
__device__ inline bool has_sums_alone(const Parsed &parsed, const Strand &own) {
    if (!own.is_plain()) {
        return false;
    }
    const ParsedChunk &record = parsed.chunks[own.chunk];
    const uint64_t entry = uint64_t(own.chunk) * (parsed.tiles + 1) + own.number;
    const bool verbatim = record.verbatim != 0 && parsed.verbatim_starts[entry] != parsed.verbatim_starts[entry + 1];
    return !verbatim && (!own.live || record.outliers == 0 || parsed.outlier_starts[entry] == parsed.outlier_starts[entry + 1]);
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    reconstruct_strips(const uint8_t *input, const __grid_constant__ Geometry geometry, const __grid_constant__ Parsed parsed, const __grid_constant__ Values values,
                       const __grid_constant__ Request request, const __grid_constant__ Strips strips, const uint16_t *codes, const uint32_t *listed, Element *out, uint32_t *sums,
                       const __grid_constant__ Ending ending, const uint32_t *status) {
    wait_for_previous();
    uint32_t *done = done_blocks(sums, parsed.chunk_count), *strip_count = listed_strips(sums, parsed.chunk_count);
    const uint32_t count = __ldcg(strip_count), number = listed[blockIdx.x];
    // The first block ends the batch if there is no strip.
    if (blockIdx.x >= max_of(count, 1u)) {
        return;
    }
    bool last = count == 0;
    if (count != 0) {
        const Strip strip(geometry, strips, number);
        const uint32_t slot = threadIdx.x / SIDE, row = slot * strips.by_width >> 16, tile = slot - row * strips.width, x = tile * SIDE;
        if (threadIdx.x < strip.rows) {
            segments_of_block()[threadIdx.x] = strip.line(geometry, request, strips, threadIdx.x);
        }
        __syncthreads();
        const Segment line = row < strip.rows ? segments_of_block()[row] : Segment{};
        Strand own = strand_of(parsed, geometry.chunk_tiles, line, codes, tile, x >= line.from && x < line.to, min_of(SIDE, line.to - min_of(line.to, x)));
        own.y = threadIdx.x % SIDE;
        own.first = row * PLANES * strips.plane_pitch + own.y * strips.row_pitch + x;
        const bool plain = !own.wanted || has_sums_alone(parsed, own);
        // The last block that is through with what parsing has left ends the batch. Mostly that is known from here on, and said while there is other work.
        const bool is_through = __syncthreads_and(plain);
        const auto end = [&]() {
            if (threadIdx.x == 0) {
                __threadfence();
                last = atomicAdd(done, 1u) + 1 == count;
            }
        };
        if (is_through) {
            end();
        }
        const bool vectors = request.vectors != 0;
        const Shifts shifts(line, geometry, out);
        const Copier copier{out, geometry, strips, strip.rows};
        if (!__all_sync(ALL_LANES, plain)) {
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
        if (!is_through) {
            __syncthreads();
            end();
        }
    }
    if (__syncthreads_or(last)) {
        if (threadIdx.x == 0) {
            *done = 0;
            *strip_count = 0;
        }
        if (ending.result != nullptr) {
            for (uint32_t first = 0; first < parsed.chunk_count; first += THREADS) {
                end_chunks(ending, parsed.chunks, status, first, parsed.chunk_count);
            }
            __syncthreads();
            clear_for_next(ending);
        }
    }
}
