// SPDX-License-Identifier: MPL-2.0
//! The frame: what one SEND carries. Eight bytes of header, then the payload.
//! Layout and rules: docs/protocol.md.
//!
//! ```text
//!  0        1        2        3        4                          8
//! +--------+---+----+-----------------+--------------------------+
//! | type   |ver|flag| grant (mod 2^16)| payload length, bytes    |
//! +--------+---+----+-----------------+--------------------------+
//! ```
//! All big-endian. A frame that exists is a good frame: `decode` refuses the rest.

use crate::error::{Error, Result};

/// Bytes of a frame header.
pub const HEADER: usize = 8;
/// Version of the stream protocol that this code speaks.
pub const VERSION: u8 = 1;
/// Flag: the sender had to stop for want of credits after this frame.
pub const FLAG_BLOCKED: u8 = 0b0001;
/// Flag of DATA: the stream goes on where RSTOP cut it.
pub const FLAG_RESUMED: u8 = 0b0010;
/// Flag of RTS: the next RTS goes on with the same body.
pub const FLAG_MORE: u8 = 0b0100;
/// Bytes of the payload of a FIN: the count of stream bytes sent.
pub const FIN_PAYLOAD: usize = 8;
/// Bytes of the payload of an RTS.
pub const RTS_PAYLOAD: usize = 16;
/// Bytes of the payload of an RDONE or RSTOP: the count of RTS done.
pub const DONE_PAYLOAD: usize = 4;
/// Feature bit: this side takes RTS, and may send it.
pub const FEATURE_READ: u32 = 1;

/// What a frame is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// First frame of the initiator; carries nothing but its grant.
    Hello,
    /// Bytes of the stream.
    Data,
    /// Nothing but a grant.
    Credit,
    /// The sender has sent its last DATA.
    Fin,
    /// The sender has received every byte up to the peer's FIN.
    FinAck,
    /// Proof of life wanted from the device below; needs no answer.
    Ping,
    /// The next bytes of the stream are for the receiver to READ.
    Rts,
    /// RTS are done: their memory is the sender's again.
    Rdone,
    /// RTS from here on are refused, and what came behind them was dropped.
    Rstop,
}

impl Type {
    fn code(self) -> u8 {
        match self {
            Type::Hello => 1,
            Type::Data => 2,
            Type::Credit => 3,
            Type::Fin => 4,
            Type::FinAck => 5,
            Type::Ping => 6,
            Type::Rts => 7,
            Type::Rdone => 8,
            Type::Rstop => 9,
        }
    }

    fn from_code(code: u8) -> Result<Type> {
        Ok(match code {
            1 => Type::Hello,
            2 => Type::Data,
            3 => Type::Credit,
            4 => Type::Fin,
            5 => Type::FinAck,
            6 => Type::Ping,
            7 => Type::Rts,
            8 => Type::Rdone,
            9 => Type::Rstop,
            _ => return Err(Error::Malformed("frame of an unknown type")),
        })
    }
}

/// A frame header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What the frame is for.
    pub kind: Type,
    /// `FLAG_` bits, the low four.
    pub flags: u8,
    /// How many SENDs, in all since the start, the receiver of this frame may have sent.
    pub grant: u16,
    /// Payload bytes that follow.
    pub len: u32,
}

impl Header {
    /// The eight bytes.
    pub fn encode(&self) -> [u8; HEADER] {
        let grant = self.grant.to_be_bytes();
        let len = self.len.to_be_bytes();
        [
            self.kind.code(),
            VERSION << 4 | (self.flags & 0x0f),
            grant[0],
            grant[1],
            len[0],
            len[1],
            len[2],
            len[3],
        ]
    }
}

/// A frame that was received: its header, and its payload within the SEND.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The header.
    pub header: Header,
    /// The payload, `header.len` bytes.
    pub payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Read the bytes of one SEND.
    pub fn decode(send: &'a [u8]) -> Result<Frame<'a>> {
        let Some((head, payload)) = send.split_first_chunk::<HEADER>() else {
            return Err(Error::Malformed("SEND shorter than a frame header"));
        };
        let kind = Type::from_code(head[0])?;
        if head[1] >> 4 != VERSION {
            return Err(Error::Malformed("frame of another protocol version"));
        }
        let header = Header {
            kind,
            flags: head[1] & 0x0f,
            grant: u16::from_be_bytes([head[2], head[3]]),
            len: u32::from_be_bytes([head[4], head[5], head[6], head[7]]),
        };
        if header.len as usize != payload.len() {
            return Err(Error::Malformed("frame length and SEND length differ"));
        }
        let fits = match kind {
            Type::Data => !payload.is_empty(),
            Type::Fin => payload.len() == FIN_PAYLOAD,
            Type::Rts => payload.len() == RTS_PAYLOAD,
            Type::Rdone | Type::Rstop => payload.len() == DONE_PAYLOAD,
            Type::Hello | Type::Credit | Type::FinAck | Type::Ping => payload.is_empty(),
        };
        if !fits {
            return Err(Error::Malformed("payload length wrong for the frame type"));
        }
        Ok(Frame { header, payload })
    }
}

/// Where the next `len` bytes of the stream lie: the payload of an RTS.
///
/// ```text
/// +----------------------+-----------+-----------+
/// | address (u64)        | key (u32) | len (u32) |
/// +----------------------+-----------+-----------+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rts {
    /// Address or tagged offset.
    pub addr: u64,
    /// Steering tag or rkey.
    pub key: u32,
    /// Bytes, 1 or more.
    pub len: u32,
}

impl Rts {
    /// The payload.
    pub fn encode(&self) -> [u8; RTS_PAYLOAD] {
        let mut out = [0; RTS_PAYLOAD];
        out[..8].copy_from_slice(&self.addr.to_be_bytes());
        out[8..12].copy_from_slice(&self.key.to_be_bytes());
        out[12..].copy_from_slice(&self.len.to_be_bytes());
        out
    }

    /// Read a payload: some bytes, none of them past the end of all memory.
    pub fn decode(payload: &[u8]) -> Result<Rts> {
        let bad = Error::Malformed("RTS of no bytes, or past the end of memory");
        let Ok(bytes) = <[u8; RTS_PAYLOAD]>::try_from(payload) else {
            return Err(bad);
        };
        let word = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|i| bytes[at + i]));
        let rts = Rts {
            addr: u64::from(word(0)) << 32 | u64::from(word(4)),
            key: word(8),
            len: word(12),
        };
        match rts.addr.checked_add(rts.len.into()) {
            Some(_) if rts.len > 0 => Ok(rts),
            _ => Err(bad),
        }
    }
}

/// The payload of an RDONE or RSTOP.
pub fn done_count(payload: &[u8]) -> Result<u32> {
    payload
        .try_into()
        .map(u32::from_be_bytes)
        .map_err(|_| Error::Malformed("RDONE or RSTOP without a count"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_rts_has_the_documented_bytes() {
        let rts = Rts {
            addr: 0x0102_0304_0506_0708,
            key: 0x090a_0b0c,
            len: 0x0d0e_0f10,
        };
        let bytes: Vec<u8> = (1..=16).collect();
        assert_eq!(rts.encode(), bytes[..]);
        assert_eq!(Rts::decode(&bytes), Ok(rts));
        let refused = |bytes: &[u8]| Rts::decode(bytes).is_err();
        assert!(refused(&[&[0; 12][..], &[0; 4]].concat()), "no bytes");
        let wraps = [&[0xff; 8][..], &[0, 0, 0, 1], &[0, 0, 0, 1]].concat();
        assert!(refused(&wraps), "past the end of memory");
        assert!(refused(&bytes[..15]) && refused(&[]));
        assert_eq!(done_count(&[0, 0, 1, 2]), Ok(258));
        assert!(done_count(&[0; 3]).is_err());
    }

    #[test]
    fn a_data_header_has_the_documented_bytes() {
        let header = Header {
            kind: Type::Data,
            flags: FLAG_BLOCKED,
            grant: 0x0102,
            len: 0x0304_0506,
        };
        assert_eq!(
            header.encode(),
            [2, 0x11, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06]
        );
    }

    #[test]
    fn decode_reads_the_documented_bytes() {
        let frame = Frame::decode(&[2, 0x11, 0xff, 0xfe, 0, 0, 0, 2, b'h', b'i']).unwrap();
        assert_eq!(frame.header.kind, Type::Data);
        assert_eq!(frame.header.flags, FLAG_BLOCKED);
        assert_eq!(frame.header.grant, 0xfffe);
        assert_eq!(frame.payload, b"hi");
    }

    #[test]
    fn decode_refuses_nonsense() {
        let bad: [&[u8]; 13] = [
            &[],
            &[2, 0x10, 0, 0, 0, 0, 0],
            &[0, 0x10, 0, 0, 0, 0, 0, 0],
            &[10, 0x10, 0, 0, 0, 0, 0, 0],
            &[7, 0x10, 0, 0, 0, 0, 0, 0],
            &[8, 0x10, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 1],
            &[9, 0x10, 0, 0, 0, 0, 0, 0],
            &[2, 0x20, 0, 0, 0, 0, 0, 1, 9],
            &[2, 0x10, 0, 0, 0, 0, 0, 0],
            &[2, 0x10, 0, 0, 0, 0, 0, 2, 9],
            &[3, 0x10, 0, 0, 0, 0, 0, 1, 9],
            &[4, 0x10, 0, 0, 0, 0, 0, 0],
            &[2, 0x10, 0, 0, 0xff, 0xff, 0xff, 0xff, 9],
        ];
        for bytes in bad {
            assert!(
                matches!(Frame::decode(bytes), Err(Error::Malformed(_))),
                "{bytes:?}"
            );
        }
    }
}
