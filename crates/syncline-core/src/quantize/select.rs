//! Bitmaps of the elements with a property, and writing to the elements of a bitmap.

use super::Real;
use super::mask::TileMask;
use crate::bits::pack::pack_bytes;
use crate::simd::dispatched;

/// Returns the values of a tile of at most 1,024 that have the bit pattern of `pattern`.
pub fn matches<T: Real>(x: &[T], pattern: T) -> TileMask {
    match size_of::<T>() {
        4 => equal_u32(bytemuck::cast_slice(x), pattern.bits() as u32),
        _ => equal_u64(bytemuck::cast_slice(x), pattern.bits()),
    }
}

/// Returns the values of a tile of at most 1,024 that have the sign bit set.
pub fn negative<T: Real>(x: &[T]) -> TileMask {
    match size_of::<T>() {
        4 => negative_u32(bytemuck::cast_slice(x)),
        _ => negative_u64(bytemuck::cast_slice(x)),
    }
}

/// Writes `pattern` to the masked values of a tile.
pub fn select<T: Real>(x: &mut [T], mask: &TileMask, pattern: T) {
    match size_of::<T>() {
        4 => select_u32(bytemuck::cast_slice_mut(x), mask, pattern.bits() as u32),
        _ => select_u64(bytemuck::cast_slice_mut(x), mask, pattern.bits()),
    }
}

/// Returns the elements, at most 1,024, for which `test` holds.
#[inline(always)]
pub(super) fn mask_where<W: Copy>(words: &[W], test: impl Fn(W) -> bool) -> TileMask {
    let mut mask = TileMask::default();
    for (i, block) in words.chunks(64).enumerate() {
        // This first pass is fast, and most blocks need no other.
        if block.iter().fold(false, |any, &w| any | test(w)) {
            let mut bytes = [0; 64];
            for (byte, &w) in bytes.iter_mut().zip(block) {
                *byte = u8::from(test(w));
            }
            mask.or_word(i, pack_bytes(&bytes));
        }
    }
    mask
}

/// Returns the elements, at most as many as a tile has, for which `test` holds of a pair.
#[inline(always)]
pub(super) fn mask_of_pairs<T: Copy>(a: &[T], b: &[T], test: impl Fn(T, T) -> bool) -> TileMask {
    let mut mask = TileMask::default();
    for (i, (a, b)) in a.chunks(64).zip(b.chunks(64)).enumerate() {
        if a.iter().zip(b).fold(false, |any, (&a, &b)| any | test(a, b)) {
            let mut bytes = [0; 64];
            for ((byte, &a), &b) in bytes.iter_mut().zip(a).zip(b) {
                *byte = u8::from(test(a, b));
            }
            mask.or_word(i, pack_bytes(&bytes));
        }
    }
    mask
}

#[inline(always)]
fn equal_body<W: Copy + PartialEq>(words: &[W], pattern: W) -> TileMask {
    mask_where(words, |w| w == pattern)
}

dispatched! {
    fn equal_u32(words: &[u32], pattern: u32) -> TileMask = equal_body::<u32>
}
dispatched! {
    fn equal_u64(words: &[u64], pattern: u64) -> TileMask = equal_body::<u64>
}

#[inline(always)]
fn negative_u32_body(words: &[u32]) -> TileMask {
    mask_where(words, |w| w >> 31 != 0)
}

#[inline(always)]
fn negative_u64_body(words: &[u64]) -> TileMask {
    mask_where(words, |w| w >> 63 != 0)
}

dispatched! {
    fn negative_u32(words: &[u32]) -> TileMask = negative_u32_body
}
dispatched! {
    fn negative_u64(words: &[u64]) -> TileMask = negative_u64_body
}

#[inline(always)]
fn select_body<W: Copy>(words: &mut [W], mask: &TileMask, pattern: W) {
    for (block, &bits) in words.chunks_mut(64).zip(mask.words()) {
        if bits == u64::MAX {
            block.fill(pattern);
        } else if bits != 0 {
            for (i, w) in block.iter_mut().enumerate() {
                *w = if bits >> i & 1 != 0 { pattern } else { *w };
            }
        }
    }
}

dispatched! {
    fn select_u32(words: &mut [u32], mask: &TileMask, pattern: u32) = select_body::<u32>
}
dispatched! {
    fn select_u64(words: &mut [u64], mask: &TileMask, pattern: u64) = select_body::<u64>
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn masks_are_as_tested(x in prop::collection::vec(prop::sample::select(vec![0.0f32, -0.0, 1.0, -9999.0,
            f32::NAN]), 0..200)) {
            for pattern in [-0.0f32, -9999.0, f32::NAN] {
                let mask = matches(&x, pattern);
                prop_assert!((0..x.len()).all(|i| mask.get(i) == (x[i].to_bits() == pattern.to_bits())));
                let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
                prop_assert_eq!(matches(&wide, f64::from(pattern)), mask);
                prop_assert_eq!(negative(&wide), negative(&x));
            }
            let mask = negative(&x);
            prop_assert!((0..x.len()).all(|i| mask.get(i) == x[i].is_sign_negative()));
            prop_assert_eq!(mask.without(&TileMask::full(x.len())), TileMask::default());
        }
    }
}
