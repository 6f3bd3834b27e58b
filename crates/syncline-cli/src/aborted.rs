//! Unfinished outputs are removed when the program aborts, as it does when memory cannot be allocated.

#![allow(unsafe_code, reason = "the handler of a signal")]

use std::ffi::{CString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

/// Temporary names of the last outputs, finished ones among them. Names are never freed, because the handler may be
/// reading them.
static NAMES: [AtomicPtr<c_char>; 8] = [const { AtomicPtr::new(null_mut()) }; 8];
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Removes the outputs. Only functions that are safe in a signal handler are called.
extern "C" fn remove_outputs(_: c_int) {
    for name in &NAMES {
        let name = name.load(Ordering::Acquire);
        if !name.is_null() {
            // SAFETY: names end with 0 and are never freed.
            unsafe { libc::unlink(name) };
        }
    }
    // A signal from outside, not of `abort`, has been handled with this. The next one ends the program.
    // SAFETY: safe in a signal handler.
    unsafe { libc::raise(libc::SIGABRT) };
}

/// Makes an abort remove the outputs. Then it ends the program as usual.
pub fn handle() -> Result<(), String> {
    let action = SigAction::new(SigHandler::Handler(remove_outputs), SaFlags::SA_RESETHAND, SigSet::empty());
    // SAFETY: the handler only reads atomics and calls `unlink`, which are safe in signal handlers.
    let before = unsafe { sigaction(Signal::SIGABRT, &action) };
    before.map(drop).map_err(|error| error.to_string())
}

/// Adds an output, in the place of the one that was added longest ago.
pub fn remember(path: &Path) {
    if let Ok(name) = CString::new(path.as_os_str().as_bytes()) {
        let slot = NEXT.fetch_add(1, Ordering::Relaxed) % NAMES.len();
        NAMES[slot].store(name.into_raw(), Ordering::Release);
    }
}
