//! The values that elements of each type are computed with, an `f32` or `f64`, and back.
//!
//! Every element becomes another value, so that fill patterns and verbatim values survive the way there and back bit
//! for bit. What codes give is rounded to the type.

use std::marker::PhantomData;

use super::Real;
use super::mask::MAX_PATTERNS;
use crate::array::{Element, ElementType, halves};
use crate::simd::{self, InstructionSet, Kernel};
use half::{bf16, f16};

/// An element type whose values are computed with as `T`.
pub trait ComputedIn<T>: Element {
    /// Returns the value of an element.
    fn load(self, origin: &Origin) -> T;
    /// Returns the element next to a value.
    fn store(value: T, origin: &Origin) -> Self;
    /// Returns the value of the element next to a value.
    fn round(value: T) -> T;
}

/// What integers of 64 bits are relative to, because an `f64` has 53 of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Origin {
    /// The bits of the smallest value.
    low: u64,
    /// Fill patterns, which become NaNs, because they may be far from it.
    patterns: [u64; MAX_PATTERNS],
    /// How many of them there are.
    count: usize,
}

/// The first integer that is not computed with, counted from the smallest value.
const WIDE_END: u64 = 1 << 53;
/// Bits of the NaN that a value is which is too far from the smallest one. Those after it are fill patterns.
const LOST: u64 = 0x7FF8_0000_0000_0000;

impl Origin {
    #[inline(always)]
    fn load(&self, bits: u64) -> f64 {
        let distance = bits.wrapping_sub(self.low);
        let mut value = if distance < WIDE_END { distance as f64 } else { f64::from_bits(LOST) };
        for (number, &pattern) in (1..).zip(&self.patterns[..self.count]) {
            value = if bits == pattern { f64::from_bits(LOST + number) } else { value };
        }
        value
    }

    #[inline(always)]
    fn store(&self, value: f64) -> u64 {
        let number = value.to_bits().wrapping_sub(LOST + 1);
        match self.patterns.get(number as usize) {
            Some(&pattern) if value.is_nan() && number < MAX_PATTERNS as u64 => pattern,
            _ => self.low.wrapping_add(value.round_ties_even().clamp(0.0, WIDE_END as f64) as u64),
        }
    }
}

macro_rules! itself {
    ($($type:ty),*) => {$(
        impl ComputedIn<$type> for $type {
            #[inline(always)]
            fn load(self, _: &Origin) -> $type {
                self
            }
            #[inline(always)]
            fn store(value: $type, _: &Origin) -> Self {
                value
            }
            #[inline(always)]
            fn round(value: $type) -> $type {
                value
            }
        }
    )*};
}
itself!(f32, f64);

macro_rules! halves {
    ($($type:ty, $of:ident, $to:ident, $round:ident);*) => {$(
        impl ComputedIn<f32> for $type {
            #[inline(always)]
            fn load(self, _: &Origin) -> f32 {
                halves::$of(self.to_bits())
            }
            #[inline(always)]
            fn store(value: f32, _: &Origin) -> Self {
                Self::from_bits(halves::$to(value))
            }
            #[inline(always)]
            fn round(value: f32) -> f32 {
                halves::$round(value)
            }
        }
    )*};
}
halves!(f16, of_f16, to_f16, round_to_f16; bf16, of_bf16, to_bf16, round_to_bf16);

macro_rules! integers {
    ($($type:ty, $real:ty, $bits:ty, $magic:literal);*) => {$(
        impl ComputedIn<$real> for $type {
            #[inline(always)]
            fn load(self, _: &Origin) -> $real {
                <$real>::from(self)
            }
            #[inline(always)]
            fn store(value: $real, _: &Origin) -> Self {
                let (low, high) = (<$real>::from(Self::MIN), <$real>::from(Self::MAX));
                let value = if value > low { value } else { low };
                let value = if value < high { value } else { high };
                // The sum rounds to an integer, the even one on a tie, and has it in its low bits.
                const MAGIC: $real = $magic;
                ((value + MAGIC).to_bits() as $bits).wrapping_sub(MAGIC.to_bits() as $bits) as Self
            }
            #[inline(always)]
            fn round(value: $real) -> $real {
                <$real>::from(<Self as ComputedIn<$real>>::store(value, &Origin::default()))
            }
        }
    )*};
}
integers!(u8, f32, i32, 12_582_912.0; i8, f32, i32, 12_582_912.0; u16, f32, i32, 12_582_912.0;
    i16, f32, i32, 12_582_912.0; u32, f64, i64, 6_755_399_441_055_744.0; i32, f64, i64, 6_755_399_441_055_744.0);

macro_rules! wide_integers {
    ($($type:ty),*) => {$(
        impl ComputedIn<f64> for $type {
            #[inline(always)]
            fn load(self, origin: &Origin) -> f64 {
                origin.load(self as u64)
            }
            #[inline(always)]
            fn store(value: f64, origin: &Origin) -> Self {
                origin.store(value) as Self
            }
            #[inline(always)]
            fn round(value: f64) -> f64 {
                let rounded = value.round_ties_even() + 0.0;
                if value.is_nan() { value } else { rounded }
            }
        }
    )*};
}
wide_integers!(u64, i64);

/// Something to do for one of the types that are computed with as `T`.
pub trait Visitor<T> {
    /// What it gives.
    type Output;
    /// Does it for the type `S`.
    fn visit<S: ComputedIn<T>>(self) -> Self::Output;
}

/// The elements of a stream and the values that are computed with.
#[derive(Clone, Copy, Debug)]
pub struct Stored<T> {
    element: ElementType,
    origin: Origin,
    real: PhantomData<T>,
}

impl<T: Real> Stored<T> {
    /// Returns the conversion of elements of this type, which `T` must belong to. Integers of 64 bits are relative to
    /// the one with the bits `low`, and those with the bits of a pattern are apart.
    pub fn new(element: ElementType, low: u64, patterns: &[u64]) -> Self {
        let mut origin = Origin { low, ..Origin::default() };
        for (to, &pattern) in origin.patterns.iter_mut().zip(patterns) {
            *to = pattern;
            origin.count += 1;
        }
        Self { element, origin, real: PhantomData }
    }

    /// Returns the element type.
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// Returns the bytes of an element.
    pub fn size(&self) -> usize {
        self.element.size()
    }

    /// Returns whether elements are the values that are computed with.
    #[inline]
    pub fn is_same(&self) -> bool {
        self.element == T::TYPE
    }

    /// Does something for the element type.
    pub fn visit<V: Visitor<T>>(&self, visitor: V) -> V::Output {
        T::visit(self.element, visitor)
    }

    /// Returns the value of an element with these zero-extended bits.
    pub fn value(&self, bits: u64) -> T {
        struct Value<'a>(u64, &'a Origin);
        impl<T> Visitor<T> for Value<'_> {
            type Output = T;
            fn visit<S: ComputedIn<T>>(self) -> T {
                let mut element = S::zeroed();
                let bytes = bytemuck::bytes_of_mut(&mut element);
                bytes.copy_from_slice(&self.0.to_le_bytes()[..size_of::<S>()]);
                in_host_order(std::slice::from_mut(&mut element));
                element.load(self.1)
            }
        }
        self.visit(Value(bits, &self.origin))
    }

    /// Returns the zero-extended bits of the element next to a value.
    pub fn bits(&self, value: T) -> u64 {
        struct Bits<'a, T>(T, &'a Origin);
        impl<T> Visitor<T> for Bits<'_, T> {
            type Output = u64;
            fn visit<S: ComputedIn<T>>(self) -> u64 {
                let mut element = S::store(self.0, self.1);
                in_host_order(std::slice::from_mut(&mut element));
                let mut bits = [0; 8];
                bits[..size_of::<S>()].copy_from_slice(bytemuck::bytes_of(&element));
                u64::from_le_bytes(bits)
            }
        }
        self.visit(Bits(value, &self.origin))
    }

    /// Returns the bits of the values of elements with these bits.
    pub fn values_of(&self, bits: &[u64]) -> Vec<u64> {
        bits.iter().map(|&bits| self.value(bits).bits()).collect()
    }

    /// Replaces values by those of the elements that are stored for them.
    #[inline]
    pub fn round(&self, x: &mut [T]) {
        if !self.is_same() {
            self.visit(Round(x));
        }
    }

    /// Converts elements, in the host's byte order, to values.
    #[inline]
    pub fn load<S: ComputedIn<T>>(&self, elements: &[S], x: &mut [T]) {
        simd::run(Load { elements, x, origin: self.origin });
    }

    /// Converts values to elements in the host's byte order.
    #[inline]
    pub fn store<S: ComputedIn<T>>(&self, x: &[T], elements: &mut [S]) {
        simd::run(Store { x, elements, origin: self.origin });
    }

    /// Converts little-endian bytes to values. `x` has as many as there are elements.
    pub fn load_bytes(&self, bytes: &[u8], x: &mut [T]) {
        struct LoadBytes<'a, T: Real>(&'a Stored<T>, &'a [u8], &'a mut [T]);
        impl<T: Real> Visitor<T> for LoadBytes<'_, T> {
            type Output = ();
            fn visit<S: ComputedIn<T>>(self) {
                let mut elements = vec![S::zeroed(); self.2.len()];
                bytemuck::cast_slice_mut::<S, u8>(&mut elements).copy_from_slice(self.1);
                in_host_order(&mut elements);
                self.0.load(&elements, self.2);
            }
        }
        self.visit(LoadBytes(self, bytes, x));
    }

    /// Returns whether a value is that of an element that no value stands for: an integer of 64 bits far from the
    /// others.
    pub fn is_lost(&self, value: T) -> bool {
        self.element.is_wide_integer() && value.bits() == LOST
    }
}

/// Converts elements from little-endian order to the host's, or back.
fn in_host_order<S: Element>(elements: &mut [S]) {
    if cfg!(target_endian = "big") {
        bytemuck::cast_slice_mut::<S, u8>(elements).chunks_exact_mut(size_of::<S>()).for_each(<[u8]>::reverse);
    }
}

struct Load<'a, S, T> {
    elements: &'a [S],
    x: &'a mut [T],
    origin: Origin,
}

impl<T, S: ComputedIn<T>> Kernel for Load<'_, S, T> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) {
        for (x, element) in self.x.iter_mut().zip(self.elements) {
            *x = element.load(&self.origin);
        }
    }
}

struct Store<'a, S, T> {
    x: &'a [T],
    elements: &'a mut [S],
    origin: Origin,
}

impl<T: Copy, S: ComputedIn<T>> Kernel for Store<'_, S, T> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) {
        for (element, &x) in self.elements.iter_mut().zip(self.x) {
            *element = S::store(x, &self.origin);
        }
    }
}

struct Round<'a, T>(&'a mut [T]);

impl<T: Copy> Visitor<T> for Round<'_, T> {
    type Output = ();

    fn visit<S: ComputedIn<T>>(self) {
        simd::run(RoundTo::<S, T>(self.0, PhantomData));
    }
}

struct RoundTo<'a, S, T>(&'a mut [T], PhantomData<S>);

impl<T: Copy, S: ComputedIn<T>> Kernel for RoundTo<'_, S, T> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) {
        self.0.iter_mut().for_each(|x| *x = S::round(*x));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn there_and_back<T: Real>(element: ElementType, bits: u64) {
        let stored = Stored::<T>::new(element, 0, &[]);
        let value = stored.value(bits);
        assert_eq!(stored.bits(value), bits, "{element}");
        if !element.is_wide_integer() && !value.wide().is_nan() {
            assert_eq!(value.wide(), element.number_of_bits(bits));
            assert_eq!(element.bits_of_number(value.wide()), Some(bits));
            let mut rounded = [value];
            stored.round(&mut rounded);
            assert_eq!(rounded[0].bits(), value.bits());
        }
    }

    #[test]
    fn short_elements_survive_bit_for_bit() {
        for bits in 0..=u64::from(u16::MAX) {
            for element in [ElementType::F16, ElementType::Bf16, ElementType::U16, ElementType::I16] {
                there_and_back::<f32>(element, bits);
            }
            there_and_back::<f32>(ElementType::U8, bits & 255);
            there_and_back::<f32>(ElementType::I8, bits & 255);
        }
    }

    #[test]
    fn integers_are_limited_to_their_type() {
        let stored = |element, value| Stored::<f32>::new(element, 0, &[]).bits(value);
        assert_eq!(stored(ElementType::U8, 255.5), 255);
        assert_eq!(stored(ElementType::U8, -7.0), 0);
        assert_eq!(stored(ElementType::I8, -1e30), 0x80);
        assert_eq!(stored(ElementType::U16, f32::INFINITY), 65_535);
        assert_eq!((stored(ElementType::I16, 2.5), stored(ElementType::I16, -3.5)), (2, 0xFFFC));
        let stored = |element, value| Stored::<f64>::new(element, 0, &[]).bits(value);
        assert_eq!(stored(ElementType::U32, 1e300), 0xFFFF_FFFF);
        assert_eq!(stored(ElementType::I32, -1e300), 0x8000_0000);
    }

    #[test]
    fn wide_integers_are_relative_to_the_smallest_and_patterns_are_apart() {
        let low = i64::MAX - 100;
        let stored = Stored::<f64>::new(ElementType::I64, low as u64, &[i64::MIN as u64, low as u64 + 7]);
        for distance in [0, 1, 50, 100] {
            let bits = (low + distance) as u64;
            assert_eq!((stored.value(bits), stored.bits(stored.value(bits))), (distance as f64, bits));
        }
        for bits in [i64::MIN as u64, low as u64 + 7] {
            let value = stored.value(bits);
            assert!(value.is_nan() && !stored.is_lost(value) && stored.bits(value) == bits);
        }
        assert!(stored.is_lost(stored.value(0)));
    }

    proptest! {
        #[test]
        fn elements_survive_bit_for_bit(bits in any::<u64>()) {
            there_and_back::<f64>(ElementType::U32, bits & 0xFFFF_FFFF);
            there_and_back::<f64>(ElementType::I32, bits & 0xFFFF_FFFF);
            there_and_back::<f64>(ElementType::U64, bits >> 11);
            there_and_back::<f64>(ElementType::F64, bits);
            there_and_back::<f32>(ElementType::F32, bits & 0xFFFF_FFFF);
        }

        #[test]
        fn what_is_stored_is_what_it_is_rounded_to(value in -1e5f32..1e5) {
            for element in [ElementType::F16, ElementType::Bf16, ElementType::U8, ElementType::I8, ElementType::U16,
                ElementType::I16] {
                let stored = Stored::<f32>::new(element, 0, &[]);
                let mut rounded = [value];
                stored.round(&mut rounded);
                prop_assert_eq!(rounded[0].to_bits(), stored.value(stored.bits(value)).to_bits());
            }
        }
    }
}
