// Definitions that all encoders share.
//
// An encoder works on segments: SEGMENT consecutive symbols of a stream, a whole number of groups. It writes the
// codewords of a segment to the segment's own slot, the number of bits of each group, and the segment's sums.
// huffman/encode/streams.cu then lays the segments out as streams, so no block waits for another.
//
// SYMBOL_BYTES  bytes of a symbol, 1 or 2
// GROUP         symbols of a group, 64 or 128
// ALPHABET      number of symbols, a power of two
// CLASSES       1; or 4, with a codebook for each class and one for all classes together
// LONGEST       maximum codeword length in bits, 16 or 20
// SEGMENT       symbols of a segment, a power of two from 512
#pragma once
#include "huffman/encode/structs.cuh"
#include "device/block.cuh"
#include "huffman/encode/structs.cuh"

constexpr uint32_t SYMBOL_BITS = 8 * SYMBOL_BYTES;
constexpr uint32_t SYMBOL_MASK = (1u << SYMBOL_BITS) - 1;
constexpr uint32_t CODEBOOKS = CLASSES == 1 ? 1 : CLASSES + 1;
constexpr uint32_t SEGMENT_GROUPS = SEGMENT / GROUP;
constexpr uint32_t SLOT_WORDS = SEGMENT * LONGEST / 32;
// Whether consecutive blocks belong to different streams. This is so for short segments, whose inputs the device
// encodes almost at once: blocks beyond the end of a stream, which have nothing to do, are then the last to start.
constexpr bool INTERLEAVED = SEGMENT < 8192;
// Bits of the code in a codeword of a codebook. The length is above them.
constexpr uint32_t CODE_BITS = 27;

constexpr uint32_t SEGMENT_INVALID = 1u << 31;
constexpr uint32_t STATUS_MISSING_CODEWORD = 1, STATUS_NO_ROOM = 2;

// Returns the index of a stream's codebook among all codebooks, if the stream uses `codebooks` codebooks.
__device__ inline uint32_t codebook_of(uint32_t stream, uint32_t codebooks, uint32_t codebook) {
    return stream * CODEBOOKS + (CLASSES > 1 && codebooks == 1 ? CLASSES : codebook);
}

// A lane handles 16 symbols at a time.
constexpr uint32_t LANE_SYMBOLS = 16;
constexpr uint32_t LANE_VECTORS = LANE_SYMBOLS * SYMBOL_BYTES / 16;
constexpr uint32_t LANE_WORDS = 4 * LANE_VECTORS;
constexpr uint32_t WARP_SYMBOLS = WARP * LANE_SYMBOLS;
constexpr uint32_t LANES_IN_GROUP = GROUP / LANE_SYMBOLS;
constexpr uint32_t WORD_SYMBOLS = 4 / SYMBOL_BYTES;

// Returns a word that consists of copies of a symbol.
__device__ constexpr uint32_t spread_symbol(uint32_t symbol) {
    return symbol * (SYMBOL_BYTES == 1 ? 0x01010101u : 0x00010001u);
}

constexpr uint32_t BEYOND_ALPHABET = spread_symbol(SYMBOL_MASK & ~(ALPHABET - 1));

// 16 symbols of a lane. Lanes past the end of a stream load its last symbols and do not use them, which saves a test.
struct LaneSymbols {
    uint32_t words[LANE_WORDS];

    __device__ inline uint32_t operator[](uint32_t i) const {
        return words[i / WORD_SYMBOLS] >> i % WORD_SYMBOLS * SYMBOL_BITS & SYMBOL_MASK;
    }
    // Loads from an address that is a multiple of 16 bytes.
    __device__ inline void load(const uint8_t *from) {
#pragma unroll
        for (uint32_t v = 0; v < LANE_VECTORS; ++v) {
            const uint4 vector = __ldcs(reinterpret_cast<const uint4 *>(from) + v);
            words[4 * v] = vector.x;
            words[4 * v + 1] = vector.y;
            words[4 * v + 2] = vector.z;
            words[4 * v + 3] = vector.w;
        }
    }
    __device__ inline bool differs_from(uint32_t free_word) const {
        uint32_t differences = 0;
#pragma unroll
        for (uint32_t w = 0; w < LANE_WORDS; ++w) {
            differences |= words[w] ^ free_word;
        }
        return differences != 0;
    }
    // Returns the bitwise or of all words. It has a bit of BEYOND_ALPHABET if a symbol is not below ALPHABET.
    __device__ inline uint32_t all_bits() const {
        uint32_t all = 0;
#pragma unroll
        for (uint32_t w = 0; w < LANE_WORDS; ++w) {
            all |= words[w];
        }
        return all;
    }
    // Adds the sum of the symbols, and their sum weighted with 1, 2, ..., 16.
    __device__ inline void checksum(uint32_t &sum, uint32_t &weighted) const {
#pragma unroll
        for (uint32_t w = 0; w < LANE_WORDS; ++w) {
            if (SYMBOL_BYTES == 1) {
                sum = __dp4a(words[w], 0x01010101u, sum);
                weighted = __dp4a(words[w], 0x04030201u + 0x04040404u * w, weighted);
            } else {
                sum = __dp2a_lo(words[w], 0x0101u, sum);
                weighted = __dp2a_lo(words[w], 0x0201u + 0x0202u * w, weighted);
            }
        }
    }
};

// Returns a mask of the warp's lanes that belong to this lane's group.
__device__ inline uint32_t group_lanes() {
    return ((1u << LANES_IN_GROUP) - 1) << lane_id() / LANES_IN_GROUP * LANES_IN_GROUP;
}

// Returns a mask with a bit for each coded group of the warp, at the group's first lane, given the lanes that have a
// symbol other than that of zero-bit groups.
__device__ inline uint32_t coded_group_mask(uint32_t differing_lanes) {
    uint32_t any = differing_lanes;
#pragma unroll
    for (uint32_t distance = 1; distance < LANES_IN_GROUP; distance *= 2) {
        any |= any >> distance;
    }
    constexpr uint32_t FIRST_LANES = LANES_IN_GROUP == 8 ? 0x01010101u : 0x11111111u;
    return any & FIRST_LANES;
}
