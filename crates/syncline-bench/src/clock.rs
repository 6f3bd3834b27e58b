//! Elapsed time, or what the processor took of it.

use std::time::Instant;

/// What time is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// Elapsed time.
    #[default]
    Elapsed,
    /// Time that processors worked for this process, which others that run do not add to; elapsed time where the system
    /// does not say it.
    Processor,
}

/// A measurement that has begun.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    start: Instant,
    /// Seconds of the processor until then.
    processor: Option<f64>,
}

impl Stopwatch {
    /// Begins.
    pub fn start(clock: Clock) -> Self {
        let processor = if clock == Clock::Processor { processor_seconds() } else { None };
        Self { start: Instant::now(), processor }
    }

    /// Seconds since then.
    pub fn seconds(&self) -> f64 {
        let of_processor = self.processor.and_then(|start| Some(processor_seconds()? - start));
        of_processor.unwrap_or_else(|| self.start.elapsed().as_secs_f64())
    }
}

/// Seconds that processors have worked for this process.
fn processor_seconds() -> Option<f64> {
    #[cfg(target_os = "linux")]
    {
        use rustix::time::{ClockId, clock_gettime};
        let time = clock_gettime(ClockId::ProcessCPUTime);
        Some(time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9)
    }
    #[cfg(not(target_os = "linux"))]
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    // Other tests of this process work meanwhile, and their time counts too: only what holds whatever they do is
    // asserted.
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
