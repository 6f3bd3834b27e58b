//! Elements that are excluded from a tile's prediction: those that hold a fill pattern, and verbatim values.

use super::Real;
use super::mask::{MaskKind, TileMask};
use super::select::{matches, select};

/// Fill patterns in a tile.
#[derive(Clone, Copy, Debug, Default)]
pub struct TileFill {
    /// Whether nothing, everything, or a part of the tile is masked.
    pub kind: MaskKind,
    /// Number of the pattern of the masked elements, 0 if nothing is masked.
    pub pattern: u8,
    /// The masked elements.
    pub mask: TileMask,
    /// Elements that hold another pattern, to be stored verbatim.
    pub foreign: TileMask,
}

impl TileFill {
    /// Finds the pattern with most elements in the tile, the lower number on a tie.
    pub fn find<T: Real>(x: &[T], patterns: &[u64]) -> Self {
        let mut fill =
            Self { kind: MaskKind::Nothing, pattern: 0, mask: TileMask::default(), foreign: TileMask::default() };
        let mut most = 0;
        for (number, &pattern) in patterns.iter().enumerate() {
            let mask = matches(x, T::from_bits(pattern));
            let count = mask.count();
            if count > most {
                fill.foreign = fill.foreign.union(&fill.mask);
                (fill.mask, fill.pattern, most) = (mask, number as u8, count);
            } else {
                fill.foreign = fill.foreign.union(&mask);
            }
        }
        fill.kind = match most {
            0 => MaskKind::Nothing,
            n if n == x.len() => MaskKind::All,
            _ => MaskKind::Bitmap,
        };
        fill
    }
}

/// Gives each excluded (masked or verbatim) element the integer of the last one before it in its row that is not
/// excluded, else its predecessor's: the row's before it, at x = 0. Before the first element that is not excluded all
/// get that element's integer, which becomes the base; with everything excluded, 0. Returns whether everything is.
///
/// # Panics
/// `q` has not the extents' length or is empty.
pub fn fill_excluded(q: &mut [i32], extent: [usize; 3], excluded: &TileMask) -> bool {
    let [_, ny, nx] = extent;
    let valid = TileMask::full(q.len()).without(excluded);
    let Some(base) = valid.ones().next().map(|i| q[i]) else {
        q.fill(0);
        return true;
    };
    for row in 0..q.len() / nx {
        let start = row * nx;
        let mut last = if row == 0 {
            base
        } else if row.is_multiple_of(ny) {
            q[start - ny * nx]
        } else {
            q[start - nx]
        };
        for (block, values) in q[start..start + nx].chunks_mut(64).enumerate() {
            let bits = excluded.bits(start + block * 64, values.len());
            if bits == 0 {
                last = values[values.len() - 1];
            } else if bits.count_ones() as usize == values.len() {
                values.fill(last);
            } else {
                for (i, value) in values.iter_mut().enumerate() {
                    last = if bits >> i & 1 != 0 { last } else { *value };
                    *value = last;
                }
            }
        }
    }
    false
}

/// Writes a fill pattern over the masked elements.
pub fn restore_fill<T: Real>(x: &mut [T], mask: &TileMask, pattern: u64) {
    select(x, mask, T::from_bits(pattern));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantize::mask::tests::any_extent;
    use proptest::prelude::*;

    fn mask_of_words(words: [u64; 16], len: usize) -> TileMask {
        let mut mask = TileMask::default();
        for (i, word) in words.into_iter().enumerate() {
            mask.or_word(i, word);
        }
        mask.without(&TileMask::full(1024).without(&TileMask::full(len)))
    }

    #[test]
    fn the_pattern_with_most_elements_wins() {
        let patterns = [f32::NAN, -9999.0, -0.0].map(|p| u64::from(p.to_bits()));
        let x = [1.0, -9999.0, f32::NAN, -0.0, f32::NAN, 0.0, -9999.0];
        let fill = TileFill::find(&x, &patterns);
        assert_eq!((fill.kind, fill.pattern), (MaskKind::Bitmap, 0));
        assert_eq!(fill.mask.ones().collect::<Vec<_>>(), [2, 4]);
        assert_eq!(fill.foreign.ones().collect::<Vec<_>>(), [1, 3, 6]);
        let fill = TileFill::find(&[-0.0f32; 70], &patterns);
        assert_eq!((fill.kind, fill.pattern, fill.mask), (MaskKind::All, 2, TileMask::full(70)));
        assert_eq!(TileFill::find(&[1.0f32], &patterns).kind, MaskKind::Nothing);
    }

    #[test]
    fn excluded_elements_continue_their_row() {
        let mut q = [9, 1, 9, 9, 9, 9, 4, 9];
        let mut excluded = TileMask::default();
        for i in [0, 2, 3, 4, 5, 7] {
            excluded.set(i);
        }
        assert!(!fill_excluded(&mut q, [2, 2, 2], &excluded));
        assert_eq!(q, [1, 1, 1, 1, 1, 1, 4, 4]);
        assert!(fill_excluded(&mut q, [2, 2, 2], &TileMask::full(8)));
        assert_eq!(q, [0; 8]);
    }

    proptest! {
        #[test]
        fn excluded_elements_are_filled_as_defined(extent in any_extent(), words in any::<[u64; 16]>(),
            and in any::<[u64; 16]>(), or in any::<bool>()) {
            let [_, ny, nx] = extent;
            let len = extent.iter().product();
            let words = std::array::from_fn(|i| if or { words[i] | and[i] } else { words[i] & and[i] });
            let excluded = mask_of_words(words, len);
            let q: Vec<i32> = (100..100 + len as i32).collect();
            let mut filled = q.clone();
            let is_empty = fill_excluded(&mut filled, extent, &excluded);
            let mut expected = q.clone();
            let base = (0..len).find(|&i| !excluded.get(i)).map_or(0, |i| q[i]);
            prop_assert_eq!(is_empty, excluded.count() == len);
            for i in (0..len).filter(|&i| excluded.get(i)) {
                let (z, y, x) = (i / (ny * nx), i / nx % ny, i % nx);
                expected[i] = match (z, y, x) {
                    (_, _, 1..) => expected[i - 1],
                    (_, 1.., _) => expected[i - nx],
                    (1.., ..) => expected[i - ny * nx],
                    _ => base,
                };
            }
            prop_assert_eq!(filled, expected);
            let mut x: Vec<f32> = (0..len).map(|i| i as f32).collect();
            restore_fill(&mut x, &excluded, u64::from((-5f32).to_bits()));
            let restored: Vec<f32> = (0..len).map(|i| if excluded.get(i) { -5.0 } else { i as f32 }).collect();
            prop_assert_eq!(x, restored);
        }
    }
}
