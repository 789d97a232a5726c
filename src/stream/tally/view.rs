// SPDX-License-Identifier: MPL-2.0
//! Records as values: in this process, and as another one reads them from the
//! table that `registry::share` made.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

use super::registry::{LAYOUT, NAME_OF_LAYOUT, RECORDS};
use super::{place, Gauges, Record, COUNTERS, DEVICE, EPOCH, EVENTS, GAUGES, ID, KIND, LIVE};
use super::{LOCAL, MAGIC, NAMES_END, PEER, PID, PINNED, SINCE, SLOT, UNPINNED, VERSION, WORDS};

/// Where a link stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Its handshake is under way.
    Opening,
    /// Bytes may flow.
    Open,
    /// This side has begun to close.
    Closing,
    /// It has ended, and its owner has yet to let it go.
    Dead,
}

/// Who began a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// This side connected.
    Connected,
    /// The peer did.
    Accepted,
}

/// What was counted; since the start of the link, or of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Bytes of the stream sent.
    pub bytes_sent: u64,
    /// Bytes of the stream received.
    pub bytes_received: u64,
    /// DATA frames sent.
    pub data_sent: u64,
    /// DATA frames received.
    pub data_received: u64,
    /// Other frames sent.
    pub control_sent: u64,
    /// Other frames received.
    pub control_received: u64,
    /// PINGs sent.
    pub pings: u64,
    /// PINGs sent because the peer had not answered HELLO.
    pub rescues: u64,
    /// Times that there was something to send, and no credit.
    pub credit_stalls: u64,
    /// Times that there was something to send, and no place in the send queue or no slot.
    pub queue_stalls: u64,
    /// Bytes of the stream that this library copied.
    pub bytes_copied: u64,
    /// Of `bytes_sent`: those that the peer READ.
    pub read_by_peer: u64,
    /// Of `bytes_received`: those READ from the peer.
    pub read_from_peer: u64,
    /// Messages sent.
    pub messages_sent: u64,
    /// Messages received.
    pub messages_received: u64,
}

/// What befell the process's links since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Happened {
    /// Links of peers that stood.
    pub accepted: u64,
    /// Links of ours that stood.
    pub connected: u64,
    /// Links of peers that ended before they stood.
    pub failed_accepts: u64,
    /// Connects that failed.
    pub failed_connects: u64,
    /// Of the failed accepts: those that this side rejected.
    pub rejects_sent: u64,
    /// Of the failed connects: those that the peer rejected.
    pub rejects_received: u64,
    /// Links that stood and ended in good order, or by this side's will.
    pub closed: u64,
    /// Links that stood and were lost.
    pub died: u64,
}

/// One link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its number in this process, from 1, never used again.
    pub id: u64,
    /// Where it stands.
    pub phase: Phase,
    /// Who began it.
    pub role: Role,
    /// Its device is rdma-core's.
    pub verbs: bool,
    /// When it was made, in seconds since 1970.
    pub since: u64,
    /// Its device's name.
    pub device: String,
    /// This side's address.
    pub local: String,
    /// The peer's.
    pub peer: String,
    /// Bytes of a slot.
    pub slot: u64,
    /// How full it is.
    pub gauges: Gauges,
    /// What it counted.
    pub counts: Counts,
}

impl Link {
    /// Bytes of pinned memory that it holds now. SoftRDMA pins none.
    pub fn pinned(&self) -> u64 {
        let g = self.gauges;
        let slots = u64::from(g.sends) + u64::from(g.receives) + u64::from(g.unread);
        slots * self.slot * u64::from(self.verbs)
    }
}

/// The process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Process {
    /// Its id, as it knows it itself.
    pub pid: u32,
    /// Links at the moment.
    pub links: u64,
    /// What befell them.
    pub happened: Happened,
    /// What all links counted, those that are gone included.
    pub counts: Counts,
    /// Bytes pinned for RDMA devices.
    pub pinned: u64,
    /// Bytes of slots and buffers of SoftRDMA.
    pub unpinned: u64,
}

/// The process and its links.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// The process.
    pub process: Process,
    /// Its links, oldest first.
    pub links: Vec<Link>,
}

/// The words of a record, each read by itself.
pub(super) fn load(record: Record) -> [u64; WORDS] {
    std::array::from_fn(|at| record[at].load(Ordering::Relaxed))
}

pub(super) fn counts(words: &[u64; WORDS]) -> Counts {
    let mut c = (0..COUNTERS).map(|at| words[place(at)]);
    let mut next = || c.next().unwrap_or(0);
    Counts {
        bytes_sent: next(),
        bytes_received: next(),
        data_sent: next(),
        data_received: next(),
        control_sent: next(),
        control_received: next(),
        pings: next(),
        rescues: next(),
        credit_stalls: next(),
        queue_stalls: next(),
        bytes_copied: next(),
        read_by_peer: next(),
        read_from_peer: next(),
        messages_sent: next(),
        messages_received: next(),
    }
}

/// A link's record; `None`: it is nobody's.
pub(super) fn link(words: &[u64; WORDS]) -> Option<Link> {
    let kind = words[KIND];
    Some(Link {
        id: Some(words[ID]).filter(|&id| id != 0)?,
        phase: match kind & 0xff {
            0 => Phase::Opening,
            1 => Phase::Open,
            2 => Phase::Closing,
            _ => Phase::Dead,
        },
        role: match kind >> 8 & 1 {
            0 => Role::Connected,
            _ => Role::Accepted,
        },
        verbs: kind >> 16 & 1 == 1,
        since: words[SINCE],
        device: text(&words[DEVICE..LOCAL]),
        local: text(&words[LOCAL..PEER]),
        peer: text(&words[PEER..NAMES_END]),
        slot: words[SLOT],
        gauges: Gauges::unpack(words[GAUGES]),
        counts: counts(words),
    })
}

/// The process's record, and what its live links counted.
pub(super) fn process(words: &[u64; WORDS], live: &[Link]) -> Process {
    let event = |at: usize| words[EVENTS + at];
    let all = live.iter().fold(counts(words), |sum, l| sum.and(&l.counts));
    Process {
        pid: words[PID] as u32,
        links: words[LIVE],
        happened: Happened {
            accepted: event(0),
            connected: event(1),
            failed_accepts: event(2),
            failed_connects: event(3),
            rejects_sent: event(4),
            rejects_received: event(5),
            closed: event(6),
            died: event(7),
        },
        counts: all,
        pinned: words[PINNED],
        unpinned: words[UNPINNED],
    }
}

impl Counts {
    fn and(self, other: &Counts) -> Counts {
        let sum = |a: u64, b: u64| a.wrapping_add(b);
        Counts {
            bytes_sent: sum(self.bytes_sent, other.bytes_sent),
            bytes_received: sum(self.bytes_received, other.bytes_received),
            data_sent: sum(self.data_sent, other.data_sent),
            data_received: sum(self.data_received, other.data_received),
            control_sent: sum(self.control_sent, other.control_sent),
            control_received: sum(self.control_received, other.control_received),
            pings: sum(self.pings, other.pings),
            rescues: sum(self.rescues, other.rescues),
            credit_stalls: sum(self.credit_stalls, other.credit_stalls),
            queue_stalls: sum(self.queue_stalls, other.queue_stalls),
            bytes_copied: sum(self.bytes_copied, other.bytes_copied),
            read_by_peer: sum(self.read_by_peer, other.read_by_peer),
            read_from_peer: sum(self.read_from_peer, other.read_from_peer),
            messages_sent: sum(self.messages_sent, other.messages_sent),
            messages_received: sum(self.messages_received, other.messages_received),
        }
    }
}

fn text(words: &[u64]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Times that a table is read while links come and go.
const TRIES: usize = 5;

/// What a process shares, from the file of its table
/// (`/proc/PID/fd/N`, a link to `/memfd:` and `SHARED_NAME`).
/// `InvalidData`: no such table, or of another release.
pub fn read(file: &File) -> io::Result<Snapshot> {
    let mut last = 0;
    for _ in 0..TRIES {
        let (words, epoch) = read_once(file)?;
        last = epoch;
        let mut head = [0; WORDS * 8];
        file.read_exact_at(&mut head, 0)?;
        let after = head.chunks_exact(8).nth(EPOCH).map(word);
        if after == Some(epoch) {
            let links: Vec<Link> = words[1..].iter().filter_map(link).collect();
            return Ok(sorted(process(&words[0], &links), links));
        }
    }
    Err(io::Error::new(
        io::ErrorKind::WouldBlock,
        format!("links come and go too fast to be read (after {last} changes)"),
    ))
}

fn sorted(process: Process, mut links: Vec<Link>) -> Snapshot {
    links.sort_by_key(|link| link.id);
    Snapshot { process, links }
}

fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_ne_bytes)
}

fn read_once(file: &File) -> io::Result<(Vec<[u64; WORDS]>, u64)> {
    let other = || io::Error::new(io::ErrorKind::InvalidData, "no table of this release");
    let mut head = [0; WORDS * 8];
    file.read_exact_at(&mut head, 0).map_err(|_| other())?;
    let first = record(&head);
    if first[MAGIC] != NAME_OF_LAYOUT || first[VERSION] != LAYOUT {
        return Err(other());
    }
    // Records are handed out from the front: a free one with none behind it ends the table.
    let mut records = vec![first];
    let mut found = 0;
    let mut bytes = [0; WORDS * 8 * 64];
    while found < first[LIVE] && records.len() < RECORDS {
        let at = records.len() * WORDS * 8;
        let n = file.read_at(&mut bytes, at as u64)?;
        if n == 0 {
            break;
        }
        for chunk in bytes[..n].chunks_exact(WORDS * 8) {
            let words = record(chunk);
            found += u64::from(words[ID] != 0);
            records.push(words);
        }
    }
    Ok((records, first[EPOCH]))
}

fn record(bytes: &[u8]) -> [u64; WORDS] {
    let mut words = bytes.chunks_exact(8).map(word);
    std::array::from_fn(|_| words.next().unwrap_or(0))
}
