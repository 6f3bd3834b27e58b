// Runs before and after each decoder: builds tables, locates coded groups, fills zero-bit groups, and compares
// checksums.
#include "device/sync.cuh"
#include "device/warp.cuh"
#include "huffman/decode/shared_codebook.cuh"
#include "huffman/decode/zero_bit_groups.cuh"

// Returns the table entry for `i`, a value of the next TABLE_BITS bits.
__device__ inline uint32_t table_entry(const SharedCodebook &own, const uint16_t *symbols, uint32_t i) {
    const CodebookDescriptor &codebook = own.codebook;
    const uint32_t window = i << (32 - TABLE_BITS);
    const Codeword one = own.codeword(symbols, window);
    if (one.length > TABLE_BITS) {
        return 0;
    }
    uint32_t entry = one.length * 0x11u | (one.symbol - codebook.base & codebook.mask) << 8;
    // A codeword that ends within the known bits does not depend on the zeros after them.
    const Codeword other = own.codeword(symbols, window << one.length);
    if (one.length + other.length <= TABLE_BITS && codebook.mask == 0xFFF) {
        entry += other.length | (other.symbol - codebook.base) << 20;
    }
    return entry;
}

__device__ inline uint32_t long_table_entry(const SharedCodebook &own, const uint16_t *symbols, uint32_t i) {
    const uint32_t start = own.codebook.limit[TABLE_BITS];
    const uint32_t window = start + (i << (32 - LONG_BITS));
    const Codeword one = own.codeword(symbols, window);
    return window < start || one.length <= TABLE_BITS || one.length > LONG_BITS ? 0 : one.length | one.symbol << 16;
}

// The codewords that end within the first bits of a window: the number of bits they take and their count, in the format
// of COUNTS, and from bit 16 up where they end.
struct CountEntry {
    uint32_t entry;

    // Adds the codewords that end within `known` bits.
    __device__ inline void extend(const SharedCodebook &own, uint32_t window, uint32_t known) {
        while (true) {
            const uint32_t bits = entry & ((1u << COUNT_SHIFT) - 1), through = bits + own.length(window << bits);
            if (through > known) {
                return;
            }
            entry += through - bits + (1u << COUNT_SHIFT) + (through <= TABLE_BITS ? 1u << (15 + through) : 0);
        }
    }
    __device__ inline uint32_t count() const { return (entry & 0xFFFF) == 0 ? COUNT_LONGER : entry & 0xFFFF; }
    __device__ inline uint32_t ends() const { return entry >> 16; }
};
// Entries of COUNTS whose windows start with the same TABLE_BITS bits.
constexpr uint32_t COUNTS_PER_TABLE_ENTRY = 1u << (COUNT_BITS - TABLE_BITS);

// Inputs and outputs of table building. `count_tables` may be null.
struct Tables {
    const CodebookDescriptor *codebooks;
    const uint16_t *symbols;
    uint32_t *tables;
    uint16_t *count_tables;

    // Builds part `part` of `parts` of the tables of one codebook. Called by the whole block.
    __device__ inline void build(uint32_t number, uint32_t part, uint32_t parts) const {
        __shared__ SharedCodebook codebook;
        if (codebooks[number].absent) {
            return;
        }
        codebook.load(codebooks[number]);
        uint32_t *to = tables + uint64_t(number) * CODEBOOK_WORDS;
        uint16_t *counts = count_tables + uint64_t(number) * (COUNTS + ENDS);
        const uint32_t all = CODEBOOK_WORDS + (count_tables == nullptr ? 0 : ENDS);
        for (uint32_t i = part * blockDim.x + threadIdx.x; i < all; i += parts * blockDim.x) {
            if (i < TABLE) {
                to[i] = table_entry(codebook, symbols, i);
            } else if (i < CODEBOOK_WORDS) {
                to[i] = long_table_entry(codebook, symbols, i - TABLE);
            } else {
                const uint32_t start = i - CODEBOOK_WORDS, window = start << (32 - TABLE_BITS);
                CountEntry shared{0};
                shared.extend(codebook, window, TABLE_BITS);
                counts[COUNTS + start] = shared.ends();
#pragma unroll
                for (uint32_t j = 0; j < COUNTS_PER_TABLE_ENTRY; ++j) {
                    CountEntry own = shared;
                    own.extend(codebook, window | j << (32 - COUNT_BITS), COUNT_BITS);
                    counts[start * COUNTS_PER_TABLE_ENTRY + j] = own.count();
                }
            }
        }
    }
};

constexpr uint32_t WARPS = THREADS / WARP;
// Maps BITMAP_BLOCK_GROUPS groups of a stream that has zero-bit groups: writes the group of each rank of coded groups
// to the map, and fills the zero-bit groups if `fills`. Each block counts the coded groups before its own again,
// because the bitmap is at most a thousandth of the output.
__device__ inline void map_groups(uint32_t unit, const uint8_t *input, const StreamDescriptor *streams,
                                  uint32_t stream_count, bool fill, bool keep_status, uint32_t *map, uint32_t *status,
                                  uint8_t *out) {
    __shared__ uint32_t warp_coded[WARPS];
    __shared__ uint32_t zero_bit_words[BITMAP_BLOCK_WORDS], coded_before[BITMAP_BLOCK_WORDS], found;
    const uint32_t number = find_stream(unit, stream_count, [&](uint32_t i) { return streams[i].first_bitmap_block; });
    const StreamDescriptor &stream = streams[number];
    const uint32_t *bitmap = reinterpret_cast<const uint32_t *>(input + stream.bitmap);
    const uint32_t groups = stream.groups;
    const uint32_t first_word = (unit - stream.first_bitmap_block) * BITMAP_BLOCK_WORDS;
    uint32_t coded = 0;
    for (uint32_t i = threadIdx.x; i < first_word; i += THREADS) {
        coded += __popc(~bitmap[i]);
    }
    coded = warp_reduce_sum(coded);
    if (lane_id() == 0) {
        warp_coded[warp_id()] = coded;
    }
    __syncthreads();
    if (warp_id() == 0) {
        const uint32_t at = first_word + lane_id();
        uint32_t word = at * 32 < groups ? bitmap[at] | bits_past_end(groups, at) : ALL_LANES;
        uint32_t own = __popc(~word), sum = own;
        sum = warp_inclusive_sum(sum);
        uint32_t before = 0;
        for (uint32_t warp = 0; warp < WARPS; ++warp) {
            before += warp_coded[warp];
        }
        zero_bit_words[lane_id()] = word;
        coded_before[lane_id()] = before + sum - own;
        const bool is_last = first_word * 32 + BITMAP_BLOCK_GROUPS >= groups;
        if (lane_id() == WARP - 1) {
            found = is_last ? before + sum : stream.coded_groups;
            if (is_last) {
                const uint32_t own_status = before + sum != stream.coded_groups ? STATUS_INDEX : 0;
                status[number] = keep_status ? status[number] | own_status : own_status;
            }
        }
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < BITMAP_BLOCK_GROUPS; i += THREADS) {
        uint32_t word = zero_bit_words[i / 32], bit = i % 32;
        uint32_t rank = coded_before[i / 32] + __popc(~word & ((1u << bit) - 1));
        if (!(word >> bit & 1) && rank < stream.coded_groups) {
            map[stream.map + rank] = first_word * 32 + i;
        }
    }
    // Decoders read the map before the status is checked, so the rest must be valid, too.
    for (uint32_t rank = found + threadIdx.x; rank < stream.coded_groups; rank += THREADS) {
        map[stream.map + rank] = 0;
    }
    if (!fill) {
        return;
    }
    constexpr uint32_t UNITS = GROUP * SYMBOL_BYTES / 16;
    const uint32_t filled =
        SYMBOL_BYTES == 1 ? stream.zero_bit_symbol * 0x01010101u : stream.zero_bit_symbol * 0x10001u;
    const uint4 value = make_uint4(filled, filled, filled, filled);
    uint4 *to = reinterpret_cast<uint4 *>(out + (stream.out + uint64_t(first_word) * 32 * GROUP) * SYMBOL_BYTES);
#pragma unroll 4
    for (uint32_t i = threadIdx.x; i < BITMAP_BLOCK_GROUPS * UNITS; i += THREADS) {
        uint32_t group = i / UNITS;
        if (zero_bit_words[group / 32] >> (group % 32) & 1 && first_word * 32 + group < groups) {
            store_evict_first(&to[i], value);
        }
    }
}

// Blocks from `first_bitmap_block` on map groups. The blocks before build tables, `parts` per codebook, and clear the
// sums, the decoder's `cleared` words, and the status unless parsing has written it.
extern "C" __global__ void __launch_bounds__(THREADS)
    prepare_batch(const CodebookDescriptor *codebooks, const uint16_t *symbols, const uint8_t *input,
                  const StreamDescriptor *streams, uint32_t stream_count, const BatchTotals *totals, uint32_t parts,
                  uint32_t first_bitmap_block, uint32_t fill, uint32_t keep_status, uint32_t *tables,
                  uint16_t *count_tables, uint32_t *map, uint32_t *sums, uint32_t *cleared, uint32_t cleared_words,
                  uint32_t *status, uint8_t *out) {
    wait_and_launch_dependents();
    if (blockIdx.x >= first_bitmap_block) {
        const uint32_t unit = blockIdx.x - first_bitmap_block;
        if (unit < totals->bitmap_blocks) {
            map_groups(unit, input, streams, stream_count, fill != 0, keep_status != 0, map, status, out);
        }
        return;
    }
    for (uint32_t i = blockIdx.x * THREADS + threadIdx.x; i <= 2 * stream_count; i += first_bitmap_block * THREADS) {
        sums[i] = 0;
        // For the other streams the mapping blocks write the status.
        if (i < stream_count && !keep_status && !streams[i].has_zero_bit_groups) {
            status[i] = 0;
        }
    }
    for (uint32_t i = blockIdx.x * THREADS + threadIdx.x; i < cleared_words; i += first_bitmap_block * THREADS) {
        cleared[i] = 0;
    }
    Tables{codebooks, symbols, tables, count_tables}.build(blockIdx.x / parts, blockIdx.x % parts, parts);
}

// Compares checksums; one thread per stream.
extern "C" __global__ void prepare_verify(const StreamDescriptor *streams, uint32_t stream_count, const uint32_t *sums,
                                          uint32_t *status) {
    launch_dependents_and_wait();
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < stream_count && (sums[2 * i] != streams[i].sum || sums[2 * i + 1] != streams[i].weighted)) {
        status[i] |= STATUS_CHECKSUM;
    }
}
