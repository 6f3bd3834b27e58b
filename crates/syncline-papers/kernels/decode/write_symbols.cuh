// Writing the symbols of a warp sequence: lanes decode into a buffer in shared memory, which is written in whole units.
#pragma once
#include "decode/run_table.cuh"

// Stores symbols `from` to `to` of the four in `words` at their positions after `at`.
__device__ inline void store_partial(uint8_t *at, const uint32_t words[SYMBOL_BYTES], uint32_t from, uint32_t to) {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
        if (i >= from && i < to) {
            store_symbol(at, i, words[i * SYMBOL_BYTES / 4] >> i * SYMBOL_BYTES * 8 % 32);
        }
    }
}

// Decodes `count` symbols of a lane into a buffer, from symbol `place` on, in whole words where possible. Decodes up to
// three symbols too many.
__device__ inline void decode_to_buffer(const Lookup &lookup, SubsequenceReader &reader, uint8_t *buffer,
                                        uint32_t place, uint32_t count) {
    constexpr uint32_t SYMBOLS_IN_WORD = 4 / SYMBOL_BYTES;
    const uint32_t before = place % SYMBOLS_IN_WORD, shift = before * SYMBOL_BYTES * 8;
    uint8_t *at = buffer + (place - before) * SYMBOL_BYTES;
    uint32_t words[SYMBOL_BYTES], last = 0;
    // Decodes the next words, shifted to the alignment of the buffer.
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
    // Symbols that are still to be stored, including those before the first in its word.
    uint32_t left = before + count;
    next();
    store_partial(at, words, before, left);
    for (; left > 4; left -= 4) {
        at += 4 * SYMBOL_BYTES;
        next();
        if (left < 8) {
            store_partial(at, words, 0, left - 4);
            return;
        }
#pragma unroll
        for (uint32_t i = 0; i < SYMBOL_BYTES; ++i) {
            reinterpret_cast<uint32_t *>(at)[i] = words[i];
        }
    }
}

// Maps ranks of coded groups to groups.
struct MappedGroups {
    const StreamDescriptor &stream;
    const uint32_t *map;

    // The fields in registers, since a stream descriptor is in shared memory.
    struct Registers {
        const uint32_t *first;
        uint32_t last;
        __device__ inline uint32_t operator()(uint32_t rank) const { return min_of(first[rank], last); }
    };
    __device__ inline Registers load() const { return {map + stream.map, stream.groups - 1}; }
};

// Units of a warp's buffer.
struct BufferedUnits {
    const uint4 *buffer;
    __device__ inline uint4 operator()(uint32_t i) const { return buffer[i]; }
    __device__ inline void add(Checksum &checksum, uint4 unit, uint32_t position) const {
        checksum.add(unit, position);
    }
};

// Units filled with one symbol.
struct ConstantUnits {
    uint4 unit;
    Checksum own;

    __device__ inline ConstantUnits(uint32_t word) : unit(make_uint4(word, word, word, word)), own{0, 0} {
        own.add(unit, 0);
    }
    __device__ inline uint4 operator()(uint32_t) const { return unit; }
    __device__ inline void add(Checksum &checksum, uint4, uint32_t position) const {
        checksum.sum += own.sum;
        checksum.weighted += own.weighted + position * own.sum;
    }
};

// As `store_evict_first`, but may be reordered by the compiler, since nothing written here is read again.
__device__ inline void store_unit(uint8_t *to, uint4 unit) {
    asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(unit.x), "r"(unit.y), "r"(unit.z),
                 "r"(unit.w));
}

// Writes symbols [begin, end) of a stream from a warp's units, whose first symbol is `first`, a multiple of
// SYMBOLS_IN_UNIT. `group` maps ranks if there are zero-bit groups.
template <typename Units>
__device__ inline void flush(const Units &units, uint32_t first, uint32_t begin, uint32_t end,
                             const StreamDescriptor &stream, const MappedGroups &group, uint8_t *out,
                             Checksum &checksum) {
    const auto groups = group.load();
    uint8_t *const to = out + stream.out * SYMBOL_BYTES;
    const bool has_zero_bit_groups = stream.has_zero_bit_groups;
    const auto place_of = [&](uint32_t position) {
        return has_zero_bit_groups ? uint64_t(groups(position / GROUP)) * GROUP + position % GROUP : position;
    };
    for (uint32_t i = lane_id(); i < (end - first) / SYMBOLS_IN_UNIT; i += WARP) {
        const uint32_t position = first + i * SYMBOLS_IN_UNIT;
        if (position >= begin) {
            const uint4 unit = units(i);
            store_unit(to + place_of(position) * SYMBOL_BYTES, unit);
            units.add(checksum, unit, position);
        }
    }
    // The first and the last unit are shared with neighboring warp sequences: half of the lanes write the symbols of
    // each.
    static_assert(SYMBOLS_IN_UNIT <= WARP / 2, "a lane a symbol");
    const uint32_t last = end / SYMBOLS_IN_UNIT * SYMBOLS_IN_UNIT;
    const bool at_first = lane_id() < WARP / 2;
    const uint32_t place = lane_id() % (WARP / 2);
    const uint32_t position = (at_first ? first : last) + place;
    const bool broken = at_first ? begin > first : last > first || begin == first;
    if (broken && place < SYMBOLS_IN_UNIT && position >= begin && position < end) {
        const uint4 unit = units((position - first) / SYMBOLS_IN_UNIT);
        const uint32_t byte = place * SYMBOL_BYTES, word = byte < 8    ? byte < 4 ? unit.x : unit.y
                                                           : byte < 12 ? unit.z
                                                                       : unit.w;
        const uint32_t symbol = word >> byte % 4 * 8 & (SYMBOL_BYTES == 1 ? 0xFF : 0xFFFF);
        store_symbol(to, place_of(position), symbol);
        checksum.add_symbol(symbol, position);
    }
}

// Decodes and writes the symbols of a warp's lanes, each from `begin` to `end` of the stream, for as many lanes at a
// time as fit into the `room` symbols of `buffer`. Lanes whose counts are so damaged that they never fit are skipped.
// The table must be one of runs if `common` exists.
__device__ inline void write_warp_symbols(const Lookup &lookup, const CommonSymbol &common, SubsequenceReader &reader,
                                          uint4 *buffer, uint32_t room, uint32_t begin, uint32_t end,
                                          const StreamDescriptor &stream, const MappedGroups &group, uint8_t *out,
                                          Checksum &checksum) {
    const bool smooth = common.exists && reader.zeros() && end - begin <= SUBSEQUENCE_BITS - reader.position;
    // Only the most frequent symbol, as in smooth fields. Through the buffer this would cause bank conflicts, because
    // lanes store at equal distances.
    if (__all_sync(ALL_LANES, smooth || begin >= end)) {
        const uint32_t start = __shfl_sync(ALL_LANES, begin, 0), stop = __shfl_sync(ALL_LANES, end, WARP - 1);
        if (stop > start) {
            flush(ConstantUnits(common.word), start / SYMBOLS_IN_UNIT * SYMBOLS_IN_UNIT, start, stop, stream, group,
                  out, checksum);
        }
        return;
    }
    uint8_t *const bytes = reinterpret_cast<uint8_t *>(buffer);
    for (uint32_t lane = 0; lane < WARP;) {
        const uint32_t start = __shfl_sync(ALL_LANES, begin, lane), first = start / SYMBOLS_IN_UNIT * SYMBOLS_IN_UNIT;
        const bool fits = begin >= first && end >= begin && end - first <= room;
        const uint32_t lanes = WARP - __clz(__ballot_sync(ALL_LANES, lane_id() <= lane || fits));
        const uint32_t stop_at = __shfl_sync(ALL_LANES, fits ? end : 0, lanes - 1);
        const bool puts = lane_id() >= lane && lane_id() < lanes && fits && begin < end;
        if (common.exists) {
            for (uint32_t i = lane_id(); first + i * SYMBOLS_IN_UNIT < stop_at; i += WARP) {
                buffer[i] = make_uint4(common.word, common.word, common.word, common.word);
            }
            __syncwarp();
            if (puts && !smooth) {
                if (lookup.complete) {
                    decode_runs<false>(lookup, reader, bytes, begin - first, end - first);
                } else {
                    decode_runs<true>(lookup, reader, bytes, begin - first, end - first);
                }
            }
        } else if (puts) {
            decode_to_buffer(lookup, reader, bytes, begin - first, end - begin);
        }
        __syncwarp();
        if (stop_at > start) {
            flush(BufferedUnits{buffer}, first, start, stop_at, stream, group, out, checksum);
        }
        __syncwarp();
        lane = lanes;
    }
}
