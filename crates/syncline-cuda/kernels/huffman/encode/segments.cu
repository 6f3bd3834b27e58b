// Encodes segments in one pass over the symbols, without waiting for other warps.
//
// Each warp encodes one segment. In each round a lane looks up the codewords of 16 symbols and adds up their lengths,
// and a prefix sum over the lanes gives the position of its codewords. Codewords are concatenated in registers to runs
// of at most 64 bits (like reduce-merge of the 2021 paper, IPDPS, section IV-C), which are or-ed into the warp's ring
// buffer in shared memory. Whole lines of 512 bytes are moved from the ring to the slot.
//
// THREADS          threads of a block
// RESIDENT_BLOCKS  resident blocks per multiprocessor, for the allocation of registers
// SHARED_TABLE     1: the codewords are in shared memory; 0: in device memory, because they do not fit
#include "huffman/encode/codeword_runs.cuh"
#include "device/sync.cuh"

constexpr uint32_t WARPS = THREADS / WARP;
// Whether the warp keeps the classes of a segment's groups in registers, one byte each: lane i has those of groups i, i
// + 32 and so on. Longer segments load each class when needed.
constexpr bool CACHES_CLASSES = CLASSES > 1 && SEGMENT_GROUPS <= 4 * WARP;
// Words that are moved to the slot at a time.
constexpr uint32_t LINE_WORDS = 4 * WARP;
// A ring of lines. Words that a lane writes past the end of the last line belong to the first line.
constexpr uint32_t RING_WORDS = 4 * LINE_WORDS, RING_BITS = 32 * RING_WORDS, RING_OVERLAP = 16;
constexpr uint32_t BUFFER_WORDS = RING_WORDS + RING_OVERLAP;
static_assert(LINE_WORDS + WARP_SYMBOLS * LONGEST / 32 + RING_OVERLAP <= RING_WORDS,
              "what is left of a line, and a round");

// Fills the table from `vectors` vectors of codewords. Several loads are in flight, because the block waits for the
// table. Called by the whole block; each vector is always handled by the same thread.
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

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    segments_encode(const uint8_t *symbols, const StreamInput *inputs, const uint32_t *all_codewords,
                    const uint32_t *codebooks_used, const uint8_t *classes, uint32_t segments_in_stream,
                    uint32_t *slots, SegmentSums *sums, uint16_t *group_bits) {
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
    // Symbols and streams are valid before the wait: the kernel that builds codebooks starts this one only after its
    // own predecessors have finished. Blocks without work end before the others wait.
    StreamInput input = inputs[stream];
    input.groups = warp_broadcast(input.groups, 0);
    input.free_symbol = warp_broadcast(input.free_symbol, 0);
    if (uint64_t(segment - warp) * SEGMENT_GROUPS >= input.groups) {
        // The next kernel waits for this kernel only, so this kernel must not end before its predecessor.
        if (blockIdx.x == 0) {
            grid_dependency_wait();
        }
        return;
    }
    const uint32_t first_group = segment * SEGMENT_GROUPS;
    const uint32_t stream_symbols = input.groups * GROUP, last = stream_symbols - LANE_SYMBOLS;
    const uint8_t *stream_begin = symbols + input.first_group * GROUP * SYMBOL_BYTES;
    uint32_t at = segment * SEGMENT + lane_id() * LANE_SYMBOLS;
    // These loads overlap with the construction of the codebooks.
    LaneSymbols even, odd;
    even.load(stream_begin + min_of(at, last) * SYMBOL_BYTES);
    uint32_t own_classes = 0;
    if (CACHES_CLASSES) {
#pragma unroll
        for (uint32_t i = 0; i < ceil_div(SEGMENT_GROUPS, WARP); ++i) {
            const uint32_t group = first_group + i * WARP + lane_id();
            own_classes |= i * WARP + lane_id() < SEGMENT_GROUPS && group < input.groups
                               ? min_of<uint32_t>(classes[input.first_group + group], CLASSES - 1) << 8 * i
                               : 0;
        }
    }
    // The next kernel may then read, without waiting, the data that was valid before this one.
    grid_dependency_wait();
    launch_dependents();
    const uint32_t used_codebooks = CLASSES == 1 || codebooks_used[stream] == 1 ? 1 : CLASSES;
    const uint32_t *codewords = all_codewords + uint64_t(codebook_of(stream, CLASSES, 0)) * ALPHABET;
    if (SHARED_TABLE) {
        // Loads the codebooks of all classes before it is known whether they are used, because they mostly are.
        make_table(codewords, CLASSES * ALPHABET / 4, reinterpret_cast<uint4 *>(table));
    }
    if (CLASSES > 1 && used_codebooks == 1) {
        codewords = all_codewords + uint64_t(codebook_of(stream, 1, 0)) * ALPHABET;
        if (SHARED_TABLE) {
            make_table(codewords, ALPHABET / 4, reinterpret_cast<uint4 *>(table));
        }
    }
    __syncthreads();
    if (first_group >= input.groups) {
        return;
    }
    const uint32_t rounds = ceil_div(min_of(SEGMENT_GROUPS, input.groups - first_group) * GROUP, WARP_SYMBOLS);
    const uint32_t free_word = spread_symbol(input.free_symbol);
    const uint64_t slot_number = uint64_t(stream) * segments_in_stream + segment;
    uint32_t *own_slot = slots + slot_number * SLOT_WORDS;
    uint4 *slot = reinterpret_cast<uint4 *>(own_slot) + lane_id();
    uint8_t *const ring = shared + 4 * BUFFER_WORDS * warp;
    uint32_t line_at = 0; // bits
    const uint32_t group_in_round = lane_id() / LANES_IN_GROUP;
    const uint4 zero = make_uint4(0, 0, 0, 0);

    uint32_t coded_before = 0, carried = 0, sum = 0, weighted = 0, seen = 0, any = 0;
    uint32_t group_at = group_in_round;
    auto encode_round = [&](LaneSymbols &own) {
        const uint32_t differing_lanes = differing_lanes_of(own, at < stream_symbols, free_word);
        if (differing_lanes == 0) {
            if (lane_id() % LANES_IN_GROUP == 0) {
                lengths[warp][group_at] = 0;
            }
            return;
        }
        uint32_t codebook = 0;
        if (CLASSES > 1 && used_codebooks > 1) {
            if (CACHES_CLASSES) {
                codebook = __shfl_sync(ALL_LANES, own_classes, group_at % WARP) >> group_at / WARP * 8 & 0xFF;
            } else {
                codebook = min_of<uint32_t>(classes[input.first_group + min_of(at, last) / GROUP], CLASSES - 1);
            }
        }
        uint32_t own_sum = 0, own_weighted = 0;
        own.checksum(own_sum, own_weighted);

        reduce_to_alphabet(own, differing_lanes, seen);
        // Lanes of zero-bit groups execute the same code, without effect, so that the warp does not diverge.
        uint32_t singles[LANE_SYMBOLS];
#pragma unroll
        for (uint32_t i = 0; i < LANE_SYMBOLS; ++i) {
            if (SHARED_TABLE) {
                const uint32_t word = own.words[i / WORD_SYMBOLS];
                // Extracts a symbol of the word, times the size of a table entry, in one instruction of the otherwise
                // idle multipliers.
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
        uint32_t rank = group_in_round, coded_here = WARP / LANES_IN_GROUP;
        if (differing_lanes != ALL_LANES) {
            const uint32_t coded_groups = coded_group_mask(differing_lanes);
            rank = __popc(coded_groups & ((1u << group_in_round * LANES_IN_GROUP) - 1));
            coded_here = __popc(coded_groups);
            // Keeps the compiler from turning this branch into selects, which would cost time in every round.
            asm volatile("" : "+r"(coded_here));
            if ((differing_lanes & group_lanes()) == 0) {
                own_sum = own_weighted = missing = 0;
#pragma unroll
                for (uint32_t i = 0; i < RUNS; ++i) {
                    runs[i] = {0, 0};
                }
            }
        }
        const uint32_t begins_at = (coded_before + rank) * GROUP + lane_id() % LANES_IN_GROUP * LANE_SYMBOLS;
        coded_before += coded_here;
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
        // Position in bits of shared memory.
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
    // Two rounds alternate, so that the next symbols are loaded while these are encoded, without register moves.
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
    // Whole vectors, because streams_write reads vectors.
    if (lane_id() * 128 < carried) {
        *slot = reinterpret_cast<uint4 *>(ring + line_at / 8)[lane_id()];
    }
    __syncwarp();
    const uint32_t groups = min_of(SEGMENT_GROUPS, input.groups - first_group);
    uint32_t *lengths_to = reinterpret_cast<uint32_t *>(group_bits + slot_number * SEGMENT_GROUPS);
    for (uint32_t i = lane_id(); i < ceil_div(groups, 2); i += WARP) {
        lengths_to[i] = reinterpret_cast<const uint32_t *>(lengths[warp])[i];
    }
    sum = warp_reduce_sum(sum);
    weighted = warp_reduce_sum(weighted);
    const bool bad = __any_sync(ALL_LANES, (any & ANY_MISSING) != 0 || (seen & BEYOND_ALPHABET) != 0);
    if (lane_id() == 0) {
        const uint32_t flushed = uint32_t(slot - reinterpret_cast<uint4 *>(own_slot)) * 4;
        sums[slot_number] = {flushed * 32 + carried, coded_before | (bad ? SEGMENT_INVALID : 0), sum, weighted};
    }
}
