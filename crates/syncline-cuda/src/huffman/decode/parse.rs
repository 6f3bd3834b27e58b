//! Batches described on the device, from the locations of streams. Launches `kernels/huffman/decode/parse.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

use crate::device::Specialization;
use std::marker::PhantomData;

use cudarc::driver::{CudaView, CudaViewMut, DeviceRepr};
use syncline_core::huffman::{IndexKind, MAX_CLASSES, SUBSEQUENCE_BITS, Symbol};

use super::batch::{BatchSizes, BatchView};
use super::structs::{BatchTotals, CodebookDescriptor, DeviceLimits, StreamDescriptor, StreamLocation};
use super::{BITMAP_BLOCK_GROUPS, FORMATS, INDEX_BLOCK, SEQUENCE, constants};
use crate::device::{Device, Frame, Grid};
use crate::device_kernels::{In, Out, declare_kernels, launch};
use crate::error::{CudaError, DriverContext, Result};

declare_kernels! {
    /// The kernel of `kernels/huffman/decode/parse.cu`.
    struct StreamKernels in "huffman/decode/parse.cu", of (symbol_bytes: usize, group_log2: u32) {
        with COMMON = parse_constants(symbol_bytes, group_log2, PARSE_THREADS);
        fn parse_streams(
            input: In<u8>, limits: DeviceLimits, locations: In<StreamLocation>, count: u32,
            streams: Out<StreamDescriptor>, codebooks: Out<CodebookDescriptor>, symbols: Out<u16>, marks: Out<u8>,
            totals: Out<BatchTotals>, status: Out<u32>, done: Out<u32>,
        );
    }
}

/// Threads per block.
pub(crate) const PARSE_THREADS: u32 = 512;
/// Symbols whose marks fit into shared memory; also the largest alphabet of each codebook of a stream with several.
const MARKS: u32 = 1 << 14;
/// Bytes of codebooks that are copied to shared memory.
const STAGED: u32 = 1 << 12;
/// Number of 16-bit symbols.
pub(crate) const ALPHABET: usize = 1 << 16;
/// Number of 8-bit symbols.
pub(crate) const BYTE_ALPHABET: usize = 1 << 8;
/// Constants for kernels that include `huffman/decode/parse.cuh`.
pub(crate) fn parse_constants(symbol_bytes: usize, group_log2: u32, threads: u32) -> Vec<(&'static str, u64)> {
    let mut all = constants(symbol_bytes, group_log2, false);
    all.extend(
        [
            ("THREADS", threads),
            ("MARKS", MARKS),
            ("STAGED", STAGED),
            ("SEQUENCE", SEQUENCE),
            ("BITMAP_BLOCK_GROUPS", BITMAP_BLOCK_GROUPS),
        ]
        .map(|(name, value)| (name, u64::from(value))),
    );
    all
}

/// Maximum number of codebooks of a stream.
pub(crate) const CODEBOOKS: u32 = MAX_CLASSES as u32;

/// Returns the specializations for the compile check.
pub(super) fn specializations() -> Vec<Specialization> {
    FORMATS.map(|(bytes, group_log2)| StreamKernels::specialization(bytes, group_log2)).to_vec()
}

/// Limits of all locations. A stream that exceeds them is treated as damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Number of symbols that the output has room for.
    pub output_symbols: u64,
    /// Number of elements of the array of classes.
    pub classes: u64,
    /// Maximum bytes of a stream.
    pub length: u32,
    /// Maximum groups of a stream.
    pub groups: u32,
}

/// Upper bounds for the streams of a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchBounds {
    pub streams: u32,
    /// Maximum number of codebooks of each stream.
    pub codebooks: u32,
    pub group_log2: u32,
    /// Maximum groups of a stream.
    pub groups: u32,
    /// Maximum bytes of all streams together.
    pub bytes: u64,
    pub output_symbols: u64,
    pub classes: u64,
    pub input_bytes: u64,
}

/// Maximum number of bits per symbol for lookups in pairs, estimated from the bounds (see `PAIRED_SHARE`).
const PAIRED_BITS: u64 = 3;

impl BatchBounds {
    /// Returns the maximum number of sequences.
    fn sequences(&self) -> u64 {
        self.bytes * 8 / u64::from(SUBSEQUENCE_BITS * SEQUENCE) + u64::from(self.streams)
    }

    /// Returns upper bounds of the sums by which launchers size grids and scratch memory.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if they exceed 31 bits.
    pub fn sizes(&self) -> Result<BatchSizes> {
        let narrow = |number: u64| {
            let number = u32::try_from(number).ok().filter(|&number| number < 1 << 31);
            number.ok_or_else(|| CudaError::invalid("the batch is too large: split it"))
        };
        let each = |number: u32| narrow(u64::from(self.streams) * u64::from(number));
        let sequences = narrow(self.sequences())?;
        let symbols = (u64::from(self.streams) * u64::from(self.groups)) << self.group_log2;
        let pairs = self.bytes * 8 <= PAIRED_BITS * symbols;
        Ok(BatchSizes {
            streams: self.streams,
            codebooks: each(self.codebooks)?,
            max_codebooks: self.codebooks,
            group_log2: self.group_log2,
            mapped_groups: each(self.groups)?,
            index_blocks: each(self.groups.div_ceil(INDEX_BLOCK))?,
            sequences,
            subsequences: narrow(u64::from(sequences) * u64::from(SEQUENCE))?,
            bitmap_blocks: each(self.groups.div_ceil(BITMAP_BLOCK_GROUPS))?,
            bits: self.bytes * 8,
            coded_symbols: symbols,
            paired_symbols: if pairs { symbols as f64 } else { 0.0 },
            longest: 0,
            input_bytes: self.input_bytes,
            output_symbols: self.output_symbols,
            classes: self.classes,
            index: Some(IndexKind::Symbol),
        })
    }
}

/// Parses headers and codebooks of streams on the device, and reports errors in status words.
#[derive(Debug, Clone)]
pub struct Parser<S> {
    kernels: StreamKernels,
    group_log2: u32,
    symbol: PhantomData<S>,
}

impl<S: Symbol + DeviceRepr> Parser<S> {
    /// Creates a parser of streams with groups of `2^group_log2` symbols and the symbol index. Streams with several
    /// codebooks must have at most 2^14 symbols in each alphabet.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] unless `group_log2` is 6 or 7; errors of [`Device::kernel`].
    pub fn new(device: &Device, group_log2: u32) -> Result<Self> {
        if !matches!(group_log2, 6 | 7) {
            return Err(CudaError::invalid("groups must have 64 or 128 symbols"));
        }
        let kernels = StreamKernels::load(device, S::BYTES, group_log2)?;
        Ok(Self { kernels, group_log2, symbol: PhantomData })
    }

    /// Parses the streams at `places` on the frame's stream, without waiting for it. Writes a status word for each, to
    /// which decoding adds.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] unless there is one status word per location and the batch is small enough;
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`]. Damaged streams are not an error, see
    /// [`Decoding::status`](super::Decoding::status).
    pub fn launch<'a>(
        &self,
        frame: &mut Frame<'a>,
        input: &CudaView<'_, u8>,
        places: &CudaView<'_, StreamLocation>,
        limits: Limits,
        status: &mut CudaViewMut<'_, u32>,
    ) -> Result<BatchView<'a, S>> {
        if status.len() != places.len() {
            return Err(CudaError::invalid("there must be one status word per stream"));
        }
        let count = u32::try_from(places.len()).map_err(|_| CudaError::invalid("too many streams for one batch"))?;
        let bounds = BatchBounds {
            streams: count,
            codebooks: CODEBOOKS,
            group_log2: self.group_log2,
            groups: limits.groups,
            bytes: u64::from(count) * u64::from(limits.length),
            output_symbols: limits.output_symbols,
            classes: limits.classes,
            // The device detects streams beyond the input.
            input_bytes: 0,
        };
        let sizes = bounds.sizes()?;
        let alphabets = if S::BYTES == 1 { BYTE_ALPHABET * bounds.codebooks as usize } else { ALPHABET };
        let at_least_one = places.len().max(1);
        let mut descriptors = frame.slice::<StreamDescriptor>(at_least_one)?;
        let mut codebooks = frame.slice::<CodebookDescriptor>(at_least_one * bounds.codebooks as usize)?;
        let mut symbols = frame.slice::<u16>(at_least_one * alphabets)?;
        let mut marks = frame.slice::<u8>(at_least_one * alphabets)?;
        let mut totals = frame.zeros::<BatchTotals>(1)?;
        let mut done = frame.zeros::<u32>(1)?;
        if count > 0 {
            let device_limits = DeviceLimits {
                input_bytes: input.len() as u64,
                output_symbols: limits.output_symbols,
                classes: limits.classes,
                length: limits.length,
                groups: limits.groups,
            };
            let stream = frame.stream().clone();
            stream.memset_zeros(status).doing("clearing statuses")?;
            let grid = Grid::new(count, PARSE_THREADS).rows(bounds.codebooks);
            // SAFETY: there are a descriptor and a status word for each stream, a descriptor for each codebook that a
            // stream can have, and symbols and marks for its alphabet. The kernel reads streams within the input, as
            // the limits state, which also bound the contents of descriptors. `done`, sums and status are 0.
            unsafe {
                launch!(self.kernels.parse_streams on &stream, grid; input, device_limits, places, count,
                    &mut descriptors, &mut codebooks, &mut symbols, &mut marks, &mut totals, &mut *status, &mut done)
            }?;
        }
        Ok(BatchView {
            descriptors: descriptors.into_view(),
            codebooks: codebooks.into_view(),
            symbols: symbols.into_view(),
            totals: totals.into_view(),
            sizes,
            keep_status: true,
            symbol: PhantomData,
        })
    }
}
