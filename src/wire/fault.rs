// SPDX-License-Identifier: MPL-2.0
//! What may be wrong with a peer's iWARP bytes, with the code that a
//! TERMINATE carries for it (RFC 5040 section 4.8, RFC 5041 section 7.2,
//! RFC 5044 section 8, RFC 6581 section 8; IANA registry "rddp").

use crate::error::Error;

/// Layer, error type and error code of a TERMINATE. Codes that this library
/// does not know are kept as they came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cause {
    /// 4 bits: 0 RDMAP, 1 DDP, 2 MPA.
    pub layer: u8,
    /// 4 bits, meaning set by the layer.
    pub kind: u8,
    /// Meaning set by layer and kind.
    pub code: u8,
}

/// The peer broke a rule: what it did, and what to tell it before closing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// For the TERMINATE.
    pub cause: Cause,
    /// For people.
    pub what: &'static str,
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        Error::Malformed(fault.what)
    }
}
