//! How long the work of this process took, for estimates of the next.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::{
    COMPRESS, COMPRESS_LOSSLESS, DECOMPRESS, DECOMPRESS_LOSSLESS, Execution, GPU_START, MORE_EFFORT, Rates, Work,
};
use syncline_core::pipeline::Effort;

/// Bytes of elements from which the rate of a CPU is measured: less takes too little time.
const LEAST_BYTES: u64 = 1 << 20;

/// What was measured of one kind of work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Measured {
    /// Seconds on an open GPU beside those that its rate stands for, the least so far.
    gpu_call: Option<f64>,
    /// Bytes per second of each thread of the CPU, the most so far.
    thread: Option<f64>,
}

/// Kinds of work that are measured apart.
const KINDS: usize = 5;

/// What was measured of all kinds of work, and whether a GPU has worked before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measurements {
    kinds: [Measured; KINDS],
    has_started: bool,
}

static MEASUREMENTS: Mutex<Measurements> =
    Mutex::new(Measurements { kinds: [Measured { gpu_call: None, thread: None }; KINDS], has_started: false });

fn kind(work: Work) -> usize {
    match work {
        Work::Compress(Effort::Fast) => 0,
        Work::Compress(_) => 1,
        Work::Decompress => 2,
        Work::CompressLossless => 3,
        Work::DecompressLossless => 4,
    }
}

/// Returns the rates that are expected before anything was measured.
fn expected(work: Work) -> Rates {
    match work {
        Work::Compress(Effort::Fast) => COMPRESS,
        Work::Compress(_) => Rates { thread: COMPRESS.thread * MORE_EFFORT, ..COMPRESS },
        Work::Decompress => DECOMPRESS,
        Work::CompressLossless => COMPRESS_LOSSLESS,
        Work::DecompressLossless => DECOMPRESS_LOSSLESS,
    }
}

impl Measurements {
    /// Returns what was measured so far.
    pub(super) fn so_far() -> Self {
        *MEASUREMENTS.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the estimated seconds for `bytes` bytes of elements on this number of threads, and on a GPU. The latter
    /// include its start, unless it has worked before.
    pub(super) fn estimates(&self, work: Work, bytes: u64, threads: usize) -> (f64, f64) {
        let (rates, measured) = (expected(work), self.kinds[kind(work)]);
        let thread = measured.thread.unwrap_or(rates.thread);
        let gpu_call = if self.has_started { measured.gpu_call.unwrap_or(GPU_START) } else { GPU_START };
        let bytes = bytes as f64;
        (bytes / (thread * threads as f64).min(rates.cpu.max(thread)), gpu_call + bytes / rates.gpu)
    }

    fn add(&mut self, work: Work, bytes: u64, seconds: f64, threads: Option<usize>) {
        let measured = &mut self.kinds[kind(work)];
        match threads {
            None if self.has_started => {
                let call = (seconds - bytes as f64 / expected(work).gpu).max(0.0);
                measured.gpu_call = Some(measured.gpu_call.map_or(call, |least| least.min(call)));
            }
            None => self.has_started = true,
            Some(threads) if bytes >= LEAST_BYTES && seconds > 0.0 => {
                let thread = bytes as f64 / seconds / threads.max(1) as f64;
                measured.thread = Some(measured.thread.map_or(thread, |most| most.max(thread)));
            }
            Some(_) => {}
        }
    }
}

/// Measures a piece of work.
pub(crate) struct Stopwatch {
    work: Work,
    bytes: u64,
    start: Instant,
}

impl Stopwatch {
    /// Starts to measure work on `bytes` bytes of elements.
    pub(crate) fn start(work: Work, bytes: u64) -> Self {
        Self { work, bytes, start: Instant::now() }
    }

    /// Ends it, when the work has succeeded. The CPU would use `threads` threads.
    pub(crate) fn end(self, execution: &Execution, threads: usize) {
        let seconds = self.start.elapsed().as_secs_f64();
        let threads = (!execution.on_gpu()).then_some(threads);
        let mut all = MEASUREMENTS.lock().unwrap_or_else(PoisonError::into_inner);
        all.add(self.work, self.bytes, seconds, threads);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_has_to_make_up_for_its_start_only_once() {
        let work = Work::Compress(Effort::Balanced);
        let mut all = Measurements::default();
        let is_faster = |all: &Measurements, bytes| {
            let (cpu, gpu) = all.estimates(work, bytes, 4);
            gpu < cpu
        };
        assert!(!is_faster(&all, 64 << 20) && is_faster(&all, 4 << 30));
        // The first call includes the start, so that it says nothing about the next.
        all.add(work, 1 << 20, 0.5, None);
        assert!(!is_faster(&all, 64 << 20));
        all.add(work, 1 << 20, 1e-3, None);
        all.add(work, 1 << 20, 5e-3, None);
        assert!(is_faster(&all, 64 << 20) && !is_faster(&all, 1 << 20));
        // Other work has other times.
        assert_eq!(all.estimates(Work::Decompress, 0, 1).1, GPU_START);
    }

    #[test]
    fn threads_are_as_fast_as_they_were() {
        let work = Work::Decompress;
        let mut all = Measurements::default();
        let (expected, _) = all.estimates(work, 1 << 30, 1);
        all.add(work, 100 << 20, 0.01, Some(1));
        assert!(all.estimates(work, 1 << 30, 1).0 < expected);
        // Small arrays are not measured.
        let before = all.estimates(work, 1 << 30, 1);
        all.add(work, 1000, 1e-9, Some(1));
        assert_eq!(all.estimates(work, 1 << 30, 1), before);
    }
}
