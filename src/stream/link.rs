// SPDX-License-Identifier: MPL-2.0
//! One link: a device endpoint below, a byte stream above, the flow machine
//! between. The caller reserves, fills and commits buffers, reads received
//! chunks, and turns the crank when the descriptor is ready.

mod ahead;
mod lend;
mod read;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use super::inbox::Inbox;
use super::loans::Loans;
use super::pool;
use super::sizes::{Large, Rendezvous, Sizes};
use super::tally::{self, Ledger};
use crate::device::region::{Filled, Free};
use crate::device::{Endpoint, Event, Kind, Ready, Remote};
use crate::error::{Error, Result};
use crate::proto::flow::link::{Flow, Incoming, Role, Setup};
use crate::proto::flow::negotiate::{self, Terms};
use crate::wire::frame::{Rts, Type, HEADER};
use crate::wire::hello::{Hello, Reason, GRANT_MIN};

pub(super) use ahead::AHEAD;

/// Milliseconds between two calls of [`Link::tick`] at most, and at least.
pub const TICK_MS: u32 = 5000;
const LEAST_TICK_MS: u32 = 50;
/// The same while the peer owes its first word.
const FIRST_TICK_MS: u32 = 250;

/// Where a link stands.
enum Phase {
    /// Acceptor: the peer's request has not come whole.
    Requested(Sizes),
    /// Acceptor: accepted, the connection does not stand yet.
    Accepting(Setup),
    /// Acceptor: said no; the answer is on its way.
    Rejecting(Error),
    Open(Flow),
    Dead(Error),
}

/// What may be done with a link now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct State {
    /// There is a chunk to read, or an end or error to report.
    pub readable: bool,
    /// `reserve` has a buffer.
    pub writable: bool,
    /// Wait for the descriptor to be writable as well.
    pub want_out: bool,
    /// The close begun by `shut` is complete.
    pub finished: bool,
    /// No longer connected.
    pub dead: bool,
    /// The peer has begun its close.
    pub peer_shut: bool,
}

/// One link.
pub struct Link {
    ledger: Ledger,
    // Dropped before what its READs fill.
    endpoint: Box<dyn Endpoint>,
    phase: Phase,
    inbox: Inbox,
    /// Nobody reads: what comes is dropped.
    deaf: bool,
    reserved: Option<Free>,
    loans: Loans,
    rendezvous: Rendezvous,
    pool: Option<Arc<pool::User>>,
    /// The longest body that the reader wants READ ahead, and bytes of all of them at most.
    ahead_most: usize,
    ahead_room: usize,
    /// The reader waits with a buffer that stays: what comes next goes there.
    offered: bool,
    events: Vec<Event>,
    /// The device had no send slot; it will tell.
    starved: bool,
    /// The clock runs: see [`Link::tick`].
    ticking: bool,
    shut: bool,
    peer_shut: bool,
    disconnected: bool,
}

impl Link {
    /// A connection that the device accepted; its handshake begins.
    pub fn acceptor(endpoint: Box<dyn Endpoint>, sizes: Sizes) -> Link {
        let ledger = Ledger::open(tally::Role::Accepted, &*endpoint);
        let large = sizes.large();
        Link::new(endpoint, ledger, Phase::Requested(sizes), large)
    }

    /// A connection that we asked for with these `sizes`, at the moment when the peer agreed to
    /// `terms`.
    pub fn initiator(endpoint: Box<dyn Endpoint>, terms: Terms, sizes: &Sizes) -> Link {
        let setup = setup(&*endpoint, Role::Initiator, terms, sizes.offer.grant);
        let ledger = Ledger::open(tally::Role::Connected, &*endpoint);
        let phase = Phase::Open(Flow::new(setup));
        Link::new(endpoint, ledger, phase, sizes.large())
    }

    fn new(endpoint: Box<dyn Endpoint>, ledger: Ledger, phase: Phase, large: Large) -> Link {
        Link {
            ledger,
            endpoint,
            phase,
            inbox: Inbox::default(),
            deaf: false,
            reserved: None,
            loans: Loans::default(),
            rendezvous: large.rendezvous,
            pool: large.pool,
            ahead_most: 0,
            ahead_room: large.ahead,
            offered: false,
            events: Vec::new(),
            starved: false,
            ticking: false,
            shut: false,
            peer_shut: false,
            disconnected: false,
        }
    }

    /// It stands: what was asked for with [`Link::initiator`] is there.
    pub(super) fn begin(&mut self) {
        self.ledger.stand(&*self.endpoint);
        self.tell_gauges();
    }

    /// What to watch.
    pub fn ready(&self) -> Ready {
        self.endpoint.ready()
    }

    /// This side's address.
    pub fn local_addr(&self) -> SocketAddr {
        self.endpoint.local_addr()
    }

    /// The peer's address.
    pub fn peer_addr(&self) -> SocketAddr {
        self.endpoint.peer_addr()
    }

    /// The device that serves it: `soft`, or `verbs:` and its name.
    pub fn device(&self) -> String {
        let name = self.endpoint.device_name();
        match self.endpoint.kind() {
            Kind::Soft => name.to_string(),
            Kind::Verbs => format!("verbs:{name}"),
        }
    }

    /// What it has counted so far.
    pub fn counts(&self) -> tally::Counts {
        self.ledger.counts()
    }

    /// Where its user counts messages (see [`Ledger::messages`]).
    pub fn messages(&self) -> *mut u64 {
        self.ledger.messages()
    }

    /// Why it is dead, if it is.
    pub fn death(&self) -> Option<&Error> {
        match &self.phase {
            Phase::Dead(why) => Some(why),
            _ => None,
        }
    }

    /// The connection stands, and the peer speaks our protocol.
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open(_))
    }

    /// What may be done now.
    pub fn state(&self) -> State {
        let (writable, finished, dead) = match &self.phase {
            Phase::Open(flow) => (
                flow.data_may_go() && !self.starved && !self.shut,
                self.shut && flow.is_finished(),
                false,
            ),
            Phase::Dead(_) => (false, self.shut, true),
            _ => (false, self.shut, false),
        };
        State {
            readable: dead || self.peer_shut || self.inbox.is_readable(),
            writable,
            want_out: self.endpoint.ready().write,
            finished,
            dead,
            peer_shut: self.peer_shut,
        }
    }

    /// Take in what the device has, and send what must go.
    pub fn crank(&mut self) {
        if matches!(self.phase, Phase::Dead(_)) {
            return;
        }
        let mut events = std::mem::take(&mut self.events);
        let polled = self.endpoint.poll(&mut events);
        self.take_in(polled, events);
    }

    /// As `crank`, for a caller that looks again and again: see [`Endpoint::look`], also for
    /// `told`. Returns whether there was anything; not where the device is not looked at.
    pub fn look(&mut self, told: bool) -> Result<bool> {
        if matches!(self.phase, Phase::Dead(_)) {
            return Ok(true);
        }
        let mut events = std::mem::take(&mut self.events);
        match self.endpoint.look(told, &mut events) {
            Err(Error::Misuse(why)) => Err(Error::Misuse(why)),
            Ok(()) if events.is_empty() => {
                self.events = events;
                Ok(false)
            }
            polled => {
                self.take_in(polled, events);
                Ok(true)
            }
        }
    }

    fn take_in(&mut self, polled: Result<()>, mut events: Vec<Event>) {
        self.starved = false;
        let handled = self.on_events(&mut events);
        self.events = events;
        let done = handled.and(match polled {
            Err(Error::Again) => Ok(()),
            other => other,
        });
        let done = done.and_then(|()| self.advance());
        self.die_of(done);
        self.tell_gauges();
    }

    fn tell_gauges(&self) {
        if let Phase::Open(flow) = &self.phase {
            self.ledger.gauges(flow.gauges());
        }
    }

    pub(super) fn on_events(&mut self, events: &mut Vec<Event>) -> Result<()> {
        for event in events.drain(..) {
            self.on_event(event)?;
        }
        Ok(())
    }

    fn on_event(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Request(private) => self.on_request(&private.0),
            Event::Established(_) => {
                self.stand();
                Ok(())
            }
            Event::Received(filled) => self.on_received(filled),
            Event::Sent(n) => {
                self.on_sent(n);
                Ok(())
            }
            Event::ReadDone(number) => self.on_read_done(number),
            Event::Rejected(private) => Err(negotiate::refusal(&private.0)),
            Event::Disconnected => Err(match &self.phase {
                Phase::Open(_) if self.peer_shut => Error::Closed,
                Phase::Open(_) if self.is_finished() => Error::Closed,
                Phase::Rejecting(why) => why.clone(),
                _ => Error::Reset("the peer went away without finishing".into()),
            }),
        }
    }

    /// The oldest `n` posted sends are complete.
    fn on_sent(&mut self, n: u16) {
        self.loans.on_complete(n);
        self.starved &= n == 0;
        if let Phase::Open(flow) = &mut self.phase {
            flow.on_sent(n);
        }
    }

    /// Hand what was posted to the device. What completes by that makes room for
    /// frames that found none; no event would tell.
    fn push(&mut self) -> Result<()> {
        loop {
            let sent = self.endpoint.flush()?;
            self.on_sent(sent);
            if sent == 0 || !self.post_owed()? {
                return Ok(());
            }
        }
    }

    /// Post what must go before all else, as far as there is room; whether anything was.
    fn post_owed(&mut self) -> Result<bool> {
        let control = self.post_control()?;
        let again = self.post_again()?;
        // The last of it may be what a FIN waits for.
        Ok(control | again | (again && self.post_control()?))
    }

    /// Post the control frames that must go and for which there is room; whether one was.
    fn post_control(&mut self) -> Result<bool> {
        let mut posted = false;
        let Phase::Open(flow) = &mut self.phase else {
            return Ok(false);
        };
        while flow.control_is_due() {
            let Some(mut slot) = self.endpoint.reserve()? else {
                self.starved = true;
                break;
            };
            let unanswered = flow.wants_answer();
            let Some(control) = flow.poll_control() else {
                break;
            };
            let ping = control.kind() == Type::Ping;
            self.ledger.control_sent(ping, unanswered);
            slot.write(0, control.bytes());
            self.loans.on_posted();
            self.endpoint.post_send(slot, control.bytes().len())?;
            posted = true;
        }
        Ok(posted)
    }

    fn is_finished(&self) -> bool {
        matches!(&self.phase, Phase::Open(flow) if flow.is_finished())
    }

    fn on_request(&mut self, private: &[u8]) -> Result<()> {
        let Phase::Requested(sizes) = &self.phase else {
            return Err(Error::Malformed("a second connection request"));
        };
        let mut ours = sizes.offer;
        let posted = self.endpoint.post_recvs(ours.grant)?;
        ours.grant = posted;
        let answer = if posted < GRANT_MIN {
            let reject = Hello::Reject {
                reason: Reason::Limit,
                least: ours.least,
                most: ours.most,
            };
            Err((reject, Error::Limit("receive slots")))
        } else {
            negotiate::answer(private, ours)
        };
        match answer {
            Ok((terms, reply)) => {
                let setup = setup(&*self.endpoint, Role::Acceptor, terms, posted);
                self.phase = Phase::Accepting(setup);
                self.endpoint.accept(&reply.encode())
            }
            Err((reject, why)) => {
                self.ledger.reject();
                self.phase = Phase::Rejecting(why);
                self.endpoint.reject(&reject.encode())
            }
        }
    }

    /// The connection stands. (A receive may tell before the device does, when
    /// the last handshake message was lost.)
    fn stand(&mut self) {
        if let Phase::Accepting(setup) = &self.phase {
            let mut flow = Flow::new(*setup);
            self.ledger.stand(&*self.endpoint);
            if self.shut {
                flow.shut();
                self.ledger.shut(&*self.endpoint);
            }
            self.phase = Phase::Open(flow);
        }
    }

    fn on_received(&mut self, filled: Filled) -> Result<()> {
        self.stand();
        let Phase::Open(flow) = &mut self.phase else {
            return Err(Error::Malformed("SEND before the connection stands"));
        };
        let incoming = flow.on_frame(filled.bytes())?;
        match incoming {
            Incoming::Data => self.ledger.received(filled.bytes().len() - HEADER),
            _ => self.ledger.control_received(),
        }
        self.peer_shut |= flow.peer_shut();
        match incoming {
            Incoming::Data if self.deaf => flow.on_consumed(),
            Incoming::Data => self.inbox.push_data(filled),
            Incoming::Rts(rts, more) => {
                let Rts { addr, key, len } = rts;
                self.inbox.push_rts(Remote { key, addr, len }, more);
                self.drop_unread();
            }
            Incoming::Answer(settled) => return self.on_answer(settled),
            Incoming::Control | Incoming::Dropped => {}
        }
        Ok(())
    }

    /// Post receives, send the control frames that must go, finish a close.
    pub(super) fn advance(&mut self) -> Result<()> {
        let Phase::Open(flow) = &mut self.phase else {
            return self.push();
        };
        let wanted = flow.recvs_wanted();
        if wanted > 0 {
            let posted = self.endpoint.post_recvs(wanted)?;
            flow.on_recvs_posted(posted);
        }
        self.post_owed()?;
        // Behind the answers to those before: see there.
        self.look_ahead()?;
        self.push()?;
        if self.shut && self.is_finished() && !self.disconnected {
            self.disconnected = true;
            self.endpoint.disconnect()?;
        }
        Ok(())
    }

    /// To be called after a run of `consume`: gives the peer its credits when they are due.
    pub fn replenish(&mut self) {
        if let Phase::Open(flow) = &self.phase {
            if flow.credit_is_due() {
                let done = self.advance();
                self.die_of(done);
            }
        }
    }

    /// A buffer to fill: start and size. The same one until `commit`.
    pub fn reserve(&mut self) -> Result<(*mut u8, usize)> {
        let Phase::Open(flow) = &self.phase else {
            return match self.phase {
                Phase::Dead(_) => Err(Error::Closed),
                _ => Err(Error::Again),
            };
        };
        if self.shut || self.peer_shut {
            return Err(Error::Closed);
        }
        if !flow.data_may_go() {
            if flow.is_greeted() {
                self.ledger.stall(flow.wants_credit());
            }
            return Err(Error::Again);
        }
        let payload = flow.payload();
        if self.reserved.is_none() {
            match self.endpoint.reserve() {
                Ok(Some(slot)) => self.reserved = Some(slot),
                Ok(None) => {
                    self.starved = true;
                    self.ledger.stall(false);
                }
                Err(why) => self.die_of(Err(why)),
            }
        }
        let Some(slot) = &mut self.reserved else {
            return Err(Error::Again);
        };
        let size = payload.min(slot.capacity() - HEADER);
        Ok((slot.as_mut_ptr().wrapping_add(HEADER), size))
    }

    /// Send the first `len` bytes of the reserved buffer; 0 gives it back.
    pub fn commit(&mut self, len: usize) -> Result<()> {
        let Some(mut slot) = self.reserved.take() else {
            return Err(Error::Misuse("commit without reserve"));
        };
        if len == 0 {
            return Ok(());
        }
        let Phase::Open(flow) = &mut self.phase else {
            return Err(Error::Closed);
        };
        if len > flow.payload() || len > slot.capacity() - HEADER {
            return Err(Error::Misuse("commit of more than was reserved"));
        }
        if flow.must_keep() {
            self.loans.keep(&slot.copied(HEADER..HEADER + len));
        }
        slot.write(0, &flow.start_data(len));
        self.ledger.sent(len);
        self.loans.on_posted();
        let done = self.endpoint.post_send(slot, HEADER + len);
        self.die_of(done);
        Ok(())
    }

    /// Send what credit and one slot allow of `bytes`, by a copy; how many. For tools: libzmq
    /// encodes into the slot itself.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let (_, room) = self.reserve()?;
        let n = room.min(bytes.len());
        if let Some(slot) = &mut self.reserved {
            slot.write(HEADER, &bytes[..n]);
        }
        self.commit(n)?;
        self.flush();
        Ok(n)
    }

    /// Push what was committed to the device.
    pub fn flush(&mut self) {
        let done = match self.phase {
            Phase::Dead(_) => Ok(()),
            _ => self.push(),
        };
        self.die_of(done);
        self.tell_gauges();
    }

    /// Time has passed; the first call starts the clock. Returns milliseconds until the next
    /// call is due.
    pub fn tick(&mut self, now: Instant) -> u32 {
        let mut next = TICK_MS;
        let passed = std::mem::replace(&mut self.ticking, true);
        // What is complete, and nobody was told of, is under way no more.
        self.flush();
        if let Phase::Open(flow) = &mut self.phase {
            if passed {
                flow.on_tick();
            }
            let done = self.endpoint.probe(now).and_then(|quiet| {
                // Whole milliseconds, and none too early.
                let quiet = u32::try_from(quiet.as_millis() + 1).unwrap_or(TICK_MS);
                next = quiet.clamp(LEAST_TICK_MS, TICK_MS);
                self.advance()
            });
            self.die_of(done);
        }
        if let Some(pool) = &self.pool {
            pool.trim(now);
        }
        tally::watch_memory();
        match &self.phase {
            Phase::Open(flow) if flow.wants_answer() => FIRST_TICK_MS,
            _ => next,
        }
    }

    /// Begin a lossless close; what is received from now on is dropped.
    pub fn shut(&mut self) {
        if self.shut {
            return;
        }
        self.shut = true;
        self.ledger.shut(&*self.endpoint);
        self.reserved = None;
        self.deafen();
        if let Phase::Open(flow) = &mut self.phase {
            if !self.peer_shut {
                flow.shut();
            }
            let done = self.advance();
            self.die_of(done);
        }
    }

    fn die_of(&mut self, done: Result<()>) {
        if let Err(why) = done {
            if why != Error::Again && !matches!(self.phase, Phase::Dead(_)) {
                self.reserved = None;
                self.ledger.end(&why, &*self.endpoint);
                self.phase = Phase::Dead(why);
                self.endpoint.abort();
                self.loans.clear();
            }
        }
    }
}

fn setup(endpoint: &dyn Endpoint, role: Role, terms: Terms, posted: u16) -> Setup {
    let caps = endpoint.caps();
    Setup {
        role,
        terms,
        posted,
        recv_depth: caps.recv_depth,
        send_depth: caps.send_depth,
        pings: !caps.detects_idle_death,
    }
}
