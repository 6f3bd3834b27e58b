// Tokens back to symbols, a warp a block: for many blocks, so that there are warps enough.
//
// A warp goes through a block's matches 64 at a time: where they start is a sum of literals and lengths. It makes 32
// positions at a time: which match each belongs to, or follows, is a count of bits, of a word that has one where a
// match starts. Symbols that lie before these 32 positions are there already; those among them follow their sources by
// pointer doubling, from lane to lane. Literals come through shared memory; short windows are kept there and written in
// pieces; long ones are read where they were written.
//
// BLOCKS  blocks of threads to a multiprocessor
#include "device/warp.cuh"
#include "lzss/decode.cuh"

// A block of threads for each chunk. Of one that has something in its word of `noted`, if there is such, nothing is
// read: what was to become its tokens did not.
extern "C" __global__ void __launch_bounds__(THREADS)
    lzss_starts(const uint8_t *input, const DecodeSection *sections, uint32_t section_count, uint32_t all_blocks,
                const uint32_t *noted, Start *starts, uint32_t *status) {
    __shared__ uint64_t warp_sums[WARPS];
    const DecodeSection section = sections[blockIdx.x];
    if (noted != nullptr && noted[section.chunk] != 0) {
        if (threadIdx.x == 0) {
            status[blockIdx.x] = STATUS_COUNTS;
        }
        return;
    }
    const uint32_t end = blockIdx.x + 1 < section_count ? sections[blockIdx.x + 1].first_block : all_blocks;
    const Counts *counts = reinterpret_cast<const Counts *>(input + section.counts);
    uint64_t before = 0, words_before = 0;
    bool is_wrong = false;
    for (uint32_t strip = section.first_block; strip < end; strip += THREADS) {
        const uint32_t block = strip + threadIdx.x;
        const uint32_t in_chunk = block - section.first_block;
        Counts own = block < end ? counts[in_chunk] : Counts{0, 0};
        if (block < end &&
            (own.matches > own.tokens ||
             own.tokens - own.matches + uint64_t(own.matches) * section.min_match > symbols_of(section, in_chunk))) {
            is_wrong = true;
            own = {0, 0};
        }
        uint64_t total, total_words;
        const uint64_t sum = before + block_scan(packed(own.tokens, own.matches), warp_sums, total);
        const uint64_t words = words_before + block_scan(ceil_div(own.tokens, 64), warp_sums, total_words);
        if (block < end) {
            starts[block] = {own.tokens, own.matches, uint32_t(words), uint32_t(sum),
                             uint32_t(sum >> 32) - uint32_t(sum)};
        }
        before += total;
        words_before += total_words;
    }
    const uint64_t tokens = before >> 32, matches = uint32_t(before);
    is_wrong |= words_before * 8 != section.flag_bytes || matches != section.length_bytes ||
                matches * DISTANCE_BYTES != section.distance_bytes ||
                (tokens - matches) * WIDTH != section.literal_bytes;
    const bool any_wrong = __syncthreads_or(is_wrong);
    if (threadIdx.x == 0) {
        status[blockIdx.x] = any_wrong ? STATUS_COUNTS : 0;
    }
}

// What lanes hand each other.
using wide_t = Unsigned<(WIDTH < 4 ? 4 : WIDTH)>::type;

// Symbols in shared memory, by their addresses.
__device__ inline wide_t load_shared(uint32_t address) {
    wide_t symbol;
    if (WIDTH == 1) {
        asm volatile("ld.shared.u8 %0, [%1];" : "=r"(reinterpret_cast<uint32_t &>(symbol)) : "r"(address));
    } else if (WIDTH == 2) {
        asm volatile("ld.shared.u16 %0, [%1];" : "=r"(reinterpret_cast<uint32_t &>(symbol)) : "r"(address));
    } else if (WIDTH == 4) {
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(reinterpret_cast<uint32_t &>(symbol)) : "r"(address));
    } else {
        uint32_t low, high;
        asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(low), "=r"(high) : "r"(address));
        symbol = wide_t(uint64_t(high) << 32 | low);
    }
    return symbol;
}

__device__ inline void store_shared(uint32_t address, wide_t symbol) {
    if (WIDTH == 1) {
        asm volatile("st.shared.u8 [%0], %1;" : : "r"(address), "r"(uint32_t(symbol)) : "memory");
    } else if (WIDTH == 2) {
        asm volatile("st.shared.u16 [%0], %1;" : : "r"(address), "r"(uint32_t(symbol)) : "memory");
    } else if (WIDTH == 4) {
        asm volatile("st.shared.u32 [%0], %1;" : : "r"(address), "r"(uint32_t(symbol)) : "memory");
    } else {
        asm volatile("st.shared.v2.u32 [%0], {%1, %2};"
                     :
                     : "r"(address), "r"(uint32_t(symbol)), "r"(uint32_t(uint64_t(symbol) >> 32))
                     : "memory");
    }
}

// Other things there.
__device__ inline uint32_t load_shared_byte(uint32_t address) {
    uint32_t byte;
    asm volatile("ld.shared.u8 %0, [%1];" : "=r"(byte) : "r"(address) : "memory");
    return byte;
}

__device__ inline void store_shared_byte(uint32_t address, uint32_t byte) {
    asm volatile("st.shared.u8 [%0], %1;" : : "r"(address), "r"(byte) : "memory");
}

__device__ inline void store_shared_2(uint32_t address, uint32_t half) {
    asm volatile("st.shared.u16 [%0], %1;" : : "r"(address), "r"(half) : "memory");
}

__device__ inline uint32_t load_shared_4(uint32_t address) {
    uint32_t word;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
    return word;
}

__device__ inline void store_shared_4(uint32_t address, uint32_t word) {
    asm volatile("st.shared.u32 [%0], %1;" : : "r"(address), "r"(word) : "memory");
}

// Sets bits.
__device__ inline void mark_shared_4(uint32_t address, uint32_t bits) {
    asm volatile("red.shared.or.b32 [%0], %1;" : : "r"(address), "r"(bits) : "memory");
}

__device__ inline uint2 load_shared_8(uint32_t address) {
    uint2 all;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(all.x), "=r"(all.y) : "r"(address) : "memory");
    return all;
}

__device__ inline void store_shared_8(uint32_t address, uint2 all) {
    asm volatile("st.shared.v2.u32 [%0], {%1, %2};" : : "r"(address), "r"(all.x), "r"(all.y) : "memory");
}

__device__ inline uint4 load_shared_16(uint32_t address) {
    uint4 all;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(all.x), "=r"(all.y), "=r"(all.z), "=r"(all.w)
                 : "r"(address)
                 : "memory");
    return all;
}

__device__ inline void store_shared_16(uint32_t address, uint4 all) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};"
                 :
                 : "r"(address), "r"(all.x), "r"(all.y), "r"(all.z), "r"(all.w)
                 : "memory");
}

__device__ inline uint32_t lanes_through() {
    uint32_t lanes;
    asm("mov.u32 %0, %%lanemask_le;" : "=r"(lanes));
    return lanes;
}

// A value that is kept in a register: the compiler would work some out anew in the innermost loop, were it not that it
// cannot see through a shuffle.
__device__ inline uint32_t kept(uint32_t value) { return __shfl_sync(ALL_LANES, value, lane_id()); }

// A value that is the same in all lanes, which the compiler cannot see: with this it is kept in a uniform register, and
// what depends on it may be, too.
__device__ inline uint32_t uniform(uint32_t value) {
#if __CUDA_ARCH__ >= 800
    return __reduce_or_sync(ALL_LANES, value);
#else
    return value;
#endif
}

// Of a window of at most 255 symbols, those and what is not written yet lie in shared memory: in a ring. Longer ones
// are read where they were written.
constexpr bool IN_SHARED = DISTANCE_BYTES == 1;
constexpr uint32_t STEP = WARP * WIDTH; // bytes that are made at a time
constexpr uint32_t PIECE = 512;         // bytes that are written at a time
constexpr uint32_t RING = max_of<uint32_t>(512 * WIDTH, 2 * PIECE);
constexpr uint32_t ALIGNED = 1024; // what shared memory can be relied on to be aligned to
// Literals lie in a ring, too, which is filled in shares: those that a piece may take are there before it is begun.
constexpr uint32_t SHARE = 8 * WARP;
constexpr uint32_t LITERALS = 1024;
static_assert(PIECE + STEP + SHARE <= LITERALS, "a share never overwrites literals that are still wanted");

__device__ inline uint32_t in_ring(uint32_t position, uint32_t size, uint32_t ring) {
    return size <= ALIGNED ? (position & (size - 1)) | ring : ring + (position & (size - 1));
}

// A block's literals. They start somewhere in 8 bytes that are read at once: places are counted from the first of
// those.
struct Literals {
    const uint8_t *from;
    uint32_t end; // place behind the last
    uint32_t ring;
    uint32_t staged; // place behind the last that is in the ring
    uint2 next;      // the lane's of the next share

    __device__ inline void fetch() {
        const uint32_t place = staged + 8 * lane_id();
        if (place + 8 <= end) {
            next = *reinterpret_cast<const uint2 *>(from + place);
        }
    }

    // Makes those of a piece and a step available; `left` in the ring are still wanted.
    __device__ inline void stage(int32_t left) {
        for (; staged < end && left < int32_t(PIECE + STEP); left += SHARE) {
            uint32_t place = staged + 8 * lane_id();
            if (place + 8 <= end) {
                store_shared_8(in_ring(place, LITERALS, ring), next);
            } else {
#pragma unroll 1
                for (; place < end; ++place) {
                    store_shared_byte(in_ring(place, LITERALS, ring), from[place]);
                }
            }
            staged += SHARE;
            fetch();
        }
        __syncwarp();
    }
};

struct Window {
    uint32_t ring;
    uint8_t *out;
    uint32_t bytes; // of the block
    uint32_t written;

    __device__ inline uint32_t address(uint32_t position) const { return in_ring(position, RING, ring); }

    // What lanes behind `end` have is worthless, and there is room for it in a ring.
    __device__ inline void put(uint32_t position, wide_t symbol, uint32_t end) {
        if (IN_SHARED) {
            store_shared(address(position), symbol);
        } else if (position < end) {
            if (position + WIDTH <= bytes) {
                *reinterpret_cast<symbol_t *>(out + position) = symbol_t(symbol);
            } else {
                for (; position < bytes; ++position, symbol >>= 8) {
                    out[position] = uint8_t(symbol);
                }
            }
        }
    }

    // Writes a piece, all of which is there.
    __device__ inline void write() {
        if (IN_SHARED) {
            const uint32_t own = written + 16 * lane_id();
            *reinterpret_cast<uint4 *>(out + own) = load_shared_16(address(own));
        }
        written += PIECE;
    }

    // What is left: the last symbol may not be whole.
    __device__ inline void finish() {
        __syncwarp();
        if (IN_SHARED) {
            if (written + PIECE <= bytes) {
                write();
            }
#pragma unroll 1
            for (uint32_t byte = written + lane_id(); byte < bytes; byte += WARP) {
                out[byte] = uint8_t(load_shared_byte(address(byte)));
            }
        }
    }
};

// Tokens whose flags a warp reads at a time, a word a lane: as many as shared memory has room for where wide symbols
// take more.
constexpr uint32_t FLAGS = WIDTH <= 2 ? WARP * 32 : WARP * 16;
// Of so many matches symbols are made at a time, two a lane.
constexpr uint32_t GROUP = 2 * WARP;
// What a warp notes in shared memory. Of the match before a group and those of it 8 bytes each: distance, in the upper
// half how much less than its position the place of a literal behind it is; end. Of each match among the flags the
// literals before it, 2 bytes: where those of a group were, there are then bits of where matches start.
constexpr uint32_t MATCHES_AT = 8;
constexpr uint32_t LITERALS_BEFORE_AT = MATCHES_AT + (GROUP + 1) * 8;
constexpr uint32_t NOTES = LITERALS_BEFORE_AT + FLAGS * 2;
static_assert(GROUP * 2 == WARP * 4 && FLAGS % GROUP == 0, "a word a lane");

// Positions whose matches are told apart by a bitmap: a word for each 32.
constexpr uint32_t STRIP = WARP * WARP;

// The symbols from `first` up to `end`, of matches that are noted; a lane's two start `offsets` symbols behind the
// first, if they are any. `last` is where the match before them is noted, `bits` has a 0 for each position of a strip.
__device__ inline void make_symbols(Window &window, Literals &literals, uint2 offsets, uint32_t first, uint32_t end,
                                    uint32_t through, uint32_t last, uint32_t bits) {
    const uint32_t own_byte = lane_id() * WIDTH;
    uint32_t position = first + own_byte;
    for (;;) {
        __syncwarp();
        if (offsets.x < STRIP) {
            mark_shared_4(bits + offsets.x / 32 * 4, 1u << offsets.x % 32);
        }
        if (offsets.y < STRIP) {
            mark_shared_4(bits + offsets.y / 32 * 4, 1u << offsets.y % 32);
        }
        __syncwarp();
        uint32_t word_at = bits;
        const uint32_t strip_end = min_of(end, first + STRIP * WIDTH) + own_byte;
        while (position < strip_end) {
            // The piece before is whole.
            if (position >= window.written + PIECE + own_byte) {
                __syncwarp();
                window.write();
                // Of a match that goes on its end would have to be the place: so more than there are seem to be left,
                // but no more are wanted either.
                literals.stage(literals.staged + (load_shared_4(last) >> 16) - (position - own_byte) & 0xffff);
            }
            const uint32_t limit = min_of(strip_end, window.written + PIECE + own_byte);
            do {
                const uint32_t starts = load_shared_4(word_at);
                word_at += 4;
                const uint2 match = load_shared_8(last + 8 * __popc(starts & through));
                last += 8 * __popc(starts);
                const bool is_match = position < match.y;
                const uint32_t back = is_match ? match.x & 0xffff : match.x >> 16;
                const bool is_inside = is_match && back <= own_byte;
                // What was put before is there for all.
                __syncwarp();
                const bool any_inside = __any_sync(ALL_LANES, is_inside);
                wide_t symbol = 0;
                if (IN_SHARED) {
                    const uint32_t source = position - back;
                    symbol = load_shared(is_match ? in_ring(source, RING, window.ring)
                                                  : in_ring(source, LITERALS, literals.ring));
                } else if (!is_match) {
                    symbol = load_shared(in_ring(position - back, LITERALS, literals.ring));
                } else if (!is_inside && position < end) {
                    symbol = wide_t(*reinterpret_cast<const symbol_t *>(window.out + (position - back)));
                }
                if (any_inside) {
                    const uint32_t inside = __ballot_sync(ALL_LANES, is_inside);
                    uint32_t source = is_inside ? (own_byte - back) / WIDTH : lane_id();
                    if (__any_sync(ALL_LANES, inside >> source & 1)) {
#pragma unroll
                        for (uint32_t i = 0; i < 5; ++i) {
                            source = __shfl_sync(ALL_LANES, source, source);
                        }
                    }
                    symbol = __shfl_sync(ALL_LANES, symbol, source);
                }
                window.put(position, symbol, end);
                position += STEP;
            } while (position < limit);
        }
        first += STRIP * WIDTH;
        if (first >= end) {
            break;
        }
        offsets.x -= STRIP;
        offsets.y -= STRIP;
        __syncwarp();
        store_shared_4(bits + 4 * lane_id(), 0);
    }
}

// Whether the flags are right: as many matches as the counts say, nothing behind the last token.
__device__ inline bool are_flags_right(const Input &in) {
    const uint32_t words = ceil_div(in.tokens, 64) * 2;
    uint32_t matches = 0;
    for (uint32_t word = lane_id(); word < words; word += WARP) {
        const uint32_t flags = in.flags[word];
        const uint32_t first = min_of(word * 32, in.tokens), left = in.tokens - first;
        matches += __popc(flags) + (left < 32 && flags >> left != 0 ? 1u << 20 : 0);
    }
    return warp_reduce_sum(matches) == in.matches;
}

// Two neighboring matches, of which there may be one or none. Nothing is done with what is loaded, so that nobody waits
// for it.
struct Pair {
    uint32_t first_length, second_length, first_distance, second_distance;

    __device__ inline void fetch(const Input &in, uint32_t match) {
        if (match < in.matches) {
            first_length = in.lengths[match];
            first_distance = in.distances[match];
        }
        if (match + 1 < in.matches) {
            second_length = in.lengths[match + 1];
            second_distance = in.distances[match + 1];
        }
    }
};

// Decodes a block; what is wrong with it, the same in all lanes. `notes` is the warp's memory for them.
__device__ inline uint32_t decode_block(const Input &in, Window &window, uint32_t literals_ring, uint32_t notes) {
    if (!are_flags_right(in)) {
        return STATUS_FLAGS;
    }
    const uint32_t through = kept(lanes_through());
    const uint8_t *first_literal = reinterpret_cast<const uint8_t *>(in.literals);
    const uint32_t lead = uint32_t(reinterpret_cast<uint64_t>(first_literal) % 8);
    Literals literals = {first_literal - lead, lead + (in.tokens - in.matches) * WIDTH, literals_ring, 0, {}};
    literals.fetch();
    literals.stage(-int32_t(lead));
    const uint32_t words = ceil_div(in.tokens, 32);
    uint32_t covered = 0; // bytes
    uint32_t skipped = 0; // of these in matches
    // Loads are ahead of what is worked on.
    uint32_t next_flags = lane_id() < min_of(words, FLAGS / 32) ? in.flags[lane_id()] : 0;
    uint32_t next_match = 2 * lane_id(); // of the block's
    Pair next = {};
    next.fetch(in, next_match);
    for (uint32_t first = 0; first < in.tokens; first += FLAGS) {
        const uint32_t flags = next_flags;
        const uint32_t next_word = (first + FLAGS) / 32 + lane_id();
        next_flags = next_word < words && lane_id() < FLAGS / 32 ? in.flags[next_word] : 0;
        // Of each match the literals before it.
        const uint32_t matches_through = warp_inclusive_sum(uint32_t(__popc(flags)));
        const uint32_t matches = uniform(__shfl_sync(ALL_LANES, matches_through, WARP - 1));
        uint32_t slot = matches_through - __popc(flags);
        for (uint32_t bits = flags; bits != 0; ++slot) {
            const uint32_t rest = bits & bits - 1, place = __popc((bits ^ rest) - 1);
            store_shared_2(notes + LITERALS_BEFORE_AT + 2 * slot, lane_id() * 32 + place - slot);
            bits = rest;
        }
        __syncwarp();
        // Positions without the matches before them.
        const uint32_t start_here = covered - skipped;
        const uint32_t literals_end = start_here + (min_of(in.tokens - first, FLAGS) - matches) * WIDTH;
        uint32_t done = 0;
        do {
            const uint32_t own = done + 2 * lane_id();
            const bool is_first = own < matches, is_second = own + 1 < matches;
            const Pair pair = next;
            const uint32_t first_length = is_first ? (pair.first_length + in.min_match) * WIDTH : 0;
            const uint32_t second_length = is_second ? (pair.second_length + in.min_match) * WIDTH : 0;
            const uint32_t count = min_of(matches - done, GROUP);
            next_match += count;
            next.fetch(in, next_match);
            const uint32_t second_sum = skipped + warp_inclusive_sum(first_length + second_length);
            const uint32_t first_sum = second_sum - second_length;
            const uint32_t before = load_shared_4(notes + LITERALS_BEFORE_AT + own * 2);
            __syncwarp();
            const uint32_t first_end = start_here + (before & 0xffff) * WIDTH + first_sum;
            const uint32_t second_end = start_here + (before >> 16) * WIDTH + second_sum;
            const uint32_t first_start = first_end - first_length, second_start = second_end - second_length;
            const uint32_t first_distance = pair.first_distance, second_distance = pair.second_distance;
            const uint32_t bitmap = notes + LITERALS_BEFORE_AT + done * 2;
            store_shared_4(bitmap + 4 * lane_id(), 0);
            // That before them, of which symbols may be behind here: it has ended.
            if (lane_id() == 0) {
                store_shared_8(notes + MATCHES_AT, make_uint2(skipped - lead << 16, 0));
            }
            store_shared_16(notes + MATCHES_AT + 8 + 16 * lane_id(),
                            make_uint4(first_sum - lead << 16 | first_distance * WIDTH, first_end,
                                       second_sum - lead << 16 | second_distance * WIDTH, second_end));
            skipped = uniform(__shfl_sync(ALL_LANES, second_sum, WARP - 1));
            done += count;
            // Literals behind the last match of all: up to the end.
            const uint32_t last_end = uniform(__shfl_sync(ALL_LANES, second_end, WARP - 1));
            const uint32_t end = done == matches ? literals_end + skipped : last_end;
            // A distance of 0 is greater than all others, less one.
            const bool is_wrong = (is_first && first_distance - 1 >= first_start / WIDTH) ||
                                  (is_second && second_distance - 1 >= second_start / WIDTH);
            if (__any_sync(ALL_LANES, is_wrong || end > in.symbols * WIDTH)) {
                return STATUS_MATCH;
            }
            const uint2 offsets = make_uint2(is_first ? (first_start - covered) / WIDTH : 0x80000000,
                                             is_second ? (second_start - covered) / WIDTH : 0x80000000);
            make_symbols(window, literals, offsets, covered, end, through, notes + MATCHES_AT, bitmap);
            covered = end;
        } while (done < matches);
        __syncwarp();
    }
    if (covered != in.symbols * WIDTH) {
        return STATUS_MATCH;
    }
    window.finish();
    return 0;
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    lzss_decode_warps(const uint8_t *input, const DecodeSection *sections, uint32_t section_count, uint32_t blocks,
                      const Start *starts, uint8_t *out, uint32_t *status) {
    __shared__ alignas(ALIGNED) uint8_t rings[IN_SHARED ? WARPS * RING : 16];
    __shared__ alignas(ALIGNED) uint8_t literals[WARPS * LITERALS];
    __shared__ alignas(16) uint8_t notes[WARPS][NOTES];
    const uint32_t block = blockIdx.x * WARPS + uniform(warp_id());
    if (block >= blocks) {
        return;
    }
    const uint32_t number = uniform(section_of(sections, section_count, block));
    // This bit is not changed by what other blocks find.
    if (uniform(status[number] & STATUS_COUNTS)) {
        return;
    }
    const DecodeSection section = sections[number];
    const uint32_t in_chunk = block - section.first_block;
    Input in = input_of(input, section, starts[block], in_chunk);
    in.tokens = uniform(in.tokens);
    in.matches = uniform(in.matches);
    in.symbols = uniform(in.symbols);
    const uint64_t offset = uint64_t(in_chunk) * BLOCK_BYTES;
    const uint32_t bytes = uniform(uint32_t(min_of<uint64_t>(BLOCK_BYTES, section.bytes - offset)));
    Window window = {kept(shared_address(rings) + warp_id() * RING), out + section.out + offset, bytes, 0};
    const uint32_t wrong = decode_block(in, window, kept(shared_address(literals) + warp_id() * LITERALS),
                                        kept(shared_address(notes[warp_id()])));
    if (wrong != 0 && lane_id() == 0) {
        atomicOr(&status[number], wrong);
    }
}
