// The header of a Huffman stream, read and checked on the device.
#pragma once
#include "huffman/decode/decode.cuh"
#include "format/constants.cuh"

using format::MAX_CODEBOOKS;
using format::STREAM_HEADER_BYTES;
constexpr uint32_t MAX_STREAM_SYMBOLS = 1u << 23; // per stream
constexpr uint32_t INDEX_SYMBOL = 2;              // the only index kind that is decoded here

// Bits of a stream's status word, in addition to those of huffman/decode/decode.cuh.
constexpr uint32_t STATUS_HEADER = 16, STATUS_CODEBOOK = 32, STATUS_CAPACITY = 64;

// The properties of a stream that the caller knows.
struct StreamBounds {
    uint64_t offset;      // in the input, a multiple of 16
    uint64_t length;      // bytes that may be read from there on
    uint32_t most_groups; // capacity of the output, in groups
    uint32_t symbol_bytes;
    uint32_t group_log2;
    uint32_t most_codebooks;
};

// The header of a stream, and the offsets of its parts from the start of the stream.
struct StreamHeader {
    uint32_t groups, coded_groups, bits, codebook_bytes, index_bytes, sum, weighted;
    uint32_t codebooks, zero_bit_symbol, longest, has_zero_bit_groups;
    uint32_t status; // 0, or bits that identify errors
    uint64_t bitmap, index, words;
};

__device__ inline StreamHeader read_header(const uint8_t *input, const StreamBounds &bounds) {
    StreamHeader header{};
    if (bounds.length < STREAM_HEADER_BYTES) {
        header.status = STATUS_HEADER;
        return header;
    }
    const uint4 *units = reinterpret_cast<const uint4 *>(input + bounds.offset);
    const uint4 first = units[0], second = units[1];
    const uint2 third = *reinterpret_cast<const uint2 *>(units + 2);
    header.groups = first.x;
    header.coded_groups = first.y;
    const uint32_t group_log2 = first.z & 0xFF, symbol_bytes = first.z >> 8 & 0xFF;
    const uint32_t index_kind = first.z >> 16 & 0xFF;
    header.codebooks = first.z >> 24;
    header.zero_bit_symbol = first.w & 0xFFFF;
    header.longest = first.w >> 16 & 0xFF;
    const uint32_t flags = first.w >> 24;
    header.has_zero_bit_groups = flags & 1;
    header.sum = second.x;
    header.weighted = second.y;
    header.bits = second.z;
    header.codebook_bytes = second.w;
    header.index_bytes = third.x;
    const uint64_t coded_symbols = uint64_t(header.coded_groups) << bounds.group_log2;
    const bool wrong =
        group_log2 != bounds.group_log2 || symbol_bytes != bounds.symbol_bytes || index_kind != INDEX_SYMBOL ||
        header.codebooks == 0 || header.codebooks > bounds.most_codebooks ||
        (symbol_bytes == 1 && header.zero_bit_symbol > 0xFF) || header.longest > LONGEST || flags > 1 || third.y != 0 ||
        uint64_t(header.groups) << bounds.group_log2 > MAX_STREAM_SYMBOLS || header.coded_groups > header.groups ||
        (header.has_zero_bit_groups != 0) == (header.coded_groups == header.groups) ||
        (header.coded_groups == 0) != (header.longest == 0) || header.bits < coded_symbols ||
        header.bits > coded_symbols * header.longest;
    if (wrong) {
        header.status = STATUS_HEADER;
        return header;
    }
    header.bitmap = align_up(STREAM_HEADER_BYTES + uint64_t(header.codebook_bytes), 4);
    header.index = align_up(header.bitmap + (header.has_zero_bit_groups ? ceil_div(header.groups, 8) : 0), 8);
    header.words = align_up(header.index + header.index_bytes, 16);
    const uint64_t end = header.words + uint64_t(ceil_div(header.bits, 32)) * 4 + 8;
    if (end > bounds.length) {
        header.status = STATUS_HEADER;
    } else if (header.index_bytes / 8 < ceil_div(header.coded_groups, WARP) ||
               (header.coded_groups == 0 && header.index_bytes != 0)) {
        header.status = STATUS_INDEX;
    } else if (header.groups > bounds.most_groups) {
        header.status = STATUS_CAPACITY;
    }
    return header;
}
