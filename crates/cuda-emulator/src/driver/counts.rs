//! Counts of calls that take long on a real device, for tests that they are not repeated. Not a part of the driver API.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use super::errors::{guard, put};

/// Calls that allocate device memory.
pub static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
/// Calls that allocate page-locked host memory.
pub static LOCKS: AtomicU64 = AtomicU64::new(0);
/// Calls that load modules.
pub static LOADS: AtomicU64 = AtomicU64::new(0);

/// Counts a call.
pub fn count(of: &AtomicU64) {
    of.fetch_add(1, Ordering::Relaxed);
}

/// Writes three numbers: how often device memory and page-locked host memory were allocated and modules were loaded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaEmulatorCounts(counts: *mut [u64; 3]) -> i32 {
    let all = [&ALLOCATIONS, &LOCKS, &LOADS].map(|count| count.load(Ordering::Relaxed));
    // SAFETY: the caller passes null or a valid place.
    guard(|| unsafe { put(counts, all) })
}
