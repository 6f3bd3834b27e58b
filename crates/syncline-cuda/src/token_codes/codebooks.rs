//! Codebooks of token streams, made on the host from counts of symbols.

use std::sync::Arc;

use syncline_core::huffman::MAX_CLASSES;
use syncline_core::huffman::codebook::Codebook;
use syncline_core::huffman::lengths::{LengthScratch, code_lengths};
use syncline_core::tokens::{Mode, tokenize};

use super::statistics::StreamChoice;
use super::structs::{ChunkCodebooks, SymbolCounts, TokenCodebook};
use crate::error::{CudaError, Result};
use crate::workers::run_tasks;

/// The codebooks of some streams.
#[derive(Debug, Default)]
pub(crate) struct StreamCodebooks {
    /// Of each stream, one or one for each class.
    pub of_streams: Vec<Vec<(Mode, Codebook)>>,
    pub(super) listed: Vec<ChunkCodebooks>,
    /// The tables that the list refers to.
    pub(super) tables: Vec<u32>,
}

impl SymbolCounts {
    /// Adds how often the symbols of a mode other than *wide* occur.
    fn add_to(&self, mode: Mode, sums: &mut [u32]) {
        let mut add = |counts: &[u32]| sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        match mode {
            Mode::Plain => add(&self.plain),
            Mode::Runs => add(&self.runs),
            Mode::Bins | Mode::Wide => add(&self.bins),
        }
        if mode == Mode::Bins {
            // Codes that mode *plain* has symbols for are counted there only.
            let radius = self.plain.len() as i32 / 2;
            for (code, &count) in (-radius..).zip(&self.plain) {
                tokenize(&[code], mode, |token| sums[token.symbol as usize] += count);
            }
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

impl StreamCodebooks {
    /// Makes the codebooks of streams on the worker threads. `counts` has those of each class of each stream.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if a task panics.
    pub fn new(choices: Vec<StreamChoice>, counts: Vec<SymbolCounts>) -> Result<Self> {
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
            }
            made.listed.push(own);
        }
        Ok(made)
    }
}
