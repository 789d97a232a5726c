// SPDX-License-Identifier: MPL-2.0
//! DDP segment headers (RFC 5041 section 4) and the windows of memory that
//! tagged segments are placed in.

use super::fault::Fault;

/// Bytes of a tagged header.
pub const TAGGED_LEN: usize = 14;
/// Bytes of an untagged header.
pub const UNTAGGED_LEN: usize = 18;
/// Bytes of the longer one.
pub const HEADER_MAX: usize = UNTAGGED_LEN;

/// Header of a segment that names its place: a steering tag and an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tagged {
    /// Last segment of its message.
    pub last: bool,
    /// The byte that belongs to the layer above (RDMAP control).
    pub ulp: u8,
    /// Steering tag.
    pub stag: u32,
    /// Tagged offset of the first payload byte.
    pub to: u64,
}

/// Header of a segment that goes to the next buffer of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Untagged {
    /// Last segment of its message.
    pub last: bool,
    /// The byte that belongs to the layer above (RDMAP control).
    pub ulp: u8,
    /// The word that belongs to the layer above (RDMAP: stag to invalidate).
    pub ulp_word: u32,
    /// Queue number.
    pub qn: u32,
    /// Message sequence number, from 1 in each queue.
    pub msn: u32,
    /// Offset of the first payload byte in its message.
    pub mo: u32,
}

/// A segment header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header {
    /// Names its place.
    Tagged(Tagged),
    /// Goes to the next buffer of a queue.
    Untagged(Untagged),
}

impl Header {
    /// Read the header that a ULPDU starts with; the payload is
    /// `ulpdu[header.len()..]`.
    #[inline]
    pub fn decode(ulpdu: &[u8]) -> Result<Header, Fault> {
        let _ = ulpdu;
        todo!()
    }

    /// Write the header to the start of `out`; returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than the header.
    #[inline]
    pub fn encode(&self, out: &mut [u8]) -> usize {
        let _ = out;
        todo!()
    }

    /// Bytes of this header on the wire.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Header::Tagged(_) => TAGGED_LEN,
            Header::Untagged(_) => UNTAGGED_LEN,
        }
    }

    /// Never: a header has bytes.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Whether it ends its message.
    #[inline]
    pub fn last(&self) -> bool {
        match self {
            Header::Tagged(h) => h.last,
            Header::Untagged(h) => h.last,
        }
    }

    /// The byte that belongs to the layer above.
    #[inline]
    pub fn ulp(&self) -> u8 {
        match self {
            Header::Tagged(h) => h.ulp,
            Header::Untagged(h) => h.ulp,
        }
    }
}

/// A stretch of tagged offsets behind a steering tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Tagged offset of its first byte.
    pub base: u64,
    /// Its bytes.
    pub len: u64,
}

/// Why a range is not inside a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breach {
    /// It begins before or ends after the window.
    Bounds,
    /// Its end does not fit 64 bits.
    Wrap,
}

impl Window {
    /// Where in the window `len` bytes at tagged offset `to` lie.
    #[inline]
    pub fn offset(&self, to: u64, len: u64) -> Result<u64, Breach> {
        let _ = (to, len);
        todo!()
    }
}

/// What a steering tag means for the use that is asked of it. The device's
/// table of stags answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// No such stag.
    Unknown,
    /// It belongs to another connection.
    Foreign,
    /// It does not give this right.
    Denied,
    /// Granted, within the window.
    Granted(Window),
}
