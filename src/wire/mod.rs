// SPDX-License-Identifier: MPL-2.0
//! Bytes to values and back: no state, no allocation sized by the peer.

pub mod crc32c;
pub mod ddp;
pub mod fault;
pub mod frame;
pub mod hello;
pub mod mark;
pub mod mpa;
pub mod rdmap;
