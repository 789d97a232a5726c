// SPDX-License-Identifier: MPL-2.0
//! A device that exists only here.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::device::region::{Free, Slab, Unregistered};
use crate::device::{Caps, Endpoint, Event, Kind, Options, PrivateData, Ready, Remote};
use crate::error::{Error, Result};

/// One direction of the wire between two endpoints.
#[derive(Default)]
pub(super) struct Lane {
    /// Posted by the sender, not delivered.
    pub(super) sent: VecDeque<Vec<u8>>,
    /// Delivered, not polled.
    pub(super) delivered: VecDeque<Vec<u8>>,
    /// Receives posted and not used.
    pub(super) posted: usize,
    /// Sends delivered and not reported complete.
    pub(super) done: u16,
    pub(super) closed: bool,
    /// What the sender lets the receiver READ: address and length by key.
    pub(super) exposed: HashMap<u32, (usize, usize)>,
    /// Keys that the sender has given.
    pub(super) keys: u32,
    /// READs posted by the receiver, and those that are complete: from, to, token.
    pub(super) reads: VecDeque<(Remote, usize, u64)>,
    pub(super) read: VecDeque<u64>,
    /// What the sender posted, in order: types of frames, and 0 for a READ of its own.
    pub(super) calls: Vec<u8>,
    /// A READ was refused, or nothing can be sent any more.
    pub(super) broken: bool,
}

impl Lane {
    pub(super) fn deliver(&mut self) -> bool {
        let Some(bytes) = self.sent.pop_front() else {
            return false;
        };
        assert!(self.posted > 0, "a SEND found no posted receive");
        self.posted -= 1;
        self.done += 1;
        self.delivered.push_back(bytes);
        true
    }

    /// Answer the oldest READ.
    pub(super) fn answer(&mut self) -> bool {
        let Some((from, to, token)) = self.reads.pop_front() else {
            return false;
        };
        let end = from.addr as usize + from.len as usize;
        match self.exposed.get(&from.key) {
            Some((addr, len))
                if (*addr..=addr + len).contains(&end) && from.addr as usize >= *addr =>
            {
                copy(from.addr as usize, to, from.len as usize);
                self.read.push_back(token);
            }
            _ => self.broken = true,
        }
        true
    }
}

#[allow(unsafe_code)]
fn copy(from: usize, to: usize, len: usize) {
    // SAFETY: as a device would: what `expose` and `post_read` were promised.
    unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, len) }
}

pub(super) type Shared = Arc<Mutex<Lane>>;

pub(super) struct Fake {
    pub(super) out: Shared,
    pub(super) inward: Shared,
    pub(super) first: VecDeque<Event>,
    pub(super) slab: Arc<Slab>,
    pub(super) options: Options,
    pub(super) in_queue: u16,
    /// Send slots that the device has.
    pub(super) slots: u16,
    /// `flush` tells what is complete, not `poll`.
    pub(super) flush_completes: bool,
    /// What `probe` answers.
    pub(super) quiet: Duration,
    /// Registrations that fail before one does not.
    pub(super) refuses: Refusal,
    pub(super) reads_at_once: u16,
}

/// Which registrations fail.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    None,
    Exposed,
    Read,
    /// Some, by a seed.
    Some(u64),
}

impl Fake {
    pub(super) fn new(out: &Shared, inward: &Shared, options: &Options) -> Fake {
        Fake {
            out: Arc::clone(out),
            inward: Arc::clone(inward),
            first: VecDeque::new(),
            slab: Slab::new(8200, 16, 64 << 20, Box::new(Unregistered)),
            options: options.clone(),
            in_queue: 0,
            slots: u16::MAX,
            flush_completes: false,
            quiet: Duration::MAX,
            refuses: Refusal::None,
            reads_at_once: 4,
        }
    }

    fn refused(&mut self, what: Refusal) -> Result<()> {
        let hit = match &mut self.refuses {
            Refusal::Some(seed) => {
                *seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                *seed >> 61 == 0
            }
            other => *other == what,
        };
        match hit {
            true => Err(Error::Limit("memory, says the test")),
            false => Ok(()),
        }
    }

    fn take_done(&mut self) -> u16 {
        let done = std::mem::take(&mut self.out.lock().unwrap().done);
        self.in_queue -= done;
        done
    }
}

impl Endpoint for Fake {
    fn kind(&self) -> Kind {
        Kind::Soft
    }
    fn device_name(&self) -> &str {
        "fake"
    }
    fn caps(&self) -> Caps {
        Caps {
            slot_size: self.options.slot_size,
            recv_depth: self.options.recv_depth,
            send_depth: self.options.send_depth,
            reads: true,
            reads_at_once: self.reads_at_once,
            may_lend: true,
            ..Caps::default()
        }
    }
    fn ready(&self) -> Ready {
        Ready {
            fd: -1,
            read: true,
            write: false,
        }
    }
    fn local_addr(&self) -> SocketAddr {
        ([127, 0, 0, 1], 1).into()
    }
    fn peer_addr(&self) -> SocketAddr {
        ([127, 0, 0, 1], 2).into()
    }
    fn accept(&mut self, _: &[u8]) -> Result<()> {
        self.first
            .push_back(Event::Established(PrivateData::default()));
        Ok(())
    }
    fn reject(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }
    fn post_recvs(&mut self, n: u16) -> Result<u16> {
        self.inward.lock().unwrap().posted += usize::from(n);
        Ok(n)
    }
    fn reserve(&mut self) -> Result<Option<Free>> {
        if self.in_queue >= self.slots {
            return Ok(None);
        }
        self.slab.take()
    }
    fn post_send(&mut self, slot: Free, len: usize) -> Result<()> {
        self.in_queue += 1;
        assert!(
            self.in_queue <= self.options.send_depth,
            "send queue overflow"
        );
        let filled = slot.fill(len);
        let mut out = self.out.lock().unwrap();
        if out.broken {
            return Err(Error::Reset("nothing can be sent".into()));
        }
        out.calls.push(filled.bytes()[0]);
        out.sent.push_back(filled.bytes().to_vec());
        Ok(())
    }
    fn flush(&mut self) -> Result<u16> {
        Ok(if self.flush_completes {
            self.take_done()
        } else {
            0
        })
    }
    #[allow(unsafe_code)]
    unsafe fn expose(&mut self, addr: *const u8, len: usize) -> Result<Remote> {
        self.refused(Refusal::Exposed)?;
        let mut lane = self.out.lock().unwrap();
        lane.keys += 1;
        let key = lane.keys;
        lane.exposed.insert(key, (addr as usize, len));
        let (addr, len) = (addr as u64, len as u32);
        Ok(Remote { key, addr, len })
    }
    fn hide(&mut self, key: u32) -> Result<()> {
        let hidden = self.out.lock().unwrap().exposed.remove(&key);
        hidden.map(drop).ok_or(Error::Misuse("not exposed"))
    }
    #[allow(unsafe_code)]
    unsafe fn post_read(&mut self, to: *mut u8, from: Remote, token: u64) -> Result<()> {
        self.refused(Refusal::Read)?;
        let mut lane = self.inward.lock().unwrap();
        lane.reads.push_back((from, to as usize, token));
        drop(lane);
        self.out.lock().unwrap().calls.push(0);
        Ok(())
    }
    fn poll(&mut self, events: &mut Vec<Event>) -> Result<()> {
        events.extend(self.first.drain(..));
        let done = self.take_done();
        if done > 0 {
            events.push(Event::Sent(done));
        }
        let mut inward = self.inward.lock().unwrap();
        while let Some(bytes) = inward.delivered.pop_front() {
            let mut slot = self.slab.take()?.expect("a slot");
            slot.write(0, &bytes);
            events.push(Event::Received(slot.fill(bytes.len())));
        }
        events.extend(inward.read.drain(..).map(Event::ReadDone));
        if inward.broken {
            return Err(Error::Reset("a READ of what is not exposed".into()));
        }
        if inward.closed && inward.sent.is_empty() {
            events.push(Event::Disconnected);
        }
        Ok(())
    }
    fn probe(&mut self, _: Instant) -> Result<Duration> {
        Ok(self.quiet)
    }
    fn abort(&mut self) {
        self.inward.lock().unwrap().reads.clear();
        self.out.lock().unwrap().exposed.clear();
    }
    fn disconnect(&mut self) -> Result<()> {
        self.out.lock().unwrap().closed = true;
        Ok(())
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.abort();
    }
}
