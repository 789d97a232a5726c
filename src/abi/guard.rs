// SPDX-License-Identifier: MPL-2.0
//! What stands in every door: no null, no use in a forked child, no panic
//! across, and no second entry into what a panic left half done.
#![allow(unsafe_code)]

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Once;

use super::log::{line, Level};

static FORKED: AtomicBool = AtomicBool::new(false);

extern "C" fn in_child() {
    FORKED.store(true, Ordering::Relaxed);
}

/// From the first door on, a child of fork finds every door shut: what the
/// handles name (descriptors, queue pairs) is the parent's.
pub fn watch_fork() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: `in_child` is async-signal-safe: one store.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// Run the body of a door.
pub fn door(name: &str, body: impl FnOnce() -> i32) -> i32 {
    if FORKED.load(Ordering::Relaxed) {
        return -libc::ECANCELED;
    }
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result,
        Err(_) => {
            line(Level::Error, || {
                format!("defect in {name}; this one connection is dead, please report it")
            });
            -libc::ECONNABORTED
        }
    }
}
