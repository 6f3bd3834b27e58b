// Codes of numbers from the symbols of their bins and their raw bits: each lane reads 16 bytes of consecutive codes,
// and has their raw bits, at most 128, in registers.
//
// See also lossless/words.cuh.
#pragma once
#include "device/copy_async.cuh"
#include "lossless/number.cuh"

// Consecutive codes of a lane.
constexpr uint32_t OWN = 16 / ELEMENT_BYTES;
constexpr uint32_t MOST_BINS = 256;

// The bins of a chunk, in shared memory.
struct BinTable {
    word_t lows[MOST_BINS]; // the smallest codes
    uint16_t sizes[MOST_BINS];

    // Called by the whole block, which has to be synchronized afterwards.
    __device__ inline void load(const NumberBins &bins, uint32_t count) {
        for (uint32_t i = threadIdx.x; i < count; i += THREADS) {
            lows[i] = word_t(bins.lows[i]);
            sizes[i] = bins.sizes[i];
        }
    }
};

// Symbols of so many bins: the first bin of a symbol is its most significant digit.
struct Digits {
    uint32_t bins, tuple_log2, alphabet, reciprocal;

    __device__ inline Digits(uint32_t bins, uint32_t tuple) : bins(bins), tuple_log2(__ffs(int(tuple)) - 1) {
        alphabet = 1;
        for (uint32_t i = 0; i < tuple; ++i) {
            alphabet *= bins;
        }
        // Exact for symbols below 2^12 and up to 2^8 bins: the rounding error is below 2^8 for each unit of a symbol.
        reciprocal = ceil_div(1u << 20, max_of(bins, 1u));
    }
    // Returns the digits of a symbol without the last one, for more than one digit.
    __device__ inline uint32_t without_last(uint32_t symbol) const { return symbol * reciprocal >> 20; }
};

// Returns the low `width` bits of a word, at most 32.
__device__ inline uint32_t low_bits(uint32_t word, uint32_t width) {
    return word & __funnelshift_rc(ALL_LANES, 0, 32 - width);
}

// Begins to copy bytes to shared memory, where they start as far behind a multiple of 16 as in device memory. Both have
// the rest of each unit of 16 bytes. Returns where they are. Called by the whole warp.
__device__ inline const uint8_t *stage(const uint8_t *from, uint32_t bytes, uint8_t *to) {
    const uint32_t before = uint32_t(reinterpret_cast<uint64_t>(from) % 16);
    const uint4 *units = reinterpret_cast<const uint4 *>(from - before);
    for (uint32_t i = lane_id(); 16 * i < before + bytes; i += WARP) {
        copy_async<16>(reinterpret_cast<uint4 *>(to) + i, units + i);
    }
    return to + before;
}

// The next 128 raw bits of a lane.
struct RawWindow {
    uint32_t words[4];

    // Loads so many bits from bit `at` on of `count` words, at least one. Reads within these whatever the place is.
    __device__ inline void load(const uint32_t *raw, uint32_t count, uint32_t at, uint32_t bits) {
        const uint32_t first = at / 32, shift = at % 32;
        uint32_t loaded[5];
#pragma unroll
        for (uint32_t i = 0; i < 5; ++i) {
            loaded[i] = 32 * i < shift + bits && bits > 0 ? raw[min_of(first + i, count - 1)] : 0;
        }
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
            words[i] = __funnelshift_r(loaded[i], loaded[i + 1], shift);
        }
    }
    // Takes `width` bits, at most 32 or, of words of 64 bits, 64. Keeps the `left` bits after them, at most.
    __device__ inline word_t take(uint32_t width, uint32_t left) {
        const uint32_t low = low_bits(words[0], min_of(width, 32u));
        skip(min_of(width, 32u), left);
        if (ELEMENT_BYTES < 8) {
            return word_t(low);
        }
        const uint32_t more = width - min_of(width, 32u);
        const uint64_t high = low_bits(words[0], more);
        skip(more, left);
        return word_t(high << 32 | low);
    }

  private:
    __device__ inline void skip(uint32_t width, uint32_t left) {
        // The bits of the rest of one code of 64 bits come on top.
        const uint32_t kept = left + (ELEMENT_BYTES == 8 ? 32 : 0);
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
            if (32 * i < kept) {
                words[i] = __funnelshift_rc(words[i], i < 3 ? words[i + 1] : 0, width);
            }
        }
    }
};

// Returns own codes as a unit of memory.
__device__ inline uint4 packed(const word_t (&codes)[OWN]) {
    union {
        word_t words[OWN];
        uint4 unit;
    };
#pragma unroll
    for (uint32_t k = 0; k < OWN; ++k) {
        words[k] = codes[k];
    }
    return unit;
}

// Reads the codes from `first` on of a tile with so many elements, with the center added. `symbol(i)` is the symbol of
// bins `i`, and the raw bits start at bit `start` of `count` words. Codes past the end of the tile are unspecified.
// Returns the number of raw bits of the whole warp, all lanes of which call it.
template <typename Symbol>
__device__ inline uint32_t read_own_codes(const Digits &digits, const BinTable &table, uint32_t first,
                                          uint32_t elements, Symbol symbol, const uint32_t *raw, uint32_t count,
                                          uint32_t start, word_t (&codes)[OWN]) {
    const uint32_t in_symbol = (1u << digits.tuple_log2) - 1;
    uint32_t sizes[OWN], sum = 0, rest = 0;
#pragma unroll
    for (uint32_t k = OWN; k-- > 0;) {
        const uint32_t i = first + k, after = ~i & in_symbol;
        if (k == OWN - 1 || after == 0) {
            const uint32_t read = (i & ~in_symbol) < elements ? symbol(i >> digits.tuple_log2) : 0;
            rest = read < digits.alphabet ? read : 0;
            for (uint32_t other = 0; other < after; ++other) {
                rest = digits.without_last(rest);
            }
        }
        uint32_t bin = rest;
        if (in_symbol > 0) {
            rest = digits.without_last(rest);
            bin -= rest * digits.bins;
        }
        sizes[k] = i < elements ? table.sizes[bin] : 0;
        codes[k] = table.lows[bin];
        sum += sizes[k] & 0xFF;
    }
    const uint32_t through = warp_inclusive_sum(sum);
    RawWindow window;
    window.load(raw, count, start + through - sum, sum);
#pragma unroll
    for (uint32_t k = 0; k < OWN; ++k) {
        const word_t bits = window.take(sizes[k] & 0xFF, 8 * ELEMENT_BYTES * (OWN - 1 - k));
        codes[k] = word_t(codes[k] + word_t(bits << (sizes[k] >> 8)));
    }
    return __shfl_sync(ALL_LANES, through, WARP - 1);
}
