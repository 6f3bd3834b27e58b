// Predicts and quantizes the elements of a block, level by level from the anchors up, as decoders reconstruct them.
//
// ELEMENT_BYTES  4: f32, 8: f64
// THREADS        threads of a block
#pragma once
#include "blocks/contexts.cuh"
#include "blocks/masks.cuh"
#include "blocks/predict.cuh"
#include "predict/constants.cuh"

// A block that is coded, in memory.
struct CodedBlock {
    const BlockShape &shape;
    const BlockPlan &plan;
    const Step &step;
    const Element *elements; // its first one, in an array whose strides the shape has
    Element *values;         // as decoders reconstruct them, in raster order of the block, as all that follows
    int32_t *codes;
    uint32_t *missed; // a bit for each element that must be verbatim

    __device__ inline uint64_t place(const BlockElement &element) const { return element.in_block(shape); }
    __device__ inline uint64_t stride(uint32_t axis) const { return shape.in_block[axis]; }
    __device__ inline int32_t code(uint64_t at) const { return codes[at]; }
    __device__ inline Element value(uint64_t at) const { return values[at]; }
    __device__ inline Element wanted(const BlockElement &element) const { return elements[element.in_array(shape)]; }

    __device__ inline bool is_outside(Element x) const {
        return x < Element(step.range_low) || x > Element(step.range_high);
    }
    __device__ inline void miss(uint64_t at) const { atomicOr(&missed[at / 32], 1u << at % 32); }
};

// A code and the value that it stands for.
struct BlockCode {
    int32_t code;
    Element value;
    bool is_good; // whether the value is within the bound; else the code is 0 and the value the prediction
};

// Quantizes the difference of an element from its prediction.
__device__ inline BlockCode quantized(const InterpolationStep &constants, Element wanted, Element prediction) {
    const Element rounded = rint(product(wanted - prediction, constants.inverse));
    const bool is_small = fabs(rounded) < Element(blocks::CODE_LIMIT);
    const int32_t code = is_small ? int32_t(rounded) : 0;
    const Element moved = code != 0 ? product_plus(Element(code), constants.step, prediction) : prediction;
    // 0.0 is kept exactly, and -0.0 is verbatim.
    const bool same_zero = wanted != Element(0) || (bits_of(moved) | bits_of(wanted)) == 0;
    const bool is_good = is_small && fabs(wanted - moved) < constants.bound && same_zero;
    return {is_good ? code : 0, is_good ? moved : prediction, is_good};
}

// Quantizes an element on the grid of whole multiples of the step, where its prediction is first moved to.
__device__ inline BlockCode quantized_on_grid(const Step &step, Element inverse, Element wanted, Element prediction) {
    const int32_t before = on_grid(prediction, inverse);
    int32_t integer;
    bool is_good = quantize(step, wanted, integer);
    const int32_t code = int32_t(uint32_t(integer) - uint32_t(before));
    is_good = is_good && uint32_t(abs(code)) < blocks::CODE_LIMIT;
    return {is_good ? code : 0, reconstruct(step, is_good ? integer : before), is_good};
}

// Quantizes the anchors, whose integers go to `anchors`. Called by the whole block.
__device__ inline void quantize_anchors(const CodedBlock &block, const BlockMasks &masks, int32_t *anchors) {
    const uint32_t stride = block.shape.in_block[0];
    for (uint32_t i = threadIdx.x; i < block.shape.anchors(); i += THREADS) {
        const uint32_t at = i * stride;
        const Element wanted = block.elements[i * block.shape.stride[0]];
        int32_t integer;
        bool is_good = quantize(block.step, wanted, integer);
        is_good = is_good && !block.is_outside(wanted) &&
                  (block.step.reserved == 0 || !is_reserved(block.step, reconstruct(block.step, integer)));
        const bool is_masked = masks.have(at);
        if (!is_masked && !is_good) {
            block.miss(at);
        }
        anchors[i] = integer;
        // Marks those that repeat the integer before.
        block.codes[at] = is_masked || !is_good ? 1 : 0;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        int32_t before = 0;
        for (uint32_t i = 0; i < block.shape.anchors(); ++i) {
            before = block.codes[i * stride] != 0 ? before : anchors[i];
            anchors[i] = before;
        }
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < block.shape.anchors(); i += THREADS) {
        block.codes[i * stride] = 0;
        block.values[i * stride] = reconstruct(block.step, anchors[i]);
    }
}

// Predicts and quantizes the elements of a class. Called by the whole block.
__device__ inline void quantize_class(const CodedBlock &block, const BlockMasks &masks, const BlockClass &of,
                                      const InterpolationStep &constants) {
    const bool is_cubic = block.plan.is_cubic != 0, is_on_grid = block.plan.is_on_grid != 0;
    const bool follows = block.plan.share != 0;
    const Element share = share_of(block.plan.share);
    Element before = Element(0);
    const auto visit = [&](const BlockElement &element, uint64_t at, bool is_first) {
        const Element plain = predicted(block, block.shape, is_cubic, of, element, at), wanted = block.wanted(element);
        const Element prediction = follows ? product_plus(share, is_first ? Element(0) : before, plain) : plain;
        BlockCode found = is_on_grid ? quantized_on_grid(block.step, constants.inverse, wanted, prediction)
                                     : quantized(constants, wanted, prediction);
        const bool is_masked = masks.have(uint32_t(at));
        if (is_masked || (found.is_good && (block.is_outside(wanted) ||
                                            (block.step.reserved != 0 && is_reserved(block.step, found.value))))) {
            found.value = is_on_grid ? reconstruct(block.step, on_grid(prediction, constants.inverse)) : prediction;
            found.code = 0;
            found.is_good = false;
        }
        if (!is_masked && !found.is_good) {
            block.miss(at);
        }
        block.codes[at] = found.code;
        block.values[at] = found.value;
        before = found.value - plain;
    };
    for_each_element(block, block.shape, of, follows, visit);
}

// Quantizes the elements of a block that no mask has. Called by the whole block of threads.
__device__ inline void quantize_block(const CodedBlock &block, const BlockMasks &masks, uint32_t elements,
                                      int32_t *anchors) {
    for (uint32_t i = threadIdx.x; i < ceil_div(elements, 32); i += THREADS) {
        block.missed[i] = 0;
    }
    __syncthreads();
    quantize_anchors(block, masks, anchors);
    const InterpolationStep constants(block.step);
    for (uint32_t level = block.shape.levels; level-- > 0;) {
        for (uint32_t pass = 0; pass < PASSES; ++pass) {
            if (begins_group(pass)) {
                __syncthreads();
            }
            const BlockClass of(block.shape, level, class_of_pass(pass));
            if (of.elements() > 0) {
                quantize_class(block, masks, of, constants);
            }
        }
    }
    __syncthreads();
}

// So many zeros of a block are not masked.
constexpr uint32_t FEW_ZEROS = 8;

// Finds the masks of a block: writes their bits and kinds. Zeros are masked if they are many and not kept by a grid.
// `bitmaps` has `stride` words for each mask. Called by the whole block.
__device__ inline void find_masks(const CodedBlock &block, const Tile &tile, const Geometry &geometry, uint32_t count,
                                  BlockMask *masks, uint32_t *bitmaps, uint32_t stride) {
    __shared__ uint32_t found;
    const BoxPlaces places(tile.ny, tile.nx);
    const uint32_t elements = tile.elements();
    for (uint32_t mask = 0; mask < count; ++mask) {
        const bool is_pattern = mask < block.step.pattern_count;
        const Bits pattern = is_pattern ? Bits(block.step.patterns[mask]) : Bits(0);
        __syncthreads();
        if (threadIdx.x == 0) {
            found = 0;
        }
        __syncthreads();
        uint32_t own = 0;
        if (is_pattern || block.plan.is_on_grid == 0) {
#pragma unroll 4
            for (uint32_t first = threadIdx.x - lane_id(); first < elements; first += THREADS) {
                const uint32_t i = first + lane_id();
                bool has = false;
                if (i < elements) {
                    uint32_t at[3];
                    places.coordinates(i, at);
                    const uint64_t in_array = at[0] * geometry.strides[1] + at[1] * geometry.strides[2] + at[2];
                    has = bits_of(block.elements[in_array]) == pattern;
                }
                const uint32_t word = __ballot_sync(ALL_LANES, has);
                own += __popc(word);
                if (lane_id() == 0) {
                    bitmaps[mask * stride + i / 32] = word;
                }
            }
        }
        if (lane_id() == 0) {
            atomicAdd(&found, own);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            const bool is_nothing = found <= (is_pattern ? 0 : FEW_ZEROS);
            masks[mask].kind = is_nothing ? MASK_NOTHING : found == elements ? MASK_ALL : MASK_BITMAP;
        }
    }
    __syncthreads();
}
