//! Timing of work on a stream with CUDA events, for benches.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::CUevent_flags;
use cudarc::driver::{CudaEvent, CudaStream};

use crate::device::Tracer;
use crate::error::{DriverContext, Result};

/// Numbers of warm-up runs and of measured runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Runs {
    /// Runs before the measured ones.
    pub warm_up: usize,
    /// Measured runs, at least one.
    pub counted: usize,
}

/// Durations of several runs of the same work, in seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Times {
    ascending: Vec<f64>,
}

impl Times {
    /// Creates the list from durations in seconds. An empty list becomes one of 0 seconds.
    pub fn new(mut seconds: Vec<f64>) -> Self {
        if seconds.is_empty() {
            seconds.push(0.0);
        }
        seconds.sort_by(f64::total_cmp);
        Self { ascending: seconds }
    }

    /// Returns the median duration in seconds.
    pub fn median(&self) -> f64 {
        self.ascending[self.ascending.len() / 2]
    }

    /// Returns the shortest duration in seconds.
    pub fn shortest(&self) -> f64 {
        self.ascending[0]
    }

    /// Returns the number of runs.
    pub fn count(&self) -> usize {
        self.ascending.len()
    }

    /// Returns the longest duration in seconds.
    pub fn longest(&self) -> f64 {
        self.ascending[self.ascending.len() - 1]
    }
}

fn event(stream: &Arc<CudaStream>) -> Result<CudaEvent> {
    stream.record_event(Some(CUevent_flags::CU_EVENT_DEFAULT)).doing("recording an event")
}

fn seconds_between(start: &CudaEvent, end: &CudaEvent) -> Result<f64> {
    start.elapsed_ms(end).doing("reading an event").map(|milliseconds| f64::from(milliseconds) / 1e3)
}

/// Measures `work` on the stream, from an event before it to one after it. Each run waits for the previous one.
///
/// # Errors
/// The errors of `work`; [`CudaError::Driver`](crate::CudaError::Driver).
pub fn seconds(stream: &Arc<CudaStream>, runs: Runs, mut work: impl FnMut() -> Result<()>) -> Result<Times> {
    let mut times = Vec::new();
    for run in 0..runs.warm_up + runs.counted {
        let start = event(stream)?;
        work()?;
        let taken = seconds_between(&start, &event(stream)?)?;
        if run >= runs.warm_up {
            times.push(taken);
        }
    }
    Ok(Times::new(times))
}

/// Name of the time on a stream in which none of its kernels runs: copies, clears, and waits for the host.
pub const BETWEEN_KERNELS: &str = "between kernels";

/// A tracer that measures each kernel of one stream.
#[derive(Debug)]
pub struct KernelTimes {
    stream: Arc<CudaStream>,
    /// `None` except while [`Self::measure`] runs.
    spans: Mutex<Option<Spans>>,
}

/// Consecutive spans of time on a stream.
#[derive(Debug)]
struct Spans {
    start: CudaEvent,
    /// Name and end of each span.
    ends: Vec<(&'static str, CudaEvent)>,
    /// Name of the span that comes next.
    next: &'static str,
}

impl KernelTimes {
    /// Creates a tracer of the launches on `stream`, to be given to
    /// [`Device::with_tracer`](crate::device::Device::with_tracer).
    pub fn new(stream: &Arc<CudaStream>) -> Arc<Self> {
        Arc::new(Self { stream: stream.clone(), spans: Mutex::new(None) })
    }

    /// Measures the kernels that `work` launches, and the time between them ([`BETWEEN_KERNELS`]). Durations with the
    /// same name are added. The time that the stream waits for kernels of other streams is named after the last of
    /// those.
    ///
    /// There is no synchronization between kernels, so their durations add up to the total.
    ///
    /// # Errors
    /// The errors of `work`; [`CudaError::Driver`](crate::CudaError::Driver).
    pub fn measure(&self, runs: Runs, mut work: impl FnMut() -> Result<()>) -> Result<Vec<(&'static str, Times)>> {
        let mut all: Vec<(&'static str, Vec<f64>)> = Vec::new();
        for run in 0..runs.warm_up + runs.counted {
            let start = event(&self.stream)?;
            *self.spans() = Some(Spans { start, ends: Vec::new(), next: BETWEEN_KERNELS });
            let result = work();
            let spans = self.spans().take();
            result?;
            let Some(Spans { mut start, mut ends, next }) = spans else { continue };
            if run < runs.warm_up {
                continue;
            }
            ends.push((next, event(&self.stream)?));
            let counted = run - runs.warm_up;
            for (name, end) in ends {
                let place = all.iter().position(|(other, _)| *other == name).unwrap_or_else(|| {
                    all.push((name, Vec::new()));
                    all.len() - 1
                });
                let times = &mut all[place].1;
                times.resize(counted + 1, 0.0);
                times[counted] += seconds_between(&start, &end)?;
                start = end;
            }
        }
        Ok(all.into_iter().map(|(name, times)| (name, Times::new(times))).collect())
    }

    fn spans(&self) -> MutexGuard<'_, Option<Spans>> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_own(&self, stream: &Arc<CudaStream>) -> bool {
        stream.cu_stream() == self.stream.cu_stream()
    }
}

impl Tracer for KernelTimes {
    fn before(&self, _: &'static str, stream: &Arc<CudaStream>) -> Result<()> {
        if let Some(spans) = &mut *self.spans()
            && self.is_own(stream)
        {
            spans.ends.push((std::mem::replace(&mut spans.next, BETWEEN_KERNELS), event(stream)?));
        }
        Ok(())
    }

    fn after(&self, kernel: &'static str, stream: &Arc<CudaStream>) -> Result<()> {
        match &mut *self.spans() {
            Some(spans) if self.is_own(stream) => spans.ends.push((kernel, event(stream)?)),
            Some(spans) => spans.next = kernel,
            None => {}
        }
        Ok(())
    }
}

/// Measures a device-to-device copy of `bytes` bytes. Returns the copied bytes per second; memory traffic is twice
/// that.
///
/// # Errors
/// [`CudaError::Driver`](crate::CudaError::Driver), also if two such buffers cannot be allocated.
pub fn copy_rate(stream: &Arc<CudaStream>, bytes: usize, runs: Runs) -> Result<f64> {
    let from = stream.alloc_zeros::<u8>(bytes).doing("allocating")?;
    let mut to = stream.alloc_zeros::<u8>(bytes).doing("allocating")?;
    let times = seconds(stream, runs, || stream.memcpy_dtod(&from, &mut to).doing("copying"))?;
    Ok(bytes as f64 / times.median())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_ordered() {
        let times = Times::new(vec![3.0, 1.0, 2.0, 9.0, 4.0]);
        assert_eq!((times.shortest(), times.median(), times.longest(), times.count()), (1.0, 3.0, 9.0, 5));
        assert_eq!(Times::new(Vec::new()).median(), 0.0);
    }
}
