//! What a compression is asked for, and what it returns.

use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::{Bound, ErrorSummary, Fill, Resolved};
use syncline_core::container::Header;
use syncline_core::geometry::TileSize;

/// Options of a compression.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompressOptions {
    /// The error bound.
    pub bound: Bound,
    /// Which values are fill values: these do not count in the range and are stored exactly.
    pub fill: Fill,
    /// Whether decompressed values compress to themselves: see [`resolve`](syncline_core::bound::resolve). Tiles are
    /// not interpolated then.
    pub rewritable: bool,
    /// Whether tiles may be interpolated.
    pub interpolates: bool,
    /// The size of the tiles.
    pub tile_size: TileSize,
}

impl CompressOptions {
    /// Returns the defaults with this bound: detected fill values, and small tiles.
    pub fn new(bound: Bound) -> Self {
        Self { bound, fill: Fill::Auto, rewritable: false, interpolates: true, tile_size: TileSize::Small }
    }
}

/// When a compressor allocates memory, and whether it waits for the device.
#[derive(Debug, Clone, Copy)]
pub enum Sizing<'o> {
    /// Memory is allocated when an array needs more than those before. The host reads what a scan of the array found.
    Measured,
    /// The constructor allocates everything, for arrays of one type and shape. Then
    /// [`Compressor::queue`](super::Compressor::queue) only queues work.
    WorstCase {
        /// Type of the elements.
        element_type: ElementType,
        /// Shape of the arrays.
        shape: &'o Shape,
        /// Options of their compression. Fill values must be given, or none, and the bound must not be a PSNR.
        options: &'o CompressOptions,
    },
}

/// The result of a compression.
#[derive(Debug, Clone)]
pub struct Compressed {
    /// Size of the stream in bytes.
    pub bytes: u64,
    /// The stream's header.
    pub header: Header,
    /// The resolved bound and the fill patterns, with the number of elements that hold each pattern.
    pub resolved: Resolved,
}

/// The records of some consecutive chunks.
#[derive(Debug, Clone)]
pub struct ChunkRecords {
    /// Length of each record in bytes; records are adjacent.
    pub lengths: Vec<u32>,
    /// Sums of squared errors, if the bound is a PSNR.
    pub errors: ErrorSummary,
}
