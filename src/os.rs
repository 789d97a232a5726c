// SPDX-License-Identifier: MPL-2.0
//! The raw corner: the few things of the operating system that the standard
//! library does not offer, in safe clothes.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::os::fd::RawFd;

use crate::error::{Error, Result};

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
