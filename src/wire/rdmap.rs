// SPDX-License-Identifier: MPL-2.0
//! RDMAP on the wire (RFC 5040 section 4): the control byte, the READ request
//! and the TERMINATE.

use super::ddp::Header;
use super::fault::{Cause, Fault};

/// Queue of SENDs.
pub const QN_SEND: u32 = 0;
/// Queue of READ requests.
pub const QN_READ: u32 = 1;
/// Queue of the TERMINATE.
pub const QN_TERMINATE: u32 = 2;
/// Bytes of a READ request after its DDP header.
pub const READ_REQUEST_LEN: usize = 28;
/// Most bytes of a TERMINATE after its DDP header.
pub const TERMINATE_MAX: usize = 4 + 2 + 18 + READ_REQUEST_LEN;

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opcode {
    /// RDMA WRITE (tagged).
    Write,
    /// RDMA READ request (queue 1).
    ReadRequest,
    /// RDMA READ response (tagged).
    ReadResponse,
    /// SEND (queue 0), of any of its four kinds.
    Send(SendKind),
    /// TERMINATE (queue 2).
    Terminate,
}

/// The four SENDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendKind {
    /// SEND.
    Plain,
    /// SEND with invalidate: the header's `ulp_word` is the stag.
    Invalidate,
    /// SEND with solicited event.
    Solicited,
    /// SEND with solicited event and invalidate.
    SolicitedInvalidate,
}

impl Opcode {
    /// The message that a segment belongs to: checks version, opcode, and that
    /// the DDP model and queue are the opcode's.
    #[inline]
    pub fn of(header: &Header) -> Result<Opcode, Fault> {
        let _ = header;
        todo!()
    }

    /// The control byte: version and opcode.
    #[inline]
    pub fn control(self) -> u8 {
        todo!()
    }
}

/// A READ request: copy `len` bytes from the receiver's `source` to the sender's `sink`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadRequest {
    /// Stag of the requester's buffer.
    pub sink_stag: u32,
    /// Tagged offset there.
    pub sink_to: u64,
    /// Bytes.
    pub len: u32,
    /// Stag of the responder's buffer.
    pub source_stag: u32,
    /// Tagged offset there.
    pub source_to: u64,
}

impl ReadRequest {
    /// Read the payload of a READ request segment.
    pub fn decode(payload: &[u8]) -> Result<ReadRequest, Fault> {
        let _ = payload;
        todo!()
    }

    /// The payload.
    pub fn encode(&self) -> [u8; READ_REQUEST_LEN] {
        todo!()
    }
}

/// A TERMINATE's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terminate<'a> {
    /// Why.
    pub cause: Cause,
    /// ULPDU length of the segment that gave offence.
    pub segment_len: Option<u16>,
    /// Its DDP header.
    pub ddp_header: Option<&'a [u8]>,
    /// Its RDMAP header (a READ request's payload).
    pub rdmap_header: Option<&'a [u8]>,
}

impl<'a> Terminate<'a> {
    /// Read the payload of a TERMINATE segment.
    pub fn decode(payload: &'a [u8]) -> Result<Terminate<'a>, Fault> {
        let _ = payload;
        todo!()
    }

    /// Write the payload to the start of `out`; returns its length.
    pub fn encode(&self, out: &mut [u8; TERMINATE_MAX]) -> usize {
        let _ = out;
        todo!()
    }
}
