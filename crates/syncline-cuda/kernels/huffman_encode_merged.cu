// Our encoder: one reading of the symbols, no waiting.
//
// A warp has a segment and no need of the other warps. In each round a lane takes 16 symbols, looks up their codewords and adds up their bits; a scan over the
// lanes says where its codewords go, which it joins in registers, pairs first (as the 2021 paper's reduce-merge does), and stores word by word to the warp's
// bit buffer in shared memory; only its first and last word can be shared with a neighbour and are or-ed. Whole lines of 128 bytes leave for the slot at once.
//
// THREADS       threads in a block
// SHARED_TABLE  1: the codewords are in shared memory; 0: in device memory, since there are too many
#include "huffman_encode.cuh"

constexpr uint32_t WARPS = THREADS / WARP;
// What one round adds, what is left of a line, and one word that no codeword reaches but the last word's test may.
constexpr uint32_t BUFFER_WORDS = WARP_SYMBOLS * LONGEST / 32 + WARP + 1;
constexpr uint32_t TABLE_ENTRIES = CLASSES * ALPHABET;

// Table entries: the code from the top bit down, the length in the low 5 bits, so that a shift by an entry is one by its length.
constexpr uint32_t CODE_MASK = 0xFFFFF000u;
constexpr uint32_t MISSING = 0x400;

__device__ inline uint32_t entry_of(uint32_t codeword) {
    uint32_t length = codeword >> CODE_BITS;
    return length == 0 ? MISSING : codeword << (32 - length) | length;
}

struct Writer {
    uint32_t *buffer;
    uint32_t first, word, filled, pending;

    __device__ inline Writer(uint32_t *buffer, uint32_t position)
        : buffer(buffer), first(position / 32), word(position / 32), filled(position % 32), pending(0) {}
    // Appends `length` bits, at most 32, from the top of `bits`.
    __device__ inline void put(uint32_t bits, uint32_t length) {
        uint32_t after = __funnelshift_r(0, bits, filled);
        pending |= __funnelshift_r(bits, 0, filled);
        filled += length;
        if (filled >= 32) {
            if (word == first) {
                atomicOr(&buffer[word], pending);
            } else {
                buffer[word] = pending;
            }
            ++word;
            filled -= 32;
            pending = after;
        }
    }
    __device__ inline void finish() {
        if (pending != 0) {
            atomicOr(&buffer[word], pending);
        }
    }
};

extern "C" __global__ void __launch_bounds__(THREADS)
    encode_merged(const uint8_t *symbols, const Span *spans, const uint32_t *codewords, const uint32_t *codebooks, const uint8_t *classes,
                  uint32_t segments_in_stream, uint32_t *slots, SegmentSums *sums, uint16_t *group_bits, uint32_t *status) {
    extern __shared__ uint32_t shared[];
    const uint32_t blocks_in_stream = ceil_div(segments_in_stream, WARPS);
    const uint32_t stream = blockIdx.x / blocks_in_stream;
    const uint32_t segment = blockIdx.x % blocks_in_stream * WARPS + warp_id();
    const Span span = spans[stream];
    if (uint64_t(segment - warp_id()) * SEGMENT_GROUPS >= span.groups) {
        return;
    }
    const uint32_t used_books = CLASSES == 1 || codebooks[stream] == 1 ? 1 : CLASSES;
    const uint32_t *books = codewords + uint64_t(book_of(stream, used_books, 0)) * ALPHABET;
    uint32_t *buffer = shared + warp_id() * BUFFER_WORDS;
    uint32_t *table = shared + WARPS * BUFFER_WORDS;
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
    const uint32_t stream_symbols = span.groups * GROUP;
    const uint8_t *stream_begin = symbols + span.first_group * GROUP * SYMBOL_BYTES;
    const uint32_t free_word = spread_symbol(span.free_symbol);
    uint32_t *slot = slots + (uint64_t(stream) * segments_in_stream + segment) * SLOT_WORDS;
    uint16_t *bits_of_groups = group_bits + uint64_t(stream) * segments_in_stream * SEGMENT_GROUPS;

    uint32_t live_before = 0, carried = 0, flushed = 0, sum = 0, weighted = 0;
    bool bad = false;
    uint32_t at = segment * SEGMENT + lane_id() * LANE_SYMBOLS;
    LaneSymbols next;
    next.load(stream_begin + uint64_t(at) * SYMBOL_BYTES, at < stream_symbols, free_word);
    for (uint32_t round = 0; round < rounds; ++round, at += WARP_SYMBOLS) {
        const LaneSymbols own = next;
        const uint32_t after = at + WARP_SYMBOLS;
        next.load(stream_begin + uint64_t(after) * SYMBOL_BYTES, round + 1 < rounds && after < stream_symbols, free_word);
        const uint32_t group = at / GROUP;
        const bool owns_group = lane_id() % LANES_IN_GROUP == 0 && at < stream_symbols;
        const uint32_t live_lanes = __ballot_sync(ALL_LANES, own.differs_from(free_word));
        if (live_lanes == 0) {
            if (owns_group) {
                bits_of_groups[group] = 0;
            }
            continue;
        }
        const bool live = (live_lanes & group_lanes()) != 0;
        uint32_t entries[LANE_SYMBOLS];
        uint32_t total = 0, any = 0;
        if (live) {
            uint32_t book = CLASSES == 1 || used_books == 1 ? 0 : min_of<uint32_t>(classes[span.first_group + group], CLASSES - 1) * ALPHABET;
#pragma unroll
            for (uint32_t i = 0; i < LANE_SYMBOLS; ++i) {
                uint32_t index = book + (own[i] & (ALPHABET - 1));
                entries[i] = SHARED_TABLE ? table[index] : entry_of(__ldg(&books[index]));
                total += entries[i];
                any |= entries[i];
            }
            // 16 lengths are below 0x400 together, so what else is in the entries does not reach them.
            total %= MISSING;
            bad |= (any & MISSING) != 0 || own.beyond_alphabet();
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
        if (live) {
            Writer writer(buffer, carried + through - total);
            if (LONGEST <= 16) {
#pragma unroll
                for (uint32_t i = 0; i < LANE_SYMBOLS; i += 2) {
                    uint32_t a = entries[i], b = entries[i + 1];
                    writer.put((a & CODE_MASK) | __funnelshift_r(b & CODE_MASK, 0, a), a % 32 + b % 32);
                }
            } else {
#pragma unroll
                for (uint32_t i = 0; i < LANE_SYMBOLS; ++i) {
                    writer.put(entries[i] & CODE_MASK, entries[i] % 32);
                }
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
    }
    if (lane_id() * 32 < carried) {
        slot[flushed + lane_id()] = buffer[lane_id()];
    }
    sum = warp_sum(sum);
    weighted = warp_sum(weighted);
    if (lane_id() == 0) {
        sums[uint64_t(stream) * segments_in_stream + segment] = {flushed * 32 + carried, live_before, sum, weighted};
    }
    if (__any_sync(ALL_LANES, bad) && lane_id() == 0) {
        atomicOr(&status[stream], STATUS_MISSING_CODEWORD);
    }
}
