// Groups of codes on their way to token streams. Each tile has room for `GROUPS_OF_TILE` groups; a word says what a
// group is: 0 if there is no such group, else its length times 256 plus the bin of its activity, which is 0 for a group
// of zeros.
#pragma once
#include "device/warp.cuh"
#include "format/constants.cuh"

using format::MAX_CODEBOOKS;
using format::TOKEN_GROUP;

// Bins of activities, two to a power of two.
constexpr uint32_t ACTIVITY_BINS = 2 * 64 + 1;

__device__ inline uint32_t group_word(uint32_t length, uint32_t bin) { return length << 8 | bin; }
__device__ inline uint32_t group_length(uint32_t word) { return word >> 8; }
__device__ inline uint32_t group_bin(uint32_t word) { return word & 0xFF; }
__device__ inline bool group_is_live(uint32_t word) { return group_bin(word) != 0; }

__device__ inline uint32_t magnitude_of(int32_t code) { return code < 0 ? 0u - uint32_t(code) : uint32_t(code); }
