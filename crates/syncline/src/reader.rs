//! Decompression of a stream from a source that can seek: elements in order, or regions.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use syncline_core::error::Result;
use syncline_core::geometry::Geometry;

use crate::array::Array;
use crate::description::Description;
use crate::io::ReadAt;
use crate::options::DecompressOptions;
use crate::stream::{Header, StreamFile};

/// The smallest number of elements of a layer, so that all threads have a chunk to decode.
const LAYER_ELEMENTS: u64 = 1 << 22;

/// Positional access to a `Read + Seek`. Threads read in turns.
struct Seekable<R>(Mutex<R>);

impl<R: Read + Seek + Send> ReadAt for Seekable<R> {
    fn size(&self) -> io::Result<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).seek(SeekFrom::End(0))
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut reader = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reader.seek(SeekFrom::Start(offset))?;
        reader.read_exact(buffer)
    }
}

/// Reads a stream from anything that can seek. As [`Read`], it returns the elements of the array as little-endian bytes
/// in C order. It holds one layer of tiles at a time.
///
/// ```
/// use std::io::{Cursor, Read};
/// use syncline::{ArrayView, Bound, DecompressOptions, CompressOptions, Reader, compress};
/// let field = [1.5f32; 3000];
/// let stream = compress(&ArrayView::new(&field, &[30, 100])?, &CompressOptions::new(Bound::Abs(0.1)))?;
/// let mut reader = Reader::new(Cursor::new(stream), DecompressOptions::default())?;
/// let part = reader.read_region(&[0..2, 50..60])?;
/// assert_eq!(part.shape().len(), 20);
/// let mut bytes = Vec::new();
/// reader.read_to_end(&mut bytes)?;
/// assert_eq!(bytes.len(), 12_000);
/// # Ok::<(), syncline::Error>(())
/// ```
pub struct Reader<R: Read + Seek + Send> {
    stream: StreamFile<Seekable<R>>,
    options: DecompressOptions,
    /// The layers that are not decoded yet.
    layers: std::vec::IntoIter<Vec<Range<u64>>>,
    layer: io::Cursor<Vec<u8>>,
}

impl<R: Read + Seek + Send> Reader<R> {
    /// Opens a stream. Its header and chunk table are read and checked.
    ///
    /// # Errors
    /// [`crate::Error::NotSyncline`], [`crate::Error::UnsupportedVersion`], [`crate::Error::Truncated`],
    /// [`crate::Error::Corrupt`], or [`crate::Error::Io`].
    pub fn new(reader: R, options: DecompressOptions) -> Result<Self> {
        let stream = StreamFile::open(Seekable(Mutex::new(reader)))?;
        let layers = layers(stream.header()).into_iter();
        Ok(Self { stream, options, layers, layer: io::Cursor::default() })
    }

    /// Returns the header: the contents of the stream and the options that it was made with.
    pub fn header(&self) -> &Header {
        self.stream.header()
    }

    /// Returns the sizes and counts of the parts of the stream.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] for a damaged chunk; [`crate::Error::Io`].
    pub fn inspect(&self) -> Result<Description> {
        self.stream.inspect()
    }

    /// Returns the elements of a region, given as one range for each axis, slowest first.
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] if the region is outside of the array; [`crate::Error::Corrupt`] if a chunk
    /// of the region is damaged; [`crate::Error::MemoryLimit`]; [`crate::Error::Cancelled`]; [`crate::Error::Io`].
    pub fn read_region(&self, region: &[Range<u64>]) -> Result<Array> {
        self.stream.decompress_region(region, &self.options)
    }
}

impl<R: Read + Seek + Send> fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("stream", &self.stream).field("options", &self.options).finish_non_exhaustive()
    }
}

impl<R: Read + Seek + Send> Read for Reader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.layer.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            let Some(region) = self.layers.as_slice().first() else { return Ok(0) };
            let array = self.read_region(region)?;
            // The layer is taken last, so that a caller who continues after an error, such as an interruption, gets
            // these elements and not the next ones.
            self.layers.next();
            self.layer = io::Cursor::new(array.into_bytes());
        }
    }
}

/// Returns regions that divide the array into parts along whole tiles. Each part is contiguous in C order.
fn layers(header: &Header) -> Vec<Vec<Range<u64>>> {
    // The other extents of an empty array can be arbitrarily large, and its layers could fill the memory.
    if header.shape.is_empty() {
        return Vec::new();
    }
    let extents = header.shape.extents();
    let whole: Vec<Range<u64>> = extents.iter().map(|&e| 0..e).collect();
    let kept: Vec<usize> = (0..extents.len()).filter(|&a| extents[a] != 1).collect();
    if kept.is_empty() {
        return vec![whole];
    }
    let elements_after = |axis: usize| extents[axis + 1..].iter().product::<u64>();
    // All axes but the last three count fields. Small fields are taken several at a time, large ones are divided like
    // 3-D arrays, one after another.
    let side = Geometry::with_tiles(header.shape, header.tile_size).layer_side();
    let counting = &kept[..kept.len().saturating_sub(3)];
    let (axis, tile) = match counting.iter().find(|&&axis| elements_after(axis) < LAYER_ELEMENTS) {
        Some(&axis) => (axis, 1),
        None => (kept[counting.len()], side),
    };
    let step = LAYER_ELEMENTS.div_ceil(elements_after(axis).max(1).saturating_mul(tile)) * tile;
    let parts = |region: &[Range<u64>], axis: usize, step: u64| {
        let starts = (0..extents[axis]).step_by(step as usize);
        let part = |start: u64| {
            let mut part = region.to_vec();
            part[axis] = start..(start + step).min(extents[axis]);
            part
        };
        starts.map(part).collect::<Vec<_>>()
    };
    let mut layers = vec![whole];
    for &slower in counting.iter().take_while(|&&slower| slower < axis) {
        layers = layers.iter().flat_map(|region| parts(region, slower, 1)).collect();
    }
    layers.iter().flat_map(|region| parts(region, axis, step)).collect()
}
