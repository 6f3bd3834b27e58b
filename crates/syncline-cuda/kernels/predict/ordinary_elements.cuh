// The elements of whole tiles, on their way from the array to the lanes of a warp (predict/ordinary.cuh).
#pragma once
#include "device/copy_async.cuh"

// Whether the elements of the next tile are copied to shared memory, which takes no registers.
#define STAGES (TILE_ELEMENTS * ELEMENT_BYTES <= 4096)

// Whole tiles are requested at once, unless registers do not suffice.
constexpr bool IN_REGISTERS = TILE_ELEMENTS * ELEMENT_BYTES <= 512 * 8;

// Bytes that a quad is loaded by at once.
constexpr uint32_t QUAD_BYTES = 4 * sizeof(Stored) < 16 ? 4 * sizeof(Stored) : 16;

// Loads a quad, which starts on a multiple of QUAD_BYTES.
__device__ inline void load_quad(const Stored *from, Stored (&quad)[4]) {
#if IS_COMPUTED && ELEMENT_BYTES == 4
    const float4 four = __ldcs(reinterpret_cast<const float4 *>(from));
    quad[0] = four.x, quad[1] = four.y, quad[2] = four.z, quad[3] = four.w;
#elif IS_COMPUTED
    const double2 low = __ldcs(reinterpret_cast<const double2 *>(from)),
                  high = __ldcs(reinterpret_cast<const double2 *>(from) + 1);
    quad[0] = low.x, quad[1] = low.y, quad[2] = high.x, quad[3] = high.y;
#else
    constexpr uint32_t WORDS_OF_QUAD = sizeof(Stored);
    uint32_t words[WORDS_OF_QUAD];
    const uint32_t *parts = reinterpret_cast<const uint32_t *>(from);
    if constexpr (WORDS_OF_QUAD == 1) {
        words[0] = __ldcs(parts);
    } else if constexpr (WORDS_OF_QUAD == 2) {
        const uint2 two = __ldcs(reinterpret_cast<const uint2 *>(parts));
        words[0] = two.x, words[1] = two.y;
    } else {
#pragma unroll
        for (uint32_t i = 0; i < WORDS_OF_QUAD; i += 4) {
            const uint4 four = __ldcs(reinterpret_cast<const uint4 *>(parts + i));
            words[i] = four.x, words[i + 1] = four.y, words[i + 2] = four.z, words[i + 3] = four.w;
        }
    }
#pragma unroll
    for (uint32_t j = 0; j < 4; ++j) {
        constexpr uint32_t IN_WORD = sizeof(Stored) < 4 ? 4 / sizeof(Stored) : 1;
        if constexpr (sizeof(Stored) == 8) {
            quad[j] = Stored(words[2 * j] | uint64_t(words[2 * j + 1]) << 32);
        } else {
            quad[j] = Stored(words[j / IN_WORD] >> j % IN_WORD * (8 * sizeof(Stored) % 32));
        }
    }
#endif
}

// The elements of a tile, of which each lane has its quads.
struct OrdinaryElements {
    TileSource source;
    bool vectors; // whether quads start on multiples of QUAD_BYTES
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
        const Stored *from = source.first + quad_in_array(source, k);
        Stored own[4];
        if (vectors) {
            load_quad(from, own);
        } else {
#pragma unroll
            for (uint32_t j = 0; j < 4; ++j) {
                own[j] = __ldcs(from + j);
            }
        }
#pragma unroll
        for (uint32_t j = 0; j < 4; ++j) {
            quad[j] = loaded(own[j], *source.origin);
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
    Stored *staged;
    const Origin *origin;

    // Begins to copy the elements of a tile. `vectors` says whether quads start on multiples of QUAD_BYTES. Called by
    // the whole warp, whose lanes have read the elements before.
    __device__ inline void request(const TileSource &source, bool vectors) const {
        if (vectors) {
#pragma unroll
            for (uint32_t k = 0; k < QUADS; ++k) {
                const Stored *from = source.first + quad_in_array(source, k);
                Stored *to = staged + STRIP_LEN * k + 4 * lane_id();
#pragma unroll
                for (uint32_t j = 0; j < 4; j += QUAD_BYTES / sizeof(Stored)) {
                    copy_async<QUAD_BYTES>(to + j, from + j);
                }
            }
        } else {
            // Lanes have elements next to each other.
#pragma unroll 4
            for (uint32_t word = 0; word < TILE_ELEMENTS / WARP; ++word) {
                const Stored *from = source.first + element_in_array(source, word);
                Stored *to = staged + WARP * word + lane_id();
                if constexpr (sizeof(Stored) < 4) {
                    *to = __ldcs(from);
                } else {
                    copy_async<sizeof(Stored)>(to, from);
                }
            }
        }
    }
    // Waits for the elements. Called by the whole warp.
    __device__ inline void wait() const {
        wait_for_copies();
        __syncwarp();
    }
    __device__ inline void quad(uint32_t k, Element (&quad)[4]) const {
        const Stored *from = staged + STRIP_LEN * k + 4 * lane_id();
#if IS_COMPUTED && ELEMENT_BYTES == 4
        const float4 four = *reinterpret_cast<const float4 *>(from);
        quad[0] = four.x, quad[1] = four.y, quad[2] = four.z, quad[3] = four.w;
#elif IS_COMPUTED
        const double2 low = reinterpret_cast<const double2 *>(from)[0],
                      high = reinterpret_cast<const double2 *>(from)[1];
        quad[0] = low.x, quad[1] = low.y, quad[2] = high.x, quad[3] = high.y;
#else
#pragma unroll
        for (uint32_t j = 0; j < 4; ++j) {
            quad[j] = loaded(from[j], *origin);
        }
#endif
    }
};
#endif
