// Shared by the kernels that write chunk records (docs/FORMAT.md, "Chunk record").
#pragma once
#include "container/structs.cuh"
#include "format/constants.cuh"
#include "geometry.cuh"
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
// The kind of a mask or of signs with a bitmap.
constexpr uint32_t KIND_BITMAP = 2;

// Bit fields of a tile's info.
__device__ inline bool tile_is_constant(uint32_t info) { return info & 1; }
__device__ inline uint32_t tile_predictor(uint32_t info) { return info >> 1 & 3; }
__device__ inline uint32_t tile_class(uint32_t info) { return info >> 3 & 3; }
// The kind of the mask and, above it, the pattern, as in section 0.
__device__ inline uint32_t tile_mask(uint32_t info) { return info >> 5 & 15; }
__device__ inline uint32_t tile_mask_kind(uint32_t info) { return info >> 5 & 3; }
__device__ inline uint32_t tile_sign(uint32_t info) { return info >> 9 & 3; }
__device__ inline bool tile_is_empty(uint32_t info) { return info >> 11 & 1; }
__device__ inline uint32_t tile_verbatim(uint32_t info) { return info >> 12; }

// Returns the strips of a tile.
__device__ inline uint32_t strips_of(uint32_t info, uint32_t elements) {
    const uint32_t bitmaps = (tile_mask_kind(info) == KIND_BITMAP) + (tile_sign(info) == KIND_BITMAP);
    return bitmaps * ceil_div(elements, strips::BITS_OF_BITMAP_STRIP) +
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
