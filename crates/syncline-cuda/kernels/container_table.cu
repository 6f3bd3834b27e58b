// The end of a stream (docs/FORMAT.md, "Chunk table and trailer"), and what follows of a batch's chunks before their codes are coded.
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

// The header, and at byte `table_at` the table of `chunks` record lengths and the trailer. Called by the whole block.
__device__ inline void write_end(const StreamHeader &header, const uint32_t *lengths, uint64_t chunks, uint64_t table_at, uint64_t table_bytes, uint64_t padded,
                                 uint8_t *output) {
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

// What the host is told; mirrored in container/records.rs.
struct Told {
    uint64_t bytes, status;
    uint64_t number; // the stream's, by which the host sees that all is written
};

// Writes the header, and the table of `chunks` record lengths and the trailer to where the records end, beside the kernel before, which hashes. When that is done, too, tells the
// host where the stream ends, and the status. One block.
extern "C" __global__ void __launch_bounds__(THREADS)
    record_table(StreamHeader header, const uint32_t *lengths, uint64_t chunks, const uint64_t *state, uint64_t room, uint8_t *output, uint64_t number, Told *host) {
    if (chunks == 0) {
        wait_for_previous(); // whatever it is
    }
    const uint64_t table_at = chunks > 0 ? state[0] : STREAM_HEADER;
    const uint64_t status = chunks > 0 ? state[1] : 0;
    const uint64_t table_bytes = 4 * chunks, padded = (table_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    const uint64_t bytes = padded + TRAILER;
    const bool fits = table_at <= room && bytes <= room - table_at;
    if (fits) {
        write_end(header, lengths, chunks, table_at, table_bytes, padded, output);
    }
    wait_for_previous();
    __syncthreads();
    if (threadIdx.x == 0) {
        host->bytes = table_at + bytes;
        host->status = status | (fits ? 0 : STATUS_NO_ROOM);
        __threadfence_system();
        *reinterpret_cast<volatile unsigned long long *>(&host->number) = number;
    }
}

// A stream's codes, as huffman_encode.cuh has them.
struct Span {
    uint64_t first_group;
    uint32_t groups;
    uint32_t free_symbol;
};

// What quantising has left of each tile. The counts are null if nobody asks again.
struct TileArrays {
    uint16_t *metas;
    const int32_t *bases;
    uint16_t *outliers, *verbatim;
};

// Whether a chunk's lists alone are as long as its elements. It will be raw, and has no lists and no bitmaps: nobody shall gather what will not be written.
__device__ inline bool lists_are_raw(const Geometry &geometry, const ChunkBatch &batch, uint32_t element_bytes, const uint32_t *summary, uint32_t chunk) {
    const uint64_t first = batch.first_tile + batch.chunk_first(chunk), end = batch.first_tile + batch.chunk_first(chunk + 1);
    const uint64_t elements = geometry.elements_before(end) - geometry.elements_before(first);
    return uint64_t(8) * summary[SUMMARY_OUTLIERS] + uint64_t(4 + element_bytes) * summary[SUMMARY_VERBATIM] >= elements * element_bytes;
}

// The streams of a batch's codes with the usual radius, one a chunk (chunks that take the wide one have none here, and neither have streams past the batch); the parts of
// each chunk; and the summaries themselves in memory of the host, if that is given. One block.
__device__ inline void list_streams(const Geometry &geometry, const ChunkBatch &batch, uint32_t element_bytes, const uint32_t *summaries, uint32_t streams, Span *spans,
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
            parts.is_raw = lists_are_raw(geometry, batch, element_bytes, summary, chunk);
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
        if (chunk < streams) {
            spans[chunk] = span;
        }
        // A chunk has fewer of either than 2^22, so that those of a round fit 32 bits.
        const uint64_t lists = block_scan<THREADS, uint64_t>(parts.outliers | uint64_t(parts.verbatim) << 32, warp_sums, total);
        parts.first_outlier = outliers + uint32_t(lists);
        parts.first_verbatim = verbatim + (lists >> 32);
        outliers += uint32_t(total);
        verbatim += total >> 32;
        const uint64_t own = uint64_t(wide) | uint64_t(masks) << 20 | uint64_t(signs) << 40;
        const uint64_t before = numbers + block_scan<THREADS, uint64_t>(own, warp_sums, total);
        numbers += total;
        constexpr uint32_t NUMBER = (1u << 20) - 1;
        parts.codes = wide ? uint32_t(before) & NUMBER : chunk;
        parts.masks = masks ? uint32_t(before >> 20) & NUMBER : NO_STREAM;
        parts.signs = signs ? uint32_t(before >> 40) & NUMBER : NO_STREAM;
        if (chunk < batch.chunks) {
            all_parts[chunk] = parts;
        }
    }
}

// What the tiles of a chunk come to in its record. One block.
__device__ inline void measure_tiles(const uint16_t *metas, const int32_t *bases, uint32_t tiles, TileSums &to) {
    __shared__ uint32_t sums[4];
    if (threadIdx.x < 4) {
        sums[threadIdx.x] = 0;
    }
    __syncthreads();
    // What is read stays in registers, so that all loads wait for memory together.
    constexpr uint32_t ROUNDS = MOST_TILES / THREADS;
    uint32_t own_metas[ROUNDS], differences[ROUNDS];
#pragma unroll
    for (uint32_t round = 0; round < ROUNDS; ++round) {
        const uint32_t tile = round * THREADS + threadIdx.x;
        own_metas[round] = tile < tiles ? metas[tile] : 1;
        differences[round] = base_difference(bases, tile, tiles);
    }
    uint32_t live = 0, masks = 0, signs = 0, words_of_bases = 0;
#pragma unroll
    for (uint32_t round = 0; round < ROUNDS; ++round) {
        live += !meta_constant(own_metas[round]);
        masks |= meta_mask_kind(own_metas[round]);
        signs |= meta_sign(own_metas[round]);
        words_of_bases += width_of(differences[round]);
    }
    live = warp_sum(live);
    masks = warp_or(masks);
    signs = warp_or(signs);
    if (lane_id() == 0) {
        atomicAdd(&sums[0], live);
        atomicOr(&sums[1], masks);
        atomicOr(&sums[2], signs);
        atomicAdd(&sums[3], words_of_bases);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        to = {sums[0], (sums[1] ? FLAG_MASKS : 0) | (sums[2] ? FLAG_SIGNS : 0), sums[3], 0};
    }
}

// What follows from a batch's chunks as they were quantised: the first block lists streams, another one for each chunk measures its tiles, and clears what quantising has counted
// of them if the chunk will be raw, and the word that hashing it needs.
// Words with which quantising has counted are cleared by all.
extern "C" __global__ void __launch_bounds__(THREADS)
    record_begin(Geometry geometry, ChunkBatch batch, uint32_t element_bytes, const uint32_t *summaries, uint32_t streams, TileArrays tiles, Span *spans,
                 ChunkParts *all_parts, TileSums *tile_sums, uint64_t *progress, uint32_t *control, uint64_t words,
                 uint32_t *host_summaries) {
    wait_for_previous();
    for (uint64_t i = blockIdx.x * THREADS + threadIdx.x; i < words; i += gridDim.x * THREADS) {
        control[i] = 0;
    }
    if (blockIdx.x == 0) {
        list_streams(geometry, batch, element_bytes, summaries, streams, spans, all_parts, host_summaries);
        return;
    }
    const uint32_t chunk = blockIdx.x - 1, first = batch.chunk_first(chunk), end = batch.chunk_first(chunk + 1);
    measure_tiles(tiles.metas + first, tiles.bases + first, end - first, tile_sums[chunk]);
    if (threadIdx.x == 0) {
        progress[chunk] = 0;
    }
    if (tiles.outliers == nullptr || !lists_are_raw(geometry, batch, element_bytes, summaries + chunk * SUMMARY_WORDS, chunk)) {
        return;
    }
    for (uint32_t tile = first + threadIdx.x; tile < end; tile += THREADS) {
        tiles.metas[tile] = tiles.outliers[tile] = tiles.verbatim[tile] = 0;
    }
}
