// Predicts and quantizes the elements of a block, level by level from the anchors up, as decoders reconstruct them.
//
// THREADS        threads of a block
// See also quantize/stored.cuh.
#pragma once
#include "blocks/predict.cuh"
#include "blocks/symbol.cuh"
#include "device/warp.cuh"
#include "predict/constants.cuh"

// So many zeros of a block are not masked.
constexpr uint32_t FEW_ZEROS = 8;

// Which elements of a block are masked: those that hold a fill pattern, and zeros if they are many and not kept by a
// grid.
struct Masked {
    const Step &step;
    bool has_zeros;

    // Returns what stands for the mask of an element in place of its code, 0 if it has none.
    __device__ inline int32_t code(Element x) const {
        const Bits bits = bits_of(x);
        int32_t code = has_zeros && bits == 0 ? code_of_mask(step.pattern_count) : 0;
        for (uint32_t i = step.pattern_count; i-- > 0;) {
            code = bits == Bits(step.patterns[i]) ? code_of_mask(i) : code;
        }
        return code;
    }
};

// A block that is coded, in memory.
struct CodedBlock {
    const BlockShape &shape;
    const BlockPlan &plan;
    const Step &step;
    const Stored *elements; // its first one, in an array whose strides the shape has
    Element *values;        // as decoders reconstruct them, as blocks/compact.cuh has them, and so have codes
    int32_t *codes;
    uint32_t *missed; // a bit for each element that must be verbatim, in raster order of the block
    uint32_t *is_raw; // of the chunk: 1 if it has elements that no value stands for

    __device__ inline bool is_outside(Element x) const {
        return x < Element(step.range_low) || x > Element(step.range_high);
    }
    __device__ inline Element wanted(const uint32_t (&at)[3]) const {
        return loaded(elements[at[0] * shape.stride[0] + at[1] * shape.stride[1] + at[2] * shape.stride[2]],
                      step.origin);
    }
    // Whether an element may become a value: whether it is in the range and, when the value is rounded to the type of
    // elements, within the bound and no fill pattern.
    __device__ inline bool allows(Element wanted, Element value, Element bound) const {
        bool is_allowed = !is_outside(wanted);
        if (OF_HALVES || step.reserved != 0) {
            const Element rounded = rounded_to_stored(value);
            is_allowed &= fabs(wanted - rounded) < bound && (step.reserved == 0 || !is_reserved(step, rounded));
        }
        return is_allowed;
    }
    __device__ inline void miss(const uint32_t (&at)[3], Element wanted) const {
#if OF_WIDE_INTEGERS
        if (bits_of(wanted) == LOST) {
            *is_raw = 1;
        }
#endif
        const uint32_t place = at[0] * shape.in_block[0] + at[1] * shape.in_block[1] + at[2] * shape.in_block[2];
        atomicOr(&missed[place / 32], 1u << place % 32);
    }
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
    // Of floats, 0.0 is kept exactly, and -0.0 is verbatim.
    const bool same_zero = OF_INTEGERS || wanted != Element(0) || (bits_of(moved) | bits_of(wanted)) == 0;
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
__device__ inline void quantize_anchors(const CodedBlock &block, const Masked &masked,
                                        const InterpolationStep &constants, int32_t *anchors) {
    for (uint32_t i = threadIdx.x; i < block.shape.anchors(); i += THREADS) {
        const uint32_t at[3] = {i, 0, 0};
        const Element wanted = block.wanted(at);
        int32_t integer;
        bool is_good = quantize(block.step, wanted, integer);
        is_good = is_good && block.allows(wanted, reconstruct(block.step, integer), constants.bound);
        const int32_t mask = masked.code(wanted);
        if (mask == 0 && !is_good) {
            block.miss(at, wanted);
        }
        anchors[i] = integer;
        // Marks those that repeat the integer before.
        block.codes[anchor_place(block.shape, i)] = mask != 0 ? mask : is_good ? 0 : 1;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        int32_t before = 0;
        for (uint32_t i = 0; i < block.shape.anchors(); ++i) {
            before = block.codes[anchor_place(block.shape, i)] != 0 ? before : anchors[i];
            anchors[i] = before;
        }
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < block.shape.anchors(); i += THREADS) {
        const uint32_t place = anchor_place(block.shape, i);
        block.codes[place] = is_mask(block.codes[place]) ? block.codes[place] : 0;
        block.values[place] = reconstruct(block.step, anchors[i]);
    }
}

// Predicts and quantizes a share of the elements of a class. Called by the whole block.
__device__ inline void quantize_class(const CodedBlock &block, const Masked &masked, const BlockClass &of,
                                      const InterpolationStep &constants, const WorkShare &work) {
    const bool is_cubic = block.plan.is_cubic != 0, is_on_grid = block.plan.is_on_grid != 0;
    const bool follows = block.plan.share != 0;
    const Element share = share_of(block.plan.share);
    const Around around(block.shape, of);
    const CompactClass own(block.shape, of.level, of.number);
    const auto value_at = [&](uint32_t place) { return block.values[place]; };
    Element before = Element(0);
    for_each_element(of, follows, work, [&](const uint32_t(&in_class)[3], bool is_first) {
        const uint32_t at[3] = {of.coordinate(block.shape, 0, in_class[0]), of.coordinate(block.shape, 1, in_class[1]),
                                of.coordinate(block.shape, 2, in_class[2])};
        const Element wanted = block.wanted(at), plain = predicted(value_at, around, is_cubic, in_class);
        const Element prediction = follows ? product_plus(share, is_first ? Element(0) : before, plain) : plain;
        BlockCode found = is_on_grid ? quantized_on_grid(block.step, constants.inverse, wanted, prediction)
                                     : quantized(constants, wanted, prediction);
        const int32_t mask = masked.code(wanted);
        if (mask != 0 || (found.is_good && !block.allows(wanted, found.value, constants.bound))) {
            found.value = is_on_grid ? reconstruct(block.step, on_grid(prediction, constants.inverse)) : prediction;
            found.code = mask;
            found.is_good = false;
        }
        if (mask == 0 && !found.is_good) {
            block.miss(at, wanted);
        }
        const uint32_t place = own.place(in_class);
        block.codes[place] = found.code;
        block.values[place] = found.value;
        before = found.value - plain;
    });
}

// Quantizes a share of the elements of a group of a level, after those of the groups before. Called by the whole block.
__device__ inline void quantize_group(const CodedBlock &block, const Masked &masked, uint32_t level, uint32_t group,
                                      const InterpolationStep &constants, const WorkShare &work) {
    for (uint32_t pass = first_pass(group); pass < first_pass(group + 1); ++pass) {
        const BlockClass of(block.shape, level, class_of_pass(pass));
        if (of.elements() > 0) {
            quantize_class(block, masked, of, constants, work);
        }
    }
}

// Quantizes the anchors of a block and its levels but for those below `from`, from the anchors up. Called by the whole
// block of threads.
__device__ inline void quantize_levels(const CodedBlock &block, const Masked &masked, uint32_t from, int32_t *anchors) {
    const InterpolationStep constants(block.step);
    quantize_anchors(block, masked, constants, anchors);
    for (uint32_t level = block.shape.levels; level-- > from;) {
        for (uint32_t group = 0; group < GROUPS; ++group) {
            __syncthreads();
            quantize_group(block, masked, level, group, constants, WorkShare::all());
        }
    }
    __syncthreads();
}

// Clears a share of the bits of elements that must be verbatim.
__device__ inline void clear_missed(const CodedBlock &block, uint32_t elements, const WorkShare &work) {
    for (uint32_t i = work.thread(); i < ceil_div(elements, 32); i += work.threads()) {
        block.missed[i] = 0;
    }
}

// Whether zeros of the block have a mask if they are many: if they are floats, no fill pattern, and not kept by a grid.
__device__ inline bool masks_zeros(const CodedBlock &block) {
    bool is_pattern = false;
    for (uint32_t i = 0; i < block.step.pattern_count; ++i) {
        is_pattern |= block.step.patterns[i] == 0;
    }
    return !OF_INTEGERS && !is_pattern && block.plan.is_on_grid == 0;
}

// Adds the zeros among a share of the elements of a block to `zeros`. Called by the whole block of threads.
__device__ inline void count_zeros(const CodedBlock &block, const Tile &tile, const Geometry &geometry,
                                   const WorkShare &work, uint32_t &zeros) {
    const BoxPlaces places(tile.ny, tile.nx);
    const uint32_t elements = tile.elements();
    uint32_t own = 0;
#pragma unroll 4
    for (uint32_t i = work.thread(); i < elements; i += work.threads()) {
        uint32_t at[3];
        places.coordinates(i, at);
        const uint64_t place = at[0] * geometry.strides[1] + at[1] * geometry.strides[2] + at[2];
        own += bits_of(loaded(block.elements[place], block.step.origin)) == 0;
    }
    own = warp_reduce_sum(own);
    if (lane_id() == 0 && own > 0) {
        atomicAdd(&zeros, own);
    }
}
