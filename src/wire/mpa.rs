// SPDX-License-Identifier: MPL-2.0
//! MPA on the wire: the frames that set a connection up (RFC 5044 section
//! 7.1.1, RFC 6581 section 4) and the arithmetic of FPDUs (RFC 5044 section 4).

use super::fault::Fault;

/// Bytes of a request or reply frame before its private data.
pub const SETUP_LEN: usize = 20;
/// Most bytes of private data, the enhanced-setup words included.
pub const PRIVATE_MAX: usize = 512;
/// Bytes of the length field that opens an FPDU.
pub const LENGTH_LEN: usize = 2;
/// Bytes of the CRC field that ends an FPDU; it is there even when unused.
pub const CRC_LEN: usize = 4;
/// Largest ULPDU that the length field can say.
pub const ULPDU_MAX: usize = 0xffff;
/// IRD or ORD that says "not negotiated here" (RFC 6581 section 6).
pub const DEPTH_UNSPECIFIED: u16 = 0x3fff;

/// Which of the two frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// From the side that connected.
    Request,
    /// From the side that listened.
    Reply,
}

/// MPA revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Revision {
    /// RFC 5044.
    One = 1,
    /// RFC 6581.
    Two = 2,
}

/// The words that RFC 6581 puts before the private data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Enhanced {
    /// A: the peer-to-peer model, in which the initiator sends a
    /// ready-to-receive indication before anything else.
    pub peer_to_peer: bool,
    /// B: that indication may be (request) or is (reply) a zero-length FPDU (SEND).
    pub rtr_send: bool,
    /// C: ... a zero-length RDMA WRITE.
    pub rtr_write: bool,
    /// D: ... a zero-length RDMA READ.
    pub rtr_read: bool,
    /// READs of the peer that the sender of this frame can have open, 14 bits.
    pub ird: u16,
    /// READs that the sender of this frame wants to have open, 14 bits.
    pub ord: u16,
}

/// A request or reply frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setup<'a> {
    /// Request or reply.
    pub kind: Kind,
    /// M: the sender of this frame wants markers in what it receives.
    pub markers: bool,
    /// C: the sender of this frame wants CRCs used.
    pub crc: bool,
    /// R: a refusal (reply only).
    pub reject: bool,
    /// Revision of the frame.
    pub revision: Revision,
    /// S: the RFC 6581 words, when they are there.
    pub enhanced: Option<Enhanced>,
    /// What is the consumer's.
    pub private: &'a [u8],
}

/// What a decoder made of the bytes so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded<T> {
    /// Call again with at least this many bytes.
    Need(usize),
    /// A value, and how many bytes it took.
    Value(T, usize),
}

impl<'a> Setup<'a> {
    /// Read the frame that `bytes` starts with. A stranger's bytes are refused
    /// at the first that differs from the key.
    pub fn decode(kind: Kind, bytes: &'a [u8]) -> Result<Decoded<Setup<'a>>, Fault> {
        let _ = (kind, bytes);
        todo!()
    }

    /// Append the frame to `out`.
    ///
    /// # Panics
    /// If the private data is longer than [`PRIVATE_MAX`] allows.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let _ = out;
        todo!()
    }
}

/// Pad bytes that follow a ULPDU of this length.
#[inline]
pub const fn pad_len(ulpdu_len: usize) -> usize {
    (4 - (LENGTH_LEN + ulpdu_len) % 4) % 4
}

/// Bytes on the wire of an FPDU without markers.
#[inline]
pub const fn fpdu_len(ulpdu_len: usize) -> usize {
    LENGTH_LEN + ulpdu_len + pad_len(ulpdu_len) + CRC_LEN
}
