//! Worker threads for decisions that the host makes while the device works. They are kept between calls, because
//! starting threads takes as long as compressing a small array.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};

/// A job: tasks that are numbered from 0, and the channel for their results.
struct Job<W, R> {
    count: usize,
    next: AtomicUsize,
    work: W,
    results: Mutex<Sender<(usize, R)>>,
}

trait Tasks: Send + Sync {
    /// Returns whether there is a task that no thread has begun.
    fn has_more(&self) -> bool;
    /// Runs a task that no thread has begun, if there is one. Returns whether it ran one.
    fn run_one(&self) -> bool;
    /// Runs tasks until all of them have been begun.
    fn run(&self) {
        while self.run_one() {}
    }
}

impl<R: Send, W: Fn(usize) -> R + Send + Sync> Tasks for Job<W, R> {
    fn has_more(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.count
    }

    fn run_one(&self) -> bool {
        let task = self.next.fetch_add(1, Ordering::Relaxed);
        if task >= self.count {
            return false;
        }
        let results = self.results.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // A task that panics sends no result, which the receiver notices; the worker thread continues with other jobs.
        let sent = catch_unwind(AssertUnwindSafe(|| (self.work)(task))).map(|result| results.send((task, result)));
        if !matches!(sent, Ok(Ok(()))) {
            self.next.store(self.count, Ordering::Relaxed);
            return false;
        }
        true
    }
}

/// Iterator over the results of a job's tasks, in the order of their completion.
pub(crate) struct Results<R> {
    tasks: Weak<dyn Tasks>,
    results: Receiver<(usize, R)>,
}

impl<R> Iterator for Results<R> {
    type Item = (usize, R);

    /// Returns the next result with the number of its task. While none is available, the calling thread runs tasks
    /// itself, because other threads take a while to wake up.
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Ok(result) = self.results.try_recv() {
                return Some(result);
            }
            // The job is freed once all of its tasks have been begun and completed.
            if !self.tasks.upgrade().is_some_and(|tasks| tasks.run_one()) {
                return self.results.recv().ok();
            }
        }
    }
}

/// Jobs, oldest first, and a condition variable that signals a new job.
#[derive(Default)]
struct Queue {
    jobs: Mutex<VecDeque<Arc<dyn Tasks>>>,
    added: Condvar,
}

impl Queue {
    fn next_job(&self) -> Arc<dyn Tasks> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            jobs.retain(|job| job.has_more());
            if let Some(job) = jobs.front() {
                return job.clone();
            }
            jobs = self.added.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Runs `work(0)` to `work(count - 1)` on the worker threads, roughly in this order, while the caller continues.
/// Results are returned with the numbers of their tasks; there are fewer than `count` if a task panics. Tasks that have
/// not begun are abandoned when the iterator is dropped.
pub(crate) fn run_tasks<R: Send + 'static>(
    count: usize,
    work: impl Fn(usize) -> R + Send + Sync + 'static,
) -> Results<R> {
    static QUEUE: OnceLock<Arc<Queue>> = OnceLock::new();
    // Separate threads instead of a shared pool, because the caller may run on a thread of that pool, perhaps its only
    // one.
    let queue = QUEUE.get_or_init(|| {
        let queue = Arc::new(Queue::default());
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            let queue = queue.clone();
            std::thread::spawn(move || {
                loop {
                    queue.next_job().run();
                }
            });
        }
        queue
    });
    let (results, receiver) = channel();
    let job: Arc<dyn Tasks> = Arc::new(Job { count, next: AtomicUsize::new(0), work, results: Mutex::new(results) });
    let tasks = Arc::downgrade(&job);
    queue.jobs.lock().unwrap_or_else(PoisonError::into_inner).push_back(job);
    queue.added.notify_all();
    Results { tasks, results: receiver }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_is_done_once() {
        for count in [0, 1, 7, 1000] {
            let mut results: Vec<_> = run_tasks(count, |task| task * task).collect();
            results.sort_unstable();
            assert_eq!(results, (0..count).map(|task| (task, task * task)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn jobs_run_without_waiting_for_others() {
        let waiting = run_tasks(2, |_| std::thread::sleep(std::time::Duration::from_millis(5)));
        assert_eq!(run_tasks(50, |task| task).count(), 50);
        assert_eq!(waiting.count(), 2);
    }

    #[test]
    fn panic_in_one_thread_is_reported_and_others_go_on() {
        let results = run_tasks(10, |task| if task == 3 { panic!("on purpose") } else { task });
        assert!(results.count() < 10);
        assert_eq!(run_tasks(10, |task| task).count(), 10);
    }

    #[test]
    fn dropped_tasks_are_abandoned() {
        drop(run_tasks(1 << 40, |task| task));
        assert_eq!(run_tasks(10, |task| task).count(), 10);
    }
}
