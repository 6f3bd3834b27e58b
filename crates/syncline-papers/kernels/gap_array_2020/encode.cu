// The gap array of Yamamoto, Nakano, Ito, Takafuji, Kasagi, Tabaru, "Huffman Coding with Gap Arrays for GPU
// Acceleration" (ICPP 2020): computed while encoding, once the positions of the
// segments are known. Reproduces the encoding with gap arrays of that paper, with subsequences of 128 bits.
//
// WRITE_THREADS  threads of a block, one warp for each segment
#include "device/sync.cuh"
#include "huffman/encode/scratch.cuh"
#include "format/constants.cuh"

using format::SUBSEQUENCE_BITS;
constexpr uint32_t WRITE_WARPS = WRITE_THREADS / WARP;

// Reads the symbols again. A codeword that reaches the start of a subsequence, and the end of the stream, set a gap:
// the distance to the start of the next codeword.
extern "C" __global__ void __launch_bounds__(WRITE_THREADS)
    gap_array_2020_encode(const uint8_t *symbols, const StreamInput *inputs, const uint32_t *codewords,
                          uint32_t segments_in_stream, EncodeScratch all, uint8_t *all_gaps, uint32_t gaps_in_stream) {
    launch_dependents_and_wait();
    const uint32_t blocks_in_stream = ceil_div(segments_in_stream, WRITE_WARPS);
    const uint32_t stream = blockIdx.x / blocks_in_stream;
    const uint32_t segment = blockIdx.x % blocks_in_stream * WRITE_WARPS + warp_id();
    const StreamInput input = inputs[stream];
    if (segment * SEGMENT_GROUPS >= input.groups) {
        return;
    }
    const EncodeScratch scratch = of_stream(all, stream, segments_in_stream);
    uint8_t *gaps = all_gaps + uint64_t(stream) * gaps_in_stream;
    const uint32_t *codebook = codewords + uint64_t(codebook_of(stream, 1, 0)) * ALPHABET;
    const uint32_t free_word = spread_symbol(input.free_symbol);
    const uint32_t end_of_stream = input.groups * GROUP;
    uint32_t position = scratch.starts[segment].x;
    if (segment == 0 && lane_id() == 0) {
        gaps[0] = 0;
    }
    const uint32_t rounds =
        ceil_div(min_of(SEGMENT_GROUPS, input.groups - segment * SEGMENT_GROUPS) * GROUP, WARP_SYMBOLS);
    uint32_t at = segment * SEGMENT + lane_id() * LANE_SYMBOLS;
    for (uint32_t round = 0; round < rounds; ++round, at += WARP_SYMBOLS) {
        LaneSymbols own;
        own.load(symbols + (input.first_group * GROUP + min_of(at, end_of_stream - LANE_SYMBOLS)) * SYMBOL_BYTES);
        const bool is_coded =
            (__ballot_sync(ALL_LANES, at < end_of_stream && own.differs_from(free_word)) & group_lanes()) != 0;
        uint8_t lengths[LANE_SYMBOLS];
        uint32_t total = 0;
#pragma unroll
        for (uint32_t i = 0; i < LANE_SYMBOLS; ++i) {
            lengths[i] = is_coded ? __ldg(&codebook[own[i] & (ALPHABET - 1)]) >> CODE_BITS : 0;
            total += lengths[i];
        }
        const uint32_t through = warp_inclusive_sum(total);
        uint32_t end = position + through - total;
#pragma unroll
        for (uint32_t i = 0; i < LANE_SYMBOLS; ++i) {
            end += lengths[i];
            if (end % SUBSEQUENCE_BITS < lengths[i]) {
                gaps[end / SUBSEQUENCE_BITS] = end % SUBSEQUENCE_BITS;
            }
        }
        position += __shfl_sync(ALL_LANES, through, WARP - 1);
    }
}
