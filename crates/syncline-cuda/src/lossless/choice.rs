//! How chunks are coded: chosen on the host, by core's code, from samples that the device takes.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;

use syncline_core::pipeline::{LzssChoice, choose_lzss, lzss_sample};

use super::compress::Job;
use super::tiles::Tiles;
use crate::device::Frame;
use crate::error::{DriverContext, Result};

/// The samples of chunks, on the host.
pub(super) struct Samples {
    bytes: Vec<u8>,
    /// Of each chunk its number of elements, its runs of tiles, and where their bytes are.
    pub chunks: Vec<(u64, Vec<Range<u64>>, Range<usize>)>,
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

    /// Chooses how chunks are coded, each time the `next` that nobody has chosen for; `made` takes what was chosen for which. Ends early if nobody listens any more.
    pub fn choose(&self, job: Job<'_>, next: &AtomicUsize, made: &Sender<(usize, LzssChoice)>) {
        let element = job.header.element_type;
        loop {
            let chunk = next.fetch_add(1, Ordering::Relaxed);
            let Some((elements, runs, bytes)) = self.chunks.get(chunk) else { return };
            let sample = &self.bytes[bytes.clone()];
            let choice = choose_lzss(element, job.geometry, runs, *elements, job.options, sample);
            if made.send((chunk, choice)).is_err() {
                return;
            }
        }
    }
}
