//! How far a stream is written, and its end: launcher of `kernels/container/table.cu`.

#![allow(unsafe_code)]

use std::mem::offset_of;
use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaSlice, CudaStream, CudaViewMut, DevicePtrMut, DeviceRepr, ValidAsZeroBits};
use syncline_core::container::{ALIGNMENT, HEADER_LEN};

use crate::device::{Device, Kernel, Pinned, ProgrammaticDependentLaunch, Source, Specialization, source};
use crate::error::{CudaError, DriverContext, Result};

const TABLE: Source = source!("container/table.cu");
const THREADS: u32 = 1024;
const STATUS_BAD_STREAM: u32 = 1;
/// Words of 64 bits that say how far a stream is written: where the next record starts, the status, the number of the
/// last batch that was laid out, and how many records are signed.
const STATE_WORDS: usize = 4;
/// Bytes of the last two of these.
const LAID_OUT_AT: usize = 2 * size_of::<u64>();
const SIGNED_AT: usize = 3 * size_of::<u64>();

pub(super) fn specialization() -> Specialization {
    let constants = vec![("THREADS", THREADS.into()), ("STREAM_HEADER", HEADER_LEN as u64)];
    Specialization { source: TABLE, constants }
}

/// `StreamHeader` in container/table.cu.
#[derive(Clone, Copy)]
#[repr(C, align(4))]
struct StreamHeader([u8; HEADER_LEN]);

// SAFETY: as many bytes as `StreamHeader` has, aligned like it.
unsafe impl DeviceRepr for StreamHeader {}

/// `Told` in container/table.cu.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Told {
    bytes: u64,
    status: u64,
    /// The number of the stream, written last.
    number: u64,
}

// SAFETY: three u64, laid out as `Told` in container/table.cu.
unsafe impl DeviceRepr for Told {}
// SAFETY: numbers.
unsafe impl ValidAsZeroBits for Told {}

/// How far a stream is written: lives in device memory from the first batch of chunks to the last.
#[derive(Debug)]
pub struct Progress {
    /// Where the next record starts in the output; the status.
    pub(super) state: CudaSlice<u64>,
    /// Bytes of each record.
    pub(super) lengths: CudaSlice<u32>,
    /// Where the host reads both, made when it first does.
    host: Option<(Pinned<u64>, Pinned<u32>)>,
    told: Pinned<Told>,
    stream: Arc<CudaStream>,
    /// Streams so far.
    number: u64,
    /// Batches so far, of all streams.
    pub(super) batches: u64,
    /// Where the first record starts.
    pub(super) start: u64,
    /// Whether a batch has been laid out.
    pub(super) begun: bool,
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
        let told = Pinned::new(stream, 1)?;
        let allocate = || {
            let state = stream.alloc_zeros(STATE_WORDS)?;
            let lengths = stream.alloc_zeros(length)?;
            Ok(Self {
                state,
                lengths,
                host: None,
                told,
                stream: stream.clone(),
                number: 0,
                batches: 0,
                start: 0,
                begun: false,
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
        (self.start, self.begun) = (start, false);
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
        if !self.begun {
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

    /// What [`StreamEnd::finish`] has said, which waits for the stream.
    ///
    /// # Errors
    /// As [`Self::records`].
    pub fn outcome(&self) -> Result<Outcome> {
        let told = self.told.wait_for(offset_of!(Told, number), self.number)?[0];
        Self::outcome_of(told.bytes, told.status)
    }

    fn outcome_of(bytes: u64, status: u64) -> Result<Outcome> {
        let status = status as u32;
        if status & STATUS_BAD_STREAM != 0 {
            return Err(CudaError::invalid("symbols without a codeword in a chunk"));
        }
        Ok(Outcome { bytes, fits: status == 0 })
    }
}

/// Writes the ends of streams.
#[derive(Debug)]
pub struct StreamEnd {
    kernel: Kernel,
}

impl StreamEnd {
    /// For this device.
    ///
    /// # Errors
    /// Those of [`Device::kernel`].
    pub fn new(device: &Device) -> Result<Self> {
        Ok(Self { kernel: device.kernel(&specialization(), "record_table")? })
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
        if chunks > progress.chunks() || progress.start != HEADER_LEN as u64 || progress.begun != (chunks > 0) {
            return Err(CudaError::invalid("the stream was begun with other chunks"));
        }
        let room = output.len() as u64;
        let header = StreamHeader(*header);
        progress.number += 1;
        let (number, told) = (progress.number, progress.told.device_pointer());
        let signed = progress.signed();
        let launch =
            ProgrammaticDependentLaunch::new(&self.kernel, stream).value(header).reads(&progress.lengths).value(chunks);
        let launch = launch.reads(&progress.state).value(room).writes(output).value(number).value(told).value(signed);
        // SAFETY: the kernel's parameters are (StreamHeader, const u32 *, u64, const u64 *, u64, u8 *, u64, Told *,
        // const u32 *); it reads `chunks` lengths and the state, and writes only where `room` bytes hold all that it
        // writes, and what the host is told, which waits for the event below. It tells when all records are signed; the
        // kernel before it, which signs them, lets it begin when all that it reads is there, and touches nothing that
        // it writes; and if there is none it waits at its start.
        unsafe { launch.launch(Kernel::grid(1, THREADS, 0)) }?;
        progress.told.written()
    }
}
