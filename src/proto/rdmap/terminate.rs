// SPDX-License-Identifier: MPL-2.0
//! The last word on a stream that broke (RFC 5040 sections 4.8 and 7).

use crate::error::Error;
use crate::wire::ddp::Header;
use crate::wire::fault::Fault;
use crate::wire::rdmap::TERMINATE_MAX;

/// A TERMINATE to send.
#[derive(Debug, Clone, Copy)]
pub struct Terminate {
    bytes: [u8; TERMINATE_MAX],
    len: u8,
}

impl Terminate {
    /// For this fault. `ulpdu` is the segment that gave offence, if there was
    /// one and its CRC was right.
    pub fn new(fault: &Fault, ulpdu: Option<&[u8]>) -> Terminate {
        let _ = (fault, ulpdu);
        Terminate {
            bytes: [0; TERMINATE_MAX],
            len: 0,
        }
    }

    /// Its DDP header; it is one segment.
    pub fn header(&self) -> Header {
        todo!()
    }

    /// Its payload.
    pub fn payload(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}

/// The peer's TERMINATE as an error to report (`Error::Reset`, or `Malformed` if it is
/// nonsense itself).
pub fn on_terminate(payload: &[u8]) -> Error {
    let _ = payload;
    todo!()
}
