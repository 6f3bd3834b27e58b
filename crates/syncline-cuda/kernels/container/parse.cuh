// Shared by the roles of container/parse.cu: sizes of tiles, shared memory, small readers.
#pragma once
#include "container/parse_lists.cuh"
#include "huffman/decode/code_lengths.cuh"

// Checksums of pieces are not compared: that of the record covers all of it.
constexpr uint32_t TILES = 0, BASES = 1, CODES = 4;
constexpr uint32_t TILE_HEADER_BYTES = 12;
constexpr uint32_t FLAG_MASKS = 1, FLAG_CLASSES = 2, FLAG_SIGNS = 4;
// Maximum tiles and strips of a chunk: 2^22 elements in tiles of 512 before clipping, each of which has a strip for 128
// codes and two for bitmaps.
constexpr uint32_t MAX_TILES = 8192, MAX_STRIPS = (1u << 22) / 512 * 6;
constexpr uint32_t BLOCK_TILES = 32; // tiles whose bases are packed together
constexpr uint32_t MAX_BLOCKS = MAX_TILES / BLOCK_TILES, MAX_WORDS = MAX_STRIPS / 32;
static_assert(MAX_BLOCKS <= THREADS, "a thread has a block of bases");

// Roles of the blocks of a chunk.
constexpr uint32_t ROLE_RECORD = 0, ROLE_TILES = 1, ROLE_BASES = 2, ROLE_LIST = 3, ROLE_INDEX = ROLE_LIST + LIST_BLOCKS,
                   ROLE_CODEBOOKS = ROLE_INDEX + 1;
static_assert(ROLES == ROLE_CODEBOOKS + strips::CODEBOOKS && ROLES <= DECODE_PROBLEM,
              "the launcher knows how many roles there are, and each has a word for its problems");

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
        uint32_t ranks[MAX_WORDS];       // coded strips before every 32nd strip
        uint32_t block_words[MAX_WORDS]; // where a block's packed lengths start
        uint32_t starts[MAX_WORDS];      // first bit of every 32nd strip
        uint32_t section[STAGED_SECTION / 4];
    } index;
    ChainScratch chain;
    uint32_t warp_problems[PARSE_WARPS];
};

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

// Returns value `i` of packed values of BITS bits (1, 2 or 4).
template <uint32_t BITS> __device__ inline uint32_t packed(const uint8_t *bytes, uint32_t i) {
    return bytes[i * BITS / 8] >> i * BITS % 8 & ((1u << BITS) - 1);
}
