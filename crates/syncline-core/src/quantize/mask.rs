//! Bitmaps of a tile's elements, and how they are stored: masked elements, verbatim values, and signs.

use crate::geometry::MAX_TILE_ELEMENTS;

/// The largest number of patterns whose elements are masked, in a stream.
pub const MAX_PATTERNS: usize = 4;

/// One bit for each element of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileMask {
    words: [u64; WORDS],
}

const WORDS: usize = MAX_TILE_ELEMENTS / 64;

/// Elements whose bits form a code.
const CODE_BITS: usize = 4;
const CODES_OF_WORD: usize = 64 / CODE_BITS;

impl Default for TileMask {
    fn default() -> Self {
        Self { words: [0; WORDS] }
    }
}

impl TileMask {
    /// Returns a mask of the first `len` elements.
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

    /// Returns the bit of element `i`.
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

    /// Returns the bits, 64 elements per word.
    pub fn words(&self) -> &[u64; WORDS] {
        &self.words
    }

    /// Returns whether any bit is set.
    #[inline]
    pub fn any(&self) -> bool {
        self.words.iter().any(|&w| w != 0)
    }

    /// Returns the number of bits that are set.
    pub fn count(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Returns the elements in either mask.
    pub fn union(&self, other: &Self) -> Self {
        Self { words: std::array::from_fn(|i| self.words[i] | other.words[i]) }
    }

    /// Returns the elements in this mask but not in the other.
    pub fn without(&self, other: &Self) -> Self {
        Self { words: std::array::from_fn(|i| self.words[i] & !other.words[i]) }
    }

    /// Returns the indices of the elements whose bits are set, ascending.
    pub fn ones(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(i, &word)| {
            std::iter::successors((word != 0).then_some(word), |w| Some(w & (w - 1)).filter(|&w| w != 0))
                .map(move |w| i * 64 + w.trailing_zeros() as usize)
        })
    }

    /// Returns the number of codes of the bitmap of a tile of `len` elements.
    pub const fn codes_of(len: usize) -> usize {
        len.div_ceil(CODE_BITS)
    }

    /// Writes the bitmap as codes from -8 to 7, each of the exclusive or of four bits with their neighbors'.
    ///
    /// # Panics
    /// There are not [`TileMask::codes_of`] the tile.
    pub fn to_codes(&self, extent: [usize; 3], codes: &mut [i32]) {
        assert_eq!(codes.len(), Self::codes_of(extent.iter().product()));
        let transformed = self.transform(extent);
        for (codes, word) in codes.chunks_mut(CODES_OF_WORD).zip(transformed.words) {
            for (place, code) in codes.iter_mut().enumerate() {
                let bits = (word >> (CODE_BITS * place)) as i32 & 15;
                *code = (bits ^ 8) - 8;
            }
        }
    }

    /// Appends the bitmap as bytes: the exclusive or of each bit with its neighbor's, eight elements a byte.
    pub fn to_bytes(&self, extent: [usize; 3], out: &mut Vec<u8>) {
        let bytes = extent.iter().product::<usize>().div_ceil(8);
        out.extend(self.transform(extent).words.iter().flat_map(|word| word.to_le_bytes()).take(bytes));
    }

    /// Returns the bitmap of bytes; the inverse of [`TileMask::to_bytes`]. Bits past the tile's elements are ignored.
    ///
    /// # Panics
    /// There are more bytes than a tile may have.
    pub fn from_bytes(bytes: &[u8], extent: [usize; 3]) -> Self {
        let mut mask = Self::default();
        for (word, bytes) in mask.words.iter_mut().zip(bytes.chunks(8)) {
            *word = bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        }
        mask.untransform(extent)
    }

    /// Returns the bitmap of codes; the inverse of [`TileMask::to_codes`]. Bits past the tile's elements are ignored.
    /// Returns `None` if a code is not from -8 to 7.
    ///
    /// # Panics
    /// There are not [`TileMask::codes_of`] the tile.
    pub fn from_codes(codes: &[[i32; 1]], extent: [usize; 3]) -> Option<Self> {
        assert_eq!(codes.len(), Self::codes_of(extent.iter().product()));
        let mut mask = Self::default();
        for (word, codes) in mask.words.iter_mut().zip(codes.chunks(CODES_OF_WORD)) {
            for (place, &[code]) in codes.iter().enumerate() {
                if !(-8..8).contains(&code) {
                    return None;
                }
                *word |= (code as u64 & 15) << (CODE_BITS * place);
            }
        }
        Some(mask.untransform(extent))
    }

    /// Returns the mask without the bits from `len` on.
    fn first(&self, len: usize) -> Self {
        let full = Self::full(len);
        Self { words: std::array::from_fn(|i| self.words[i] & full.words[i]) }
    }

    /// Returns the exclusive or of each of the first `len` bits with the bit `distance` before it, starting at bit
    /// `distance`.
    #[inline]
    fn difference(&self, distance: usize, len: usize) -> Self {
        let (words, bits) = (distance / 64, distance % 64);
        let mut out = *self;
        for i in (words..len.div_ceil(64)).rev() {
            out.words[i] ^= self.words[i - words] << bits;
            if bits > 0 && i > words {
                out.words[i] ^= self.words[i - words - 1] >> (64 - bits);
            }
        }
        out
    }

    /// Inverts [`Self::difference`] on the first `len` bits, by doubling the distance.
    #[inline]
    fn prefix(&self, distance: usize, len: usize) -> Self {
        let mut out = *self;
        let mut distance = distance;
        while distance < len {
            out = out.difference(distance, len);
            distance *= 2;
        }
        out
    }

    /// Returns the exclusive or of each bit with its neighbor's: the previous bit in the first row, the bit above in
    /// the rest of the first plane, and the bit in the previous plane otherwise.
    fn transform(&self, [nz, ny, nx]: [usize; 3]) -> Self {
        let (row, plane, len) = (Self::full(nx), Self::full(ny * nx), nz * ny * nx);
        let rows = self.difference(nx, len).without(&row).union(&self.difference(1, len).first(nx));
        self.difference(ny * nx, len).without(&plane).union(&rows.first(ny * nx)).first(len)
    }

    /// Inverts [`Self::transform`].
    fn untransform(&self, [nz, ny, nx]: [usize; 3]) -> Self {
        let (row, plane) = (Self::full(nx), Self::full(ny * nx));
        let first_row = self.prefix(1, nx).first(nx);
        let first_plane = self.without(&row).union(&first_row).prefix(nx, ny * nx).first(ny * nx);
        self.without(&plane).union(&first_plane).prefix(ny * nx, nz * ny * nx).first(nz * ny * nx)
    }

    /// Returns the bits starting at `start`, at most 64.
    #[inline]
    pub(super) fn bits(&self, start: usize, len: usize) -> u64 {
        let (word, bit) = (start / 64, start % 64);
        let low = self.words[word] >> bit;
        let high = if bit > 0 && word + 1 < self.words.len() { self.words[word + 1] << (64 - bit) } else { 0 };
        (low | high) & (u64::MAX >> (64 - len))
    }
}

/// Whether nothing, everything, or a part of a tile is masked. The discriminant is the code in the stream.
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
    /// Returns the kind with this code in the stream.
    pub fn from_code(code: u8) -> Option<Self> {
        [Self::Nothing, Self::All, Self::Bitmap].into_iter().find(|k| *k as u8 == code)
    }

    /// Returns the kind of a mask of a tile of `len` elements.
    pub fn of(mask: &TileMask, len: usize) -> Self {
        match mask.count() {
            0 => Self::Nothing,
            count if count == len => Self::All,
            _ => Self::Bitmap,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Extents of a tile: ragged, or one of the full ones.
    pub(crate) fn any_extent() -> impl Strategy<Value = [usize; 3]> {
        prop_oneof![
            (1usize..=9, 1usize..=9, 1usize..=9).prop_map(|(z, y, x)| [z.min(8), y.min(8), x.min(8)]),
            (1usize..=32, 1usize..=32).prop_map(|(y, x)| [1, y, x]),
            (1usize..=1024).prop_map(|x| [1, 1, x]),
            Just([8, 8, 8]),
            Just([1, 32, 32]),
            Just([1, 1, 1024]),
        ]
    }

    fn mask_of(seed: u64, len: usize, shift: u32) -> TileMask {
        let mut mask = TileMask::default();
        for i in 0..len {
            if seed.wrapping_mul(i as u64 / 5 * 2 + 1) >> 57 >= u64::from(shift) {
                mask.set(i);
            }
        }
        mask
    }

    proptest! {
        #[test]
        fn bitmaps_round_trip(extent in any_extent(), seed in any::<u64>(), shift in 0u32..130) {
            let len = extent.iter().product();
            let mask = mask_of(seed, len, shift);
            let mut codes = vec![[0xAA]; TileMask::codes_of(len)];
            mask.to_codes(extent, codes.as_flattened_mut());
            prop_assert_eq!(TileMask::from_codes(&codes, extent), Some(mask));
            prop_assert_eq!(mask.ones().collect::<Vec<_>>(), (0..len).filter(|&i| mask.get(i)).collect::<Vec<_>>());
        }

        #[test]
        fn bits_are_transformed_by_the_neighbor_rule(
            extent in any_extent(), words in prop::collection::vec(any::<u64>(), WORDS),
        ) {
            let [_, ny, nx] = extent;
            let len = extent.iter().product();
            let mask = TileMask { words: words.try_into().unwrap() }.first(len);
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
        fn hostile_bitmaps_load(extent in any_extent(), code in -10..10i32) {
            let len = extent.iter().product();
            let mask = TileMask::from_codes(&vec![[code]; TileMask::codes_of(len)], extent);
            prop_assert_eq!(mask.is_some(), (-8..8).contains(&code));
            prop_assert_eq!(mask.unwrap_or_default().without(&TileMask::full(len)), TileMask::default());
        }
    }
}
