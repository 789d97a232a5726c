// SPDX-License-Identifier: MPL-2.0
//! The raw corner: the few things of the operating system that the standard
//! library does not offer, in safe clothes.
#![allow(unsafe_code)]

pub mod addr;
pub mod bell;
pub mod pages;
pub mod signal;
pub mod stderr;
pub mod sync;
pub mod system;

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Once, OnceLock};

use libc::{c_int, socklen_t};

use crate::error::{Error, Result};

static GENERATION: AtomicU32 = AtomicU32::new(0);

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Notice forks from now on.
pub fn watch_fork() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: `in_child` is async-signal-safe: one atomic addition.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// Which process this is, counted in forks since the library was loaded: what
/// was made in another generation names things of the parent's.
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// State of the process. A forked child begins with a fresh one: a lock in the
/// parent's may be held by a thread that the child does not have.
pub struct PerProcess<T> {
    current: AtomicPtr<(u32, OnceLock<T>)>,
}

impl<T: Default + Send + Sync> PerProcess<T> {
    /// Nothing yet.
    pub const fn new() -> Self {
        PerProcess {
            current: AtomicPtr::new(null_mut()),
        }
    }

    /// This process's; made at first use, kept for good.
    pub fn get(&'static self) -> &'static T {
        let now = generation();
        let mut known = self.current.load(Ordering::Acquire);
        loop {
            // SAFETY: null, or leaked below and never freed.
            if let Some((made, state)) = unsafe { known.as_ref() } {
                if *made == now {
                    // Not before it is in place: of two threads that come first only one makes
                    // it, for what is made may last, and nobody could drop it.
                    return state.get_or_init(T::default);
                }
            }
            let fresh = Box::into_raw(Box::new((now, OnceLock::new())));
            let swap = (Ordering::AcqRel, Ordering::Acquire);
            match self.current.compare_exchange(known, fresh, swap.0, swap.1) {
                Ok(_) => known = fresh,
                Err(theirs) => {
                    // SAFETY: made above, and nobody else has seen it.
                    drop(unsafe { Box::from_raw(fresh) });
                    known = theirs;
                }
            }
        }
    }
}

impl<T: Default + Send + Sync> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// An error of the standard library as ours.
pub fn failed(op: &'static str, error: &std::io::Error) -> Error {
    Error::Device {
        op,
        code: error.raw_os_error().unwrap_or(libc::EIO),
    }
}

/// Bytes of a thread's stack. As the standard library's default, which it would look for in the environment.
const STACK: usize = 2 << 20;

/// Start a thread of the library: named, with all signals blocked, so that
/// the program's handlers never run on it.
pub fn spawn(name: &'static str, body: fn()) -> Result<()> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `all` is valid for writes.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: `all` was initialised by sigfillset, `before` is valid for writes.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
    let new = std::thread::Builder::new().name(name.into());
    let spawned = new.stack_size(STACK).spawn(body);
    // SAFETY: `before` was initialised by the call above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    match spawned {
        Ok(_detached) => Ok(()),
        Err(error) => Err(failed("pthread_create", &error)),
    }
}

/// Types of which any bytes, zeros among them, are a value.
pub trait Plain {}
impl Plain for c_int {}

/// Set a socket's option of a number.
pub fn set_option(fd: RawFd, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    set_option_bytes(fd, level, name, &value.to_ne_bytes())
}

/// Set a socket's option of so many bytes.
pub fn set_option_bytes(fd: RawFd, level: c_int, name: c_int, value: &[u8]) -> io::Result<()> {
    let at = value.as_ptr().cast();
    let len = value.len() as socklen_t;
    // SAFETY: `at` is readable for `len` bytes.
    if unsafe { libc::setsockopt(fd, level, name, at, len) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// A socket's option.
pub fn get_option<T: Plain>(fd: RawFd, level: c_int, name: c_int) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as socklen_t;
    // SAFETY: writable for `len` bytes. An older kernel fills fewer.
    if unsafe { libc::getsockopt(fd, level, name, value.as_mut_ptr().cast(), &mut len) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `Plain` types are valid all-zero and with any bytes over that.
    Ok(unsafe { value.assume_init() })
}

/// Index of a network interface, by name or by number.
pub fn interface_index(zone: &str) -> Option<u32> {
    if let Ok(index) = zone.parse() {
        return Some(index);
    }
    let name = CString::new(zone).ok()?;
    // SAFETY: `name` is a NUL-terminated string.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => None,
        index => Some(index),
    }
}

/// Block until `fd` is readable, hung up or in error. For tests and tools.
pub fn wait_readable(fd: RawFd) {
    wait(fd, libc::POLLIN);
}

/// Block until `fd` has one of `events` (`POLLIN`, `POLLOUT`), or an error. For tests and tools.
pub fn wait(fd: RawFd, events: libc::c_short) {
    let mut poll = libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    // SAFETY: one pollfd, valid for reads and writes.
    unsafe { libc::poll(&mut poll, 1, 10_000) };
}

/// As `wait`, for so long at most; whether it came.
pub fn wait_for(fd: RawFd, events: libc::c_short, time: std::time::Duration) -> bool {
    let mut poll = libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    let ms = i32::try_from(time.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: one pollfd, valid for reads and writes.
    unsafe { libc::poll(&mut poll, 1, ms) > 0 }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn of_threads_that_come_first_one_makes_the_state() {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        struct Counted;
        impl Default for Counted {
            fn default() -> Self {
                MADE.fetch_add(1, Ordering::Relaxed);
                // Room for the others to come in between.
                std::thread::yield_now();
                Counted
            }
        }
        const ROUNDS: usize = 100;
        for _ in 0..ROUNDS {
            let state: &'static PerProcess<Counted> = Box::leak(Box::default());
            let start = Barrier::new(4);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        start.wait();
                        state.get();
                    });
                }
            });
        }
        assert_eq!(MADE.load(Ordering::Relaxed), ROUNDS);
    }
}
