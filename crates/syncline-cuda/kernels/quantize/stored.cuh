// Elements as they are stored, and the values that are computed with: `syncline_core::quantize::stored`, operation by
// operation, compiled without contraction.
//
// ELEMENT_TYPE   the code of the element type (docs/FORMAT.md): 1 f32, 2 f64, 3 f16, 4 bf16, 5 to 8 u8 to u64, 9 to 12
//                i8 to i64
// ELEMENT_BYTES  of the values that are computed with: 4 for f32, 8 for f64
#pragma once
#include "common.cuh"
#include "format/constants.cuh"
#include "quantize/structs.cuh"

#define OF_HALVES (ELEMENT_TYPE == 3 || ELEMENT_TYPE == 4)
#define OF_INTEGERS (ELEMENT_TYPE >= 5)
// Integers of 64 bits, which are relative to the smallest one.
#define OF_WIDE_INTEGERS (ELEMENT_TYPE == 8 || ELEMENT_TYPE == 12)
// Whether elements are the values that are computed with.
#define IS_COMPUTED (ELEMENT_TYPE <= 2)

#if ELEMENT_BYTES == 4
typedef float Element;
typedef uint32_t Bits;
__device__ inline Bits bits_of(Element x) { return __float_as_uint(x); }
__device__ inline Element element_of(Bits bits) { return __uint_as_float(bits); }
#else
typedef double Element;
typedef uint64_t Bits;
__device__ inline Bits bits_of(Element x) { return uint64_t(__double_as_longlong(x)); }
__device__ inline Element element_of(Bits bits) { return __longlong_as_double(int64_t(bits)); }
#endif

constexpr Bits SIGN_BIT = Bits(1) << (8 * ELEMENT_BYTES - 1);
constexpr Bits INFINITY_BITS = ELEMENT_BYTES == 4 ? Bits(0x7F800000) : Bits(0x7FF0000000000000ull);

// An element as it is stored. Those of 16 bits are their bits.
#if ELEMENT_TYPE == 1
typedef float Stored;
#elif ELEMENT_TYPE == 2
typedef double Stored;
#elif ELEMENT_TYPE == 3 || ELEMENT_TYPE == 4 || ELEMENT_TYPE == 6
typedef uint16_t Stored;
#elif ELEMENT_TYPE == 5
typedef uint8_t Stored;
#elif ELEMENT_TYPE == 7
typedef uint32_t Stored;
#elif ELEMENT_TYPE == 8
typedef uint64_t Stored;
#elif ELEMENT_TYPE == 9
typedef int8_t Stored;
#elif ELEMENT_TYPE == 10
typedef int16_t Stored;
#elif ELEMENT_TYPE == 11
typedef int32_t Stored;
#else
typedef int64_t Stored;
#endif

// The bits of an element, as streams have them.
#if ELEMENT_TYPE == 1
typedef uint32_t StoredBits;
#elif ELEMENT_TYPE == 2 || OF_WIDE_INTEGERS
typedef uint64_t StoredBits;
#elif ELEMENT_TYPE == 7 || ELEMENT_TYPE == 11
typedef uint32_t StoredBits;
#elif ELEMENT_TYPE == 5 || ELEMENT_TYPE == 9
typedef uint8_t StoredBits;
#else
typedef uint16_t StoredBits;
#endif

#if ELEMENT_TYPE == 3
__device__ inline float round_to_f16(float value) {
    constexpr uint32_t SMALLEST_NORMAL = (127 - 14) << 23;
    const uint32_t bits = __float_as_uint(value), magnitude = bits & 0x7FFFFFFF;
    const uint32_t moved = (magnitude + 0x0FFF + (magnitude >> 13 & 1)) & ~0x1FFFu;
    const float number = __uint_as_float(magnitude > INFINITY_BITS ? magnitude : moved);
    const float normal = number > 65504.0f ? __uint_as_float(INFINITY_BITS) : number;
    // The sum rounds to whole multiples of 2^-24, the smallest subnormal f16.
    const float subnormal = __fsub_rn(__fadd_rn(__uint_as_float(magnitude), 0.5f), 0.5f);
    const float rounded = magnitude < SMALLEST_NORMAL ? subnormal : normal;
    return __uint_as_float((bits & 0x80000000) | __float_as_uint(rounded));
}
#endif
#if ELEMENT_TYPE == 4
__device__ inline float round_to_bf16(float value) {
    const uint32_t bits = __float_as_uint(value), rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000;
    return __uint_as_float((bits & 0x7FFFFFFF) > INFINITY_BITS ? bits : rounded);
}
#endif

#if OF_WIDE_INTEGERS
// The first integer that is not computed with, counted from the smallest value.
constexpr uint64_t WIDE_END = uint64_t(1) << 53;
// Bits of the NaN that a value is which is too far from the smallest one. Those after it are fill patterns.
constexpr uint64_t LOST = 0x7FF8000000000000ull;
#endif

// Returns the value of an element.
__device__ inline Element loaded(Stored element, const Origin &origin) {
#if ELEMENT_TYPE == 3
    constexpr uint32_t EXPONENT_DIFFERENCE = (127 - 15) << 23;
    const uint32_t sign = uint32_t(element & 0x8000) << 16, magnitude = element & 0x7FFF;
    const uint32_t normal = (magnitude << 13) + EXPONENT_DIFFERENCE, special = normal + EXPONENT_DIFFERENCE;
    const uint32_t subnormal = __float_as_uint(__int2float_rn(int32_t(magnitude)) * 0x1p-24f);
    const uint32_t finite = magnitude < 0x0400 ? subnormal : normal;
    return __uint_as_float(sign | (magnitude >= 0x7C00 ? special : finite));
#elif ELEMENT_TYPE == 4
    return __uint_as_float(uint32_t(element) << 16);
#elif OF_WIDE_INTEGERS
    const uint64_t bits = uint64_t(element), distance = bits - origin.low;
    uint64_t value = distance < WIDE_END ? bits_of(double(distance)) : LOST;
#pragma unroll 1
    for (uint32_t i = 0; i < origin.count; ++i) {
        value = bits == origin.patterns[i] ? LOST + 1 + i : value;
    }
    return element_of(value);
#else
    return Element(element);
#endif
}

// Returns the element next to a value.
__device__ inline Stored stored_of(Element value, const Origin &origin) {
#if IS_COMPUTED
    return value;
#elif ELEMENT_TYPE == 3
    constexpr uint32_t EXPONENT_DIFFERENCE = (127 - 15) << 23, SMALLEST_NORMAL = (127 - 14) << 23;
    const uint32_t bits = __float_as_uint(value), sign = bits & 0x80000000, magnitude = bits & 0x7FFFFFFF;
    const uint32_t special = (magnitude >> 13 & 0x03FF) | 0x7C00;
    const uint32_t rounded = __float_as_uint(round_to_f16(__uint_as_float(magnitude)));
    // A subnormal f16 is a whole multiple of 2^-24 below 2^-14: adding 1/2 puts it into the low bits.
    const uint32_t subnormal = __float_as_uint(__fadd_rn(__uint_as_float(rounded), 0.5f)) & 0x07FF;
    const uint32_t normal = (rounded - EXPONENT_DIFFERENCE) >> 13;
    const uint32_t finite = rounded < SMALLEST_NORMAL ? subnormal : normal;
    const uint32_t number = rounded == INFINITY_BITS ? 0x7C00 : finite;
    return Stored(sign >> 16 | (magnitude > INFINITY_BITS ? special : number));
#elif ELEMENT_TYPE == 4
    const uint32_t bits = __float_as_uint(value);
    return Stored(((bits & 0x7FFFFFFF) > INFINITY_BITS ? bits : __float_as_uint(round_to_bf16(value))) >> 16);
#elif OF_WIDE_INTEGERS
    const uint64_t number = bits_of(value) - (LOST + 1);
    const double whole = rint(value), raised = whole > 0.0 ? whole : 0.0,
                 limited = raised < double(WIDE_END) ? raised : double(WIDE_END);
    uint64_t bits = origin.low + uint64_t(limited);
#pragma unroll
    for (uint32_t i = 0; i < format::MAX_PATTERNS; ++i) {
        bits = number == i ? origin.patterns[i] : bits;
    }
    return Stored(bits);
#else
    // The ends of the type; of unsigned ones the lower one is 0.
    constexpr uint32_t STORED_BITS = 8 * sizeof(Stored);
    constexpr bool IS_SIGNED = Stored(-1) < Stored(0);
    constexpr Element LOW = IS_SIGNED ? -Element(uint64_t(1) << (STORED_BITS - 1)) : Element(0),
                      HIGH = Element((uint64_t(1) << (IS_SIGNED ? STORED_BITS - 1 : STORED_BITS)) - 1);
    const Element raised = value > LOW ? value : LOW, limited = raised < HIGH ? raised : HIGH;
    // The sum rounds to an integer, the even one on a tie, and has it in its low bits.
    constexpr Element MAGIC = ELEMENT_BYTES == 4 ? Element(12582912.0) : Element(6755399441055744.0);
    return Stored(bits_of(limited + MAGIC) - bits_of(MAGIC));
#endif
}

// Returns the value of the element next to a value.
__device__ inline Element rounded_to_stored(Element value) {
#if IS_COMPUTED
    return value;
#elif ELEMENT_TYPE == 3
    return round_to_f16(value);
#elif ELEMENT_TYPE == 4
    return round_to_bf16(value);
#elif OF_WIDE_INTEGERS
    return value != value ? value : rint(value) + 0.0;
#else
    return Element(stored_of(value, Origin{}));
#endif
}

// Returns the bits of the element next to a value.
__device__ inline StoredBits stored_bits(Element value, const Origin &origin) {
#if IS_COMPUTED
    return bits_of(value);
#else
    return StoredBits(stored_of(value, origin));
#endif
}

// Returns the bits that a verbatim element with these bits has in the end.
__device__ inline StoredBits verbatim_bits(StoredBits bits, const Origin &origin) {
#if OF_WIDE_INTEGERS
    // One that no value stands for, which only a damaged stream has here, becomes the smallest one.
    return stored_bits(loaded(Stored(bits), origin), origin);
#else
    return bits;
#endif
}
