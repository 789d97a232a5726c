// SPDX-License-Identifier: MPL-2.0
//! What has come and is not read: bytes in slots, and bytes that are still
//! with the peer, for this side to READ into the reader's own buffer.

use std::collections::VecDeque;

use crate::device::region::Filled;
use crate::device::Remote;
use crate::wire::frame::HEADER;

/// Where the bytes of an RTS are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// With the peer; the reader has not asked for them.
    There,
    /// On their way to this address.
    Coming(usize),
    /// At this address.
    Here(usize),
}

enum Item {
    Data(Filled),
    Rts { from: Remote, stage: Stage },
}

/// What a reader finds first.
pub(super) enum First<'a> {
    /// Bytes to be copied.
    Bytes(&'a [u8]),
    /// So many bytes in a buffer of the reader's.
    Here(usize, usize),
    /// Bytes to be asked for.
    There,
    /// Nothing now.
    Nothing,
}

/// The queue.
#[derive(Default)]
pub(super) struct Inbox {
    items: VecDeque<Item>,
    /// Bytes of the front slot that were read, frame header included.
    taken: usize,
    /// RTS that left the front, for their numbers.
    gone: u64,
    /// RTS whose bytes are coming.
    coming: usize,
}

impl Inbox {
    /// A DATA frame came.
    pub fn push_data(&mut self, filled: Filled) {
        if self.items.is_empty() {
            self.taken = HEADER;
        }
        self.items.push_back(Item::Data(filled));
    }

    /// An RTS came.
    pub fn push_rts(&mut self, from: Remote) {
        let stage = Stage::There;
        self.items.push_back(Item::Rts { from, stage });
    }

    /// Whether a reader would get bytes, or start their coming.
    pub fn is_readable(&self) -> bool {
        !matches!(self.first(), First::Nothing)
    }

    /// What a reader finds.
    pub fn first(&self) -> First<'_> {
        match self.items.front() {
            None => First::Nothing,
            Some(Item::Data(filled)) => First::Bytes(&filled.bytes()[self.taken..]),
            Some(Item::Rts { from, stage }) => match stage {
                Stage::There => First::There,
                // The reader keeps its buffer until it gets bytes: they come at once.
                Stage::Coming(_) => First::Nothing,
                Stage::Here(_) if self.coming > 0 => First::Nothing,
                Stage::Here(at) => First::Here(*at, from.len as usize),
            },
        }
    }

    /// `n` bytes of the front slot were read; whether that was the last of it.
    pub fn consume(&mut self, n: usize) -> bool {
        let Some(Item::Data(filled)) = self.items.front() else {
            return false;
        };
        self.taken += n;
        if self.taken < filled.bytes().len() {
            return false;
        }
        self.pop();
        true
    }

    /// The bytes of the front RTS have been told to the reader.
    pub fn take_here(&mut self) {
        self.pop();
    }

    fn pop(&mut self) {
        if let Some(Item::Rts { .. }) = self.items.pop_front() {
            self.gone += 1;
        }
        self.taken = HEADER;
    }

    /// Of the RTS at the front that follow each other: the one behind `skip` others, with the
    /// number that its READ shall bear. `None` if there is none, or it is asked for already.
    pub fn rts_behind(&self, skip: usize) -> Option<(Remote, u64)> {
        let mut items = self.items.iter().take(skip + 1);
        if !items.all(|item| matches!(item, Item::Rts { .. })) {
            return None;
        }
        match self.items.get(skip)? {
            Item::Rts {
                from,
                stage: Stage::There,
            } => Some((*from, self.gone + skip as u64)),
            _ => None,
        }
    }

    /// Its READ to `at` was posted.
    pub fn on_coming(&mut self, skip: usize, at: usize) {
        if let Some(Item::Rts { stage, .. }) = self.items.get_mut(skip) {
            *stage = Stage::Coming(at);
            self.coming += 1;
        }
    }

    /// The READ of that number is complete; its bytes. `None`: there is none.
    pub fn on_here(&mut self, number: u64) -> Option<usize> {
        let at = usize::try_from(number.checked_sub(self.gone)?).ok()?;
        match self.items.get_mut(at)? {
            Item::Rts { from, stage } => match *stage {
                Stage::Coming(to) => {
                    *stage = Stage::Here(to);
                    self.coming -= 1;
                    Some(from.len as usize)
                }
                _ => None,
            },
            Item::Data(_) => None,
        }
    }

    /// Drop all; how many frames and bytes that was.
    pub fn drop_all(&mut self) -> (usize, u64) {
        let frames = self.items.len();
        let bytes = self.items.iter().map(|item| match item {
            Item::Data(filled) => (filled.bytes().len() - HEADER) as u64,
            Item::Rts { from, .. } => from.len.into(),
        });
        let bytes = bytes.sum();
        while !self.items.is_empty() {
            self.pop();
        }
        (frames, bytes)
    }

    /// Nobody reads any more: drop DATA, and RTS up to one whose bytes are coming, which
    /// the device has to finish first; how many DATA, and how many RTS never asked for.
    pub fn drop_unread(&mut self) -> (usize, usize) {
        let before = self.items.len();
        self.items.retain(|item| matches!(item, Item::Rts { .. }));
        let data = before - self.items.len();
        let mut rts = 0;
        while let Some(Item::Rts { stage, .. }) = self.items.front() {
            match stage {
                Stage::There => rts += 1,
                Stage::Here(_) => {}
                Stage::Coming(_) => break,
            }
            self.pop();
        }
        self.taken = HEADER;
        (data, rts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_rts(n: u32) -> Inbox {
        let mut inbox = Inbox::default();
        for key in 0..n {
            let (addr, len) = (0, 10);
            inbox.push_rts(Remote { key, addr, len });
        }
        inbox
    }

    #[test]
    fn an_rts_whose_bytes_are_coming_is_not_overtaken_when_all_is_dropped() {
        let mut inbox = with_rts(3);
        let (_, number) = inbox.rts_behind(0).unwrap();
        inbox.on_coming(0, 64);
        assert!(!inbox.is_readable());
        assert_eq!(inbox.drop_unread(), (0, 0));
        assert_eq!(inbox.on_here(number + 1), None, "it was not asked for");
        assert_eq!(inbox.on_here(number), Some(10));
        assert_eq!(inbox.on_here(number), None, "once");
        assert_eq!(inbox.drop_unread(), (0, 2));
    }

    #[test]
    fn rts_that_follow_each_other_are_asked_for_once_each() {
        let mut inbox = with_rts(2);
        let (_, first) = inbox.rts_behind(0).unwrap();
        inbox.on_coming(0, 64);
        let (_, second) = inbox.rts_behind(1).unwrap();
        inbox.on_coming(1, 74);
        assert!(inbox.rts_behind(0).is_none() && inbox.rts_behind(2).is_none());
        assert_eq!(inbox.on_here(first), Some(10));
        assert!(!inbox.is_readable(), "the other one is in the same buffer");
        assert_eq!(inbox.on_here(second), Some(10));
        assert!(matches!(inbox.first(), First::Here(64, 10)));
        inbox.take_here();
        assert!(matches!(inbox.first(), First::Here(74, 10)));
    }
}
