// The constants of interpolation, and the values that it must not give.
#pragma once
#include "quantize/quantize.cuh"

// The constants of interpolation, of the element's type: `Interpolation` of the core.
struct InterpolationStep {
    Element step, inverse, bound;

    __device__ inline explicit InterpolationStep(const Step &from) {
#if ELEMENT_BYTES == 4
        step = from.high;
        inverse = Element(1.0 / double(from.high));
        bound = from.bound;
#else
        step = from.step;
        inverse = 1.0 / from.step;
        bound = from.limit;
#endif
    }
};

// Whether the step is that of a lattice on which all values are.
__device__ inline bool is_lattice(const Step &step) { return step.step > 2.0 * step.limit; }

// Whether no element may be reconstructed as this value, because it is a fill pattern. If 0.0 is one, neither zero may.
__device__ inline bool is_reserved(const Step &step, Element value) {
    bool is = false;
#pragma unroll
    for (uint32_t i = 0; i < MAX_PATTERNS; ++i) {
        const Bits pattern = Bits(step.reserved_values[i]);
        is |= (step.reserved >> i & 1) != 0 &&
              (bits_of(value) == pattern || (pattern == 0 && bits_of(value) == SIGN_BIT));
    }
    return is;
}
