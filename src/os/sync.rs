// SPDX-License-Identifier: MPL-2.0
//! What threads meet by, where tests/loom tries every order in which they can:
//! the standard library's and crossbeam's, or loom's in their place.

#[cfg(not(loom))]
pub use self::real::*;
#[cfg(loom)]
pub use model::*;

#[cfg(not(loom))]
mod real {
    pub use crossbeam_queue::{ArrayQueue, SegQueue};
    pub use std::sync::atomic::AtomicBool;
    pub use std::sync::{Arc, Condvar, Mutex, MutexGuard};
}

#[cfg(loom)]
mod model {
    use std::collections::VecDeque;
    use std::sync::LockResult;
    use std::time::Duration;

    use std::sync::atomic::Ordering;

    pub use loom::sync::{Arc, Mutex, MutexGuard};

    /// A flag. Its stores are swaps: loom would let a plain one come, in the
    /// flag's own order, before a swap that has not read it, as no machine may.
    pub struct AtomicBool(loom::sync::atomic::AtomicBool);

    impl AtomicBool {
        pub fn new(value: bool) -> AtomicBool {
            AtomicBool(loom::sync::atomic::AtomicBool::new(value))
        }

        pub fn store(&self, value: bool, order: Ordering) {
            self.0.swap(value, order);
        }

        pub fn swap(&self, value: bool, order: Ordering) -> bool {
            self.0.swap(value, order)
        }
    }

    /// A queue that is one step to whoever looks on.
    pub struct SegQueue<T>(Mutex<VecDeque<T>>);

    impl<T> SegQueue<T> {
        pub fn new() -> SegQueue<T> {
            SegQueue(Mutex::new(VecDeque::new()))
        }

        pub fn push(&self, one: T) {
            self.0.lock().unwrap().push_back(one);
        }

        pub fn pop(&self) -> Option<T> {
            self.0.lock().unwrap().pop_front()
        }

        pub fn len(&self) -> usize {
            self.0.lock().unwrap().len()
        }
    }

    /// As `SegQueue`, with an end.
    pub struct ArrayQueue<T> {
        most: usize,
        queue: Mutex<VecDeque<T>>,
    }

    impl<T> ArrayQueue<T> {
        pub fn new(most: usize) -> ArrayQueue<T> {
            let queue = Mutex::new(VecDeque::new());
            ArrayQueue { most, queue }
        }

        pub fn push(&self, one: T) -> Result<(), T> {
            let mut queue = self.queue.lock().unwrap();
            if queue.len() >= self.most {
                return Err(one);
            }
            queue.push_back(one);
            Ok(())
        }

        pub fn pop(&self) -> Option<T> {
            self.queue.lock().unwrap().pop_front()
        }

        pub fn len(&self) -> usize {
            self.queue.lock().unwrap().len()
        }
    }

    /// Time passes when the model says so: until `expire`, a wait has no end.
    #[derive(Default)]
    pub struct Condvar {
        inner: loom::sync::Condvar,
        expired: std::sync::atomic::AtomicBool,
    }

    pub struct TimedOut(bool);

    impl TimedOut {
        pub fn timed_out(&self) -> bool {
            self.0
        }
    }

    impl Condvar {
        pub fn notify_one(&self) {
            self.inner.notify_one();
        }

        pub fn wait_timeout<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
            _: Duration,
        ) -> LockResult<(MutexGuard<'a, T>, TimedOut)> {
            let expired = || self.expired.load(std::sync::atomic::Ordering::Relaxed);
            if expired() {
                return Ok((guard, TimedOut(true)));
            }
            let guard = self.inner.wait(guard).unwrap();
            Ok((guard, TimedOut(expired())))
        }

        /// Every wait ends now. To be called with the mutex held.
        pub fn expire(&self) {
            self.expired
                .store(true, std::sync::atomic::Ordering::Relaxed);
            self.inner.notify_all();
        }
    }
}
