// SPDX-License-Identifier: MPL-2.0
//! A device that is nothing but two queues: what is sent arrives when the
//! target says so, and a READ is answered then.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use zmq_rdma::device::region::{Free, Slab, Unregistered};
use zmq_rdma::device::{Caps, Endpoint, Event, Kind, Options, PrivateData, Ready, Remote};
use zmq_rdma::error::{Error, Result};

/// One direction between two endpoints.
#[derive(Default)]
pub struct Lane {
    /// Posted by the sender, not delivered.
    pub sent: VecDeque<Vec<u8>>,
    /// Delivered, not polled.
    pub delivered: VecDeque<Vec<u8>>,
    /// Receives posted and not used, and the bytes that each has room for.
    pub posted: usize,
    room: usize,
    /// Sends delivered and not reported complete.
    done: u16,
    /// The sender says no more.
    pub closed: bool,
    /// The connection has ended.
    broken: bool,
    /// Private data of the sender's acceptance.
    pub reply: Option<Vec<u8>>,
    /// What the sender lets the receiver READ: address and length, by key.
    pub exposed: HashMap<u32, (usize, usize)>,
    keys: u32,
    /// READs of the receiver that are not answered.
    pub reads: VecDeque<Read>,
    /// Those that are, and were not told: their numbers.
    read: Vec<u64>,
    /// One was refused.
    denied: bool,
}

/// A READ under way.
pub struct Read {
    /// What it asks for.
    pub from: Remote,
    /// Where the bytes go.
    pub to: usize,
    token: u64,
}

impl Lane {
    /// Nothing arrives any more, not even what is under way.
    fn cut(&mut self) {
        self.sent.clear();
        self.exposed.clear();
        self.closed = true;
        self.broken = true;
    }

    /// Answer the oldest READ with `bytes`, or refuse it.
    ///
    /// # Panics
    /// If there is none, or these are too few bytes.
    pub fn answer_with(&mut self, bytes: Option<&[u8]>) {
        let read = self.reads.pop_front().expect("a READ");
        let Some(bytes) = bytes else {
            self.denied = true;
            return;
        };
        let bytes = &bytes[..read.from.len as usize];
        // SAFETY: as a device would: `post_read` was promised that much room until
        // now, and the endpoint's end takes READs back.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), read.to as *mut u8, bytes.len()) };
        self.read.push(read.token);
    }
}

/// What a SEND may not do: with any device it ends the connection.
pub enum Offence {
    /// It found no posted receive.
    NoReceive,
    /// It is longer than the receive that it found.
    TooLong,
    /// A READ of what is not shown.
    NoAccess,
}

/// A lane that both ends hold.
#[derive(Clone, Default)]
pub struct Shared(Arc<Mutex<Lane>>);

impl Shared {
    /// The lane.
    pub fn lane(&self) -> MutexGuard<'_, Lane> {
        self.0.lock().expect("no panic has been survived")
    }

    /// The oldest SEND arrives; whether there was one.
    pub fn deliver(&self) -> std::result::Result<bool, Offence> {
        let mut lane = self.lane();
        let Some(bytes) = lane.sent.pop_front() else {
            return Ok(false);
        };
        let offence = if lane.posted == 0 {
            Offence::NoReceive
        } else if bytes.len() > lane.room {
            Offence::TooLong
        } else {
            lane.done += 1;
            lane.posted -= 1;
            lane.delivered.push_back(bytes);
            return Ok(true);
        };
        lane.cut();
        Err(offence)
    }

    /// The oldest SEND goes out to nobody; what it was.
    pub fn drop_one(&self) -> Option<Vec<u8>> {
        let mut lane = self.lane();
        let gone = lane.sent.pop_front()?;
        lane.done += 1;
        Some(gone)
    }

    /// The oldest READ is answered from where its bytes are; whether there was one.
    pub fn answer(&self) -> std::result::Result<bool, Offence> {
        let mut lane = self.lane();
        let Some(read) = lane.reads.front() else {
            return Ok(false);
        };
        if lane.broken {
            lane.reads.clear();
            return Ok(true);
        }
        let (addr, len) = (read.from.addr as usize, read.from.len as usize);
        let shown = lane.exposed.get(&read.from.key);
        let within = |&&(start, size): &&(usize, usize)| {
            addr >= start && addr.saturating_add(len) <= start + size
        };
        if shown.filter(within).is_none() {
            lane.answer_with(None);
            lane.cut();
            return Err(Offence::NoAccess);
        }
        // SAFETY: `expose` was promised that it is readable until `hide`.
        let bytes = unsafe { std::slice::from_raw_parts(addr as *const u8, len) }.to_vec();
        lane.answer_with(Some(&bytes));
        Ok(true)
    }
}

/// One end.
pub struct Fake {
    /// What it sends.
    pub out: Shared,
    /// What it hears.
    pub inward: Shared,
    /// Told before all else.
    pub first: VecDeque<Event>,
    /// What it tells does not reach the link as it is: a SEND told twice asks for one receive more.
    pub spoilt: bool,
    slab: Arc<Slab>,
    options: Options,
    in_queue: u16,
    gone: bool,
}

impl Fake {
    /// An end of two lanes.
    pub fn new(out: &Shared, inward: &Shared, options: &Options) -> Fake {
        inward.lane().room = options.slot_size;
        Fake {
            out: out.clone(),
            inward: inward.clone(),
            first: VecDeque::new(),
            spoilt: false,
            slab: Slab::new(options.slot_size, 4, 64 << 20, Box::new(Unregistered)),
            options: options.clone(),
            in_queue: 0,
            gone: false,
        }
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
            reads_at_once: 4,
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

    fn accept(&mut self, private: &[u8]) -> Result<()> {
        self.out.lane().reply = Some(private.to_vec());
        let stands = Event::Established(PrivateData::default());
        self.first.push_back(stands);
        Ok(())
    }

    fn reject(&mut self, _: &[u8]) -> Result<()> {
        self.first.push_back(Event::Disconnected);
        Ok(())
    }

    fn post_recvs(&mut self, n: u16) -> Result<u16> {
        if self.gone {
            return Err(Error::Closed);
        }
        let mut lane = self.inward.lane();
        let room = usize::from(self.options.recv_depth) - lane.posted;
        assert!(
            self.spoilt || usize::from(n) <= room,
            "more receives than the depth"
        );
        let n = n.min(room as u16);
        lane.posted += usize::from(n);
        Ok(n)
    }

    fn reserve(&mut self) -> Result<Option<Free>> {
        if self.gone {
            return Err(Error::Closed);
        }
        self.slab.take()
    }

    fn post_send(&mut self, slot: Free, len: usize) -> Result<()> {
        if self.gone {
            return Err(Error::Closed);
        }
        self.in_queue += 1;
        assert!(
            self.in_queue <= self.options.send_depth,
            "more sends than the depth"
        );
        let bytes = slot.fill(len).bytes().to_vec();
        let mut out = self.out.lane();
        if !out.broken {
            out.sent.push_back(bytes);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<u16> {
        if self.gone {
            return Err(Error::Closed);
        }
        Ok(0)
    }

    unsafe fn expose(&mut self, addr: *const u8, len: usize) -> Result<Remote> {
        if self.gone {
            return Err(Error::Closed);
        }
        let mut out = self.out.lane();
        out.keys += 1;
        let key = out.keys;
        if !out.broken {
            out.exposed.insert(key, (addr as usize, len));
        }
        let (addr, len) = (addr as u64, len as u32);
        Ok(Remote { key, addr, len })
    }

    fn hide(&mut self, key: u32) -> Result<()> {
        self.out.lane().exposed.remove(&key);
        Ok(())
    }

    unsafe fn post_read(&mut self, to: *mut u8, from: Remote, token: u64) -> Result<()> {
        if self.gone {
            return Err(Error::Closed);
        }
        let to = to as usize;
        let read = Read { from, to, token };
        self.inward.lane().reads.push_back(read);
        Ok(())
    }

    fn poll(&mut self, events: &mut Vec<Event>) -> Result<()> {
        if self.gone {
            return Err(Error::Closed);
        }
        events.extend(self.first.drain(..));
        let done = std::mem::take(&mut self.out.lane().done);
        if done > 0 {
            self.in_queue -= done;
            events.push(Event::Sent(done));
        }
        let mut inward = self.inward.lane();
        while let Some(bytes) = inward.delivered.pop_front() {
            let mut slot = self.slab.take()?.ok_or(Error::Limit("slots"))?;
            slot.write(0, &bytes);
            events.push(Event::Received(slot.fill(bytes.len())));
        }
        events.extend(inward.read.drain(..).map(Event::ReadDone));
        if inward.denied {
            self.gone = true;
            return Err(Error::Reset("a READ was refused".into()));
        }
        if inward.closed && inward.sent.is_empty() {
            self.gone = true;
            events.push(Event::Disconnected);
        }
        Ok(())
    }

    fn probe(&mut self, _: Instant) -> Result<Duration> {
        Ok(Duration::MAX)
    }

    fn abort(&mut self) {
        self.gone = true;
        self.out.lane().cut();
        self.inward.lane().reads.clear();
    }

    fn disconnect(&mut self) -> Result<()> {
        self.out.lane().closed = true;
        Ok(())
    }
}
