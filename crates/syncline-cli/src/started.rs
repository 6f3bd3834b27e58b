//! What the starter of the program gave it.

#![allow(unsafe_code, reason = "a look at stdout before Rust's runtime replaces it")]

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether stdout was closed when the program started.
static CLOSED: AtomicBool = AtomicBool::new(false);

// Before `main`, the runtime of Rust opens /dev/null in the place of a closed stdout, where output would be lost.
#[cfg(unix)]
ctor::declarative::ctor! {
    // SAFETY: the function only makes a system call and sets a number, for which nothing must be prepared.
    #[ctor(unsafe)]
    fn look_at_stdout() {
        use nix::errno::Errno;
        use nix::fcntl::{FcntlArg, fcntl};

        // SAFETY: the descriptor need not be open, because it is only asked about.
        let stdout = unsafe { std::os::fd::BorrowedFd::borrow_raw(1) };
        CLOSED.store(fcntl(stdout, FcntlArg::F_GETFD) == Err(Errno::EBADF), Ordering::Relaxed);
    }
}

/// Returns whether stdout was closed when the program started, as by `>&-` in a shell.
pub fn stdout_is_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}
