// What the kernels share that decode a small batch in one launch: which block has what, entries of a table that a block
// makes itself, and the streams' status.
//
// THREADS         threads in a block
// LISTED          streams of a list at most
// LISTED_BLOCKS   blocks of a list at most
#pragma once
#include "huffman/decode/lookup.cuh"
#include "scan.cuh"

// Waits for so many threads of the block, whole warps, that come here: at barrier NUMBER, not 0.
template <uint32_t NUMBER> __device__ inline void some_threads(uint32_t count) {
    asm volatile("bar.sync %0, %1;" ::"n"(NUMBER), "r"(count) : "memory");
}

// The symbol of a window's codeword of so many bits, as an entry of one symbol.
__device__ inline uint32_t table_entry(const OwnBook &own, const uint16_t *symbols, uint32_t window, uint32_t length) {
    if (own.book.symbol_count == 0) {
        return 1;
    }
    const uint32_t place = min_of((window >> (32 - length)) + own.book.offset[length], own.book.symbol_count - 1);
#if LAST_SYMBOLS
    if (place >= own.last.first) {
        return length | uint32_t(own.last.symbols[place - own.last.first]) << 16;
    }
#endif
    return length | uint32_t(symbols[own.book.symbols + place]) << 16;
}

// Entries of a table of single symbols, from entry `begin` on, a multiple of four; `symbol` is added to those that are
// known, and those that are not are `longer`. By `threads` threads, this being number `thread`: a multiprocessor's
// warps share its instructions, so that each entry has no more of them than it needs.
__device__ inline void make_entries(uint32_t *to, const OwnBook &own, const uint16_t *symbols, const Steps &steps,
                                    uint32_t begin, uint32_t symbol, uint32_t longer, uint32_t thread,
                                    uint32_t threads) {
    // Four windows that start with the same LENGTH_BITS bits mostly start with the same codeword.
#pragma unroll 1
    for (uint32_t i = begin / 4 + thread; i < ceil_div(steps.first, 4); i += threads) {
        const uint32_t length = own.lengths[i], window = i << (32 - LENGTH_BITS);
        if (length != 0) {
            const uint32_t entry = table_entry(own, symbols, window, length) + symbol;
            reinterpret_cast<uint4 *>(to)[i] = make_uint4(entry, entry, entry, entry);
            continue;
        }
#pragma unroll 1
        for (uint32_t at = 4 * i; at < min_of(4 * i + 4, steps.first); ++at) {
            const uint32_t one = at << (32 - TABLE_BITS);
            to[at] = table_entry(own, symbols, one, own.longer_than<LENGTH_BITS + 1, TABLE_BITS - 1>(one)) + symbol;
        }
    }
    // Threads that had less of those begin.
    const uint32_t longest = max_of(1u, own.book.longest);
#pragma unroll 1
    for (uint32_t i = steps.first + (threads - 1 - thread); i < steps.entries(); i += threads) {
        // Bits that are no codeword have the greatest length.
        const uint32_t window = steps.window(i),
                       length = min_of(longest, own.longer_than<TABLE_BITS + 1, LONGEST - 1>(window));
        to[i] = length <= steps.known(i) ? table_entry(own, symbols, window, length) + symbol : longer;
    }
}

// The table of a codebook, of single symbols or `of_runs` of the first, `common`, with extents in symbols or in bytes:
// of `ONE` each. Where no codeword is one bit, runs are of one symbol each. By `threads` threads, this being number
// `thread`.
template <uint32_t ONE>
__device__ inline void make_table(uint32_t *to, const OwnBook &own, const uint16_t *symbols, const Steps &steps,
                                  bool of_runs, uint32_t common, uint32_t thread, uint32_t threads) {
    const bool has_runs = of_runs && own.book.limit[1] != 0 && own.book.symbol_count != 0;
    // Those that start with another codeword; the others have theirs behind zeros.
    make_entries(to, own, symbols, steps, has_runs ? TABLE / 2 : 0, of_runs ? ONE : 0,
                 of_runs ? 0 : LONGER | LONGER_LENGTH, thread, threads);
    if (!has_runs) {
        return;
    }
    some_threads<1>(threads);
#pragma unroll 1
    for (uint32_t i = thread; i < TABLE / 2; i += threads) {
        const uint32_t zeros = __clz(i << 1 | 1) - (31 - TABLE_BITS), behind = i << zeros;
        to[i] = run_entry(zeros, ONE, behind < steps.first ? to[zeros == TABLE_BITS ? TABLE / 2 : behind] : 0, common);
    }
}

// The share of a block, units `first` to `end` of a stream, of whose blocks it is number `index` of `blocks`; of no
// blocks if it has none.
struct alignas(8) Part {
    uint16_t first, end;
    uint8_t stream, index, blocks, unused;
};

// The streams of a batch and which block has what, as an argument of the launch: blocks need not read and add up what
// all streams have before they begin. huffman/decode/listed.rs fills it in.
struct List {
    uint32_t count; // 0: streams are not listed
    uint32_t most;  // units of a block
    Part parts[LISTED_BLOCKS];
    Stream streams[LISTED];
};

// Copies the listed streams to shared memory, all of them, as a block would have to wait for which one it needs. By the
// whole block, to be followed by a barrier.
__device__ inline void copy_listed(const List &list, Stream *to) {
    static_assert(LISTED <= THREADS / WARP && sizeof(Stream) / 4 <= WARP, "a warp for each, and a lane for each word");
    if (warp_id() < list.count && lane_id() < sizeof(Stream) / 4) {
        reinterpret_cast<uint32_t *>(&to[warp_id()])[lane_id()] =
            reinterpret_cast<const uint32_t *>(&list.streams[warp_id()])[lane_id()];
    }
}

// What the blocks of a stream add up: a word for the sum of their symbols and one for the weighted sum, each with the
// number of blocks that have added from bit TALLIED up, so that whoever is the last learns the whole sum from its own
// addition, and nobody has to wait until others' sums are to be seen in memory. The first word also counts the blocks
// that found the index or the number of symbols wrong. The last at either word meet at `met`, where the second has
// both. All 0 before and after. There are fewer than 256 blocks.
struct Tally {
    unsigned long long sums[2];
    uint32_t met, unused;
};
constexpr uint32_t TALLIED = 40, WRONG_INDEX = 48, WRONG_COUNT = 56;

// Adds a block's sums to its stream's, as each of the stream's `blocks` does once; the last one writes the status. What
// that was before stays if `keeps`. By a warp, whose lane 0 has the sum of the symbols and what is `expected` of it,
// lane 1 the weighted one. Whether this was the last.
__device__ inline bool add_to_tally(Tally &tally, uint32_t own, uint32_t problems, uint32_t blocks, uint32_t expected,
                                    bool keeps, uint32_t *status) {
    bool is_last = false;
    if (lane_id() < 2) {
        const uint32_t wrong = lane_id() != 0 ? 0
                                              : (problems & STATUS_INDEX ? 1u << (WRONG_INDEX - 32) : 0) |
                                                    (problems & STATUS_COUNT ? 1u << (WRONG_COUNT - 32) : 0);
        const unsigned long long more = own | uint64_t(wrong | 1u << (TALLIED - 32)) << 32;
        const unsigned long long all = atomicAdd(&tally.sums[lane_id()], more) + more;
        if ((uint32_t(all >> TALLIED) & 0xFF) == blocks) {
            const uint32_t found = (uint32_t(all) != expected ? STATUS_CHECKSUM : 0) |
                                   (uint32_t(all >> WRONG_INDEX) & 0xFF ? STATUS_INDEX : 0) |
                                   (all >> WRONG_COUNT ? STATUS_COUNT : 0);
            const uint32_t before = atomicAdd(&tally.met, 1 | found << (8 + 8 * lane_id()));
            is_last = (before & 0xFF) == 1;
            if (is_last) {
                *status = (keeps ? *status : 0) | found | ((before >> 8 | before >> 16) & 0xFF);
                tally.sums[0] = tally.sums[1] = 0;
                tally.met = 0;
            }
        }
    }
    return __any_sync(ALL_LANES, is_last);
}
