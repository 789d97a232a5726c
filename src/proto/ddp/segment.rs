// SPDX-License-Identifier: MPL-2.0
//! A message cut into segments (RFC 5041 section 5.1).

use std::ops::Range;

use crate::wire::ddp::Header;

/// The segments of one message, in order: each is a header and the range of
/// the message that is its payload. Plain state: keep it across back-pressure.
/// A message of no bytes is one segment.
#[derive(Debug, Clone)]
pub struct Segments {
    next: Header,
    at: u32,
    len: u32,
    payload_max: u32,
    done: bool,
}

impl Segments {
    /// Cut a message of `len` bytes. `first` is the header of its first byte
    /// (`last` is ignored); no ULPDU is longer than `mulpdu`.
    ///
    /// # Panics
    /// If `mulpdu` leaves no room for payload.
    #[inline]
    pub fn new(first: Header, len: u32, mulpdu: usize) -> Segments {
        assert!(mulpdu > first.len(), "MULPDU leaves no room for payload");
        Segments {
            next: first,
            at: 0,
            len,
            payload_max: u32::try_from(mulpdu - first.len()).unwrap_or(u32::MAX),
            done: false,
        }
    }

    /// Bytes of the message not yet handed out.
    #[inline]
    pub fn left(&self) -> u32 {
        self.len - self.at
    }
}

impl Iterator for Segments {
    type Item = (Header, Range<usize>);

    #[inline]
    fn next(&mut self) -> Option<(Header, Range<usize>)> {
        if self.done {
            return None;
        }
        let n = self.left().min(self.payload_max);
        let range = self.at as usize..(self.at + n) as usize;
        self.at += n;
        self.done = self.at == self.len;
        let mut header = self.next;
        match (&mut header, &mut self.next) {
            (Header::Tagged(this), Header::Tagged(next)) => {
                this.last = self.done;
                next.to = next.to.wrapping_add(u64::from(n));
            }
            (Header::Untagged(this), Header::Untagged(next)) => {
                this.last = self.done;
                next.mo += n;
            }
            _ => unreachable!("a copy has its original's kind"),
        }
        Some((header, range))
    }
}
