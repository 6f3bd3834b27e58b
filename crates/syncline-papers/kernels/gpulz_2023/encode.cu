// Encodes data blocks as tokens as published for GPULZ (Zhang et al., ICS 2023, Section 3.3, kernel I): each thread
// compares its position with every position of the window, and one thread selects the tokens sequentially. The rule for
// the best match is that of the format, as in `lzss_tokens`.
#include "lzss/encode.cuh"

__device__ inline symbol_t symbol_at(const Work &work, uint32_t position) {
    return reinterpret_cast<const symbol_t *>(work.data)[position];
}

// Returns the token of the longest match at a position, the nearest one of several, or 0 for a literal. At most DEPTH
// candidates whose first `key_symbols` symbols match are counted.
__device__ inline token_t longest_match(const Work &work, uint32_t position, uint32_t key_symbols) {
    const uint32_t limit = min_of(work.symbols - position, work.min_match + LENGTH_SPAN);
    uint32_t best = 0, best_distance = 0, left = DEPTH;
    for (uint32_t distance = 1;
         distance <= min_of<uint32_t>(WINDOW, position) && left > 0 && best < min_of<uint32_t>(ENOUGH, limit);
         ++distance) {
        uint32_t length = 0;
        while (length < limit && symbol_at(work, position + length) == symbol_at(work, position + length - distance)) {
            ++length;
        }
        if (length < key_symbols) {
            continue;
        }
        --left;
        if (length > best) {
            best = length;
            best_distance = distance;
        }
    }
    return best_distance != 0 && best >= work.min_match
               ? token_t((best - work.min_match) << DISTANCE_BITS | best_distance)
               : 0;
}

// Encodes the data blocks of all sections to `slots` and writes their numbers of tokens and matches to `counts`.
// `scratch` has WORK_BYTES bytes per thread block, which are used unless IN_SHARED. Thread blocks take data blocks in a
// loop.
extern "C" __global__ void __launch_bounds__(THREADS)
    gpulz_2023_encode(const uint8_t *input, const EncodeSection *sections, uint32_t section_count, uint32_t blocks,
                      uint8_t *slots, Counts *counts, uint8_t *scratch) {
    extern __shared__ uint4 shared[];
    uint8_t *memory = IN_SHARED ? reinterpret_cast<uint8_t *>(shared) : scratch + uint64_t(blockIdx.x) * WORK_BYTES;
    auto find = [](const Work &work) {
        const uint32_t key_symbols = min_of<uint32_t>(8, work.min_match * WIDTH) / WIDTH;
        for (uint32_t position = threadIdx.x; position < work.symbols; position += THREADS) {
            work.tokens[bank_position(position)] = longest_match(work, position, key_symbols);
        }
    };
    auto select = [](const Work &work) {
        for (uint32_t chunk = threadIdx.x; chunk < CHUNKS; chunk += THREADS) {
            work.starts[chunk] = 0;
            work.flags[chunk] = 0;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            for (uint32_t position = 0; position < work.symbols;) {
                const uint32_t chunk = position / 32;
                const token_t token = work.tokens[bank_position(position)];
                work.flags[chunk] |= uint32_t(token != 0) << __popc(work.starts[chunk]);
                work.starts[chunk] |= 1u << position % 32;
                position += work.covered(token);
            }
        }
        __syncthreads();
    };
    encode_blocks(input, sections, section_count, blocks, slots, counts, memory, find, select);
}
