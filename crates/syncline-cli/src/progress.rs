//! A progress bar for work that lasts, if somebody watches.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use syncline::{ElementType, Progress};

use crate::args::Talk;

/// Work that takes less shows no bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// A bar on stderr that appears once the work has lasted a second.
pub struct Bar {
    verb: &'static str,
    started: Instant,
    visible: bool,
    element_size: u64,
    bar: OnceLock<ProgressBar>,
}

impl Bar {
    /// A bar for work on elements of this type.
    pub fn new(verb: &'static str, element_type: ElementType, talk: Talk) -> Arc<Self> {
        Arc::new(Self {
            verb,
            started: Instant::now(),
            visible: !talk.quiet && std::io::stderr().is_terminal(),
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
            let style = ProgressStyle::with_template("{msg} {wide_bar} {percent:>3}% {bytes_per_sec} {eta}")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(total * self.element_size).with_style(style).with_message(self.verb)
        });
        // Several threads report: never step back.
        bar.update(|state| state.set_pos(state.pos().max(done * self.element_size)));
    }

    /// As the library's callback.
    pub fn callback(self: &Arc<Self>) -> Progress {
        let bar = Arc::clone(self);
        Arc::new(move |done, total| {
            bar.show(done, total);
            ControlFlow::Continue(())
        })
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Takes the bar away, before anything else is said.
    pub fn finish(&self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.finish();
    }
}
