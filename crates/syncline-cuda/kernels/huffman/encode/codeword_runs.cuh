// Runs of codewords: codewords concatenated in registers to at most 64 bits, and written into a buffer in shared
// memory.
#pragma once
#include "huffman/encode/encode.cuh"

// Table entries have the code in the high bits and the length in the low 5 bits, so that a shift by an entry is a shift
// by its length.
constexpr uint32_t CODE_MASK = 0xFFFFF000u;
// Larger than the sum of 16 lengths; four times this value is below the code bits.
constexpr uint32_t MISSING = 0x200;
constexpr uint32_t ANY_MISSING = 7 * MISSING;

__device__ inline uint32_t entry_of(uint32_t codeword) {
    uint32_t length = codeword >> CODE_BITS;
    return length == 0 ? MISSING : codeword << (32 - length) | length;
}

// Multipliers that extract a symbol of a word, times the size of a table entry. In constant memory, because
// instructions read it like a register; otherwise the compiler would load each constant again.
__constant__ uint32_t SYMBOL_FACTORS[4] = {4u, 4u << 8, 4u << 16, 4u << 24};

// Number of codewords in a run, which together have at most 64 bits, and of runs of a lane's symbols.
constexpr uint32_t CODEWORDS_IN_RUN = LONGEST <= 16 ? 4 : 2;
constexpr uint32_t RUNS = LANE_SYMBOLS / CODEWORDS_IN_RUN;

// Concatenated codewords, starting at the top bit.
struct CodewordRun {
    uint64_t code;
    uint32_t bits;
};

// Concatenates the codewords of CODEWORDS_IN_RUN entries. `any` collects the marks of missing codewords.
__device__ inline CodewordRun concatenate(const uint32_t *entries, uint32_t &any) {
    const uint32_t a = entries[0], b = entries[1];
    const uint32_t front = (a & CODE_MASK) | __funnelshift_r(b & CODE_MASK, 0, a);
    if (CODEWORDS_IN_RUN == 2) {
        any |= a + b;
        return {uint64_t(front) << 32 | __funnelshift_r(0, b & CODE_MASK, a), (a + b) % MISSING};
    }
    const uint32_t c = entries[CODEWORDS_IN_RUN - 2], d = entries[CODEWORDS_IN_RUN - 1];
    const uint32_t back = (c & CODE_MASK) | __funnelshift_r(d & CODE_MASK, 0, c);
    // Up to 32, so the shift must be clamped instead of taken modulo 32.
    const uint32_t front_bits = (a + b) % 64, sum = a + b + c + d;
    any |= sum;
    return {uint64_t(front | __funnelshift_rc(back, 0, front_bits)) << 32 | __funnelshift_rc(0, back, front_bits),
            sum % MISSING};
}

// Shifts by up to 64, which C++ leaves undefined.
__device__ inline uint64_t shift_right(uint64_t bits, uint32_t by) {
    asm("shr.b64 %0, %0, %1;" : "+l"(bits) : "r"(by));
    return bits;
}
__device__ inline uint64_t shift_left(uint64_t bits, uint32_t by) {
    asm("shl.b64 %0, %0, %1;" : "+l"(bits) : "r"(by));
    return bits;
}

// Concatenates two runs. Bits beyond 64 are lost.
__device__ inline CodewordRun concatenate(const CodewordRun &first, const CodewordRun &second) {
    return {first.code | shift_right(second.code, first.bits), first.bits + second.bits};
}

// Concatenates RUNS / 2 runs.
__device__ inline CodewordRun concatenate_all(const CodewordRun *runs) {
    CodewordRun all = runs[0];
#pragma unroll
    for (uint32_t i = 1; i < RUNS / 2; ++i) {
        all = concatenate(all, runs[i]);
    }
    return all;
}

// Writes a run into the buffer, which is zero from `position` on, a bit position in shared memory. Words are or-ed,
// because lanes share their first and last words. Or-ing zeros is cheaper than testing for them.
__device__ inline uint32_t word_of(uint32_t position) { return position >> 3 & ~3u; }
__device__ inline void or_three(uint32_t word, uint32_t first, uint32_t second, uint32_t third) {
    asm volatile("red.shared.or.b32 [%0], %1;\n"
                 "red.shared.or.b32 [%0 + 4], %2;\n"
                 "red.shared.or.b32 [%0 + 8], %3;"
                 :
                 : "r"(word), "r"(first), "r"(second), "r"(third)
                 : "memory");
}
__device__ inline void write_run(uint32_t position, const CodewordRun &piece) {
    const uint32_t high = uint32_t(piece.code >> 32), low = uint32_t(piece.code);
    or_three(word_of(position), __funnelshift_r(high, 0, position), __funnelshift_r(low, high, position),
             __funnelshift_r(0, low, position));
}
// Writes two consecutive runs; called by the whole warp. FOURTH: they usually extend into a fourth word.
template <bool FOURTH>
__device__ inline void write_run(uint32_t position, const CodewordRun &piece, const CodewordRun &next) {
    const uint64_t front = concatenate(piece, next).code, back = shift_left(next.code, 64 - piece.bits);
    const uint32_t words[4] = {uint32_t(front >> 32), uint32_t(front), uint32_t(back >> 32), uint32_t(back)};
    const uint32_t word = word_of(position), end = position % 32 + piece.bits + next.bits;
    or_three(word, __funnelshift_r(words[0], 0, position), __funnelshift_r(words[1], words[0], position),
             __funnelshift_r(words[2], words[1], position));
    if (FOURTH || __any_sync(ALL_LANES, end > 96)) {
        asm volatile("red.shared.or.b32 [%0 + 12], %1;"
                     :
                     : "r"(word), "r"(__funnelshift_r(words[3], words[2], position))
                     : "memory");
        if (__any_sync(ALL_LANES, end > 128)) {
            asm volatile("red.shared.or.b32 [%0 + 16], %1;"
                         :
                         : "r"(word), "r"(__funnelshift_r(0, words[3], position))
                         : "memory");
        }
    }
}

// Writes all runs of a lane, combined into as few stores as possible: one at low entropy, usually two. Called by the
// whole warp.
__device__ inline void write_runs(uint32_t position, const CodewordRun *runs, uint32_t front_bits, uint32_t back_bits) {
    if (__all_sync(ALL_LANES, front_bits + back_bits <= 64)) {
        write_run(position, concatenate(concatenate_all(runs), concatenate_all(runs + RUNS / 2)));
    } else if (__all_sync(ALL_LANES, max_of(front_bits, back_bits) <= 64)) {
        write_run<true>(position, concatenate_all(runs), concatenate_all(runs + RUNS / 2));
    } else {
        uint32_t to = position;
#pragma unroll
        for (uint32_t i = 0; i < RUNS; i += 2) {
            write_run<false>(to, runs[i], runs[i + 1]);
            to += runs[i].bits + runs[i + 1].bits;
        }
    }
}

// Returns a mask of the lanes that are within the stream and have a symbol other than that of zero-bit groups. The
// first word usually decides. Called by the whole warp.
__device__ inline uint32_t differing_lanes_of(const LaneSymbols &own, bool in_stream, uint32_t free_word) {
    uint32_t lanes = __ballot_sync(ALL_LANES, in_stream && own.words[0] != free_word);
    if (lanes != ALL_LANES) {
        lanes = __ballot_sync(ALL_LANES, in_stream && own.differs_from(free_word));
    }
    return lanes;
}

// Reduces symbols modulo ALPHABET. If that changes any symbol of a coded group, `seen` gets its bits. Called by the
// whole warp.
__device__ inline void reduce_to_alphabet(LaneSymbols &own, uint32_t differing_lanes, uint32_t &seen) {
    if (__any_sync(ALL_LANES, (own.all_bits() & BEYOND_ALPHABET) != 0)) {
        seen |= (differing_lanes & group_lanes()) != 0 ? own.all_bits() : 0;
#pragma unroll
        for (uint32_t w = 0; w < LANE_WORDS; ++w) {
            own.words[w] &= ~BEYOND_ALPHABET;
        }
    }
}
