// Finding where the codewords of a block's subsequences start: by synchronizing, or from what subsequences do from
// every start there can be.
//
// ROUNDS   rounds of synchronizing before giving up
#pragma once
#include "huffman/decode/parts.cuh"

// What subsequences do from every start there can be: functions from where the first codeword starts to where the next
// subsequence's does. By the whole block, as all here.
struct Functions {
    uint8_t *own, *of_spans, *span_entries; // LONGEST bytes for each subsequence and each span, and a byte
    uint32_t first, spans, offsets;         // the first subsequence of the block's own

    template <typename BitsOf>
    __device__ inline void find(const Span &span, const PartCounter &counter, BitsOf bits_of) const {
        for (uint32_t i = threadIdx.x; i < spans * WARP; i += THREADS) {
            for (uint32_t entry = 0; entry < offsets; ++entry) {
                own[i * LONGEST + entry] =
                    min_of(span.count(counter, first + i, bits_of(first + i), entry), offsets - 1);
            }
        }
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < spans * offsets; i += THREADS) {
            uint32_t at = i % offsets;
            for (uint32_t j = 0; j < WARP; ++j) {
                at = own[(i / offsets * WARP + j) * LONGEST + at];
            }
            of_spans[i / offsets * LONGEST + i % offsets] = at;
        }
        __syncthreads();
    }

    // Decodes all from where the first codeword starts.
    template <typename BitsOf>
    __device__ inline void resolve(const Span &span, const PartCounter &counter, uint32_t entry, BitsOf bits_of) const {
        if (threadIdx.x == 0) {
            uint32_t at = min_of(entry, offsets - 1);
            for (uint32_t i = 0; i < spans; ++i) {
                span_entries[i] = at;
                at = of_spans[i * LONGEST + at];
            }
        }
        __syncthreads();
        if (threadIdx.x < spans) {
            uint32_t at = span_entries[threadIdx.x];
            for (uint32_t j = threadIdx.x * WARP; j < (threadIdx.x + 1) * WARP; ++j) {
                span.starts[first + j] = at;
                at = own[j * LONGEST + at];
            }
        }
        __syncthreads();
        for (uint32_t i = first + threadIdx.x; i < first + spans * WARP; i += THREADS) {
            span.exits[i] = span.count(counter, i, bits_of(i), span.starts[i]);
        }
        __syncthreads();
    }
};

// Where codewords start in `count` subsequences, if one does at the first. Whether that has settled; `exit` becomes
// where the last codeword ends. By the whole block.
template <typename BitsOf>
__device__ inline bool synchronize(const Span &span, const PartCounter &counter, uint32_t count, BitsOf bits_of,
                                   uint32_t &exit) {
    for (uint32_t i = threadIdx.x; i < count; i += THREADS) {
        span.starts[i] = 0;
        span.exits[i] = span.count(counter, i, bits_of(i), 0);
    }
    for (uint32_t round = 0;; ++round) {
        __syncthreads();
        uint32_t again = 0; // a bit for each of the thread's
        for (uint32_t i = threadIdx.x, bit = 1; i < count; i += THREADS, bit *= 2) {
            const uint32_t start = i > 0 && bits_of(i) > 0 ? span.exits[i - 1] : 0;
            if (start != span.starts[i]) {
                span.starts[i] = start;
                again |= bit;
            }
        }
        if (!__syncthreads_or(again)) {
            exit = count > 0 ? span.exits[count - 1] : 0;
            return true;
        }
        if (round == ROUNDS) {
            return false;
        }
        for (uint32_t i = threadIdx.x; again != 0; i += THREADS, again /= 2) {
            if (again & 1) {
                span.exits[i] = span.count(counter, i, bits_of(i), span.starts[i]);
            }
        }
    }
}

// Where codewords start in subsequences of which 2^`chunks_log2` lanes have a chunk each, a warp having a row of 32
// chunks, if one starts at the first: a lane takes its first codeword to start with the chunk until the lane before it
// says otherwise. Whether all has settled; `exit` becomes where the last codeword ends. By the whole block, which has
// `rows` rows, a warp one at most.
template <typename BitsOf>
__device__ inline bool settle_chunks(const Span &span, const PartCounter &counter, uint32_t chunks_log2, uint32_t rows,
                                     BitsOf bits_of, uint32_t &exit) {
    __shared__ uint8_t row_exits[WARPS];
    const uint32_t subsequence = threadIdx.x >> chunks_log2, chunk_bits = SUBSEQUENCE_BITS >> chunks_log2,
                   before = (threadIdx.x - (subsequence << chunks_log2)) * chunk_bits;
    const uint32_t parts = 1u << (span.parts_log2 - chunks_log2), first = threadIdx.x * parts;
    const bool there = warp_id() < rows;
    const uint32_t all_bits = there ? bits_of(subsequence) : 0,
                   bits = min_of(all_bits - min_of(all_bits, before), chunk_bits);
    uint32_t start = 0, expected = 0, end = 0;
    bool again = there, settles = true;
    for (uint32_t round = 0;; ++round) {
        for (uint32_t turn = 0; __any_sync(ALL_LANES, again); ++turn) {
            if (turn > ROUNDS) {
                settles = false;
                break;
            }
            if (again) {
                start = expected;
                end = span.count(counter, first, first + parts, bits, start);
            }
            expected = __shfl_up_sync(ALL_LANES, end, 1);
            again = lane_id() > 0 && bits > 0 && expected != start;
        }
        if (there && lane_id() == WARP - 1) {
            row_exits[warp_id()] = end;
        }
        __syncthreads();
        expected = there && lane_id() == 0 && warp_id() > 0 && bits > 0 ? row_exits[warp_id() - 1] : start;
        again = settles && expected != start;
        // Behind this all have read it.
        if (!__syncthreads_or(again || !settles)) {
            exit = rows > 0 ? row_exits[rows - 1] : 0;
            return true;
        }
        if (round == ROUNDS) {
            return false;
        }
    }
}
