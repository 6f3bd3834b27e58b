//! What a part of an array costs: bytes of the stream that are read, and values that are decoded.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use syncline::{
    ArrayView, Bound, CompressOptions, DecompressOptions, Effort, ReadAt, StreamFile, compress, decompress,
};

use crate::array::Array;
use crate::check::{Promise, ensure_same};
use crate::clock::Clock;
use crate::codec::{Codec, Variant};
use crate::random::Stream;
use crate::record::{Record, bound_text};

/// Places of each kind of region.
const PLACES: u64 = 16;
/// Values of a block of zfp along each axis.
const ZFP_SIDE: u64 = 4;

/// Bounds of a part of an array, slowest axis first.
type Region = Vec<Range<u64>>;

/// What the regions of a kind cost together.
#[derive(Clone, Copy, Default)]
struct Cost {
    /// Bytes of the stream that are read.
    read: u64,
    /// Values that are decoded.
    values: u64,
}

/// Returns the kinds of regions, each with its name and its places.
fn kinds(array: &Array) -> Vec<(&'static str, Vec<Region>)> {
    let last = array.extents.len().saturating_sub(1);
    let cube = |side: u64| array.extents.iter().map(move |&extent| side.min(extent)).collect::<Vec<_>>();
    let mut row = cube(1);
    row.iter_mut().skip(last).for_each(|side| *side = array.extents[last]);
    let kinds = [("point", cube(1)), ("row", row), ("8 along each axis", cube(8)), ("64 along each axis", cube(64))];
    let at = |sides: &[u64], place: u64| {
        let axes = sides.iter().zip(&array.extents).enumerate();
        let range = |(axis, (&side, &extent)): (usize, (&u64, &u64))| {
            let start = Stream::new(place).below(axis as u64, extent - side + 1);
            start..start + side
        };
        axes.map(range).collect()
    };
    let mut kinds: Vec<_> =
        kinds.into_iter().map(|(name, sides)| (name, (0..PLACES).map(|place| at(&sides, place)).collect())).collect();
    kinds.push(("all", vec![array.extents.iter().map(|&extent| 0..extent).collect()]));
    kinds
}

/// Returns a record for each kind of regions with the mean costs over its places: the bytes of the values that are
/// decoded, and the bytes of the stream that are read.
fn records(
    (array, relative): (&Array, f64),
    (codec, options): (&str, &str),
    mut cost: impl FnMut(&[Range<u64>]) -> Result<Cost>,
) -> Result<Vec<Record>> {
    let record = |(what, places): (&str, Vec<Region>)| -> Result<Record> {
        let mut sum = Cost::default();
        for region in &places {
            let Cost { read, values } = cost(region).with_context(|| format!("{region:?} of {}", array.name))?;
            sum = Cost { read: sum.read + read, values: sum.values + values };
        }
        let mean = |sum: u64| sum.div_ceil(places.len() as u64);
        Ok(Record {
            bench: "regions".to_owned(),
            field: array.name.clone(),
            element: array.element.to_string(),
            shape: array.shape_text(),
            bound: bound_text(Some(relative)),
            codec: codec.to_owned(),
            options: options.to_owned(),
            what: what.to_owned(),
            bytes: mean(sum.values) * array.element.size() as u64,
            stream_bytes: Some(mean(sum.read)),
            ..Record::default()
        })
    };
    kinds(array).into_iter().map(record).collect()
}

/// A stream that counts the bytes that are read of it.
struct Counted<'a>(&'a [u8], AtomicU64);

impl ReadAt for Counted<'_> {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.1.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        self.0.read_exact_at(buffer, offset)
    }
}

/// Measures Syncline with a relative bound. Every value of every region is compared with that of the whole array.
///
/// # Errors
/// The library's, or a value differs.
pub fn ours(array: &Array, variant: &Variant, relative: f64) -> Result<Vec<Record>> {
    let view = ArrayView::from_bytes(&array.bytes, array.element, array.shape()?)?;
    let stream = compress(&view, &variant.options.clone().with_bound(Bound::Rel(relative)))?;
    let options = DecompressOptions::new().with_threads(1);
    let whole = decompress(&stream, &options)?.into_bytes();
    records((array, relative), ("syncline", &variant.name), |region| {
        let file = StreamFile::open(Counted(&stream, AtomicU64::new(0)))?;
        let part = file.decompress_region(region, &options)?.into_bytes();
        ensure_same(&part, &part_of(&whole, array, region), "a region")?;
        let geometry = file.header().geometry()?;
        let needed = geometry.region(region)?;
        let tiles = geometry.chunks_in(&needed).into_iter().flat_map(|chunk| geometry.chunk(chunk));
        let values = tiles.filter(|tile| needed.meets(tile)).map(|tile| tile.len() as u64).sum();
        Ok(Cost { read: file.source().1.load(Ordering::Relaxed), values })
    })
}

/// Measures zfp with a fixed rate: all of its blocks have the same size, so that each can be read alone.
///
/// # Errors
/// It cannot compress the array within the bound.
pub fn zfp(array: &Array, codec: &mut Codec, relative: f64) -> Result<Vec<Record>> {
    let view = ArrayView::from_bytes(&array.bytes, array.element, array.shape()?)?;
    let options = CompressOptions::new(Bound::Rel(relative)).with_effort(Effort::Fast);
    let promise = Promise::of(&compress(&view, &options)?)?;
    let stream = (codec.compress)(&promise.without_fill(array), Bound::Abs(promise.bound), Clock::Elapsed)?.bytes;
    let blocks = |region: &[Range<u64>]| -> u64 {
        region.iter().map(|range| range.end.div_ceil(ZFP_SIDE) - range.start / ZFP_SIDE).product()
    };
    let all = blocks(&array.extents.iter().map(|&extent| 0..extent).collect::<Vec<_>>()).max(1);
    records((array, relative), (&codec.name, &codec.options), |region| {
        let values = blocks(region) * ZFP_SIDE.pow(array.extents.len() as u32);
        Ok(Cost { read: (blocks(region) * stream.len() as u64).div_ceil(all), values })
    })
}

/// Returns the bytes of a region of an array with these bytes.
fn part_of(bytes: &[u8], array: &Array, region: &[Range<u64>]) -> Vec<u8> {
    let Some(row) = region.last() else { return bytes.to_vec() };
    let size = array.element.size() as u64;
    let mut starts = vec![0];
    for (axis, range) in region[..region.len() - 1].iter().enumerate() {
        let stride = array.extents[axis + 1..].iter().product::<u64>();
        starts = starts.iter().flat_map(|start| range.clone().map(move |at| start + at * stride)).collect();
    }
    let rows = starts.iter().map(|start| ((start + row.start) * size) as usize..((start + row.end) * size) as usize);
    rows.flat_map(|row| &bytes[row]).copied().collect()
}

#[cfg(test)]
mod tests {
    use syncline::ElementType;

    use super::*;

    #[test]
    fn part_has_the_values_of_its_region() {
        let extents = vec![3, 4, 5];
        let array = Array { name: "x".into(), element: ElementType::U8, extents, bytes: (0..60).collect() };
        assert_eq!(part_of(&array.bytes, &array, &[1..3, 2..3, 3..5]), [33, 34, 53, 54]);
        for (name, places) in kinds(&array) {
            assert_eq!(places.len() as u64, if name == "all" { 1 } else { PLACES });
            for region in places {
                let inside = region.iter().zip(&array.extents).all(|(range, &extent)| range.end <= extent);
                let len: u64 = region.iter().map(|range| range.end - range.start).product();
                let expected = [("point", 1), ("row", 5)].iter().find(|one| one.0 == name).map_or(60, |one| one.1);
                assert!(inside && len == expected, "{name} {region:?}");
            }
        }
    }
}
