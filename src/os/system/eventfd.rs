// SPDX-License-Identifier: MPL-2.0
//! A bell of one descriptor.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::error::Result;
use crate::os;

/// An eventfd: readable from the first `ring` until `silence`.
pub struct Bell(OwnedFd);

impl Bell {
    /// One that does not ring.
    pub fn new() -> Result<Bell> {
        // SAFETY: no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(os::failed("eventfd", &std::io::Error::last_os_error()));
        }
        // SAFETY: just opened, and ours alone.
        Ok(Bell(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Make it readable. Any thread may.
    pub fn ring(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: eight readable bytes. It fails only when the counter is full: then it rings already.
        unsafe { libc::write(self.fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Make it unreadable.
    pub fn silence(&self) {
        let mut count = [0u8; 8];
        // SAFETY: eight writable bytes. It fails only when it does not ring.
        unsafe { libc::read(self.fd(), count.as_mut_ptr().cast(), count.len()) };
    }

    /// The descriptor.
    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
