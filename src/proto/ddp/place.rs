// SPDX-License-Identifier: MPL-2.0
//! Where a segment's payload goes (RFC 5041 section 5.2 to 5.4).

use crate::wire::ddp::{Access, Tagged, Untagged};
use crate::wire::fault::Fault;

/// Where in its message an untagged segment lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// It is the whole message: its payload may be lent as it is.
    Whole,
    /// A part: copy it to offset `at` of the buffer of this message.
    Part {
        /// Offset in the message; 0 opens a new buffer.
        at: usize,
        /// The message is complete with it.
        last: bool,
    },
}

/// One untagged queue, inbound: buffers are used in the order posted.
#[derive(Debug, Clone, Copy)]
pub struct Queue {
    qn: u32,
    /// Sequence number of the message under way or next.
    msn: u32,
    /// Bytes of it that are here.
    at: u32,
    /// Messages for which a buffer was posted and not yet completed.
    posted: u32,
}

impl Queue {
    /// Queue number `qn`, nothing posted.
    pub fn new(qn: u32) -> Queue {
        Queue {
            qn,
            msn: 1,
            at: 0,
            posted: 0,
        }
    }

    /// `n` more buffers were posted.
    #[inline]
    pub fn post(&mut self, n: u16) {
        let _ = n;
        todo!()
    }

    /// Buffers posted and not used up.
    #[inline]
    pub fn posted(&self) -> u32 {
        self.posted
    }

    /// A segment with `len` payload bytes, for a buffer of `capacity` bytes.
    #[inline]
    pub fn on_segment(
        &mut self,
        header: &Untagged,
        len: usize,
        capacity: usize,
    ) -> Result<Placement, Fault> {
        let _ = (self.qn, self.msn, self.at, header, len, capacity);
        todo!()
    }
}

/// A tagged segment with `len` payload bytes: its offset in the window that
/// its stag gives access to. Nothing is looked up when there is nothing to
/// place.
#[inline]
pub fn tagged(
    header: &Tagged,
    len: usize,
    lookup: impl FnOnce(u32) -> Access,
) -> Result<u64, Fault> {
    let _ = (header, len, lookup);
    todo!()
}
