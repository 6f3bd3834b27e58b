// Shared by the roles of container/parse.cu: records and chunks of a batch, destinations of results, small readers.
#pragma once
#include "container/hash.cuh"
#include "geometry.cuh"
#include "huffman/decode/code_lengths.cuh"
#include "container/parsed.cuh"
#include "format/constants.cuh"

using format::RECORD_HEADER_BYTES;
using format::RECORD_MARKER;
using format::SECTIONS;
// The hash is at the end of the record's header.
constexpr uint32_t HASH_AT = RECORD_HEADER_BYTES - 8;
// Checksums of pieces are not compared: that of the record covers all of it.
constexpr uint32_t TILES = 0, BASES = 1, VERBATIM = 2, CODES = 4;
constexpr uint32_t TILE_HEADER_BYTES = 12;
constexpr uint32_t FLAG_MASKS = 1, FLAG_CLASSES = 2, FLAG_SIGNS = 4;
// Maximum tiles and strips of a chunk: 2^22 elements in tiles of 512 before clipping, each of which has a strip for 128
// codes and two for bitmaps.
constexpr uint32_t MAX_TILES = 8192, MAX_STRIPS = (1u << 22) / 512 * 6;
constexpr uint32_t BLOCK_TILES = 32; // tiles whose bases are packed together
constexpr uint32_t MAX_BLOCKS = MAX_TILES / BLOCK_TILES, MAX_WORDS = MAX_STRIPS / 32;
static_assert(MAX_BLOCKS <= THREADS, "a thread has a block of bases");

// Roles of the blocks of a chunk.
constexpr uint32_t ROLE_RECORD = 0, ROLE_TILES = 1, ROLE_BASES = 2, ROLE_LIST = 3, LIST_BLOCKS = 2,
                   ROLE_INDEX = ROLE_LIST + LIST_BLOCKS, ROLE_CODEBOOKS = ROLE_INDEX + 1;
static_assert(ROLES == ROLE_CODEBOOKS + strips::CODEBOOKS && ROLES <= DECODE_PROBLEM,
              "the launcher knows how many roles there are, and each has a word for its problems");

// Bits of a chunk's problems; see also PROBLEM_CODEWORDS.
constexpr uint32_t PARSE_RECORD = 1, PARSE_NUMBER = 2, PARSE_KIND = 4, PARSE_SECTIONS = 8, PARSE_RAW = 16,
                   PARSE_TILES = 32, PARSE_BASES = 64, PARSE_LISTS = 128, PARSE_CODES = 256;

struct Section {
    uint64_t offset; // in the input
    uint32_t length;
};

// A record's header and sections. Each thread reads them for itself.
struct Record {
    uint64_t start;
    uint32_t length, kind;
    uint32_t status;
    Section sections[SECTIONS];
};

__device__ inline Record read_record(const Records &records, uint64_t chunk_number, uint32_t chunk) {
    Record record{};
    record.start = records.first + uint64_t(records.starts[chunk]) * 16;
    record.length = (records.starts[chunk + 1] - records.starts[chunk]) * 16;
    if (record.length < RECORD_HEADER_BYTES || record.start > records.input_bytes ||
        record.length > records.input_bytes - record.start) {
        record.length = 0;
        record.status = PARSE_RECORD;
        return record;
    }
    const uint4 *units = reinterpret_cast<const uint4 *>(records.input + record.start);
    const uint4 first = units[0], second = units[1];
    const bool has_table = record.length >= RECORD_HEADER_BYTES + SECTIONS * 4;
    const uint4 nothing = make_uint4(0, 0, 0, 0);
    const uint4 table0 = has_table ? units[2] : nothing, table1 = has_table ? units[3] : nothing;
    const uint2 table2 = has_table ? *reinterpret_cast<const uint2 *>(units + 4) : make_uint2(0, 0);
    record.kind = second.x;
    if (first.x != RECORD_MARKER || first.y != record.length) {
        record.status = PARSE_RECORD;
    } else if ((first.z | uint64_t(first.w) << 32) != chunk_number) {
        record.status = PARSE_NUMBER;
    } else if ((second.x != KIND_RAW && second.x != KIND_QUANTIZED) || second.y != 0) {
        record.status = PARSE_KIND;
    }
    if (record.status != 0 || record.kind == KIND_RAW) {
        return record;
    }
    const uint32_t lengths[SECTIONS] = {table0.x, table0.y, table0.z, table0.w, table1.x,
                                        table1.y, table1.z, table1.w, table2.x, table2.y};
    uint64_t position = RECORD_HEADER_BYTES + SECTIONS * 4;
#pragma unroll
    for (uint32_t i = 0; i < SECTIONS; ++i) {
        if (lengths[i] > 0) {
            position = align_up(position, 16);
            record.sections[i] = {record.start + position, lengths[i]};
            position += lengths[i];
        }
    }
    bool has_more = false;
#pragma unroll
    for (uint32_t i = CODES + 1; i < SECTIONS; ++i) {
        has_more |= lengths[i] > 0;
    }
    if (!has_table || has_more || position > record.length) {
        record.status = PARSE_SECTIONS;
    }
    return record;
}

// A chunk of the batch.
struct Chunk {
    uint32_t number, first_tile, tiles; // in the batch
    uint64_t first;                     // in the array

    __device__ inline uint64_t elements_before(const Geometry &geometry) const {
        return geometry.elements_before(first);
    }
    __device__ inline uint32_t elements(const Geometry &geometry) const {
        return uint32_t(geometry.elements_before(first + tiles) - geometry.elements_before(first));
    }
};

__device__ inline Chunk chunk_of_batch(const ChunkBatch &batch, uint32_t number) {
    Chunk chunk;
    chunk.number = number;
    chunk.first_tile = batch.chunk_first(number);
    chunk.tiles = batch.chunk_first(number + 1) - chunk.first_tile;
    chunk.first = batch.first_tile + chunk.first_tile;
    return chunk;
}

// Numbers of elements of a chunk's tiles.
struct TileSizes {
    const Geometry &geometry;
    uint64_t first; // number of the chunk's first tile
    uint32_t unclipped;
    bool regular; // no tile is clipped
    bool has_32_bit_coords;
    TileCoord coord; // of the chunk's first tile

    __device__ inline TileSizes(const Geometry &g, uint64_t first_tile)
        : geometry(g), first(first_tile), unclipped(g.side[0] * g.side[1] * g.side[2]),
          regular(g.dims[1] % g.side[0] == 0 && g.dims[2] % g.side[1] == 0 && g.dims[3] % g.side[2] == 0),
          has_32_bit_coords(g.has_32_bit_coords()), coord(g.coord(first_tile)) {}

    __device__ inline uint32_t operator()(uint32_t tile) const {
        if (regular) {
            return unclipped;
        }
        if (!has_32_bit_coords) {
            return geometry.tile(first + tile).elements();
        }
        const TileCoord at = geometry.nearby_coord(coord, tile);
        return extent(0, uint32_t(at.z)) * extent(1, uint32_t(at.y)) * extent(2, uint32_t(at.x));
    }

    // Extent along an axis of the tile with coordinate `number`.
    __device__ inline uint32_t extent(uint32_t axis, uint32_t number) const {
        const uint32_t last = uint32_t(geometry.grid[axis]) - 1;
        return number == last ? uint32_t(geometry.dims[axis + 1] - uint64_t(last) * geometry.side[axis])
                              : geometry.side[axis];
    }
};

// Sections of at most this many bytes are copied to shared memory.
constexpr uint32_t STAGED_SECTION = 12288;

union RoleScratch {
    ParseScratch codebook;
    struct {
        uint64_t warp_sums[PARSE_WARPS];
        uint32_t warp_sums_32[PARSE_WARPS];
        uint32_t block_words[MAX_BLOCKS]; // where a block's packed bases start
        uint32_t block_bases[MAX_BLOCKS];
        alignas(16) uint8_t section[STAGED_SECTION];
    } tiles;
    struct {
        uint32_t warp_sums[PARSE_WARPS];
        uint32_t ranks[MAX_WORDS];       // live strips before every 32nd strip
        uint32_t block_words[MAX_WORDS]; // where a block's packed lengths start
        uint32_t starts[MAX_WORDS];      // first bit of every 32nd strip
        uint32_t section[STAGED_SECTION / 4];
    } index;
    ChainScratch chain;
    uint32_t warp_problems[PARSE_WARPS];
};

// Returns the bits that are set on any thread of the block, on thread 0.
__device__ inline uint32_t block_or(uint32_t bits, uint32_t *warp_bits) {
    bits = warp_reduce_or(bits);
    // The memory may be in use until all threads are here.
    __syncthreads();
    if (lane_id() == 0) {
        warp_bits[warp_id()] = bits;
    }
    __syncthreads();
    uint32_t all = 0;
    for (uint32_t warp = 0; warp < PARSE_WARPS && threadIdx.x == 0; ++warp) {
        all |= warp_bits[warp];
    }
    return all;
}

// Copies a section to shared memory if it fits, and returns where it is. It starts on a multiple of 16, and its record
// has a multiple of 16 bytes, so that whole units can be copied. Called by the whole block.
__device__ inline const uint8_t *stage_section(const Records &records, const Section &section, uint8_t *to) {
    const uint8_t *from = records.input + section.offset;
    if (section.length > STAGED_SECTION) {
        return from;
    }
    for (uint32_t i = threadIdx.x; i < ceil_div(section.length, 16); i += THREADS) {
        reinterpret_cast<uint4 *>(to)[i] = reinterpret_cast<const uint4 *>(from)[i];
    }
    __syncthreads();
    return to;
}

// Returns on each thread whether its byte of those from `from` to `to` is not 0. There are fewer than THREADS such
// bytes.
__device__ inline bool any_between(const uint8_t *bytes, uint64_t from, uint64_t to) {
    return from + threadIdx.x < to && bytes[from + threadIdx.x] != 0;
}

// Returns value `i` of packed values of BITS bits (1, 2 or 4).
template <uint32_t BITS> __device__ inline uint32_t packed(const uint8_t *bytes, uint32_t i) {
    return bytes[i * BITS / 8] >> i * BITS % 8 & ((1u << BITS) - 1);
}
