// SPDX-License-Identifier: MPL-2.0
//! FreeBSD, 13 or later.
#![allow(unsafe_code)]

use std::io;

use libc::c_int;

pub use super::atomic_socket::{accept, open};
pub use super::bsd::*;
pub use super::eventfd::Bell;
pub use super::memfd::shared_words;

/// The option that says after how many idle seconds TCP asks whether the peer is there.
pub const KEEP_IDLE: c_int = libc::TCP_KEEPIDLE;

/// Bytes that nobody can guess.
pub fn fill_random(bytes: &mut [u8; 4]) -> io::Result<()> {
    // SAFETY: `bytes` is writable for its length. So few come whole.
    let n = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if n == bytes.len() as isize {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}
