// SPDX-License-Identifier: MPL-2.0
//! The process's memory for soft connections: slots to send from, slots to
//! receive into, chunks to read TCP into. Shared by all connections, so that
//! one that is idle holds none of it.

use std::sync::{Arc, Mutex};

use crate::device::region::{ChunkPool, Free, Margins, Slab, Unregistered, Writer};
use crate::error::{Error, Result};
use crate::os::PerProcess;
use crate::wire::ddp;
use crate::wire::mpa::{CRC_LEN, LENGTH_LEN};

/// Send slots of one size never take more than this.
pub const SEND_CAP: usize = 256 << 20;
/// Receive slots of one size are kept and used again up to this; beyond it
/// each is made for one message. What a peer can make us hold is bounded by the receives posted.
pub const RECV_CAP: usize = 64 << 20;
/// Bytes of a chunk: two of the largest FPDUs.
pub const CHUNK: usize = 128 << 10;
/// Unused chunks kept.
const CHUNKS_KEPT: usize = 64;
const SLOTS_A_BLOCK: usize = 32;

/// Room for what goes around the payload of a SEND that is one FPDU. The one
/// before keeps the payload aligned.
const MARGINS: Margins = Margins {
    before: (LENGTH_LEN + ddp::HEADER_MAX).next_multiple_of(32),
    after: 3 + CRC_LEN,
};

/// Bytes of slots, and of chunks kept for later.
pub fn held() -> usize {
    let sizes = SHARED.get().sizes.lock().unwrap_or_else(|e| e.into_inner());
    let slots = sizes.iter().map(|m| m.send.bytes() + m.recv.bytes());
    slots.sum::<usize>() + SHARED.get().chunks.spare() * CHUNK
}

static SHARED: PerProcess<Shared> = PerProcess::new();

/// What all connections of the process share.
struct Shared {
    sizes: Mutex<Vec<Memory>>,
    chunks: &'static ChunkPool,
}

impl Default for Shared {
    fn default() -> Shared {
        Shared {
            sizes: Mutex::new(Vec::new()),
            chunks: ChunkPool::new(CHUNK, CHUNKS_KEPT),
        }
    }
}

/// The slots of one size, and the chunks.
#[derive(Clone)]
pub(super) struct Memory {
    send: Arc<Slab>,
    recv: Arc<Slab>,
    chunks: &'static ChunkPool,
}

impl Memory {
    /// The process's, for slots of `slot_size` bytes.
    pub fn of(slot_size: usize) -> Memory {
        let shared = SHARED.get();
        let chunks = shared.chunks;
        let mut sizes = shared.sizes.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(known) = sizes.iter().find(|m| m.send.slot_size() == slot_size) {
            return known.clone();
        }
        let memory = Memory::new(slot_size, SEND_CAP, RECV_CAP, chunks);
        sizes.push(memory.clone());
        memory
    }

    fn new(
        slot_size: usize,
        send_cap: usize,
        recv_cap: usize,
        chunks: &'static ChunkPool,
    ) -> Memory {
        let soft = || Box::new(Unregistered);
        Memory {
            send: Slab::with_margins(slot_size, MARGINS, SLOTS_A_BLOCK, send_cap, soft()),
            recv: Slab::new(slot_size, SLOTS_A_BLOCK, recv_cap, soft()),
            chunks,
        }
    }

    /// A slot to send from. `None` at the cap; but not for a connection that has `none` in
    /// use, for nothing would ever tell it to ask again.
    pub fn send_slot(&self, none: bool) -> Result<Option<Free>> {
        match self.send.take()? {
            None if none => single(self.send.slot_size(), MARGINS),
            slot => Ok(slot),
        }
    }

    /// A slot to receive into. Always one: the receive was posted.
    #[inline]
    pub fn recv_slot(&self) -> Result<Free> {
        let slot = match self.recv.take()? {
            None => single(self.recv.slot_size(), Margins::default())?,
            slot => slot,
        };
        slot.ok_or(Error::Limit("receive slots"))
    }

    /// An empty chunk.
    pub fn chunk(&self) -> Writer {
        self.chunks.take()
    }
}

/// A slot that is its own slab, and gone when it is let go.
fn single(slot_size: usize, margins: Margins) -> Result<Option<Free>> {
    Slab::with_margins(slot_size, margins, 1, usize::MAX, Box::new(Unregistered)).take()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_has_one_memory_a_size() {
        let a = Memory::of(1000);
        let b = Memory::of(1000);
        assert!(Arc::ptr_eq(&a.send, &b.send));
        assert!(!Arc::ptr_eq(&a.send, &Memory::of(2000).send));
    }

    #[test]
    fn row_17_at_the_cap_only_who_has_none_gets_a_send_slot() {
        let memory = Memory::new(100, 0, 0, ChunkPool::new(64, 1));
        assert!(memory.send_slot(false).unwrap().is_none());
        assert_eq!(memory.send_slot(true).unwrap().unwrap().capacity(), 100);
        assert_eq!(memory.recv_slot().unwrap().capacity(), 100);
    }
}
