// Decodes codes that are stored as LZSS tokens (chunks of kind 4): reads the headers of their sections, and converts
// the decoded bytes to codes. The input is not trusted.
//
// THREADS     threads of a block
// PARSE_BAD   bit of a parsed chunk's status for damaged tokens
// GROUP_LOG2  log2 of the codes in a group
#include "lossless/record_headers.cuh"
#include "container/parsed.cuh"

// Reads headers; one block per chunk. Chunks that consist of tokens and have no error so far get a header with their
// kind, the others one of zeros.
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

// Converts bytes (`stride` per chunk) to codes (`slots` groups per chunk). All blocks along y of the grid share a
// chunk. `failed` is not 0 for chunks whose bytes are invalid.
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
    // Groups have at least 64 codes, so that whole vectors are converted.
    const uint2 *from = reinterpret_cast<const uint2 *>(bytes + chunk * stride);
    uint4 *to = reinterpret_cast<uint4 *>(codes + (uint64_t(chunk) * slots << GROUP_LOG2));
    const uint32_t vectors = parsed.groups << GROUP_LOG2 >> 3;
    for (uint32_t i = blockIdx.y * THREADS + threadIdx.x; i < vectors; i += gridDim.y * THREADS) {
        const uint2 eight = from[i];
        to[i] = make_uint4(__byte_perm(eight.x, 0, 0x4140), __byte_perm(eight.x, 0, 0x4342),
                           __byte_perm(eight.y, 0, 0x4140), __byte_perm(eight.y, 0, 0x4342));
    }
}
