//! Planes of a lossless chunk: symbol `i` (a byte or 16 bits) of every residual, least significant first.

use super::word::Word;

/// Symbols in a group of a plane; a tile's share of a plane is padded to a multiple of it.
pub const PLANE_GROUP: usize = 64;

/// A plane's symbol: `u8` or `u16`.
pub trait Symbol: Word {}
impl Symbol for u8 {}
impl Symbol for u16 {}

/// Returns the number of planes of symbols `S` that words `W` take.
pub const fn plane_count<W: Word, S: Symbol>() -> usize {
    size_of::<W>().div_ceil(size_of::<S>())
}

/// Appends a tile's residuals to the planes, one vector a plane, each padded with 0 to a multiple of [`PLANE_GROUP`].
pub fn split<W: Word, S: Symbol>(words: &[W], planes: &mut [Vec<S>]) {
    let padding = words.len().next_multiple_of(PLANE_GROUP) - words.len();
    for (i, plane) in planes.iter_mut().enumerate() {
        let shift = i as u32 * S::BITS;
        plane.extend(words.iter().map(|w| S::narrow(w.widen() >> shift)));
        plane.extend(std::iter::repeat_n(S::ZERO, padding));
    }
}

/// Puts a tile's residuals together again from its share of each plane. `planes` yields the planes, least significant
/// first.
pub fn merge<'p, W: Word, S: Symbol>(planes: impl IntoIterator<Item = &'p [S]>, words: &mut [W]) {
    for (i, plane) in planes.into_iter().enumerate() {
        let shift = i as u32 * S::BITS;
        for (w, s) in words.iter_mut().zip(plane) {
            let low = if i == 0 { 0 } else { w.widen() };
            *w = W::narrow(low | s.widen() << shift);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip<W: Word, S: Symbol>(n: u64) {
        let words: Vec<W> = (0..n).map(|i| W::narrow(0x9E37_79B9_7F4A_7C15u64.wrapping_mul(i))).collect();
        let mut planes = vec![Vec::<S>::new(); plane_count::<W, S>()];
        split(&words[..n as usize / 2], &mut planes);
        let first = planes[0].len();
        split(&words[n as usize / 2..], &mut planes);
        assert_eq!(planes[0].len() % PLANE_GROUP, 0);
        let mut back = vec![W::narrow(u64::MAX); words.len()];
        merge(planes.iter().map(|p| &p[..]), &mut back[..n as usize / 2]);
        merge(planes.iter().map(|p| &p[first..]), &mut back[n as usize / 2..]);
        assert_eq!(back, words);
    }

    #[test]
    fn planes_round_trip() {
        for n in [0, 1, 64, 333, 2048] {
            round_trip::<u8, u8>(n);
            round_trip::<u16, u8>(n);
            round_trip::<u32, u8>(n);
            round_trip::<u64, u8>(n);
            round_trip::<u16, u16>(n);
            round_trip::<u32, u16>(n);
            round_trip::<u64, u16>(n);
        }
    }
}
