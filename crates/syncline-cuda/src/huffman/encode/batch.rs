//! The streams of a batch, and what they come out as.

#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DeviceRepr, ValidAsZeroBits};
use syncline_core::huffman::MAX_SYMBOLS;

use super::format::Format;
use crate::device::fetch;
use crate::error::{CudaError, DriverContext, Result};

/// One stream's share of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamSpan {
    /// Its first group, counted from the start of the input.
    pub first_group: u64,
    /// Its groups.
    pub groups: u32,
    /// The symbol whose groups cost nothing.
    pub free_symbol: u16,
}

/// [`StreamSpan`] as the kernels read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Span {
    first_group: u64,
    groups: u32,
    free_symbol: u32,
    /// 0: all symbols are counted. Quantizing says what codes there are.
    symbols: u32,
    unused: u32,
}

impl From<&StreamSpan> for Span {
    fn from(span: &StreamSpan) -> Self {
        let &StreamSpan { first_group, groups, free_symbol } = span;
        Self { first_group, groups, free_symbol: free_symbol.into(), symbols: 0, unused: 0 }
    }
}

// SAFETY: plain numbers without padding, laid out as `Span` in huffman/span.cuh.
unsafe impl DeviceRepr for Span {}
// SAFETY: numbers.
unsafe impl ValidAsZeroBits for Span {}

/// Streams of a short list, at most.
pub(super) const SHORT_LIST: usize = 32;

/// The streams that one call encodes.
#[derive(Debug)]
pub struct Batch {
    pub(super) spans: CudaSlice<Span>,
    /// The same, if the host has made the list and it is short.
    pub(super) short: Option<Vec<StreamSpan>>,
    pub(super) streams: u32,
    /// Groups of the largest stream.
    pub(super) most_groups: u32,
    /// Groups that the input must have.
    pub(super) input_groups: u64,
    /// Symbols of all streams.
    pub(super) symbols: u64,
    /// Bytes that the streams take at most.
    pub(super) max_bytes: u64,
    /// Whether streams may have far fewer groups than the largest could.
    pub(super) uneven: bool,
    pub(super) format: Format,
}

impl Batch {
    /// Uploads the list of streams.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if there is none, or one is too large or its free symbol is not in the alphabet;
    /// [`CudaError::Driver`].
    pub fn new(stream: &Arc<CudaStream>, format: &Format, streams: &[StreamSpan]) -> Result<Self> {
        format.check()?;
        let mut batch = (0, 0_u64, 0_u64);
        for span in streams {
            let end = span.first_group.checked_add(span.groups.into()).filter(|&end| end < 1 << 48);
            let Some(end) = end.filter(|_| u64::from(span.groups) << format.group_log2 <= MAX_SYMBOLS as u64) else {
                return Err(CudaError::invalid(format!(
                    "a stream has at most {MAX_SYMBOLS} symbols, not {} groups",
                    span.groups
                )));
            };
            if u32::from(span.free_symbol) >= format.alphabet {
                return Err(CudaError::invalid(format!("the free symbol {} is not in the alphabet", span.free_symbol)));
            }
            batch = (span.groups.max(batch.0), end.max(batch.1), batch.2 + format.max_stream_bytes(span.groups));
        }
        let count = u32::try_from(streams.len()).ok().filter(|count| (1..=1 << 20).contains(count));
        let count = count.ok_or_else(|| CudaError::invalid("a batch has 1 to 2^20 streams"))?;
        let symbols = streams.iter().map(|span| u64::from(span.groups)).sum::<u64>() << format.group_log2;
        let spans: Vec<Span> = streams.iter().map(Span::from).collect();
        let spans = stream.clone_htod(&spans).doing("uploading the list of streams")?;
        Ok(Self {
            spans,
            short: (streams.len() <= SHORT_LIST).then(|| streams.to_vec()),
            streams: count,
            most_groups: batch.0,
            input_groups: batch.1,
            symbols,
            max_bytes: batch.2,
            uneven: false,
            format: *format,
        })
    }

    /// Room for a list of `streams` streams that the device makes, of up to `most_groups` groups each, in an input of
    /// `input_groups`. Whoever writes [`Self::spans_mut`] sees to it that streams keep to that.
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
            return Err(CudaError::invalid(format!("no batch of {streams} streams of {most_groups} groups")));
        }
        Ok(Self {
            spans: stream.alloc_zeros(streams as usize).doing("allocating the list of streams")?,
            short: None,
            streams,
            most_groups,
            input_groups,
            symbols: each * u64::from(streams),
            max_bytes: format.max_stream_bytes(most_groups) * u64::from(streams),
            uneven: true,
            format: *format,
        })
    }

    /// Lists streams in a batch that was made by [`Self::on_device`]; those behind them have no groups. All symbols are
    /// counted but of the first streams, whose smallest symbols other than 0, and largest, are given.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if there are more, or larger ones, than there is room for.
    pub(crate) fn list(
        &mut self,
        stream: &Arc<CudaStream>,
        streams: &[StreamSpan],
        extremes: &[[u16; 2]],
    ) -> Result<()> {
        let fits =
            |span: &StreamSpan| span.groups <= self.most_groups && u32::from(span.free_symbol) < self.format.alphabet;
        if streams.len() > self.streams as usize || !streams.iter().all(fits) {
            return Err(CudaError::invalid("the batch has no room for these streams"));
        }
        let mut spans: Vec<Span> = streams.iter().map(Span::from).collect();
        for (span, &[smallest, largest]) in spans.iter_mut().zip(extremes) {
            span.symbols = u32::from(smallest) | u32::from(largest) << 16;
        }
        spans.resize(self.streams as usize, Span::from(&StreamSpan { first_group: 0, groups: 0, free_symbol: 0 }));
        self.input_groups = spans.iter().map(|span| span.first_group + u64::from(span.groups)).max().unwrap_or(0);
        stream.memcpy_htod(&spans, &mut self.spans).doing("listing streams")
    }

    /// The list of streams, for a kernel to write.
    pub(crate) fn spans_mut(&mut self) -> &mut CudaSlice<Span> {
        &mut self.spans
    }

    /// Streams in the batch.
    pub fn streams(&self) -> u32 {
        self.streams
    }

    /// Groups of the largest stream.
    pub(crate) fn most_groups(&self) -> u32 {
        self.most_groups
    }

    /// Says that the input has so many groups, for a list that the device makes.
    pub(crate) fn set_input_groups(&mut self, groups: u64) {
        self.input_groups = groups;
    }

    /// Bytes that the streams take together at most.
    pub fn max_bytes(&self) -> u64 {
        self.max_bytes
    }
}

/// How a stream came out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Plan {
    /// Groups.
    pub groups: u32,
    /// Groups with codewords.
    pub live_groups: u32,
    /// Bits of all codewords.
    pub codeword_bits: u32,
    /// Sum of the live symbols.
    pub sum: u32,
    /// Sum of the live symbols times their positions from 1.
    pub weighted: u32,
    /// Codebooks: 1, or 4 if the classes paid.
    pub codebooks: u32,
    /// Bytes of the codebooks.
    pub codebook_bytes: u32,
    /// Where the bitmap of free groups starts in the stream.
    pub bitmap_at: u32,
    /// Where the index starts.
    pub index_at: u32,
    /// Bytes of the index.
    pub index_bytes: u32,
    /// Where the codewords start.
    pub codewords_at: u32,
    /// Bytes of the stream.
    pub stream_bytes: u32,
    /// Longest codeword in bits.
    pub longest: u32,
    /// 1 if there is a bitmap of free groups.
    pub has_free: u32,
    /// The free symbol.
    pub free_symbol: u32,
    /// 0, or bit 0 if a symbol had no codeword, bit 1 if the stream did not fit: it is then not valid.
    pub status: u32,
}

impl Plan {
    /// Whether all of these streams are valid.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if one has a symbol without a codeword, or no room.
    pub(crate) fn check(plans: &[Self]) -> Result<()> {
        match plans.iter().position(|plan| plan.status != 0) {
            None => Ok(()),
            Some(bad) => Err(CudaError::invalid(match plans[bad].status & 1 {
                1 => format!("stream {bad} has symbols that are not in its codebook or not in the alphabet"),
                _ => format!("stream {bad} does not fit into the bytes given"),
            })),
        }
    }
}

// SAFETY: sixteen u32, laid out as `Plan` in huffman/encode/encode.cuh.
unsafe impl DeviceRepr for Plan {}
// SAFETY: numbers.
unsafe impl ValidAsZeroBits for Plan {}

/// The streams of a batch in device memory.
#[derive(Debug)]
pub struct Encoded {
    pub(super) bytes: CudaSlice<u8>,
    pub(super) places: CudaSlice<u64>,
    pub(super) plans: CudaSlice<Plan>,
    /// A counter of the layout's blocks, 0 between launches.
    pub(super) blocks_done: CudaSlice<u32>,
    /// Of each stream the segments that are encoded, and behind them the streams that are laid out, if these are
    /// counted: else 0.
    pub(super) done: CudaSlice<u32>,
    /// Whether a launch that was to set the last of these to 0 again is missing.
    pub(super) counting: bool,
}

impl Encoded {
    /// Room for the streams of `batch`, `bytes` in all: [`Batch::max_bytes`] is enough for any symbols.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn new(stream: &Arc<CudaStream>, batch: &Batch, bytes: u64) -> Result<Self> {
        let allocate = || {
            Ok(Self {
                bytes: stream.alloc_zeros(usize::try_from(bytes).unwrap_or(usize::MAX).max(16))?,
                places: stream.alloc_zeros(batch.streams as usize + 1)?,
                plans: stream.alloc_zeros(batch.streams as usize)?,
                blocks_done: stream.alloc_zeros(1)?,
                done: stream.alloc_zeros(batch.streams as usize + 1)?,
                counting: false,
            })
        };
        allocate().allocating(bytes)
    }

    /// The streams, one after another, each from a multiple of 16; between them bytes are left as they are.
    pub fn bytes(&self) -> &CudaSlice<u8> {
        &self.bytes
    }

    /// As [`Self::bytes`], to write: for tests that poison it.
    pub fn bytes_mut(&mut self) -> &mut CudaSlice<u8> {
        &mut self.bytes
    }

    /// Where each stream starts, and the end of the last rounded up to a multiple of 16.
    pub fn places(&self) -> &CudaSlice<u64> {
        &self.places
    }

    /// As [`Self::places`], to put the streams elsewhere between layout and writing.
    pub fn places_mut(&mut self) -> &mut CudaSlice<u64> {
        &mut self.places
    }

    /// What each stream came out as, in device memory.
    pub fn plans(&self) -> &CudaSlice<Plan> {
        &self.plans
    }

    /// Says that what was counted is 0 again when a kernel that was just launched is done.
    pub(crate) fn counted(&mut self) {
        self.counting = false;
    }

    /// Copies the plans to the host, which waits for the stream.
    ///
    /// # Errors
    /// [`CudaError::Driver`]; [`CudaError::InvalidArgument`] if a stream is not valid: a symbol without a codeword, or
    /// no room.
    pub fn read_plans(&self, stream: &Arc<CudaStream>) -> Result<Vec<Plan>> {
        let plans = fetch(stream, &self.plans, "reading the plans")?;
        Plan::check(&plans)?;
        Ok(plans)
    }

    /// Copies each stream's bytes to the host, which waits for the stream.
    ///
    /// # Errors
    /// As [`Self::read_plans`].
    pub fn read_streams(&self, stream: &Arc<CudaStream>) -> Result<Vec<Vec<u8>>> {
        let plans = self.read_plans(stream)?;
        let places = fetch(stream, &self.places, "reading the places")?;
        let end = places.last().copied().unwrap_or(0).min(self.bytes.len() as u64) as usize;
        let bytes = fetch(stream, &self.bytes.slice(..end), "reading the streams")?;
        let stream_of = |(plan, &place): (&Plan, &u64)| {
            let place = place as usize;
            bytes[place.min(bytes.len())..(place + plan.stream_bytes as usize).min(bytes.len())].to_vec()
        };
        Ok(plans.iter().zip(&places).map(stream_of).collect())
    }
}
