// SPDX-License-Identifier: MPL-2.0
//! The kernel's random bytes, by getrandom.
#![allow(unsafe_code)]

use std::io;

/// Bytes that nobody can guess.
pub fn fill_random(bytes: &mut [u8; 4]) -> io::Result<()> {
    // SAFETY: `bytes` is writable for its length. So few come whole.
    let n = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if n == bytes.len() as isize {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}
