// SPDX-License-Identifier: MPL-2.0
//! What may be wrong with a peer's iWARP bytes, with the code that a
//! TERMINATE carries for it (RFC 5040 section 4.8, RFC 5041 section 7,
//! RFC 5044 section 8, RFC 6581 section 8; IANA registry "rddp").

use std::fmt;

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

impl Fault {
    /// What happened, and why it matters.
    pub const fn new(cause: Cause, what: &'static str) -> Fault {
        Fault { cause, what }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        Error::Malformed(fault.what)
    }
}

macro_rules! causes {
    ($($name:ident = $layer:literal $kind:literal $code:literal, $text:literal;)*) => {
        impl Cause {
            $(#[doc = $text]
            pub const $name: Cause = Cause { layer: $layer, kind: $kind, code: $code };)*

            /// In words, when this library knows the code.
            pub fn text(&self) -> Option<&'static str> {
                match (self.layer, self.kind, self.code) {
                    $(($layer, $kind, $code) => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

causes! {
    RDMAP_CATASTROPHIC = 0 0 0x00, "RDMAP: local catastrophic error";
    READ_STAG = 0 1 0x00, "RDMAP: invalid stag";
    READ_BOUNDS = 0 1 0x01, "RDMAP: base or bounds violation";
    ACCESS = 0 1 0x02, "RDMAP: access rights violation";
    READ_FOREIGN = 0 1 0x03, "RDMAP: stag of another stream";
    READ_WRAP = 0 1 0x04, "RDMAP: tagged offset wraps";
    RDMAP_VERSION = 0 2 0x05, "RDMAP: invalid version";
    OPCODE = 0 2 0x06, "RDMAP: unexpected opcode";
    STREAM_CATASTROPHIC = 0 2 0x07, "RDMAP: catastrophic error of this stream";
    GLOBAL_CATASTROPHIC = 0 2 0x08, "RDMAP: catastrophic error of the device";
    INVALIDATE = 0 2 0x09, "RDMAP: stag cannot be invalidated";
    RDMAP_UNSPECIFIED = 0 2 0xff, "RDMAP: unspecified error";
    DDP_CATASTROPHIC = 1 0 0x00, "DDP: local catastrophic error";
    TAGGED_STAG = 1 1 0x00, "DDP: invalid stag";
    TAGGED_BOUNDS = 1 1 0x01, "DDP: base or bounds violation";
    TAGGED_FOREIGN = 1 1 0x02, "DDP: stag of another stream";
    TAGGED_WRAP = 1 1 0x03, "DDP: tagged offset wraps";
    TAGGED_VERSION = 1 1 0x04, "DDP: invalid version in a tagged segment";
    UNTAGGED_QN = 1 2 0x01, "DDP: invalid queue number";
    UNTAGGED_NO_BUFFER = 1 2 0x02, "DDP: no buffer for the message";
    UNTAGGED_MSN = 1 2 0x03, "DDP: message sequence number out of range";
    UNTAGGED_MO = 1 2 0x04, "DDP: invalid message offset";
    UNTAGGED_TOO_LONG = 1 2 0x05, "DDP: message too long for its buffer";
    UNTAGGED_VERSION = 1 2 0x06, "DDP: invalid version in an untagged segment";
    TCP_LOST = 2 0 0x01, "MPA: TCP connection lost";
    CRC = 2 0 0x02, "MPA: CRC error";
    FRAMING = 2 0 0x03, "MPA: marker and length field disagree";
    SETUP = 2 0 0x04, "MPA: invalid request or reply frame";
    MPA_CATASTROPHIC = 2 0 0x05, "MPA: local catastrophic error";
    INSUFFICIENT_IRD = 2 0 0x06, "MPA: insufficient IRD resources";
    NO_RTR = 2 0 0x07, "MPA: no matching RTR option";
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text() {
            Some(text) => f.write_str(text),
            None => write!(
                f,
                "layer {} type {} code {:#04x}",
                self.layer, self.kind, self.code
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_and_unknown_causes_have_words() {
        assert_eq!(Cause::CRC.to_string(), "MPA: CRC error");
        let unknown = Cause {
            layer: 9,
            kind: 1,
            code: 0x42,
        };
        assert_eq!(unknown.to_string(), "layer 9 type 1 code 0x42");
    }
}
