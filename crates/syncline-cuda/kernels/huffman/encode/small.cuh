// Encoding a small batch in one launch: what the kernel that has codebooks and the one that makes them share.
//
// A block has consecutive groups of one stream. It encodes them to shared memory, each warp some of them, and says how
// many bits and live groups they come to. When it knows those of the stream's other blocks it knows which groups the
// entries of the symbol index are of, and says how many words their deltas take; or where subsequences start, and finds
// their gaps. When it knows the sizes of all blocks it knows where each part of the stream is, and writes its own. So
// everybody waits twice for everybody else, who all run: launches are cooperative. What blocks say of themselves are
// words that are 0 until then: what is in a word arrives with it, and nothing needs a fence.
//
// THREADS  threads in a block, 512 or 1,024
// INDEX    0 none, 1 gap, 2 symbol
// WHOLE    whether codebooks are made on the way
// CLASSES is 1; and the constants of huffman/encode/encode.cuh, of which SEGMENT plays no part.
#pragma once
#include "device/warp.cuh"
#define WRITE_THREADS THREADS
#include "huffman/encode/parts.cuh"
#include "huffman/encode/pieces.cuh"

constexpr uint32_t WARPS = THREADS / WARP;
static_assert(CLASSES == 1 && WARPS <= WARP, "a codebook a stream, a lane a warp");
// Groups are dealt out in bytes of the bitmap.
constexpr uint32_t UNIT_GROUPS = 8;
constexpr uint32_t ROUND_GROUPS = WARP / LANES_IN_GROUP;
constexpr uint32_t UNIT_ROUNDS = UNIT_GROUPS / ROUND_GROUPS;
// Words of codewords that a round comes to at most, and those past the end that nothing is or-ed to.
constexpr uint32_t ROUND_WORDS = WARP_SYMBOLS * LONGEST / 32, PAST_SLOT = 8;
// Streams and blocks at most: a lane a stream, a thread a block.
constexpr uint32_t MOST_STREAMS = WARP, MOST_BLOCKS = 256;
static_assert(MOST_BLOCKS <= THREADS, "a thread a block");

// The streams, and how blocks are dealt out to them: by the host, so that no block need work it out. The host has
// checked that they lie within the input.
struct Stream {
    uint64_t first_group; // and above 48 bits the free symbol
    uint32_t groups;
    uint16_t first_block, blocks;
};
struct StreamList {
    Stream of[MOST_STREAMS];
    uint8_t stream_of[MOST_BLOCKS];
    uint32_t streams, most; // units of a block, but for a stream's last
};

// What a block has: `units` units of a stream from number `first` on. It is the `index`th of the stream's `blocks`, of
// which the first is number `first_block` of all. A stream without groups has a block too.
struct Share {
    uint32_t stream, index, blocks, first_block, first, units;
    uint64_t first_group; // of the stream in the input
    uint32_t groups, free_symbol;

    // Who writes what is in no block's share: the stream's last, which most often has less than the others.
    __device__ inline bool has_frame() const { return index + 1 == blocks; }
};

__device__ inline Share own_share(const StreamList &list) {
    Share share;
    share.stream = list.stream_of[blockIdx.x];
    const Stream stream = list.of[share.stream];
    share.first_block = stream.first_block;
    share.blocks = stream.blocks;
    share.index = blockIdx.x - share.first_block;
    share.first_group = stream.first_group & ((1ull << 48) - 1);
    share.free_symbol = uint32_t(stream.first_group >> 48);
    share.groups = stream.groups;
    share.first = share.index * list.most;
    share.units = min_of(list.most, ceil_div(share.groups, UNIT_GROUPS) - share.first);
    return share;
}

// What a warp finds out about its groups.
struct Encoding {
    uint32_t bits, live, sum, weighted, any, seen;
};

// Where in the table a symbol's entry is: picks it of its word, times the size of an entry, in one instruction of the
// multipliers.
__device__ inline uint32_t entry_at(const LaneSymbols &own, uint32_t i) {
    const uint32_t word = own.words[i / WORD_SYMBOLS], factor = FACTORS[i % WORD_SYMBOLS];
    return SYMBOL_BYTES == 1 ? __dp4a(word, factor, 0u) : __dp2a_lo(word, factor, 0u);
}

// Encodes a round of a warp: `at` is where in the stream the lane's symbols are, `lengths` those of its groups, `slot`
// the address of the warp's bits. The gap index is to know where the lane's start among them: `starts` has a place for
// each lane.
__device__ inline void encode_round(LaneSymbols &own, uint32_t at, uint32_t stream_symbols, uint32_t free_word,
                                    const uint8_t *table, uint32_t slot, uint16_t *lengths, uint16_t *starts,
                                    Encoding &all) {
    const uint32_t group_in_round = lane_id() / LANES_IN_GROUP;
    const uint32_t live_lanes = lanes_with_others(own, at < stream_symbols, free_word);
    if (live_lanes == 0) {
        if (INDEX == 1) {
            starts[lane_id()] = all.bits;
        }
        if (lane_id() % LANES_IN_GROUP == 0) {
            lengths[group_in_round] = 0;
        }
        return;
    }
    uint32_t own_sum = 0, own_weighted = 0;
    own.checksum(own_sum, own_weighted);
    keep_in_alphabet(own, live_lanes, all.seen);
    // Lanes without live symbols do as the others, to no effect in the end.
    uint32_t singles[LANE_SYMBOLS];
#pragma unroll
    for (uint32_t i = 0; i < LANE_SYMBOLS; ++i) {
        singles[i] = *reinterpret_cast<const uint32_t *>(table + entry_at(own, i));
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
    const uint32_t through = warp_inclusive_sum(total);
    const uint32_t group_end = __shfl_sync(ALL_LANES, through, lane_id() | (LANES_IN_GROUP - 1));
    if (lane_id() % LANES_IN_GROUP == 0) {
        lengths[group_in_round] = group_end - (through - total);
    }
    if (INDEX == 1) {
        starts[lane_id()] = all.bits + through - total;
    }
    const uint32_t position = 8 * slot + all.bits + through - total;
    all.bits += __shfl_sync(ALL_LANES, through, WARP - 1);
    put_all(position, pieces, front_bits, back_bits);
}
