// SPDX-License-Identifier: MPL-2.0
//! Standard error for a library: what is written there must not end the process, stop a thread, or
//! come out elsewhere.
#![allow(unsafe_code)]

use libc::STDERR_FILENO as STDERR;

use super::signal::without;

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
    let write = || {
        let at = line.as_ptr().cast();
        // SAFETY: readable for that many bytes.
        unsafe { libc::write(STDERR, at, line.len().min(MOST)) >= 0 }
    };
    without(libc::SIGPIPE, || without(libc::SIGXFSZ, write))
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
