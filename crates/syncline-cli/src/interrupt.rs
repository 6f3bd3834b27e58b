//! Ctrl-C and the polite signals to end: what is half done is cleared away before the program goes.

/// Exit code of a program that was told to end.
const INTERRUPTED: i32 = 130;

/// Runs `clean_up` and exits when somebody tells the program to end. What whoever started it has it ignore stays
/// ignored: hanging up under `nohup`, Ctrl-C in what a script runs in the background.
#[cfg(unix)]
pub fn before_the_end(clean_up: impl FnOnce() + Send + 'static) -> Result<(), String> {
    use nix::sys::signal::{SigSet, Signal};

    let ignored = ignored();
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        if ignored >> (signal as i32 - 1) & 1 == 0 {
            signals.add(signal);
        }
    }
    // All threads that are started from now on inherit it: the signals are left to the one that waits for them.
    signals.thread_block().map_err(|error| error.to_string())?;
    let wait = move || {
        if signals.wait().is_ok() {
            clean_up();
            std::process::exit(INTERRUPTED);
        }
    };
    let started = std::thread::Builder::new().name("signals".into()).spawn(wait);
    started.map(drop).map_err(|error| {
        // Better to end with leftovers than not at all.
        let _ = signals.thread_unblock();
        error.to_string()
    })
}

/// A bit for each ignored signal, the lowest for signal 1. Linux says so; elsewhere nothing is known of them.
#[cfg(unix)]
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bits = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}

/// Runs `clean_up` and exits when somebody tells the program to end.
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
