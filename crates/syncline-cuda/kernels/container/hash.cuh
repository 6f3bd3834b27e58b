// XXH3-64 of pieces that several blocks share. The sums of each KiB are computed in parallel. The serial chain of
// scrambling is advanced by whichever block finds the next sums ready.
//
// THREADS  threads of a block
#pragma once
#include "container/hash_chain.cuh"

constexpr uint32_t HASH_WARPS = THREADS / WARP;

// KiB that a warp processes together, so that all their loads are in flight at once.
constexpr uint32_t KIB_AT_ONCE = 2;
constexpr uint32_t KIB_LOADS = HASH_BLOCK / (8 * WARP);

struct BlockKeys {
    uint64_t keys[KIB_LOADS];

    __device__ inline BlockKeys() {
#pragma unroll
        for (uint32_t i = 0; i < KIB_LOADS; ++i) {
            keys[i] = SECRET[i * (WARP / HASH_LANES) + lane_id() / HASH_LANES + lane_id() % HASH_LANES];
        }
    }
    // Returns the sums of a KiB for accumulator `lane % 8` on every lane, from each lane's words.
    __device__ inline uint64_t sum(const uint64_t *values) const {
        uint64_t plain = 0, products = 0;
#pragma unroll
        for (uint32_t i = 0; i < KIB_LOADS; ++i) {
            const uint64_t keyed = values[i] ^ keys[i];
            plain += values[i];
            products += uint64_t(uint32_t(keyed)) * uint32_t(keyed >> 32);
        }
        // The plain word is added to the neighboring accumulator.
        uint64_t sum = products + __shfl_xor_sync(ALL_LANES, plain, 1);
        sum += __shfl_xor_sync(ALL_LANES, sum, 8);
        return sum + __shfl_xor_sync(ALL_LANES, sum, 16);
    }
};

// State of a piece in a word that is 0 before and after: a bit for each part whose sums are ready, the number of parts
// already chained, and a flag that some block is chaining.
constexpr uint32_t MAX_HASH_PARTS = 56, CHAINED_AT = MAX_HASH_PARTS;
constexpr uint64_t CHAINING = uint64_t(1) << 63;
// Pieces of at least this many KiB are chained while they are read. For shorter ones the chain takes less time than
// handing it over.
constexpr uint32_t MIN_CONCURRENT_CHAIN = 512;

// The parts that a piece is read in. Each is a whole number of a block's iterations.
struct HashParts {
    uint32_t blocks, each, count;

    __device__ inline HashParts(uint32_t blocks, uint32_t most) : blocks(blocks) {
        constexpr uint32_t TURN = HASH_WARPS * KIB_AT_ONCE;
        each = max_of(ceil_div(ceil_div(blocks, most), TURN), 1u) * TURN;
        count = max_of(ceil_div(blocks, each), 1u);
    }
    __device__ inline uint32_t end(uint32_t part) const { return min_of((part + 1) * each, blocks); }
    __device__ inline uint64_t all() const { return (uint64_t(1) << count) - 1; }
};

// Computes the sums of the KiB of a part. Called by the whole block.
__device__ inline void read_part(const HashInput &input, uint32_t begin, uint32_t end, uint64_t *sums) {
    const BlockKeys keys;
    uint32_t block = begin + warp_id();
    // KiB that contain the excluded range, or are not aligned to words.
    const bool aligned = reinterpret_cast<uint64_t>(input.bytes + input.excluded_bytes) % 8 == 0;
    for (; block < end && (!aligned || uint64_t(block) * HASH_BLOCK < input.excluded_at); block += HASH_WARPS) {
        const uint64_t sum = stripes_sum(input, block, STRIPES_IN_BLOCK);
        if (lane_id() < HASH_LANES) {
            sums[uint64_t(block) * HASH_LANES + lane_id()] = sum;
        }
    }
    const uint64_t *words = reinterpret_cast<const uint64_t *>(input.bytes + input.excluded_bytes) + lane_id();
    for (; block < end; block += KIB_AT_ONCE * HASH_WARPS) {
        uint64_t values[KIB_AT_ONCE][KIB_LOADS];
#pragma unroll
        for (uint32_t k = 0; k < KIB_AT_ONCE; ++k) {
            const uint64_t *from = words + uint64_t(min_of(block + k * HASH_WARPS, end - 1)) * (HASH_BLOCK / 8);
#pragma unroll
            for (uint32_t i = 0; i < KIB_LOADS; ++i) {
                values[k][i] = from[i * WARP];
            }
        }
#pragma unroll
        for (uint32_t k = 0; k < KIB_AT_ONCE; ++k) {
            const uint64_t sum = keys.sum(values[k]);
            if (lane_id() / HASH_LANES == k && block + k * HASH_WARPS < end) {
                sums[uint64_t(block + k * HASH_WARPS) * HASH_LANES + lane_id() % HASH_LANES] = sum;
            }
        }
    }
}

// Acquire and release: writes of this block before its last barrier become visible to blocks that see the bits, and
// their writes to this one.
__device__ inline uint64_t atomic_or(uint64_t *word, uint64_t bits) {
    uint64_t before;
    asm volatile("atom.acq_rel.gpu.or.b64 %0, [%1], %2;" : "=l"(before) : "l"(word), "l"(bits) : "memory");
    return before;
}
__device__ inline uint64_t atomic_add(uint64_t *word, uint64_t more) {
    uint64_t before;
    asm volatile("atom.acq_rel.gpu.add.u64 %0, [%1], %2;" : "=l"(before) : "l"(word), "l"(more) : "memory");
    return before;
}

// Records that a part is ready. If the next part of the chain is ready and no block is chaining, this block continues
// the chain as far as parts are ready. No block waits. Accumulators are handed over in place of the last sums that went
// into them. Called by the whole block. Returns true in the block that completes the chain, whose first warp gets the
// hash.
__device__ inline bool chain_parts(const HashInput &input, const HashParts &parts, uint32_t part, uint64_t *sums,
                                   uint64_t *progress, ChainScratch &scratch, uint64_t &hash) {
    const uint32_t lane = lane_id() % HASH_LANES;
    const bool meanwhile = parts.blocks >= MIN_CONCURRENT_CHAIN;
    const uint64_t own = uint64_t(1) << part;
    __syncthreads();
    if (threadIdx.x == 0) {
        scratch.state = atomic_or(progress, meanwhile ? own | CHAINING : own) | own;
    }
    __syncthreads();
    uint64_t state = scratch.state;
    if (meanwhile ? (state & CHAINING) != 0 : (state & parts.all()) != parts.all()) {
        return false;
    }
    while (true) {
        const uint32_t next = uint32_t(state >> CHAINED_AT) % 64,
                       until = next + __ffsll(~((state & parts.all()) >> next)) - 1;
        const uint32_t from = next * parts.each, to = min_of(until * parts.each, parts.blocks);
        uint64_t accumulator =
            next == 0 ? FIRST_ACCUMULATORS[lane] : __ldcg(&sums[uint64_t(from - 1) * HASH_LANES + lane]);
        const bool ends = until == parts.count;
        uint64_t rest = 0;
        if (ends && warp_id() == 0) {
            rest = stripes_sum(input, parts.blocks, stripes_left(input));
        }
        accumulator = chain_blocks(sums, from, to, accumulator, scratch);
        if (ends) {
            if (threadIdx.x == 0) {
                *progress = 0;
            }
            hash = warp_id() > 0 ? 0 : hash_finished(input, accumulator + rest);
            return true;
        }
        if (threadIdx.x < HASH_LANES && to > from) {
            sums[uint64_t(to - 1) * HASH_LANES + lane] = accumulator;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            // Adding the flag's bit clears it, because it is the highest.
            state = atomic_add(progress, (uint64_t(until - next) << CHAINED_AT) + CHAINING);
            // A part that became ready after this block last looked and before it cleared the flag: the block that read
            // it has left, so this one must continue.
            scratch.state = (state >> until & 1) != 0 ? atomic_or(progress, CHAINING) : CHAINING;
        }
        __syncthreads();
        state = scratch.state;
        if ((state & CHAINING) != 0) {
            return false;
        }
    }
}

// Loads a stored hash from any address.
__device__ inline uint64_t hash_at(const uint8_t *bytes) {
    uint64_t hash = 0;
    for (uint32_t i = 0; i < 8; ++i) {
        hash |= uint64_t(bytes[i]) << 8 * i;
    }
    return hash;
}

// Hashes a piece together with the other blocks that have a part of it. Called by the whole block. Returns true in the
// block that completes the hash, whose first thread gets it.
__device__ inline bool hash_by_parts(const HashInput &input, const HashParts &parts, uint32_t part, uint64_t *sums,
                                     uint64_t *progress, ChainScratch &scratch, uint64_t &hash) {
    if (input.length <= LONGEST_SHORT) {
        hash = hash_short(input);
        return true;
    }
    read_part(input, part * parts.each, parts.end(part), sums);
    return chain_parts(input, parts, part, sums, progress, scratch, hash);
}
