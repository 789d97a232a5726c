// SPDX-License-Identifier: MPL-2.0
//! The raw corner: the few things of the operating system that the standard
//! library does not offer, in safe clothes.
#![allow(unsafe_code)]

pub mod addr;
pub mod bell;
pub mod sync;

use std::ffi::{CStr, CString};
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::Once;

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
    current: AtomicPtr<(u32, T)>,
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
                    return state;
                }
            }
            let fresh = Box::into_raw(Box::new((now, T::default())));
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

/// Start a thread of the library: named, with all signals blocked, so that
/// the program's handlers never run on it.
pub fn spawn(name: &'static str, body: fn()) -> Result<()> {
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `all` is valid for writes.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: `all` was initialised by sigfillset, `before` is valid for writes.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
    let spawned = std::thread::Builder::new().name(name.into()).spawn(body);
    // SAFETY: `before` was initialised by the call above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    match spawned {
        Ok(_detached) => Ok(()),
        Err(error) => Err(failed("pthread_create", &error)),
    }
}

/// `len` words of memory, all zero, that other processes can find by `name` among this
/// one's descriptors (`/proc/PID/fd`), and map or read as far as the kernel lets them trace it. It
/// stays for good, of this size, and takes room only where it was written to. After a fork the child
/// has it too; after an exec it is gone.
pub fn shared_words(name: &CStr, len: usize) -> Result<&'static [AtomicU64]> {
    let bytes = len * size_of::<AtomicU64>();
    let failed_now = |op| failed(op, &std::io::Error::last_os_error());
    // SAFETY: a NUL-terminated string.
    let fd =
        unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    if fd < 0 {
        return Err(failed_now("memfd_create"));
    }
    // SAFETY: just made, and nobody else has it.
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: plain numbers.
    if unsafe { libc::ftruncate(fd, bytes as libc::off_t) } != 0 {
        return Err(failed_now("ftruncate"));
    }
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: plain numbers.
    if unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, seals) } != 0 {
        return Err(failed_now("F_ADD_SEALS"));
    }
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping of the size of the file, at no address of ours.
    let start = unsafe { libc::mmap(null_mut(), bytes, access, libc::MAP_SHARED, fd, 0) };
    if start == libc::MAP_FAILED {
        return Err(failed_now("mmap"));
    }
    // Its name in /proc must stay.
    let _ = file.into_raw_fd();
    // SAFETY: mapped above, aligned to a page, never unmapped; nothing but
    // atomics refers to it, and its size is sealed.
    Ok(unsafe { std::slice::from_raw_parts(start.cast(), len) })
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
