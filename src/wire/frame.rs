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
/// Bytes of the payload of a FIN: the count of DATA bytes sent.
pub const FIN_PAYLOAD: usize = 8;

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
            Type::Hello | Type::Credit | Type::FinAck | Type::Ping => payload.is_empty(),
        };
        if !fits {
            return Err(Error::Malformed("payload length wrong for the frame type"));
        }
        Ok(Frame { header, payload })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let bad: [&[u8]; 10] = [
            &[],
            &[2, 0x10, 0, 0, 0, 0, 0],
            &[0, 0x10, 0, 0, 0, 0, 0, 0],
            &[7, 0x10, 0, 0, 0, 0, 0, 0],
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
