// Zigzag codes of integers, which are given as unsigned words: 0, -1, 1, -2, and so on become 0, 1, 2, 3.
#pragma once
#include "common.cuh"

// Returns the code of an integer.
template <typename Word> __device__ inline Word zigzag(Word integer) {
    return Word(Word(integer << 1) ^ Word(0 - (integer >> (8 * sizeof(Word) - 1))));
}

// Returns the integer of a code.
template <typename Word> __device__ inline Word of_zigzag(Word code) {
    return Word(Word(code >> 1) ^ Word(0 - (code & 1)));
}
