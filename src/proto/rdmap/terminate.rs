// SPDX-License-Identifier: MPL-2.0
//! The last word on a stream that broke (RFC 5040 sections 4.8 and 7).

use crate::error::Error;
use crate::wire::ddp::{Header, Untagged};
use crate::wire::fault::{Cause, Fault};
use crate::wire::rdmap::{self, Offender, Opcode, QN_TERMINATE, READ_REQUEST_LEN, TERMINATE_MAX};

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
        let mut bytes = [0; TERMINATE_MAX];
        let terminate = rdmap::Terminate {
            cause: fault.cause,
            segment: ulpdu.and_then(|ulpdu| offender(fault.cause, ulpdu)),
        };
        let len = terminate.encode(&mut bytes) as u8;
        Terminate { bytes, len }
    }

    /// Its DDP header; it is one segment.
    pub fn header(&self) -> Header {
        Header::Untagged(Untagged {
            last: true,
            ulp: Opcode::Terminate.control(),
            ulp_word: 0,
            qn: QN_TERMINATE,
            msn: 1,
            mo: 0,
        })
    }

    /// Its payload.
    pub fn payload(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}

/// What is told of the segment: nothing for errors that are no segment's or
/// that leave its layout in doubt; its DDP header for the others; its RDMAP header as
/// well when a READ request met a protection error.
fn offender(cause: Cause, ulpdu: &[u8]) -> Option<Offender<'_>> {
    const RDMAP: u8 = 0;
    const MPA: u8 = 2;
    const CATASTROPHIC: u8 = 0;
    const PROTECTION: u8 = 1;
    let nameless = matches!(
        cause,
        Cause::RDMAP_VERSION | Cause::OPCODE | Cause::TAGGED_VERSION | Cause::UNTAGGED_VERSION
    );
    if nameless || cause.layer >= MPA || cause.kind == CATASTROPHIC {
        return None;
    }
    let header = Header::decode(ulpdu).ok()?;
    let (ddp, payload) = ulpdu.split_at(header.len());
    let read = cause.layer == RDMAP
        && cause.kind == PROTECTION
        && Opcode::of(&header) == Ok(Opcode::ReadRequest);
    Some(Offender {
        len: u16::try_from(ulpdu.len()).ok()?,
        ddp,
        rdmap: if read {
            payload.get(..READ_REQUEST_LEN)?
        } else {
            &[]
        },
    })
}

/// The peer's TERMINATE as an error to report (`Error::Reset`, or `Malformed` if it is
/// nonsense itself).
pub fn on_terminate(payload: &[u8]) -> Error {
    match rdmap::Terminate::decode(payload) {
        Ok(terminate) => Error::Reset(format!("the peer ended the stream: {}", terminate.cause)),
        Err(fault) => fault.into(),
    }
}
