// The symbol index: where the 32 groups of an index block start, and copying their words to shared memory. Functions
// are called by a warp.
#pragma once
#include "device/warp.cuh"
#include "huffman/decode/decode.cuh"

// An index block, decoded by a warp.
struct IndexBlock {
    uint32_t start, end; // of this lane's group, in bits
    // Whether this is not the first index block that starts at 0, or one that ends where the next one starts, or the
    // stream ends.
    bool damaged;

    __device__ inline IndexBlock(const uint8_t *input, const StreamDescriptor &stream, uint32_t block) {
        const uint64_t *descriptors = reinterpret_cast<const uint64_t *>(input + stream.index);
        const uint64_t descriptor = descriptors[block];
        const uint32_t shortest = uint32_t(descriptor >> 32) & 0xFFF, width = uint32_t(descriptor >> 44) & 15;
        // The two words that contain the lane's length.
        const uint32_t blocks = ceil_div(stream.coded_groups, WARP), delta_bytes = stream.index_bytes - blocks * 8;
        const uint32_t *deltas = reinterpret_cast<const uint32_t *>(descriptors + blocks);
        const uint32_t first_word = uint32_t(descriptor >> 48), word = first_word + lane_id() * width / 32;
        uint32_t low = 0, high = 0;
        if (width != 0) {
            low = word < delta_bytes / 4 ? deltas[word] : 0;
            high = word + 1 < delta_bytes / 4 ? deltas[word + 1] : 0;
        }
        uint32_t length = __funnelshift_r(low, high, lane_id() * width) & ((1u << width) - 1);
        length = block * WARP + lane_id() < stream.coded_groups ? length + shortest : 0;
        const uint32_t sum = warp_inclusive_sum(length);
        start = uint32_t(descriptor) + sum - length;
        end = start + length;
        const bool is_last = block + 1 == blocks;
        const uint64_t next = is_last ? 0 : descriptors[block + 1];
        const uint32_t next_start = is_last ? stream.bits : uint32_t(next);
        const uint64_t next_byte = is_last ? delta_bytes : next >> 48 << 2;
        damaged = (block == 0 && (uint32_t(descriptor) | first_word) != 0) || (first_word + width) * 4 != next_byte ||
                  end > stream.bits || end < start || (lane_id() == WARP - 1 && end != next_start);
    }
};

// Copies words [first, end) to shared memory, `first` to word 0, and waits for the copies. `first` is a multiple of 4.
__device__ inline void stage(uint32_t *to, const uint32_t *words, uint32_t first, uint32_t end) {
    const uint32_t whole = (end - first) / 4;
    for (uint32_t i = lane_id(); i < whole; i += WARP) {
        copy_async(to + 4 * i, words + first + 4 * i);
    }
    uint32_t rest = first + whole * 4 + lane_id();
    if (rest < end) {
        to[rest - first] = words[rest];
    }
    wait_for_copies();
    __syncwarp();
}
