// What the encoders share.
//
// Every encoder works on segments: SEGMENT consecutive symbols of a stream, whole groups. It writes the segment's
// codewords from the first bit of the segment's own slot, the bits of each group, and the segment's sums;
// huffman/encode/streams.cu lays the segments out as streams. Nothing waits for another block: where a segment ends up
// is known when all are measured.
//
// SYMBOL_BYTES  bytes of a symbol, 1 or 2
// GROUP         symbols in a group, 64 or 128
// ALPHABET      symbols with table entries, a power of two
// CLASSES       codebooks of a stream: 1, or 4 (and a fifth for all classes together, used where four do not pay)
// LONGEST       longest codeword in bits, 16 or 20
// SEGMENT       symbols in a segment: a power of two from 512 up
#pragma once
#include "huffman/stream_input.cuh"
#include "device/block.cuh"

constexpr uint32_t SYMBOL_BITS = 8 * SYMBOL_BYTES;
constexpr uint32_t SYMBOL_MASK = (1u << SYMBOL_BITS) - 1;
constexpr uint32_t CODEBOOKS = CLASSES == 1 ? 1 : CLASSES + 1;
constexpr uint32_t SEGMENT_GROUPS = SEGMENT / GROUP;
constexpr uint32_t SLOT_WORDS = SEGMENT * LONGEST / 32;
// Whether blocks are dealt out to streams in turn, as segments of less than the longest kind are of inputs that the
// device has room for almost at once: blocks behind a stream's end, index have nothing to do, then come last, when all
// others have a offset.
constexpr bool INTERLEAVED = SEGMENT < 8192;
// A codeword as the codebook stage gives it: length above the code.
constexpr uint32_t CODE_BITS = 27;

// What an encoder finds out about a segment.
struct SegmentSums {
    uint32_t bits;
    uint32_t live;          // groups, and SEGMENT_INVALID if a symbol had no codeword
    uint32_t sum, weighted; // checksum of the live groups, numbered from the segment's first
};

// What a stream's layout says; huffman/encode/mod.rs reads it.
struct StreamPlan {
    uint32_t groups, live, bits, sum;
    uint32_t weighted, codebooks, codebook_bytes, bitmap_at;
    uint32_t index_at, index_bytes, codewords_at, stream_bytes;
    uint32_t longest, has_free, free_symbol, status;
};

constexpr uint32_t SEGMENT_INVALID = 1u << 31;
constexpr uint32_t STATUS_MISSING_CODEWORD = 1, STATUS_NO_ROOM = 2;

// Where a codebook of a stream is among all; `codebooks` of that stream are in use.
__device__ inline uint32_t codebook_of(uint32_t stream, uint32_t codebooks, uint32_t codebook) {
    return stream * CODEBOOKS + (CLASSES > 1 && codebooks == 1 ? CLASSES : codebook);
}

// Sixteen symbols, as a lane handles them.
constexpr uint32_t LANE_SYMBOLS = 16;
constexpr uint32_t LANE_VECTORS = LANE_SYMBOLS * SYMBOL_BYTES / 16;
constexpr uint32_t LANE_WORDS = 4 * LANE_VECTORS;
constexpr uint32_t WARP_SYMBOLS = WARP * LANE_SYMBOLS;
constexpr uint32_t LANES_IN_GROUP = GROUP / LANE_SYMBOLS;
constexpr uint32_t WORD_SYMBOLS = 4 / SYMBOL_BYTES;

// What our encoder lengths_of_codewords for the gap index: the length of each codeword, in so many bits, and, of each
// lane's symbols in a round of a warp, where in the round they end.
constexpr uint32_t LENGTH_BITS = LONGEST <= 16 ? 4 : 8;
constexpr uint32_t LENGTH_WORDS = LANE_SYMBOLS * LENGTH_BITS / 32;
constexpr uint32_t SEGMENT_LANES = SEGMENT / LANE_SYMBOLS;
constexpr uint32_t RECORDED_WORDS = SEGMENT_LANES * LENGTH_WORDS + SEGMENT_LANES / 2;

// A symbol in every offset of a word.
__device__ constexpr uint32_t spread_symbol(uint32_t symbol) {
    return symbol * (SYMBOL_BYTES == 1 ? 0x01010101u : 0x00010001u);
}

constexpr uint32_t BEYOND_ALPHABET = spread_symbol(SYMBOL_MASK & ~(ALPHABET - 1));

// Loads past a stream's end take its last symbols instead: they are not used, and need no test.
struct LaneSymbols {
    uint32_t words[LANE_WORDS];

    __device__ inline uint32_t operator[](uint32_t i) const {
        return words[i / WORD_SYMBOLS] >> i % WORD_SYMBOLS * SYMBOL_BITS & SYMBOL_MASK;
    }
    // Loads from a offset that is a multiple of 16 bytes.
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
    // The words or-ed: has a bit of BEYOND_ALPHABET if a symbol is not below ALPHABET.
    __device__ inline uint32_t all_bits() const {
        uint32_t all = 0;
#pragma unroll
        for (uint32_t w = 0; w < LANE_WORDS; ++w) {
            all |= words[w];
        }
        return all;
    }
    // Adds the symbols' sum, and their sum weighted with 1, 2, ..., 16.
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

// Which of the warp's lanes belong to this lane's group.
__device__ inline uint32_t group_lanes() {
    return ((1u << LANES_IN_GROUP) - 1) << lane_id() / LANES_IN_GROUP * LANES_IN_GROUP;
}

// One bit for each group of the warp that is live, at its first lane, from the lanes that saw a symbol that is not
// free.
__device__ inline uint32_t live_group_bits(uint32_t live_lanes) {
    uint32_t any = live_lanes;
#pragma unroll
    for (uint32_t distance = 1; distance < LANES_IN_GROUP; distance *= 2) {
        any |= any >> distance;
    }
    constexpr uint32_t FIRST_LANES = LANES_IN_GROUP == 8 ? 0x01010101u : 0x11111111u;
    return any & FIRST_LANES;
}
