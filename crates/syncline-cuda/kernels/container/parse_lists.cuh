// Reads the parts of a record that are not packed: the list of verbatim values, and the elements of raw chunks.
//
// ELEMENT_BYTES  of an element: 1, 2, 4, or 8
#pragma once
#include "container/records.cuh"

// Blocks of threads that read the list of verbatim values of a chunk.
constexpr uint32_t LIST_BLOCKS = 2;

// Reads the list of verbatim values: where it is, and the first entry of each tile. Called by block `part` of
// LIST_BLOCKS.
__device__ inline uint32_t read_list(const Records &records, const Record &record, const Chunk &chunk,
                                     const Geometry &geometry, const Parsed &to, uint32_t part) {
    const Section section = record.sections[VERBATIM];
    const uint32_t *list = reinterpret_cast<const uint32_t *>(records.input + section.offset);
    if (section.length != 0 && section.length < 4) {
        return PARSE_LISTS;
    }
    const uint32_t count = section.length != 0 ? list[0] : 0, elements = chunk.elements(geometry);
    const uint64_t elements_before = chunk.elements_before(geometry);
    const uint64_t values_at = align_up(4 + uint64_t(count) * 4, 8);
    if (section.length != 0 && (values_at + uint64_t(count) * ELEMENT_BYTES != section.length || count > elements)) {
        return PARSE_LISTS;
    }
    const uint32_t *positions = list + 1;
    const uint32_t thread = part * THREADS + threadIdx.x;
    constexpr uint32_t ALL_THREADS = LIST_BLOCKS * THREADS;
    bool wrong = section.length != 0 && any_between(records.input + section.offset, 4 + uint64_t(count) * 4, values_at);
#pragma unroll 4
    for (uint32_t i = thread; i < count; i += ALL_THREADS) {
        wrong |= positions[i] >= (i + 1 < count ? positions[i + 1] : elements);
    }
    for (uint32_t tile = thread; tile < chunk.tiles && count > 0; tile += ALL_THREADS) {
        const uint32_t position = uint32_t(geometry.elements_before(chunk.first + tile) - elements_before);
        uint32_t low = 0, high = count;
        while (low < high) {
            const uint32_t middle = (low + high) / 2;
            if (positions[middle] < position) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        to.places[chunk.first_tile + tile].verbatim = low;
    }
    if (thread == 0) {
        ParsedChunk &parsed = to.chunks[chunk.number];
        parsed.verbatim = count;
        parsed.verbatim_positions = section.offset + 4;
        parsed.verbatim_values = section.offset + values_at;
    }
    return wrong ? PARSE_LISTS : 0;
}

// Locates the elements of a raw chunk. They must fill its record except for zeros up to the next multiple of 16.
__device__ inline uint32_t read_raw(const Records &records, const Record &record, const Chunk &chunk,
                                    const Geometry &geometry, const Parsed &to) {
    const uint64_t elements_at = record.start + RECORD_HEADER_BYTES;
    const uint64_t bytes = uint64_t(chunk.elements(geometry)) * ELEMENT_BYTES;
    if (record.length != RECORD_HEADER_BYTES + align_up(bytes, 16)) {
        return PARSE_RAW;
    }
    uint32_t problems = 0;
    for (uint64_t i = bytes; i < align_up(bytes, 16); ++i) {
        problems |= records.input[elements_at + i] != 0 ? PARSE_RAW : 0;
    }
    to.chunks[chunk.number].raw = elements_at;
    return problems;
}
