// SPDX-License-Identifier: MPL-2.0
//! Bodies that are READ before the reader asks for them, so that several are under way at once: into
//! chunks of the pool, which become the reader's without a copy.

use super::{Link, Phase};
use crate::device::Remote;
use crate::error::{Error, Result};
use crate::stream::pool::{self, Taken};

/// Bytes that one link READs ahead at most: four of the largest pieces.
pub const AHEAD: usize = 4 << 20;

impl Link {
    /// From now on READ bodies of up to `most` bytes ahead, as far as there is memory for them.
    pub fn read_ahead(&mut self, most: usize) {
        self.ahead_most = most;
    }

    /// The reader's next `size` bytes are a body: the memory where they are or come already, as from
    /// `Pool::take`. It is the reader's, which gives it back, and goes on with [`Link::read`] into
    /// it, `steady`, as if that had been called before. `None`: the reader must bring memory itself.
    pub fn adopt(&mut self, size: usize) -> Option<Taken> {
        // It has a place from now on, whichever.
        self.offered = true;
        let adopted = self.inbox.adopt(size)?;
        let done = self.advance();
        self.die_of(done);
        Some(adopted)
    }

    /// One more READ is well under way beside the others.
    pub(super) fn read_may_start(&self) -> bool {
        let most = self.endpoint.caps().reads_at_once;
        self.inbox.coming() < usize::from(most.max(1))
    }

    /// READ what may be READ ahead.
    pub(super) fn look_ahead(&mut self) -> Result<()> {
        let may = self.inbox.has_more()
            && self.ahead_most > 0
            && !self.deaf
            && matches!(self.phase, Phase::Open(_));
        if !may || self.pool.is_none() || !self.endpoint.caps().reads {
            return Ok(());
        }
        // The reader has a place for it.
        if self.offered && self.inbox.waits_for_reader() {
            return Ok(());
        }
        while self.read_may_start() {
            let Some((from, number)) = self.inbox.next_ahead() else {
                break;
            };
            let len = from.len as usize;
            if len > self.ahead_most || len > self.ahead_room.saturating_sub(self.inbox.ahead()) {
                break;
            }
            let Some(taken) = pool::pool().take_ahead(len) else {
                break;
            };
            if !self.fetch(from, number, taken)? {
                break;
            }
        }
        Ok(())
    }

    /// Start the READ of an RTS into a chunk; false: it cannot be, now.
    #[allow(unsafe_code)]
    fn fetch(&mut self, from: Remote, number: u64, taken: Taken) -> Result<bool> {
        let to = taken.start().as_ptr();
        // SAFETY: the chunk has room for it, and is kept in the inbox, which is dropped after the
        // endpoint; or it is adopted by a reader that keeps it as `read` asks.
        let posted = unsafe { self.endpoint.post_read(to, from, number) };
        match posted {
            Err(Error::Limit(_) | Error::Misuse(_) | Error::Again) => Ok(false),
            // Also when it failed: who knows what the device does until it is told to end.
            other => {
                self.inbox.on_ahead(number, taken);
                other.map(|()| true)
            }
        }
    }
}
