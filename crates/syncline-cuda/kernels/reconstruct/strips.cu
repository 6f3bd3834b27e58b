// Computes elements from sums of the codes of 3-D tiles, one strip of whole rows at a time (reconstruct/strips.cuh).
// Each block processes one strip that reconstruct/flat.cu has not written. No block waits for another block.
//
// THREADS   threads of a block, eight per tile
// RESIDENT  resident blocks per multiprocessor for which registers are limited
#include "device/sync.cuh"
#include "reconstruct/strips.cuh"

// Whether a tile has no outliers, verbatim values or anything else that sums do not express.
__device__ inline bool has_sums_alone(const Parsed &parsed, const Strand &own) {
    if (!own.is_plain()) {
        return false;
    }
    const uint64_t entry = uint64_t(own.chunk) * (parsed.tiles + 1) + own.number;
    const bool verbatim = own.has_verbatim && parsed.verbatim_starts[entry] != parsed.verbatim_starts[entry + 1];
    return !verbatim &&
           (!own.live || !own.has_outliers || parsed.outlier_starts[entry] == parsed.outlier_starts[entry + 1]);
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    reconstruct_strips(const uint8_t *input, const __grid_constant__ Geometry geometry,
                       const __grid_constant__ Parsed parsed, const __grid_constant__ Values values,
                       const __grid_constant__ Request request, const __grid_constant__ Strips strips,
                       const uint16_t *codes, const uint8_t *states, Element *out, uint32_t *sums,
                       const __grid_constant__ BatchFinish ending, const uint32_t *status) {
    // Before it waits for the previous kernels, the block reads the results of parsing and of reconstruct/flat.cu,
    // while codes are still being decoded.
    launch_dependents();
    uint32_t *through = strips_through(sums, parsed.chunk_count), *left = strips_left(sums, parsed.chunk_count);
    if (threadIdx.x == 0) {
        wait_for_signal(flat_unseen(sums, parsed.chunk_count), 0u);
    }
    __syncthreads();
    // The first block takes part in finishing the batch even if its strip is flat, because there may be no other block.
    const uint32_t state = states[blockIdx.x], blocks = __ldcg(left) + ((states[0] & STRIP_FLAT) != 0);
    const bool flat = (state & STRIP_FLAT) != 0;
    if (flat && blockIdx.x != 0) {
        return;
    }
    bool last = false;
    // The last block that does not need the results of parsing any more finishes the batch.
    const auto end = [&]() {
        if (threadIdx.x == 0) {
            __threadfence();
            last = atomicAdd(through, 1u) + 1 == blocks;
        }
    };
    if (flat) {
        grid_dependency_wait();
        end();
    } else {
        const Strip strip(geometry, strips, blockIdx.x);
        const uint32_t slot = threadIdx.x / SIDE, row = slot * strips.by_width >> 16, tile = slot - row * strips.width,
                       x = tile * SIDE;
        if (threadIdx.x < strip.rows) {
            segments_of_block()[threadIdx.x] = strip.line(geometry, request, strips, threadIdx.x);
        }
        __syncthreads();
        const Segment line = row < strip.rows ? segments_of_block()[row] : Segment{};
        Strand own = strand_of(parsed, geometry.chunk_tiles, line, codes, tile, x >= line.from && x < line.to,
                               min_of(SIDE, line.to - min_of(line.to, x)), (state & STRIP_CODED) != 0);
        own.y = threadIdx.x % SIDE;
        own.first = row * PLANES * strips.plane_pitch + own.y * strips.row_pitch + x;
        const bool plain = !own.wanted || has_sums_alone(parsed, own);
        // Most blocks do not need these results from here on, and signal that while they still have other work.
        const bool is_through = __syncthreads_and(plain);
        grid_dependency_wait();
        if (is_through) {
            end();
        }
        const Shifts shifts(line, geometry, out);
        const Copier copier{out, geometry, strips, strip.rows};
        if (!__all_sync(ALL_LANES, plain)) {
            write_any_rows(own, shifts, input, geometry, parsed, request, values, copier);
        } else if (!__any_sync(ALL_LANES, own.live)) {
            write_constant_rows(own, shifts, Quantum(values), copier);
        } else if (__any_sync(ALL_LANES, own.live && own.is_clipped())) {
            make_plain<false, true>(own, shifts, Quantum(values), copier);
        } else if (__all_sync(ALL_LANES, !own.live || own.predictor >= AXES)) {
            make_plain<true, false>(own, shifts, Quantum(values), copier);
        } else {
            make_plain<false, false>(own, shifts, Quantum(values), copier);
        }
        if (!is_through) {
            __syncthreads();
            end();
        }
    }
    if (__syncthreads_or(last)) {
        if (threadIdx.x == 0) {
            *through = 0;
            *left = 0;
        }
        if (ending.result != nullptr) {
            finish_batch(ending, parsed.chunks, status, parsed.chunk_count);
        }
    }
}
