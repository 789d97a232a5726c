// SPDX-License-Identifier: MPL-2.0
//! FreeBSD, 13 or later.

use libc::c_int;

pub use super::atomic_socket::{accept, open};
pub use super::bsd::*;
pub use super::eventfd::Bell;
pub use super::memfd::shared_words;
pub use super::random::fill_random;

/// The option that says after how many idle seconds TCP asks whether the peer is there.
pub const KEEP_IDLE: c_int = libc::TCP_KEEPIDLE;
