// Encoding a small batch from its symbols on, codebooks and all, in one launch: what huffman/encode/books.cu,
// huffman/codebook/small.cu and the kernels of encoding do in five.
//
// Blocks share streams as huffman/encode/small.cuh says. A block counts its symbols, which stay in shared memory, adds
// the counts to the stream's, and when all blocks of the stream have done so it sorts the symbols by them, as the
// others do. The trees of a codebook (see huffman/codebook/small.cu) are dealt out; every block takes the best, and so
// has the codewords at hand.
//
// COPIES  copies of the counters in a block
// INDEX, THREADS and the constants of huffman/encode/small.cuh and huffman/codebook/small.cuh, of which SYMBOLS is
// ALPHABET and COUNT_BITS is 32
#define WHOLE 1
#include "device/sync.cuh"
#include "huffman/encode/counts.cuh"
#include "huffman/encode/together.cuh"
// Both have names of their own for what they have alike.
namespace codebook {
#include "huffman/codebook/tree_alone.cuh"
}
static_assert(SYMBOLS == ALPHABET && SYMBOLS <= THREADS, "a thread a symbol");

// What a codebook comes to, as huffman/codebook/small.cu leaves it.
struct Made {
    uint32_t *codewords;
    uint16_t *symbols_by_codeword;
    uint32_t *summary, *summaries;
    uint8_t *bytes;
};

// What blocks of a stream work on together, behind what they say of themselves; all is 0 before and after.
constexpr uint32_t TREES = FLOORS + 1, TREE_WORDS = WARP + 1;
struct Together {
    uint32_t *counts; // of each symbol, and above it how many blocks have added theirs
    uint32_t *trees;  // of each the numbers of codewords of each length, and their bits
    uint32_t *due;    // whether there are more trees than the first
};
constexpr uint32_t IS_DUE = 2, NOT_DUE = 1, SAID_WORD = 1u << 31;
__device__ inline Together together_at(uint64_t *memory, uint32_t stream) {
    uint32_t *words = reinterpret_cast<uint32_t *>(memory) + state_words(), *trees = words + MOST_STREAMS,
             *counts = trees + MOST_STREAMS * TREES * TREE_WORDS;
    return {counts + stream * ALPHABET, trees + stream * TREES * TREE_WORDS, words + stream};
}

// Memory of a codebook while it is made: where later the warps' codewords are.
constexpr uint32_t CODEBOOK_BYTES = sizeof(codebook::Shared) + TREES_AT_ONCE * LEAST_TREE_BYTES;
static_assert(CODEBOOK_BYTES % 16 == 0 && 4 * COPIES * ALPHABET <= CODEBOOK_BYTES, "counters have room too");

// Where in a symbol's word the blocks are counted: whoever sees that all have added theirs needs no fence.
constexpr uint32_t ADDED_AT = 24;

// Adds what the block has counted to the stream's counts, waits until all its blocks have done so, and returns the
// thread's. By the whole block.
__device__ inline uint32_t add_counts(const uint32_t *counters, const Together &together, uint32_t blocks) {
    __syncthreads();
    uint32_t all = 0;
    if (threadIdx.x < ALPHABET) {
        uint32_t sum = 1u << ADDED_AT;
#pragma unroll
        for (uint32_t copy = 0; copy < COPIES; ++copy) {
            // Rotated by thread: the same copy of neighboring counters may be in the same bank.
            sum += counters[threadIdx.x * COPIES + (copy + threadIdx.x) % COPIES];
        }
        atomicAdd(&together.counts[threadIdx.x], sum);
        do {
            all = wait_for(&together.counts[threadIdx.x]);
        } while (all >> ADDED_AT != blocks);
    }
    return all % (1u << ADDED_AT);
}

// Makes the stream's trees, which its blocks share; `codes` then has all that there are to choose from. Returns whether
// that is more than the first. By the whole block.
__device__ inline bool share_trees(const codebook::Shared &book, uint32_t used, uint8_t *memory,
                                   const Together &together, const Share &share, codebook::Lengths *codes,
                                   uint32_t &rounds) {
    __shared__ uint32_t due;
    if (used <= 1) {
        // One symbol has one bit.
        if (warp_id() == 0) {
            codes[0].at_length[lane_id()] = used == 1 && lane_id() == 1;
            codes[0].bits = book.sums[used];
        }
        __syncthreads();
        return false;
    }
    const uint32_t bytes = codebook::tree_bytes(used),
                   at_once = min_of(codebook::MOST_TEAMS, TREES_AT_ONCE * LEAST_TREE_BYTES / bytes),
                   total = book.sums[used];
    const uint32_t to_make = codebook::trees_to_make(book.counts[0], total), trees = __popc(to_make);
    // Back and forth, so that where there are many blocks the first tree, which all wait for, is alone in its block.
    auto rank_of = [&](uint32_t turn) {
        return turn * share.blocks + (turn % 2 == 0 ? share.blocks - 1 - share.index : share.index);
    };
#pragma unroll 1
    for (uint32_t turn = 0; turn * share.blocks < trees; turn += at_once) {
        const codebook::TreeTeam team(codebook::TEAM_WARPS);
        const uint32_t rank = rank_of(turn + team.number);
        if (team.number < at_once && rank < trees) {
            const uint32_t number = codebook::set_bit(to_make, rank), floor = codebook::floor_of_tree(number, total);
            uint8_t *const own_memory = memory + team.number * bytes;
            const codebook::Melding at =
                codebook::meld_by_team<codebook::RoundsByWarps>(team, book, used, floor, own_memory);
            const bool limited =
                team.rank() < WARP && codebook::note_tree<false>(book, used, floor, own_memory, codes[number]).limited;
            const bool is_due = number == 0 && codebook::tries_are_due_alone(team, limited, used, own_memory, codes[0]);
            if (team.rank() < WARP) {
                __syncwarp();
                say(&together.trees[number * TREE_WORDS + lane_id()], SAID_WORD | codes[number].at_length[lane_id()]);
                if (lane_id() == 0) {
                    say(&together.trees[number * TREE_WORDS + WARP], SAID_WORD | codes[number].bits);
                    if (number == 0) {
                        say(together.due, is_due ? IS_DUE : NOT_DUE);
                        rounds = at.rounds;
                    }
                }
            }
        }
        team.even_out();
        __syncthreads();
    }
    auto take = [&](uint32_t i) {
        const uint32_t tree = i / TREE_WORDS, length = i % TREE_WORDS;
        if ((to_make >> tree & 1) == 0) {
            codes[tree].bits = ~0u;
            return;
        }
        const uint32_t word = wait_for(&together.trees[i]) & ~SAID_WORD;
        if (length < WARP) {
            codes[tree].at_length[length] = word;
        } else {
            codes[tree].bits = word;
        }
    };
    if (threadIdx.x < TREE_WORDS) {
        take(threadIdx.x);
    }
    if (threadIdx.x == THREADS - 1) {
        due = wait_for(together.due);
    }
    __syncthreads();
    const bool is_due = due == IS_DUE;
    if (is_due) {
#pragma unroll 1
        for (uint32_t i = TREE_WORDS + threadIdx.x; i < TREES * TREE_WORDS; i += THREADS) {
            take(i);
        }
        __syncthreads();
    }
    return is_due;
}

// Shared memory for the codebook beside that which later has codewords.
struct Making {
    codebook::Lengths codes[TREES];
    alignas(4) uint16_t of_warp[WARPS][codebook::WARP_ROW]; // while symbols are sorted, numbers of buckets
    uint32_t last_symbol;

    // Before anything else of it is touched; by the whole block.
    __device__ inline void clear() {
        static_assert(WARPS * WARP / 2 <= THREADS, "a thread a word");
        if (threadIdx.x < WARPS * WARP / 2) {
            reinterpret_cast<uint32_t *>(of_warp)[threadIdx.x] = 0;
        }
        if (threadIdx.x == 0) {
            last_symbol = 0;
        }
    }
};

// From the stream's counts, of which each thread has one, to the table of codewords. By the whole block; that with the
// frame writes the codebook, and makes the first tree. `making` and the lengths in `memory` have been cleared.
__device__ inline void make_codebook(uint32_t own_count, uint8_t *memory, const Together &together, const Share &share,
                                     const Made &made, const States &states, Making &making, Shared &shared,
                                     uint8_t *table) {
    codebook::Shared &book = *reinterpret_cast<codebook::Shared *>(memory);
    uint8_t *trees = memory + sizeof(codebook::Shared);
    auto &[codes, of_warp, last_symbol] = making;
    const uint32_t are_used = __ballot_sync(ALL_LANES, own_count != 0);
    if (lane_id() == 0 && are_used != 0) {
        atomicMax(&last_symbol, warp_id() * WARP + WARP - __clz(are_used));
    }
    const uint32_t own[codebook::OWN] = {own_count};
    const uint32_t used = codebook::sort_used(own, 1, book, of_warp[0], trees);
    codebook::sum_counts(book, used);
    uint32_t rounds = 0;
    const bool due = share_trees(book, used, trees, together, share, codes, rounds);
    uint32_t bits;
    const uint32_t at_length = codebook::best_code(codes, due, bits), alphabet = last_symbol;
    const bool writes = share.has_frame();
    uint32_t *codewords = made.codewords + uint64_t(share.stream) * ALPHABET;
    uint16_t *symbols_by_codeword = made.symbols_by_codeword + uint64_t(share.stream) * ALPHABET;
    uint16_t *starts = reinterpret_cast<uint16_t *>(trees);
    const auto put = [&](uint32_t symbol, uint32_t codeword, uint32_t place) {
        reinterpret_cast<uint32_t *>(table)[symbol] = entry_of(codeword);
        if (writes) {
            codewords[symbol] = codeword;
            if (codeword != 0) {
                symbols_by_codeword[place] = symbol;
            }
        }
    };
    const codebook::NewCode code = codebook::assign_codewords(book, used, alphabet, at_length, of_warp, starts, put);
    __syncthreads();
    if (writes) {
        uint32_t *summary = made.summary + share.stream * codebook::SUMMARY_WORDS;
        if (warp_id() == 0) {
            summary[codebook::SUMMARY_FIRST + lane_id()] = code.first_code;
            summary[codebook::SUMMARY_ENTRY + lane_id()] = code.entry;
        }
        const uint32_t bytes = codebook::write_bytes(book, starts, code.runs, alphabet, shared.book);
        if (threadIdx.x == 0) {
            say(&states.books[share.stream], SAID | bytes);
            summary[codebook::SUMMARY_USED] = used;
            summary[codebook::SUMMARY_LONGEST] = code.longest;
            summary[codebook::SUMMARY_STATUS] = 0;
            summary[codebook::SUMMARY_ROUNDS] = rounds;
            for (uint32_t phase = 0; phase < 4; ++phase) {
                summary[codebook::SUMMARY_CYCLES + phase] = 0;
            }
            made.summaries[2 * share.stream] = shared.summary[0] = bytes;
            made.summaries[2 * share.stream + 1] = shared.summary[1] = code.longest;
        }
        __syncthreads();
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < bytes; i += THREADS) {
            made.bytes[uint64_t(share.stream) * BOOK_BYTES + i] = shared.book[i];
        }
    }
}

// Warps have room for `most_rounds` rounds, blocks for `most_groups` groups, a multiple of UNIT_GROUPS and 31 less than
// THREADS at most.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    encode_whole(const uint8_t *symbols, const __grid_constant__ StreamList list, Made made, uint32_t *status,
                 uint32_t most_rounds, uint32_t most_groups, uint64_t *memory, Result result) {
    extern __shared__ __align__(16) uint8_t dynamic[];
    __shared__ Shared shared;
    __shared__ Making making;
    const uint32_t slot_words = most_rounds * ROUND_WORDS + PAST_SLOT;
    uint8_t *table = dynamic;
    uint4 *kept = reinterpret_cast<uint4 *>(dynamic + 4 * ALPHABET);
    uint16_t *lengths = reinterpret_cast<uint16_t *>(kept + most_groups * (GROUP * SYMBOL_BYTES / 16)),
             *live_lengths = lengths + most_groups;
    // First the counters, then the codebook, then the codewords.
    uint32_t *slots = reinterpret_cast<uint32_t *>(live_lengths + most_groups * INDEX_ROOM + PAST_INDEX_ROOM);
    uint8_t *area = reinterpret_cast<uint8_t *>(slots);
    const BlockGaps gaps(live_lengths, most_groups, table);
    const uint32_t warp = same_for_all(warp_id());
    uint32_t *slot = slots + warp * slot_words;
    auto clear = [&](uint32_t begin, uint32_t end) {
#pragma unroll 1
        for (uint32_t i = begin / 16 + threadIdx.x; i < end / 16; i += THREADS) {
            reinterpret_cast<uint4 *>(area)[i] = make_uint4(0, 0, 0, 0);
        }
    };
    const Share share = own_share(list);
    // The warp's rounds.
    const uint32_t rounds_of_block = share.units * UNIT_ROUNDS;
    const uint32_t round_begin = rounds_of_block * warp / WARPS, round_end = rounds_of_block * (warp + 1) / WARPS;
    const uint32_t stream_symbols = share.groups * GROUP, last = stream_symbols - LANE_SYMBOLS;
    const uint32_t free_word = spread_symbol(share.free_symbol);
    const uint8_t *from = symbols + share.first_group * GROUP * SYMBOL_BYTES;
    const uint32_t own_at = share.first * UNIT_GROUPS * GROUP + lane_id() * LANE_SYMBOLS;
    const auto load = [&](LaneSymbols &own, uint32_t round) {
        if (round < round_end) {
            own.load(from + min_of(own_at + round * WARP_SYMBOLS, last) * SYMBOL_BYTES);
        }
    };
    const auto kept_of = [&](uint32_t round) { return kept + round * (LANE_VECTORS * WARP) + lane_id(); };
    const auto take = [&](LaneSymbols &own, const uint4 *from) {
#pragma unroll
        for (uint32_t v = 0; v < LANE_VECTORS; ++v) {
            const uint4 vector = from[v * WARP];
            own.words[4 * v] = vector.x;
            own.words[4 * v + 1] = vector.y;
            own.words[4 * v + 2] = vector.z;
            own.words[4 * v + 3] = vector.w;
        }
    };
    launch_dependents_and_wait();
    LaneSymbols here, next;
    load(here, round_begin);
    load(next, round_begin + 1);
    // While they are under way.
    clear(0, max_of(CODEBOOK_BYTES, 4 * WARPS * slot_words));
    making.clear();
    if (warp == 0) {
        clear_shared(shared, list);
    }
    __syncthreads();
    const uint32_t copy = shared_address(area) + lane_id() % COPIES * 4;
    const auto count = [&](const LaneSymbols &own, uint32_t round) {
#pragma unroll
        for (uint32_t v = 0; v < LANE_VECTORS; ++v) {
            kept_of(round)[v * WARP] =
                make_uint4(own.words[4 * v], own.words[4 * v + 1], own.words[4 * v + 2], own.words[4 * v + 3]);
        }
        const bool is_live = own_at + round * WARP_SYMBOLS < stream_symbols && own.differs_from(free_word);
        if ((__ballot_sync(ALL_LANES, is_live) & group_lanes()) != 0) {
            count_in_shared(own, copy);
        }
    };
#pragma unroll 1
    for (uint32_t round = round_begin; round < round_end; ++round) {
        count(here, round);
        here = next;
        load(next, round + 2);
    }
    const States states = states_at(memory);
    const Together together = together_at(memory, share.stream);
    const uint32_t own_count = add_counts(reinterpret_cast<const uint32_t *>(area), together, share.blocks);
    make_codebook(own_count, area, together, share, made, states, making, shared, table);
    clear(0, min_of(CODEBOOK_BYTES, 4 * WARPS * slot_words));
    __syncthreads();

    Encoding own = {0, 0, 0, 0, 0, 0};
    const uint32_t slot_at = shared_address(slot);
#pragma unroll 1
    for (uint32_t round = round_begin; round < round_end; ++round) {
        take(here, kept_of(round));
        encode_round(here, own_at + round * WARP_SYMBOLS, stream_symbols, free_word, table, slot_at,
                     lengths + round * ROUND_GROUPS, gaps.starts + round * WARP, own);
    }
    const Work work{list, share, states, slots, slot_words, lengths, live_lengths, round_begin, round_end, gaps};
    const auto load_turn = [&](LaneSymbols &of_turn, uint32_t turn) {
        take(of_turn, kept + (round_begin + turn / WARP) * (LANE_VECTORS * WARP) + turn % WARP);
    };
    const auto heard = [&] {
        // Nobody needs any more what the stream's blocks have worked on together.
        if (share.index == 0) {
            if (threadIdx.x < ALPHABET) {
                together.counts[threadIdx.x] = 0;
            }
#pragma unroll 1
            for (uint32_t i = threadIdx.x; i < TREES * TREE_WORDS; i += THREADS) {
                together.trees[i] = 0;
            }
            if (threadIdx.x == 0) {
                *together.due = 0;
            }
        }
    };
    write_streams(shared, work, own, status, result, heard, load_turn);
}
