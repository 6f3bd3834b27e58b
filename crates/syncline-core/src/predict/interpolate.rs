//! Interpolation inside a tile, from coarse positions to fine ones (`docs/FORMAT.md`, "Interpolation").
//!
//! Each value is predicted from values of the tile that have already been reconstructed, so that errors do not
//! accumulate as they would if the original values were interpolated. The last position of an axis is known before
//! those between, so that nothing outside of the tile is needed and nothing is extrapolated. Zhao et al., "Optimizing
//! Error-Bounded Lossy Compression for Scientific Data by Dynamic Spline Interpolation" (2021) interpolate whole fields
//! in this way.

mod plan;
mod plans;
#[cfg(test)]
mod tests;

pub use plan::{Plan, Scheme};
pub use plans::{KeptPlans, Plans};

use bytemuck::Pod;

use super::orders;
use crate::geometry::MAX_TILE_ELEMENTS;
use crate::quantize::Real;
use crate::simd::{self, InstructionSet, Kernel};

/// The predictor number of interpolated tiles, in addition to those of [`orders`].
pub const INTERPOLATION: u8 = 9;

/// Codes of interpolated values have smaller magnitudes, so that they are exact in f32.
const CODE_LIMIT: u32 = 1 << 22;

/// Properties that all tiles of a stream share.
#[derive(Clone, Copy, Debug)]
pub struct Interpolation<T> {
    /// The step, rounded to the type of the elements.
    step: T,
    /// The inverse of `step`, rounded.
    inverse: T,
    /// The bound, rounded down.
    bound: T,
}

/// Tiles of the same extents side by side: a value of each for every element or code.
pub type Lanes<V, const L: usize> = [[V; L]; MAX_TILE_ELEMENTS];

/// Returns zeros on the heap.
pub fn lanes<V: Pod, const L: usize>() -> Box<Lanes<V, L>> {
    boxed([V::zeroed(); L])
}

/// Returns copies of a value for every element of a tile, which are never on the stack.
fn boxed<V: Copy>(value: V) -> Box<[V; MAX_TILE_ELEMENTS]> {
    let values = vec![value; MAX_TILE_ELEMENTS].into_boxed_slice();
    values.try_into().unwrap_or_else(|_| unreachable!("the length is that of the type"))
}

/// Input of the encoder for several tiles of the same extents. Elements are in raster order.
#[derive(Clone, Debug)]
pub struct Source<T, const L: usize> {
    /// The elements.
    pub x: Box<Lanes<T, L>>,
    /// The integers of the elements without the base of their tile. Those of excluded elements are ignored.
    pub q: Box<Lanes<i32, L>>,
    /// Bit `lane` is set of elements that are not coded, such as fill values.
    pub excluded: Box<[u8; MAX_TILE_ELEMENTS]>,
    /// Whether any of these bits is set.
    pub any_excluded: bool,
}

/// Output of the encoder for several tiles.
#[derive(Clone, Debug)]
pub struct Encoded<T, const L: usize> {
    /// Codes in the order of the plan. The codes of excluded elements and of elements that miss the bound are 0.
    pub codes: Box<Lanes<i32, L>>,
    /// The reconstructed elements, in raster order.
    pub values: Box<Lanes<T, L>>,
    /// Not 0 for elements, in raster order, that are not excluded and whose reconstruction is not within the bound. Not
    /// written for anchors.
    pub missed: Box<Lanes<i32, L>>,
    /// Whether a tile has such elements.
    pub any_missed: [bool; L],
}

impl<T: Real, const L: usize> Default for Source<T, L> {
    fn default() -> Self {
        Self { x: lanes(), q: lanes(), excluded: boxed(0), any_excluded: false }
    }
}

impl<T: Real, const L: usize> Default for Encoded<T, L> {
    fn default() -> Self {
        Self { codes: lanes(), values: lanes(), missed: lanes(), any_missed: [false; L] }
    }
}

impl<T: Real> Interpolation<T> {
    /// Returns an interpolation that accepts a value only if its error is below `bound`.
    pub fn new(step: f64, bound: f64) -> Self {
        let step = T::nearest(step);
        Self { step, inverse: T::nearest(1.0 / step.wide()), bound: T::not_above(bound) }
    }

    /// Returns the step and its inverse, both rounded to the type of the elements, and the bound, rounded down.
    pub fn constants(&self) -> [T; 3] {
        [self.step, self.inverse, self.bound]
    }

    /// Predicts and quantizes up to eight tiles. `anchor` is the value of an integer of a lane.
    pub fn encode<const L: usize>(
        &self,
        plan: &Plan<T>,
        source: &Source<T, L>,
        anchor: impl Fn(usize, i32) -> T,
        out: &mut Encoded<T, L>,
    ) {
        const { assert!(L <= 8) };
        let mut lattice = [0; MAX_TILE_ELEMENTS];
        let lattice = &mut lattice[..plan.anchors().len()];
        for lane in 0..L {
            for (integer, &place) in lattice.iter_mut().zip(plan.anchors()) {
                *integer = source.q[usize::from(place)][lane];
            }
            if source.any_excluded {
                let excluded = |number: usize| source.excluded[usize::from(plan.anchors()[number])] >> lane & 1 != 0;
                inpaint(lattice, plan.lattice(), excluded);
            }
            for (&integer, &place) in lattice.iter().zip(plan.anchors()) {
                out.values[usize::from(place)][lane] = anchor(lane, integer);
            }
            orders::difference(lattice, plan.lattice(), ALL_AXES);
            out.codes.iter_mut().zip(&*lattice).for_each(|(codes, &code)| codes[lane] = code);
        }
        if source.any_excluded {
            simd::run(Encode::<T, L, true> { by: *self, plan, source, out });
        } else {
            simd::run(Encode::<T, L, false> { by: *self, plan, source, out });
        }
    }

    /// Reconstructs the elements `values` of one tile from its codes; the inverse of [`Self::encode`]. Accepts any
    /// codes. `anchor` returns the value of an integer without the base.
    ///
    /// # Panics
    /// The tile has not the extents of the plan.
    pub fn decode(&self, plan: &Plan<T>, codes: &mut [i32], anchor: impl Fn(i32) -> T, values: &mut Lanes<T, 1>) {
        let (anchor_codes, codes) = codes.split_at_mut(plan.anchors().len());
        orders::integrate(anchor_codes, plan.lattice(), ALL_AXES);
        for (&integer, &place) in anchor_codes.iter().zip(plan.anchors()) {
            values[usize::from(place)] = [anchor(integer)];
        }
        simd::run(Decode { step: self.step, plan, codes, values });
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

struct Encode<'a, T: Real, const L: usize, const EXCLUDES: bool> {
    by: Interpolation<T>,
    plan: &'a Plan<T>,
    source: &'a Source<T, L>,
    out: &'a mut Encoded<T, L>,
}

impl<T: Real, const L: usize, const EXCLUDES: bool> Kernel for Encode<'_, T, L, EXCLUDES> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) {
        let Self { by: Interpolation { step, inverse, bound }, plan, source, out } = self;
        let first = plan.anchors().len();
        let Encoded { codes, values, missed, any_missed } = out;
        let mut any = [0; L];
        plan.predict(values, |place, number, predicted| {
            let wanted = source.x[place];
            let excluded = if EXCLUDES { source.excluded[place] } else { 0 };
            let (mut chosen, mut bad, mut out) = ([0; L], [0; L], predicted);
            for lane in 0..L {
                let (wanted, predicted) = (wanted[lane], predicted[lane]);
                let scaled = (wanted - predicted).times(inverse).round_ties_even();
                let (code, small) = scaled.to_code::<CODE_LIMIT>();
                let value = T::from_code(code).mul_add(step, predicted);
                let error = (wanted - value).magnitude();
                let good = small & (error < bound) & !wanted.is_negative_zero();
                let included = !EXCLUDES | (excluded >> lane & 1 == 0);
                chosen[lane] = if good & included { code } else { 0 };
                // A code of 0 gives the prediction itself. Adding 0 would give the same value, except for the sign of
                // zero.
                out[lane] = if chosen[lane] != 0 { value } else { predicted };
                bad[lane] = i32::from(!good & included);
                any[lane] |= bad[lane];
            }
            codes[(first + number) & (MAX_TILE_ELEMENTS - 1)] = chosen;
            missed[place] = bad;
            out
        });
        *any_missed = any.map(|any| any != 0);
    }
}

struct Decode<'a, T: Real> {
    step: T,
    plan: &'a Plan<T>,
    codes: &'a [i32],
    values: &'a mut Lanes<T, 1>,
}

impl<T: Real> Kernel for Decode<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) {
        let Self { step, plan, codes, values } = self;
        plan.predict(values, |_, number, [predicted]| match codes[number] {
            // The prediction itself, of whatever sign.
            0 => [predicted],
            code => [T::from_code(code).mul_add(step, predicted)],
        });
    }
}
