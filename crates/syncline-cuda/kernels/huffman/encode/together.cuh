// Where what the blocks of huffman/encode/small.cuh have encoded goes, which they find out together
// (huffman/encode/exchange.cuh): its writing.
#pragma once
#include "huffman/encode/exchange.cuh"

// Header, codebook, padding and plan of the stream; by the whole block.
__device__ inline void write_own_frame(const Shared &shared, const Work &work, uint64_t sizes, bool fits,
                                       uint32_t *status, const Result &result) {
    const Parts &parts = shared.parts;
    const uint32_t stream = work.share.stream, live = live_of(sizes);
    Plan plan;
    plan.groups = work.share.groups;
    plan.live = live;
    plan.bits = bits_of(sizes);
    plan.sum = shared.checksum[0];
    plan.weighted = shared.checksum[1];
    plan.codebooks = 1;
    plan.codebook_bytes = parts.codebook_bytes;
    plan.bitmap_at = parts.bitmap_at;
    plan.index_at = parts.index_at;
    plan.index_bytes = parts.index_bytes;
    plan.codewords_at = parts.codewords_at;
    plan.stream_bytes = parts.stream_bytes;
    // A given codebook may have codewords though nothing is live: the stream then has an empty one.
    plan.longest = live == 0 ? 0 : shared.summary[1];
    plan.has_free = live < work.share.groups;
    plan.free_symbol = work.share.free_symbol;
    const uint32_t missing = shared.stream_is_bad ? STATUS_MISSING_CODEWORD : 0;
    plan.status = (WHOLE ? 0 : shared.status) | missing | (fits ? 0 : STATUS_NO_ROOM);
    if (fits) {
        write_frame(result.out + shared.place, plan, {shared.summary, nullptr, shared.book}, 0, threadIdx.x, THREADS);
    }
    // Another warp than that which writes the header.
    if (threadIdx.x == 2 * WARP) {
        result.plans[stream] = plan;
        result.places[stream] = shared.place;
        if (WHOLE) {
            status[stream] = missing;
        }
        if (stream == work.list.streams - 1) {
            result.places[work.list.streams] = shared.place + align_up(parts.stream_bytes, 16);
        }
    }
}

// The block's share of the bitmap of free groups: a thread a byte.
__device__ inline void write_bitmap(const Work &work, uint8_t *to) {
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < work.share.units; i += THREADS) {
        uint32_t free_ones = 0;
#pragma unroll
        for (uint32_t j = 0; j < UNIT_GROUPS; ++j) {
            const uint32_t group = i * UNIT_GROUPS + j;
            free_ones |=
                uint32_t(work.share.first * UNIT_GROUPS + group < work.share.groups && work.lengths[group] == 0) << j;
        }
        to[work.share.first + i] = free_ones;
    }
}

// From encoded groups to the streams' bytes. `own` is what the warp's groups have come to. By the whole block; `heard`
// is called when all blocks of the stream have got as far, `load` loads a turn of the warp.
template <typename Heard, typename Load>
__device__ inline void write_streams(Shared &shared, const Work &work, const Encoding &own, uint32_t *status,
                                     const Result &result, Heard heard, Load load) {
    const uint32_t warp = same_for_all(warp_id());
    note_warp(shared, own);
    __syncthreads();
    const Place place = own_place(shared);
    if (threadIdx.x == 0) {
        say_sizes(shared, work, place.sizes);
    }
    if (warp == WARPS - 1) {
        say_more(shared, work);
    }
    if (INDEX != 1) {
        line_up(work, place);
    }
    if (warp == 0) {
        hear_sizes(shared, work);
    } else if (INDEX == 2 && warp <= BLOCKS_AHEAD) {
        hear_ahead(shared, work, warp - 1);
    }
    __syncthreads();
    const uint64_t starts = shared.starts[work.share.index], sizes = shared.starts[work.share.blocks];
    const bool all_live = live_of(sizes) == work.share.groups;
    Entry entry = {false, 0, 0, 0, 0, 0};
    if (INDEX == 2) {
        entry = make_entry(shared, work, live_of(place.sizes), starts, live_of(sizes));
    }
    // Words that start among the warp's bits, the last of which needs what comes behind.
    const uint32_t start = bits_of(starts) + bits_of(place.before), end = start + own.bits;
    const uint32_t first_word = ceil_div(start, 32), last_word = ceil_div(end, 32);
    const uint32_t rest = last_word > first_word && end % 32 != 0 ? rest_of_word(shared, work, end) : 0;
    const uint32_t subsequences = ceil_div(bits_of(sizes), SUBSEQUENCE);
    Subsequences of_block = reached(bits_of(starts), bits_of(starts) + bits_of(place.sizes), subsequences);
    if (work.share.index == 0) {
        of_block.first = 0;
    }
    if (INDEX == 1) {
        if (threadIdx.x == 0 && work.share.index == 0) {
            work.gaps.gaps[0] = 0;
        }
        work.gaps.find(reached(start, end, subsequences), start, work.round_begin * WARP,
                       (work.round_end - work.round_begin) * WARP, of_block.first, load);
    }
    if (warp == 0) {
        place_stream(shared, work);
    } else if (INDEX == 2 && warp == 1) {
        hear_widths(shared, work);
    } else if (warp == WARPS - 1 && work.share.has_frame()) {
        hear_sums(shared, work);
    }
    heard();
    __syncthreads();
    if (INDEX != 1 && warp == 1) {
        // All blocks of the stream have read these by now.
        work.states.lengths[blockIdx.x * WARP + lane_id()] = 0;
    }
    uint32_t done_before = 0;
    if (threadIdx.x == THREADS - 1) {
        // What this block has said, and nobody may have waited for, comes before whoever clears it. How many were
        // before this one is known when it has written.
        __threadfence();
        done_before = atomicAdd(work.states.done, 1u);
    }
    const Parts &parts = shared.parts;
    const bool fits = shared.place <= result.out_bytes && parts.stream_bytes <= result.out_bytes - shared.place;
    uint8_t *to = result.out + shared.place;
    if (work.share.has_frame()) {
        write_own_frame(shared, work, sizes, fits, status, result);
    }
    if (fits) {
        const uint32_t *slot = work.slots + warp * work.slot_words;
        uint32_t *words = reinterpret_cast<uint32_t *>(to + parts.codewords_at);
        const uint32_t shift = (0u - start) % 32, whole = last_word > first_word ? last_word - first_word - 1 : 0;
#pragma unroll 2
        for (uint32_t i = lane_id(); i < whole; i += WARP) {
            __stcs(&words[first_word + i], __funnelshift_l(slot[i + 1], slot[i], shift));
        }
        if (last_word > first_word && lane_id() == 0) {
            words[last_word - 1] = __funnelshift_l(slot[whole + 1], slot[whole], shift) | rest;
        }
        if (entry.there) {
            const uint32_t deltas_at = shared.widths_before + entry.deltas_at;
            uint64_t *descriptors = reinterpret_cast<uint64_t *>(to + parts.index_at);
            uint32_t *deltas = reinterpret_cast<uint32_t *>(descriptors + ceil_div(live_of(sizes), INDEX_BLOCK));
            if (lane_id() == 0) {
                descriptors[entry.number] = entry.start | uint64_t(entry.shortest) << 32 | uint64_t(entry.width) << 44 |
                                            uint64_t(deltas_at) << 48;
            }
            if (lane_id() < entry.width) {
                deltas[deltas_at + lane_id()] = shared.packed[warp][lane_id()];
            }
        }
        if (INDEX == 1) {
            work.gaps.write(of_block, subsequences, to + parts.index_at);
        }
        if (!all_live) {
            write_bitmap(work, to + parts.bitmap_at);
        }
    }
    // Nobody needs any more what the blocks have said.
    if (threadIdx.x == THREADS - 1) {
        shared.is_last = done_before == gridDim.x - 1;
    }
    __syncthreads();
    if (shared.is_last) {
        uint64_t *words = &work.states.sizes->first;
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < words_of_all(); i += THREADS) {
            words[i] = 0;
        }
        if (threadIdx.x == 0) {
            *work.states.done = 0;
        }
    }
}
