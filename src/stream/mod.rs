// SPDX-License-Identifier: MPL-2.0
//! A lossless ordered byte stream over one device connection: bind, connect,
//! send and receive bytes, turn the crank. Everything is non-blocking.

pub mod dial;
mod inbox;
pub mod link;
pub mod listen;
mod loans;
pub mod resolve;
pub mod sizes;
pub mod tally;

// What whoever opens a link must name, so that the doors above know this room only.
pub use crate::device::region::pool::{self, CAP as POOL_CAP};
pub use crate::device::{interface_of, Choice, Options, Ready};

#[cfg(test)]
mod pair_tests;
