// Decodes any tiles, one warp a tile: strips are read by lanes side by side to shared memory, where the tile is
// reconstructed. This is the simple kernel, which takes every kind of tile.
//
// ELEMENT_BYTES  4: f32, 8: f64
// LOGARITHM      1 if integers are logarithms, whose signs are stored separately
// TILE_ELEMENTS  elements of an unclipped tile
// WARPS          warps of a block
// MEMORY_BYTES   bytes of shared memory of a warp
#include "geometry.cuh"
#include "device/sync.cuh"
#include "container/parsed.cuh"
#include "decode/values.cuh"
#include "predict/integrate.cuh"
#include "predict/plans.cuh"
#include "strips/read.cuh"

// Bits of an element's flags.
constexpr uint32_t MASKED = 1, NEGATIVE = 2;

// Shared memory of a warp. Codes are as in their strips, then integers in raster order.
struct TileMemory {
#if !LOGARITHM
    Element values[TILE_ELEMENTS];
#endif
    int32_t codes[TILE_ELEMENTS];
    int32_t lattice[MOST_ANCHORS];
    uint8_t flags[TILE_ELEMENTS];
};

static_assert(sizeof(TileMemory) == MEMORY_BYTES, "the launcher knows the size");

// Everything that a warp knows of its tile.
struct OwnTile {
    const Parsed &parsed;
    const ParsedChunk &record;
    const TilePlace place;
    const Codewords codewords;
    const uint32_t *starts;
    Extents extents;
    uint32_t chunk; // in the batch
    uint32_t elements;

    // Reads `count` codes, whose strips begin with number `strip`, to `codes`. Returns whether they are valid. Called
    // by the whole warp.
    __device__ inline bool read(uint32_t strip, uint32_t codebook, uint32_t count, int32_t *codes) const {
        for (uint32_t i = lane_id(); i < count; i += WARP) {
            codes[i] = 0;
        }
        __syncwarp();
        const uint32_t *table = strip_table(parsed, chunk, codebook);
        bool is_good = true;
        for (uint32_t at = lane_id() * strips::STRIP_LEN; at < count; at += WARP * strips::STRIP_LEN) {
            const uint32_t *start = starts + strip + at / strips::STRIP_LEN;
            const uint32_t room = min_of<uint32_t>(count - at, strips::STRIP_LEN);
            is_good &= read_strip(codewords, table, start[0], start[1], room,
                                  [&](uint32_t code, int32_t value) { codes[at + code] = value; });
        }
        return __all_sync(ALL_LANES, is_good);
    }
};

// Sets a flag of elements by a bitmap whose strips begin with number `strip`: each bit is the exclusive or with that of
// a neighbor. Returns whether the bitmap is valid. Called by the whole warp.
__device__ inline bool read_bitmap(const OwnTile &tile, uint32_t strip, uint32_t flag, TileMemory &memory) {
    const uint32_t count = ceil_div(tile.elements, 4);
    bool is_good = tile.read(strip, tile.record.codebooks - 1, count, memory.codes);
    for (uint32_t i = lane_id(); i < tile.elements && is_good; i += WARP) {
        const int32_t code = memory.codes[i / 4];
        is_good = code >= -8 && code < 8;
        memory.flags[i] |= code >> i % 4 & 1 ? flag : 0;
    }
    is_good = __all_sync(ALL_LANES, is_good);
    const uint32_t nz = tile.extents.of[0], ny = tile.extents.of[1], nx = tile.extents.of[2];
    // Along the first row, then from row to row of the first plane, then from plane to plane.
    uint32_t carry = 0;
    for (uint32_t window = 0; window < nx; window += WARP) {
        const uint32_t x = window + lane_id();
        const uint32_t set = __ballot_sync(ALL_LANES, x < nx && (memory.flags[x] & flag) != 0);
        const uint32_t parity = (carry + __popc(set & (ALL_LANES >> (WARP - 1 - lane_id())))) & 1;
        if (x < nx) {
            memory.flags[x] = memory.flags[x] & ~flag | (parity != 0 ? flag : 0);
        }
        carry += __popc(set);
    }
    __syncwarp();
    for (uint32_t x = lane_id(); x < nx; x += WARP) {
        for (uint32_t at = x + nx; at < ny * nx; at += nx) {
            memory.flags[at] ^= memory.flags[at - nx] & flag;
        }
    }
    __syncwarp();
    const uint32_t plane = ny * nx;
    for (uint32_t i = lane_id(); i < plane; i += WARP) {
        for (uint32_t z = 1, at = i + plane; z < nz; ++z, at += plane) {
            memory.flags[at] ^= memory.flags[at - plane] & flag;
        }
    }
    __syncwarp();
    return is_good;
}

#if !LOGARITHM
// Interpolates the elements of a tile from its codes. Called by the whole warp.
__device__ inline void interpolate(const OwnTile &tile, const Plans &plans, const PlanHead &plan, const Values &values,
                                   TileMemory &memory) {
    const uint16_t *anchors = plans.places + plan.first_anchor, *anchor_codes = plans.places + plan.first_anchor_code;
    for (uint32_t i = lane_id(); i < plan.anchors; i += WARP) {
        memory.lattice[i] = memory.codes[anchor_codes[i]];
    }
    __syncwarp();
    constexpr uint32_t ALL_AXES = 7;
    integrate(memory.lattice, Extents{{plan.lattice[0], plan.lattice[1], plan.lattice[2]}}, ALL_AXES);
    for (uint32_t i = lane_id(); i < plan.anchors; i += WARP) {
        const uint32_t integer = uint32_t(memory.lattice[i]) + uint32_t(tile.place.base);
        memory.values[anchors[i]] = value_of(int32_t(integer), values);
    }
    __syncwarp();
    for (uint32_t number = 0; number < plan.passes; ++number) {
        const PlanPass pass = plans.passes[plan.first_pass + number];
        const uint16_t *lines = plans.places + pass.first_line, *codes = plans.places + pass.first_code;
        const PlanStep<Element> *steps = steps_of<Element>(plans, pass);
        for (uint32_t i = lane_id(); i < pass.lines * pass.points; i += WARP) {
            const uint32_t line = i / pass.points, start = lines[line];
            const PlanStep<Element> &step = steps[i - line * pass.points];
            const Element prediction =
                predicted(step, plan.is_cubic != 0, start, [&](uint32_t place) { return memory.values[place]; });
            memory.values[start + step.place] = corrected(prediction, memory.codes[codes[i]], values);
        }
        __syncwarp();
    }
}
#endif

// Returns the place in the array of element `i` of a tile, relative to the tile's first element.
__device__ inline uint64_t place_of(uint32_t i, const Extents &extents, const Geometry &geometry) {
    const uint32_t row = i / extents.of[2], z = row / extents.of[1];
    return z * geometry.strides[1] + (row - z * extents.of[1]) * geometry.strides[2] + (i - row * extents.of[2]);
}

// Copies the elements of a tile of a raw chunk. Called by the whole warp.
__device__ inline void copy_raw(const Bits *from, const Extents &extents, const Geometry &geometry, Bits *to) {
    for (uint32_t i = lane_id(); i < extents.elements(); i += WARP) {
        to[place_of(i, extents, geometry)] = from[i];
    }
}

// What the launch decodes.
struct Work {
    const uint8_t *input;
    const Geometry &geometry;
    const Parsed &parsed;
    const Values &values;
    const Plans &plans;
    const Request &request;
    Bits *output;
};

// Decodes tile `number` of the batch. Called by the whole warp.
__device__ inline void decode_tile(uint32_t number, const Work &work, TileMemory &memory) {
    const auto &[input, geometry, parsed, values, plans, request, output] = work;
    const uint64_t tile_number = request.first_tile + number;
    if (tile_number < request.tiles_start || tile_number >= request.tiles_end) {
        return;
    }
    const uint32_t chunk = number / parsed.tiles;
    if (!chunk_is_valid(parsed, chunk)) {
        return;
    }
    const ParsedChunk &record = parsed.chunks[chunk];
    const Tile tile = geometry.tile(tile_number);
    const Extents extents{{tile.nz, tile.ny, tile.nx}};
    const uint32_t elements = extents.elements();
    const uint64_t chunk_start = geometry.elements_before(request.first_tile + uint64_t(chunk) * parsed.tiles);
    const uint32_t position = uint32_t(tile.elements_before - chunk_start);
    Bits *to = output + (tile.first_element - request.first_element);
    if (record.kind == KIND_RAW) {
        copy_raw(reinterpret_cast<const Bits *>(input + record.raw) + position, extents, geometry, to);
        return;
    }
    const OwnTile own{parsed,
                      record,
                      parsed.places[number],
                      {reinterpret_cast<const uint32_t *>(input + record.words), record.word_count},
                      parsed.starts + uint64_t(chunk) * parsed.starts_stride,
                      extents,
                      chunk,
                      elements};
    const uint32_t meta = own.place.meta, bitmap_strips = ceil_div(elements, strips::BITS_OF_BITMAP_STRIP);
    const uint32_t own_sign = LOGARITHM ? meta_sign(meta) : 0;
    for (uint32_t i = lane_id(); i < elements; i += WARP) {
        memory.flags[i] = (meta_mask(meta) == 1 ? MASKED : 0) | (own_sign == 1 ? NEGATIVE : 0);
    }
    __syncwarp();
    uint32_t strip = own.place.first_strip;
    bool is_good = true;
    if (meta_mask(meta) == 2) {
        is_good &= read_bitmap(own, strip, MASKED, memory);
        strip += bitmap_strips;
    }
    if (meta_sign(meta) == 2) {
        // Linear integers have signs of their own.
        is_good &= own_sign != 2 || read_bitmap(own, strip, NEGATIVE, memory);
        strip += bitmap_strips;
    }
    const bool is_interpolated = meta_predictor(meta) == strips::INTERPOLATED;
    if (!meta_constant(meta)) {
        is_good &= own.read(strip, meta_class(meta), elements, memory.codes);
        __syncwarp();
        if (!is_interpolated) {
            integrate(memory.codes, extents, record.predictors[meta_predictor(meta)]);
        }
    }
    if (!is_good) {
        if (lane_id() == 0) {
            atomicOr(&parsed.problems[chunk * PROBLEM_WORDS + DECODE_PROBLEM], PROBLEM_CODEWORDS);
        }
        return;
    }
#if !LOGARITHM
    if (is_interpolated) {
        interpolate(own, plans, plan_of(plans, geometry, tile, record.scheme), values, memory);
    }
#endif
    const Bits pattern = Bits(values.patterns[meta_pattern(meta)]);
    for (uint32_t i = lane_id(); i < elements; i += WARP) {
        Element value;
#if !LOGARITHM
        if (is_interpolated) {
            value = memory.values[i];
        } else
#endif
        {
            const uint32_t integer = meta_constant(meta) ? 0 : uint32_t(memory.codes[i]);
            value = value_of(int32_t(integer + uint32_t(own.place.base)), values);
        }
        const uint32_t flags = memory.flags[i];
        // Magnitudes have no sign.
        value = limited(LOGARITHM && (flags & NEGATIVE) != 0 ? -value : value, values);
        to[place_of(i, extents, geometry)] = (flags & MASKED) != 0 ? pattern : to_bits(value);
    }
    if (record.verbatim > 0) {
        __syncwarp();
        const uint32_t *positions = reinterpret_cast<const uint32_t *>(input + record.verbatim_positions);
        const Bits *elements_of_list = reinterpret_cast<const Bits *>(input + record.verbatim_values);
        for (uint32_t i = own.place.verbatim + lane_id(); i < record.verbatim; i += WARP) {
            const uint32_t place = positions[i] - position;
            if (place >= elements) {
                break;
            }
            to[place_of(place, extents, geometry)] = elements_of_list[i];
        }
    }
}

extern "C" __global__ void __launch_bounds__(WARPS *WARP)
    decode_any(const uint8_t *input, const __grid_constant__ Geometry geometry, const __grid_constant__ Parsed parsed,
               const __grid_constant__ Values values, const __grid_constant__ Plans plans,
               const __grid_constant__ Request request, Bits *output) {
    extern __shared__ __align__(16) uint8_t shared[];
    launch_dependents_and_wait();
    TileMemory &memory = reinterpret_cast<TileMemory *>(shared)[warp_id()];
    const Work work{input, geometry, parsed, values, plans, request, output};
    // All tiles of the batch, or those that another kernel has left over.
    const uint32_t count = request.only_listed != 0 ? parsed.listed[0] : request.tiles;
    for (uint32_t i = blockIdx.x * WARPS + warp_id(); i < count; i += gridDim.x * WARPS) {
        decode_tile(request.only_listed != 0 ? parsed.listed[1 + i] : i, work, memory);
        __syncwarp();
    }
}
