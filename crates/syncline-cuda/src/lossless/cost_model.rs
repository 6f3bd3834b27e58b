//! Chooses how chunks are coded: on the host, with the code of `syncline-core`, from samples that the device takes.

use std::ops::Range;
use std::sync::Arc;

use syncline_core::array::ElementType;
use syncline_core::container::Header;
use syncline_core::geometry::Geometry;
use syncline_core::pipeline::{
    CoderOptions, LzssChoice, LzssEstimate, LzssTrial, best_lzss, estimate_lzss, lzss_sample, lzss_trials,
};

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
    /// For each chunk: its number of elements, its sampled runs of tiles, and the range of their bytes in `bytes`.
    chunks: Vec<(u64, Vec<Range<u64>>, Range<usize>)>,
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
        let mut end = 0;
        let chunk = |chunk| {
            let runs = lzss_sample(job.geometry, chunk, size as usize, level);
            let bytes = runs.iter().map(|run| tiles.elements_in(run) * size).sum::<u64>() as usize;
            end += bytes;
            (tiles.elements_in(&job.geometry.chunk_range(chunk)), runs, end - bytes..end)
        };
        let chunks: Vec<_> = chunks.map(chunk).collect();
        let runs: Vec<Range<u64>> = chunks.iter().flat_map(|(_, runs, _)| runs.iter().cloned()).collect();
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

    /// Starts choosing the coding of all chunks on worker threads.
    pub fn choose(self, job: Job<'_>) -> Choices {
        let (element, options) = (job.header.element_type, *job.options);
        let chunk_trials = |(elements, _, bytes): &(u64, Vec<Range<u64>>, Range<usize>)| {
            let sampled = (bytes.len() / element.size()) as u64;
            let trials = lzss_trials(element, &options, sampled, *elements);
            ChunkTrials { sampled, elements: *elements, waits: 0, estimates: vec![None; trials.len()], trials }
        };
        let chunks: Vec<ChunkTrials> = self.chunks.iter().map(chunk_trials).collect();
        let evaluator = TrialEvaluator { element, geometry: job.geometry.clone(), options, samples: Arc::new(self) };
        let mut choices = Choices { evaluator, chunks, first: None };
        choices.first = Some(choices.begin(|_| true, |trial| !trial.is_fallback));
        choices
    }
}

/// State of the trials of a chunk.
struct ChunkTrials {
    sampled: u64,
    elements: u64,
    /// Number of trials whose results are missing.
    waits: usize,
    trials: Vec<LzssTrial>,
    estimates: Vec<Option<LzssEstimate>>,
}

/// The inputs that a worker thread needs to evaluate a trial.
#[derive(Clone)]
struct TrialEvaluator {
    element: ElementType,
    geometry: Geometry,
    options: CoderOptions,
    samples: Arc<Samples>,
}

impl TrialEvaluator {
    fn evaluate(&self, chunk: usize, trial: LzssTrial) -> Option<LzssEstimate> {
        let (elements, runs, bytes) = &self.samples.chunks[chunk];
        let all = self.samples.bytes.wait().ok()?;
        estimate_lzss(self.element, &self.geometry, runs, *elements, &self.options, &all[bytes.clone()], trial)
    }
}

/// Trials that worker threads evaluate: the chunk and the trial number of each task.
struct Trials {
    tasks: Vec<(usize, usize)>,
    estimates: Results<Option<LzssEstimate>>,
}

/// The choices for chunks, as they become available.
pub(super) struct Choices {
    evaluator: TrialEvaluator,
    chunks: Vec<ChunkTrials>,
    /// The trials of the first round: all that are not skipped at first.
    first: Option<Trials>,
}

impl Choices {
    /// Starts the selected trials of the selected chunks. Each task is one trial of one chunk, so that the first
    /// chunks, for which the device waits, are complete early.
    fn begin(&mut self, is_wanted: impl Fn(usize) -> bool, is_made: impl Fn(&LzssTrial) -> bool) -> Trials {
        let mut tasks = Vec::new();
        for (chunk, chunk_trials) in self.chunks.iter_mut().enumerate().filter(|(chunk, _)| is_wanted(*chunk)) {
            let made = chunk_trials.trials.iter().enumerate().filter(|(_, trial)| is_made(trial));
            tasks.extend(made.map(|(number, trial)| (chunk, number, *trial)));
            chunk_trials.waits += chunk_trials.trials.iter().filter(|trial| is_made(trial)).count();
        }
        let (count, numbers) = (tasks.len(), tasks.iter().map(|&(chunk, number, _)| (chunk, number)).collect());
        let evaluator = self.evaluator.clone();
        let evaluate = move |task: usize| {
            let (chunk, _, trial) = tasks[task];
            evaluator.evaluate(chunk, trial)
        };
        Trials { estimates: workers::run_tasks(count, evaluate), tasks: numbers }
    }

    /// Waits for the choices for these chunks, which are numbered from the first chunk of all, and returns them.
    pub fn wait(&mut self, chunks: Range<usize>) -> Result<Vec<LzssChoice>> {
        if let Some(mut first) = self.first.take() {
            self.receive(&mut first, chunks.clone())?;
            self.first = Some(first);
        }
        let open: Vec<usize> = chunks.clone().filter(|&chunk| self.best(chunk).is_none()).collect();
        if !open.is_empty() {
            let mut spare = self.begin(|chunk| open.contains(&chunk), |trial| trial.is_fallback);
            self.receive(&mut spare, chunks.clone())?;
        }
        chunks.map(|chunk| self.best(chunk).ok_or_else(missing_choice)).collect()
    }

    fn best(&self, chunk: usize) -> Option<LzssChoice> {
        let ChunkTrials { sampled, elements, estimates, .. } = &self.chunks[chunk];
        best_lzss(self.evaluator.element, &self.evaluator.options, *sampled, *elements, estimates)
    }

    /// Receives results until those of the given chunks are complete.
    fn receive(&mut self, trials: &mut Trials, chunks: Range<usize>) -> Result<()> {
        while self.chunks[chunks.clone()].iter().any(|chunk| chunk.waits > 0) {
            let (task, estimate) = trials.estimates.next().ok_or_else(missing_choice)?;
            let (chunk, number) = trials.tasks[task];
            self.chunks[chunk].estimates[number] = estimate;
            self.chunks[chunk].waits -= 1;
        }
        Ok(())
    }
}

fn missing_choice() -> CudaError {
    CudaError::invalid("the choice of the coding of a chunk is missing")
}
