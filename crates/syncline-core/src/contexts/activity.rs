//! The context of an element: its level, and the magnitudes of the codes around it, or how many of them are masks.

#[cfg(target_arch = "x86_64")]
mod avx2;

use super::symbol::CODE_LIMIT;
use crate::predict::levels::{Classes, Level};
use crate::simd::InstructionSet;

/// Contexts of a kind of elements without masks around them: half octaves of the mean magnitude, half as many of large
/// ones.
const BINS: usize = 20;
/// Contexts of a kind of elements next to masks: fewer than half of the neighbors are masked, at least half, or all.
const AMONG_MASKS: usize = 3;
/// Contexts of a kind of elements.
pub const OF_KIND: usize = BINS + AMONG_MASKS;
/// Kinds of elements: those of the finest level by the number of axes along which they are interpolated, those of the
/// next level, and the others.
pub const KINDS: usize = 5;
/// The contexts of the counts of segments, by the kind of their elements, and of the quiet elements that are found.
const COUNTS: usize = KINDS * OF_KIND;
const FOUND: usize = COUNTS + KINDS;
/// The contexts of the gaps between them, of all kinds: one for each octave of how many are quiet for each one found.
const GAPS: usize = FOUND + KINDS;
/// The first of these octaves, and how many there are.
pub(super) const FIRST_GAP_OCTAVE: usize = 3;
pub(super) const GAP_OCTAVES: usize = 8;
/// The number of contexts.
pub const CONTEXTS: usize = GAPS + GAP_OCTAVES;

/// Magnitudes count as no more than this.
const LARGEST: i32 = 4095;
/// A mask counts as 2 to this power in the place of a magnitude. All magnitudes around an element sum to less.
const MASK_SHIFT: u32 = 16;
const _: () = assert!(NEIGHBORS * LARGEST < 1 << MASK_SHIFT);
/// The weighted number of neighbors.
const NEIGHBORS: i32 = 12;

/// The contexts of elements of a kind, or what stands for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contexts {
    /// That of each half octave of the activity. With the weight of a mask, the number of half octaves says how many of
    /// the neighbors are masked.
    of_half_octaves: [u8; HALF_OCTAVES],
    /// That of the counts of segments.
    pub count: u8,
    /// That of quiet elements that are found, and whose neighbors have code 0.
    pub found: u8,
    /// Those of the gaps between them.
    gaps: [u8; GAP_OCTAVES],
}

impl Contexts {
    /// Returns the contexts of a kind.
    pub fn of_kind(kind: usize) -> Self {
        /// Half octaves before this one have contexts of their own.
        const FIRST_SHARED: usize = 10;
        let first = kind * OF_KIND;
        let bin = |half_octave: usize| match half_octave {
            0..FIRST_SHARED => half_octave,
            ALL_MASKED.. => BINS + 2,
            HALF_MASKED.. => BINS + 1,
            ANY_MASKED.. => BINS,
            _ => (FIRST_SHARED + (half_octave - FIRST_SHARED) / 2).min(BINS - 1),
        };
        Self {
            of_half_octaves: std::array::from_fn(|half_octave| (first + bin(half_octave)) as u8),
            count: (COUNTS + kind) as u8,
            found: (FOUND + kind) as u8,
            gaps: std::array::from_fn(|octave| (GAPS + octave) as u8),
        }
    }

    /// Returns what stands for the contexts.
    pub fn map(self, of: impl Fn(u8) -> u8) -> Self {
        Self {
            of_half_octaves: self.of_half_octaves.map(&of),
            count: of(self.count),
            found: of(self.found),
            gaps: self.gaps.map(&of),
        }
    }

    /// Returns the context of elements whose neighbors all have code 0.
    #[inline(always)]
    pub const fn quiet(&self) -> u8 {
        self.of_half_octaves[0]
    }

    /// Returns the context of elements whose neighbors are all masked.
    #[inline(always)]
    pub const fn masked(&self) -> u8 {
        self.of_half_octaves[ALL_MASKED]
    }

    /// Returns that of the gaps of a segment with so many quiet elements, of which a few are found.
    pub fn of_gaps(&self, quiet: usize, found: usize) -> u8 {
        let octave = (quiet / found).ilog2() as usize;
        self.gaps[octave.clamp(FIRST_GAP_OCTAVE, FIRST_GAP_OCTAVE + GAP_OCTAVES - 1) - FIRST_GAP_OCTAVE]
    }
}

/// Returns whether a context is that of quiet elements: all codes around are 0, or all neighbors are masked.
pub fn is_quiet(context: usize) -> bool {
    context < COUNTS && [0, OF_KIND - 1].contains(&(context % OF_KIND))
}

/// Returns whether a context is that of elements, and not of numbers.
pub fn is_of_elements(context: usize) -> bool {
    context < COUNTS || (FOUND..GAPS).contains(&context)
}

/// Returns whether a context has nothing in common with the one before.
pub fn begins_group(context: usize) -> bool {
    match context {
        0..COUNTS => matches!(context % OF_KIND, 0 | BINS),
        _ => [COUNTS, FOUND, GAPS].contains(&context),
    }
}

/// What a part of a block has of a row of a class. Only the part's own elements are known where the row is decoded.
#[derive(Clone, Copy, Debug)]
pub struct RowPart {
    /// Its first element, and one past its last.
    pub x: [usize; 2],
    /// Ends of the part of the block along each axis, in elements of a class.
    pub ends: [usize; 3],
}

/// Returns the half octave of 3 + 2 `activity`, counted from that of 3. Exact: the number fits an f32.
#[inline(always)]
const fn half_octave(activity: i32) -> u32 {
    (((3 + 2 * activity) as f32).to_bits() >> HALF_OCTAVE_SHIFT) - FIRST_HALF_OCTAVE
}

/// Bits of an f32 below its exponent and the highest of its fraction, and what is left of 3.0 without them.
const HALF_OCTAVE_SHIFT: i32 = 22;
const FIRST_HALF_OCTAVE: u32 = 3.0f32.to_bits() >> HALF_OCTAVE_SHIFT;

/// Returns the first half octave of elements next to masks, of which there are so many among [`NEIGHBORS`].
const fn first_with(masks: i32) -> usize {
    half_octave(masks << MASK_SHIFT) as usize
}

/// The first half octaves of elements that have any masks around them, at least half, and only masks.
const ANY_MASKED: usize = first_with(1);
const HALF_MASKED: usize = first_with(NEIGHBORS / 2);
const ALL_MASKED: usize = first_with(NEIGHBORS);
/// More half octaves than there are, and a power of two.
const HALF_OCTAVES: usize = 64;
const _: () = assert!(ALL_MASKED < 48 && HALF_MASKED > first_with(NEIGHBORS / 2 - 1));

/// Returns the kind of the elements of a class of level `number`.
pub fn kind_of(number: usize, class: usize) -> usize {
    match number {
        0 => class.count_ones() as usize - 1,
        1 => 3,
        _ => 4,
    }
}

/// Computes the contexts of the elements of a part of a row of a class, whose kind has `contexts`.
///
/// The activity is 12 times the mean magnitude of the codes at the neighbors that elements are interpolated from; a
/// neighbor that does not exist or is of another part counts as the one on the other side. If `any_masks` is not set,
/// there are no masks among the codes. `sums` and `out` have room for [`CONTEXT_ROOM`] elements more than there are,
/// which become anything.
#[inline(always)]
pub fn context_row<I: InstructionSet>(
    isa: I,
    (lattice, codes): (&[i32], &Classes<i32>),
    (level, number, class): (&Level, usize, usize),
    at: [usize; 2],
    row_part: &RowPart,
    (contexts, any_masks): (&Contexts, bool),
    (sums, out): (&mut [i32], &mut [u8]),
) {
    #[cfg(not(target_arch = "x86_64"))]
    let _ = isa;
    let [start, end] = row_part.x;
    let (all_sums, count) = (sums, end - start);
    let sums = &mut all_sums[..count];
    let mut is_first = true;
    for axis in (0..3).filter(|axis| class >> axis & 1 != 0) {
        let from = class ^ 1 << axis;
        let all = if from == 0 { lattice } else { &codes[from] };
        let extent = level.class(from);
        let limit = if from == 0 || number > 0 { extent[axis] } else { extent[axis].min(row_part.ends[axis]) };
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
    let weight = WEIGHTS[class.count_ones() as usize];
    // A vector would wait for the sums of a short row, which are not written as one.
    #[cfg(target_arch = "x86_64")]
    if count >= CONTEXT_ROOM
        && let Some(token) = isa.avx2()
    {
        let padded = count.next_multiple_of(CONTEXT_ROOM);
        return avx2::look_up(token, (&all_sums[..padded], weight), &contexts.of_half_octaves, &mut out[..padded]);
    }
    for (out, &sum) in out[..count].iter_mut().zip(&*sums) {
        *out = contexts.of_half_octaves[half_octave(weight * sum) as usize % HALF_OCTAVES];
    }
}

/// Elements behind a row that its memory has room for.
pub const CONTEXT_ROOM: usize = 8;

/// What each of the neighbors of an element counts, by the number of its axes: all of them are [`NEIGHBORS`].
const WEIGHTS: [i32; 4] = [0, NEIGHBORS / 2, NEIGHBORS / 4, NEIGHBORS / 6];

/// Returns what a code counts.
#[inline(always)]
fn counted(code: i32) -> i32 {
    code.abs().min(LARGEST)
}

/// Returns what a code or a mask counts.
#[inline(always)]
fn counted_with_masks(code: i32) -> i32 {
    if code >= CODE_LIMIT as i32 { 1 << MASK_SHIFT } else { counted(code) }
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
        let bins = Contexts::of_kind(0).of_half_octaves;
        for activity in 0..=NEIGHBORS * LARGEST {
            let own = bins[half_octave(activity) as usize];
            assert!(own == last || own == last + 1, "{activity}");
            last = own;
        }
        assert_eq!(last as usize + 1, BINS);
    }

    #[test]
    fn half_octaves_tell_how_many_neighbors_are_masked() {
        let bins = Contexts::of_kind(0).of_half_octaves;
        for (masks, weight) in
            [2, 3, 6].into_iter().flat_map(|weight| (1..=12 / weight).map(move |masks| (masks, weight)))
        {
            let expected = match 2 * masks * weight {
                0..12 => BINS,
                12..24 => BINS + 1,
                _ => BINS + 2,
            };
            for rest in [0, 1, LARGEST * (12 - masks * weight)] {
                let own = bins[half_octave(((masks * weight) << MASK_SHIFT) + rest) as usize];
                assert_eq!(usize::from(own), expected, "{masks} of {weight}, {rest}");
            }
        }
    }

    #[test]
    fn contexts_of_all_kinds_are_all_contexts() {
        let all = |kind| {
            let Contexts { of_half_octaves, count, found, gaps } = Contexts::of_kind(kind);
            of_half_octaves.into_iter().chain([count, found]).chain(gaps)
        };
        let mut contexts: Vec<usize> = (0..KINDS).flat_map(all).map(usize::from).collect();
        contexts.sort_unstable();
        contexts.dedup();
        assert!(contexts.iter().copied().eq(0..CONTEXTS));
        let of_kinds = || (0..KINDS).map(Contexts::of_kind);
        let quiet: Vec<_> = of_kinds().flat_map(|of| [of.quiet(), of.masked()].map(usize::from)).collect();
        assert!(contexts.into_iter().filter(|&context| is_quiet(context)).eq(quiet));
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn vectors_look_up_what_single_elements_do() {
        let Some(token) = crate::simd::Avx2::detected() else { return };
        let masks =
            (1..=NEIGHBORS).flat_map(|masks| [0, 1, NEIGHBORS * LARGEST].map(|sum| (masks << MASK_SHIFT) + sum));
        let (sums, table): (Vec<i32>, _) =
            ((0..=NEIGHBORS * LARGEST).chain(masks).collect(), std::array::from_fn(|i| i as u8 * 3));
        for weight in [1, 3] {
            // Vectors are whole.
            let sums: Vec<i32> = sums.iter().map(|sum| sum / weight).take(sums.len() / 8 * 8).collect();
            let mut out = vec![0; sums.len()];
            avx2::look_up(token, (&sums, weight), &table, &mut out);
            assert!(out.iter().zip(&sums).all(|(&out, &sum)| out == table[half_octave(weight * sum) as usize]));
        }
    }
}
