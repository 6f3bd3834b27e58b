// Encoding a small batch in one launch: what the kernel that has codebooks and the one that makes them share.
//
// A block has consecutive groups of one stream. It encodes them to shared memory, each warp some of them, and says how many bits and live groups they come to. When it knows those of the
// stream's other blocks it knows which groups the entries of the symbol index are of, and says how many words their deltas take. When it knows that of all blocks it knows where each part of the
// stream is, and writes its own. So everybody waits twice for everybody else, who all run: launches are cooperative. What blocks say of themselves are words that are 0 until then: what is in a
// word arrives with it, and nothing needs a fence.
//
// THREADS  threads in a block, 1,024
// INDEX    0 none, 2 symbol
// WHOLE    whether codebooks are made on the way
// CLASSES is 1; and the constants of huffman_encode.cuh, of which SEGMENT plays no part.
#pragma once
#define WRITE_THREADS THREADS
#include "huffman_encode_parts.cuh"
#include "huffman_encode_pieces.cuh"

constexpr uint32_t WARPS = THREADS / WARP;
static_assert(CLASSES == 1 && INDEX != 1 && WARPS == WARP, "a codebook a stream, no gaps, a lane a warp");
// Groups are dealt out in bytes of the bitmap.
constexpr uint32_t UNIT_GROUPS = 8;
constexpr uint32_t ROUND_GROUPS = WARP / LANES_IN_GROUP;
constexpr uint32_t UNIT_ROUNDS = UNIT_GROUPS / ROUND_GROUPS;
// Words of codewords that a round comes to at most, and those past the end that nothing is or-ed to.
constexpr uint32_t ROUND_WORDS = WARP_SYMBOLS * LONGEST / 32, PAST_SLOT = 8;
// Streams and blocks at most: a lane a stream, a thread a block.
constexpr uint32_t MOST_STREAMS = WARP, MOST_BLOCKS = 256;
static_assert(MOST_BLOCKS <= THREADS, "a thread a block");

// What a block has: `units` units of a stream from number `first` on. It is the `index`th of the stream's `blocks`, of which the first is number `first_block` of all.
struct Share {
    uint32_t stream, index, blocks, first_block, first, units, all_blocks;
};

// The share of this block: false if nothing. By a warp, a lane a stream. A stream without groups has a block too.
__device__ inline bool own_share(uint32_t groups, uint32_t streams, Share &share) {
    const bool there = lane_id() < streams;
    const uint32_t units = there ? ceil_div(groups, UNIT_GROUPS) : 0;
    const uint32_t most = max_of(1u, ceil_div(warp_sum(units), gridDim.x - streams));
    const uint32_t blocks = there ? max_of(1u, ceil_div(units, most)) : 0, through = warp_scan_inclusive(blocks);
    const uint32_t found = __ballot_sync(ALL_LANES, blockIdx.x < through);
    share.all_blocks = __shfl_sync(ALL_LANES, through, WARP - 1);
    if (found == 0) {
        return false;
    }
    const uint32_t lane = __ffs(found) - 1;
    share.stream = lane;
    share.blocks = __shfl_sync(ALL_LANES, blocks, lane);
    share.first_block = __shfl_sync(ALL_LANES, through, lane) - share.blocks;
    share.index = blockIdx.x - share.first_block;
    const uint32_t units_of = __shfl_sync(ALL_LANES, units, lane);
    share.first = units_of * share.index / share.blocks;
    share.units = units_of * (share.index + 1) / share.blocks - share.first;
    return true;
}

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

// What a warp finds out about its groups.
struct Encoding {
    uint32_t bits, live, sum, weighted, any, seen;
};

// Encodes a round of a warp: `at` is where in the stream the lane's symbols are, `lengths` those of its groups, `slot` the address of the warp's bits.
__device__ inline void encode_round(LaneSymbols &own, uint32_t at, uint32_t stream_symbols, uint32_t free_word, const uint8_t *table, uint32_t slot, uint16_t *lengths,
                                    Encoding &all) {
    const uint32_t group_in_round = lane_id() / LANES_IN_GROUP;
    uint32_t live_lanes = __ballot_sync(ALL_LANES, at < stream_symbols && own.words[0] != free_word);
    if (live_lanes != ALL_LANES) {
        live_lanes = __ballot_sync(ALL_LANES, at < stream_symbols && own.differs_from(free_word));
    }
    if (live_lanes == 0) {
        if (lane_id() % LANES_IN_GROUP == 0) {
            lengths[group_in_round] = 0;
        }
        return;
    }
    uint32_t own_sum = 0, own_weighted = 0;
    own.checksum(own_sum, own_weighted);
    if (__any_sync(ALL_LANES, (own.all_bits() & BEYOND_ALPHABET) != 0)) {
        all.seen |= (live_lanes & group_lanes()) != 0 ? own.all_bits() : 0;
#pragma unroll
        for (uint32_t w = 0; w < LANE_WORDS; ++w) {
            own.words[w] &= ~BEYOND_ALPHABET;
        }
    }
    // Lanes without live symbols do as the others, to no effect in the end.
    uint32_t singles[LANE_SYMBOLS];
#pragma unroll
    for (uint32_t i = 0; i < LANE_SYMBOLS; ++i) {
        const uint32_t word = own.words[i / WORD_SYMBOLS], factor = FACTORS[i % WORD_SYMBOLS];
        singles[i] = *reinterpret_cast<const uint32_t *>(table + (SYMBOL_BYTES == 1 ? __dp4a(word, factor, 0u) : __dp2a_lo(word, factor, 0u)));
    }
    Piece pieces[PIECES];
    uint32_t missing = 0;
#pragma unroll
    for (uint32_t i = 0; i < PIECES; ++i) {
        pieces[i] = join(singles + JOINED * i, missing);
    }
    uint32_t rank = group_in_round, live_here = ROUND_GROUPS;
    if (live_lanes != ALL_LANES) {
        const uint32_t live_groups = live_group_bits(live_lanes);
        rank = __popc(live_groups & ((1u << group_in_round * LANES_IN_GROUP) - 1));
        live_here = __popc(live_groups);
        if ((live_lanes & group_lanes()) == 0) {
            own_sum = own_weighted = missing = 0;
#pragma unroll
            for (uint32_t i = 0; i < PIECES; ++i) {
                pieces[i] = {0, 0};
            }
        }
    }
    const uint32_t begins_at = (all.live + rank) * GROUP + lane_id() % LANES_IN_GROUP * LANE_SYMBOLS;
    all.live += live_here;
    all.any |= missing;
    all.sum += own_sum;
    all.weighted += own_weighted + begins_at * own_sum;
    uint32_t front_bits = 0, back_bits = 0;
#pragma unroll
    for (uint32_t i = 0; i < PIECES / 2; ++i) {
        front_bits += pieces[i].bits;
        back_bits += pieces[PIECES / 2 + i].bits;
    }
    const uint32_t total = front_bits + back_bits;
    const uint32_t through = warp_scan_inclusive(total);
    const uint32_t group_end = __shfl_sync(ALL_LANES, through, lane_id() | (LANES_IN_GROUP - 1));
    if (lane_id() % LANES_IN_GROUP == 0) {
        lengths[group_in_round] = group_end - (through - total);
    }
    const uint32_t position = 8 * slot + all.bits + through - total;
    all.bits += __shfl_sync(ALL_LANES, through, WARP - 1);
    if (__all_sync(ALL_LANES, total <= 64)) {
        put(position, join(join_all(pieces), join_all(pieces + PIECES / 2)));
    } else if (__all_sync(ALL_LANES, max_of(front_bits, back_bits) <= 64)) {
        put<true>(position, join_all(pieces), join_all(pieces + PIECES / 2));
    } else {
        uint32_t to = position;
#pragma unroll
        for (uint32_t i = 0; i < PIECES; i += 2) {
            put<false>(to, pieces[i], pieces[i + 1]);
            to += pieces[i].bits + pieces[i + 1].bits;
        }
    }
}

// Shared memory beside the dynamic.
struct Shared {
    uint64_t starts[MOST_BLOCKS + 1]; // of the stream's blocks: bits before them, above them live groups
    uint32_t bits[WARPS], live[WARPS], sum[WARPS], weighted[WARPS]; // of each warp's groups
    uint32_t index_bits[WARPS], widths[WARPS];                      // of its entry of the index
    uint32_t groups[MOST_STREAMS], book_bytes[MOST_STREAMS];
    uint32_t all_bits[MOST_STREAMS], all_live[MOST_STREAMS], all_widths[MOST_STREAMS]; // of the streams up to this one
    uint32_t packed[WARPS][16];                                                        // deltas of an entry
    uint64_t warp_sums[WARPS];
    uint32_t checksum[2];
    // Of the stream's codebook, for the block that writes it: bytes and longest codeword, the bytes, and what was wrong with the stream before.
    uint32_t summary[2];
    uint8_t book[BOOK_BYTES];
    uint32_t status;
    uint32_t widths_before;
    bool is_last;
};

// What a block works with.
struct Work {
    Share share;
    uint32_t streams, groups, free_symbol; // in all, and of its stream
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

// Of the live group that is number `rank` of the stream, and in a block behind number `index`, but among its first: its bits.
__device__ inline uint32_t length_behind(const Shared &shared, const States &states, const Share &share, uint32_t rank) {
    uint32_t low = share.index + 1, high = share.blocks;
    while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;
        (uint32_t(shared.starts[middle] >> 32) <= rank ? low : high) = middle;
    }
    return wait_for(&states.lengths[(share.first_block + low) * WARP + rank - uint32_t(shared.starts[low] >> 32)]) & ~SAID_LENGTH;
}

// What comes behind bit `end` in its word, from the warps behind this one, and from the blocks behind this one; by a warp. `own` is where in the block the lane's warp begins, and what it has.
__device__ inline uint32_t rest_of_word(const Shared &shared, const States &states, const Share &share, uint32_t warp_start, uint32_t warp_bits, uint32_t front, uint32_t end) {
    const uint32_t word_end = align_up(end, 32);
    uint32_t word = lane_id() > warp_id() && warp_bits > 0 && warp_start < word_end ? front >> warp_start % 32 : 0;
    bool more = uint32_t(shared.starts[share.index + 1]) < word_end;
    for (uint32_t first = share.index + 1; more && first < share.blocks; first += WARP) {
        const uint32_t other = first + lane_id();
        bool behind = true;
        if (other < share.blocks) {
            const uint32_t start = uint32_t(shared.starts[other]), next = uint32_t(shared.starts[other + 1]);
            word |= start < word_end && start < next ? uint32_t(wait_for(&states.fronts[share.first_block + other])) >> start % 32 : 0;
            behind = next < word_end;
        }
        more = __all_sync(ALL_LANES, behind);
    }
#pragma unroll
    for (uint32_t distance = WARP / 2; distance > 0; distance /= 2) {
        word |= __shfl_xor_sync(ALL_LANES, word, distance);
    }
    return word;
}

// From encoded groups to the streams' bytes. `own` is what the warp's groups have come to. By the whole block; `cleared` is called when all blocks of the stream have got as far.
template <typename Cleared>
__device__ inline void write_streams(Shared &shared, const Work &work, Encoding own, uint32_t *status, const Result &result, Cleared cleared) {
    const Share &share = work.share;
    const States &states = work.states;
    const uint32_t warp = same_for_all(warp_id());
    const uint32_t *slot = work.slots + warp * work.slot_words;
    own.sum = warp_sum(own.sum);
    own.weighted = warp_sum(own.weighted);
    const bool is_bad = __any_sync(ALL_LANES, (own.any & ANY_MISSING) != 0 || (own.seen & BEYOND_ALPHABET) != 0);
    if (lane_id() == 0) {
        shared.bits[warp] = own.bits;
        shared.live[warp] = own.live;
        shared.sum[warp] = own.sum;
        shared.weighted[warp] = own.weighted;
    }
    const bool block_is_bad = __syncthreads_or(is_bad);

    // Where each warp's groups start in the block: a lane a warp.
    const uint32_t bits_of = shared.bits[lane_id()], live_of = shared.live[lane_id()];
    const uint32_t bits_through = warp_scan_inclusive(bits_of), live_through = warp_scan_inclusive(live_of);
    const uint32_t bits = __shfl_sync(ALL_LANES, bits_through, WARP - 1), live = __shfl_sync(ALL_LANES, live_through, WARP - 1);
    const uint32_t start_of = bits_through - bits_of, own_start = __shfl_sync(ALL_LANES, start_of, warp);
    const uint32_t front_of = work.slots[lane_id() * work.slot_words];
    const uint32_t number = blockIdx.x;
    if (warp == 0 && lane_id() == 0) {
        say(&states.sizes[number], SAID | (block_is_bad ? IS_BAD : 0) | uint64_t(share.stream) << STREAM_AT | uint64_t(live) << 32 | bits);
    }
    if (warp == 1) {
        uint32_t word = bits_of > 0 && start_of < 32 ? front_of >> start_of : 0;
#pragma unroll
        for (uint32_t distance = WARP / 2; distance > 0; distance /= 2) {
            word |= __shfl_xor_sync(ALL_LANES, word, distance);
        }
        if (lane_id() == 0) {
            say(&states.fronts[number], SAID | word);
        }
    }
    if (warp == 2) {
        const uint32_t sum_of = shared.sum[lane_id()], sum = warp_sum(sum_of);
        const uint32_t weighted = warp_sum(shared.weighted[lane_id()] + (live_through - live_of) * GROUP * sum_of);
        if (lane_id() == 0) {
            say(&states.sums[number], SAID | sum);
            say(&states.weighted[number], SAID | weighted);
        }
    }
    // The live groups side by side; the first of them somebody may wait for.
    uint32_t rank = __shfl_sync(ALL_LANES, live_through - live_of, warp);
    for (uint32_t first = work.round_begin * ROUND_GROUPS; first < work.round_end * ROUND_GROUPS; first += WARP) {
        const uint32_t group = first + lane_id(), length = group < work.round_end * ROUND_GROUPS ? work.lengths[group] : 0;
        const uint32_t are_live = __ballot_sync(ALL_LANES, length != 0);
        if (length != 0) {
            const uint32_t own_rank = rank + __popc(are_live & ((1u << lane_id()) - 1));
            work.live_lengths[own_rank] = length;
            if (own_rank < WARP) {
                say(&states.lengths[number * WARP + own_rank], SAID_LENGTH | length);
            }
        }
        rank += __popc(are_live);
    }
    // What the stream's blocks say.
    const uint64_t said = threadIdx.x < share.blocks ? wait_for(&states.sizes[share.first_block + threadIdx.x]) : 0;
    uint64_t sizes;
    const uint64_t sizes_before = block_scan<THREADS, uint64_t>(said & SIZES, shared.warp_sums, sizes);
    if (threadIdx.x < share.blocks) {
        shared.starts[threadIdx.x] = sizes_before;
    }
    if (threadIdx.x == 0) {
        shared.starts[share.blocks] = sizes;
    }
    const bool stream_is_bad = __syncthreads_or((said & IS_BAD) != 0);
    // (the barrier also has the live groups' lengths in place)
    const uint32_t stream_bits = uint32_t(sizes), stream_live = uint32_t(sizes >> 32) & (uint32_t(SIZES >> 32));
    const uint64_t own_starts = shared.starts[share.index];
    const uint32_t bits_start = uint32_t(own_starts), live_start = uint32_t(own_starts >> 32);

    // The entries of the index that start in this block, a warp each: warp 0 has that of the block's first live group, if it starts there.
    const uint32_t skew = live_start % INDEX_BLOCK, entry = live_start / INDEX_BLOCK + warp;
    const bool has_entry = INDEX == 2 && warp * INDEX_BLOCK >= skew && warp * INDEX_BLOCK - skew < live;
    uint32_t width = 0, shortest = 0, entry_start = 0, widths_before_warp = 0;
    if (INDEX == 2) {
        const uint32_t in_block = threadIdx.x - skew;
        uint32_t length = threadIdx.x >= skew && in_block < live ? work.live_lengths[in_block] : 0;
        const uint32_t in_warp = warp_sum(length);
        if (has_entry) {
            const bool there = entry * INDEX_BLOCK + lane_id() < stream_live;
            if (there && in_block >= live) {
                length = length_behind(shared, states, share, entry * INDEX_BLOCK + lane_id());
            }
            __syncwarp();
            shortest = there ? length : 0xFFFF;
            uint32_t longest = there ? length : 0;
#pragma unroll
            for (uint32_t distance = WARP / 2; distance > 0; distance /= 2) {
                shortest = min_of(shortest, __shfl_xor_sync(ALL_LANES, shortest, distance));
                longest = max_of(longest, __shfl_xor_sync(ALL_LANES, longest, distance));
            }
            width = 32 - __clz(longest - shortest);
        }
        if (lane_id() == 0) {
            shared.index_bits[warp] = in_warp;
            shared.widths[warp] = width;
        }
        __syncthreads();
        const uint32_t own_bits = shared.index_bits[lane_id()], own_width = shared.widths[lane_id()];
        const uint32_t index_through = warp_scan_inclusive(own_bits), width_through = warp_scan_inclusive(own_width);
        entry_start = bits_start + __shfl_sync(ALL_LANES, index_through - own_bits, warp);
        widths_before_warp = __shfl_sync(ALL_LANES, width_through - own_width, warp);
        if (threadIdx.x == WARP - 1) {
            say(&states.widths[number], SAID | width_through);
        }
        if (has_entry && width > 0) {
            uint32_t *packed = shared.packed[warp];
            if (lane_id() < 16) {
                packed[lane_id()] = 0;
            }
            __syncwarp();
            const uint64_t delta = entry * INDEX_BLOCK + lane_id() < stream_live ? length - shortest : 0;
            const uint64_t shifted = delta << lane_id() * width % 32;
            atomicOr(&packed[lane_id() * width / 32], uint32_t(shifted));
            atomicOr(&packed[lane_id() * width / 32 + 1], uint32_t(shifted >> 32));
            __syncwarp();
        }
    }
    // Words that start among the warp's bits, the last of which needs what comes behind.
    const uint32_t start = bits_start + own_start, end = start + own.bits;
    const uint32_t first_word = ceil_div(start, 32), last_word = ceil_div(end, 32);
    uint32_t rest = 0;
    if (last_word > first_word && end % 32 != 0) {
        rest = rest_of_word(shared, states, share, bits_start + start_of, bits_of, front_of, end);
    }

    // What all blocks say of the streams up to this one.
    const uint32_t blocks_until = share.first_block + share.blocks;
    if (WHOLE && threadIdx.x <= share.stream) {
        shared.book_bytes[threadIdx.x] = uint32_t(wait_for(&states.books[threadIdx.x]));
    }
    if (threadIdx.x < blocks_until) {
        const uint64_t sizes_of = wait_for(&states.sizes[threadIdx.x]);
        const uint32_t widths_of = INDEX == 2 ? uint32_t(wait_for(&states.widths[threadIdx.x])) : 0;
        const uint32_t stream = uint32_t(sizes_of >> STREAM_AT) % MOST_STREAMS;
        atomicAdd(&shared.all_bits[stream], uint32_t(sizes_of));
        atomicAdd(&shared.all_live[stream], uint32_t((sizes_of & SIZES) >> 32));
        atomicAdd(&shared.all_widths[stream], widths_of);
        if (threadIdx.x >= share.first_block && threadIdx.x < number) {
            atomicAdd(&shared.widths_before, widths_of);
        }
    }
    if (share.index == 0 && warp == WARPS - 1) {
        uint32_t sum = 0, weighted = 0;
        for (uint32_t other = lane_id(); other < share.blocks; other += WARP) {
            const uint32_t sum_of = uint32_t(wait_for(&states.sums[share.first_block + other]));
            sum += sum_of;
            weighted += uint32_t(wait_for(&states.weighted[share.first_block + other])) + uint32_t(shared.starts[other] >> 32) * GROUP * sum_of;
        }
        sum = warp_sum(sum);
        weighted = warp_sum(weighted);
        if (lane_id() == 0) {
            shared.checksum[0] = sum;
            shared.checksum[1] = weighted;
        }
    }
    __syncthreads();
    if (threadIdx.x == THREADS - 1) {
        // What this block has said, and nobody may have waited for, comes before whoever clears it.
        __threadfence();
        shared.is_last = atomicAdd(states.done, 1u) == share.all_blocks - 1;
    }
    const Parts of_lane =
        parts_of(shared.groups[lane_id()], shared.all_live[lane_id()], shared.all_bits[lane_id()], shared.all_widths[lane_id()], shared.book_bytes[lane_id()]);
    const uint64_t bytes_of = align_up(of_lane.stream_bytes, 16);
    const uint64_t place = __shfl_sync(ALL_LANES, warp_sum(lane_id() < share.stream ? bytes_of : 0), 0);
    const uint32_t stream_bytes = __shfl_sync(ALL_LANES, of_lane.stream_bytes, share.stream);
    const uint32_t bitmap_at = __shfl_sync(ALL_LANES, of_lane.bitmap_at, share.stream), index_at = __shfl_sync(ALL_LANES, of_lane.index_at, share.stream);
    const uint32_t codewords_at = __shfl_sync(ALL_LANES, of_lane.codewords_at, share.stream);
    if (WHOLE) {
        cleared();
    }
    const bool fits = place <= result.out_bytes && stream_bytes <= result.out_bytes - place;
    uint8_t *to = result.out + place;
    if (fits) {
        uint32_t *words = reinterpret_cast<uint32_t *>(to + codewords_at);
        const uint32_t shift = (0u - start) % 32, whole = last_word > first_word ? last_word - first_word - 1 : 0;
#pragma unroll 4
        for (uint32_t i = lane_id(); i < whole; i += WARP) {
            __stcs(&words[first_word + i], __funnelshift_l(slot[i + 1], slot[i], shift));
        }
        if (last_word > first_word && lane_id() == 0) {
            words[last_word - 1] = __funnelshift_l(slot[whole + 1], slot[whole], shift) | rest;
        }
        if (has_entry) {
            const uint32_t entries = ceil_div(stream_live, INDEX_BLOCK), deltas_at = shared.widths_before + widths_before_warp;
            uint64_t *descriptors = reinterpret_cast<uint64_t *>(to + index_at);
            uint32_t *deltas = reinterpret_cast<uint32_t *>(descriptors + entries);
            if (lane_id() == 0) {
                descriptors[entry] = entry_start | uint64_t(shortest) << 32 | uint64_t(width) << 44 | uint64_t(deltas_at) << 48;
            }
            if (lane_id() < width) {
                deltas[deltas_at + lane_id()] = shared.packed[warp][lane_id()];
            }
        }
        if (stream_live < work.groups) {
            for (uint32_t i = threadIdx.x; i < share.units; i += THREADS) {
                uint32_t free_ones = 0;
#pragma unroll
                for (uint32_t j = 0; j < UNIT_GROUPS; ++j) {
                    const uint32_t group = i * UNIT_GROUPS + j;
                    free_ones |= uint32_t(share.first * UNIT_GROUPS + group < work.groups && work.lengths[group] == 0) << j;
                }
                to[bitmap_at + share.first + i] = free_ones;
            }
        }
    }
    if (share.index == 0) {
        Plan plan;
        plan.groups = work.groups;
        plan.live = stream_live;
        plan.bits = stream_bits;
        plan.sum = shared.checksum[0];
        plan.weighted = shared.checksum[1];
        plan.codebooks = 1;
        plan.codebook_bytes = __shfl_sync(ALL_LANES, of_lane.codebook_bytes, share.stream);
        plan.bitmap_at = bitmap_at;
        plan.index_at = index_at;
        plan.index_bytes = __shfl_sync(ALL_LANES, of_lane.index_bytes, share.stream);
        plan.codewords_at = codewords_at;
        plan.stream_bytes = stream_bytes;
        // A given codebook may have codewords though nothing is live: the stream then has an empty one.
        plan.longest = stream_live == 0 ? 0 : shared.summary[1];
        plan.has_free = stream_live < work.groups;
        plan.free_symbol = work.free_symbol;
        plan.status = (WHOLE ? 0 : shared.status) | (stream_is_bad ? STATUS_MISSING_CODEWORD : 0) | (fits ? 0 : STATUS_NO_ROOM);
        if (fits) {
            write_frame(to, plan, {shared.summary, nullptr, shared.book}, 0);
        }
        if (threadIdx.x == 0) {
            result.plans[share.stream] = plan;
            result.places[share.stream] = place;
            if (WHOLE) {
                status[share.stream] = stream_is_bad ? STATUS_MISSING_CODEWORD : 0;
            }
            if (share.stream == work.streams - 1) {
                result.places[work.streams] = place + align_up(stream_bytes, 16);
            }
        }
    }
    // Nobody needs any more what the blocks have said.
    __syncthreads();
    if (shared.is_last) {
        uint32_t *words = reinterpret_cast<uint32_t *>(states.sizes);
        for (uint32_t i = threadIdx.x; i < state_words(); i += THREADS) {
            words[i] = 0;
        }
    }
}
