//! Ctrl-C and other signals that end the program: unfinished output is removed first.

/// Exit code of a program that a signal ended, without the number of the signal.
#[cfg(unix)]
const SIGNALED: i32 = 128;
/// Exit code of a program that was interrupted.
#[cfg(not(unix))]
const INTERRUPTED: i32 = 130;

/// Runs `clean_up` and exits when a signal arrives that ends the program. Files that become too large for the limit of
/// the system are errors instead of the end. Signals that the parent process ignores stay
/// ignored: SIGHUP under `nohup`, and Ctrl-C for background jobs of a script.
#[cfg(unix)]
pub fn before_the_end(clean_up: impl FnOnce() + Send + 'static) -> Result<(), String> {
    use nix::sys::signal::{SigSet, Signal};

    crate::aborted::handle()?;
    let ignored = ignored();
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        if ignored >> (signal as i32 - 1) & 1 == 0 {
            signals.add(signal);
        }
    }
    // All threads that are started later inherit this mask, so that only the waiting thread receives the signals.
    signals.thread_block().map_err(|error| error.to_string())?;
    SigSet::from(Signal::SIGXFSZ).thread_block().map_err(|error| error.to_string())?;
    let wait = move || {
        if let Ok(signal) = signals.wait() {
            clean_up();
            std::process::exit(SIGNALED + signal as i32);
        }
    };
    let started = std::thread::Builder::new().name("signals".into()).spawn(wait);
    started.map(drop).map_err(|error| {
        // Ending with leftovers is better than not ending.
        let _ = signals.thread_unblock();
        error.to_string()
    })
}

/// Returns a bit for each ignored signal, the lowest bit for signal 1. Only Linux reports them.
#[cfg(unix)]
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bits = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}

/// Runs `clean_up` and exits when a signal arrives that ends the program.
#[cfg(not(unix))]
pub fn before_the_end(clean_up: impl FnOnce() + Send + 'static) -> Result<(), String> {
    let mut clean_up = Some(clean_up);
    let handler = move || {
        if let Some(clean_up) = clean_up.take() {
            clean_up();
        }
        std::process::exit(INTERRUPTED);
    };
    ctrlc::set_handler(handler).map_err(|error| error.to_string())
}
