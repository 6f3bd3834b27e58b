//! The target that compares all readers of a stream of several chunks.

use std::io::{self, Cursor, Read};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use syncline::{
    DecompressOptions, Error, Loss, Reader, Salvage, SequentialReader, WriteAt, decompress, decompress_region, inspect,
};
use syncline_core::container::{Header, table_and_trailer};
use syncline_core::error::Result;
use syncline_core::geometry::{Geometry, Tile, Window};
use syncline_core::pipeline::{CoderOptions, ElementSource, EncodeScratch, encode_chunk};

use crate::arrays::Case;
use crate::checksums::repair_checksums;
use crate::input::Input;
use crate::streams::{compress_case, damage, decode_options};

/// Bytes of the largest array that is decoded: a damaged header can state any shape.
const MOST_BYTES: u64 = 1 << 22;

/// Compresses an array in chunks of few tiles, with any kind of index, effort, and coder. Damages the stream in some
/// places, if in any, recomputes its checksums, and reads it as a whole, by region, in order, and as a damaged one. No
/// reader panics, and all agree whether the stream is intact, and on its elements.
pub fn readers(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let damages: Vec<_> = (0..input.below(4)).map(|_| (input.number(), input.byte(), input.byte())).collect();
    let repairs = !input.byte().is_multiple_of(8);
    let chunk_tiles = 1 + input.below(4) as u32;
    let at_region = [input.number(), input.number()];
    let Ok(mut stream) = compress_in_chunks(&Case::take(&mut input), chunk_tiles) else { return };
    for (at, kind, value) in damages {
        damage(&mut stream, at as usize, kind, value);
    }
    if repairs {
        repair_checksums(&mut stream);
    }
    let size = |header: &Header| u128::from(header.shape.len()) * header.element_type.size() as u128;
    if Header::parse(&stream).is_ok_and(|header| size(&header) > MOST_BYTES.into()) {
        let _ = decompress(&stream, &decode_options());
        return;
    }

    let whole = decompress(&stream, &decode_options());
    if matches!(whole, Err(Error::MemoryLimit { .. })) {
        return;
    }
    let whole = whole.ok();
    let expected = whole.as_ref().map(|array| array.bytes());
    if let (Err(error), Some(_)) = (inspect(&stream), &whole) {
        panic!("a stream that decompresses cannot be described: {error}");
    }
    let in_order = in_order(&stream);
    assert!(in_order.as_deref() == expected, "in order: {}", verdicts(expected, in_order.as_deref()));
    let seeking = Reader::new(Cursor::new(&stream), decode_options()).ok().and_then(|mut reader| {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).ok().map(|_| bytes)
    });
    assert!(seeking.as_deref() == expected, "with seeks: {}", verdicts(expected, seeking.as_deref()));
    let salvaged = salvage(&stream);
    assert!(salvaged.as_deref() == expected, "salvage: {}", verdicts(expected, salvaged.as_deref()));
    if let Some(array) = whole {
        check_region(&stream, array.shape().extents(), array.element_type().size(), array.bytes(), at_region);
    }
}

/// Says which of two readers found a stream intact.
fn verdicts(whole: Option<&[u8]>, other: Option<&[u8]>) -> &'static str {
    match (whole, other) {
        (Some(_), Some(_)) => "returns other elements",
        (Some(_), None) => "refuses what decompresses",
        _ => "accepts what does not decompress",
    }
}

/// Compresses an array as its options say, but with this number of tiles in each chunk.
fn compress_in_chunks(case: &Case, chunk_tiles: u32) -> Result<Vec<u8>> {
    let whole = compress_case(case);
    let header = Header { chunk_tiles, ..Header::parse(&whole)? };
    let geometry = header.geometry()?;
    let (effort, advanced) = (case.options.effort(), case.options.advanced());
    let options = CoderOptions {
        coder: advanced.coder.unwrap_or(effort.coder()),
        symbol: advanced.symbol,
        level: advanced.level.unwrap_or(effort.level()),
        interpolates: !case.options.rewritable(),
    };
    let mut stream = header.to_bytes().to_vec();
    let mut lengths = Vec::new();
    let mut scratch = EncodeScratch::default();
    for chunk in 0..geometry.chunks() {
        let mut record = Vec::new();
        encode_chunk(&header, &geometry, chunk, &Whole(&case.bytes), &options, &mut scratch, &mut record)?;
        lengths.push(record.len() as u32);
        stream.extend(record);
    }
    stream.extend(table_and_trailer(&header, &lengths));
    Ok(stream)
}

/// All elements of an array.
struct Whole<'a>(&'a [u8]);

impl ElementSource for Whole<'_> {
    fn window<'s>(&'s self, geometry: &Geometry, _: &[Tile], _: &'s mut Vec<u8>) -> Result<Window<'s>> {
        Ok(Window::raster(self.0, 0, geometry))
    }
}

/// Reads a stream in order.
fn in_order(stream: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let reader = SequentialReader::new(stream, decode_options()).ok()?;
    reader.copy_to(&mut bytes).ok().map(|_| bytes)
}

/// Salvages a stream, and returns the elements if nothing was wrong with it.
fn salvage(stream: &[u8]) -> Option<Vec<u8>> {
    let salvage = Salvage::open(stream).ok()?;
    let sink = Sink::default();
    let lost = Loss::default_bits(salvage.header().element_type);
    let losses = salvage.decompress_to(&sink, 0, lost, &decode_options());
    let checked = salvage.check(&decode_options()).expect("a check of bytes in memory");
    let _ = salvage.inspect(&decode_options());
    let is_intact = losses.is_ok_and(|losses| losses.is_empty()) && salvage.outline_error().is_none();
    assert!(!is_intact || checked.is_empty(), "a check finds losses where there are none");
    is_intact.then(|| sink.0.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Bytes that are written at positions.
#[derive(Default)]
struct Sink(Mutex<Vec<u8>>);

impl WriteAt for Sink {
    fn write_all_at(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        let mut bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (start, end) = (offset as usize, offset as usize + buffer.len());
        let length = bytes.len().max(end);
        bytes.resize(length, 0);
        bytes[start..end].copy_from_slice(buffer);
        Ok(())
    }
}

/// Compares a box of the array, with a range of each axis, with the elements.
fn check_region(stream: &[u8], extents: &[u64], size: usize, elements: &[u8], at: [u32; 2]) {
    let [mut from, mut count] = at.map(u64::from);
    let mut region = Vec::new();
    for &extent in extents {
        let start = from % (extent + 1);
        region.push(start..start + count % (extent - start + 1));
        (from, count) = (from / 3 + 1, count / 3 + 1);
    }
    let options = DecompressOptions::with_threads(decode_options(), 1);
    let part = decompress_region(stream, &region, &options).expect("a region of a stream that decompresses");
    // Other extents of an empty array may be huge.
    if region.iter().any(Range::is_empty) {
        assert!(part.bytes().is_empty(), "the empty region {region:?} has elements");
        return;
    }
    let mut numbers = vec![0_u64];
    for (range, &extent) in region.iter().zip(extents) {
        numbers = numbers.iter().flat_map(|number| range.clone().map(move |at| number * extent + at)).collect();
    }
    let expected = numbers.iter().flat_map(|&number| &elements[number as usize * size..][..size]);
    assert!(part.bytes().iter().eq(expected), "the region {region:?} has other elements");
}
