// SPDX-License-Identifier: MPL-2.0
//! The counters as C sees them. These two doors are the library's own: programs
//! and bindings may call them, libzmq does not.
#![allow(unsafe_code)]

use std::ffi::c_char;
use std::mem::{offset_of, size_of};

use super::guard::door;
use crate::stream::pool;
use crate::stream::tally::{self, Counts, Phase, Process, Role};

/// State of a link: its handshake is under way.
pub const ZMQ_RDMA_LINK_OPENING: u32 = 0;
/// State of a link: messages may flow.
pub const ZMQ_RDMA_LINK_OPEN: u32 = 1;
/// State of a link: this side has begun to close it.
pub const ZMQ_RDMA_LINK_CLOSING: u32 = 2;
/// State of a link: it has ended, and is about to be let go.
pub const ZMQ_RDMA_LINK_DEAD: u32 = 3;

/// What was counted since the start: of one link, or of all links of the process,
/// those that are gone included.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Counters {
    /// Bytes of the stream below ZMTP sent: messages with ZMTP's framing.
    pub bytes_sent: u64,
    /// The same received.
    pub bytes_received: u64,
    /// Frames with such bytes sent. A frame holds many small messages, or a part of a
    /// large one; a message by itself is one frame, up to a slot's bytes.
    pub data_sent: u64,
    /// The same received.
    pub data_received: u64,
    /// Frames of the transport's own sent: greetings, credits, closing, PING.
    pub control_sent: u64,
    /// The same received.
    pub control_received: u64,
    /// Of `control_sent`: PINGs, which ask whether the peer is there.
    pub pings: u64,
    /// Of `pings`: those sent because the peer did not answer the greeting in 250 ms.
    pub rescues: u64,
    /// Times that there was something to send and the peer had given no credit: it reads too slowly,
    /// or its ZMQ_RCVBUF is small.
    pub credit_stalls: u64,
    /// Times that there was something to send and the device had no place for it: the network is too
    /// slow, ZMQ_SNDBUF is small, or pinned memory is at its limit.
    pub queue_stalls: u64,
}

/// How large messages moved since the start, on one link or on all.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Large {
    /// Bytes of the stream that this library copied, on the way in or out.
    pub bytes_copied: u64,
    /// Of `bytes_sent`: those that the peer READ from where they were (ZMQ_RDMA_RENDEZVOUS).
    pub read_by_peer: u64,
    /// Of `bytes_received`: those READ from the peer to where they belong.
    pub read_from_peer: u64,
}

/// Messages since the start: of one link, or of all. A message is all of its parts; its last one counts it:
/// sent when it is taken from the socket's queue for this link, received when it is decoded. Not counted: what libzmq says
/// by itself (handshakes, heartbeats, subscriptions), and what ZMQ_STREAM sockets move, which are bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Messages {
    /// Sent.
    pub sent: u64,
    /// Received.
    pub received: u64,
}

/// Memory of large messages that are READ (ZMQ_RDMA_POOL).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Pool {
    /// Bytes that the pool has now. Those registered with a device are in `pinned`.
    pub bytes: u64,
    /// Of those, bytes that hold a message.
    pub lent: u64,
    /// Messages that found memory ready since the start.
    pub hits: u64,
    /// Messages that new memory was taken for.
    pub misses: u64,
    /// Messages that came from malloc: the pool was at its cap.
    pub refused: u64,
}

/// Counters of the process. Fields are only ever appended.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Stats {
    /// Set by the caller to `sizeof` of this structure as it knows it; on return, the bytes
    /// that were filled, which may be fewer.
    pub size: u32,
    /// Links at the moment.
    pub links: u32,
    /// Links of peers that stood.
    pub accepted: u64,
    /// Links of this process's connects that stood.
    pub connected: u64,
    /// Links of peers that ended before they stood.
    pub failed_accepts: u64,
    /// Connects that failed. libzmq goes on trying.
    pub failed_connects: u64,
    /// Of `failed_accepts`: peers that this side rejected.
    pub rejects_sent: u64,
    /// Of `failed_connects`: those that the peer rejected.
    pub rejects_received: u64,
    /// Links that stood and ended in good order, or by this side's will.
    pub closed: u64,
    /// Links that stood and were lost.
    pub died: u64,
    /// What all links counted.
    pub counters: Counters,
    /// Bytes of memory pinned for RDMA devices now.
    pub pinned: u64,
    /// Bytes of slots and buffers of the device soft now; none of them are pinned.
    pub unpinned: u64,
    /// Large messages of all links.
    pub large: Large,
    /// Messages of all links.
    pub messages: Messages,
    /// Memory of large messages.
    pub pool: Pool,
}

/// Counters of one link. Fields are only ever appended.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LinkStats {
    /// Number of the link in this process, from 1; never used again.
    pub id: u64,
    /// When it was made, in seconds since 1970.
    pub since: u64,
    /// A `ZMQ_RDMA_LINK_` value.
    pub state: u32,
    /// Nonzero: the peer connected to us.
    pub accepted: u32,
    /// ZMQ_RDMA_DEVICE_VERBS or ZMQ_RDMA_DEVICE_SOFT.
    pub device_kind: i32,
    /// Bytes of a slot: a frame with its header at most.
    pub slot: u32,
    /// Frames that the peer lets us send now.
    pub credits: u32,
    /// Frames posted and not reported sent.
    pub sends: u32,
    /// Frames that the peer may send us now, as far as posted receives go.
    pub receives: u32,
    /// Frames received that libzmq has not read yet.
    pub unread: u32,
    /// What it counted.
    pub counters: Counters,
    /// Bytes of pinned memory that it holds now; 0 over soft.
    pub pinned: u64,
    /// Name of its device, NUL-terminated: `soft`, `rxe0`, `mlx5_0`.
    pub device: [c_char; 32],
    /// This side's address and port, NUL-terminated: `10.0.0.1:5555`, `[fe80::1%2]:5555`.
    pub local: [c_char; 96],
    /// The peer's.
    pub peer: [c_char; 96],
    /// Its large messages.
    pub large: Large,
    /// Its messages.
    pub messages: Messages,
}

/// Fill `*stats` with this process's counters. Set `stats->size` first.
///
/// Any thread may call it at any time; so may a child after fork, which finds
/// its own counters. Each number is right, but they are not all of one moment. It may wait for a
/// thread that opens or closes a connection at that moment, never for one that sends or
/// receives. Not for signal handlers. 0; -EFAULT: `stats` is NULL; -EINVAL: `size` is
/// too small to be one.
#[no_mangle]
pub extern "C" fn zmq_rdma_stats(stats: *mut Stats) -> i32 {
    door("zmq_rdma_stats", || {
        if stats.is_null() {
            return -libc::EFAULT;
        }
        let known = first_word(stats.cast()) as usize;
        if known < offset_of!(Stats, accepted) {
            return -libc::EINVAL;
        }
        let size = known.min(size_of::<Stats>());
        let full = Stats {
            size: size as u32,
            ..of_process(&tally::process())
        };
        // SAFETY: the caller has `known` bytes there, as it says, and size <= known.
        unsafe { copy_out(&full, stats.cast(), size) };
        0
    })
}

/// Fill up to `count` elements of `links`, each of `size` bytes (`sizeof` of the
/// structure as the caller knows it), with the counters of this process's links, oldest first.
/// Returns how many links there are, which may be more than `count`. If `size` is more than
/// this library knows, the rest of each element is left as it is.
///
/// Threads as for `zmq_rdma_stats`. -EFAULT: `links` is NULL and `count` is not 0; -EINVAL:
/// `size` is too small to be one.
#[no_mangle]
pub extern "C" fn zmq_rdma_links(links: *mut LinkStats, count: usize, size: usize) -> i32 {
    door("zmq_rdma_links", || {
        if links.is_null() && count > 0 {
            return -libc::EFAULT;
        }
        if size < offset_of!(LinkStats, state) {
            return -libc::EINVAL;
        }
        let all = tally::links();
        for (at, link) in all.iter().take(count).enumerate() {
            let full = of_link(link);
            let to = links.cast::<u8>().wrapping_add(at * size);
            // SAFETY: the caller has `count` elements of `size` bytes there, as it says.
            unsafe { copy_out(&full, to, size.min(size_of::<LinkStats>())) };
        }
        i32::try_from(all.len()).unwrap_or(i32::MAX)
    })
}

/// The size that a caller has put first.
fn first_word(at: *const u32) -> u32 {
    // SAFETY: not null, and the header asks for a valid pointer.
    unsafe { at.read() }
}

/// The first `size` bytes of a value.
///
/// # Safety
/// `to` is valid for writes of `size` bytes, at most `size_of::<T>()`, and T has no padding.
unsafe fn copy_out<T>(from: &T, to: *mut u8, size: usize) {
    let from: *const T = from;
    // SAFETY: as demanded above; the two do not overlap, since one is ours.
    unsafe { std::ptr::copy_nonoverlapping(from.cast(), to, size) };
}

// No padding.
const _: () = assert!(size_of::<Stats>() == 8 + 8 * 8 + COUNTED + 2 * 8 + size_of::<Pool>());
const _: () = assert!(size_of::<LinkStats>() == 2 * 8 + 8 * 4 + COUNTED + 8 + 32 + 2 * 96);
const COUNTED: usize = size_of::<Counters>() + size_of::<Large>() + size_of::<Messages>();

fn of_process(process: &Process) -> Stats {
    let happened = process.happened;
    Stats {
        size: 0,
        links: process.links as u32,
        accepted: happened.accepted,
        connected: happened.connected,
        failed_accepts: happened.failed_accepts,
        failed_connects: happened.failed_connects,
        rejects_sent: happened.rejects_sent,
        rejects_received: happened.rejects_received,
        closed: happened.closed,
        died: happened.died,
        counters: counters(process.counts),
        pinned: process.pinned,
        unpinned: process.unpinned,
        large: large(process.counts),
        messages: messages(process.counts),
        pool: pool(),
    }
}

fn pool() -> Pool {
    let books = pool::pool().books();
    Pool {
        bytes: books.bytes as u64,
        lent: books.lent as u64,
        hits: books.hits,
        misses: books.misses,
        refused: books.refused,
    }
}

fn of_link(link: &tally::Link) -> LinkStats {
    LinkStats {
        id: link.id,
        since: link.since,
        state: match link.phase {
            Phase::Opening => ZMQ_RDMA_LINK_OPENING,
            Phase::Open => ZMQ_RDMA_LINK_OPEN,
            Phase::Closing => ZMQ_RDMA_LINK_CLOSING,
            Phase::Dead => ZMQ_RDMA_LINK_DEAD,
        },
        accepted: u32::from(link.role == Role::Accepted),
        device_kind: if link.verbs {
            super::types::ZMQ_RDMA_DEVICE_VERBS
        } else {
            super::types::ZMQ_RDMA_DEVICE_SOFT
        },
        slot: link.slot as u32,
        credits: link.gauges.credits.into(),
        sends: link.gauges.sends.into(),
        receives: link.gauges.receives.into(),
        unread: link.gauges.unread.into(),
        counters: counters(link.counts),
        pinned: link.pinned(),
        device: text(&link.device),
        local: text(&link.local),
        peer: text(&link.peer),
        large: large(link.counts),
        messages: messages(link.counts),
    }
}

fn counters(counts: Counts) -> Counters {
    Counters {
        bytes_sent: counts.bytes_sent,
        bytes_received: counts.bytes_received,
        data_sent: counts.data_sent,
        data_received: counts.data_received,
        control_sent: counts.control_sent,
        control_received: counts.control_received,
        pings: counts.pings,
        rescues: counts.rescues,
        credit_stalls: counts.credit_stalls,
        queue_stalls: counts.queue_stalls,
    }
}

fn large(counts: Counts) -> Large {
    Large {
        bytes_copied: counts.bytes_copied,
        read_by_peer: counts.read_by_peer,
        read_from_peer: counts.read_from_peer,
    }
}

fn messages(counts: Counts) -> Messages {
    Messages {
        sent: counts.messages_sent,
        received: counts.messages_received,
    }
}

fn text<const N: usize>(from: &str) -> [c_char; N] {
    let mut bytes = from.bytes().take(N - 1);
    std::array::from_fn(|_| bytes.next().unwrap_or(0) as c_char)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_of_another_release_gets_what_it_knows() {
        let mut stats = Stats {
            size: 8,
            died: 77,
            ..Stats::default()
        };
        assert_eq!(zmq_rdma_stats(&mut stats), 0);
        assert_eq!((stats.size, stats.died), (8, 77));
        stats.size = 4000;
        // A later release's: the library knows less than the caller has room for.
        let mut later = [stats; 20];
        assert_eq!(zmq_rdma_stats(&mut later[0]), 0);
        assert_eq!(later[0].size as usize, size_of::<Stats>());
        stats.size = 7;
        assert_eq!(zmq_rdma_stats(&mut stats), -libc::EINVAL);
        assert_eq!(zmq_rdma_stats(std::ptr::null_mut()), -libc::EFAULT);
    }

    #[test]
    fn links_are_counted_without_room_for_them() {
        let none = std::ptr::null_mut();
        assert!(zmq_rdma_links(none, 0, size_of::<LinkStats>()) >= 0);
        assert_eq!(zmq_rdma_links(none, 1, 16), -libc::EFAULT);
        assert_eq!(zmq_rdma_links(none, 0, 15), -libc::EINVAL);
    }
}
