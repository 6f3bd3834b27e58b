//! Quantizes a tile to integers. Some elements are masked or stored verbatim instead.

use super::reserved::reserved_patterns;
use crate::bound::{Bound, ErrorSummary, Pipeline};
use crate::container::{Header, TileInfo};
use crate::geometry::{MAX_TILE_ELEMENTS, Tile};
use crate::quantize::fill::{TileFill, fill_excluded};
use crate::quantize::log::signs;
use crate::quantize::mask::{MaskKind, TileMask};
use crate::quantize::select::matches;
use crate::quantize::value_range::ValueRange;
use crate::quantize::{Linear, Log, Real, Stored};

/// The quantizer of a stream.
pub(super) enum Quantizer<T: Real> {
    Linear(Linear<T>),
    Logarithm(Log<T>),
}

impl<T: Real> Quantizer<T> {
    pub(super) fn new(header: &Header) -> Self {
        match header.pipeline {
            Pipeline::LogQuantized => Self::Logarithm(Log::new(header.step, header.abs_bound)),
            _ => Self::Linear(Linear::new(header.step, header.computed_bound())),
        }
    }
}

/// Quantizes the tiles of a chunk one after another.
pub(super) struct TileQuantizer<T: Real> {
    pub(super) quantizer: Quantizer<T>,
    stored: Stored<T>,
    /// The values of fill patterns.
    patterns: Vec<u64>,
    /// Those that no other value may become.
    reserved: Vec<u64>,
    range: Option<ValueRange<T>>,
    /// Whether the bound needs the errors of tiles.
    pub(super) measures: bool,
    /// The errors of the tiles so far.
    pub(super) summary: ErrorSummary,
}

/// Properties of a tile other than its integers.
#[derive(Debug, Default)]
pub(super) struct QuantizedTile {
    /// Kinds of the mask and the signs.
    pub(super) info: TileInfo,
    /// Elements that hold the fill pattern of the tile.
    pub(super) mask: TileMask,
    /// Elements that are negative, if signs are on their own.
    pub(super) negative: TileMask,
    /// Whether no element is quantized.
    pub(super) is_empty: bool,
    /// Whether elements are masked or verbatim. If not, the masks that follow say nothing.
    pub(super) any_excluded: bool,
    /// Elements that must be verbatim.
    pub(super) exact: TileMask,
    /// Elements that are verbatim or masked.
    pub(super) excluded: TileMask,
    /// Elements that no predictor codes, among the verbatim ones: those that hold a fill pattern other than the tile's,
    /// and those outside of the range.
    pub(super) foreign: TileMask,
}

impl QuantizedTile {
    /// Returns the number of elements that must be verbatim.
    pub(super) fn verbatim(&self) -> usize {
        if self.any_excluded { self.exact.count() } else { 0 }
    }

    /// Returns the elements that are masked or foreign, if there are excluded ones.
    pub(super) fn not_coded(&self) -> TileMask {
        self.excluded.without(&self.exact).union(&self.foreign)
    }
}

impl<T: Real> TileQuantizer<T> {
    pub(super) fn new(header: &Header) -> Self {
        let stored = header.stored();
        Self {
            stored,
            patterns: stored.values_of(&header.patterns),
            reserved: reserved_patterns::<T>(header),
            quantizer: Quantizer::new(header),
            range: header.range.map(ValueRange::new),
            measures: matches!(header.bound, Bound::Psnr(_)),
            summary: ErrorSummary::default(),
        }
    }

    /// Quantizes the elements `x` of a tile to `q`.
    #[inline]
    pub(super) fn quantize(&self, tile: &Tile, x: &[T], q: &mut [i32], out: &mut QuantizedTile) {
        out.info = TileInfo::default();
        out.exact = TileMask::default();
        out.any_excluded = match &self.quantizer {
            Quantizer::Linear(linear) => linear.quantize_tile(x, q, &mut out.exact),
            Quantizer::Logarithm(logarithm) => logarithm.quantize_tile(x, q, &mut out.exact),
        };
        if !self.reserved.is_empty() || self.stored.element().is_half() {
            out.exact = out.exact.union(&self.not_stored(x, q));
            out.any_excluded = out.exact.any();
        }
        let outside = self.range.and_then(|range| range.outside(x));
        let patterns = self.patterns.as_slice();
        let fill = (!patterns.is_empty()).then(|| TileFill::find(x, patterns));
        let fill = fill.filter(|fill| fill.kind != MaskKind::Nothing);
        out.any_excluded |= fill.is_some() || outside.is_some();
        if out.any_excluded {
            let foreign = outside.unwrap_or_default();
            out.exact = out.exact.union(&foreign);
            out.excluded = out.exact;
            out.foreign = foreign;
            if let Some(fill) = fill {
                (out.info.mask, out.info.pattern, out.mask) = (fill.kind, fill.pattern, fill.mask);
                out.excluded = out.exact.union(&fill.mask).union(&fill.foreign);
                out.exact = out.excluded.without(&fill.mask);
                out.foreign = foreign.without(&fill.mask).union(&fill.foreign);
            }
        }
        if let Quantizer::Logarithm(_) = &self.quantizer {
            let excluded = if out.any_excluded { out.excluded } else { TileMask::default() };
            (out.info.sign, out.negative) = signs(x, &excluded);
        }
        out.is_empty = out.any_excluded && fill_excluded(q, tile.extent, &out.excluded);
    }

    /// Returns the elements that are reconstructed as a reserved pattern, and those that miss the bound only when they
    /// are rounded to their type.
    fn not_stored(&self, x: &[T], q: &[i32]) -> TileMask {
        let mut back = [T::from_bits(0); MAX_TILE_ELEMENTS];
        let back = &mut back[..q.len()];
        match &self.quantizer {
            Quantizer::Linear(linear) => linear.dequantize(q, back),
            Quantizer::Logarithm(logarithm) => {
                logarithm.dequantize(q, back);
                back.iter_mut().zip(x).for_each(|(back, x)| *back = back.with_sign(x.is_negative()));
            }
        }
        self.stored.round(back);
        let of_pattern = |&bits: &u64| matches(back, T::from_bits(bits));
        let reserved = self.reserved.iter().map(of_pattern).fold(TileMask::default(), |all, found| all.union(&found));
        if !self.stored.element().is_half() {
            return reserved;
        }
        reserved.union(&match &self.quantizer {
            Quantizer::Linear(linear) => linear.missed(x, back),
            Quantizer::Logarithm(logarithm) => logarithm.missed(x, back),
        })
    }

    /// Adds the errors of a tile that is reconstructed from its integers to the summary, if the bound needs them.
    #[inline]
    pub(super) fn measure(&mut self, x: &[T], q: &[i32], excluded: &TileMask) {
        if let (true, Quantizer::Linear(linear)) = (self.measures, &self.quantizer) {
            if !self.stored.is_same() {
                let mut back = vec![T::zeroed(); x.len()];
                linear.dequantize(q, &mut back);
                return self.measure_values(x, &mut back, excluded);
            }
            self.summary.squared_error += u128::from(linear.squared_error(x, q, excluded));
            self.summary.counted += (x.len() - excluded.count()) as u64;
        }
    }

    /// Computes [`Self::measure`] for a tile that is reconstructed as `values`, which are rounded to their type.
    pub(super) fn measure_values(&mut self, x: &[T], values: &mut [T], excluded: &TileMask) {
        if let (true, Quantizer::Linear(linear)) = (self.measures, &self.quantizer) {
            self.stored.round(values);
            self.summary.squared_error += u128::from(linear.squared_error_of(x, values, excluded));
            self.summary.counted += (x.len() - excluded.count()) as u64;
        }
    }
}
