// SPDX-License-Identifier: MPL-2.0
//! macOS.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicU64;

use libc::{c_int, sockaddr_storage, socklen_t};

pub use super::bsd::*;
use crate::error::{Error, Result};
use crate::os::{self, set_option};

/// The option that says after how many idle seconds TCP asks whether the peer is there.
pub const KEEP_IDLE: c_int = libc::TCP_KEEPALIVE;

/// A TCP socket of an address family, non-blocking, closed on exec.
pub fn open(family: c_int) -> io::Result<OwnedFd> {
    // SAFETY: socket takes no pointers.
    ours(unsafe { libc::socket(family, libc::SOCK_STREAM, libc::IPPROTO_TCP) })
}

/// The next connection of a listening socket, non-blocking, closed on exec; its peer's address
/// goes to `from`.
pub fn accept(listener: RawFd, from: &mut sockaddr_storage) -> io::Result<OwnedFd> {
    let mut len = size_of::<sockaddr_storage>() as socklen_t;
    let at: *mut sockaddr_storage = from;
    // SAFETY: `at` has room for `len` bytes of address.
    ours(unsafe { libc::accept(listener, at.cast(), &mut len) })
}

/// Made as we want it, though not at once: a fork and exec in another thread may have it for good.
fn ours(fd: c_int) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` was just made by the kernel for us, and nobody else knows it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: plain numbers.
    let exec = unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    // SAFETY: plain numbers.
    let block = unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) };
    if exec < 0 || block < 0 {
        return Err(io::Error::last_os_error());
    }
    // Older kernels do not know MSG_NOSIGNAL.
    set_option(fd, libc::SOL_SOCKET, libc::SO_NOSIGPIPE, 1)?;
    Ok(socket)
}

/// A pair of sockets: the one is readable from the first `ring` until `silence`.
pub struct Bell {
    heard: UnixStream,
    rung: UnixStream,
}

impl Bell {
    /// One that does not ring.
    pub fn new() -> Result<Bell> {
        let made = UnixStream::pair().and_then(|(heard, rung)| {
            heard.set_nonblocking(true)?;
            rung.set_nonblocking(true)?;
            Ok(Bell { heard, rung })
        });
        made.map_err(|e| os::failed("socketpair", &e))
    }

    /// Make it readable. Any thread may.
    pub fn ring(&self) {
        // It fails only when it is full: then it rings already.
        let _ = (&self.rung).write(&[1]);
    }

    /// Make it unreadable.
    pub fn silence(&self) {
        let mut room = [0; 64];
        while matches!((&self.heard).read(&mut room), Ok(n) if n > 0) {}
    }

    /// The descriptor.
    pub fn fd(&self) -> RawFd {
        self.heard.as_raw_fd()
    }
}

/// Not to be had: no process can find another's memory by a name.
pub fn shared_words(_: &CStr, _: usize) -> Result<&'static [AtomicU64]> {
    Err(Error::Device {
        op: "memfd_create",
        code: libc::ENOTSUP,
    })
}

/// Bytes that nobody can guess.
pub fn fill_random(bytes: &mut [u8; 4]) -> io::Result<()> {
    // SAFETY: `bytes` is writable for its length.
    if unsafe { libc::getentropy(bytes.as_mut_ptr().cast(), bytes.len()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
