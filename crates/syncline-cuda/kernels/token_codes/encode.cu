// Encodes groups of codes as token streams: sizes of groups, the layout of each stream, and its codewords.
//
// THREADS          threads of a block
// LAY_OUT_THREADS  threads of a block that lays out a stream
// CODE_BITS        bits of a table entry that hold the codeword; its length is above them
#include "device/block.cuh"
#include "token_codes/structs.cuh"
#include "token_codes/tokens.cuh"

constexpr uint32_t WARPS = THREADS / WARP, LAY_OUT_WARPS = LAY_OUT_THREADS / WARP;
// Groups of a block of the index.
constexpr uint32_t INDEX_BLOCK = 32;
// The field of a descriptor for the shortest group has 12 bits.
constexpr uint32_t MOST_SHORTEST = 0xFFF;
// Most groups of a chunk: it has at most 2^22 elements.
constexpr uint32_t MAX_INDEX_BLOCKS = (1u << 22) / TOKEN_GROUP / INDEX_BLOCK;
// Words that the longest group may meet: each code takes a codeword and raw bits, in mode *runs* for the zeros, too.
constexpr uint32_t MAX_TOKEN_BITS = 20 + 32, GROUP_WORDS = (TOKEN_GROUP + 1) * MAX_TOKEN_BITS / 32 + 2;

// The place of a stream that is not written, as NO_OFFSET of `huffman::encode`.
constexpr uint64_t TOKENS_NOWHERE = ~0ull;

__device__ inline uint32_t class_of_word(const TokenGroups &from, uint32_t chunk, uint32_t word) {
    return from.classes[chunk * ACTIVITY_BINS + group_bin(word)];
}

__device__ inline TokenCodebook codebook_of(const ChunkCodebooks *codebooks, uint32_t chunk, uint32_t class_of) {
    const ChunkCodebooks &own = codebooks[chunk];
    return own.of[own.count > 1 ? class_of : 0];
}

// Writes the bits of each group; 0 for groups that are not live.
extern "C" __global__ void __launch_bounds__(THREADS)
    token_codes_sizes(const __grid_constant__ TokenGroups from, const ChunkCodebooks *codebooks, const uint32_t *tables,
                      uint32_t *sizes) {
    const uint64_t place = uint64_t(blockIdx.x) * WARPS + warp_id();
    if (place >= uint64_t(from.chunks) * from.slots) {
        return;
    }
    const uint32_t word = from.groups[place], chunk = uint32_t(place / from.slots);
    uint32_t bits = 0;
    if (group_is_live(word)) {
        const TokenCodebook codebook = codebook_of(codebooks, chunk, class_of_word(from, chunk, word));
        const uint32_t *table = tables + codebook.table;
        const LaneCodes lane(from.codes + place * TOKEN_GROUP, group_length(word));
        lane.for_each(codebook.mode,
                      [&](const Token &token) { bits += (table[token.symbol] >> CODE_BITS) + token.raw_bits; });
        bits = warp_reduce_sum(bits);
    }
    if (lane_id() == 0) {
        sizes[place] = bits;
    }
}

// Lays out the stream of each chunk: which groups are live, where each starts, the packed classes, and the index. One
// block per chunk.
extern "C" __global__ void __launch_bounds__(LAY_OUT_THREADS)
    token_codes_lay_out(const __grid_constant__ TokenGroups from, const uint32_t *sizes,
                        const __grid_constant__ TokenLayout layout) {
    __shared__ uint64_t warp_counts[LAY_OUT_WARPS];
    __shared__ uint32_t warp_sums[LAY_OUT_WARPS];
    __shared__ uint32_t widths[MAX_INDEX_BLOCKS], shortest[MAX_INDEX_BLOCKS], places[MAX_INDEX_BLOCKS];
    const uint32_t chunk = blockIdx.x, slots = from.slots;
    uint32_t *starts = layout.starts + uint64_t(chunk) * (slots + 1);
    uint32_t *live_slots = layout.live_slots + uint64_t(chunk) * slots;
    uint32_t *bitmap = layout.bitmaps + uint64_t(chunk) * layout.bitmap_words;
    uint32_t *classes = layout.classes + uint64_t(chunk) * layout.class_words;
    uint32_t *index = layout.index + uint64_t(chunk) * layout.index_words;
    // Groups, with the live ones above them; and bits.
    uint64_t counted = 0;
    uint32_t bits = 0;
    for (uint32_t begin = 0; begin < slots; begin += LAY_OUT_THREADS) {
        const uint32_t slot = begin + threadIdx.x;
        const uint64_t place = uint64_t(chunk) * slots + slot;
        const uint32_t word = slot < slots ? from.groups[place] : 0;
        const bool is_live = group_is_live(word), exists = word != 0;
        uint64_t total;
        const uint64_t before = counted + block_exclusive_sum<LAY_OUT_THREADS, uint64_t>(
                                              uint64_t(exists) | uint64_t(is_live) << 32, warp_counts, total);
        counted += total;
        uint32_t total_bits;
        const uint32_t start =
            bits + block_exclusive_sum<LAY_OUT_THREADS, uint32_t>(is_live ? sizes[place] : 0, warp_sums, total_bits);
        bits += total_bits;
        const uint32_t group = uint32_t(before), rank = uint32_t(before >> 32);
        if (is_live) {
            starts[rank] = start;
            live_slots[rank] = slot;
            atomicOr(&classes[rank / 16], class_of_word(from, chunk, word) << rank % 16 * 2);
        } else if (exists) {
            atomicOr(&bitmap[group / 32], 1u << group % 32);
        }
    }
    const uint32_t live = uint32_t(counted >> 32), blocks = ceil_div(live, INDEX_BLOCK);
    if (threadIdx.x == 0) {
        starts[live] = bits;
    }
    __syncthreads();
    auto length_of = [&](uint32_t rank) { return rank < live ? starts[rank + 1] - starts[rank] : 0; };
    for (uint32_t block = warp_id(); block < blocks; block += LAY_OUT_WARPS) {
        const uint32_t rank = block * INDEX_BLOCK + lane_id(), length = length_of(rank);
        const uint32_t least = min_of(warp_reduce_min(rank < live ? length : ~0u), MOST_SHORTEST);
        const uint32_t all = warp_reduce_or(rank < live ? length - least : 0);
        if (lane_id() == 0) {
            widths[block] = 32 - __clz(int32_t(all));
            shortest[block] = least;
        }
    }
    __syncthreads();
    uint32_t delta_words = 0;
    for (uint32_t begin = 0; begin < blocks; begin += LAY_OUT_THREADS) {
        const uint32_t block = begin + threadIdx.x;
        uint32_t total;
        const uint32_t place =
            block_exclusive_sum<LAY_OUT_THREADS, uint32_t>(block < blocks ? widths[block] : 0, warp_sums, total);
        if (block < blocks) {
            places[block] = delta_words + place;
        }
        delta_words += total;
    }
    __syncthreads();
    for (uint32_t block = warp_id(); block < blocks; block += LAY_OUT_WARPS) {
        const uint32_t rank = block * INDEX_BLOCK + lane_id(), width = widths[block];
        const uint32_t packed = packed_word(rank < live ? length_of(rank) - shortest[block] : 0, width);
        if (lane_id() < width) {
            index[2 * blocks + places[block] + lane_id()] = packed;
        }
        if (lane_id() == 0) {
            index[2 * block] = starts[block * INDEX_BLOCK];
            index[2 * block + 1] = shortest[block] | width << 12 | places[block] << 16;
        }
    }
    if (threadIdx.x == 0) {
        layout.sizes[chunk] = {uint32_t(counted), live, bits, 2 * blocks + delta_words};
    }
}

// Collects bits, most significant first, in words of shared memory.
struct BitPacker {
    uint32_t *words;
    uint32_t word, filled;
    uint64_t pending;

    __device__ inline BitPacker(uint32_t *words, uint32_t bit)
        : words(words), word(bit / 32), filled(bit % 32), pending(0) {}
    // Appends the lowest `bits` bits of `value`, at most 32.
    __device__ inline void put(uint32_t value, uint32_t bits) {
        pending = pending << bits | value;
        filled += bits;
        if (filled >= 32) {
            filled -= 32;
            atomicOr(&words[word++], uint32_t(pending >> filled));
            pending &= (uint64_t(1) << filled) - 1;
        }
    }
    __device__ inline void finish() {
        if (filled > 0) {
            atomicOr(&words[word], uint32_t(pending << (32 - filled)));
        }
    }
};

// Writes the codewords and raw bits of the streams to their places in the output, which are 0 before. The grid is
// (live groups of a chunk over warps of a block, chunks).
extern "C" __global__ void __launch_bounds__(THREADS)
    token_codes_write(const __grid_constant__ TokenGroups from, const ChunkCodebooks *codebooks, const uint32_t *tables,
                      const __grid_constant__ TokenLayout layout, const uint64_t *places, uint8_t *output) {
    __shared__ uint32_t all_words[WARPS][GROUP_WORDS];
    const uint32_t chunk = blockIdx.y, rank = blockIdx.x * WARPS + warp_id(), slots = from.slots;
    if (rank >= layout.sizes[chunk].live_groups || places[chunk] == TOKENS_NOWHERE) {
        return;
    }
    uint32_t *words = all_words[warp_id()];
    const uint32_t *starts = layout.starts + uint64_t(chunk) * (slots + 1);
    const uint32_t start = starts[rank], end = starts[rank + 1], skipped = start % 32;
    const uint32_t count = ceil_div(skipped + (end - start), 32);
    const uint64_t place = uint64_t(chunk) * slots + layout.live_slots[uint64_t(chunk) * slots + rank];
    const uint32_t word = from.groups[place];
    const TokenCodebook codebook = codebook_of(codebooks, chunk, class_of_word(from, chunk, word));
    const uint32_t *table = tables + codebook.table;
    const LaneCodes lane(from.codes + place * TOKEN_GROUP, group_length(word));
    for (uint32_t i = lane_id(); i < count; i += WARP) {
        words[i] = 0;
    }
    uint32_t bits = 0;
    lane.for_each(codebook.mode,
                  [&](const Token &token) { bits += (table[token.symbol] >> CODE_BITS) + token.raw_bits; });
    BitPacker packer(words, skipped + warp_exclusive_sum(bits));
    __syncwarp();
    lane.for_each(codebook.mode, [&](const Token &token) {
        const uint32_t codeword = table[token.symbol];
        packer.put(codeword & ((1u << CODE_BITS) - 1), codeword >> CODE_BITS);
        packer.put(token.raw, token.raw_bits);
    });
    packer.finish();
    __syncwarp();
    // The first and the last word may have bits of the groups before and after.
    uint32_t *to = reinterpret_cast<uint32_t *>(output + places[chunk]) + start / 32;
    for (uint32_t i = lane_id(); i < count; i += WARP) {
        if (i == 0 || i == count - 1) {
            atomicOr(&to[i], words[i]);
        } else {
            to[i] = words[i];
        }
    }
}
