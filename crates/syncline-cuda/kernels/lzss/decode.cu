// Decodes tokens to symbols with one thread block per data block; no token waits for another one.
//
// The position of a token is a sum over the tokens before it: of flags, which identify literals, and of the lengths of
// matches. From a bitmap of match starts, a count of bits gives for every position the match that it may belong to, and
// therefore the source of its symbol: a literal is its own source, any other position has a source before its match.
// Sources are resolved by pointer doubling: in each round, every position takes its source's source, until none
// changes. The remaining sources are literals.
//
// This is the decoder for few data blocks, each with many threads. For many data blocks, `lzss/decode_warps.cu` has a
// higher throughput.
//
// MATCH_BYTES  bytes of an entry of a match: 8, or 4 where that would take too much shared memory
// BLOCKS       resident thread blocks per multiprocessor
#include "lzss/decode.cuh"

// Each thread processes groups of eight positions. Sources and symbols are transposed: the first entries of all groups
// come first. The lanes of a warp, which have neighboring groups, then access neighboring entries if their sources have
// the same distance. Rows are slightly longer than the number of groups (if 16 bits can still address all entries), so
// that neighboring positions are in different banks.
constexpr uint32_t GROUPS = SYMBOLS / 8;
constexpr uint32_t OWN_GROUPS = GROUPS / THREADS;
static_assert(GROUPS % THREADS == 0, "threads have as many groups each");
constexpr uint32_t ROW = (GROUPS + 8) * 8 <= 1 << 16 ? GROUPS + 8 : GROUPS;
__device__ inline uint32_t transposed(uint32_t position) { return position % 8 * ROW + position / 8; }

// An entry of a match: its start and the number of literals before it, and, if there is room, its end and its distance.
template <uint32_t BYTES> struct MatchOf;
template <> struct MatchOf<4> {
    uint16_t start;
    uint16_t literals;

    __device__ inline void place(uint32_t at, uint32_t, uint32_t) { start = uint16_t(at); }
};
template <> struct alignas(8) MatchOf<8> {
    uint16_t start;
    uint16_t end;
    uint16_t literals;
    uint16_t distance;

    __device__ inline void place(uint32_t at, uint32_t length, uint32_t own_distance) {
        start = uint16_t(at);
        end = uint16_t(at + length);
        distance = uint16_t(own_distance);
    }
};
using Match = MatchOf<MATCH_BYTES>;
constexpr bool WHOLE_MATCHES = MATCH_BYTES == 8;
static_assert(!WHOLE_MATCHES || SYMBOLS < 1 << 16, "ends fit");

constexpr uint32_t SOURCES_AT = ROW * 8 * WIDTH;
// If all of the used shared memory lies below 2^16, a source is stored as the address of the source's own entry, which
// is even, or as an odd number if that is a literal. Addresses need no scaling, and a position with an odd source is
// resolved.
constexpr uint32_t DECLARED = 8 << 10; // maximum bytes of static shared memory
constexpr bool ADDRESSED = DECLARED + SOURCES_AT + ROW * 16 <= 1 << 16;
constexpr uint32_t OWN_CHUNKS = (CHUNKS + THREADS - 1) / THREADS;

// Finds the matches: writes entries to `matches` and bits of their starts to `bitmap`. Returns the error, which is
// equal in all threads. Starts and ends with a barrier.
__device__ inline uint32_t find_matches(const Input &in, Match *matches, uint32_t *bitmap, uint64_t *warp_sums) {
    // The flag of a literal is 0: the number of bits before a set bit gives the number of its match and of the literals
    // before it.
    const uint32_t words = ceil_div(in.tokens, 32);
    const uint32_t first_word = min_of(threadIdx.x * OWN_CHUNKS, words),
                   end_word = min_of(first_word + OWN_CHUNKS, words);
    uint32_t own[OWN_CHUNKS];
    uint32_t count = 0;
#pragma unroll
    for (uint32_t i = 0; i < OWN_CHUNKS; ++i) {
        own[i] = first_word + i < end_word ? in.flags[first_word + i] : 0;
        count += __popc(own[i]);
    }
    // Bits after the last token must be 0: in its word, and in the second half of a 64-bit word.
    bool is_wrong = false;
    if (threadIdx.x == 0 && in.tokens % 64 != 0) {
        const uint32_t behind = in.tokens % 32 == 0 ? 0 : in.flags[words - 1] >> in.tokens % 32;
        is_wrong = (behind | (words % 2 == 1 ? in.flags[words] : 0)) != 0;
    }
    uint64_t total;
    uint32_t match = uint32_t(block_scan(count, warp_sums, total));
    if (__syncthreads_or(is_wrong || total != in.matches)) {
        return STATUS_FLAGS;
    }
#pragma unroll
    for (uint32_t i = 0; i < OWN_CHUNKS; ++i) {
        for (uint32_t bits = own[i]; bits != 0; bits &= bits - 1) {
            matches[match].literals = uint16_t((first_word + i) * 32 + __ffs(bits) - 1 - match);
            ++match;
        }
    }
    __syncthreads();

    const uint32_t share = ceil_div(in.matches, THREADS);
    const uint32_t first = min_of(threadIdx.x * share, in.matches), end = min_of(first + share, in.matches);
    uint32_t sum = 0;
    for (uint32_t i = first; i < end; ++i) {
        sum += in.lengths[i] + in.min_match;
    }
    uint32_t covered = uint32_t(block_scan(sum, warp_sums, total));
    is_wrong = total + (in.tokens - in.matches) != in.symbols;
    for (uint32_t i = first; i < end; ++i) {
        const uint32_t start = covered + matches[i].literals;
        const uint32_t distance = in.distances[i];
        const uint32_t length = in.lengths[i] + in.min_match;
        if (distance == 0 || distance > start || start + length > in.symbols) {
            is_wrong = true;
            break;
        }
        matches[i].place(start, length, distance);
        atomicOr(&bitmap[start / 32], 1u << start % 32);
        covered += length;
    }
    return __syncthreads_or(is_wrong) ? STATUS_MATCH : 0;
}

// The match at a position, or the last one before it.
struct Current {
    uint32_t start;
    uint32_t end;      // behind its last symbol
    uint32_t literals; // before it
    uint32_t distance;
    uint32_t in_distance; // position in the repeated part

    __device__ inline void load(const Input &in, const Match *matches, uint32_t match) {
        in_distance = 0;
        if (WHOLE_MATCHES) {
            const uint2 own = reinterpret_cast<const uint2 *>(matches)[match];
            start = own.x & 0xffff;
            end = own.x >> 16;
            literals = own.y & 0xffff;
            distance = own.y >> 16;
        } else {
            start = matches[match].start;
            literals = matches[match].literals;
            end = start + in.lengths[match] + in.min_match;
            distance = in.distances[match];
        }
    }
};

// The sources of two positions in one word.
struct Sources {
    uint32_t pairs[OWN_GROUPS][4];
    __device__ inline uint32_t get(uint32_t group, uint32_t i) const {
        return pairs[group][i / 2] >> i % 2 * 16 & 0xffff;
    }
};

// Returns the source for entry `entry`; `base` is the address of the first entry.
__device__ inline uint32_t source_of(uint32_t entry, uint32_t base) { return ADDRESSED ? base + 2 * entry : entry; }

// Finds the sources of a thread's positions, and writes literals to `symbols`.
__device__ inline void find_sources(const Input &in, const Match *matches, const uint32_t *bitmap,
                                    const uint16_t *ranks, symbol_t *symbols, uint32_t base, Sources &sources) {
#pragma unroll
    for (uint32_t j = 0; j < OWN_GROUPS; ++j) {
        const uint32_t group = j * THREADS + threadIdx.x;
        const uint32_t first = group * 8;
        const uint32_t word = bitmap[first / 32];
        uint32_t match = ranks[first / 32] + __popc(word & ((1u << first % 32) - 1));
        Current current = {0, 0, 0, 1, 0};
        if (match > 0) {
            current.load(in, matches, match - 1);
            if (first < current.end) {
                current.in_distance = (first - current.start) % current.distance;
            }
        }
#pragma unroll
        for (uint32_t i = 0; i < 8; ++i) {
            const uint32_t position = first + i;
            if (word >> position % 32 & 1) {
                current.load(in, matches, match);
                ++match;
            }
            const uint32_t own = i * ROW + group;
            uint32_t source = source_of(own, base) | ADDRESSED;
            symbol_t symbol = 0;
            if (position < current.end) {
                source = source_of(transposed(current.start - current.distance + current.in_distance), base);
                current.in_distance = current.in_distance + 1 == current.distance ? 0 : current.in_distance + 1;
            } else if (position < in.symbols) {
                symbol = in.literals[current.literals + position - current.end];
            }
            symbols[own] = symbol;
            sources.pairs[j][i / 2] = i % 2 == 0 ? source : sources.pairs[j][i / 2] | source << 16;
        }
    }
}

// Returns the sources of two sources.
__device__ inline uint32_t followed(uint32_t pair, const uint16_t *shared_sources) {
    if (!ADDRESSED) {
        return shared_sources[pair & 0xffff] | uint32_t(shared_sources[pair >> 16]) << 16;
    }
    uint32_t low, high;
    asm volatile("ld.shared.u16 %0, [%1];" : "=r"(low) : "r"(pair & 0xfffe));
    asm volatile("ld.shared.u16 %0, [%1];" : "=r"(high) : "r"(pair >> 16 & 0xfffe));
    return __byte_perm(low, high, 0x5410);
}

// Resolves all sources to literals.
__device__ inline void resolve(Sources &sources, uint16_t *shared_sources) {
    uint32_t open = (1u << OWN_GROUPS) - 1; // groups that may still change
    uint32_t stale = open;                  // groups that other threads see as they were before
    __syncthreads();
    do {
#pragma unroll
        for (uint32_t j = 0; j < OWN_GROUPS; ++j) {
            if (stale >> j & 1) {
#pragma unroll
                for (uint32_t i = 0; i < 8; ++i) {
                    shared_sources[i * ROW + j * THREADS + threadIdx.x] = uint16_t(sources.get(j, i));
                }
            }
        }
        __syncthreads();
        stale = open;
#pragma unroll
        for (uint32_t j = 0; j < OWN_GROUPS; ++j) {
            if (open >> j & 1) {
                uint32_t changes = 0, done = 0x10001;
#pragma unroll
                for (uint32_t i = 0; i < 4; ++i) {
                    const uint32_t old = sources.pairs[j][i], next = followed(old, shared_sources);
                    changes |= next ^ old;
                    done &= next;
                    sources.pairs[j][i] = next;
                }
                open ^= uint32_t(ADDRESSED ? done == 0x10001 : changes == 0) << j;
            }
        }
        stale = ADDRESSED ? stale : open;
    } while (__syncthreads_or(open != 0));
}

// Writes a thread's symbols.
__device__ inline void gather(const Sources &sources, const symbol_t *symbols, uint32_t base, uint8_t *out,
                              uint32_t bytes) {
#pragma unroll
    for (uint32_t j = 0; j < OWN_GROUPS; ++j) {
        const uint32_t first = (j * THREADS + threadIdx.x) * 8 * WIDTH;
        if (first >= bytes) {
            break;
        }
        union {
            symbol_t symbols[8];
            uint2 halves[WIDTH];
            uint8_t bytes[8 * WIDTH];
        } own;
#pragma unroll
        for (uint32_t i = 0; i < 8; ++i) {
            const uint32_t source = sources.get(j, i);
            own.symbols[i] = symbols[ADDRESSED ? (source - base) / 2 : source];
        }
        if (first + 8 * WIDTH <= bytes) {
            if (WIDTH == 1) {
                *reinterpret_cast<uint2 *>(out + first) = own.halves[0];
            }
#pragma unroll
            for (uint32_t i = 0; i + 1 < WIDTH; i += 2) {
                reinterpret_cast<uint4 *>(out + first)[i / 2] =
                    make_uint4(own.halves[i].x, own.halves[i].y, own.halves[i + 1].x, own.halves[i + 1].y);
            }
        } else {
#pragma unroll
            for (uint32_t i = 0; i < 8 * WIDTH; ++i) {
                if (first + i < bytes) {
                    out[first + i] = own.bytes[i];
                }
            }
        }
    }
}

// Matches share memory with sources: they are no longer needed when sources are stored.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    lzss_decode(const uint8_t *input, const DecodeSection *sections, uint32_t section_count, const Start *starts,
                uint8_t *out, uint32_t *status) {
    extern __shared__ uint4 shared[];
    __shared__ uint32_t bitmap[CHUNKS];
    __shared__ uint16_t ranks[CHUNKS];
    __shared__ uint64_t warp_sums[WARPS];
    uint8_t *memory = reinterpret_cast<uint8_t *>(shared);
    symbol_t *symbols = reinterpret_cast<symbol_t *>(memory);
    Match *matches = reinterpret_cast<Match *>(memory + SOURCES_AT);
    const uint32_t number = section_of(sections, section_count, blockIdx.x);
    // Other thread blocks do not change this bit.
    if (status[number] & STATUS_COUNTS) {
        return;
    }
    const DecodeSection section = sections[number];
    const uint32_t in_chunk = blockIdx.x - section.first_block;
    const Input in = input_of(input, section, starts[blockIdx.x], in_chunk);
    for (uint32_t i = threadIdx.x; i < CHUNKS; i += THREADS) {
        bitmap[i] = 0;
    }
    __syncthreads();
    const uint32_t wrong = find_matches(in, matches, bitmap, warp_sums);
    if (wrong != 0) {
        if (threadIdx.x == 0) {
            atomicOr(&status[number], wrong);
        }
        return;
    }
    uint32_t own = 0;
    const uint32_t first_chunk = min_of(threadIdx.x * OWN_CHUNKS, CHUNKS),
                   end_chunk = min_of(first_chunk + OWN_CHUNKS, CHUNKS);
    for (uint32_t chunk = first_chunk; chunk < end_chunk; ++chunk) {
        own += __popc(bitmap[chunk]);
    }
    uint64_t total;
    uint32_t before = uint32_t(block_scan(own, warp_sums, total));
    for (uint32_t chunk = first_chunk; chunk < end_chunk; ++chunk) {
        ranks[chunk] = uint16_t(before);
        before += __popc(bitmap[chunk]);
    }
    __syncthreads();
    Sources sources;
    uint16_t *shared_sources = reinterpret_cast<uint16_t *>(memory + SOURCES_AT);
    const uint32_t base = ADDRESSED ? shared_address(shared_sources) : 0;
    find_sources(in, matches, bitmap, ranks, symbols, base, sources);
    if (in.matches > 0) {
        resolve(sources, shared_sources);
    }
    __syncthreads();
    const uint64_t offset = uint64_t(in_chunk) * BLOCK_BYTES;
    gather(sources, symbols, base, out + section.out + offset,
           uint32_t(min_of<uint64_t>(BLOCK_BYTES, section.bytes - offset)));
}
