//! Chunks of numbers: elements to numbers, residuals, bins, and symbols of bins (`docs/FORMAT.md`, "Numbers").

mod binned;
mod choose;
mod decode;
mod encode;
mod sampled;
mod tile;

pub(super) use decode::decode;
pub(super) use encode::encode;
pub use sampled::{
    MOST_SAMPLED_CODES, NumberBinning, SAMPLED_NUMBER_ELEMENTS, choose_number_bins, choose_number_plan, number_sample,
    sampled_code_rows,
};

use super::context::Context;
use super::report::ChunkReport;
use crate::array::ElementType;
use crate::bits::fields::Fields;
use crate::container::{Sections, SparseList, pack_aligned, unpack_aligned};
use crate::error::{Error, Result};
use crate::numbers::bins::read_bins;
use crate::numbers::number::{Number, Scale, Scaling};
use crate::numbers::tuples::{self, TUPLES};
use crate::predict::orders::SECOND_ORDER;
use crate::quantize::mask::MaskKind;

/// Sections of a chunk of numbers.
const PLAN: usize = 0;
const BASES: usize = 1;
const BINS: usize = 2;
const SYMBOLS: usize = 3;
const RAW_LENGTHS: usize = 4;
const RAW_BITS: usize = 5;
const VERBATIM: usize = 6;
const MASKS: usize = 7;
const RESTS: usize = 8;

/// What is the same for all tiles of a chunk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// How elements are made of numbers.
    pub number: Number,
    /// The bits of elements that are masked.
    pub pattern: Option<u64>,
    /// The predictor of all tiles. If it is 0, they have no bases.
    pub predictor: u8,
    /// Subtracted from every code, sign-extended.
    pub center: i64,
    /// Bins of a symbol.
    pub tuple: usize,
}

/// What a tile is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TileState {
    /// All codes are 0.
    pub constant: bool,
    /// Which elements hold the pattern.
    pub mask: MaskKind,
}

const HAS_PATTERN: u8 = 1;

impl Plan {
    /// Returns whether tiles have bases.
    pub fn has_bases(&self) -> bool {
        self.predictor != 0
    }

    /// Appends section 0.
    pub fn write(&self, tiles: &[TileState], out: &mut Vec<u8>) {
        let (kind, scaling, parameters) = match self.number {
            Number::Ordered => (0, 0, [0; 2]),
            Number::Multiple { divisor, offset } => (1, 0, [divisor, offset]),
            Number::Scaled(Scale { how, step, offset }) => (2, how as u8, [step.to_bits(), offset.to_bits()]),
            Number::ScaledUlps(Scale { how, step, offset }) => (3, how as u8, [step.to_bits(), offset.to_bits()]),
            Number::Split => (4, 0, [0; 2]),
        };
        let flags = u8::from(self.pattern.is_some()) * HAS_PATTERN;
        out.extend_from_slice(&[kind, scaling, self.tuple as u8, self.predictor, flags, 0, 0, 0]);
        for number in [self.center as u64, parameters[0], parameters[1], self.pattern.unwrap_or(0)] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        pack_aligned::<1>(out, tiles.iter().map(|tile| u8::from(tile.constant)));
        if self.pattern.is_some() {
            pack_aligned::<2>(out, tiles.iter().map(|tile| tile.mask as u8));
        }
    }

    /// Reads section 0 of a chunk of this many tiles.
    ///
    /// # Errors
    /// Wrong length or impossible values.
    fn parse(section: &[u8], element: ElementType, tiles: usize, place: &str) -> Result<(Self, Vec<TileState>)> {
        let bad = |what: &str| Error::corrupt(place, what);
        let mut fields = Fields::new(section, place);
        let (kind, scaling, tuple) = (fields.u8()?, fields.u8()?, usize::from(fields.u8()?));
        let (predictor, flags) = (fields.u8()?, fields.u8()?);
        if fields.take(3)? != [0; 3] || flags & !HAS_PATTERN != 0 || predictor > SECOND_ORDER {
            return Err(bad("unknown flags or predictor of numbers"));
        }
        if !TUPLES.contains(&tuple) {
            return Err(bad("impossible symbols of bins"));
        }
        let center = fields.u64()? as i64;
        let parameters = [fields.u64()?, fields.u64()?];
        let pattern = fields.u64()?;
        let number = number_of(kind, scaling, parameters, element).ok_or_else(|| bad("unknown kind of numbers"))?;
        // Memory: `tiles` comes from the chunk geometry and the bitmap that follows has a bit for each.
        let constant = unpack_aligned::<1>(&mut fields, tiles)?;
        let mut states: Vec<TileState> =
            constant.map(|constant| TileState { constant: constant == 1, ..TileState::default() }).collect();
        let has_pattern = flags & HAS_PATTERN != 0;
        if has_pattern {
            for (state, mask) in states.iter_mut().zip(unpack_aligned::<2>(&mut fields, tiles)?) {
                state.mask = MaskKind::from_code(mask).ok_or_else(|| bad("unknown mask kind"))?;
            }
        }
        if !fields.rest().is_empty() {
            return Err(bad("its section of tiles is too long"));
        }
        Ok((Self { number, pattern: has_pattern.then_some(pattern), predictor, center, tuple }, states))
    }
}

/// Adds the sizes and counts of a chunk of numbers to a report.
pub(super) fn inspect(context: &Context, sections: &Sections<'_>, report: &mut ChunkReport) -> Result<()> {
    let (place, element) = (context.place.as_str(), context.header.element_type);
    let (plan, states) = Plan::parse(sections.0[PLAN], element, context.tile_count(), place)?;
    report.constant_tiles = states.iter().filter(|state| state.constant).count() as u64;
    report.masked_tiles = states.iter().filter(|state| state.mask != MaskKind::Nothing).count() as u64;
    let elements = context.geometry.chunk_elements(context.chunk);
    report.verbatim = SparseList::parse(sections.0[VERBATIM], element.size(), elements, place)?.len() as u64;
    if states.iter().any(|state| !state.constant) {
        let bins = match element.size() {
            1 => read_bins::<u8>(sections.0[BINS], place)?.len(),
            2 => read_bins::<u16>(sections.0[BINS], place)?.len(),
            4 => read_bins::<u32>(sections.0[BINS], place)?.len(),
            _ => read_bins::<u64>(sections.0[BINS], place)?.len(),
        };
        match tuples::symbols(bins, plan.tuple, place)? {
            ..=256 => report.add_stream::<u8>(sections.0[SYMBOLS], place)?,
            _ => report.add_stream::<u16>(sections.0[SYMBOLS], place)?,
        }
    }
    if !sections.0[MASKS].is_empty() {
        report.add_stream::<u8>(sections.0[MASKS], place)?;
    }
    if !sections.0[RESTS].is_empty() {
        report.add_stream::<u16>(sections.0[RESTS], place)?;
    }
    report.codebook_bytes += sections.0[BINS].len() as u64;
    report.codeword_bytes += sections.0[RAW_BITS].len() as u64;
    report.index_bytes += sections.0[RAW_LENGTHS].len() as u64;
    Ok(())
}

/// Returns the numbers with these fields, or `None` if there are none for elements of the type.
fn number_of(kind: u8, scaling: u8, [first, second]: [u64; 2], element: ElementType) -> Option<Number> {
    let has_floats = matches!(element, ElementType::F32 | ElementType::F64);
    let scale = || {
        let how = [Scaling::Quotient, Scaling::Product, Scaling::ShortProduct];
        let how = how.into_iter().find(|&how| how as u8 == scaling)?;
        let (step, offset) = (f64::from_bits(first), f64::from_bits(second));
        let is_possible = has_floats && step > 0.0 && step.is_finite() && offset.is_finite();
        is_possible.then_some(Scale { how, step, offset })
    };
    match kind {
        0 => Some(Number::Ordered),
        1 => (!element.is_float()).then_some(Number::Multiple { divisor: first, offset: second }),
        2 => scale().map(Number::Scaled),
        3 => scale().map(Number::ScaledUlps),
        4 => (element.size() >= 4).then_some(Number::Split),
        _ => None,
    }
}
