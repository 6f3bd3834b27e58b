// Decodes any tiles. A warp has a few at a time, whose strips its lanes decode side by side to shared memory; there it
// reconstructs tile after tile. This is the simple kernel, which takes every kind of tile.
//
// LOGARITHM       1 if integers are logarithms, whose signs are stored separately
// TILE_ELEMENTS   elements of an unclipped tile
// STRIP_CAPACITY  strips that a warp has room for, at least those of a tile
// WARPS           warps of a block
// MEMORY_BYTES    bytes of shared memory of a warp
// See also quantize/stored.cuh.
#include "geometry.cuh"
#include "device/sync.cuh"
#include "container/parsed.cuh"
#include "decode/values.cuh"
#include "predict/integrate.cuh"
#include "predict/plans.cuh"
#include "strips/read.cuh"

// Bits of an element's flags.
constexpr uint32_t MASKED = 1, NEGATIVE = 2;
// Codes from strip to strip, so that lanes have banks of their own.
constexpr uint32_t SLOT_CODES = strips::STRIP_LEN + 1;
static_assert(STRIP_CAPACITY <= 64, "a bit of a number for each slot");

// Shared memory of a warp.
struct WarpMemory {
    union {
#if !LOGARITHM
        Element values[TILE_ELEMENTS]; // of an interpolated tile
#endif
        int32_t integers[TILE_ELEMENTS]; // of another tile
    };
    int32_t codes[STRIP_CAPACITY * SLOT_CODES];
    int32_t lattice[MOST_ANCHORS];
    uint32_t tiles[WARP];           // numbers of tiles in the batch
    uint8_t first_slots[WARP];      // of tiles
    uint8_t owners[STRIP_CAPACITY]; // the tiles of slots
    uint8_t flags[TILE_ELEMENTS];
};
static_assert(sizeof(WarpMemory) == MEMORY_BYTES, "the launcher knows the size");

// What the launch decodes.
struct Work {
    const uint8_t *input;
    const Geometry &geometry;
    const Parsed &parsed;
    const Values &values;
    const Plans &plans;
    const LaunchArguments &arguments;
    StoredBits *output;
};

// A tile of a batch whose chunk is valid.
struct OwnTile {
    const uint32_t chunk; // in the batch
    const ParsedChunk &record;
    const TilePlace place;
    const Tile tile;
    const Extents extents;
    const uint32_t elements;

    __device__ inline OwnTile(const Work &work, uint32_t number)
        : chunk(number / work.parsed.tiles), record(work.parsed.chunks[chunk]), place(work.parsed.places[number]),
          tile(work.geometry.tile(work.arguments.first_tile + number)), extents{{tile.nz, tile.ny, tile.nx}},
          elements(extents.elements()) {}

    // Strips of a bitmap.
    __device__ inline uint32_t bitmap_strips() const { return ceil_div(elements, strips::BITS_OF_BITMAP_STRIP); }
    // The first strip of codes: those of bitmaps are before.
    __device__ inline uint32_t first_code_strip() const { return tile_bitmaps(place.info) * bitmap_strips(); }
    __device__ inline uint32_t strips() const {
        const uint32_t of_codes = tile_is_constant(place.info) ? 0 : ceil_div(elements, strips::STRIP_LEN);
        return record.kind == KIND_RAW ? 0 : first_code_strip() + of_codes;
    }
};

// Returns where code `i` of a tile is, relative to its first slot.
__device__ inline uint32_t code_place(uint32_t i) { return i / strips::STRIP_LEN * SLOT_CODES + i % strips::STRIP_LEN; }

// Reads strip `number` of a tile to `codes`, which are 0. Returns whether it is valid.
__device__ inline bool read(const Work &work, const OwnTile &tile, uint32_t number, int32_t *codes) {
    const uint32_t first_code_strip = tile.first_code_strip(), bitmap_strips = tile.bitmap_strips();
    const bool is_bitmap = number < first_code_strip;
    const uint32_t codes_of_tile = is_bitmap ? ceil_div(tile.elements, 4) : tile.elements;
    const uint32_t strip = is_bitmap ? number % bitmap_strips : number - first_code_strip;
    const uint32_t room = min_of<uint32_t>(codes_of_tile - strip * strips::STRIP_LEN, strips::STRIP_LEN);
    const uint32_t codebook = is_bitmap ? tile.record.codebooks - 1 : tile_class(tile.place.info);
    const Codewords codewords{reinterpret_cast<const uint32_t *>(work.input + tile.record.words),
                              tile.record.word_count};
    const uint32_t *start =
        work.parsed.starts + uint64_t(tile.chunk) * work.parsed.starts_stride + tile.place.first_strip + number;
    return read_strip(codewords, strip_table(work.parsed, tile.chunk, codebook), start[0], start[1], room,
                      [&](uint32_t place, int32_t value) { codes[place] = value; });
}

// Reads the strips of the first `used` slots, which have owners. Returns the slots of strips that are not valid, as
// bits. Called by the whole warp.
__device__ inline uint64_t read_slots(const Work &work, uint32_t used, WarpMemory &memory) {
    for (uint32_t i = lane_id(); i < used * SLOT_CODES; i += WARP) {
        memory.codes[i] = 0;
    }
    __syncwarp();
    uint64_t bad = 0;
    for (uint32_t window = 0; window < used; window += WARP) {
        const uint32_t slot = window + lane_id();
        bool is_good = true;
        if (slot < used) {
            const uint32_t owner = memory.owners[slot];
            const OwnTile tile(work, memory.tiles[owner]);
            is_good = read(work, tile, slot - memory.first_slots[owner], memory.codes + slot * SLOT_CODES);
        }
        bad |= uint64_t(__ballot_sync(ALL_LANES, !is_good)) << window;
    }
    __syncwarp();
    return bad;
}

// Sets a flag of elements by the codes of a bitmap: each bit is the exclusive or with that of a neighbor. Returns
// whether the bitmap is valid. Called by the whole warp.
__device__ inline bool set_flags(const OwnTile &tile, const int32_t *codes, uint32_t flag, WarpMemory &memory) {
    bool is_good = true;
    for (uint32_t i = lane_id(); i < tile.elements && is_good; i += WARP) {
        const int32_t code = codes[code_place(i / 4)];
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
                                   const int32_t *tile_codes, WarpMemory &memory) {
    const uint16_t *anchors = plans.places + plan.first_anchor, *anchor_codes = plans.places + plan.first_anchor_code;
    for (uint32_t i = lane_id(); i < plan.anchors; i += WARP) {
        memory.lattice[i] = tile_codes[code_place(anchor_codes[i])];
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
            memory.values[start + step.place] = corrected(prediction, tile_codes[code_place(codes[i])], values);
        }
        __syncwarp();
    }
}
#endif

// Where the elements of a tile are in the array, relative to the tile's first element.
struct ElementPlaces {
    const uint64_t plane_stride, row_stride;
    const uint32_t ny, nx;
    // Reciprocals, exact for all elements of a tile: division takes twenty instructions.
    const uint32_t by_ny, by_nx;

    __device__ inline ElementPlaces(const Extents &extents, const Geometry &geometry)
        : plane_stride(geometry.strides[1]), row_stride(geometry.strides[2]), ny(extents.of[1]), nx(extents.of[2]),
          by_ny((1u << 31) / ny + 1), by_nx((1u << 31) / nx + 1) {}

    __device__ inline uint64_t operator()(uint32_t i) const {
        const uint32_t row = __umulhi(2 * i, by_nx), z = __umulhi(2 * row, by_ny);
        return z * plane_stride + (row - z * ny) * row_stride + (i - row * nx);
    }
};

// Copies the elements of a tile of a raw chunk. Called by the whole warp.
__device__ inline void copy_raw(const StoredBits *from, const ElementPlaces &places, uint32_t elements,
                                StoredBits *to) {
    for (uint32_t i = lane_id(); i < elements; i += WARP) {
        to[places(i)] = from[i];
    }
}

// Decodes tile `number` of the batch, whose codes are in shared memory from `codes` on. Returns whether its bitmaps are
// valid. Called by the whole warp.
__device__ inline bool reconstruct(const Work &work, const OwnTile &own, const int32_t *codes, WarpMemory &memory) {
    const auto &[input, geometry, parsed, values, plans, arguments, output] = work;
    const Extents &extents = own.extents;
    const uint32_t elements = own.elements, info = own.place.info;
    const uint64_t chunk_start = geometry.elements_before(arguments.first_tile + uint64_t(own.chunk) * parsed.tiles);
    const uint32_t position = uint32_t(own.tile.elements_before - chunk_start);
    StoredBits *to = output + (own.tile.first_element - arguments.first_element);
    const ElementPlaces places(extents, geometry);
    if (own.record.kind == KIND_RAW) {
        copy_raw(reinterpret_cast<const StoredBits *>(input + own.record.raw) + position, places, elements, to);
        return true;
    }
    const uint32_t own_sign = LOGARITHM ? tile_sign(info) : 0;
    for (uint32_t i = lane_id(); i < elements; i += WARP) {
        memory.flags[i] = (tile_mask(info) == 1 ? MASKED : 0) | (own_sign == 1 ? NEGATIVE : 0);
    }
    __syncwarp();
    const int32_t *bitmap = codes;
    if (tile_mask(info) == 2) {
        if (!set_flags(own, bitmap, MASKED, memory)) {
            return false;
        }
        bitmap += own.bitmap_strips() * SLOT_CODES;
    }
    if (own_sign == 2 && !set_flags(own, bitmap, NEGATIVE, memory)) {
        return false;
    }
    codes += own.first_code_strip() * SLOT_CODES;
    const bool is_interpolated = !LOGARITHM && !tile_is_constant(info) && tile_predictor(info) == strips::INTERPOLATED;
    if (is_interpolated) {
#if !LOGARITHM
        interpolate(own, plans, plan_of(plans, geometry, own.tile, own.record.scheme), values, codes, memory);
#endif
    } else if (!tile_is_constant(info)) {
        for (uint32_t i = lane_id(); i < elements; i += WARP) {
            memory.integers[i] = codes[code_place(i)];
        }
        __syncwarp();
        integrate(memory.integers, extents, own.record.predictors[tile_predictor(info)]);
    }
    const StoredBits pattern = StoredBits(values.origin.patterns[tile_pattern(info)]);
    for (uint32_t i = lane_id(); i < elements; i += WARP) {
        Element value;
#if !LOGARITHM
        if (is_interpolated) {
            value = memory.values[i];
        } else
#endif
        {
            const uint32_t integer = tile_is_constant(info) ? 0 : uint32_t(memory.integers[i]);
            value = value_of(int32_t(integer + uint32_t(own.place.base)), values);
        }
        const uint32_t flags = memory.flags[i];
        // Magnitudes have no sign.
        value = limited(LOGARITHM && (flags & NEGATIVE) != 0 ? -value : value, values);
        to[places(i)] = (flags & MASKED) != 0 ? pattern : stored_bits(value, values.origin);
    }
    if (own.record.verbatim > 0) {
        __syncwarp();
        const uint32_t *positions = reinterpret_cast<const uint32_t *>(input + own.record.verbatim_positions);
        const StoredBits *elements_of_list = reinterpret_cast<const StoredBits *>(input + own.record.verbatim_values);
        for (uint32_t i = own.place.verbatim + lane_id(); i < own.record.verbatim; i += WARP) {
            const uint32_t place = positions[i] - position;
            if (place >= elements) {
                break;
            }
            to[places(place)] = verbatim_bits(elements_of_list[i], values.origin);
        }
    }
    return true;
}

// Returns whether a tile of the batch is to be decoded.
__device__ inline bool is_wanted(const Work &work, uint32_t number) {
    const uint64_t tile = work.arguments.first_tile + number;
    return tile >= work.arguments.tiles_start && tile < work.arguments.tiles_end &&
           own_chunk_is_valid(work.parsed, number / work.parsed.tiles);
}

// Decodes as many of the first `count` tiles of a warp, 1 to 32, as there are slots for. `tile(i)` is the number of a
// tile in the batch. Returns how many. Called by the whole warp.
template <typename TileOf>
__device__ inline uint32_t decode_tiles(const Work &work, uint32_t count, TileOf tile, WarpMemory &memory) {
    const bool exists = lane_id() < count;
    const uint32_t number = exists ? tile(lane_id()) : 0;
    const bool is_decoded = exists && is_wanted(work, number);
    const uint32_t strips = is_decoded ? OwnTile(work, number).strips() : 0;
    const uint32_t end = warp_inclusive_sum(strips), first = end - strips;
    const bool has_room = exists && end <= STRIP_CAPACITY;
    if (has_room) {
        memory.tiles[lane_id()] = number;
        memory.first_slots[lane_id()] = uint8_t(first);
        for (uint32_t slot = first; slot < end; ++slot) {
            memory.owners[slot] = uint8_t(lane_id());
        }
    }
    __syncwarp();
    const uint64_t bad = read_slots(work, warp_reduce_max(has_room ? end : 0), memory);
    const bool is_bad = (bad >> (first & 63) & ((uint64_t(1) << (strips & 63)) - 1)) != 0;
    uint32_t found_bad = __ballot_sync(ALL_LANES, has_room && is_bad);
    const uint32_t decoded = __ballot_sync(ALL_LANES, has_room && is_decoded);
    for (uint32_t rest = decoded & ~found_bad; rest != 0; rest &= rest - 1) {
        const uint32_t lane = __ffs(rest) - 1;
        const int32_t *codes = memory.codes + memory.first_slots[lane] * SLOT_CODES;
        found_bad |= reconstruct(work, OwnTile(work, memory.tiles[lane]), codes, memory) ? 0 : 1u << lane;
        __syncwarp();
    }
    if ((found_bad >> lane_id() & 1) != 0) {
        const uint32_t chunk = number / work.parsed.tiles;
        atomicOr(&work.parsed.problems[chunk * PROBLEM_WORDS + DECODE_PROBLEM], PROBLEM_CODEWORDS);
    }
    return __popc(__ballot_sync(ALL_LANES, has_room));
}

extern "C" __global__ void __launch_bounds__(WARPS *WARP)
    decode_any(const uint8_t *input, const __grid_constant__ Geometry geometry, const __grid_constant__ Parsed parsed,
               const __grid_constant__ Values values, const __grid_constant__ Plans plans,
               const __grid_constant__ LaunchArguments arguments, StoredBits *output) {
    extern __shared__ __align__(16) uint8_t shared[];
    launch_dependents_and_wait();
    WarpMemory &memory = reinterpret_cast<WarpMemory *>(shared)[warp_id()];
    const Work work{input, geometry, parsed, values, plans, arguments, output};
    // All tiles of the batch, or those that another kernel has left over.
    const uint32_t count = arguments.only_listed != 0 ? parsed.listed[0] : arguments.tiles;
    const uint32_t warps = gridDim.x * WARPS, window = min_of(ceil_div(count, warps), WARP);
    for (uint64_t first = uint64_t(blockIdx.x * WARPS + warp_id()) * window; first < count;
         first += uint64_t(warps) * window) {
        const uint32_t end = uint32_t(min_of<uint64_t>(first + window, count));
        for (uint32_t at = uint32_t(first); at < end;) {
            at += decode_tiles(
                work, end - at,
                [&](uint32_t i) { return arguments.only_listed != 0 ? parsed.listed[1 + at + i] : at + i; }, memory);
            __syncwarp();
        }
    }
}
