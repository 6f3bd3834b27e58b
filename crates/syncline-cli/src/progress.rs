//! A progress bar for long work, if stderr is a terminal.

use std::fmt::{self, Write};
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{FormattedDuration, ProgressBar, ProgressState, ProgressStyle};
use syncline::ElementType;

use crate::format::speed;

/// Shorter work has no bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// The visible bar, for code that must remove it without its owner.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Removes the visible bar.
pub fn clear() {
    if let Some(bar) = SHOWN.lock().unwrap_or_else(PoisonError::into_inner).take() {
        bar.finish_and_clear();
    }
}

/// A bar on stderr that appears after one second.
pub struct Bar {
    verb: &'static str,
    started: Instant,
    visible: bool,
    element_size: u64,
    bar: OnceLock<ProgressBar>,
}

impl Bar {
    /// Creates a bar for work on elements of this type, which is visible only if it is `wanted`.
    pub fn new(verb: &'static str, element_type: ElementType, wanted: bool) -> Arc<Self> {
        Arc::new(Self {
            verb,
            started: Instant::now(),
            visible: wanted && std::io::stderr().is_terminal(),
            element_size: element_type.size() as u64,
            bar: OnceLock::new(),
        })
    }

    /// Shows that `done` of `total` elements are done.
    pub fn show(&self, done: u64, total: u64) {
        if !self.visible || self.started.elapsed() < PATIENCE {
            return;
        }
        let bar = self.bar.get_or_init(|| {
            let bar = ProgressBar::new(total * self.element_size).with_style(style()).with_message(self.verb);
            let bar = bar.with_elapsed(self.started.elapsed());
            *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.clone());
            bar
        });
        // Several threads report, and the bar must never step back.
        bar.update(|state| state.set_pos(state.pos().max(done * self.element_size)));
    }

    /// Returns a progress callback for the library that updates the bar.
    pub fn callback(self: &Arc<Self>) -> impl Fn(u64, u64) -> ControlFlow<()> + Send + Sync + 'static {
        let bar = Arc::clone(self);
        move |done, total| {
            bar.show(done, total);
            ControlFlow::Continue(())
        }
    }

    /// Returns the time since the start.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Removes the bar, before other output.
    pub fn finish(&self) {
        if self.bar.get().is_some() {
            clear();
        }
    }
}

/// Speed and remaining time refer to all work so far. The bar's own estimates would start when the bar appears.
fn style() -> ProgressStyle {
    ProgressStyle::with_template("{msg} {wide_bar} {percent:>3}% {speed} {left}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .with_key("speed", |state: &ProgressState, out: &mut dyn Write| put(out, speed(state.pos(), state.elapsed())))
        .with_key("left", |state: &ProgressState, out: &mut dyn Write| {
            put(out, FormattedDuration(time_left(state.pos(), state.len().unwrap_or(0), state.elapsed())))
        })
}

fn put(out: &mut dyn Write, text: impl fmt::Display) {
    // Writing to a string does not fail.
    let _ = write!(out, "{text}");
}

/// Returns the estimated remaining time; an empty text until there is an estimate.
fn time_left(done: u64, total: u64, elapsed: Duration) -> Duration {
    match done {
        0 => Duration::ZERO,
        _ => elapsed.mul_f64(total.saturating_sub(done) as f64 / done as f64),
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remaining_time_is_extrapolated_from_elapsed_time() {
        let second = Duration::from_secs(1);
        assert_eq!(time_left(25, 100, second), 3 * second);
        assert_eq!(time_left(100, 100, second), Duration::ZERO);
        assert_eq!(time_left(0, 100, second), Duration::ZERO);
    }
}
