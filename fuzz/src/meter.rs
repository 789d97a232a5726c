// SPDX-License-Identifier: MPL-2.0
//! How much memory something takes: a bound on it is a property like others.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Meter;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn more(bytes: usize) {
    let live = LIVE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(live, Ordering::Relaxed);
}

// SAFETY: all of it is the system's allocator; counting changes nothing.
unsafe impl GlobalAlloc for Meter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        more(layout.size());
        // SAFETY: the caller keeps the same promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the same promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static METER: Meter = Meter;

/// Run `body`, which may hold at most `most` bytes more than there are now.
///
/// # Panics
/// If it held more.
pub fn bounded<T>(most: usize, body: impl FnOnce() -> T) -> T {
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let done = body();
    let held = PEAK.load(Ordering::Relaxed) - before;
    assert!(held <= most, "{held} bytes held, {most} allowed");
    done
}
