// Scratch memory that the encoder passes to the kernels that lay out and write streams.
#pragma once
#include "huffman/encode/encode.cuh"

constexpr uint32_t INDEX_BLOCK = 32; // coded groups

// Scratch memory of all streams, or of one.
struct EncodeScratch : EncodeScratchFields {
    // Returns the bits of the coded groups without gaps.
    __device__ inline const uint16_t *bits_of_coded(bool all_coded) const {
        return all_coded ? group_bits : coded_group_bits;
    }
};

__device__ inline EncodeScratch of_stream(EncodeScratch all, uint32_t stream, uint32_t segments) {
    const uint64_t before = uint64_t(stream) * segments;
    all.sums += before;
    all.group_bits += before * SEGMENT_GROUPS;
    all.starts += before;
    // Rounded up to whole index blocks, which are read as vectors.
    all.coded_group_bits += uint64_t(stream) * ceil_div(segments * SEGMENT_GROUPS, INDEX_BLOCK) * INDEX_BLOCK;
    all.free_bitmap += uint64_t(stream) * ceil_div(segments * SEGMENT_GROUPS, 32);
    all.descriptors += uint64_t(stream) * ceil_div(segments * SEGMENT_GROUPS, INDEX_BLOCK);
    return all;
}
