// Prepares the codes of quantized chunks for LZSS: converts them to bytes, as if coded with radius 128, computes the
// offsets of their outliers, and takes a sample.
//
// THREADS        threads of a block
// PIECE, STEP    codes in a piece of the sample; one of STEP pieces is in the sample
// ELEMENT_BYTES  4 or 8
#define LOGARITHM 0
#include "device/block.cuh"
#include "format/constants.cuh"
#include "lzss_codes/structs.cuh"
#include "quantize/quantize.cuh"
#include "quantize/summary.cuh"

constexpr uint32_t WARPS = THREADS / WARP;
// The difference between a code with the usual radius and the narrow code, if that fits a byte.
constexpr uint32_t NARROW_BASE = RADIUS - format::NARROW_RADIUS;

constexpr uint32_t NOT_NARROW = 0xFFFFFFFF;

// Sets bit 8 i + 7 for each byte i that is 0.
__device__ inline uint32_t zero_bytes(uint32_t four) {
    return ~(((four & 0x7F7F7F7F) + 0x7F7F7F7F) | four | 0x7F7F7F7F);
}

// Returns two codes as narrow ones, in the low byte of each half; 0 for codes that are not in the narrow range.
__device__ inline uint32_t narrow_pair(uint32_t two) {
    const uint32_t narrow = __vsub2(two, NARROW_BASE * 0x10001u);
    return narrow & ~__vcmpgtu2(narrow, 0x00FF00FFu);
}

// Writes the codes of a tile and counts its outliers; one warp per tile.
extern "C" __global__ void __launch_bounds__(THREADS)
    lzss_codes_narrow(Geometry geometry, ChunkBatch batch, const uint16_t *metas, const uint32_t *first_groups,
                      const uint16_t *codes, uint8_t *narrow, uint16_t *outliers) {
    const uint32_t number = blockIdx.x * WARPS + warp_id();
    if (number >= batch.tiles) {
        return;
    }
    uint32_t own = 0;
    if ((metas[number] & META_CONSTANT) == 0) {
        const uint32_t groups = geometry.groups(geometry.tile(batch.first_tile + number).elements());
        const uint32_t chunk = number / batch.chunk_tiles;
        auto code_of = [&](uint64_t first_slot) { return (first_slot + first_groups[number]) << geometry.group_log2; };
        const uint4 *from = reinterpret_cast<const uint4 *>(codes + code_of(batch.first_slot(chunk)));
        uint2 *to = reinterpret_cast<uint2 *>(narrow + code_of(uint64_t(chunk) * batch.slots));
        for (uint32_t i = lane_id(); i < groups << geometry.group_log2 >> 3; i += WARP) {
            const uint4 eight = from[i];
            const uint2 bytes = make_uint2(__byte_perm(narrow_pair(eight.x), narrow_pair(eight.y), 0x6420),
                                           __byte_perm(narrow_pair(eight.z), narrow_pair(eight.w), 0x6420));
            to[i] = bytes;
            own += __popc(zero_bytes(bytes.x)) + __popc(zero_bytes(bytes.y));
        }
    }
    own = warp_reduce_sum(own);
    if (lane_id() == 0) {
        outliers[number] = uint16_t(own);
    }
}

// Computes the offsets of the tiles' outliers in their chunk; one block per chunk. Tiles have none if the chunk takes
// the wide radius, or if its lists alone are as long as its elements.
extern "C" __global__ void __launch_bounds__(THREADS)
    lzss_codes_places(Geometry geometry, ChunkBatch batch, const ChunkSummary *summaries, const SideOffsets *offsets,
                      uint16_t *outliers, SideOffsets *narrow_offsets, NarrowCounts *narrowed) {
    __shared__ uint32_t warp_sums[WARPS];
    const uint32_t chunk = blockIdx.x, first = batch.chunk_first(chunk), end = batch.chunk_first(chunk + 1);
    uint32_t before = 0, total;
    for (uint32_t strip = first; strip < end; strip += THREADS) {
        const uint32_t number = strip + threadIdx.x;
        const uint32_t own = number < end ? outliers[number] : 0;
        const uint32_t start = before + block_exclusive_sum<THREADS, uint32_t>(own, warp_sums, total);
        before += total;
        if (number < end) {
            SideOffsets offset = offsets[number];
            offset.outliers = start;
            narrow_offsets[number] = offset;
        }
    }
    const ChunkSummary summary = summaries[chunk];
    const uint64_t elements =
        geometry.elements_before(batch.first_tile + end) - geometry.elements_before(batch.first_tile + first);
    const uint64_t lists = uint64_t(8) * before + uint64_t(4 + ELEMENT_BYTES) * summary.verbatim;
    const bool is_narrow = summary.radius == RADIUS && lists < elements * ELEMENT_BYTES;
    for (uint32_t number = first + threadIdx.x; number < end && !is_narrow; number += THREADS) {
        outliers[number] = 0;
    }
    if (threadIdx.x == 0) {
        narrowed[chunk] = {is_narrow ? summary.groups << geometry.group_log2 : NOT_NARROW, is_narrow ? before : 0};
    }
}

// Copies every STEP-th piece of PIECE codes of a chunk, one after another. A chunk has `slot` codes and `sample_slot`
// bytes. All blocks along y of the grid share a chunk.
extern "C" __global__ void __launch_bounds__(THREADS)
    lzss_codes_sample(const uint8_t *narrow, uint64_t slot, uint64_t sample_slot, const NarrowCounts *narrowed,
                      uint8_t *sample) {
    const uint32_t chunk = blockIdx.x, codes = narrowed[chunk].codes;
    if (codes == NOT_NARROW) {
        return;
    }
    // Groups are multiples of 16 codes, and so are pieces, of which the last may be shorter.
    constexpr uint32_t UNITS = PIECE / 16;
    const uint4 *from = reinterpret_cast<const uint4 *>(narrow + chunk * slot);
    uint4 *to = reinterpret_cast<uint4 *>(sample + chunk * sample_slot);
    for (uint32_t i = blockIdx.y * THREADS + threadIdx.x; i < sample_slot / 16; i += gridDim.y * THREADS) {
        const uint32_t unit = i / UNITS * STEP * UNITS + i % UNITS;
        if (unit < codes / 16) {
            to[i] = from[unit];
        }
    }
}
