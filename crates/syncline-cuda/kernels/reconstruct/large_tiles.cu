// Reconstructs elements of chunks with token codebooks whose tiles are large: each block sums residuals or interpolates
// in a tile that it has in shared memory.
//
// THREADS          threads of a block
// RESIDENT_BLOCKS  resident blocks per multiprocessor, for the allocation of registers
// and the constants of reconstruct/work.cuh
#include "device/block.cuh"
#include "device/warp.cuh"
#include "predict/interpolation.cuh"
#include "reconstruct/tokens.cuh"

constexpr uint32_t MOST_ELEMENTS = format::MAX_LARGE_TILE_ELEMENTS;
// Most anchors of a tile that is interpolated, except along the only axis of a scheme in planes: those of 64 rows.
constexpr uint32_t MOST_ANCHORS = 128;

struct __align__(16) TileScratch {
    union {
        uint32_t integers[padded_length(MOST_ELEMENTS)];
        // An element that is not known yet has the bits of its code.
        Element values[padded_length(MOST_ELEMENTS)];
    };
    uint32_t anchors[padded_length(MOST_ANCHORS)];
    uint32_t warp_sums[THREADS / WARP];
};

// Replaces the elements of each line by prefix sums, from element `from - 1` on. Called by the whole block.
__device__ inline void sum_lines(TileScratch &scratch, uint32_t *integers, const Lines &lines, uint32_t from) {
    if (lines.length <= from) {
        return;
    }
    if (AXES == 1) {
        // The only line: each thread sums a stretch, and adds the sums of those before.
        const uint32_t share = ceil_div(lines.length, THREADS);
        const uint32_t start = max_of(threadIdx.x * share, from - 1),
                       end = min_of(threadIdx.x * share + share, lines.length);
        uint32_t sum = 0;
        for (uint32_t i = start; i < end; ++i) {
            sum += integers[padded(i)];
            integers[padded(i)] = sum;
        }
        uint32_t total;
        const uint32_t before = block_exclusive_sum<THREADS>(sum, scratch.warp_sums, total);
        for (uint32_t i = start; i < end; ++i) {
            integers[padded(i)] += before;
        }
    } else {
        for (uint32_t line = threadIdx.x; line < lines.inner * lines.outer; line += THREADS) {
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
    __syncthreads();
}

#if !LOG
// Reconstructs the elements of an interpolated tile from its codes. Called by the whole block.
__device__ inline void interpolate(TileScratch &scratch, const Work &work, const int32_t *codes, const Target &target,
                                   const Plans &plans) {
    // Axes along which the tile is clipped.
    const Geometry &geometry = target.geometry;
    const uint32_t clipped = (work.nz < geometry.side[0] ? 4 : 0) | (work.ny < geometry.side[1] ? 2 : 0) |
                             (work.nx < geometry.side[2] ? 1 : 0);
    const PlanHead plan = plans.heads[(target.record.scheme - 1) * 8 + clipped];
    const uint16_t *places = plans.places + plan.first_place;
    const uint32_t elements = work.nz * work.ny * work.nx;
    // All codes are read ahead, so that stages do not wait for memory, and stored where the elements will be. Groups
    // and the places of plans have room for whole vectors.
    for (uint32_t i = 4 * threadIdx.x; i < elements; i += 4 * THREADS) {
        const ushort4 four = *reinterpret_cast<const ushort4 *>(places + i);
        const int4 own = *reinterpret_cast<const int4 *>(codes + i);
        scratch.values[padded(four.x)] = stored_code(own.x), scratch.values[padded(four.y)] = stored_code(own.y);
        scratch.values[padded(four.z)] = stored_code(own.z), scratch.values[padded(four.w)] = stored_code(own.w);
    }
    for (uint32_t i = threadIdx.x; i < plan.anchors; i += THREADS) {
        scratch.anchors[padded(i)] = uint32_t(codes[i]);
    }
    __syncthreads();
    integrate(plan.lattice[0], plan.lattice[1], plan.lattice[2], 7,
              [&](const Lines &lines, uint32_t from) { sum_lines(scratch, scratch.anchors, lines, from); });
    if (threadIdx.x == 0) {
        scratch.values[missing_place(MOST_ELEMENTS)] = Element(-0.0);
    }
    const Quantum quantum(target.values);
    for (uint32_t i = threadIdx.x; i < plan.anchors; i += THREADS) {
        const uint32_t integer = scratch.anchors[padded(i)] + uint32_t(work.base);
        scratch.values[padded(places[i])] = unlimited(int32_t(integer), quantum);
    }
    __syncthreads();
    const Element step = step_of(target.values);
    uint32_t begin = 0;
    for (uint32_t number = 0; number < plan.stages; ++number) {
        const PlanStage stage = plans.stages[plan.first_stage + number];
        const uint32_t count = stage.end - begin;
        // The elements of a stage have no neighbors in it.
        for (uint32_t i = threadIdx.x; i < count; i += THREADS) {
            uint32_t place;
            const Element prediction = predict(plans.pairs, stage, count, i, scratch.values, place);
            place = padded(place);
            const int32_t code = code_of(scratch.values[place]);
            // Without a code, the element is the prediction itself, whatever its sign.
            scratch.values[place] = code == 0 ? prediction : product_plus(element_of(code), step, prediction);
        }
        __syncthreads();
        begin = stage.end;
    }
}
#endif

// The bits of a tile's mask or signs.
struct Bitmap {
    const uint32_t *words; // null: the same bit everywhere
    bool everywhere;

    __device__ inline Bitmap(uint32_t kind, const uint8_t *bytes, uint64_t place)
        : words(kind == 2 ? reinterpret_cast<const uint32_t *>(bytes + place) : nullptr), everywhere(kind == 1) {}

    __device__ inline uint32_t at(uint32_t bit) const { return words[bit / 32] >> bit % 32 & 1; }

    // Undoes the exclusive or with the element before along the slowest axis along which there is one.
    __device__ inline bool of(const Work &work, uint32_t z, uint32_t y, uint32_t x) const {
        if (words == nullptr) {
            return everywhere;
        }
        uint32_t bits = 0;
        for (; z > 0; --z) {
            bits ^= at((z * work.ny + y) * work.nx + x);
        }
        for (; y > 0; --y) {
            bits ^= at(y * work.nx + x);
        }
        uint32_t ones = __popc(words[x / 32] << (31 - x % 32));
        for (uint32_t word = 0; word < x / 32; ++word) {
            ones += __popc(words[word]);
        }
        return (bits ^ ones) & 1;
    }
};

// Writes the elements of a tile, which `value(i)` returns, with signs, limits, and fill patterns. Called by the whole
// block.
template <typename Value> __device__ inline void write_tile(const Work &work, const Target &target, Value value) {
    const ValueRange range(target.values);
    const Parsed &parsed = target.parsed;
    const uint64_t entry = uint64_t(target.chunk) * parsed.tiles + work.number;
    const uint64_t first_bitmap = target.chunk * parsed.bitmap_stride;
    const uint32_t mask_kind = meta_mask(work.meta), sign_kind = LOG ? meta_sign(work.meta) : 0;
    const Bitmap mask(mask_kind, parsed.masks, mask_kind == 2 ? first_bitmap + parsed.mask_starts[entry] : 0);
    const Bitmap sign(sign_kind, parsed.signs, sign_kind == 2 ? first_bitmap + parsed.sign_starts[entry] : 0);
    const Element pattern = from_bits(Bits(target.values.patterns[meta_pattern(work.meta)]));
    const uint64_t plane = target.geometry.strides[1], line = target.geometry.strides[2];
    const uint32_t elements = work.nz * work.ny * work.nx;
    for (uint32_t i = threadIdx.x; i < elements; i += THREADS) {
        const uint32_t row = i / work.nx, x = i - row * work.nx, z = row / work.ny, y = row - z * work.ny;
        Element out = value(i);
        if (LOG && sign_kind != 0) {
            const Bits top = Bits(1) << (sizeof(Element) * 8 - 1);
            out = from_bits(Bits(bits_of(out) & ~top | (sign.of(work, z, y, x) ? top : 0)));
        }
        target.out[work.first_element + z * plane + y * line + x] = mask.of(work, z, y, x) ? pattern : range(out);
    }
}

// Reconstructs the elements of a tile that is not constant. Called by the whole block.
__device__ inline void write_coded(TileScratch &scratch, const Work &work, const Target &target, const Tokens &tokens) {
    const int32_t *codes = tokens.codes + (uint64_t(work.first_group) << target.geometry.token_group_log2);
    const uint32_t predictor = predictor_of(work.meta, target.record);
#if !LOG
    if (predictor == format::INTERPOLATION) {
        interpolate(scratch, work, codes, target, tokens.plans);
        write_tile(work, target, [&](uint32_t element) { return scratch.values[padded(element)]; });
        return;
    }
#endif
    for (uint32_t i = threadIdx.x; i < work.nz * work.ny * work.nx; i += THREADS) {
        scratch.integers[padded(i)] = uint32_t(codes[i]);
    }
    __syncthreads();
    integrate(work.nz, work.ny, work.nx, predictor,
              [&](const Lines &lines, uint32_t from) { sum_lines(scratch, scratch.integers, lines, from); });
    const Quantum quantum(target.values);
    write_tile(work, target, [&](uint32_t element) {
        return unlimited(int32_t(scratch.integers[padded(element)] + uint32_t(work.base)), quantum);
    });
}

// Reconstructs the requested tiles of chunks with token codebooks. `codes` has those of `slots` groups of each chunk.
// The grid is (tiles of a chunk, chunks).
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    reconstruct_large_tiles(const uint8_t *input, const __grid_constant__ Geometry geometry,
                            const __grid_constant__ Parsed parsed, const __grid_constant__ Values values,
                            const __grid_constant__ Request request, const int32_t *codes, uint32_t slots,
                            const __grid_constant__ Plans plans, Element *out) {
    __shared__ TileScratch scratch;
    const uint32_t chunk = blockIdx.y, number = blockIdx.x;
    const ParsedChunk &record = parsed.chunks[chunk];
    const uint64_t chunk_number = request.first_chunk + chunk;
    const uint64_t tile = geometry.first_tile(chunk_number) + number;
    if (record.status != 0 || record.kind != KIND_TOKEN_CODES || tile >= geometry.first_tile(chunk_number + 1) ||
        tile < request.tiles_start || tile >= request.tiles_end) {
        return;
    }
    const ChunkStart start(geometry, chunk_number);
    Work work = work_of(geometry, request, start, number, true, find_tile(parsed, chunk, number, true));
    const Target target{input, parsed, record, values, geometry, chunk, false, out};
    if (meta_constant(work.meta)) {
        const Element flat = unlimited(work.base, Quantum(values));
        write_tile(work, target, [&](uint32_t) { return flat; });
    } else {
        write_coded(scratch, work, target, {codes + (uint64_t(chunk) * slots << geometry.token_group_log2), plans});
    }
    // Verbatim values replace elements that other threads have written.
    __syncthreads();
    if (record.verbatim != 0 && warp_id() == 0) {
        work.wanted = lane_id() == 0;
        write_verbatim(work, target);
    }
}
