//! Differences and sums of predictors that are sets of axes, over whole rows and planes.

use super::word::Wrapping;
use crate::simd::InstructionSet;

/// Lines of elements along an axis at an edge of a tile.
#[derive(Clone, Copy)]
struct EdgeLines {
    lines: usize,
    /// Elements between the first ones of two lines.
    distance: usize,
    /// Elements of a line, and between two of them.
    count: usize,
    stride: usize,
}

/// Returns the lines along the axes that are not in a set, x first: of the elements that are 0 along all other axes of
/// the set and those before.
#[inline(always)]
fn edges(extent: [usize; 3], set: u8) -> [EdgeLines; 3] {
    let strides = [extent[1] * extent[2], extent[2], 1];
    let is_in_set = |axis: usize| set >> (2 - axis) & 1 == 1;
    let mut face: [usize; 3] = std::array::from_fn(|axis| if is_in_set(axis) { 1 } else { extent[axis] });
    [2, 1, 0].map(|axis| {
        let (count, stride) = (face[axis], strides[axis]);
        face[axis] = 1;
        // With an axis in the set, at most one other is longer than 1.
        let other = if face[0] > 1 { 0 } else { 1 };
        EdgeLines { lines: face[other], distance: strides[other], count, stride }
    })
}

/// Takes the differences along the axes that are not in a set, x first, of the elements that are 0 along all others.
#[inline(always)]
pub(super) fn difference_edges<W: Wrapping>(v: &mut [W], extent: [usize; 3], set: u8) {
    for EdgeLines { lines, distance, count, stride } in edges(extent, set) {
        for line in 0..lines {
            for i in (1..count).rev() {
                let at = line * distance + i * stride;
                v[at] = v[at].minus(v[at - stride]);
            }
        }
    }
}

/// Reconstructs integers from their residuals under a set of axes.
#[inline(always)]
pub(super) fn integrate<W: Wrapping, I: InstructionSet>(isa: I, v: &mut [W], extent: [usize; 3], set: u8) {
    let [nz, ny, nx] = extent;
    assert_eq!(v.len(), nz * ny * nx);
    if set == 0 {
        return;
    }
    for EdgeLines { lines, distance, count, stride } in edges(extent, set).into_iter().rev() {
        for line in 0..lines {
            let mut sum = v[line * distance];
            for i in 1..count {
                let at = line * distance + i * stride;
                sum = sum.plus(v[at]);
                v[at] = sum;
            }
        }
    }
    if set & 4 != 0 {
        add_before(v, ny * nx);
    }
    if set & 2 != 0 {
        for plane in v.chunks_exact_mut(ny * nx) {
            match nx {
                8 => add_rows_before(plane.as_chunks_mut::<8>().0),
                _ => add_before(plane, nx),
            }
        }
    }
    if set & 1 != 0 {
        add_rows(isa, v, nx);
    }
}

/// Reconstructs integers from their second differences along all axes. Along each, the sums from the second position on
/// are differences, whose sums are the integers.
#[inline(always)]
pub(super) fn integrate_second_order<W: Wrapping>(v: &mut [W], extent: [usize; 3]) {
    let [nz, ny, nx] = extent;
    assert_eq!(v.len(), nz * ny * nx);
    add_before(&mut v[ny * nx..], ny * nx);
    add_before(v, ny * nx);
    for plane in v.chunks_exact_mut(ny * nx) {
        add_before(&mut plane[nx..], nx);
        add_before(plane, nx);
    }
    for row in v.chunks_exact_mut(nx) {
        let (mut value, mut difference) = (row[0], W::ZERO);
        for v in &mut row[1..] {
            difference = difference.plus(*v);
            value = value.plus(difference);
            *v = value;
        }
    }
}

/// Adds to each block of elements that before it.
#[inline(always)]
fn add_before<W: Wrapping>(v: &mut [W], block: usize) {
    for start in (block..v.len()).step_by(block) {
        let (before, after) = v.split_at_mut(start);
        let before = &before[start - block..];
        after[..block].iter_mut().zip(before).for_each(|(v, before)| *v = v.plus(*before));
    }
}

/// Adds to each row that before it, which stays in registers.
#[inline(always)]
fn add_rows_before<W: Wrapping>(rows: &mut [[W; 8]]) {
    let mut sum = [W::ZERO; 8];
    for row in rows {
        for (sum, v) in sum.iter_mut().zip(row) {
            *sum = sum.plus(*v);
            *v = *sum;
        }
    }
}

/// Replaces rows by their prefix sums.
#[inline(always)]
fn add_rows<W: Wrapping, I: InstructionSet>(isa: I, v: &mut [W], nx: usize) {
    #[cfg(target_arch = "x86_64")]
    if W::BITS == u32::BITS
        && let Some(token) = isa.avx2()
    {
        return super::avx2::prefix_rows(token, bytemuck::cast_slice_mut(v), nx);
    }
    let _ = isa;
    for row in v.chunks_exact_mut(nx) {
        let mut sum = W::ZERO;
        for v in row {
            sum = sum.plus(*v);
            *v = sum;
        }
    }
}
