// SPDX-License-Identifier: MPL-2.0
//! A few threads that do what may block, and go away when there is nothing to do.

use std::collections::VecDeque;
use std::time::Duration;

use crate::os::sync::{Condvar, Mutex, MutexGuard};

/// Threads at once at most; further jobs queue. So many may wait for one that does not answer before others do.
pub(super) const THREADS: usize = 32;
/// An idle thread ends after this.
const IDLE: Duration = Duration::from_secs(10);

/// Something to be done.
pub(super) type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

/// The threads, and what waits for them.
#[derive(Default)]
pub(super) struct Crew {
    state: Mutex<State>,
    work: Condvar,
}

impl Crew {
    /// Have `job` done. `start` starts a thread that calls [`Crew::work`]; its
    /// error is the caller's only when there is no thread at all.
    pub(super) fn put<E>(&self, job: Job, start: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let mut state = self.lock();
        state.jobs.push_back(job);
        if state.idle < state.jobs.len() && state.threads < THREADS {
            match start() {
                Ok(()) => state.threads += 1,
                Err(error) if state.threads == 0 => {
                    state.jobs.pop_back();
                    return Err(error);
                }
                Err(_) => {}
            }
        }
        drop(state);
        self.work.notify_one();
        Ok(())
    }

    /// What each thread does.
    pub(super) fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                job();
                state = self.lock();
                continue;
            }
            state.idle += 1;
            let (back, timeout) = self
                .work
                .wait_timeout(state, IDLE)
                .unwrap_or_else(|e| e.into_inner());
            state = back;
            state.idle -= 1;
            if timeout.timed_out() && state.jobs.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

#[cfg(all(test, loom))]
mod tests {
    use super::*;
    use loom::sync::atomic::{AtomicUsize, Ordering};
    use loom::sync::Arc;
    use loom::thread;

    struct Scene {
        crew: Crew,
        done: AtomicUsize,
        started: AtomicUsize,
    }

    fn put(scene: &Arc<Scene>, starts: bool) -> Result<(), ()> {
        let counted = Arc::clone(scene);
        let job = Box::new(move || {
            counted.done.fetch_add(1, Ordering::Relaxed);
        });
        let worker = Arc::clone(scene);
        scene.crew.put(job, || {
            if !starts {
                return Err(());
            }
            worker.started.fetch_add(1, Ordering::Relaxed);
            thread::spawn(move || worker.crew.work());
            Ok(())
        })
    }

    /// The time of all who wait is up, from whenever this runs.
    fn expire(scene: &Scene) {
        let _state = scene.crew.lock();
        scene.crew.work.expire();
    }

    fn scene() -> Arc<Scene> {
        Arc::new(Scene {
            crew: Crew::default(),
            done: AtomicUsize::new(0),
            started: AtomicUsize::new(0),
        })
    }

    /// Every thread ends, and so loom sees: no job may be left, no thread in the books.
    fn checked(body: impl Fn(&Arc<Scene>) -> usize + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let scene = scene();
            let expected = body(&scene);
            expire(&scene);
            // All threads but this one must have ended: no clone but those of jobs that are lost.
            while Arc::strong_count(&scene) > 1 {
                thread::yield_now();
            }
            assert_eq!(scene.done.load(Ordering::Relaxed), expected);
            let state = scene.crew.lock();
            assert!(state.jobs.is_empty());
            assert_eq!((state.threads, state.idle), (0, 0));
        });
    }

    #[test]
    fn a_job_put_as_the_last_thread_leaves_is_done() {
        checked(|scene| {
            put(scene, true).unwrap();
            let late = {
                let scene = Arc::clone(scene);
                thread::spawn(move || expire(&scene))
            };
            put(scene, true).unwrap();
            late.join().unwrap();
            2
        });
    }

    #[test]
    fn jobs_of_two_threads_are_each_done_once() {
        checked(|scene| {
            let other = {
                let scene = Arc::clone(scene);
                thread::spawn(move || put(&scene, true).unwrap())
            };
            put(scene, true).unwrap();
            other.join().unwrap();
            2
        });
    }

    #[test]
    fn where_no_thread_starts_a_job_is_given_back_or_done() {
        checked(|scene| {
            let other = {
                let scene = Arc::clone(scene);
                thread::spawn(move || put(&scene, true).unwrap())
            };
            let mine = put(scene, false);
            other.join().unwrap();
            1 + usize::from(mine.is_ok())
        });
    }
}
