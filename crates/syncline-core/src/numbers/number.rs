//! The number of an element: the integer that it is made of, and what may be left besides.

use crate::array::ElementType;
use crate::predict::word::Word;
use crate::quantize::mask::TileMask;
use crate::simd::{self, InstructionSet, Kernel};

/// How the elements of a chunk are made of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// The number is the element: its bits as an integer that has the order of the elements.
    Ordered,
    /// Integers: `offset + number * divisor`, wrapping.
    Multiple {
        /// At least 2.
        divisor: u64,
        /// Any element.
        offset: u64,
    },
    /// `f32` and `f64`: the number, scaled.
    Scaled(Scale),
    /// As [`Self::Scaled`], and the rest says by how many units in the last place the element differs.
    ScaledUlps(Scale),
    /// The high bits of [`Self::Ordered`]; the low 16 bits are the rest.
    Split,
}

/// How a number becomes a floating-point element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// The operations.
    pub how: Scaling,
    /// Positive and finite.
    pub step: f64,
    /// Finite.
    pub offset: f64,
}

/// The operations that make an element of a number. The discriminant is the code in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Scaling {
    /// `number / step` in f64, rounded to the type of the element.
    Quotient = 0,
    /// `number * step + offset` in f64, rounded twice, and then to the type of the element.
    Product = 1,
    /// `number * step` in the type of the element, after rounding both to it.
    ShortProduct = 2,
}

/// Numbers of elements of 32 bits are below this, and those of 64 bits below its square over 2^10.
const LIMIT_LOG2: u32 = 30;

/// Returns the bits of a floating-point element as an integer with the order of the elements, or the reverse.
#[inline(always)]
pub fn ordered<W: Word>(word: W) -> W {
    let bits = word.signed();
    W::narrow((bits ^ ((bits >> 63) & (u64::MAX >> (65 - W::BITS)) as i64)) as u64)
}

/// Returns the value of an `f32` or `f64`, according to its width.
#[inline(always)]
pub fn float_of<W: Word>(word: W) -> f64 {
    if W::BITS == 32 { f64::from(f32::from_bits(word.widen() as u32)) } else { f64::from_bits(word.widen()) }
}

#[inline(always)]
fn word_of<W: Word>(value: f64) -> W {
    if W::BITS == 32 { W::narrow(u64::from((value as f32).to_bits())) } else { W::narrow(value.to_bits()) }
}

/// Returns the nearest integer of a value below 2^51, ties to even.
#[inline(always)]
pub(super) fn nearest(value: f64) -> f64 {
    const MAGIC: f64 = 6_755_399_441_055_744.0;
    (value + MAGIC) - MAGIC
}

impl Scale {
    /// Returns the element of a number.
    #[inline(always)]
    fn element<W: Word>(&self, number: f64) -> W {
        match self.how {
            Scaling::Quotient => self.element_by::<W, { Scaling::Quotient as u8 }>(number),
            Scaling::Product => self.element_by::<W, { Scaling::Product as u8 }>(number),
            Scaling::ShortProduct => self.element_by::<W, { Scaling::ShortProduct as u8 }>(number),
        }
    }

    /// Returns the element of a number by the operations with the code `HOW`.
    #[inline(always)]
    fn element_by<W: Word, const HOW: u8>(&self, number: f64) -> W {
        if HOW == Scaling::Quotient as u8 {
            word_of(number / self.step)
        } else if HOW == Scaling::Product as u8 {
            word_of(number * self.step + self.offset)
        } else if W::BITS == 32 {
            W::narrow(u64::from((number as f32 * self.step as f32).to_bits()))
        } else {
            word_of(number * self.step)
        }
    }

    /// Returns the number that is nearest to an element, and whether it is in range.
    #[inline(always)]
    fn number<W: Word>(&self, word: W) -> (f64, bool) {
        let value = float_of(word);
        let number = match self.how {
            Scaling::Quotient => value * self.step,
            _ => (value - self.offset) * (1.0 / self.step),
        };
        let limit = (1u64 << (if W::BITS == 32 { LIMIT_LOG2 } else { 2 * LIMIT_LOG2 - 10 })) as f64;
        let is_in_range = number.abs() < limit;
        (if is_in_range { nearest(number) } else { 0.0 }, is_in_range)
    }

    /// Returns whether an element is exactly that of its number.
    pub fn is_exact<W: Word>(&self, word: W) -> bool {
        let (number, is_in_range) = self.number(word);
        is_in_range && self.element::<W>(number) == word
    }

    /// Returns by how many units in the last place an element differs from that of its number; `None` if it has none.
    pub fn ulps<W: Word>(&self, word: W) -> Option<i64> {
        let (number, is_in_range) = self.number(word);
        let near = self.element::<W>(number);
        is_in_range.then(|| ordered(word).minus(ordered(near)).signed())
    }
}

impl Number {
    /// Returns whether elements have a rest.
    pub fn has_rest(&self) -> bool {
        matches!(self, Self::ScaledUlps(_) | Self::Split)
    }

    /// Writes the numbers of a tile's elements, and their rests if there are any. Returns the elements that are not
    /// those of their numbers. The numbers and rests of these are unspecified.
    ///
    /// # Panics
    /// `numbers` is shorter than `elements`, or `rests` is and there are rests.
    pub fn take<W: Word>(
        &self,
        element: ElementType,
        elements: &[W],
        numbers: &mut [W],
        rests: &mut [u16],
    ) -> TileMask {
        let numbers = &mut numbers[..elements.len()];
        match *self {
            Self::Ordered if element.is_float() => simd::run(Each(elements, numbers, |word| (ordered(word), true))),
            Self::Ordered => {
                numbers.copy_from_slice(elements);
                TileMask::default()
            }
            Self::Multiple { divisor, offset } => {
                let division = Division::<W>::new(divisor, offset);
                simd::run(Each(elements, numbers, |word| division.number(word)))
            }
            Self::Scaled(scale) => simd::run(Each(elements, numbers, |word: W| {
                let (number, is_in_range) = scale.number(word);
                let is_exact = is_in_range & (scale.element::<W>(number) == word);
                (W::narrow(number as i64 as u64), is_exact)
            })),
            Self::ScaledUlps(scale) => {
                let mut others = TileMask::default();
                for (i, ((&word, number), rest)) in elements.iter().zip(numbers).zip(rests).enumerate() {
                    let (near, is_in_range) = scale.number(word);
                    *number = W::narrow(near as i64 as u64);
                    let ulps = ordered(word).minus(ordered(scale.element::<W>(near))).zigzag().widen();
                    *rest = ulps as u16;
                    if !is_in_range || ulps > u64::from(u16::MAX) {
                        others.set(i);
                    }
                }
                others
            }
            Self::Split => {
                for ((&word, number), rest) in elements.iter().zip(numbers).zip(rests) {
                    let word = if element.is_float() { ordered(word) } else { word };
                    *number = W::narrow((word.signed() >> 16) as u64);
                    *rest = word.widen() as u16;
                }
                TileMask::default()
            }
        }
    }

    /// Replaces the numbers of a tile by the elements.
    ///
    /// # Panics
    /// There are rests, and `rests` is shorter than `words`.
    pub fn restore<W: Word>(&self, element: ElementType, words: &mut [W], rests: &[u16]) {
        match *self {
            Self::Ordered if element.is_float() => simd::run(Map(words, ordered)),
            Self::Ordered => {}
            Self::Multiple { divisor, offset } => {
                let (divisor, offset) = (W::narrow(divisor), W::narrow(offset));
                simd::run(Map(words, |number: W| offset.plus(number.times(divisor))));
            }
            Self::Scaled(scale) => simd::run(Elements(words, scale)),
            Self::ScaledUlps(scale) => {
                simd::run(Elements(words, scale));
                simd::run(MapWithRests(words, rests, |near: W, rest| {
                    ordered(ordered(near).plus(W::narrow(u64::from(rest)).unzigzag()))
                }));
            }
            Self::Split => {
                let whole = |number: W, rest: u16| W::narrow(number.widen() << 16 | u64::from(rest));
                match element.is_float() {
                    true => simd::run(MapWithRests(words, rests, |number, rest| ordered(whole(number, rest)))),
                    false => simd::run(MapWithRests(words, rests, whole)),
                }
            }
        }
    }
}

/// Exact division by a constant: a shift, and a multiplication by the inverse of what is odd of it.
struct Division<W> {
    zeros: u32,
    inverse: u64,
    divisor: W,
    offset: W,
    most: u64,
}

impl<W: Word> Division<W> {
    fn new(divisor: u64, offset: u64) -> Self {
        let zeros = divisor.trailing_zeros();
        let odd = divisor >> zeros;
        // Each step doubles the number of right bits, of which `odd` itself has three.
        let inverse = (0..5).fold(odd, |inverse, _| inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse))));
        let most = (1 << (W::BITS - 1)) / divisor;
        Self { zeros, inverse, divisor: W::narrow(divisor), offset: W::narrow(offset), most }
    }

    /// Returns the number of an element, and whether there is one.
    #[inline(always)]
    fn number(&self, word: W) -> (W, bool) {
        let difference = word.minus(self.offset);
        let number = W::narrow(((difference.signed() >> self.zeros) as u64).wrapping_mul(self.inverse));
        let is_whole = number.times(self.divisor) == difference;
        (number, is_whole & (number.magnitude() <= self.most))
    }
}

/// Computes the number of each element, and whether it has one.
struct Each<'a, W, F>(&'a [W], &'a mut [W], F);

impl<W: Word, F: Fn(W) -> (W, bool)> Kernel for Each<'_, W, F> {
    type Output = TileMask;

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> TileMask {
        let Self(elements, numbers, number) = self;
        let mut others = TileMask::default();
        for (block, (elements, numbers)) in elements.chunks(64).zip(numbers.chunks_mut(64)).enumerate() {
            let mut are_all = true;
            for (slot, &word) in numbers.iter_mut().zip(elements) {
                let (value, is_one) = number(word);
                *slot = value;
                are_all &= is_one;
            }
            if !are_all {
                let bits = elements.iter().rev().fold(0, |bits, &word| bits << 1 | u64::from(!number(word).1));
                others.or_word(block, bits);
            }
        }
        others
    }
}

/// Replaces each word.
struct Map<'a, W, F>(&'a mut [W], F);

impl<W: Word, F: Fn(W) -> W> Kernel for Map<'_, W, F> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) {
        for word in self.0 {
            *word = (self.1)(*word);
        }
    }
}

/// Replaces scaled numbers by their elements.
struct Elements<'a, W>(&'a mut [W], Scale);

impl<W: Word> Elements<'_, W> {
    /// The operations are constant, because a loop with a choice in it does not become vectors.
    #[inline(always)]
    fn run_by<const HOW: u8>(self) {
        let Self(words, scale) = self;
        for word in words {
            *word = scale.element_by::<W, HOW>(word.signed() as f64);
        }
    }
}

impl<W: Word> Kernel for Elements<'_, W> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) {
        match self.1.how {
            Scaling::Quotient => self.run_by::<{ Scaling::Quotient as u8 }>(),
            Scaling::Product => self.run_by::<{ Scaling::Product as u8 }>(),
            Scaling::ShortProduct => self.run_by::<{ Scaling::ShortProduct as u8 }>(),
        }
    }
}

/// Replaces each word by what it makes with its rest.
struct MapWithRests<'a, W, F>(&'a mut [W], &'a [u16], F);

impl<W: Word, F: Fn(W, u16) -> W> Kernel for MapWithRests<'_, W, F> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) {
        for (word, &rest) in self.0.iter_mut().zip(self.1) {
            *word = (self.2)(*word, rest);
        }
    }
}
