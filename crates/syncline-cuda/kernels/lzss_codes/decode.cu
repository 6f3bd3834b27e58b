// Codes that stand as LZSS tokens (chunks of kind 4): what their section says, and the codes from the bytes that the
// tokens stand for. Nothing that is read is trusted.
//
// THREADS     threads in a block
// PARSE_BAD   the bit of a parsed chunk's status that says that its tokens are not right
// GROUP_LOG2  log2 of the codes in a group
#include "lossless/record_headers.cuh"
#include "container/parsed.cuh"

// A block a chunk; those that parsing has found to be of tokens and right so far get a header with their kind, the
// others one of zeros.
extern "C" __global__ void __launch_bounds__(THREADS)
    lzss_codes_parse(const uint8_t *input, const uint64_t *places, ParsedChunk *chunks, uint32_t index_kind,
                     RecordHeader *headers) {
    __shared__ RecordHeader header;
    __shared__ uint64_t warp_sums[WARPS];
    const uint32_t chunk = blockIdx.x;
    for (uint32_t i = threadIdx.x; i < sizeof(RecordHeader) / 4; i += THREADS) {
        reinterpret_cast<uint32_t *>(&header)[i] = 0;
    }
    __syncthreads();
    ParsedChunk &parsed = chunks[chunk];
    const bool is_coded = parsed.status == 0 && parsed.kind == KIND_LZSS_CODES;
    if (is_coded) {
        const uint8_t *record = input + places[chunk];
        const uint32_t from = uint32_t(parsed.raw - places[chunk]);
        const uint32_t codes = parsed.groups << GROUP_LOG2;
        if (threadIdx.x == 0) {
            uint32_t status = read_sections(record, from, from + parsed.token_bytes, header);
            for (uint32_t i = 0; i < format::SECTIONS; ++i) {
                status = (i < BLOCKS || i > LITERALS) && header.section_bytes[i] != 0 ? BAD_SECTIONS : status;
            }
            header.kind = KIND_LZSS_CODES;
            header.elements = codes;
            header.status = status;
        }
        __syncthreads();
        uint32_t status = header.status;
        if (status == FINE) {
            status = read_tokens(record, codes, index_kind, warp_sums, header);
        }
        __syncthreads();
        if (threadIdx.x == 0 && status != FINE) {
            header.status = status;
        }
        __syncthreads();
        if (threadIdx.x == 0 && header.status != FINE) {
            parsed.status = PARSE_BAD;
        }
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < sizeof(RecordHeader) / 4; i += THREADS) {
        reinterpret_cast<uint32_t *>(headers + chunk)[i] = reinterpret_cast<const uint32_t *>(&header)[i];
    }
}

// Bytes, `stride` a chunk, to codes, `slots` groups a chunk; as many blocks as the grid has in y share a chunk.
// `failed` is not 0 where bytes are not right.
extern "C" __global__ void __launch_bounds__(THREADS)
    lzss_codes_widen(const uint8_t *bytes, uint64_t stride, const uint32_t *failed, uint32_t slots, ParsedChunk *chunks,
                     uint16_t *codes) {
    const uint32_t chunk = blockIdx.x;
    ParsedChunk &parsed = chunks[chunk];
    if (parsed.kind != KIND_LZSS_CODES || parsed.status != 0) {
        return;
    }
    if (failed[chunk] != 0) {
        if (blockIdx.y == 0 && threadIdx.x == 0) {
            atomicOr(&parsed.status, PARSE_BAD);
        }
        return;
    }
    // Groups have 64 codes or more: whole vectors.
    const uint2 *from = reinterpret_cast<const uint2 *>(bytes + chunk * stride);
    uint4 *to = reinterpret_cast<uint4 *>(codes + (uint64_t(chunk) * slots << GROUP_LOG2));
    const uint32_t vectors = parsed.groups << GROUP_LOG2 >> 3;
    for (uint32_t i = blockIdx.y * THREADS + threadIdx.x; i < vectors; i += gridDim.y * THREADS) {
        const uint2 eight = from[i];
        to[i] = make_uint4(__byte_perm(eight.x, 0, 0x4140), __byte_perm(eight.x, 0, 0x4342),
                           __byte_perm(eight.y, 0, 0x4140), __byte_perm(eight.y, 0, 0x4342));
    }
}
