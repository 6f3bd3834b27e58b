//! Parallel work whose results are needed in order.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use syncline_core::error::{Error, Result};

use crate::pool::has_room_for;

/// Runs `work` for the numbers below `count` on `threads` threads, and passes the results in order to `take` on this
/// thread while later numbers are worked on. Numbers are started in order, at most `ahead` of them before they are
/// taken, which limits the results in memory.
///
/// The threads are new ones: if arrays are compressed in parallel, all threads of a pool could be waiting in
/// `in_order`. If the system has no resources for any, this thread does all work.
///
/// # Errors
/// The first error of `work`, by number, or of `take`. No further number is started after it.
pub(crate) fn in_order<T: Send>(
    threads: usize,
    count: usize,
    ahead: usize,
    work: impl Fn(usize) -> Result<T> + Sync,
    mut take: impl FnMut(T) -> Result<()>,
) -> Result<()> {
    let board = Board { state: Mutex::new(State::new(count)), changed: Condvar::new() };
    std::thread::scope(|scope| {
        // Other threads start nothing more, however this thread ends.
        let _stop = Stop(&board);
        let run = || {
            let _stop = Stop(&board);
            while let Some(number) = board.begin(ahead.max(1)) {
                board.finish(number, work(number));
            }
        };
        let start = |_: &usize| std::thread::Builder::new().spawn_scoped(scope, run).is_ok();
        let threads = threads.clamp(1, count.max(1));
        if !has_room_for(threads) || (0..threads).take_while(start).count() == 0 {
            return (0..count).try_for_each(|number| take(work(number)?));
        }
        (0..count).try_for_each(|number| take(board.take(number)?))
    })
}

/// The numbers that were started, and the results that wait to be taken.
struct Board<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    /// The next number to start.
    next: usize,
    /// Numbers from this one on are not started.
    end: usize,
    taken: usize,
    done: BTreeMap<usize, Result<T>>,
    /// Whether a thread panicked, so that its result is missing.
    broken: bool,
}

impl<T> State<T> {
    fn new(count: usize) -> Self {
        Self { next: 0, end: count, taken: 0, done: BTreeMap::new(), broken: false }
    }
}

impl<T> Board<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next number as soon as it may be started; `None` if there are no more.
    fn begin(&self, ahead: usize) -> Option<usize> {
        let full = |state: &mut State<T>| state.next < state.end && state.next >= state.taken + ahead;
        let mut state = self.changed.wait_while(self.state(), full).unwrap_or_else(PoisonError::into_inner);
        let number = state.next;
        (number < state.end).then(|| {
            state.next += 1;
            number
        })
    }

    fn finish(&self, number: usize, result: Result<T>) {
        let mut state = self.state();
        if result.is_err() {
            state.end = 0;
        }
        state.done.insert(number, result);
        self.changed.notify_all();
    }

    /// Returns the result after the last one that was taken.
    fn take(&self, number: usize) -> Result<T> {
        // This number is started before all later ones, so that its result arrives unless a thread panicked.
        let missing = |state: &mut State<T>| !state.done.contains_key(&number) && !state.broken;
        let mut state = self.changed.wait_while(self.state(), missing).unwrap_or_else(PoisonError::into_inner);
        state.taken = number + 1;
        self.changed.notify_all();
        // The scope passes on the panic. This only ends the waiting.
        state.done.remove(&number).unwrap_or(Err(Error::Cancelled))
    }
}

/// Stops all work when a thread ends.
struct Stop<'a, T>(&'a Board<T>);

impl<T> Drop for Stop<'_, T> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.broken |= std::thread::panicking();
        state.end = 0;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    /// Takes longer for some numbers than for others.
    fn slow(number: usize) -> usize {
        std::thread::sleep(Duration::from_micros((number * 7919 % 13 * 50) as u64));
        number
    }

    #[test]
    fn results_come_in_order_and_few_wait() {
        for (threads, count, ahead) in [(1, 0, 1), (4, 1, 1), (1, 20, 5), (4, 200, 6), (9, 50, 1), (3, 40, 100)] {
            let begun = AtomicUsize::new(0);
            let mut taken = 0;
            let work = |number| {
                begun.fetch_add(1, Ordering::SeqCst);
                Ok(slow(number))
            };
            let take = |number| {
                assert_eq!(number, taken);
                taken += 1;
                // This number already counts as taken.
                assert!(begun.load(Ordering::SeqCst) <= taken + ahead);
                Ok(())
            };
            in_order(threads, count, ahead, work, take).unwrap();
            assert_eq!((taken, begun.into_inner()), (count, count));
        }
    }

    #[test]
    fn first_error_stops_the_work() {
        let begun = AtomicUsize::new(0);
        let work = |number| {
            begun.fetch_add(1, Ordering::SeqCst);
            match slow(number) {
                30 | 31 => Err(Error::invalid(number.to_string())),
                _ => Ok(number),
            }
        };
        let mut taken = 0;
        let error = in_order(4, 1000, 8, work, |_| {
            taken += 1;
            Ok(())
        });
        assert!(error.unwrap_err().to_string().contains("30"));
        assert_eq!(taken, 30);
        assert!(begun.into_inner() < 50);
        let error = in_order(
            4,
            1000,
            8,
            |number| Ok(slow(number)),
            |number| match number {
                17 => Err(Error::Cancelled),
                _ => Ok(()),
            },
        );
        assert!(matches!(error, Err(Error::Cancelled)));
    }

    #[test]
    fn panics_are_passed_on() {
        let work = |number| match number {
            9 => panic!("on purpose"),
            _ => Ok(slow(number)),
        };
        assert!(catch_unwind(AssertUnwindSafe(|| in_order(3, 100, 4, work, |_| Ok(())))).is_err());
        let take = |number| match number {
            9 => panic!("on purpose"),
            _ => Ok(()),
        };
        assert!(catch_unwind(AssertUnwindSafe(|| in_order(3, 100, 4, |number| Ok(slow(number)), take))).is_err());
    }
}
