//! Codebooks of token streams from counts of symbols.

#![allow(unsafe_code, reason = "launches kernels")]

use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaViewMut, DevicePtr};
use syncline_core::huffman::MAX_CLASSES;
use syncline_core::huffman::codebook::Codebook;
use syncline_core::huffman::lengths::{LengthScratch, code_lengths};
use syncline_core::tokens::{Mode, STREAM_HEADER_BYTES, StreamCounts, stream_header, write_head};

use super::statistics::{self, StatisticsKernels, StreamChoice};
use super::structs::{ChunkCodebooks, SymbolCounts, TokenCodebook, TokenSizes};
use crate::device::{Device, Frame, Grid, fetch};
use crate::device_kernels::launch;
use crate::error::{CudaError, Result};
use crate::huffman::codebook::{CODE_BITS, COUNTED_SYMBOLS, COUNTS_STRIDE, CountedCodebooks, CountedCodebooksBuilder};
use crate::workers::run_tasks;

/// Codebooks that the host has made.
#[derive(Debug, Default)]
struct HostCodebooks {
    /// Of each stream, one or one for each class.
    of_streams: Vec<Vec<(Mode, Codebook)>>,
    listed: Vec<ChunkCodebooks>,
    /// The tables that the list refers to.
    tables: Vec<u32>,
}

/// Makes codebooks: on the device, except those of mode *wide*, whose alphabet is too large for its kernel.
#[derive(Debug)]
pub(crate) struct TokenCodebooksBuilder {
    statistics: StatisticsKernels,
    builder: CountedCodebooksBuilder,
}

/// The codebooks of some streams.
#[derive(Debug)]
pub(crate) struct TokenCodebooks<'a> {
    pub(super) listed: CudaViewMut<'a, ChunkCodebooks>,
    /// The tables that the list refers to.
    pub(super) tables: CUdeviceptr,
    serialized: Serialized<'a>,
}

/// The bytes of codebooks, as they are written to streams.
#[derive(Debug)]
enum Serialized<'a> {
    Host(Vec<Vec<(Mode, Codebook)>>),
    /// [`MAX_CLASSES`] for each stream, those of its modes first.
    Device {
        modes: Vec<Vec<Mode>>,
        made: CountedCodebooks<'a>,
    },
}

/// A part of a token stream that the device has made: where it is, and where it belongs in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamPart {
    pub from: CUdeviceptr,
    pub at: u64,
    pub bytes: u64,
}

/// The start of a stream.
#[derive(Debug)]
pub(super) struct Head {
    pub bytes: Vec<u8>,
    /// Codebooks that are not among the bytes.
    pub codebooks: Vec<StreamPart>,
    /// Where the next part of the stream may start.
    pub end: u64,
    pub has_classes: bool,
}

impl SymbolCounts {
    /// Adds how often the symbols of a mode other than *wide* occur.
    fn add_to(&self, mode: Mode, sums: &mut [u32]) {
        let mut add = |counts: &[u32]| sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        match mode {
            Mode::Plain => add(&self.plain),
            Mode::Runs => add(&self.runs),
            Mode::Wide => {}
        }
    }
}

/// Returns the codebooks of a stream, whose classes have these counts.
fn codebooks_of(choice: &StreamChoice, counts: &[SymbolCounts]) -> Vec<(Mode, Codebook)> {
    let single = choice.modes.len() == 1;
    let mut scratch = LengthScratch::default();
    let codebook = |(number, &mode): (usize, &Mode)| {
        let mut lengths = Vec::new();
        match &choice.wide_counts[number] {
            Some(sums) => code_lengths(sums, &mut scratch, &mut lengths),
            None => {
                let mut sums = vec![0; mode.alphabet()];
                let own = if single { counts } else { &counts[number..=number] };
                own.iter().for_each(|counts| counts.add_to(mode, &mut sums));
                code_lengths(&sums, &mut scratch, &mut lengths);
            }
        }
        Codebook::new(lengths).map(|code| (mode, code))
    };
    choice.modes.iter().enumerate().filter_map(codebook).collect()
}

impl HostCodebooks {
    /// Makes the codebooks of streams on the worker threads. `counts` has those of each class of each stream.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if a task panics.
    fn new(choices: Vec<StreamChoice>, counts: Vec<SymbolCounts>) -> Result<Self> {
        let streams = choices.len();
        let shared = Arc::new((choices, counts));
        let work = move |stream: usize| {
            let (choices, counts) = &*shared;
            codebooks_of(&choices[stream], &counts[stream * MAX_CLASSES..][..MAX_CLASSES])
        };
        let mut made = Self { of_streams: vec![Vec::new(); streams], ..Self::default() };
        let mut done = 0;
        for (stream, codebooks) in run_tasks(streams, work) {
            made.of_streams[stream] = codebooks;
            done += 1;
        }
        if done != streams || made.of_streams.iter().any(|own| !matches!(own.len(), 1 | MAX_CLASSES)) {
            return Err(CudaError::invalid("codebooks were not made"));
        }
        for codebooks in &made.of_streams {
            let mut own = ChunkCodebooks { count: codebooks.len() as u32, ..ChunkCodebooks::default() };
            for (entry, (mode, code)) in own.of.iter_mut().zip(codebooks) {
                let first = made.tables.len();
                *entry = TokenCodebook { table: first as u32, mode: *mode as u32 };
                // Every symbol has an entry, so that none is read beyond the table.
                made.tables.resize(first + mode.alphabet(), 0);
                code.fill_codewords(&mut made.tables[first..]);
                made.tables[first..].iter_mut().for_each(|entry| *entry = *entry >> 8 | (*entry & 0xFF) << CODE_BITS);
            }
            made.listed.push(own);
        }
        Ok(made)
    }
}

impl TokenCodebooksBuilder {
    /// Loads the kernels.
    pub fn new(device: &Device) -> Result<Self> {
        let statistics = StatisticsKernels::load(device)?;
        Ok(Self { statistics, builder: CountedCodebooksBuilder::new(device)? })
    }

    /// Makes the codebooks of streams from the counts of their classes, which `choices` are of. Waits for the device
    /// if a codebook is of mode *wide*.
    pub fn make<'a>(
        &mut self,
        frame: &mut Frame<'a>,
        choices: Vec<StreamChoice>,
        counts: &CudaViewMut<'_, SymbolCounts>,
    ) -> Result<TokenCodebooks<'a>> {
        let stream = frame.stream().clone();
        if choices.iter().any(|choice| choice.modes.contains(&Mode::Wide)) {
            let counts = fetch(&stream, counts, "reading counts of symbols")?;
            let made = HostCodebooks::new(choices, counts)?;
            let (listed, tables) = (frame.upload(&made.listed)?, frame.upload(&made.tables)?);
            let tables = tables.device_ptr(&stream).0;
            return Ok(TokenCodebooks { listed, tables, serialized: Serialized::Host(made.of_streams) });
        }
        let streams = choices.len();
        if counts.len() < streams * MAX_CLASSES {
            return Err(CudaError::invalid("every class needs counts"));
        }
        let listed: Vec<ChunkCodebooks> = (0..).zip(&choices).map(|(stream, choice)| listed(stream, choice)).collect();
        let listed = frame.upload(&listed)?;
        let mut sums = frame.zeros::<u32>(streams * MAX_CLASSES * COUNTS_STRIDE)?;
        let (counts_view, listed_view) = (counts.as_view(), listed.as_view());
        let grid = Grid::new(MAX_CLASSES as u32, statistics::THREADS).rows(streams as u32);
        // SAFETY: there are counts of each class, a list entry for each stream, and sums for each class, whose alphabet
        // is at most as large.
        unsafe { launch!(self.statistics.token_codes_sum on &stream, grid; &counts_view, &listed_view, &mut sums) }?;
        // A chunk has at most 2^22 codes, and less than twice as many tokens.
        let made = self.builder.build(frame, &mut sums)?;
        let modes = choices.into_iter().map(|choice| choice.modes).collect();
        Ok(TokenCodebooks { listed, tables: made.codewords, serialized: Serialized::Device { modes, made } })
    }
}

/// Returns the codebooks of a stream whose tables are those of the device.
fn listed(stream: usize, choice: &StreamChoice) -> ChunkCodebooks {
    let mut own = ChunkCodebooks { count: choice.modes.len() as u32, ..ChunkCodebooks::default() };
    for (number, (entry, &mode)) in own.of.iter_mut().zip(&choice.modes).enumerate() {
        let table = (stream * MAX_CLASSES + number) * COUNTED_SYMBOLS;
        *entry = TokenCodebook { table: table as u32, mode: mode as u32 };
    }
    own
}

const _: () = assert!(Mode::Plain.alphabet() <= COUNTED_SYMBOLS && Mode::Runs.alphabet() <= COUNTED_SYMBOLS);

impl TokenCodebooks<'_> {
    /// Returns the number of streams.
    pub fn streams(&self) -> usize {
        self.listed.len()
    }

    /// Returns the start of each stream: its header, and codebooks or where the device has these. Waits for the device.
    pub(super) fn heads(&self, frame: &Frame<'_>, sizes: &[TokenSizes]) -> Result<Vec<Head>> {
        let counts = |sizes: &TokenSizes| StreamCounts {
            groups: sizes.groups,
            live_groups: sizes.live_groups,
            bits: sizes.bits,
            index_bytes: Some(4 * sizes.index_words),
        };
        match &self.serialized {
            Serialized::Host(of_streams) => Ok(sizes
                .iter()
                .zip(of_streams)
                .map(|(sizes, codebooks)| {
                    let mut bytes = Vec::new();
                    write_head(counts(sizes), codebooks, &mut bytes);
                    Head { end: bytes.len() as u64, bytes, codebooks: Vec::new(), has_classes: codebooks.len() > 1 }
                })
                .collect()),
            Serialized::Device { modes, made } => {
                let lengths = made.lengths(frame)?;
                let head = |(stream, (sizes, modes)): (usize, (&TokenSizes, &Vec<Mode>))| {
                    let mut at = STREAM_HEADER_BYTES as u64;
                    let mut part = |number: usize| {
                        let number = stream * MAX_CLASSES + number;
                        let part = StreamPart { from: made.bytes(frame, number), at, bytes: lengths[number].into() };
                        at += part.bytes;
                        part
                    };
                    let codebooks: Vec<StreamPart> = (0..modes.len()).map(&mut part).collect();
                    let bytes = stream_header(counts(sizes), modes, (at - STREAM_HEADER_BYTES as u64) as u32).to_vec();
                    Head { bytes, codebooks, end: at.next_multiple_of(4), has_classes: modes.len() > 1 }
                };
                Ok(sizes.iter().zip(modes).enumerate().map(head).collect())
            }
        }
    }
}
