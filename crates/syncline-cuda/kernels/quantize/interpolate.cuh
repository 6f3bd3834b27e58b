// Interpolates a tile by one warp: `syncline_core::predict::interpolate`, with exactly its operations.
#pragma once
#include "predict/interpolation.cuh"
#include "quantize/orders.cuh"
#include "token_codes/groups.cuh"

// Most anchors of a tile that is interpolated.
constexpr uint32_t MAX_ANCHORS = 64;
// Codes of interpolated values have magnitudes below 2^22, so that they are exact in f32: numbers below this are
// rounded to such codes.
constexpr Element ROUNDED_LIMIT = Element((1 << 22) - 0.5);

// The integer next to a number below ROUNDED_LIMIT, to even on a tie. Adding `SHIFTER`, whose last bit is worth 1,
// rounds in the way of every addition, and leaves the integer in the last bits.
struct Rounded {
#if ELEMENT_BYTES == 4
    static constexpr Element SHIFTER = 0x1.8p23f;
#else
    static constexpr Element SHIFTER = 0x1.8p52;
#endif
    Element shifted;
    __device__ inline explicit Rounded(Element x) : shifted(x + SHIFTER) {}
    __device__ inline Element value() const { return shifted - SHIFTER; }
    __device__ inline int32_t integer() const {
        return int32_t(uint32_t(bits_of(shifted)) - uint32_t(bits_of(SHIFTER)));
    }
};
__device__ inline Element not_a_number() {
#if ELEMENT_BYTES == 4
    return __uint_as_float(0x7FC00000);
#else
    return __longlong_as_double(0x7FF8000000000000);
#endif
}

// Whether no element may be reconstructed as this value, because it is a fill pattern.
__device__ inline bool is_reserved(const InterpolationStep &constants, Element value) {
    bool is = false;
    for (uint32_t i = 0; i < constants.reserved_count; ++i) {
        is |= bits_of(value) == Bits(constants.reserved[i]);
    }
    return is;
}

// What verbatim values add to the cost of a tile.
__device__ inline uint32_t verbatim_cost(uint32_t values) { return 8 * (4 + ELEMENT_BYTES) * values << 11; }

// What a tile is made of, in shared memory.
struct __align__(16) TileMemory {
    int32_t q[MAX_ELEMENTS]; // without the base, once this is known
    Element values[padded_length(MAX_ELEMENTS)];
    int32_t anchors[MAX_ANCHORS];
    // Bitmaps of the elements that are verbatim without interpolation, that hold a fill pattern, and that are verbatim
    // with interpolation.
    uint32_t exact[WARP], not_coded[WARP], missed[WARP];
};

// Sums of the magnitudes of a lane's codes in each group of the tile.
constexpr uint32_t GROUPS_OF_TILE = MAX_ELEMENTS / TOKEN_GROUP;
template <typename Sum> struct ActivitySums {
    Sum of[GROUPS_OF_TILE] = {};

    __device__ inline void add(uint32_t element, uint32_t magnitude) {
#pragma unroll
        for (uint32_t group = 0; group < GROUPS_OF_TILE; ++group) {
            // Not an `if`, of which compilers make an index, so that the sums would not stay in registers.
            of[group] += element / TOKEN_GROUP == group ? magnitude : 0;
        }
    }
};
typedef ActivitySums<uint64_t> Activities;

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
                uint32_t(memory.anchors[i - (set & 1 ? 1 : 0) - (set & 2 ? nx : 0) - (set & 4 ? plane : 0)]);
            predicted += __popc(set) % 2 == 1 ? value : -value;
        }
        memory.anchors[i] = int32_t(predicted);
    }
}

// Writes the codes of the anchors and their values. Returns the costs of this lane's codes, each more by COST_OF_ZERO.
// Called by the whole warp.
__device__ inline uint32_t code_anchors(const Step &step, TileMemory &memory, const PlanHead &plan,
                                        const uint16_t *anchors, uint32_t base, bool any_not_coded, int32_t *codes,
                                        Activities &activities) {
    for (uint32_t i = lane_id(); i < plan.anchors; i += WARP) {
        memory.anchors[i] = memory.q[anchors[i]];
    }
    __syncwarp();
    if (any_not_coded) {
        if (lane_id() == 0) {
            inpaint(memory, plan, anchors);
        }
        __syncwarp();
    }
    const uint32_t nx = plan.lattice[2], plane = plan.lattice[1] * nx;
    uint32_t cost = 0;
    for (uint32_t i = lane_id(); i < plan.anchors; i += WARP) {
        memory.values[padded(anchors[i])] = reconstruct(step, int32_t(uint32_t(memory.anchors[i]) + base));
        // Differences along all axes of the lattice.
        const uint32_t x = i % nx, y = i % plane / nx, z = i / plane;
        uint32_t residual = 0;
        for (uint32_t set = 0; set < 8; ++set) {
            const bool there = (!(set & 1) || x > 0) && (!(set & 2) || y > 0) && (!(set & 4) || z > 0);
            const uint32_t back = (set & 1 ? 1 : 0) + (set & 2 ? nx : 0) + (set & 4 ? plane : 0);
            const uint32_t value = there ? uint32_t(memory.anchors[i - back]) : 0;
            residual += __popc(set) % 2 == 0 ? value : -value;
        }
        codes[i] = int32_t(residual);
        activities.add(i, magnitude_of(int32_t(residual)));
        cost += shifted_cost(residual);
    }
    return cost;
}

struct Interpolated {
    uint32_t cost;
    uint32_t verbatim; // the lane's word of the elements that must be verbatim
};

// Interpolates a tile whose integers are in `memory`, which receives the values; `codes` receives the codes. `words`
// has the bitmaps of the tile, `base` the base that was subtracted from the integers. Gives up once the cost is not
// below `limit`; then neither codes nor values are complete. Called by the whole warp.
__device__ inline Interpolated interpolate(const Step &step, const InterpolationStep &constants, const TileBox &tile,
                                           const TileSource &source, const Plans &plans, const PlanHead &plan,
                                           const TileBitmaps &words, uint32_t base, uint32_t limit, TileMemory &memory,
                                           int32_t *codes, Activities &activities) {
    const uint32_t elements = tile.elements(), lane = lane_id();
    const uint32_t not_coded = words.fill | words.foreign;
    const bool any_excluded = __any_sync(ALL_LANES, (words.verbatim | words.fill) != 0);
    const bool any_not_coded = any_excluded && __any_sync(ALL_LANES, not_coded != 0);
    memory.exact[lane] = words.verbatim;
    memory.not_coded[lane] = not_coded;
    memory.missed[lane] = 0;
    if (lane == 0) {
        memory.values[missing_place(MAX_ELEMENTS)] = Element(-0.0);
    }
    __syncwarp();
    // Elements hold their own value until they are replaced by what they are reconstructed as. Those that are not coded
    // hold no number, and get their prediction.
    for_each_element(tile, source, [&](uint32_t i, Element x) {
        memory.values[padded(i)] = any_not_coded && bit_of(memory.not_coded, i) ? not_a_number() : x;
    });
    __syncwarp();
    const uint16_t *anchors = plans.places + plan.first_place;
    uint32_t cost = code_anchors(step, memory, plan, anchors, base, any_not_coded, codes, activities);
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
    ActivitySums<uint32_t> sums;
    uint32_t begin = 0;
    for (uint32_t number = 0; number < plan.stages; ++number) {
        const PlanStage stage = plans.stages[plan.first_stage + number];
        const uint32_t count = stage.end - begin, first = plan.anchors + begin;
        // Most elements are in the last stages.
        if (count > WARP && warp_reduce_sum(cost) >= limit + first * COST_OF_ZERO) {
            return {limit, 0};
        }
        // The elements of a stage have no neighbors in it.
        for (uint32_t i = lane; i < count; i += WARP) {
            uint32_t place;
            // Pairs are not loaded ahead, because registers are scarce here, and instructions limit the speed.
            const Element prediction = predict(plans.pairs, stage, count, i, memory.values, place);
            const Element wanted = memory.values[padded(place)];
            const Element scaled = product(wanted - prediction, inverse);
            const Rounded rounded(scaled);
            const Element value = product_plus(rounded.value(), width, prediction);
            const Element kept = rounded.value() != Element(0) ? value : prediction;
            // 0.0 is kept exactly, so that it does not become a value next to it, and -0.0 is verbatim.
            const bool same_zero = wanted != Element(0) || (bits_of(wanted) | bits_of(kept)) == 0;
            const bool good = fabs(scaled) < ROUNDED_LIMIT && fabs(wanted - kept) < bound && same_zero &&
                              (constants.reserved_count == 0 || !is_reserved(constants, kept));
            const int32_t code = good ? rounded.integer() : 0;
            // Without a code, the element is the prediction itself, whatever its sign.
            memory.values[padded(place)] = code != 0 ? value : prediction;
            codes[first + i] = code;
            sums.add(first + i, magnitude_of(code));
            cost += shifted_cost(uint32_t(code));
            if (!good) {
                atomicOr(&memory.missed[place / WARP], 1u << place % WARP);
            }
        }
        __syncwarp();
        begin = stage.end;
    }
#pragma unroll
    for (uint32_t group = 0; group < GROUPS_OF_TILE; ++group) {
        activities.of[group] += sums.of[group];
    }
    const uint32_t verbatim = memory.missed[lane] & ~not_coded | words.foreign;
    const uint32_t count = warp_reduce_sum(uint32_t(__popc(verbatim)));
    return {warp_reduce_sum(cost) - elements * COST_OF_ZERO + verbatim_cost(count), verbatim};
}
