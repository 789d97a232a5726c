// SPDX-License-Identifier: MPL-2.0
//! DDP segment headers (RFC 5041 section 4) and the windows of memory that
//! tagged segments are placed in.

use super::fault::{Cause, Fault};

/// Bytes of a tagged header.
pub const TAGGED_LEN: usize = 14;
/// Bytes of an untagged header.
pub const UNTAGGED_LEN: usize = 18;
/// Bytes of the longer one.
pub const HEADER_MAX: usize = UNTAGGED_LEN;

const TAGGED: u8 = 0x80;
const LAST: u8 = 0x40;
const VERSION_MASK: u8 = 0x03;
const VERSION: u8 = 0x01;
const SHORT: Fault = Fault::new(
    Cause::DDP_CATASTROPHIC,
    "segment shorter than its DDP header",
);

/// The caller has checked that `at + 4` bytes are there.
#[inline]
fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

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
        let Some(&control) = ulpdu.first() else {
            return Err(SHORT);
        };
        let (tagged, last) = (control & TAGGED != 0, control & LAST != 0);
        if control & VERSION_MASK != VERSION {
            return Err(if tagged {
                Fault::new(Cause::TAGGED_VERSION, "DDP version is not 1")
            } else {
                Fault::new(Cause::UNTAGGED_VERSION, "DDP version is not 1")
            });
        }
        if tagged {
            let Some(h) = ulpdu.first_chunk::<TAGGED_LEN>() else {
                return Err(SHORT);
            };
            Ok(Header::Tagged(Tagged {
                last,
                ulp: h[1],
                stag: be32(h, 2),
                to: u64::from(be32(h, 6)) << 32 | u64::from(be32(h, 10)),
            }))
        } else {
            let Some(h) = ulpdu.first_chunk::<UNTAGGED_LEN>() else {
                return Err(SHORT);
            };
            Ok(Header::Untagged(Untagged {
                last,
                ulp: h[1],
                ulp_word: be32(h, 2),
                qn: be32(h, 6),
                msn: be32(h, 10),
                mo: be32(h, 14),
            }))
        }
    }

    /// Bytes of the header that begins with this control byte.
    #[inline]
    pub const fn len_of(control: u8) -> usize {
        if control & TAGGED != 0 {
            TAGGED_LEN
        } else {
            UNTAGGED_LEN
        }
    }

    /// Write the header to the start of `out`; returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than the header.
    #[inline]
    pub fn encode(&self, out: &mut [u8]) -> usize {
        let last = |last: bool| if last { LAST } else { 0 };
        match self {
            Header::Tagged(h) => {
                let out = &mut out[..TAGGED_LEN];
                out[0] = TAGGED | last(h.last) | VERSION;
                out[1] = h.ulp;
                out[2..6].copy_from_slice(&h.stag.to_be_bytes());
                out[6..14].copy_from_slice(&h.to.to_be_bytes());
                TAGGED_LEN
            }
            Header::Untagged(h) => {
                let out = &mut out[..UNTAGGED_LEN];
                out[0] = last(h.last) | VERSION;
                out[1] = h.ulp;
                out[2..6].copy_from_slice(&h.ulp_word.to_be_bytes());
                out[6..10].copy_from_slice(&h.qn.to_be_bytes());
                out[10..14].copy_from_slice(&h.msn.to_be_bytes());
                out[14..18].copy_from_slice(&h.mo.to_be_bytes());
                UNTAGGED_LEN
            }
        }
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
        let end = to.checked_add(len).ok_or(Breach::Wrap)?;
        let offset = to.checked_sub(self.base).ok_or(Breach::Bounds)?;
        // The end lies at or after `to`, so neither side can wrap.
        if end - self.base > self.len {
            return Err(Breach::Bounds);
        }
        Ok(offset)
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
