//! Tiles one after another to tiles side by side, and back.

use bytemuck::Pod;

use crate::simd::{self, InstructionSet, Kernel};

/// Writes the first `count` elements of each tile to a lane of `out`.
///
/// # Panics
/// A tile or `out` is shorter.
pub fn interleave<V: Pod, const L: usize>(tiles: [&[V]; L], out: &mut [[V; L]], count: usize) {
    simd::run(Interleave { tiles: tiles.map(|tile| &tile[..count]), out: &mut out[..count] });
}

/// Writes the first elements of each lane to a tile, as many as it has.
///
/// # Panics
/// A tile is longer than `lanes`.
pub fn deinterleave<V: Pod, const L: usize>(lanes: &[[V; L]], tiles: [&mut [V]; L]) {
    simd::run(Deinterleave { lanes, tiles });
}

struct Interleave<'a, V, const L: usize> {
    tiles: [&'a [V]; L],
    out: &'a mut [[V; L]],
}

impl<V: Pod, const L: usize> Kernel for Interleave<'_, V, L> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, isa: I) {
        let Self { tiles, out } = self;
        let blocks = tiles.map(|tile| tile.as_chunks::<L>());
        let (out_blocks, rest) = out.as_chunks_mut::<L>();
        for (number, out) in out_blocks.iter_mut().enumerate() {
            *out = transpose(isa, std::array::from_fn(|lane| blocks[lane].0[number]));
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

impl<V: Pod, const L: usize> Kernel for Deinterleave<'_, V, L> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, isa: I) {
        let Self { lanes, mut tiles } = self;
        let longest = tiles.iter().map(|tile| tile.len()).max().unwrap_or_default();
        let (blocks, rest) = lanes[..longest].as_chunks::<L>();
        for (number, block) in blocks.iter().enumerate() {
            let block = transpose(isa, *block);
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

/// Returns the columns of a square as rows.
#[inline(always)]
fn transpose<I: InstructionSet, V: Pod, const L: usize>(isa: I, block: [[V; L]; L]) -> [[V; L]; L] {
    #[cfg(target_arch = "x86_64")]
    if let (true, Some(token)) = (L == 8 && size_of::<V>() == 4, isa.avx2()) {
        let mut out = block;
        let rows: &mut [[i32; 8]] = bytemuck::cast_slice_mut(out.as_flattened_mut());
        if let Some(rows) = rows.first_chunk_mut::<8>() {
            crate::predict::avx2::transpose(token, rows);
        }
        return out;
    }
    let _ = isa;
    std::array::from_fn(|i| std::array::from_fn(|lane| block[lane][i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_of_any_width_come_back() {
        check(|number| number as u16, 9);
        check(|number| number as u32, 9);
        check(|number| number as f64, 9.0);
    }

    fn check<V: Pod + PartialEq>(value: impl Fn(usize) -> V, other: V) {
        for count in [0, 1, 7, 8, 9, 64, 100] {
            let tiles: [Vec<V>; 8] = std::array::from_fn(|lane| (0..count).map(|i| value(i * 8 + lane)).collect());
            let mut lanes = vec![[V::zeroed(); 8]; count + 3];
            interleave(tiles.each_ref().map(Vec::as_slice), &mut lanes, count);
            assert!(lanes[..count].as_flattened().iter().enumerate().all(|(i, &v)| v == value(i)));
            // Lanes that nobody wants go nowhere.
            let mut back: [Vec<V>; 8] = std::array::from_fn(|lane| vec![other; if lane == 3 { 0 } else { count }]);
            deinterleave(&lanes, back.each_mut().map(Vec::as_mut_slice));
            assert!(back.iter().zip(&tiles).enumerate().all(|(lane, (back, tile))| lane == 3 || back == tile));
        }
    }
}
