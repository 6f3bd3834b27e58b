//! Lossless tiles: element bits to zigzag-coded residuals in the element's own width, and back.

use super::lorenzo::{Scratch, integrate, predict};
use super::tile::TileInfo;
use super::word::Word;
use crate::array::ElementType;
use crate::simd::{self, InstructionSet, Kernel};

/// Maps element bits so that unsigned order is the order of the values.
#[inline]
pub fn map<W: Word>(words: &mut [W], element: ElementType) {
    let top = W::narrow(1 << (W::BITS - 1));
    if element.is_float() {
        for w in words {
            *w = W::narrow(w.widen() ^ if *w >= top { u64::MAX } else { top.widen() });
        }
    } else if element.is_signed_integer() {
        for w in words {
            *w = w.plus(top);
        }
    }
}

/// Inverts [`map`].
#[inline]
pub fn unmap<W: Word>(words: &mut [W], element: ElementType) {
    simd::run(Unmap(words, element));
}

struct Unmap<'a, W>(&'a mut [W], ElementType);

impl<W: Word> Kernel for Unmap<'_, W> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) {
        let Self(words, element) = self;
        let top = W::narrow(1 << (W::BITS - 1));
        if element.is_float() {
            for w in words {
                *w = W::narrow(w.widen() ^ if *w >= top { top.widen() } else { u64::MAX });
            }
        } else if element.is_signed_integer() {
            for w in words {
                *w = w.plus(top);
            }
        }
    }
}

/// Replaces a tile's mapped integers by their zigzag-coded residuals under the cheapest of predictors 0 to `axes`.
///
/// # Panics
/// `words` has not the extents' length, or more than a tile may have.
pub fn encode<W: Word>(words: &mut [W], extent: [usize; 3], axes: usize, scratch: &mut Scratch<W>) -> TileInfo<W> {
    let base = words[0];
    simd::run(Subtract(words, base));
    let (predictor, activity) = predict(words, extent, axes, None, scratch);
    simd::run(Zigzag(words));
    TileInfo { base, predictor, activity }
}

/// Subtracts the base.
struct Subtract<'a, W>(&'a mut [W], W);

impl<W: Word> Kernel for Subtract<'_, W> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) {
        for word in self.0 {
            *word = word.minus(self.1);
        }
    }
}

struct Zigzag<'a, W>(&'a mut [W]);

impl<W: Word> Kernel for Zigzag<'_, W> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) {
        for word in self.0 {
            *word = word.zigzag();
        }
    }
}

/// Inverts [`encode`].
///
/// # Panics
/// `words` has not the extents' length.
pub fn decode<W: Word>(words: &mut [W], extent: [usize; 3], predictor: u8, base: W) {
    // Sums of residuals all have the first one in them once.
    let added = if predictor == 0 { base } else { W::ZERO };
    simd::run(Unzigzag(words, added));
    if predictor > 0
        && let Some(first) = words.first_mut()
    {
        *first = first.plus(base);
    }
    integrate(words, extent, predictor);
}

/// Decodes zigzag, then adds a number.
struct Unzigzag<'a, W>(&'a mut [W], W);

impl<W: Word> Kernel for Unzigzag<'_, W> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) {
        for word in self.0 {
            *word = word.unzigzag().plus(self.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::lorenzo::tests::any_extent;
    use proptest::prelude::*;

    fn round_trip<W: Word>(
        seed: u64,
        element: ElementType,
        extent: [usize; 3],
        axes: usize,
        shift: u32,
    ) -> Result<(), TestCaseError> {
        let n = extent.iter().product::<usize>() as u64;
        let input: Vec<W> = (0..n).map(|i| W::narrow(seed.wrapping_mul(i * 2 + 1) >> shift)).collect();
        let mut words = input.clone();
        map(&mut words, element);
        let info = encode(&mut words, extent, axes, &mut Scratch::default());
        prop_assert_eq!(info.is_constant(), words.iter().all(|&w| w == W::ZERO));
        decode(&mut words, extent, info.predictor, info.base);
        unmap(&mut words, element);
        prop_assert_eq!(words, input);
        Ok(())
    }

    #[test]
    fn mapping_keeps_the_order() {
        let floats = [f32::NEG_INFINITY, -1e30, -1.0, -0.0, 0.0, 1e-40, 1.0, f32::INFINITY];
        let mut bits = floats.map(f32::to_bits);
        map(&mut bits, ElementType::F32);
        assert!(bits.is_sorted_by(|a, b| a < b));
        let mut bits = [-128i8, -1, 0, 1, 127].map(|v| v as u8);
        map(&mut bits, ElementType::I8);
        assert!(bits.is_sorted_by(|a, b| a < b));
    }

    proptest! {
        #[test]
        fn tiles_round_trip(seed in any::<u64>(), extent in any_extent(), axes in 1usize..=3, shift in 0u32..64) {
            for element in ElementType::ALL {
                match element.size() {
                    1 => round_trip::<u8>(seed, element, extent, axes, shift)?,
                    2 => round_trip::<u16>(seed, element, extent, axes, shift)?,
                    4 => round_trip::<u32>(seed, element, extent, axes, shift)?,
                    _ => round_trip::<u64>(seed, element, extent, axes, shift)?,
                }
            }
        }
    }
}
