// The results of parsing the records of a batch, which reconstruction reads.
//
// Chunks and tiles are numbered from the batch's first. All results are validated: a chunk whose `status` is 0 has
// metas of known kinds, patterns that the header has, lists that ascend and lie in their tiles, and groups that fit the
// stream and the slots. If the status is not 0, the chunk's other fields and tiles are meaningless. Codes, index and
// bitmaps themselves are not validated.
#pragma once
#include "common.cuh"
#include "container/structs.cuh"
#include "format/constants.cuh"

using format::KIND_LZSS_CODES;
using format::KIND_QUANTIZED;
using format::KIND_RAW;
using format::KIND_TOKEN_CODES;
// Maximum chunks of a batch.
constexpr uint32_t MAX_CHUNKS = sizeof(Records::starts) / 4 - 1;

// Bit fields of a tile's meta. Predictors of chunks with token codebooks have four bits, and there are no classes.
__device__ inline bool meta_constant(uint32_t meta) { return meta & 1; }
__device__ inline uint32_t meta_predictor(uint32_t meta) { return meta >> 1 & 3; }
__device__ inline uint32_t meta_token_predictor(uint32_t meta) { return meta >> 1 & 15; }
__device__ inline uint32_t meta_class(uint32_t meta) { return meta >> 3 & 3; }
// 0: nothing, 1: everything, 2: a bitmap.
__device__ inline uint32_t meta_mask(uint32_t meta) { return meta >> 5 & 3; }
__device__ inline uint32_t meta_pattern(uint32_t meta) { return meta >> 7 & 3; }
__device__ inline uint32_t meta_sign(uint32_t meta) { return meta >> 9 & 3; }

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
