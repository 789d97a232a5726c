// SPDX-License-Identifier: MPL-2.0
//! The reader's side of a link: bytes out of slots, and bytes that are READ
//! from the peer straight into the reader's own buffer.

use std::ops::Range;

use super::{Link, Phase};
use crate::error::{Error, Result};
use crate::stream::inbox::First;
use crate::stream::pool::Taken;

/// Bytes of a body that was READ ahead.
#[allow(unsafe_code)]
fn there(taken: &Taken, part: Range<usize>) -> &[u8] {
    // SAFETY: it was taken for them, and the device is done with it.
    unsafe { taken.bytes(part) }
}

impl Link {
    /// The next received bytes. `Again`: none now. `Closed`: the peer closed
    /// and all was read. For tools: libzmq uses [`Link::read`].
    pub fn chunk(&self) -> Result<&[u8]> {
        match self.inbox.first() {
            First::Bytes(bytes) => Ok(bytes),
            First::Ahead(taken, part) => Ok(there(taken, part)),
            _ => Err(self.nothing()),
        }
    }

    fn nothing(&self) -> Error {
        match &self.phase {
            _ if self.peer_shut && !self.inbox.is_readable() => Error::Closed,
            Phase::Dead(why) => why.clone(),
            _ => Error::Again,
        }
    }

    /// `n` bytes of the chunk were read.
    pub fn consume(&mut self, n: usize) {
        if self.inbox.consume(n) {
            if let Phase::Open(flow) = &mut self.phase {
                flow.on_consumed();
            }
        }
    }

    /// Read up to `size` bytes to `to`. `Again`: none now, or a READ to `to` is under way.
    /// `Closed`: the peer closed and all was read. `steady`: see below; without it,
    /// bytes that are with the peer must be sent by it.
    ///
    /// # Safety
    /// `to` is valid for writes of `size` bytes. If `steady`, it stays so, nobody else touches it,
    /// and it is what the next calls are given, until one of them returns bytes, or an error
    /// other than `Again`, or until the link is dropped.
    #[allow(unsafe_code)]
    pub unsafe fn read(&mut self, to: *mut u8, size: usize, steady: bool) -> Result<usize> {
        let mut done = 0;
        while done < size {
            let at = to.wrapping_add(done);
            match self.inbox.first() {
                // Its reader may have a place for it once it has seen what comes before.
                First::Ahead(..) if done > 0 => break,
                first @ (First::Bytes(_) | First::Ahead(..)) => {
                    let bytes = match first {
                        First::Bytes(bytes) => bytes,
                        First::Ahead(taken, part) => there(taken, part),
                        _ => break,
                    };
                    let n = bytes.len().min(size - done);
                    // SAFETY: `to` has room for `size` bytes, done + n <= size, and it is no
                    // memory of ours.
                    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, n) };
                    self.ledger.copied(n);
                    self.consume(n);
                    done += n;
                }
                First::Here(here, len) if here == at as usize && len <= size - done => {
                    self.inbox.take_here();
                    done += len;
                }
                First::Here(..) => {
                    self.die_of(Err(Error::Misuse("another buffer than the READ was for")));
                    break;
                }
                First::There if done == 0 => {
                    // SAFETY: the caller's.
                    unsafe { self.start_reads(to, size, steady) };
                    break;
                }
                First::There | First::Nothing => break,
            }
        }
        self.offered = steady && done == 0;
        self.replenish();
        match done {
            0 => Err(self.nothing()),
            done => Ok(done),
        }
    }

    /// READ what the RTS at the front name, as far as they fit; decline if the first does not.
    ///
    /// # Safety
    /// As for `read`.
    #[allow(unsafe_code)]
    unsafe fn start_reads(&mut self, to: *mut u8, size: usize, steady: bool) {
        let able = steady && self.is_open() && self.endpoint.caps().reads;
        let (mut count, mut used) = (0, 0);
        while let Some((from, number)) = self.inbox.rts_behind(count).filter(|_| able) {
            let len = from.len as usize;
            // The first waits for no other: those before it are done.
            if len > size - used || (count > 0 && !self.read_may_start()) {
                break;
            }
            let at = to.wrapping_add(used);
            // SAFETY: inside the reader's buffer, which it keeps until the end of this READ, as it
            // promised; a dead link's endpoint has let go of it.
            match unsafe { self.endpoint.post_read(at, from, number) } {
                Ok(()) => self.inbox.on_coming(count, at as usize),
                // This memory will not do, or not now.
                Err(Error::Limit(_) | Error::Misuse(_) | Error::Again) => break,
                Err(why) => return self.die_of(Err(why)),
            }
            count += 1;
            used += len;
        }
        if count == 0 {
            self.refuse();
        }
        let done = self.advance();
        self.die_of(done);
    }

    /// The peer shall send what it wants READ.
    fn refuse(&mut self) {
        if let Phase::Open(flow) = &mut self.phase {
            let (frames, bytes) = self.inbox.drop_all();
            flow.refuse(frames, bytes);
        }
    }

    pub(super) fn on_read_done(&mut self, number: u64) -> Result<()> {
        let Some(len) = self.inbox.on_here(number) else {
            return Err(Error::Misuse("the end of a READ that was not posted"));
        };
        self.ledger.read_from_peer(len);
        if let Phase::Open(flow) = &mut self.phase {
            flow.on_read_done();
        }
        self.drop_unread();
        Ok(())
    }

    /// Nobody reads any more: drop what has come, and what comes.
    pub fn deafen(&mut self) {
        self.deaf = true;
        self.drop_unread();
    }

    pub(super) fn drop_unread(&mut self) {
        if !self.deaf {
            return;
        }
        let (data, rts) = self.inbox.drop_unread();
        if let Phase::Open(flow) = &mut self.phase {
            (0..data).for_each(|_| flow.on_consumed());
            (0..rts).for_each(|_| flow.on_read_done());
        }
    }
}
