// SPDX-License-Identifier: MPL-2.0
//! The hello: private data of the connection request, the reply and the
//! reject. At most 56 bytes on every device; 20 are used. Bytes after those
//! are ignored (devices pad; later versions may append).
//!
//! ```text
//!  0                   4      5      6      7        8
//! +-------------------+------+------+------+--------+
//! | magic "ZRDM"      | kind | least| most | reason |   versions: least..=most
//! +-------------------+------+------+------+--------+
//! | features                 | slot payload, bytes  |   u32, u32
//! +-------------+------------+----------------------+
//! | grant (u16) | zero (u16) |
//! +-------------+------------+
//! ```

use crate::error::{Error, Result};

/// Bytes of a hello.
pub const LEN: usize = 20;
const MAGIC: [u8; 4] = *b"ZRDM";
/// Least slot payload that a peer may offer.
pub const SLOT_PAYLOAD_MIN: u32 = 64;
/// Most slot payload that a peer may offer.
pub const SLOT_PAYLOAD_MAX: u32 = 1 << 20;
/// Fewest receives that a peer must have posted: two DATA cannot deadlock.
pub const GRANT_MIN: u16 = 4;
/// Most receives that a peer may say it has posted.
pub const GRANT_MAX: u16 = 4096;

/// What a connecting side or an accepting side offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// Least version of the stream protocol that it speaks.
    pub least: u8,
    /// Most; in a reply the two are equal: the version chosen.
    pub most: u8,
    /// Feature bits; in a reply, those that both have.
    pub features: u32,
    /// Payload bytes of one of its receive slots.
    pub slot_payload: u32,
    /// Receives it has posted.
    pub grant: u16,
}

/// Why a connection was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// No version of the stream protocol in common; `least` and `most` say what the refuser speaks.
    Version,
    /// The request was not a hello of ours.
    Malformed,
    /// The refuser has no room (memory, queue pairs).
    Limit,
    /// A code from a later version.
    Unknown(u8),
}

impl Reason {
    fn code(self) -> u8 {
        match self {
            Reason::Version => 1,
            Reason::Malformed => 2,
            Reason::Limit => 3,
            Reason::Unknown(code) => code,
        }
    }

    fn from_code(code: u8) -> Reason {
        match code {
            1 => Reason::Version,
            2 => Reason::Malformed,
            3 => Reason::Limit,
            code => Reason::Unknown(code),
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Reason::Version => write!(f, "no protocol version in common"),
            Reason::Malformed => write!(f, "it did not understand our hello"),
            Reason::Limit => write!(f, "it has no room for another connection"),
            Reason::Unknown(code) => write!(f, "reason {code}, unknown to this version"),
        }
    }
}

/// The private data of one CM message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hello {
    /// Of the connection request.
    Request(Offer),
    /// Of the reply.
    Reply(Offer),
    /// Of a reject: why, and which versions the refuser speaks.
    Reject {
        /// Why.
        reason: Reason,
        /// Least version that the refuser speaks.
        least: u8,
        /// Most version that the refuser speaks.
        most: u8,
    },
}

const KIND_REQUEST: u8 = 1;
const KIND_REPLY: u8 = 2;
const KIND_REJECT: u8 = 3;

impl Hello {
    /// The private data.
    pub fn encode(&self) -> [u8; LEN] {
        let mut out = [0; LEN];
        out[..4].copy_from_slice(&MAGIC);
        let (kind, reason, offer) = match *self {
            Hello::Request(offer) => (KIND_REQUEST, 0, offer),
            Hello::Reply(offer) => (KIND_REPLY, 0, offer),
            Hello::Reject {
                reason,
                least,
                most,
            } => (
                KIND_REJECT,
                reason.code(),
                Offer {
                    least,
                    most,
                    features: 0,
                    slot_payload: 0,
                    grant: 0,
                },
            ),
        };
        out[4..8].copy_from_slice(&[kind, offer.least, offer.most, reason]);
        out[8..12].copy_from_slice(&offer.features.to_be_bytes());
        out[12..16].copy_from_slice(&offer.slot_payload.to_be_bytes());
        out[16..18].copy_from_slice(&offer.grant.to_be_bytes());
        out
    }

    /// Read private data as it came, padding and all. The offer of a version
    /// that we do not speak is still a good hello; the ranges of its numbers
    /// are checked all the same.
    pub fn decode(bytes: &[u8]) -> Result<Hello> {
        let Some((b, _)) = bytes.split_first_chunk::<LEN>() else {
            return Err(Error::Malformed("private data shorter than a hello"));
        };
        if b[..4] != MAGIC {
            return Err(Error::Malformed("private data without our magic"));
        }
        let offer = Offer {
            least: b[5],
            most: b[6],
            features: u32::from_be_bytes([b[8], b[9], b[10], b[11]]),
            slot_payload: u32::from_be_bytes([b[12], b[13], b[14], b[15]]),
            grant: u16::from_be_bytes([b[16], b[17]]),
        };
        if offer.least == 0 || offer.least > offer.most {
            return Err(Error::Malformed("hello with an empty version range"));
        }
        match b[4] {
            KIND_REQUEST => Ok(Hello::Request(offer.in_range()?)),
            KIND_REPLY => {
                if offer.least != offer.most {
                    return Err(Error::Malformed("reply without a chosen version"));
                }
                Ok(Hello::Reply(offer.in_range()?))
            }
            KIND_REJECT => Ok(Hello::Reject {
                reason: Reason::from_code(b[7]),
                least: offer.least,
                most: offer.most,
            }),
            _ => Err(Error::Malformed("hello of an unknown kind")),
        }
    }
}

impl Offer {
    fn in_range(self) -> Result<Offer> {
        if !(SLOT_PAYLOAD_MIN..=SLOT_PAYLOAD_MAX).contains(&self.slot_payload) {
            return Err(Error::Malformed("hello with an impossible slot size"));
        }
        if !(GRANT_MIN..=GRANT_MAX).contains(&self.grant) {
            return Err(Error::Malformed("hello with an impossible grant"));
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFER: Offer = Offer {
        least: 1,
        most: 2,
        features: 0x8000_0001,
        slot_payload: 8192,
        grant: 4,
    };
    const REQUEST: [u8; LEN] = [
        b'Z', b'R', b'D', b'M', 1, 1, 2, 0, 0x80, 0, 0, 1, 0, 0, 0x20, 0, 0, 4, 0, 0,
    ];

    #[test]
    fn a_request_has_the_documented_bytes() {
        assert_eq!(Hello::Request(OFFER).encode(), REQUEST);
    }

    #[test]
    fn row_38_padding_is_ignored_and_every_cut_refused() {
        let mut padded = REQUEST.to_vec();
        padded.extend([0xee; 36]);
        assert_eq!(Hello::decode(&padded).unwrap(), Hello::Request(OFFER));
        for cut in 0..LEN {
            assert!(Hello::decode(&REQUEST[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn a_reject_keeps_an_unknown_reason() {
        let mut bytes = REQUEST;
        bytes[4] = 3;
        bytes[7] = 99;
        assert_eq!(
            Hello::decode(&bytes).unwrap(),
            Hello::Reject {
                reason: Reason::Unknown(99),
                least: 1,
                most: 2
            }
        );
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        for (at, value) in [
            (0, b'X'),
            (4, 0),
            (4, 9),
            (5, 0),
            (5, 3),
            (12, 1),
            (16, 0xff),
        ] {
            let mut bytes = REQUEST;
            bytes[at] = value;
            assert!(Hello::decode(&bytes).is_err(), "byte {at} = {value}");
        }
        let mut few = REQUEST;
        few[17] = 3;
        assert!(Hello::decode(&few).is_err());
        let mut reply = REQUEST;
        reply[4] = 2;
        assert!(Hello::decode(&reply).is_err(), "a reply with two versions");
    }
}
