// Moves tokens from the slots of data blocks to sections: first computes the offsets of each data block's flags,
// lengths, distances and literals in its chunk, then moves them. These are the second and third of the published
// kernels.
//
// LEVEL  level of the stage, which is written to the sections
#include "format/constants.cuh"
#include "device/warp.cuh"
#include "lzss/slots.cuh"

// Counts of the tokens before a data block in its chunk: flag words of 64 bits, matches, literals.
struct Start {
    uint32_t flag_words;
    uint32_t matches;
    uint32_t literals;
};

constexpr uint32_t PARAMETER_BYTES = 8;
constexpr uint32_t FIRST_SECTION = 2;

// Computes the starts of a chunk's data blocks and its plan; one thread block per chunk.
extern "C" __global__ void __launch_bounds__(THREADS)
    lzss_layout(const EncodeSection *sections, uint32_t section_count, uint32_t all_blocks, uint32_t prefix,
                const Counts *counts, Start *starts, SectionPlan *plans) {
    __shared__ uint64_t warp_sums[WARPS];
    const uint32_t first = sections[blockIdx.x].first_block;
    const uint32_t end = blockIdx.x + 1 < section_count ? sections[blockIdx.x + 1].first_block : all_blocks;
    uint64_t before = 0;
    uint32_t words_before = 0;
    for (uint32_t strip = first; strip < end; strip += THREADS) {
        const uint32_t block = strip + threadIdx.x;
        const Counts own = block < end ? counts[block] : Counts{0, 0};
        uint64_t total, total_words;
        const uint64_t sum = before + block_scan(packed(own.tokens, own.matches), warp_sums, total);
        const uint64_t words = words_before + block_scan(ceil_div(own.tokens, 64), warp_sums, total_words);
        if (block < end) {
            starts[block] = {uint32_t(words), uint32_t(sum), uint32_t(sum >> 32) - uint32_t(sum)};
        }
        before += total;
        words_before += uint32_t(total_words);
    }
    if (threadIdx.x == 0) {
        const uint32_t tokens = uint32_t(before >> 32), matches = uint32_t(before);
        SectionPlan plan = {{PARAMETER_BYTES + (end - first) * 8, words_before * 8, matches, matches * DISTANCE_BYTES,
                             (tokens - matches) * WIDTH},
                            end - first,
                            tokens,
                            matches,
                            prefix,
                            0};
        for (uint32_t i = 0; i < 5; ++i) {
            plan.bytes += align16(plan.section_bytes[i]);
        }
        plans[blockIdx.x] = plan;
    }
}

// Computes the offset of each chunk's sections, and the end of the last. One thread block.
extern "C" __global__ void __launch_bounds__(THREADS)
    lzss_places(uint32_t section_count, uint64_t room, SectionPlan *plans, uint64_t *places, uint32_t *lengths) {
    __shared__ uint64_t warp_sums[WARPS];
    uint64_t before = 0;
    for (uint32_t strip = 0; strip < section_count; strip += THREADS) {
        const uint32_t i = strip + threadIdx.x;
        const uint32_t bytes = i < section_count ? plans[i].bytes : 0;
        uint64_t total;
        const uint64_t place = before + block_scan(bytes, warp_sums, total);
        if (i < section_count) {
            places[i] = place;
            lengths[i] = bytes;
            plans[i].status = place + bytes > room;
        }
        before += total;
    }
    if (threadIdx.x == 0) {
        places[section_count] = before;
    }
}

// Copies `length` bytes. `from` is a multiple of 16 and may be read up to the next one. Called by the whole block.
__device__ inline void copy(uint8_t *to, const uint8_t *from, uint32_t length) {
    const uint32_t head = min_of<uint32_t>(length, uint32_t(-reinterpret_cast<uint64_t>(to) & 15));
    const uint32_t vectors = (length - head) / 16, shift = head % 4 * 8;
    const uint32_t *words = reinterpret_cast<const uint32_t *>(from) + head / 4;
    uint4 *aligned = reinterpret_cast<uint4 *>(to + head);
    for (uint32_t i = threadIdx.x; i < vectors; i += THREADS) {
        const uint32_t *source = words + i * 4;
        uint4 vector;
        if (shift == 0) {
            vector = make_uint4(source[0], source[1], source[2], source[3]);
        } else {
            const uint32_t b = source[1], c = source[2], d = source[3];
            vector = make_uint4(__funnelshift_r(source[0], b, shift), __funnelshift_r(b, c, shift),
                                __funnelshift_r(c, d, shift), __funnelshift_r(d, source[4], shift));
        }
        aligned[i] = vector;
    }
    if (threadIdx.x < head) {
        to[threadIdx.x] = from[threadIdx.x];
    }
    const uint32_t tail = head + vectors * 16 + threadIdx.x;
    if (tail < length) {
        to[tail] = from[tail];
    }
}

constexpr uint64_t NO_PLACE = ~0ull;

// Moves the tokens of a data block to their sections; one thread block per data block. Chunks without a place are
// skipped.
extern "C" __global__ void __launch_bounds__(THREADS)
    lzss_write(const EncodeSection *sections, uint32_t section_count, const Counts *counts, const Start *starts,
               const SectionPlan *plans, const uint64_t *places, uint32_t prefix, const uint8_t *slots, uint8_t *out) {
    const uint32_t block = blockIdx.x;
    const uint32_t number = section_of(sections, section_count, block);
    const EncodeSection section = sections[number];
    const SectionPlan &plan = plans[number];
    if (plan.status != 0 || places[number] == NO_PLACE) {
        return;
    }
    uint8_t *at[5];
    uint8_t *next = out + places[number] + prefix;
    for (uint32_t i = 0; i < 5; ++i) {
        at[i] = next;
        next += align16(plan.section_bytes[i]);
    }
    const Counts own = counts[block];
    const Start start = starts[block];
    const uint32_t literals = own.tokens - own.matches;
    const uint32_t in_chunk = block - section.first_block;
    if (threadIdx.x == 0) {
        *reinterpret_cast<Counts *>(at[0] + PARAMETER_BYTES + in_chunk * 8) = own;
    }
    const uint8_t *from = slots + uint64_t(block) * SLOT_BYTES;
    copy(at[1] + start.flag_words * 8, from, ceil_div(own.tokens, 64) * 8);
    from += SLOT_FLAGS;
    copy(at[4] + uint64_t(start.literals) * WIDTH, from, literals * WIDTH);
    from += align16(literals * WIDTH);
    copy(at[2] + start.matches, from, own.matches);
    from += align16(own.matches);
    copy(at[3] + uint64_t(start.matches) * DISTANCE_BYTES, from, own.matches * DISTANCE_BYTES);
}

constexpr uint32_t PLANE_GROUP = 128;

// Pads a plane of `count` symbols with zeros to a whole group.
template <typename Symbol> __device__ inline void fill_group(Symbol *plane, uint32_t count) {
    if (threadIdx.x < (PLANE_GROUP - count % PLANE_GROUP) % PLANE_GROUP) {
        plane[count + threadIdx.x] = 0;
    }
}

// Writes symbol `plane` of each of `count` literals. Returns the largest symbol of the calling thread.
template <typename Part>
__device__ inline uint32_t split(Part *to, const symbol_t *literals, uint32_t count, uint32_t plane) {
    uint32_t greatest = 0;
    for (uint32_t i = threadIdx.x; i < count; i += THREADS) {
        const Part symbol = Part(literals[i] >> (plane * 8 * sizeof(Part)));
        to[i] = symbol;
        greatest = max_of<uint32_t>(greatest, symbol);
    }
    return greatest;
}

// Moves the tokens of a data block to the planes of its chunk; one thread block per data block. `greatest` has four
// words per chunk, which must be 0 and receive the largest symbols of its planes of 16-bit symbols.
extern "C" __global__ void __launch_bounds__(THREADS)
    lzss_planes(const EncodeSection *sections, uint32_t section_count, const Counts *counts, const Start *starts,
                const SectionPlan *plans, const PlaneStarts *planes, const uint8_t *slots, uint8_t *bytes,
                uint16_t *words, uint32_t *greatest) {
    static_assert(THREADS >= PLANE_GROUP, "a thread for each symbol that is filled in");
    const uint32_t block = blockIdx.x;
    const uint32_t number = section_of(sections, section_count, block);
    const PlaneStarts &to = planes[number];
    const Counts own = counts[block];
    const Start start = starts[block];
    const uint32_t literals = own.tokens - own.matches;
    const uint8_t *from = slots + uint64_t(block) * SLOT_BYTES;
    copy(bytes + to.flags + start.flag_words * 8, from, ceil_div(own.tokens, 64) * 8);
    const symbol_t *symbols = reinterpret_cast<const symbol_t *>(from + SLOT_FLAGS);
    if (WIDTH == 1) {
        copy(bytes + to.bytes[0] + start.literals, from + SLOT_FLAGS, literals);
    } else {
#pragma unroll
        for (uint32_t plane = 0; plane < WIDTH; ++plane) {
            split(bytes + to.bytes[plane] + start.literals, symbols, literals, plane);
        }
#pragma unroll
        for (uint32_t plane = 0; plane < WIDTH / 2; ++plane) {
            const uint32_t own_greatest =
                warp_reduce_max(split(words + to.words[plane] + start.literals, symbols, literals, plane));
            if (lane_id() == 0 && own_greatest > 0) {
                atomicMax(&greatest[number * 4 + plane], own_greatest);
            }
        }
    }
    const uint8_t *lengths = from + SLOT_FLAGS + align16(literals * WIDTH);
    copy(bytes + to.lengths + start.matches, lengths, own.matches);
    const uint8_t *distances = lengths + align16(own.matches);
    if (DISTANCE_BYTES == 1) {
        copy(bytes + to.distances[0] + start.matches, distances, own.matches);
    } else {
        for (uint32_t i = threadIdx.x; i < own.matches; i += THREADS) {
            const uint32_t distance = reinterpret_cast<const uint16_t *>(distances)[i];
            bytes[to.distances[0] + start.matches + i] = uint8_t(distance);
            bytes[to.distances[1] + start.matches + i] = uint8_t(distance >> 8);
        }
    }
    if (block == sections[number].first_block) {
        const SectionPlan &plan = plans[number];
        fill_group(bytes + to.flags, plan.section_bytes[1]);
        fill_group(bytes + to.lengths, plan.matches);
        for (uint32_t plane = 0; plane < DISTANCE_BYTES; ++plane) {
            fill_group(bytes + to.distances[plane], plan.matches);
        }
        for (uint32_t plane = 0; plane < WIDTH; ++plane) {
            fill_group(bytes + to.bytes[plane], plan.tokens - plan.matches);
        }
        for (uint32_t plane = 0; plane < WIDTH / 2; ++plane) {
            fill_group(words + to.words[plane], plan.tokens - plan.matches);
        }
    }
}

// Returns a byte of a record before its first section; bytes of the hash are 0.
__device__ inline uint8_t header_byte(const EncodeSection &section, const SectionPlan &plan, uint32_t at) {
    const uint8_t marker[4] = {'S', 'Y', 'C', 'K'};
    if (at < 4) {
        return marker[at];
    }
    if (at < 8) {
        return uint8_t(plan.bytes >> (at - 4) * 8);
    }
    if (at < 16) {
        return uint8_t(section.chunk >> (at - 8) * 8);
    }
    const uint32_t number = (at - format::RECORD_HEADER_BYTES) / 4 - FIRST_SECTION;
    if (at < format::RECORD_HEADER_BYTES || number >= 5) {
        return at == 16 ? uint8_t(format::KIND_LZSS) : 0;
    }
    return uint8_t(plan.section_bytes[number] >> at % 4 * 8);
}

// Writes the bytes of a record before its sections, a chunk's parameters, and zeros between its sections; one warp per
// chunk. A chunk without data blocks has parameters, too.
extern "C" __global__ void __launch_bounds__(THREADS)
    lzss_edges(const EncodeSection *sections, uint32_t section_count, const SectionPlan *plans, const uint64_t *places,
               uint32_t prefix, uint8_t *out) {
    const uint32_t number = blockIdx.x * WARPS + warp_id();
    if (number >= section_count || plans[number].status != 0) {
        return;
    }
    uint8_t *at = out + places[number];
    for (uint32_t i = lane_id(); i < prefix; i += WARP) {
        at[i] = header_byte(sections[number], plans[number], i);
    }
    at += prefix;
    if (lane_id() < PARAMETER_BYTES) {
        const uint32_t min_match = sections[number].min_match;
        at[lane_id()] = uint8_t(lane_id() == 0 ? WIDTH : lane_id() == 1 ? LEVEL : lane_id() == 2 ? min_match : 0);
    }
    for (uint32_t i = 0; i < 5; ++i) {
        const uint32_t bytes = plans[number].section_bytes[i];
        if (lane_id() < 16 && bytes + lane_id() < align16(bytes)) {
            at[bytes + lane_id()] = 0;
        }
        at += align16(bytes);
    }
}
