//! The choice of a chunk's parameters from its sample alone, as other implementations of the pipeline make it.

use std::ops::Range;

use super::super::lossless::Residuals;
use super::super::options::{LosslessOptions, LosslessPipeline};
use super::estimate::sample_runs;
use super::{EncodeBuffers, choose};
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

/// The tiles of a chunk that are its sample, as ranges of their numbers in the array.
pub fn lzss_sample(geometry: &Geometry, chunk: u64, element_bytes: usize, level: u8) -> Vec<Range<u64>> {
    let tiles = geometry.chunk_range(chunk);
    let first = geometry.range(tiles.clone()).next().map(|tile| tile.len());
    let runs = sample_runs((tiles.end - tiles.start) as usize, first, element_bytes, level);
    runs.into_iter().map(|run| tiles.start + run.start as u64..tiles.start + run.end as u64).collect()
}

/// Chooses how a chunk of `elements` elements is coded whose sample, `tiles`, has the little-endian elements `sample`.
///
/// # Panics
/// `sample` has not the tiles' elements.
pub fn choose_lzss(
    element: ElementType,
    geometry: &Geometry,
    tiles: &[Range<u64>],
    elements: u64,
    options: &LosslessOptions,
    sample: &[u8],
) -> LzssChoice {
    let choose = match element.size() {
        1 => by_sample::<u8>,
        2 => by_sample::<u16>,
        4 => by_sample::<u32>,
        _ => by_sample::<u64>,
    };
    choose(element, geometry, tiles, elements, options, sample)
}

fn by_sample<W: Word>(
    element: ElementType,
    geometry: &Geometry,
    tiles: &[Range<u64>],
    elements: u64,
    options: &LosslessOptions,
    sample: &[u8],
) -> LzssChoice {
    let little = |bytes: &[u8]| W::narrow(bytes.iter().rev().fold(0, |wide, &b| wide << 8 | u64::from(b)));
    let sample: Vec<W> = sample.chunks_exact(size_of::<W>()).map(little).collect();
    let tiles: Vec<Tile> = tiles.iter().flat_map(|run| geometry.range(run.clone())).collect();
    let entropy_coded = options.pipeline != LosslessPipeline::Lzss;
    let residuals = Residuals::new(element, geometry.axes(), &tiles, &sample);
    let mut buffers = EncodeBuffers::default();
    // A chunk has at most 2^22 elements.
    let choice = choose(options, entropy_coded, &sample, &residuals, elements as usize, &mut buffers);
    LzssChoice { of_residuals: choice.of_residuals, params: choice.params }
}
