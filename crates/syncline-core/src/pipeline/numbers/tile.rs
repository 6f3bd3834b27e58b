//! One tile: elements to codes.

use super::{Plan, TileState};
use crate::array::ElementType;
use crate::geometry::MAX_TILE_ELEMENTS;
use crate::predict::word::Word;
use crate::predict::{orders, residuals};
use crate::quantize::mask::{MaskKind, TileMask};
use crate::simd::{self, InstructionSet, Kernel};

/// What becomes of a tile besides its codes.
pub(super) struct CodedTile<W> {
    pub state: TileState,
    pub base: W,
    /// Elements that hold the pattern.
    pub masked: TileMask,
    /// Elements that are not those of their numbers.
    pub verbatim: TileMask,
}

/// Which elements of a tile take part in prediction.
#[derive(Debug)]
pub(super) struct TakenTile {
    /// Elements that hold the pattern.
    pub masked: TileMask,
    /// Elements that are not those of their numbers.
    pub verbatim: TileMask,
    /// Both.
    left_out: TileMask,
    /// The first other one.
    first: Option<usize>,
}

/// Computes the codes of a tile's elements, and their rests if there are any. `last_base` is the base of the tile
/// before.
pub(super) fn code_tile<W: Word>(
    plan: &Plan,
    element: ElementType,
    extent: [usize; 3],
    elements: &[W],
    last_base: W,
    (codes, rests): (&mut [W], &mut [u16]),
    memory: &mut TileMemory<W>,
) -> CodedTile<W> {
    let numbers = &mut memory.numbers[..elements.len()];
    let taken = take_numbers(plan, element, elements, numbers, rests);
    let (base, constant) = predict_tile(plan, extent, &taken, (numbers, last_base), codes, &mut memory.other);
    let TakenTile { masked, verbatim, .. } = taken;
    let state = TileState { constant, mask: MaskKind::of(&masked, codes.len()) };
    CodedTile { state, base, masked, verbatim }
}

/// Computes the numbers of a tile's elements, and their rests if there are any.
pub(super) fn take_numbers<W: Word>(
    plan: &Plan,
    element: ElementType,
    elements: &[W],
    numbers: &mut [W],
    rests: &mut [u16],
) -> TakenTile {
    let mut masked = TileMask::default();
    if let Some(pattern) = plan.pattern {
        let pattern = W::narrow(pattern);
        for (block, elements) in elements.chunks(64).enumerate() {
            let bits = elements.iter().rev().fold(0, |bits, &word| bits << 1 | u64::from(word == pattern));
            masked.or_word(block, bits);
        }
    }
    let others = plan.number.take(element, elements, numbers, rests);
    let (verbatim, left_out) = (others.without(&masked), others.union(&masked));
    if plan.number.has_rest() {
        left_out.ones().for_each(|i| rests[i] = 0);
    }
    let first = (0..elements.len()).find(|&i| !left_out.get(i));
    TakenTile { masked, verbatim, left_out, first }
}

/// Computes the codes of a tile's numbers, of which those that are left out may change. Returns the base, which is the
/// one before if the tile has none, and whether all codes are 0.
pub(super) fn predict_tile<W: Word>(
    plan: &Plan,
    extent: [usize; 3],
    taken: &TakenTile,
    (numbers, last_base): (&mut [W], W),
    codes: &mut [W],
    other: &mut [W],
) -> (W, bool) {
    let TakenTile { left_out, first, .. } = taken;
    let base = match *first {
        Some(first) if plan.has_bases() => numbers[first],
        _ => last_base,
    };
    let center = W::narrow(plan.center as u64);
    if first.is_none() {
        codes.fill(W::ZERO);
    } else {
        let is_any_left_out = left_out.any();
        if is_any_left_out {
            orders::fill_left_out(numbers, extent, plan.predictor, left_out.ones(), (base, center));
        }
        simd::run(Predict { numbers, codes, other, extent, predictor: plan.predictor, center });
        if is_any_left_out && plan.predictor == 0 {
            left_out.ones().for_each(|i| codes[i] = W::ZERO);
        }
    }
    (base, simd::run(AreZero(codes)))
}

/// Memory for the numbers of a tile, and for predictions.
#[derive(Debug)]
pub(super) struct TileMemory<W> {
    numbers: Vec<W>,
    other: Vec<W>,
}

impl<W: Word> Default for TileMemory<W> {
    fn default() -> Self {
        Self { numbers: vec![W::ZERO; MAX_TILE_ELEMENTS], other: vec![W::ZERO; MAX_TILE_ELEMENTS] }
    }
}

struct Predict<'a, W> {
    numbers: &'a [W],
    codes: &'a mut [W],
    other: &'a mut [W],
    extent: [usize; 3],
    predictor: u8,
    center: W,
}

impl<W: Word> Kernel for Predict<'_, W> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) {
        let Self { numbers, codes, other, extent, predictor, center } = self;
        residuals::write_residuals(numbers, extent, predictor, codes, &mut other[..numbers.len()]);
        if center != W::ZERO {
            codes.iter_mut().for_each(|code| *code = code.minus(center));
        }
        // All residuals but the first one, which is 0, are the same with the base subtracted and without.
        if predictor != 0 {
            codes[0] = W::ZERO;
        }
    }
}

struct AreZero<'a, W>(&'a [W]);

impl<W: Word> Kernel for AreZero<'_, W> {
    type Output = bool;

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> bool {
        self.0.iter().fold(0, |all, code| all | code.widen()) == 0
    }
}
