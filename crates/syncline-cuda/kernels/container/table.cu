// Writes the end of a stream (docs/FORMAT.md, "Chunk table and trailer").
//
// THREADS        threads of the block
// STREAM_HEADER  bytes of a stream's header
// STREAM_HEADER_HASH  offset of the hash in it
#include "device/sync.cuh"
#include "container/record.cuh"
#include "container/xxh3.cuh"

// Writes the header, and at byte `table_at` the table of `chunks` record lengths and the trailer. Called by the whole
// block.
__device__ inline void write_end(const uint32_t *header, const uint32_t *lengths, uint64_t chunks, uint64_t table_at,
                                 uint64_t table_bytes, uint64_t padded, uint8_t *output) {
    if (threadIdx.x < STREAM_HEADER / 4) {
        reinterpret_cast<uint32_t *>(output)[threadIdx.x] = header[threadIdx.x];
    }
    uint32_t *table = reinterpret_cast<uint32_t *>(output + table_at);
    for (uint64_t i = threadIdx.x; i < padded / 4; i += THREADS) {
        table[i] = i < chunks ? lengths[i] : 0;
    }
    uint64_t *trailer = reinterpret_cast<uint64_t *>(output + table_at + padded);
    if (threadIdx.x == 0) {
        trailer[0] = table_at;
        trailer[1] = chunks;
        // The hash covers the hash of the header, which is here until it is replaced by the result.
        trailer[2] = uint64_t(header[STREAM_HEADER_HASH / 4]) | uint64_t(header[STREAM_HEADER_HASH / 4 + 1]) << 32;
        trailer[3] = 0x0A0D444E454E5953; // "SYNEND\\r\\n"
    }
    __syncthreads();
    if (threadIdx.x / WARP == 0) {
        const uint64_t hash =
            hash_by_warp(HashInput{output + table_at, table_bytes + 24, table_bytes, padded - table_bytes});
        if (lane_id() == 0) {
            trailer[2] = hash;
        }
    }
}

// Writes the header, and after the records the table and the trailer, while the previous kernel is still hashing. Then
// waits until all checksums are written, and reports the stream's size and status to the host. One block. `queued` has
// what the host did not know when it queued this kernel.
extern "C" __global__ void __launch_bounds__(THREADS)
    container_table(HeaderWords header, const uint32_t *lengths, uint64_t chunks, const uint64_t *state, uint64_t room,
                    uint8_t *output, uint64_t number, StreamReport *host, const uint32_t *checksummed_records,
                    QueuedEnd queued) {
    if (chunks == 0) {
        launch_dependents_and_wait(); // for any previous kernel
    }
    const uint64_t table_at = chunks > 0 ? state[0] : STREAM_HEADER;
    const uint32_t unresolved = queued.status != nullptr ? *queued.status : 0;
    const uint64_t status = (chunks > 0 ? state[1] : 0) | unresolved;
    const uint64_t table_bytes = 4 * chunks, padded = (table_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    const uint64_t bytes = padded + format::TRAILER_BYTES;
    const bool fits = table_at <= room && bytes <= room - table_at;
    if (fits && unresolved == 0) {
        write_end(queued.header != nullptr ? queued.header : header.words, lengths, chunks, table_at, table_bytes,
                  padded, output);
    }
    __syncthreads();
    // Everything but the number is written before the wait, because writes to the host's memory take longest.
    if (threadIdx.x == 0) {
        host->bytes = table_at + bytes;
        host->status = status | (fits ? 0 : STATUS_NO_ROOM);
        if (queued.size != nullptr) {
            *queued.size = status == 0 && fits ? table_at + bytes : 0;
        }
        __threadfence_system();
    }
    if (threadIdx.x == 0) {
        if (chunks > 0) {
            wait_for_signal(checksummed_records, uint32_t(chunks));
        }
        // The host takes the number for the end of all work on the output, and other streams use the output then.
        __threadfence_system();
        *reinterpret_cast<volatile unsigned long long *>(&host->number) = number;
        grid_dependency_wait();
    }
}
