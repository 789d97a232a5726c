// SPDX-License-Identifier: MPL-2.0
//! Memory of the caller that a device reads or writes in its place: what
//! `expose` shows to the peer, and what a READ or a peer's WRITE fills.

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use super::Free;

/// Bytes of the caller that nobody writes as long as this or a copy exists.
#[derive(Debug, Clone, Copy)]
pub struct Exposed {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: it is only ever read, and `new` demands that nobody writes.
unsafe impl Send for Exposed {}

impl Exposed {
    /// # Safety
    /// `addr` is readable for `len` bytes, and nobody writes them, until this
    /// and every copy of it is gone.
    pub unsafe fn new(addr: *const u8, len: usize) -> Exposed {
        Exposed {
            start: NonNull::new(addr.cast_mut()).unwrap_or(NonNull::dangling()),
            len,
        }
    }

    /// No bytes.
    pub fn none() -> Exposed {
        Exposed {
            start: NonNull::dangling(),
            len: 0,
        }
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `new` demanded it; for no bytes, the pointer is aligned and
        // not null, which is enough.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

/// Bytes of the caller that a device fills; nobody else touches them meanwhile.
#[derive(Debug)]
pub struct Sink {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: its holder is the only user of the memory, in whichever thread.
unsafe impl Send for Sink {}

impl Sink {
    /// # Safety
    /// `addr` is writable for `len` bytes, and nobody else touches them, until
    /// this is gone.
    pub unsafe fn new(addr: *mut u8, len: usize) -> Sink {
        Sink {
            start: NonNull::new(addr).unwrap_or(NonNull::dangling()),
            len,
        }
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Room for `len` bytes at offset `at`.
    ///
    /// # Panics
    /// If that is outside.
    #[inline]
    pub fn room(&mut self, at: usize, len: usize) -> &mut [MaybeUninit<u8>] {
        assert!(
            at <= self.len && len <= self.len - at,
            "placed past the end of a sink"
        );
        // SAFETY: in bounds by the assertion above.
        let start = unsafe { self.start.add(at) };
        // SAFETY: `new` demanded that it is writable and ours alone.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr().cast(), len) }
    }

    /// Place a copy of `bytes` at offset `at`.
    ///
    /// # Panics
    /// If they do not fit.
    #[inline]
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        let to = self.room(at, bytes.len()).as_mut_ptr().cast::<u8>();
        // SAFETY: the room is as long as `bytes`, and nobody else refers to it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) }
    }
}

impl Free {
    /// A copy of what was put there (or of zeroes).
    ///
    /// # Panics
    /// If the range is not inside the slot.
    pub fn copied(&self, range: std::ops::Range<usize>) -> Vec<u8> {
        assert!(
            range.start <= range.end && range.end <= self.capacity(),
            "read past the end of a slot"
        );
        // SAFETY: in bounds by the assertion above.
        let from = unsafe { self.slot.raw.start.as_ptr().add(range.start) };
        // SAFETY: in bounds, initialised (slabs are zeroed at birth), and ours alone.
        unsafe { std::slice::from_raw_parts(from, range.len()) }.to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_a_fine_address_of_no_bytes() {
        // SAFETY: there are no bytes.
        let exposed = unsafe { Exposed::new(std::ptr::null(), 0) };
        assert!(exposed.bytes().is_empty());
        // SAFETY: there are no bytes.
        let mut sink = unsafe { Sink::new(std::ptr::null_mut(), 0) };
        sink.write(0, b"");
        assert!(sink.is_empty());
    }

    #[test]
    fn a_sink_takes_bytes_at_an_offset() {
        let mut memory = [0u8; 6];
        // SAFETY: `memory` outlives the sink, and is not touched before that ends.
        let mut sink = unsafe { Sink::new(memory.as_mut_ptr(), memory.len()) };
        sink.write(2, b"cd");
        sink.room(5, 1)[0].write(b'f');
        assert_eq!(&memory, b"\0\0cd\0f");
    }

    #[test]
    #[should_panic(expected = "past the end")]
    fn a_sink_has_an_end() {
        let mut memory = [0u8; 4];
        // SAFETY: `memory` outlives the sink.
        unsafe { Sink::new(memory.as_mut_ptr(), 4) }.write(3, b"de");
    }
}
