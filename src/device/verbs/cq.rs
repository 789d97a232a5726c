// SPDX-License-Identifier: MPL-2.0
//! Completion queues: a pair of them a connection, on one completion channel
//! whose descriptor tells of both.
//!
//! Sends and receives complete on queues apart, so that finished sends wake
//! nobody who does not wait for them: the receive queue is always armed before
//! a sleep, the send queue only when its news is wanted. Every event taken off
//! the channel is acknowledged, in batches, and all of them before a queue is
//! destroyed (which would wait for ever otherwise).

use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libc::c_int;
use rdma_sys as c;

use super::device::Context;
use super::sys;
use crate::error::{Error, Result};

/// Completions taken off a queue at a time.
const BATCH: usize = 16;
/// Events acknowledged at a time (each takes a lock).
const ACK_BATCH: u32 = 64;

/// Events taken off channels, and acknowledged, in this process: for tests.
pub(super) static EVENTS: AtomicU64 = AtomicU64::new(0);
/// See [`EVENTS`].
pub(super) static ACKS: AtomicU64 = AtomicU64::new(0);

/// What may be believed of a completion. On an error the device promises the
/// other fields no value, so they are not even kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) wr_id: u64,
    pub(super) outcome: Outcome,
}

/// How a work request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Well; for a receive, with this many bytes.
    Bytes(u32),
    /// Ill.
    Failed { status: u32, vendor: u32 },
}

impl Done {
    fn of(wc: &c::ibv_wc) -> Done {
        let outcome = if wc.status == c::ibv_wc_status::IBV_WC_SUCCESS {
            Outcome::Bytes(wc.byte_len)
        } else {
            Outcome::Failed {
                status: wc.status,
                vendor: wc.vendor_err,
            }
        };
        Done {
            wr_id: wc.wr_id,
            outcome,
        }
    }
}

/// A completion channel.
struct Channel(NonNull<c::ibv_comp_channel>);

impl Channel {
    fn new(context: &Context) -> Result<Channel> {
        // SAFETY: the context is open.
        let channel = unsafe { c::ibv_create_comp_channel(context.verbs().as_ptr()) };
        let channel = NonNull::new(channel)
            .map(Channel)
            .ok_or_else(|| sys::last("ibv_create_comp_channel"))?;
        sys::set_nonblocking(channel.fd())?;
        Ok(channel)
    }

    fn fd(&self) -> RawFd {
        // SAFETY: valid until drop.
        unsafe { self.0.as_ref() }.fd
    }

    /// The queue that the next event is of; `None`: no event waits.
    fn next(&self) -> Option<*mut c::ibv_cq> {
        let mut cq = std::ptr::null_mut();
        let mut context = std::ptr::null_mut();
        // SAFETY: a valid channel, and room for both answers.
        let ret = unsafe { c::ibv_get_cq_event(self.0.as_ptr(), &mut cq, &mut context) };
        (ret == 0).then_some(cq)
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: created in `new`; its queues are destroyed before it.
        unsafe { c::ibv_destroy_comp_channel(self.0.as_ptr()) };
    }
}

/// A completion queue.
pub(super) struct Cq {
    cq: NonNull<c::ibv_cq>,
    armed: bool,
    events: u64,
    unacknowledged: u32,
}

impl Cq {
    /// One that tells nobody of its completions.
    pub(super) fn silent(context: &Context, entries: u32) -> Result<Cq> {
        Cq::create(context, std::ptr::null_mut(), entries, 0)
    }

    fn new(context: &Context, channel: &Channel, entries: u32, vector: c_int) -> Result<Cq> {
        Cq::create(context, channel.0.as_ptr(), entries, vector)
    }

    fn create(
        context: &Context,
        channel: *mut c::ibv_comp_channel,
        entries: u32,
        vector: c_int,
    ) -> Result<Cq> {
        if entries > context.limits().completions {
            return Err(Error::Limit(
                "entries of a completion queue of the RDMA device",
            ));
        }
        // SAFETY: the context is open, the channel too or null; no queue context; a vector of the device.
        let cq = unsafe {
            c::ibv_create_cq(
                context.verbs().as_ptr(),
                entries as c_int,
                std::ptr::null_mut(),
                channel,
                vector,
            )
        };
        let cq = NonNull::new(cq).ok_or_else(|| sys::last("ibv_create_cq"))?;
        Ok(Cq {
            cq,
            armed: false,
            events: 0,
            unacknowledged: 0,
        })
    }

    pub(super) fn as_ptr(&self) -> *mut c::ibv_cq {
        self.cq.as_ptr()
    }

    /// Take completions off; returns how many there were.
    pub(super) fn poll(&mut self, mut each: impl FnMut(Done)) -> Result<usize> {
        let mut all = 0;
        loop {
            let mut batch = [const { MaybeUninit::<c::ibv_wc>::uninit() }; BATCH];
            // SAFETY: a valid queue, and room for BATCH completions.
            let n =
                unsafe { c::ibv_poll_cq(self.as_ptr(), BATCH as c_int, batch.as_mut_ptr().cast()) };
            let Ok(n) = usize::try_from(n) else {
                return Err(sys::last("ibv_poll_cq"));
            };
            for wc in &batch[..n] {
                // SAFETY: the first n were written.
                each(Done::of(unsafe { wc.assume_init_ref() }));
            }
            all += n;
            if n < BATCH {
                return Ok(all);
            }
        }
    }

    /// Ask for an event at the next completion. Returns whether it was not
    /// asked for already: then what came before must be polled once more.
    pub(super) fn arm(&mut self) -> Result<bool> {
        if self.armed {
            return Ok(false);
        }
        // SAFETY: a valid queue.
        let ret = unsafe { c::ibv_req_notify_cq(self.as_ptr(), 0) };
        sys::number("ibv_req_notify_cq", ret)?;
        self.armed = true;
        Ok(true)
    }

    /// Whether it owes an event for the next completion, and how many it has made.
    pub(super) fn told(&self) -> (bool, u64) {
        (self.armed, self.events)
    }

    fn on_event(&mut self) {
        self.events += 1;
        EVENTS.fetch_add(1, Ordering::Relaxed);
        self.armed = false;
        self.unacknowledged += 1;
        if self.unacknowledged >= ACK_BATCH {
            self.acknowledge();
        }
    }

    fn acknowledge(&mut self) {
        if self.unacknowledged > 0 {
            // SAFETY: exactly as many events of this queue were taken.
            unsafe { c::ibv_ack_cq_events(self.as_ptr(), self.unacknowledged) };
            ACKS.fetch_add(self.unacknowledged.into(), Ordering::Relaxed);
            self.unacknowledged = 0;
        }
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        self.acknowledge();
        // SAFETY: created in `new`; the queue pair that used it is destroyed before.
        unsafe { c::ibv_destroy_cq(self.as_ptr()) };
    }
}

/// The completion queues of one connection.
pub(super) struct Completions {
    // Field order is drop order: the channel last.
    pub(super) recv: Cq,
    pub(super) send: Cq,
    channel: Channel,
}

// SAFETY: libibverbs objects are bound to no thread.
unsafe impl Send for Completions {}

impl Completions {
    /// Queues that hold every receive and every send that can be posted.
    pub(super) fn new(context: &Context, recvs: u32, sends: u32) -> Result<Completions> {
        static TURN: AtomicU32 = AtomicU32::new(0);
        let channel = Channel::new(context)?;
        let turn = TURN.fetch_add(1, Ordering::Relaxed);
        let vector = vector(turn, context.vectors());
        Ok(Completions {
            recv: Cq::new(context, &channel, recvs, vector)?,
            send: Cq::new(context, &channel, sends, vector)?,
            channel,
        })
    }

    /// Readable when an armed queue has something.
    pub(super) fn fd(&self) -> RawFd {
        self.channel.fd()
    }

    /// Take the events that wait: level-triggered, they would wake us for ever. A queue
    /// makes one each time that it was armed, so nothing more is asked for then.
    pub(super) fn take_events(&mut self) {
        while self.recv.armed || self.send.armed {
            let Some(cq) = self.channel.next() else {
                return;
            };
            if cq == self.recv.as_ptr() {
                self.recv.on_event();
            } else if cq == self.send.as_ptr() {
                self.send.on_event();
            }
        }
    }
}

/// The completion vector (an interrupt, and so a processor) of the connection whose `turn` it is:
/// they share the `vectors` of the device evenly.
fn vector(turn: u32, vectors: c_int) -> c_int {
    let all = u32::try_from(vectors).unwrap_or(0).max(1);
    (turn % all) as c_int
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_take_turns_with_the_vectors_of_the_device() {
        let of = |vectors| [0, 1, 2, 3, u32::MAX].map(|turn| vector(turn, vectors));
        assert_eq!(of(3), [0, 1, 2, 0, 0]);
        assert_eq!(of(1), [0; 5]);
        assert_eq!((of(0), of(-1)), ([0; 5], [0; 5]));
    }

    #[test]
    fn row_25_garbage_in_a_failed_completion_is_not_looked_at() {
        for noise in [0u8, 0x5a, 0xff] {
            let mut wc = MaybeUninit::<c::ibv_wc>::uninit();
            let bytes = wc.as_mut_ptr().cast::<u8>();
            // SAFETY: exactly the bytes of the completion.
            unsafe { bytes.write_bytes(noise, size_of::<c::ibv_wc>()) };
            // SAFETY: it consists of integers, for which any bytes are valid.
            let mut wc = unsafe { wc.assume_init() };
            wc.wr_id = 7;
            wc.status = c::ibv_wc_status::IBV_WC_RETRY_EXC_ERR;
            wc.vendor_err = 3;
            let outcome = Outcome::Failed {
                status: 12,
                vendor: 3,
            };
            assert_eq!(Done::of(&wc), Done { wr_id: 7, outcome });
        }
    }
}
