//! Writes and writes the checksums of the records of a batch: launcher of `kernels/container/write.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaStream, CudaViewMut, DevicePtr};

use super::hash::{ExcludedRange, Hasher, PendingWrites, Pieces};
use super::layout::RecordLayout;
use super::progress::Progress;
use super::record::{Contents, TokenLists};
use super::structs::{ChunkParts, DeviceLists, RecordPlan};
use crate::device::{Device, Frame, Grid};
use crate::device_kernels::{In, Out, declare_kernels, launch};
use crate::error::{CudaError, Result};
use crate::geometry::{ChunkBatch, DeviceGeometry};

declare_kernels! {
    /// The kernel of `kernels/container/write.cu`.
    pub(super) struct WriteKernels in "container/write.cu", by (element_bytes: u32) {
        /// Threads of a block. These blocks run beside the many blocks that write codes.
        const THREADS: u32 = 512;
        fn container_write(
            geometry: DeviceGeometry, batch: ChunkBatch, parts: In<ChunkParts>, plans: In<RecordPlan>, metas: In<u16>,
            bases: In<i32>, lists: DeviceLists, elements: In<u8> as "const Element *", first_element: u64, blocks: u32,
            output: Out<u8>, laid_out: CUdeviceptr as "const uint64_t *", laid_out_number: u64,
            unwritten: CUdeviceptr as "uint32_t *", token_codes: bool,
        );
    }
}

/// The records to checksum.
pub struct ChecksumTarget<'s, 'l, 'o> {
    /// Places of the records.
    pub layout: &'s mut RecordLayout<'l>,
    /// Lengths of the records, and the counter of checksummed ones.
    pub progress: &'s mut Progress,
    /// The whole stream.
    pub output: &'s mut CudaViewMut<'o, u8>,
    /// The longest record in bytes.
    pub longest: u32,
}

/// Writes records, except their Huffman streams, and writes their checksums.
#[derive(Debug)]
pub struct RecordWriter {
    element_bytes: u32,
    kernels: WriteKernels,
    hasher: Hasher,
    /// Bytes of a group of codes.
    group_bytes: u32,
}

impl RecordWriter {
    /// Loads the kernels for records of elements of 4 or 8 bytes, with groups of `1 << group_log2` codes.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] for other element sizes; the errors of [`Device::kernel`].
    pub fn new(device: &Device, element_bytes: u32, group_log2: u8) -> Result<Self> {
        if !matches!(element_bytes, 4 | 8) {
            return Err(CudaError::invalid("elements must have 4 or 8 bytes"));
        }
        Ok(Self {
            element_bytes,
            kernels: WriteKernels::load(device, element_bytes)?,
            hasher: Hasher::new(device)?,
            group_bytes: (size_of::<u16>() as u32) << group_log2,
        })
    }

    /// Writes everything of the records except the Huffman streams and the hashes. The kernel starts writing when the
    /// word at `laid_out.0` becomes `laid_out.1`.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub(crate) fn write(
        &self,
        stream: &Arc<CudaStream>,
        contents: &Contents<'_>,
        layout: &mut RecordLayout<'_>,
        tokens: Option<&TokenLists<'_>>,
        laid_out: (CUdeviceptr, u64),
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<()> {
        self.write_records(stream, contents, layout, (tokens, false), laid_out, output)
    }

    /// [`Self::write`], for chunks with token codebooks if `token_codes` is set.
    pub(super) fn write_records(
        &self,
        stream: &Arc<CudaStream>,
        contents: &Contents<'_>,
        layout: &mut RecordLayout<'_>,
        (tokens, token_codes): (Option<&TokenLists<'_>>, bool),
        laid_out: (CUdeviceptr, u64),
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<()> {
        if layout.chunks == 0 {
            return Ok(());
        }
        let lists = contents.lists;
        let [parts, narrow_positions, narrow_values] = tokens.map_or([0; 3], |tokens| {
            let TokenLists { parts, positions, residuals } = tokens;
            [parts.device_ptr(stream).0, positions.device_ptr(stream).0, residuals.device_ptr(stream).0]
        });
        let pointers = DeviceLists {
            outlier_positions: lists.outlier_positions.device_ptr(stream).0,
            outlier_values: lists.outlier_residuals.device_ptr(stream).0,
            verbatim_positions: lists.verbatim_positions.device_ptr(stream).0,
            verbatim_values: lists.verbatim_values.device_ptr(stream).0,
            tokens: parts,
            narrow_positions,
            narrow_values,
        };
        let (blocks, unwritten) = (layout.blocks, layout.unwritten(stream));
        let (parts, plans) = (layout.parts.as_view(), layout.plans.as_view());
        // Records with token codebooks follow copies from the host, behind which nothing starts early.
        let grid = Grid::new(layout.chunks * blocks, THREADS).early(!token_codes);
        let Contents { geometry, batch, metas, bases, slab, .. } = *contents;
        let (number, first_element) = (laid_out.1, slab.first_element);
        // SAFETY: the layout made plans that lie within the output or say that there is no room.
        // `RecordLayouter::lay_out` checked the lengths of metas, bases and parts. The lists have the entries that the
        // parts count, and the slab holds the elements of the batch's chunks: both come from the same quantized batch.
        // Before it waits, the kernel reads only tiles and bases, which no kernel writes any more once records are
        // being laid out.
        unsafe {
            launch!(self.kernels.container_write on stream, grid; geometry, batch, &parts, &plans, metas, bases,
                pointers, &slab.bytes, first_element, blocks, output, laid_out.0, number, unwritten, token_codes)
        }
    }

    /// Writes the hashes of the records once everything else of them is written. `hash_progress` has a word that is 0
    /// for each record, and `scratch` is memory whose contents are no longer needed.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn checksum(
        &self,
        frame: &mut Frame<'_>,
        target: ChecksumTarget<'_, '_, '_>,
        hash_progress: &mut CudaViewMut<'_, u64>,
        scratch: &mut CudaViewMut<'_, u16>,
    ) -> Result<()> {
        let ChecksumTarget { layout, progress, output, longest } = target;
        let first = layout.first_chunk as usize;
        let mut pending = PendingWrites { checksummed: progress.checksummed(), ..PendingWrites::default() };
        let unwritten = layout.unwritten(frame.stream());
        if unwritten != 0 {
            // The sums fit where the groups were: a chunk's record has little more than 8 bytes per element, its sums
            // take a sixteenth of that, and its groups had 2 bytes per element.
            pending = PendingWrites { unwritten, spans: layout.spans, group_bytes: self.group_bytes, ..pending };
        }
        let lengths = progress.lengths.slice(first..first + layout.chunks as usize);
        let starts = layout.starts.as_view();
        let pieces = Pieces { starts: &starts, lengths: &lengths, longest, excluded: ExcludedRange::RECORD };
        self.hasher.sign_in(frame, output, &pieces, hash_progress, scratch, pending)
    }

    /// Writes the hashes of records that all earlier work on the stream has completed.
    pub(super) fn checksum_records(
        &self,
        frame: &mut Frame<'_>,
        output: &mut CudaViewMut<'_, u8>,
        pieces: &Pieces<'_>,
    ) -> Result<()> {
        self.hasher.checksum(frame, output, pieces)
    }

    /// Returns the bytes of an element.
    pub fn element_bytes(&self) -> u32 {
        self.element_bytes
    }
}
