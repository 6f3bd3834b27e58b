// Reconstructs elements of chunks with token codebooks from decoded codes: one warp per tile, which sums residuals or
// interpolates in shared memory.
//
// THREADS          threads of a block
// RESIDENT_BLOCKS  resident blocks per multiprocessor, for the allocation of registers
// and the constants of reconstruct/work.cuh
#include "device/warp.cuh"
#include "predict/interpolation.cuh"
#include "reconstruct/work.cuh"

using format::SECOND_ORDER;
using format::TOKEN_GROUP;

// Most anchors of a tile that is interpolated, except along the only axis of a scheme in planes: those of 32 rows.
constexpr uint32_t MOST_ANCHORS = 64;

// Shared memory of a warp.
struct __align__(16) TileScratch {
    int32_t codes[TILE_ELEMENTS];
    union {
        uint32_t integers[padded_length(TILE_ELEMENTS)];
        Element values[padded_length(TILE_ELEMENTS)];
    };
    uint32_t anchors[padded_length(MOST_ANCHORS)];
};

// Parallel lines of elements, all of `length`: `inner` adjacent ones for each of `outer` steps.
struct Lines {
    uint32_t length, stride;
    uint32_t inner, inner_stride;
    uint32_t outer, outer_stride;
};

// Replaces the elements of each line by prefix sums, from element `from - 1` on. Called by the whole warp.
__device__ inline void sum_lines(uint32_t *integers, const Lines &lines, uint32_t from) {
    if (lines.length <= from) {
        return;
    }
    if (AXES == 1) {
        // The only line: each lane sums a stretch, and adds the sums of those before.
        const uint32_t start = lane_id() * WARP, end = min_of(start + WARP, lines.length);
        uint32_t sum = 0;
        for (uint32_t i = max_of(start, from - 1); i < end; ++i) {
            sum += integers[padded(i)];
            integers[padded(i)] = sum;
        }
        const uint32_t before = warp_exclusive_sum(sum);
        for (uint32_t i = max_of(start, from - 1); i < end; ++i) {
            integers[padded(i)] += before;
        }
    } else {
        for (uint32_t line = lane_id(); line < lines.inner * lines.outer; line += WARP) {
            const uint32_t outer = line / lines.inner, inner = line - outer * lines.inner;
            uint32_t place = inner * lines.inner_stride + outer * lines.outer_stride + (from - 1) * lines.stride;
            uint32_t sum = integers[padded(place)];
            for (uint32_t i = from; i < lines.length; ++i) {
                place += lines.stride;
                sum += integers[padded(place)];
                integers[padded(place)] = sum;
            }
        }
    }
    __syncwarp();
}

// Inverse of the differences of a predictor (docs/FORMAT.md, "Prediction"). Called by the whole warp.
__device__ inline void integrate(uint32_t *integers, uint32_t nz, uint32_t ny, uint32_t nx, uint32_t predictor) {
    if (predictor == 0) {
        return;
    }
    const bool second = predictor == SECOND_ORDER;
    const bool x = second || predictor & 1, y = second || predictor & 2, z = second || predictor & 4;
    // Where axes of the set have position 0: the other axes, and those before them only where these have position 0.
    if (!z) {
        sum_lines(integers, {nz, ny * nx, 1, 0, 1, 0}, 1);
    }
    if (!y) {
        sum_lines(integers, {ny, nx, 1, 0, z ? 1 : nz, ny * nx}, 1);
    }
    if (!x) {
        sum_lines(integers, {nx, 1, y ? 1 : ny, nx, z ? 1 : nz, ny * nx}, 1);
    }
    for (uint32_t order = second ? 2 : 1; z && order > 0; --order) {
        sum_lines(integers, {nz, ny * nx, nx, 1, ny, nx}, order);
    }
    for (uint32_t order = second ? 2 : 1; y && order > 0; --order) {
        sum_lines(integers, {ny, nx, nx, 1, nz, ny * nx}, order);
    }
    for (uint32_t order = second ? 2 : 1; x && order > 0; --order) {
        sum_lines(integers, {nx, 1, ny, nx, nz, ny * nx}, order);
    }
}

#if !LOG
#if DOUBLE
__device__ inline double element_of(int32_t code) { return __int2double_rn(code); }
#else
__device__ inline float element_of(int32_t code) { return __int2float_rn(code); }
#endif

// Reconstructs the elements of an interpolated tile from its codes. Called by the whole warp.
__device__ inline void interpolate(TileScratch &scratch, const PlanHead &plan, const Plans &plans, const int32_t *codes,
                                   uint32_t elements, uint32_t base, const Values &values) {
    // Codes are read ahead, so that stages do not wait for memory. Groups have room for whole vectors.
    for (uint32_t i = 4 * lane_id(); i < elements; i += 4 * WARP) {
        *reinterpret_cast<int4 *>(scratch.codes + i) = *reinterpret_cast<const int4 *>(codes + i);
    }
    if (lane_id() == 0) {
        scratch.values[missing_place(TILE_ELEMENTS)] = Element(-0.0);
    }
    __syncwarp();
    for (uint32_t i = lane_id(); i < plan.anchors; i += WARP) {
        scratch.anchors[padded(i)] = uint32_t(scratch.codes[i]);
    }
    __syncwarp();
    integrate(scratch.anchors, plan.lattice[0], plan.lattice[1], plan.lattice[2], 7);
    const Quantum quantum(values);
    for (uint32_t i = lane_id(); i < plan.anchors; i += WARP) {
        const uint32_t place = plans.anchors[plan.first_anchor + i];
        scratch.values[padded(place)] = dequantized(int32_t(scratch.anchors[padded(i)] + base), quantum);
    }
    __syncwarp();
#if DOUBLE
    const Element step = values.step;
#else
    const Element step = values.step_high;
#endif
    uint32_t begin = 0;
    for (uint32_t number = 0; number < plan.stages; ++number) {
        const PlanStage stage = plans.stages[plan.first_stage + number];
        const uint32_t count = stage.end - begin;
        // The elements of a stage have no neighbors in it.
        for (uint32_t i = lane_id(); i < count; i += WARP) {
            uint32_t place;
            const Element value = predicted(plans.pairs, stage, count, i, scratch.values, place);
            const int32_t code = scratch.codes[plan.anchors + begin + i];
            // Without a code, the element is the prediction itself, whatever its sign.
            scratch.values[padded(place)] = code == 0 ? value : product_plus(element_of(code), step, value);
        }
        __syncwarp();
        begin = stage.end;
    }
}
#endif

// Writes the elements of a tile, which `value(i)` returns, with signs and fill patterns. Called by the whole warp.
template <typename Value> __device__ inline void write_tile(const Work &work, const Target &target, Value value) {
    // Elements of a lane that are adjacent along x.
    constexpr uint32_t OWN = STEP / WARP;
    const uint32_t local = lane_id() * OWN, y = AXES == 3 ? local / SIDE : 0, x = AXES == 3 ? local % SIDE : local;
    if (y >= work.ny || x >= work.nx) {
        return;
    }
    const Parsed &parsed = target.parsed;
    const uint64_t entry = uint64_t(target.chunk) * parsed.tiles + work.number;
    const uint64_t first_bitmap = target.chunk * parsed.bitmap_stride;
    const uint32_t mask_kind = meta_mask(work.meta), sign_kind = LOG ? meta_sign(work.meta) : 0;
    BitWalk mask(mask_kind, mask_kind == 2 ? parsed.masks + first_bitmap + parsed.mask_starts[entry] : nullptr, work, y,
                 x);
    BitWalk sign(sign_kind, sign_kind == 2 ? parsed.signs + first_bitmap + parsed.sign_starts[entry] : nullptr, work, y,
                 x);
    const Element pattern = from_bits(Bits(target.values.patterns[meta_pattern(work.meta)]));
    Element *to = target.out + work.first_element + y * (AXES == 3 ? target.geometry.strides[2] : 0) + x;
    for (uint32_t step = 0; step < work.steps(); ++step) {
        const uint32_t at = AXES == 1 ? step * STEP + x : x;
        if (at >= work.nx) {
            break;
        }
        const uint32_t first = AXES == 3 ? (step * work.ny + y) * work.nx + at : AXES == 2 ? step * work.nx + at : at;
        const uint32_t masked = mask.of(step), negative = sign.of(step);
#pragma unroll
        for (uint32_t i = 0; i < OWN; ++i) {
            if (at + i < work.nx) {
                Element out = value(first + i);
                if (LOG && sign_kind != 0) {
                    const Bits top = Bits(1) << (sizeof(Element) * 8 - 1);
                    out = from_bits(Bits(bits_of(out) & ~top | (negative >> i & 1 ? top : 0)));
                }
                to[i] = masked >> i & 1 ? pattern : out;
            }
        }
        to += target.stride();
    }
}

// Reconstructs the requested tiles of chunks with token codebooks. `codes` has TOKEN_GROUP codes for each of `slots`
// groups of each chunk. The grid is (tiles of a chunk over warps of a block, chunks).
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    reconstruct_token_codes(const uint8_t *input, const __grid_constant__ Geometry geometry,
                            const __grid_constant__ Parsed parsed, const __grid_constant__ Values values,
                            const __grid_constant__ Request request, const int32_t *codes, uint32_t slots,
                            const __grid_constant__ Plans plans, Element *out) {
    __shared__ TileScratch scratches[THREADS / WARP];
    const uint32_t chunk = blockIdx.y, number = blockIdx.x * (THREADS / WARP) + warp_id();
    const ParsedChunk &record = parsed.chunks[chunk];
    const uint64_t chunk_number = request.first_chunk + chunk, tile = geometry.first_tile(chunk_number) + number;
    if (record.status != 0 || record.kind != KIND_TOKEN_CODES || tile >= geometry.first_tile(chunk_number + 1) ||
        tile < request.tiles_start || tile >= request.tiles_end) {
        return;
    }
    const ChunkStart start(geometry, chunk_number);
    Work work = work_of(geometry, request, start, number, true, find_tile(parsed, chunk, number, true));
    const Target target{input, parsed, record, values, geometry, chunk, false, out};
    const uint32_t base = uint32_t(work.base);
    const Quantum quantum(values);
    TileScratch &scratch = scratches[warp_id()];
    uint32_t predictor = meta_token_predictor(work.meta);
    if (AXES == 1 && predictor == format::INTERPOLATION && record.scheme == format::SCHEME_IN_PLANES) {
        // All elements are anchors.
        predictor = 7;
    }
    const int32_t *own = codes + (uint64_t(chunk) * slots + work.first_group) * TOKEN_GROUP;
    if (meta_constant(work.meta)) {
        const Element flat = dequantized(work.base, quantum);
        write_tile(work, target, [&](uint32_t) { return flat; });
#if !LOG
    } else if (predictor == format::INTERPOLATION) {
        // Axes along which the tile is clipped.
        const uint32_t clipped = (work.nz < geometry.side[0] ? 4 : 0) | (work.ny < geometry.side[1] ? 2 : 0) |
                                 (work.nx < geometry.side[2] ? 1 : 0);
        interpolate(scratch, plans.heads[(record.scheme - 1) * 8 + clipped], plans, own, work.nz * work.ny * work.nx,
                    base, values);
        write_tile(work, target, [&](uint32_t element) { return scratch.values[padded(element)]; });
#endif
    } else {
        const uint32_t count = work.nz * work.ny * work.nx;
        // Groups have room for whole vectors.
        for (uint32_t i = 4 * lane_id(); i < count; i += 4 * WARP) {
            const int4 four = *reinterpret_cast<const int4 *>(own + i);
            uint32_t *to = &scratch.integers[padded(i)];
            to[0] = uint32_t(four.x), to[1] = uint32_t(four.y), to[2] = uint32_t(four.z), to[3] = uint32_t(four.w);
        }
        __syncwarp();
        integrate(scratch.integers, work.nz, work.ny, work.nx, predictor);
        write_tile(work, target, [&](uint32_t element) {
            return dequantized(int32_t(scratch.integers[padded(element)] + base), quantum);
        });
    }
    __syncwarp();
    if (record.verbatim != 0) {
        // One lane has the tile, as those of other kernels have tiles of their own.
        work.wanted = lane_id() == 0;
        write_verbatim(work, target);
    }
}
