// Encoding a small batch with codebooks that there are, in one launch: see huffman/encode/small.cuh, which has the
// constants.
#define WHOLE 0
#include "device/sync.cuh"
#include "huffman/encode/together.cuh"

// Vectors of four codewords, and how many of them a thread has.
constexpr uint32_t VECTORS = ALPHABET / 4, OWN_VECTORS = (VECTORS + THREADS - 1) / THREADS;
static_assert(ALPHABET % 4 == 0, "whole vectors");

// Starts the copy of a word to shared memory; `copies_done` waits for a thread's own.
__device__ inline void copy_word(void *to, const void *from) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" : : "r"(shared_address(to)), "l"(from) : "memory");
#else
    *static_cast<uint32_t *>(to) = *static_cast<const uint32_t *>(from);
#endif
}
__device__ inline void copies_done() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" : : : "memory");
#endif
}

// Starts copying what the stream's frame has of its codebook. By the whole block.
__device__ inline void copy_frame(Shared &shared, uint32_t stream, const Books &books, const uint32_t *status) {
    static_assert(BOOK_BYTES % 4 == 0, "whole words");
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < BOOK_BYTES / 4; i += THREADS) {
        copy_word(shared.book + 4 * i, books.bytes + uint64_t(stream) * BOOK_BYTES + 4 * i);
    }
    if (threadIdx.x < 2) {
        copy_word(&shared.summary[threadIdx.x], &books.summaries[2 * stream + threadIdx.x]);
    }
    if (threadIdx.x == 2) {
        copy_word(&shared.status, &status[stream]);
    }
}

// Warps have room for `most_rounds` rounds, blocks for `most_groups` groups, a multiple of UNIT_GROUPS and 31 less than
// THREADS at most.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    encode_small(const uint8_t *symbols, const __grid_constant__ StreamList list, const uint32_t *codewords,
                 Books books, uint32_t *status, uint32_t most_rounds, uint32_t most_groups, uint64_t *memory,
                 Result result) {
    extern __shared__ __align__(16) uint8_t dynamic[];
    __shared__ Shared shared;
    const uint32_t slot_words = most_rounds * ROUND_WORDS + PAST_SLOT;
    uint8_t *table = dynamic;
    uint32_t *slots = reinterpret_cast<uint32_t *>(dynamic + 4 * ALPHABET);
    uint16_t *lengths = reinterpret_cast<uint16_t *>(slots + WARPS * slot_words), *live_lengths = lengths + most_groups;
    const BlockGaps gaps(live_lengths, most_groups, table);
    const uint32_t warp = same_for_all(warp_id());
    uint32_t *slot = slots + warp * slot_words;
    const Share share = own_share(list);
    // The warp's rounds.
    const uint32_t rounds_of_block = share.units * UNIT_ROUNDS;
    const uint32_t round_begin = rounds_of_block * warp / WARPS, round_end = rounds_of_block * (warp + 1) / WARPS;
    const uint32_t stream_symbols = share.groups * GROUP, last = stream_symbols - LANE_SYMBOLS;
    const uint8_t *from = symbols + share.first_group * GROUP * SYMBOL_BYTES;
    const uint32_t first_at = share.first * UNIT_GROUPS * GROUP;
    uint32_t at = first_at + round_begin * WARP_SYMBOLS + lane_id() * LANE_SYMBOLS;
    launch_dependents_and_wait();
    // Nothing can start without the table: its codewords are asked for first, by the warps that are there first.
    const uint4 *of_stream = reinterpret_cast<const uint4 *>(codewords + uint64_t(share.stream) * ALPHABET);
    uint4 entries[OWN_VECTORS];
#pragma unroll
    for (uint32_t i = 0; i < OWN_VECTORS; ++i) {
        if (i * THREADS + threadIdx.x < VECTORS) {
            entries[i] = of_stream[i * THREADS + threadIdx.x];
        }
    }
    LaneSymbols here, next;
    const auto load = [&](LaneSymbols &own, uint32_t round, uint32_t own_at) {
        if (round < round_end) {
            own.load(from + min_of(own_at, last) * SYMBOL_BYTES);
        }
    };
    load(here, round_begin, at);
    load(next, round_begin + 1, at + WARP_SYMBOLS);
    if (warp == 0 && lane_id() < list.streams) {
        copy_word(&shared.book_bytes[lane_id()], &books.summaries[2 * lane_id()]);
    }
    if (share.has_frame()) {
        copy_frame(shared, share.stream, books, status);
    }
    // While all that is under way.
#pragma unroll 1
    for (uint32_t i = lane_id(); i < slot_words / 4; i += WARP) {
        reinterpret_cast<uint4 *>(slot)[i] = make_uint4(0, 0, 0, 0);
    }
    if (warp == 0) {
        clear_shared(shared, list);
    }
#pragma unroll
    for (uint32_t i = 0; i < OWN_VECTORS; ++i) {
        if (i * THREADS + threadIdx.x < VECTORS) {
            const uint4 own = entries[i];
            reinterpret_cast<uint4 *>(table)[i * THREADS + threadIdx.x] =
                make_uint4(entry_of(own.x), entry_of(own.y), entry_of(own.z), entry_of(own.w));
        }
    }
    __syncthreads();
    Encoding own = {0, 0, 0, 0, 0, 0};
    const uint32_t free_word = spread_symbol(share.free_symbol), slot_at = shared_address(slot);
#pragma unroll 1
    for (uint32_t round = round_begin; round < round_end; ++round) {
        encode_round(here, at, stream_symbols, free_word, table, slot_at, lengths + round * ROUND_GROUPS,
                     gaps.starts + round * WARP, own);
        here = next;
        load(next, round + 2, at + 2 * WARP_SYMBOLS);
        at += WARP_SYMBOLS;
    }
    copies_done();
    const Work work{list,    share,        states_at(memory), slots,     slot_words,
                    lengths, live_lengths, round_begin,       round_end, gaps};
    // What symbols the gaps need again is known only now: most often they are still in the second-level cache.
    write_streams(
        shared, work, own, status, result, [] {},
        [=](LaneSymbols &of_turn, uint32_t turn) {
            load(of_turn, round_begin + turn / WARP, first_at + round_begin * WARP_SYMBOLS + turn * LANE_SYMBOLS);
        });
}
