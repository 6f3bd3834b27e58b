// Shared by the kernels that write chunk records (docs/FORMAT.md, "Chunk record").
#pragma once
#include "container/structs.cuh"
#include "format/constants.cuh"
#include "geometry.cuh"
#include "quantize/tile_info.cuh"
#include "strips/constants.cuh"
#include "strips/structs.cuh"

using format::ALIGNMENT;
using format::KIND_QUANTIZED;
using format::KIND_RAW;
using format::RECORD_HEADER_BYTES;
using format::SECTIONS;

// The kind of a record that does not fit into the output.
constexpr uint32_t KIND_NO_ROOM = 255;
enum Section { TILES, BASES, VERBATIM, CHECKSUMS, CODES };
// Sections of a quantized chunk. All others are empty.
constexpr uint32_t USED_SECTIONS = CODES + 1;
using format::PIECE_BYTES;
// Bytes of the checksum of a piece.
constexpr uint32_t CHECKSUM_BYTES = 4;
// The checksum of a record is at the end of its header.
constexpr uint32_t CHECKSUM_OF_RECORD_BYTES = 8, CHECKSUM_OF_RECORD_AT = RECORD_HEADER_BYTES - CHECKSUM_OF_RECORD_BYTES;
constexpr uint32_t STATUS_NO_ROOM = 2;
// Flags of the section of tiles.
constexpr uint32_t FLAG_MASKS = 1, FLAG_CLASSES = 2, FLAG_SIGNS = 4;

// Returns the strips of a tile.
__device__ inline uint32_t strips_of(uint32_t info, uint32_t elements) {
    return tile_bitmaps(info) * ceil_div(elements, strips::BITS_OF_BITMAP_STRIP) +
           (tile_is_constant(info) ? 0 : ceil_div(elements, strips::STRIP_LEN));
}

// Returns where a section starts in its record; with USED_SECTIONS, the bytes of the record.
__device__ inline uint32_t section_start(const uint32_t *lengths, uint32_t section) {
    uint32_t at = align_up(RECORD_HEADER_BYTES + 4 * SECTIONS, ALIGNMENT);
    for (uint32_t i = 0; i < section; ++i) {
        at += align_up(lengths[i], ALIGNMENT);
    }
    return at;
}

// Returns the bytes of the checksums of pieces, which start at a byte of the record, with codes of so many bytes.
__device__ inline uint32_t checksum_bytes(uint32_t at, uint32_t codes) {
    const uint32_t pieces = ceil_div(at, PIECE_BYTES) + ceil_div(align_up(codes, ALIGNMENT), PIECE_BYTES);
    return codes > format::LONGEST_WITHOUT_PIECES ? CHECKSUM_BYTES * pieces : 0;
}
