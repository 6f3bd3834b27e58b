// The gap index: where the first codeword starts in each subsequence of a stream, now that it is known where in the stream a segment starts.
//
// Our encoder has noted the bits of each few codewords, a piece. Their sums say in which piece each subsequence starts; a lane then walks from the piece's start in the
// segment's slot, over fewer codewords than a piece has. Symbols are not read again.
//
// WRITE_THREADS  threads in a block, a warp for each segment
#include "huffman_encode_scratch.cuh"

constexpr uint32_t WRITE_WARPS = WRITE_THREADS / WARP;
// Starts of pieces that a warp has waiting, by subsequence: those that one round adds, and those that were too few to be walked.
constexpr uint32_t WAITING = 256;
// Subsequences that a lane walks to at a time.
constexpr uint32_t WALKS = 2;
static_assert(WALKS * WARP + WARP_SYMBOLS * LONGEST / SUBSEQUENCE + 1 <= WAITING, "nothing is overwritten before it is read");

// Bits of the codeword that a window of 31 bits starts with: `ends` has where the codewords of each length end, those of shorter ones included, in units of 2^-31.
__device__ inline uint32_t codeword_bits(const uint32_t *ends, uint32_t window) {
    uint32_t shorter = 0;
#pragma unroll
    for (uint32_t step = LONGEST <= 16 ? 8 : 16; step > 0; step /= 2) {
        shorter += ends[shorter + step] <= window ? step : 0;
    }
    return shorter + 1;
}

// Fills in `ends` from a codebook; by the whole block.
__device__ inline void find_ends(const uint32_t *book, uint32_t *ends) {
    if (threadIdx.x < WARP) {
        ends[threadIdx.x] = 0;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < ALPHABET; i += WRITE_THREADS) {
        const uint32_t length = book[i] >> CODE_BITS, code = book[i] & ((1u << CODE_BITS) - 1);
        if (length > 0) {
            atomicMax(&ends[length], code + 1 << (31 - length));
        }
    }
    __syncthreads();
    if (warp_id() == 0) {
        uint32_t end = ends[lane_id()];
#pragma unroll
        for (uint32_t distance = 1; distance < WARP; distance *= 2) {
            end = max_of(end, __shfl_up_sync(ALL_LANES, end, distance));
        }
        ends[lane_id()] = end;
    }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(WRITE_THREADS)
    encode_gaps(const uint32_t *slots, const uint32_t *pieces, const Span *spans, const uint32_t *codewords, uint32_t segments_in_stream, Scratch all) {
    __shared__ uint32_t ends[WARP];
    __shared__ uint32_t waiting[WRITE_WARPS][WAITING];
    wait_for_previous();
    const uint32_t blocks_in_stream = ceil_div(segments_in_stream, WRITE_WARPS);
    const uint32_t stream = blockIdx.x / blocks_in_stream;
    const uint32_t segment = blockIdx.x % blocks_in_stream * WRITE_WARPS + warp_id();
    const uint32_t groups = spans[stream].groups;
    if ((segment - warp_id()) * SEGMENT_GROUPS >= groups) {
        return;
    }
    find_ends(codewords + uint64_t(book_of(stream, 1, 0)) * ALPHABET, ends);
    if (segment * SEGMENT_GROUPS >= groups) {
        return;
    }
    const Scratch scratch = of_stream(all, stream, segments_in_stream);
    const uint64_t slot_number = uint64_t(stream) * segments_in_stream + segment;
    const uint32_t *slot = slots + slot_number * SLOT_WORDS;
    const uint32_t *piece_words = pieces + slot_number * (SEGMENT / LANE_SYMBOLS * PIECE_WORDS) + lane_id() * PIECE_WORDS;
    const uint32_t start = scratch.starts[segment].x, bits = scratch.sums[segment].bits;
    const uint32_t last_word = max_of(bits, 1u) - 1 >> 5;
    uint32_t *const starts = waiting[warp_id()];
    if (segment == 0 && lane_id() == 0) {
        scratch.gaps[0] = 0;
    }
    // Counted from the stream's start. One that starts where the segment does is the segment's before.
    uint32_t next = start / SUBSEQUENCE + 1;
    auto walk = [&](uint32_t count) {
        uint32_t at[WALKS], to[WALKS], high[WALKS], low[WALKS];
#pragma unroll
        for (uint32_t i = 0; i < WALKS; ++i) {
            const uint32_t which = i * WARP + lane_id();
            to[i] = (next + which) * SUBSEQUENCE - start;
            at[i] = which < count ? starts[(next + which) % WAITING] : to[i];
            const uint32_t word = at[i] / 32;
            // The piece's bits are the slot's; what is read instead of words behind them is not used.
            const uint32_t first = __ldg(&slot[min_of(word, last_word)]), second = __ldg(&slot[min_of(word + 1, last_word)]),
                           third = __ldg(&slot[min_of(word + 2, last_word)]);
            high[i] = __funnelshift_l(second, first, at[i]);
            low[i] = __funnelshift_l(third, second, at[i]);
        }
#pragma unroll
        for (uint32_t step = 0; step < JOINED; ++step) {
#pragma unroll
            for (uint32_t i = 0; i < WALKS; ++i) {
                const uint32_t length = at[i] < to[i] ? codeword_bits(ends, high[i] >> 1) : 0;
                at[i] += length;
                high[i] = __funnelshift_l(low[i], high[i], length);
                low[i] <<= length;
            }
        }
#pragma unroll
        for (uint32_t i = 0; i < WALKS; ++i) {
            const uint32_t which = i * WARP + lane_id();
            if (which < count) {
                scratch.gaps[next + which] = at[i] - to[i];
            }
        }
        next += count;
        __syncwarp();
    };
    const uint32_t rounds = ceil_div(min_of(SEGMENT_GROUPS, groups - segment * SEGMENT_GROUPS) * GROUP, WARP_SYMBOLS);
    constexpr uint32_t AHEAD = 4;
    uint32_t position = 0; // in the segment
    for (uint32_t first = 0; first < rounds; first += AHEAD) {
        uint32_t noted[AHEAD][PIECE_WORDS];
#pragma unroll
        for (uint32_t a = 0; a < AHEAD; ++a) {
#pragma unroll
            for (uint32_t w = 0; w < PIECE_WORDS; ++w) {
                noted[a][w] = first + a < rounds ? __ldcs(&piece_words[((first + a) * WARP) * PIECE_WORDS + w]) : 0;
            }
        }
#pragma unroll
        for (uint32_t a = 0; a < AHEAD; ++a) {
            uint32_t total = 0;
#pragma unroll
            for (uint32_t w = 0; w < PIECE_WORDS; ++w) {
                total = __dp4a(noted[a][w], 0x01010101u, total);
            }
            const uint32_t through = warp_scan_inclusive(total);
            uint32_t from = start + position + through - total;
#pragma unroll
            for (uint32_t i = 0; i < PIECES; ++i) {
                const uint32_t end = from + (noted[a][i / 4] >> i % 4 * 8 & 0xFF);
                if (end / SUBSEQUENCE != from / SUBSEQUENCE) {
                    starts[end / SUBSEQUENCE % WAITING] = from - start;
                }
                from = end;
            }
            position += __shfl_sync(ALL_LANES, through, WARP - 1);
            __syncwarp();
            while ((start + position) / SUBSEQUENCE + 1 - next >= WALKS * WARP) {
                walk(WALKS * WARP);
            }
        }
    }
    walk((start + position) / SUBSEQUENCE + 1 - next);
}

// For the encoders that note no pieces: reads the symbols again, now that it is known where in the stream a segment starts. A codeword that reaches a subsequence's start gives its gap; so does the
// end of all. The gap is where the next codeword starts.
extern "C" __global__ void __launch_bounds__(WRITE_THREADS)
    encode_gaps_of_symbols(const uint8_t *symbols, const Span *spans, const uint32_t *codewords, uint32_t segments_in_stream, Scratch all) {
    wait_for_previous();
    const uint32_t blocks_in_stream = ceil_div(segments_in_stream, WRITE_WARPS);
    const uint32_t stream = blockIdx.x / blocks_in_stream;
    const uint32_t segment = blockIdx.x % blocks_in_stream * WRITE_WARPS + warp_id();
    const Span span = spans[stream];
    if (segment * SEGMENT_GROUPS >= span.groups) {
        return;
    }
    const Scratch scratch = of_stream(all, stream, segments_in_stream);
    const uint32_t *book = codewords + uint64_t(book_of(stream, 1, 0)) * ALPHABET;
    const uint32_t free_word = spread_symbol(span.free_symbol);
    const uint32_t end_of_stream = span.groups * GROUP;
    uint32_t position = scratch.starts[segment].x;
    if (segment == 0 && lane_id() == 0) {
        scratch.gaps[0] = 0;
    }
    const uint32_t rounds = ceil_div(min_of(SEGMENT_GROUPS, span.groups - segment * SEGMENT_GROUPS) * GROUP, WARP_SYMBOLS);
    uint32_t at = segment * SEGMENT + lane_id() * LANE_SYMBOLS;
    for (uint32_t round = 0; round < rounds; ++round, at += WARP_SYMBOLS) {
        LaneSymbols own;
        own.load(symbols + (span.first_group * GROUP + min_of(at, end_of_stream - LANE_SYMBOLS)) * SYMBOL_BYTES);
        const bool live = (__ballot_sync(ALL_LANES, at < end_of_stream && own.differs_from(free_word)) & group_lanes()) != 0;
        uint8_t lengths[LANE_SYMBOLS];
        uint32_t total = 0;
#pragma unroll
        for (uint32_t i = 0; i < LANE_SYMBOLS; ++i) {
            lengths[i] = live ? __ldg(&book[own[i] & (ALPHABET - 1)]) >> CODE_BITS : 0;
            total += lengths[i];
        }
        const uint32_t through = warp_scan_inclusive(total);
        uint32_t end = position + through - total;
#pragma unroll
        for (uint32_t i = 0; i < LANE_SYMBOLS; ++i) {
            end += lengths[i];
            if (end % SUBSEQUENCE < lengths[i]) {
                scratch.gaps[end / SUBSEQUENCE] = end % SUBSEQUENCE;
            }
        }
        position += __shfl_sync(ALL_LANES, through, WARP - 1);
    }
}
