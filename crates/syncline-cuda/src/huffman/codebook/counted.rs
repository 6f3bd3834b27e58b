//! Codebooks of small alphabets from counts in device memory, as parts of streams that another stage writes.

#![allow(unsafe_code, reason = "launches kernels")]

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaViewMut, DevicePtr, DevicePtrMut};

use super::DeviceCodebooks;
use super::small_alphabet::{CANDIDATE_TREES_WORDS, MAX_SYMBOLS, SmallAlphabetBuilder};
use super::structs::StreamCodes;
use crate::device::{Device, Frame, fetch};
use crate::error::{CudaError, Result};
use crate::huffman::encode::structs::StreamInput;

/// Symbols of each codebook. Those that do not occur cost nothing.
pub(crate) const COUNTED_SYMBOLS: usize = MAX_SYMBOLS as usize;
/// 32-bit words from the counts of a codebook to those of the next one.
pub(crate) const COUNTS_STRIDE: usize = COUNTED_SYMBOLS + 4;
/// Bytes that a serialized codebook has room for.
const ROOM: usize = COUNTED_SYMBOLS + 4;

/// Builds codebooks from counts.
#[derive(Debug)]
pub(crate) struct CountedCodebooksBuilder {
    builder: SmallAlphabetBuilder,
    /// Codewords of the last codebooks, which have as many entries as there were most codebooks so far.
    built: Option<DeviceCodebooks>,
}

/// Serialized codebooks in device memory.
#[derive(Debug)]
pub(crate) struct CountedCodebooks<'a> {
    /// [`COUNTED_SYMBOLS`] entries for each codebook: [`super::unpack`].
    pub codewords: CUdeviceptr,
    summaries: CudaViewMut<'a, u32>,
    bytes: CudaViewMut<'a, u8>,
}

impl CountedCodebooksBuilder {
    /// Loads the kernels.
    pub fn new(device: &Device) -> Result<Self> {
        Ok(Self { builder: SmallAlphabetBuilder::new(device, MAX_SYMBOLS, 1)?, built: None })
    }

    /// Builds a codebook from each [`COUNTS_STRIDE`] words of `counts`, which are 0 behind the counts. Those of a
    /// codebook sum to less than 2^26. Codewords are valid until the next call on another stream, or until `self` is
    /// dropped.
    pub fn build<'a>(
        &mut self,
        frame: &mut Frame<'a>,
        counts: &mut CudaViewMut<'_, u32>,
    ) -> Result<CountedCodebooks<'a>> {
        let stream = frame.stream().clone();
        let count = counts.len() / COUNTS_STRIDE;
        if count == 0 || counts.len() != count * COUNTS_STRIDE {
            return Err(CudaError::invalid("there must be counts for each codebook"));
        }
        let room = match self.built.take().filter(|built| built.count() as usize == count) {
            Some(built) => built,
            None => DeviceCodebooks::new(&stream, MAX_SYMBOLS, count as u32)?,
        };
        let built = self.built.insert(room);
        let (mut summaries, mut bytes) = (frame.slice::<u32>(2 * count)?, frame.slice::<u8>(count * ROOM)?);
        let mut finished = frame.zeros::<u32>(2 * count)?;
        let finished_at = finished.device_ptr_mut(&stream).0;
        let streams = StreamCodes {
            summaries: summaries.device_ptr_mut(&stream).0,
            bytes: bytes.device_ptr_mut(&stream).0,
            codebooks_used: frame.slice::<u32>(count)?.device_ptr_mut(&stream).0,
            status: frame.slice::<u32>(count)?.device_ptr_mut(&stream).0,
            codebook_bits: frame.slice::<u64>(count)?.device_ptr_mut(&stream).0,
            finished: finished_at,
            trees: frame.slice::<u32>(count * CANDIDATE_TREES_WORDS)?.device_ptr_mut(&stream).0,
            arrived: finished_at + (count * size_of::<u32>()) as u64,
            // Without a range of symbols, counts are those of all symbols.
            spans: frame.zeros::<StreamInput>(count)?.device_ptr_mut(&stream).0,
        };
        let counts = counts.device_ptr_mut(&stream).0;
        // SAFETY: each codebook is that of a stream of one class, whose counts four words follow. All arrays have an
        // entry for each codebook, and the counters are 0. The caller guarantees the sums.
        unsafe { self.builder.launch(&stream, counts, built, streams) }?;
        Ok(CountedCodebooks { codewords: built.codewords().device_ptr(&stream).0, summaries, bytes })
    }
}

impl CountedCodebooks<'_> {
    /// Returns the length of each serialized codebook in bytes. Waits for the device.
    pub fn lengths(&self, frame: &Frame<'_>) -> Result<Vec<u32>> {
        let summaries = fetch(frame.stream(), &self.summaries, "reading the lengths of codebooks")?;
        Ok(summaries.iter().copied().step_by(2).collect())
    }

    /// Returns the address of a serialized codebook.
    pub fn bytes(&self, frame: &Frame<'_>, number: usize) -> CUdeviceptr {
        self.bytes.device_ptr(frame.stream()).0 + (number * ROOM) as u64
    }
}
