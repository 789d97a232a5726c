// SPDX-License-Identifier: MPL-2.0
//! TCP sockets, non-blocking and closed on exec from the first moment.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use libc::{c_int, sockaddr_storage, socklen_t};

/// A TCP socket of an address family, non-blocking, closed on exec.
pub fn open(family: c_int) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: socket takes no pointers.
    ours(unsafe { libc::socket(family, kind, libc::IPPROTO_TCP) })
}

/// The next connection of a listening socket, non-blocking, closed on exec; its peer's address
/// goes to `from`.
pub fn accept(listener: RawFd, from: &mut sockaddr_storage) -> io::Result<OwnedFd> {
    let mut len = size_of::<sockaddr_storage>() as socklen_t;
    let at: *mut sockaddr_storage = from;
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: `at` has room for `len` bytes of address.
    ours(unsafe { libc::accept4(listener, at.cast(), &mut len, flags) })
}

fn ours(fd: c_int) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` was just made by the kernel for us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
