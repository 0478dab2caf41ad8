//! The threads of a stretch, and their jobs.

use super::job::{Done, Job};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Jobs that wait for a thread, and jobs that are done.
#[derive(Debug)]
pub(crate) struct Crew<'i> {
    input: &'i [u8],
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Each with its number.
    waiting: VecDeque<(usize, Job)>,
    done: Vec<Option<Done>>,
    is_over: bool,
}

impl<'i> Crew<'i> {
    /// Calls `caller` on this thread, while the other threads take jobs. Then this thread takes jobs,
    /// too, until all are done. If the system cannot start a thread, this one does all jobs.
    pub(crate) fn work<T>(
        threads: usize,
        input: &'i [u8],
        caller: impl FnOnce(&Self) -> T,
    ) -> (T, Vec<Option<Done>>) {
        let crew = Self {
            input,
            state: Mutex::default(),
            changed: Condvar::new(),
        };
        let result = thread::scope(|scope| {
            for _ in 1..threads {
                let named = thread::Builder::new().name("walrow-build".to_owned());
                if named.spawn_scoped(scope, || crew.take_jobs()).is_err() {
                    break;
                }
            }
            // If the caller panics, the threads must end, too: the scope waits for them.
            let _end = End(&crew);
            let result = caller(&crew);
            crew.end();
            crew.take_jobs();
            result
        });
        let state = crew.state.into_inner();
        (result, state.unwrap_or_else(PoisonError::into_inner).done)
    }

    /// Adds jobs, each with its number.
    pub(crate) fn push(&self, jobs: impl Iterator<Item = (usize, Job)>) {
        for job in jobs {
            self.lock().waiting.push_back(job);
            self.changed.notify_one();
        }
    }

    /// Says that no other jobs come.
    fn end(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    /// Does jobs until the last one is done.
    fn take_jobs(&self) {
        let mut state = self.lock();
        loop {
            if let Some((number, job)) = state.waiting.pop_front() {
                drop(state);
                let done = job.run(self.input);
                state = self.lock();
                if state.done.len() <= number {
                    state.done.resize_with(number.saturating_add(1), || None);
                }
                if let Some(slot) = state.done.get_mut(number) {
                    *slot = Some(done);
                }
            } else if state.is_over {
                return;
            } else {
                let waited = self.changed.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// No thread panics while it has the lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a crew when it is dropped.
struct End<'c, 'i>(&'c Crew<'i>);

impl Drop for End<'_, '_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
