// SPDX-License-Identifier: MPL-2.0
//! Standard error for a library: what is written there must not end the process, stop a thread, or
//! come out elsewhere.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ptr::null_mut;

use libc::{c_int, sigset_t, STDERR_FILENO as STDERR};

/// Bytes that a pipe takes at once if it takes any.
const MOST: usize = 4096;

/// Write the first 4096 bytes of `line`, in one call; whether they went. They do not where nobody reads, or not
/// now, or where descriptor 2 is no standard error.
pub fn write(line: &[u8]) -> bool {
    // Standard error outlives an exec. If it was closed, something else has its number: a socket
    // of libzmq's or ours, perhaps. Those close at an exec.
    // SAFETY: takes no pointer.
    let flags = unsafe { libc::fcntl(STDERR, libc::F_GETFD) };
    if flags < 0 || flags & libc::FD_CLOEXEC != 0 || !takes_more() {
        return false;
    }
    without_sigpipe(|| {
        let at = line.as_ptr().cast();
        // SAFETY: readable for that many bytes.
        unsafe { libc::write(STDERR, at, line.len().min(MOST)) >= 0 }
    })
}

/// Whether a write would not block: its reader may be stopped.
fn takes_more() -> bool {
    let mut poll = libc::pollfd {
        fd: STDERR,
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: one pollfd, valid for reads and writes.
    unsafe { libc::poll(&mut poll, 1, 0) == 1 }
}

/// Run `write` so that a pipe without a reader is no more than an error to it.
fn without_sigpipe(write: impl FnOnce() -> bool) -> bool {
    let mut sigpipe = MaybeUninit::<sigset_t>::uninit();
    let mut before = MaybeUninit::<sigset_t>::uninit();
    // SAFETY: valid for writes.
    unsafe { libc::sigemptyset(sigpipe.as_mut_ptr()) };
    // SAFETY: initialised by sigemptyset.
    unsafe { libc::sigaddset(sigpipe.as_mut_ptr(), libc::SIGPIPE) };
    // One that was pending before is the program's.
    let theirs = is_pending();
    // SAFETY: the one was initialised above, the other is valid for writes.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, sigpipe.as_ptr(), before.as_mut_ptr()) };
    let done = write();
    if !theirs && is_pending() {
        let mut signal: c_int = 0;
        // SAFETY: the set was initialised above; it is pending, so this does not wait.
        unsafe { libc::sigwait(sigpipe.as_ptr(), &mut signal) };
    }
    // SAFETY: `before` was initialised by the call above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), null_mut()) };
    done
}

/// Whether this thread has a SIGPIPE that is blocked.
fn is_pending() -> bool {
    let mut pending = MaybeUninit::<sigset_t>::zeroed();
    // SAFETY: valid for writes.
    unsafe { libc::sigpending(pending.as_mut_ptr()) };
    // SAFETY: initialised by sigpending, or all zeros, which is an empty set.
    unsafe { libc::sigismember(pending.as_ptr(), libc::SIGPIPE) == 1 }
}
