//! Error-bounded compression of numeric arrays. Lossy streams have an error bound that holds for every value; lossless
//! streams restore every bit.
//!
//! ```
//! use syncline::{ArrayView, Bound, DecompressOptions, CompressOptions, compress, decompress, decompress_region};
//!
//! let field: Vec<f32> = (0..64 * 64).map(|i| (i as f32 * 0.01).sin()).collect();
//! let view = ArrayView::new(&field, &[64, 64])?;
//! let stream = compress(&view, &CompressOptions::new(Bound::Abs(1e-3)))?;
//!
//! let back = decompress(&stream, &DecompressOptions::default())?.to_vec::<f32>()?;
//! assert!(field.iter().zip(&back).all(|(a, b)| (a - b).abs() <= 1e-3));
//!
//! let corner = decompress_region(&stream, &[0..2, 60..64], &DecompressOptions::default())?;
//! assert_eq!(corner.to_vec::<f32>()?[..4], back[60..64]);
//! # Ok::<(), syncline::Error>(())
//! ```
//!
//! - Arrays in memory: [`compress`], [`decompress`], [`decompress_region`], [`inspect`].
//! - Arrays larger than memory: [`compress_from`] and [`StreamFile`], with files or anything else that has positional
//!   access ([`ReadAt`], [`WriteAt`]).
//! - NVIDIA GPUs: used automatically for large arrays, or for all arrays on request ([`Backend`]). The bytes are the
//!   same.
//! - Streaming: [`Writer`] takes elements in C order, [`Reader`] returns them from anything that can seek, and
//!   [`SequentialReader`] from a pipe.
//! - Estimates of ratio and speed, and the search for the bound of a given size: [`estimate`].
//! - Damaged streams: [`Salvage`] gives what is intact.
//!
//! `docs/FORMAT.md` in the repository describes the stream byte by byte.

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc, missing_debug_implementations)]

/// Tests the code of the README together with that of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod advanced;
pub mod advice;
mod array;
mod atomic_file;
mod backend;
mod compress;
mod description;
mod devices;
pub mod estimate;
#[cfg(feature = "cuda")]
pub mod gpu;
#[cfg(feature = "cuda")]
mod gpu_backend;
#[cfg(not(feature = "cuda"))]
#[path = "gpu_backend_absent.rs"]
mod gpu_backend;
mod in_order;
mod io;
mod job;
mod options;
mod pool;
pub mod quality;
mod range;
mod reader;
mod ring;
mod salvage;
mod sequential;
mod sink;
mod source;
mod sparse;
mod stream;
mod writer;

use std::ops::Range;

pub use advanced::Advanced;
pub use array::Array;
pub use atomic_file::{AtomicFile, CompleteFile};
pub use backend::Execution;
pub use compress::{compress, compress_from, compress_into, compress_with_summary};
pub use description::{Description, FillPattern, Summary};
pub use devices::{Backend, CudaDevices};
pub use io::{ReadAt, WriteAt};
pub use options::{CompressOptions, DecompressOptions};
#[doc(hidden)]
pub use pool::has_room_for_thread;
pub use reader::Reader;
pub use salvage::{Loss, Salvage};
pub use sequential::SequentialReader;
pub use sparse::SparseBytes;
pub use stream::{Header, StreamFile};
pub use syncline_core::array::{ArrayView, Element, ElementType, MAX_RANK, Shape};
pub use syncline_core::bound::{ArrayStats, Bound, Fill, FillValues, MAX_FILLS, Pipeline};
pub use syncline_core::container::FORMAT_VERSION;
pub use syncline_core::error::{Error, ErrorKind, Location, Result};
pub use syncline_core::geometry::TileSize;
pub use syncline_core::huffman::IndexKind;
pub use syncline_core::lzss::SymbolWidth;
pub use syncline_core::pipeline::{ChunkReport, Coder, Effort, compress_bound};
pub use syncline_core::simd::instruction_set_name;
pub use writer::Writer;

/// Decompresses a stream in memory.
///
/// # Errors
/// [`Error::NotSyncline`], [`Error::UnsupportedVersion`], [`Error::Truncated`], or [`Error::Corrupt`] for bytes that
/// cannot be read; [`Error::MemoryLimit`]; [`Error::Cancelled`].
pub fn decompress(stream: &[u8], options: &DecompressOptions) -> Result<Array> {
    StreamFile::open(stream)?.decompress(options)
}

/// Decompresses a region of a stream in memory, given as one range for each axis, slowest first. Only the chunks that
/// contain parts of the region are read. With the symbol index, only the tiles of the region are decoded.
///
/// # Errors
/// [`Error::InvalidArgument`] if the region is outside of the array; otherwise as [`decompress`].
pub fn decompress_region(stream: &[u8], region: &[Range<u64>], options: &DecompressOptions) -> Result<Array> {
    StreamFile::open(stream)?.decompress_region(region, options)
}

/// Decompresses a stream in memory into a buffer of the caller. See [`StreamFile::decompress_into`].
///
/// # Errors
/// As [`StreamFile::decompress_into`].
pub fn decompress_into(stream: &[u8], out: &mut [u8], options: &DecompressOptions) -> Result<Execution> {
    StreamFile::open(stream)?.decompress_into(out, options)
}

/// Decompresses a region of a stream in memory into a buffer of the caller. See [`StreamFile::decompress_region_into`].
///
/// # Errors
/// As [`StreamFile::decompress_region_into`].
pub fn decompress_region_into(
    stream: &[u8],
    region: &[Range<u64>],
    out: &mut [u8],
    options: &DecompressOptions,
) -> Result<Execution> {
    StreamFile::open(stream)?.decompress_region_into(region, out, options)
}

/// Returns the contents of a stream in memory, the options that it was made with, and the sizes of its parts.
///
/// # Errors
/// As [`decompress`].
pub fn inspect(stream: &[u8]) -> Result<Description> {
    StreamFile::open(stream)?.inspect()
}
