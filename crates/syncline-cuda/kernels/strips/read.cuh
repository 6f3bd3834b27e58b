// Reads a strip, as `syncline_core::strips` does: one lane a strip.
#pragma once
#include "strips/table.cuh"

// The codewords of a chunk: `count` words of 32 bits, the last two of which are padding.
struct Codewords {
    const uint32_t *words;
    uint32_t count;

    // Returns at least 33 bits from `position` on, at the top. Bits after the end are 0.
    __device__ inline uint64_t window(uint32_t position) const {
        const uint32_t word = position / 32;
        if (word > count - 2) {
            return 0;
        }
        return (uint64_t(words[word]) << 32 | words[word + 1]) << position % 32;
    }
};

// Calls `put` with the place and the value of each code that is not 0 in the strip from bit `position` to bit `end`, of
// `room` codes. Returns whether the bits are those of such a strip.
template <typename Put>
__device__ inline bool read_strip(const Codewords &codewords, const uint32_t *table, uint32_t position, uint32_t end,
                                  uint32_t room, Put put) {
    uint32_t place = 0;
    while (position < end) {
        const uint64_t window = codewords.window(position);
        const uint32_t entry = table[window >> (64 - strips::MAX_LENGTH)];
        place += entry_zeros(entry);
        if (entry == 0 || place > room) {
            return false;
        }
        if (entry & ENTRY_HAS_VALUE) {
            if (place == room) {
                return false;
            }
            const uint32_t length = entry_length(entry);
            const uint64_t extra = entry_bits(entry) <= 33 ? window << length : codewords.window(position + length);
            put(place, entry_value(entry, extra));
            ++place;
        }
        position += entry_bits(entry);
    }
    return position == end;
}
