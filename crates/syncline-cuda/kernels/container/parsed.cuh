// What parsing the records of a batch leaves for reconstruction. Mirrored by container/parsed.rs.
//
// Chunks and tiles are numbered from the batch's first. All of it has been checked: a chunk whose `status` is 0 has
// metas of known kinds, patterns that the header has, lists that ascend and lie in their tiles, and groups that fit the
// stream and the slots. If the status is not 0, the chunk's other fields and tiles are meaningless. Codes, index and
// bitmaps themselves have not been checked.
#pragma once
#include "common.cuh"

constexpr uint32_t CHUNK_RAW = 0, CHUNK_QUANTIZED = 2, CHUNK_TOKENS = 4;
// Maximum chunks of a batch.
constexpr uint32_t MAX_CHUNKS = 256;

// Offsets are bytes from the start of the input.
struct ParsedChunk {
    // Offset of the elements of a raw chunk, in tile order, or of the section of codes of a chunk of tokens; a multiple
    // of 16.
    uint64_t raw;
    uint64_t outlier_positions; // u32, ascending, in the chunk; on a multiple of 4
    uint64_t outlier_values;    // i32; on a multiple of 8
    uint64_t verbatim_positions;
    uint64_t verbatim_values; // elements; on a multiple of 8
    uint32_t status;          // 0, or PARSE_* bits
    uint32_t kind;            // CHUNK_RAW, CHUNK_QUANTIZED, or CHUNK_TOKENS: quantized, with codes as LZSS tokens
    uint32_t radius;          // 512 or 32768; 128 for tokens
    uint32_t outliers, verbatim;
    uint32_t groups, live; // groups of codes
    uint32_t live_tiles;   // tiles that are not constant
    uint32_t wide;         // not 0 if the radius is not 512 or if a symbol is 1,024 or more
    uint32_t token_bytes;  // of the section of codes, if these are tokens
};

// Bit fields of a tile's meta.
__device__ inline bool meta_constant(uint32_t meta) { return meta & 1; }
__device__ inline uint32_t meta_predictor(uint32_t meta) { return meta >> 1 & 3; }
__device__ inline uint32_t meta_class(uint32_t meta) { return meta >> 3 & 3; }
// 0: nothing, 1: everything, 2: a bitmap.
__device__ inline uint32_t meta_mask(uint32_t meta) { return meta >> 5 & 3; }
__device__ inline uint32_t meta_pattern(uint32_t meta) { return meta >> 7 & 3; }
__device__ inline uint32_t meta_sign(uint32_t meta) { return meta >> 9 & 3; }

// The arrays of a batch, passed to kernels by value. `tiles` is the number of tiles of a whole chunk: tile `i` of chunk
// `c` is entry `c * tiles + i`.
struct Parsed {
    const ParsedChunk *chunks;
    const uint16_t *metas;
    const int32_t *bases;
    const uint32_t *first_groups; // in the chunk; for a constant tile that of the next tile that is not
    // Tile numbers of each chunk: first those that are not constant, then the others, both ascfinish. Not written for
    // raw chunks.
    const uint16_t *order;
    // The first list entry at or behind the tile's first element. Entry `c * (tiles + 1) + i` is for tile `i` of chunk
    // `c`, so that a tile's range ends where the next one's starts. Written only for chunks that have such a list.
    const uint32_t *outlier_starts, *verbatim_starts;
    // First byte of the tile's bitmap in its chunk's bytes, for tiles that have one. Null if no tile can have one.
    const uint32_t *mask_starts, *sign_starts;
    // Bitmaps after entropy decoding: each bit is the exclusive or with its neighbor's. Those of chunk `c` start at
    // byte `c * bitmap_stride`.
    const uint8_t *masks, *signs;
    // Number of live groups of the chunk before every 32nd group. Those of chunk `c` start at entry `c * rank_stride`.
    // Written only for streams with zero-bit groups.
    const uint32_t *ranks;
    uint64_t bitmap_stride;
    uint32_t rank_stride;
    uint32_t tiles;
    uint32_t chunk_count;
    uint32_t slots; // maximum groups of a chunk: codes and classes of chunk `c` start at group `c * slots`
};

// How the last kernel of a batch finishes it. A chunk's word has in bits 0 to 15 what parsing found, in bits 16 to 23
// the status of its codes, and in bits 24 to 31 that of its bitmaps.
struct BatchFinish {
    uint32_t *result;              // one word per chunk; null if another kernel finishes the batch
    const uint32_t *bitmap_status; // `bitmaps` words per chunk: the first words of all chunks, then the second
    uint32_t *clear;               // words that must be 0 for the next batch
    uint32_t clear_bytes;
    uint32_t bitmaps;
};

// Combines statuses and clears memory for the next batch, when everything else is done. Called by one whole block.
__device__ inline void finish_batch(const BatchFinish &finish, const ParsedChunk *chunks, const uint32_t *code_status,
                                    uint32_t count) {
    for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) {
        uint32_t status = chunks[i].status | (__ldcg(&code_status[i]) & 0xFF) << 16;
        for (uint32_t bitmap = 0; bitmap < finish.bitmaps; ++bitmap) {
            status |= finish.bitmap_status[bitmap * count + i] << 24;
        }
        finish.result[i] = status;
    }
    __syncthreads();
    for (uint32_t word = threadIdx.x; word < finish.clear_bytes / 4; word += blockDim.x) {
        finish.clear[word] = 0;
    }
}
