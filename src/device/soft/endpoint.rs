// SPDX-License-Identifier: MPL-2.0
//! One connection of the soft device: keeps the contract of
//! `device::Endpoint`. Three phases: setup, full operation, ended; each is one
//! value, and each move between them is made here.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::inbound::Inbound;
use super::memory::Memory;
use super::open::Open;
use super::redial::Redial;
use super::setup::{self, Setup, Step};
use super::stag;
use super::tcp::Tcp;
use crate::device::region::{Exposed, Free, Sink};
use crate::device::{self, Caps, Event, Kind, Options, Ready, Remote, PRIVATE_DATA_MAX};
use crate::error::{Error, Result};
use crate::proto::mpa::negotiate::{Agreed, Wishes};

enum Phase {
    Setup(Setup),
    Open(Box<Open>),
    Ended(Error),
}

/// One connection.
pub struct Endpoint {
    tcp: Tcp,
    local: SocketAddr,
    peer: SocketAddr,
    slot_size: usize,
    recv_depth: u16,
    send_depth: u16,
    dead_after: std::time::Duration,
    memory: Memory,
    /// Receives posted before the connection stands.
    recvs: u16,
    phase: Phase,
    /// How to connect once more; until the connection stands.
    redial: Option<Box<Redial>>,
}

impl Endpoint {
    /// Connect to `to`.
    pub fn dial(
        to: SocketAddr,
        source: Option<SocketAddr>,
        private: &[u8],
        o: &Options,
    ) -> Result<Endpoint> {
        Endpoint::dial_with(to, source, private, o, setup::wishes(o))
    }

    /// Connect to `to`, with these wishes for MPA.
    pub(super) fn dial_with(
        to: SocketAddr,
        source: Option<SocketAddr>,
        private: &[u8],
        o: &Options,
        wishes: Wishes,
    ) -> Result<Endpoint> {
        check_private(private)?;
        let setup = Setup::initiator(to, wishes, private)?;
        let tcp = Tcp::dialing(&to, source.as_ref(), o)?;
        // The address is known only now if a source was given, else after connect.
        let started = tcp.connect(&to);
        let mut endpoint = Endpoint::new(tcp, to, o, Phase::Setup(setup))?;
        endpoint.redial = Some(Box::new(Redial::new(source, private, o, wishes)));
        if let Err(why) = started {
            endpoint.end(why);
        }
        Ok(endpoint)
    }

    /// A connection that a listener got.
    pub(super) fn accepted(tcp: Tcp, peer: SocketAddr, o: &Options) -> Result<Endpoint> {
        let setup = Setup::acceptor(setup::wishes(o));
        Endpoint::new(tcp, peer, o, Phase::Setup(setup))
    }

    fn new(tcp: Tcp, peer: SocketAddr, o: &Options, phase: Phase) -> Result<Endpoint> {
        let local = tcp.local_addr()?;
        Ok(Endpoint {
            tcp,
            local,
            peer,
            slot_size: o.slot_size,
            recv_depth: o.recv_depth,
            send_depth: o.send_depth,
            dead_after: o.dead_after,
            memory: Memory::of(o.slot_size),
            recvs: 0,
            phase,
            redial: None,
        })
    }

    /// Let the peer WRITE `len` bytes at `addr` until `hide`.
    ///
    /// # Safety
    /// The memory is writable, and nobody else touches it, until `hide`
    /// returns or the endpoint is dropped.
    #[allow(unsafe_code)]
    pub unsafe fn expose_to_write(&mut self, addr: *mut u8, len: usize) -> Result<Remote> {
        let open = self.open()?;
        // SAFETY: handed on to the caller; the table keeps it as long as we said.
        let target = unsafe { Sink::new(addr, len) };
        open.rdma.stags.grant(stag::Memory::Target(target))
    }

    /// WRITE `to.len` bytes at `from` into the peer's memory. Takes a place among the sends, and is
    /// reported with them.
    ///
    /// # Safety
    /// The memory stays valid and unwritten until the report, or until the endpoint is dropped.
    #[allow(unsafe_code)]
    pub unsafe fn post_write(&mut self, from: *const u8, to: Remote) -> Result<()> {
        let depth = self.send_depth;
        let open = self.open()?;
        open.count_send(depth)?;
        // SAFETY: handed on to the caller; it is gone when the write is reported.
        let bytes = unsafe { Exposed::new(from, to.len as usize) };
        open.outbound.post_write(bytes, to);
        Ok(())
    }

    /// Whether it holds a chunk of the process's memory.
    #[cfg(test)]
    pub(super) fn holds_chunk(&self) -> bool {
        matches!(&self.phase, Phase::Open(open) if open.inbound.holds_chunk())
    }

    fn open(&mut self) -> Result<&mut Open> {
        match &mut self.phase {
            Phase::Open(open) => Ok(open),
            Phase::Setup(_) => Err(Error::Again),
            Phase::Ended(why) => Err(why.clone()),
        }
    }

    /// The connection is over. Its memory goes back; the descriptor turns readable for good.
    fn end(&mut self, why: Error) {
        self.tcp.shut();
        self.phase = Phase::Ended(why);
    }

    /// Hand `result` on; an error ends the connection.
    fn settled<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(why) = &result {
            if !matches!(why, Error::Again | Error::Misuse(_)) {
                self.end(why.clone());
            }
        }
        result
    }

    fn stand(&mut self, agreed: &Agreed, reply: Option<Vec<u8>>) -> Result<()> {
        let Phase::Setup(setup) = &self.phase else {
            return Err(Error::Misuse("stands already"));
        };
        let packing = setup.packing();
        self.redial = None;
        let emss = self.tcp.emss()?;
        let memory = self.memory.clone();
        let inbound = Inbound::new(agreed, self.slot_size, self.recvs, memory);
        self.phase = Phase::Open(Open::new(agreed, packing, emss, reply, inbound));
        Ok(())
    }

    fn poll_setup(&mut self, events: &mut Vec<Event>) -> Result<()> {
        let Phase::Setup(setup) = &mut self.phase else {
            return Ok(());
        };
        match setup.step(&self.tcp)? {
            Step::Wait => {}
            Step::Request(private) => events.push(Event::Request(private)),
            Step::Accepted(agreed, private) => {
                self.local = self.tcp.local_addr()?;
                self.stand(&agreed, None)?;
                events.push(Event::Established(private));
            }
            Step::Rejected(private) => {
                events.push(Event::Rejected(private));
                self.end(Error::Refused("by the peer's consumer".into()));
            }
            Step::Older => {
                let Some(redial) = self.redial.take() else {
                    return Err(Error::Misuse("an acceptor does not dial"));
                };
                let (tcp, setup) = redial.in_revision_one(&self.peer)?;
                self.tcp = tcp;
                self.phase = Phase::Setup(setup);
            }
            Step::Gone => {
                events.push(Event::Disconnected);
                self.end(Error::Closed);
            }
        }
        Ok(())
    }

    fn poll_open(&mut self, events: &mut Vec<Event>) -> Result<()> {
        let Phase::Open(open) = &mut self.phase else {
            return Ok(());
        };
        if open.poll(&self.tcp, events)? {
            self.end(Error::Closed);
        }
        Ok(())
    }
}

impl device::Endpoint for Endpoint {
    fn kind(&self) -> Kind {
        Kind::Soft
    }

    fn device_name(&self) -> &str {
        "soft"
    }

    fn caps(&self) -> Caps {
        Caps {
            slot_size: self.slot_size,
            recv_depth: self.recv_depth,
            send_depth: self.send_depth,
            detects_idle_death: true,
            reads: match &self.phase {
                Phase::Open(open) => open.reads,
                _ => true,
            },
            // A READ through TCP is copied as often as a SEND.
            reads_pay_from: None,
            reads_at_once: 4,
            may_lend: true,
            gathers: true,
        }
    }

    fn ready(&self) -> Ready {
        let write = match &self.phase {
            Phase::Setup(setup) => setup.wants_write(),
            Phase::Open(open) => open.wants_write(),
            Phase::Ended(_) => false,
        };
        Ready {
            fd: self.tcp.fd(),
            read: true,
            write,
        }
    }

    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    fn accept(&mut self, private: &[u8]) -> Result<()> {
        check_private(private)?;
        let Phase::Setup(setup) = &mut self.phase else {
            return self.open().and(Err(Error::Misuse("accepted already")));
        };
        let (agreed, reply) = setup.accept(private)?;
        let stood = self.stand(&agreed, Some(reply));
        self.settled(stood)?;
        self.flush().map(drop)
    }

    fn reject(&mut self, private: &[u8]) -> Result<()> {
        check_private(private)?;
        let Phase::Setup(setup) = &mut self.phase else {
            return self.open().and(Err(Error::Misuse("accepted already")));
        };
        let rejected = setup.reject(private, &self.tcp);
        self.settled(rejected)
    }

    fn post_recvs(&mut self, n: u16) -> Result<u16> {
        let depth = self.recv_depth;
        match &mut self.phase {
            Phase::Setup(_) => {
                let n = n.min(depth - self.recvs);
                self.recvs += n;
                Ok(n)
            }
            Phase::Open(open) => Ok(open.post_recvs(n, depth)),
            Phase::Ended(why) => Err(why.clone()),
        }
    }

    fn reserve(&mut self) -> Result<Option<Free>> {
        let depth = self.send_depth;
        let outstanding = match &self.phase {
            Phase::Setup(_) => return Ok(None),
            Phase::Open(open) => open.outstanding,
            Phase::Ended(why) => return Err(why.clone()),
        };
        if outstanding >= depth {
            return Ok(None);
        }
        self.memory.send_slot(outstanding == 0)
    }

    fn post_send(&mut self, slot: Free, len: usize) -> Result<()> {
        let depth = self.send_depth;
        let open = self.open()?;
        if len > slot.capacity() {
            return Err(Error::Misuse("SEND longer than its slot"));
        }
        open.count_send(depth)?;
        open.outbound.post_send(slot.fill(len));
        Ok(())
    }

    #[allow(unsafe_code)]
    unsafe fn post_gather(
        &mut self,
        mut slot: Free,
        len: usize,
        body: *const u8,
        body_len: usize,
    ) -> Result<()> {
        // SAFETY: handed on to the caller; the outbound queue lets go of it
        // before the send is reported, and when the endpoint is dropped.
        let body = unsafe { Exposed::new(body, body_len) };
        let depth = self.send_depth;
        let open = self.open()?;
        if body_len > slot.capacity() - len.min(slot.capacity()) {
            return Err(Error::Misuse("SEND longer than its slot"));
        }
        open.count_send(depth)?;
        if open.outbound.is_whole(len + body_len) {
            open.outbound.post_gather(slot.fill(len), body);
        } else {
            slot.write(len, body.bytes());
            open.outbound.post_send(slot.fill(len + body_len));
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<u16> {
        let open = match &mut self.phase {
            Phase::Setup(_) => return Ok(0),
            Phase::Open(open) => open,
            Phase::Ended(why) => return Err(why.clone()),
        };
        let sent = open.send_out(&self.tcp);
        let done = open.report();
        self.settled(sent)?;
        Ok(done)
    }

    #[allow(unsafe_code)]
    unsafe fn expose(&mut self, addr: *const u8, len: usize) -> Result<Remote> {
        let open = self.open()?;
        // SAFETY: handed on to the caller; the table and what is cut from it
        // are gone when `hide` succeeds or the endpoint is dropped.
        let source = unsafe { Exposed::new(addr, len) };
        open.rdma.stags.grant(stag::Memory::Source(source))
    }

    fn hide(&mut self, key: u32) -> Result<()> {
        match &mut self.phase {
            Phase::Open(open) => open.rdma.stags.withdraw(key),
            Phase::Setup(_) => Err(Error::Misuse("hiding what is not exposed")),
            // It went with the connection.
            Phase::Ended(_) => Ok(()),
        }
    }

    #[allow(unsafe_code)]
    unsafe fn post_read(&mut self, to: *mut u8, from: Remote, token: u64) -> Result<()> {
        let open = self.open()?;
        if !open.reads {
            return Err(Error::Misuse("the peer takes no READ"));
        }
        // SAFETY: handed on to the caller; it is gone with `ReadDone`, or with the endpoint.
        let sink = unsafe { Sink::new(to, from.len as usize) };
        open.rdma.read(&from, sink, token)
    }

    fn poll(&mut self, events: &mut Vec<Event>) -> Result<()> {
        let before = events.len();
        let done = match &self.phase {
            Phase::Setup(_) => self.poll_setup(events),
            Phase::Open(_) => self.poll_open(events),
            Phase::Ended(why) => return Err(why.clone()),
        };
        match self.settled(done) {
            // What came before it is told first; the next poll tells the error.
            Err(_) if events.len() > before => Ok(()),
            done => done,
        }
    }

    fn probe(&mut self, now: Instant) -> Result<Duration> {
        let dead_after = self.dead_after;
        let open = match &mut self.phase {
            Phase::Setup(_) => return Ok(dead_after),
            Phase::Open(open) => open,
            Phase::Ended(why) => return Err(why.clone()),
        };
        let probed = open.probe(&self.tcp, dead_after, now);
        self.settled(probed)
    }

    fn abort(&mut self) {
        if !matches!(self.phase, Phase::Ended(_)) {
            self.end(Error::Closed);
        }
    }

    fn disconnect(&mut self) -> Result<()> {
        let open = match &mut self.phase {
            Phase::Setup(_) => {
                self.end(Error::Closed);
                return Ok(());
            }
            Phase::Open(open) => open,
            Phase::Ended(_) => return Ok(()),
        };
        let sent = open.disconnect(&self.tcp);
        self.settled(sent)
    }
}

fn check_private(private: &[u8]) -> Result<()> {
    if private.len() > PRIVATE_DATA_MAX {
        return Err(Error::Misuse("more than 56 bytes of private data"));
    }
    Ok(())
}
