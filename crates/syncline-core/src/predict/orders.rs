//! The Lorenzo predictor with an order of its own along each axis (`docs/FORMAT.md`, "Prediction").
//!
//! Predictors 0 to 7 are sets of axes with differences: 1 for x, 2 for y, 4 for z. Predictor [`SECOND_ORDER`] takes
//! second differences along all axes.
//!
//! Ibarria et al., "Out-of-core compression and decompression of large n-dimensional scalar fields" (2003).

use super::sums;
use super::word::{Word, Wrapping};
use crate::simd::{self, InstructionSet, Kernel};

/// Second differences along all axes.
pub const SECOND_ORDER: u8 = 8;

/// Number of predictors.
pub const PREDICTORS: usize = SECOND_ORDER as usize + 1;

/// The most predictors of a chunk.
pub const MOST_LISTED: usize = 3;

/// Returns the predictors for tiles that extend along `axes` axes, 1 to 3, in ascending order.
pub fn predictors(axes: usize) -> impl Iterator<Item = u8> {
    (0..1 << axes).chain([SECOND_ORDER])
}

/// Replaces the integers of a tile, from which the base is subtracted already, by their residuals.
///
/// # Panics
/// `v` has not the extents' length.
#[inline(always)]
pub fn difference<W: Wrapping>(v: &mut [W], extent: [usize; 3], predictor: u8) {
    for pass in passes_of(extent, predictor).iter().flatten() {
        pass.difference(v);
    }
}

/// Gives the elements of a tile that are left out, in ascending order, the integers that make their residuals `center`;
/// the first element gets the base. With predictor 0, nothing depends on their integers, which stay as they are.
///
/// # Panics
/// An element is not one of the tile's.
pub fn fill_left_out<W: Word>(
    integers: &mut [W],
    extent: [usize; 3],
    predictor: u8,
    left_out: impl Iterator<Item = usize>,
    (base, center): (W, W),
) {
    if predictor == 0 {
        return;
    }
    let [_, ny, nx] = extent;
    for i in left_out {
        integers[i] = W::ZERO;
        let [z, y, x] = [i / (ny * nx), i / nx % ny, i % nx];
        integers[i] = match i {
            0 => base,
            _ => center.minus(residual_at(integers, (ny * nx, nx), predictor, [z, y, x])),
        };
    }
}

/// Returns the residual of the element at a position, with the base left out: the differences of an order along each
/// axis. `planes` and `rows` are the elements between neighbors along z and y.
#[inline(always)]
fn residual_at<W: Word>(integers: &[W], (planes, rows): (usize, usize), predictor: u8, [z, y, x]: [usize; 3]) -> W {
    let mut orders = if predictor == SECOND_ORDER {
        [x.min(2), y.min(2), z.min(2)]
    } else {
        let order = |axis: usize, position: usize| usize::from(predictor) >> axis & usize::from(position > 0);
        [order(0, x), order(1, y), order(2, z)]
    };
    // Without a neighbor along one of its axes, the first other axis with one takes their place.
    if orders == [0; 3]
        && let Some(axis) = [x, y, z].iter().position(|&position| position > 0)
    {
        orders[axis] = 1;
    }
    // Of an element so far before, in a difference of an order.
    let weight_of = |distance: usize, order: usize| if distance == 1 { (order as u64).wrapping_neg() } else { 1 };
    let at = z * planes + y * rows + x;
    let mut sum = 0u64;
    for dz in 0..=orders[2] {
        for dy in 0..=orders[1] {
            let weight = weight_of(dz, orders[2]).wrapping_mul(weight_of(dy, orders[1]));
            let row = at - dz * planes - dy * rows;
            for dx in 0..=orders[0] {
                let weight = weight.wrapping_mul(weight_of(dx, orders[0]));
                sum = sum.wrapping_add(weight.wrapping_mul(integers[row - dx].widen()));
            }
        }
    }
    W::narrow(sum)
}

/// Passes of a predictor: one along each axis, or two.
const MAX_PASSES: usize = 6;

/// Differences along one axis of a part of the tile.
#[derive(Clone, Copy, Debug)]
struct Pass {
    /// Extents of the part, which starts at the tile's first element.
    part: [usize; 3],
    /// Elements between neighbors along z and y.
    strides: [usize; 3],
    axis: usize,
    /// The first position along the axis that is replaced by a difference.
    from: usize,
}

/// Returns the passes of a predictor as a list. To call `for_each` on them would be to call a function that is compiled
/// for the baseline.
#[inline(always)]
fn passes_of(extent: [usize; 3], predictor: u8) -> [Option<Pass>; MAX_PASSES] {
    let mut passes = passes(extent, predictor);
    std::array::from_fn(|_| passes.next())
}

/// Returns the passes of a predictor in the order of differencing. The predictor's axes are differenced everywhere.
/// Then each other axis, x first, is differenced where the positions along all preceding axes are 0.
#[inline(always)]
fn passes([nz, ny, nx]: [usize; 3], predictor: u8) -> impl Iterator<Item = Pass> {
    const X_FIRST: [usize; 3] = [2, 1, 0];
    let extent = [nz, ny, nx];
    let strides = [ny * nx, nx, 1];
    let second = predictor == SECOND_ORDER;
    let in_use = move |axis: usize| second || predictor >> (2 - axis) & 1 != 0;
    let everywhere = X_FIRST.into_iter().filter(move |&axis| in_use(axis)).flat_map(move |axis| {
        let pass = |from| Pass { part: extent, strides, axis, from };
        std::iter::once(pass(1)).chain(second.then(|| pass(2)))
    });
    let mut face: [usize; 3] = std::array::from_fn(|axis| if in_use(axis) { 1 } else { extent[axis] });
    let at_edges = X_FIRST.into_iter().filter(move |&axis| predictor != 0 && !in_use(axis)).map(move |axis| {
        let pass = Pass { part: face, strides, axis, from: 1 };
        face[axis] = 1;
        pass
    });
    everywhere.chain(at_edges)
}

impl Pass {
    /// Calls `row` with the first position, the length, and the distance to the elements before of each row along x,
    /// the last row first.
    #[inline(always)]
    fn rows(&self, mut row: impl FnMut(usize, usize, usize)) {
        let Self { part: [nz, ny, nx], strides: [sz, sy, _], axis, from, .. } = *self;
        let distance = self.strides[axis];
        let first = |a: usize| if a == axis { from } else { 0 };
        for z in (first(0)..nz).rev() {
            for y in (first(1)..ny).rev() {
                row(z * sz + y * sy + first(2), nx.saturating_sub(first(2)), distance);
            }
        }
    }

    #[inline(always)]
    fn difference<W: Wrapping>(&self, v: &mut [W]) {
        let along_x = self.axis == 2;
        self.rows(|start, count, distance| {
            if along_x {
                if count == 0 {
                    return;
                }
                let row = &mut v[start - 1..start + count];
                for i in (1..row.len()).rev() {
                    row[i] = row[i].minus(row[i - 1]);
                }
            } else {
                let (before, row) = v.split_at_mut(start);
                let before = &before[start - distance..][..count];
                for (v, before) in row[..count].iter_mut().zip(before) {
                    *v = v.minus(*before);
                }
            }
        });
    }
}

/// Reconstructs integers from any residuals, with sums that wrap, and adds the base to all: the inverse of
/// [`difference`].
///
/// # Panics
/// `v` has not the extents' length.
pub fn restore<W: Wrapping>(v: &mut [W], extent: [usize; 3], predictor: u8, base: W) {
    simd::run(Restore { v, extent, predictor, base });
}

struct Restore<'a, W> {
    v: &'a mut [W],
    extent: [usize; 3],
    predictor: u8,
    base: W,
}

impl<W: Wrapping> Kernel for Restore<'_, W> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, isa: I) {
        let Self { v, extent, predictor, base } = self;
        match predictor {
            SECOND_ORDER => sums::integrate_second_order(v, extent),
            _ => sums::integrate(isa, v, extent, predictor),
        }
        if base != W::ZERO {
            v.iter_mut().for_each(|v| *v = v.plus(base));
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Computes a tile's residuals according to the definition of the format.
    fn by_definition(v: &[i32], extent: [usize; 3], predictor: u8) -> Vec<i32> {
        let [_, ny, nx] = extent;
        let at = |v: &[i32], p: [i64; 3]| -> i32 {
            if p.iter().any(|&c| c < 0) { 0 } else { v[(p[0] as usize * ny + p[1] as usize) * nx + p[2] as usize] }
        };
        let positions: Vec<[i64; 3]> =
            (0..v.len()).map(|i| [(i / nx / ny) as i64, (i / nx % ny) as i64, (i % nx) as i64]).collect();
        let along = |v: &[i32], axis: usize, wanted: &dyn Fn([i64; 3]) -> bool| -> Vec<i32> {
            positions
                .iter()
                .map(|&p| {
                    let mut before = p;
                    before[axis] -= 1;
                    if wanted(p) { at(v, p).wrapping_sub(at(v, before)) } else { at(v, p) }
                })
                .collect()
        };
        let mut out = v.to_vec();
        if predictor == SECOND_ORDER {
            for axis in [2, 1, 0] {
                out = along(&out, axis, &|_| true);
                out = along(&out, axis, &|p| p[axis] >= 2);
            }
            return out;
        }
        let used = |axis: usize| predictor >> (2 - axis) & 1 == 1;
        for axis in [2, 1, 0].into_iter().filter(|&a| used(a)) {
            out = along(&out, axis, &|_| true);
        }
        let mut zero: Vec<usize> = (0..3).filter(|&a| used(a)).collect();
        for axis in [2, 1, 0].into_iter().filter(|&a| predictor != 0 && !used(a)) {
            out = along(&out, axis, &|p| zero.iter().all(|&a| p[a] == 0));
            zero.push(axis);
        }
        out
    }

    /// Extents of tiles, and their integers.
    pub fn tiles() -> impl Strategy<Value = ([usize; 3], Vec<i32>)> {
        let extents = prop_oneof![(1..9usize, 1..9usize, 1..9usize), (Just(1usize), 1..33usize, 1..33usize)];
        extents.prop_flat_map(|(z, y, x)| {
            (Just([z, y, x]), prop::collection::vec(prop_oneof![3 => -9..9i32, 1 => any::<i32>()], z * y * x))
        })
    }

    proptest! {
        #[test]
        fn elements_that_are_left_out_are_predicted((extent, v) in tiles(), left in any::<u64>(), center in -3..3i32) {
            let (base, center) = (7u32, center as u32);
            for predictor in predictors(3) {
                let is_left_out = |i: usize| left >> (i % 64) & 1 == 1;
                let numbers: Vec<u32> = v.iter().map(|&v| v as u32).collect();
                let mut filled = numbers.clone();
                let left_out = (0..v.len()).filter(|&i| is_left_out(i));
                fill_left_out(&mut filled, extent, predictor, left_out, (base, center));
                let mut residuals = filled.clone();
                difference(&mut residuals, extent, predictor);
                for i in 0..v.len() {
                    match i {
                        _ if !is_left_out(i) || predictor == 0 => prop_assert_eq!(filled[i], numbers[i]),
                        0 => prop_assert_eq!(filled[i], base),
                        _ => prop_assert_eq!(residuals[i], center, "predictor {}, {}", predictor, i),
                    }
                }
            }
        }

        #[test]
        fn residuals_are_those_of_the_definition((extent, v) in tiles()) {
            for predictor in predictors(3) {
                let mut residuals = v.clone();
                difference(&mut residuals, extent, predictor);
                prop_assert_eq!(&residuals, &by_definition(&v, extent, predictor), "predictor {}", predictor);
                restore(&mut residuals, extent, predictor, 7);
                prop_assert!(residuals.iter().zip(&v).all(|(&r, &v)| r == v.wrapping_add(7)));
            }
        }
    }
}
