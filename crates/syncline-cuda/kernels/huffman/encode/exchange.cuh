// What the blocks of huffman/encode/small.cuh that have encoded groups tell each other, and find out from that: where
// each one's bits go, and what of the stream's index and checksum is its own.
//
// What is one warp's to work out is not worked out by all 32: that would take as long as eight of them one after
// another.
#pragma once
#include "device/warp.cuh"
#include "huffman/encode/gaps_small.cuh"

// Where a stream's parts are.
struct Parts {
    uint32_t codebook_bytes, bitmap_at, index_at, index_bytes, codewords_at, stream_bytes;
};
__device__ inline Parts parts_of(uint32_t groups, uint32_t live, uint32_t bits, uint32_t widths, uint32_t book_bytes) {
    Parts parts;
    parts.codebook_bytes = live == 0 ? EMPTY_BOOK_BYTES : book_bytes;
    parts.bitmap_at = align_up(HEADER_BYTES + parts.codebook_bytes, 4);
    parts.index_at = align_up(parts.bitmap_at + (live < groups ? ceil_div(groups, 8) : 0), 8);
    parts.index_bytes = INDEX == 2   ? 8 * ceil_div(live, INDEX_BLOCK) + 4 * widths
                        : INDEX == 1 ? ceil_div(ceil_div(bits, SUBSEQUENCE) * GAP_BITS, 8)
                                     : 0;
    parts.codewords_at = align_up(parts.index_at + parts.index_bytes, 16);
    parts.stream_bytes = parts.codewords_at + 4 * (ceil_div(bits, 32) + 2);
    return parts;
}

// Blocks behind a block whose first live groups it asks for before it knows whether it needs them.
constexpr uint32_t BLOCKS_AHEAD = 3;

// Shared memory beside the dynamic.
struct Shared {
    uint64_t starts[MOST_BLOCKS + 1]; // sizes of what is before each of the stream's blocks, and of the stream
    uint32_t warp_sizes[WARPS], warp_starts[WARPS]; // of each warp's groups, of those before it in the block
    uint32_t sum[WARPS], weighted[WARPS];
    uint32_t entries[WARPS];    // of the block's groups among those of each entry: bits; above them words of its deltas
    uint32_t packed[WARPS][16]; // deltas of an entry
    uint32_t ahead[BLOCKS_AHEAD][WARP]; // bits of the first live groups of the blocks behind this one
    uint32_t groups[MOST_STREAMS], blocks[MOST_STREAMS], book_bytes[MOST_STREAMS]; // of each stream
    uint32_t widths_before; // of the stream's blocks before this one
    // Of the stream, for the block that writes its frame.
    uint32_t checksum[2];
    uint32_t summary[2]; // of its codebook: bytes and longest codeword
    alignas(4) uint8_t book[BOOK_BYTES];
    uint32_t status; // before
    Parts parts;
    uint64_t place;
    bool is_bad, stream_is_bad, is_last;
};

// Before anything else of it is touched; by the first warp.
__device__ inline void clear_shared(Shared &shared, const StreamList &list) {
    shared.groups[lane_id()] = list.of[lane_id()].groups;
    shared.blocks[lane_id()] = list.of[lane_id()].blocks;
    if (lane_id() == 0) {
        shared.is_bad = false;
    }
}

// What a block works with.
struct Work {
    const StreamList &list;
    Share share;
    States states;
    uint32_t *slots; // of each warp `slot_words`, 0 where nothing has been put
    uint32_t slot_words;
    uint16_t *lengths, *live_lengths; // bits of its groups, and of those that are live
    uint32_t round_begin, round_end;  // of this warp
    BlockGaps gaps;
};

// Sizes of what the block has, and of what is before the warp in it.
struct Place {
    uint32_t sizes, before;
};

// Where the streams go.
struct Result {
    Plan *plans;
    uint64_t *places;
    uint8_t *out;
    uint64_t out_bytes;
};

// What the warp's groups have come to, for the others.
__device__ inline void note_warp(Shared &shared, const Encoding &own) {
    const uint32_t sum = warp_reduce_sum(own.sum), weighted = warp_reduce_sum(own.weighted);
    const bool is_bad = __any_sync(ALL_LANES, (own.any & ANY_MISSING) != 0 || (own.seen & BEYOND_ALPHABET) != 0);
    if (lane_id() == 0) {
        shared.warp_sizes[warp_id()] = own.live << SHORT_LIVE_AT | own.bits;
        shared.sum[warp_id()] = sum;
        shared.weighted[warp_id()] = weighted;
        if (is_bad) {
            shared.is_bad = true;
        }
    }
}

// Where the warp is in its block.
__device__ inline Place own_place(const Shared &shared) {
    const uint32_t sizes = lane_id() < WARPS ? shared.warp_sizes[lane_id()] : 0;
    return {warp_reduce_sum(sizes), warp_reduce_sum(lane_id() < warp_id() ? sizes : 0)};
}

// What the block says first. By a thread.
__device__ inline void say_sizes(const Shared &shared, const Work &work, uint32_t sizes) {
    const uint64_t all = uint64_t(live_of(sizes)) << 32 | bits_of(sizes);
    say(&work.states.sizes[blockIdx.x].first, SAID | (shared.is_bad ? IS_BAD : 0) | all);
    add_to(&work.states.totals[work.share.stream].first, all);
}

// The block's first bits and its checksum; and where each warp begins, a lane a warp. By a warp.
__device__ inline void say_more(Shared &shared, const Work &work) {
    const bool there = lane_id() < WARPS;
    const uint32_t own = there ? shared.warp_sizes[lane_id()] : 0, before = warp_inclusive_sum(own) - own;
    if (there) {
        shared.warp_starts[lane_id()] = before;
    }
    const uint32_t front = warp_reduce_or(
        bits_of(own) > 0 && bits_of(before) < 32 ? work.slots[lane_id() * work.slot_words] >> bits_of(before) : 0);
    const uint32_t own_sum = there ? shared.sum[lane_id()] : 0, own_weighted = there ? shared.weighted[lane_id()] : 0;
    const uint32_t sum = warp_reduce_sum(own_sum),
                   weighted = warp_reduce_sum(own_weighted + live_of(before) * GROUP * own_sum);
    if (lane_id() == 0) {
        say(&work.states.fronts[blockIdx.x], SAID | front);
        say(&work.states.sums[blockIdx.x].first, SAID | sum);
        say(&work.states.sums[blockIdx.x].second, SAID | weighted);
    }
}

// Brings the warp's live groups side by side with the others'; the first of the block somebody may wait for.
__device__ inline void line_up(const Work &work, const Place &place) {
    uint32_t rank = live_of(place.before);
    uint32_t *firsts = work.states.lengths + blockIdx.x * WARP;
    const uint32_t end = work.round_end * ROUND_GROUPS;
#pragma unroll 1
    for (uint32_t first = work.round_begin * ROUND_GROUPS; first < end; first += WARP) {
        const uint32_t group = first + lane_id(), length = group < end ? work.lengths[group] : 0;
        const uint32_t are_live = __ballot_sync(ALL_LANES, length != 0);
        if (length != 0) {
            const uint32_t own_rank = rank + __popc(are_live & ((1u << lane_id()) - 1));
            work.live_lengths[own_rank] = length;
            if (own_rank < WARP) {
                say(&firsts[own_rank], SAID_LENGTH | length);
            }
        }
        rank += __popc(are_live);
    }
    if (warp_id() == 0 && lane_id() >= live_of(place.sizes)) {
        say(&firsts[lane_id()], SAID_LENGTH);
    }
}

// What a block behind this one says of its first live groups. By a warp for each of the blocks ahead.
__device__ inline void hear_ahead(Shared &shared, const Work &work, uint32_t which) {
    const uint32_t other = work.share.index + 1 + which;
    if (other < work.share.blocks) {
        shared.ahead[which][lane_id()] =
            wait_for(&work.states.lengths[(work.share.first_block + other) * WARP + lane_id()]) & ~SAID_LENGTH;
    }
}

// What the stream's blocks say of their sizes. By the first warp.
__device__ inline void hear_sizes(Shared &shared, const Work &work) {
    uint64_t before = 0;
    bool is_bad = false;
#pragma unroll 1
    for (uint32_t first = 0; first < work.share.blocks; first += WARP) {
        const uint32_t other = first + lane_id();
        const bool there = other < work.share.blocks;
        const uint64_t said = there ? wait_for(&work.states.sizes[work.share.first_block + other].first) : 0,
                       own = said & SIZES;
        __syncwarp();
        const uint64_t through = warp_inclusive_sum(own);
        is_bad |= (said & IS_BAD) != 0;
        if (there) {
            shared.starts[other] = before + through - own;
        }
        before += __shfl_sync(ALL_LANES, through, WARP - 1);
    }
    is_bad = __any_sync(ALL_LANES, is_bad);
    if (lane_id() == 0) {
        shared.starts[work.share.blocks] = before;
        shared.stream_is_bad = is_bad;
    }
}

// Of the live group that is number `rank` of the stream, and in a block behind this one, but among its first: its bits.
__device__ inline uint32_t length_behind(const Shared &shared, const Work &work, uint32_t rank) {
    uint32_t other = work.share.index + 1;
#pragma unroll 1
    while (live_of(shared.starts[other + 1]) <= rank) {
        ++other;
    }
    const uint32_t which = other - work.share.index - 1, at = rank - live_of(shared.starts[other]);
    return which < BLOCKS_AHEAD
               ? shared.ahead[which][at]
               : wait_for(&work.states.lengths[(work.share.first_block + other) * WARP + at]) & ~SAID_LENGTH;
}

// An entry of the symbol index, a warp's.
struct Entry {
    bool there;
    uint32_t number, start, shortest, width, deltas_at; // the latter counted from the block's first
};

// Makes the entries that start in this block and says how many words their deltas have. The first warp has that of the
// block's first live group, if it starts there. By the whole block.
__device__ inline Entry make_entry(Shared &shared, const Work &work, uint32_t live, uint64_t starts,
                                   uint32_t stream_live) {
    const uint32_t warp = warp_id(), live_start = live_of(starts), skew = live_start % INDEX_BLOCK;
    const uint32_t warps = max_of(1u, ceil_div(skew + live, INDEX_BLOCK)), first = warp * INDEX_BLOCK,
                   in_block = threadIdx.x - skew;
    Entry entry = {warp < warps && first >= skew && first - skew < live, live_start / INDEX_BLOCK + warp, 0, 0, 0, 0};
    const bool there = entry.number * INDEX_BLOCK + lane_id() < stream_live;
    uint32_t length = 0;
    if (warp < warps) {
        length = threadIdx.x >= skew && in_block < live ? work.live_lengths[in_block] : 0;
        const uint32_t bits = warp_reduce_sum(length);
        if (entry.there) {
            if (there && in_block >= live) {
                length = length_behind(shared, work, entry.number * INDEX_BLOCK + lane_id());
            }
            __syncwarp();
            entry.shortest = warp_reduce_min(there ? length : 0xFFFF);
            entry.width = 32 - __clz(warp_reduce_max(there ? length : 0) - entry.shortest);
        }
        if (lane_id() == 0) {
            shared.entries[warp] = entry.width << SHORT_LIVE_AT | bits;
        }
    }
    __syncthreads();
    if (warp >= warps) {
        return entry;
    }
    const uint32_t own = lane_id() < warps ? shared.entries[lane_id()] : 0;
    if (warp == 0) {
        const uint32_t all = warp_reduce_sum(own);
        if (lane_id() == 0) {
            say(&work.states.sizes[blockIdx.x].second, SAID | all >> SHORT_LIVE_AT);
            add_to(&work.states.totals[work.share.stream].second, all >> SHORT_LIVE_AT);
        }
    }
    const uint32_t before = warp_reduce_sum(lane_id() < warp ? own : 0);
    entry.start = bits_of(starts) + bits_of(before);
    entry.deltas_at = before >> SHORT_LIVE_AT;
    if (entry.there && entry.width > 0) {
        uint32_t *packed = shared.packed[warp];
        if (lane_id() < 16) {
            packed[lane_id()] = 0;
        }
        __syncwarp();
        const uint64_t shifted = uint64_t(there ? length - entry.shortest : 0) << lane_id() * entry.width % 32;
        atomicOr(&packed[lane_id() * entry.width / 32], uint32_t(shifted));
        atomicOr(&packed[lane_id() * entry.width / 32 + 1], uint32_t(shifted >> 32));
        __syncwarp();
    }
    return entry;
}

// What comes behind bit `end` of the stream, where this warp's bits end, in its word; by a warp. The next warp or block
// that has anything has all of it: a live group has more bits than a word.
__device__ inline uint32_t rest_of_word(const Shared &shared, const Work &work, uint32_t end) {
    static_assert(GROUP > 32, "a bit a symbol at least");
    const uint32_t warps = __ballot_sync(ALL_LANES, lane_id() > warp_id() && lane_id() < WARPS &&
                                                        bits_of(shared.warp_sizes[min_of(lane_id(), WARPS - 1)]) > 0);
    if (warps != 0) {
        return work.slots[(__ffs(warps) - 1) * work.slot_words] >> end % 32;
    }
#pragma unroll 1
    for (uint32_t first = work.share.index + 1; first < work.share.blocks; first += WARP) {
        const uint32_t other = first + lane_id();
        const uint32_t blocks = __ballot_sync(
            ALL_LANES, other < work.share.blocks && bits_of(shared.starts[other]) < bits_of(shared.starts[other + 1]));
        if (blocks != 0) {
            return uint32_t(wait_for(&work.states.fronts[work.share.first_block + first + __ffs(blocks) - 1])) >>
                   end % 32;
        }
    }
    return 0;
}

// Waits for the totals of the streams up to this one, a lane a stream, and finds out where this one is, and its parts
// in it. By a warp.
__device__ inline void place_stream(Shared &shared, const Work &work) {
    const uint32_t lane = lane_id(), stream = work.share.stream;
    Pair totals = {0, 0};
    uint32_t book_bytes = 0;
    if (lane <= stream) {
        do {
            totals = look_at(&work.states.totals[lane]);
        } while (totals.first >> COUNT_AT != shared.blocks[lane] ||
                 (INDEX == 2 && totals.second >> COUNT_AT != shared.blocks[lane]));
        book_bytes = WHOLE ? uint32_t(wait_for(&work.states.books[lane])) : shared.book_bytes[lane];
    }
    __syncwarp();
    const Parts parts = parts_of(shared.groups[lane], live_of(totals.first), bits_of(totals.first),
                                 uint32_t(totals.second), book_bytes);
    const uint32_t place = warp_reduce_sum(lane < stream ? align_up(parts.stream_bytes, 16) : 0);
    if (lane == stream) {
        shared.parts = parts;
        shared.place = place;
    }
}

// Words of deltas of the stream's blocks before this one. By a warp.
__device__ inline void hear_widths(Shared &shared, const Work &work) {
    uint32_t before = 0;
#pragma unroll 1
    for (uint32_t other = lane_id(); other < work.share.index; other += WARP) {
        before += uint32_t(wait_for(&work.states.sizes[work.share.first_block + other].second));
    }
    __syncwarp();
    before = warp_reduce_sum(before);
    if (lane_id() == 0) {
        shared.widths_before = before;
    }
}

// The stream's checksum. By a warp.
__device__ inline void hear_sums(Shared &shared, const Work &work) {
    uint32_t sum = 0, weighted = 0;
#pragma unroll 1
    for (uint32_t other = lane_id(); other < work.share.blocks; other += WARP) {
        const Pair own = wait_for(&work.states.sums[work.share.first_block + other]);
        sum += uint32_t(own.first);
        weighted += uint32_t(own.second) + live_of(shared.starts[other]) * GROUP * uint32_t(own.first);
    }
    __syncwarp();
    sum = warp_reduce_sum(sum);
    weighted = warp_reduce_sum(weighted);
    if (lane_id() == 0) {
        shared.checksum[0] = sum;
        shared.checksum[1] = weighted;
    }
}
