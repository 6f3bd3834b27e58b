// A lane's words by way of a ring in shared memory: for index blocks that a warp has no room for as a whole. Each lane's next words are under way while it decodes those before.
#pragma once
#include "huffman_decode_lookup.cuh"

// Units of 16 bytes in a ring, a power of two.
constexpr uint32_t RING = 4 * (2 / SYMBOL_BYTES), RING_BYTES = RING * 16;
// A warp's rings, and what is left out before the first, which starts on a multiple of its size.
constexpr uint32_t RING_WORDS = (WARP + 1) * RING_BYTES / 4;
// Words that SYMBOLS_IN_UNIT codewords may take.
constexpr uint32_t WORDS_AT_ONCE = (SYMBOLS_IN_UNIT * LONGEST + 31) / 32;
// Of the units that a turn may read from, the next word's and so many after it, the last was asked for as soon as the ring had room, and before the turn before this one.
constexpr uint32_t UNITS_AHEAD = (WORDS_AT_ONCE + 2) / 4;
static_assert(RING * 4 >= 4 * (UNITS_AHEAD + 1) + WORDS_AT_ONCE, "words have come when they are decoded");

// Words in order from a ring.
struct Ring {
    uint32_t at;   // of the next word, in bytes from the ring's start on, never starting over
    uint32_t base; // the ring's address
    __device__ inline void move_on(uint32_t there, uint32_t &word0, uint32_t &word1) {
        asm volatile("{ .reg .pred there; .reg .u32 from; setp.ne.u32 there, %4, 0;\n"
                     "  lop3.b32 from, %2, %5, %3, 0xEA;\n" // (at & mask) | base
                     "  @there mov.u32 %0, %1;\n"
                     "  @there ld.shared.u32 %1, [from];\n"
                     "  @there add.u32 %2, %2, 4; }"
                     : "+r"(word0), "+r"(word1), "+r"(at)
                     : "r"(base), "r"(there), "n"(RING_BYTES - 1)
                     : "memory");
    }
};

// Fills a lane's ring.
struct Feed {
    const uint8_t *from; // the first unit, a multiple of 16
    uint32_t ring;       // address
    uint32_t next;       // bytes asked for so far
    uint32_t end;        // bytes there are for the lane
    uint32_t readable;   // bytes that may be read

    __device__ inline void fetch() {
        if (next < end) {
            copy_part(ring + (next & (RING_BYTES - 1)), from + next, min_of(readable - next, 16u));
        }
        next += 16;
    }

    // All of the ring, and waits for it.
    __device__ inline void start() {
#pragma unroll
        for (uint32_t i = 0; i < RING; ++i) {
            fetch();
        }
        copies_done();
    }

    // As much as there is room for, where words before `at` have been read.
    __device__ inline void go_on(uint32_t at) {
        while (at + 16 * (RING - 1) >= next) {
            fetch();
        }
        end_copies();
    }

    // Waits for all that was asked for but in the last turn.
    static __device__ inline void wait() { copies_done_but_last(); }

    __device__ inline uint32_t word(uint32_t at) const {
        uint32_t word;
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(ring + at) : "memory");
        return word;
    }
};
