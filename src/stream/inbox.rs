// SPDX-License-Identifier: MPL-2.0
//! What has come and is not read: bytes in slots, and bytes that are still
//! with the peer, for this side to READ into the reader's own buffer, or ahead of the reader into
//! a chunk of the pool that the reader may take as its own.

use std::collections::VecDeque;
use std::ops::Range;

use crate::device::region::pool::Taken;
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

/// An RTS.
struct Large {
    from: Remote,
    /// Of all RTS that came.
    number: u64,
    stage: Stage,
    /// It is a body's only one.
    alone: bool,
    /// Where its bytes are, or come, that no reader has asked for.
    ahead: Option<Taken>,
}

enum Item {
    Data(Filled),
    Rts(Large),
}

/// What a reader finds first.
pub(super) enum First<'a> {
    /// Bytes to be copied.
    Bytes(&'a [u8]),
    /// Likewise, of a body that was READ ahead: those in this part of its chunk.
    Ahead(&'a Taken, Range<usize>),
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
    /// Bytes of the front item that were read.
    taken: usize,
    /// RTS that came, and of those, how many nobody has asked for.
    rts: u64,
    there: usize,
    /// The next RTS goes on with a body that has begun.
    more: bool,
    /// RTS whose bytes are coming to where the reader wants them.
    coming: usize,
}

impl Inbox {
    /// A DATA frame came.
    pub fn push_data(&mut self, filled: Filled) {
        self.more = false;
        self.items.push_back(Item::Data(filled));
    }

    /// An RTS came; `more`: the next goes on with the same body.
    pub fn push_rts(&mut self, from: Remote, more: bool) {
        let begins = !std::mem::replace(&mut self.more, more);
        self.items.push_back(Item::Rts(Large {
            from,
            number: self.rts,
            stage: Stage::There,
            alone: begins && !more,
            ahead: None,
        }));
        self.rts += 1;
        self.there += 1;
    }

    /// Whether a reader would get bytes, or start their coming.
    pub fn is_readable(&self) -> bool {
        !matches!(self.first(), First::Nothing)
    }

    /// What a reader finds.
    pub fn first(&self) -> First<'_> {
        match self.items.front() {
            None => First::Nothing,
            Some(Item::Data(filled)) => First::Bytes(&filled.bytes()[HEADER + self.taken..]),
            Some(Item::Rts(large)) => match (large.stage, &large.ahead) {
                (Stage::There, _) => First::There,
                (Stage::Coming(_), _) => First::Nothing,
                (Stage::Here(_), Some(ahead)) => {
                    First::Ahead(ahead, self.taken..large.from.len as usize)
                }
                // The reader keeps its buffer until it gets bytes: they come at once.
                (Stage::Here(_), None) if self.coming > 0 => First::Nothing,
                (Stage::Here(at), None) => First::Here(at, large.from.len as usize),
            },
        }
    }

    /// `n` bytes of the front item were read; whether that was the last of a slot.
    pub fn consume(&mut self, n: usize) -> bool {
        let (len, slot) = match self.items.front() {
            Some(Item::Data(filled)) => (filled.bytes().len() - HEADER, true),
            Some(Item::Rts(large)) => (large.from.len as usize, false),
            None => return false,
        };
        self.taken += n;
        if self.taken < len {
            return false;
        }
        self.pop();
        slot
    }

    /// The bytes of the front RTS have been told to the reader.
    pub fn take_here(&mut self) {
        self.pop();
    }

    fn pop(&mut self) {
        if let Some(Item::Rts(large)) = self.items.pop_front() {
            self.there -= usize::from(large.stage == Stage::There);
        }
        self.taken = 0;
    }

    /// Of the RTS at the front that follow each other: the one behind `skip` others, with the
    /// number that its READ shall bear. `None` if there is none, or it is asked for already.
    pub fn rts_behind(&self, skip: usize) -> Option<(Remote, u64)> {
        let mut items = self.items.iter().take(skip + 1);
        if !items.all(|item| matches!(item, Item::Rts(_))) {
            return None;
        }
        match self.items.get(skip)? {
            Item::Rts(large) if large.stage == Stage::There => Some((large.from, large.number)),
            _ => None,
        }
    }

    /// Its READ to `at` was posted.
    pub fn on_coming(&mut self, skip: usize, at: usize) {
        if let Some(Item::Rts(large)) = self.items.get_mut(skip) {
            large.stage = Stage::Coming(at);
            self.coming += 1;
            self.there -= 1;
        }
    }

    /// The READ of that number is complete; its bytes. `None`: there is none.
    pub fn on_here(&mut self, number: u64) -> Option<usize> {
        let large = self.large_mut().find(|large| large.number == number)?;
        let Stage::Coming(to) = large.stage else {
            return None;
        };
        large.stage = Stage::Here(to);
        let (len, asked) = (large.from.len as usize, large.ahead.is_none());
        self.coming -= usize::from(asked);
        Some(len)
    }

    fn large(&self) -> impl Iterator<Item = &Large> {
        self.items.iter().filter_map(|item| match item {
            Item::Rts(large) => Some(large),
            Item::Data(_) => None,
        })
    }

    fn large_mut(&mut self) -> impl Iterator<Item = &mut Large> {
        self.items.iter_mut().filter_map(|item| match item {
            Item::Rts(large) => Some(large),
            Item::Data(_) => None,
        })
    }

    /// There are RTS that nobody has asked for.
    pub fn has_more(&self) -> bool {
        self.there > 0
    }

    /// There is nothing before an RTS that nobody has asked for.
    pub fn waits_for_reader(&self) -> bool {
        matches!(self.first(), First::There)
    }

    /// The oldest RTS that nobody has asked for, with its number, if it is the only one of its body.
    /// Those behind it must wait: RTS are answered in their order.
    pub fn next_ahead(&self) -> Option<(Remote, u64)> {
        let next = self.large().find(|large| large.stage == Stage::There)?;
        next.alone.then_some((next.from, next.number))
    }

    /// The READ of the RTS of that number to a chunk was posted.
    pub fn on_ahead(&mut self, number: u64, ahead: Taken) {
        self.there -= 1;
        if let Some(large) = self.large_mut().find(|large| large.number == number) {
            large.stage = Stage::Coming(ahead.start().addr().get());
            large.ahead = Some(ahead);
        }
    }

    /// How many are on their way.
    pub fn coming(&self) -> usize {
        let coming = self
            .large()
            .filter(|large| matches!(large.stage, Stage::Coming(_)));
        coming.count()
    }

    /// Bytes that are READ ahead and not asked for.
    pub fn ahead(&self) -> usize {
        let ahead = self.large().filter(|large| large.ahead.is_some());
        ahead.map(|large| large.from.len as usize).sum()
    }

    /// The reader wants `size` bytes next, and has no place for them yet: the chunk where they are, or
    /// come, becomes its. `None`: there is none, or for another number.
    pub fn adopt(&mut self, size: usize) -> Option<Taken> {
        let taken = self.taken;
        let Some(Item::Rts(large)) = self.items.front_mut() else {
            return None;
        };
        if taken > 0 || large.from.len as usize != size {
            return None;
        }
        let ahead = large.ahead.take()?;
        self.coming += usize::from(matches!(large.stage, Stage::Coming(_)));
        Some(ahead)
    }

    /// Drop all; how many frames and bytes that was.
    pub fn drop_all(&mut self) -> (usize, u64) {
        let frames = self.items.len();
        let bytes = self.items.iter().map(|item| match item {
            Item::Data(filled) => (filled.bytes().len() - HEADER) as u64,
            Item::Rts(large) => large.from.len.into(),
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
        self.items.retain(|item| matches!(item, Item::Rts(_)));
        let data = before - self.items.len();
        let mut rts = 0;
        while let Some(Item::Rts(large)) = self.items.front() {
            match large.stage {
                Stage::There => rts += 1,
                Stage::Here(_) => {}
                Stage::Coming(_) => break,
            }
            self.pop();
        }
        self.taken = 0;
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
            inbox.push_rts(Remote { key, addr, len }, false);
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
