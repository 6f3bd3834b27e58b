// Codes of numbers from the symbols of their bins and their raw bits: each lane reads 16 bytes of consecutive codes,
// and has their raw bits, at most 128, in registers.
//
// See also lossless/words.cuh.
#pragma once
#include "device/copy_async.cuh"
#include "lossless/number.cuh"

// Consecutive codes of a lane, and of a warp.
constexpr uint32_t OWN = 16 / ELEMENT_BYTES, ALL_OWN = OWN * WARP;
constexpr uint32_t MOST_BINS = 256;
// Bytes that there must be behind the raw bits of a tile: a lane reads up to five words.
constexpr uint32_t RAW_BYTES_BEHIND = 32;

// The smallest code of a bin; raw bits and the shift times 2^8.
struct __align__(2 * (ELEMENT_BYTES < 2 ? 2 : ELEMENT_BYTES)) BinEntry {
    word_t low;
    uint16_t sizes;
};

// The bins of a chunk, in shared memory.
struct BinTable {
    BinEntry of[MOST_BINS];

    // Called by the whole block, which has to be synchronized afterwards.
    __device__ inline void load(const NumberBins &bins, uint32_t count) {
        for (uint32_t i = threadIdx.x; i < count; i += THREADS) {
            of[i] = {word_t(bins.lows[i]), bins.sizes[i]};
        }
    }
};

// Symbols of so many bins: the first bin of a symbol is its most significant digit.
struct Digits {
    uint32_t bins, alphabet, reciprocal;

    __device__ inline Digits(uint32_t bins, uint32_t tuple) : bins(bins), alphabet(1) {
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

    // Loads the bits from bit `at` on of `count` words, which have RAW_BYTES_BEHIND bytes behind them.
    __device__ inline void load(const uint32_t *raw, uint32_t count, uint32_t at) {
        const uint32_t *from = raw + min_of(at / 32, count);
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
            words[i] = __funnelshift_r(from[i], from[i + 1], at);
        }
    }
    // Takes `width` bits, at most 32 or, of words of 64 bits, 64. Keeps at most the `left` bits after them.
    __device__ inline word_t take(uint32_t width, uint32_t left) {
        if (ELEMENT_BYTES < 8) {
            const uint32_t bits = low_bits(words[0], width);
            skip(width, left);
            return word_t(bits);
        }
        const uint32_t first = min_of(width, 32u);
        const uint64_t low = low_bits(words[0], first);
        // Half of this code may be left, too.
        skip(first, left + 32);
        const uint64_t high = low_bits(words[0], width - first);
        skip(width - first, left);
        return word_t(high << 32 | low);
    }

  private:
    __device__ inline void skip(uint32_t width, uint32_t left) {
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
            if (32 * i < left) {
                words[i] = __funnelshift_rc(words[i], i < 3 ? words[i + 1] : 0, width);
            }
        }
    }
};

// What the codes of a tile are read from, in shared memory: the symbols, and words with raw bits.
struct TileSource {
    const Digits &digits;
    const BinTable &table;
    const uint8_t *symbols;
    bool is_narrow; // whether a symbol has one byte
    const uint32_t *raw;
    uint32_t raw_words;

    // Returns a symbol. What no symbol may be becomes symbol 0.
    __device__ inline uint32_t symbol(uint32_t i) const {
        const uint32_t symbol = is_narrow ? symbols[i] : reinterpret_cast<const uint16_t *>(symbols)[i];
        return symbol < digits.alphabet ? symbol : 0;
    }
};

// The own bins of a lane.
struct OwnBins {
    BinEntry of[OWN];

    // Reads the bins from `first` on, all of which the tile has.
    template <uint32_t TUPLE> __device__ inline void read(const TileSource &source, uint32_t first) {
        uint32_t rest = 0;
#pragma unroll
        for (uint32_t k = OWN; k-- > 0;) {
            if (k == OWN - 1 || (k + 1) % TUPLE == 0) {
                rest = source.symbol((first + k) / TUPLE);
                // Lanes share a symbol.
                for (uint32_t after = (first + k) % TUPLE; TUPLE > OWN && after < TUPLE - 1; ++after) {
                    rest = source.digits.without_last(rest);
                }
            }
            uint32_t bin = rest;
            if (TUPLE > 1) {
                rest = source.digits.without_last(rest);
                bin -= rest * source.digits.bins;
            }
            of[k] = source.table.of[bin];
        }
    }

    // Reads the bins from `first` on. Those that the tile does not have have no raw bits.
    __device__ inline void read_some(const TileSource &source, uint32_t first, uint32_t elements, uint32_t tuple) {
#pragma unroll
        for (uint32_t k = 0; k < OWN; ++k) {
            const uint32_t i = first + k;
            of[k] = {0, 0};
            if (i < elements) {
                uint32_t rest = source.symbol(i / tuple), bin = rest;
                for (uint32_t digit = i % tuple; digit < tuple; ++digit) {
                    const uint32_t before = tuple > 1 ? source.digits.without_last(rest) : 0;
                    bin = rest - before * source.digits.bins;
                    rest = before;
                }
                of[k] = source.table.of[bin];
            }
        }
    }

    // Reads the codes, with the center added, whose raw bits in the warp start at bit `start`. Returns the number of
    // these. Called by the whole warp.
    __device__ inline uint32_t codes(const TileSource &source, uint32_t start, word_t (&codes)[OWN]) const {
        uint32_t sum = 0;
#pragma unroll
        for (uint32_t k = 0; k < OWN; ++k) {
            sum += of[k].sizes & 0xFF;
        }
        const uint32_t through = warp_inclusive_sum(sum);
        RawWindow window;
        window.load(source.raw, source.raw_words, start + through - sum);
#pragma unroll
        for (uint32_t k = 0; k < OWN; ++k) {
            const word_t bits = window.take(of[k].sizes & 0xFF, 8 * ELEMENT_BYTES * (OWN - 1 - k));
            codes[k] = word_t(of[k].low + word_t(bits << (of[k].sizes >> 8)));
        }
        return __shfl_sync(ALL_LANES, through, WARP - 1);
    }
};

// Returns own codes as a unit of memory, or the reverse.
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
__device__ inline void unpack(const uint4 &from, word_t (&codes)[OWN]) {
    union {
        uint4 unit;
        word_t words[OWN];
    };
    unit = from;
#pragma unroll
    for (uint32_t k = 0; k < OWN; ++k) {
        codes[k] = words[k];
    }
}

// Reads the codes of a tile of more than one code to units of 16 bytes at `to`, where its raw bits may be if they end
// behind its codes: what is left of them never takes more than the codes that are left. (In damaged chunks it may, and
// does no harm.) Raw bits start at bit `start`. Returns their number. Called by the whole warp.
template <uint32_t TUPLE>
__device__ inline uint32_t read_whole_units(const TileSource &source, uint32_t begin, uint32_t end, uint32_t at,
                                            uint4 *to) {
    for (; begin < end; begin += ALL_OWN) {
        const uint32_t first = begin + OWN * lane_id();
        OwnBins bins;
        word_t codes[OWN];
        bins.read<TUPLE>(source, first);
        at += bins.codes(source, at, codes);
        __syncwarp();
        to[first / OWN] = packed(codes);
    }
    return at;
}
__device__ inline uint32_t read_codes(const TileSource &source, uint32_t tuple, uint32_t elements, uint32_t start,
                                      uint4 *to) {
    const uint32_t whole = elements / ALL_OWN * ALL_OWN;
    uint32_t at = start;
    switch (tuple) {
    case 1:
        at = read_whole_units<1>(source, 0, whole, at, to);
        break;
    case 2:
        at = read_whole_units<2>(source, 0, whole, at, to);
        break;
    case 4:
        at = read_whole_units<4>(source, 0, whole, at, to);
        break;
    default:
        at = read_whole_units<8>(source, 0, whole, at, to);
    }
    if (whole < elements) {
        const uint32_t first = whole + OWN * lane_id();
        OwnBins bins;
        word_t codes[OWN];
        bins.read_some(source, first, elements, tuple);
        at += bins.codes(source, at, codes);
        __syncwarp();
        if (first < elements) {
            to[first / OWN] = packed(codes);
        }
    }
    return at - start;
}
