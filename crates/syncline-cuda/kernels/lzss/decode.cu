// Decodes tokens to symbols with one warp per data block.
//
// A warp processes the matches of a data block in groups of 64; their positions are prefix sums of literals and
// lengths. It writes 32 positions at a time. The match that a position belongs to, or follows, is the number of set
// bits in a bitmap of match starts. Source symbols before these 32 positions are already available; those among them
// are found by pointer doubling between lanes. Literals are staged in shared memory. Short windows are kept in shared
// memory and written in pieces; long windows are read from device memory.
//
// BLOCKS  resident thread blocks per multiprocessor
#include "device/warp.cuh"
#include "lzss/decode.cuh"

// Locates the tokens of data blocks; one thread block per chunk. A chunk whose word of `noted` (if not null) is not 0
// is not read, because its tokens are damaged.
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

// The type of symbols in shuffles.
using wide_t = Unsigned<(WIDTH < 4 ? 4 : WIDTH)>::type;

// Loads a symbol from a shared-memory address.
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

// Loads other values from shared-memory addresses.
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

// Sets bits of a word in shared memory.
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

// Keeps a value in a register. Otherwise the compiler would compute some values again in the innermost loop; it cannot
// do so for the result of a shuffle.
__device__ inline uint32_t kept(uint32_t value) { return __shfl_sync(ALL_LANES, value, lane_id()); }

// Returns a value that is equal in all lanes, which the compiler cannot derive itself. It can then use a uniform
// register for it and for values that depend on it.
__device__ inline uint32_t uniform_register(uint32_t value) {
#if __CUDA_ARCH__ >= 800
    return __reduce_or_sync(ALL_LANES, value);
#else
    return value;
#endif
}

// A window of at most 255 symbols is kept in a ring in shared memory, together with symbols that are not yet written.
// Longer windows are read from the output.
constexpr bool IN_SHARED = DISTANCE_BYTES == 1;
constexpr uint32_t STEP = WARP * WIDTH; // bytes that are decoded at a time
constexpr uint32_t PIECE = 512;         // bytes that are written at a time
constexpr uint32_t RING = max_of<uint32_t>(512 * WIDTH, 2 * PIECE);
constexpr uint32_t ALIGNED = 1024; // assumed alignment of shared memory
// Literals are also staged in a ring, which is filled by SHARE bytes at a time: before a piece begins, all literals
// that it may need are staged.
constexpr uint32_t SHARE = 8 * WARP;
constexpr uint32_t LITERALS = 1024;
static_assert(PIECE + STEP + SHARE <= LITERALS, "a share never overwrites literals that are still wanted");

__device__ inline uint32_t in_ring(uint32_t position, uint32_t size, uint32_t ring) {
    return size <= ALIGNED ? (position & (size - 1)) | ring : ring + (position & (size - 1));
}

// The literals of a data block. They start within a vector of 8 bytes; places are counted from the start of that
// vector.
struct Literals {
    const uint8_t *from;
    uint32_t end; // place after the last literal
    uint32_t ring;
    uint32_t staged; // place after the last literal in the ring
    uint2 next;      // the lane's part of the next share

    __device__ inline void fetch() {
        const uint32_t place = staged + 8 * lane_id();
        if (place + 8 <= end) {
            next = *reinterpret_cast<const uint2 *>(from + place);
        }
    }

    // Stages the literals of a piece and a step; `left` literals in the ring are still needed.
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
    uint32_t bytes; // of the data block
    uint32_t written;

    __device__ inline uint32_t address(uint32_t position) const { return in_ring(position, RING, ring); }

    // Stores a symbol in the ring. Lanes after `end` store meaningless symbols, for which there is room.
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

    // Writes a piece, all of whose symbols are available.
    __device__ inline void write() {
        if (IN_SHARED) {
            const uint32_t own = written + 16 * lane_id();
            *reinterpret_cast<uint4 *>(out + own) = load_shared_16(address(own));
        }
        written += PIECE;
    }

    // Writes the rest; the last symbol may be incomplete.
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

// Number of tokens whose flags a warp reads at a time, one word per lane; fewer for wide symbols, which take more
// shared memory.
constexpr uint32_t FLAGS = WIDTH <= 2 ? WARP * 32 : WARP * 16;
// Number of matches that are decoded at a time, two per lane.
constexpr uint32_t GROUP = 2 * WARP;
// Notes of a warp in shared memory. For the match before a group and for each match of the group there are 8 bytes: the
// distance, in the upper half the difference between the match's position and the place of the literal after it, and
// the end. For each match among the flags there are 2 bytes with the number of literals before it; those of a group are
// later replaced by the bitmap of match starts.
constexpr uint32_t MATCHES_AT = 8;
constexpr uint32_t LITERALS_BEFORE_AT = MATCHES_AT + (GROUP + 1) * 8;
constexpr uint32_t NOTES = LITERALS_BEFORE_AT + FLAGS * 2;
static_assert(GROUP * 2 == WARP * 4 && FLAGS % GROUP == 0, "a word a lane");

// Number of positions that one bitmap of match starts covers: a word per 32 positions.
constexpr uint32_t STRIP = WARP * WARP;

// Decodes the symbols from `first` up to `end`, whose matches are noted. The two matches of a lane start `offsets`
// symbols after `first`, if they exist. `last` is the address of the notes of the match before them; `bits` is a bitmap
// for a strip of positions, which is 0.
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
            // The previous piece is complete.
            if (position >= window.written + PIECE + own_byte) {
                __syncwarp();
                window.write();
                // While a match continues, its end is used in place of the current place. The number of remaining
                // literals is then too large, but no more literals are needed either.
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
                // Makes the stored symbols visible to all lanes.
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

// Returns whether the flags are valid: as many matches as the counts state, and zeros after the last token.
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

// Two neighboring matches, or one or none at the end. The loaded values are not used here, so that the load does not
// stall.
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

// Decodes a data block. Returns the error, which is equal in all lanes. `notes` is the warp's memory for notes.
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
    uint32_t covered = 0; // in bytes
    uint32_t skipped = 0; // those of them in matches
    // Loads are issued ahead of their use.
    uint32_t next_flags = lane_id() < min_of(words, FLAGS / 32) ? in.flags[lane_id()] : 0;
    uint32_t next_match = 2 * lane_id(); // index in the data block
    Pair next = {};
    next.fetch(in, next_match);
    for (uint32_t first = 0; first < in.tokens; first += FLAGS) {
        const uint32_t flags = next_flags;
        const uint32_t next_word = (first + FLAGS) / 32 + lane_id();
        next_flags = next_word < words && lane_id() < FLAGS / 32 ? in.flags[next_word] : 0;
        // The number of literals before each match.
        const uint32_t matches_through = warp_inclusive_sum(uint32_t(__popc(flags)));
        const uint32_t matches = uniform_register(__shfl_sync(ALL_LANES, matches_through, WARP - 1));
        uint32_t slot = matches_through - __popc(flags);
        for (uint32_t bits = flags; bits != 0; ++slot) {
            const uint32_t rest = bits & bits - 1, place = __popc((bits ^ rest) - 1);
            store_shared_2(notes + LITERALS_BEFORE_AT + 2 * slot, lane_id() * 32 + place - slot);
            bits = rest;
        }
        __syncwarp();
        // Positions, without the symbols of previous matches.
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
            // The match before them, which has ended but is the source of some literals' places.
            if (lane_id() == 0) {
                store_shared_8(notes + MATCHES_AT, make_uint2(skipped - lead << 16, 0));
            }
            store_shared_16(notes + MATCHES_AT + 8 + 16 * lane_id(),
                            make_uint4(first_sum - lead << 16 | first_distance * WIDTH, first_end,
                                       second_sum - lead << 16 | second_distance * WIDTH, second_end));
            skipped = uniform_register(__shfl_sync(ALL_LANES, second_sum, WARP - 1));
            done += count;
            // The literals after the last match of the data block extend to its end.
            const uint32_t last_end = uniform_register(__shfl_sync(ALL_LANES, second_end, WARP - 1));
            const uint32_t end = done == matches ? literals_end + skipped : last_end;
            // A distance of 0 becomes the largest number when 1 is subtracted.
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

// Decodes all data blocks to `out`, one warp per data block. `starts` has the positions of their tokens, from
// lzss_starts. Sets the bits of errors in the status of a block's section; sections with STATUS_COUNTS are skipped.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    lzss_decode(const uint8_t *input, const DecodeSection *sections, uint32_t section_count, uint32_t blocks,
                const Start *starts, uint8_t *out, uint32_t *status) {
    __shared__ alignas(ALIGNED) uint8_t rings[IN_SHARED ? WARPS * RING : 16];
    __shared__ alignas(ALIGNED) uint8_t literals[WARPS * LITERALS];
    __shared__ alignas(16) uint8_t notes[WARPS][NOTES];
    const uint32_t block = blockIdx.x * WARPS + uniform_register(warp_id());
    if (block >= blocks) {
        return;
    }
    const uint32_t number = uniform_register(section_of(sections, section_count, block));
    // Other warps do not change this bit.
    if (uniform_register(status[number] & STATUS_COUNTS)) {
        return;
    }
    const DecodeSection section = sections[number];
    const uint32_t in_chunk = block - section.first_block;
    Input in = input_of(input, section, starts[block], in_chunk);
    in.tokens = uniform_register(in.tokens);
    in.matches = uniform_register(in.matches);
    in.symbols = uniform_register(in.symbols);
    const uint64_t offset = uint64_t(in_chunk) * BLOCK_BYTES;
    const uint32_t bytes = uniform_register(uint32_t(min_of<uint64_t>(BLOCK_BYTES, section.bytes - offset)));
    Window window = {kept(shared_address(rings) + warp_id() * RING), out + section.out + offset, bytes, 0};
    const uint32_t wrong = decode_block(in, window, kept(shared_address(literals) + warp_id() * LITERALS),
                                        kept(shared_address(notes[warp_id()])));
    if (wrong != 0 && lane_id() == 0) {
        atomicOr(&status[number], wrong);
    }
}
