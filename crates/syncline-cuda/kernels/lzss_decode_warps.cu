// Tokens back to symbols, a warp a block: for many blocks, so that there are warps enough.
//
// A warp goes through a block's matches 31 at a time: where they start is a sum of literals and lengths. It makes 32 positions at a time: which match each belongs to, or follows, is a count of
// bits, of a word that has one where a match starts. Symbols that lie before these 32 positions are there already; those among them follow their sources by pointer doubling, from lane
// to lane. Short windows are kept in shared memory and written in pieces; long ones are read where they were written.
//
// BLOCKS  blocks of threads to a multiprocessor
#include "lzss_decode.cuh"
#include "scan.cuh"

// A block of threads for each chunk.
extern "C" __global__ void __launch_bounds__(THREADS) lzss_starts(const uint8_t *input, const Section *sections, uint32_t section_count,
                                                                  uint32_t all_blocks, Start *starts, uint32_t *status) {
    __shared__ uint64_t warp_sums[WARPS];
    const Section section = sections[blockIdx.x];
    const uint32_t end = blockIdx.x + 1 < section_count ? sections[blockIdx.x + 1].first_block : all_blocks;
    const Counts *counts = reinterpret_cast<const Counts *>(input + section.counts);
    uint64_t before = 0, words_before = 0;
    bool is_wrong = false;
    for (uint32_t strip = section.first_block; strip < end; strip += THREADS) {
        const uint32_t block = strip + threadIdx.x;
        const uint32_t in_chunk = block - section.first_block;
        Counts own = block < end ? counts[in_chunk] : Counts{0, 0};
        if (block < end && (own.matches > own.tokens || own.tokens - own.matches + uint64_t(own.matches) * section.min_match > symbols_of(section, in_chunk))) {
            is_wrong = true;
            own = {0, 0};
        }
        uint64_t total, total_words;
        const uint64_t sum = before + block_scan(packed(own.tokens, own.matches), warp_sums, total);
        const uint64_t words = words_before + block_scan(ceil_div(own.tokens, 64), warp_sums, total_words);
        if (block < end) {
            starts[block] = {own.tokens, own.matches, uint32_t(words), uint32_t(sum), uint32_t(sum >> 32) - uint32_t(sum)};
        }
        before += total;
        words_before += total_words;
    }
    const uint64_t tokens = before >> 32, matches = uint32_t(before);
    is_wrong |= words_before * 8 != section.flag_bytes || matches != section.length_bytes || matches * DISTANCE_BYTES != section.distance_bytes ||
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
        asm volatile("st.shared.v2.u32 [%0], {%1, %2};" : : "r"(address), "r"(uint32_t(symbol)), "r"(uint32_t(uint64_t(symbol) >> 32)) : "memory");
    }
}

__device__ inline uint4 load_shared_16(uint32_t address) {
    uint4 all;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(all.x), "=r"(all.y), "=r"(all.z), "=r"(all.w) : "r"(address) : "memory");
    return all;
}

__device__ inline uint8_t load_shared_byte(uint32_t address) {
    uint32_t byte;
    asm volatile("ld.shared.u8 %0, [%1];" : "=r"(byte) : "r"(address) : "memory");
    return uint8_t(byte);
}

__device__ inline uint32_t lanes_through() {
    uint32_t lanes;
    asm("mov.u32 %0, %%lanemask_le;" : "=r"(lanes));
    return lanes;
}

// A value that is kept in a register: the compiler would work some out anew in the innermost loop.
__device__ inline uint32_t kept(uint32_t value) {
    asm volatile("" : "+r"(value));
    return value;
}

__device__ inline uint32_t any_of(uint32_t bits) {
#if __CUDA_ARCH__ >= 800
    return __reduce_or_sync(ALL_LANES, bits);
#else
#pragma unroll
    for (uint32_t distance = WARP / 2; distance > 0; distance /= 2) {
        bits |= __shfl_xor_sync(ALL_LANES, bits, distance);
    }
    return bits;
#endif
}

// A bit, or none where there is no such.
__device__ inline uint32_t bit_at(uint32_t place) {
    uint32_t bit;
    asm("shl.b32 %0, 1, %1;" : "=r"(bit) : "r"(place));
    return bit;
}

// Of a window of at most 255 symbols, those and what is not written yet lie in shared memory: in a ring. Longer ones are read where they were written.
constexpr bool IN_SHARED = DISTANCE_BYTES == 1;
constexpr uint32_t PIECE = 512; // bytes that are written at a time
constexpr uint32_t RING = max_of<uint32_t>(512 * WIDTH, 2 * PIECE);
constexpr uint32_t ALIGNED = 1024; // what shared memory can be relied on to be aligned to
constexpr uint32_t NEVER = 0xffffffff;
constexpr uint32_t STEP = WARP * WIDTH; // bytes that are made at a time

struct Window {
    uint32_t ring;
    uint8_t *out;
    uint32_t bytes; // of the block
    uint32_t written;
    uint32_t next; // where the next piece ends, if it is whole

    __device__ inline uint32_t address(uint32_t position) const {
        return RING <= ALIGNED ? (position & (RING - 1)) | ring : ring + (position & (RING - 1));
    }

    __device__ inline wide_t get(uint32_t position) const {
        return IN_SHARED ? load_shared(address(position)) : wide_t(*reinterpret_cast<const symbol_t *>(out + position));
    }

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
        __syncwarp();
    }

    // Writes a piece where all of it is there, what is before `end` being so.
    __device__ inline void write(uint32_t end) {
        if (IN_SHARED && end >= next) {
            write_piece();
        }
    }

    // That whose last symbol is not whole is left.
    __device__ inline void write_piece() {
        const uint32_t own = written + 16 * lane_id();
        *reinterpret_cast<uint4 *>(out + own) = load_shared_16(address(own));
        written += PIECE;
        next = written + PIECE <= bytes ? written + PIECE : NEVER;
    }

    __device__ inline void finish(uint32_t end) {
        write(end);
        if (IN_SHARED) {
            for (uint32_t byte = written + lane_id(); byte < bytes; byte += WARP) {
                out[byte] = load_shared_byte(address(byte));
            }
        }
    }
};

// What the lanes that make symbols need of a match, in bytes.
struct Match {
    uint32_t word; // distance, and in the upper half the lengths of the matches up to here: so much less than a position is the place of a literal behind it
    uint32_t end;
};

// The symbols from `first` up to `end`; lanes have their matches, whose starts are `offset` symbols behind the first, if they start here at all. That of lane 0 has ended.
__device__ inline void make_symbols(Window &window, const uint8_t *literals, const Match &match, uint32_t offset, uint32_t first, uint32_t end, uint32_t through) {
    const uint32_t own_byte = lane_id() * WIDTH;
    uint32_t last = 0; // the last match that starts before the positions
    for (uint32_t base = first; base < end; base += STEP) {
        window.write(base);
        const uint32_t starts = any_of(bit_at(offset));
        offset -= WARP;
        const uint32_t position = base + own_byte;
        wide_t symbol = 0;
        const uint32_t from = last + __popc(starts & through);
        last += __popc(starts);
        const uint32_t word = __shfl_sync(ALL_LANES, match.word, from);
        const bool is_match = position < __shfl_sync(ALL_LANES, match.end, from);
        const uint32_t distance = word & 0xffff;
        const bool is_inside = is_match && distance <= own_byte;
        if (is_match) {
            if (!is_inside) {
                symbol = window.get(position - distance);
            }
        } else if (position < end) {
            symbol = *reinterpret_cast<const symbol_t *>(literals + (position - (word >> 16)));
        }
        if (__any_sync(ALL_LANES, is_inside)) {
            const uint32_t inside = __ballot_sync(ALL_LANES, is_inside);
            uint32_t source = is_inside ? (own_byte - distance) / WIDTH : lane_id();
            if (__any_sync(ALL_LANES, inside >> source & 1)) {
#pragma unroll
                for (uint32_t i = 0; i < 5; ++i) {
                    source = __shfl_sync(ALL_LANES, source, source);
                }
            }
            symbol = __shfl_sync(ALL_LANES, symbol, source);
        }
        window.put(position, symbol, end);
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
    return warp_sum(matches) == in.matches;
}

// Tokens whose flags a warp reads at a time, a word a lane.
constexpr uint32_t FLAGS = WARP * 32;
// Matches that are made at a time: lane 0 has the one before.
constexpr uint32_t GROUP = WARP - 1;

// Decodes a block; what is wrong with it, the same in all lanes. `slots` has room for FLAGS matches.
__device__ inline uint32_t decode_block(const Input &in, Window &window, uint16_t *slots) {
    if (!are_flags_right(in)) {
        return STATUS_FLAGS;
    }
    const uint32_t through = kept(lanes_through());
    const uint8_t *literals = reinterpret_cast<const uint8_t *>(in.literals);
    const uint32_t words = ceil_div(in.tokens, 32);
    uint32_t covered = 0; // bytes
    uint32_t skipped = 0; // of these in matches
    // Loads are ahead of what is worked on.
    uint32_t next_flags = lane_id() < words ? in.flags[lane_id()] : 0;
    uint32_t next_match = lane_id() - 1; // of the block's
    uint32_t next_length = 0, next_distance = 0;
    if (next_match < in.matches) {
        next_length = in.lengths[next_match];
        next_distance = in.distances[next_match];
    }
    for (uint32_t first = 0; first < in.tokens; first += FLAGS) {
        const uint32_t flags = next_flags;
        const uint32_t next_word = first / 32 + WARP + lane_id();
        next_flags = next_word < words ? in.flags[next_word] : 0;
        // Of each match the literals before it.
        const uint32_t matches_through = warp_scan_inclusive(uint32_t(__popc(flags)));
        const uint32_t matches = __shfl_sync(ALL_LANES, matches_through, WARP - 1);
        uint32_t slot = matches_through - __popc(flags);
        for (uint32_t bits = flags; bits != 0; bits &= bits - 1) {
            slots[slot] = uint16_t(lane_id() * 32 + __ffs(bits) - 1 - slot);
            ++slot;
        }
        __syncwarp();
        // Positions without the matches before them.
        const uint32_t start_here = covered - skipped;
        const uint32_t literals_end = start_here + (min_of(in.tokens - first, FLAGS) - matches) * WIDTH;
        uint32_t done = 0;
        do {
            const uint32_t own = done + lane_id() - 1;
            const bool is_match = lane_id() > 0 && own < matches;
            const uint32_t distance = next_distance;
            const uint32_t length = is_match ? (next_length + in.min_match) * WIDTH : 0;
            const uint32_t count = min_of(matches - done, GROUP);
            next_match += count;
            if (next_match < in.matches) {
                next_length = in.lengths[next_match];
                next_distance = in.distances[next_match];
            }
            const uint32_t sum = skipped + warp_scan_inclusive(length);
            const uint32_t start = start_here + (is_match ? slots[own] * WIDTH : 0) + sum - length;
            const uint32_t match_end = is_match ? start + length : 0;
            skipped = __shfl_sync(ALL_LANES, sum, WARP - 1);
            done += count;
            // Literals behind the last match of all: up to the end.
            const uint32_t last_end = __shfl_sync(ALL_LANES, match_end, count);
            const uint32_t end = done == matches ? literals_end + skipped : last_end;
            // A distance of 0 is greater than all others, less one.
            if (__any_sync(ALL_LANES, (is_match && distance - 1 >= start / WIDTH) || end > in.symbols * WIDTH)) {
                return STATUS_MATCH;
            }
            const Match match = {kept(is_match ? distance * WIDTH | sum << 16 : sum << 16), kept(match_end)};
            const uint32_t offset = is_match ? (start - covered) / WIDTH : 0x80000000;
            make_symbols(window, literals, match, offset, covered, end, through);
            covered = end;
        } while (done < matches);
        __syncwarp();
    }
    if (covered != in.symbols * WIDTH) {
        return STATUS_MATCH;
    }
    window.finish(covered);
    return 0;
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    lzss_decode_warps(const uint8_t *input, const Section *sections, uint32_t section_count, uint32_t blocks, const Start *starts, uint8_t *out, uint32_t *status) {
    __shared__ alignas(ALIGNED) uint8_t rings[IN_SHARED ? WARPS * RING : 16];
    __shared__ uint16_t slots[WARPS][FLAGS];
    const uint32_t block = blockIdx.x * WARPS + warp_id();
    if (block >= blocks) {
        return;
    }
    const uint32_t number = section_of(sections, section_count, block);
    // This bit is not changed by what other blocks find.
    if (status[number] & STATUS_COUNTS) {
        return;
    }
    const Section section = sections[number];
    const uint32_t in_chunk = block - section.first_block;
    const Input in = input_of(input, section, starts[block], in_chunk);
    const uint64_t offset = uint64_t(in_chunk) * BLOCK_BYTES;
    const uint32_t bytes = uint32_t(min_of<uint64_t>(BLOCK_BYTES, section.bytes - offset));
    Window window = {kept(shared_address(rings) + warp_id() * RING), out + section.out + offset, bytes, 0, PIECE <= bytes ? PIECE : NEVER};
    const uint32_t wrong = decode_block(in, window, slots[warp_id()]);
    if (wrong != 0 && lane_id() == 0) {
        atomicOr(&status[number], wrong);
    }
}
