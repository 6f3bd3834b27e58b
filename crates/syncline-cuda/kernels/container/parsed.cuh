// The results of parsing the records of a batch, which decoding reads (`Parsed` in container/structs.cuh).
//
// A chunk without problems has masks and signs of known kinds, patterns that the header has, a list that ascends and
// lies in the chunk, and strips that lie within its codewords. If there are problems, its other fields and its tiles
// are meaningless. Codewords themselves are not validated.
#pragma once
#include "device/warp.cuh"
#include "container/structs.cuh"
#include "format/constants.cuh"
#include "quantize/tile_info.cuh"
#include "strips/constants.cuh"

using format::KIND_BLOCKS;
using format::KIND_QUANTIZED;
using format::KIND_RAW;
// Maximum chunks of a batch.
constexpr uint32_t MAX_CHUNKS = sizeof(Records::starts) / 4 - 1;

// Words of problems of a chunk: one for each block that parses it (container/parse.cuh), and one for decoding.
constexpr uint32_t PROBLEM_WORDS = 12, DECODE_PROBLEM = PROBLEM_WORDS - 1;
// The bit of codewords that are wrong.
constexpr uint32_t PROBLEM_CODEWORDS = 512;
// Bits of the sections of blocks, and of blocks that are wrong.
constexpr uint32_t PARSE_PLAN = 2048, PARSE_SIZES = 4096, PARSE_ANCHORS = 8192, PROBLEM_BLOCK = 16384;

// Bits of a decoding table's index, and its entries.
constexpr uint32_t STRIP_TABLE = 1u << strips::MAX_LENGTH;

// Returns whether parsing found nothing wrong with a chunk of the lane's own.
__device__ inline bool own_chunk_is_valid(const Parsed &parsed, uint32_t chunk) {
    uint32_t problem = 0;
    for (uint32_t i = 0; i < DECODE_PROBLEM; ++i) {
        problem |= parsed.problems[chunk * PROBLEM_WORDS + i];
    }
    return problem == 0;
}
// Returns whether parsing found nothing wrong with a chunk that all lanes have. Called by a whole warp.
__device__ inline bool chunk_is_valid(const Parsed &parsed, uint32_t chunk) {
    const uint32_t *problems = parsed.problems + chunk * PROBLEM_WORDS;
    return __ballot_sync(ALL_LANES, lane_id() < DECODE_PROBLEM && problems[lane_id()] != 0) == 0;
}

// Returns the decoding table of a codebook.
__device__ inline const uint32_t *strip_table(const Parsed &parsed, uint32_t chunk, uint32_t codebook) {
    return parsed.tables + (uint64_t(chunk) * strips::CODEBOOKS + codebook) * STRIP_TABLE;
}
