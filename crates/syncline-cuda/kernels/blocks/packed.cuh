// Numbers as bits from bit 0 of the first byte up, which one thread reads or writes (docs/FORMAT.md, "Blocks").
#pragma once
#include "zigzag.cuh"

struct PackedReader {
    const uint32_t *words;
    uint64_t at, end; // in bits
    bool is_good;     // nothing was read behind the end

    // `bytes` starts on a multiple of 4.
    __device__ inline PackedReader(const uint8_t *bytes, uint32_t length)
        : words(reinterpret_cast<const uint32_t *>(bytes)), at(0), end(uint64_t(length) * 8), is_good(true) {}

    // Returns the next 32 bits, zeros behind the end. The last word may have bytes behind the end that are not zeros:
    // a record has whole words.
    __device__ inline uint32_t peek() const {
        const uint64_t word = at / 32, last = (end + 31) / 32;
        const uint32_t low = word < last ? words[word] : 0, high = word + 1 < last ? words[word + 1] : 0;
        return __funnelshift_r(low, high, uint32_t(at));
    }
    // Returns the next `count` bits, at most 32.
    __device__ inline uint32_t take(uint32_t count) {
        const uint32_t bits = peek() & (count < 32 ? (1u << count) - 1 : ALL_LANES);
        at += count;
        is_good &= at <= end;
        return bits;
    }
    // Returns a number that is coded as an Elias gamma code of the number plus 1.
    __device__ inline uint32_t take_gamma() {
        const uint32_t bits = peek();
        if (bits == 0) {
            // Only the largest number has so many zeros.
            at += 32;
            is_good &= take(1) == 1;
            is_good &= take(32) == 0;
            return ALL_LANES;
        }
        const uint32_t rest = __ffs(bits) - 1;
        at += rest + 1;
        return (1u << rest) - 1 + take(rest);
    }
    // Returns a number that is coded as the gamma code of its zigzag code.
    __device__ inline int32_t take_signed() { return int32_t(of_zigzag(take_gamma())); }
    // Whether everything was read but less than a byte of zeros.
    __device__ inline bool is_finished() {
        const uint64_t left = end - at;
        return is_good && at <= end && left < 8 && take(uint32_t(left)) == 0;
    }
};

// Returns the bits of a gamma code.
__device__ inline uint32_t gamma_bits(uint32_t number) { return 2 * (31 - __clz(number + 1)) + 1; }

// Writes numbers as bits from bit 0 of the first byte up. Threads that write to the same
// place write the same.
struct PackedWriter {
    uint32_t *words;
    uint64_t pending;
    uint32_t filled, bits;

    __device__ inline explicit PackedWriter(uint32_t *to) : words(to), pending(0), filled(0), bits(0) {}
    __device__ inline void put(uint32_t value, uint32_t count) {
        pending |= uint64_t(value) << filled;
        filled += count;
        bits += count;
        if (filled >= 32) {
            *words++ = uint32_t(pending);
            pending >>= 32;
            filled -= 32;
        }
    }
    __device__ inline void put_signed(int32_t number) {
        const uint32_t above = zigzag(uint32_t(number)) + 1, rest = 31 - __clz(above);
        put(0, rest);
        put(1, 1);
        put(above & ((1u << rest) - 1), rest);
    }
    // Returns the number of bytes.
    __device__ inline uint32_t finish() {
        if (filled > 0) {
            *words = uint32_t(pending);
        }
        return ceil_div(bits, 8);
    }
};
