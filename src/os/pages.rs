// SPDX-License-Identifier: MPL-2.0
//! Whole pages of memory, straight from the system.

use std::ptr::{null_mut, NonNull};
use std::sync::OnceLock;

use super::failed;
use crate::error::Result;

/// Bytes of a page of this system: 4 KiB, or 16 or 64 on some.
pub fn size() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    *SIZE.get_or_init(|| {
        // SAFETY: no pointers.
        let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(size).unwrap_or(4096)
    })
}

/// A stretch of private memory, all zero at first; touched pages alone take room. After a fork the
/// child has it too, as a copy.
pub struct Pages {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: `Pages` owns its mapping, which is bound to no thread.
unsafe impl Send for Pages {}
// SAFETY: through a shared reference only its place is told.
unsafe impl Sync for Pages {}

impl Pages {
    /// Map `len` bytes, not 0; rounded up to whole pages by the system.
    pub fn map(len: usize) -> Result<Pages> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON;
        // SAFETY: a new mapping, at no address of ours.
        let start = unsafe { libc::mmap(null_mut(), len, access, flags, -1, 0) };
        let mapped = NonNull::new(start.cast()).filter(|_| start != libc::MAP_FAILED);
        match mapped {
            Some(start) => Ok(Pages { start, len }),
            None => Err(failed("mmap", &std::io::Error::last_os_error())),
        }
    }

    /// Where it begins, aligned to a page.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Bytes that were asked for.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped in `map`, unmapped only here; its owner lends it to nobody any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
