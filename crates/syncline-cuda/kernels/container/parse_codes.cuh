// Reads the section of codes: its codebooks, and the starts of its strips.
#pragma once
#include "container/parse.cuh"
#include "strips/table.cuh"

constexpr uint32_t CODES_HEADER_BYTES = 24;
constexpr uint32_t FLAG_ZERO_STRIPS = 1;

// The header of a section of codes, and the offsets of its parts from the start of the section.
struct CodesHeader {
    uint32_t strips, coded_strips, codebooks, has_zeros, codebook_bytes, bits, index_bytes;
    uint64_t zeros_at, index_at, words_at;
    bool is_good; // the parts fit the section
};

__device__ inline CodesHeader read_codes_header(const Records &records, const Section &section) {
    CodesHeader header{};
    if (section.length < CODES_HEADER_BYTES) {
        return header;
    }
    const uint32_t *words = reinterpret_cast<const uint32_t *>(records.input + section.offset);
    header.strips = words[0];
    header.coded_strips = words[1];
    header.codebooks = words[2] & 0xFF;
    header.has_zeros = words[2] >> 8 & FLAG_ZERO_STRIPS;
    header.codebook_bytes = words[3];
    header.bits = words[4];
    header.index_bytes = words[5];
    header.zeros_at = align_up(CODES_HEADER_BYTES + uint64_t(header.codebook_bytes), 4);
    const uint64_t zero_bytes = header.has_zeros ? (uint64_t(header.strips) + 7) / 8 : 0;
    header.index_at = align_up(header.zeros_at + zero_bytes, 4);
    header.words_at = align_up(header.index_at + header.index_bytes, 16);
    const uint64_t word_bytes = (uint64_t(header.bits) + 31) / 32 * 4 + 8;
    header.is_good = words[2] >> 8 <= FLAG_ZERO_STRIPS && header.words_at + word_bytes == section.length;
    return header;
}

// The coded strips of 32, as bits.
__device__ inline uint32_t coded_strip_mask(const CodesHeader &header, const uint8_t *section, uint32_t word) {
    const uint32_t left = header.strips - word * 32, all = left < 32 ? (1u << left) - 1 : ALL_LANES;
    return header.has_zeros ? ~reinterpret_cast<const uint32_t *>(section + header.zeros_at)[word] & all : all;
}

// The lengths of coded strips.
struct StripLengths {
    const uint16_t *descriptors;
    const uint32_t *deltas, *block_words;
    uint32_t all_words;

    // Returns the bits of the coded strip with this rank.
    __device__ inline uint32_t operator()(uint32_t rank) const {
        const uint32_t block = rank / 32, descriptor = descriptors[block], width = descriptor >> 12;
        const uint32_t bit = rank % 32 * width, word = block_words[block] + bit / 32;
        if (width == 0) {
            return descriptor;
        }
        const uint32_t next = word + 1 < all_words ? deltas[word + 1] : 0;
        return (descriptor & 0xFFF) + (__funnelshift_r(deltas[word], next, bit) & ((1u << width) - 1));
    }
};

// Finds where each strip starts. Called by the whole block.
__device__ inline uint32_t read_index(const Records &records, const Record &record, const Chunk &chunk,
                                      const Parsed &to, RoleScratch &scratch) {
    const Section section = record.sections[CODES];
    const CodesHeader header = read_codes_header(records, section);
    if (!header.is_good || header.strips >= to.starts_stride || header.strips > MAX_STRIPS ||
        header.coded_strips > header.strips) {
        return PARSE_CODES;
    }
    auto &own = scratch.index;
    const uint8_t *bytes = records.input + section.offset;
    const uint32_t words = ceil_div(header.strips, 32), blocks = ceil_div(header.coded_strips, 32);
    const uint64_t descriptors_end = header.index_at + 2 * blocks, deltas_at = align_up(descriptors_end, 4);
    const uint64_t index_end = header.index_at + header.index_bytes;
    const uint64_t zero_bytes = header.has_zeros ? ceil_div(header.strips, 8) : 0;
    bool wrong = any_between(bytes, CODES_HEADER_BYTES + uint64_t(header.codebook_bytes), header.zeros_at);
    wrong |= any_between(bytes, header.zeros_at + zero_bytes, header.index_at);
    wrong |= any_between(bytes, descriptors_end, deltas_at);
    wrong |= any_between(bytes, index_end, header.words_at);
    if (__syncthreads_or(wrong) || index_end < deltas_at) {
        return PARSE_CODES;
    }
    // Each thread has a share of consecutive words of the bitmap, and of blocks of the index.
    const uint32_t share = ceil_div(words, THREADS), first = min_of(threadIdx.x * share, words),
                   end = min_of(first + share, words);
    uint32_t own_sum = 0, total;
    for (uint32_t word = first; word < end; ++word) {
        own_sum += __popc(coded_strip_mask(header, bytes, word));
    }
    uint32_t before = block_exclusive_sum<THREADS>(own_sum, own.warp_sums, total);
    for (uint32_t word = first; word < end; ++word) {
        own.ranks[word] = before;
        before += __popc(coded_strip_mask(header, bytes, word));
    }
    if (total != header.coded_strips) {
        return PARSE_CODES;
    }
    // The index is read twice, with waits for memory.
    const uint32_t *index = reinterpret_cast<const uint32_t *>(bytes + header.index_at);
    if (header.index_bytes <= STAGED_SECTION) {
        for (uint32_t i = threadIdx.x; i < header.index_bytes / 4; i += THREADS) {
            own.section[i] = index[i];
        }
        index = own.section;
        __syncthreads();
    }
    StripLengths lengths{reinterpret_cast<const uint16_t *>(index), index + (deltas_at - header.index_at) / 4,
                         own.block_words, 0};
    const uint32_t blocks_end = min_of(end, blocks);
    own_sum = 0;
    for (uint32_t block = first; block < blocks_end; ++block) {
        own_sum += lengths.descriptors[block] >> 12;
    }
    before = block_exclusive_sum<THREADS>(own_sum, own.warp_sums, lengths.all_words);
    for (uint32_t block = first; block < blocks_end; ++block) {
        own.block_words[block] = before;
        before += lengths.descriptors[block] >> 12;
    }
    if (deltas_at + uint64_t(lengths.all_words) * 4 != index_end) {
        return PARSE_CODES;
    }
    __syncthreads();
    // Returns the bits of the lane's strip of 32.
    auto length_of = [&](uint32_t word) {
        const uint32_t coded = coded_strip_mask(header, bytes, word);
        const uint32_t rank = own.ranks[word] + __popc(coded & ((1u << lane_id()) - 1));
        return coded >> lane_id() & 1 ? lengths(rank) : 0;
    };
#pragma unroll 4
    for (uint32_t word = warp_id(); word < words; word += PARSE_WARPS) {
        const uint32_t sum = warp_reduce_sum(length_of(word));
        if (lane_id() == 0) {
            own.starts[word] = sum;
        }
    }
    __syncthreads();
    own_sum = 0;
    for (uint32_t word = first; word < end; ++word) {
        own_sum += own.starts[word];
    }
    before = block_exclusive_sum<THREADS>(own_sum, own.warp_sums, total);
    for (uint32_t word = first; word < end; ++word) {
        const uint32_t sum = own.starts[word];
        own.starts[word] = before;
        before += sum;
    }
    if (total != header.bits) {
        return PARSE_CODES;
    }
    __syncthreads();
    uint32_t *starts = to.starts + uint64_t(chunk.number) * to.starts_stride;
#pragma unroll 4
    for (uint32_t word = warp_id(); word < words; word += PARSE_WARPS) {
        const uint32_t start = own.starts[word] + warp_exclusive_sum(length_of(word)), strip = word * 32 + lane_id();
        if (strip < header.strips) {
            starts[strip] = start;
        }
    }
    if (threadIdx.x == 0) {
        starts[header.strips] = header.bits;
        ParsedChunk &parsed = to.chunks[chunk.number];
        parsed.words = section.offset + header.words_at;
        parsed.word_count = uint32_t((section.length - header.words_at) / 4);
        parsed.strips = header.strips;
    }
    return 0;
}

// Sorts the symbols of a codebook, whose runs are read, in canonical order. Returns whether its code is complete, with
// codewords that a table has room for. Called by one warp.
__device__ inline bool sort_codebook(const uint8_t *marks, uint32_t alphabet, uint16_t *sorted, ParseScratch &scratch) {
    const uint32_t length = lane_id(), count = length > 0 && length < LENGTHS ? scratch.counts[length] : 0;
    const uint32_t share = warp_reduce_sum(length < LENGTHS ? count << (LONGEST - length) : 0);
    const uint32_t rank = warp_inclusive_sum(count), used = __shfl_sync(ALL_LANES, rank, WARP - 1);
    const uint32_t longest = 31 - __clz(__ballot_sync(ALL_LANES, count > 0) | 1);
    const bool is_single = used == 1 && longest == 1;
    if ((used != 0 && !is_single && share != 1u << LONGEST) || longest > strips::MAX_LENGTH) {
        return false;
    }
    uint32_t *next = scratch.warp_counts[0];
    if (length < LENGTHS) {
        scratch.entry[length] = rank - count;
        next[length] = rank - count;
    }
    __syncwarp();
    uint32_t carry = 0;
    for (uint32_t window = 0; window < alphabet; window += WARP) {
        // Each mark applies to the symbols up to the next one.
        const uint32_t symbol = window + lane_id(), mark = symbol < alphabet ? marks[symbol] : 0;
        const uint32_t marked = __ballot_sync(ALL_LANES, mark != 0) & (ALL_LANES >> (WARP - 1 - lane_id()));
        const uint32_t found = __shfl_sync(ALL_LANES, mark, marked == 0 ? 0 : 31 - __clz(marked));
        const uint32_t own = marked == 0 ? carry : found;
        carry = __shfl_sync(ALL_LANES, own, WARP - 1);
        const uint32_t own_length = symbol < alphabet && own > 0 ? own - 1 : 0;
        const uint32_t same = __match_any_sync(ALL_LANES, own_length), place = __popc(same & ((1u << lane_id()) - 1));
        if (own_length > 0) {
            sorted[next[own_length] + place] = symbol;
        }
        __syncwarp();
        if (own_length > 0 && place == 0) {
            next[own_length] += __popc(same);
        }
        __syncwarp();
    }
    return true;
}

// Makes the decoding table of codebook `number`, if there is one. Called by the whole block.
__device__ inline uint32_t read_codebook(const Records &records, const Record &record, const Chunk &chunk,
                                         uint32_t number, const Parsed &to, RoleScratch &all_scratch) {
    const Section section = record.sections[CODES];
    const CodesHeader header = read_codes_header(records, section);
    // Another block reports what is wrong with the header.
    if (!header.is_good || number >= header.codebooks) {
        return 0;
    }
    // Each symbol takes at most one byte.
    static_assert(STAGED >= strips::CODEBOOKS * (4 + strips::SYMBOLS), "valid codebooks have room");
    if (header.codebook_bytes > STAGED || header.codebooks > strips::CODEBOOKS) {
        return PARSE_CODES;
    }
    ParseScratch &scratch = all_scratch.codebook;
    const uint32_t *from = reinterpret_cast<const uint32_t *>(records.input + section.offset + CODES_HEADER_BYTES);
    for (uint32_t i = threadIdx.x; i < ceil_div(header.codebook_bytes, 4); i += THREADS) {
        reinterpret_cast<uint32_t *>(scratch.bytes)[i] = from[i];
    }
    __syncthreads();
    const uint32_t position = find_codebook(scratch.bytes, header.codebook_bytes, number, strips::SYMBOLS,
                                            reinterpret_cast<uint32_t *>(scratch.marks), scratch.warp_sums);
    if (position == NO_CODEBOOK) {
        return PARSE_CODES;
    }
    const uint32_t alphabet =
        read_runs(scratch.bytes, position, header.codebook_bytes, strips::SYMBOLS, scratch.marks, scratch);
    __syncthreads();
    if (scratch.bad || (number + 1 == header.codebooks && scratch.end != header.codebook_bytes)) {
        return PARSE_CODES;
    }
    // The marks take less than half of their memory.
    static_assert(MARKS >= 4 * strips::SYMBOLS + 32, "sorted symbols have room behind the marks");
    uint16_t *sorted = reinterpret_cast<uint16_t *>(scratch.marks + MARKS / 2);
    // Other warps may still read what was found before.
    const bool is_bad = warp_id() == 0 && !sort_codebook(scratch.marks, alphabet, sorted, scratch);
    if (__syncthreads_or(is_bad)) {
        return PARSE_CODES;
    }
    uint32_t *table = to.tables + (uint64_t(chunk.number) * strips::CODEBOOKS + number) * STRIP_TABLE;
    for (uint32_t bits = threadIdx.x; bits < STRIP_TABLE; bits += THREADS) {
        // Codewords ascend with their length: the first length whose codewords end after the bits.
        uint32_t entry = 0, first = 0;
        for (uint32_t length = 1; length <= strips::MAX_LENGTH && entry == 0; ++length) {
            const uint32_t shift = strips::MAX_LENGTH - length, own_end = first + (scratch.counts[length] << shift);
            if (bits < own_end) {
                entry = make_entry(sorted[scratch.entry[length] + ((bits - first) >> shift)], length);
            }
            first = own_end;
        }
        table[bits] = entry;
    }
    return 0;
}
