//! The streams of a batch, and the results of encoding them.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream};
use syncline_core::huffman::MAX_SYMBOLS;

use super::format::Format;
use super::structs::{StreamInput, StreamPlan};
use crate::device::fetch;
use crate::error::{CudaError, DriverContext, Result};

/// The part of the input that makes up one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamRange {
    /// Index of its first group in the input.
    pub first_group: u64,
    /// Number of its groups.
    pub groups: u32,
    /// The symbol of zero-bit groups: groups that consist of it take no codewords.
    pub free_symbol: u16,
}

impl From<&StreamRange> for StreamInput {
    fn from(range: &StreamRange) -> Self {
        let &StreamRange { first_group, groups, free_symbol } = range;
        Self { first_group, groups, free_symbol: free_symbol.into() }
    }
}

/// The streams that one call encodes.
#[derive(Debug)]
pub struct Batch {
    pub(super) inputs: CudaSlice<StreamInput>,
    pub(super) streams: u32,
    /// Groups of the largest stream.
    pub(super) most_groups: u32,
    /// Minimum number of groups of the input.
    pub(super) input_groups: u64,
    /// Symbols of all streams.
    pub(super) symbols: u64,
    /// Maximum number of bytes of all streams.
    pub(super) max_bytes: u64,
    /// Whether streams may be much shorter than the largest.
    pub(super) uneven: bool,
    pub(super) format: Format,
}

impl Batch {
    /// Uploads the list of streams.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] unless there are 1 to 2^20 streams, each with at most [`MAX_SYMBOLS`] symbols and
    /// a free symbol of the alphabet; [`CudaError::Driver`].
    pub fn new(stream: &Arc<CudaStream>, format: &Format, streams: &[StreamRange]) -> Result<Self> {
        format.check()?;
        let mut batch = (0, 0_u64, 0_u64);
        for range in streams {
            let end = range.first_group.checked_add(range.groups.into()).filter(|&end| end < 1 << 48);
            let Some(end) = end.filter(|_| u64::from(range.groups) << format.group_log2 <= MAX_SYMBOLS as u64) else {
                return Err(CudaError::invalid(format!(
                    "a stream must have at most {MAX_SYMBOLS} symbols, not {} groups",
                    range.groups
                )));
            };
            if u32::from(range.free_symbol) >= format.alphabet {
                return Err(CudaError::invalid(format!(
                    "the free symbol {} is not in the alphabet",
                    range.free_symbol
                )));
            }
            batch = (range.groups.max(batch.0), end.max(batch.1), batch.2 + format.max_stream_bytes(range.groups));
        }
        let count = u32::try_from(streams.len()).ok().filter(|count| (1..=1 << 20).contains(count));
        let count = count.ok_or_else(|| CudaError::invalid("a batch must have 1 to 2^20 streams"))?;
        let symbols = streams.iter().map(|range| u64::from(range.groups)).sum::<u64>() << format.group_log2;
        let inputs: Vec<StreamInput> = streams.iter().map(StreamInput::from).collect();
        let inputs = stream.clone_htod(&inputs).doing("uploading the list of streams")?;
        Ok(Self {
            inputs,
            streams: count,
            most_groups: batch.0,
            input_groups: batch.1,
            symbols,
            max_bytes: batch.2,
            uneven: false,
            format: *format,
        })
    }

    /// Allocates a list of `streams` streams of up to `most_groups` groups each, in an input of `input_groups` groups,
    /// for [`Self::list`].
    pub(crate) fn on_device(
        stream: &Arc<CudaStream>,
        format: &Format,
        streams: u32,
        most_groups: u32,
        input_groups: u64,
    ) -> Result<Self> {
        format.check()?;
        let each = u64::from(most_groups) << format.group_log2;
        if !(1..=1 << 20).contains(&streams) || each > MAX_SYMBOLS as u64 || input_groups >= 1 << 48 {
            return Err(CudaError::invalid(format!("a batch cannot have {streams} streams of {most_groups} groups")));
        }
        Ok(Self {
            inputs: stream.alloc_zeros(streams as usize).doing("allocating the list of streams")?,
            streams,
            most_groups,
            input_groups,
            symbols: each * u64::from(streams),
            max_bytes: format.max_stream_bytes(most_groups) * u64::from(streams),
            uneven: true,
            format: *format,
        })
    }

    /// Replaces the list of a batch from [`Self::on_device`]; the remaining streams are empty.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if there are more or larger streams than were allocated.
    pub(crate) fn list(&mut self, stream: &Arc<CudaStream>, streams: &[StreamRange]) -> Result<()> {
        let fits = |range: &StreamRange| {
            range.groups <= self.most_groups && u32::from(range.free_symbol) < self.format.alphabet
        };
        if streams.len() > self.streams as usize || !streams.iter().all(fits) {
            return Err(CudaError::invalid("the batch was allocated for fewer or smaller streams"));
        }
        let mut inputs: Vec<StreamInput> = streams.iter().map(StreamInput::from).collect();
        inputs.resize(
            self.streams as usize,
            StreamInput::from(&StreamRange { first_group: 0, groups: 0, free_symbol: 0 }),
        );
        self.input_groups = inputs.iter().map(|input| input.first_group + u64::from(input.groups)).max().unwrap_or(0);
        stream.memcpy_htod(&inputs, &mut self.inputs).doing("listing streams")
    }

    /// Returns the number of streams.
    pub fn streams(&self) -> u32 {
        self.streams
    }

    /// Returns the groups of the largest stream.
    pub(crate) fn most_groups(&self) -> u32 {
        self.most_groups
    }

    /// Returns the maximum number of bytes of all streams together.
    pub fn max_bytes(&self) -> u64 {
        self.max_bytes
    }
}

impl StreamPlan {
    /// Checks that all streams are valid.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if a stream has a symbol without a codeword, or does not fit.
    pub(crate) fn check(plans: &[Self]) -> Result<()> {
        match plans.iter().position(|plan| plan.status != 0) {
            None => Ok(()),
            Some(bad) => Err(CudaError::invalid(match plans[bad].status & 1 {
                1 => format!("stream {bad} has symbols that are not in its codebook or not in the alphabet"),
                _ => format!("stream {bad} does not fit into the given bytes"),
            })),
        }
    }
}

/// The encoded streams of a batch in device memory.
#[derive(Debug)]
pub struct Encoded {
    pub(super) bytes: CudaSlice<u8>,
    pub(super) offsets: CudaSlice<u64>,
    pub(super) plans: CudaSlice<StreamPlan>,
    /// Counter of the layout kernel's blocks; 0 between launches.
    pub(super) blocks_done: CudaSlice<u32>,
}

impl Encoded {
    /// Allocates the results of `batch` and `bytes` bytes for the streams. [`Batch::max_bytes`] suffices for any
    /// symbols.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn new(stream: &Arc<CudaStream>, batch: &Batch, bytes: u64) -> Result<Self> {
        let allocate = || {
            Ok(Self {
                bytes: stream.alloc_zeros(usize::try_from(bytes).unwrap_or(usize::MAX).max(16))?,
                offsets: stream.alloc_zeros(batch.streams as usize + 1)?,
                plans: stream.alloc_zeros(batch.streams as usize)?,
                blocks_done: stream.alloc_zeros(1)?,
            })
        };
        allocate().allocating(bytes)
    }

    /// Returns the bytes of the streams. Bytes between streams are not written.
    pub fn bytes(&self) -> &CudaSlice<u8> {
        &self.bytes
    }

    /// Returns the bytes of the streams for writing, so that tests can fill them before a launch.
    pub fn bytes_mut(&mut self) -> &mut CudaSlice<u8> {
        &mut self.bytes
    }

    /// Returns the offset of each stream in bytes, a multiple of 16, and the end of the last stream rounded up to a
    /// multiple of 16.
    pub fn offsets(&self) -> &CudaSlice<u64> {
        &self.offsets
    }

    /// Returns the offsets for writing, to move the streams between layout and writing.
    pub fn offsets_mut(&mut self) -> &mut CudaSlice<u64> {
        &mut self.offsets
    }

    /// Returns the plan of each stream in device memory.
    pub fn plans(&self) -> &CudaSlice<StreamPlan> {
        &self.plans
    }

    /// Copies the plans to the host, which synchronizes with the stream.
    ///
    /// # Errors
    /// [`CudaError::Driver`]; [`CudaError::InvalidArgument`] if a stream has a symbol without a codeword, or does not
    /// fit.
    pub fn read_plans(&self, stream: &Arc<CudaStream>) -> Result<Vec<StreamPlan>> {
        let plans = fetch(stream, &self.plans, "reading the plans")?;
        StreamPlan::check(&plans)?;
        Ok(plans)
    }

    /// Copies the bytes of each stream to the host, which synchronizes with the stream.
    ///
    /// # Errors
    /// The errors of [`Self::read_plans`].
    pub fn read_streams(&self, stream: &Arc<CudaStream>) -> Result<Vec<Vec<u8>>> {
        let plans = self.read_plans(stream)?;
        let offsets = fetch(stream, &self.offsets, "reading the offsets")?;
        let end = offsets.last().copied().unwrap_or(0).min(self.bytes.len() as u64) as usize;
        let bytes = fetch(stream, &self.bytes.slice(..end), "reading the streams")?;
        let stream_of = |(plan, &offset): (&StreamPlan, &u64)| {
            let offset = offset as usize;
            bytes[offset.min(bytes.len())..(offset + plan.stream_bytes as usize).min(bytes.len())].to_vec()
        };
        Ok(plans.iter().zip(&offsets).map(stream_of).collect())
    }
}
