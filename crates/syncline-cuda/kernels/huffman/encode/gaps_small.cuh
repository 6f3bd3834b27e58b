// The gap index of a small batch. When a block has heard from those before it, it knows where in the stream its
// codewords start: its warps then find the gaps of the subsequences that start among their bits. These stay in shared
// memory until the stream's place is known, too, and go there as words.
//
// Of codewords nothing is noted but where those of each turn, a lane's symbols of a round, start among the warp's bits.
// Whoever has a subsequence looks for the turn that reaches its start, and adds up the lengths of its codewords, which
// the table has. So most turns are not looked at again where codewords are short, and memory for the lengths of all is
// not needed.
#pragma once
#include "huffman/encode/scratch.cuh"
#include "huffman/encode/states.cuh"

// A gap of the index is half a byte, as it is less than the longest codeword.
constexpr uint32_t GAP_BITS = 4, WORD_GAPS = 32 / GAP_BITS;
static_assert(INDEX != 1 || LONGEST <= 1u << GAP_BITS, "gaps have room");
// Rounds and turns of a warp, at most.
constexpr uint32_t MOST_ROUNDS = ((THREADS - WARP) * GROUP + WARPS * WARP_SYMBOLS - 1) / (WARPS * WARP_SYMBOLS),
                   MOST_TURNS = MOST_ROUNDS * WARP;
static_assert((MOST_TURNS & (MOST_TURNS - 1)) == 0 && 32 * ROUND_WORDS * MOST_ROUNDS <= 1u << 16,
              "turns are halved, and their starts have 16 bits");

// Shared memory behind the bits of the block's groups, in numbers of 16 bits: of each group for its bits if it is live,
// or for where its turns start and for its gaps, a byte each; and of none for the gaps of the word in which the block's
// first is not the first, as much as keeps vectors aligned.
constexpr uint32_t GROUP_GAPS = GROUP * LONGEST / SUBSEQUENCE;
constexpr uint32_t INDEX_ROOM = INDEX == 1 ? LANES_IN_GROUP + GROUP_GAPS / 2 : 1, PAST_INDEX_ROOM = INDEX == 1 ? 8 : 0;
static_assert(WORD_GAPS <= 2 * 8, "a word's gaps have room");

// Subsequences of a stream that are found together.
struct Subsequences {
    uint32_t first, end;
};

// Those whose start the codewords between two bits of a stream reach: they start behind the first and not behind the
// last. Nothing reaches the stream's first, and what ends where the stream does may reach the start of one that it does
// not have.
__device__ inline Subsequences reached(uint32_t from, uint32_t to, uint32_t count) {
    return {from / SUBSEQUENCE + 1, min_of(to / SUBSEQUENCE + 1, count)};
}

// What a block finds gaps with, and has found.
struct BlockGaps {
    uint16_t *starts; // of each turn of the block
    uint8_t *gaps;    // from the first of the word of the index that has the block's first
    const uint8_t *table;

    __device__ inline BlockGaps(uint16_t *room, uint32_t most_groups, const uint8_t *entries)
        : starts(room), gaps(reinterpret_cast<uint8_t *>(room + most_groups * LANES_IN_GROUP)), table(entries) {}

    // Finds `own` of a warp that has `turns` turns from number `first_turn` on, whose codewords start at bit `start` of
    // the stream; `load` loads a turn's symbols, and `first_of_block` is the block's first gap. By a warp.
    template <typename Load>
    __device__ inline void find(const Subsequences &own, uint32_t start, uint32_t first_turn, uint32_t turns,
                                uint32_t first_of_block, Load load) const {
        const uint16_t *own_starts = starts + first_turn;
#pragma unroll 1
        for (uint32_t which = own.first + lane_id(); which < own.end; which += WARP) {
            // The last turn that starts before the subsequence does: it has codewords, and one of them ends there or
            // behind.
            const uint32_t at = which * SUBSEQUENCE - start;
            uint32_t turn = 0;
#pragma unroll
            for (uint32_t step = MOST_TURNS / 2; step > 0; step /= 2) {
                if (turn + step < turns && own_starts[turn + step] < at) {
                    turn += step;
                }
            }
            LaneSymbols symbols;
            load(symbols, turn);
#pragma unroll
            for (uint32_t w = 0; w < LANE_WORDS; ++w) {
                symbols.words[w] &= ~BEYOND_ALPHABET;
            }
            // How far behind the subsequence's start a codeword ends: of those that end before it that is more than any
            // gap.
            uint32_t behind = own_starts[turn] - at, gap = behind;
#pragma unroll
            for (uint32_t i = 0; i < LANE_SYMBOLS; ++i) {
                // An entry's first byte is its length.
                behind += table[entry_at(symbols, i)];
                gap = min_of(gap, behind);
            }
            gaps[which - first_of_block / WORD_GAPS * WORD_GAPS] = gap;
        }
    }

    // Writes those of the block to the index of a stream that has `count`. Other blocks have the rest of its first and
    // its last word. By the whole block.
    __device__ inline void write(const Subsequences &own, uint32_t count, uint8_t *index) const {
        if (own.first >= own.end) {
            return;
        }
        const auto mask_of = [](uint32_t halves) { return halves < WORD_GAPS ? (1u << halves * GAP_BITS) - 1 : ~0u; };
        // The last byte is full.
        const uint32_t end = own.end == count ? align_up(count, 2) : own.end, first_word = own.first / WORD_GAPS;
#pragma unroll 1
        for (uint32_t i = first_word + threadIdx.x; i * WORD_GAPS < end; i += THREADS) {
            const uint32_t first = i * WORD_GAPS;
            const uint2 bytes = reinterpret_cast<const uint2 *>(gaps)[i - first_word];
            // What is not the block's may be anything.
            const uint32_t front = bytes.x & 0x0F0F0F0F, back = bytes.y & 0x0F0F0F0F;
            const uint32_t all = __byte_perm(front | front >> GAP_BITS, back | back >> GAP_BITS, 0x6420);
            const uint32_t not_before = ~mask_of(own.first - min_of(own.first, first)),
                           mine = not_before & mask_of(end - first), word = all & not_before & mask_of(own.end - first);
            uint32_t *to = reinterpret_cast<uint32_t *>(index) + i;
            if (mine == ~0u) {
                *to = word;
            } else {
                atomicAnd(to, ~mine);
                atomicOr(to, word);
            }
        }
    }
};
