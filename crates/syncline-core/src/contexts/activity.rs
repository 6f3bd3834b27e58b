//! The context of an element: its level, and the magnitudes of the codes around it.

use crate::predict::levels::{Classes, Level};

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
    /// Whether the slice before belongs to the unit.
    pub has_before: bool,
}

/// Returns the half octave of 3 + 2 `activity`, counted from that of 3. Exact: the number fits an f32.
#[inline(always)]
fn half_octave(activity: i32) -> u32 {
    const THREE: u32 = 3.0f32.to_bits() >> 22;
    (((3 + 2 * activity) as f32).to_bits() >> 22) - THREE
}

/// Returns the bin of a half octave.
#[inline(always)]
fn bin(half_octave: u32) -> u32 {
    const LAST_OWN: u32 = 10;
    if half_octave <= LAST_OWN { half_octave } else { LAST_OWN + (half_octave - LAST_OWN) * 2 / 3 }
}

/// Computes the contexts of a part of a row of a class.
///
/// `activity` is 12 times the mean magnitude of the codes at the neighbors that elements are interpolated from; a
/// neighbor that does not exist or is of another unit counts as the one on the other side. In slices, it is the mean
/// of that and of 12 times the magnitude at the same place of the slice before, if that is known.
#[inline(always)]
pub fn context_row(
    (lattice, codes): (&[i32], &Classes<i32>),
    (level, number): (&Level, usize),
    class: usize,
    at: [usize; 2],
    unit: &Unit,
    (sums, out): (&mut Vec<i32>, &mut [u8]),
) {
    let [start, end] = unit.x;
    let count = end - start;
    sums.clear();
    sums.resize(count, 0);
    let sums = &mut sums[..count];
    for axis in (0..3).filter(|axis| class >> axis & 1 != 0) {
        let from = class ^ 1 << axis;
        let all = if from == 0 { lattice } else { &codes[from] };
        let extent = level.class(from);
        let limit = if from == 0 || number > 0 { extent[axis] } else { extent[axis].min(unit.ends[axis]) };
        let row = |z: usize, y: usize| &all[(z * extent[1] + y) * extent[2]..][..extent[2]];
        if axis == 2 {
            let row = row(at[0], at[1]);
            let both = count.min(limit.saturating_sub(start + 1));
            add(&mut sums[..both], &row[start..], &row[start + 1..]);
            add(&mut sums[both..], &row[start + both..], &row[start + both..]);
        } else {
            let j = at[axis];
            let other = |j: usize| if axis == 0 { row(j, at[1]) } else { row(at[0], j) };
            let after = if j + 1 < limit { j + 1 } else { j };
            add(sums, &other(j)[start..], &other(after)[start..]);
        }
    }
    let stage = class.count_ones() as i32;
    let weight = 6 / stage;
    if unit.has_before {
        let extent = level.class(class);
        let before = &codes[class][((at[0] - 1) * extent[1] + at[1]) * extent[2] + start..][..count];
        for (sum, before) in sums.iter_mut().zip(before) {
            *sum = (*sum * weight + 12 * before.abs().min(LARGEST)) >> 1;
        }
    } else {
        sums.iter_mut().for_each(|sum| *sum *= weight);
    }
    let kind = match number {
        0 => stage as u32 - 1,
        1 => 3,
        _ => 4,
    };
    for (out, &sum) in out[..count].iter_mut().zip(&*sums) {
        *out = (kind * BINS as u32 + bin(half_octave(sum))) as u8;
    }
}

#[inline(always)]
fn add(sums: &mut [i32], a: &[i32], b: &[i32]) {
    let (a, b) = (&a[..sums.len()], &b[..sums.len()]);
    for k in 0..sums.len() {
        sums[k] += a[k].abs().min(LARGEST) + b[k].abs().min(LARGEST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_ascend_without_gaps() {
        let mut last = 0;
        for activity in 0..=12 * LARGEST {
            let own = bin(half_octave(activity));
            assert!(own == last || own == last + 1, "{activity}");
            last = own;
        }
        assert_eq!(last as usize + 1, BINS);
    }
}
