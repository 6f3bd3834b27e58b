//! The size of the tiles of an array, chosen by a sample.

use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::{Bound, Fill, Pipeline, Resolved};
use syncline_core::error::Result;
use syncline_core::geometry::{Geometry, TileSize};

use crate::estimate::sample;
use crate::io::ReadAt;
use crate::job::compress_array;
use crate::options::CompressOptions;
use crate::source::ArraySource;

/// Most elements of the sample.
const SAMPLE_ELEMENTS: u64 = 1 << 20;

/// Returns the fill values that were detected. The sample has NaN and zeros of its own among its patterns.
fn detected(element_type: ElementType, resolved: &Resolved) -> Result<Fill> {
    let values = resolved.patterns.iter().map(|pattern| element_type.number_of_bits(pattern.bits));
    Fill::of(&values.filter(|value| !value.is_nan() && *value != 0.0).collect::<Vec<f64>>())
}

/// Returns the size of the effort: for the best one, that with which a sample of the array is compressed best.
///
/// # Errors
/// Those of [`compress`](crate::compress).
pub(crate) fn choose<S: ReadAt + ?Sized>(
    array: &ArraySource<S>,
    element_type: ElementType,
    shape: Shape,
    options: &CompressOptions,
    resolved: &Resolved,
) -> Result<TileSize> {
    match options.tile() {
        Some(size) => return Ok(size),
        None if resolved.pipeline != Pipeline::Quantized => return Ok(TileSize::Small),
        None => {}
    }
    let bound = Bound::Abs(resolved.abs_bound);
    let sample = sample::take(array, element_type, &Geometry::with_tiles(shape, TileSize::Block), SAMPLE_ELEMENTS)?;
    let fill = match options.fill() {
        Fill::Auto => detected(element_type, resolved)?,
        given => given,
    };
    let inner = sample::options_for(options, bound, fill);
    let bytes = |size| -> Result<u64> {
        let (elements, shape) = (sample.bytes(), sample.shape());
        let summary = compress_array(elements, 0, element_type, shape, &inner, |_, _| Ok(size), std::io::sink())?;
        Ok(summary.compressed_bytes)
    };
    let [tiles, blocks] = [bytes(TileSize::Small)?, bytes(TileSize::Block)?];
    Ok(if blocks < tiles { TileSize::Block } else { TileSize::Small })
}
