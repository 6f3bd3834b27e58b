// Tiles of lossless chunks: the order of their elements, mapping, prediction and its inverse (docs/FORMAT.md,
// "Prediction", "Lossless").
//
// ELEMENT_BYTES  1, 2, 4 or 8
#pragma once
#include "device/warp.cuh"
#include "format/constants.cuh"
#include "geometry.cuh"

template <uint32_t BYTES> struct WordOf;
template <> struct WordOf<1> {
    using type = uint8_t;
};
template <> struct WordOf<2> {
    using type = uint16_t;
};
template <> struct WordOf<4> {
    using type = uint32_t;
};
template <> struct WordOf<8> {
    using type = uint64_t;
};
using word_t = WordOf<ELEMENT_BYTES>::type;
// The type for shuffles and sums of words.
using wide_t = WordOf<(ELEMENT_BYTES > 4 ? 8 : 4)>::type;

constexpr uint32_t WORD_BITS = 8 * ELEMENT_BYTES;
constexpr word_t TOP_BIT = word_t(word_t(1) << (WORD_BITS - 1));
constexpr uint32_t MOST_TILE_ELEMENTS = format::MAX_TILE_ELEMENTS;
// Maximum tiles of a chunk: 2^22 elements in tiles of 512 before clipping.
constexpr uint32_t MOST_TILES = 8192;
constexpr uint32_t BLOCK_TILES = format::BASES_IN_BLOCK;
constexpr uint32_t MOST_BLOCKS = MOST_TILES / BLOCK_TILES;
constexpr uint32_t TILE_HEADER_WORDS = 3;

// Value of a constant tile in place of a predictor.
constexpr uint8_t CONSTANT = 4;

constexpr uint32_t MAP_SIGNED = 1, MAP_FLOAT = 2;

__device__ inline word_t mapped(word_t word, uint32_t map) {
    if (map == MAP_FLOAT) {
        return word_t(word ^ (word >= TOP_BIT ? word_t(~word_t(0)) : TOP_BIT));
    }
    return map == MAP_SIGNED ? word_t(word + TOP_BIT) : word;
}
__device__ inline word_t unmapped(word_t word, uint32_t map) {
    if (map == MAP_FLOAT) {
        return word_t(word ^ (word >= TOP_BIT ? TOP_BIT : word_t(~word_t(0))));
    }
    return map == MAP_SIGNED ? word_t(word + TOP_BIT) : word;
}
__device__ inline word_t zigzag(word_t word) {
    return word_t(word_t(word << 1) ^ (word >= TOP_BIT ? word_t(~word_t(0)) : word_t(0)));
}
__device__ inline word_t unzigzag(word_t word) { return word_t(word_t(word >> 1) ^ word_t(0 - (word & 1))); }
__device__ inline word_t magnitude(word_t word) { return word >= TOP_BIT ? word_t(0 - word) : word; }

// Coordinates of element `i` in a tile.
struct Coordinates {
    uint32_t z, y, x;
    __device__ inline Coordinates(const Tile &tile, uint32_t i) {
        const uint32_t row = i / tile.nx;
        x = i - row * tile.nx;
        z = row / tile.ny;
        y = row - z * tile.ny;
    }
};

// Returns the distance from the first element of a tile to its element `i` in the raster order of the array.
__device__ inline uint64_t raster_offset(const Geometry &geometry, const Tile &tile, uint32_t i) {
    const Coordinates at(tile, i);
    return at.z * geometry.strides[1] + at.y * geometry.strides[2] + at.x;
}

// Returns the residual of element `i` of a tile with the integers `values`, from which the base has been subtracted.
__device__ inline word_t residual(const word_t *values, const Tile &tile, uint32_t i, uint32_t predictor) {
    const Coordinates at(tile, i);
    const uint32_t plane = tile.nx * tile.ny;
    auto value = [&](uint32_t back) { return values[i - back]; };
    auto along_x = [&](uint32_t back) { return word_t(value(back) - (at.x > 0 ? value(back + 1) : word_t(0))); };
    auto along_xy = [&](uint32_t back) {
        return word_t(along_x(back) - (at.y > 0 ? along_x(back + tile.nx) : word_t(0)));
    };
    if (predictor == 0) {
        return value(0);
    }
    if (predictor == 3) {
        return word_t(along_xy(0) - (at.z > 0 ? along_xy(plane) : word_t(0)));
    }
    if (at.x > 0 && predictor == 1) {
        return along_x(0);
    }
    if (at.y > 0 && predictor == 1) {
        return word_t(value(0) - value(tile.nx));
    }
    if ((at.x > 0 || at.y > 0) && predictor == 2) {
        return along_xy(0);
    }
    return word_t(value(0) - (at.z > 0 ? value(plane) : word_t(0)));
}

// Replaces a tile's residuals by its integers minus the base. Called by a warp, which must call `__syncwarp` after
// writing `values`.
__device__ inline void integrate(word_t *values, const Tile &tile, uint32_t predictor) {
    if (predictor == 0) {
        return;
    }
    const uint32_t nx = tile.nx, ny = tile.ny, nz = tile.nz, plane = nx * ny;
    const uint32_t in_plane = predictor == 3 ? plane : 1;
    for (uint32_t i = lane_id(); i < in_plane; i += WARP) {
        for (uint32_t z = 1; z < nz; ++z) {
            values[z * plane + i] = word_t(values[z * plane + i] + values[(z - 1) * plane + i]);
        }
    }
    __syncwarp();
    const uint32_t in_row = predictor == 1 ? 1 : nx;
    for (uint32_t column = lane_id(); column < nz * in_row; column += WARP) {
        word_t *first = values + column / in_row * plane + column % in_row;
        for (uint32_t y = 1; y < ny; ++y) {
            first[y * nx] = word_t(first[y * nx] + first[(y - 1) * nx]);
        }
    }
    __syncwarp();
    const uint32_t rows = nz * ny;
    if (nx <= 8) {
        for (uint32_t row = lane_id(); row < rows; row += WARP) {
            for (uint32_t x = 1; x < nx; ++x) {
                values[row * nx + x] = word_t(values[row * nx + x] + values[row * nx + x - 1]);
            }
        }
        __syncwarp();
        return;
    }
    for (uint32_t row = 0; row < rows; ++row) {
        wide_t carry = 0;
        for (uint32_t start = 0; start < nx; start += WARP) {
            const uint32_t x = start + lane_id();
            wide_t sum = warp_inclusive_sum(x < nx ? values[row * nx + x] : 0);
            sum += carry;
            carry = __shfl_sync(ALL_LANES, sum, WARP - 1);
            if (x < nx) {
                values[row * nx + x] = word_t(sum);
            }
        }
    }
    __syncwarp();
}

// Unclipped tiles of arrays with one axis, as vectors: round `r` of a lane holds the elements from `(r * WARP + lane) *
// VECTOR` on, as wide_t.
constexpr uint32_t VECTOR = 16 / ELEMENT_BYTES;
constexpr uint32_t ROUNDS = MOST_TILE_ELEMENTS / (WARP * VECTOR);
struct Row {
    wide_t values[ROUNDS][VECTOR];

    __device__ inline void load(const word_t *from) {
        const uint4 *vectors = reinterpret_cast<const uint4 *>(from);
#pragma unroll
        for (uint32_t round = 0; round < ROUNDS; ++round) {
            union {
                uint4 vector;
                word_t words[VECTOR];
            } own;
            own.vector = vectors[round * WARP + lane_id()];
#pragma unroll
            for (uint32_t i = 0; i < VECTOR; ++i) {
                values[round][i] = own.words[i];
            }
        }
    }
    __device__ inline void store(word_t *to) const {
        uint4 *vectors = reinterpret_cast<uint4 *>(to);
#pragma unroll
        for (uint32_t round = 0; round < ROUNDS; ++round) {
            union {
                uint4 vector;
                word_t words[VECTOR];
            } own;
#pragma unroll
            for (uint32_t i = 0; i < VECTOR; ++i) {
                own.words[i] = word_t(values[round][i]);
            }
            vectors[round * WARP + lane_id()] = own.vector;
        }
    }
    template <typename Change> __device__ inline void each(Change change) {
#pragma unroll
        for (uint32_t round = 0; round < ROUNDS; ++round) {
#pragma unroll
            for (uint32_t i = 0; i < VECTOR; ++i) {
                values[round][i] = change(word_t(values[round][i]));
            }
        }
    }
    // Replaces each value by its difference from the previous one; `base` precedes the first.
    __device__ inline void differences(word_t base) {
        wide_t before = base;
#pragma unroll
        for (uint32_t round = 0; round < ROUNDS; ++round) {
            const wide_t last = values[round][VECTOR - 1];
            wide_t left = __shfl_up_sync(ALL_LANES, last, 1);
            left = lane_id() == 0 ? before : left;
            before = __shfl_sync(ALL_LANES, last, WARP - 1);
#pragma unroll
            for (uint32_t i = VECTOR; i-- > 1;) {
                values[round][i] -= values[round][i - 1];
            }
            values[round][0] -= left;
        }
    }
    // Replaces differences by sums, the inverse of `differences`.
    __device__ inline void sums(word_t base) {
        wide_t before = base;
#pragma unroll
        for (uint32_t round = 0; round < ROUNDS; ++round) {
#pragma unroll
            for (uint32_t i = 1; i < VECTOR; ++i) {
                values[round][i] += values[round][i - 1];
            }
            const wide_t own = values[round][VECTOR - 1];
            wide_t sum = warp_inclusive_sum(own);
            const wide_t left = before + sum - own;
            before += __shfl_sync(ALL_LANES, sum, WARP - 1);
#pragma unroll
            for (uint32_t i = 0; i < VECTOR; ++i) {
                values[round][i] += left;
            }
        }
    }
};

// Whether `Row` supports a tile and the alignment of two addresses.
__device__ inline bool is_row(const Geometry &geometry, const Tile &tile, const void *a, const void *b) {
    return geometry.axes == 1 && tile.nx == MOST_TILE_ELEMENTS &&
           (reinterpret_cast<uint64_t>(a) | reinterpret_cast<uint64_t>(b)) % 16 == 0;
}
