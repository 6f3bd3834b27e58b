//! The context of an element: its level, and the magnitudes of the codes around it, or how many of them are masks.

#[cfg(target_arch = "x86_64")]
mod avx2;

use super::symbol::CODE_LIMIT;
use crate::predict::levels::{Classes, Level};
use crate::simd::InstructionSet;

/// Contexts of a kind of elements without masks around them: half octaves of the mean magnitude, half as many of large
/// ones.
const BINS: usize = 20;
/// Contexts of a kind of elements that are between masks: fewer than half of the neighbors are, at least half, or all.
const AMONG_MASKS: usize = 3;
/// Contexts of a kind of elements.
pub const OF_KIND: usize = BINS + AMONG_MASKS;
/// Kinds of elements: those of the finest level by the number of axes along which they are interpolated, those of the
/// next level, and the others.
pub const KINDS: usize = 5;
/// The contexts of the flags of segments, by the kind of their elements, and of the quiet elements of segments whose
/// flag is set.
const FLAGS: usize = KINDS * OF_KIND;
const FLAGGED: usize = FLAGS + KINDS;
/// The number of contexts.
pub const CONTEXTS: usize = FLAGGED + KINDS;

/// Magnitudes count as no more than this.
const LARGEST: i32 = 4095;
/// What a mask counts in the place of a magnitude. All magnitudes around an element sum to less.
const MASK: i32 = 1 << MASK_SHIFT;
const MASK_SHIFT: u32 = 16;
/// The weighted number of neighbors.
const NEIGHBORS: i32 = 12;

/// Contexts that have a meaning beside magnitudes, of elements of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Contexts {
    /// All codes around are 0.
    pub quiet: u8,
    /// All neighbors are masks.
    pub masked: u8,
    /// Flags of segments.
    pub flag: u8,
    /// In place of `quiet` in segments whose flag is set.
    pub flagged: u8,
}

impl Contexts {
    /// Returns those of a kind.
    pub const fn of_kind(kind: usize) -> Self {
        let first = kind * OF_KIND;
        Self {
            quiet: first as u8,
            masked: (first + OF_KIND - 1) as u8,
            flag: (FLAGS + kind) as u8,
            flagged: (FLAGGED + kind) as u8,
        }
    }
}

/// Returns whether a context has nothing in common with the one before.
pub fn begins_group(context: usize) -> bool {
    match context {
        0..FLAGS => matches!(context % OF_KIND, 0 | BINS),
        _ => context == FLAGS || context == FLAGGED,
    }
}

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

/// The context of each half octave, in elements of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HalfOctaves(pub [u8; 32]);

/// Returns the context of each half octave in elements of a kind.
pub fn half_octaves(kind: usize) -> HalfOctaves {
    const LAST_OWN: usize = 10;
    let bin = |half_octave: usize| match half_octave.checked_sub(LAST_OWN) {
        None => half_octave,
        Some(above) => (LAST_OWN + above / 2).min(BINS - 1),
    };
    HalfOctaves(std::array::from_fn(|half_octave| (kind * OF_KIND + bin(half_octave)) as u8))
}

/// Returns the kind of the elements of a class of level `number`.
pub fn kind_of(number: usize, class: usize) -> usize {
    match number {
        0 => class.count_ones() as usize - 1,
        1 => 3,
        _ => 4,
    }
}

/// Returns the context of an element between masks, of which there are `masks` among 12, in elements of a kind.
#[inline(always)]
fn among_masks(kind: usize, masks: i32) -> u8 {
    (kind * OF_KIND + BINS) as u8 + u8::from(2 * masks >= NEIGHBORS) + u8::from(masks == NEIGHBORS)
}

/// Computes the contexts of the elements of a part of a row of a class.
///
/// The activity is 12 times the mean magnitude of the codes at the neighbors that elements are interpolated from; a
/// neighbor that does not exist or is of another unit counts as the one on the other side. There are masks among the
/// codes only if `any_masks`.
#[inline(always)]
pub fn context_row<I: InstructionSet>(
    isa: I,
    (lattice, codes): (&[i32], &Classes<i32>),
    (level, number): (&Level, usize),
    class: usize,
    at: [usize; 2],
    unit: &Unit,
    any_masks: bool,
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
            add((is_first, any_masks), &mut sums[..both], &row[start..], &row[start + 1..]);
            add((is_first, any_masks), &mut sums[both..], &row[start + both..], &row[start + both..]);
        } else {
            let j = at[axis];
            let other = |j: usize| if axis == 0 { row(j, at[1]) } else { row(at[0], j) };
            let after = if j + 1 < limit { j + 1 } else { j };
            add((is_first, any_masks), sums, &other(j)[start..], &other(after)[start..]);
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
    if any_masks {
        let kind = kind_of(number, class);
        for (out, &sum) in out.iter_mut().zip(&*sums).filter(|(_, sum)| **sum >= MASK) {
            *out = among_masks(kind, sum >> MASK_SHIFT);
        }
    }
}

/// Returns what a code counts.
#[inline(always)]
fn counted(code: i32) -> i32 {
    code.abs().min(LARGEST)
}

/// Returns what a code or a mask counts.
#[inline(always)]
fn counted_with_masks(code: i32) -> i32 {
    if code >= CODE_LIMIT as i32 { MASK } else { counted(code) }
}

#[inline(always)]
fn add((is_first, any_masks): (bool, bool), sums: &mut [i32], a: &[i32], b: &[i32]) {
    if any_masks {
        add_counted(is_first, sums, a, b, counted_with_masks);
    } else {
        add_counted(is_first, sums, a, b, counted);
    }
}

#[inline(always)]
fn add_counted(is_first: bool, sums: &mut [i32], a: &[i32], b: &[i32], counted: impl Fn(i32) -> i32) {
    let (a, b) = (&a[..sums.len()], &b[..sums.len()]);
    for k in 0..sums.len() {
        let both = counted(a[k]) + counted(b[k]);
        sums[k] = if is_first { both } else { sums[k] + both };
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
