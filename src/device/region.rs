// SPDX-License-Identifier: MPL-2.0
//! Memory that a device reads and writes: slabs of equal slots.
//!
//! A slot is in one of three states, each a type; moves convert them.
//! [`Free`] is ours to fill, a posted slot is the device's (kept by the
//! device as [`Posted`]), and only [`Filled`] reads as bytes. Memory that the
//! device may touch is never a Rust reference.
#![allow(unsafe_code)]

#[cfg(not(loom))]
use std::alloc::dealloc;
use std::alloc::{alloc, alloc_zeroed, handle_alloc_error, Layout};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::os::pages;
use crate::os::sync::{Mutex, SegQueue};

mod chunk;
mod foreign;
pub mod pool;

pub use chunk::{ChunkPool, Writer};
pub use foreign::{Exposed, Sink};

/// Every system's page is so many times this.
#[cfg(test)]
const PAGE: usize = 4096;

/// Registers memory with a device; returns the local key, and a guard whose
/// drop deregisters. The guard is dropped before the memory is freed.
pub trait Registrar: Send + Sync {
    /// Register `len` bytes at `addr`.
    fn register(&self, addr: NonNull<u8>, len: usize) -> Result<(u32, Box<dyn Send + Sync>)>;
}

/// Memory that needs no registration (the soft device).
pub struct Unregistered;

impl Registrar for Unregistered {
    fn register(&self, _: NonNull<u8>, _: usize) -> Result<(u32, Box<dyn Send + Sync>)> {
        Ok((0, Box::new(())))
    }
}

/// The local key, and the guard.
type Registered = (u32, Box<dyn Send + Sync>);

struct Block {
    // Field order is drop order: deregister, then free.
    _registration: Box<dyn Send + Sync>,
    memory: Memory,
}

struct Memory {
    /// Aligned to a page.
    start: NonNull<u8>,
    len: usize,
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: `Memory` owns its allocation, and only `Drop` uses its pointers.
unsafe impl Send for Memory {}
// SAFETY: no method takes `&Memory`.
unsafe impl Sync for Memory {}

impl Memory {
    /// All zero.
    fn new(len: usize, page: usize) -> Memory {
        let layout = Memory::layout(len, page);
        // SAFETY: the layout is not of size zero.
        Memory::made(unsafe { alloc_zeroed(layout) }, layout, len, page)
    }

    /// To be written before it is read.
    fn unwritten(len: usize, page: usize) -> Memory {
        let layout = Memory::layout(len, page);
        // SAFETY: the layout is not of size zero.
        Memory::made(unsafe { alloc(layout) }, layout, len, page)
    }

    /// Not aligned to a page: an allocator that is asked for that zeroes by hand, and so touches, what the system
    /// would hand out as zero.
    fn layout(len: usize, page: usize) -> Layout {
        Layout::from_size_align(len + page, 16).expect("slab block layout")
    }

    fn made(base: *mut u8, layout: Layout, len: usize, page: usize) -> Memory {
        let Some(base) = NonNull::new(base) else {
            handle_alloc_error(layout)
        };
        let skip = base.addr().get().wrapping_neg() % page;
        // SAFETY: the layout is a page longer than `len`.
        let start = unsafe { base.add(skip) };
        Memory {
            start,
            len,
            base,
            layout,
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // The models of tests/loom know a piece of memory by its address.
        #[cfg(not(loom))]
        // SAFETY: allocated in `new` with this layout, freed only here.
        unsafe {
            dealloc(self.base.as_ptr(), self.layout)
        }
    }
}

#[derive(Clone, Copy)]
struct Raw {
    start: NonNull<u8>,
    key: u32,
}

// SAFETY: a `Raw` names memory that its slab keeps alive; whoever holds it
// out of the free list is its only user.
unsafe impl Send for Raw {}

/// Bytes around each slot that belong to the device: room for the headers and
/// trailers that make a message leave in one piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Margins {
    /// Before the slot.
    pub before: usize,
    /// Behind it.
    pub after: usize,
}

/// Equal slots, grown by blocks up to a cap, shared by the endpoints of a device.
pub struct Slab {
    slot_size: usize,
    margins: Margins,
    slots_a_block: usize,
    cap_bytes: usize,
    free: SegQueue<Raw>,
    blocks: Mutex<Vec<Block>>,
    registrar: Box<dyn Registrar>,
    /// Blocks share no page with others' memory: a page is pinned as a whole, and on older
    /// kernels a forked child does not have it.
    page: usize,
}

impl Slab {
    /// A slab of slots of `slot_size` bytes that never pins more than `cap_bytes`.
    pub fn new(
        slot_size: usize,
        slots_a_block: usize,
        cap_bytes: usize,
        registrar: Box<dyn Registrar>,
    ) -> Arc<Slab> {
        let margins = Margins::default();
        Slab::with_margins(slot_size, margins, slots_a_block, cap_bytes, registrar)
    }

    /// As `new`, each slot with margins for the device.
    pub fn with_margins(
        slot_size: usize,
        margins: Margins,
        slots_a_block: usize,
        cap_bytes: usize,
        registrar: Box<dyn Registrar>,
    ) -> Arc<Slab> {
        Arc::new(Slab {
            slot_size,
            margins,
            slots_a_block: slots_a_block.max(1),
            cap_bytes,
            free: SegQueue::new(),
            blocks: Mutex::new(Vec::new()),
            registrar,
            page: pages::size(),
        })
    }

    /// Bytes of one slot.
    pub fn slot_size(&self) -> usize {
        self.slot_size
    }

    /// Bytes this slab has taken (and, on verbs, pinned) so far.
    pub fn bytes(&self) -> usize {
        let blocks = self.blocks.lock().unwrap_or_else(|e| e.into_inner());
        blocks.iter().map(|block| block.memory.len).sum()
    }

    /// Bytes of the slots that are free, as of some moment just now.
    pub fn spare(&self) -> usize {
        self.free.len() * self.slot_stride()
    }

    /// A free slot; `None` when the cap is met and none is free.
    pub fn take(self: &Arc<Self>) -> Result<Option<Free>> {
        let raw = match self.free.pop() {
            Some(raw) => raw,
            None => match self.grow()? {
                Some(raw) => raw,
                None => return Ok(None),
            },
        };
        Ok(Some(Free {
            slot: Slot {
                raw,
                slab: Arc::clone(self),
            },
        }))
    }

    fn block_bytes(&self, slots: usize) -> usize {
        (self.slot_stride() * slots).next_multiple_of(self.page)
    }

    fn slot_stride(&self) -> usize {
        (self.margins.before + self.slot_size + self.margins.after).next_multiple_of(64)
    }

    fn grow(&self) -> Result<Option<Raw>> {
        let mut blocks = self
            .blocks
            .lock()
            .map_err(|_| Error::Limit("slab poisoned by an earlier panic"))?;
        if let Some(raw) = self.free.pop() {
            return Ok(Some(raw));
        }
        let taken: usize = blocks.iter().map(|block| block.memory.len).sum();
        if taken + self.block_bytes(self.slots_a_block) > self.cap_bytes {
            return Ok(None);
        }
        let (slots, memory, (key, registration)) = self.registered()?;
        let slot = |i: usize| {
            let at = i * self.slot_stride() + self.margins.before;
            // SAFETY: slot i lies inside the block, by `block_bytes`.
            let start = unsafe { memory.start.add(at) };
            Raw { start, key }
        };
        (1..slots).for_each(|i| self.free.push(slot(i)));
        let first = slot(0);
        blocks.push(Block {
            _registration: registration,
            memory,
        });
        Ok(Some(first))
    }

    /// A block of so many slots: fewer than usual where no more may be registered.
    fn registered(&self) -> Result<(usize, Memory, Registered)> {
        let mut slots = self.slots_a_block;
        loop {
            let memory = Memory::new(self.block_bytes(slots), self.page);
            match self.registrar.register(memory.start, memory.len) {
                Err(Error::Limit(_)) if slots > 1 => slots /= 2,
                other => return Ok((slots, memory, other?)),
            }
        }
    }
}

struct Slot {
    raw: Raw,
    slab: Arc<Slab>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slab.free.push(self.raw);
    }
}

/// A slot that is ours to fill. Dropping it gives it back to its slab.
pub struct Free {
    slot: Slot,
}

impl Free {
    /// Bytes it holds.
    pub fn capacity(&self) -> usize {
        self.slot.slab.slot_size
    }

    /// Start of the slot, for a foreign encoder; valid for `capacity` bytes
    /// while this `Free` is neither moved into a device nor dropped.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.slot.raw.start.as_ptr()
    }

    /// Copy `bytes` to `offset`.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        assert!(
            offset <= self.capacity() && bytes.len() <= self.capacity() - offset,
            "write past the end of a slot"
        );
        // SAFETY: in bounds by the assertion above.
        let to = unsafe { self.slot.raw.start.as_ptr().add(offset) };
        // SAFETY: we own the slot alone, and `bytes` cannot overlap memory
        // that nobody else may reference.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) }
    }

    /// Hand it to a device: nobody else may touch it until it comes back.
    pub fn post(self) -> Posted {
        Posted { slot: self.slot }
    }

    /// It was filled by a copy, not by a device: read it from now on.
    ///
    /// # Panics
    /// If `len` is more than its capacity.
    pub fn fill(self, len: usize) -> Filled {
        self.post().filled(len)
    }
}

/// A slot that a device may be reading or writing. Held by the device alone.
pub struct Posted {
    slot: Slot,
}

impl Posted {
    /// Address for the work request.
    pub fn addr(&self) -> NonNull<u8> {
        self.slot.raw.start
    }

    /// Local key for the work request.
    pub fn key(&self) -> u32 {
        self.slot.raw.key
    }

    /// Bytes it holds.
    pub fn capacity(&self) -> usize {
        self.slot.slab.slot_size
    }

    /// The device is done with a receive of `len` bytes.
    ///
    /// # Panics
    /// If `len` is more than its capacity.
    pub fn filled(self, len: usize) -> Filled {
        assert!(len <= self.capacity(), "a receive longer than its slot");
        Filled {
            start: self.slot.raw.start,
            len,
            _owner: Owner::Slot(self.slot),
        }
    }

    /// The device is done with a send, or the queue was flushed.
    pub fn free(self) -> Free {
        Free { slot: self.slot }
    }
}

enum Owner {
    Slot(Slot),
    Chunk(#[allow(dead_code)] chunk::Lent),
    Shared(#[allow(dead_code)] Arc<dyn Send + Sync>),
}

/// Received bytes. Dropping it gives its memory back.
pub struct Filled {
    start: NonNull<u8>,
    len: usize,
    _owner: Owner,
}

// SAFETY: the bytes are owned through `_owner` and no device writes them any more.
unsafe impl Send for Filled {}
// SAFETY: as above; through a shared reference the bytes can only be read.
unsafe impl Sync for Filled {}

impl Filled {
    /// Received bytes that lie inside a larger buffer which `owner` keeps alive.
    ///
    /// # Safety
    /// `start..start+len` is initialised memory inside what `owner` keeps
    /// alive, and nobody writes it as long as `owner` has a holder.
    pub unsafe fn view(start: NonNull<u8>, len: usize, owner: Arc<dyn Send + Sync>) -> Filled {
        Filled {
            start,
            len,
            _owner: Owner::Shared(owner),
        }
    }

    /// Put `head` right before the bytes and `tail` right behind them, in the
    /// margins of the slot; all of it is then the bytes.
    ///
    /// # Panics
    /// If it is not a whole slot's bytes, or the margins are too narrow.
    pub fn enclose(self, head: &[u8], tail: &[u8]) -> Filled {
        let Owner::Slot(slot) = &self._owner else {
            panic!("only a slot has margins")
        };
        let slab = &slot.slab;
        assert!(
            self.start == slot.raw.start
                && head.len() <= slab.margins.before
                && self.len + tail.len() <= slab.slot_size + slab.margins.after,
            "margins too narrow"
        );
        // SAFETY: the margin before the slot is at least as long as `head`.
        let start = unsafe { self.start.sub(head.len()) };
        // SAFETY: `len` is at most the slot's size.
        let end = unsafe { self.start.add(self.len) };
        // SAFETY: inside the slot's own margin; we own the slot alone, so
        // `head` cannot overlap it.
        unsafe { std::ptr::copy_nonoverlapping(head.as_ptr(), start.as_ptr(), head.len()) }
        // SAFETY: as above, for what is behind the bytes.
        unsafe { std::ptr::copy_nonoverlapping(tail.as_ptr(), end.as_ptr(), tail.len()) }
        Filled {
            start,
            len: head.len() + self.len + tail.len(),
            _owner: self._owner,
        }
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: initialised (slabs are zeroed at birth, of chunks only what was
        // appended is lent), alive through `_owner`, and not written while this exists.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl std::fmt::Debug for Filled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Filled({} bytes)", self.len)
    }
}

#[cfg(all(test, loom))]
mod models;

#[cfg(all(test, not(loom)))]
mod tests;
