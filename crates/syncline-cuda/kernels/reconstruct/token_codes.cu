// Reconstructs elements of chunks with token codebooks from decoded codes: each warp sums residuals or interpolates in
// shared memory. A warp has several tiles: those that are interpolated by the same plan read it once.
//
// THREADS          threads of a block
// RESIDENT_BLOCKS  resident blocks per multiprocessor, for the allocation of registers
// WARP_TILES       tiles of a warp
// and the constants of reconstruct/work.cuh
#include "device/warp.cuh"
#include "predict/interpolation.cuh"
#include "reconstruct/tokens.cuh"

using format::TOKEN_GROUP;

// Most anchors of a tile that is interpolated, except along the only axis of a scheme in planes: those of 32 rows.
constexpr uint32_t MOST_ANCHORS = 64;

// Shared memory for a tile.
struct __align__(16) TileScratch {
    union {
        uint32_t integers[padded_length(TILE_ELEMENTS)];
        // An element that is not known yet has the bits of its code.
        Element values[padded_length(TILE_ELEMENTS)];
    };
    uint32_t anchors[padded_length(MOST_ANCHORS)];
};

// Replaces the elements of each line by prefix sums, from element `from - 1` on, in `tiles` tiles whose integers are
// `distance` apart. Called by the whole warp.
__device__ inline void sum_lines(uint32_t *integers, uint32_t tiles, uint32_t distance, const Lines &lines,
                                 uint32_t from) {
    if (lines.length <= from) {
        return;
    }
    if (AXES == 1) {
        // The only line: each lane sums a stretch, and adds the sums of those before.
        const uint32_t start = lane_id() * WARP, end = min_of(start + WARP, lines.length);
        for (uint32_t tile = 0; tile < tiles; ++tile, integers += distance) {
            uint32_t sum = 0;
            for (uint32_t i = max_of(start, from - 1); i < end; ++i) {
                sum += integers[padded(i)];
                integers[padded(i)] = sum;
            }
            const uint32_t before = warp_exclusive_sum(sum);
            for (uint32_t i = max_of(start, from - 1); i < end; ++i) {
                integers[padded(i)] += before;
            }
        }
    } else {
        const uint32_t count = lines.inner * lines.outer;
        for (uint32_t number = lane_id(); number < count * tiles; number += WARP) {
            const uint32_t tile = number / count, line = number - tile * count;
            const uint32_t outer = line / lines.inner, inner = line - outer * lines.inner;
            uint32_t place = inner * lines.inner_stride + outer * lines.outer_stride + (from - 1) * lines.stride;
            uint32_t *own = integers + tile * distance;
            uint32_t sum = own[padded(place)];
            for (uint32_t i = from; i < lines.length; ++i) {
                place += lines.stride;
                sum += own[padded(place)];
                own[padded(place)] = sum;
            }
        }
    }
    __syncwarp();
}

// Inverse of the differences of a predictor in `tiles` tiles whose integers are `distance` apart. Called by the whole
// warp.
__device__ inline void integrate(uint32_t *integers, uint32_t tiles, uint32_t distance, uint32_t nz, uint32_t ny,
                                 uint32_t nx, uint32_t predictor) {
    integrate(nz, ny, nx, predictor,
              [&](const Lines &lines, uint32_t from) { sum_lines(integers, tiles, distance, lines, from); });
}

#if !LOG
// Tiles that are interpolated by one plan.
template <uint32_t TILES> struct Interpolated {
    const int32_t *codes[TILES];
    uint32_t bases[TILES];
};

// Reconstructs the elements of interpolated tiles from their codes. Called by the whole warp.
template <uint32_t TILES>
__device__ inline void interpolate(TileScratch *scratch, const PlanHead &plan, const Plans &plans,
                                   const Interpolated<TILES> &tiles, uint32_t elements, const Values &values) {
    const uint16_t *places = plans.places + plan.first_place;
    // All codes are read ahead, so that stages do not wait for memory, and stored where the elements will be. Groups
    // and the places of plans have room for whole vectors.
    for (uint32_t i = 4 * lane_id(); i < elements; i += 4 * WARP) {
        const ushort4 four = *reinterpret_cast<const ushort4 *>(places + i);
#pragma unroll
        for (uint32_t tile = 0; tile < TILES; ++tile) {
            const int4 codes = *reinterpret_cast<const int4 *>(tiles.codes[tile] + i);
            Element *to = scratch[tile].values;
            to[padded(four.x)] = stored_code(codes.x), to[padded(four.y)] = stored_code(codes.y);
            to[padded(four.z)] = stored_code(codes.z), to[padded(four.w)] = stored_code(codes.w);
        }
    }
    for (uint32_t i = lane_id(); i < plan.anchors; i += WARP) {
#pragma unroll
        for (uint32_t tile = 0; tile < TILES; ++tile) {
            scratch[tile].anchors[padded(i)] = uint32_t(tiles.codes[tile][i]);
        }
    }
    __syncwarp();
    integrate(scratch[0].anchors, TILES, sizeof(TileScratch) / 4, plan.lattice[0], plan.lattice[1], plan.lattice[2], 7);
    if (lane_id() < TILES) {
        scratch[lane_id()].values[missing_place(TILE_ELEMENTS)] = Element(-0.0);
    }
    const Quantum quantum(values);
    for (uint32_t i = lane_id(); i < plan.anchors; i += WARP) {
        const uint32_t place = padded(places[i]);
#pragma unroll
        for (uint32_t tile = 0; tile < TILES; ++tile) {
            const uint32_t integer = scratch[tile].anchors[padded(i)] + tiles.bases[tile];
            scratch[tile].values[place] = unlimited(int32_t(integer), quantum);
        }
    }
    __syncwarp();
    const Element step = step_of(values);
    const Element *from[TILES];
#pragma unroll
    for (uint32_t tile = 0; tile < TILES; ++tile) {
        from[tile] = scratch[tile].values;
    }
    uint32_t begin = 0;
    for (uint32_t number = 0; number < plan.stages; ++number) {
        const PlanStage stage = plans.stages[plan.first_stage + number];
        const uint32_t count = stage.end - begin;
        Pair<Element> ahead(plans.pairs, stage.first_pair + lane_id());
        // The elements of a stage have no neighbors in it.
        for (uint32_t i = lane_id(); i < count; i += WARP) {
            uint32_t place;
            Element predictions[TILES];
            predict(plans.pairs, stage, count, i, from, ahead, place, predictions);
            place = padded(place);
#pragma unroll
            for (uint32_t tile = 0; tile < TILES; ++tile) {
                const int32_t code = code_of(scratch[tile].values[place]);
                // Without a code, the element is the prediction itself, whatever its sign.
                scratch[tile].values[place] =
                    code == 0 ? predictions[tile] : product_plus(element_of(code), step, predictions[tile]);
            }
        }
        __syncwarp();
        begin = stage.end;
    }
}
#endif

// Writes the elements of a tile, which `value(i)` returns, with signs, limits, and fill patterns. Called by the whole
// warp.
template <typename Value> __device__ inline void write_tile(const Work &work, const Target &target, Value value) {
    const ValueRange range(target.values);
    if (AXES == 3 && work.is_regular() && work.is_plain()) {
        // Lanes have adjacent elements, so that stores fill sectors.
        constexpr uint32_t ROWS = WARP / SIDE;
        const uint64_t row = target.geometry.strides[2];
        Element *to = target.out + work.first_element + lane_id() / SIDE * row + lane_id() % SIDE;
#pragma unroll 4
        for (uint32_t z = 0; z < work.nz; ++z, to += target.stride()) {
#pragma unroll
            for (uint32_t y = 0; y < SIDE; y += ROWS) {
                to[y * row] = range(value(z * STEP + y * SIDE + lane_id()));
            }
        }
        return;
    }
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
                to[i] = masked >> i & 1 ? pattern : range(out);
            }
        }
        to += target.stride();
    }
}

// Reconstructs the tiles of these lanes, whose codes are residuals, by summing them. Called by the whole warp.
__device__ inline void write_summed(TileScratch *scratch, const Work &own, uint32_t lanes, const Target &target,
                                    const Tokens &tokens) {
    for (uint32_t left = lanes; left != 0; left &= left - 1) {
        const uint32_t tile = __ffs(left) - 1;
        const uint32_t first_group = __shfl_sync(ALL_LANES, own.first_group, tile);
        const uint32_t elements = __shfl_sync(ALL_LANES, own.nz * own.ny * own.nx, tile);
        const int32_t *codes = tokens.codes + uint64_t(first_group) * TOKEN_GROUP;
        // Groups have room for whole vectors.
        for (uint32_t i = 4 * lane_id(); i < elements; i += 4 * WARP) {
            const int4 four = *reinterpret_cast<const int4 *>(codes + i);
            uint32_t *to = &scratch[tile].integers[padded(i)];
            to[0] = uint32_t(four.x), to[1] = uint32_t(four.y), to[2] = uint32_t(four.z), to[3] = uint32_t(four.w);
        }
    }
    __syncwarp();
    const Quantum quantum(target.values);
    for (uint32_t left = lanes; left != 0; left &= left - 1) {
        const uint32_t tile = __ffs(left) - 1;
        const Work work = own.of(tile);
        uint32_t *integers = scratch[tile].integers;
        integrate(integers, 1, 0, work.nz, work.ny, work.nx, predictor_of(work.meta, target.record));
        write_tile(work, target, [&](uint32_t element) {
            return unlimited(int32_t(integers[padded(element)] + uint32_t(work.base)), quantum);
        });
    }
    __syncwarp();
}

#if !LOG
// Interpolates TILES tiles, of which number `i` is that of lane `sources(i)`.
template <uint32_t TILES, typename Sources>
__device__ inline void interpolate_tiles(TileScratch *scratch, const Work &own, const PlanHead &plan, uint32_t elements,
                                         const Target &target, const Tokens &tokens, Sources sources) {
    Interpolated<TILES> tiles;
#pragma unroll
    for (uint32_t i = 0; i < TILES; ++i) {
        const uint32_t first_group = __shfl_sync(ALL_LANES, own.first_group, sources(i));
        tiles.codes[i] = tokens.codes + uint64_t(first_group) * TOKEN_GROUP;
        tiles.bases[i] = uint32_t(__shfl_sync(ALL_LANES, own.base, sources(i)));
    }
    interpolate(scratch, plan, tokens.plans, tiles, elements, target.values);
}

// Reconstructs the tiles of these lanes, which are interpolated. Called by the whole warp.
__device__ inline void write_interpolated(TileScratch *scratch, const Work &own, uint32_t lanes, const Target &target,
                                          const Tokens &tokens) {
    // Axes along which the tile is clipped.
    const Geometry &geometry = target.geometry;
    const uint32_t clipped =
        (own.nz < geometry.side[0] ? 4 : 0) | (own.ny < geometry.side[1] ? 2 : 0) | (own.nx < geometry.side[2] ? 1 : 0);
    while (lanes != 0) {
        const uint32_t first = __ffs(lanes) - 1, common = __shfl_sync(ALL_LANES, clipped, first);
        const uint32_t elements = __shfl_sync(ALL_LANES, own.nz * own.ny * own.nx, first);
        const uint32_t members = lanes & __ballot_sync(ALL_LANES, clipped == common);
        const PlanHead &plan = tokens.plans.heads[(target.record.scheme - 1) * 8 + common];
        if (members == 1u << first) {
            interpolate_tiles<1>(scratch + first, own, plan, elements, target, tokens, [&](uint32_t) { return first; });
        } else {
            // The slots of other tiles are free, and receive the first tile as well.
            interpolate_tiles<WARP_TILES>(scratch, own, plan, elements, target, tokens,
                                          [&](uint32_t i) { return members >> i & 1 ? i : first; });
        }
        for (uint32_t left = members; left != 0; left &= left - 1) {
            const uint32_t tile = __ffs(left) - 1;
            const Element *values = scratch[tile].values;
            write_tile(own.of(tile), target, [&](uint32_t element) { return values[padded(element)]; });
        }
        __syncwarp();
        lanes &= ~members;
    }
}
#endif

// Reconstructs the requested tiles of chunks with token codebooks. `codes` has TOKEN_GROUP codes for each of `slots`
// groups of each chunk. The grid is (tiles of a chunk over those of a block, chunks).
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    reconstruct_token_codes(const uint8_t *input, const __grid_constant__ Geometry geometry,
                            const __grid_constant__ Parsed parsed, const __grid_constant__ Values values,
                            const __grid_constant__ Request request, const int32_t *codes, uint32_t slots,
                            const __grid_constant__ Plans plans, Element *out) {
    __shared__ TileScratch scratches[THREADS / WARP][WARP_TILES];
    const uint32_t chunk = blockIdx.y, first = (blockIdx.x * (THREADS / WARP) + warp_id()) * WARP_TILES;
    const ParsedChunk &record = parsed.chunks[chunk];
    const uint64_t chunk_number = request.first_chunk + chunk, first_tile = geometry.first_tile(chunk_number);
    const uint32_t tiles = uint32_t(geometry.first_tile(chunk_number + 1) - first_tile);
    if (record.status != 0 || record.kind != KIND_TOKEN_CODES || first >= tiles) {
        return;
    }
    // The first lanes have a tile each.
    const uint32_t number = min_of(first + min_of<uint32_t>(lane_id(), WARP_TILES - 1), tiles - 1);
    const uint64_t tile = first_tile + number;
    const bool wanted =
        lane_id() < WARP_TILES && first + lane_id() < tiles && tile >= request.tiles_start && tile < request.tiles_end;
    const ChunkStart start(geometry, chunk_number);
    const Work own = work_of(geometry, request, start, number, wanted, find_tile(parsed, chunk, number, wanted));
    const Target target{input, parsed, record, values, geometry, chunk, false, out};
    const Tokens tokens{codes + uint64_t(chunk) * slots * TOKEN_GROUP, plans};
    TileScratch *scratch = scratches[warp_id()];
    const bool constant = meta_constant(own.meta);
    const bool interpolated = !constant && predictor_of(own.meta, record) == format::INTERPOLATION;
    const Quantum quantum(values);
    for (uint32_t left = __ballot_sync(ALL_LANES, wanted && constant); left != 0; left &= left - 1) {
        const Work work = own.of(__ffs(left) - 1);
        const Element flat = unlimited(work.base, quantum);
        write_tile(work, target, [&](uint32_t) { return flat; });
    }
    const uint32_t summed = __ballot_sync(ALL_LANES, wanted && !constant && !interpolated);
    if (summed != 0) {
        write_summed(scratch, own, summed, target, tokens);
    }
#if !LOG
    const uint32_t to_interpolate = __ballot_sync(ALL_LANES, wanted && interpolated);
    if (to_interpolate != 0) {
        write_interpolated(scratch, own, to_interpolate, target, tokens);
    }
#endif
    __syncwarp();
    if (record.verbatim != 0) {
        write_verbatim(own, target);
    }
}
