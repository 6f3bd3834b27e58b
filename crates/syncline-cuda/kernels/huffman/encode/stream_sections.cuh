// The sections of a stream, as streams_write writes them: header, codebooks and padding, the symbol index, and the
// codewords of a segment.
#pragma once
#include "device/warp.cuh"
#include "huffman/encode/scratch.cuh"
#include "format/constants.cuh"

using format::STREAM_HEADER_BYTES;
constexpr uint32_t GROUP_LOG2 = GROUP == 64 ? 6 : 7;
constexpr uint32_t EMPTY_CODEBOOK_BYTES = 4;
// Words of a cache line.
constexpr uint32_t LINE_WORDS = 32;
static_assert(LINE_WORDS <= WARP, "a lane a word");
constexpr uint32_t MAX_CODEBOOK_BYTES = ALPHABET + 4; // maximum size of a serialized codebook

constexpr uint32_t WRITE_WARPS = WRITE_THREADS / WARP;

// The slots of one stream.
struct Slots {
    const uint32_t *slots;
    const uint2 *starts;
    uint32_t segments, bits;

    // Returns the bits that later segments add to the word of the stream in which bit `end`, the end of `segment`,
    // lies. Called by a whole warp, because many segments may be empty.
    __device__ inline uint32_t rest_of_word(uint32_t segment, uint32_t end) const {
        const uint32_t word_end = align_up(end, 32);
        uint32_t word = 0;
        bool more = end < word_end;
        for (uint32_t first = segment + 1; more && first < segments; first += WARP) {
            const uint32_t own = first + lane_id();
            uint32_t start = word_end, next = word_end;
            if (own < segments) {
                start = starts[own].x;
                next = own + 1 < segments ? starts[own + 1].x : bits;
            }
            // The last word of a slot is zero beyond the segment's bits.
            word |= start < word_end && start < next ? slots[uint64_t(own) * SLOT_WORDS] >> start % 32 : 0;
            more = __all_sync(ALL_LANES, next < word_end);
        }
        word = warp_reduce_or(word);
        return word;
    }
};

// Moves vectors of four words, each from SKIP words and `shift` bits into a vector of `from`. Called by a warp, with
// several vectors in flight.
template <uint32_t SKIP>
__device__ inline void move_vectors(const uint4 *from, uint4 *to, uint32_t vectors, uint32_t shift) {
    constexpr uint32_t AHEAD = 4;
    for (uint32_t i = lane_id(); i < vectors; i += AHEAD * WARP) {
        uint4 loaded[AHEAD][2];
#pragma unroll
        for (uint32_t a = 0; a < AHEAD; ++a) {
            const uint32_t at = i + a * WARP;
            const bool both = SKIP > 0 || shift > 0;
            loaded[a][0] = at < vectors ? __ldcs(&from[at]) : make_uint4(0, 0, 0, 0);
            loaded[a][1] = at < vectors && both ? __ldcs(&from[at + 1]) : make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (uint32_t a = 0; a < AHEAD; ++a) {
            const uint4 low = loaded[a][0], high = loaded[a][1];
            const uint32_t all[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
            uint32_t moved[4];
#pragma unroll
            for (uint32_t j = 0; j < 4; ++j) {
                moved[j] = __funnelshift_l(all[SKIP + j + 1], all[SKIP + j], shift);
            }
            if (i + a * WARP < vectors) {
                __stcs(&to[i + a * WARP], make_uint4(moved[0], moved[1], moved[2], moved[3]));
            }
        }
    }
}

__device__ inline void write_header(uint32_t *out, const StreamPlan &plan) {
    out[0] = plan.groups;
    out[1] = plan.coded_groups;
    out[2] = GROUP_LOG2 | SYMBOL_BYTES << 8 | INDEX << 16 | plan.codebooks << 24;
    out[3] = plan.free_symbol | plan.longest << 16 | plan.has_free << 24;
    out[4] = plan.sum;
    out[5] = plan.weighted;
    out[6] = plan.codeword_bits;
    out[7] = plan.codebook_bytes;
    out[8] = plan.index_bytes;
    out[9] = 0;
}

// Writes the header, the codebooks and all padding. Called by `size` threads; this one is number `rank`.
__device__ inline void write_header_and_codebooks(uint8_t *out, const StreamPlan &plan, const Codebooks &codebooks,
                                                  uint32_t stream, uint32_t rank, uint32_t size) {
    if (rank == 0) {
        write_header(reinterpret_cast<uint32_t *>(out), plan);
    }
    uint32_t at = STREAM_HEADER_BYTES;
#pragma unroll 1
    for (uint32_t codebook = 0; codebook < plan.codebooks; ++codebook) {
        const uint32_t index = codebook_of(stream, plan.codebooks, codebook);
        const uint32_t bytes = plan.coded_groups == 0 ? EMPTY_CODEBOOK_BYTES : codebooks.summaries[2 * index];
#pragma unroll 1
        for (uint32_t i = rank; i < bytes; i += size) {
            out[at + i] = plan.coded_groups == 0 ? 0 : codebooks.bytes[uint64_t(index) * MAX_CODEBOOK_BYTES + i];
        }
        at += bytes;
    }
    const uint32_t bitmap_end = plan.bitmap_at + (plan.has_free ? ceil_div(plan.groups, 8) : 0);
    const uint32_t codewords_end = plan.codewords_at + 4 * ceil_div(plan.codeword_bits, 32);
    auto clear = [&](uint32_t by, uint32_t from, uint32_t to) {
#pragma unroll 1
        for (; rank == by && from < to; ++from) {
            out[from] = 0;
        }
    };
    clear(0, at, plan.bitmap_at);
    clear(size / 4, bitmap_end, plan.index_at);
    clear(size / 2, plan.index_at + plan.index_bytes, plan.codewords_at);
    clear(size / 4 * 3, codewords_end, plan.stream_bytes);
}

// Writes descriptors and deltas of the symbol index. A warp handles every `step`-th index block from `first` on.
__device__ inline void write_symbol_index(uint8_t *out, const uint64_t *descriptors, const uint16_t *coded_group_bits,
                                          uint32_t coded, uint32_t first, uint32_t step) {
    // Several index blocks at a time, so that their loads overlap. ROOM: deltas of up to 12 bits, and a word that the
    // last one may touch.
    constexpr uint32_t AHEAD = 4, ROOM = 13;
    __shared__ uint32_t packed[WRITE_WARPS][AHEAD][ROOM];
    const uint32_t index_blocks = ceil_div(coded, INDEX_BLOCK);
    uint64_t *to = reinterpret_cast<uint64_t *>(out);
    uint32_t *deltas = reinterpret_cast<uint32_t *>(to + index_blocks);
    for (; first < index_blocks; first += AHEAD * step) {
        uint64_t descriptor[AHEAD];
        uint32_t length[AHEAD];
#pragma unroll
        for (uint32_t a = 0; a < AHEAD; ++a) {
            const uint32_t i = first + a * step, group = i * INDEX_BLOCK + lane_id();
            descriptor[a] = i < index_blocks ? descriptors[i] : 0;
            length[a] = group < coded ? coded_group_bits[group] : 0;
            if (lane_id() < ROOM) {
                packed[warp_id()][a][lane_id()] = 0;
            }
        }
        __syncwarp();
#pragma unroll
        for (uint32_t a = 0; a < AHEAD; ++a) {
            const uint32_t i = first + a * step;
            const uint32_t shortest = uint32_t(descriptor[a] >> 32) & 0xFFF,
                           width = uint32_t(descriptor[a] >> 44) & 0xF;
            if (i >= index_blocks) {
                break;
            }
            const uint64_t delta = i * INDEX_BLOCK + lane_id() < coded ? length[a] - shortest : 0;
            const uint64_t shifted = delta << lane_id() * width % 32;
            uint32_t *word = &packed[warp_id()][a][lane_id() * width / 32];
            atomicOr(word, uint32_t(shifted));
            atomicOr(word + 1, uint32_t(shifted >> 32));
            if (lane_id() == 0) {
                to[i] = descriptor[a];
            }
        }
        __syncwarp();
#pragma unroll
        for (uint32_t a = 0; a < AHEAD; ++a) {
            if (lane_id() < (uint32_t(descriptor[a] >> 44) & 0xF)) {
                deltas[uint32_t(descriptor[a] >> 48) + lane_id()] = packed[warp_id()][a][lane_id()];
            }
        }
        __syncwarp();
    }
}
