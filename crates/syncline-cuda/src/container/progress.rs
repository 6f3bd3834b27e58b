//! The progress of writing a stream, in device memory.

use std::mem::offset_of;
use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaSlice, CudaStream, CudaViewMut, DevicePtrMut};
use syncline_core::container::ALIGNMENT;

use super::structs::{RecordPlaces, StreamReport};
use crate::device::Pinned;
use crate::error::{CudaError, DriverContext, Result};

/// Words of 64 bits of the state: the start of the next record, the status, and counters of checksummed records and of
/// those of a batch that are planned.
const STATE_WORDS: usize = 4;
/// Byte offsets of the counters.
const CHECKSUMMED_AT: usize = 2 * size_of::<u64>();
const DONE_AT: usize = 3 * size_of::<u64>();

/// The progress of writing a stream. Lives in device memory from the first batch of chunks to the last.
#[derive(Debug)]
pub struct Progress {
    /// The words that `STATE_WORDS` describes.
    pub(super) state: CudaSlice<u64>,
    /// Length of each record in bytes.
    pub(super) lengths: CudaSlice<u32>,
    /// Host copies of both, allocated on first use.
    host: Option<(Pinned<u64>, Pinned<u32>)>,
    pub(super) report: Pinned<StreamReport>,
    stream: Arc<CudaStream>,
    /// Number of streams so far.
    pub(super) number: u64,
    /// Start of the first record in bytes.
    pub(super) start: u64,
    /// Whether a batch has been laid out.
    pub(super) started: bool,
}

/// The size of a finished stream, and whether the output could hold it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Size of the stream in bytes.
    pub bytes: u64,
    /// Whether the output has room for the stream. If not, its contents are unspecified.
    pub fits: bool,
}

impl Progress {
    /// Allocates the progress of streams of up to `chunks` chunks.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn new(stream: &Arc<CudaStream>, chunks: u64) -> Result<Self> {
        let length = usize::try_from(chunks).unwrap_or(usize::MAX).max(1);
        let report = Pinned::new(stream, 1)?;
        let allocate = || {
            let state = stream.alloc_zeros(STATE_WORDS)?;
            let lengths = stream.alloc_zeros(length)?;
            Ok(Self { state, lengths, host: None, report, stream: stream.clone(), number: 0, start: 0, started: false })
        };
        allocate().allocating(4 * chunks)
    }

    /// Starts a stream whose records start at byte `start` of the output.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] unless `start` is a multiple of 16.
    pub fn start(&mut self, start: u64) -> Result<()> {
        if !start.is_multiple_of(ALIGNMENT as u64) {
            return Err(CudaError::invalid("records must start on a multiple of 16 bytes"));
        }
        (self.start, self.started) = (start, false);
        Ok(())
    }

    /// Returns the maximum number of chunks of a stream.
    pub fn chunks(&self) -> u64 {
        self.lengths.len() as u64
    }

    /// Returns where kernels place the records of a batch, before which the stream has `first` chunks, in an output of
    /// `room` bytes. `starts` is memory for the start of each record.
    pub(crate) fn places(&mut self, first: u64, room: u64, starts: &mut CudaViewMut<'_, u64>) -> RecordPlaces {
        let is_first = u64::from(!std::mem::replace(&mut self.started, true));
        let (checksummed_records, done) = (self.checksummed(), self.done());
        RecordPlaces {
            room,
            start: self.start,
            state: self.state.device_ptr_mut(&self.stream).0,
            starts: starts.device_ptr_mut(&self.stream).0,
            lengths: self.lengths.slice_mut(first as usize..).device_ptr_mut(&self.stream).0,
            checksummed_records,
            done,
            is_first,
        }
    }

    /// Returns the address of the 32-bit counter of checksummed records.
    pub(super) fn checksummed(&mut self) -> CUdeviceptr {
        self.state.device_ptr_mut(&self.stream).0 + CHECKSUMMED_AT as u64
    }

    /// Returns the address of the 32-bit counter of planned records, 0 between batches.
    fn done(&mut self) -> CUdeviceptr {
        self.state.device_ptr_mut(&self.stream).0 + DONE_AT as u64
    }

    /// Returns where the records end, and the lengths of the first `count` records in bytes. Waits for the stream.
    ///
    /// # Errors
    /// [`CudaError::Driver`]; [`CudaError::InvalidArgument`] if there are fewer records.
    pub fn records(&mut self, count: u64) -> Result<(Outcome, Vec<u32>)> {
        if !self.started {
            return Ok((Outcome { bytes: self.start, fits: true }, Vec::new()));
        }
        let count = usize::try_from(count).ok().filter(|&count| count <= self.lengths.len());
        let count = count.ok_or_else(|| CudaError::invalid("the stream has fewer chunks"))?;
        let (states, lengths) = match &mut self.host {
            Some(host) => host,
            None => {
                let lengths = Pinned::new(&self.stream, self.lengths.len())?;
                self.host.insert((Pinned::new(&self.stream, STATE_WORDS)?, lengths))
            }
        };
        // The second copy is queued after the first, so that waiting for it suffices.
        lengths.read(&self.lengths.slice(..count))?;
        states.read(&self.state)?;
        let state = states.wait()?;
        let outcome = Self::outcome_of(state[0], state[1]);
        Ok((outcome, lengths.wait()?[..count].to_vec()))
    }

    /// Returns what the kernel of [`TableWriter::finish`](super::table::TableWriter::finish) reported. Waits for the
    /// report only: if the stream fits, the output is complete for work on any stream, and no kernel that has yet to
    /// end uses the input or the output.
    ///
    /// # Errors
    /// The errors of [`Self::records`].
    pub fn outcome(&self) -> Result<Outcome> {
        let report = self.report.wait_for(offset_of!(StreamReport, number), self.number)?[0];
        Ok(Self::outcome_of(report.bytes, report.status))
    }

    /// Queues what a stream needs whose work may run again and again: the signals of the last time are cleared.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] unless `start` is a multiple of 16; [`CudaError::Driver`].
    pub(crate) fn restart(&mut self, start: u64) -> Result<()> {
        self.start(start)?;
        self.number = 0;
        self.stream.memset_zeros(&mut self.state).doing("clearing the progress of a stream")
    }

    /// Returns the size of the stream that was queued last, and its status; `None` if none was. The caller has waited
    /// for the stream.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub(crate) fn queued_outcome(&self) -> Result<Option<(u64, u32)>> {
        let report = self.report.wait()?[0];
        Ok((report.number > 0).then_some((report.bytes, report.status as u32)))
    }

    /// Returns the outcome that the kernel reported.
    pub(crate) fn outcome_of(bytes: u64, status: u64) -> Outcome {
        Outcome { bytes, fits: status == 0 }
    }
}
