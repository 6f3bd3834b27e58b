// Interpolates a tile by one warp: `syncline_core::predict::interpolate`, with exactly its operations.
#pragma once
#include "quantize/orders.cuh"
#include "reconstruct/structs.cuh"

// Most anchors of a tile that is interpolated.
constexpr uint32_t MAX_ANCHORS = 64;
// Codes of interpolated values have smaller magnitudes, so that they are exact in f32.
constexpr Element CODE_LIMIT = Element(1 << 22);

#if ELEMENT_BYTES == 4
typedef FloatNeighbor Neighbor;
__device__ inline float product(float a, float b) { return __fmul_rn(a, b); }
__device__ inline float product_plus(float a, float b, float c) { return __fmaf_rn(a, b, c); }
#else
typedef DoubleNeighbor Neighbor;
__device__ inline double product(double a, double b) { return __dmul_rn(a, b); }
__device__ inline double product_plus(double a, double b, double c) { return __fma_rn(a, b, c); }
#endif

// What verbatim values add to the cost of a tile.
__device__ inline uint32_t verbatim_cost(uint32_t values) { return 8 * (4 + ELEMENT_BYTES) * values << 11; }

// A tile's integers and what it becomes, in shared memory.
struct TileMemory {
    int32_t q[MAX_ELEMENTS];
    int32_t codes[MAX_ELEMENTS];
    Element values[MAX_ELEMENTS];
    // Bitmaps of the elements that are verbatim without interpolation, that hold a fill pattern, and that are verbatim
    // with interpolation.
    uint32_t exact[WARP], not_coded[WARP], missed[WARP];
};

__device__ inline bool bit_of(const uint32_t *bitmap, uint32_t element) {
    return (bitmap[element / WARP] >> element % WARP & 1) != 0;
}

// Gives anchors that are not coded the integer that makes their residual 0. Called by one lane.
__device__ inline void inpaint(TileMemory &memory, const PlanHead &plan, const uint16_t *anchors) {
    const uint32_t nx = plan.lattice[2], plane = plan.lattice[1] * nx;
    for (uint32_t i = 0; i < plan.anchors; ++i) {
        if (!bit_of(memory.not_coded, anchors[i])) {
            continue;
        }
        const uint32_t x = i % nx, y = i % plane / nx, z = i / plane;
        uint32_t predicted = 0;
        for (uint32_t set = 1; set < 8; ++set) {
            if ((set & 1 && x == 0) || (set & 2 && y == 0) || (set & 4 && z == 0)) {
                continue;
            }
            const uint32_t value =
                uint32_t(memory.codes[i - (set & 1 ? 1 : 0) - (set & 2 ? nx : 0) - (set & 4 ? plane : 0)]);
            predicted += __popc(set) % 2 == 1 ? value : -value;
        }
        memory.codes[i] = int32_t(predicted);
    }
}

// Writes the codes of the anchors and their values. Returns the costs of this lane's codes. Called by the whole warp.
__device__ inline uint32_t code_anchors(const Step &step, TileMemory &memory, const PlanHead &plan,
                                        const uint16_t *anchors, uint32_t base, bool any_not_coded) {
    for (uint32_t i = lane_id(); i < plan.anchors; i += WARP) {
        memory.codes[i] = int32_t(uint32_t(memory.q[anchors[i]]) - base);
    }
    __syncwarp();
    if (any_not_coded) {
        if (lane_id() == 0) {
            inpaint(memory, plan, anchors);
        }
        __syncwarp();
    }
    const uint32_t nx = plan.lattice[2], plane = plan.lattice[1] * nx;
    uint32_t residuals[MAX_ANCHORS / WARP] = {}, cost = 0;
#pragma unroll
    for (uint32_t round = 0; round < MAX_ANCHORS / WARP; ++round) {
        const uint32_t i = round * WARP + lane_id();
        if (i >= plan.anchors) {
            continue;
        }
        memory.values[anchors[i]] = reconstruct(step, int32_t(uint32_t(memory.codes[i]) + base));
        // Differences along all axes of the lattice.
        const uint32_t x = i % nx, y = i % plane / nx, z = i / plane;
        for (uint32_t set = 0; set < 8; ++set) {
            const bool there = (!(set & 1) || x > 0) && (!(set & 2) || y > 0) && (!(set & 4) || z > 0);
            const uint32_t back = (set & 1 ? 1 : 0) + (set & 2 ? nx : 0) + (set & 4 ? plane : 0);
            const uint32_t value = there ? uint32_t(memory.codes[i - back]) : 0;
            residuals[round] += __popc(set) % 2 == 0 ? value : -value;
        }
        cost += code_cost(residuals[round]);
    }
    __syncwarp();
#pragma unroll
    for (uint32_t round = 0; round < MAX_ANCHORS / WARP; ++round) {
        const uint32_t i = round * WARP + lane_id();
        if (i < plan.anchors) {
            memory.codes[i] = int32_t(residuals[round]);
        }
    }
    return cost;
}

struct Interpolated {
    uint32_t cost;
    uint32_t verbatim; // the lane's word of the elements that must be verbatim
};

// Interpolates a tile whose integers are in `memory`, which receives codes and values. `words` has the bitmaps of the
// tile, `base` the base that was subtracted from the integers of the other predictors. Called by the whole warp.
__device__ inline Interpolated interpolate(const Step &step, const InterpolationStep &constants, const TileBox &tile,
                                           const TileSource &source, const Plans &plans, const PlanHead &plan,
                                           const TileBitmaps &words, uint32_t base, TileMemory &memory) {
    const uint32_t elements = tile.elements(), lane = lane_id();
    // Elements hold their own value until they are replaced by what they are reconstructed as.
    for (uint32_t i = lane; i < elements; i += WARP) {
        memory.values[i] = source.load(Position(tile, i));
    }
    memory.exact[lane] = words.verbatim;
    memory.not_coded[lane] = words.fill | words.foreign;
    memory.missed[lane] = words.foreign;
    const bool any_excluded = __any_sync(ALL_LANES, (words.verbatim | words.fill) != 0);
    const bool any_not_coded = any_excluded && __any_sync(ALL_LANES, (words.fill | words.foreign) != 0);
    __syncwarp();
    const uint16_t *anchors = plans.anchors + plan.first_anchor;
    uint32_t cost = code_anchors(step, memory, plan, anchors, base, any_not_coded);
    if (any_excluded) {
        for (uint32_t i = lane; i < plan.anchors; i += WARP) {
            const uint32_t place = anchors[i];
            if (bit_of(memory.exact, place)) {
                atomicOr(&memory.missed[place / WARP], 1u << place % WARP);
            }
        }
    }
    __syncwarp();
    const Element width = Element(constants.step), inverse = Element(constants.inverse),
                  bound = Element(constants.bound);
    const Neighbor *neighbors = static_cast<const Neighbor *>(plans.neighbors);
    uint32_t begin = 0;
    for (uint32_t number = 0; number < plan.stages; ++number) {
        const PlanStage stage = plans.stages[plan.first_stage + number];
        const uint32_t count = stage.end - begin;
        // The elements of a stage have no neighbors in it.
        for (uint32_t i = begin + lane; i < stage.end; i += WARP) {
            const PlanPoint point = plans.points[plan.first_point + i];
            const Neighbor *next = neighbors + stage.first_neighbor + (i - begin);
            const Neighbor first = *next;
            Element predicted = product(memory.values[first.place], first.weight);
            for (uint32_t neighbor = 1; neighbor < point.neighbors; ++neighbor) {
                next += count;
                const Neighbor other = *next;
                predicted = product_plus(memory.values[other.place], other.weight, predicted);
            }
            const Element wanted = memory.values[point.place];
            const Element scaled = rint(product(wanted - predicted, inverse));
            const bool small = fabs(scaled) < CODE_LIMIT;
            int32_t code = small ? int32_t(scaled) : 0;
            const Element value = product_plus(Element(code), width, predicted);
            const bool good = small && fabs(wanted - value) < bound && bits_of(wanted) != SIGN_BIT;
            const bool coded = !any_not_coded || !bit_of(memory.not_coded, point.place);
            code = good && coded ? code : 0;
            // Without a code, the element is the prediction itself, whatever its sign.
            memory.values[point.place] = code != 0 ? value : predicted;
            memory.codes[plan.anchors + i] = code;
            cost += code_cost(uint32_t(code));
            if (!good && coded) {
                atomicOr(&memory.missed[point.place / WARP], 1u << point.place % WARP);
            }
        }
        __syncwarp();
        begin = stage.end;
    }
    const uint32_t verbatim = memory.missed[lane];
    const uint32_t count = warp_reduce_sum(uint32_t(__popc(verbatim)));
    return {warp_reduce_sum(cost) + verbatim_cost(count), verbatim};
}
