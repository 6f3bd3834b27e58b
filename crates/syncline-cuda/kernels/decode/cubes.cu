// Decodes whole ordinary tiles of 8x8x8: those without bitmaps and verbatim values, whose codes have 16 bits. All others
// are listed for decode_any.
//
// A warp has a unit of eight tiles, whose 32 strips its lanes decode side by side to shared memory. The codewords of the
// unit follow each other and are copied to shared memory before, to the place where tiles are reconstructed after. A
// block has the decoding tables of one chunk at a time.
//
// DOUBLE         1 if elements are f64, 0 if f32
// LOG            1 if integers are logarithms, whose signs are stored separately
// WARPS          warps of a block
// MEMORY_BYTES   bytes of shared memory of a block
// ROW, PLANE     elements of shared memory from row to row, and from plane to plane
// STRIP_ROOM     codes of shared memory from strip to strip
// STORED         digit `i`, from the lowest, is where plane or row `i` is stored: in this order the lanes of most
//                passes have banks of their own
// TABLE_WORDS    words of the table of lines of a scheme, of which LINES_AT is that of the first line
#include "geometry.cuh"
#include "container/parsed.cuh"
#include "decode/values.cuh"
#include "predict/cube_sums.cuh"
#include "predict/lines.cuh"
#include "strips/unit.cuh"

constexpr uint32_t SIDE = 8, UNIT = 8, STRIPS = 4;
// Strips are this many codes apart, and tiles, so that lanes have banks of their own while they decode and while they
// reconstruct.
constexpr uint32_t TILE_CODES = STRIPS * STRIP_ROOM + 2;
// Elements of a tile in shared memory, and some more, so that two tiles are in different banks.
constexpr uint32_t TILE_VALUES = SIDE * PLANE + 4;

struct WarpMemory {
    int16_t codes[UNIT * TILE_CODES];
    Element values[2 * TILE_VALUES];
};
constexpr uint32_t WORD_ROOM = sizeof(WarpMemory::values) / 4;

struct BlockMemory {
    WarpMemory warps[WARPS];
    uint32_t tables[strips::MAX_CLASSES][STRIP_TABLE];
    uint32_t lines[TABLE_WORDS];
    uint32_t ticket;
    uint32_t unused[3];
};
static_assert(sizeof(BlockMemory) == MEMORY_BYTES, "the launcher knows the size");
static_assert(sizeof(WarpMemory) % 16 == 0 && sizeof(WarpMemory::codes) % 16 == 0, "codes are cleared 16 bytes at a time");

__host__ __device__ constexpr uint32_t stored(uint32_t number) { return uint32_t(STORED) >> 4 * number & 15; }

// Where the positions of a line along axis AXIS (0 z, 1 y, 2 x) are, from its first one.
template <uint32_t AXIS> struct Along {
    __host__ __device__ static constexpr uint32_t of(uint32_t position) {
        return AXIS == 2 ? position : stored(position) * (AXIS == 1 ? ROW : PLANE);
    }
};

// A tile that is reconstructed, as all lanes know it.
struct Target {
    int16_t *codes;
    int32_t base;
    Element *out; // its first element
};

#if !LOG
// Sums the integers of anchors: a lattice of two positions along x and y, and of two or eight along z.
__device__ inline int32_t sum_lattice(int32_t integer) {
#pragma unroll
    for (uint32_t axis = 1; axis <= 2; axis *= 2) {
        const int32_t before = __shfl_xor_sync(ALL_LANES, integer, axis);
        integer += (lane_id() & axis) != 0 ? before : 0;
    }
#pragma unroll
    for (uint32_t distance = 4; distance < WARP; distance *= 2) {
        const int32_t before = __shfl_up_sync(ALL_LANES, integer, distance);
        integer += lane_id() >= distance ? before : 0;
    }
    return integer;
}

// The lines of a pass in one tile, or in two side by side.
struct Pass {
    const uint32_t *lines;
    uint32_t count, tiles;
    const Target &first, &second;
    Element *memory;
    const Values &values;

    // Reconstructs the lines, which are along an axis at a level: 0 is distance 4, 2 is distance 1.
    template <uint32_t AXIS, uint32_t LEVEL, bool IS_CUBIC> __device__ inline void run() const {
        for (uint32_t i = lane_id(); i < count * tiles; i += WARP) {
            const uint32_t tile = i >= count ? 1 : 0, line = lines[i - tile * count];
            const int16_t *codes = (tile != 0 ? second.codes : first.codes) + (line >> 16);
            auto correct = [&](Element prediction, int32_t code) { return corrected(prediction, code, values); };
            reconstruct_line<SIDE, (SIDE / 2 >> LEVEL), IS_CUBIC, Along<AXIS>>(
                memory + tile * TILE_VALUES + (line & 0xFFFF), codes, correct);
        }
    }

    // Reconstructs the lines of a kind: three times the axis plus the level.
    template <bool IS_CUBIC> __device__ inline void run(uint32_t kind) const {
        switch (kind) {
        case 0:
            return run<0, 0, IS_CUBIC>();
        case 1:
            return run<0, 1, IS_CUBIC>();
        case 2:
            return run<0, 2, IS_CUBIC>();
        case 3:
            return run<1, 0, IS_CUBIC>();
        case 4:
            return run<1, 1, IS_CUBIC>();
        case 5:
            return run<1, 2, IS_CUBIC>();
        case 6:
            return run<2, 0, IS_CUBIC>();
        case 7:
            return run<2, 1, IS_CUBIC>();
        default:
            return run<2, 2, IS_CUBIC>();
        }
    }
};

// Interpolates one or two tiles. Called by the whole warp.
__device__ inline void interpolate(const Target (&targets)[2], uint32_t tiles, const uint32_t *table, bool is_cubic,
                                   const Values &values, Element *memory) {
    const uint32_t passes = table[0] & 0xFFFF, anchors = table[0] >> 16;
    const uint32_t *lines = table + LINES_AT;
    for (uint32_t tile = 0; tile < tiles; ++tile) {
        const bool is_anchor = lane_id() < anchors;
        const uint32_t line = is_anchor ? lines[lane_id()] : 0;
        const int32_t integer = sum_lattice(is_anchor ? targets[tile].codes[line >> 16] : 0);
        if (is_anchor) {
            memory[tile * TILE_VALUES + (line & 0xFFFF)] =
                value_of(int32_t(uint32_t(integer) + uint32_t(targets[tile].base)), values);
        }
    }
    __syncwarp();
    for (uint32_t pass = 0; pass < passes; ++pass) {
        const uint32_t own = table[1 + pass], kind = own & 0xFF, first = own >> 8 & 0xFFF, count = own >> 20;
        const Pass lines_of{lines + first, count, tiles, targets[0], targets[1], memory, values};
        if (is_cubic) {
            lines_of.run<true>(kind);
        } else {
            lines_of.run<false>(kind);
        }
        __syncwarp();
    }
}
#endif

// Writes adjacent elements, the first of which is on a multiple of 16 bytes if `vectors`.
template <uint32_t COUNT>
__device__ inline void write(Element *to, const Element (&elements)[COUNT], bool vectors) {
    if (!vectors) {
#pragma unroll
        for (uint32_t i = 0; i < COUNT; ++i) {
            __stcs(to + i, elements[i]);
        }
        return;
    }
#if DOUBLE
#pragma unroll
    for (uint32_t i = 0; i < COUNT; i += 2) {
        __stcs(reinterpret_cast<double2 *>(to + i), make_double2(elements[i], elements[i + 1]));
    }
#else
    if constexpr (COUNT == 4) {
        __stcs(reinterpret_cast<float4 *>(to), make_float4(elements[0], elements[1], elements[2], elements[3]));
    } else {
        __stcs(reinterpret_cast<float2 *>(to), make_float2(elements[0], elements[1]));
    }
#endif
}

// Where a tile's rows are in the array, and how elements are written.
struct Place {
    const Geometry &geometry;
    const Values &values;
    bool vectors;

    // Writes a tile that is stored in shared memory: each lane has half rows.
    __device__ inline void write_stored(const Element *stored_tile, Element *out) const {
        const uint32_t y = lane_id() / 2 % SIDE, x = lane_id() % 2 * 4;
#pragma unroll
        for (uint32_t k = 0; k < SIDE / 2; ++k) {
            const uint32_t z = 2 * k + lane_id() / 16;
            const Element *from = stored_tile + stored(z) * PLANE + stored(y) * ROW + x;
            Element elements[4];
#pragma unroll
            for (uint32_t i = 0; i < 4; ++i) {
                elements[i] = limited(from[i], values);
            }
            write(out + z * geometry.strides[1] + y * geometry.strides[2] + x, elements, vectors);
        }
    }

    // Writes a tile of one value.
    __device__ inline void write_constant(Element value, Element *out) const {
        const Element own = limited(value, values), elements[4] = {own, own, own, own};
        const uint32_t y = lane_id() / 2 % SIDE, x = lane_id() % 2 * 4;
#pragma unroll
        for (uint32_t k = 0; k < SIDE / 2; ++k) {
            const uint32_t z = 2 * k + lane_id() / 16;
            write(out + z * geometry.strides[1] + y * geometry.strides[2] + x, elements, vectors);
        }
    }

    // Reconstructs and writes a tile of residuals.
    __device__ inline void write_sums(const Target &target, uint32_t predictor, bool is_negative) const {
        const uint32_t y = lane_id() / 4, x = lane_id() % 4 * 2;
        CubeIntegers q;
#pragma unroll
        for (uint32_t z = 0; z < SIDE; ++z) {
            // Codes of a strip are those of two planes.
            const uint32_t at = z / 2 * STRIP_ROOM + z % 2 * (SIDE * SIDE) + y * SIDE + x;
            const int32_t both = *reinterpret_cast<const int32_t *>(target.codes + at);
            q[z][0] = int16_t(both);
            q[z][1] = both >> 16;
        }
        integrate_cube(q, predictor);
        Element *out = target.out + y * geometry.strides[2] + x;
#pragma unroll
        for (uint32_t z = 0; z < SIDE; ++z) {
            Element elements[2];
#pragma unroll
            for (uint32_t i = 0; i < 2; ++i) {
                const Element value = value_of(int32_t(uint32_t(q[z][i]) + uint32_t(target.base)), values);
                elements[i] = limited(LOG && is_negative ? -value : value, values);
            }
            write(out + z * geometry.strides[1], elements, vectors);
        }
    }
};

// Everything that the units of a chunk share.
struct OwnChunk {
    const Parsed &parsed;
    const ParsedChunk &record;
    const TilePlace *places;
    const uint32_t *starts, *words;
    uint64_t first_tile; // in the array
    uint32_t first_place, tiles;
};

// Lists the tiles of lanes of which `is_listed` is true. Called by the whole warp.
__device__ inline void list_tiles(const Parsed &parsed, bool is_listed, uint32_t tile) {
    const uint32_t listed = __ballot_sync(ALL_LANES, is_listed);
    uint32_t first = 0;
    if (listed != 0 && lane_id() == 0) {
        first = atomicAdd(parsed.listed, __popc(listed));
    }
    first = __shfl_sync(ALL_LANES, first, 0);
    if (is_listed) {
        parsed.listed[1 + first + __popc(listed & ((1u << lane_id()) - 1))] = tile;
    }
}

// Decodes the unit of tiles from number `first` of its chunk on. Called by the whole warp.
__device__ inline void decode_unit(const OwnChunk &chunk, uint32_t first, const Place &to, const Request &request,
                                   Element *output, const uint32_t (&tables)[strips::MAX_CLASSES][STRIP_TABLE],
                                   const uint32_t *lines, WarpMemory &memory) {
    const uint32_t number = first + lane_id() / STRIPS, strip = lane_id() % STRIPS;
    const uint64_t tile_number = chunk.first_tile + number;
    const bool is_wanted =
        number < chunk.tiles && tile_number >= request.tiles_start && tile_number < request.tiles_end;
    if (!__any_sync(ALL_LANES, is_wanted)) {
        return;
    }
    TilePlace place{};
    Tile tile{};
    bool is_ordinary = false;
    if (is_wanted) {
        place = chunk.places[number];
        tile = to.geometry.tile(tile_number);
        const uint32_t next = chunk.record.verbatim == 0       ? place.verbatim
                              : number + 1 < chunk.tiles ? chunk.places[number + 1].verbatim
                                                         : chunk.record.verbatim;
        is_ordinary = to.geometry.is_unclipped(tile) && meta_mask(place.meta) == 0 && meta_sign(place.meta) != 2 &&
                      place.verbatim == next;
    }
    const bool is_live = is_ordinary && !meta_constant(place.meta);
    const uint32_t *start = chunk.starts + place.first_strip + strip;
    const uint32_t begin = is_live ? start[0] : ALL_LANES, end = is_live ? start[1] : 0;
    const uint32_t first_word = warp_reduce_min(begin) / 32, last_word = (warp_reduce_max(end) + 31) / 32;
    bool is_good = is_ordinary;
    if (__any_sync(ALL_LANES, is_live)) {
        const uint32_t all_words = chunk.record.word_count;
        // A lane looks at most three words ahead.
        const uint32_t count = last_word + 3 - first_word;
        const bool is_staged = count <= WORD_ROOM;
        uint32_t *staged = reinterpret_cast<uint32_t *>(memory.values);
        for (uint32_t i = lane_id(); i < count && is_staged; i += WARP) {
            staged[i] = first_word + i < all_words ? __ldcs(chunk.words + first_word + i) : 0;
        }
        for (uint32_t i = lane_id(); i < sizeof(memory.codes) / 16; i += WARP) {
            reinterpret_cast<uint4 *>(memory.codes)[i] = make_uint4(0, 0, 0, 0);
        }
        __syncwarp();
        const uint32_t bits = is_live ? end - begin : 0, position = is_live ? begin - first_word * 32 : 0;
        const uint32_t *table = tables[is_live ? meta_class(place.meta) : 0];
        int16_t *codes = memory.codes + lane_id() / STRIPS * TILE_CODES + strip * STRIP_ROOM;
        bool has_good_strip;
        if (is_staged) {
            has_good_strip = decode_strip([&](uint32_t i) { return staged[i]; }, table, position, bits, codes);
        } else {
            auto word = [&](uint32_t i) {
                return first_word + i < all_words ? __ldg(chunk.words + first_word + i) : 0;
            };
            has_good_strip = decode_strip(word, table, position, bits, codes);
        }
        const uint32_t bad = __ballot_sync(ALL_LANES, is_live && !has_good_strip);
        is_good &= (bad >> lane_id() / STRIPS * STRIPS & 15) == 0;
        __syncwarp();
    }
    list_tiles(chunk.parsed, is_wanted && !is_good && strip == 0, chunk.first_place + number);
    const bool is_interpolated = is_good && meta_predictor(place.meta) == strips::INTERPOLATED;
    const uint64_t offset = tile.first_element - request.first_element;
    auto target_of = [&](uint32_t lane) {
        const uint64_t own = __shfl_sync(ALL_LANES, offset, lane);
        return Target{memory.codes + lane / STRIPS * TILE_CODES, __shfl_sync(ALL_LANES, place.base, lane),
                      output + own};
    };
    uint32_t lanes = __ballot_sync(ALL_LANES, is_interpolated && strip == 0);
#if !LOG
    while (lanes != 0) {
        const uint32_t one = __ffs(lanes) - 1;
        lanes &= lanes - 1;
        const uint32_t tiles = lanes != 0 ? 2 : 1, other = lanes != 0 ? __ffs(lanes) - 1 : one;
        lanes &= lanes - 1;
        const Target targets[2] = {target_of(one), target_of(other)};
        const bool is_cubic = (chunk.record.scheme - 1 & 1) != 0;
        interpolate(targets, tiles, lines, is_cubic, to.values, memory.values);
        to.write_stored(memory.values, targets[0].out);
        if (tiles > 1) {
            to.write_stored(memory.values + TILE_VALUES, targets[1].out);
        }
        __syncwarp();
    }
#endif
    for (lanes = __ballot_sync(ALL_LANES, is_good && !is_interpolated && strip == 0); lanes != 0; lanes &= lanes - 1) {
        const uint32_t lane = __ffs(lanes) - 1, meta = __shfl_sync(ALL_LANES, place.meta, lane);
        const Target target = target_of(lane);
        const bool is_negative = meta_sign(meta) == 1;
        if (meta_constant(meta)) {
            const Element value = value_of(target.base, to.values);
            to.write_constant(LOG && is_negative ? -value : value, target.out);
        } else {
            to.write_sums(target, chunk.record.predictors[meta_predictor(meta)], is_negative);
        }
    }
    __syncwarp();
}

extern "C" __global__ void __launch_bounds__(WARPS *WARP, 1)
    decode_cubes(const uint8_t *input, const __grid_constant__ Geometry geometry, const __grid_constant__ Parsed parsed,
                 const __grid_constant__ Values values, const uint32_t *lines, const __grid_constant__ Request request,
                 Element *output) {
    extern __shared__ __align__(16) uint8_t shared[];
    BlockMemory &memory = *reinterpret_cast<BlockMemory *>(shared);
    // Blocks have about the same number of consecutive units.
    const uint32_t units = ceil_div(parsed.tiles, UNIT);
    const uint64_t all = uint64_t(parsed.chunk_count) * units;
    const uint64_t begin = all * blockIdx.x / gridDim.x, end = all * (blockIdx.x + 1) / gridDim.x;
    const Place to{geometry, values, request.vectors != 0};
    for (uint32_t number = uint32_t(begin / units); uint64_t(number) * units < end; ++number) {
        const uint64_t before = uint64_t(number) * units;
        const uint32_t first = begin > before ? uint32_t(begin - before) : 0;
        const uint32_t last = end - before < units ? uint32_t(end - before) : units;
        const ParsedChunk &record = parsed.chunks[number];
        const uint32_t first_place = number * parsed.tiles;
        const OwnChunk chunk{parsed,
                             record,
                             parsed.places + first_place,
                             parsed.starts + uint64_t(number) * parsed.starts_stride,
                             reinterpret_cast<const uint32_t *>(input + record.words),
                             request.first_tile + first_place,
                             first_place,
                             min_of(parsed.tiles, request.tiles - first_place)};
        if (!chunk_is_valid(parsed, number)) {
            continue;
        }
        if (record.kind == KIND_RAW) {
            for (uint32_t window = first * UNIT; window < min_of(last * UNIT, chunk.tiles); window += WARPS * WARP) {
                const uint32_t tile = window + threadIdx.x;
                list_tiles(parsed, tile < min_of(last * UNIT, chunk.tiles), first_place + tile);
            }
            continue;
        }
        // Other warps may still use the tables of the chunk before.
        __syncthreads();
        const uint32_t classes = record.codebooks >= strips::MAX_CLASSES ? strips::MAX_CLASSES : 1;
        const uint32_t *from = strip_table(parsed, number, 0);
        for (uint32_t i = threadIdx.x; i < classes * STRIP_TABLE; i += WARPS * WARP) {
            memory.tables[0][i] = short_entry(from[i]);
        }
        for (uint32_t i = threadIdx.x; i < TABLE_WORDS && record.scheme != 0; i += WARPS * WARP) {
            memory.lines[i] = lines[(record.scheme - 1) * TABLE_WORDS + i];
        }
        if (threadIdx.x == 0) {
            memory.ticket = first;
        }
        __syncthreads();
        for (;;) {
            uint32_t unit = 0;
            if (lane_id() == 0) {
                unit = atomicAdd(&memory.ticket, 1);
            }
            unit = __shfl_sync(ALL_LANES, unit, 0);
            if (unit >= last) {
                break;
            }
            decode_unit(chunk, unit * UNIT, to, request, output, memory.tables, memory.lines, memory.warps[warp_id()]);
        }
    }
}
