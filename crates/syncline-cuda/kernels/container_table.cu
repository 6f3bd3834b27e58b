// The end of a stream (docs/FORMAT.md, "Chunk table and trailer"), and the list of streams that the codes of a batch are.
//
// THREADS  threads in a block
// SUMMARY_WORDS, SUMMARY_GROUPS, SUMMARY_RADIUS  words of what quantising says of a chunk, and which of them is what
#include "container_record.cuh"
#include "xxh3.cuh"

constexpr uint32_t TRAILER = 32;

// Writes the table of `chunks` record lengths and the trailer to `*end`, where the records end, and moves that to the end of the stream. One block.
extern "C" __global__ void __launch_bounds__(THREADS)
    record_table(const uint32_t *lengths, uint64_t chunks, uint64_t *end, uint64_t room, uint32_t *status, uint8_t *output) {
    const uint64_t table_at = *end;
    const uint64_t table_bytes = 4 * chunks, padded = (table_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    const uint64_t bytes = padded + TRAILER;
    __syncthreads();
    if (threadIdx.x == 0) {
        *end = table_at + bytes;
    }
    if (table_at > room || bytes > room - table_at) {
        if (threadIdx.x == 0) {
            *status |= STATUS_NO_ROOM;
        }
        return;
    }
    uint32_t *table = reinterpret_cast<uint32_t *>(output + table_at);
    for (uint64_t i = threadIdx.x; i < padded / 4; i += THREADS) {
        table[i] = i < chunks ? lengths[i] : 0;
    }
    uint64_t *trailer = reinterpret_cast<uint64_t *>(output + table_at + padded);
    if (threadIdx.x == 0) {
        trailer[0] = table_at;
        trailer[1] = chunks;
        trailer[3] = 0x0A0D444E454E5953; // SYNEND\r\n
    }
    __syncthreads();
    if (threadIdx.x / WARP == 0) {
        const uint64_t hash = hash_by_warp(Hashed{output + table_at, table_bytes + 16, table_bytes, padded - table_bytes});
        if (lane_id() == 0) {
            trailer[2] = hash;
        }
    }
}

// A stream's codes, as huffman_encode.cuh has them.
struct Span {
    uint64_t first_group;
    uint32_t groups;
    uint32_t free_symbol;
};

// The streams of a batch's codes with the usual radius, one a chunk. Chunks that will take the wide one have none here, and neither have streams past the batch.
extern "C" __global__ void __launch_bounds__(THREADS)
    record_spans(ChunkBatch batch, const uint32_t *summaries, uint32_t streams, Span *spans) {
    const uint32_t stream = blockIdx.x * THREADS + threadIdx.x;
    if (stream >= streams) {
        return;
    }
    Span span{0, 0, RADIUS};
    if (stream < batch.chunks) {
        const uint32_t *summary = summaries + uint64_t(stream) * SUMMARY_WORDS;
        span.first_group = uint64_t(stream) * batch.slots;
        span.groups = summary[SUMMARY_RADIUS] == RADIUS ? min_of(summary[SUMMARY_GROUPS], batch.slots) : 0;
    }
    spans[stream] = span;
}
