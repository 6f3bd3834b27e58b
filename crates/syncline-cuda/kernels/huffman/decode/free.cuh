// Free groups: those that a stream's bitmap says consist of one symbol.
#pragma once
#include "huffman/decode/decode.cuh"
#include "scan.cuh"

// Groups that a block of decode_place looks after, and their words of the bitmap.
constexpr uint32_t PLACED_WORDS = 32;
constexpr uint32_t PLACED = PLACED_WORDS * 32;

// The groups of a bitmap's word `i` that are not there, past the last one.
__device__ inline uint32_t groups_past(uint32_t groups, uint32_t i) {
    return groups - i * 32 < 32 ? ALL_LANES << (groups - i * 32) : 0;
}

// Which bit of a word is the one with `before` set ones below it.
__device__ inline uint32_t nth_one(uint32_t word, uint32_t before) {
    uint32_t place = 0;
#pragma unroll
    for (uint32_t half = 16; half > 0; half /= 2) {
        const uint32_t below = __popc(word & ((1u << half) - 1));
        const bool above = before >= below;
        before -= above ? below : 0;
        word >>= above ? half : 0;
        place += above ? half : 0;
    }
    return place;
}

// Words of a bitmap that a lane looks at, at a time, as they are: nothing is made of them before they are needed, so
// that they may be on their way until then. A bitmap's last word is whole: other parts follow.
constexpr uint32_t LOOKED_AT = 4;
struct FreeWords {
    uint32_t words[LOOKED_AT];
    __device__ inline FreeWords() : words{} {}
    __device__ inline FreeWords(const uint32_t *bitmap, uint32_t groups, uint32_t base) {
#pragma unroll
        for (uint32_t i = 0; i < LOOKED_AT; ++i) {
            const uint32_t at = base + lane_id() * LOOKED_AT + i;
            words[i] = at * 32 < groups ? bitmap[at] : 0;
        }
    }

    // The live groups of word `i` of the lane's.
    __device__ inline uint32_t live(uint32_t groups, uint32_t base, uint32_t i) const {
        const uint32_t at = base + lane_id() * LOOKED_AT + i;
        return at * 32 < groups ? ~(words[i] | groups_past(groups, at)) : 0;
    }
};

// The group of each lane's live group `first + lane`; ALL_LANES if there is none. Returns how many live groups there
// are up to the end of what was looked at: all if `all`. `words` are the bitmap's first. By a warp.
__device__ inline uint32_t find_group(const uint32_t *bitmap, uint32_t groups, FreeWords words, uint32_t first,
                                      bool all, uint32_t &group) {
    const uint32_t rank = first + lane_id();
    uint32_t before = 0;
    group = ALL_LANES;
    for (uint32_t base = 0; base * 32 < groups && (all || before < first + WARP); base += LOOKED_AT * WARP) {
        if (base > 0) {
            words = FreeWords(bitmap, groups, base);
        }
        uint32_t own = 0, ones[LOOKED_AT], live[LOOKED_AT];
#pragma unroll
        for (uint32_t i = 0; i < LOOKED_AT; ++i) {
            live[i] = words.live(groups, base, i);
            ones[i] = own;
            own += __popc(live[i]);
        }
        const uint32_t through = warp_scan_inclusive(own), start = before + through - own;
        const uint32_t end = __shfl_sync(ALL_LANES, before + through, WARP - 1);
        if (end > first && before < first + WARP) {
            uint32_t lane = 0;
#pragma unroll
            for (uint32_t half = WARP / 2; half > 0; half /= 2) {
                lane += __shfl_sync(ALL_LANES, start, lane + half) <= rank ? half : 0;
            }
            const uint32_t within = rank - __shfl_sync(ALL_LANES, start, lane);
            uint32_t word = 0, below = 0, place = 0;
#pragma unroll
            for (uint32_t i = 0; i < LOOKED_AT; ++i) {
                const uint32_t its = __shfl_sync(ALL_LANES, live[i], lane),
                               its_below = __shfl_sync(ALL_LANES, ones[i], lane);
                if (its_below <= within) {
                    word = its;
                    below = its_below;
                    place = i;
                }
            }
            if (rank >= before && rank < end) {
                group = (base + lane * LOOKED_AT + place) * 32 + nth_one(word, within - below);
            }
        }
        before = end;
    }
    return before;
}

// What a lane fills: the free groups of a word of the bitmaps of all streams. Reading is apart from filling, for those
// who have other things to do in between.
struct Filler {
    uint32_t word, symbol;
    uint64_t to;

    // Word `at`, each stream's being whole PLACED_WORDS of them; nothing unless it is `there`.
    __device__ inline Filler(const uint8_t *input, const Stream *streams, uint32_t stream_count, uint32_t at,
                             bool there)
        : word(0), symbol(0), to(0) {
        if (there) {
            const Stream &stream = streams[stream_of(at / PLACED_WORDS, stream_count,
                                                     [&](uint32_t i) { return streams[i].first_placing; })];
            const uint32_t i = at - stream.first_placing * PLACED_WORDS;
            if (stream.has_free && i * 32 < stream.groups) {
                word = reinterpret_cast<const uint32_t *>(input + stream.bitmap)[i] & ~groups_past(stream.groups, i);
                symbol = SYMBOL_BYTES == 1 ? stream.free_symbol * 0x01010101u : stream.free_symbol * 0x10001u;
                to = (stream.out + uint64_t(i) * 32 * GROUP) * SYMBOL_BYTES;
            }
        }
    }

    // By a warp: all write what a lane's word says.
    __device__ inline void fill(uint8_t *out) const {
        constexpr uint32_t UNITS = GROUP * SYMBOL_BYTES / 16;
        for (uint32_t lanes = __ballot_sync(ALL_LANES, word != 0); lanes != 0; lanes &= lanes - 1) {
            const uint32_t lane = __ffs(lanes) - 1;
            const uint32_t bits = __shfl_sync(ALL_LANES, word, lane), filled = __shfl_sync(ALL_LANES, symbol, lane);
            uint4 *group = reinterpret_cast<uint4 *>(out + __shfl_sync(ALL_LANES, to, lane));
            const uint4 value = make_uint4(filled, filled, filled, filled);
#pragma unroll 4
            for (uint32_t i = lane_id(); i < 32 * UNITS; i += WARP) {
                if (bits >> (i / UNITS) & 1) {
                    store_streaming(&group[i], value);
                }
            }
        }
    }
};

// Fills the free groups of all streams, of `warps` warps number `warp` its equal share. Memory is what limits that,
// where it is instructions for decoding: decoders do it at different times in different blocks, beside decoding in
// others.
__device__ inline void fill_free(const uint8_t *input, const Stream *streams, uint32_t stream_count,
                                 const Totals *totals, uint32_t warp, uint32_t warps, uint8_t *out) {
    const uint32_t words = totals->placings * PLACED_WORDS;
    const uint32_t share = ceil_div(words, warps), first = min_of(words, warp * share);
    const uint32_t end = min_of(words, first + share);
    for (uint32_t base = first; base < end; base += WARP) {
        Filler(input, streams, stream_count, base + lane_id(), base + lane_id() < end).fill(out);
    }
}

// The same by all warps of a grid.
__device__ inline void fill_free(const uint8_t *input, const Stream *streams, uint32_t stream_count,
                                 const Totals *totals, uint8_t *out) {
    const uint32_t warps = blockDim.x / WARP;
    fill_free(input, streams, stream_count, totals, blockIdx.x * warps + warp_id(), gridDim.x * warps, out);
}
