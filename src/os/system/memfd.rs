// SPDX-License-Identifier: MPL-2.0
//! Memory that other processes can find.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::atomic::AtomicU64;

use crate::error::Result;
use crate::os::failed;

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
    let resize = || unsafe { libc::ftruncate(fd, bytes as libc::off_t) };
    // A limit on the size of files is no reason to end the process.
    if crate::os::signal::without(libc::SIGXFSZ, resize) != 0 {
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
