//! Makes the records of the chunks of a batch from their encoded tiles, and the end of the stream.

use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView, CudaViewMut};
use syncline_core::container::{ALIGNMENT, RECORD_HEADER_LEN};

use super::hash::{ExcludedRange, Hasher, Pieces};
use super::layout::{LaidOut, RecordLayouter};
use super::progress::Progress;
use super::table::{StreamEnd, TableWriter};
use super::write::RecordWriter;
use crate::device::{Device, Frame};
use crate::error::Result;
use crate::geometry::{ChunkBatch, DeviceGeometry, Slab};
use crate::strips::Encoded;

/// Makes records.
#[derive(Debug)]
pub struct RecordMaker {
    layouter: RecordLayouter,
    writer: RecordWriter,
    hasher: Hasher,
    table: TableWriter,
}

/// Returns the most bytes of a record of elements of so many bytes.
pub(crate) fn longest_record(geometry: &DeviceGeometry, element_bytes: u32) -> u32 {
    (RECORD_HEADER_LEN as u64 + geometry.chunk_elements() * u64::from(element_bytes)) as u32 + ALIGNMENT as u32
}

/// The chunks of a batch, their elements, and their encoded tiles.
pub struct RecordInput<'b, 'e> {
    /// The tiling of the array.
    pub geometry: &'b DeviceGeometry,
    /// The chunks.
    pub batch: &'b ChunkBatch,
    /// The encoded tiles. Their bits are overwritten.
    pub encoded: &'b mut Encoded<'e>,
    /// The elements.
    pub slab: &'b Slab<'b>,
    /// Bytes of an element: 4 or 8.
    pub element_bytes: u32,
}

impl RecordMaker {
    /// Loads the kernels.
    ///
    /// # Errors
    /// The errors of [`Device::kernel`].
    pub fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            layouter: RecordLayouter::new(device)?,
            writer: RecordWriter::new(device)?,
            hasher: Hasher::new(device)?,
            table: TableWriter::new(device)?,
        })
    }

    /// Writes the records of a batch behind those of earlier batches, of which the stream has `first`, on the frame's
    /// stream. `output` is the whole stream. Records that it has no room for are not written, and the progress says so.
    /// The slab holds the elements of the batch, as the caller has checked.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`](crate::CudaError::InvalidArgument) if there is less memory than the batch needs;
    /// [`CudaError::OutOfMemory`](crate::CudaError::OutOfMemory); [`CudaError::Driver`](crate::CudaError::Driver).
    pub fn write<'a>(
        &self,
        frame: &mut Frame<'a>,
        input: RecordInput<'_, '_>,
        (progress, first): (&mut Progress, u64),
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<LaidOut<'a>> {
        let RecordInput { geometry, batch, encoded, slab, element_bytes } = input;
        let stream = frame.stream().clone();
        let sizes = (element_bytes, output.len() as u64);
        let mut laid_out = self.layouter.lay_out(frame, geometry, (batch, first), encoded, sizes, progress)?;
        self.writer.write(&stream, geometry, &mut laid_out, encoded, slab, output)?;
        // The bits of the tiles are in their records.
        let records = (&laid_out.starts.as_view(), longest_record(geometry, element_bytes), first);
        self.checksum(frame, records, progress, &mut encoded.words, output)?;
        Ok(laid_out)
    }

    /// Writes the checksums of records that are complete otherwise. They start at `starts` and have at most `longest`
    /// bytes, and `first` records of the stream are before them. The contents of `memory` are lost.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`](crate::CudaError::OutOfMemory); [`CudaError::Driver`](crate::CudaError::Driver).
    pub(crate) fn checksum(
        &self,
        frame: &mut Frame<'_>,
        (starts, longest, first): (&CudaView<'_, u64>, u32, u64),
        progress: &mut Progress,
        memory: &mut CudaViewMut<'_, u32>,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<()> {
        let mut hash_progress = frame.zeros::<u64>(starts.len())?;
        let checksummed = progress.checksummed();
        let lengths = progress.lengths.slice(first as usize..first as usize + starts.len());
        let pieces = Pieces { starts, lengths: &lengths, longest, excluded: ExcludedRange::RECORD };
        self.hasher.checksum_counted(frame, output, &pieces, (&mut hash_progress, memory), checksummed)
    }

    /// Queues the end of a stream behind its last batch: the header in front of the records, and the table and the
    /// trailer behind them.
    ///
    /// # Errors
    /// Those of [`TableWriter::finish`].
    pub fn finish(
        &self,
        stream: &Arc<CudaStream>,
        progress: &mut Progress,
        end: StreamEnd<'_>,
        chunks: u64,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<()> {
        self.table.finish(stream, progress, end, chunks, output)
    }
}
