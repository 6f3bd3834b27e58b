//! Writes the ends of streams: launcher of `kernels/container/table.cu`.

#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaViewMut, DeviceRepr};
use syncline_core::container::HEADER_LEN;

use super::progress::Progress;
use crate::device::{Device, Kernel, ProgrammaticDependentLaunch, Source, Specialization, source};
use crate::error::{CudaError, Result};

const SOURCE: Source = source!("container/table.cu");
const THREADS: u32 = 1024;

pub(super) fn specialization() -> Specialization {
    let constants = vec![("THREADS", THREADS.into()), ("STREAM_HEADER", HEADER_LEN as u64)];
    Specialization { source: SOURCE, constants }
}

/// `StreamHeader` in container/table.cu.
#[derive(Clone, Copy)]
#[repr(C, align(4))]
struct StreamHeader([u8; HEADER_LEN]);

// SAFETY: as many bytes as `StreamHeader` has, aligned like it.
unsafe impl DeviceRepr for StreamHeader {}

/// Writes the ends of streams.
#[derive(Debug)]
pub struct TableWriter {
    kernel: Kernel,
}

impl TableWriter {
    /// For this device.
    ///
    /// # Errors
    /// Those of [`Device::kernel`].
    pub fn new(device: &Device) -> Result<Self> {
        Ok(Self { kernel: device.kernel(&specialization(), "container_table")? })
    }

    /// Writes the header in front of the records, the chunk table and the trailer behind them, behind what signs the
    /// records of the last batch on the same stream.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if there are other chunks; [`CudaError::Driver`].
    pub fn finish(
        &self,
        stream: &Arc<CudaStream>,
        progress: &mut Progress,
        header: &[u8; HEADER_LEN],
        chunks: u64,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<()> {
        if chunks > progress.chunks() || progress.start != HEADER_LEN as u64 || progress.started != (chunks > 0) {
            return Err(CudaError::invalid("the stream was started with other chunks"));
        }
        let room = output.len() as u64;
        let header = StreamHeader(*header);
        progress.number += 1;
        let (number, report) = (progress.number, progress.report.device_pointer());
        let signed = progress.signed();
        let launch =
            ProgrammaticDependentLaunch::new(&self.kernel, stream).value(header).reads(&progress.lengths).value(chunks);
        let launch = launch.reads(&progress.state).value(room).writes(output).value(number).value(report).value(signed);
        // SAFETY: the kernel's parameters are (StreamHeader, const u32 *, u64, const u64 *, u64, u8 *, u64, StreamReport *,
        // const u32 *); it reads `chunks` lengths and the state, and writes only where `room` bytes hold all that it
        // writes, and what the host is report, which waits for the event below. It tells when all records are signed; the
        // kernel before it, which signs them, lets it begin when all that it reads is there, and touches nothing that
        // it writes; and if there is none it waits at its start.
        unsafe { launch.launch(Kernel::grid(1, THREADS, 0)) }?;
        progress.report.written()
    }
}
