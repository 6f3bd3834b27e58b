//! The residuals of a tile under several Lorenzo predictors, and their costs.
//!
//! The fast version takes the differences along an axis over the whole tile as one long row, which vectorizes well
//! whatever the extents are, and then corrects those that crossed an edge. Predictors share the differences along the
//! axes that they have in common. [`difference`](super::orders::difference) is its oracle.

use super::costs::total_cost;
use super::orders::{PREDICTORS, SECOND_ORDER};
use super::sums::difference_edges;
use super::word::Wrapping;
use crate::simd::{self, InstructionSet, Kernel};

/// The residuals of a tile, and memory for them.
#[derive(Debug, Default)]
pub struct Residuals {
    /// The residuals under each predictor, and one more buffer.
    buffers: Vec<i32>,
    count: usize,
}

/// The cost under each predictor, `u32::MAX` for those that were not asked for.
pub type Costs = [u32; PREDICTORS];

impl Residuals {
    /// Computes the residuals of the integers of a tile under these predictors. Returns the cost of each.
    ///
    /// # Panics
    /// `q` has not the extents' length, or is empty.
    pub fn predict(&mut self, q: &[i32], extent: [usize; 3], predictors: &[u8]) -> Costs {
        self.count = q.len();
        let length = (PREDICTORS + 1) * self.count;
        if self.buffers.len() < length {
            self.buffers.resize(length, 0);
        }
        simd::run(Predict { q, extent, predictors, buffers: &mut self.buffers[..length] })
    }

    /// Returns the residuals under a predictor that was asked for last.
    pub fn of(&self, predictor: u8) -> &[i32] {
        &self.buffers[usize::from(predictor) * self.count..][..self.count]
    }
}

struct Predict<'a> {
    q: &'a [i32],
    extent: [usize; 3],
    predictors: &'a [u8],
    buffers: &'a mut [i32],
}

impl Kernel for Predict<'_> {
    type Output = Costs;

    #[inline(always)]
    fn run<I: InstructionSet>(self, isa: I) -> Costs {
        let Self { q, extent, predictors, buffers } = self;
        let count = q.len();
        assert_eq!(count, extent.iter().product());
        let base = q[0];
        let mut any = 0;
        for (v, &q) in buffers[..count].iter_mut().zip(q) {
            *v = q.wrapping_sub(base);
            any |= *v;
        }
        let mut costs = [u32::MAX; PREDICTORS];
        if any == 0 {
            for &predictor in predictors {
                buffers[usize::from(predictor) * count..][..count].fill(0);
                costs[usize::from(predictor)] = 0;
            }
            return costs;
        }
        let mut needed = 0u32;
        for &predictor in predictors {
            let mut set = predictor;
            while set != 0 && set != SECOND_ORDER {
                needed |= 1 << set;
                set = without_last(set);
            }
        }
        for set in (1..SECOND_ORDER).filter(|set| needed >> set & 1 == 1) {
            let (before, out) = buffers.split_at_mut(usize::from(set) * count);
            let from = &before[usize::from(without_last(set)) * count..][..count];
            let axis = 2 - set.ilog2() as usize;
            difference_along(from, &mut out[..count], axis_of(extent, axis));
        }
        for &predictor in predictors {
            if predictor == SECOND_ORDER {
                let (integers, rest) = buffers.split_at_mut(usize::from(SECOND_ORDER) * count);
                let (out, other) = rest.split_at_mut(count);
                write_residuals(&integers[..count], extent, SECOND_ORDER, out, &mut other[..count]);
            }
            let residuals = &mut buffers[usize::from(predictor) * count..][..count];
            if predictor != 0 && predictor != SECOND_ORDER {
                difference_edges(residuals, extent, predictor);
            }
            costs[usize::from(predictor)] = total_cost(isa, residuals);
        }
        costs
    }
}

/// Returns a set of axes without that which is differenced last.
#[inline(always)]
fn without_last(set: u8) -> u8 {
    set & !(1 << set.ilog2())
}

/// Returns the distance between neighbors along an axis, and that between lines of them.
#[inline(always)]
fn axis_of([nz, ny, nx]: [usize; 3], axis: usize) -> [usize; 2] {
    match axis {
        0 => [ny * nx, nz * ny * nx],
        1 => [nx, ny * nx],
        _ => [1, nx],
    }
}

/// Writes the differences along an axis. The first elements are copied.
#[inline(always)]
fn difference_along<W: Wrapping>(from: &[W], out: &mut [W], [distance, period]: [usize; 2]) {
    let count = from.len();
    if let [1, 8] = [distance, period] {
        // Rows of a vector each need no correction.
        for (out, row) in out.as_chunks_mut::<8>().0.iter_mut().zip(from.as_chunks::<8>().0) {
            let before = [W::ZERO, row[0], row[1], row[2], row[3], row[4], row[5], row[6]];
            *out = std::array::from_fn(|i| row[i].minus(before[i]));
        }
        return;
    }
    out[..distance].copy_from_slice(&from[..distance]);
    for ((out, a), b) in out[distance..].iter_mut().zip(&from[distance..]).zip(from) {
        *out = a.minus(*b);
    }
    for start in (period..count).step_by(period) {
        copy(from, out, start, distance);
    }
}

/// Writes the second differences along an axis: the first elements are copied, the second ones are differences.
#[inline(always)]
fn second_difference_along<W: Wrapping>(from: &[W], out: &mut [W], [distance, period]: [usize; 2]) {
    let count = from.len();
    for ((out, a), (b, c)) in
        out[2 * distance..].iter_mut().zip(&from[2 * distance..]).zip(from[distance..].iter().zip(from))
    {
        *out = a.minus(*b).minus(b.minus(*c));
    }
    for start in (0..count).step_by(period) {
        copy(from, out, start, distance);
        for i in start + distance..start + 2 * distance {
            out[i] = from[i].minus(from[i - distance]);
        }
    }
}

/// Copies a few elements.
#[inline(always)]
fn copy<W: Wrapping>(from: &[W], out: &mut [W], start: usize, count: usize) {
    if count == 1 {
        out[start] = from[start];
    } else {
        out[start..start + count].copy_from_slice(&from[start..start + count]);
    }
}

/// Differences integers along some axes, one after another, the last one to `out`; copies them if there is none.
#[inline(always)]
fn along_axes<W: Wrapping>(
    axes: impl Iterator<Item = usize>,
    extent: [usize; 3],
    (integers, out, other): (&[W], &mut [W], &mut [W]),
    along: impl Fn(&[W], &mut [W], [usize; 2]),
) {
    let mut axes = axes.map(|axis| axis_of(extent, axis));
    // An axis more or less would leave the result in the other buffer.
    match [axes.next(), axes.next(), axes.next()] {
        [Some(first), None, _] => along(integers, out, first),
        [Some(first), Some(second), None] => {
            along(integers, other, first);
            along(other, out, second);
        }
        [Some(first), Some(second), Some(third)] => {
            along(integers, out, first);
            along(out, other, second);
            along(other, out, third);
        }
        _ => out.copy_from_slice(integers),
    }
}

/// Writes the residuals of integers under one predictor to `out`; the first one is the first integer. `other` is memory
/// of the same length.
#[inline(always)]
pub fn write_residuals<W: Wrapping>(integers: &[W], extent: [usize; 3], predictor: u8, out: &mut [W], other: &mut [W]) {
    let axes = [2, 1, 0].into_iter();
    let buffers = (integers, &mut *out, other);
    if predictor == SECOND_ORDER {
        return along_axes(axes.filter(|&axis| extent[axis] > 1), extent, buffers, second_difference_along);
    }
    along_axes(axes.filter(|&axis| predictor >> (2 - axis) & 1 == 1), extent, buffers, difference_along);
    if predictor == 0 {
        return;
    }
    difference_edges(out, extent, predictor);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::costs::tests::cost_by_definition;
    use crate::predict::orders::{difference, predictors, tests::tiles};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn residuals_of_one_predictor_are_those_of_the_oracle((extent, v) in tiles()) {
            let bytes: Vec<u8> = v.iter().map(|&v| v as u8).collect();
            for predictor in predictors(3) {
                let mut expected = v.clone();
                difference(&mut expected, extent, predictor);
                let (mut out, mut other) = (v.clone(), v.clone());
                write_residuals(&v, extent, predictor, &mut out, &mut other);
                prop_assert_eq!(&out, &expected, "predictor {}", predictor);
                let (mut out, mut other) = (bytes.clone(), bytes.clone());
                write_residuals(&bytes, extent, predictor, &mut out, &mut other);
                prop_assert!(out.iter().zip(&expected).all(|(&out, &of)| out == of as u8), "predictor {}", predictor);
            }
        }

        #[test]
        fn residuals_of_several_predictors_are_those_of_each(
            (extent, q) in tiles(), asked in prop::collection::btree_set(0..9u8, 1..9), same in any::<bool>(),
        ) {
            let q: Vec<i32> = q.iter().map(|&v| if same { q[0] } else { v }).collect();
            let asked: Vec<u8> = asked.into_iter().rev().collect();
            let mut residuals = Residuals::default();
            let costs = residuals.predict(&q, extent, &asked);
            for predictor in predictors(3) {
                if !asked.contains(&predictor) {
                    prop_assert_eq!(costs[usize::from(predictor)], u32::MAX);
                    continue;
                }
                let mut expected: Vec<i32> = q.iter().map(|v| v.wrapping_sub(q[0])).collect();
                difference(&mut expected, extent, predictor);
                prop_assert_eq!(residuals.of(predictor), &expected, "predictor {}", predictor);
                prop_assert_eq!(costs[usize::from(predictor)], cost_by_definition(&expected));
            }
        }
    }
}
