// Lays out the records of a batch, from the plans of their streams.
//
// THREADS        threads of a block
// ELEMENT_BYTES  4 or 8
// PLAN_WORDS     words of a stream's plan; PLAN_GROUPS, PLAN_CODEBOOKS, PLAN_BYTES and PLAN_STATUS are indices of words
#include "device/sync.cuh"
#include "device/block.cuh"
#include "container/record.cuh"

constexpr uint32_t WARPS = THREADS / WARP;

__device__ inline uint32_t plan_word(const Streams &streams, uint32_t stream, uint32_t word) {
    return streams.plans[uint64_t(stream) * PLAN_WORDS + word];
}

// A quantized chunk.
struct QuantizedChunk {
    ChunkSummary summary;
    TileSums sums;
    uint32_t tiles, elements;
    bool is_raw; // stored raw regardless of the size of its streams

    __device__ inline QuantizedChunk(const Geometry &geometry, const ChunkBatch &batch, const LayoutSources &sources,
                                     uint32_t chunk)
        : summary(sources.summaries[chunk]), sums{} {
        const uint32_t first = batch.chunk_first(chunk);
        tiles = batch.chunk_first(chunk + 1) - first;
        for (uint32_t i = 0; i < sources.sums_of_chunk; ++i) {
            const TileSums own = sources.tiles[chunk * sources.sums_of_chunk + i];
            sums = {sums.live + own.live, sums.flags | own.flags, sums.words_of_bases + own.words_of_bases, 0};
        }
        const uint64_t tile = batch.first_tile + first;
        elements = uint32_t(geometry.elements_before(tile + tiles) - geometry.elements_before(tile));
        is_raw = summary.is_raw(elements, ELEMENT_BYTES);
        summary = is_raw ? summary.of_raw(RADIUS) : summary;
    }
};

// Totals over earlier chunks: entries of lists, and numbers of the streams that not every chunk has.
struct ListTotals {
    uint64_t outliers, verbatim;
    uint64_t streams;
};

// Returns where the parts of a chunk lie among those of the others, and adds them to the totals. Called by the whole
// block, one thread per chunk.
__device__ inline ChunkParts assign_parts(const ChunkSummary &summary, uint32_t chunk, ListTotals &before,
                                          uint64_t *warp_sums) {
    const bool wide = summary.radius > RADIUS, masks = summary.mask_bytes > 0, signs = summary.sign_bytes > 0;
    ChunkParts parts = {before.outliers, before.verbatim, summary.outliers, summary.verbatim,
                        summary.radius,  chunk,           NO_STREAM,        NO_STREAM};
    const bool any = summary.outliers > 0 || summary.verbatim > 0 || wide || masks || signs;
    if (!__syncthreads_or(any)) {
        return parts;
    }
    // A chunk has fewer than 2^22 entries in either list, so that the sums over a round fit 32 bits.
    uint64_t total;
    const uint64_t lists =
        block_exclusive_sum<THREADS, uint64_t>(summary.outliers | uint64_t(summary.verbatim) << 32, warp_sums, total);
    parts.first_outlier += uint32_t(lists);
    parts.first_verbatim += lists >> 32;
    before.outliers += uint32_t(total);
    before.verbatim += total >> 32;
    const uint64_t own =
        one_stream(WIDE_CODES, wide) | one_stream(MASK_BITMAPS, masks) | one_stream(SIGN_BITMAPS, signs);
    const uint64_t streams = before.streams + block_exclusive_sum<THREADS, uint64_t>(own, warp_sums, total);
    before.streams += total;
    parts.codes = wide ? stream_number(streams, WIDE_CODES) : chunk;
    parts.masks = masks ? stream_number(streams, MASK_BITMAPS) : NO_STREAM;
    parts.signs = signs ? stream_number(streams, SIGN_BITMAPS) : NO_STREAM;
    return parts;
}

__device__ inline RecordPlan plan_record(const LayoutSources &sources, const QuantizedChunk &own,
                                         const ChunkParts &parts, uint32_t chunk) {
    const Streams &codes = parts.radius == RADIUS ? sources.narrow : sources.wide;
    const TileSums &sums = own.sums;
    const uint32_t tiles = own.tiles;
    RecordPlan plan = {};
    plan.live = sums.live;
    plan.flags = sums.flags | (plan_word(codes, parts.codes, PLAN_CODEBOOKS) > 1 ? FLAG_CLASSES : 0);
    plan.lengths[TILES] = TileSectionWords(tiles, plan.live, plan.flags).bytes();
    plan.lengths[BASES] = aligned(ceil_div(tiles, WARP), 4) + 4 * sums.words_of_bases;
    uint32_t bad = plan_word(codes, parts.codes, PLAN_STATUS);
    plan.lengths[CODES] = plan_word(codes, parts.codes, PLAN_BYTES);
    if (parts.masks != NO_STREAM) {
        plan.lengths[MASKS] = plan_word(sources.masks, parts.masks, PLAN_BYTES);
        bad |= plan_word(sources.masks, parts.masks, PLAN_STATUS);
    }
    if (parts.signs != NO_STREAM) {
        plan.lengths[SIGNS] = plan_word(sources.signs, parts.signs, PLAN_BYTES);
        bad |= plan_word(sources.signs, parts.signs, PLAN_STATUS);
    }
    plan.lengths[OUTLIERS] = outlier_bytes(parts.outliers);
    plan.lengths[VERBATIM] =
        parts.verbatim == 0 ? 0 : aligned(4 + 4 * parts.verbatim, 8) + ELEMENT_BYTES * parts.verbatim;
    plan.kind = KIND_QUANTIZED;
    plan.bytes = section_start(plan.lengths, SECTIONS);
    const TokenParts tokens = sources.tokens != nullptr ? sources.tokens[chunk] : TokenParts{};
    if (tokens.bytes > 0) {
        RecordPlan shorter = plan;
        shorter.kind = KIND_LZSS_CODES;
        shorter.flags = sums.flags;
        shorter.lengths[TILES] = TileSectionWords(tiles, shorter.live, shorter.flags).bytes();
        shorter.lengths[CODES] = tokens.bytes;
        shorter.lengths[OUTLIERS] = outlier_bytes(tokens.outliers);
        shorter.bytes = section_start(shorter.lengths, SECTIONS);
        plan = shorter.bytes < plan.bytes ? shorter : plan;
    }
    const uint32_t raw_bytes = aligned(RECORD_HEADER_BYTES + own.elements * ELEMENT_BYTES, ALIGNMENT);
    if (plan.bytes >= raw_bytes || own.is_raw) {
        plan.kind = KIND_RAW;
        plan.bytes = raw_bytes;
    }
    plan.status = bad != 0 ? STATUS_BAD_STREAM : 0;
    return plan;
}

// Places the records of a batch one after another, and their streams in them. One block, one thread per chunk.
extern "C" __global__ void __launch_bounds__(THREADS)
    container_layout(Geometry geometry, ChunkBatch batch, LayoutSources sources, LayoutOutput output,
                     ChunkParts *all_parts, RecordPlan *plans) {
    launch_dependents();
    // This runs while streams are still being laid out: that kernel let this one start when all earlier ones were done.
    QuantizedChunk own(geometry, batch, sources, min_of(threadIdx.x, batch.chunks - 1));
    __shared__ uint64_t warp_sums[WARPS];
    uint64_t running = output.is_first ? output.start : output.state[0], total;
    uint32_t status = 0;
    ListTotals before = {};
    ChunkParts parts = assign_parts(threadIdx.x < batch.chunks ? own.summary : own.summary.of_raw(RADIUS), threadIdx.x,
                                    before, warp_sums);
    if (output.streams_done != nullptr && output.only_narrow) {
        if (threadIdx.x == 0) {
            wait_for_signal(output.streams_done, sources.narrow_streams);
        }
        __syncthreads();
    } else {
        grid_dependency_wait();
    }
    for (uint32_t begin = 0; begin < batch.chunks; begin += THREADS) {
        const uint32_t chunk = begin + threadIdx.x;
        const bool exists = chunk < batch.chunks;
        if (begin > 0) {
            own = QuantizedChunk(geometry, batch, sources, min_of(chunk, batch.chunks - 1));
            parts = assign_parts(exists ? own.summary : own.summary.of_raw(RADIUS), chunk, before, warp_sums);
        }
        RecordPlan plan = {};
        if (exists) {
            plan = plan_record(sources, own, parts, chunk);
            output.lengths[chunk] = plan.bytes;
            if (output.unwritten != nullptr) {
                // One additional block writes the parts that belong to no segment.
                output.unwritten[chunk] =
                    output.blocks_of_record + 1 +
                    ceil_div(plan_word(sources.narrow, chunk, PLAN_GROUPS), output.groups_of_block);
            }
            all_parts[chunk] = parts;
        }
        plan.place = running + block_exclusive_sum<THREADS, uint64_t>(plan.bytes, warp_sums, total);
        running += total;
        if (!exists) {
            continue;
        }
        status |= plan.status;
        if (plan.place > output.room || plan.bytes > output.room - plan.place) {
            plan.kind = KIND_NO_ROOM;
            status |= STATUS_NO_ROOM;
        }
        plans[chunk] = plan;
        output.starts[chunk] = plan.place;
        auto place_of = [&](uint32_t section) {
            const bool there = plan.kind == KIND_QUANTIZED || (plan.kind == KIND_LZSS_CODES && section != CODES);
            return there ? plan.place + section_start(plan.lengths, section) : NO_PLACE;
        };
        if (parts.radius == RADIUS) {
            sources.narrow.places[parts.codes] = place_of(CODES);
        } else {
            sources.wide.places[parts.codes] = place_of(CODES);
            sources.narrow.places[chunk] = NO_PLACE;
        }
        if (parts.masks != NO_STREAM) {
            sources.masks.places[parts.masks] = place_of(MASKS);
        }
        if (parts.signs != NO_STREAM) {
            sources.signs.places[parts.signs] = place_of(SIGNS);
        }
    }
    for (uint32_t stream = batch.chunks + threadIdx.x; stream < sources.narrow_streams; stream += THREADS) {
        sources.narrow.places[stream] = NO_PLACE;
        if (output.unwritten != nullptr) {
            output.unwritten[stream] = 0;
        }
    }
    for (uint32_t stream = threadIdx.x; stream < sources.other_streams; stream += THREADS) {
        auto clear = [&](const Streams &streams, uint32_t kind) {
            if (streams.places != nullptr && stream >= stream_number(before.streams, kind)) {
                streams.places[stream] = NO_PLACE;
            }
        };
        clear(sources.wide, WIDE_CODES);
        clear(sources.masks, MASK_BITMAPS);
        clear(sources.signs, SIGN_BITMAPS);
    }
    const bool bad = __syncthreads_or(status & STATUS_BAD_STREAM), no_room = __syncthreads_or(status & STATUS_NO_ROOM);
    if (threadIdx.x == 0) {
        status = (bad ? STATUS_BAD_STREAM : 0) | (no_room ? STATUS_NO_ROOM : 0);
        output.state[0] = running;
        output.state[1] = status | (output.is_first ? 0 : output.state[1]);
        if (output.is_first) {
            *output.checksummed_records = 0;
        }
        if (output.streams_done != nullptr) {
            *output.streams_done = 0;
        }
        // The barrier above orders the writes of all threads before this signal.
        signal_release(&output.state[2], output.number);
        grid_dependency_wait();
    }
}
