// Lists the parts of a batch that only some chunks have: where the entries of each chunk start in the batch's lists,
// the chunks that take the wide radius, and the streams of wide codes and of bitmaps. The host lists the same where it
// reads the summaries (`SideLists::new` and `BatchPlan::new`).
//
// THREADS         threads of the one block, one per chunk
// ELEMENT_BYTES   4 or 8
// BITMAP_LOG2     log2 of the bytes in a group of bitmaps
#include "container/record.cuh"
#include "device/block.cuh"

using format::WIDE_RADIUS;

constexpr uint32_t WARPS = THREADS / WARP;

// Totals over earlier chunks. A batch has fewer than 2^32 entries in each list, and fewer than 2^20 chunks.
struct Totals {
    uint64_t lists;   // outliers, verbatim values << 32
    uint64_t bitmaps; // bytes of masks, of signs << 32
    uint64_t streams;
};

// Returns the sums over the threads below, and adds those over all to `totals`. Called by the whole block.
__device__ inline Totals sums_before(const Totals &own, Totals &totals, uint64_t *warp_sums) {
    auto sum_before = [&](uint64_t value, uint64_t &sum) {
        uint64_t total;
        const uint64_t before = sum + block_exclusive_sum<THREADS, uint64_t>(value, warp_sums, total);
        sum += total;
        return before;
    };
    Totals before;
    before.lists = sum_before(own.lists, totals.lists);
    before.bitmaps = sum_before(own.bitmaps, totals.bitmaps);
    before.streams = sum_before(own.streams, totals.streams);
    return before;
}

// There are at least as many streams in `lists` as chunks. Without room for wide codes, the arrays for them are null; a
// chunk that takes the wide radius then sets a bit of the status, and its summary is cleared, so that it makes no
// stream. The arrays for bitmaps are null if there can be none.
extern "C" __global__ void __launch_bounds__(THREADS)
    quantize_list(Geometry geometry, ChunkBatch batch, ChunkSummary *summaries, BatchLists lists) {
    __shared__ uint64_t warp_sums[WARPS];
    Totals totals = {};
    bool any_missing = false;
    for (uint32_t begin = 0; begin < batch.chunks; begin += THREADS) {
        const uint32_t chunk = begin + threadIdx.x;
        const bool exists = chunk < batch.chunks;
        ChunkSummary summary = {};
        summary.radius = RADIUS;
        if (exists) {
            const uint64_t first = batch.first_tile + batch.chunk_first(chunk),
                           end = batch.first_tile + batch.chunk_first(chunk + 1);
            summary = summaries[chunk];
            if (summary.is_raw(geometry.elements_before(end) - geometry.elements_before(first), ELEMENT_BYTES)) {
                summary = summary.of_raw(RADIUS);
            } else if (summary.radius > RADIUS && lists.wide == nullptr) {
                summary = summary.of_raw(RADIUS);
                summaries[chunk] = summary;
                any_missing = true;
            }
        }
        const bool wide = summary.radius > RADIUS, masks = summary.mask_bytes > 0, signs = summary.sign_bytes > 0;
        Totals own;
        own.lists = summary.outliers | uint64_t(summary.verbatim) << 32;
        own.bitmaps = summary.mask_bytes | uint64_t(summary.sign_bytes) << 32;
        own.streams = one_stream(WIDE_CODES, wide) | one_stream(MASK_BITMAPS, masks) | one_stream(SIGN_BITMAPS, signs);
        const Totals before = sums_before(own, totals, warp_sums);
        if (!exists) {
            continue;
        }
        const bool nothing = own.lists == 0 && own.bitmaps == 0;
        lists.starts[chunk] = {uint32_t(before.lists),         uint32_t(before.lists >> 32), uint32_t(before.bitmaps),
                               uint32_t(before.bitmaps >> 32), nothing ? 0 : summary.radius, 0};
        auto list_bitmaps = [&](StreamInput *spans, uint32_t kind, uint64_t bytes_before, uint32_t bytes) {
            spans[stream_number(before.streams, kind)] = {uint32_t(bytes_before) >> BITMAP_LOG2, bytes >> BITMAP_LOG2,
                                                          0, 0, 0};
        };
        if (masks && lists.masks != nullptr) {
            list_bitmaps(lists.masks, MASK_BITMAPS, before.bitmaps, summary.mask_bytes);
        }
        if (signs && lists.signs != nullptr) {
            list_bitmaps(lists.signs, SIGN_BITMAPS, before.bitmaps >> 32, summary.sign_bytes);
        }
        if (wide) {
            const uint32_t number = stream_number(before.streams, WIDE_CODES);
            lists.wide_chunks[number] = chunk;
            lists.wide[number] = {batch.first_slot(chunk), summary.groups, WIDE_RADIUS, 0, 0};
        }
    }
    // The remaining streams are empty.
    for (uint32_t i = threadIdx.x; i < lists.streams; i += THREADS) {
        if (lists.wide != nullptr && i >= stream_number(totals.streams, WIDE_CODES)) {
            lists.wide_chunks[i] = NO_CHUNK;
            lists.wide[i] = {0, 0, WIDE_RADIUS, 0, 0};
        }
        if (lists.masks != nullptr && i >= stream_number(totals.streams, MASK_BITMAPS)) {
            lists.masks[i] = {0, 0, 0, 0, 0};
        }
        if (lists.signs != nullptr && i >= stream_number(totals.streams, SIGN_BITMAPS)) {
            lists.signs[i] = {0, 0, 0, 0, 0};
        }
    }
    if (__syncthreads_or(any_missing) && threadIdx.x == 0) {
        *lists.status |= STATUS_NO_WIDE_CODES;
    }
}
