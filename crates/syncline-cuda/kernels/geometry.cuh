// How an array is cut into tiles and chunks: `syncline_core::geometry` on the device. Mirrored by src/geometry.rs.
//
// Axes are b, z, y, x, slowest first. Numbers of tiles and elements have 64 bits; within a chunk 32 bits are enough.
#pragma once
#include "common.cuh"

// Division by a number that the host knows (Granlund and Montgomery 1994): exact for every dividend.
struct Divider {
    uint64_t magic;
    uint32_t first_shift;
    uint32_t second_shift;

    __device__ inline uint64_t quotient(uint64_t dividend) const {
        uint64_t high = __umul64hi(magic, dividend);
        return (high + ((dividend - high) >> first_shift)) >> second_shift;
    }
    // That of a number of 32 bits by a divisor of 31 at most.
    __device__ inline uint32_t quotient_32(uint32_t dividend) const {
        const uint64_t low = uint64_t(uint32_t(magic)) * dividend, high = (magic >> 32) * dividend;
        const uint32_t top = uint32_t((high + (low >> 32)) >> 32);
        return (top + ((dividend - top) >> first_shift)) >> second_shift;
    }
};

// The same for numbers of 32 bits.
struct Divider32 {
    uint32_t magic, first_shift, second_shift;

    __device__ inline uint32_t quotient(uint32_t dividend) const {
        const uint32_t high = __umulhi(magic, dividend);
        return (high + ((dividend - high) >> first_shift)) >> second_shift;
    }
};

// A box of elements.
struct Tile {
    uint64_t first_element;   // raster number in the array of its first element
    uint64_t elements_before; // in the tiles before it, of the whole array
    uint32_t nz, ny, nx;      // extents, clipped at the array's edges; never 0

    __device__ inline uint32_t elements() const { return nz * ny * nx; }
};

// A tile by its numbers along b, z, y, x.
struct TileCoord {
    uint64_t b, z, y, x;
};

struct Geometry {
    uint64_t dims[4];    // elements along b, z, y, x
    uint64_t strides[3]; // in elements, of b, z, y
    uint64_t grid[3];    // tiles along z, y, x
    uint64_t tiles;      // of the array
    Divider by_grid[3];  // by tiles along z, y, x
    Divider by_chunk;    // by tiles in a chunk
    uint32_t side[3];    // extents z, y, x of a tile that no edge clips
    uint32_t axes;       // along which tiles extend, 1 to 3
    uint32_t chunk_tiles;
    uint32_t group_log2; // of the symbols in a group of codes

    __device__ inline TileCoord coord(uint64_t number) const {
        uint64_t rows = by_grid[2].quotient(number), planes = by_grid[1].quotient(rows),
                 b = by_grid[0].quotient(planes);
        return {b, planes - b * grid[0], rows - planes * grid[1], number - rows * grid[2]};
    }
    // The coord of a tile a few numbers further.
    __device__ inline void advance(TileCoord &coord, uint32_t tiles_further) const {
        coord.x += tiles_further;
        while (coord.x >= grid[2]) {
            coord.x -= grid[2];
            if (++coord.y == grid[1]) {
                coord.y = 0;
                if (++coord.z == grid[0]) {
                    coord.z = 0;
                    ++coord.b;
                }
            }
        }
    }
    // Whether from one tile to another of its chunk is a division of 32 bits.
    __device__ inline bool has_32_bit_coords() const { return max_of(max_of(grid[0], grid[1]), grid[2]) <= 1u << 30; }
    // The coord of a tile so many numbers after another of its chunk, if that is near.
    __device__ inline TileCoord nearby_coord(const TileCoord &from, uint32_t further) const {
        const uint32_t x = uint32_t(from.x) + further, rows = by_grid[2].quotient_32(x);
        const uint32_t y = uint32_t(from.y) + rows, planes = by_grid[1].quotient_32(y);
        const uint32_t z = uint32_t(from.z) + planes, fields = by_grid[0].quotient_32(z);
        return {from.b + fields, z - fields * uint32_t(grid[0]), y - planes * uint32_t(grid[1]),
                x - rows * uint32_t(grid[2])};
    }
    // Tile `number`, which must be below `tiles`.
    __device__ inline Tile tile(uint64_t number) const { return tile(coord(number)); }
    __device__ inline Tile tile(const TileCoord &coord) const {
        uint64_t b = coord.b, z = coord.z * side[0], y = coord.y * side[1], x = coord.x * side[2];
        Tile tile;
        tile.nz = uint32_t(min_of<uint64_t>(dims[1] - z, side[0]));
        tile.ny = uint32_t(min_of<uint64_t>(dims[2] - y, side[1]));
        tile.nx = uint32_t(min_of<uint64_t>(dims[3] - x, side[2]));
        uint64_t slab = b * strides[0] + z * strides[1]; // whole planes before the tile
        tile.first_element = slab + y * strides[2] + x;
        tile.elements_before = slab + tile.nz * (y * dims[3] + tile.ny * x);
        return tile;
    }
    // Elements of the tiles before tile `number`, which may also be `tiles`.
    __device__ inline uint64_t elements_before(uint64_t number) const {
        return number < tiles ? tile(number).elements_before : dims[0] * strides[0];
    }
    __device__ inline uint64_t chunk_of(uint64_t number) const { return by_chunk.quotient(number); }
    // First tile of a chunk; the end of the last chunk is `tiles`.
    __device__ inline uint64_t first_tile(uint64_t chunk) const { return min_of<uint64_t>(chunk * chunk_tiles, tiles); }
    // Groups of codes that a tile with so many elements takes, unless it is constant.
    __device__ inline uint32_t groups(uint32_t elements) const {
        return (elements + (1u << group_log2) - 1) >> group_log2;
    }
    __device__ inline bool is_unclipped(const Tile &tile) const {
        return tile.nz == side[0] && tile.ny == side[1] && tile.nx == side[2];
    }
};

// Consecutive chunks that are worked on together. Their tiles are numbered from the batch's first.
struct ChunkBatch {
    uint64_t first_chunk;
    uint64_t first_tile;
    uint32_t chunks;
    uint32_t tiles;
    uint32_t slots;       // groups that a chunk has at most
    uint32_t chunk_tiles; // the geometry's
    // Before they are coded, codes of that many chunks have room for `slots` groups, those of the others for
    // `later_slots`.
    uint32_t full_chunks, later_slots;

    __device__ inline uint32_t chunk_first(uint32_t chunk) const { return min_of(chunk * chunk_tiles, tiles); }
    // First group that a chunk's codes have room for.
    __device__ inline uint64_t first_slot(uint32_t chunk) const {
        const uint32_t full = min_of(chunk, full_chunks);
        return uint64_t(full) * slots + uint64_t(chunk - full) * later_slots;
    }
};
