// SPDX-License-Identifier: MPL-2.0
//! A message cut into segments (RFC 5041 section 5.1).

use std::ops::Range;

use crate::wire::ddp::Header;

/// The segments of one message, in order: each is a header and the range of
/// the message that is its payload. Plain state: keep it across back-pressure.
/// A message of no bytes is one segment.
#[derive(Debug, Clone, Copy)]
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
        let _ = mulpdu;
        Segments {
            next: first,
            at: 0,
            len,
            payload_max: 0,
            done: false,
        }
    }

    /// Bytes of the message not yet handed out.
    pub fn left(&self) -> u32 {
        self.len - self.at
    }
}

impl Iterator for Segments {
    type Item = (Header, Range<usize>);

    #[inline]
    fn next(&mut self) -> Option<(Header, Range<usize>)> {
        let _ = (self.next, self.payload_max, self.done);
        todo!()
    }
}
