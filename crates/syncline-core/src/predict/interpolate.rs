//! Interpolation inside a tile, from coarse positions to fine ones (`docs/FORMAT.md`, "Interpolation").
//!
//! Each value is predicted from values of the tile that are reconstructed already, so errors do not add up as they would
//! if the original values were interpolated. The last position of an axis is known before those between, so nothing
//! outside of the tile is needed and nothing is extrapolated. Zhao et al., "Optimizing Error-Bounded Lossy Compression
//! for Scientific Data by Dynamic Spline Interpolation" (2021) interpolate whole fields in this way.

mod plan;
mod plans;
#[cfg(test)]
mod tests;

pub use plan::{Plan, Scheme};
pub use plans::Plans;

use super::orders;
use crate::geometry::MAX_TILE_ELEMENTS;
use crate::quantize::Real;
use crate::quantize::mask::TileMask;
use crate::simd::{self, InstructionSet, Kernel};

/// The predictor of interpolated tiles, beside those of [`orders`].
pub const INTERPOLATION: u8 = 9;

/// Codes of interpolated values have smaller magnitudes, so that they are exact in f32.
const CODE_LIMIT: i32 = 1 << 22;

/// What all tiles of a stream have in common.
#[derive(Clone, Copy, Debug)]
pub struct Interpolation<T> {
    /// The step, rounded to the type of the elements.
    step: T,
    /// The inverse of `step`, rounded.
    inverse: T,
    /// The bound, rounded down.
    bound: T,
}

impl<T: Real> Interpolation<T> {
    /// Returns an interpolation that accepts a value only if its error is below `bound`.
    pub fn new(step: f64, bound: f64) -> Self {
        let step = T::nearest(step);
        Self { step, inverse: T::nearest(1.0 / step.wide()), bound: T::not_above(bound) }
    }

    /// Predicts and quantizes the elements `x` of a tile.
    ///
    /// `q` has their integers without the base, those of `excluded` elements are not looked at; `anchor` is the value of an
    /// integer. Elements of `excluded` have code 0. Writes a code for each element in the order of the plan. Sets the
    /// bits of elements in `missed` whose reconstruction is not within the bound: they have code 0, too. Writes what all
    /// elements are reconstructed as to `values`.
    ///
    /// # Panics
    /// The tile has not the extents of the plan.
    pub fn encode(
        &self,
        plan: &Plan<T>,
        (x, q): (&[T], &[i32]),
        excluded: &TileMask,
        anchor: impl Fn(i32) -> T,
        codes: &mut [i32],
        missed: &mut TileMask,
        values: &mut [T; MAX_TILE_ELEMENTS],
    ) {
        let (anchor_codes, codes) = codes.split_at_mut(plan.anchors().len());
        for (code, &place) in anchor_codes.iter_mut().zip(plan.anchors()) {
            *code = q[usize::from(place)];
        }
        if excluded.any() {
            inpaint(anchor_codes, plan.lattice(), |number| excluded.get(plan.anchors()[number].into()));
        }
        for (&integer, &place) in anchor_codes.iter().zip(plan.anchors()) {
            values[usize::from(place)] = anchor(integer);
        }
        orders::difference(anchor_codes, plan.lattice(), ALL_AXES);
        simd::run(Encode { by: *self, plan, x, excluded, values, codes, missed });
    }

    /// Inverse of [`Self::encode`], for any codes: reconstructs the elements of a tile. `anchor` is the value of an
    /// integer without the base.
    ///
    /// # Panics
    /// The tile has not the extents of the plan.
    pub fn decode(&self, plan: &Plan<T>, codes: &mut [i32], anchor: impl Fn(i32) -> T, x: &mut [T]) {
        let (anchor_codes, codes) = codes.split_at_mut(plan.anchors().len());
        orders::integrate(anchor_codes, plan.lattice(), ALL_AXES);
        for (&integer, &place) in anchor_codes.iter().zip(plan.anchors()) {
            x[usize::from(place)] = anchor(integer);
        }
        let values = &mut [T::from_bits(0); MAX_TILE_ELEMENTS];
        values[..x.len()].copy_from_slice(x);
        simd::run(Decode { step: self.step, plan, codes, values });
        let count = x.len();
        x.copy_from_slice(&values[..count]);
    }
}

/// The predictor of anchors: differences along all axes of their lattice.
const ALL_AXES: u8 = 7;

/// Gives excluded integers of a lattice the value that makes their residual under [`ALL_AXES`] 0.
fn inpaint(lattice: &mut [i32], [_, ny, nx]: [usize; 3], excluded: impl Fn(usize) -> bool) {
    let strides = [ny * nx, nx, 1];
    for number in (0..lattice.len()).filter(|&number| excluded(number)) {
        let position = [number / nx / ny, number / nx % ny, number % nx];
        let mut predicted = 0i32;
        // All corners of the box below the position but itself: an odd number of steps adds, an even number subtracts.
        for steps in 1..1usize << 3 {
            let axes = || (0..3).filter(move |&axis| steps >> axis & 1 == 1);
            if axes().any(|axis| position[axis] == 0) {
                continue;
            }
            let value = lattice[number - axes().map(|axis| strides[axis]).sum::<usize>()];
            predicted =
                if steps.count_ones() % 2 == 1 { predicted.wrapping_add(value) } else { predicted.wrapping_sub(value) };
        }
        lattice[number] = predicted;
    }
}

struct Encode<'a, T: Real> {
    by: Interpolation<T>,
    plan: &'a Plan<T>,
    x: &'a [T],
    excluded: &'a TileMask,
    values: &'a mut [T; MAX_TILE_ELEMENTS],
    codes: &'a mut [i32],
    missed: &'a mut TileMask,
}

impl<T: Real> Kernel for Encode<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) {
        let Self { by: Interpolation { step, inverse, bound }, plan, x, excluded, values, codes, missed } = self;
        plan.predict(values, |place, number, predicted| {
            let wanted = x[place];
            let scaled = (wanted - predicted).times(inverse).round_ties_even();
            let (code, small) = scaled.to_code::<CODE_LIMIT>();
            let value = T::from_code(code).mul_add(step, predicted);
            let error = (wanted - value).magnitude();
            let good = small && error < bound && !wanted.is_negative_zero();
            let excluded = excluded.get(place);
            codes[number] = if good && !excluded { code } else { 0 };
            if !(good || excluded) {
                missed.set(place);
            }
            if good && !excluded { value } else { predicted }
        });
    }
}

struct Decode<'a, T: Real> {
    step: T,
    plan: &'a Plan<T>,
    codes: &'a [i32],
    values: &'a mut [T; MAX_TILE_ELEMENTS],
}

impl<T: Real> Kernel for Decode<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) {
        let Self { step, plan, codes, values } = self;
        plan.predict(values, |_, number, predicted| match codes[number] {
            // The prediction itself, of whatever sign.
            0 => predicted,
            code => T::from_code(code).mul_add(step, predicted),
        });
    }
}
