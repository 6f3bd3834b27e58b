//! The threads that a call may use.

use std::process;
use std::sync::{Mutex, OnceLock, PoisonError};

use rayon::prelude::*;
use syncline_core::error::{Error, Result};

/// Memory that work on one chunk leaves for the next, on whatever thread: fresh pages cost more than they are used for.
#[derive(Default)]
pub(crate) struct Reused<T>(Mutex<Vec<T>>);

impl<T: Default> Reused<T> {
    /// Runs `work` with an item that nobody else uses, a new one if there is none.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let items = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut item = items().pop().unwrap_or_default();
        let result = work(&mut item);
        items().push(item);
        result
    }
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
        let pool = rayon::ThreadPoolBuilder::new().build().ok();
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

/// Returns the pool that calls share which may use all threads.
fn shared() -> Option<&'static rayon::ThreadPool> {
    static SHARED: OnceLock<ProcessPool> = OnceLock::new();
    ProcessPool::current(&SHARED)
}

/// Returns the number of threads of the pool that the caller is part of, or of the shared one.
pub(crate) fn all_threads() -> usize {
    match rayon::current_thread_index() {
        Some(_) => rayon::current_num_threads(),
        None => shared().map_or(1, rayon::ThreadPool::current_num_threads),
    }
}

/// A number of threads, and the pool for them unless they are the caller's or the shared ones.
#[derive(Debug)]
pub(crate) struct Pool {
    pool: Option<rayon::ThreadPool>,
    threads: usize,
}

fn start(threads: usize) -> Result<rayon::ThreadPool> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(|e| Error::invalid(format!("{threads} threads cannot be started: {e}")))
}

/// Threads per core that are started at most: more only wait for each other.
const MOST_PER_CORE: usize = 4;

/// The number of threads to start for `tasks` independent tasks when the caller asks for `threads`; 0 means the shared
/// pool, one thread per core.
pub(crate) fn useful_threads(threads: usize, tasks: u64) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let tasks = usize::try_from(tasks).unwrap_or(usize::MAX).max(1);
    threads.min(cores.saturating_mul(MOST_PER_CORE)).min(tasks)
}

impl Pool {
    /// All threads of the pool that the caller is part of, or of the shared one.
    pub(crate) fn all() -> Self {
        Self { pool: None, threads: all_threads() }
    }

    /// `threads` threads, or one per core if that is 0; no more than are useful for `tasks` independent tasks.
    pub(crate) fn new(threads: usize, tasks: u64) -> Result<Self> {
        Ok(match useful_threads(threads, tasks) {
            0 => Self::all(),
            // Started where it is needed: mostly the caller's thread will do.
            1 => Self { pool: None, threads: 1 },
            threads => Self { pool: Some(start(threads)?), threads },
        })
    }

    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// A pool with as many threads as `available` bytes have room for, at `each` bytes a thread; `None` if they have
    /// room for all of this one's.
    ///
    /// # Errors
    /// Not even one thread has room.
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
    /// The work's, or the thread cannot be started.
    pub(crate) fn install<R: Send>(&self, work: impl FnOnce() -> Result<R> + Send) -> Result<R> {
        match &self.pool {
            Some(pool) => pool.install(work),
            None if self.threads == 1 => start(1)?.install(work),
            None => match shared().filter(|_| rayon::current_thread_index().is_none()) {
                Some(pool) => pool.install(work),
                None => work(),
            },
        }
    }

    /// As [`Self::install`], but never on the caller's or the shared pool. All threads of these can be waiting for this
    /// one if arrays are decompressed in parallel.
    pub(crate) fn install_apart<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        static APART: OnceLock<ProcessPool> = OnceLock::new();
        match self.pool.as_ref().or_else(|| ProcessPool::current(&APART)) {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }

    /// What `work` makes of each item. A single thread is the caller's: one that is started for it takes its memory
    /// from a fresh place, and the first touch of that costs more than some chunks do.
    ///
    /// # Errors
    /// The first of the work's.
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
