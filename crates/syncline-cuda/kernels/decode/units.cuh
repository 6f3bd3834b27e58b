// Decoding of whole ordinary tiles: those without bitmaps and verbatim values, whose codes have 16 bits. All others are
// listed for decode_any.
//
// A warp has a unit of tiles, whose 32 strips its lanes decode side by side to shared memory. The codewords of the unit
// follow each other and are copied to shared memory before, to the place where tiles are reconstructed after. A block
// has the decoding tables of one chunk at a time.
//
// LOGARITHM      1 if integers are logarithms, whose signs are stored separately
// WARPS          warps of a block
// MEMORY_BYTES   bytes of shared memory of a block
// STRIPS         strips of a tile
// STRIP_ROOM     codes of shared memory from strip to strip
// VALUES         elements of shared memory of a warp
// TABLE_WORDS    words of the table of a scheme
// See also quantize/stored.cuh.
#pragma once
#include "geometry.cuh"
#include "device/sync.cuh"
#include "container/parsed.cuh"
#include "decode/shares.cuh"
#include "decode/values.cuh"
#include "strips/unit.cuh"

constexpr uint32_t UNIT = WARP / STRIPS;
// Strips are STRIP_ROOM codes apart, and tiles two more, so that lanes have banks of their own while they decode and
// while they reconstruct.
constexpr uint32_t TILE_CODES = STRIPS * STRIP_ROOM + 2;

struct WarpMemory {
    alignas(16) int16_t codes[UNIT * TILE_CODES];
    alignas(16) Element values[VALUES];
};
constexpr uint32_t CLEARED = (UNIT * TILE_CODES + 7) / 8, WORD_ROOM = sizeof(WarpMemory::values) / 4;

struct BlockMemory {
    WarpMemory warps[WARPS];
    uint32_t tables[strips::MAX_CLASSES][STRIP_TABLE];
    uint32_t scheme[TABLE_WORDS];
    uint32_t ticket;
    uint32_t unused[3];
};
static_assert(sizeof(BlockMemory) == MEMORY_BYTES, "the launcher knows the size");

// A tile that is reconstructed, as all lanes know it.
struct Target {
    int16_t *codes;
    int32_t base;
    Stored *out; // its first element
};

// Bytes that are written at once, at most.
constexpr uint32_t WRITTEN = 4 * sizeof(Stored) < 16 ? 4 * sizeof(Stored) : 16;

// Where rows of tiles are in the array, and how elements are written.
struct Place {
    const Geometry &geometry;
    const Values &values;
    bool vectors; // every four elements from the start of a row of a tile on start on a multiple of WRITTEN bytes

    // Limits values to the range of the array.
    template <uint32_t COUNT> __device__ inline void limit(Element (&elements)[COUNT]) const {
#if ELEMENT_BYTES == 4
        // Unless an end of the range is 0, which has two signs, one instruction does what the format states.
        if (values.has_plain_range != 0) {
#pragma unroll
            for (uint32_t i = 0; i < COUNT; ++i) {
                elements[i] = fminf(fmaxf(elements[i], values.narrow_low), values.narrow_high);
            }
            return;
        }
#endif
#pragma unroll
        for (uint32_t i = 0; i < COUNT; ++i) {
            elements[i] = limited(elements[i], values);
        }
    }

    // Writes adjacent elements, which begin on a multiple of their bytes, or of WRITTEN.
    template <uint32_t COUNT> __device__ inline void write(Stored *to, const Element (&elements)[COUNT]) const {
#if IS_COMPUTED && ELEMENT_BYTES == 8
#pragma unroll
        for (uint32_t i = 0; i < COUNT; i += 2) {
            __stcs(reinterpret_cast<double2 *>(to + i), make_double2(elements[i], elements[i + 1]));
        }
#elif IS_COMPUTED
        if constexpr (COUNT == 4) {
            __stcs(reinterpret_cast<float4 *>(to), make_float4(elements[0], elements[1], elements[2], elements[3]));
        } else {
            __stcs(reinterpret_cast<float2 *>(to), make_float2(elements[0], elements[1]));
        }
#else
        constexpr uint32_t BYTES = COUNT * sizeof(Stored), WORD_COUNT = (BYTES + 3) / 4;
        uint32_t words[WORD_COUNT] = {};
#pragma unroll
        for (uint32_t i = 0; i < COUNT; ++i) {
            const StoredBits bits = stored_bits(elements[i], values.origin);
            if constexpr (sizeof(Stored) == 8) {
                words[2 * i] = uint32_t(bits);
                words[2 * i + 1] = uint32_t(uint64_t(bits) >> 32);
            } else {
                constexpr uint32_t IN_WORD = 4 / sizeof(Stored);
                words[i / IN_WORD] |= uint32_t(bits) << i % IN_WORD * (8 * sizeof(Stored) % 32);
            }
        }
        if constexpr (BYTES == 2) {
            __stcs(reinterpret_cast<uint16_t *>(to), uint16_t(words[0]));
        } else if constexpr (BYTES == 4) {
            __stcs(reinterpret_cast<uint32_t *>(to), words[0]);
        } else if constexpr (BYTES == 8) {
            __stcs(reinterpret_cast<uint2 *>(to), make_uint2(words[0], words[1]));
        } else {
#pragma unroll
            for (uint32_t i = 0; i < WORD_COUNT; i += 4) {
                __stcs(reinterpret_cast<uint4 *>(to) + i / 4,
                       make_uint4(words[i], words[i + 1], words[i + 2], words[i + 3]));
            }
        }
#endif
    }

    // Writes a cube, of which `value(z, y, x)` is an element, row by row: adjacent lanes have adjacent elements. For
    // rows that do not start on multiples of 16 bytes.
    template <uint32_t SIDE, typename Value> __device__ inline void write_apart(Value value, Stored *out) const {
#pragma unroll 4
        for (uint32_t i = lane_id(); i < SIDE * SIDE * SIDE; i += WARP) {
            const uint32_t x = i % SIDE, y = i / SIDE % SIDE, z = i / (SIDE * SIDE);
            Element own[1] = {value(z, y, x)};
            limit(own);
            // Sectors of memory that two tiles share must stay until both are written.
            out[z * geometry.strides[1] + y * geometry.strides[2] + x] = stored_of(own[0], values.origin);
        }
    }
};

// Everything that the units of a chunk share.
struct OwnChunk {
    const Parsed &parsed;
    const TilePlace *places;
    const uint32_t *starts, *words;
    uint64_t first_tile; // in the array
    uint32_t first_place, tiles, word_count, verbatim;
    uint32_t predictors; // the listed ones, eight bits each
    bool is_cubic;

    // Returns the predictor of a tile that is neither constant nor interpolated.
    __device__ inline uint32_t predictor(uint32_t info) const { return predictors >> 8 * tile_predictor(info) & 0xFF; }
};

// Reconstructs and writes a tile that is not interpolated. `Writer` writes a tile of one value, and one of residuals,
// for which it has the shared memory `values`. Called by the whole warp.
template <typename Writer>
__device__ inline void write_lorenzo(const Writer &to, const OwnChunk &chunk, const Target &target, uint32_t info,
                                     Element *values) {
    const bool is_negative = tile_sign(info) == 1;
    if (tile_is_constant(info)) {
        const Element value = value_of(target.base, to.values);
        to.write_constant(LOGARITHM && is_negative ? -value : value, target.out);
    } else {
        to.write_sums(target, chunk.predictor(info), is_negative, values);
    }
}

// The lanes of a tile's strips, as bits.
constexpr uint32_t TILE_LANES = STRIPS == WARP ? ALL_LANES : (1u << STRIPS % WARP) - 1;

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

// The tiles of a unit whose codes are decoded, as the lanes of their first strips know them.
struct Unit {
    int16_t *codes;
    Stored *output;
    uint64_t offset; // of the tile's first element in the output
    TilePlace place;
    bool is_good, is_interpolated;

    // Returns the tile of a lane. Called by the whole warp.
    __device__ inline Target target(uint32_t lane) const {
        const uint64_t own = __shfl_sync(ALL_LANES, offset, lane);
        return Target{codes + lane / STRIPS * TILE_CODES, __shfl_sync(ALL_LANES, place.base, lane), output + own};
    }
    // Returns the lanes of the first strips of tiles that are interpolated, or that are not.
    __device__ inline uint32_t lanes(bool interpolated) const {
        return __ballot_sync(ALL_LANES, is_good && is_interpolated == interpolated && lane_id() % STRIPS == 0);
    }
};

// Decodes the codes of the unit of tiles from number `first` of its chunk on. Called by the whole warp.
__device__ inline Unit decode_codes(const OwnChunk &chunk, uint32_t first, const Place &to,
                                    const LaunchArguments &arguments, Stored *output,
                                    const uint32_t (&tables)[strips::MAX_CLASSES][STRIP_TABLE], WarpMemory &memory) {
    const uint32_t number = first + lane_id() / STRIPS, strip = lane_id() % STRIPS;
    const uint64_t tile_number = chunk.first_tile + number;
    const bool is_wanted =
        number < chunk.tiles && tile_number >= arguments.tiles_start && tile_number < arguments.tiles_end;
    TilePlace place{};
    Tile tile{};
    bool is_ordinary = false;
    if (is_wanted) {
        place = chunk.places[number];
        tile = to.geometry.tile(tile_number);
        const uint32_t next = chunk.verbatim == 0        ? place.verbatim
                              : number + 1 < chunk.tiles ? chunk.places[number + 1].verbatim
                                                         : chunk.verbatim;
        is_ordinary = to.geometry.is_unclipped(tile) && tile_mask(place.info) == 0 && tile_sign(place.info) != 2 &&
                      place.verbatim == next;
    }
    const bool has_codes = is_ordinary && !tile_is_constant(place.info);
    const uint32_t *start = chunk.starts + place.first_strip + strip;
    const uint32_t begin = has_codes ? start[0] : ALL_LANES, end = has_codes ? start[1] : 0;
    const uint32_t first_word = warp_reduce_min(begin) / 32, last_word = (warp_reduce_max(end) + 31) / 32;
    bool is_good = is_ordinary;
    if (__any_sync(ALL_LANES, has_codes)) {
        const uint32_t all_words = chunk.word_count;
        // A lane looks at most three words ahead.
        const uint32_t count = last_word + 3 - first_word;
        const bool is_staged = count <= WORD_ROOM;
        uint32_t *staged = reinterpret_cast<uint32_t *>(memory.values);
        for (uint32_t i = lane_id(); i < count && is_staged; i += WARP) {
            staged[i] = first_word + i < all_words ? __ldcs(chunk.words + first_word + i) : 0;
        }
        for (uint32_t i = lane_id(); i < CLEARED; i += WARP) {
            reinterpret_cast<uint4 *>(memory.codes)[i] = make_uint4(0, 0, 0, 0);
        }
        __syncwarp();
        const uint32_t bits = has_codes ? end - begin : 0, position = has_codes ? begin - first_word * 32 : 0;
        const uint32_t *table = tables[has_codes ? tile_class(place.info) : 0];
        int16_t *codes = memory.codes + lane_id() / STRIPS * TILE_CODES + strip * STRIP_ROOM;
        bool has_good_strip;
        if (is_staged) {
            has_good_strip = decode_strip<4>([&](uint32_t i) { return staged[i]; }, table, position, bits, codes);
        } else {
            auto word = [&](uint32_t i) {
                return first_word + i < all_words ? __ldg(chunk.words + first_word + i) : 0;
            };
            has_good_strip = decode_strip<1>(word, table, position, bits, codes);
        }
        const uint32_t bad = __ballot_sync(ALL_LANES, has_codes && !has_good_strip);
        is_good &= (bad >> lane_id() / STRIPS * STRIPS & TILE_LANES) == 0;
        __syncwarp();
    }
    list_tiles(chunk.parsed, is_wanted && !is_good && strip == 0, chunk.first_place + number);
    const bool is_interpolated = is_good && tile_predictor(place.info) == strips::INTERPOLATED;
    return Unit{memory.codes, output, tile.first_element - arguments.first_element, place, is_good, is_interpolated};
}

// What a launch decodes, as the kernel receives it.
struct Launch {
    const uint8_t *input;
    const Geometry &geometry;
    const Parsed &parsed;
    const Values &values;
    const uint32_t *schemes; // tables of all schemes
    const LaunchArguments &arguments;
    Stored *output;
};

// Decodes the share of a block. `reconstruct(unit, chunk, to, table of the scheme, warp's memory)` reconstructs and
// writes the tiles of a unit, called by a whole warp. Called by the whole block.
template <typename Reconstruct>
__device__ inline void decode_share(const Launch &launch, BlockMemory &memory, Reconstruct reconstruct) {
    const auto &[input, geometry, parsed, values, schemes, arguments, output] = launch;
    // Earlier kernels may still run, and later ones may be launched.
    launch_dependents_and_wait();
    const uint32_t units = ceil_div(parsed.tiles, UNIT);
    const ShareCosts costs(parsed, arguments.tiles, UNIT);
    const ShareStart begin = costs.start(blockIdx.x, gridDim.x), end = costs.start(blockIdx.x + 1, gridDim.x);
    const Place to{geometry, values, arguments.vectors != 0};
    for (uint32_t number = begin.chunk; number < min_of(end.chunk + 1, parsed.chunk_count); ++number) {
        const uint32_t first = number == begin.chunk ? begin.unit : 0, last = number == end.chunk ? end.unit : units;
        if (first >= last) {
            continue;
        }
        const ParsedChunk &record = parsed.chunks[number];
        const uint32_t first_place = number * parsed.tiles;
        const uint32_t predictors =
            record.predictors[0] | uint32_t(record.predictors[1]) << 8 | uint32_t(record.predictors[2]) << 16;
        const OwnChunk chunk{
            parsed, parsed.places + first_place, parsed.starts + uint64_t(number) * parsed.starts_stride,
            reinterpret_cast<const uint32_t *>(input + record.words), arguments.first_tile + first_place, first_place,
            min_of(parsed.tiles, arguments.tiles - first_place), record.word_count, record.verbatim, predictors,
            // The lowest flag of the scheme, whose code is one more.
            record.scheme % 2 == 0};
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
            memory.scheme[i] = schemes[(record.scheme - 1) * TABLE_WORDS + i];
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
            WarpMemory &own = memory.warps[warp_id()];
            const Unit decoded = decode_codes(chunk, unit * UNIT, to, arguments, output, memory.tables, own);
            reconstruct(decoded, chunk, to, memory.scheme, own);
            __syncwarp();
        }
    }
}
