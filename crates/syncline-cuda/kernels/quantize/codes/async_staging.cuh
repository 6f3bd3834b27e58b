// Staging of a warp's next elements in shared memory by asynchronous copies.
#pragma once
#include "quantize/codes/vector.cuh"

// A tile of a block's work.
struct TileExtents {
    uint64_t first_element; // in the slab
    uint32_t nz_ny_nx;      // 8, 8 and 16 bits; 0 if there is no such tile
    uint32_t elements;
};

#if __CUDA_ARCH__ >= 800
constexpr bool ASYNCHRONOUS = true;
#else
constexpr bool ASYNCHRONOUS = false;
#endif

// Each lane has a place of its own for its rows. Pieces of 16 bytes with the same row and number are adjacent across
// lanes.
struct StagingBuffer {
    static constexpr uint32_t PIECES = ELEMENT_BYTES / 4;
    static constexpr uint32_t PIECE = QUAD / PIECES;

    Element *memory; // room for a unit
    bool full;       // copies have been started

    // Offset from the lane's first element in bytes.
    __device__ static inline constexpr uint32_t offset(uint32_t k, uint32_t j) {
        return ((k * PIECES + j / PIECE) * WARP * PIECE + j % PIECE) * ELEMENT_BYTES;
    }
    __device__ inline Element *place(uint32_t k, uint32_t j) const {
        return memory + lane_id() * PIECE + offset(k, j) / ELEMENT_BYTES;
    }

    // Starts copying the unit's elements. Elements outside the array are skipped. `tiles` are the unit's, and `row` and
    // `plane` are the array's, in elements.
    __device__ inline void fetch(const Element *slab, const VectorTile &tile, const TileExtents *tiles, uint64_t row,
                                 uint64_t plane, bool aligned) {
        // Other lanes may still read what is overwritten.
        __syncwarp();
        // Rows that start on multiples of 16 bytes consist of whole pieces, except clipped f64 rows, whose pieces are
        // shared by lanes.
        if (aligned && (ELEMENT_BYTES == 4 || tile.whole)) {
            fetch_quads(slab, tile);
        } else {
            fetch_elements(slab, tiles, row, plane);
        }
        full = true;
    }
    // Waits until all elements of the warp have arrived.
    __device__ inline void wait() {
#if __CUDA_ARCH__ >= 800
        asm volatile("cp.async.wait_all;" : : : "memory");
#endif
        __syncwarp();
        full = false;
    }
    // Sets elements outside the array to the tile's first.
    __device__ inline void complete(const VectorTile &tile) {
        const Element value = first();
        // For a tile outside the array, the leader overwrites the value that the other lanes read.
        __syncwarp();
#pragma unroll 1
        for (uint32_t k = 0; k < ROWS; ++k) {
#pragma unroll
            for (uint32_t j = 0; j < QUAD; ++j) {
                if (k >= tile.rows || j >= tile.cols) {
                    *place(k, j) = value;
                }
            }
        }
        __syncwarp();
    }
    // Waits for copies, so that the memory can be used otherwise.
    __device__ inline void discard() {
        if (__any_sync(ALL_LANES, full)) {
            wait();
        }
    }
    // Returns the first element of the lane's tile.
    __device__ inline Element first() const { return memory[tile_leader() * PIECE]; }
    __device__ inline void row(uint32_t k, Element (&x)[QUAD]) const {
#if ELEMENT_BYTES == 4
        const float4 quad = *reinterpret_cast<const float4 *>(place(k, 0));
        x[0] = quad.x, x[1] = quad.y, x[2] = quad.z, x[3] = quad.w;
#else
        const double2 low = *reinterpret_cast<const double2 *>(place(k, 0)),
                      high = *reinterpret_cast<const double2 *>(place(k, PIECE));
        x[0] = low.x, x[1] = low.y, x[2] = high.x, x[3] = high.y;
#endif
    }

  private:
    // Each lane copies its own rows. Their quads lie completely inside or outside the array.
    __device__ inline void fetch_quads(const Element *slab, const VectorTile &tile) {
        // Adjacent lanes have adjacent elements. Each copies one piece for all of them, so that pieces copied together
        // are adjacent.
        const uint32_t own = lane_id() % PIECES;
        const Element *piece = slab + tile.first - int32_t(own * (QUAD - PIECE));
        const uint32_t piece_to = shared_address(place(0, 0)) + offset(0, own * PIECE) - own * PIECE * ELEMENT_BYTES;
        const uint32_t rows = tile.cols > 0 ? tile.rows : 0;
#pragma unroll
        for (uint32_t k = 0; k < ROWS; ++k) {
#pragma unroll
            for (uint32_t i = 0; i < PIECES; ++i) {
                copy<16>(piece_to + offset(k, 0) + i * PIECE * ELEMENT_BYTES, piece + i * QUAD, k < rows);
            }
            piece += tile.row_stride;
        }
    }
    // Adjacent lanes copy adjacent elements of whole rows; in 3-D, a row of each tile.
    __device__ inline void fetch_elements(const Element *slab, const TileExtents *tiles, uint64_t row, uint64_t plane) {
        const uint32_t lane = lane_id(), x = AXES == 3 ? lane % 8 : lane, y = AXES == 3 ? lane / 16 : 0;
        const TileExtents &tile = tiles[AXES == 3 ? lane / 8 % 2 : 0];
        const Element *from = slab + tile.first_element + y * row + x;
        uint32_t to = shared_address(memory + lane % QUAD / PIECE * WARP * PIECE + lane / QUAD * PIECE + lane % PIECE);
        const uint32_t nx = tile.nz_ny_nx & 0xFFFF, ny = tile.nz_ny_nx >> 16 & 0xFF, nz = tile.nz_ny_nx >> 24;
        // Lanes copy the rows k of eight lanes together. Not unrolled, because fetching long code costs time.
#pragma unroll 1
        for (uint32_t eight = 0; eight < WARP / 8; ++eight) {
            const Element *at = from;
            const uint32_t rows = x >= nx                    ? 0
                                  : AXES == 3                ? (y + 2 * eight < ny ? nz : 0)
                                  : AXES == 2                ? ny - min_of(ROWS * eight, ny)
                                  : nx == ROWS * WARP * QUAD ? ROWS
                                                             : 0;
#pragma unroll
            for (uint32_t k = 0; k < ROWS; ++k) {
                copy<ELEMENT_BYTES>(to + k * WARP * QUAD * ELEMENT_BYTES, at, k < rows);
                at += AXES == 3 ? plane : AXES == 2 ? row : WARP * QUAD;
            }
            from += AXES == 3 ? 2 * row : AXES == 2 ? ROWS * row : WARP;
            to += 8 * PIECE * ELEMENT_BYTES;
        }
    }
    template <uint32_t BYTES> __device__ static inline void copy(uint32_t to, const Element *from, bool there) {
#if __CUDA_ARCH__ >= 800
        if constexpr (BYTES == 16) {
            if (there) {
                // f32 bypasses the first-level cache. f64, where adjacent lanes copy pieces of different rows, uses it.
                // Either is the faster choice.
#if ELEMENT_BYTES == 4
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(to), "l"(from) : "memory");
#else
                asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" : : "r"(to), "l"(from) : "memory");
#endif
            }
        } else {
            asm volatile("{ .reg .pred p; setp.ne.u32 p, %3, 0; @p cp.async.ca.shared.global [%0], [%1], %2; }"
                         :
                         : "r"(to), "l"(from), "n"(BYTES), "r"(uint32_t(there))
                         : "memory");
        }
#else
        if constexpr (BYTES == 16) {
            if (there) {
                const uint4 piece = __ldcs(reinterpret_cast<const uint4 *>(from));
                asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};"
                             :
                             : "r"(to), "r"(piece.x), "r"(piece.y), "r"(piece.z), "r"(piece.w)
                             : "memory");
            }
        } else if (there) {
            const Bits bits = bits_of(*from);
#if ELEMENT_BYTES == 4
            asm volatile("st.shared.u32 [%0], %1;" : : "r"(to), "r"(bits) : "memory");
#else
            asm volatile("st.shared.u64 [%0], %1;" : : "r"(to), "l"(bits) : "memory");
#endif
        }
#endif
    }
};
