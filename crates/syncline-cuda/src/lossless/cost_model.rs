//! Chooses how chunks are coded: on the host, with the code of `syncline-core`, from samples that the device takes.

use std::ops::Range;
use std::sync::Arc;

use syncline_core::container::Header;
use syncline_core::geometry::Geometry;
use syncline_core::pipeline::{CoderOptions, LzssEstimate, best_lzss, estimate_lzss, lzss_sample, lzss_trials};

use super::tiles::Tiles;
use crate::device::{Frame, Pinned};
use crate::error::{CudaError, Result};
use crate::geometry::Slab;
use crate::workers::{self, Results};

/// The properties that all batches of a stream share.
#[derive(Clone, Copy)]
pub(super) struct Job<'j> {
    pub header: &'j Header,
    pub geometry: &'j Geometry,
    pub options: &'j CoderOptions,
    pub slab: &'j Slab<'j>,
}

/// Samples of chunks in host memory.
pub(super) struct Samples {
    bytes: Arc<Pinned<u8>>,
    /// For each chunk: its number of elements, and the range of the bytes of its sample in `bytes`.
    chunks: Vec<(u64, Range<usize>)>,
}

impl Samples {
    /// Copies samples of all chunks, a small part of their elements, to the host with one transfer. `memory` is kept
    /// between calls.
    pub fn take(
        frame: &mut Frame<'_>,
        tiles: &Tiles,
        job: Job<'_>,
        chunks: Range<u64>,
        memory: &mut Option<Arc<Pinned<u8>>>,
    ) -> Result<Self> {
        let (size, level) = (tiles.element_bytes(), job.options.level);
        let (mut end, mut runs) = (0, Vec::new());
        let chunk = |chunk| {
            let own = lzss_sample(job.geometry, chunk, size as usize, level);
            let bytes = own.iter().map(|run| tiles.elements_in(run) * size).sum::<u64>() as usize;
            end += bytes;
            runs.extend(own);
            (tiles.elements_in(&job.geometry.chunk_range(chunk)), end - bytes..end)
        };
        let chunks: Vec<_> = chunks.map(chunk).collect();
        let stream = frame.stream().clone();
        let sample = tiles.sample(frame, &runs, job.slab)?;
        // The memory is reused only if no thread still works on the samples of the previous call.
        let free = memory.take().and_then(Arc::into_inner).filter(|memory| memory.len() >= sample.len());
        let mut bytes = match free {
            Some(memory) => memory.on(&stream)?,
            None => Pinned::bytes(&stream, sample.len().next_power_of_two())?,
        };
        bytes.read(&sample)?;
        bytes.wait()?;
        let bytes = memory.insert(Arc::new(bytes)).clone();
        Ok(Self { bytes, chunks })
    }

    /// Starts choosing the coding of all chunks on worker threads. Each task is one trial of one chunk, so that the
    /// first chunks, for which the device waits, are complete early.
    pub fn choose(self, job: Job<'_>) -> Choices {
        let (element, options) = (job.header.element_type, *job.options);
        let trials = |(elements, bytes): &(u64, Range<usize>)| {
            lzss_trials(element, &options, (bytes.len() / element.size()) as u64, *elements)
        };
        let estimates: Vec<Vec<_>> = self.chunks.iter().map(|chunk| vec![None; trials(chunk)]).collect();
        let waits = estimates.iter().map(Vec::len).collect();
        let numbered = estimates.iter().enumerate();
        let tasks: Vec<(usize, usize)> =
            numbered.flat_map(|(chunk, own)| (0..own.len()).map(move |trial| (chunk, trial))).collect();
        let of_tasks = tasks.clone();
        let evaluate = move |task: usize| {
            let (chunk, trial) = of_tasks[task];
            let (elements, bytes) = &self.chunks[chunk];
            let all = self.bytes.wait().ok()?;
            estimate_lzss(element, *elements, &options, &all[bytes.clone()], trial)
        };
        Choices { results: workers::run_tasks(tasks.len(), evaluate), tasks, estimates, waits }
    }
}

/// The choices for chunks, as they become available.
pub(super) struct Choices {
    results: Results<Option<LzssEstimate>>,
    /// The chunk and the trial of each task.
    tasks: Vec<(usize, usize)>,
    /// The results of each chunk that are there, by trial.
    estimates: Vec<Vec<Option<LzssEstimate>>>,
    /// Number of results that each chunk waits for.
    waits: Vec<usize>,
}

impl Choices {
    /// Waits for the best estimates of these chunks, which are numbered from the first chunk of all, and returns them.
    pub fn wait(&mut self, chunks: Range<usize>) -> Result<Vec<LzssEstimate>> {
        while self.waits[chunks.clone()].iter().any(|&waits| waits > 0) {
            let (task, estimate) = self.results.next().ok_or_else(missing_choice)?;
            let (chunk, trial) = self.tasks[task];
            self.estimates[chunk][trial] = estimate;
            self.waits[chunk] -= 1;
        }
        chunks.map(|chunk| best_lzss(&self.estimates[chunk]).ok_or_else(missing_choice)).collect()
    }
}

fn missing_choice() -> CudaError {
    CudaError::invalid("the choice of the coding of a chunk is missing")
}
