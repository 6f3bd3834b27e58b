// The tiling of an array into tiles and chunks: `syncline_core::geometry` on the device.
//
// Axes are b, z, y, x, slowest first. Tile and element numbers have 64 bits; 32 bits are enough within a chunk.
#pragma once
#include "format/constants.cuh"
#include "geometry/structs.cuh"

// Division by an invariant divisor (Granlund and Montgomery 1994), exact for every dividend.
__device__ inline uint64_t quotient(const Divider &by, uint64_t dividend) {
    uint64_t high = __umul64hi(by.magic, dividend);
    return (high + ((dividend - high) >> by.first_shift)) >> by.second_shift;
}
// As `quotient`, for a dividend of 32 bits and a divisor of at most 31 bits.
__device__ inline uint32_t quotient_32(const Divider &by, uint32_t dividend) {
    const uint64_t low = uint64_t(uint32_t(by.magic)) * dividend, high = (by.magic >> 32) * dividend;
    const uint32_t top = uint32_t((high + (low >> 32)) >> 32);
    return (top + ((dividend - top) >> by.first_shift)) >> by.second_shift;
}

// A tile: a box of elements.
struct Tile {
    uint64_t first_element;   // raster number of its first element in the array
    uint64_t elements_before; // elements in all tiles of the array before it
    uint32_t nz, ny, nx;      // extents, clipped at the array's edges; at least 1

    __device__ inline uint32_t elements() const { return nz * ny * nx; }
};

// Division of numbers of elements in a tile, all below MAX_TILE_ELEMENTS, by an extent of it.
struct TileDivisor {
    uint32_t reciprocal;

    // Rounding errors are below an extent for each unit of a dividend, together below 2^20.
    static_assert(format::MAX_TILE_ELEMENTS <= 1024, "quotients are exact");
    __device__ inline explicit TileDivisor(uint32_t extent) : reciprocal(ceil_div(1u << 20, extent)) {}
    __device__ inline uint32_t quotient(uint32_t number) const { return number * reciprocal >> 20; }
};

// Coordinates of a tile in the grid of tiles.
struct TileCoord {
    uint64_t b, z, y, x;
};

struct Geometry : GeometryFields {
    __device__ inline TileCoord coord(uint64_t number) const {
        uint64_t rows = quotient(by_grid[2], number), planes = quotient(by_grid[1], rows),
                 b = quotient(by_grid[0], planes);
        return {b, planes - b * grid[0], rows - planes * grid[1], number - rows * grid[2]};
    }
    // Advances to the coordinates of the tile `tiles_further` numbers later.
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
    // Whether coordinates fit 32 bits, as `nearby_coord` requires.
    __device__ inline bool has_32_bit_coords() const { return max_of(max_of(grid[0], grid[1]), grid[2]) <= 1u << 30; }
    // Returns the coordinates of the tile `further` numbers after another tile of its chunk. Requires
    // `has_32_bit_coords`.
    __device__ inline TileCoord nearby_coord(const TileCoord &from, uint32_t further) const {
        const uint32_t x = uint32_t(from.x) + further, rows = quotient_32(by_grid[2], x);
        const uint32_t y = uint32_t(from.y) + rows, planes = quotient_32(by_grid[1], y);
        const uint32_t z = uint32_t(from.z) + planes, fields = quotient_32(by_grid[0], z);
        return {from.b + fields, z - fields * uint32_t(grid[0]), y - planes * uint32_t(grid[1]),
                x - rows * uint32_t(grid[2])};
    }
    // Returns tile `number`, which must be below `tiles`.
    __device__ inline Tile tile(uint64_t number) const { return tile(coord(number)); }
    __device__ inline Tile tile(const TileCoord &coord) const {
        uint64_t b = coord.b, z = coord.z * side[0], y = coord.y * side[1], x = coord.x * side[2];
        Tile tile;
        tile.nz = uint32_t(min_of<uint64_t>(dims[1] - z, side[0]));
        tile.ny = uint32_t(min_of<uint64_t>(dims[2] - y, side[1]));
        tile.nx = uint32_t(min_of<uint64_t>(dims[3] - x, side[2]));
        uint64_t slab = b * strides[0] + z * strides[1]; // elements of whole planes before the tile
        tile.first_element = slab + y * strides[2] + x;
        tile.elements_before = slab + tile.nz * (y * dims[3] + tile.ny * x);
        return tile;
    }
    // Returns the elements in the tiles before tile `number`, which may also be `tiles`.
    __device__ inline uint64_t elements_before(uint64_t number) const {
        return number < tiles ? tile(number).elements_before : dims[0] * strides[0];
    }
    __device__ inline uint64_t chunk_of(uint64_t number) const { return quotient(by_chunk, number); }
    // Returns the first tile of a chunk. The end of the last chunk is `tiles`.
    __device__ inline uint64_t first_tile(uint64_t chunk) const { return min_of<uint64_t>(chunk * chunk_tiles, tiles); }
    __device__ inline bool is_unclipped(const Tile &tile) const {
        return tile.nz == side[0] && tile.ny == side[1] && tile.nx == side[2];
    }
};

// Consecutive chunks that a kernel processes together. Their tiles are numbered from the batch's first.
struct ChunkBatch : ChunkBatchFields {
    __device__ inline uint32_t chunk_first(uint32_t chunk) const { return min_of(chunk * chunk_tiles, tiles); }
};
