//! The prediction of a row of a class from rows of other classes.

use super::classes::{Classes, Level};
use crate::quantize::Real;

/// Predicts a row of a class: the mean of the interpolations along the axes along which its coordinates are odd. The
/// classes with fewer such axes are known; class 0 is `lattice`.
///
/// # Panics
/// `out` has not the length of a row.
#[inline(always)]
pub fn predict_row<T: Real>(
    (lattice, values): (&[T], &Classes<T>),
    level: &Level,
    class: usize,
    at: [usize; 2],
    cubic: bool,
    out: &mut [T],
) {
    let mut is_first = true;
    for axis in (0..3).filter(|axis| class >> axis & 1 != 0) {
        let from = class ^ 1 << axis;
        let all = if from == 0 { lattice } else { &values[from] };
        let extent = level.class(from);
        let row = |z: usize, y: usize| &all[(z * extent[1] + y) * extent[2]..][..extent[2]];
        if axis == 2 {
            along_row(row(at[0], at[1]), cubic, is_first, out);
        } else {
            let j = at[axis];
            let other = |j: usize| if axis == 0 { row(j, at[1]) } else { row(at[0], j) };
            let count = extent[axis];
            let rows = [
                (j >= 1).then(|| other(j - 1)),
                (j + 1 < count).then(|| other(j + 1)),
                (j + 2 < count).then(|| other(j + 2)),
            ];
            across_rows(other(j), rows, cubic, is_first, out);
        }
        is_first = false;
    }
    let scale = match class.count_ones() {
        1 => return,
        2 => T::nearest(0.5),
        _ => T::nearest(1.0 / 3.0),
    };
    out.iter_mut().for_each(|value| *value = value.times(scale));
}

/// Interpolates at a position from the neighbor `a` before it, and those that exist of the one before that, of the one
/// after the position, and of the one after that.
#[inline(always)]
fn between<T: Real>(before: Option<T>, a: T, b: Option<T>, after: Option<T>, cubic: bool) -> T {
    let number = T::nearest;
    match (before, b, after) {
        (None, None, _) => a,
        (Some(before), None, _) => a.mul_add(number(1.5), before.times(number(-0.5))),
        (Some(before), Some(b), Some(after)) if cubic => {
            (a + b).mul_add(number(0.5625), (before + after).times(number(-0.0625)))
        }
        (Some(before), Some(b), None) if cubic => {
            a.mul_add(number(0.75), b.mul_add(number(0.375), before.times(number(-0.125))))
        }
        (None, Some(b), Some(after)) if cubic => {
            b.mul_add(number(0.75), a.mul_add(number(0.375), after.times(number(-0.125))))
        }
        (_, Some(b), _) => (a + b).times(number(0.5)),
    }
}

/// Sets a value, or adds to it.
#[inline(always)]
fn store<T: Real>(out: &mut T, value: T, is_first: bool) {
    *out = if is_first { value } else { *out + value };
}

/// Interpolates along the row: `from` has the neighbors at even places.
#[inline(always)]
fn along_row<T: Real>(from: &[T], cubic: bool, is_first: bool, out: &mut [T]) {
    let count = from.len();
    let one = |k: usize, out: &mut T| {
        let before = k.checked_sub(1).map(|k| from[k]);
        let value = between(before, from[k], from.get(k + 1).copied(), from.get(k + 2).copied(), cubic);
        store(out, value, is_first);
    };
    // The elements that have all four neighbors.
    let end = count.saturating_sub(2).min(out.len());
    if end <= 1 {
        return out.iter_mut().enumerate().for_each(|(k, out)| one(k, out));
    }
    one(0, &mut out[0]);
    let (before, a, b, after) = (&from[..end - 1], &from[1..end], &from[2..=end], &from[3..end + 2]);
    for (k, out) in out[1..end].iter_mut().enumerate() {
        store(out, between(Some(before[k]), a[k], Some(b[k]), Some(after[k]), cubic), is_first);
    }
    for k in end..out.len() {
        one(k, &mut out[k]);
    }
}

/// Interpolates across rows: those before and after, as far as they exist.
#[inline(always)]
fn across_rows<T: Real>(a: &[T], rows: [Option<&[T]>; 3], cubic: bool, is_first: bool, out: &mut [T]) {
    let count = out.len();
    let a = &a[..count];
    match rows.map(|row| row.map(|row| &row[..count])) {
        [Some(before), Some(b), Some(after)] if cubic => {
            for k in 0..count {
                store(&mut out[k], between(Some(before[k]), a[k], Some(b[k]), Some(after[k]), true), is_first);
            }
        }
        [before, Some(b), after] if cubic => {
            for k in 0..count {
                let [before, after] = [before, after].map(|row| row.map(|row| row[k]));
                store(&mut out[k], between(before, a[k], Some(b[k]), after, true), is_first);
            }
        }
        [_, Some(b), _] => {
            for k in 0..count {
                store(&mut out[k], between(None, a[k], Some(b[k]), None, false), is_first);
            }
        }
        [Some(before), None, _] => {
            for k in 0..count {
                store(&mut out[k], between(Some(before[k]), a[k], None, None, cubic), is_first);
            }
        }
        [None, None, _] => {
            for k in 0..count {
                store(&mut out[k], a[k], is_first);
            }
        }
    }
}
