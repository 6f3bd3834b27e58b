// What the decoders that write by way of shared memory share: where symbols go, and whole lines of them.
#pragma once
#include "huffman_decode_spans.cuh"

constexpr uint32_t SUBSEQUENCES = SEQUENCE / THREADS;
constexpr uint32_t SYMBOLS_IN_WORD = 4 / SYMBOL_BYTES;

__device__ inline void store_symbol(uint8_t *out, uint64_t at, uint32_t symbol) {
    if (SYMBOL_BYTES == 1) {
        out[at] = symbol;
    } else {
        reinterpret_cast<uint16_t *>(out)[at] = symbol;
    }
}

// Where live symbol `position` of a stream stands in the output.
__device__ inline uint64_t place_of(const Stream &stream, const uint32_t *map, uint32_t position) {
    return stream.out + uint64_t(group_of(stream, map, position / GROUP)) * GROUP + position % GROUP;
}

// Writes symbols [begin, end) of a stream from the buffer, whose first is symbol `first`, a multiple of a unit's.
__device__ inline void flush(const uint4 *buffer, uint32_t first, uint32_t begin, uint32_t end, const Stream &stream, const uint32_t *map,
                             uint8_t *out, Checksum &checksum) {
    const uint32_t units = ceil_div(end - first, SYMBOLS_IN_UNIT);
    for (uint32_t i = threadIdx.x; i < units; i += THREADS) {
        const uint32_t position = first + i * SYMBOLS_IN_UNIT;
        const uint64_t at = place_of(stream, map, position);
        if (position >= begin && position + SYMBOLS_IN_UNIT <= end) {
            const uint4 unit = buffer[i];
            store_streaming(reinterpret_cast<uint4 *>(out + at * SYMBOL_BYTES), unit);
            checksum.add(unit, position);
            continue;
        }
        // The rest of the unit is another block's.
        for (uint32_t j = 0; j < SYMBOLS_IN_UNIT; ++j) {
            if (position + j >= begin && position + j < end) {
                const uint32_t symbol = SYMBOL_BYTES == 1 ? reinterpret_cast<const uint8_t *>(buffer)[i * SYMBOLS_IN_UNIT + j]
                                                          : reinterpret_cast<const uint16_t *>(buffer)[i * SYMBOLS_IN_UNIT + j];
                store_symbol(out, at + j, symbol);
                checksum.add_symbol(symbol, position + j);
            }
        }
    }
}

// The gap of a stream's subsequence.
__device__ inline uint32_t gap_of(const uint8_t *input, const Stream &stream, uint32_t subsequence) {
    const uint8_t *gaps = input + stream.index;
    return stream.longest <= 16 ? gaps[subsequence / 2] >> (subsequence % 2 * 4) & 15 : gaps[subsequence];
}

// What a thread's count is behind, in its block.
struct Scan {
    uint32_t before, total;
};

// By the whole block; `warp_counts` has one for each warp. The caller puts a barrier before the next use of them.
__device__ inline Scan scan_block(uint32_t count, uint32_t *warp_counts) {
    uint32_t sum = count;
    for (uint32_t distance = 1; distance < WARP; distance *= 2) {
        uint32_t below = __shfl_up_sync(ALL_LANES, sum, distance);
        sum += lane_id() >= distance ? below : 0;
    }
    if (lane_id() == WARP - 1) {
        warp_counts[warp_id()] = sum;
    }
    __syncthreads();
    Scan scan{sum - count, 0};
    for (uint32_t warp = 0; warp < WARPS; ++warp) {
        scan.before += warp < warp_id() ? warp_counts[warp] : 0;
        scan.total += warp_counts[warp];
    }
    return scan;
}

// Decodes a thread's symbols [position, own_end) from `reader` and writes all of the block's, [begin, end), by way of the buffer, which has room for `room`
// (a multiple of a unit's) at a time. By the whole block, with barriers.
__device__ inline void write_staged(const Decoder &decoder, Reader<Padded> &reader, uint4 *buffer, uint32_t room, uint32_t begin, uint32_t end,
                                    uint32_t position, uint32_t own_end, const Stream &stream, const uint32_t *map, uint8_t *out,
                                    Checksum &checksum) {
    for (uint32_t first = begin / SYMBOLS_IN_UNIT * SYMBOLS_IN_UNIT; first < end; first += room) {
        const uint32_t round_end = min_of(own_end, first + room);
        uint8_t *to = reinterpret_cast<uint8_t *>(buffer);
        // Whole words, and what is before and after them.
        while (position < round_end && position % SYMBOLS_IN_WORD != 0) {
            store_symbol(to, position - first, decoder.one(reader));
            ++position;
        }
        while (position + SYMBOLS_IN_WORD <= round_end) {
            reinterpret_cast<uint32_t *>(to)[(position - first) / SYMBOLS_IN_WORD] = decoder.word(reader);
            position += SYMBOLS_IN_WORD;
        }
        while (position < round_end) {
            store_symbol(to, position - first, decoder.one(reader));
            ++position;
        }
        __syncthreads();
        flush(buffer, first, begin, min_of(end, first + room), stream, map, out, checksum);
        __syncthreads();
    }
}
