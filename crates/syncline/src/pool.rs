//! The threads of a call, and the memory that they keep.

use std::cell::Cell;
use std::process;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::LocalKey;

use rayon::prelude::*;
use syncline_core::error::{Error, Result};

/// Reusable memory for the work on a chunk, shared by all threads: touching new pages would take longer than using
/// them.
#[derive(Default)]
pub(crate) struct Reused<T>(Mutex<Vec<T>>);

impl<T: Default> Reused<T> {
    /// Runs `work` with an item that is not in use, or with a new one.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let items = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut item = items().pop().unwrap_or_default();
        let result = work(&mut item);
        items().push(item);
        result
    }
}

/// Memory that a thread keeps from call to call. It is no lock that threads share, which a process that `fork` makes
/// could find held for ever.
pub(crate) type Kept<T> = LocalKey<Cell<Option<Box<T>>>>;

/// Most bytes that a thread keeps for work of one kind. Larger arrays take longer than touching new memory.
pub(crate) const MOST_KEPT_BYTES: u64 = 16 << 20;

/// Runs `work` with the memory that this thread keeps. Work inside of that work gets new memory.
pub(crate) fn with_kept<T: Default, R>(kept: &'static Kept<T>, work: impl FnOnce(&mut T) -> R) -> R {
    // A thread that ends keeps nothing any more.
    let mut item = kept.try_with(Cell::take).ok().flatten().unwrap_or_default();
    let result = work(&mut item);
    let _ = kept.try_with(|place| place.set(Some(item)));
    result
}

/// Checks that so many bytes can be allocated now, which the work then does piece by piece: a piece that fails would
/// end the process.
///
/// # Errors
/// [`Error::Io`] of the kind `OutOfMemory`.
pub(crate) fn check_memory(bytes: u64) -> Result<()> {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let mut memory = Vec::<u8>::new();
    let reserved = memory.try_reserve_exact(bytes);
    // Otherwise a compiler could leave out the allocation, which nothing uses.
    std::hint::black_box(&memory);
    reserved.map_err(|_| Error::Io(std::io::ErrorKind::OutOfMemory.into()))
}

/// A thread pool of one process, and that of its child.
///
/// The threads of a pool do not exist in a process that `fork` makes, so that work sent to the pool would never be done
/// there. A child therefore starts a pool of its own, which follows its parent's in the list.
struct ProcessPool {
    process: u32,
    pool: Option<rayon::ThreadPool>,
    child: OnceLock<Box<Self>>,
}

impl ProcessPool {
    /// Starts a pool for this process, with one thread per core or as many as `RAYON_NUM_THREADS` states. Without the
    /// resources for threads, there is none.
    fn start() -> Self {
        let pool = has_room_for(cores()).then(|| rayon::ThreadPoolBuilder::new().build().ok()).flatten();
        Self { process: process::id(), pool, child: OnceLock::new() }
    }

    /// Returns this process's pool of the list that starts at `first`.
    fn current(first: &'static OnceLock<Self>) -> Option<&'static rayon::ThreadPool> {
        let mut list = first.get_or_init(Self::start);
        while list.process != process::id() {
            list = list.child.get_or_init(|| Box::new(Self::start()));
        }
        list.pool.as_ref()
    }
}

/// Returns the shared pool of calls that may use all threads.
fn shared() -> Option<&'static rayon::ThreadPool> {
    static SHARED: OnceLock<ProcessPool> = OnceLock::new();
    ProcessPool::current(&SHARED)
}

/// Returns the number of threads of the pool that the caller is part of, or of the shared pool.
pub(crate) fn all_threads() -> usize {
    match rayon::current_thread_index() {
        Some(_) => rayon::current_num_threads(),
        None => shared().map_or(1, rayon::ThreadPool::current_num_threads),
    }
}

/// Returns whether the caller is the only thread of a pool, to which it can leave all work.
fn is_alone() -> bool {
    rayon::current_thread_index().is_some() && rayon::current_num_threads() == 1
}

/// A number of threads, and a pool for them unless they are the caller's or the shared pool's.
#[derive(Debug)]
pub(crate) struct Pool {
    pool: Option<rayon::ThreadPool>,
    threads: usize,
}

/// Bytes of memory that a thread needs before it works on anything: its stack, and what libraries keep for it. A thread
/// that starts without them ends the process.
const THREAD_BYTES: u64 = 8 << 20;

/// Returns whether there is memory for so many more threads. They take it from the system: what the allocator has is of
/// no use to them.
pub(crate) fn has_room_for(threads: usize) -> bool {
    unused_addresses().is_none_or(|bytes| bytes >= THREAD_BYTES.saturating_mul(threads as u64))
}

/// Returns the number of bytes that this process may still take from the system, if that is limited.
#[cfg(target_os = "linux")]
fn unused_addresses() -> Option<u64> {
    use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
    let (limit, _) = getrlimit(Resource::RLIMIT_AS).ok().filter(|(limit, _)| *limit != RLIM_INFINITY)?;
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(limit.saturating_sub(kibibytes << 10))
}

/// Other systems do not tell.
#[cfg(not(target_os = "linux"))]
fn unused_addresses() -> Option<u64> {
    None
}

/// Returns whether there is memory for one more thread. For bindings, which start one beside their caller's.
#[doc(hidden)]
pub fn has_room_for_thread() -> bool {
    has_room_for(1)
}

/// Returns a pool of new threads, or `None` if the system has no resources for them.
fn start(threads: usize) -> Option<rayon::ThreadPool> {
    if !has_room_for(threads) {
        return None;
    }
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().ok()
}

/// Runs `work` as the only thread of a pool: a new one, or the caller's if none can be started.
fn run_alone<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    if let Some(pool) = start(1) {
        return pool.install(work);
    }
    // Otherwise parallel iterators would start rayon's own pool, and panic because it cannot start. The caller's thread
    // stays part of this one, which is found there the next time.
    if rayon::current_thread_index().is_none() {
        let _ = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
    }
    work()
}

/// The largest number of threads per core: more threads would only wait for each other.
const MOST_PER_CORE: usize = 4;

/// Returns the number of cores that this process may use. It is asked for once, because the answer takes several files
/// to be read, which is longer than decompressing a small array.
fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Returns the number of threads for `tasks` independent tasks if the caller requests `threads`; 0 means the shared
/// pool, which has one thread per core.
pub(crate) fn useful_threads(threads: usize, tasks: u64) -> usize {
    let tasks = usize::try_from(tasks).unwrap_or(usize::MAX).max(1);
    threads.min(cores().saturating_mul(MOST_PER_CORE)).min(tasks)
}

/// Returns the number of threads to request for `tasks` tasks that do not use threads themselves: one, the caller's,
/// for a single task.
pub(crate) fn threads_for(tasks: u64, requested: usize) -> usize {
    if tasks <= 1 { 1 } else { requested }
}

impl Pool {
    /// Returns all threads of the pool that the caller is part of, or of the shared pool.
    pub(crate) fn all() -> Self {
        Self { pool: None, threads: all_threads() }
    }

    /// Returns `threads` threads, or one per core for 0, but no more than are useful for `tasks` independent tasks. The
    /// caller's thread does all work if the system has no resources for others.
    pub(crate) fn new(threads: usize, tasks: u64) -> Result<Self> {
        Ok(match useful_threads(threads, tasks) {
            0 => Self::all(),
            // A thread is only started where the caller's own does not suffice.
            1 => Self { pool: None, threads: 1 },
            threads => match start(threads) {
                Some(pool) => Self { pool: Some(pool), threads },
                None => Self { pool: None, threads: 1 },
            },
        })
    }

    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Returns a pool with as many threads as fit in `available` bytes of memory, at `each` bytes per thread; `None` if
    /// all threads of this pool fit.
    ///
    /// # Errors
    /// [`Error::MemoryLimit`] if not even one thread fits.
    pub(crate) fn limited(&self, available: u64, each: u64, what: &str, limit: u64) -> Result<Option<Self>> {
        let room = available / each.max(1);
        match usize::try_from(room) {
            Ok(0) => Err(Error::MemoryLimit { what: what.into(), needed: limit - available + each, limit }),
            Ok(threads) if threads < self.threads => Self::new(threads, u64::MAX).map(Some),
            _ => Ok(None),
        }
    }

    /// Runs `work` so that its parallel iterators use these threads.
    ///
    /// # Errors
    /// Errors of `work`.
    pub(crate) fn install<R: Send>(&self, work: impl FnOnce() -> Result<R> + Send) -> Result<R> {
        match &self.pool {
            Some(pool) => pool.install(work),
            None if self.threads == 1 && !is_alone() => run_alone(work),
            None => match shared().filter(|_| rayon::current_thread_index().is_none()) {
                Some(pool) => pool.install(work),
                None => work(),
            },
        }
    }

    /// Does the same as [`Self::install`], but never on the caller's pool or the shared pool: if arrays are
    /// decompressed in parallel, all threads of those can be waiting for this call.
    pub(crate) fn install_apart<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        static APART: OnceLock<ProcessPool> = OnceLock::new();
        match self.pool.as_ref().or_else(|| ProcessPool::current(&APART)) {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }

    /// Returns the results of `work` for all items. A single thread is the caller's, because a new thread takes memory
    /// from a new place, and touching that memory for the first time would cost more than some chunks.
    ///
    /// # Errors
    /// The first error of `work`.
    pub(crate) fn map<T: Send, R: Send>(
        &self,
        items: impl IntoIterator<Item = T>,
        work: impl Fn(T) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        if self.threads == 1 {
            return items.into_iter().map(work).collect();
        }
        let items: Vec<T> = items.into_iter().collect();
        self.install(|| items.into_par_iter().with_max_len(1).map(&work).collect())
    }
}
