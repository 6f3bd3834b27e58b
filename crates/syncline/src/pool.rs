//! The threads that a call may use.

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

/// A number of threads, and the pool for them where it is not the global one.
#[derive(Debug)]
pub(crate) struct Pool {
    pool: Option<rayon::ThreadPool>,
    threads: usize,
}

fn start(threads: usize) -> Result<rayon::ThreadPool> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(|e| Error::invalid(format!("{threads} threads cannot be started: {e}")))
}

impl Pool {
    /// All threads of the global pool.
    pub(crate) fn all() -> Self {
        Self { pool: None, threads: rayon::current_num_threads() }
    }

    /// `threads` threads, 0 for as many as there are cores.
    pub(crate) fn new(threads: usize) -> Result<Self> {
        Ok(match threads {
            0 => Self::all(),
            // Started where it is needed: mostly the caller's thread will do.
            1 => Self { pool: None, threads },
            _ => Self { pool: Some(start(threads)?), threads },
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
            Ok(threads) if threads < self.threads => Self::new(threads).map(Some),
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
            None => work(),
        }
    }

    /// As [`Self::install`], but never on the global pool, all of whose threads could be waiting for this one, where
    /// arrays are decompressed side by side.
    pub(crate) fn install_apart<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        static APART: OnceLock<Option<rayon::ThreadPool>> = OnceLock::new();
        let apart = || APART.get_or_init(|| rayon::ThreadPoolBuilder::new().build().ok()).as_ref();
        match self.pool.as_ref().or_else(apart) {
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
