// Encodes data blocks as tokens.
//
// The candidates of a position are the previous positions that start with the same symbols. Threads do not compare the
// whole window: warps link each position to the last previous one with the same hash, 32 positions at a time
// (`match_any` finds links among the 32), so that the candidates of a position are reached in a few steps, nearest
// first, as the format requires. Comparisons are reused: if the first candidate of the next position has the same
// distance, its match is the rest of this one. In a sequence of such positions only the last is compared, several words
// at a time.
//
// Tokens are selected in chunks of 32 positions, one thread per chunk. Going backwards, it finds where the path from
// each position leaves the chunk, given the result for later positions. Then one thread follows the path from chunk to
// chunk, and all threads follow it through their chunks from its entry. This takes 37 warp instructions for 32
// positions (measured); pointer jumping with shuffles takes about 60.
//
// HASH_BITS   log2 of the entries in a warp's table of last positions
// LINK_WARPS  warps that link positions: all warps, each for its own part and the window before it; or one warp if
//             windows are long
// BLOCKS      resident thread blocks per multiprocessor
#include "lzss/encode.cuh"

constexpr uint16_t NOWHERE = 0xffff;
constexpr uint32_t HASH_ENTRIES = 1 << HASH_BITS;
constexpr uint32_t LINKED = SYMBOLS / LINK_WARPS;
constexpr uint32_t SEARCHED = SYMBOLS / WARPS;
static_assert(LINKED % 32 == 0 && SEARCHED % 32 == 0, "warps take whole chunks");

// The first symbols of a position, which identify candidates.
struct Key {
    uint32_t symbols;
    // Only the first bytes are hashed, by multiplication: multiplying by a factor with trailing zeros hashes the number
    // shifted left.
    uint32_t low_factor;
    uint32_t high_factor;

    __device__ inline explicit Key(uint32_t min_match) {
        const uint32_t bytes = min_of<uint32_t>(min_match * WIDTH, 8);
        symbols = bytes / WIDTH;
        low_factor = 0x9E3779B1u << (bytes < 4 ? 32 - bytes * 8 : 0);
        high_factor = bytes <= 4 ? 0 : 0x85EBCA6Bu << (64 - bytes * 8);
    }
    __device__ inline uint32_t hash(const Front &front) const {
        return (front.words[0] * low_factor + front.words[1] * high_factor) >> (32 - HASH_BITS);
    }
};

// Links positions `first` to `first + LINKED - 1` to previous positions. `heads` is the warp's hash table.
__device__ inline void link(const Work &work, const Key &key, uint32_t first, uint16_t *heads) {
    for (uint32_t i = lane_id(); i < HASH_ENTRIES; i += WARP) {
        heads[i] = NOWHERE;
    }
    __syncwarp();
    const uint32_t end = min_of(first + LINKED, work.symbols);
    const uint32_t below_me = (1u << lane_id()) - 1;
    for (uint32_t chunk = first - min_of<uint32_t>(first, (WINDOW + 31) / 32 * 32); chunk < end; chunk += WARP) {
        const uint32_t position = chunk + lane_id();
        const uint32_t hash = key.hash(front(work, position));
        const uint32_t same = __match_any_sync(ALL_LANES, hash);
        const uint32_t below = same & below_me;
        const uint32_t in_table = heads[hash];
        const uint32_t before = below != 0 ? chunk + 31 - __clz(below) : in_table;
        __syncwarp();
        if (same >> lane_id() == 1) {
            heads[hash] = uint16_t(position);
        }
        __syncwarp();
        if (chunk >= first) {
            // An empty entry gives a distance that is too long or 0.
            const uint32_t distance = position - before;
            const bool is_linked = distance <= WINDOW && position + key.symbols <= work.symbols;
            work.links[position] = is_linked ? link_t(distance) : 0;
        }
    }
}

// Returns the number of equal symbols from `position` and from `distance` before it on, up to about `most`. The first
// REACH symbols are known to be equal.
__device__ inline uint32_t extended(const Work &work, uint32_t position, uint32_t distance, uint32_t most) {
    uint32_t length = REACH;
    while (length < most) {
        const uint32_t more = agreeing(front(work, position + length), front(work, position + length - distance));
        length += more;
        if (more < REACH) {
            break;
        }
    }
    return length;
}

__device__ inline symbol_t symbol_at(const Work &work, uint32_t position) {
    return reinterpret_cast<const symbol_t *>(work.data)[position];
}

// Returns the distance to the candidate after the one at `distance`, or 0 if there is none.
__device__ inline uint32_t next_distance(const Work &work, uint32_t position, uint32_t distance) {
    const uint32_t step = link_at(work, position - distance);
    return step == 0 || distance + step > WINDOW ? 0 : distance + step;
}

// Finds the tokens that could start at a warp's positions, from the last chunk to the first.
__device__ inline void search(const Work &work, const Key &key, uint32_t first) {
    const uint32_t end = min_of(first + SEARCHED, work.symbols);
    if (first >= end) {
        return;
    }
    // Distance to the first candidate of the position after the chunk, and the number of equal symbols there.
    uint32_t behind_distance = 0, behind_length = 0;
    for (uint32_t chunk = (end - 1) / 32 * 32 + 32; chunk > first;) {
        chunk -= 32;
        const uint32_t position = chunk + lane_id();
        const Front own = front(work, position);
        const uint32_t limit = min_of(work.symbols - position, work.min_match + LENGTH_SPAN);
        uint32_t distance = link_at(work, position); // 0 after the end of the data block
        uint32_t length = 0;
        while (distance != 0) {
            length = agreeing(own, front(work, position - distance));
            if (length >= key.symbols) {
                break;
            }
            distance = next_distance(work, position, distance);
        }
        __syncwarp();
        const uint32_t after = __shfl_down_sync(ALL_LANES, distance, 1);
        const bool is_rest = distance != 0 && distance == (lane_id() == WARP - 1 ? behind_distance : after);
        if (distance != 0 && length == REACH && !is_rest) {
            length = extended(work, position, distance, limit);
        }
        __syncwarp();
        const uint32_t rests = __ballot_sync(ALL_LANES, is_rest);
        // The first lane, from this one on, whose match is not the rest of the previous one; WARP means the position
        // after the chunk.
        const uint32_t last = lane_id() + trailing_zeros(~(rests >> lane_id()));
        const uint32_t of_last = __shfl_sync(ALL_LANES, length, last % WARP);
        length = (last < WARP ? of_last : behind_length) + last - lane_id();
        behind_distance = __shfl_sync(ALL_LANES, distance, 0);
        behind_length = __shfl_sync(ALL_LANES, length, 0);

        uint32_t best = distance == 0 ? 0 : min_of(length, limit);
        uint32_t best_distance = distance;
        if (DEPTH > 1) {
            const uint32_t enough = min_of<uint32_t>(ENOUGH, limit);
            uint32_t left = best < enough && distance != 0 ? DEPTH - 1 : 0;
            // Has as few branches as possible, so that lanes without work do not delay the others.
            while (left > 0) {
                distance = next_distance(work, position, distance);
                length = agreeing(own, front(work, position - distance));
                const bool is_candidate = distance != 0 && length >= key.symbols;
                if (is_candidate && length == REACH) {
                    const bool is_longer =
                        best < REACH || symbol_at(work, position + best) == symbol_at(work, position + best - distance);
                    length = is_longer ? extended(work, position, distance, limit) : 0;
                }
                length = min_of(length, limit);
                left -= is_candidate;
                if (is_candidate && length > best) {
                    best = length;
                    best_distance = distance;
                }
                left = distance == 0 || best >= enough ? 0 : left;
            }
            __syncwarp();
        }
        const bool is_match = best_distance != 0 && best >= work.min_match;
        work.tokens[bank_position(position)] =
            is_match ? token_t((best - work.min_match) << DISTANCE_BITS | best_distance) : 0;
    }
}

// Marks the positions at which tokens start. Starts and ends with a barrier.
__device__ inline void select_tokens(const Work &work) {
    const uint32_t chunks = ceil_div(work.symbols, 32);
    for (uint32_t chunk = threadIdx.x; chunk < chunks; chunk += THREADS) {
        const uint32_t end = chunk * 32 + 32;
        for (uint32_t i = 32; i-- > 0;) {
            const uint32_t position = chunk * 32 + i;
            const uint32_t next = position + work.covered(work.tokens[bank_position(position)]);
            work.exits[bank_position(position)] = next >= end ? uint16_t(next - end) : work.exits[bank_position(next)];
        }
        work.entries[chunk] = NO_ENTRY;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (uint32_t position = 0; position < work.symbols;) {
            work.entries[position / 32] = uint8_t(position % 32);
            position = position / 32 * 32 + 32 + work.exits[bank_position(position)];
        }
    }
    __syncthreads();
    for (uint32_t chunk = threadIdx.x; chunk < chunks; chunk += THREADS) {
        uint32_t position = work.entries[chunk];
        uint32_t starts = 0, flags = 0, count = 0;
        const uint32_t end = min_of<uint32_t>(32, work.symbols - chunk * 32);
        while (position < end) {
            const token_t token = work.tokens[bank_position(chunk * 32 + position)];
            starts |= 1u << position;
            flags |= uint32_t(token != 0) << count;
            ++count;
            position += work.covered(token);
        }
        work.starts[chunk] = starts;
        work.flags[chunk] = flags;
    }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    lzss_tokens(const uint8_t *input, const EncodeSection *sections, uint32_t section_count, uint32_t blocks,
                uint8_t *slots, Counts *counts, uint8_t *scratch) {
    extern __shared__ uint4 shared[];
    uint8_t *memory = IN_SHARED ? reinterpret_cast<uint8_t *>(shared) : scratch + uint64_t(blockIdx.x) * WORK_BYTES;
    // Tokens are found after positions have been linked, so that hash tables use the same shared memory.
    uint16_t *heads =
        reinterpret_cast<uint16_t *>(IN_SHARED ? memory + TOKENS_AT : reinterpret_cast<uint8_t *>(shared));
    static_assert(!IN_SHARED || LINK_WARPS * HASH_ENTRIES * 2 <= SYMBOLS * sizeof(token_t), "tables fit");
    auto find = [&](const Work &work) {
        const Key key(work.min_match);
        if (warp_id() < LINK_WARPS && warp_id() * LINKED < work.symbols) {
            link(work, key, warp_id() * LINKED, heads + warp_id() * HASH_ENTRIES);
        }
        __syncthreads();
        search(work, key, warp_id() * SEARCHED);
    };
    encode_blocks(input, sections, section_count, blocks, slots, counts, memory, find, select_tokens);
}
