// SPDX-License-Identifier: MPL-2.0
//! Where a segment's payload goes (RFC 5041 section 5.2 to 5.4).

use crate::wire::ddp::{Access, Breach, Tagged, Untagged};
use crate::wire::fault::{Cause, Fault};

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
        self.posted += u32::from(n);
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
        if header.qn != self.qn {
            return Err(Fault::new(Cause::UNTAGGED_QN, "no such DDP queue"));
        }
        if self.posted == 0 {
            return Err(Fault::new(
                Cause::UNTAGGED_NO_BUFFER,
                "a message came for which no receive was posted",
            ));
        }
        if header.msn != self.msn {
            return Err(Fault::new(
                Cause::UNTAGGED_MSN,
                "DDP message sequence number out of turn",
            ));
        }
        if header.mo != self.at || (len == 0 && !header.last) {
            return Err(Fault::new(
                Cause::UNTAGGED_MO,
                "DDP message offset out of turn",
            ));
        }
        let at = self.at as usize;
        if len > capacity.saturating_sub(at) {
            return Err(Fault::new(
                Cause::UNTAGGED_TOO_LONG,
                "message longer than a receive slot",
            ));
        }
        if !header.last {
            self.at += len as u32;
            return Ok(Placement::Part { at, last: false });
        }
        self.at = 0;
        self.msn = self.msn.wrapping_add(1);
        self.posted -= 1;
        Ok(if at == 0 {
            Placement::Whole
        } else {
            Placement::Part { at, last: true }
        })
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
    if len == 0 {
        return Ok(0);
    }
    let window = match lookup(header.stag) {
        Access::Granted(window) => window,
        Access::Unknown => return Err(Fault::new(Cause::TAGGED_STAG, "unknown stag")),
        Access::Foreign => {
            return Err(Fault::new(
                Cause::TAGGED_FOREIGN,
                "stag of another connection",
            ))
        }
        Access::Denied => {
            return Err(Fault::new(
                Cause::ACCESS,
                "stag does not allow the peer to write",
            ))
        }
    };
    window
        .offset(header.to, len as u64)
        .map_err(|breach| match breach {
            Breach::Bounds => Fault::new(Cause::TAGGED_BOUNDS, "write outside of its window"),
            Breach::Wrap => Fault::new(Cause::TAGGED_WRAP, "tagged offset wraps"),
        })
}
