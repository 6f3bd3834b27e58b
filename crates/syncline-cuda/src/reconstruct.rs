//! Reconstruction of elements from parsed chunks: launchers of `kernels/reconstruct/reconstruct.cu`.
//!
//! There are three strategies ([`Strategy`]). One kernel decodes streams with the symbol index and reconstructs their
//! elements. For 3-D arrays, three kernels can share this work: one decodes and leaves sums of residuals in memory, a
//! concurrent one writes regions of constant value, and one computes elements from the sums. For other streams,
//! [`crate::huffman::decode`] decodes the codes first. All strategies write each element once, except verbatim values,
//! which may be overwritten.

mod arguments;
mod kernels;
mod launch;
mod strips;
pub(crate) mod structs;

use std::ops::Range;

use cudarc::driver::{CudaView, CudaViewMut};
use syncline_core::array::ElementType;
use syncline_core::bound::Pipeline;
use syncline_core::container::Header;
use syncline_core::geometry::Geometry;
use syncline_core::huffman::IndexKind;

use kernels::{CodesKernels, FlatKernels, FusedKernels, LargeTilesKernels, StripsKernels, TokenCodesKernels};
pub use launch::{Reconstructor, fuses};

use crate::container::parsed::Parsed;
use crate::device::Specialization;
use crate::error::{CudaError, Result};
use crate::huffman::decode::BatchView;
use crate::predict::InterpolationPlans;

/// Threads of a block that decodes: each can use 128 registers.
const FUSED_THREADS: u32 = 512;
/// Threads of a block that decodes and leaves sums in memory. With 96 registers per thread, the registers of a
/// multiprocessor suffice for a concurrent block of `reconstruct/flat.cu`.
const APART_THREADS: u32 = 640;
/// Cost of a tile with codes relative to a constant tile, by which blocks divide the work.
const LIVE_COST: u32 = 3;
/// Cost of starting a chunk for a block, in the same unit.
const START_COST: u32 = 100;
/// Threads of a block of the kernel that does not decode.
const CODES_THREADS: u32 = 128;
/// Threads of a block of the kernel for chunks with token codebooks.
const TOKEN_CODES_THREADS: u32 = 64;
/// Threads of a block of the kernel for large tiles, and resident blocks that the shared memory of the largest allows.
const LARGE_TILES_THREADS: u32 = 256;
const LARGE_TILES_RESIDENT: u32 = 6;

/// Strategy of reconstruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// One kernel decodes streams with the symbol index and reconstructs their elements.
    Fused,
    /// For 3-D streams with the symbol index: one kernel decodes codes, sums them along x and y and stores the sums in
    /// device memory, and another computes elements from them, one strip of rows at a time. A concurrent kernel writes
    /// strips that have a single value.
    Apart,
    /// Elements are reconstructed from codes that were decoded before.
    Decoded,
}

impl Strategy {
    /// All strategies.
    pub const ALL: [Self; 3] = [Self::Fused, Self::Apart, Self::Decoded];

    /// Returns whether the strategy takes [`Codes::Streams`]; the others take [`Codes::Decoded`].
    pub fn decodes(self) -> bool {
        self != Self::Decoded
    }
}

/// Source of the codes of a batch's chunks.
#[derive(Debug, Clone, Copy)]
pub enum Codes<'d, 'v> {
    /// Streams with the symbol index, one per chunk, in order.
    Streams(&'d BatchView<'v, u16>),
    /// Decoded codes: those of chunk `c` of the batch start at group `c * slots` of [`Parsed`]. The view starts on a
    /// multiple of 16 bytes.
    Decoded(&'d CudaView<'v, u16>),
    /// Decoded codes of chunks with token codebooks, which reconstructors of [`Strategy::Decoded`] take in a launch of
    /// its own; tiles of other chunks remain unchanged.
    TokenCodes {
        /// [`group_len`](syncline_core::tokens::group_len) codes for each of `slots` groups of each chunk.
        codes: &'d CudaView<'v, i32>,
        /// Maximum number of groups of a chunk.
        slots: u32,
        /// The plans of the stream.
        plans: &'d InterpolationPlans,
    },
}

/// Input and output of a reconstruction.
#[derive(Debug)]
pub struct Reconstruction<'d, 'v> {
    /// The buffer that the offsets of `parsed` and of the streams refer to; starts on a multiple of 16 bytes.
    pub input: &'d CudaView<'v, u8>,
    /// The parsed chunks.
    pub parsed: &'d Parsed<'v>,
    /// The codes of the chunks.
    pub codes: Codes<'d, 'v>,
    /// Number of the batch's first chunk in the array.
    pub first_chunk: u64,
    /// Tiles of the array to reconstruct. Tiles outside of the batch are ignored.
    pub tiles: Range<u64>,
    /// Elements of the array from number `first_element` on, at least all those of the tiles. Elements of other tiles
    /// remain unchanged.
    pub output: &'d mut CudaViewMut<'v, u8>,
    /// Raster number in the array of the output's first element.
    pub first_element: u64,
    /// One status word per chunk, which [`status_text`](crate::huffman::decode::status_text) describes; cleared at the
    /// start unless parsing has written it. If it is not 0, the chunk's elements are unspecified. Only strategies that
    /// decode write it.
    pub status: &'d mut CudaViewMut<'v, u32>,
    /// Words in which checksums are summed, [`sums_len`](crate::container::parsed::sums_len) of them: 0 before and
    /// after. Only strategies that decode use them.
    pub sums: &'d mut CudaViewMut<'v, u32>,
}

/// The properties that the kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Format {
    axes: u32,
    group_log2: u32,
    double: bool,
    logarithm: bool,
}

impl Format {
    fn new(header: &Header, geometry: &Geometry) -> Result<Self> {
        let double = match header.element_type {
            ElementType::F32 => false,
            ElementType::F64 => true,
            other => return Err(CudaError::invalid(format!("arrays of {other} are not reconstructed on the GPU"))),
        };
        if header.pipeline == Pipeline::Lossless {
            return Err(CudaError::invalid(
                "lossless streams are not reconstructed on the GPU: decode them on the CPU",
            ));
        }
        Ok(Self {
            axes: geometry.axes() as u32,
            group_log2: header.group_log2.into(),
            double,
            logarithm: header.pipeline == Pipeline::LogQuantized,
        })
    }

    fn element_bytes(self) -> u64 {
        if self.double { 8 } else { 4 }
    }

    fn tile_elements(self) -> u32 {
        if self.axes == 3 { 512 } else { 1024 }
    }

    /// Returns the number of tiles that a warp reconstructs.
    fn tiles_of_warp(self) -> u32 {
        (32 << self.group_log2) / self.tile_elements()
    }

    /// Returns the bytes of a warp's sums in shared memory.
    fn rows_bytes(self, wide: bool) -> u32 {
        32 << (self.group_log2 + if wide { 2 } else { 1 })
    }

    /// Returns the format that the kernel which decodes is compiled for. Sums that go to device memory (`apart`) do not
    /// depend on the element type.
    fn of_sums(self, apart: bool) -> Self {
        if apart { Self { double: false, logarithm: false, ..self } } else { self }
    }

    /// Returns the tiles of a warp of the kernel for chunks with token codebooks, which it has in shared memory, and
    /// the resident blocks that this memory allows.
    fn token_codes_tiles(self) -> (u32, u32) {
        match (self.axes, self.double) {
            (3, false) => (2, 20),
            (3, true) => (4, 8),
            (_, false) => (2, 16),
            (_, true) => (2, 8),
        }
    }
}

/// Returns the specializations for the compile check: every kernel at least once, and each constant with every value.
pub fn specializations(shared_memory: u32) -> Vec<Specialization> {
    let fuses = launch::fuses(IndexKind::Symbol, shared_memory);
    let formats = (1..=3).flat_map(|axes| {
        [(7, false, false), (7, true, false), (6, true, true)].map(|(group_log2, double, logarithm)| Format {
            axes,
            group_log2,
            double,
            logarithm,
        })
    });
    let of = |format: Format| {
        let mut all = vec![
            CodesKernels::specialization(format),
            TokenCodesKernels::specialization(format),
            LargeTilesKernels::specialization(format),
        ];
        if !fuses {
            return all;
        }
        let fused = |apart| [false, true].map(|wide| FusedKernels::specialization(format, wide, apart));
        all.extend(fused(false));
        if format.axes == 3 {
            all.extend([StripsKernels::specialization(format), FlatKernels::specialization(format)]);
        }
        // Sums that go to device memory do not depend on the element type, so each group size is compiled once.
        if format.axes == 3 && (!format.double || format.group_log2 == 6) {
            all.extend(fused(true));
        }
        all
    };
    formats.flat_map(of).collect()
}
