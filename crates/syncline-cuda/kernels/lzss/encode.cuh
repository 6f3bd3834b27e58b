// Shared by the methods of encoding data blocks as tokens. See lzss/lzss.cuh for its constants.
//
// LEVEL        level of the stage, 1 to 9
// WINDOW       maximum distance
// DEPTH        maximum number of candidates that are compared
// LENGTH_SPAN  difference between the longest and the shortest match
// ENOUGH       length of a match in symbols that ends the search
// IN_SHARED    1: the working memory of a data block is in shared memory; 0: it is in device memory, and a thread block
//              processes several data blocks
#pragma once
#include "lzss/slots.cuh"

using link_t = Unsigned<(WINDOW > 255 ? 2 : 1)>::type;
// A match: its length minus the shortest length, followed by its distance. A literal is 0.
using token_t = Unsigned<2 * DISTANCE_BYTES>::type;
constexpr uint32_t DISTANCE_BITS = 8 * DISTANCE_BYTES;

constexpr uint32_t PADDING = 32; // bytes after a data block that may be loaded

// Working memory of a data block. It first contains data and links; once matches are known, exits and the information
// on chunks take their place.
constexpr uint32_t LINKS_AT = BLOCK_BYTES + PADDING;
constexpr uint32_t EXITS_AT = 0;
constexpr uint32_t INFO_AT = SYMBOLS * 2;
constexpr uint32_t INFO_BYTES = CHUNKS * 17 + 15;
constexpr uint32_t SEARCH_BYTES = LINKS_AT + SYMBOLS * sizeof(link_t), SELECTION_BYTES = INFO_AT + INFO_BYTES;
constexpr uint32_t TOKENS_AT = align16(SEARCH_BYTES > SELECTION_BYTES ? SEARCH_BYTES : SELECTION_BYTES);
constexpr uint32_t WORK_BYTES = TOKENS_AT + SYMBOLS * sizeof(token_t);
static_assert(WORK_BYTES == WORK_BYTES_IN_RUST, "the launcher reserves as much");

// Maps positions such that the same position of neighboring chunks is in different banks. Threads can then process one
// chunk each without conflicts, and so can lanes that share a chunk.
__device__ inline uint32_t bank_position(uint32_t position) { return position ^ (position >> 5 & 31); }

// Returns the number of trailing zero bits; 32 for 0.
__device__ inline uint32_t trailing_zeros(uint32_t word) { return __clz(__brev(word)); }

struct Work {
    uint32_t *data;
    uint32_t address; // in shared memory, of all this, if it is there
    link_t *links;    // distance to the last position with the same hash; 0 if there is none in the window
    token_t *tokens;  // token that could start at a position, at bank_position(position)
    uint16_t *exits;  // symbols after its chunk at which the path from a position leaves it, at bank_position(position)
    uint32_t *starts; // bitmap of the positions in a chunk at which tokens start
    uint32_t *flags;  // flags of a chunk, and after them those of all tokens
    uint32_t *places; // tokens before a chunk, and matches in the upper half
    uint32_t *all_flags;
    uint8_t *entries; // position in a chunk at which its first token starts, or NO_ENTRY
    uint64_t *warp_sums;
    uint32_t symbols; // of this data block
    uint32_t bytes;
    uint32_t min_match;

    __device__ inline Work(uint8_t *memory, uint64_t *sums) {
        data = reinterpret_cast<uint32_t *>(memory);
        address = IN_SHARED ? shared_address(memory) : 0;
        links = reinterpret_cast<link_t *>(memory + LINKS_AT);
        tokens = reinterpret_cast<token_t *>(memory + TOKENS_AT);
        exits = reinterpret_cast<uint16_t *>(memory + EXITS_AT);
        starts = reinterpret_cast<uint32_t *>(memory + INFO_AT);
        flags = starts + CHUNKS;
        places = flags + CHUNKS;
        all_flags = places + CHUNKS;
        entries = reinterpret_cast<uint8_t *>(all_flags + CHUNKS);
        warp_sums = sums;
    }
    // Returns the number of symbols that a token at `position` covers.
    __device__ inline uint32_t covered(token_t token) const {
        return token == 0 ? 1 : (token >> DISTANCE_BITS) + min_match;
    }
};
constexpr uint32_t NO_ENTRY = 255;

// Loads the bytes of a data block, followed by zeros.
__device__ inline void load_block(const Work &work, const uint8_t *input) {
    const uint32_t vectors = work.bytes / 16;
    uint4 *data = reinterpret_cast<uint4 *>(work.data);
    for (uint32_t i = threadIdx.x; i < (BLOCK_BYTES + PADDING) / 16; i += THREADS) {
        uint4 vector = make_uint4(0, 0, 0, 0);
        if (i < vectors) {
            vector = __ldg(reinterpret_cast<const uint4 *>(input) + i);
        } else if (i == vectors) {
            uint32_t words[4] = {};
            for (uint32_t j = 0; j < work.bytes % 16; ++j) {
                words[j / 4] |= uint32_t(input[i * 16 + j]) << j % 4 * 8;
            }
            vector = make_uint4(words[0], words[1], words[2], words[3]);
        }
        data[i] = vector;
    }
}

// Number of words that are compared at a time. More words cost time where candidates are short; fewer cost time where
// most candidates are longer. For S = 2, 12 bytes measured within 5 % of the best for all inputs.
constexpr uint32_t REACH_WORDS = WIDTH == 1 ? 2 : WIDTH == 2 ? 3 : 4;
constexpr uint32_t REACH = REACH_WORDS * 4 / WIDTH; // in symbols
struct Front {
    uint32_t words[REACH_WORDS];
};

// Loads a word from working memory, OFFSET bytes after `at`. With pointers, the compiler computes the start of shared
// memory again for almost every load.
template <uint32_t OFFSET> __device__ inline uint32_t load_word(const Work &work, uint32_t at) {
    if (!IN_SHARED) {
        return *reinterpret_cast<const uint32_t *>(reinterpret_cast<const uint8_t *>(work.data) + at + OFFSET);
    }
    uint32_t word;
    asm volatile("ld.shared.u32 %0, [%1 + %2];" : "=r"(word) : "r"(work.address + at), "n"(OFFSET));
    return word;
}
__device__ inline uint32_t link_at(const Work &work, uint32_t position) {
    if (!IN_SHARED || sizeof(link_t) > 1) {
        return work.links[position];
    }
    uint32_t link;
    asm volatile("ld.shared.u8 %0, [%1 + %2];" : "=r"(link) : "r"(work.address + position), "n"(LINKS_AT));
    return link;
}

// Returns the symbols from `position` on.
__device__ inline Front front(const Work &work, uint32_t position) {
    const uint32_t at = position * WIDTH & ~3u;
    uint32_t words[5] = {load_word<0>(work, at), load_word<4>(work, at)};
    if (REACH_WORDS > 2) {
        words[2] = load_word<8>(work, at);
    }
    if (REACH_WORDS > 3) {
        words[3] = load_word<12>(work, at);
    }
    if (WIDTH < 4) {
        words[REACH_WORDS] = load_word<REACH_WORDS * 4>(work, at);
    }
    Front front;
#pragma unroll
    for (uint32_t i = 0; i < REACH_WORDS; ++i) {
        // The hardware takes the shift modulo 32.
        front.words[i] = WIDTH >= 4 ? words[i] : __funnelshift_r(words[i], words[i + 1], position * WIDTH * 8);
    }
    return front;
}

// Returns the number of equal symbols at the start. Avoids instructions that count zeros where possible, because they
// have a quarter of the throughput.
__device__ inline uint32_t agreeing(const Front &a, const Front &b) {
    uint32_t different = 0, count = REACH;
#pragma unroll
    for (uint32_t i = REACH_WORDS; i-- > 0;) {
        const uint32_t here = a.words[i] ^ b.words[i];
        different = here != 0 ? here : different;
        count = here != 0 ? i * 4 / WIDTH : count;
    }
    // Number of symbols before the first different word, plus those in it.
    if (WIDTH == 2) {
        return count + (different != 0 && different << 16 == 0);
    }
    if (WIDTH == 1) {
        return count + (different != 0 ? trailing_zeros(different) / 8 : 0);
    }
    return count;
}

// Returns the symbol at the end of `bytes` bytes, which is incomplete.
__device__ __noinline__ symbol_t last_symbol(const symbol_t *input, uint32_t bytes) {
    symbol_t symbol = 0;
    for (uint32_t i = 0; i < bytes % WIDTH; ++i) {
        symbol |= symbol_t(symbol_t(reinterpret_cast<const uint8_t *>(input)[bytes / WIDTH * WIDTH + i]) << i * 8);
    }
    return symbol;
}

// Writes the tokens that `work.starts`, `work.flags` and `work.places` describe to a slot.
__device__ inline void emit(const Work &work, const symbol_t *input, uint8_t *slot, uint32_t tokens, uint32_t matches) {
    uint32_t *flag_slot = reinterpret_cast<uint32_t *>(slot);
    for (uint32_t i = threadIdx.x; i < ceil_div(tokens, 64) * 2; i += THREADS) {
        flag_slot[i] = work.all_flags[i];
    }
    symbol_t *literals = reinterpret_cast<symbol_t *>(slot + SLOT_FLAGS);
    uint8_t *lengths = slot + SLOT_FLAGS + align16((tokens - matches) * WIDTH);
    distance_t *distances = reinterpret_cast<distance_t *>(lengths + align16(matches));
    const uint32_t whole = work.bytes / WIDTH;
    // Tokens are later moved by words, so each part is padded with zeros.
    if (threadIdx.x < 16) {
        const uint32_t bytes[3] = {(tokens - matches) * WIDTH, matches, matches * DISTANCE_BYTES};
        uint8_t *const parts[3] = {reinterpret_cast<uint8_t *>(literals), lengths,
                                   reinterpret_cast<uint8_t *>(distances)};
#pragma unroll
        for (uint32_t i = 0; i < 3; ++i) {
            if (bytes[i] + threadIdx.x < align16(bytes[i])) {
                parts[i][bytes[i] + threadIdx.x] = 0;
            }
        }
    }
    for (uint32_t chunk = warp_id(); chunk < ceil_div(work.symbols, 32); chunk += WARPS) {
        const uint32_t starts = work.starts[chunk];
        if (starts == 0) {
            continue;
        }
        const uint32_t position = chunk * 32 + lane_id();
        const bool is_start = starts >> lane_id() & 1;
        const token_t token = is_start ? work.tokens[bank_position(position)] : 0;
        const uint32_t is_match = __ballot_sync(ALL_LANES, token != 0);
        const uint32_t below = (1u << lane_id()) - 1;
        const uint32_t place = work.places[chunk];
        const uint32_t match = (place >> 16) + __popc(is_match & below);
        if (token != 0) {
            lengths[match] = uint8_t(token >> DISTANCE_BITS);
            distances[match] = distance_t(token);
        } else if (is_start) {
            const symbol_t symbol = position < whole ? input[position] : last_symbol(input, work.bytes);
            literals[(place & 0xffff) + __popc(starts & below) - match] = symbol;
        }
    }
}

// Computes from the starts and flags of chunks the places of their tokens, all flags, and the sums. Ends with a
// barrier.
__device__ inline uint64_t place_tokens(Work &work) {
    constexpr uint32_t OWN = (CHUNKS + THREADS - 1) / THREADS;
    const uint32_t first = threadIdx.x * OWN;
    const uint32_t end = min_of(first + OWN, ceil_div(work.symbols, 32));
    uint64_t own = 0;
    for (uint32_t chunk = first; chunk < end; ++chunk) {
        own += packed(__popc(work.starts[chunk]), __popc(work.flags[chunk]));
    }
    for (uint32_t i = threadIdx.x; i < CHUNKS; i += THREADS) {
        work.all_flags[i] = 0;
    }
    uint64_t total;
    uint64_t before = block_scan(own, work.warp_sums, total);
    for (uint32_t chunk = first; chunk < end; ++chunk) {
        const uint32_t token = uint32_t(before >> 32), bits = work.flags[chunk];
        work.places[chunk] = token | uint32_t(before) << 16;
        if (bits != 0) {
            atomicOr(&work.all_flags[token / 32], bits << token % 32);
            if (token % 32 != 0 && bits >> (32 - token % 32) != 0) {
                atomicOr(&work.all_flags[token / 32 + 1], bits >> (32 - token % 32));
            }
        }
        before += packed(__popc(work.starts[chunk]), __popc(bits));
    }
    __syncthreads();
    return total;
}

// Encodes all data blocks, each to its slot; thread blocks take them in a loop. `find` computes the token that could
// start at each position, and `select` the starts and flags of chunks.
template <typename Find, typename Select>
__device__ inline void encode_blocks(const uint8_t *input, const EncodeSection *sections, uint32_t section_count,
                                     uint32_t blocks, uint8_t *slots, Counts *counts, uint8_t *memory, Find find,
                                     Select select) {
    __shared__ uint64_t warp_sums[WARPS];
    for (uint32_t block = blockIdx.x; block < blocks; block += gridDim.x) {
        const EncodeSection section = sections[section_of(sections, section_count, block)];
        const uint64_t offset = uint64_t(block - section.first_block) * BLOCK_BYTES;
        const uint8_t *from = input + section.offset + offset;
        Work work(memory, warp_sums);
        work.bytes = uint32_t(min_of<uint64_t>(BLOCK_BYTES, section.bytes - offset));
        work.symbols = ceil_div(work.bytes, WIDTH);
        work.min_match = section.min_match;
        load_block(work, from);
        __syncthreads();
        find(work);
        __syncthreads();
        select(work);
        const uint64_t total = place_tokens(work);
        const uint32_t tokens = uint32_t(total >> 32), matches = uint32_t(total);
        emit(work, reinterpret_cast<const symbol_t *>(from), slots + uint64_t(block) * SLOT_BYTES, tokens, matches);
        if (threadIdx.x == 0) {
            counts[block] = {tokens, matches};
        }
        __syncthreads();
    }
}
