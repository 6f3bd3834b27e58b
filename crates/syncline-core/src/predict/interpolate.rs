//! Interpolation inside a tile, from coarse positions to fine ones (`docs/FORMAT.md`, "Interpolation").
//!
//! Each value is predicted from values of the tile that have already been reconstructed, so that errors do not
//! accumulate as they would if the original values were interpolated. The last position of an axis is known before
//! those between, so that nothing outside of the tile is needed and nothing is extrapolated. Zhao et al., "Optimizing
//! Error-Bounded Lossy Compression for Scientific Data by Dynamic Spline Interpolation" (2021) interpolate whole fields
//! in this way.

mod lattice;
mod plan;
mod plans;
mod scheme;
#[cfg(test)]
mod tests;
mod transpose;

pub use plan::{PassShape, Plan, Point};
pub use plans::Plans;
pub use scheme::Scheme;
pub use transpose::{deinterleave, interleave};

use bytemuck::Pod;

use crate::array::ElementType;
use crate::geometry::MAX_TILE_ELEMENTS;
use crate::quantize::Real;
use crate::quantize::mask::MAX_PATTERNS;
use crate::simd::{self, InstructionSet, Kernel};

/// The most anchors of a tile: two in each row of a two-dimensional one.
const MAX_ANCHORS: usize = 64;

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
    /// Values that are not to be reconstructed, because they are fill patterns.
    reserved: [T; MAX_RESERVED],
    /// How many of them there are.
    reserved_count: usize,
    /// The value that is kept exactly: 0.0, or NaN if there is none.
    kept: T,
}

/// The most values that are not to be reconstructed: fill patterns, and -0.0 beside 0.0.
pub const MAX_RESERVED: usize = MAX_PATTERNS + 1;

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
    /// Bit `lane` is set of elements that are not coded, such as fill values.
    pub excluded: Box<[u8; MAX_TILE_ELEMENTS]>,
    /// Whether any of these bits is set.
    pub any_excluded: bool,
}

/// Output of the encoder for several tiles.
#[derive(Clone, Debug)]
pub struct Encoded<T, const L: usize> {
    /// Codes in the order of the strips. Those of excluded elements and of elements that miss the bound are 0.
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
        Self { x: lanes(), excluded: boxed(0), any_excluded: false }
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
        Self {
            step,
            inverse: T::nearest(1.0 / step.wide()),
            bound: T::not_above(bound),
            reserved: [T::from_bits(0); MAX_RESERVED],
            reserved_count: 0,
            kept: T::from_bits(0),
        }
    }

    /// Returns the same interpolation for values that are rounded to elements of this type. Of integers, 0 is a value
    /// like others.
    #[must_use]
    pub fn for_elements(self, element: ElementType) -> Self {
        Self { kept: if element.is_integer() { T::nearest(f64::NAN) } else { self.kept }, ..self }
    }

    /// Returns the value that is kept exactly: 0.0, or NaN if there is none.
    pub fn kept(&self) -> T {
        self.kept
    }

    /// Returns the same interpolation that reconstructs no value as one of these fill patterns. If 0.0 is one, neither
    /// zero is reconstructed.
    #[must_use]
    pub fn with_reserved(mut self, patterns: &[u64]) -> Self {
        let minus_zero = patterns.contains(&0).then(|| T::nearest(-0.0).bits());
        for (reserved, bits) in self.reserved.iter_mut().zip(patterns.iter().copied().chain(minus_zero)) {
            *reserved = T::from_bits(bits);
            self.reserved_count += 1;
        }
        self
    }

    /// Returns the values that are not to be reconstructed.
    pub fn reserved(&self) -> &[T] {
        &self.reserved[..self.reserved_count]
    }

    /// Returns the step and its inverse, both rounded to the type of the elements, and the bound, rounded down.
    pub fn constants(&self) -> [T; 3] {
        [self.step, self.inverse, self.bound]
    }

    /// Predicts and quantizes up to eight tiles. Of a lane, `integer` is the integer of an anchor without the base of
    /// its tile, which is ignored if the element is excluded, and `anchor` the value of an integer.
    pub fn encode<const L: usize>(
        &self,
        plan: &Plan<T>,
        source: &Source<T, L>,
        (integer, anchor): (impl Fn(usize, usize) -> i32, impl Fn(usize, i32) -> T),
        out: &mut Encoded<T, L>,
    ) {
        const { assert!(L <= 8) };
        let mut lattice = [[0; L]; MAX_ANCHORS];
        let lattice = &mut lattice[..plan.anchors().len()];
        for (integers, &place) in lattice.iter_mut().zip(plan.anchors()) {
            *integers = std::array::from_fn(|lane| integer(lane, usize::from(place)));
        }
        if source.any_excluded {
            for lane in 0..L {
                let excluded = |number: usize| source.excluded[usize::from(plan.anchors()[number])] >> lane & 1 != 0;
                lattice::inpaint(lattice, lane, plan.lattice(), excluded);
            }
        }
        for (integers, &place) in lattice.iter().zip(plan.anchors()) {
            out.values[usize::from(place)] = std::array::from_fn(|lane| anchor(lane, integers[lane]));
        }
        lattice::difference(lattice, plan.lattice());
        for (&code, integers) in plan.anchor_codes().iter().zip(&*lattice) {
            out.codes[usize::from(code)] = *integers;
        }
        if source.any_excluded || self.reserved_count > 0 {
            simd::run(Encode::<T, L, true> { by: *self, plan, source, out });
        } else {
            simd::run(Encode::<T, L, false> { by: *self, plan, source, out });
        }
    }

    /// Reconstructs the elements `values` of several tiles from their codes; the inverse of [`Self::encode`]. Accepts
    /// any codes. `anchor` returns the value of an integer of a lane.
    pub fn decode<const L: usize>(
        &self,
        plan: &Plan<T>,
        codes: &Lanes<i32, L>,
        anchor: impl Fn(usize, i32) -> T,
        values: &mut Lanes<T, L>,
    ) {
        simd::run(Decode { step: self.step, plan, codes, anchor, values });
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
        let Self { by, plan, source, out } = self;
        let Interpolation { step, inverse, bound, kept, .. } = by;
        let Encoded { codes, values, missed, any_missed } = out;
        let mut any = [0; L];
        plan.predict(values, |point, predicted| {
            let place = usize::from(point.place) & (MAX_TILE_ELEMENTS - 1);
            let wanted = source.x[place];
            // The bits are set only if there are any.
            let excluded = if EXCLUDES && source.any_excluded { source.excluded[place] } else { 0 };
            let (mut chosen, mut bad, mut out) = ([0; L], [0; L], predicted);
            for lane in 0..L {
                let (wanted, predicted) = (wanted[lane], predicted[lane]);
                let scaled = (wanted - predicted).times(inverse).round_ties_even();
                let (code, small) = scaled.to_code::<CODE_LIMIT>();
                let value = T::from_code(code).mul_add(step, predicted);
                // A code of 0 gives the prediction itself. Adding 0 would give the same value, except for the sign of
                // zero.
                let value = if code != 0 { value } else { predicted };
                let error = (wanted - value).magnitude();
                // 0.0 is kept exactly, so that it does not become a value next to it, and -0.0 is verbatim.
                let same_zero = (wanted != kept) | (value.is_positive_zero() & wanted.is_positive_zero());
                let free = !EXCLUDES || by.reserved().iter().fold(true, |free, r| free & (r.bits() != value.bits()));
                let good = small & (error < bound) & same_zero & free;
                let included = !EXCLUDES | (excluded >> lane & 1 == 0);
                chosen[lane] = if good & included { code } else { 0 };
                out[lane] = if good & included { value } else { predicted };
                bad[lane] = i32::from(!good & included);
                any[lane] |= bad[lane];
            }
            codes[usize::from(point.code) & (MAX_TILE_ELEMENTS - 1)] = chosen;
            missed[place] = bad;
            out
        });
        *any_missed = any.map(|any| any != 0);
    }
}

struct Decode<'a, T: Real, A, const L: usize> {
    step: T,
    plan: &'a Plan<T>,
    codes: &'a Lanes<i32, L>,
    anchor: A,
    values: &'a mut Lanes<T, L>,
}

impl<T: Real, A: Fn(usize, i32) -> T, const L: usize> Kernel for Decode<'_, T, A, L> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) {
        let Self { step, plan, codes, anchor, values } = self;
        let mut integers = [[0; L]; MAX_ANCHORS];
        let integers = &mut integers[..plan.anchors().len()];
        for (integers, &code) in integers.iter_mut().zip(plan.anchor_codes()) {
            *integers = codes[usize::from(code)];
        }
        lattice::integrate(integers, plan.lattice());
        for (integers, &place) in integers.iter().zip(plan.anchors()) {
            values[usize::from(place)] = std::array::from_fn(|lane| anchor(lane, integers[lane]));
        }
        plan.predict(values, |point, predicted| {
            let codes = &codes[usize::from(point.code) & (MAX_TILE_ELEMENTS - 1)];
            // A code of 0 gives the prediction itself, of whatever sign.
            std::array::from_fn(|lane| match codes[lane] {
                0 => predicted[lane],
                code => T::from_code(code).mul_add(step, predicted[lane]),
            })
        });
    }
}
