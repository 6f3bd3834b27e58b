// Reads a strip, as `syncline_core::strips` does: one lane a strip.
#pragma once
#include "strips/table.cuh"

// The codewords of a chunk: `count` words of 32 bits. Words after them are 0.
struct Codewords {
    const uint32_t *words;
    uint32_t count;

    __device__ inline uint32_t word(uint32_t number) const { return number < count ? words[number] : 0; }
};

// Calls `put` with the place and the value of each code that is not 0 in the strip from bit `position` to bit `end`, of
// `room` codes. Returns whether the bits are those of such a strip.
template <typename Put>
__device__ inline bool read_strip(const Codewords &codewords, const uint32_t *table, uint32_t position, uint32_t end,
                                  uint32_t room, Put put) {
    uint32_t next = position / 32, shift = position % 32, place = 0;
    uint32_t high = codewords.word(next), low = codewords.word(next + 1), following = codewords.word(next + 2);
    next += 3;
    while (position < end) {
        const uint32_t top = __funnelshift_l(low, high, shift), rest = __funnelshift_l(following, low, shift);
        const uint32_t entry = table[top >> (32 - strips::MAX_LENGTH)], bits = entry_bits(entry);
        place += entry_zeros(entry);
        if (entry == 0 || place > room) {
            return false;
        }
        if (entry & ENTRY_HAS_VALUE) {
            if (place == room) {
                return false;
            }
            put(place, entry_value(entry, (uint64_t(top) << 32 | rest) << entry_length(entry)));
            ++place;
        }
        position += bits;
        shift += bits;
        while (shift >= 32) {
            shift -= 32;
            high = low;
            low = following;
            following = codewords.word(next);
            ++next;
        }
    }
    return position == end;
}
