// SPDX-License-Identifier: MPL-2.0
//! A chunk that is filled before there is a message for it.

use std::ops::Range;
use std::ptr::NonNull;

use super::{give_back, Chunk, Pool, State};

/// A chunk that is nobody's message yet. Goes back to the pool when dropped.
#[derive(Debug)]
pub struct Taken {
    chunk: NonNull<Chunk>,
    start: NonNull<u8>,
}

// SAFETY: as of the message that it may become, any thread may use and free it.
unsafe impl Send for Taken {}

impl Taken {
    /// Where it begins; mapped for the bytes that it was taken for as long as this is not dropped.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// It becomes a message: as from [`Pool::take`], to be given back by [`give_back`].
    pub fn into_message(self) -> (NonNull<Chunk>, NonNull<u8>) {
        let taken = std::mem::ManuallyDrop::new(self);
        (taken.chunk, taken.start)
    }

    /// Some of its bytes.
    ///
    /// # Safety
    /// They are among those that it was taken for, and nobody writes them as long as they are borrowed.
    pub unsafe fn bytes(&self, part: Range<usize>) -> &[u8] {
        let start = self.start.as_ptr().wrapping_add(part.start);
        // SAFETY: mapped, so initialised; the rest is the caller's.
        unsafe { std::slice::from_raw_parts(start, part.len()) }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        // SAFETY: of `take`, and given to nobody.
        unsafe { give_back(self.chunk) }
    }
}

impl Pool {
    /// Room for a message of `size` bytes that may come. `None` as from [`Pool::take`], and
    /// where messages hold half of the cap already: what has an owner comes first.
    pub fn take_ahead(&self, size: usize) -> Option<Taken> {
        let half = |state: &State, capacity| state.books.lent + capacity <= state.cap / 2;
        let (chunk, start) = self.take_if(size, half)?;
        Some(Taken { chunk, start })
    }
}
