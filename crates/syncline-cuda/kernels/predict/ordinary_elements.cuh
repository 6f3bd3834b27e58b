// The elements of whole tiles, on their way from the array to the lanes of a warp (predict/ordinary.cuh).
#pragma once
#include "device/copy_async.cuh"

// Whether the elements of the next tile are copied to shared memory, which takes no registers.
#define STAGES (TILE_ELEMENTS * ELEMENT_BYTES <= 4096)

// Whole tiles are requested at once, unless registers do not suffice.
constexpr bool IN_REGISTERS = TILE_ELEMENTS * ELEMENT_BYTES <= 512 * 8;

// The elements of a tile, of which each lane has its quads.
struct OrdinaryElements {
    TileSource source;
    bool vectors; // whether quads start on multiples of 16 bytes
    Element of[IN_REGISTERS ? QUADS : 1][4];

    OrdinaryElements() = default;
    __device__ inline OrdinaryElements(const TileSource &source, bool vectors) : source(source), vectors(vectors) {
        if (IN_REGISTERS) {
#pragma unroll
            for (uint32_t k = 0; k < QUADS; ++k) {
                load(k, of[IN_REGISTERS ? k : 0]);
            }
        }
    }
    __device__ inline void wait() const {}
    __device__ inline void load(uint32_t k, Element (&quad)[4]) const {
        const Element *from = source.first + quad_in_array(source, k);
        if (vectors) {
#if ELEMENT_BYTES == 4
            const float4 four = __ldcs(reinterpret_cast<const float4 *>(from));
            quad[0] = four.x, quad[1] = four.y, quad[2] = four.z, quad[3] = four.w;
#else
            const double2 low = __ldcs(reinterpret_cast<const double2 *>(from)),
                          high = __ldcs(reinterpret_cast<const double2 *>(from) + 1);
            quad[0] = low.x, quad[1] = low.y, quad[2] = high.x, quad[3] = high.y;
#endif
        } else {
#pragma unroll
            for (uint32_t j = 0; j < 4; ++j) {
                quad[j] = __ldcs(from + j);
            }
        }
    }
    __device__ inline void quad(uint32_t k, Element (&quad)[4]) const {
        if (IN_REGISTERS) {
#pragma unroll
            for (uint32_t j = 0; j < 4; ++j) {
                quad[j] = of[IN_REGISTERS ? k : 0][j];
            }
        } else {
            load(k, quad);
        }
    }
};

#if STAGES
// The same in shared memory, in raster order, to which they are copied while another tile is encoded.
struct StagedElements {
    Element *staged;

    // Begins to copy the elements of a tile. `vectors` says whether quads start on multiples of 16 bytes. Called by the
    // whole warp, whose lanes have read the elements before.
    __device__ inline void request(const TileSource &source, bool vectors) const {
        if (vectors) {
#pragma unroll
            for (uint32_t k = 0; k < QUADS; ++k) {
                const Element *from = source.first + quad_in_array(source, k);
                Element *to = staged + STRIP_LEN * k + 4 * lane_id();
#pragma unroll
                for (uint32_t j = 0; j < 4; j += 16 / ELEMENT_BYTES) {
                    copy_async<16>(to + j, from + j);
                }
            }
        } else {
            // Lanes have elements next to each other.
#pragma unroll 4
            for (uint32_t word = 0; word < TILE_ELEMENTS / WARP; ++word) {
                copy_async<ELEMENT_BYTES>(staged + WARP * word + lane_id(),
                                          source.first + element_in_array(source, word));
            }
        }
    }
    // Waits for the elements. Called by the whole warp.
    __device__ inline void wait() const {
        wait_for_copies();
        __syncwarp();
    }
    __device__ inline void quad(uint32_t k, Element (&quad)[4]) const {
        const Element *from = staged + STRIP_LEN * k + 4 * lane_id();
#if ELEMENT_BYTES == 4
        const float4 four = *reinterpret_cast<const float4 *>(from);
        quad[0] = four.x, quad[1] = four.y, quad[2] = four.z, quad[3] = four.w;
#else
        const double2 low = reinterpret_cast<const double2 *>(from)[0],
                      high = reinterpret_cast<const double2 *>(from)[1];
        quad[0] = low.x, quad[1] = low.y, quad[2] = high.x, quad[3] = high.y;
#endif
    }
};
#endif
