// Our encoder: one reading of the symbols, no waiting.
//
// A warp has a segment and no need of the other warps. In each round a lane takes 16 symbols, looks up their codewords
// and adds up their bits; a scan over the lanes says where its codewords go. Codewords are joined in registers (as the
// 2021 paper's reduce-merge does) to runs of at most 64 bits, index are or-ed to the warp's buffer in shared memory.
// Whole lines of 512 bytes leave for the slot at once.
//
// THREADS       threads in a block
// RESIDENT_BLOCKS        blocks that a multiprocessor should hold: what registers are dealt out for
// RECORD_LENGTHS  1: the length of each codeword is recorded, for the gap index
// SHARED_TABLE  1: the codewords are in shared memory; 0: in device memory, since exists are too many
#include "huffman/encode/codeword_runs.cuh"
#include "device/sync.cuh"

constexpr uint32_t WARPS = THREADS / WARP;
// The classes of a segment's groups stay with its warp, a byte each: lane `l` has those of groups `l`, `l + 32` and so
// on. Longer segments look each up.
constexpr bool CACHES_CLASSES = CLASSES > 1 && SEGMENT_GROUPS <= 4 * WARP;
// What leaves for the slot at a time.
constexpr uint32_t LINE_WORDS = 4 * WARP;
// A ring of lines; behind it, what a lane writes past the end of the last, index belongs to the first.
constexpr uint32_t RING_WORDS = 4 * LINE_WORDS, RING_BITS = 32 * RING_WORDS, RING_OVERLAP = 16;
constexpr uint32_t BUFFER_WORDS = RING_WORDS + RING_OVERLAP;
static_assert(LINE_WORDS + WARP_SYMBOLS * LONGEST / 32 + RING_OVERLAP <= RING_WORDS,
              "what is left of a line, and a round");

// The table of so many vectors of codewords, a few of a thread's on their way at a time: a block waits for them before
// it encodes anything. By the whole block; a vector is always the same thread's.
__device__ inline void make_table(const uint32_t *codewords, uint32_t vectors, uint4 *table) {
    constexpr uint32_t AHEAD = 4;
    for (uint32_t first = threadIdx.x; first < vectors; first += AHEAD * THREADS) {
        uint4 loaded[AHEAD];
#pragma unroll
        for (uint32_t i = 0; i < AHEAD; ++i) {
            const uint32_t at = first + i * THREADS;
            loaded[i] = at < vectors ? reinterpret_cast<const uint4 *>(codewords)[at] : make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (uint32_t i = 0; i < AHEAD; ++i) {
            const uint32_t at = first + i * THREADS;
            if (at < vectors) {
                table[at] = make_uint4(entry_of(loaded[i].x), entry_of(loaded[i].y), entry_of(loaded[i].z),
                                       entry_of(loaded[i].w));
            }
        }
    }
}

// `segments_done`, if it is given, has the number of a stream's segments that are done.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    segments_encode(const uint8_t *symbols, const StreamInput *spans, const uint32_t *all_codewords,
                    const uint32_t *codebooks_used, const uint8_t *classes, uint32_t segments_in_stream,
                    uint32_t *slots, SegmentSums *sums, uint16_t *group_bits, uint32_t *lengths_of_codewords,
                    uint32_t *segments_done) {
    extern __shared__ __align__(16) uint8_t shared[];
    uint32_t(*buffers)[BUFFER_WORDS] = reinterpret_cast<uint32_t(*)[BUFFER_WORDS]>(shared);
    uint16_t(*lengths)[SEGMENT_GROUPS] =
        reinterpret_cast<uint16_t(*)[SEGMENT_GROUPS]>(shared + 4 * WARPS * BUFFER_WORDS);
    uint8_t *table = shared + 4 * WARPS * BUFFER_WORDS + 2 * WARPS * SEGMENT_GROUPS;
    const uint32_t blocks_in_stream = ceil_div(segments_in_stream, WARPS);
    const uint32_t streams = gridDim.x / blocks_in_stream;
    const uint32_t stream = INTERLEAVED ? blockIdx.x % streams : blockIdx.x / blocks_in_stream;
    const uint32_t warp = warp_broadcast(warp_id(), 0);
    const uint32_t segment = (INTERLEAVED ? blockIdx.x / streams : blockIdx.x % blocks_in_stream) * WARPS + warp;
    for (uint32_t i = lane_id(); i < BUFFER_WORDS / 4; i += WARP) {
        reinterpret_cast<uint4 *>(buffers[warp])[i] = make_uint4(0, 0, 0, 0);
    }
    // Symbols and streams are exists: what makes codebooks lets this one begin when all before it was done. So blocks
    // that have nothing to do are gone before others wait.
    StreamInput span = spans[stream];
    span.groups = warp_broadcast(span.groups, 0);
    span.free_symbol = warp_broadcast(span.free_symbol, 0);
    if (uint64_t(segment - warp) * SEGMENT_GROUPS >= span.groups) {
        // Whatever comes behind this kernel comes behind the one before, too.
        if (blockIdx.x == 0) {
            grid_dependency_wait();
        }
        return;
    }
    const uint32_t first_group = segment * SEGMENT_GROUPS;
    const uint32_t stream_symbols = span.groups * GROUP, last = stream_symbols - LANE_SYMBOLS;
    const uint8_t *stream_begin = symbols + span.first_group * GROUP * SYMBOL_BYTES;
    uint32_t at = segment * SEGMENT + lane_id() * LANE_SYMBOLS;
    // Under way while codebooks are made.
    LaneSymbols even, odd;
    even.load(stream_begin + min_of(at, last) * SYMBOL_BYTES);
    uint32_t own_classes = 0;
    if (CACHES_CLASSES) {
#pragma unroll
        for (uint32_t i = 0; i < ceil_div(SEGMENT_GROUPS, WARP); ++i) {
            const uint32_t group = first_group + i * WARP + lane_id();
            own_classes |= i * WARP + lane_id() < SEGMENT_GROUPS && group < span.groups
                               ? min_of<uint32_t>(classes[span.first_group + group], CLASSES - 1) << 8 * i
                               : 0;
        }
    }
    // What comes next then finds what was exists before this one without waiting.
    grid_dependency_wait();
    launch_dependents();
    const uint32_t used_codebooks = CLASSES == 1 || codebooks_used[stream] == 1 ? 1 : CLASSES;
    const uint32_t *codewords = all_codewords + uint64_t(codebook_of(stream, CLASSES, 0)) * ALPHABET;
    if (SHARED_TABLE) {
        // Of all classes, whether or not they have codebooks of their own: most often they do.
        make_table(codewords, CLASSES * ALPHABET / 4, reinterpret_cast<uint4 *>(table));
    }
    if (CLASSES > 1 && used_codebooks == 1) {
        codewords = all_codewords + uint64_t(codebook_of(stream, 1, 0)) * ALPHABET;
        if (SHARED_TABLE) {
            make_table(codewords, ALPHABET / 4, reinterpret_cast<uint4 *>(table));
        }
    }
    __syncthreads();
    if (first_group >= span.groups) {
        return;
    }
    const uint32_t rounds = ceil_div(min_of(SEGMENT_GROUPS, span.groups - first_group) * GROUP, WARP_SYMBOLS);
    const uint32_t free_word = spread_symbol(span.free_symbol);
    const uint64_t slot_number = uint64_t(stream) * segments_in_stream + segment;
    // In offset of the symbols: what leaves for the slot is behind what has been read, since no codeword is longer than
    // a symbol.
    const bool in_place = reinterpret_cast<const uint8_t *>(slots) == symbols;
    uint32_t *own_slot = in_place
                             ? slots + (span.first_group * GROUP * SYMBOL_BYTES / 4 + uint64_t(segment) * SLOT_WORDS)
                             : slots + slot_number * SLOT_WORDS;
    uint4 *slot = reinterpret_cast<uint4 *>(own_slot) + lane_id();
    uint8_t *const ring = shared + 4 * BUFFER_WORDS * warp;
    uint32_t line_at = 0; // bits
    const uint32_t group_in_round = lane_id() / LANES_IN_GROUP;
    const uint4 zero = make_uint4(0, 0, 0, 0);

    uint32_t live_before = 0, carried = 0, sum = 0, weighted = 0, seen = 0, any = 0;
    uint32_t group_at = group_in_round;
    uint32_t *recorded = lengths_of_codewords + slot_number * RECORDED_WORDS;
    uint16_t *recorded_ends = reinterpret_cast<uint16_t *>(recorded + SEGMENT_LANES * LENGTH_WORDS) + lane_id();
    recorded += lane_id() * LENGTH_WORDS;
    auto encode_round = [&](LaneSymbols &own) {
        const uint32_t live_lanes = live_lanes_of(own, at < stream_symbols, free_word);
        if (live_lanes == 0) {
            if (lane_id() % LANES_IN_GROUP == 0) {
                lengths[warp][group_at] = 0;
            }
            if (RECORD_LENGTHS) {
                recorded_ends[group_at / (WARP / LANES_IN_GROUP) * WARP] = 0;
            }
            return;
        }
        uint32_t codebook = 0;
        if (CLASSES > 1 && used_codebooks > 1) {
            if (CACHES_CLASSES) {
                codebook = __shfl_sync(ALL_LANES, own_classes, group_at % WARP) >> group_at / WARP * 8 & 0xFF;
            } else {
                codebook = min_of<uint32_t>(classes[span.first_group + min_of(at, last) / GROUP], CLASSES - 1);
            }
        }
        uint32_t own_sum = 0, own_weighted = 0;
        own.checksum(own_sum, own_weighted);

        reduce_to_alphabet(own, live_lanes, seen);
        // Lanes without live symbols do as the others, to no effect in the end: no way but the whole warp's.
        uint32_t singles[LANE_SYMBOLS];
#pragma unroll
        for (uint32_t i = 0; i < LANE_SYMBOLS; ++i) {
            if (SHARED_TABLE) {
                const uint32_t word = own.words[i / WORD_SYMBOLS];
                // Picks a symbol of the word, times the size of an entry, in one instruction of the multipliers, index
                // have time.
                const uint32_t factor = SYMBOL_FACTORS[i % WORD_SYMBOLS], base = codebook * (4 * ALPHABET);
                const uint32_t from = SYMBOL_BYTES == 1 ? __dp4a(word, factor, base) : __dp2a_lo(word, factor, base);
                singles[i] = *reinterpret_cast<const uint32_t *>(table + from);
            } else {
                singles[i] = entry_of(__ldg(&codewords[codebook * ALPHABET + own[i]]));
            }
        }
        CodewordRun runs[RUNS];
        uint32_t missing = 0;
#pragma unroll
        for (uint32_t i = 0; i < RUNS; ++i) {
            runs[i] = concatenate(singles + CODEWORDS_IN_RUN * i, missing);
        }
        if (RECORD_LENGTHS) {
            uint32_t *words = recorded + group_at / (WARP / LANES_IN_GROUP) * WARP * LENGTH_WORDS;
#pragma unroll
            for (uint32_t w = 0; w < LENGTH_WORDS; w += 2) {
                reinterpret_cast<uint2 *>(words)[w / 2] =
                    make_uint2(lengths_of(singles + w * WORD_LENGTHS), lengths_of(singles + (w + 1) * WORD_LENGTHS));
            }
        }
        uint32_t rank = group_in_round, live_here = WARP / LANES_IN_GROUP;
        if (live_lanes != ALL_LANES) {
            const uint32_t live_groups = live_group_bits(live_lanes);
            rank = __popc(live_groups & ((1u << group_in_round * LANES_IN_GROUP) - 1));
            live_here = __popc(live_groups);
            // Keeps this a branch: as selects it would be every round's.
            asm volatile("" : "+r"(live_here));
            if ((live_lanes & group_lanes()) == 0) {
                own_sum = own_weighted = missing = 0;
#pragma unroll
                for (uint32_t i = 0; i < RUNS; ++i) {
                    runs[i] = {0, 0};
                }
            }
        }
        const uint32_t begins_at = (live_before + rank) * GROUP + lane_id() % LANES_IN_GROUP * LANE_SYMBOLS;
        live_before += live_here;
        any |= missing;
        sum += own_sum;
        weighted += own_weighted + begins_at * own_sum;
        uint32_t front_bits = 0, back_bits = 0;
#pragma unroll
        for (uint32_t i = 0; i < RUNS / 2; ++i) {
            front_bits += runs[i].bits;
            back_bits += runs[RUNS / 2 + i].bits;
        }
        const uint32_t total = front_bits + back_bits;
        const uint32_t through = warp_inclusive_sum(total);
        const uint32_t group_end = __shfl_sync(ALL_LANES, through, lane_id() | (LANES_IN_GROUP - 1));
        if (lane_id() % LANES_IN_GROUP == 0) {
            lengths[warp][group_at] = group_end - (through - total);
        }
        if (RECORD_LENGTHS) {
            recorded_ends[group_at / (WARP / LANES_IN_GROUP) * WARP] = through;
        }
        // In bits of shared memory.
        const uint32_t position = 8 * shared_address(ring) + (line_at + carried + through - total) % RING_BITS;
        carried += __shfl_sync(ALL_LANES, through, WARP - 1);
        write_runs(position, runs, front_bits, back_bits);
        __syncwarp();
        if (carried >= 32 * LINE_WORDS) {
            if (line_at + carried > RING_BITS) {
                if (lane_id() < RING_OVERLAP) {
                    uint32_t *past = reinterpret_cast<uint32_t *>(ring) + lane_id();
                    *past |= past[RING_WORDS];
                    past[RING_WORDS] = 0;
                }
                __syncwarp();
            }
#pragma unroll 1
            do {
                uint4 *line = reinterpret_cast<uint4 *>(ring + line_at / 8) + lane_id();
                *slot = *line;
                *line = zero;
                slot += LINE_WORDS / 4;
                line_at = (line_at + 32 * LINE_WORDS) % RING_BITS;
                carried -= 32 * LINE_WORDS;
            } while (carried >= 32 * LINE_WORDS);
            __syncwarp();
        }
    };
    // Two rounds by turns, so that the next symbols are under way while these are encoded and need not be moved.
    for (uint32_t round = 0; round < rounds; round += 2) {
        odd.load(stream_begin + min_of(at + WARP_SYMBOLS, last) * SYMBOL_BYTES);
        encode_round(even);
        at += WARP_SYMBOLS;
        group_at += WARP / LANES_IN_GROUP;
        even.load(stream_begin + min_of(at + WARP_SYMBOLS, last) * SYMBOL_BYTES);
        if (round + 1 < rounds) {
            encode_round(odd);
        }
        at += WARP_SYMBOLS;
        group_at += WARP / LANES_IN_GROUP;
    }
    // Whole vectors, since streams_write reads them as such.
    if (lane_id() * 128 < carried) {
        *slot = reinterpret_cast<uint4 *>(ring + line_at / 8)[lane_id()];
    }
    __syncwarp();
    const uint32_t groups = min_of(SEGMENT_GROUPS, span.groups - first_group);
    uint32_t *lengths_to = reinterpret_cast<uint32_t *>(group_bits + slot_number * SEGMENT_GROUPS);
    for (uint32_t i = lane_id(); i < ceil_div(groups, 2); i += WARP) {
        lengths_to[i] = reinterpret_cast<const uint32_t *>(lengths[warp])[i];
    }
    sum = warp_reduce_sum(sum);
    weighted = warp_reduce_sum(weighted);
    const bool bad = __any_sync(ALL_LANES, (any & ANY_MISSING) != 0 || (seen & BEYOND_ALPHABET) != 0);
    if (lane_id() == 0) {
        const uint32_t flushed = uint32_t(slot - reinterpret_cast<uint4 *>(own_slot)) * 4;
        sums[slot_number] = {flushed * 32 + carried, live_before | (bad ? SEGMENT_INVALID : 0), sum, weighted};
    }
    if (segments_done != nullptr) {
        __syncwarp();
        if (lane_id() == 0) {
            signal_release_add(&segments_done[stream], 1);
        }
    }
}
