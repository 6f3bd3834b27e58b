//! Measures elapsed time or processor time.

use std::time::Instant;

/// The kind of time to measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// Elapsed time.
    #[default]
    Elapsed,
    /// Processor time of this process, which is not affected by other processes; elapsed time if the system does not
    /// report it.
    Processor,
}

/// A running measurement.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    start: Instant,
    /// Processor time in seconds at the start.
    processor: Option<f64>,
}

impl Stopwatch {
    /// Starts a measurement.
    pub fn start(clock: Clock) -> Self {
        let processor = if clock == Clock::Processor { processor_seconds() } else { None };
        Self { start: Instant::now(), processor }
    }

    /// Returns the seconds since the start.
    pub fn seconds(&self) -> f64 {
        let of_processor = self.processor.and_then(|start| Some(processor_seconds()? - start));
        of_processor.unwrap_or_else(|| self.start.elapsed().as_secs_f64())
    }
}

/// Returns the processor time of this process in seconds.
fn processor_seconds() -> Option<f64> {
    #[cfg(target_os = "linux")]
    {
        use nix::time::{ClockId, clock_gettime};
        let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).ok()?;
        Some(time.tv_sec() as f64 + time.tv_nsec() as f64 * 1e-9)
    }
    #[cfg(not(target_os = "linux"))]
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    // Other tests of this process run at the same time, and their processor time is included, so only assertions that
    // hold regardless of them are made.
    #[test]
    fn each_clock_takes_its_own_time() {
        let [elapsed, processor] = [Clock::Elapsed, Clock::Processor].map(Stopwatch::start);
        assert_eq!(elapsed.processor, None);
        assert_eq!(processor.processor.is_some(), cfg!(target_os = "linux"));
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(elapsed.seconds() >= 0.002);
    }

    #[test]
    fn work_is_counted() {
        let watch = Stopwatch::start(Clock::Processor);
        let mut seconds = 0.0;
        while seconds < 1e-4 {
            let now = watch.seconds();
            assert!(now >= seconds, "{now} {seconds}");
            seconds = now;
        }
    }
}
