// The strips of a whole ordinary tile as bits (predict/ordinary.cuh). A lane has consecutive codes, or consecutive
// values, whose bits follow those of the lane before.
#pragma once
#include "predict/ordinary.cuh"
#include "strips/bits.cuh"

// Codes of small magnitude, and codewords of each with its extra bits; a word for all others, too long for any lane,
// follows them.
constexpr uint32_t SMALL_CODES = 128, SMALL_WORDS = SMALL_CODES + 4, TOO_LONG = 0x80;

// Codeword and extra bits of a code whose zeros have symbols of their own.
struct CodeBits {
    uint32_t bits, count;

    __device__ inline CodeBits(const uint32_t *codewords, int32_t code) {
        const uint32_t symbol = code != 0 ? symbol_of(0, code) : symbol_of_power(0);
        const uint32_t extra_bits = extra_bits_of(symbol), codeword = codewords[symbol];
        bits = (codeword >> 8) << extra_bits | (extra_bits > 0 ? extra_of(code) : 0);
        count = (codeword & 0xFF) + extra_bits;
    }
};

// Makes word `i` of the table of small codes.
__device__ inline uint32_t small_word(const uint32_t *codewords, uint32_t i) {
    const CodeBits own(codewords, int32_t(i) - int32_t(SMALL_CODES / 2));
    return i < SMALL_CODES ? own.bits << 8 | own.count : TOO_LONG;
}

// Up to 64 bits of a lane.
struct LaneBits {
    uint64_t bits = 0;
    uint32_t count = 0;

    __device__ inline void append(uint32_t value, uint32_t length) {
        bits = bits << length | value;
        count += length;
    }
    // Puts the bits at a position of words that are 0 there.
    __device__ inline void put(uint32_t *words, uint32_t position) const {
        if (count > 0) {
            const uint64_t left = bits << (64 - count);
            const uint32_t high = uint32_t(left >> 32), low = uint32_t(left), shift = position % 32;
            uint32_t *word = words + position / 32;
            atomicOr(word, high >> shift);
            if (shift + count > 32) {
                atomicOr(word + 1, __funnelshift_r(low, high, shift));
            }
            if (shift + count > 64) {
                atomicOr(word + 2, __funnelshift_r(0, low, shift));
            }
        }
    }
};

// Where the bits of a tile go.
struct TileBits {
    uint32_t *words; // shared memory
    uint32_t room;   // words, without two behind them
    uint32_t *taken; // words of the chunk's scratch memory that tiles have taken
    uint32_t bits;   // of the whole tile
    uint32_t at;     // the lane's first
    uint32_t first;  // of the tile's words in scratch memory; in lane 0

    // Places the bits of lanes, `count` of each, one after another, and clears their words. Returns whether there is
    // room for them. Called by the whole warp.
    __device__ inline bool place(uint32_t count) {
        const uint32_t through = warp_inclusive_sum(count);
        at = through - count;
        bits = __shfl_sync(ALL_LANES, through, WARP - 1);
        // The memory was that of the codes.
        __syncwarp();
        if (bits > 32 * room) {
            return false;
        }
        // What this returns is needed only when all bits are there.
        if (lane_id() == 0) {
            first = atomicAdd(taken, ceil_div(bits, 32));
        }
        for (uint32_t i = lane_id(); i < ceil_div(bits, 32) + 2; i += WARP) {
            words[i] = 0;
        }
        __syncwarp();
        return true;
    }
};

// Codes that a lane has in its registers, two in a word.
constexpr uint32_t OWN_CODES = TILE_ELEMENTS / WARP, LANES_OF_STRIP = STRIP_LEN / OWN_CODES;
struct LaneCodes {
    uint32_t pairs[OWN_CODES / 2];

    __device__ inline explicit LaneCodes(const int16_t *codes) {
        const uint32_t start = OWN_CODES * lane_id();
        const uint4 *from = reinterpret_cast<const uint4 *>(codes + start / STRIP_LEN * STRIP_ROOM + start % STRIP_LEN);
#pragma unroll
        for (uint32_t i = 0; i < OWN_CODES / 8; ++i) {
            const uint4 eight = from[i];
            pairs[4 * i] = eight.x, pairs[4 * i + 1] = eight.y, pairs[4 * i + 2] = eight.z, pairs[4 * i + 3] = eight.w;
        }
    }
    __device__ inline int32_t code(uint32_t i) const {
        return i % 2 == 0 ? int32_t(pairs[i / 2] << 16) >> 16 : int32_t(pairs[i / 2]) >> 16;
    }
    // Returns the number of codes up to the last one of the strip that is not 0. Called by the whole warp.
    __device__ inline uint32_t coded() const {
        uint32_t last = 0;
#pragma unroll
        for (uint32_t i = 0; i < OWN_CODES / 2; ++i) {
            last = pairs[i] != 0 ? 2 * i + 1 + (pairs[i] >> 16 != 0 ? 1 : 0) : last;
        }
        const uint32_t others = __ballot_sync(ALL_LANES, last > 0),
                       of_strip = LANES_OF_STRIP - 1 - lane_id() % LANES_OF_STRIP;
        // Whether a lane behind this one has a value of the same strip.
        return (others >> lane_id() >> 1 & ((1u << of_strip) - 1)) != 0 ? OWN_CODES : last;
    }
};

// The bits of codes that are all small, in groups of eight.
struct SmallGroups {
    static constexpr uint32_t GROUP = 8, GROUPS = OWN_CODES / GROUP;
    LaneBits of[GROUPS];

    __device__ inline SmallGroups(const LaneCodes &own, uint32_t coded, const uint32_t *small) {
#pragma unroll
        for (uint32_t i = 0; i < OWN_CODES; ++i) {
            const uint32_t word = small[min_of(uint32_t(own.code(i) + int32_t(SMALL_CODES / 2)), SMALL_CODES)];
            if (i < coded) {
                of[i / GROUP].append(word >> 8, word & 0xFF);
            }
        }
    }
    __device__ inline uint32_t count() const {
        uint32_t sum = 0;
#pragma unroll
        for (const LaneBits &group : of) {
            sum += group.count;
        }
        return sum;
    }
    // Whether no group has too many bits.
    __device__ inline bool fits() const {
        uint32_t longest = 0;
#pragma unroll
        for (const LaneBits &group : of) {
            longest = max_of(longest, group.count);
        }
        return longest <= 64;
    }
    __device__ inline void put(uint32_t *words, uint32_t position) const {
#pragma unroll
        for (const LaneBits &group : of) {
            group.put(words, position);
            position += group.count;
        }
    }
};

// The bits of any codes two at a time, for which 64 bits always suffice. The codes are copied, because the bits take
// their place.
struct CodePairs {
    uint32_t *const copy;
    const uint32_t coded, *const codewords, *const small;

    __device__ inline CodePairs(const LaneCodes &own, uint32_t coded, const uint32_t *codewords, const uint32_t *small,
                                OrdinaryMemory &memory)
        : copy(memory.tokens + lane_id() * (OWN_CODES / 2 + 1)), coded(coded), codewords(codewords), small(small) {
#pragma unroll
        for (uint32_t i = 0; i < OWN_CODES / 2; ++i) {
            copy[i] = own.pairs[i];
        }
    }
    __device__ inline void append(int32_t code, LaneBits &bits) const {
        const uint32_t place = uint32_t(code + int32_t(SMALL_CODES / 2)),
                       magnitude = code < 0 ? 0u - uint32_t(code) : uint32_t(code),
                       size = 31 - __clz(int32_t(magnitude | 1));
        const bool is_small = place < SMALL_CODES;
        const uint32_t word = *(is_small ? small + place : codewords + size), extra_bits = is_small ? 0 : size + 1,
                       extra = is_small ? 0 : (magnitude << 1 | uint32_t(code) >> 31) - (2u << size);
        bits.append((word >> 8) << extra_bits | extra, (word & 0xFF) + extra_bits);
    }
    // Calls `visit(bits)` for the pairs.
    template <typename Visit> __device__ inline void for_each(Visit visit) const {
#pragma unroll 1
        for (uint32_t i = 0; i < coded; i += 2) {
            const uint32_t both = copy[i / 2];
            LaneBits bits;
            append(int32_t(both << 16) >> 16, bits);
            if (i + 1 < coded) {
                append(int32_t(both) >> 16, bits);
            }
            visit(bits);
        }
    }
};

// Writes the bits of a dense tile, in which each zero has a symbol of its own. `has_large` says whether codes that are
// not small are likely. Lane `i` below QUADS gets the first bit of strip `i` in `start`. Returns whether there is room.
// Called by the whole warp.
__device__ inline bool write_dense(const int16_t *codes, bool has_large, const uint32_t *codewords,
                                   const uint32_t *small, OrdinaryMemory &memory, TileBits &to, uint32_t &start) {
    const LaneCodes own(codes);
    const uint32_t coded = own.coded();
    const SmallGroups groups(own, has_large ? 0 : coded, small);
    uint32_t count = groups.count();
    const bool is_small = !has_large & __all_sync(ALL_LANES, groups.fits());
    const CodePairs pairs(own, coded, codewords, small, memory);
    if (!is_small) {
        count = 0;
        pairs.for_each([&](const LaneBits &bits) { count += bits.count; });
    }
    const bool has_room = to.place(count);
    start = __shfl_sync(ALL_LANES, to.at, lane_id() * LANES_OF_STRIP % WARP);
    if (!has_room) {
        return false;
    }
    if (is_small) {
        groups.put(to.words, to.at);
    } else {
        uint32_t at = to.at;
        pairs.for_each([&](const LaneBits &bits) {
            bits.put(to.words, at);
            at += bits.count;
        });
    }
    return true;
}

// The bits of a value that is not 0 and of the zeros in front of it, if one symbol stands for both. Returns whether the
// codebook has it.
__device__ inline bool append_symbol(const uint32_t *codewords, uint32_t zeros, int32_t value, LaneBits &to) {
    const uint32_t magnitude = value < 0 ? -uint32_t(value) : uint32_t(value), size = 31 - __clz(int32_t(magnitude));
    uint32_t symbol = zeros * SIZES + size, extra_bits = size + 1,
             extra = (magnitude << 1 | uint32_t(value) >> 31) - (2u << size);
    if (zeros == 0 && magnitude <= SMALL) {
        symbol = strips::FIRST_SMALL + SMALL + uint32_t(value) - (value > 0 ? 1 : 0);
        extra_bits = extra = 0;
    }
    const uint32_t codeword = zeros < LONGEST_RUN ? codewords[symbol] : 0;
    if (codeword == 0) {
        return false;
    }
    to.append((codeword >> 8) << extra_bits | extra, (codeword & 0xFF) + extra_bits);
    return true;
}

// Writes the bits of a tile that is not dense: see `write_dense`. `starts` is memory for QUADS words.
__device__ inline bool write_sparse(const int16_t *codes, const uint32_t *codewords, OrdinaryMemory &memory,
                                    uint32_t *starts, TileBits &to, uint32_t &start) {
    if (lane_id() < QUADS) {
        starts[lane_id()] = ~0u;
    }
    const LaneValues own(codes, memory);
    auto has = [&](uint32_t symbol) { return codewords[symbol] != 0; };
    LaneBits bits;
    own.for_each([&](uint32_t strip, bool begins, uint32_t zeros, int32_t value) {
        if (begins) {
            starts[strip] = lane_id() << 16 | bits.count;
        }
        if (!append_symbol(codewords, zeros, value, bits)) {
            for_symbols(zeros, value, false, has, [&](uint32_t symbol, uint32_t extra, uint32_t extra_bits) {
                const uint32_t codeword = codewords[symbol];
                bits.append(codeword >> 8, codeword & 0xFF);
                bits.bits = extra_bits == 32 ? bits.bits << 32 : bits.bits << extra_bits;
                bits.bits |= extra;
                bits.count += extra_bits;
            });
        }
    });
    const bool has_room = to.place(bits.count);
    // Strips without values start where the next one does.
    const uint32_t first = lane_id() < QUADS ? starts[lane_id()] : ~0u;
    start = __shfl_sync(ALL_LANES, to.at, first >> 16 & 31) + (first & 0xFFFF);
    start = first == ~0u ? to.bits : start;
#pragma unroll
    for (uint32_t distance = 1; distance < QUADS; distance *= 2) {
        start = min_of(start, __shfl_down_sync(ALL_LANES, start, distance));
    }
    if (!has_room) {
        return false;
    }
    if (__all_sync(ALL_LANES, bits.count <= 64)) {
        bits.put(to.words, to.at);
    } else {
        BitPacker packer(to.words, to.at);
        own.for_each([&](uint32_t, bool, uint32_t zeros, int32_t value) {
            for_symbols(zeros, value, false, has, [&](uint32_t symbol, uint32_t extra, uint32_t extra_bits) {
                packer.put(codewords[symbol] >> 8, codewords[symbol] & 0xFF);
                packer.put(extra, extra_bits);
            });
        });
        packer.finish();
    }
    return true;
}
