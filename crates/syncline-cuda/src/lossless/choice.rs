//! How chunks are coded: chosen on the host, by core's code, from samples that the device takes.

use std::ops::Range;
use std::sync::mpsc::Receiver;

use syncline_core::array::ElementType;
use syncline_core::pipeline::{
    LosslessOptions, LzssChoice, WeighedLzss, best_lzss, lzss_sample, lzss_trials, weigh_lzss,
};

use super::compress::Job;
use super::tiles::Tiles;
use crate::device::Frame;
use crate::error::{CudaError, DriverContext, Result};
use crate::workers;

/// The samples of chunks, on the host.
pub(super) struct Samples {
    bytes: Vec<u8>,
    /// Of each chunk its number of elements, its runs of tiles, and where their bytes are.
    chunks: Vec<(u64, Vec<Range<u64>>, Range<usize>)>,
}

impl Samples {
    /// Takes the samples of chunks, all at once: a small part of what the chunks have.
    pub fn take(frame: &mut Frame<'_>, tiles: &Tiles, job: Job<'_>, chunks: Range<u64>) -> Result<Self> {
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
        let bytes = stream.clone_dtoh(&sample).doing("reading samples")?;
        stream.synchronize().doing("reading samples")?;
        Ok(Self { bytes, chunks })
    }

    /// Begins to choose for all chunks, beside the caller.
    pub fn choose(self, job: Job<'_>) -> Choices {
        let (element, geometry, options) = (job.header.element_type, job.geometry.clone(), *job.options);
        let (mut tasks, mut chunks) = (Vec::new(), Vec::new());
        for (chunk, (elements, _, bytes)) in self.chunks.iter().enumerate() {
            let sampled = (bytes.len() / element.size()) as u64;
            let trials = lzss_trials(element, &options, sampled, *elements);
            let weighed = vec![None; trials.len()];
            chunks.push(Weighing { sampled, elements: *elements, first: tasks.len(), waits: trials.len(), weighed });
            tasks.extend(trials.into_iter().map(|trial| (chunk, trial)));
        }
        // One trial of one chunk is a task: the first chunks are waited for.
        let of_tasks = tasks.iter().map(|(chunk, _)| *chunk).collect();
        let weighed = workers::spread(tasks.len(), move |task| {
            let (chunk, trial) = tasks[task];
            let (elements, runs, bytes) = &self.chunks[chunk];
            weigh_lzss(element, &geometry, runs, *elements, &options, &self.bytes[bytes.clone()], trial)
        });
        Choices { element, options, weighed, of_tasks, chunks }
    }
}

/// What is known of a chunk's trials so far.
struct Weighing {
    sampled: u64,
    elements: u64,
    /// The task of the first.
    first: usize,
    /// How many are waited for.
    waits: usize,
    weighed: Vec<Option<WeighedLzss>>,
}

/// What is chosen for chunks, as it becomes known.
pub(super) struct Choices {
    element: ElementType,
    options: LosslessOptions,
    weighed: Receiver<(usize, Option<WeighedLzss>)>,
    /// The chunk of each task.
    of_tasks: Vec<usize>,
    chunks: Vec<Weighing>,
}

impl Choices {
    /// The choices for chunks with these numbers among all, waited for.
    pub fn wait(&mut self, chunks: Range<usize>) -> Result<Vec<LzssChoice>> {
        let nobody = || CudaError::invalid("nobody chose how chunks are coded");
        while self.chunks[chunks.clone()].iter().any(|chunk| chunk.waits > 0) {
            let (task, weighed) = self.weighed.recv().map_err(|_| nobody())?;
            let chunk = &mut self.chunks[self.of_tasks[task]];
            chunk.weighed[task - chunk.first] = weighed;
            chunk.waits -= 1;
        }
        let best = |Weighing { sampled, elements, weighed, .. }: &Weighing| {
            best_lzss(self.element, &self.options, *sampled, *elements, weighed).ok_or_else(nobody)
        };
        self.chunks[chunks].iter().map(best).collect()
    }
}
