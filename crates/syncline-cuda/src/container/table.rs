//! Writes the end of a stream: launcher of `kernels/container/table.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaStream, CudaViewMut};
use syncline_core::container::{HEADER_HASH_AT, HEADER_LEN};

use super::progress::Progress;
use super::structs::{QueuedEnd, StreamHeader};
use crate::device::{Device, Grid};
use crate::device_kernels::{In, Out, declare_kernels, launch};
use crate::error::{CudaError, Result};

declare_kernels! {
    /// The kernel of `kernels/container/table.cu`.
    pub(super) struct TableKernels in "container/table.cu" {
        const THREADS: u32 = 1024;
        with STREAM_HEADER = HEADER_LEN;
        with STREAM_HEADER_HASH = HEADER_HASH_AT;
        fn container_table(
            header: StreamHeader, lengths: In<u32>, chunks: u64, state: In<u64>, room: u64, output: Out<u8>,
            number: u64, report: CUdeviceptr as "StreamReport *", checksummed: CUdeviceptr as "const uint32_t *",
            queued: QueuedEnd,
        );
    }
}

/// What the end of a stream is written from.
#[derive(Debug, Clone, Copy)]
pub enum StreamEnd<'h> {
    /// The header, which the host knows. It waits for the report.
    Known(&'h [u8; HEADER_LEN]),
    /// What will be in memory when the kernel runs. Nothing waits for the report.
    Queued(QueuedEnd),
}

/// Writes header, chunk table and trailer of streams.
#[derive(Debug)]
pub struct TableWriter {
    kernels: TableKernels,
}

impl TableWriter {
    /// Loads the kernel for this device.
    ///
    /// # Errors
    /// The errors of [`Device::kernel`].
    pub fn new(device: &Device) -> Result<Self> {
        TableKernels::load(device).map(|kernels| Self { kernels })
    }

    /// Queues the kernel that writes the header in front of the records, and the chunk table and the trailer after
    /// them. It must be on the same stream as the kernel that writes the checksums of the records of the last batch,
    /// and after it.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if the stream was started with other chunks; [`CudaError::Driver`].
    pub fn finish(
        &self,
        stream: &Arc<CudaStream>,
        progress: &mut Progress,
        end: StreamEnd<'_>,
        chunks: u64,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<()> {
        if chunks > progress.chunks() || progress.start != HEADER_LEN as u64 || progress.started != (chunks > 0) {
            return Err(CudaError::invalid("the stream was started with other chunks"));
        }
        let room = output.len() as u64;
        let (header, queued) = match end {
            StreamEnd::Known(header) => (*header, QueuedEnd::default()),
            StreamEnd::Queued(queued) => ([0; HEADER_LEN], queued),
        };
        let (words, _) = header.as_chunks();
        let header = StreamHeader { words: std::array::from_fn(|i| u32::from_le_bytes(words[i])) };
        progress.number += 1;
        let (number, report) = (progress.number, progress.report.device_pointer());
        let checksummed = progress.checksummed();
        let (lengths, state) = (&progress.lengths, &progress.state);
        let grid = Grid::new(1, THREADS).early(true);
        // SAFETY: the kernel reads `chunks` lengths, which the check above proved to exist, the state, and what
        // `queued` refers to. It writes to the output only if `room` bytes hold the whole stream, and to the report in
        // page-locked memory, which the host reads once it has waited for the kernel. If there are records, it waits
        // for the counter of checksummed ones; the kernel before it lets it start once lengths and state are final and
        // does not touch what it writes. If there are none, it waits for that kernel to end.
        unsafe {
            launch!(self.kernels.container_table on stream, grid; header, lengths, chunks, state, room, output, number,
                report, checksummed, queued)
        }?;
        match end {
            StreamEnd::Known(_) => progress.report.written(),
            StreamEnd::Queued(_) => Ok(()),
        }
    }
}
