// SPDX-License-Identifier: MPL-2.0
//! Which memory of the caller the device or the peer may still read, and what
//! may have to be sent once more.

use std::collections::VecDeque;

use crate::device::region::Exposed;

/// When a stretch of lent bytes is the caller's again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// The SEND of that number is complete.
    Sent(u64),
    /// Its RTS is done.
    Read,
    /// It is.
    Now,
}

/// Part of the stream that was sent from an open RTS on.
pub(super) enum Part {
    /// What an RTS stands for, and the key that lets the peer READ it.
    Lent(Exposed, u32),
    /// DATA behind it, copied.
    Kept(Vec<u8>),
}

/// The books.
#[derive(Default)]
pub(super) struct Loans {
    /// SENDs posted, and complete, since the start.
    posted: u64,
    complete: u64,
    /// Bytes lent since the start, up to and with each stretch.
    until: VecDeque<(Until, u64)>,
    taken: u64,
    returned: u64,
    /// From the oldest open RTS on.
    open: VecDeque<Part>,
    /// To be sent once more: the first from the offset on.
    again: VecDeque<Part>,
    offset: usize,
    /// Where a body goes on of which RTS have been sent: address and bytes left.
    rest: (usize, usize),
}

impl Loans {
    /// One more SEND was posted.
    pub fn on_posted(&mut self) {
        self.posted += 1;
    }

    /// The oldest `n` are complete.
    pub fn on_complete(&mut self, n: u16) {
        self.complete += u64::from(n);
        self.settle();
    }

    /// `len` lent bytes go with the SEND that was posted last.
    pub fn on_lent(&mut self, len: usize) {
        self.taken += len as u64;
        self.until.push_back((Until::Sent(self.posted), self.taken));
    }

    /// An RTS for `body` was posted; `left` bytes of the same body are still to come.
    pub fn on_rts(&mut self, body: Exposed, key: u32, left: usize) {
        let end = body.bytes().as_ptr() as usize + body.len();
        self.rest = (end, left);
        self.taken += body.len() as u64;
        self.until.push_back((Until::Read, self.taken));
        self.open.push_back(Part::Lent(body, key));
    }

    /// Whether these bytes are what is left of a body that RTS were sent of.
    pub fn goes_on(&self, data: *const u8, len: usize) -> bool {
        len > 0 && self.rest == (data as usize, len)
    }

    /// DATA was sent behind an open RTS.
    pub fn keep(&mut self, bytes: &[u8]) {
        match self.open.back_mut() {
            Some(Part::Kept(last)) => last.extend_from_slice(bytes),
            _ => self.open.push_back(Part::Kept(bytes.to_vec())),
        }
    }

    /// The oldest RTS is done; its key and bytes.
    pub fn on_read(&mut self) -> Option<(u32, usize)> {
        let Some(Part::Lent(body, key)) = self.open.pop_front() else {
            return None;
        };
        if let Some(Part::Kept(_)) = self.open.front() {
            self.open.pop_front();
        }
        self.mark_read(Until::Now);
        self.settle();
        Some((key, body.len()))
    }

    /// All open RTS are refused; their keys.
    pub fn on_refused(&mut self) -> Vec<u32> {
        let keys = self.open.iter().filter_map(|part| match part {
            Part::Lent(_, key) => Some(*key),
            Part::Kept(_) => None,
        });
        let keys = keys.collect();
        self.again.append(&mut self.open);
        keys
    }

    /// Up to `most` of the bytes to be sent once more.
    pub fn again(&self, most: usize) -> Option<&[u8]> {
        let bytes = match self.again.front()? {
            Part::Lent(body, _) => body.bytes(),
            Part::Kept(bytes) => bytes,
        };
        let left = &bytes[self.offset..];
        Some(&left[..left.len().min(most)])
    }

    /// `len` of them went with the SEND that was posted last.
    pub fn on_again(&mut self, len: usize) {
        self.offset += len;
        let (whole, lent) = match self.again.front() {
            Some(Part::Lent(body, _)) => (body.len(), true),
            Some(Part::Kept(bytes)) => (bytes.len(), false),
            None => return,
        };
        if self.offset == whole {
            self.offset = 0;
            self.again.pop_front();
            if lent {
                self.mark_read(Until::Sent(self.posted));
            }
        }
    }

    /// Bytes lent since the start, and of those, bytes that are the caller's again.
    pub fn lent(&self) -> (u64, u64) {
        (self.taken, self.returned)
    }

    /// The link is dead, and the device lets go of all.
    pub fn clear(&mut self) {
        self.open.clear();
        self.again.clear();
        self.until.clear();
        self.returned = self.taken;
    }

    fn mark_read(&mut self, now: Until) {
        let oldest = self.until.iter_mut().find(|(u, _)| *u == Until::Read);
        if let Some((until, _)) = oldest {
            *until = now;
        }
    }

    fn settle(&mut self) {
        while let Some(&(until, taken)) = self.until.front() {
            match until {
                Until::Sent(posted) if posted > self.complete => break,
                Until::Read => break,
                Until::Sent(_) | Until::Now => {}
            }
            self.returned = taken;
            self.until.pop_front();
        }
    }
}
