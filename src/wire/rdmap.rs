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

const VERSION_MASK: u8 = 0xc0;
const VERSION: u8 = 0x40;
const OPCODE_MASK: u8 = 0x0f;

impl SendKind {
    /// Whether the header's `ulp_word` is a stag to invalidate.
    pub const fn invalidates(self) -> bool {
        matches!(self, SendKind::Invalidate | SendKind::SolicitedInvalidate)
    }
}

impl Opcode {
    /// The message that a segment belongs to: checks version, opcode, and that
    /// the DDP model and queue are the opcode's.
    #[inline]
    pub fn of(header: &Header) -> Result<Opcode, Fault> {
        let control = header.ulp();
        if control & VERSION_MASK != VERSION {
            return Err(Fault::new(Cause::RDMAP_VERSION, "RDMAP version is not 1"));
        }
        let opcode = match control & OPCODE_MASK {
            0 => Opcode::Write,
            1 => Opcode::ReadRequest,
            2 => Opcode::ReadResponse,
            3 => Opcode::Send(SendKind::Plain),
            4 => Opcode::Send(SendKind::Invalidate),
            5 => Opcode::Send(SendKind::Solicited),
            6 => Opcode::Send(SendKind::SolicitedInvalidate),
            7 => Opcode::Terminate,
            _ => return Err(Fault::new(Cause::OPCODE, "unknown RDMAP opcode")),
        };
        match (header, opcode.queue()) {
            (Header::Tagged(_), None) => Ok(opcode),
            (Header::Untagged(h), Some(qn)) if h.qn == qn => Ok(opcode),
            (Header::Untagged(_), Some(_)) => Err(Fault::new(
                Cause::UNTAGGED_QN,
                "RDMAP message in the wrong queue",
            )),
            _ => Err(Fault::new(
                Cause::OPCODE,
                "RDMAP opcode in the wrong kind of segment",
            )),
        }
    }

    /// The queue of an untagged message.
    #[inline]
    pub const fn queue(self) -> Option<u32> {
        match self {
            Opcode::Write | Opcode::ReadResponse => None,
            Opcode::Send(_) => Some(QN_SEND),
            Opcode::ReadRequest => Some(QN_READ),
            Opcode::Terminate => Some(QN_TERMINATE),
        }
    }

    /// The control byte: version and opcode.
    #[inline]
    pub const fn control(self) -> u8 {
        VERSION
            | match self {
                Opcode::Write => 0,
                Opcode::ReadRequest => 1,
                Opcode::ReadResponse => 2,
                Opcode::Send(SendKind::Plain) => 3,
                Opcode::Send(SendKind::Invalidate) => 4,
                Opcode::Send(SendKind::Solicited) => 5,
                Opcode::Send(SendKind::SolicitedInvalidate) => 6,
                Opcode::Terminate => 7,
            }
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
        let Ok(p) = <&[u8; READ_REQUEST_LEN]>::try_from(payload) else {
            return Err(Fault::new(
                Cause::RDMAP_UNSPECIFIED,
                "READ request is not 28 bytes long",
            ));
        };
        Ok(ReadRequest {
            sink_stag: be32(p, 0),
            sink_to: be64(p, 4),
            len: be32(p, 12),
            source_stag: be32(p, 16),
            source_to: be64(p, 20),
        })
    }

    /// The payload.
    pub fn encode(&self) -> [u8; READ_REQUEST_LEN] {
        let mut p = [0; READ_REQUEST_LEN];
        p[..4].copy_from_slice(&self.sink_stag.to_be_bytes());
        p[4..12].copy_from_slice(&self.sink_to.to_be_bytes());
        p[12..16].copy_from_slice(&self.len.to_be_bytes());
        p[16..20].copy_from_slice(&self.source_stag.to_be_bytes());
        p[20..].copy_from_slice(&self.source_to.to_be_bytes());
        p
    }
}

/// The caller has checked that the bytes are there.
fn be32(bytes: &[u8; READ_REQUEST_LEN], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn be64(bytes: &[u8; READ_REQUEST_LEN], at: usize) -> u64 {
    u64::from(be32(bytes, at)) << 32 | u64::from(be32(bytes, at + 4))
}

/// A TERMINATE's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terminate<'a> {
    /// Why.
    pub cause: Cause,
    /// The segment that gave offence, when it is told.
    pub segment: Option<Offender<'a>>,
}

/// What a TERMINATE tells of the segment that gave offence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offender<'a> {
    /// Its ULPDU length.
    pub len: u16,
    /// Its DDP header.
    pub ddp: &'a [u8],
    /// Its RDMAP header (a READ request's payload), or nothing.
    pub rdmap: &'a [u8],
}

/// M: the segment length is valid; D: the DDP header is there; R: the RDMAP header is.
const HAS_LENGTH: u8 = 0x80;
const HAS_DDP: u8 = 0x40;
const HAS_RDMAP: u8 = 0x20;
const CONTROL_LEN: usize = 4;

impl<'a> Terminate<'a> {
    /// Read the payload of a TERMINATE segment.
    pub fn decode(payload: &'a [u8]) -> Result<Terminate<'a>, Fault> {
        const SHORT: Fault = Fault::new(Cause::RDMAP_UNSPECIFIED, "TERMINATE cut short");
        let (control, rest) = payload.split_first_chunk::<CONTROL_LEN>().ok_or(SHORT)?;
        let cause = Cause {
            layer: control[0] >> 4,
            kind: control[0] & 0x0f,
            code: control[1],
        };
        let flags = control[2];
        if flags & (HAS_LENGTH | HAS_DDP) != HAS_LENGTH | HAS_DDP {
            return Ok(Terminate {
                cause,
                segment: None,
            });
        }
        let (len, rest) = rest.split_first_chunk::<2>().ok_or(SHORT)?;
        let ddp_len = Header::len_of(*rest.first().ok_or(SHORT)?);
        let (ddp, rest) = rest.split_at_checked(ddp_len).ok_or(SHORT)?;
        let rdmap = if flags & HAS_RDMAP != 0 {
            rest.get(..READ_REQUEST_LEN).ok_or(SHORT)?
        } else {
            &[]
        };
        let segment = Some(Offender {
            len: u16::from_be_bytes(*len),
            ddp,
            rdmap,
        });
        Ok(Terminate { cause, segment })
    }

    /// Write the payload to the start of `out`; returns its length.
    ///
    /// # Panics
    /// If a header is longer than any is.
    pub fn encode(&self, out: &mut [u8; TERMINATE_MAX]) -> usize {
        out[0] = self.cause.layer << 4 | self.cause.kind & 0x0f;
        out[1] = self.cause.code;
        out[2] = 0;
        out[3] = 0;
        let Some(segment) = self.segment else {
            return CONTROL_LEN;
        };
        out[2] = HAS_LENGTH | HAS_DDP;
        if !segment.rdmap.is_empty() {
            out[2] |= HAS_RDMAP;
        }
        let mut at = CONTROL_LEN;
        for part in [&segment.len.to_be_bytes()[..], segment.ddp, segment.rdmap] {
            out[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        at
    }
}
