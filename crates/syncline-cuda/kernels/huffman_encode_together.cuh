// Where what the blocks of huffman_encode_small.cuh have encoded goes, which they find out together, and its writing.
//
// What is one warp's to work out is not worked out by all 32: that would take as long as eight of them one after another.
#pragma once
#include "huffman_encode_small.cuh"

// What blocks say, each kind side by side; all are 0 before and after.
struct States {
    uint64_t *sizes;    // bits, above them live groups and the stream's number, IS_BAD
    uint64_t *sums;     // of the live symbols
    uint64_t *weighted; // the same, numbered from the block's first
    uint64_t *fronts;   // the first 32 bits
    uint64_t *widths;   // words of deltas
    uint64_t *books;    // bytes of each stream's codebook, where that is made on the way
    uint32_t *lengths;  // bits of the first live groups, WARP words of each block
    uint32_t *done;     // blocks that need no more of this
};
constexpr uint64_t SAID = 1ull << 63, IS_BAD = 1ull << 62;
constexpr uint32_t SAID_LENGTH = 1u << 31, STREAM_AT = 56;
constexpr uint64_t SIZES = (1ull << STREAM_AT) - 1;

__device__ inline States states_at(uint64_t *memory) {
    const uint32_t blocks = gridDim.x;
    uint64_t *books = memory + 5 * blocks;
    uint32_t *lengths = reinterpret_cast<uint32_t *>(books + MOST_STREAMS);
    return {memory, memory + blocks, memory + 2 * blocks, memory + 3 * blocks, memory + 4 * blocks, books, lengths, lengths + WARP * blocks};
}
// Words of 32 bits that they take, an even number.
__device__ inline uint32_t state_words() { return (5 * 2 + WARP) * gridDim.x + 2 * MOST_STREAMS + 2; }

template <typename Word> __device__ inline void say(Word *state, Word word) { *const_cast<volatile Word *>(state) = word; }
template <typename Word> __device__ inline Word wait_for(const Word *state) {
    Word word;
    do {
        word = *const_cast<const volatile Word *>(state);
    } while (word == 0);
    return word;
}

#if __CUDA_ARCH__ >= 800
__device__ inline uint32_t warp_or(uint32_t value) { return __reduce_or_sync(ALL_LANES, value); }
__device__ inline uint32_t warp_min(uint32_t value) { return __reduce_min_sync(ALL_LANES, value); }
__device__ inline uint32_t warp_max(uint32_t value) { return __reduce_max_sync(ALL_LANES, value); }
__device__ inline uint32_t warp_total(uint32_t value) { return __reduce_add_sync(ALL_LANES, value); }
#else
template <typename Join> __device__ inline uint32_t warp_join(uint32_t value, Join join) {
#pragma unroll
    for (uint32_t distance = WARP / 2; distance > 0; distance /= 2) {
        value = join(value, __shfl_xor_sync(ALL_LANES, value, distance));
    }
    return value;
}
__device__ inline uint32_t warp_or(uint32_t value) {
    return warp_join(value, [](uint32_t a, uint32_t b) { return a | b; });
}
__device__ inline uint32_t warp_min(uint32_t value) {
    return warp_join(value, [](uint32_t a, uint32_t b) { return min_of(a, b); });
}
__device__ inline uint32_t warp_max(uint32_t value) {
    return warp_join(value, [](uint32_t a, uint32_t b) { return max_of(a, b); });
}
__device__ inline uint32_t warp_total(uint32_t value) { return warp_sum(value); }
#endif

// Where a stream's parts are.
struct Parts {
    uint32_t codebook_bytes, bitmap_at, index_at, index_bytes, codewords_at, stream_bytes;
};
__device__ inline Parts parts_of(uint32_t groups, uint32_t live, uint32_t bits, uint32_t widths, uint32_t book_bytes) {
    Parts parts;
    parts.codebook_bytes = live == 0 ? EMPTY_BOOK_BYTES : book_bytes;
    parts.bitmap_at = align_up(HEADER_BYTES + parts.codebook_bytes, 4);
    parts.index_at = align_up(parts.bitmap_at + (live < groups ? ceil_div(groups, 8) : 0), 8);
    parts.index_bytes = INDEX == 2 ? 8 * ceil_div(live, INDEX_BLOCK) + 4 * widths : 0;
    parts.codewords_at = align_up(parts.index_at + parts.index_bytes, 16);
    parts.stream_bytes = parts.codewords_at + 4 * (ceil_div(bits, 32) + 2);
    return parts;
}

// Sizes are bits, and above 32 of them live groups.
__device__ inline uint32_t bits_of(uint64_t sizes) { return uint32_t(sizes); }
__device__ inline uint32_t live_of(uint64_t sizes) { return uint32_t((sizes & SIZES) >> 32); }

// Shared memory beside the dynamic.
struct Shared {
    uint64_t starts[MOST_BLOCKS + 1];                     // sizes of what is before each of the stream's blocks, and of the stream
    uint64_t warp_sizes[WARPS], warp_starts[WARPS], sizes; // of each warp's groups, of those before it in the block, of the block's
    uint32_t sum[WARPS], weighted[WARPS];
    uint64_t entries[WARPS];   // of the block's groups among those of each entry: bits; and words of its deltas
    uint32_t packed[WARPS][16]; // deltas of an entry
    uint32_t book_bytes[MOST_STREAMS];
    uint32_t all_bits[MOST_STREAMS], all_live[MOST_STREAMS], all_widths[MOST_STREAMS]; // of the streams up to this one
    uint32_t widths_before;                                                            // of the stream's blocks before this one
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
__device__ inline void clear_shared(Shared &shared) {
    shared.all_bits[lane_id()] = shared.all_live[lane_id()] = shared.all_widths[lane_id()] = 0;
    if (lane_id() == 0) {
        shared.widths_before = 0;
        shared.is_bad = shared.stream_is_bad = false;
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
    const uint32_t sum = warp_total(own.sum), weighted = warp_total(own.weighted);
    const bool is_bad = __any_sync(ALL_LANES, (own.any & ANY_MISSING) != 0 || (own.seen & BEYOND_ALPHABET) != 0);
    if (lane_id() == 0) {
        shared.warp_sizes[warp_id()] = uint64_t(own.live) << 32 | own.bits;
        shared.sum[warp_id()] = sum;
        shared.weighted[warp_id()] = weighted;
        if (is_bad) {
            shared.is_bad = true;
        }
    }
}

// A lane a warp: where each begins, and what the block says first. By the first warp.
__device__ inline void say_sizes(Shared &shared, const Work &work) {
    const uint64_t own = shared.warp_sizes[lane_id()], through = warp_scan_inclusive(own);
    shared.warp_starts[lane_id()] = through - own;
    if (lane_id() == WARP - 1) {
        shared.sizes = through;
        say(&work.states.sizes[blockIdx.x], SAID | (shared.is_bad ? IS_BAD : 0) | uint64_t(work.share.stream) << STREAM_AT | through);
    }
}

// The block's first bits and its checksum. By a warp.
__device__ inline void say_more(const Shared &shared, const Work &work) {
    const uint32_t bits = bits_of(shared.warp_sizes[lane_id()]), start = bits_of(shared.warp_starts[lane_id()]);
    const uint32_t front = warp_or(bits > 0 && start < 32 ? work.slots[lane_id() * work.slot_words] >> start : 0);
    const uint32_t sum = warp_total(shared.sum[lane_id()]);
    const uint32_t weighted = warp_total(shared.weighted[lane_id()] + live_of(shared.warp_starts[lane_id()]) * GROUP * shared.sum[lane_id()]);
    if (lane_id() == 0) {
        say(&work.states.fronts[blockIdx.x], SAID | front);
        say(&work.states.sums[blockIdx.x], SAID | sum);
        say(&work.states.weighted[blockIdx.x], SAID | weighted);
    }
}

// Brings the warp's live groups side by side with the others'; the first of the block somebody may wait for.
__device__ inline void line_up(const Shared &shared, const Work &work) {
    uint32_t rank = live_of(shared.warp_starts[warp_id()]);
    const uint32_t end = work.round_end * ROUND_GROUPS;
#pragma unroll 1
    for (uint32_t first = work.round_begin * ROUND_GROUPS; first < end; first += WARP) {
        const uint32_t group = first + lane_id(), length = group < end ? work.lengths[group] : 0;
        const uint32_t are_live = __ballot_sync(ALL_LANES, length != 0);
        if (length != 0) {
            const uint32_t own_rank = rank + __popc(are_live & ((1u << lane_id()) - 1));
            work.live_lengths[own_rank] = length;
            if (own_rank < WARP) {
                say(&work.states.lengths[blockIdx.x * WARP + own_rank], SAID_LENGTH | length);
            }
        }
        rank += __popc(are_live);
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
        const uint64_t said = there ? wait_for(&work.states.sizes[work.share.first_block + other]) : 0, own = said & SIZES;
        __syncwarp();
        const uint64_t through = warp_scan_inclusive(own);
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
    uint32_t low = work.share.index + 1, high = work.share.blocks;
#pragma unroll 1
    while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;
        (live_of(shared.starts[middle]) <= rank ? low : high) = middle;
    }
    return wait_for(&work.states.lengths[(work.share.first_block + low) * WARP + rank - live_of(shared.starts[low])]) & ~SAID_LENGTH;
}

// An entry of the symbol index, a warp's.
struct Entry {
    bool there;
    uint32_t number, start, shortest, width, deltas_at; // the latter counted from the block's first
};

// Makes the entries that start in this block and says how many words their deltas have. The first warp has that of the block's first live group, if it starts there. By the whole block.
__device__ inline Entry make_entry(Shared &shared, const Work &work, uint64_t starts, uint32_t stream_live) {
    const uint32_t warp = warp_id(), live = live_of(shared.sizes), live_start = live_of(starts), skew = live_start % INDEX_BLOCK;
    const uint32_t warps = max_of(1u, ceil_div(skew + live, INDEX_BLOCK)), first = warp * INDEX_BLOCK, in_block = threadIdx.x - skew;
    Entry entry = {warp < warps && first >= skew && first - skew < live, live_start / INDEX_BLOCK + warp, 0, 0, 0, 0};
    const bool there = entry.number * INDEX_BLOCK + lane_id() < stream_live;
    uint32_t length = 0;
    if (warp < warps) {
        length = threadIdx.x >= skew && in_block < live ? work.live_lengths[in_block] : 0;
        const uint32_t bits = warp_total(length);
        if (entry.there) {
            if (there && in_block >= live) {
                length = length_behind(shared, work, entry.number * INDEX_BLOCK + lane_id());
            }
            __syncwarp();
            entry.shortest = warp_min(there ? length : 0xFFFF);
            entry.width = 32 - __clz(warp_max(there ? length : 0) - entry.shortest);
        }
        if (lane_id() == 0) {
            shared.entries[warp] = uint64_t(entry.width) << 32 | bits;
        }
    }
    __syncthreads();
    if (warp >= warps) {
        return entry;
    }
    const uint64_t own = lane_id() < warps ? shared.entries[lane_id()] : 0, through = warp_scan_inclusive(own);
    if (threadIdx.x == WARP - 1) {
        say(&work.states.widths[blockIdx.x], SAID | through >> 32);
    }
    const uint64_t before = __shfl_sync(ALL_LANES, through - own, warp);
    entry.start = bits_of(starts) + uint32_t(before);
    entry.deltas_at = uint32_t(before >> 32);
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

// What comes behind bit `end` of the stream in its word, from the warps and the blocks behind this warp; by a warp.
__device__ inline uint32_t rest_of_word(const Shared &shared, const Work &work, uint32_t block_start, uint32_t end) {
    const uint32_t word_end = align_up(end, 32), warp = warp_id();
    // Most often the next warp has all of it.
    if (warp + 1 < WARPS && bits_of(shared.warp_sizes[warp + 1]) >= word_end - end) {
        return work.slots[(warp + 1) * work.slot_words] >> end % 32;
    }
    const uint32_t start = block_start + bits_of(shared.warp_starts[lane_id()]), bits = bits_of(shared.warp_sizes[lane_id()]);
    uint32_t word = lane_id() > warp && bits > 0 && start < word_end ? work.slots[lane_id() * work.slot_words] >> start % 32 : 0;
    bool more = bits_of(shared.starts[work.share.index + 1]) < word_end;
#pragma unroll 1
    for (uint32_t first = work.share.index + 1; more && first < work.share.blocks; first += WARP) {
        const uint32_t other = first + lane_id();
        bool behind = true;
        if (other < work.share.blocks) {
            const uint32_t begin = bits_of(shared.starts[other]), next = bits_of(shared.starts[other + 1]);
            word |= begin < word_end && begin < next ? uint32_t(wait_for(&work.states.fronts[work.share.first_block + other])) >> begin % 32 : 0;
            behind = next < word_end;
        }
        more = __all_sync(ALL_LANES, behind);
    }
    return warp_or(word);
}

// What all blocks say of the streams up to this one: a thread a block. By the whole block.
__device__ inline void hear_all(Shared &shared, const Work &work) {
    const Share &share = work.share;
    const States &states = work.states;
    if (threadIdx.x < share.first_block + share.blocks) {
        const uint64_t sizes = wait_for(&states.sizes[threadIdx.x]);
        const uint32_t widths = INDEX == 2 ? uint32_t(wait_for(&states.widths[threadIdx.x])) : 0;
        const uint32_t stream = uint32_t(sizes >> STREAM_AT) % MOST_STREAMS;
        atomicAdd(&shared.all_bits[stream], bits_of(sizes));
        atomicAdd(&shared.all_live[stream], live_of(sizes));
        atomicAdd(&shared.all_widths[stream], widths);
        if (threadIdx.x >= share.first_block && threadIdx.x < blockIdx.x) {
            atomicAdd(&shared.widths_before, widths);
        }
    }
    if (WHOLE && warp_id() == WARPS - 2 && lane_id() <= share.stream) {
        shared.book_bytes[lane_id()] = uint32_t(wait_for(&states.books[lane_id()]));
    }
    if (share.has_frame() && warp_id() == WARPS - 1) {
        uint32_t sum = 0, weighted = 0;
#pragma unroll 1
        for (uint32_t other = lane_id(); other < share.blocks; other += WARP) {
            const uint32_t own = uint32_t(wait_for(&states.sums[share.first_block + other]));
            sum += own;
            weighted += uint32_t(wait_for(&states.weighted[share.first_block + other])) + live_of(shared.starts[other]) * GROUP * own;
        }
        __syncwarp();
        sum = warp_total(sum);
        weighted = warp_total(weighted);
        if (lane_id() == 0) {
            shared.checksum[0] = sum;
            shared.checksum[1] = weighted;
        }
    }
}

// Where the stream is, and its parts in it: a lane a stream up to this one. By a warp.
__device__ inline void place_stream(Shared &shared, const Work &work) {
    const uint32_t lane = lane_id();
    const Parts parts = parts_of(work.list.groups[lane], shared.all_live[lane], shared.all_bits[lane], shared.all_widths[lane], shared.book_bytes[lane]);
    const uint64_t place = warp_sum(lane < work.share.stream ? uint64_t(align_up(parts.stream_bytes, 16)) : 0);
    if (lane == work.share.stream) {
        shared.parts = parts;
        shared.place = place;
    }
}

// Header, codebook, padding and plan of the stream; by a warp.
__device__ inline void write_own_frame(const Shared &shared, const Work &work, uint64_t sizes, bool fits, uint32_t *status, const Result &result) {
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
        write_frame(result.out + shared.place, plan, {shared.summary, nullptr, shared.book}, 0, lane_id(), WARP);
    }
    if (lane_id() == 0) {
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
            free_ones |= uint32_t(work.share.first * UNIT_GROUPS + group < work.share.groups && work.lengths[group] == 0) << j;
        }
        to[work.share.first + i] = free_ones;
    }
}

// From encoded groups to the streams' bytes. `own` is what the warp's groups have come to. By the whole block; `heard` is called when all blocks of the stream have got as far.
template <typename Heard>
__device__ inline void write_streams(Shared &shared, const Work &work, const Encoding &own, uint32_t *status, const Result &result, Heard heard) {
    const uint32_t warp = same_for_all(warp_id());
    note_warp(shared, own);
    __syncthreads();
    if (warp == 0) {
        say_sizes(shared, work);
    }
    __syncthreads();
    if (warp == WARPS - 1) {
        say_more(shared, work);
    }
    line_up(shared, work);
    if (warp == 0) {
        hear_sizes(shared, work);
    }
    __syncthreads();
    const uint64_t starts = shared.starts[work.share.index], sizes = shared.starts[work.share.blocks];
    const bool all_live = live_of(sizes) == work.share.groups;
    Entry entry = {false, 0, 0, 0, 0, 0};
    if (INDEX == 2) {
        entry = make_entry(shared, work, starts, live_of(sizes));
    }
    // Words that start among the warp's bits, the last of which needs what comes behind.
    const uint32_t start = bits_of(starts) + bits_of(shared.warp_starts[warp]), end = start + own.bits;
    const uint32_t first_word = ceil_div(start, 32), last_word = ceil_div(end, 32);
    const uint32_t rest = last_word > first_word && end % 32 != 0 ? rest_of_word(shared, work, bits_of(starts), end) : 0;
    hear_all(shared, work);
    __syncthreads();
    if (warp == 0) {
        place_stream(shared, work);
    }
    heard();
    if (threadIdx.x == THREADS - 1) {
        // What this block has said, and nobody may have waited for, comes before whoever clears it.
        __threadfence();
        shared.is_last = atomicAdd(work.states.done, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    const Parts &parts = shared.parts;
    const bool fits = shared.place <= result.out_bytes && parts.stream_bytes <= result.out_bytes - shared.place;
    uint8_t *to = result.out + shared.place;
    if (work.share.has_frame() && warp == 0) {
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
                descriptors[entry.number] = entry.start | uint64_t(entry.shortest) << 32 | uint64_t(entry.width) << 44 | uint64_t(deltas_at) << 48;
            }
            if (lane_id() < entry.width) {
                deltas[deltas_at + lane_id()] = shared.packed[warp][lane_id()];
            }
        }
        if (!all_live) {
            write_bitmap(work, to + parts.bitmap_at);
        }
    }
    // Nobody needs any more what the blocks have said.
    __syncthreads();
    if (shared.is_last) {
        uint32_t *words = reinterpret_cast<uint32_t *>(work.states.sizes);
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < state_words(); i += THREADS) {
            words[i] = 0;
        }
    }
}
