//! Timing of work on a stream with CUDA events, for benches.

use std::sync::Arc;

use cudarc::driver::sys::CUevent_flags;
use cudarc::driver::{CudaEvent, CudaStream};

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
pub fn seconds(stream: &Arc<CudaStream>, runs: Runs, work: impl FnMut() -> Result<()>) -> Result<Times> {
    seconds_behind(stream, runs, || Ok(()), work)
}

/// Measures `work` alone, queued after `before`. If `before` keeps the device busy for long enough, the time that the
/// host takes to launch `work` is not included.
///
/// # Errors
/// The errors of `before` and `work`; [`CudaError::Driver`](crate::CudaError::Driver).
pub fn seconds_behind(
    stream: &Arc<CudaStream>,
    runs: Runs,
    mut before: impl FnMut() -> Result<()>,
    mut work: impl FnMut() -> Result<()>,
) -> Result<Times> {
    let mut times = Vec::new();
    for run in 0..runs.warm_up + runs.counted {
        before()?;
        let start = event(stream)?;
        work()?;
        let taken = seconds_between(&start, &event(stream)?)?;
        if run >= runs.warm_up {
            times.push(taken);
        }
    }
    Ok(Times::new(times))
}

/// Measures the steps of `work`. `work` calls its argument with the name of a step as soon as all of that step is
/// queued. The durations of steps with the same name are added.
///
/// There is no synchronization between steps, so their durations add up to the total.
///
/// # Errors
/// The errors of `work`; [`CudaError::Driver`](crate::CudaError::Driver).
pub fn steps(
    stream: &Arc<CudaStream>,
    runs: Runs,
    mut work: impl FnMut(&mut dyn FnMut(&'static str) -> Result<()>) -> Result<()>,
) -> Result<Vec<(&'static str, Times)>> {
    let mut all: Vec<(&'static str, Vec<f64>)> = Vec::new();
    for run in 0..runs.warm_up + runs.counted {
        let mut events = vec![("", event(stream)?)];
        work(&mut |step| {
            events.push((step, event(stream)?));
            Ok(())
        })?;
        if run < runs.warm_up {
            continue;
        }
        let counted = run - runs.warm_up;
        for pair in events.windows(2) {
            let taken = seconds_between(&pair[0].1, &pair[1].1)?;
            let step = pair[1].0;
            let at = all.iter().position(|(name, _)| *name == step).unwrap_or_else(|| {
                all.push((step, Vec::new()));
                all.len() - 1
            });
            let times = &mut all[at].1;
            times.resize(counted + 1, 0.0);
            times[counted] += taken;
        }
    }
    Ok(all.into_iter().map(|(step, times)| (step, Times::new(times))).collect())
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
        assert_eq!((times.shortest(), times.median(), times.longest()), (1.0, 3.0, 9.0));
        assert_eq!(Times::new(Vec::new()).median(), 0.0);
    }
}
