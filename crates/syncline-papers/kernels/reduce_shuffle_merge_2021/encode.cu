// The encoders of Tian et al., "Revisiting Huffman Coding: Toward Extreme Performance on Modern GPU Architectures"
// (IPDPS 2021): reduce-shuffle-merge (section IV-C, figures 1 and 2, table II), the coarse-grained encoder of cuSZ, and
// the prefix-sum encoder that the paper compares with (section III-B).
//
// THREADS    threads of a block
// METHOD     0 coarse, 1 prefix sum, 2 reduce-shuffle-merge: SEGMENT is then the paper's chunk of 2^M symbols
// REDUCTION  the paper's r
#include "device/sync.cuh"
#include "device/block.cuh"
#include "huffman/encode/encode.cuh"

struct Code {
    uint32_t bits, length; // right-aligned
};

// Looks up codewords in the codebooks of a stream.
struct Tables {
    const uint32_t *codebooks;
    const uint8_t *classes; // of the stream's groups; unused with one codebook
    uint32_t used;

    __device__ inline Tables(const uint32_t *codewords, const uint32_t *codebooks_used, const uint8_t *all_classes,
                             const StreamInput &input, uint32_t stream)
        : classes(all_classes + input.first_group), used(CLASSES == 1 || codebooks_used[stream] == 1 ? 1 : CLASSES) {
        codebooks = codewords + uint64_t(codebook_of(stream, used, 0)) * ALPHABET;
    }
    __device__ inline const uint32_t *of_group(uint32_t group) const {
        return codebooks + (used == 1 ? 0 : min_of<uint32_t>(classes[group], CLASSES - 1) * ALPHABET);
    }
    static __device__ inline Code code(const uint32_t *codebook, uint32_t symbol, bool &bad) {
        const uint32_t codeword = __ldg(&codebook[symbol % ALPHABET]);
        bad |= symbol >= ALPHABET || codeword == 0;
        return {codeword & ((1u << CODE_BITS) - 1), codeword >> CODE_BITS};
    }
};

__device__ inline uint32_t symbol_at(const uint8_t *symbols, uint64_t index) {
    return SYMBOL_BYTES == 1 ? symbols[index] : reinterpret_cast<const uint16_t *>(symbols)[index];
}

#if METHOD == 0

// The coarse-grained encoder: one thread encodes a segment symbol by symbol.
extern "C" __global__ void __launch_bounds__(THREADS)
    reduce_shuffle_merge_2021_coarse(const uint8_t *symbols, const StreamInput *inputs, const uint32_t *codewords,
                                     const uint32_t *codebooks, const uint8_t *classes, uint32_t segments_in_stream,
                                     uint32_t *slots, SegmentSums *sums, uint16_t *group_bits) {
    grid_dependency_wait();
    launch_dependents();
    const uint32_t blocks_in_stream = ceil_div(segments_in_stream, THREADS);
    const uint32_t stream = blockIdx.x / blocks_in_stream;
    const uint32_t segment = blockIdx.x % blocks_in_stream * THREADS + threadIdx.x;
    const StreamInput input = inputs[stream];
    const uint32_t first_group = segment * SEGMENT_GROUPS;
    if (segment >= segments_in_stream || first_group >= input.groups) {
        return;
    }
    const Tables tables(codewords, codebooks, classes, input, stream);
    const uint64_t offset = uint64_t(stream) * segments_in_stream + segment;
    uint32_t *slot = slots + offset * SLOT_WORDS;
    uint64_t pending = 0;
    uint32_t filled = 0, words = 0, position = 0;
    bool bad = false;
    SegmentSums own = {0, 0, 0, 0};
    for (uint32_t group = first_group; group < min_of(first_group + SEGMENT_GROUPS, input.groups); ++group) {
        const uint64_t first = (input.first_group + group) * GROUP;
        bool is_coded = false;
        for (uint32_t i = 0; i < GROUP; ++i) {
            is_coded |= symbol_at(symbols, first + i) != input.free_symbol;
        }
        uint32_t bits = 0;
        if (is_coded) {
            const uint32_t *codebook = tables.of_group(group);
            for (uint32_t i = 0; i < GROUP; ++i) {
                const uint32_t symbol = symbol_at(symbols, first + i);
                const Code code = Tables::code(codebook, symbol, bad);
                pending = pending << code.length | code.bits;
                filled += code.length;
                bits += code.length;
                if (filled >= 32) {
                    filled -= 32;
                    slot[words++] = uint32_t(pending >> filled);
                }
                own.sum += symbol;
                own.weighted += ++position * symbol;
            }
            ++own.coded_groups;
        }
        group_bits[uint64_t(stream) * segments_in_stream * SEGMENT_GROUPS + group] = bits;
        own.bits += bits;
    }
    if (filled > 0) {
        slot[words] = uint32_t(pending << (32 - filled));
    }
    own.coded_groups |= bad ? SEGMENT_INVALID : 0;
    sums[offset] = own;
}

#else

// The results of a block's segment.
struct BlockSums {
    uint32_t are_coded[SEGMENT_GROUPS]; // lanes of threads that saw a symbol other than that of zero-bit groups
    uint32_t group_bits[SEGMENT_GROUPS];
    uint32_t ranks[SEGMENT_GROUPS];
    uint32_t coded_groups, sum, weighted;
};

// Finds the coded groups of a segment; called by the whole block.
__device__ inline void find_coded_groups(BlockSums &block, const uint8_t *symbols, const StreamInput &input,
                                         uint32_t first_group, uint32_t groups) {
    for (uint32_t i = threadIdx.x; i < SEGMENT_GROUPS; i += THREADS) {
        block.are_coded[i] = block.group_bits[i] = 0;
    }
    if (threadIdx.x == 0) {
        block.coded_groups = block.sum = block.weighted = 0;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < groups * GROUP; i += THREADS) {
        if (symbol_at(symbols, (input.first_group + first_group) * GROUP + i) != input.free_symbol) {
            atomicOr(&block.are_coded[i / GROUP], 1u);
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (uint32_t i = 0; i < groups; ++i) {
            block.ranks[i] = block.coded_groups;
            block.coded_groups += block.are_coded[i];
        }
    }
    __syncthreads();
}

// Writes the results; called by the whole block.
__device__ inline void write_segment(BlockSums &block, uint32_t sum, uint32_t weighted, bool bad, uint32_t bits,
                                     uint32_t groups, SegmentSums *sums, uint16_t *group_bits) {
    atomicAdd(&block.sum, sum);
    atomicAdd(&block.weighted, weighted);
    bad = __syncthreads_or(bad);
    for (uint32_t i = threadIdx.x; i < groups; i += THREADS) {
        group_bits[i] = block.group_bits[i];
    }
    if (threadIdx.x == 0) {
        *sums = {bits, block.coded_groups | (bad ? SEGMENT_INVALID : 0), block.sum, block.weighted};
    }
}

#if METHOD == 1

// The prefix-sum encoder: one thread per symbol, whose position is the prefix sum of all lengths.
extern "C" __global__ void __launch_bounds__(THREADS)
    reduce_shuffle_merge_2021_prefix_sum(const uint8_t *symbols, const StreamInput *inputs, const uint32_t *codewords,
                                         const uint32_t *codebooks, const uint8_t *classes, uint32_t segments_in_stream,
                                         uint32_t *slots, SegmentSums *sums, uint16_t *group_bits) {
    __shared__ BlockSums block;
    __shared__ uint64_t warp_sums[THREADS / WARP];
    grid_dependency_wait();
    launch_dependents();
    const uint32_t stream = blockIdx.x / segments_in_stream, segment = blockIdx.x % segments_in_stream;
    const StreamInput input = inputs[stream];
    const uint32_t first_group = segment * SEGMENT_GROUPS;
    if (first_group >= input.groups) {
        return;
    }
    const uint32_t groups = min_of(SEGMENT_GROUPS, input.groups - first_group);
    const Tables tables(codewords, codebooks, classes, input, stream);
    uint32_t *slot = slots + uint64_t(blockIdx.x) * SLOT_WORDS;
    for (uint32_t i = threadIdx.x; i < SLOT_WORDS; i += THREADS) {
        slot[i] = 0;
    }
    find_coded_groups(block, symbols, input, first_group, groups);
    uint32_t position = 0, sum = 0, weighted = 0;
    bool bad = false;
    for (uint32_t first = 0; first < groups * GROUP; first += THREADS) {
        const uint32_t i = first + threadIdx.x, group = i / GROUP;
        Code code = {0, 0};
        if (i < groups * GROUP && block.are_coded[group] != 0) {
            const uint32_t symbol = symbol_at(symbols, (input.first_group + first_group) * GROUP + i);
            code = Tables::code(tables.of_group(first_group + group), symbol, bad);
            sum += symbol;
            weighted += (block.ranks[group] * GROUP + i % GROUP + 1) * symbol;
            atomicAdd(&block.group_bits[group], code.length);
        }
        uint64_t total;
        const uint32_t at = position + uint32_t(block_exclusive_sum<THREADS, uint64_t>(code.length, warp_sums, total));
        if (code.length > 0) {
            const uint64_t placed = uint64_t(code.bits) << (64 - code.length) >> at % 32;
            atomicOr(&slot[at / 32], uint32_t(placed >> 32));
            if (uint32_t(placed) != 0) {
                atomicOr(&slot[at / 32 + 1], uint32_t(placed));
            }
        }
        position += uint32_t(total);
    }
    write_segment(block, sum, weighted, bad, position, groups, sums + blockIdx.x,
                  group_bits + uint64_t(blockIdx.x) * SEGMENT_GROUPS);
}

#else

// Reduce-shuffle-merge. A block encodes a chunk of 2^M symbols, and a thread a unit of 2^r symbols. Reduce-merge: a
// thread concatenates its codewords to one word. Shuffle-merge: in each of M - r rounds the words of two neighbors are
// merged, the right ones shifted to the end of the left ones. A unit of more than 32 bits is "breaking": the paper
// stores such units apart, which a dense stream cannot, so a chunk with such a unit uses wider units. streams_write is
// the coalescing copy.
constexpr uint32_t UNIT = 1u << REDUCTION;
constexpr uint32_t UNITS = SEGMENT / UNIT;
constexpr uint32_t WIDE = (UNIT * LONGEST + 31) / 32;
static_assert(UNITS == THREADS, "a thread a unit");

// Returns word `word` of the sequence `right` appended to the `left_bits` bits of `left`. Words beyond the bits of a
// sequence are zero.
__device__ inline uint32_t merged_word(const uint32_t *left, uint32_t left_bits, const uint32_t *right,
                                       uint32_t right_words, uint32_t word) {
    uint32_t bits = word * 32 < left_bits ? left[word] : 0;
    // First bit of this word within the right sequence; may be negative.
    const int32_t begin = int32_t(word * 32) - int32_t(left_bits);
    if (begin > -32) {
        const int32_t index = begin >> 5;
        const uint32_t high = index >= 0 && uint32_t(index) < right_words ? right[index] : 0;
        const uint32_t low = index + 1 >= 0 && uint32_t(index + 1) < right_words ? right[index + 1] : 0;
        bits |= __funnelshift_l(low, high, begin & 31);
    }
    return bits;
}

// The reduce-shuffle-merge encoder: each thread concatenates the codewords of UNIT symbols (reduce), then the block
// concatenates pairs of sequences until one is left (shuffle). One thread block per segment.
extern "C" __global__ void __launch_bounds__(THREADS)
    reduce_shuffle_merge_2021_encode(const uint8_t *symbols, const StreamInput *inputs, const uint32_t *codewords,
                                     const uint32_t *codebooks, const uint8_t *classes, uint32_t segments_in_stream,
                                     uint32_t *slots, SegmentSums *sums, uint16_t *group_bits) {
    __shared__ BlockSums block;
    __shared__ uint32_t buffers[2][UNITS * WIDE];
    __shared__ uint32_t bits_of[2][UNITS];
    grid_dependency_wait();
    launch_dependents();
    const uint32_t stream = blockIdx.x / segments_in_stream, segment = blockIdx.x % segments_in_stream;
    const StreamInput input = inputs[stream];
    const uint32_t first_group = segment * SEGMENT_GROUPS;
    if (first_group >= input.groups) {
        return;
    }
    const uint32_t groups = min_of(SEGMENT_GROUPS, input.groups - first_group);
    const Tables tables(codewords, codebooks, classes, input, stream);
    find_coded_groups(block, symbols, input, first_group, groups);

    // Reduce-merge.
    const uint32_t group = threadIdx.x * UNIT / GROUP;
    uint32_t own[WIDE] = {};
    uint32_t bits = 0, sum = 0, weighted = 0;
    bool bad = false;
    if (group < groups && block.are_coded[group] != 0) {
        const uint32_t *codebook = tables.of_group(first_group + group);
        const uint32_t in_group = threadIdx.x * UNIT % GROUP;
#pragma unroll
        for (uint32_t i = 0; i < UNIT; ++i) {
            const uint32_t symbol =
                symbol_at(symbols, (input.first_group + first_group) * GROUP + threadIdx.x * UNIT + i);
            const Code code = Tables::code(codebook, symbol, bad);
            sum += symbol;
            weighted += (block.ranks[group] * GROUP + in_group + i + 1) * symbol;
            const uint64_t placed = code.length == 0 ? 0 : uint64_t(code.bits) << (64 - code.length) >> bits % 32;
            // Constant indices keep the words in registers.
#pragma unroll
            for (uint32_t w = 0; w < WIDE; ++w) {
                own[w] |= w == bits / 32 ? uint32_t(placed >> 32) : w == bits / 32 + 1 ? uint32_t(placed) : 0;
            }
            bits += code.length;
        }
        atomicAdd(&block.group_bits[group], bits);
    }
    const uint32_t words = __syncthreads_or(bits > 32) ? WIDE : 1;
#pragma unroll
    for (uint32_t w = 0; w < WIDE; ++w) {
        if (w < words) {
            buffers[0][threadIdx.x * words + w] = own[w];
        }
    }
    bits_of[0][threadIdx.x] = bits;
    __syncthreads();

    // Shuffle-merge.
    uint32_t turn = 0;
    for (uint32_t length = words, sequences = UNITS; sequences > 1; length *= 2, sequences /= 2, turn ^= 1) {
        for (uint32_t at = threadIdx.x; at < UNITS * words; at += THREADS) {
            const uint32_t pair = at / (2 * length);
            const uint32_t *left = &buffers[turn][pair * 2 * length];
            buffers[turn ^ 1][at] =
                merged_word(left, bits_of[turn][2 * pair], left + length, length, at % (2 * length));
        }
        if (threadIdx.x < sequences / 2) {
            bits_of[turn ^ 1][threadIdx.x] = bits_of[turn][2 * threadIdx.x] + bits_of[turn][2 * threadIdx.x + 1];
        }
        __syncthreads();
    }
    const uint32_t all_bits = bits_of[turn][0];
    uint32_t *slot = slots + uint64_t(blockIdx.x) * SLOT_WORDS;
    for (uint32_t i = threadIdx.x; i < ceil_div(all_bits, 32); i += THREADS) {
        slot[i] = buffers[turn][i];
    }
    write_segment(block, sum, weighted, bad, all_bits, groups, sums + blockIdx.x,
                  group_bits + uint64_t(blockIdx.x) * SEGMENT_GROUPS);
}
#endif
#endif
