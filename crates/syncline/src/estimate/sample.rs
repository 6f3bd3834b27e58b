//! The tiles of a sample, and the options to compress them with.

use std::ops::Range;

use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::{Bound, Fill};
use syncline_core::error::Result;
use syncline_core::geometry::Geometry;

use crate::array::Array;
use crate::devices::Backend;
use crate::io::ReadAt;
use crate::options::{CompressOptions, Progress};
use crate::source::ArraySource;

/// Positions that are kept along an axis as long as another axis has more.
const WELL_SPREAD: u64 = 4;

/// Reads tiles from all parts of an array: the product of some positions along each axis. They form an array of their
/// own, which has the same tiles.
pub(crate) fn take<S: ReadAt + ?Sized>(
    source: &ArraySource<S>,
    element_type: ElementType,
    geometry: &Geometry,
    most: u64,
) -> Result<Array> {
    let dims = geometry.dims();
    if geometry.elements() <= most {
        let mut buffer = Vec::new();
        let bytes = source.elements(0, geometry.elements(), &mut buffer)?.to_vec();
        return Ok(Array::new(bytes, element_type, geometry.shape()));
    }
    let [z, y, x] = geometry.unclipped_extent();
    let tile = [1, z as u64, y as u64, x as u64];
    let grid: [u64; 4] = std::array::from_fn(|axis| dims[axis].div_ceil(tile[axis]));
    let counts = reduced(grid, most / geometry.unclipped_len());
    let positions: [Vec<Range<u64>>; 4] = std::array::from_fn(|axis| {
        let places = spread(grid[axis], counts[axis]);
        places.map(|at| at * tile[axis]..((at + 1) * tile[axis]).min(dims[axis])).collect()
    });
    let extents: [u64; 4] =
        std::array::from_fn(|axis| positions[axis].iter().map(|range| range.end - range.start).sum());
    let mut bytes = Vec::new();
    let mut buffer = Vec::new();
    let runs = joined(&positions[3]);
    for b in positions[0].iter().cloned().flatten() {
        for z in positions[1].iter().cloned().flatten() {
            for y in positions[2].iter().cloned().flatten() {
                for run in &runs {
                    let first = geometry.element([b, z, y, run.start]);
                    bytes.extend_from_slice(source.elements(first, run.end - run.start, &mut buffer)?);
                }
            }
        }
    }
    // Axes of extent 1 are dropped, as in the array.
    let shape = Shape::new(match geometry.axes() {
        1 => &extents[3..],
        2 => &extents[2..],
        _ => &extents,
    })?;
    Ok(Array::new(bytes, element_type, shape))
}

/// Returns how many positions are kept along each axis, so that there are at most `most` tiles. Rows stay whole as long
/// as possible, because their elements are read at once.
fn reduced(grid: [u64; 4], most: u64) -> [u64; 4] {
    let mut counts = grid;
    while counts.iter().product::<u64>() > most.max(1) {
        let largest_from = |axes: Range<usize>, least: u64| {
            axes.filter(|&axis| counts[axis] > least).max_by_key(|&axis| (counts[axis], axis))
        };
        let axis = largest_from(0..3, WELL_SPREAD).or_else(|| largest_from(3..4, WELL_SPREAD));
        match axis.or_else(|| largest_from(0..4, 1)) {
            Some(axis) => counts[axis] = counts[axis].div_ceil(2),
            None => break,
        }
    }
    counts
}

/// Returns `count` of the numbers below `all`, evenly spread.
fn spread(all: u64, count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |i| ((2 * i + 1) as u128 * u128::from(all) / (2 * u128::from(count))) as u64)
}

/// Joins ranges that follow each other.
fn joined(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match runs.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => runs.push(range.clone()),
        }
    }
    runs
}

/// Returns the options for a sample that correspond to `options` for the whole array. `bound` and `fill` are what the
/// bound and the fill values of the array come to for the sample.
pub(crate) fn options_for(options: &CompressOptions, bound: Bound, fill: Fill) -> CompressOptions {
    let mut inner = options.clone().with_bound(bound).with_fill(fill).with_backend(Backend::Cpu);
    inner.progress = Progress::default();
    inner
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(extents: &[u64], most: u64) -> (Array, Geometry) {
        let shape = Shape::new(extents).unwrap();
        let bytes: Vec<u8> = (0..shape.len() as u32).flat_map(u32::to_le_bytes).collect();
        let source = ArraySource::new(&bytes, 0, ElementType::U32);
        let geometry = Geometry::new(shape);
        (take(&source, ElementType::U32, &geometry, most).unwrap(), geometry)
    }

    #[test]
    fn tiles_of_the_sample_are_tiles_of_the_array() {
        for extents in [&[50_000][..], &[300, 310], &[1, 300, 310], &[30, 40, 50], &[7, 20, 33, 41], &[2, 3, 20, 9, 40]]
        {
            let (array, geometry) = sample(extents, 20_000);
            let own = Geometry::new(array.shape());
            assert!(array.shape().len() <= 20_000, "{extents:?}");
            assert_eq!((own.axes(), own.unclipped_extent()), (geometry.axes(), geometry.unclipped_extent()));
            let elements = array.to_vec::<u32>().unwrap();
            let offset_in_tile = |geometry: &Geometry, at: [u64; 4]| {
                let tile = geometry.unclipped_extent().map(|extent| extent as u64);
                [at[1] % tile[0], at[2] % tile[1], at[3] % tile[2]]
            };
            let place = |geometry: &Geometry, mut element: u64| {
                let dims = geometry.dims();
                let mut at = [0; 4];
                for axis in (0..4).rev() {
                    at[axis] = element % dims[axis];
                    element /= dims[axis];
                }
                at
            };
            for (i, &element) in elements.iter().enumerate() {
                let (here, there) = (place(&own, i as u64), place(&geometry, u64::from(element)));
                assert_eq!(offset_in_tile(&own, here), offset_in_tile(&geometry, there), "{extents:?}");
            }
            // From all parts.
            let all = geometry.elements() as f64;
            let mean = elements.iter().map(|&element| f64::from(element)).sum::<f64>() / elements.len() as f64;
            assert!((mean / all - 0.5).abs() < 0.15, "{extents:?}: {}", mean / all);
        }
    }

    #[test]
    fn small_arrays_are_whole() {
        let (array, geometry) = sample(&[5, 1, 7], 35);
        assert_eq!((array.shape(), array.shape().len()), (geometry.shape(), 35));
        assert_eq!(sample(&[0, 5], 0).0.shape().extents(), [0, 5]);
    }
}
