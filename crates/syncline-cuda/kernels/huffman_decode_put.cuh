// Decoding the symbols of a span: lanes into a buffer in shared memory, and from there to memory in whole units.
#pragma once
#include "huffman_decode_spans.cuh"

__device__ inline void store_symbol(uint8_t *to, uint64_t at, uint32_t symbol) {
    if (SYMBOL_BYTES == 1) {
        to[at] = symbol;
    } else {
        reinterpret_cast<uint16_t *>(to)[at] = symbol;
    }
}

// Puts symbols `from` to `to`, of four, at their places from `at` on.
__device__ inline void put_some(uint8_t *at, const uint32_t words[SYMBOL_BYTES], uint32_t from, uint32_t to) {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
        if (i >= from && i < to) {
            store_symbol(at, i, words[i * SYMBOL_BYTES / 4] >> i * SYMBOL_BYTES * 8 % 32);
        }
    }
}

// Symbols that are put at once where a smooth field has nothing but its commonest: a window of codewords at most, and so many at least.
constexpr uint32_t RUN = 32, SHORTEST_RUN = 8;

// The commonest symbol, if its codeword is one bit: that is a zero then.
struct Common {
    bool there;
    uint32_t word; // filled with it

    __device__ inline Common(const Book &book, const uint16_t *symbols) : there(book.limit[1] != 0 && book.symbol_count > 1) {
        const uint32_t symbol = there ? symbols[book.symbols] : 0;
        word = SYMBOL_BYTES == 1 ? symbol * 0x01010101u : symbol * 0x10001u;
    }
};

// Decodes `count` symbols of a lane into a buffer, from its symbol `place` on. Whole words, and what is before and after them. Up to three symbols more are decoded than there are.
__device__ inline void put(const Lookup &lookup, const Common &common, LaneReader &reader, uint8_t *buffer, uint32_t place, uint32_t count) {
    constexpr uint32_t SYMBOLS_IN_WORD = 4 / SYMBOL_BYTES;
    const uint32_t before = place % SYMBOLS_IN_WORD, shift = before * SYMBOL_BYTES * 8;
    uint8_t *at = buffer + (place - before) * SYMBOL_BYTES;
    uint32_t words[SYMBOL_BYTES], last = 0;
    // Words as they are in the buffer, from those decoded, the last before them being `last`.
    const auto next = [&] {
        const uint2 symbols = lookup.four(reader);
#if SYMBOL_BYTES == 1
        const uint32_t word = __byte_perm(symbols.x, symbols.y, 0x6420);
        words[0] = __funnelshift_l(last, word, shift);
        last = word;
#else
        words[0] = __funnelshift_l(last, symbols.x, shift);
        words[1] = __funnelshift_l(symbols.x, symbols.y, shift);
        last = symbols.y;
#endif
    };
    // Symbols of words that are not there yet, those before the first included.
    uint32_t left = before + count;
    next();
    put_some(at, words, before, left);
    for (; left > 4; left -= 4) {
        at += 4 * SYMBOL_BYTES;
        const uint32_t zeros = min_of<uint32_t>(__clz(reader.window()), left - 5) / 4 * 4;
        if (common.there && zeros >= SHORTEST_RUN) {
            reader.skip(zeros);
#pragma unroll
            for (uint32_t i = 0; i < RUN; i += 4) {
                if (i < SHORTEST_RUN || i < zeros) {
#pragma unroll
                    for (uint32_t j = 0; j < SYMBOL_BYTES; ++j) {
                        reinterpret_cast<uint32_t *>(at)[i * SYMBOL_BYTES / 4 + j] = i + j == 0 ? __funnelshift_l(last, common.word, shift) : common.word;
                    }
                }
            }
            last = common.word;
            at += (zeros - 4) * SYMBOL_BYTES;
            left -= zeros - 4;
            continue;
        }
        next();
        if (left < 8) {
            put_some(at, words, 0, left - 4);
            return;
        }
#pragma unroll
        for (uint32_t i = 0; i < SYMBOL_BYTES; ++i) {
            reinterpret_cast<uint32_t *>(at)[i] = words[i];
        }
    }
}

// Writes symbols [begin, end) of a stream from a warp's buffer, whose first is symbol `first`, a multiple of a unit's.
// Live groups are where `group` says, counted in the stream's groups.
template <typename Group>
__device__ inline void flush(const uint4 *buffer, uint32_t first, uint32_t begin, uint32_t end, const Stream &stream, Group group, uint8_t *out, Checksum &checksum) {
    const auto place_of = [&](uint32_t position) { return stream.out + uint64_t(group(position / GROUP)) * GROUP + position % GROUP; };
    for (uint32_t i = lane_id(); i < (end - first) / SYMBOLS_IN_UNIT; i += WARP) {
        const uint32_t position = first + i * SYMBOLS_IN_UNIT;
        if (position >= begin) {
            const uint4 unit = buffer[i];
            store_streaming(reinterpret_cast<uint4 *>(out + place_of(position) * SYMBOL_BYTES), unit);
            checksum.add(unit, position);
        }
    }
    // The rest of the first and of the last unit are other spans': half of the lanes each.
    static_assert(SYMBOLS_IN_UNIT <= WARP / 2, "a lane a symbol");
    const uint32_t last = end / SYMBOLS_IN_UNIT * SYMBOLS_IN_UNIT;
    const bool at_first = lane_id() < WARP / 2;
    const uint32_t place = lane_id() % (WARP / 2);
    const uint32_t position = (at_first ? first : last) + place;
    const bool broken = at_first ? begin > first : last > first || begin == first;
    if (broken && place < SYMBOLS_IN_UNIT && position >= begin && position < end) {
        const uint32_t symbol = SYMBOL_BYTES == 1 ? reinterpret_cast<const uint8_t *>(buffer)[position - first]
                                                  : reinterpret_cast<const uint16_t *>(buffer)[position - first];
        store_symbol(out, place_of(position), symbol);
        checksum.add_symbol(symbol, position);
    }
}

// Decodes and writes the symbols of a warp's lanes, `begin` to `end` of the stream each, one lane's behind the other's: those of as many lanes at a time as `buffer` has room for, in symbols.
// Damaged counts may be what no lane has room for: that lane's symbols are left out.
template <typename Group>
__device__ inline void put_lanes(const Lookup &lookup, const Common &common, LaneReader &reader, uint4 *buffer, uint32_t room, uint32_t begin, uint32_t end, const Stream &stream,
                                 Group group, uint8_t *out, Checksum &checksum) {
    for (uint32_t lane = 0; lane < WARP;) {
        const uint32_t start = __shfl_sync(ALL_LANES, begin, lane), first = start / SYMBOLS_IN_UNIT * SYMBOLS_IN_UNIT;
        const bool fits = begin >= first && end >= begin && end - first <= room;
        const uint32_t lanes = WARP - __clz(__ballot_sync(ALL_LANES, lane_id() <= lane || fits));
        const uint32_t stop_at = __shfl_sync(ALL_LANES, fits ? end : 0, lanes - 1);
        if (lane_id() >= lane && lane_id() < lanes && fits && begin < end) {
            put(lookup, common, reader, reinterpret_cast<uint8_t *>(buffer), begin - first, end - begin);
        }
        __syncwarp();
        if (stop_at > start) {
            flush(buffer, first, start, stop_at, stream, group, out, checksum);
        }
        __syncwarp();
        lane = lanes;
    }
}
