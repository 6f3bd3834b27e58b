// What parsing the records of a batch of chunks leaves for reconstruction; container/parsed.rs fills in the same
// structs on the host.
//
// Chunks and tiles are numbered from the batch's first. Everything here has been checked: a chunk whose `status` is 0
// has metas of known kinds, patterns that the header has, lists that ascend and lie in their tiles, groups that fit the
// stream and the slots. A chunk with another status is left out: none of its other fields or tiles mean anything.
// Codes, index and bitmaps themselves have not been looked at.
#pragma once
#include "common.cuh"

constexpr uint32_t CHUNK_RAW = 0, CHUNK_QUANTIZED = 2, CHUNK_TOKENS = 4;
// Chunks of a batch at most.
constexpr uint32_t MAX_CHUNKS = 256;

// Offsets are bytes from the start of the input.
struct ParsedChunk {
    uint64_t raw; // the elements of a raw chunk, in tile order, on a multiple of 16; of one of tokens, its section of
                  // codes, likewise
    uint64_t outlier_positions; // u32, ascending, in the chunk; on a multiple of 4
    uint64_t outlier_values;    // i32; on a multiple of 8
    uint64_t verbatim_positions;
    uint64_t verbatim_values; // elements; on a multiple of 8
    uint32_t status;          // 0, or what is wrong: PARSE_*
    uint32_t kind;            // CHUNK_RAW, CHUNK_QUANTIZED or CHUNK_TOKENS: quantized, with codes as LZSS tokens
    uint32_t radius;          // 512 or 32768; of tokens 128
    uint32_t outliers, verbatim;
    uint32_t groups, live; // of codes
    uint32_t live_tiles;   // that are not constant
    uint32_t wide;         // not 0: the radius is not 512, or a symbol is 1,024 or more
    uint32_t token_bytes;  // of the section of codes as tokens
};

// A tile's 16 bits of meta.
__device__ inline bool meta_constant(uint32_t meta) { return meta & 1; }
__device__ inline uint32_t meta_predictor(uint32_t meta) { return meta >> 1 & 3; }
__device__ inline uint32_t meta_class(uint32_t meta) { return meta >> 3 & 3; }
// 0 nothing, 1 all, 2 a bitmap.
__device__ inline uint32_t meta_mask(uint32_t meta) { return meta >> 5 & 3; }
__device__ inline uint32_t meta_pattern(uint32_t meta) { return meta >> 7 & 3; }
__device__ inline uint32_t meta_sign(uint32_t meta) { return meta >> 9 & 3; }

// The arrays of a batch, passed to kernels by value. `tiles` is the number of tiles in a whole chunk: tile `i` of chunk
// `c` is entry `c * tiles + i`.
struct Parsed {
    const ParsedChunk *chunks;
    const uint16_t *metas;
    const int32_t *bases;
    const uint32_t *first_groups; // in the chunk; of a constant tile that of the next that is not
    // The numbers of the chunk's tiles: first those that are not constant, then the others, both ascending. Not written
    // for raw chunks.
    const uint16_t *order;
    // The first list entry at or behind the tile's first element: `tiles + 1` a chunk, entry `c * (tiles + 1) + i`, so
    // that a tile's range ends where the next one's starts. Written only for chunks that have any.
    const uint32_t *outlier_starts, *verbatim_starts;
    // First byte of the tile's bitmap in its chunk's bytes, for tiles that have one; null if no tile can have one.
    const uint32_t *mask_starts, *sign_starts;
    // The bitmaps, decoded but as stored (each bit's exclusive or with its neighbor's): those of chunk `c` from `c *
    // bitmap_stride` on.
    const uint8_t *masks, *signs;
    // Live groups of the chunk before each 32 groups: chunk `c` from `c * rank_stride` on. Written only for streams
    // with free groups.
    const uint32_t *ranks;
    uint64_t bitmap_stride;
    uint32_t rank_stride;
    uint32_t tiles;
    uint32_t chunk_count;
    uint32_t slots; // groups of a chunk at most: codes and classes of chunk `c` start at group `c * slots`
};

// How a batch ends; mirrored in container/parse/ending.rs. What the host is told of each chunk: bits 0 to 15 what
// parsing found, bits 16 to 23 the codes' status, 24 to 31 the bitmaps'.
struct BatchFinish {
    uint32_t *result;              // a word a chunk; null if the batch ends elsewhere
    const uint32_t *bitmap_status; // `bitmaps` words a chunk: of all chunks the first, then the second
    uint32_t *clear;               // words that the next batch needs to be 0
    uint32_t clear_bytes;
    uint32_t bitmaps;
};

// Brings statuses together and clears what the next batch needs to be 0, when everything else is done. By a whole
// block.
__device__ inline void finish_batch(const BatchFinish &ending, const ParsedChunk *chunks, const uint32_t *code_status,
                                    uint32_t count) {
    for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) {
        uint32_t status = chunks[i].status | (__ldcg(&code_status[i]) & 0xFF) << 16;
        for (uint32_t bitmap = 0; bitmap < ending.bitmaps; ++bitmap) {
            status |= ending.bitmap_status[bitmap * count + i] << 24;
        }
        ending.result[i] = status;
    }
    __syncthreads();
    for (uint32_t word = threadIdx.x; word < ending.clear_bytes / 4; word += blockDim.x) {
        ending.clear[word] = 0;
    }
}
