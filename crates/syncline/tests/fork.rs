//! The library works in a process that was forked from one that has used its threads.

#![cfg(unix)]
#![allow(unsafe_code, reason = "`fork` and `waitpid` are functions of the C library")]

use std::panic::catch_unwind;
use std::time::{Duration, Instant};

use syncline::{ArrayView, Bound, CompressOptions, DecompressOptions, compress, decompress};

/// Time after which a child counts as hanging.
const LIMIT: Duration = Duration::from_secs(60);

/// Compresses and decompresses an array of many chunks with the default options.
fn round_trip() {
    let field: Vec<f32> = (0..1 << 20).map(|i| (i as f32 / 500.0).sin()).collect();
    let view = ArrayView::new(&field, &[1 << 10, 1 << 10]).unwrap();
    let stream = compress(&view, &CompressOptions::new(Bound::Rel(1e-3))).unwrap();
    let back = decompress(&stream, &DecompressOptions::default()).unwrap().to_vec::<f32>().unwrap();
    assert!(field.iter().zip(&back).all(|(a, b)| (a - b).abs() <= 2.1e-3));
}

/// Runs `work` in a forked child and returns whether it succeeds within [`LIMIT`].
fn succeeds_in_a_child(work: fn()) -> bool {
    // SAFETY: the child runs `work` and ends without returning. It uses only this thread, threads that it starts, and
    // the allocator, which the C library keeps usable in a child.
    match unsafe { libc::fork() } {
        0 => {
            let code = if catch_unwind(work).is_ok() { 0 } else { 1 };
            // SAFETY: it only ends the process, without running code that belongs to the parent.
            unsafe { libc::_exit(code) }
        }
        child => {
            assert!(child > 0, "fork failed");
            let start = Instant::now();
            let mut status = 0;
            // SAFETY: `status` is valid for writes, and `child` is a process that was not waited for yet.
            while unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == 0 {
                if start.elapsed() > LIMIT {
                    // SAFETY: `child` is a process of ours that has not ended.
                    unsafe { libc::kill(child, libc::SIGKILL) };
                    // SAFETY: as above.
                    unsafe { libc::waitpid(child, &mut status, 0) };
                    return false;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
        }
    }
}

#[test]
fn children_and_their_children_compress() {
    round_trip();
    assert!(succeeds_in_a_child(|| {
        round_trip();
        assert!(succeeds_in_a_child(round_trip));
    }));
    round_trip();
}
