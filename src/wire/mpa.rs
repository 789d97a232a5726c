// SPDX-License-Identifier: MPL-2.0
//! MPA on the wire: the frames that set a connection up (RFC 5044 section
//! 7.1.1, RFC 6581 section 4) and the arithmetic of FPDUs (RFC 5044 section 4).

use super::fault::{Cause, Fault};

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

const REQUEST_KEY: &[u8; 16] = b"MPA ID Req Frame";
const REPLY_KEY: &[u8; 16] = b"MPA ID Rep Frame";
const MARKERS: u8 = 0x80;
const CRC: u8 = 0x40;
const REJECT: u8 = 0x20;
const ENHANCED: u8 = 0x10;
const ENHANCED_LEN: usize = 4;
/// Of both words of the enhanced setup: A and C; B and D; the depth.
const UPPER: u16 = 0x8000;
const LOWER: u16 = 0x4000;
const DEPTH: u16 = 0x3fff;

impl Kind {
    fn key(self) -> &'static [u8; 16] {
        match self {
            Kind::Request => REQUEST_KEY,
            Kind::Reply => REPLY_KEY,
        }
    }
}

impl Revision {
    fn decode(byte: u8) -> Result<Revision, Fault> {
        match byte {
            1 => Ok(Revision::One),
            2 => Ok(Revision::Two),
            _ => Err(Fault::new(Cause::SETUP, "MPA revision is neither 1 nor 2")),
        }
    }
}

impl Enhanced {
    fn decode(bytes: [u8; ENHANCED_LEN]) -> Enhanced {
        let ird = u16::from_be_bytes([bytes[0], bytes[1]]);
        let ord = u16::from_be_bytes([bytes[2], bytes[3]]);
        Enhanced {
            peer_to_peer: ird & UPPER != 0,
            rtr_send: ird & LOWER != 0,
            rtr_write: ord & UPPER != 0,
            rtr_read: ord & LOWER != 0,
            ird: ird & DEPTH,
            ord: ord & DEPTH,
        }
    }

    fn encode(&self) -> [u8; ENHANCED_LEN] {
        let word = |upper: bool, lower: bool, depth: u16| {
            (depth.min(DEPTH) | if upper { UPPER } else { 0 } | if lower { LOWER } else { 0 })
                .to_be_bytes()
        };
        let ird = word(self.peer_to_peer, self.rtr_send, self.ird);
        let ord = word(self.rtr_write, self.rtr_read, self.ord);
        [ird[0], ird[1], ord[0], ord[1]]
    }
}

impl<'a> Setup<'a> {
    /// Read the frame that `bytes` starts with. A stranger's bytes are refused
    /// at the first that differs from the key.
    pub fn decode(kind: Kind, bytes: &'a [u8]) -> Result<Decoded<Setup<'a>>, Fault> {
        let key = kind.key();
        let seen = bytes.len().min(key.len());
        if bytes[..seen] != key[..seen] {
            let what = match kind {
                Kind::Request => "not an MPA request: the peer speaks another protocol",
                Kind::Reply => "not an MPA reply: the peer speaks another protocol",
            };
            return Err(Fault::new(Cause::SETUP, what));
        }
        let Some((head, rest)) = bytes.split_first_chunk::<SETUP_LEN>() else {
            return Ok(Decoded::Need(SETUP_LEN));
        };
        let (flags, revision) = (head[16], Revision::decode(head[17])?);
        let len = usize::from(u16::from_be_bytes([head[18], head[19]]));
        if len > PRIVATE_MAX {
            return Err(Fault::new(Cause::SETUP, "MPA private data too long"));
        }
        let Some(data) = rest.get(..len) else {
            return Ok(Decoded::Need(SETUP_LEN + len));
        };
        let reject = flags & REJECT != 0;
        let (enhanced, private) = if revision >= Revision::Two && flags & ENHANCED != 0 {
            match data.split_first_chunk::<ENHANCED_LEN>() {
                Some((words, private)) => (Some(Enhanced::decode(*words)), private),
                // A refusal is one, with or without them.
                None if reject => (None, data),
                None => return Err(Fault::new(Cause::SETUP, "MPA enhanced setup cut short")),
            }
        } else {
            (None, data)
        };
        let setup = Setup {
            kind,
            markers: flags & MARKERS != 0,
            crc: flags & CRC != 0,
            reject,
            revision,
            enhanced,
            private,
        };
        Ok(Decoded::Value(setup, SETUP_LEN + len))
    }

    /// Most private data a frame can carry, with or without the enhanced words.
    pub const fn private_max(enhanced: bool) -> usize {
        PRIVATE_MAX - if enhanced { ENHANCED_LEN } else { 0 }
    }

    /// Append the frame to `out`.
    ///
    /// # Panics
    /// If the private data is longer than [`Setup::private_max`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        assert!(
            self.private.len() <= Setup::private_max(self.enhanced.is_some()),
            "MPA private data too long"
        );
        let words = self.enhanced.map(|e| e.encode());
        let words: &[u8] = words.as_ref().map_or(&[], |w| w);
        let mut flags = 0;
        for (set, flag) in [
            (self.markers, MARKERS),
            (self.crc, CRC),
            (self.reject, REJECT),
            (self.enhanced.is_some(), ENHANCED),
        ] {
            flags |= if set { flag } else { 0 };
        }
        out.extend_from_slice(self.kind.key());
        out.extend_from_slice(&[flags, self.revision as u8]);
        out.extend_from_slice(&((words.len() + self.private.len()) as u16).to_be_bytes());
        out.extend_from_slice(words);
        out.extend_from_slice(self.private);
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
