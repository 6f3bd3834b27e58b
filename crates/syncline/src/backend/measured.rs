//! How long the work of this process took, for estimates of the next.

use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Instant;

use super::{Execution, GPU_CALL, GPU_START, Rates, Work};

/// Bytes of elements from which the rate of a CPU is measured: less takes too little time.
const LEAST_BYTES: u64 = 1 << 20;
/// Bytes of elements from which the rate of a GPU is measured: with less, most of the time is not that of the bytes.
const LEAST_BYTES_OF_GPU: u64 = 64 << 20;

/// What was measured of one kind of work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Measured {
    /// Whether a GPU has done such work before.
    has_started: bool,
    /// Seconds on a GPU beside those that its rate stands for, the least so far.
    gpu_call: Option<f64>,
    /// Bytes per second of a GPU, the most so far.
    gpu: Option<f64>,
    /// Bytes per second of each thread of the CPU, the most so far.
    thread: Option<f64>,
    /// Seconds that the CPU has taken longer than a GPU would have, its start left out.
    lost: f64,
}

/// What was measured of all kinds of work.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measurements([Measured; Work::KINDS]);

static MEASUREMENTS: LazyLock<Mutex<Measurements>> = LazyLock::new(Mutex::default);

impl Measured {
    /// Returns the estimated seconds on a GPU that has started.
    fn on_gpu(&self, rates: &Rates, bytes: u64) -> f64 {
        self.gpu_call.unwrap_or(GPU_CALL) + bytes as f64 / self.gpu.unwrap_or(rates.gpu)
    }

    /// Returns the seconds of a GPU's start that still count: what the CPU has lost is taken off, so that a process
    /// with many small calls starts a GPU in the end. Whatever calls follow, this costs at most twice the best choice.
    fn start(&self) -> f64 {
        if self.has_started { 0.0 } else { (GPU_START - self.lost).max(0.0) }
    }
}

impl Measurements {
    /// Returns what was measured so far.
    pub(super) fn so_far() -> Self {
        *MEASUREMENTS.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the estimated seconds for `bytes` bytes of elements on this number of threads, and on a GPU. The latter
    /// include its start, unless it has done such work before, or the CPU has lost as much by now.
    pub(super) fn estimates(&self, work: Work, bytes: u64, threads: usize) -> (f64, f64) {
        let (rates, measured) = (work.rates(), self.0[work.kind()]);
        let thread = measured.thread.unwrap_or(rates.thread);
        let cpu = bytes as f64 / (thread * threads as f64).min(rates.cpu.max(thread));
        (cpu, measured.start() + measured.on_gpu(&rates, bytes))
    }

    fn add(&mut self, work: Work, bytes: u64, seconds: f64, threads: Option<usize>) {
        let (rates, measured) = (work.rates(), &mut self.0[work.kind()]);
        let rate = bytes as f64 / seconds;
        match threads {
            None if measured.has_started => {
                if bytes >= LEAST_BYTES_OF_GPU && seconds > 0.0 {
                    measured.gpu = Some(measured.gpu.map_or(rate, |most| most.max(rate)));
                }
                let call = (seconds - bytes as f64 / measured.gpu.unwrap_or(rates.gpu)).max(0.0);
                measured.gpu_call = Some(measured.gpu_call.map_or(call, |least| least.min(call)));
            }
            None => measured.has_started = true,
            Some(threads) => {
                measured.lost += (seconds - measured.on_gpu(&rates, bytes)).max(0.0);
                if bytes >= LEAST_BYTES && seconds > 0.0 {
                    let thread = rate / threads.max(1) as f64;
                    measured.thread = Some(measured.thread.map_or(thread, |most| most.max(thread)));
                }
            }
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
    use crate::backend::Target;
    use syncline_core::pipeline::Effort;

    fn is_faster_on_a_gpu(all: &Measurements, work: Work, bytes: u64) -> bool {
        let (cpu, gpu) = all.estimates(work, bytes, 4);
        gpu < cpu
    }

    #[test]
    fn a_gpu_has_to_make_up_for_its_start_only_once() {
        let work = Work::Compress(Effort::Balanced);
        let mut all = Measurements::default();
        assert!(!is_faster_on_a_gpu(&all, work, 64 << 20) && is_faster_on_a_gpu(&all, work, 4 << 30));
        // The first call includes the start, so that it says nothing about the next.
        all.add(work, 1 << 20, 0.5, None);
        assert!(is_faster_on_a_gpu(&all, work, 64 << 20));
        all.add(work, 1 << 20, 3e-3, None);
        all.add(work, 1 << 20, 5e-3, None);
        assert!(is_faster_on_a_gpu(&all, work, 64 << 20) && !is_faster_on_a_gpu(&all, work, 1 << 20));
        // Other work has a start of its own.
        assert!(all.estimates(Work::Decompress(Target::Memory), 0, 1).1 >= GPU_START);
    }

    #[test]
    fn many_small_calls_start_a_gpu_in_the_end() {
        let (work, bytes, seconds) = (Work::Decompress(Target::Memory), 16 << 20, 15e-3);
        let mut all = Measurements::default();
        let calls = (0..1000).take_while(|_| {
            let on_cpu = !is_faster_on_a_gpu(&all, work, bytes);
            all.add(work, bytes, seconds, Some(4));
            on_cpu
        });
        let spent = calls.count() as f64 * seconds;
        assert!((GPU_START..2.0 * GPU_START).contains(&spent), "{spent}");
        // It turns out to be slower than the CPU.
        all.add(work, bytes, 0.5, None);
        all.add(work, bytes, 30e-3, None);
        assert!(!is_faster_on_a_gpu(&all, work, bytes));
        // A CPU that loses nothing never starts one.
        let small = 10_000;
        for _ in 0..1000 {
            all.add(Work::CompressLossless, small, 0.1e-3, Some(4));
        }
        assert!(!is_faster_on_a_gpu(&all, Work::CompressLossless, small));
    }

    #[test]
    fn a_gpu_is_as_fast_as_it_was() {
        let work = Work::CompressLossless;
        let mut all = Measurements::default();
        all.add(work, 1 << 30, 1.0, None);
        let expected = all.estimates(work, 4 << 30, 1).1;
        all.add(work, 1 << 30, 0.05, None);
        let measured = all.estimates(work, 4 << 30, 1).1;
        assert!(measured < expected && (0.2..0.21).contains(&measured), "{expected}, {measured}");
    }

    #[test]
    fn threads_are_as_fast_as_they_were() {
        let work = Work::Decompress(Target::Writer);
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
