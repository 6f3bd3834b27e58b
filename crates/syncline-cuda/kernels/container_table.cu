// The end of a stream (docs/FORMAT.md, "Chunk table and trailer"), and the list of streams that the codes of a batch are.
//
// THREADS        threads in a block
// STREAM_HEADER  bytes of a stream's header
// SUMMARY_WORDS  words of what quantising says of a chunk; SUMMARY_GROUPS, SUMMARY_OUTLIERS, SUMMARY_VERBATIM, SUMMARY_MASKS, SUMMARY_SIGNS, SUMMARY_RADIUS
//                which of them is what
#include "container_record.cuh"
#include "scan.cuh"
#include "xxh3.cuh"

constexpr uint32_t TRAILER = 32;

// A stream's header, which starts on a multiple of 16 bytes.
struct StreamHeader {
    uint32_t words[STREAM_HEADER / 4];
};

// Writes the header, and the table of `chunks` record lengths and the trailer to `end`, where the records end. Tells the host where the stream ends, and the
// status. One block.
extern "C" __global__ void __launch_bounds__(THREADS)
    record_table(StreamHeader header, const uint32_t *lengths, uint64_t chunks, const uint64_t *state, uint64_t room, uint8_t *output, uint64_t *host_state) {
    const uint64_t table_at = chunks > 0 ? state[0] : STREAM_HEADER;
    const uint64_t status = chunks > 0 ? state[1] : 0;
    const uint64_t table_bytes = 4 * chunks, padded = (table_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    const uint64_t bytes = padded + TRAILER;
    const bool fits = table_at <= room && bytes <= room - table_at;
    if (threadIdx.x == 0) {
        host_state[0] = table_at + bytes;
        host_state[1] = status | (fits ? 0 : STATUS_NO_ROOM);
    }
    if (!fits) {
        return;
    }
    if (threadIdx.x < STREAM_HEADER / 4) {
        reinterpret_cast<uint32_t *>(output)[threadIdx.x] = header.words[threadIdx.x];
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

// What is counted of each tile; null if nobody asks again.
struct TileCounts {
    uint16_t *metas, *outliers, *verbatim;
};

// What follows from the summaries of a batch, by one block: the streams of its codes with the usual radius, one a chunk (chunks that take the wide one have none here, and
// neither have streams past the batch); the parts of each chunk; and the summaries themselves in memory of the host, if that is given.
//
// A chunk whose lists alone are as long as its elements will be raw. It then has no lists and no bitmaps: nobody shall gather what will not be written.
extern "C" __global__ void __launch_bounds__(THREADS)
    record_begin(Geometry geometry, ChunkBatch batch, uint32_t element_bytes, const uint32_t *summaries, uint32_t streams, TileCounts tiles, Span *spans,
                 ChunkParts *all_parts, uint32_t *host_summaries) {
    __shared__ uint64_t warp_sums[THREADS / WARP];
    // Outliers and verbatim values before a chunk; chunks before it with the wide radius, masks and signs, 20 bits each: a batch has fewer.
    uint64_t outliers = 0, verbatim = 0, numbers = 0, total;
    for (uint32_t begin = 0; begin < streams; begin += THREADS) {
        const uint32_t chunk = begin + threadIdx.x;
        Span span{0, 0, RADIUS};
        ChunkParts parts = {};
        bool wide = false, masks = false, signs = false;
        if (chunk < batch.chunks) {
            uint32_t summary[SUMMARY_WORDS];
            for (uint32_t i = 0; i < SUMMARY_WORDS; ++i) {
                summary[i] = summaries[chunk * SUMMARY_WORDS + i];
            }
            const uint64_t first = batch.first_tile + batch.chunk_first(chunk), end = batch.first_tile + batch.chunk_first(chunk + 1);
            const uint64_t elements = geometry.elements_before(end) - geometry.elements_before(first);
            const uint64_t of_lists = uint64_t(8) * summary[SUMMARY_OUTLIERS] + uint64_t(4 + element_bytes) * summary[SUMMARY_VERBATIM];
            parts.is_raw = of_lists >= elements * element_bytes;
            if (parts.is_raw) {
                summary[SUMMARY_OUTLIERS] = summary[SUMMARY_VERBATIM] = summary[SUMMARY_MASKS] = summary[SUMMARY_SIGNS] = summary[SUMMARY_GROUPS] = 0;
                summary[SUMMARY_RADIUS] = RADIUS;
            }
            for (uint32_t i = 0; host_summaries != nullptr && i < SUMMARY_WORDS; ++i) {
                host_summaries[chunk * SUMMARY_WORDS + i] = summary[i];
            }
            parts.outliers = summary[SUMMARY_OUTLIERS];
            parts.verbatim = summary[SUMMARY_VERBATIM];
            parts.radius = summary[SUMMARY_RADIUS];
            wide = parts.radius != RADIUS;
            masks = summary[SUMMARY_MASKS] > 0;
            signs = summary[SUMMARY_SIGNS] > 0;
            span.first_group = uint64_t(chunk) * batch.slots;
            span.groups = wide ? 0 : min_of(summary[SUMMARY_GROUPS], batch.slots);
        }
        parts.first_outlier = outliers + block_scan<THREADS, uint64_t>(parts.outliers, warp_sums, total);
        outliers += total;
        parts.first_verbatim = verbatim + block_scan<THREADS, uint64_t>(parts.verbatim, warp_sums, total);
        verbatim += total;
        const uint64_t own = uint64_t(wide) | uint64_t(masks) << 20 | uint64_t(signs) << 40;
        const uint64_t before = numbers + block_scan<THREADS, uint64_t>(own, warp_sums, total);
        numbers += total;
        constexpr uint32_t NUMBER = (1u << 20) - 1;
        parts.codes = wide ? uint32_t(before) & NUMBER : chunk;
        parts.masks = masks ? uint32_t(before >> 20) & NUMBER : NO_STREAM;
        parts.signs = signs ? uint32_t(before >> 40) & NUMBER : NO_STREAM;
        if (chunk < streams) {
            spans[chunk] = span;
        }
        if (chunk < batch.chunks) {
            all_parts[chunk] = parts;
        }
    }
    __syncthreads();
    for (uint32_t chunk = 0; tiles.metas != nullptr && chunk < batch.chunks; ++chunk) {
        if (!all_parts[chunk].is_raw) {
            continue;
        }
        for (uint32_t tile = batch.chunk_first(chunk) + threadIdx.x; tile < batch.chunk_first(chunk + 1); tile += THREADS) {
            tiles.metas[tile] = tiles.outliers[tile] = tiles.verbatim[tile] = 0;
        }
    }
}
