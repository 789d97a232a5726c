// SPDX-License-Identifier: MPL-2.0
//! Counters: what each link has done, and what all have since the process
//! began. A link writes into a record of its own by plain loads and stores (relaxed
//! atomics with one writer), so counting takes no lock and no locked instruction.
//! `registry` knows which records are in use, `view` reads them.
//!
//! A record is 64 words, whether it lies on the heap or, on request, in memory
//! that another process of the user may read (`registry::share`).

mod ledger;
mod registry;
#[cfg(test)]
mod tests;
mod view;

use std::sync::atomic::{AtomicU64, Ordering};

use crate::device::Kind;
pub use ledger::Ledger;
pub use registry::{happened, links, process, share, watch_memory, Fate, SHARED_NAME};
pub use view::{read, Counts, Happened, Link, Phase, Process, Role, Snapshot};

/// Words of a record.
const WORDS: usize = 64;

/// A record: one link's, or the process's.
type Record = &'static [AtomicU64; WORDS];

// A link's record.
const ID: usize = 0;
const KIND: usize = 1;
const SINCE: usize = 2;
const GAUGES: usize = 3;
const SLOT: usize = 4;
// The process's, in the same places.
const MAGIC: usize = 0;
const VERSION: usize = 1;
const EPOCH: usize = 3;
const PID: usize = 4;
const LIVE: usize = 5;
// Counters of a link; in the process's record: of the links that are gone.
const COUNTS: usize = 6;
/// How many have their places there; the others' are behind the names.
const FIRST_COUNTERS: usize = 10;
const MORE_COUNTS: usize = 44;
const COUNTERS: usize = 15;
// A link's names.
const DEVICE: usize = 16;
const LOCAL: usize = 20;
const PEER: usize = 32;
const NAMES_END: usize = 44;
// Events of the process, and its memory.
const EVENTS: usize = 16;
const PINNED: usize = 24;
const UNPINNED: usize = 25;

/// What a link counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Count {
    /// Bytes of the stream sent.
    BytesSent,
    /// Bytes of the stream received.
    BytesReceived,
    /// DATA frames sent.
    DataSent,
    /// DATA frames received.
    DataReceived,
    /// Other frames sent: HELLO, CREDIT, FIN, FIN_ACK, PING.
    ControlSent,
    /// Other frames received.
    ControlReceived,
    /// PINGs sent.
    Pings,
    /// PINGs sent because the peer had not answered HELLO.
    Rescues,
    /// Times that there was something to send, and no credit.
    CreditStalls,
    /// Times that there was something to send, and no place in the send queue or no slot.
    QueueStalls,
    /// Bytes of the stream that this library copied.
    BytesCopied,
    /// Of `BytesSent`: those that the peer READ.
    ReadByPeer,
    /// Of `BytesReceived`: those READ from the peer.
    ReadFromPeer,
    /// Messages sent; whoever uses the link counts them.
    MessagesSent,
    /// Messages received, and the word behind it.
    MessagesReceived,
}

/// The word of a counter in a record.
const fn place(count: usize) -> usize {
    match count.checked_sub(FIRST_COUNTERS) {
        None => COUNTS + count,
        Some(more) => MORE_COUNTS + more,
    }
}

// Whoever counts messages finds the one behind the other.
const _: () = assert!(
    place(Count::MessagesReceived as usize) == place(Count::MessagesSent as usize) + 1
        && place(COUNTERS - 1) < WORDS
);

/// How full a link is at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gauges {
    /// SENDs that the peer lets us send.
    pub credits: u16,
    /// SENDs posted and not complete.
    pub sends: u16,
    /// Receives posted and not filled.
    pub receives: u16,
    /// DATA frames received and not read.
    pub unread: u16,
}

impl Gauges {
    fn pack(self) -> u64 {
        u64::from(self.credits)
            | u64::from(self.sends) << 16
            | u64::from(self.receives) << 32
            | u64::from(self.unread) << 48
    }

    fn unpack(word: u64) -> Gauges {
        Gauges {
            credits: word as u16,
            sends: (word >> 16) as u16,
            receives: (word >> 32) as u16,
            unread: (word >> 48) as u16,
        }
    }
}

/// The counters of one link, to be written by it alone.
#[derive(Clone, Copy)]
struct Tally(Record);

impl Tally {
    /// Count `n` more.
    #[inline]
    fn add(self, what: Count, n: u64) {
        let word = &self.0[place(what as usize)];
        word.store(
            word.load(Ordering::Relaxed).wrapping_add(n),
            Ordering::Relaxed,
        );
    }

    /// Where messages are counted: sent, and behind it received.
    fn messages(self) -> *mut u64 {
        let words = &self.0[place(Count::MessagesSent as usize)..];
        words.as_ptr().cast_mut().cast()
    }

    /// How full it is now.
    #[inline]
    fn set_gauges(self, gauges: Gauges) {
        self.0[GAUGES].store(gauges.pack(), Ordering::Relaxed);
    }

    /// Where it stands, who began it, and what serves it.
    fn set_kind(self, phase: Phase, role: Role, kind: Kind) {
        let word = phase as u64 | (role as u64) << 8 | u64::from(kind == Kind::Verbs) << 16;
        self.0[KIND].store(word, Ordering::Relaxed);
    }

    /// The peers, the device, and the bytes of its slots.
    fn set_names(self, device: &str, local: &str, peer: &str, slot: usize) {
        put_text(self.0, DEVICE..LOCAL, device);
        put_text(self.0, LOCAL..PEER, local);
        put_text(self.0, PEER..NAMES_END, peer);
        self.0[SLOT].store(slot as u64, Ordering::Relaxed);
    }
}

/// Text in words, NUL-padded, cut to what fits with one NUL at least.
fn put_text(record: Record, words: std::ops::Range<usize>, text: &str) {
    let room = words.len() * 8 - 1;
    let mut bytes = text.bytes().take(room);
    for word in &record[words] {
        let next: [u8; 8] = std::array::from_fn(|_| bytes.next().unwrap_or(0));
        word.store(u64::from_ne_bytes(next), Ordering::Relaxed);
    }
}
