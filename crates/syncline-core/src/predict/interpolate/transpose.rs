//! Tiles one after another to tiles side by side, and back.

use crate::simd::{self, InstructionSet, Kernel};

/// Writes the first `count` elements of each tile to a lane of `out`.
///
/// # Panics
/// A tile or `out` is shorter.
pub fn interleave<V: Copy, const L: usize>(tiles: [&[V]; L], out: &mut [[V; L]], count: usize) {
    simd::run(Interleave { tiles: tiles.map(|tile| &tile[..count]), out: &mut out[..count] });
}

/// Writes the first elements of each lane to a tile, as many as it has.
///
/// # Panics
/// A tile is longer than `lanes`.
pub fn deinterleave<V: Copy, const L: usize>(lanes: &[[V; L]], tiles: [&mut [V]; L]) {
    simd::run(Deinterleave { lanes, tiles });
}

struct Interleave<'a, V, const L: usize> {
    tiles: [&'a [V]; L],
    out: &'a mut [[V; L]],
}

impl<V: Copy, const L: usize> Kernel for Interleave<'_, V, L> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) {
        let Self { tiles, out } = self;
        let blocks = tiles.map(|tile| tile.as_chunks::<L>());
        let (out_blocks, rest) = out.as_chunks_mut::<L>();
        for (number, out) in out_blocks.iter_mut().enumerate() {
            let block: [&[V; L]; L] = std::array::from_fn(|lane| &blocks[lane].0[number]);
            *out = std::array::from_fn(|i| std::array::from_fn(|lane| block[lane][i]));
        }
        for (i, out) in rest.iter_mut().enumerate() {
            *out = std::array::from_fn(|lane| blocks[lane].1[i]);
        }
    }
}

struct Deinterleave<'a, V, const L: usize> {
    lanes: &'a [[V; L]],
    tiles: [&'a mut [V]; L],
}

impl<V: Copy, const L: usize> Kernel for Deinterleave<'_, V, L> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) {
        let Self { lanes, mut tiles } = self;
        let longest = tiles.iter().map(|tile| tile.len()).max().unwrap_or_default();
        let (blocks, rest) = lanes[..longest].as_chunks::<L>();
        for (number, block) in blocks.iter().enumerate() {
            let block: [[V; L]; L] = std::array::from_fn(|lane| std::array::from_fn(|i| block[i][lane]));
            for (tile, values) in tiles.iter_mut().zip(&block) {
                if let Some(out) = tile.get_mut(number * L..(number + 1) * L) {
                    out.copy_from_slice(values);
                }
            }
        }
        let start = blocks.len() * L;
        for (lane, tile) in tiles.iter_mut().enumerate() {
            let out = tile.get_mut(start..).unwrap_or_default();
            out.iter_mut().zip(rest).for_each(|(out, values)| *out = values[lane]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_come_back() {
        for count in [0, 1, 7, 8, 9, 64, 100] {
            let tiles: [Vec<u16>; 8] = std::array::from_fn(|lane| (0..count).map(|i| (i * 8 + lane) as u16).collect());
            let mut lanes = vec![[0; 8]; count + 3];
            interleave(tiles.each_ref().map(Vec::as_slice), &mut lanes, count);
            assert!(lanes[..count].as_flattened().iter().enumerate().all(|(i, &v)| v == i as u16));
            // Lanes that nobody wants go nowhere.
            let mut back: [Vec<u16>; 8] = std::array::from_fn(|lane| vec![9; if lane == 3 { 0 } else { count }]);
            deinterleave(&lanes, back.each_mut().map(Vec::as_mut_slice));
            assert!(back.iter().zip(&tiles).enumerate().all(|(lane, (back, tile))| lane == 3 || back == tile));
        }
    }
}
