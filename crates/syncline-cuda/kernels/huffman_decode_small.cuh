// What the kernels share that decode a small batch in one launch: entries of a table that a block makes itself, and the streams' status.
//
// THREADS   threads in a block
#pragma once
#include "huffman_decode_lookup.cuh"

// Entry `i` of a table of single symbols, from the codebook. Sets the length of the codeword that the entry's window starts with, also if it is longer than the entry knows.
__device__ inline uint32_t table_entry(const OwnBook &own, const uint16_t *symbols, const Steps &steps, uint32_t i, uint32_t &length) {
    const Codeword one = own.codeword(symbols, steps.window(i));
    length = one.length;
    return one.length <= steps.known(i) ? one.length | one.symbol << 16 : LONGER;
}

// Writes the streams' status from the three words of `sums` of each, its checksum and what was found wrong, which become 0. What the status was before stays if `keeps`. By the whole
// block that is done last.
__device__ inline void write_statuses(const Stream *streams, uint32_t stream_count, uint32_t *sums, bool keeps, uint32_t *status) {
    for (uint32_t i = threadIdx.x; i < stream_count; i += THREADS) {
        uint32_t *own = &sums[3 * i];
        const bool wrong = __ldcg(&own[0]) != streams[i].sum || __ldcg(&own[1]) != streams[i].weighted;
        status[i] = (keeps ? status[i] : 0) | __ldcg(&own[2]) | (wrong ? STATUS_CHECKSUM : 0);
        own[0] = own[1] = own[2] = 0;
    }
}

// Whether this block is the last of the grid that comes here: it finds what all have added to words in memory. By the whole block.
__device__ inline bool is_last_to_come(uint32_t *counter) {
    __shared__ bool is_last;
    __syncthreads();
    if (threadIdx.x == 0) {
        uint32_t before;
        asm volatile("atom.add.acq_rel.gpu.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
        is_last = before == gridDim.x - 1;
    }
    __syncthreads();
    return is_last;
}
