// SPDX-License-Identifier: MPL-2.0
//! A descriptor that one thread makes readable for another, and what is handed
//! over with it.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use super::sync::{AtomicBool, Mutex, MutexGuard};
use crate::error::Result;

#[cfg(not(loom))]
pub use super::system::Bell;
#[cfg(loom)]
pub use model::Bell;

/// What one thread hands over to another, in order. The receiver waits for the bell.
pub struct Handover<T> {
    bell: Bell,
    rung: AtomicBool,
    waiting: Mutex<VecDeque<T>>,
}

impl<T> Handover<T> {
    /// Nothing yet.
    pub fn new() -> Result<Handover<T>> {
        Ok(Handover {
            bell: Bell::new()?,
            rung: AtomicBool::new(false),
            waiting: Mutex::new(VecDeque::new()),
        })
    }

    /// Rings while there is something to take.
    pub fn bell(&self) -> &Bell {
        &self.bell
    }

    /// Hand `one` over.
    pub fn put(&self, one: T) {
        self.lock().push_back(one);
        self.poke();
    }

    /// Wake the receiver, for nothing.
    pub fn poke(&self) {
        // In this order, so that whoever sees the flag also silences the bell.
        self.bell.ring();
        self.rung.store(true, Ordering::Release);
    }

    /// What came since the last time. Costs one load when nothing did.
    pub fn take(&self) -> VecDeque<T> {
        if !self.rung.swap(false, Ordering::Acquire) {
            return VecDeque::new();
        }
        // Before anything is taken: what comes in between rings again.
        self.bell.silence();
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.waiting.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// What the kernel does, in one step.
#[cfg(loom)]
mod model {
    use loom::sync::atomic::{AtomicBool, Ordering};

    use crate::error::Result;

    pub struct Bell(AtomicBool);

    impl Bell {
        pub fn new() -> Result<Bell> {
            Ok(Bell(AtomicBool::new(false)))
        }

        pub fn ring(&self) {
            self.0.swap(true, Ordering::SeqCst);
        }

        pub fn silence(&self) {
            self.0.swap(false, Ordering::SeqCst);
        }

        /// Whether the descriptor is readable; not any more, after that.
        pub fn rings(&self) -> bool {
            self.0.swap(false, Ordering::SeqCst)
        }
    }
}

#[cfg(all(test, loom))]
mod tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Whatever the order: nothing is lost, and as long as something waits, or
    /// will be told to wait, the bell rings.
    #[test]
    fn what_is_put_is_taken_or_rings() {
        loom::model(|| {
            let handover = Arc::new(Handover::new().unwrap());
            let putters: Vec<_> = (0..2)
                .map(|n| {
                    let handover = Arc::clone(&handover);
                    thread::spawn(move || handover.put(n))
                })
                .collect();
            let mut taken: Vec<i32> = Vec::new();
            taken.extend(handover.take());
            taken.extend(handover.take());
            putters
                .into_iter()
                .for_each(|putter| putter.join().unwrap());
            // As the receiver does: take when it rings.
            let rang = handover.bell().rings();
            assert!(rang || taken.len() == 2, "asleep with something waiting");
            if rang {
                handover.bell().ring();
                taken.extend(handover.take());
                assert!(!handover.bell().rings(), "it would ring for ever");
            }
            taken.sort_unstable();
            assert_eq!(taken, [0, 1]);
        });
    }
}
