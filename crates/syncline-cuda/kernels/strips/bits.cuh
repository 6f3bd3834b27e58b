// Bits in words, the first bit of a word at the top.
#pragma once
#include "common.cuh"

// Writes bits one after another. The first and the last word may have bits of others, and all words are 0 before.
class BitPacker {
    uint32_t *word;
    uint32_t pending = 0, filled;
    bool is_first = true;

    __device__ inline void flush() {
        if (is_first) {
            atomicOr(word, pending);
            is_first = false;
        } else {
            *word = pending;
        }
        ++word;
    }

  public:
    __device__ inline BitPacker(uint32_t *words, uint32_t position)
        : word(words + position / 32), filled(position % 32) {}
    // Appends the lowest `count` bits, at most 32, of a number that has no others.
    __device__ inline void put(uint32_t bits, uint32_t count) {
        if (count == 0) {
            return;
        }
        const uint32_t left = bits << (32 - count);
        pending |= left >> filled;
        filled += count;
        if (filled >= 32) {
            flush();
            filled -= 32;
            pending = filled > 0 ? left << (count - filled) : 0;
        }
    }
    __device__ inline void finish() {
        if (filled > 0) {
            atomicOr(word, pending);
        }
    }
};
