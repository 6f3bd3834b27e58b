// The masks of a block.
#pragma once
#include "blocks/structs.cuh"
#include "common.cuh"
#include "quantize/structs.cuh"

// Kinds of masks.
constexpr uint32_t MASK_NOTHING = 0, MASK_ALL = 1, MASK_BITMAP = 2;
// A bitmap that an encoder has no room for.
constexpr uint32_t MASK_TOO_LONG = 3;

struct BlockMasks {
    const BlockMask *masks;
    const uint32_t *bitmaps; // of the first mask
    uint32_t count, stride;  // words from bitmap to bitmap
    bool any;                // whether a mask has an element

    __device__ inline BlockMasks(const BlockMask *masks, const uint32_t *bitmaps, uint32_t count, uint32_t stride)
        : masks(masks), bitmaps(bitmaps), count(count), stride(stride), any(false) {
        for (uint32_t mask = 0; mask < count; ++mask) {
            any |= masks[mask].kind != MASK_NOTHING;
        }
    }
    // Whether a mask has an element, given by its place in the block.
    __device__ inline bool has(uint32_t mask, uint32_t place) const {
        const uint32_t kind = masks[mask].kind;
        return kind == MASK_ALL ||
               (kind == MASK_BITMAP && (bitmaps[uint64_t(mask) * stride + place / 32] >> place % 32 & 1) != 0);
    }
    // Whether any mask has an element.
    __device__ inline bool have(uint32_t place) const {
        bool is = false;
        for (uint32_t mask = 0; mask < count && any; ++mask) {
            is |= has(mask, place);
        }
        return is;
    }
};

// Returns the masks of a block: one for each pattern of the header and, if 0.0 is none of them, one for it.
__device__ inline uint32_t masks_of(const Step &step) {
    bool has_zero = false;
    for (uint32_t i = 0; i < step.pattern_count; ++i) {
        has_zero |= step.patterns[i] == 0;
    }
    return step.pattern_count + !has_zero;
}
