// SPDX-License-Identifier: MPL-2.0
//! Chunks: large buffers that a stream is read into and messages are lent out
//! of, without a copy.
//!
//! A chunk has one writer, which appends; what has been appended never
//! changes while anybody looks at it. When the last holder of a chunk, writer
//! or lent message, lets go, it returns to its pool. So a connection that has
//! nothing to say holds none.

use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::NonNull;

use super::{Filled, Memory, Owner};
use crate::os::pages;
use crate::os::sync::{Arc, ArrayQueue};

/// Chunks of one size, some of them kept for the next who asks.
pub struct ChunkPool {
    size: usize,
    spare: ArrayQueue<Arc<Chunk>>,
}

struct Chunk {
    memory: Memory,
    pool: &'static ChunkPool,
}

impl ChunkPool {
    /// A pool of chunks of `size` bytes that keeps at most `keep` unused ones.
    /// It lives as long as the process: a chunk may come back at any time.
    pub fn new(size: usize, keep: usize) -> &'static ChunkPool {
        Box::leak(Box::new(ChunkPool {
            size,
            spare: ArrayQueue::new(keep.max(1)),
        }))
    }

    /// Bytes of a chunk.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Unused chunks at hand.
    pub fn spare(&self) -> usize {
        self.spare.len()
    }

    /// Let go of the unused ones: a model must leave nothing behind.
    #[cfg(loom)]
    pub(super) fn drain(&self) {
        while self.spare.pop().is_some() {}
    }

    /// An empty chunk to append to.
    pub fn take(&'static self) -> Writer {
        while let Some(mut chunk) = self.spare.pop() {
            // It was put here by its last holder; this also orders our writes
            // after the reads of those who let go before.
            if Arc::get_mut(&mut chunk).is_some() {
                return Writer::new(chunk);
            }
        }
        let memory = Memory::unwritten(self.size, pages::size());
        Writer::new(Arc::new(Chunk { memory, pool: self }))
    }
}

/// Share in a chunk. The last one returns it to its pool.
pub(super) struct Lent {
    chunk: Option<Arc<Chunk>>,
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some(chunk) = self.chunk.take() else {
            return;
        };
        // There are no weak ones, so a count of one means that nobody else
        // can come to share it. Two that let go together may each still see
        // the other: then the chunk is freed, and the pool makes a new one.
        if Arc::strong_count(&chunk) == 1 {
            let pool = chunk.pool;
            // A full pool hands it back, and so it is freed.
            let _ = pool.spare.push(chunk);
        }
    }
}

/// The one who appends to a chunk.
pub struct Writer {
    start: NonNull<u8>,
    filled: usize,
    size: usize,
    lent: Lent,
}

// SAFETY: the writer is the only one who writes beyond `filled`, whichever
// thread it is in.
unsafe impl Send for Writer {}

impl Writer {
    fn new(chunk: Arc<Chunk>) -> Writer {
        Writer {
            start: chunk.memory.start,
            filled: 0,
            size: chunk.pool.size,
            lent: Lent { chunk: Some(chunk) },
        }
    }

    /// What has been appended.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: appended, so initialised; inside the chunk that `lent` keeps, and
        // not written before `restart`, which excludes borrowers.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.filled) }
    }

    /// Bytes that may still be appended.
    pub fn left(&self) -> usize {
        self.size - self.filled
    }

    /// Where to append.
    #[inline]
    pub fn room(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: `filled` never exceeds the chunk's size.
        let at = unsafe { self.start.add(self.filled) };
        // SAFETY: inside the chunk, and beyond all that anybody may look at.
        unsafe { std::slice::from_raw_parts_mut(at.as_ptr().cast(), self.left()) }
    }

    /// The first `n` bytes of `room` have been written.
    ///
    /// # Panics
    /// If there is not that much room.
    #[inline]
    pub fn advance(&mut self, n: usize) {
        assert!(n <= self.left(), "appended past the end of a chunk");
        self.filled += n;
    }

    /// Append a copy of `bytes`.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn append(&mut self, bytes: &[u8]) {
        assert!(
            bytes.len() <= self.left(),
            "appended past the end of a chunk"
        );
        let to = self.room().as_mut_ptr().cast::<u8>();
        // SAFETY: the room is large enough, and nobody else refers to it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) }
        self.filled += bytes.len();
    }

    /// Whether no message is lent out of it.
    pub fn alone(&self) -> bool {
        self.lent
            .chunk
            .as_ref()
            .is_some_and(|chunk| Arc::strong_count(chunk) == 1)
    }

    /// Begin again at the start, keeping the last `keep` bytes; false, and no change, while messages are
    /// lent out of it.
    ///
    /// # Panics
    /// If fewer than `keep` were appended.
    pub fn restart(&mut self, keep: usize) -> bool {
        assert!(keep <= self.filled, "keeping more than was appended");
        // More than `alone`: whoever let go has also finished reading.
        let Some(chunk) = &mut self.lent.chunk else {
            return false;
        };
        if Arc::get_mut(chunk).is_none() {
            return false;
        }
        // SAFETY: `keep` was checked against what is filled.
        let from = unsafe { self.start.add(self.filled - keep) };
        // SAFETY: both ranges lie inside the chunk, of which we are the sole
        // holder, and `&mut self` excludes borrowers of `bytes`.
        unsafe { std::ptr::copy(from.as_ptr(), self.start.as_ptr(), keep) }
        self.filled = keep;
        true
    }

    /// Lend out a part of what was appended.
    ///
    /// # Panics
    /// If `range` is not inside it.
    pub fn lend(&self, range: Range<usize>) -> Filled {
        assert!(
            range.start <= range.end && range.end <= self.filled,
            "lending more than was appended"
        );
        // SAFETY: checked above.
        let start = unsafe { self.start.add(range.start) };
        Filled {
            start,
            len: range.end - range.start,
            _owner: Owner::Chunk(Lent {
                chunk: self.lent.chunk.clone(),
            }),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn lent_bytes_outlive_the_writer_and_return_the_chunk() {
        let pool = ChunkPool::new(64, 2);
        let mut writer = pool.take();
        writer.append(b"abcdef");
        let lent = writer.lend(2..4);
        drop(writer);
        assert_eq!(pool.spare(), 0);
        assert_eq!(lent.bytes(), b"cd");
        drop(lent);
        assert_eq!(pool.spare(), 1);
        assert!(pool.take().bytes().is_empty());
    }

    #[test]
    fn a_writer_goes_on_behind_what_it_has_lent() {
        let mut writer = ChunkPool::new(64, 1).take();
        writer.append(b"abc");
        let lent = writer.lend(0..3);
        writer.append(b"def");
        assert!(!writer.alone() && !writer.restart(1));
        assert_eq!(
            (lent.bytes(), writer.bytes()),
            (&b"abc"[..], &b"abcdef"[..])
        );
        drop(lent);
        assert!(writer.alone() && writer.restart(2));
        assert_eq!(writer.bytes(), b"ef");
        assert_eq!(writer.left(), 62);
    }

    #[test]
    fn a_full_pool_frees_what_comes_back() {
        let pool = ChunkPool::new(64, 1);
        drop((pool.take(), pool.take()));
        assert_eq!(pool.spare(), 1);
    }

    #[test]
    #[should_panic(expected = "past the end")]
    fn appending_past_the_end_panics() {
        ChunkPool::new(4, 1).take().append(b"abcde");
    }

    #[test]
    #[should_panic(expected = "lending more")]
    fn lending_what_is_not_there_panics() {
        ChunkPool::new(4, 1).take().lend(0..1);
    }
}
