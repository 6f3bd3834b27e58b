//! The choice of a chunk's parameters from its sample alone, as other implementations of the pipeline make it.

use std::ops::Range;

use super::super::lossless::Residuals;
use super::super::options::{LosslessOptions, LosslessPipeline};
use super::{Choice, EncodeBuffers, choose, sample_tiles};
use crate::array::ElementType;
use crate::geometry::{Geometry, Tile};
use crate::lzss::Params;
use crate::predict::lorenzo::Word;

/// How an LZSS chunk of a lossless stream is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LzssChoice {
    /// Whether the residuals are coded, not the elements.
    pub of_residuals: bool,
    /// How symbols become tokens.
    pub params: Params,
}

/// The elements of a chunk that are its sample, as ranges of their numbers in tile order.
pub fn lzss_sample(geometry: &Geometry, chunk: u64, element_bytes: usize, level: u8) -> Vec<Range<u64>> {
    let lengths: Vec<usize> = geometry.chunk(chunk).map(|tile| tile.len()).collect();
    let sum = |range: Range<usize>| lengths[range].iter().map(|&length| length as u64).sum::<u64>();
    let ranges = sample_tiles(&lengths, element_bytes, level);
    ranges.into_iter().map(|range| (sum(0..range.start), range)).map(|(from, range)| from..from + sum(range)).collect()
}

/// Chooses how a chunk is coded whose sample has the little-endian elements `sample`.
///
/// # Panics
/// `sample` has not the length of [`lzss_sample`]'s ranges.
pub fn choose_lzss(
    element: ElementType,
    geometry: &Geometry,
    chunk: u64,
    options: &LosslessOptions,
    sample: &[u8],
) -> LzssChoice {
    match element.size() {
        1 => by_sample::<u8>(element, geometry, chunk, options, sample),
        2 => by_sample::<u16>(element, geometry, chunk, options, sample),
        4 => by_sample::<u32>(element, geometry, chunk, options, sample),
        _ => by_sample::<u64>(element, geometry, chunk, options, sample),
    }
}

fn by_sample<W: Word>(
    element: ElementType,
    geometry: &Geometry,
    chunk: u64,
    options: &LosslessOptions,
    sample: &[u8],
) -> LzssChoice {
    let little = |bytes: &[u8]| W::narrow(bytes.iter().rev().fold(0, |wide, &b| wide << 8 | u64::from(b)));
    let sample: Vec<W> = sample.chunks_exact(size_of::<W>()).map(little).collect();
    let tiles: Vec<Tile> = geometry.chunk(chunk).collect();
    let lengths: Vec<usize> = tiles.iter().map(Tile::len).collect();
    let ranges = sample_tiles(&lengths, size_of::<W>(), options.level);
    let tiles: Vec<Tile> = ranges.into_iter().flat_map(|range| tiles[range].iter().copied()).collect();
    let entropy_coded = options.pipeline != LosslessPipeline::Lzss;
    let residuals = Residuals::new(element, geometry.axes(), &tiles, &sample);
    let elements = lengths.iter().sum();
    let mut buffers = EncodeBuffers::default();
    let Choice { of_residuals, params, .. } =
        choose(options, entropy_coded, &sample, &residuals, elements, &mut buffers);
    LzssChoice { of_residuals, params }
}
