// The tokens of a data block, for the decoder.
//
// The input is not trusted. Counts are compared with the sections' lengths (`lzss_starts`), and matches with the data
// block; a chunk with an error gets a status.
#pragma once
#include "lzss/lzss.cuh"
#include "lzss/structs.cuh"

constexpr uint32_t STATUS_COUNTS = 1;
constexpr uint32_t STATUS_FLAGS = 2;
constexpr uint32_t STATUS_MATCH = 4;

// The counts of a data block, and its start among those of its chunk.
struct Start {
    uint32_t tokens;
    uint32_t matches;
    uint32_t flag_words;
    uint32_t matches_before;
    uint32_t literals_before;
};

__device__ inline uint32_t symbols_of(const DecodeSection &section, uint32_t in_chunk) {
    const uint64_t left = section.bytes - uint64_t(in_chunk) * BLOCK_BYTES;
    return uint32_t((min_of<uint64_t>(left, BLOCK_BYTES) + WIDTH - 1) / WIDTH);
}

// The tokens of a data block.
struct Input {
    const uint32_t *flags;
    const uint8_t *lengths;
    const distance_t *distances;
    const symbol_t *literals;
    uint32_t tokens;
    uint32_t matches;
    uint32_t symbols;
    uint32_t min_match;
};

__device__ inline Input input_of(const uint8_t *input, const DecodeSection &section, const Start &start,
                                 uint32_t in_chunk) {
    return {reinterpret_cast<const uint32_t *>(input + section.flags) + uint64_t(start.flag_words) * 2,
            input + section.lengths + start.matches_before,
            reinterpret_cast<const distance_t *>(input + section.distances) + start.matches_before,
            reinterpret_cast<const symbol_t *>(input + section.literals) + start.literals_before,
            start.tokens,
            start.matches,
            symbols_of(section, in_chunk),
            section.min_match};
}
