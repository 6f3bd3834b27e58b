// Decodes 32 strips, one a lane, that follow each other in the codewords of a chunk. Decoding tables, and the codewords
// if they fit, are in shared memory.
//
// Only ordinary strips are decoded here: those whose codes have 16 bits, and whose codewords are right. The others are
// left to the kernel that takes any tiles, which also says what is wrong.
#pragma once
#include "device/warp.cuh"
#include "strips/table.cuh"

// Bit of an entry that this decoder does not take. It is not followed by a value.
constexpr uint32_t ENTRY_LEFT_OUT = 1u << 15;

// Returns an entry as this decoder needs it: bits 16 to 31 are the smallest magnitude of the values of its size, or the
// value itself if there are no extra bits; 0 if no value follows.
__device__ inline uint32_t short_entry(uint32_t entry) {
    const uint32_t count = entry_bits(entry) - entry_length(entry), number = entry >> 16;
    // A strip ends by itself, as its bits do.
    constexpr uint32_t LEFT_OUT = ENTRY_LEFT_OUT | 32;
    if (entry == 0 || ((entry & ENTRY_HAS_VALUE) != 0 && count > 15)) {
        return LEFT_OUT;
    }
    const uint32_t value = (entry & ENTRY_HAS_VALUE) == 0 ? 0 : count == 0 ? number : 1u << number;
    return entry & 0x7FFF | value << 16;
}

// Decodes the lane's strip of `bits` bits, none if that is 0, from bit `position` on. `word(i)` is word `i` of the
// codewords, also after their end. Writes the codes that are not 0 to `codes`, which has STRIP_LEN zeros. Returns
// whether the strip is ordinary. UNROLLED symbols are decoded between looking whether any lane has more. Called by the
// whole warp.
template <uint32_t UNROLLED, typename Word>
__device__ inline bool decode_strip(Word word, const uint32_t *table, uint32_t position, uint32_t bits,
                                    int16_t *codes) {
    uint32_t next = position / 32, shift = position % 32, seen = 0, place = 0;
    uint32_t high = word(next), low = word(next + 1), following = word(next + 2);
    next += 3;
    int32_t left = int32_t(bits);
    while (__any_sync(ALL_LANES, left > 0)) {
#pragma unroll
        for (uint32_t i = 0; i < UNROLLED; ++i) {
            const uint32_t top = __funnelshift_l(low, high, shift);
            const uint32_t found = table[top >> (32 - strips::MAX_LENGTH)], entry = left > 0 ? found : 0;
            const uint32_t both = entry_bits(entry), length = entry_length(entry);
            seen |= entry;
            place += entry_zeros(entry);
            left -= int32_t(both);
            shift += both;
            if (shift >= 32) {
                shift -= 32;
                high = low;
                low = following;
                following = word(next);
                ++next;
            }
            const uint32_t extra = __funnelshift_lc(top << length, 0, both - length);
            const int32_t base = int32_t(entry) >> 16, value = base + int32_t(extra >> 1);
            const bool has_value = base != 0;
            if (has_value && place < strips::STRIP_LEN) {
                codes[place] = int16_t(extra & 1 ? -value : value);
            }
            place += has_value ? 1 : 0;
        }
    }
    return left == 0 && place <= strips::STRIP_LEN && (seen & ENTRY_LEFT_OUT) == 0;
}
