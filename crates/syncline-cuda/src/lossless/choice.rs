//! How chunks are coded: chosen on the host, by core's code, from samples that the device takes.

use std::ops::Range;
use std::sync::mpsc::Receiver;

use syncline_core::pipeline::{LzssChoice, WeighedLzss, lzss_sample, lzss_ways, weigh_lzss};

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
        let (ways, chunks) = (lzss_ways(element, &options), self.chunks.len());
        let count = ways.len();
        // One way of one chunk is a task: the first chunks are waited for.
        let weighed = workers::spread(chunks * count, move |task| {
            let (elements, runs, bytes) = &self.chunks[task / count];
            let (sample, way) = (&self.bytes[bytes.clone()], ways[task % count]);
            weigh_lzss(element, &geometry, runs, *elements, &options, sample, way)
        });
        Choices { ways: count, weighed, of_chunks: (0..chunks).map(|_| vec![None; count]).collect() }
    }
}

/// What is chosen for chunks, as it becomes known.
pub(super) struct Choices {
    ways: usize,
    weighed: Receiver<(usize, WeighedLzss)>,
    of_chunks: Vec<Vec<Option<WeighedLzss>>>,
}

impl Choices {
    /// The choices for chunks with these numbers among all, waited for.
    pub fn wait(&mut self, chunks: Range<usize>) -> Result<Vec<LzssChoice>> {
        while self.of_chunks[chunks.clone()].iter().any(|ways| ways.contains(&None)) {
            let (task, weighed) =
                self.weighed.recv().map_err(|_| CudaError::invalid("nobody chose how chunks are coded"))?;
            self.of_chunks[task / self.ways][task % self.ways] = Some(weighed);
        }
        // The first of those that are smallest.
        let least =
            |ways: &Vec<Option<WeighedLzss>>| ways.iter().flatten().min_by_key(|weighed| weighed.bytes).copied();
        let chosen = self.of_chunks[chunks].iter().filter_map(least).map(|weighed| weighed.choice);
        Ok(chosen.collect())
    }
}
