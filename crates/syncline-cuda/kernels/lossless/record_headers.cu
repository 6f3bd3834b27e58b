// Reads records of lossless streams except for their tokens: the header, the sections, tiles and bases, the counts of
// each data block, and the locations of planes. The input is not trusted.
//
// THREADS  threads of a block, which processes a chunk; at least MOST_BLOCKS
#include "device/block.cuh"
#include "lossless/tile.cuh"
#include "lossless/bases.cuh"
#include "lossless/record_headers.cuh"

static_assert(THREADS >= MOST_BLOCKS, "a thread for each block of bases");
constexpr uint32_t TILES = 0, BASES = 1;

// Reads the header and the table of sections. Called by one thread.
__device__ inline uint32_t read_frame(const uint8_t *record, uint32_t length, uint64_t number, uint64_t hash,
                                      uint64_t element_bytes, RecordHeader &header) {
    const uint32_t *words = reinterpret_cast<const uint32_t *>(record);
    const uint64_t *wide = reinterpret_cast<const uint64_t *>(record);
    if (length < format::RECORD_HEADER_BYTES || words[0] != format::RECORD_MARKER || words[1] != length) {
        return RECORD;
    }
    if (wide[3] != hash) {
        return HASH;
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

// Reads section 0: the kind of each tile, and the start of its residuals. Called by the whole block; all threads get
// the same result.
__device__ inline uint32_t read_tiles(const Geometry &geometry, const ChunkBatch &batch, const uint8_t *section,
                                      uint32_t bytes, uint32_t first, uint32_t tiles, uint8_t *metas, uint32_t *starts,
                                      uint64_t *warp_sums, uint32_t &elements) {
    const uint32_t *words = reinterpret_cast<const uint32_t *>(section);
    const uint32_t bitmap_words = ceil_div(tiles, 32);
    const uint32_t predictors_at = TILE_HEADER_WORDS + bitmap_words;
    if (bytes % 4 != 0 || bytes < predictors_at * 4 || words[0] != tiles || (words[2] & 0xff) != 0) {
        return BAD_TILES;
    }
    uint64_t before = 0, total;
    for (uint32_t strip = 0; strip < tiles; strip += THREADS) {
        const uint32_t tile = strip + threadIdx.x;
        const bool live = tile < tiles && (words[TILE_HEADER_WORDS + tile / 32] >> tile % 32 & 1) == 0;
        const uint64_t own = live ? geometry.tile(batch.first_tile + first + tile).elements() : 0;
        const uint64_t sum =
            before + block_exclusive_sum<THREADS, uint64_t>(uint64_t(live) << 32 | own, warp_sums, total);
        before += total;
        if (tile < tiles) {
            const uint32_t rank = uint32_t(sum >> 32), word = predictors_at + rank / 16;
            uint32_t meta = CONSTANT;
            if (live) {
                meta = word < bytes / 4 ? words[word] >> rank % 16 * 2 & 3 : 0;
            }
            metas[first + tile] = uint8_t(meta);
            starts[first + tile] = uint32_t(sum);
        }
    }
    const uint32_t live = uint32_t(before >> 32);
    elements = uint32_t(before);
    if (bytes != (predictors_at + ceil_div(2 * live, 32)) * 4) {
        return BAD_TILES;
    }
    const bool padded = all_zero(section, TILE_HEADER_WORDS * 4 + ceil_div(tiles, 8), predictors_at * 4) &&
                        all_zero(section, predictors_at * 4 + ceil_div(2 * live, 8), bytes);
    return padded ? FINE : BAD_TILES;
}

// Each block reads one chunk. The host guarantees that records lie in the input; everything else is validated here.
extern "C" __global__ void __launch_bounds__(THREADS)
    record_headers_parse(Geometry geometry, ChunkBatch batch, const uint8_t *input, const uint64_t *places,
                         const uint32_t *lengths, const uint64_t *hashes, uint32_t index_kind, uint8_t *metas,
                         word_t *bases, uint32_t *starts, RecordHeader *headers) {
    __shared__ RecordHeader header;
    __shared__ uint64_t warp_sums[WARPS];
    __shared__ uint32_t words_before[MOST_BLOCKS];
    const uint32_t chunk = blockIdx.x;
    const uint8_t *record = input + places[chunk];
    const uint32_t first = batch.chunk_first(chunk), tiles = batch.chunk_first(chunk + 1) - first;
    const uint64_t first_tile = batch.first_tile + first;
    const uint32_t all_elements =
        uint32_t(geometry.elements_before(first_tile + tiles) - geometry.elements_before(first_tile));
    for (uint32_t i = threadIdx.x; i < sizeof(RecordHeader) / 4; i += THREADS) {
        reinterpret_cast<uint32_t *>(&header)[i] = 0;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        header.status = read_frame(record, lengths[chunk], batch.first_chunk + chunk, hashes[chunk],
                                   uint64_t(all_elements) * ELEMENT_BYTES, header);
    }
    __syncthreads();
    uint32_t status = header.status;
    if (status == FINE && header.kind == format::KIND_LZSS) {
        uint32_t elements = all_elements;
        if (header.section_bytes[TILES] > 0) {
            status = read_tiles(geometry, batch, record + header.section_at[TILES], header.section_bytes[TILES], first,
                                tiles, metas, starts, warp_sums, elements);
            if (status == FINE) {
                const bool are_good = read_bases(record + header.section_at[BASES], header.section_bytes[BASES], tiles,
                                                 bases + first, warp_sums, words_before);
                status = are_good ? FINE : BAD_BASES;
            }
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            header.elements = elements;
            header.status = status;
        }
        __syncthreads();
        if (status == FINE) {
            status = read_tokens(record, uint64_t(elements) * ELEMENT_BYTES, index_kind, warp_sums, header);
            if (threadIdx.x == 0 && status != FINE) {
                header.status = status;
            }
        }
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < sizeof(RecordHeader) / 4; i += THREADS) {
        reinterpret_cast<uint32_t *>(headers + chunk)[i] = reinterpret_cast<const uint32_t *>(&header)[i];
    }
}
