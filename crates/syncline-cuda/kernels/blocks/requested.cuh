// The blocks that are requested, and where they are decoded.
//
// See also quantize/stored.cuh.
#pragma once
#include "blocks/compact.cuh"
#include "container/parsed.cuh"
#include "decode/values.cuh"

// A block of the batch that is requested and was parsed.
struct RequestedBlock {
    const Tile tile;
    const ParsedChunk &record;
    const uint32_t number, chunk, position; // the number of its first element in its chunk
    StoredBits *const to;

    // Block `number` of the batch.
    __device__ inline RequestedBlock(const Geometry &geometry, const Parsed &parsed, const LaunchArguments &arguments,
                                     StoredBits *output, uint32_t number)
        : tile(geometry.tile(arguments.first_tile + number)), record(parsed.chunks[number / parsed.tiles]),
          number(number), chunk(number / parsed.tiles),
          position(uint32_t(tile.elements_before -
                            geometry.elements_before(arguments.first_tile + uint64_t(chunk) * parsed.tiles))),
          to(output + (tile.first_element - arguments.first_element)) {}

    __device__ inline static bool exists(const Parsed &parsed, const LaunchArguments &arguments, uint32_t number) {
        const uint64_t in_array = arguments.first_tile + number;
        return in_array >= arguments.tiles_start && in_array < arguments.tiles_end &&
               chunk_is_valid(parsed, number / parsed.tiles);
    }
};

// The values of a block while it is decoded: first codes, which they replace.
struct CompactBlock {
    Bits *elements;

    __device__ inline CompactBlock(const ParsedBlocks &blocks, uint32_t number)
        : elements(reinterpret_cast<Bits *>(blocks.elements) + uint64_t(number) * blocks.elements_stride) {}
    // A code stands in the bytes of its value.
    __device__ inline int32_t &code(uint32_t place) const { return *reinterpret_cast<int32_t *>(elements + place); }
    __device__ inline Element value(uint32_t place) const { return reinterpret_cast<const Element *>(elements)[place]; }
    __device__ inline void set_value(uint32_t place, Element value) const {
        reinterpret_cast<Element *>(elements)[place] = value;
    }
};
