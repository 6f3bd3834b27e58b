//! Elements left out of a tile's prediction: fill patterns, verbatim values; and the sign bitmaps of the logarithmic
//! pipeline.

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

    /// Appends the bitmap as stored: each bit's exclusive or with its neighbor's.
    pub fn store(&self, extent: [usize; 3], out: &mut Vec<u8>) {
        let transformed = self.transform(extent);
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
        mask.untransform(extent)
    }

    /// The first `len` bits.
    fn first(&self, len: usize) -> Self {
        let full = Self::full(len);
        Self { words: std::array::from_fn(|i| self.words[i] & full.words[i]) }
    }

    /// Each bit's exclusive or with the one `distance` before it, from bit `distance` on.
    #[inline]
    fn difference(&self, distance: usize) -> Self {
        let (words, bits) = (distance / 64, distance % 64);
        let mut out = *self;
        for i in (words..out.words.len()).rev() {
            out.words[i] ^= self.words[i - words] << bits;
            if bits > 0 && i > words {
                out.words[i] ^= self.words[i - words - 1] >> (64 - bits);
            }
        }
        out
    }

    /// Inverse of [`Self::difference`] on the first `len` bits, by doubling the distance.
    #[inline]
    fn prefix(&self, distance: usize, len: usize) -> Self {
        let mut out = *self;
        let mut distance = distance;
        while distance < len {
            out = out.difference(distance);
            distance *= 2;
        }
        out
    }

    /// Each bit's exclusive or with its neighbor's: the one before it in the first row, above it in the first plane,
    /// else in the plane before.
    fn transform(&self, [nz, ny, nx]: [usize; 3]) -> Self {
        let (row, plane) = (Self::full(nx), Self::full(ny * nx));
        let rows = self.difference(nx).without(&row).union(&self.difference(1).first(nx));
        self.difference(ny * nx).without(&plane).union(&rows.first(ny * nx)).first(nz * ny * nx)
    }

    /// Inverse of [`Self::transform`].
    fn untransform(&self, [nz, ny, nx]: [usize; 3]) -> Self {
        let (row, plane) = (Self::full(nx), Self::full(ny * nx));
        let first_row = self.prefix(1, nx).first(nx);
        let first_plane = self.without(&row).union(&first_row).prefix(nx, ny * nx).first(ny * nx);
        self.without(&plane).union(&first_plane).prefix(ny * nx, nz * ny * nx).first(nz * ny * nx)
    }

    /// Bits from `start` on, at most 64 of them.
    #[inline]
    fn bits(&self, start: usize, len: usize) -> u64 {
        let (word, bit) = (start / 64, start % 64);
        let low = self.words[word] >> bit;
        let high = if bit > 0 && word + 1 < self.words.len() { self.words[word + 1] << (64 - bit) } else { 0 };
        (low | high) & (u64::MAX >> (64 - len))
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

/// Gives each excluded (masked or verbatim) element the integer of the last one before it in its row that is not
/// excluded, else its predecessor's: the row's before it, at x = 0. Before the first element that is not excluded all
/// get that element's integer, which becomes the base; with everything excluded, `previous_base`.
///
/// # Panics
/// `q` has not the extents' length or is empty.
pub fn fill_excluded(q: &mut [i32], extent: [usize; 3], excluded: &TileMask, previous_base: i32) {
    let [_, ny, nx] = extent;
    let valid = TileMask::full(q.len()).without(excluded);
    let Some(base) = valid.ones().next().map(|i| q[i]) else {
        return q.fill(previous_base);
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
}

/// Writes a fill pattern over the masked elements.
pub fn restore_fill<T: Real>(x: &mut [T], mask: &TileMask, pattern: u64) {
    crate::arch::float::select(x, mask, T::from_bits(pattern));
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
        fn bits_are_transformed_by_the_neighbor_rule(extent in any_extent(), words in any::<[u64; 16]>()) {
            let [_, ny, nx] = extent;
            let len = extent.iter().product();
            let mask = TileMask { words }.first(len);
            let out = mask.transform(extent);
            for i in 0..len {
                let (z, y, x) = (i / (ny * nx), i / nx % ny, i % nx);
                let neighbor = match (z, y, x) {
                    (1.., ..) => mask.get(i - ny * nx),
                    (_, 1.., _) => mask.get(i - nx),
                    (_, _, 1..) => mask.get(i - 1),
                    _ => false,
                };
                prop_assert_eq!(out.get(i), mask.get(i) != neighbor);
            }
            prop_assert_eq!(out.untransform(extent), mask);
        }

        #[test]
        fn excluded_elements_are_filled_as_defined(extent in any_extent(), words in any::<[u64; 16]>(), and in any::<[u64; 16]>(), or in any::<bool>()) {
            let [_, ny, nx] = extent;
            let len = extent.iter().product();
            let words = std::array::from_fn(|i| if or { words[i] | and[i] } else { words[i] & and[i] });
            let excluded = TileMask { words }.first(len);
            let q: Vec<i32> = (100..100 + len as i32).collect();
            let mut filled = q.clone();
            fill_excluded(&mut filled, extent, &excluded, 7);
            let mut expected = q.clone();
            let base = (0..len).find(|&i| !excluded.get(i)).map_or(7, |i| q[i]);
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

        #[test]
        fn hostile_bitmaps_load(extent in any_extent(), byte in any::<u8>()) {
            let len = extent.iter().product();
            let mask = TileMask::load(&vec![byte; TileMask::stored_bytes(len)], extent);
            prop_assert_eq!(mask.without(&TileMask::full(len)), TileMask::default());
        }
    }
}
