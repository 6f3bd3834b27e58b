//! The memory allocator of the C library.

#![allow(unsafe_code, reason = "the C library has no other interface")]

/// Makes the allocator return large blocks to the system as soon as they are free. Otherwise a process keeps up to
/// 32 MiB of them for each thread, which a memory limit does not include.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn return_freed_memory() {
    /// Blocks of at least so many bytes have pages of their own; a number that is set does not grow.
    const LARGE: libc::c_int = 128 << 10;
    // SAFETY: the function takes any numbers, at any time. If it refuses them, nothing changes.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
}

/// Other allocators are left as they are.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn return_freed_memory() {}
