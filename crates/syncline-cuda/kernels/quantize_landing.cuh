// Where a warp's elements arrive in shared memory, while it works on those before.
#pragma once
#include "quantize_rows.cuh"

#if __CUDA_ARCH__ >= 800
constexpr bool ASYNCHRONOUS = true;
#else
constexpr bool ASYNCHRONOUS = false;
#endif

// Each lane has its rows in places of its own: piece i of 16 bytes of row k, of all lanes, side by side.
struct Landing {
    static constexpr uint32_t PIECES = ELEMENT_BYTES / 4;
    static constexpr uint32_t PIECE = QUAD / PIECES;

    Element *memory; // of a unit
    bool full;       // elements have been asked for

    // From the lane's first element, in bytes.
    __device__ static inline constexpr uint32_t offset(uint32_t k, uint32_t j) { return ((k * PIECES + j / PIECE) * WARP * PIECE + j % PIECE) * ELEMENT_BYTES; }
    __device__ inline Element *place(uint32_t k, uint32_t j) const { return memory + lane_id() * PIECE + offset(k, j) / ELEMENT_BYTES; }

    // Asks for the lane's rows of a tile; those that are not there are left out.
    __device__ inline void fetch(const Element *slab, const FastTile &tile, bool aligned) {
        const Element *from = slab + tile.first;
        const uint32_t to = shared_address(place(0, 0));
        if (aligned && tile.whole) {
            // Lanes side by side have elements side by side: each fetches a piece of all of theirs, so that pieces fetched together are side by side.
            const uint32_t own = lane_id() % PIECES;
            const Element *piece = from - int32_t(own * (QUAD - PIECE));
            const uint32_t piece_to = to + offset(0, own * PIECE) - own * PIECE * ELEMENT_BYTES;
#pragma unroll
            for (uint32_t k = 0; k < ROWS; ++k) {
#pragma unroll
                for (uint32_t i = 0; i < PIECES; ++i) {
                    copy<16>(piece_to + offset(k, 0) + i * PIECE * ELEMENT_BYTES, piece + i * QUAD, true);
                }
                piece += tile.row_stride;
            }
        } else {
#pragma unroll
            for (uint32_t k = 0; k < ROWS; ++k) {
#pragma unroll
                for (uint32_t j = 0; j < QUAD; ++j) {
                    copy<ELEMENT_BYTES>(to + offset(k, j), from + j, k < tile.rows && j < tile.cols);
                }
                from += tile.row_stride;
            }
        }
        full = true;
    }
    // Until they are there for the whole warp.
    __device__ inline void wait() {
#if __CUDA_ARCH__ >= 800
        asm volatile("cp.async.wait_all;" : : : "memory");
#endif
        __syncwarp();
        full = false;
    }
    // Frees the memory for other uses.
    __device__ inline void discard() {
        if (__any_sync(ALL_LANES, full)) {
            wait();
        }
    }
    // The first element of the lane's tile.
    __device__ inline Element first() const { return memory[tile_leader() * PIECE]; }
    __device__ inline void row(uint32_t k, Element (&x)[QUAD]) const {
#if ELEMENT_BYTES == 4
        const float4 quad = *reinterpret_cast<const float4 *>(place(k, 0));
        x[0] = quad.x, x[1] = quad.y, x[2] = quad.z, x[3] = quad.w;
#else
        const double2 low = *reinterpret_cast<const double2 *>(place(k, 0)), high = *reinterpret_cast<const double2 *>(place(k, PIECE));
        x[0] = low.x, x[1] = low.y, x[2] = high.x, x[3] = high.y;
#endif
    }

private:
    template <uint32_t BYTES> __device__ static inline void copy(uint32_t to, const Element *from, bool there) {
#if __CUDA_ARCH__ >= 800
        if constexpr (BYTES == 16) {
            // Past the first-level cache, or for f64, of which lanes side by side have pieces of other rows, through it: faster each.
#if ELEMENT_BYTES == 4
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(to), "l"(from) : "memory");
#else
            asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" : : "r"(to), "l"(from) : "memory");
#endif
        } else {
            asm volatile("{ .reg .pred p; setp.ne.u32 p, %3, 0; @p cp.async.ca.shared.global [%0], [%1], %2; }"
                         :
                         : "r"(to), "l"(from), "n"(BYTES), "r"(uint32_t(there))
                         : "memory");
        }
#else
        if constexpr (BYTES == 16) {
            const uint4 piece = __ldcs(reinterpret_cast<const uint4 *>(from));
            asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" : : "r"(to), "r"(piece.x), "r"(piece.y), "r"(piece.z), "r"(piece.w) : "memory");
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
