// Interpolates a tile: `syncline_core::predict::interpolate`, with exactly its operations.
#pragma once
#include "predict/constants.cuh"
#include "predict/lorenzo.cuh"
#include "predict/plans.cuh"

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

// A value that is predicted and quantized.
struct Interpolated {
    Element value; // as decoders reconstruct it
    int32_t code;
    bool is_good; // whether the error is within the bound; else, the value is the prediction and the code is 0
    bool is_kept; // whether this also holds for the value that is rounded to its type; if not, only the code counts

    __device__ inline Interpolated(const Step &step, const InterpolationStep &constants, Element wanted,
                                   Element prediction) {
        const Element scaled = product(wanted - prediction, constants.inverse);
        const Rounded rounded(scaled);
        const Element moved = product_plus(rounded.value(), constants.step, prediction);
        // A code of 0 gives the prediction itself, whatever its sign.
        const Element found = rounded.value() != Element(0) ? moved : prediction;
        // 0.0 is kept exactly, so that it does not become a value next to it, and -0.0 is verbatim.
        const bool same_zero = OF_INTEGERS || wanted != Element(0) || (bits_of(wanted) | bits_of(found)) == 0;
        is_good = fabs(scaled) < ROUNDED_LIMIT && fabs(wanted - found) < constants.bound && same_zero &&
                  (step.reserved == 0 || !is_reserved(step, found));
        code = is_good ? rounded.integer() : 0;
        value = code != 0 ? moved : prediction;
        is_kept = is_good;
        if (!IS_COMPUTED && (OF_HALVES || step.reserved != 0)) {
            const Element back = rounded_to_stored(value);
            is_kept &= fabs(wanted - back) < constants.bound && (step.reserved == 0 || !is_reserved(step, back));
        }
    }
};

// Gives anchors that are not coded the integer that makes their residual 0. Called by one thread.
__device__ inline void inpaint(int32_t *lattice, const PlanHead &plan, const uint16_t *anchors,
                               const TileBitmaps &bitmaps) {
    const uint32_t nx = plan.lattice[2], plane = plan.lattice[1] * nx;
    for (uint32_t i = 0; i < plan.anchors; ++i) {
        const uint32_t place = anchors[i];
        if (!bit_of(bitmaps.fill, place) && !bit_of(bitmaps.foreign, place)) {
            continue;
        }
        const uint32_t x = i % nx, y = i % plane / nx, z = i / plane;
        uint32_t predicted = 0;
        for (uint32_t set = 1; set < 8; ++set) {
            if (((set & 1) != 0 && x == 0) || ((set & 2) != 0 && y == 0) || ((set & 4) != 0 && z == 0)) {
                continue;
            }
            const uint32_t back = (set & 1) + ((set & 2) != 0 ? nx : 0) + ((set & 4) != 0 ? plane : 0);
            const uint32_t value = uint32_t(lattice[i - back]);
            predicted += __popc(set) % 2 == 1 ? value : 0u - value;
        }
        lattice[i] = int32_t(predicted);
    }
}

// Writes the codes of the anchors and their values. `v` has the integers of the tile without the base. Returns the
// costs of the codes of this thread. All lanes call this.
__device__ inline uint32_t code_anchors(const Step &step, const Plans &plans, const PlanHead &plan, int32_t base,
                                        bool any_not_coded, const TileBitmaps &bitmaps, const int32_t *v,
                                        int32_t *lattice, Element *values, int32_t *codes) {
    const uint16_t *anchors = plans.places + plan.first_anchor, *places = plans.places + plan.first_anchor_code;
    for (uint32_t i = lane_id(); i < plan.anchors; i += WARP) {
        lattice[i] = v[anchors[i]];
    }
    __syncwarp();
    if (any_not_coded) {
        if (lane_id() == 0) {
            inpaint(lattice, plan, anchors, bitmaps);
        }
        __syncwarp();
    }
    const uint32_t nx = plan.lattice[2], plane = plan.lattice[1] * nx;
    uint32_t cost = 0;
    for (uint32_t i = lane_id(); i < plan.anchors; i += WARP) {
        values[padded(anchors[i])] = reconstruct(step, int32_t(uint32_t(lattice[i]) + uint32_t(base)));
        // Differences along all axes of the lattice.
        const uint32_t x = i % nx, y = i % plane / nx, z = i / plane;
        uint32_t residual = 0;
        for (uint32_t set = 0; set < 8; ++set) {
            const bool there = ((set & 1) == 0 || x > 0) && ((set & 2) == 0 || y > 0) && ((set & 4) == 0 || z > 0);
            const uint32_t back = (set & 1) + ((set & 2) != 0 ? nx : 0) + ((set & 4) != 0 ? plane : 0);
            const uint32_t value = there ? uint32_t(lattice[i - back]) : 0;
            residual += __popc(set) % 2 == 0 ? value : 0u - value;
        }
        codes[places[i]] = int32_t(residual);
        cost += product_cost(cost_factor(int32_t(residual)));
    }
    return cost;
}

// Interpolates a tile by a plan. `v` has its integers without the base, `values` its elements, and receives what
// decoders reconstruct, `codes` the codes in the order of the strips. `missed` receives the bitmap of the elements that
// must then be verbatim, and `verbatim` their number. `lattice` is shared memory for MOST_ANCHORS integers. Returns the
// cost, that of verbatim values included. All lanes call this.
__device__ inline uint32_t interpolate(const Step &step, const Plans &plans, const PlanHead &plan,
                                       const QuantizedTile &quantized, const TileBitmaps &bitmaps, const int32_t *v,
                                       int32_t *lattice, Element *values, int32_t *codes, uint32_t *missed,
                                       uint32_t &verbatim) {
    for (uint32_t word = lane_id(); word < WORDS; word += WARP) {
        missed[word] = bitmaps.foreign[word];
    }
    __syncwarp();
    uint32_t cost =
        code_anchors(step, plans, plan, quantized.base, quantized.any_not_coded, bitmaps, v, lattice, values, codes);
    if (quantized.any_excluded) {
        const uint16_t *anchors = plans.places + plan.first_anchor;
        for (uint32_t i = lane_id(); i < plan.anchors; i += WARP) {
            if (bit_of(bitmaps.verbatim, anchors[i])) {
                atomicOr(&missed[anchors[i] / WARP], 1u << anchors[i] % WARP);
            }
        }
    }
    __syncwarp();
    const InterpolationStep constants(step);
    const bool is_cubic = plan.is_cubic != 0;
    for (uint32_t number = 0; number < plan.passes; ++number) {
        const PlanPass pass = plans.passes[plan.first_pass + number];
        const PlanStep<Element> *steps = steps_of<Element>(plans, pass);
        for (uint32_t i = lane_id(); i < pass.lines * pass.groups; i += WARP) {
            const PlanGroup group(pass, i);
            const uint32_t start = plans.places[pass.first_line + group.line];
            const uint16_t *places = plans.places + pass.first_code + group.line * pass.points;
            float factors = 1.0f;
#pragma unroll 1
            for (uint32_t point = group.first; point < group.end; ++point) {
                const PlanStep<Element> at = steps[point];
                const uint32_t place = start + at.place;
                const Element prediction =
                    predicted(at, is_cubic, start, [&](uint32_t i) { return values[padded(i)]; });
                Interpolated found(step, constants, values[padded(place)], prediction);
                if (quantized.any_not_coded && (bit_of(bitmaps.fill, place) || bit_of(bitmaps.foreign, place))) {
                    found.value = prediction;
                    found.code = 0;
                } else if (!found.is_kept) {
                    atomicOr(&missed[place / WARP], 1u << place % WARP);
                }
                values[padded(place)] = found.value;
                codes[places[point]] = found.code;
                factors *= cost_factor(found.code);
            }
            cost += product_cost(factors);
        }
        __syncwarp();
    }
    verbatim = count_bits(missed);
    return warp_reduce_sum(cost) + verbatim_cost(verbatim);
}
