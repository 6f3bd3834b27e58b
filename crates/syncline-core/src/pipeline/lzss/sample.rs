//! The choice of a chunk's parameters from its sample alone, as other implementations of the pipeline make it.

use std::ops::Range;

use super::super::lossless::Residuals;
use super::super::options::{LosslessOptions, LosslessPipeline};
pub use super::estimate::Way as LzssWay;
use super::estimate::{sample_runs, ways, weigh};
use super::{Choice, EncodeBuffers};
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

/// The ways in which a chunk may be coded. The one with the smallest [`WeighedLzss::bytes`] is taken, the first of several.
pub fn lzss_ways(element: ElementType, options: &LosslessOptions) -> Vec<LzssWay> {
    ways(options, element.size())
}

/// What the sample of a chunk says of one way to code it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeighedLzss {
    /// How the chunk is coded.
    pub choice: LzssChoice,
    /// About how many bytes it will take, and what is added for being slow.
    pub bytes: u64,
}

/// Weighs one way to code a chunk of `elements` elements whose sample, `tiles`, has the little-endian elements `sample`.
///
/// # Panics
/// `sample` has not the tiles' elements.
pub fn weigh_lzss(
    element: ElementType,
    geometry: &Geometry,
    tiles: &[Range<u64>],
    elements: u64,
    options: &LosslessOptions,
    sample: &[u8],
    way: LzssWay,
) -> WeighedLzss {
    let weigh = match element.size() {
        1 => by_sample::<u8>,
        2 => by_sample::<u16>,
        4 => by_sample::<u32>,
        _ => by_sample::<u64>,
    };
    weigh(element, geometry, tiles, elements, options, sample, way)
}

fn by_sample<W: Word>(
    element: ElementType,
    geometry: &Geometry,
    tiles: &[Range<u64>],
    elements: u64,
    options: &LosslessOptions,
    sample: &[u8],
    way: LzssWay,
) -> WeighedLzss {
    let little = |bytes: &[u8]| W::narrow(bytes.iter().rev().fold(0, |wide, &b| wide << 8 | u64::from(b)));
    let sample: Vec<W> = sample.chunks_exact(size_of::<W>()).map(little).collect();
    let entropy_coded = options.pipeline != LosslessPipeline::Lzss;
    let mut buffers = EncodeBuffers::default();
    let residuals = way.of_residuals.then(|| {
        let tiles: Vec<Tile> = tiles.iter().flat_map(|run| geometry.range(run.clone())).collect();
        Residuals::new(element, geometry.axes(), &tiles, &sample)
    });
    let input = match &residuals {
        Some(residuals) => (&residuals.words[..], residuals.bases.len()),
        None => (&sample[..], 0),
    };
    // A chunk has at most 2^22 elements.
    let choice = weigh(options, entropy_coded, way, input, sample.len(), elements as usize, &mut buffers);
    let Choice { of_residuals, params, bytes, .. } = choice;
    WeighedLzss { choice: LzssChoice { of_residuals, params }, bytes }
}
