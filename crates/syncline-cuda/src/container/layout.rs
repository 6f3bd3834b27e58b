//! Lays out the records of a batch: launcher of `kernels/container/layout.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut};
use syncline_core::container::ALIGNMENT;

use super::progress::Progress;
use super::structs::{BitRange, EncodedTiles, ErrorSums, RecordHeads, RecordPlaces, RecordPlan};
use crate::device::{Device, Frame, Grid};
use crate::device_kernels::{Out, declare_kernels, launch};
use crate::error::{CudaError, Result};
use crate::geometry::{ChunkBatch, DeviceGeometry};
use crate::strips::{CODEBOOK_ROOM, Encoded};

declare_kernels! {
    /// The kernel of `kernels/container/layout.cu`.
    pub(super) struct LayoutKernels in "container/layout.cu" {
        /// Threads of a block.
        const THREADS: u32 = 1024;
        /// Most tiles of a chunk: it has at most 2^22 elements, and an unclipped tile at least 512.
        const MAX_TILES: u32 = 1 << 13;
        with MAX_STRIPS = 6 * MAX_TILES;
        fn container_layout(
            geometry: DeviceGeometry, batch: ChunkBatch, encoded: EncodedTiles, heads: RecordHeads,
            plans: Out<RecordPlan>, places: RecordPlaces,
        );
    }
}

/// The records of a batch, laid out but not yet written.
#[derive(Debug)]
pub struct LaidOut<'a> {
    pub(super) batch: ChunkBatch,
    pub(super) plans: CudaViewMut<'a, RecordPlan>,
    pub(super) starts: CudaViewMut<'a, u64>,
    heads: Heads<'a>,
    element_bytes: u32,
}

/// Memory for [`RecordHeads`].
#[derive(Debug)]
struct Heads<'a> {
    words: CudaViewMut<'a, u32>,
    bit_ranges: CudaViewMut<'a, BitRange>,
    lengths: CudaViewMut<'a, u16>,
    verbatim_starts: CudaViewMut<'a, u32>,
    errors: Option<CudaViewMut<'a, ErrorSums>>,
    stride: u32,
}

/// Returns the most words of the head of a chunk of so many tiles.
fn head_words(geometry: &DeviceGeometry) -> u64 {
    let tiles = u64::from(geometry.chunk_tiles()).min(geometry.tiles());
    let strips = tiles * u64::from(geometry.strip_capacity());
    // A bitmap of constant tiles, predictors, classes, masks, signs; widths and bases.
    let of_tiles = 3 + (1 + 2 + 2 + 4 + 2) * tiles.div_ceil(32) + tiles.div_ceil(32) + 32 * tiles.div_ceil(32);
    // A bit and half a descriptor for a block, and deltas, which have at most 15 bits.
    let of_strips = 6 + CODEBOOK_ROOM as u64 / 4 + (1 + 1 + 15) * strips.div_ceil(32);
    let paddings = 3 * ALIGNMENT as u64 / 4;
    (of_tiles + of_strips + paddings).next_multiple_of(ALIGNMENT as u64 / 4)
}

impl<'a> LaidOut<'a> {
    fn new(
        frame: &mut Frame<'a>,
        geometry: &DeviceGeometry,
        batch: &ChunkBatch,
        element_bytes: u32,
        measured: bool,
    ) -> Result<Self> {
        let (chunks, tiles) = (batch.chunks() as usize, batch.tiles() as usize);
        let stride = head_words(geometry) as u32;
        let errors = match measured {
            true => Some(frame.slice(chunks)?),
            false => None,
        };
        let heads = Heads {
            words: frame.slice(chunks * stride as usize)?,
            bit_ranges: frame.slice(tiles + chunks)?,
            lengths: frame.slice(tiles * geometry.strip_capacity() as usize)?,
            verbatim_starts: frame.slice(tiles)?,
            errors,
            stride,
        };
        let (plans, starts) = (frame.slice(chunks)?, frame.slice(chunks)?);
        Ok(Self { batch: *batch, plans, starts, heads, element_bytes })
    }

    /// Returns the memory as kernels take it.
    pub(super) fn heads(&mut self, stream: &Arc<CudaStream>) -> RecordHeads {
        let Heads { words, bit_ranges, lengths, verbatim_starts, errors, stride } = &mut self.heads;
        RecordHeads {
            words: words.device_ptr_mut(stream).0,
            bit_ranges: bit_ranges.device_ptr_mut(stream).0,
            lengths: lengths.device_ptr_mut(stream).0,
            verbatim_starts: verbatim_starts.device_ptr_mut(stream).0,
            errors: errors.as_mut().map_or(0, |errors| errors.device_ptr_mut(stream).0),
            stride: *stride,
            element_bytes: self.element_bytes,
        }
    }

    /// Returns the errors of each chunk, if they are measured.
    pub fn errors(&self) -> Option<CudaView<'_, ErrorSums>> {
        self.heads.errors.as_ref().map(|errors| errors.as_view())
    }
}

impl EncodedTiles {
    pub(super) fn new(stream: &Arc<CudaStream>, encoded: &Encoded<'_>) -> Self {
        let errors = encoded.errors.as_ref();
        Self {
            choices: encoded.choices.device_ptr(stream).0,
            codebooks: encoded.codebooks.device_ptr(stream).0,
            facts: encoded.facts.device_ptr(stream).0,
            strip_bits: encoded.strip_bits.device_ptr(stream).0,
            words: encoded.words.device_ptr(stream).0,
            errors: errors.map_or(0, |(errors, _)| errors.device_ptr(stream).0),
            counted: errors.map_or(0, |(_, counted)| counted.device_ptr(stream).0),
            chunk_words: encoded.chunk_words,
        }
    }
}

/// Lays out records.
#[derive(Debug)]
pub(super) struct RecordLayouter {
    kernels: LayoutKernels,
}

impl RecordLayouter {
    pub fn new(device: &Device) -> Result<Self> {
        LayoutKernels::load(device).map(|kernels| Self { kernels })
    }

    /// Places the records of a batch, which is not empty, behind those of earlier batches. `first` chunks of the stream
    /// are in these, and `room` bytes in the output.
    pub fn lay_out<'a>(
        &self,
        frame: &mut Frame<'a>,
        geometry: &DeviceGeometry,
        (batch, first): (&ChunkBatch, u64),
        encoded: &Encoded<'_>,
        (element_bytes, room): (u32, u64),
        progress: &mut Progress,
    ) -> Result<LaidOut<'a>> {
        let stream = frame.stream().clone();
        let (chunks, tiles) = (batch.chunks() as usize, batch.tiles() as usize);
        let fits = encoded.choices.len() >= chunks
            && encoded.codebooks.len() >= chunks * CODEBOOK_ROOM
            && encoded.words.len() as u64 >= chunks as u64 * encoded.chunk_words
            && encoded.facts.len() >= tiles
            && encoded.strip_bits.len() >= tiles * geometry.strip_capacity() as usize
            && encoded.errors.as_ref().is_none_or(|(sums, counts)| sums.len() >= tiles && counts.len() >= tiles);
        if !fits || progress.chunks() < first + u64::from(batch.chunks()) {
            return Err(CudaError::invalid("a batch has more chunks or tiles than there is memory for"));
        }
        let measured = encoded.errors.is_some();
        let mut laid_out = LaidOut::new(frame, geometry, batch, element_bytes, measured)?;
        let places = progress.places(first, room, &mut laid_out.starts);
        let (encoded, heads) = (EncodedTiles::new(&stream, encoded), laid_out.heads(&stream));
        let grid = Grid::new(batch.chunks(), THREADS).early(true);
        // SAFETY: `fits` shows that there is an entry for each chunk, tile, and strip, and `LaidOut::new` allocated for
        // the most that the counts of these tiles and strips give, whatever is in the entries but for the bits of
        // tiles, which encoding keeps within the words of their chunk. The kernel waits for the one before it.
        unsafe {
            launch!(self.kernels.container_layout on &stream, grid; *geometry, *batch, encoded, heads,
                &mut laid_out.plans, places)
        }?;
        Ok(laid_out)
    }
}
