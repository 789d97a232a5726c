// SPDX-License-Identifier: MPL-2.0
//! Which records are in use. A lock is taken when a link is made, stands or
//! ends, and by who reads; never while bytes flow.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use super::view::{self, Link, Process};
use super::{place, Record, Tally, COUNTERS, EPOCH, EVENTS, ID, KIND, LIVE, MAGIC, PID, PINNED};
use super::{SINCE, UNPINNED, VERSION, WORDS};
use crate::device;
use crate::error::Result;
use crate::os::{self, PerProcess};

/// Name of the memory that `share` makes.
pub const SHARED_NAME: &CStr = c"zmq-rdma-stats";
/// Records of a shared table: the process's, and those of its links. What is not
/// used takes no memory. Links beyond are counted, but not seen from outside.
pub(super) const RECORDS: usize = 4096;
/// First word of a table.
pub(super) const NAME_OF_LAYOUT: u64 = u64::from_ne_bytes(*b"ZRDMAtop");
/// Raised when a word of a record changes its meaning, or gets one.
pub(super) const LAYOUT: u64 = 2;

/// What may befall a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// A link of a peer's stands.
    Accepted,
    /// A link of ours stands.
    Connected,
    /// A link of a peer's ended before it stood.
    FailedAccept,
    /// A connect failed.
    FailedConnect,
    /// We rejected a peer.
    RejectSent,
    /// A peer rejected us.
    RejectReceived,
    /// A link ended in good order, or by this side's will.
    Closed,
    /// A link was lost.
    Died,
}

struct Books {
    process: Record,
    live: Vec<Record>,
    free: Vec<Record>,
    last_id: u64,
    shared: bool,
}

impl Default for Books {
    fn default() -> Books {
        let books = Books {
            process: fresh(),
            live: Vec::new(),
            free: Vec::new(),
            last_id: 0,
            shared: false,
        };
        books.begin();
        books
    }
}

/// A record that stays for good: links come and go, and take it in turn.
fn fresh() -> Record {
    Box::leak(Box::new([const { AtomicU64::new(0) }; WORDS]))
}

static BOOKS: PerProcess<Mutex<Books>> = PerProcess::new();

fn books() -> MutexGuard<'static, Books> {
    BOOKS.get().lock().unwrap_or_else(|e| e.into_inner())
}

impl Books {
    fn begin(&self) {
        set(self.process, MAGIC, NAME_OF_LAYOUT);
        set(self.process, VERSION, LAYOUT);
        set(self.process, SINCE, now());
        set(self.process, PID, u64::from(std::process::id()));
    }

    fn changed(&self) {
        set(self.process, LIVE, self.live.len() as u64);
        let epoch = self.process[EPOCH].load(Ordering::Relaxed);
        // Whoever sees the new number sees what it stands for, or reads again.
        self.process[EPOCH].store(epoch + 1, Ordering::Release);
    }

    fn remember_memory(&self) {
        let held = device::held();
        set(self.process, PINNED, held.pinned as u64);
        set(self.process, UNPINNED, held.unpinned as u64);
    }
}

fn set(record: Record, at: usize, value: u64) {
    record[at].store(value, Ordering::Relaxed);
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Put this process's counters where other processes of the same user may read
/// them: in memory that they find among its descriptors, by [`SHARED_NAME`]. Whether they may
/// is the kernel's to say, as for everything below `/proc/PID/fd`. To be asked
/// before the first link; a second call does nothing.
pub fn share() -> Result<()> {
    let mut books = books();
    if books.shared {
        return Ok(());
    }
    // Also after a failure: one complaint is enough.
    books.shared = true;
    let words = os::system::shared_words(SHARED_NAME, RECORDS * WORDS)?;
    let mut records = words.chunks_exact(WORDS).filter_map(|c| c.try_into().ok());
    let first: Option<Record> = records.next();
    if let Some(process) = first {
        for (to, from) in process.iter().zip(books.process) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        books.process = process;
        books.free = records.collect();
        books.free.reverse();
    }
    books.changed();
    Ok(())
}

/// A record for a new link.
pub(super) fn open() -> Tally {
    let mut books = books();
    let record = books.free.pop().unwrap_or_else(fresh);
    books.last_id += 1;
    for word in &record[1..] {
        word.store(0, Ordering::Relaxed);
    }
    set(record, SINCE, now());
    set(record, ID, books.last_id);
    books.live.push(record);
    books.remember_memory();
    books.changed();
    Tally(record)
}

/// The link is gone: what it counted is kept in the process's record.
pub(super) fn close(tally: Tally) {
    let mut books = books();
    let record = tally.0;
    for at in (0..COUNTERS).map(place) {
        books.process[at].fetch_add(record[at].load(Ordering::Relaxed), Ordering::Relaxed);
    }
    set(record, ID, 0);
    set(record, KIND, 0);
    books.live.retain(|other| !std::ptr::eq(*other, record));
    books.free.push(record);
    books.remember_memory();
    books.changed();
}

/// Something befell a link.
pub fn happened(fate: Fate) {
    books().process[EVENTS + fate as usize].fetch_add(1, Ordering::Relaxed);
}

/// Note how much memory is held, for those who look from outside.
pub fn watch_memory() {
    books().remember_memory();
}

/// The links of this process, oldest first.
pub fn links() -> Vec<Link> {
    books().links()
}

/// This process.
pub fn process() -> Process {
    let books = books();
    books.remember_memory();
    view::process(&view::load(books.process), &books.links())
}

impl Books {
    fn links(&self) -> Vec<Link> {
        let records = self.live.iter().map(|record| view::load(record));
        records.filter_map(|words| view::link(&words)).collect()
    }
}
