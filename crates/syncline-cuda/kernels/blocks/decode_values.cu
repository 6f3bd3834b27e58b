// Replaces the codes of blocks by values, level by level from the anchors up, and writes the elements: the range,
// masks, and at the end verbatim values. Several blocks of threads share a block of elements, but for its coarse
// levels.
//
// THREADS        threads of a block
// SHARES         blocks of threads for each block of elements
// See also quantize/stored.cuh.
#define LOGARITHM 0
#include "blocks/predict.cuh"
#include "blocks/symbol.cuh"
#include "blocks/requested.cuh"
#include "device/sync.cuh"

// The masks of the elements of a block, 0 or their number plus 1, where the elements are.
struct CompactMasks {
    uint8_t *masks; // null if there are none

    __device__ inline CompactMasks(const ParsedBlocks &blocks, uint32_t number)
        : masks(blocks.has_masks[number] != 0 ? blocks.masks + uint64_t(number) * blocks.elements_stride : nullptr) {}
    // Keeps the mask of an element. Returns its code, which is 0 if it is masked.
    __device__ inline int32_t keep(uint32_t place, int32_t code) const {
        if (masks == nullptr) {
            return code;
        }
        const bool is = is_mask(code);
        masks[place] = is ? uint8_t(mask_of(code) + 1) : 0;
        return is ? 0 : code;
    }
};

// Replaces a share of the codes of a class by values.
__device__ inline void reconstruct(const CompactBlock &block, const CompactMasks &masks, const Values &values,
                                   const BlockPlan &plan, const BlockShape &shape, const BlockClass &of,
                                   Element inverse, const WorkShare &work) {
    const bool is_cubic = plan.is_cubic != 0, is_on_grid = plan.is_on_grid != 0, follows = plan.share != 0;
    const Element share = share_of(plan.share);
    const Around around(shape, of);
    const CompactClass own(shape, of.level, of.number);
    const auto value_at = [&](uint32_t place) { return block.value(place); };
    Element before = Element(0);
    for_each_element(of, follows, work, [&](const uint32_t(&at)[3], bool is_first) {
        const uint32_t place = own.place(at);
        const Element plain = predicted(value_at, around, is_cubic, at);
        const Element prediction = follows ? product_plus(share, is_first ? Element(0) : before, plain) : plain;
        const int32_t code = masks.keep(place, block.code(place));
        const Element value = is_on_grid
                                  ? value_of(int32_t(uint32_t(on_grid(prediction, inverse)) + uint32_t(code)), values)
                                  : corrected(prediction, code, values);
        before = value - plain;
        block.set_value(place, value);
    });
}

// Returns the inverse of the step.
__device__ inline Element inverse_of(const Values &values) {
#if ELEMENT_BYTES == 4
    return Element(1.0 / double(values.step_high));
#else
    return 1.0 / values.step;
#endif
}

// Replaces a share of the codes of a group of a level by values, after those of the groups before. Called by the whole
// block of threads.
__device__ inline void decode_group(const CompactBlock &block, const CompactMasks &masks, const Values &values,
                                    const BlockPlan &plan, const BlockShape &shape, uint32_t level, uint32_t group,
                                    const WorkShare &work) {
    const Element inverse = inverse_of(values);
    for (uint32_t pass = first_pass(group); pass < first_pass(group + 1); ++pass) {
        const BlockClass of(shape, level, class_of_pass(pass));
        if (of.elements() > 0) {
            reconstruct(block, masks, values, plan, shape, of, inverse, work);
        }
    }
}

// Where the elements of a block are in the array, relative to its first.
struct RasterPlaces {
    const BoxPlaces places;
    const uint64_t plane_stride, row_stride;

    __device__ inline RasterPlaces(const Tile &tile, const Geometry &geometry)
        : places(tile.ny, tile.nx), plane_stride(geometry.strides[1]), row_stride(geometry.strides[2]) {}
    __device__ inline uint64_t operator()(uint32_t i) const {
        uint32_t at[3];
        places.coordinates(i, at);
        return at[0] * plane_stride + at[1] * row_stride + at[2];
    }
};

// Writes a share of the elements of a block: limits values to the range, and gives masked ones their patterns. A warp
// writes rows.
__device__ inline void write_elements(const CompactBlock &block, const CompactMasks &masks, const Values &values,
                                      const ParsedBlocks &blocks, const BlockShape &shape, const WorkShare &work,
                                      StoredBits *to) {
    __shared__ CompactClass classes[8];
    if (threadIdx.x < 8) {
        classes[threadIdx.x] = CompactClass(shape, 0, threadIdx.x);
    }
    __syncthreads();
    const uint32_t rows = shape.extent[0] * shape.extent[1];
    const SmallDivider plane(shape.extent[1]);
    for (uint32_t row = work.warp(); row < rows; row += work.warps()) {
        const uint32_t z = plane.quotient(row), y = row - z * shape.extent[1];
        const uint32_t halved_z = shape.halves(0) ? z / 2 : z, odd = (shape.halves(0) ? z & 1 : 0) | (y & 1) << 1;
        const CompactClass even_class = classes[odd], odd_class = classes[odd | 4];
        const uint32_t start[3] = {halved_z, y / 2, 0};
        const uint32_t evens = even_class.place(start), odds = odd_class.place(start);
        StoredBits *const out = to + z * shape.stride[0] + y * shape.stride[1];
        const auto write = [&](uint32_t place, uint32_t x) {
            Bits bits = bits_of(limited(block.value(place), values));
            if (masks.masks != nullptr) {
                const uint32_t mask = masks.masks[place];
                bits = mask != 0 ? Bits(blocks.patterns[mask - 1]) : bits;
            }
            out[x * shape.stride[2]] = stored_bits(element_of(bits), values.origin);
        };
        for (uint32_t pair = lane_id(); 2 * pair < shape.extent[2]; pair += WARP) {
            write(evens + pair, 2 * pair);
            if (2 * pair + 1 < shape.extent[2]) {
                write(odds + pair, 2 * pair + 1);
            }
        }
    }
}

// A block of elements that is requested, and its values.
struct OwnBlock : RequestedBlock {
    const BlockPlan plan;
    const BlockShape shape;
    const CompactBlock block;
    const CompactMasks masks;

    __device__ inline OwnBlock(const Geometry &geometry, const Parsed &parsed, const ParsedBlocks &blocks,
                               const LaunchArguments &arguments, StoredBits *output, uint32_t number)
        : RequestedBlock(geometry, parsed, arguments, output, number), plan(blocks.plans[chunk]),
          shape(tile, geometry, plan.slices), block(blocks, number), masks(blocks, number) {}

    __device__ inline bool is_raw() const { return record.kind == KIND_RAW; }
};

// Replaces the codes of anchors and of all levels but the finest by values. A block of threads has a block of elements.
extern "C" __global__ void __launch_bounds__(THREADS, 4096 / ELEMENT_BYTES / THREADS)
    blocks_decode_coarse(const __grid_constant__ Geometry geometry, const __grid_constant__ Parsed parsed,
                         const __grid_constant__ ParsedBlocks blocks, const __grid_constant__ Values values,
                         const __grid_constant__ LaunchArguments arguments, StoredBits *output) {
    launch_dependents_and_wait();
    if (!RequestedBlock::exists(parsed, arguments, blockIdx.x)) {
        return;
    }
    const OwnBlock own(geometry, parsed, blocks, arguments, output, blockIdx.x);
    if (own.is_raw()) {
        return;
    }
    const int32_t *anchors = blocks.anchors + uint64_t(own.number) * blocks.anchors_stride;
    for (uint32_t i = threadIdx.x; i < own.shape.anchors(); i += THREADS) {
        const uint32_t place = anchor_place(own.shape, i);
        own.masks.keep(place, own.block.code(place));
        own.block.set_value(place, value_of(anchors[i], values));
    }
    for (uint32_t level = own.shape.levels; level-- > 1;) {
        for (uint32_t group = 0; group < GROUPS; ++group) {
            __syncthreads();
            decode_group(own.block, own.masks, values, own.plan, own.shape, level, group, WorkShare::all());
        }
    }
}

// Replaces the codes of a group of the finest level by values, after the coarse levels and the groups before.
extern "C" __global__ void __launch_bounds__(THREADS, 4096 / ELEMENT_BYTES / THREADS)
    blocks_decode_finest(const __grid_constant__ Geometry geometry, const __grid_constant__ Parsed parsed,
                         const __grid_constant__ ParsedBlocks blocks, const __grid_constant__ Values values,
                         const __grid_constant__ LaunchArguments arguments, uint32_t group, StoredBits *output) {
    launch_dependents_and_wait();
    if (!RequestedBlock::exists(parsed, arguments, blockIdx.x / SHARES)) {
        return;
    }
    const OwnBlock own(geometry, parsed, blocks, arguments, output, blockIdx.x / SHARES);
    if (!own.is_raw() && own.shape.levels > 0) {
        decode_group(own.block, own.masks, values, own.plan, own.shape, 0, group, WorkShare::own(SHARES));
    }
}

// Writes the elements of blocks, but for verbatim values.
extern "C" __global__ void __launch_bounds__(THREADS, 4096 / ELEMENT_BYTES / THREADS)
    blocks_write_elements(const uint8_t *input, const __grid_constant__ Geometry geometry,
                          const __grid_constant__ Parsed parsed, const __grid_constant__ ParsedBlocks blocks,
                          const __grid_constant__ Values values, const __grid_constant__ LaunchArguments arguments,
                          StoredBits *output) {
    launch_dependents_and_wait();
    if (!RequestedBlock::exists(parsed, arguments, blockIdx.x / SHARES)) {
        return;
    }
    const OwnBlock own(geometry, parsed, blocks, arguments, output, blockIdx.x / SHARES);
    if (!own.is_raw()) {
        write_elements(own.block, own.masks, values, blocks, own.shape, WorkShare::own(SHARES), own.to);
        return;
    }
    const RasterPlaces places(own.tile, geometry);
    const StoredBits *from = reinterpret_cast<const StoredBits *>(input + own.record.raw) + own.position;
    const WorkShare work = WorkShare::own(SHARES);
    for (uint32_t i = work.thread(); i < own.tile.elements(); i += work.threads()) {
        own.to[places(i)] = from[i];
    }
}

// Writes the verbatim values of blocks over other elements. A block of threads has a block of elements.
extern "C" __global__ void __launch_bounds__(THREADS)
    blocks_write_verbatim(const uint8_t *input, const __grid_constant__ Geometry geometry,
                          const __grid_constant__ Parsed parsed, const __grid_constant__ Values values,
                          const __grid_constant__ LaunchArguments arguments, StoredBits *output) {
    launch_dependents_and_wait();
    if (!RequestedBlock::exists(parsed, arguments, blockIdx.x)) {
        return;
    }
    const RequestedBlock own(geometry, parsed, arguments, output, blockIdx.x);
    const uint32_t verbatim = own.record.kind == KIND_RAW ? 0 : own.record.verbatim;
    const RasterPlaces places(own.tile, geometry);
    const uint32_t *positions = reinterpret_cast<const uint32_t *>(input + own.record.verbatim_positions);
    const StoredBits *list = reinterpret_cast<const StoredBits *>(input + own.record.verbatim_values);
    const uint32_t first = verbatim > 0 ? parsed.places[own.number].verbatim : 0;
    for (uint32_t i = first + threadIdx.x; i < verbatim; i += THREADS) {
        const uint32_t place = positions[i] - own.position;
        if (place >= own.tile.elements()) {
            break;
        }
        own.to[places(place)] = verbatim_bits(list[i], values.origin);
    }
}
