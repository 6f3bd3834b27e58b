//! Elements left out of a tile's prediction: fill patterns, verbatim values; and the sign bitmaps of the logarithmic pipeline.

use super::Real;
use crate::geometry::MAX_TILE_ELEMENTS;

/// One bit for each element of a tile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TileMask {
    words: [u64; MAX_TILE_ELEMENTS / 64],
}

impl TileMask {
    /// Mask of the first `len` elements.
    pub fn full(len: usize) -> Self {
        let mut mask = Self::default();
        for (i, word) in mask.words.iter_mut().enumerate() {
            *word = match len.saturating_sub(i * 64) {
                0 => 0,
                left @ 1..64 => (1 << left) - 1,
                _ => u64::MAX,
            };
        }
        mask
    }

    /// Bit of element `i`.
    #[inline]
    pub fn get(&self, i: usize) -> bool {
        self.words[i / 64] >> (i % 64) & 1 != 0
    }

    /// Sets the bit of element `i`.
    #[inline]
    pub fn set(&mut self, i: usize) {
        self.words[i / 64] |= 1 << (i % 64);
    }

    /// Sets the bits of elements `64 * word` and following.
    #[inline]
    pub fn or_word(&mut self, word: usize, bits: u64) {
        self.words[word] |= bits;
    }

    /// The bits, 64 elements a word.
    pub fn words(&self) -> &[u64; MAX_TILE_ELEMENTS / 64] {
        &self.words
    }

    /// Whether a bit is set.
    #[inline]
    pub fn any(&self) -> bool {
        self.words.iter().any(|&w| w != 0)
    }

    /// Bits set.
    pub fn count(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Elements in either.
    pub fn union(&self, other: &Self) -> Self {
        Self { words: std::array::from_fn(|i| self.words[i] | other.words[i]) }
    }

    /// Elements in this but not in the other.
    pub fn without(&self, other: &Self) -> Self {
        Self { words: std::array::from_fn(|i| self.words[i] & !other.words[i]) }
    }

    /// Elements whose bit is set, ascending.
    pub fn ones(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(i, &word)| {
            std::iter::successors((word != 0).then_some(word), |w| Some(w & (w - 1)).filter(|&w| w != 0))
                .map(move |w| i * 64 + w.trailing_zeros() as usize)
        })
    }

    /// Bytes of the bitmap of a tile of `len` elements, as stored.
    pub const fn stored_bytes(len: usize) -> usize {
        len.div_ceil(512) * 64
    }

    /// Appends the bitmap as stored: each bit's exclusive or with its neighbour's.
    pub fn store(&self, extent: [usize; 3], out: &mut Vec<u8>) {
        let transformed = self.transform(extent, false);
        let bytes = Self::stored_bytes(extent.iter().product());
        out.extend(transformed.words.iter().flat_map(|w| w.to_le_bytes()).take(bytes));
    }

    /// Inverse of [`TileMask::store`]. Bits past the tile's elements are ignored.
    ///
    /// # Panics
    /// `bytes` has not [`TileMask::stored_bytes`] of the tile.
    pub fn load(bytes: &[u8], extent: [usize; 3]) -> Self {
        assert_eq!(bytes.len(), Self::stored_bytes(extent.iter().product()));
        let mut mask = Self::default();
        for (word, bytes) in mask.words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        mask.transform(extent, true)
    }

    /// Each bit's exclusive or with its neighbour's: the input's, or (inverse) the output's.
    fn transform(&self, extent: [usize; 3], inverse: bool) -> Self {
        if extent == [8, 8, 8] {
            return if inverse { self.untransform_cube() } else { self.transform_cube() };
        }
        let [_, ny, nx] = extent;
        let mut out = Self::default();
        for i in 0..extent.iter().product() {
            let (z, y, x) = (i / (ny * nx), i / nx % ny, i % nx);
            let neighbour = if z > 0 {
                Some(i - ny * nx)
            } else if y > 0 {
                Some(i - nx)
            } else if x > 0 {
                Some(i - 1)
            } else {
                None
            };
            let source = if inverse { &out } else { self };
            if self.get(i) != neighbour.is_some_and(|n| source.get(n)) {
                out.set(i);
            }
        }
        out
    }

    /// A plane of a cube is a word and a row a byte of it.
    fn transform_cube(&self) -> Self {
        let mut out = *self;
        for z in (1..8).rev() {
            out.words[z] ^= out.words[z - 1];
        }
        let first = self.words[0];
        out.words[0] = first ^ (first << 8) ^ ((first << 1) & 0xFE);
        out.words[8..].fill(0);
        out
    }

    fn untransform_cube(&self) -> Self {
        let mut out = *self;
        let mut first = out.words[0];
        // Prefix exclusive ors by doubling: along the first row, then down the rows.
        let mut row = first & 0xFF;
        for shift in [1, 2, 4] {
            row ^= (row << shift) & 0xFF;
        }
        first = (first & !0xFF) | row;
        for shift in [8, 16, 32] {
            first ^= first << shift;
        }
        out.words[0] = first;
        for z in 1..8 {
            out.words[z] ^= out.words[z - 1];
        }
        out.words[8..].fill(0);
        out
    }
}

/// How much of a tile is masked; the discriminant is the code in the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum MaskKind {
    /// Nothing.
    #[default]
    Nothing = 0,
    /// Every element.
    All = 1,
    /// Some, by a bitmap.
    Bitmap = 2,
}

impl MaskKind {
    /// Kind with this code in the stream.
    pub fn from_code(code: u8) -> Option<Self> {
        [Self::Nothing, Self::All, Self::Bitmap].into_iter().find(|k| *k as u8 == code)
    }

    /// Kind of a mask of a tile of `len` elements.
    pub fn of(mask: &TileMask, len: usize) -> Self {
        match mask.count() {
            0 => Self::Nothing,
            count if count == len => Self::All,
            _ => Self::Bitmap,
        }
    }
}

/// Fill patterns in a tile.
#[derive(Clone, Copy, Debug)]
pub struct TileFill {
    /// How much of the tile is masked.
    pub kind: MaskKind,
    /// Number of the pattern that the mask stands for, 0 if nothing is masked.
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
            let mask = crate::arch::float::matches(x, T::from_bits(pattern));
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

/// Gives each excluded (masked or verbatim) element the integer of the last one before it in its row that is not excluded, else its predecessor's:
/// the row's before it, at x = 0. Before the first element that is not excluded all get that element's integer, which becomes the base; with
/// everything excluded, `previous_base`.
///
/// # Panics
/// `q` has not the extents' length or is empty.
pub fn fill_excluded(q: &mut [i32], extent: [usize; 3], excluded: &TileMask, previous_base: i32) {
    let [_, ny, nx] = extent;
    let base = (0..q.len()).find(|&i| !excluded.get(i)).map_or(previous_base, |i| q[i]);
    for row in 0..q.len() / nx {
        let start = row * nx;
        let mut last = if row == 0 {
            base
        } else if row.is_multiple_of(ny) {
            q[start - ny * nx]
        } else {
            q[start - nx]
        };
        for (x, value) in q[start..start + nx].iter_mut().enumerate() {
            if excluded.get(start + x) {
                *value = last;
            } else {
                last = *value;
            }
        }
    }
}

/// Writes a fill pattern over the masked elements.
pub fn restore_fill<T: Real>(x: &mut [T], mask: &TileMask, pattern: u64) {
    for (i, word) in mask.words().iter().enumerate().filter(|(_, w)| **w != 0) {
        for (bit, x) in x.iter_mut().skip(i * 64).take(64).enumerate() {
            if word >> bit & 1 != 0 {
                *x = T::from_bits(pattern);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::lorenzo::tests::any_extent;
    use proptest::prelude::*;

    fn mask_of(seed: u64, len: usize, shift: u32) -> TileMask {
        let mut mask = TileMask::default();
        for i in 0..len {
            if seed.wrapping_mul(i as u64 / 5 * 2 + 1) >> 57 >= u64::from(shift) {
                mask.set(i);
            }
        }
        mask
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
        fill_excluded(&mut q, [2, 2, 2], &excluded, 77);
        assert_eq!(q, [1, 1, 1, 1, 1, 1, 4, 4]);
        fill_excluded(&mut q, [2, 2, 2], &TileMask::full(8), 77);
        assert_eq!(q, [77; 8]);
    }

    proptest! {
        #[test]
        fn bitmaps_round_trip(extent in any_extent(), seed in any::<u64>(), shift in 0u32..130) {
            let len = extent.iter().product();
            let mask = mask_of(seed, len, shift);
            let mut bytes = vec![0xAA; 3];
            mask.store(extent, &mut bytes);
            prop_assert_eq!(TileMask::load(&bytes[3..], extent), mask);
            prop_assert_eq!(mask.ones().collect::<Vec<_>>(), (0..len).filter(|&i| mask.get(i)).collect::<Vec<_>>());
        }

        #[test]
        fn cubes_are_transformed_by_the_neighbour_rule(words in any::<[u64; 8]>()) {
            let mut mask = TileMask::default();
            mask.words[..8].copy_from_slice(&words);
            let out = mask.transform([8, 8, 8], false);
            for i in 0..512 {
                let neighbour = if i >= 64 { mask.get(i - 64) } else if i >= 8 { mask.get(i - 8) } else { i > 0 && mask.get(i - 1) };
                prop_assert_eq!(out.get(i), mask.get(i) != neighbour);
            }
        }

        #[test]
        fn hostile_bitmaps_load(extent in any_extent(), byte in any::<u8>()) {
            let len = extent.iter().product();
            let mask = TileMask::load(&vec![byte; TileMask::stored_bytes(len)], extent);
            prop_assert_eq!(mask.without(&TileMask::full(len)), TileMask::default());
        }
    }
}
