// Reads records of lossless streams except for their tokens: the header, the sections, the counts of each data block,
// and the locations of planes. The input is not trusted.
//
// THREADS  threads of a block, which processes a chunk
#include "device/block.cuh"
#include "geometry.cuh"
#include "lossless/record_headers.cuh"

// Reads the header but for its checksum, and the table of sections. Called by one thread.
__device__ inline uint32_t read_frame(const uint8_t *record, uint32_t length, uint64_t number, uint64_t element_bytes,
                                      RecordHeader &header) {
    const uint32_t *words = reinterpret_cast<const uint32_t *>(record);
    const uint64_t *wide = reinterpret_cast<const uint64_t *>(record);
    if (length < format::RECORD_HEADER_BYTES || words[0] != format::RECORD_MARKER || words[1] != length) {
        return RECORD;
    }
    if (wide[1] != number) {
        return NUMBER;
    }
    header.kind = words[4];
    if (words[5] != 0 || header.kind > format::KIND_LZSS || header.kind == format::KIND_QUANTIZED) {
        return KIND;
    }
    if (header.kind == format::KIND_RAW) {
        const uint64_t payload = length - format::RECORD_HEADER_BYTES;
        const bool fits = payload >= element_bytes && payload - element_bytes < 16;
        return fits && all_zero(record, format::RECORD_HEADER_BYTES + element_bytes, length) ? FINE : RAW;
    }
    return read_sections(record, format::RECORD_HEADER_BYTES, length, header);
}

// Each block reads one chunk. The host guarantees that records lie in the input; everything else is validated here.
extern "C" __global__ void __launch_bounds__(THREADS)
    record_headers_parse(Geometry geometry, ChunkBatch batch, uint32_t element_bytes, const uint8_t *input,
                         const uint64_t *places, const uint32_t *lengths, uint32_t index_kind, RecordHeader *headers) {
    __shared__ RecordHeader header;
    __shared__ uint64_t warp_sums[WARPS];
    const uint32_t chunk = blockIdx.x;
    const uint8_t *record = input + places[chunk];
    const uint64_t first_tile = batch.first_tile + batch.chunk_first(chunk);
    const uint64_t end_tile = batch.first_tile + batch.chunk_first(chunk + 1);
    const uint64_t bytes = (geometry.elements_before(end_tile) - geometry.elements_before(first_tile)) * element_bytes;
    for (uint32_t i = threadIdx.x; i < sizeof(RecordHeader) / 4; i += THREADS) {
        reinterpret_cast<uint32_t *>(&header)[i] = 0;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        header.status = read_frame(record, lengths[chunk], batch.first_chunk + chunk, bytes, header);
    }
    __syncthreads();
    const bool has_tokens = header.status == FINE && header.kind == format::KIND_LZSS;
    __syncthreads();
    if (has_tokens) {
        const uint32_t status = read_tokens(record, bytes, index_kind, warp_sums, header);
        if (threadIdx.x == 0 && status != FINE) {
            header.status = status;
        }
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < sizeof(RecordHeader) / 4; i += THREADS) {
        reinterpret_cast<uint32_t *>(headers + chunk)[i] = reinterpret_cast<const uint32_t *>(&header)[i];
    }
}
