// Values of integers, as FORMAT.md states.
//
// LOGARITHM      1 if integers are logarithms, whose signs are stored separately
// See also quantize/stored.cuh.
#pragma once
#include "decode/structs.cuh"
#include "quantize/math.cuh"
#include "quantize/stored.cuh"

// Returns the value of an integer, or with LOGARITHM its magnitude, that is not limited to the range.
__device__ inline Element value_of(int32_t integer, const Values &values) {
#if LOGARITHM
    return Element(exp2_defined(double(integer) * values.step));
#elif ELEMENT_BYTES == 8
    return __dmul_rn(double(integer), values.step);
#else
    const float rounded = __int2float_rn(integer);
    return __fmaf_rn(rounded, values.step_high, __fmul_rn(rounded, values.step_low));
#endif
}

// Returns a value from its prediction by interpolation and its code.
__device__ inline Element corrected(Element prediction, int32_t code, const Values &values) {
    // A code of 0 gives the prediction itself, of whatever sign.
#if ELEMENT_BYTES == 8
    return code != 0 ? __fma_rn(double(code), values.step, prediction) : prediction;
#else
    return code != 0 ? __fmaf_rn(__int2float_rn(code), values.step_high, prediction) : prediction;
#endif
}

// Limits any value to the range, if it is known.
__device__ inline Element limited(Element value, const Values &values) {
#if ELEMENT_BYTES == 8
    const double low = values.low, high = values.high;
#else
    const float low = values.narrow_low, high = values.narrow_high;
#endif
    const Element raised = value > low ? value : low, lowered = raised < high ? raised : high;
    return values.has_range != 0 ? lowered : value;
}
