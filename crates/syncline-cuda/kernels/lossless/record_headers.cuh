// Reads the headers of sections of LZSS tokens. The input is not trusted. A block of THREADS threads reads one chunk.
#pragma once
#include "device/block.cuh"
#include "format/constants.cuh"
#include "lossless/structs.cuh"

constexpr uint32_t WARPS = THREADS / WARP;
constexpr uint32_t BLOCKS = 2, FLAGS = 3, LENGTHS = 4, DISTANCES = 5, LITERALS = 6;
// Sections of a chunk of numbers.
constexpr uint32_t NUMBER_SECTIONS = 9;
constexpr uint32_t PARAMETER_BYTES = 8;
constexpr uint32_t PLANE_GROUP_LOG2 = 7;

// Status of a chunk.
enum Status : uint32_t {
    FINE,
    RECORD,
    NUMBER,
    KIND,
    BAD_SECTIONS,
    RAW,
    PARAMETERS,
    COUNTS,
    PLANES,
    NUMBERS_PLAN,
    NUMBERS_BASES,
    NUMBERS_BINS,
    NUMBERS_RAW_BITS,
    NUMBERS_VERBATIM,
    NUMBERS_STREAMS
};

constexpr uint32_t PLANE_FLAGS = 0, PLANE_LENGTHS = 1, PLANE_DISTANCES = 2, PLANE_LITERALS = 4, MOST_PLANES = 12;

__device__ inline uint64_t aligned(uint64_t number, uint64_t to) { return (number + to - 1) / to * to; }

__device__ inline bool all_zero(const uint8_t *bytes, uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; ++i) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

// Locates the sections of a payload that starts at byte `from` of the record and ends at byte `end`. `header` has the
// kind. Called by one thread.
__device__ inline uint32_t read_sections(const uint8_t *record, uint32_t from, uint32_t end, RecordHeader &header) {
    const uint32_t *lengths = reinterpret_cast<const uint32_t *>(record + from);
    uint64_t at = uint64_t(from) + 4 * format::SECTIONS;
    if (at > end) {
        return BAD_SECTIONS;
    }
    const bool has_tokens = header.kind == format::KIND_LZSS;
    const uint32_t first = has_tokens ? BLOCKS : 0, last = has_tokens ? LITERALS : NUMBER_SECTIONS - 1;
    for (uint32_t i = 0; i < format::SECTIONS; ++i) {
        const uint32_t bytes = lengths[i];
        if (bytes > 0) {
            const uint64_t start = aligned(at, 16);
            if (i < first || i > last || start + bytes > end || !all_zero(record, at, start)) {
                return BAD_SECTIONS;
            }
            header.section_at[i] = uint32_t(start);
            header.section_bytes[i] = bytes;
            at = start + bytes;
        }
    }
    return FINE;
}

// Returns the bytes of the Huffman stream at `bytes`, which has at most `room` bytes; 0 unless it has `groups` groups
// of such symbols, this index and one codebook.
__device__ inline uint64_t stream_bytes(const uint8_t *bytes, uint64_t room, uint32_t groups, uint32_t symbol_bytes,
                                        uint32_t index_kind) {
    if (room < format::STREAM_HEADER_BYTES) {
        return 0;
    }
    const uint32_t *words = reinterpret_cast<const uint32_t *>(bytes);
    if (words[0] != groups || words[2] != (PLANE_GROUP_LOG2 | symbol_bytes << 8 | index_kind << 16 | 1u << 24)) {
        return 0;
    }
    const uint32_t has_free = words[3] >> 24 & 1;
    uint64_t at = aligned(format::STREAM_HEADER_BYTES + uint64_t(words[7]), 4);
    at += has_free ? ceil_div(groups, 8) : 0;
    at = aligned(at, 8) + words[8];
    at = aligned(at, 16) + (uint64_t(words[6]) + 31) / 32 * 4 + 8;
    return at <= room ? at : 0;
}

// Reads planes of `count` symbols, which must fill a section. Called by one thread.
__device__ inline bool read_planes(const uint8_t *record, const RecordHeader &header, uint32_t section, uint32_t stride,
                                   uint32_t symbol_bytes, uint32_t count, uint32_t mask, uint32_t index_kind,
                                   HeaderPlane *planes) {
    const uint64_t start = header.section_at[section], end = start + header.section_bytes[section];
    uint64_t at = start;
    for (uint32_t i = 0; i < stride; ++i) {
        const uint64_t from = start + aligned(at - start, 16);
        if (from > end || !all_zero(record, at, from)) {
            return false;
        }
        const bool coded = mask >> i & 1;
        uint64_t bytes = uint64_t(count) * symbol_bytes;
        if (coded) {
            bytes = stream_bytes(record + from, end - from, ceil_div(count, 1u << PLANE_GROUP_LOG2), symbol_bytes,
                                 index_kind);
        }
        if ((coded && bytes == 0) || bytes > end - from) {
            return false;
        }
        planes[i] = {uint32_t(from), uint32_t(bytes), coded};
        at = from + bytes;
    }
    return at == end;
}

// Reads the sections of tokens that decode to `bytes` bytes. Called by the whole block.
__device__ inline uint32_t read_tokens(const uint8_t *record, uint64_t bytes, uint32_t index_kind, uint64_t *warp_sums,
                                       RecordHeader &header) {
    const uint8_t *section = record + header.section_at[BLOCKS];
    const uint32_t section_bytes = header.section_bytes[BLOCKS];
    if (section_bytes < PARAMETER_BYTES) {
        return PARAMETERS;
    }
    const uint32_t width = section[0], level = section[1], min_match = section[2], literal_bytes = section[3];
    if ((width != 1 && width != 2 && width != 4 && width != 8) || level < 1 || level > 9 || min_match < 1 ||
        min_match > 16 || literal_bytes > 2 || (literal_bytes == 2 && width == 1)) {
        return PARAMETERS;
    }
    const uint32_t coded = section[4] | section[5] << 8;
    const uint32_t symbols = uint32_t((bytes + width - 1) / width);
    const uint32_t block_symbols = (level <= 4 ? 1u << 14 : 1u << 16) / width;
    const uint32_t blocks = ceil_div(symbols, block_symbols);
    if (section_bytes != PARAMETER_BYTES + uint64_t(blocks) * 8) {
        return COUNTS;
    }
    const uint2 *counts = reinterpret_cast<const uint2 *>(section + PARAMETER_BYTES);
    uint64_t tokens = 0, matches = 0, words = 0, total;
    bool bad = false;
    for (uint32_t block = threadIdx.x; block < blocks; block += THREADS) {
        const uint2 own = counts[block]; // numbers of tokens and matches
        bad |= own.y > own.x || own.x > min_of(symbols - block * block_symbols, block_symbols);
        tokens += own.x;
        matches += own.y;
        words += (uint64_t(own.x) + 63) / 64;
    }
    block_exclusive_sum<THREADS, uint64_t>(tokens, warp_sums, total);
    tokens = total;
    block_exclusive_sum<THREADS, uint64_t>(matches, warp_sums, total);
    matches = total;
    block_exclusive_sum<THREADS, uint64_t>(words, warp_sums, total);
    words = total;
    if (__syncthreads_or(bad)) {
        return COUNTS;
    }
    const uint32_t literals = uint32_t(tokens - matches), distance_bytes = level <= 4 ? 1 : 2;
    if (threadIdx.x == 0) {
        header.width = width;
        header.level = level;
        header.min_match = min_match;
        header.literal_bytes = literal_bytes;
        header.tokens = uint32_t(tokens);
        header.matches = uint32_t(matches);
        header.flag_words = uint32_t(words);
        bool fits;
        if (literal_bytes == 0) {
            fits = header.section_bytes[FLAGS] == words * 8 && header.section_bytes[LENGTHS] == matches &&
                   header.section_bytes[DISTANCES] == matches * distance_bytes &&
                   header.section_bytes[LITERALS] == uint64_t(literals) * width;
        } else {
            fits = read_planes(record, header, FLAGS, 1, 1, uint32_t(words * 8), coded, index_kind,
                               header.planes + PLANE_FLAGS) &&
                   read_planes(record, header, LENGTHS, 1, 1, uint32_t(matches), coded >> 1, index_kind,
                               header.planes + PLANE_LENGTHS) &&
                   read_planes(record, header, DISTANCES, distance_bytes, 1, uint32_t(matches), coded >> 2, index_kind,
                               header.planes + PLANE_DISTANCES) &&
                   read_planes(record, header, LITERALS, width / literal_bytes, literal_bytes, literals, coded >> 4,
                               index_kind, header.planes + PLANE_LITERALS);
        }
        if (!fits) {
            header.status = PLANES;
        }
    }
    return FINE;
}
