// XXH3-64 with seed 0 of bytes with an excluded range. The specification is doc/xxhash_spec.md of
// https://github.com/Cyan4973/xxHash.
//
// Long inputs consist of blocks of 1 KiB with 16 stripes of 64 bytes each. What the stripes add to the eight
// accumulators does not depend on the accumulators, so that the sums of all blocks are computed in parallel. Only
// scrambling the accumulators between blocks is serial.
#pragma once
#include "common.cuh"

constexpr uint32_t HASH_LANES = 8;
constexpr uint32_t STRIPE = 64, STRIPES_IN_BLOCK = 16, HASH_BLOCK = STRIPE * STRIPES_IN_BLOCK;
// Longer inputs use the algorithm for long inputs.
constexpr uint32_t LONGEST_SHORT = 240;

// The default secret, as little-endian words.
__constant__ uint64_t SECRET[24] = {
    0xBE4BA423396CFEB8ULL, 0x1CAD21F72C81017CULL, 0xDB979083E96DD4DEULL, 0x1F67B3B7A4A44072ULL, 0x78E5C0CC4EE679CBULL,
    0x2172FFCC7DD05A82ULL, 0x8E2443F7744608B8ULL, 0x4C263A81E69035E0ULL, 0xCB00C391BB52283CULL, 0xA32E531B8B65D088ULL,
    0x4EF90DA297486471ULL, 0xD8ACDEA946EF1938ULL, 0x3F349CE33F76FAA8ULL, 0x1D4F0BC7C7BBDCF9ULL, 0x3159B4CD4BE0518AULL,
    0x647378D9C97E9FC8ULL, 0xC3EBD33483ACC5EAULL, 0xEB6313FAFFA081C5ULL, 0x49DAF0B751DD0D17ULL, 0x9E68D429265516D3ULL,
    0xFCA1477D58BE162BULL, 0xCE31D07AD1B8F88FULL, 0x280416958F3ACB45ULL, 0x7E404BBBCAFBD7AFULL};

constexpr uint64_t PRIME32_1 = 0x9E3779B1, PRIME32_2 = 0x85EBCA77, PRIME32_3 = 0xC2B2AE3D;
constexpr uint64_t PRIME64_1 = 0x9E3779B185EBCA87, PRIME64_2 = 0xC2B2AE3D27D4EB4F, PRIME64_3 = 0x165667B19E3779F9;
constexpr uint64_t PRIME64_4 = 0x85EBCA77C2B2AE63, PRIME64_5 = 0x27D4EB2F165667C5;
constexpr uint64_t MIX_1 = 0x165667919E3779F9, MIX_2 = 0x9FB21C651E98DF25;

// Bytes to hash, without the `excluded_bytes` bytes from `excluded_at` on.
struct HashInput {
    const uint8_t *bytes;
    uint64_t length; // without the excluded bytes
    uint64_t excluded_at, excluded_bytes;

    __device__ inline const uint8_t *address(uint64_t at) const {
        return bytes + at + (at < excluded_at ? 0 : excluded_bytes);
    }
    __device__ inline uint64_t assembled(uint64_t at, uint32_t count) const {
        uint64_t word = 0;
        for (uint32_t i = 0; i < count; ++i) {
            word |= uint64_t(*address(at + i)) << 8 * i;
        }
        return word;
    }
    // Returns the eight bytes from any offset as a word.
    __device__ inline uint64_t word(uint64_t at) const {
        const uint8_t *from = address(at);
        if (reinterpret_cast<uint64_t>(from) % 8 == 0 && (at >= excluded_at || at + 8 <= excluded_at)) {
            return *reinterpret_cast<const uint64_t *>(from);
        }
        return assembled(at, 8);
    }
    __device__ inline uint64_t blocks() const { return length == 0 ? 0 : (length - 1) / HASH_BLOCK; }
};

__device__ inline uint64_t secret_word(uint32_t at) {
    const uint32_t shift = at % 8 * 8;
    return shift == 0 ? SECRET[at / 8] : SECRET[at / 8] >> shift | SECRET[at / 8 + 1] << (64 - shift);
}

__device__ inline uint64_t product_folded(uint64_t a, uint64_t b) { return a * b ^ __umul64hi(a, b); }

__device__ inline uint64_t avalanche(uint64_t hash) {
    hash = (hash ^ hash >> 37) * MIX_1;
    return hash ^ hash >> 32;
}

__device__ inline uint64_t avalanche_xxh64(uint64_t hash) {
    hash = (hash ^ hash >> 33) * PRIME64_2;
    hash = (hash ^ hash >> 29) * PRIME64_3;
    return hash ^ hash >> 32;
}

__device__ inline uint64_t rotated_left(uint64_t value, uint32_t by) { return value << by | value >> (64 - by); }

__device__ inline uint64_t bytes_swapped(uint64_t value) {
    return uint64_t(__byte_perm(uint32_t(value), 0, 0x0123)) << 32 | __byte_perm(uint32_t(value >> 32), 0, 0x0123);
}

__device__ inline uint64_t hash_to_16(const HashInput &input) {
    const uint32_t length = uint32_t(input.length);
    if (length > 8) {
        const uint64_t low = input.word(0) ^ SECRET[3] ^ SECRET[4];
        const uint64_t high = input.word(length - 8) ^ SECRET[5] ^ SECRET[6];
        return avalanche(length + bytes_swapped(low) + high + product_folded(low, high));
    }
    if (length >= 4) {
        const uint64_t first = input.assembled(0, 4), last = input.assembled(length - 4, 4);
        uint64_t hash = (last + (first << 32)) ^ SECRET[1] ^ SECRET[2];
        hash = (hash ^ rotated_left(hash, 49) ^ rotated_left(hash, 24)) * MIX_2;
        hash = (hash ^ ((hash >> 35) + length)) * MIX_2;
        return hash ^ hash >> 28;
    }
    if (length > 0) {
        const uint32_t first = *input.address(0), middle = *input.address(length / 2),
                       last = *input.address(length - 1);
        const uint32_t combined = first << 16 | middle << 24 | last | length << 8;
        return avalanche_xxh64(combined ^ uint64_t(uint32_t(SECRET[0]) ^ uint32_t(SECRET[0] >> 32)));
    }
    return avalanche_xxh64(SECRET[7] ^ SECRET[8]);
}

__device__ inline uint64_t mix_16(const HashInput &input, uint64_t at, uint32_t secret_at) {
    return product_folded(input.word(at) ^ secret_word(secret_at), input.word(at + 8) ^ secret_word(secret_at + 8));
}

// Hashes up to LONGEST_SHORT bytes. Called by one thread.
__device__ inline uint64_t hash_short(const HashInput &input) {
    const uint32_t length = uint32_t(input.length);
    if (length <= 16) {
        return hash_to_16(input);
    }
    uint64_t sum = length * PRIME64_1;
    if (length <= 128) {
        for (uint32_t i = 0; i < (length + 31) / 32; ++i) {
            sum += mix_16(input, 16 * i, 32 * i) + mix_16(input, length - 16 * (i + 1), 32 * i + 16);
        }
        return avalanche(sum);
    }
    for (uint32_t i = 0; i < 8; ++i) {
        sum += mix_16(input, 16 * i, 16 * i);
    }
    sum = avalanche(sum);
    for (uint32_t i = 8; i < length / 16; ++i) {
        sum += mix_16(input, 16 * i, 16 * (i - 8) + 3);
    }
    return avalanche(sum + mix_16(input, length - 16, 136 - 17));
}

// Returns on every lane of a warp the amount that the first `stripes` stripes of a block add to accumulator `lane % 8`.
__device__ inline uint64_t stripes_sum(const HashInput &input, uint64_t block, uint32_t stripes) {
    constexpr uint32_t AT_A_TIME = WARP / HASH_LANES;
    uint64_t values[STRIPES_IN_BLOCK / AT_A_TIME];
#pragma unroll
    for (uint32_t i = 0; i < STRIPES_IN_BLOCK / AT_A_TIME; ++i) {
        const uint32_t stripe = i * AT_A_TIME + lane_id() / HASH_LANES;
        values[i] =
            stripe < stripes ? input.word(block * HASH_BLOCK + stripe * STRIPE + lane_id() % HASH_LANES * 8) : 0;
    }
    uint64_t plain = 0, products = 0;
#pragma unroll
    for (uint32_t i = 0; i < STRIPES_IN_BLOCK / AT_A_TIME; ++i) {
        const uint32_t stripe = i * AT_A_TIME + lane_id() / HASH_LANES;
        const uint64_t keyed = values[i] ^ SECRET[stripe + lane_id() % HASH_LANES];
        plain += values[i];
        products += stripe < stripes ? uint64_t(uint32_t(keyed)) * uint32_t(keyed >> 32) : 0;
    }
    // The plain word is added to the neighboring accumulator.
    uint64_t sum = products + __shfl_xor_sync(ALL_LANES, plain, 1);
    sum += __shfl_xor_sync(ALL_LANES, sum, 8);
    return sum + __shfl_xor_sync(ALL_LANES, sum, 16);
}

__constant__ uint64_t FIRST_ACCUMULATORS[HASH_LANES] = {PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3,
                                                        PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1};

__device__ inline uint64_t scrambled(uint64_t accumulator, uint64_t key) {
    return (accumulator ^ accumulator >> 47 ^ key) * PRIME32_1;
}

// Returns the stripes of the last, partial block. The last 64 bytes of the input are added once more, even if they
// overlap.
__device__ inline uint32_t stripes_left(const HashInput &input) {
    return uint32_t((input.length - 1 - input.blocks() * HASH_BLOCK) / STRIPE);
}

// Returns the hash on every lane, from the accumulators after all stripes except the last 64 bytes. Lane `l` holds
// accumulator `l % 8`. Called by a whole warp.
__device__ inline uint64_t hash_finished(const HashInput &input, uint64_t accumulator) {
    const uint32_t lane = lane_id() % HASH_LANES;
    const uint64_t value = input.word(input.length - STRIPE + lane * 8);
    const uint64_t keyed = value ^ secret_word(121 + lane * 8);
    accumulator += uint64_t(uint32_t(keyed)) * uint32_t(keyed >> 32) + __shfl_xor_sync(ALL_LANES, value, 1);
    const uint64_t mixed = accumulator ^ secret_word(11 + lane * 8);
    uint64_t sum = product_folded(mixed, __shfl_xor_sync(ALL_LANES, mixed, 1));
    sum += __shfl_xor_sync(ALL_LANES, sum, 2);
    sum += __shfl_xor_sync(ALL_LANES, sum, 4);
    return avalanche(sum + input.length * PRIME64_1);
}

// Hashes input of any length, block after block. Called by a whole warp; every lane gets the hash.
__device__ inline uint64_t hash_by_warp(const HashInput &input) {
    if (input.length <= LONGEST_SHORT) {
        return hash_short(input);
    }
    uint64_t accumulator = FIRST_ACCUMULATORS[lane_id() % HASH_LANES];
    const uint64_t key = SECRET[16 + lane_id() % HASH_LANES];
    for (uint64_t block = 0; block < input.blocks(); ++block) {
        accumulator = scrambled(accumulator + stripes_sum(input, block, STRIPES_IN_BLOCK), key);
    }
    accumulator += stripes_sum(input, input.blocks(), stripes_left(input));
    return hash_finished(input, accumulator);
}
