//! Compression of whole arrays, in memory or larger.

use std::io::Write;

use syncline_core::array::{ArrayView, ElementType, Shape};
use syncline_core::error::{Error, Result};
use syncline_core::mem;
use syncline_core::pipeline::compress_bound;

use crate::description::Summary;
use crate::io::ReadAt;
use crate::job::compress_array;
use crate::options::CompressOptions;

/// Compresses an array in memory.
///
/// ```
/// use syncline::{ArrayView, Bound, CompressOptions, compress};
/// let field: Vec<f64> = (0..10_000).map(|i| (i as f64 / 500.0).sin()).collect();
/// let stream = compress(&ArrayView::new(&field, &[100, 100])?, &CompressOptions::new(Bound::Rel(1e-3)))?;
/// assert!(stream.len() < 10_000);
/// # Ok::<(), syncline::Error>(())
/// ```
///
/// # Errors
/// [`Error::InvalidArgument`] if the element type does not support the bound; [`Error::MemoryLimit`];
/// [`Error::Cancelled`].
pub fn compress(array: &ArrayView, options: &CompressOptions) -> Result<Vec<u8>> {
    compress_with_summary(array, options).map(|(stream, _)| stream)
}

/// Compresses an array in memory, and also returns the summary.
///
/// # Errors
/// Those of [`compress`].
pub fn compress_with_summary(array: &ArrayView, options: &CompressOptions) -> Result<(Vec<u8>, Summary)> {
    let mut sink = Bounded { stream: Vec::new(), limit: options.memory_limit().unwrap_or(u64::MAX), needed: 0 };
    match compress_from(array.bytes(), 0, array.element_type(), array.shape(), options, &mut sink) {
        Err(Error::Io(_)) if sink.needed > 0 => {
            Err(Error::MemoryLimit { what: "the stream".into(), needed: sink.needed, limit: sink.limit })
        }
        result => result.map(|summary| (sink.stream, summary)),
    }
}

/// Compresses an array in memory into a buffer of the caller. The stream is the first [`Summary::compressed_bytes`]
/// bytes of `out`; the contents of the other bytes are unspecified. [`compress_bound`] bytes are always enough.
///
/// ```
/// use syncline::{ArrayView, CompressOptions, compress_into, compress_bound};
/// let view = ArrayView::new(&[7u16; 1000], &[1000])?;
/// let mut out = vec![0; compress_bound(view.element_type(), view.shape()) as usize];
/// let summary = compress_into(&view, &mut out, &CompressOptions::default())?;
/// out.truncate(summary.compressed_bytes as usize);
/// assert!(out.len() < 500);
/// # Ok::<(), syncline::Error>(())
/// ```
///
/// # Errors
/// [`Error::InvalidArgument`] if the stream does not fit; otherwise as [`compress`]. The contents of `out` are
/// unspecified after an error.
pub fn compress_into(array: &ArrayView, out: &mut [u8], options: &CompressOptions) -> Result<Summary> {
    let capacity = out.len();
    let mut rest = out;
    match compress_from(array.bytes(), 0, array.element_type(), array.shape(), options, &mut rest) {
        Err(Error::Io(error)) if error.kind() == std::io::ErrorKind::WriteZero => Err(Error::invalid(format!(
            "the output has {capacity} bytes, which is too short for the stream: {} bytes are always enough",
            compress_bound(array.element_type(), array.shape())
        ))),
        result => result,
    }
}

/// A stream in memory with a limited length.
struct Bounded {
    stream: Vec<u8>,
    limit: u64,
    /// The length that would have exceeded the limit, or 0.
    needed: u64,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let length = (self.stream.len() + bytes.len()) as u64;
        if length > self.limit {
            self.needed = length;
            return Err(std::io::ErrorKind::OutOfMemory.into());
        }
        mem::huge_pages::reserve(&mut self.stream, bytes.len()).map_err(|_| std::io::ErrorKind::OutOfMemory)?;
        self.stream.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Compresses an array that starts at byte `offset` of a source (a file, or bytes in memory), and writes the stream to
/// `sink` from start to end. Elements are read twice, once for the range and once for compression, and only a few
/// chunks are in memory at a time, so that arrays may be larger than memory.
///
/// ```
/// use syncline::{Bound, ElementType, CompressOptions, Shape, compress_from};
/// // The source and the sink can be files.
/// let source: Vec<u8> = [b"head".to_vec(), vec![0; 4 * 10_000]].concat();
/// let mut stream = Vec::new();
/// let shape = Shape::new(&[100, 100])?;
/// let options = CompressOptions::new(Bound::Abs(0.1));
/// let summary = compress_from(&source, 4, ElementType::F32, shape, &options, &mut stream)?;
/// assert_eq!((summary.uncompressed_bytes, summary.compressed_bytes), (40_000, stream.len() as u64));
/// assert!(summary.ratio() > 20.0);
/// # Ok::<(), syncline::Error>(())
/// ```
///
/// # Errors
/// [`Error::InvalidArgument`] if the element type does not support the bound or the source is too short;
/// [`Error::MemoryLimit`]; [`Error::Cancelled`]; [`Error::Io`] if reading or writing fails.
pub fn compress_from<S: ReadAt + ?Sized, W: Write>(
    source: &S,
    offset: u64,
    element_type: ElementType,
    shape: Shape,
    options: &CompressOptions,
    sink: W,
) -> Result<Summary> {
    compress_array(source, offset, element_type, shape, options, sink)
}
