//! How far a stream is written, and its end: launcher of `kernels/container/table.cu`.

#![allow(unsafe_code)]

use std::mem::offset_of;
use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaSlice, CudaStream, DevicePtrMut, DeviceRepr, ValidAsZeroBits};
use syncline_core::container::ALIGNMENT;

use crate::device::Pinned;
use crate::error::{CudaError, DriverContext, Result};

const STATUS_BAD_STREAM: u32 = 1;
/// Words of 64 bits that say how far a stream is written: where the next record starts, the status, the number of the
/// last batch that was laid out, and how many records are signed.
const STATE_WORDS: usize = 4;
/// Bytes of the last two of these.
const LAID_OUT_AT: usize = 2 * size_of::<u64>();
const SIGNED_AT: usize = 3 * size_of::<u64>();

/// `StreamReport` in container/table.cu.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct StreamReport {
    bytes: u64,
    status: u64,
    /// The number of the stream, written last.
    number: u64,
}

// SAFETY: three u64, laid out as `StreamReport` in container/table.cu.
unsafe impl DeviceRepr for StreamReport {}
// SAFETY: numbers.
unsafe impl ValidAsZeroBits for StreamReport {}

/// How far a stream is written: lives in device memory from the first batch of chunks to the last.
#[derive(Debug)]
pub struct Progress {
    /// Where the next record starts in the output; the status.
    pub(super) state: CudaSlice<u64>,
    /// Bytes of each record.
    pub(super) lengths: CudaSlice<u32>,
    /// Where the host reads both, made when it first does.
    host: Option<(Pinned<u64>, Pinned<u32>)>,
    pub(super) report: Pinned<StreamReport>,
    stream: Arc<CudaStream>,
    /// Streams so far.
    pub(super) number: u64,
    /// Batches so far, of all streams.
    pub(super) batches: u64,
    /// Where the first record starts.
    pub(super) start: u64,
    /// Whether a batch has been laid out.
    pub(super) started: bool,
}

/// What a stream came out as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Bytes that the output must have.
    pub bytes: u64,
    /// Whether it has as many: if not, it does not hold a stream.
    pub fits: bool,
}

impl Progress {
    /// For streams of up to `chunks` chunks.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn new(stream: &Arc<CudaStream>, chunks: u64) -> Result<Self> {
        let length = usize::try_from(chunks).unwrap_or(usize::MAX).max(1);
        let report = Pinned::new(stream, 1)?;
        let allocate = || {
            let state = stream.alloc_zeros(STATE_WORDS)?;
            let lengths = stream.alloc_zeros(length)?;
            Ok(Self {
                state,
                lengths,
                host: None,
                report,
                stream: stream.clone(),
                number: 0,
                batches: 0,
                start: 0,
                started: false,
            })
        };
        allocate().allocating(4 * chunks)
    }

    /// Begins a stream whose records start at byte `start` of the output, a multiple of 16.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`].
    pub fn start(&mut self, start: u64) -> Result<()> {
        if !start.is_multiple_of(ALIGNMENT as u64) {
            return Err(CudaError::invalid("records start on multiples of 16"));
        }
        (self.start, self.started) = (start, false);
        Ok(())
    }

    /// Chunks that there is room for.
    pub fn chunks(&self) -> u64 {
        self.lengths.len() as u64
    }

    /// The word that tells when the last batch is laid out, and what it is then.
    pub(super) fn laid_out(&mut self) -> (CUdeviceptr, u64) {
        let state = self.state.device_ptr_mut(&self.stream).0;
        (state + LAID_OUT_AT as u64, self.batches)
    }

    /// The number of records that are signed, of 32 bits.
    pub(super) fn signed(&mut self) -> CUdeviceptr {
        self.state.device_ptr_mut(&self.stream).0 + SIGNED_AT as u64
    }

    /// Where the records end, and the bytes of the first `count` of them, which waits for the stream.
    ///
    /// # Errors
    /// [`CudaError::Driver`]; [`CudaError::InvalidArgument`] if there are fewer, or a Huffman stream is not valid,
    /// which those of quantized codes never are.
    pub fn records(&mut self, count: u64) -> Result<(Outcome, Vec<u32>)> {
        if !self.started {
            return Ok((Outcome { bytes: self.start, fits: true }, Vec::new()));
        }
        let count = usize::try_from(count).ok().filter(|&count| count <= self.lengths.len());
        let count = count.ok_or_else(|| CudaError::invalid("there is room for fewer chunks"))?;
        let (states, lengths) = match &mut self.host {
            Some(host) => host,
            None => {
                let lengths = Pinned::new(&self.stream, self.lengths.len())?;
                self.host.insert((Pinned::new(&self.stream, STATE_WORDS)?, lengths))
            }
        };
        // Both are there when the second is.
        lengths.read(&self.lengths.slice(..count))?;
        states.read(&self.state)?;
        let state = states.wait()?;
        let outcome = Self::outcome_of(state[0], state[1])?;
        Ok((outcome, lengths.wait()?[..count].to_vec()))
    }

    /// What [`TableWriter::finish`](super::table::TableWriter::finish) has said, which waits for the stream.
    ///
    /// # Errors
    /// As [`Self::records`].
    pub fn outcome(&self) -> Result<Outcome> {
        let report = self.report.wait_for(offset_of!(StreamReport, number), self.number)?[0];
        Self::outcome_of(report.bytes, report.status)
    }

    fn outcome_of(bytes: u64, status: u64) -> Result<Outcome> {
        let status = status as u32;
        if status & STATUS_BAD_STREAM != 0 {
            return Err(CudaError::invalid("symbols without a codeword in a chunk"));
        }
        Ok(Outcome { bytes, fits: status == 0 })
    }
}
