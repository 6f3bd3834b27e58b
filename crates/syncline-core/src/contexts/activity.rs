//! The context of an element: its level, and the magnitudes of the codes around it.

#[cfg(target_arch = "x86_64")]
mod avx2;

use crate::predict::levels::{Classes, Level};
use crate::simd::InstructionSet;

/// Contexts of a kind of elements: half octaves of the mean magnitude, two thirds as many of large ones.
pub const BINS: usize = 23;
/// Kinds of elements: those of the finest level by the number of axes along which they are interpolated, those of the
/// next level, and the others.
pub const CLASSES: usize = 5;
/// The number of contexts.
pub const CONTEXTS: usize = CLASSES * BINS;

/// Magnitudes count as no more than this.
const LARGEST: i32 = 4095;

/// The part of a row of a class that belongs to a unit, whose other elements alone are known where the row is decoded.
#[derive(Clone, Copy, Debug)]
pub struct Unit {
    /// First element of the part, and one past its last.
    pub x: [usize; 2],
    /// Ends of the unit along each axis, in elements of a class.
    pub ends: [usize; 3],
}

/// Returns the half octave of 3 + 2 `activity`, counted from that of 3. Exact: the number fits an f32.
#[inline(always)]
fn half_octave(activity: i32) -> u32 {
    (((3 + 2 * activity) as f32).to_bits() >> HALF_OCTAVE_SHIFT) - FIRST_HALF_OCTAVE
}

/// Bits of an f32 below its exponent and the highest of its fraction, and what is left of 3.0 without them.
const HALF_OCTAVE_SHIFT: i32 = 22;
const FIRST_HALF_OCTAVE: u32 = 3.0f32.to_bits() >> HALF_OCTAVE_SHIFT;

/// What each half octave stands for, in elements of a kind: a context, or a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HalfOctaves(pub [u8; 32]);

/// Returns the context of each half octave in elements of a kind.
pub fn half_octaves(kind: usize) -> HalfOctaves {
    const LAST_OWN: usize = 10;
    let bin = |half_octave: usize| match half_octave.checked_sub(LAST_OWN) {
        None => half_octave,
        Some(above) => (LAST_OWN + above * 2 / 3).min(BINS - 1),
    };
    HalfOctaves(std::array::from_fn(|half_octave| (kind * BINS + bin(half_octave)) as u8))
}

/// Returns the kind of the elements of a class of level `number`.
pub fn kind_of(number: usize, class: usize) -> usize {
    match number {
        0 => class.count_ones() as usize - 1,
        1 => 3,
        _ => 4,
    }
}

/// Computes what the half octaves of the elements of a part of a row of a class stand for.
///
/// `activity` is 12 times the mean magnitude of the codes at the neighbors that elements are interpolated from; a
/// neighbor that does not exist or is of another unit counts as the one on the other side.
#[inline(always)]
pub fn context_row<I: InstructionSet>(
    isa: I,
    (lattice, codes): (&[i32], &Classes<i32>),
    (level, number): (&Level, usize),
    class: usize,
    at: [usize; 2],
    unit: &Unit,
    (half_octaves, sums, out): (&HalfOctaves, &mut [i32], &mut [u8]),
) {
    #[cfg(not(target_arch = "x86_64"))]
    let _ = isa;
    let [start, end] = unit.x;
    let sums = &mut sums[..end - start];
    let mut is_first = true;
    for axis in (0..3).filter(|axis| class >> axis & 1 != 0) {
        let from = class ^ 1 << axis;
        let all = if from == 0 { lattice } else { &codes[from] };
        let extent = level.class(from);
        let limit = if from == 0 || number > 0 { extent[axis] } else { extent[axis].min(unit.ends[axis]) };
        let row = |z: usize, y: usize| &all[(z * extent[1] + y) * extent[2]..][..extent[2]];
        if axis == 2 {
            let row = row(at[0], at[1]);
            let both = sums.len().min(limit.saturating_sub(start + 1));
            add(is_first, &mut sums[..both], &row[start..], &row[start + 1..]);
            add(is_first, &mut sums[both..], &row[start + both..], &row[start + both..]);
        } else {
            let j = at[axis];
            let other = |j: usize| if axis == 0 { row(j, at[1]) } else { row(at[0], j) };
            let after = if j + 1 < limit { j + 1 } else { j };
            add(is_first, sums, &other(j)[start..], &other(after)[start..]);
        }
        is_first = false;
    }
    let weight = 6 / class.count_ones() as i32;
    sums.iter_mut().for_each(|sum| *sum *= weight);
    let out = &mut out[..sums.len()];
    #[cfg(target_arch = "x86_64")]
    let done = isa.avx2().map_or(0, |token| avx2::look_up(token, sums, half_octaves, out));
    #[cfg(not(target_arch = "x86_64"))]
    let done = 0;
    for (out, &sum) in out[done..].iter_mut().zip(&sums[done..]) {
        *out = half_octaves.0[half_octave(sum) as usize % 32];
    }
}

#[inline(always)]
fn add(is_first: bool, sums: &mut [i32], a: &[i32], b: &[i32]) {
    let (a, b) = (&a[..sums.len()], &b[..sums.len()]);
    if is_first {
        for k in 0..sums.len() {
            sums[k] = a[k].abs().min(LARGEST) + b[k].abs().min(LARGEST);
        }
    } else {
        for k in 0..sums.len() {
            sums[k] += a[k].abs().min(LARGEST) + b[k].abs().min(LARGEST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_ascend_without_gaps() {
        let mut last = 0;
        let bins = half_octaves(0);
        for activity in 0..=12 * LARGEST {
            let own = bins.0[half_octave(activity) as usize];
            assert!(own == last || own == last + 1, "{activity}");
            last = own;
        }
        assert_eq!(last as usize + 1, BINS);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn vectors_look_up_what_single_elements_do() {
        let Some(token) = crate::simd::Avx2::detected() else { return };
        let (sums, table): (Vec<i32>, _) =
            ((0..=12 * LARGEST).collect(), HalfOctaves(std::array::from_fn(|i| i as u8 * 7)));
        let mut out = vec![0; sums.len()];
        let done = avx2::look_up(token, &sums, &table, &mut out);
        assert_eq!(done, sums.len() / 8 * 8);
        assert!(out[..done].iter().zip(&sums).all(|(&out, &sum)| out == table.0[half_octave(sum) as usize]));
    }
}
