//! From parsed chunks to elements: launchers of `kernels/reconstruct/reconstruct.cu`.
//!
//! Streams with the symbol index are decoded and reconstructed by one kernel, or by one that leaves sums of residuals
//! in memory, one beside it that writes what has one value, and one that makes elements of the sums ([`Way`]); the
//! codes of others are decoded first ([`crate::huffman::decode`]). All write each element once, except verbatim values,
//! which may be written over.

mod arguments;
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

pub use launch::{Reconstructor, fuses};

use crate::container::parsed::Parsed;
use crate::device::{Source, Specialization, source};
use crate::error::{CudaError, Result};
use crate::huffman::decode::{BatchView, PAIRED_SHARE, SINGLE_LONG_ENTRIES, code_constants};

const SOURCE: Source = source!("reconstruct/reconstruct.cu");
const STRIPS_SOURCE: Source = source!("reconstruct/strips.cu");
const FLAT_SOURCE: Source = source!("reconstruct/flat.cu");

/// Threads in a block that decodes: as many as leave each 128 registers.
const FUSED_THREADS: u32 = 512;
/// Threads in a block that decodes and leaves rows in memory: with 96 registers each, they leave room for a block of
/// `reconstruct/flat.cu` beside them.
const APART_THREADS: u32 = 640;
/// What a tile with codes costs, in constant ones: blocks share out work by it.
const LIVE_COST: u32 = 3;
/// What it costs a block to begin with a chunk, likewise.
const START_COST: u32 = 100;
/// Threads in a block that does not.
const CODES_THREADS: u32 = 128;

/// How a stream is reconstructed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// From streams with the symbol index, by one kernel.
    Fused,
    /// From streams with the symbol index, 3-D: codes are decoded and added up along x and y, go to memory, and become
    /// elements a strip of rows at a time; strips of one value are written beside the decoding.
    Apart,
    /// From decoded codes.
    Decoded,
}

impl Way {
    /// Every way.
    pub const ALL: [Self; 3] = [Self::Fused, Self::Apart, Self::Decoded];

    /// Whether it takes [`Codes::Streams`]; otherwise [`Codes::Decoded`].
    pub fn decodes(self) -> bool {
        self != Self::Decoded
    }
}

/// Where the codes of a batch's chunks come from.
#[derive(Debug, Clone, Copy)]
pub enum Codes<'d, 'v> {
    /// Their streams, which have the symbol index: one for each chunk, in order.
    Streams(&'d BatchView<'v, u16>),
    /// Decoded: those of chunk `c` of the batch from group `c * slots` of [`Parsed`] on; on a multiple of 16 bytes.
    Decoded(&'d CudaView<'v, u16>),
}

/// What to reconstruct, and where to.
#[derive(Debug)]
pub struct Reconstruction<'d, 'v> {
    /// What the offsets of `parsed` and of the streams are in; starts on a multiple of 16 bytes.
    pub input: &'d CudaView<'v, u8>,
    /// The chunks, parsed.
    pub parsed: &'d Parsed<'v>,
    /// Their codes.
    pub codes: Codes<'d, 'v>,
    /// Number of the batch's first chunk in the array.
    pub first_chunk: u64,
    /// Tiles of the array that are wanted. Those outside of the batch are left out.
    pub tiles: Range<u64>,
    /// Elements of the array from `first_element` on; at least all those of the tiles. Elements of other tiles are not
    /// touched.
    pub output: &'d mut CudaViewMut<'v, u8>,
    /// Raster number in the array of the output's first element.
    pub first_element: u64,
    /// A word for each chunk, which [`status_text`](crate::huffman::decode::status_text) explains; cleared at the start
    /// unless parsing has written it. Elements of chunks with another status than 0 are worthless. Written only where
    /// the codes are decoded.
    pub status: &'d mut CudaViewMut<'v, u32>,
    /// Words that checksums are added up in, [`sums_len`](crate::container::parsed::sums_len) of them: 0 at the start,
    /// and again when all is done. Needed only where the codes are not decoded.
    pub sums: &'d mut CudaViewMut<'v, u32>,
}

/// What kernels are compiled for.
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

    /// Tiles that a warp works on.
    fn tiles_of_warp(self) -> u32 {
        (32 << self.group_log2) / self.tile_elements()
    }

    /// Bytes of a warp's sums in shared memory.
    fn rows_bytes(self, wide: bool) -> u32 {
        32 << (self.group_log2 + if wide { 2 } else { 1 })
    }

    /// What all kernels are compiled with, and `own` constants.
    fn constants(self, wide: bool, own: &[(&'static str, u32)]) -> Vec<(&'static str, u64)> {
        let shared = [
            ("AXES", self.axes),
            ("DOUBLE", self.double.into()),
            ("LOG", self.logarithm.into()),
            ("WIDE", wide.into()),
        ];
        shared.iter().chain(own).map(|&(name, value)| (name, value.into())).collect()
    }

    /// With what decoding needs. Rows that go to memory are the same whatever becomes of them.
    fn fused(self, wide: bool, apart: bool) -> Specialization {
        let format = if apart { Self { double: false, logarithm: false, ..self } } else { self };
        let own = [
            ("FUSED", 1),
            ("APART", apart.into()),
            ("OWN_LONG", SINGLE_LONG_ENTRIES[0]),
            ("OWN_LONG_MANY", SINGLE_LONG_ENTRIES[1]),
            ("PAIRED_PERCENT", (PAIRED_SHARE * 100.0) as u32),
            ("THREADS", if apart { APART_THREADS } else { FUSED_THREADS }),
            ("LIVE_COST", LIVE_COST),
            ("START_COST", START_COST),
        ];
        let constants = [code_constants(self.group_log2), format.constants(wide, &own)].concat();
        Specialization { source: SOURCE, constants }
    }

    /// For decoded codes.
    fn unfused(self) -> Specialization {
        let own = [
            ("GROUP_LOG2", self.group_log2),
            ("FUSED", 0),
            ("APART", 0),
            ("THREADS", CODES_THREADS),
            ("LIVE_COST", LIVE_COST),
            ("START_COST", START_COST),
        ];
        Specialization { source: SOURCE, constants: self.constants(true, &own) }
    }

    /// For 3-D tiles, from sums of codes.
    fn strips(self) -> Specialization {
        let threads = strips::threads(self.double);
        // Logarithms take more registers.
        let resident = if self.logarithm { 512 / threads } else { 4 };
        self.of_strips(STRIPS_SOURCE, threads, resident)
    }

    /// For strips of 3-D tiles that have one value.
    fn flat_strips(self) -> Specialization {
        self.of_strips(FLAT_SOURCE, strips::FLAT_THREADS, strips::FLAT_RESIDENT)
    }

    fn of_strips(self, source: Source, threads: u32, resident: u32) -> Specialization {
        let own = [
            ("GROUP_LOG2", self.group_log2),
            ("APART", 0),
            ("THREADS", threads),
            ("PLANES", strips::PLANES),
            ("RESIDENT", resident),
        ];
        Specialization { source, constants: self.constants(true, &own) }
    }
}

/// What the compile check compiles: every kernel at least once, and each constant with every value.
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
        let mut all = vec![format.unfused()];
        if !fuses {
            return all;
        }
        all.extend([format.fused(false, false), format.fused(true, false)]);
        if format.axes == 3 {
            all.extend([format.strips(), format.flat_strips()]);
        }
        // Rows that go to memory are the same for all elements: once for each size of groups.
        if format.axes == 3 && (!format.double || format.group_log2 == 6) {
            all.extend([format.fused(false, true), format.fused(true, true)]);
        }
        all
    };
    formats.flat_map(of).collect()
}
