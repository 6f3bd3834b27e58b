// Our encoder: one reading of the symbols, no waiting.
//
// A warp has a segment and no need of the other warps. In each round a lane takes 16 symbols, looks up their codewords and adds up their bits; a scan over the
// lanes says where its codewords go, which it joins in registers, pairs first (as the 2021 paper's reduce-merge does), and stores word by word to the warp's
// bit buffer in shared memory; only its first and last word can be shared with a neighbour and are or-ed. Whole lines of 128 bytes leave for the slot at once.
//
// THREADS       threads in a block
// BLOCKS        blocks that a multiprocessor should hold: what registers are dealt out for
// SHARED_TABLE  1: the codewords are in shared memory; 0: in device memory, since there are too many
#include "huffman_encode.cuh"

constexpr uint32_t WARPS = THREADS / WARP;
// What one round adds, what is left of a line, and one word that no codeword reaches but the last word's test may.
constexpr uint32_t BUFFER_WORDS = WARP_SYMBOLS * LONGEST / 32 + WARP + 1;

// Table entries: the code from the top bit down, the length in the low 5 bits, so that a shift by an entry is one by its length.
constexpr uint32_t CODE_MASK = 0xFFFFF000u;
// Above the sum of 16 lengths, and four times that is below the codes.
constexpr uint32_t MISSING = 0x200;
constexpr uint32_t ANY_MISSING = 7 * MISSING;

__device__ inline uint32_t entry_of(uint32_t codeword) {
    uint32_t length = codeword >> CODE_BITS;
    return length == 0 ? MISSING : codeword << (32 - length) | length;
}

// Joins the codewords of JOINED entries, from the top bit of the result down. `sum` becomes the entries' sum: their bits modulo MISSING.
constexpr uint32_t JOINED = LONGEST <= 16 ? 4 : 2;
__device__ inline uint64_t join(const uint32_t *entries, uint32_t &sum) {
    const uint32_t a = entries[0], b = entries[1];
    sum = a + b;
    uint32_t high = (a & CODE_MASK) | __funnelshift_r(b & CODE_MASK, 0, a);
    if (JOINED == 2) {
        return uint64_t(high) << 32 | __funnelshift_r(0, b & CODE_MASK, a);
    }
    const uint32_t c = entries[JOINED - 2], d = entries[JOINED - 1];
    const uint32_t back = (c & CODE_MASK) | __funnelshift_r(d & CODE_MASK, 0, c);
    // Up to 32: clamped, not taken modulo 32.
    const uint32_t front_bits = sum % 64;
    sum += c + d;
    return uint64_t(high | __funnelshift_rc(back, 0, front_bits)) << 32 | __funnelshift_rc(0, back, front_bits);
}

// `if (condition) atomicOr(word, bits)`, predicated: the compiler would branch.
__device__ inline void or_shared_if(bool condition, uint32_t *word, uint32_t bits) {
    asm volatile("{ .reg .pred condition;\n"
                 "  setp.ne.u32 condition, %2, 0;\n"
                 "  @condition red.shared.or.b32 [%0], %1; }" ::"r"(uint32_t(__cvta_generic_to_shared(word))),
                 "r"(bits), "r"(uint32_t(condition))
                 : "memory");
}

// Appends pieces to the buffer, which is zero from `position` on. Words are or-ed: the first and last may be a neighbour's too.
struct Writer {
    uint32_t *word;
    uint32_t filled, pending;

    __device__ inline Writer(uint32_t *buffer, uint32_t position) : word(buffer + position / 32), filled(position % 32), pending(0) {}
    __device__ inline void put(uint64_t piece, uint32_t bits) {
        const uint32_t high = uint32_t(piece >> 32), low = uint32_t(piece);
        const uint32_t first = pending | __funnelshift_r(high, 0, filled);
        const uint32_t second = __funnelshift_r(low, high, filled);
        const uint32_t third = __funnelshift_r(0, low, filled);
        const uint32_t end = filled + bits;
        or_shared_if(end >= 32, word, first);
        if (end >= 64) {
            word[1] = second;
        }
        pending = end >= 64 ? third : end >= 32 ? second : first;
        word += end / 32;
        filled = end % 32;
    }
    __device__ inline void finish() {
        or_shared_if(pending != 0, word, pending);
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    encode_merged(const uint8_t *symbols, const Span *spans, const uint32_t *codewords, const uint32_t *codebooks, const uint8_t *classes,
                  uint32_t segments_in_stream, uint32_t *slots, SegmentSums *sums, uint16_t *group_bits) {
    __shared__ uint32_t table[SHARED_TABLE ? CLASSES * ALPHABET : 1];
    __shared__ uint32_t buffers[WARPS][BUFFER_WORDS];
    const uint32_t blocks_in_stream = ceil_div(segments_in_stream, WARPS);
    const uint32_t stream = blockIdx.x / blocks_in_stream;
    const uint32_t segment = blockIdx.x % blocks_in_stream * WARPS + warp_id();
    const Span span = spans[stream];
    if (uint64_t(segment - warp_id()) * SEGMENT_GROUPS >= span.groups) {
        return;
    }
    const uint32_t used_books = CLASSES == 1 || codebooks[stream] == 1 ? 1 : CLASSES;
    const uint32_t *books = codewords + uint64_t(book_of(stream, used_books, 0)) * ALPHABET;
    uint32_t *buffer = buffers[warp_id()];
    for (uint32_t i = lane_id(); i < BUFFER_WORDS; i += WARP) {
        buffer[i] = 0;
    }
    if (SHARED_TABLE) {
        for (uint32_t i = threadIdx.x; i < used_books * ALPHABET; i += THREADS) {
            table[i] = entry_of(books[i]);
        }
    }
    __syncthreads();
    const uint32_t first_group = segment * SEGMENT_GROUPS;
    if (first_group >= span.groups) {
        return;
    }
    const uint32_t rounds = ceil_div(min_of(SEGMENT_GROUPS, span.groups - first_group) * GROUP, WARP_SYMBOLS);
    const uint32_t stream_symbols = span.groups * GROUP, last = stream_symbols - LANE_SYMBOLS;
    const uint8_t *stream_begin = symbols + span.first_group * GROUP * SYMBOL_BYTES;
    const uint32_t free_word = spread_symbol(span.free_symbol);
    uint32_t *slot = slots + (uint64_t(stream) * segments_in_stream + segment) * SLOT_WORDS;
    uint16_t *bits_of_groups = group_bits + uint64_t(stream) * segments_in_stream * SEGMENT_GROUPS;

    uint32_t live_before = 0, carried = 0, flushed = 0, sum = 0, weighted = 0;
    bool bad = false;
    uint32_t at = segment * SEGMENT + lane_id() * LANE_SYMBOLS;
    auto encode_round = [&](const LaneSymbols &own) {
        const uint32_t group = at / GROUP;
        const bool owns_group = lane_id() % LANES_IN_GROUP == 0 && at < stream_symbols;
        const uint32_t live_lanes = __ballot_sync(ALL_LANES, at < stream_symbols && own.differs_from(free_word));
        if (live_lanes == 0) {
            if (owns_group) {
                bits_of_groups[group] = 0;
            }
            return;
        }
        const bool live = (live_lanes & group_lanes()) != 0;
        constexpr uint32_t PIECES = LANE_SYMBOLS / JOINED;
        uint64_t pieces[PIECES];
        uint32_t bits[PIECES] = {};
        uint32_t total = 0, any = 0;
        if (live) {
            uint32_t book = CLASSES == 1 || used_books == 1 ? 0 : min_of<uint32_t>(classes[span.first_group + group], CLASSES - 1) * ALPHABET;
#pragma unroll
            for (uint32_t i = 0; i < PIECES; ++i) {
                uint32_t entries[JOINED];
#pragma unroll
                for (uint32_t j = 0; j < JOINED; ++j) {
                    const uint32_t index = book + (own[JOINED * i + j] & (ALPHABET - 1));
                    entries[j] = SHARED_TABLE ? table[index] : entry_of(__ldg(&books[index]));
                }
                uint32_t entry_sum;
                pieces[i] = join(entries, entry_sum);
                any |= entry_sum;
                bits[i] = entry_sum % MISSING;
                total += bits[i];
            }
            bad |= (any & ANY_MISSING) != 0 || own.beyond_alphabet();
            uint32_t own_sum = 0;
            own.checksum(own_sum, weighted);
            uint32_t rank = live_before + __popc(live_group_bits(live_lanes) & ((1u << lane_id() / LANES_IN_GROUP * LANES_IN_GROUP) - 1));
            sum += own_sum;
            weighted += (rank * GROUP + lane_id() % LANES_IN_GROUP * LANE_SYMBOLS) * own_sum;
        }
        live_before += __popc(live_group_bits(live_lanes));
        const uint32_t through = warp_scan_inclusive(total);
        const uint32_t group_end = __shfl_sync(ALL_LANES, through, lane_id() | (LANES_IN_GROUP - 1));
        if (owns_group) {
            bits_of_groups[group] = group_end - (through - total);
        }
        // The fewer pieces, the fewer stores: most often two make one of at most 64 bits, and at low entropy all do.
        bool fits = true;
#pragma unroll
        for (uint32_t i = 0; i < PIECES; i += 2) {
            fits &= bits[i] + bits[i + 1] <= 64;
        }
        if (__all_sync(ALL_LANES, fits)) {
            if (live) {
                Writer writer(buffer, carried + through - total);
                uint64_t all = pieces[0] | pieces[1] >> bits[0];
                uint32_t all_bits = bits[0] + bits[1];
#pragma unroll
                for (uint32_t i = 2; i < PIECES; i += 2) {
                    const uint64_t two = pieces[i] | pieces[i + 1] >> bits[i];
                    const uint32_t two_bits = bits[i] + bits[i + 1];
                    if (all_bits + two_bits <= 64) {
                        // Neither is empty, so the shift is by less than 64.
                        all |= two >> all_bits;
                        all_bits += two_bits;
                    } else {
                        writer.put(all, all_bits);
                        all = two;
                        all_bits = two_bits;
                    }
                }
                writer.put(all, all_bits);
                writer.finish();
            }
        } else if (live) {
            Writer writer(buffer, carried + through - total);
#pragma unroll
            for (uint32_t i = 0; i < PIECES; ++i) {
                writer.put(pieces[i], bits[i]);
            }
            writer.finish();
        }
        __syncwarp();
        carried += __shfl_sync(ALL_LANES, through, WARP - 1);
        // What is left of the last line is at most 32 words, the last of them not full.
        const uint32_t whole = carried / 32 / WARP * WARP;
        if (whole > 0) {
            for (uint32_t i = lane_id(); i < whole; i += WARP) {
                __stcs(&slot[flushed + i], buffer[i]);
                buffer[i] = 0;
            }
            const uint32_t left = buffer[whole + lane_id()];
            buffer[whole + lane_id()] = 0;
            __syncwarp();
            buffer[lane_id()] = left;
            flushed += whole;
            carried -= whole * 32;
        }
        __syncwarp();
    };
    // Two rounds by turns, so that the next symbols are under way while these are encoded and need not be moved.
    LaneSymbols even, odd;
    even.load(stream_begin + min_of(at, last) * SYMBOL_BYTES);
    for (uint32_t round = 0; round < rounds; round += 2) {
        odd.load(stream_begin + min_of(at + WARP_SYMBOLS, last) * SYMBOL_BYTES);
        encode_round(even);
        at += WARP_SYMBOLS;
        even.load(stream_begin + min_of(at + WARP_SYMBOLS, last) * SYMBOL_BYTES);
        if (round + 1 < rounds) {
            encode_round(odd);
        }
        at += WARP_SYMBOLS;
    }
    if (lane_id() * 32 < carried) {
        slot[flushed + lane_id()] = buffer[lane_id()];
    }
    sum = warp_sum(sum);
    weighted = warp_sum(weighted);
    const bool any_bad = __any_sync(ALL_LANES, bad);
    if (lane_id() == 0) {
        sums[uint64_t(stream) * segments_in_stream + segment] = {flushed * 32 + carried, live_before | (any_bad ? SEGMENT_BAD : 0), sum, weighted};
    }
}
