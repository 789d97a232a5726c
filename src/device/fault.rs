// SPDX-License-Identifier: MPL-2.0
//! A device that misbehaves on purpose, as a real one could: it wraps any
//! endpoint or listener and delays, splits, reorders what has no order, starves, spoils,
//! loses and kills. Seeded: the same seed over the same calls does the same. For tests.
//!
//! Nothing that is held back stays silent: as long as the wrapper owes
//! something, it also waits for the descriptor to be writable, as a soft one is.

mod listener;
mod outgoing;
mod plan;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::region::{Filled, Free, Slab, Unregistered};
use super::{Caps, Endpoint, Event, Kind, PrivateData, Ready, Remote};
use crate::error::{Error, Result};

pub use listener::FaultyListener;
use outgoing::Outgoing;
use plan::Chance;
pub use plan::{Death, PerMille, Plan, Private};

/// An endpoint that misbehaves.
pub struct FaultyEndpoint {
    inner: Box<dyn Endpoint>,
    plan: Plan,
    chance: Chance,
    calls: u32,
    dead: Option<Error>,
    /// The inner one's end, told once nothing is held back.
    end: Option<Error>,
    /// Of what was sent, in order.
    sent: VecDeque<Event>,
    /// Of what came, in order.
    came: VecDeque<Event>,
    /// Fewer slots or receives were given than asked for.
    starved: bool,
    outgoing: Outgoing,
    probes: u32,
}

impl FaultyEndpoint {
    /// Wrap `inner`.
    pub fn new(inner: Box<dyn Endpoint>, plan: Plan) -> FaultyEndpoint {
        FaultyEndpoint {
            inner,
            plan,
            chance: Chance(plan.seed),
            calls: 0,
            dead: None,
            end: None,
            sent: VecDeque::new(),
            came: VecDeque::new(),
            starved: false,
            outgoing: Outgoing::default(),
            probes: 0,
        }
    }

    /// One more call: it may be the last.
    fn call(&mut self) -> Result<()> {
        self.calls = self.calls.saturating_add(1);
        if let (None, Some((death, after))) = (&self.dead, self.plan.death) {
            if self.calls > after {
                self.die(death.error());
            }
        }
        self.dead.clone().map_or(Ok(()), Err)
    }

    fn die(&mut self, why: Error) {
        self.inner.abort();
        self.sent.clear();
        self.came.clear();
        self.outgoing.all();
        self.dead.get_or_insert(why);
    }

    /// Nothing gets through any more, and nobody says so.
    fn silent(&self) -> bool {
        self.plan.silence.is_some_and(|after| self.calls > after)
    }

    /// One more SEND, unless the queue is full: that is the caller's miscount.
    fn count(&mut self) -> Result<()> {
        if self.outgoing.count(self.inner.caps().send_depth) {
            return Ok(());
        }
        Err(Error::Device {
            op: "post_send",
            code: libc::ENOMEM,
        })
    }

    /// Whether this SEND has to wait.
    fn must_wait(&mut self) -> bool {
        self.outgoing.is_waiting() || self.chance.hits(self.plan.not_ready)
    }

    fn send_again(&mut self) -> Result<()> {
        for (slot, len) in self.outgoing.due() {
            self.inner.post_send(slot, len)?;
        }
        Ok(())
    }

    fn flush_inner(&mut self) -> Result<u16> {
        self.send_again()?;
        self.inner.flush()
    }

    fn take_in(&mut self, event: Event) {
        match event {
            Event::Sent(n) => self.take_in_sent(n),
            Event::ReadDone(_) => self.sent.push_back(event),
            Event::Received(filled) => self.take_in_received(filled),
            Event::Request(private) => {
                let private = self.spoil(private);
                self.came.push_back(Event::Request(private));
            }
            Event::Established(private) => {
                let private = self.spoil(private);
                self.came.push_back(Event::Established(private));
            }
            Event::Rejected(private) => {
                let private = self.spoil(private);
                self.came.push_back(Event::Rejected(private));
            }
            Event::Disconnected => self.came.push_back(event),
        }
    }

    fn take_in_sent(&mut self, n: u16) {
        if n > 1 && self.chance.hits(self.plan.split) {
            let first = 1 + self.chance.below(usize::from(n) - 1) as u16;
            self.sent.push_back(Event::Sent(first));
            return self.take_in_sent(n - first);
        }
        self.sent.push_back(Event::Sent(n));
    }

    fn take_in_received(&mut self, filled: Filled) {
        let garbled = self.chance.hits(self.plan.garble);
        let truncated = self.chance.hits(self.plan.truncate);
        let doubled = self.chance.hits(self.plan.duplicate);
        if !garbled && !truncated && !doubled {
            return self.came.push_back(Event::Received(filled));
        }
        let mut bytes = filled.bytes().to_vec();
        if garbled {
            self.chance.garble(&mut bytes);
        }
        if truncated {
            let len = self.chance.below(bytes.len());
            bytes.truncate(len);
        }
        for _ in 0..1 + usize::from(doubled) {
            self.came.extend(copy(&bytes).map(Event::Received));
        }
    }

    fn spoil(&mut self, private: PrivateData) -> PrivateData {
        PrivateData(self.plan.private.spoil(private.0, &mut self.chance))
    }

    /// Tell some of what is owed. The two kinds have no order between them.
    fn release(&mut self, events: &mut Vec<Event>) {
        let late = self.chance.hits(self.plan.late_sent);
        let sent = if late {
            0
        } else {
            self.how_many(self.sent.len())
        };
        let came = self.how_many(self.came.len());
        let came_first = self.plan.delay.0 > 0 && self.chance.below(2) == 0;
        if came_first {
            self.release_came(came, events);
        }
        for event in self.sent.drain(..sent) {
            if let Event::Sent(n) = event {
                self.outgoing.complete(n);
            }
            events.push(event);
        }
        if !came_first {
            self.release_came(came, events);
        }
    }

    fn release_came(&mut self, n: usize, events: &mut Vec<Event>) {
        for _ in 0..n {
            // The end comes after everything, of either kind.
            let is_end = matches!(self.came.front(), Some(Event::Disconnected));
            if is_end && !self.sent.is_empty() {
                return;
            }
            events.extend(self.came.pop_front());
        }
    }

    fn how_many(&mut self, there: usize) -> usize {
        if there == 0 || self.chance.hits(self.plan.delay) {
            return 0;
        }
        if there > 1 && self.chance.hits(self.plan.split) {
            return 1 + self.chance.below(there - 1);
        }
        there
    }

    /// The inner one has ended while what it told before is held back: as with a
    /// device that held nothing back, that comes first.
    fn before_its_end<T>(&mut self, done: Result<T>, meanwhile: T) -> Result<T> {
        let held = !self.sent.is_empty() || !self.came.is_empty();
        match done {
            Err(why) if held && !matches!(why, Error::Again | Error::Misuse(_)) => {
                self.end.get_or_insert(why);
                Ok(meanwhile)
            }
            done => done,
        }
    }

    fn owes(&self) -> bool {
        let events = !self.sent.is_empty() || !self.came.is_empty();
        let waiting = self.starved || self.outgoing.is_waiting();
        events || waiting || self.end.is_some() || self.dead.is_some()
    }
}

/// A message of its own memory.
fn copy(bytes: &[u8]) -> Option<Filled> {
    let slab = Slab::new(bytes.len().max(1), 1, usize::MAX, Box::new(Unregistered));
    let mut slot = slab.take().ok()??;
    slot.write(0, bytes);
    Some(slot.fill(bytes.len()))
}

impl Endpoint for FaultyEndpoint {
    fn kind(&self) -> Kind {
        self.inner.kind()
    }

    fn device_name(&self) -> &str {
        self.inner.device_name()
    }

    fn caps(&self) -> Caps {
        self.inner.caps()
    }

    fn ready(&self) -> Ready {
        let ready = self.inner.ready();
        Ready {
            write: (ready.write || self.owes()) && !(self.silent() && self.dead.is_none()),
            ..ready
        }
    }

    fn local_addr(&self) -> SocketAddr {
        self.inner.local_addr()
    }

    fn peer_addr(&self) -> SocketAddr {
        self.inner.peer_addr()
    }

    fn accept(&mut self, private: &[u8]) -> Result<()> {
        self.call()?;
        self.inner.accept(private)
    }

    fn reject(&mut self, private: &[u8]) -> Result<()> {
        self.call()?;
        self.inner.reject(private)
    }

    fn post_recvs(&mut self, n: u16) -> Result<u16> {
        self.call()?;
        let asked = n;
        let n = if self.chance.hits(self.plan.stint) {
            self.chance.below(usize::from(asked) + 1) as u16
        } else {
            asked
        };
        self.starved |= n < asked;
        let posted = self.inner.post_recvs(n);
        self.before_its_end(posted, 0)
    }

    fn reserve(&mut self) -> Result<Option<Free>> {
        self.call()?;
        if self.chance.hits(self.plan.starve) {
            self.starved = true;
            return Ok(None);
        }
        let slot = self.inner.reserve();
        self.before_its_end(slot, None)
    }

    fn post_send(&mut self, slot: Free, len: usize) -> Result<()> {
        self.call()?;
        self.count()?;
        if self.silent() {
            return Ok(());
        }
        if self.must_wait() {
            let retry = 1 + self.chance.below(8);
            self.outgoing.hold(slot, len, retry);
            return Ok(());
        }
        let posted = self.inner.post_send(slot, len);
        self.before_its_end(posted, ())
    }

    #[allow(unsafe_code)]
    unsafe fn post_gather(
        &mut self,
        mut slot: Free,
        len: usize,
        body: *const u8,
        body_len: usize,
    ) -> Result<()> {
        if self.plan.not_ready.0 > 0 || self.plan.silence.is_some() {
            // It may wait: copied, so that nothing of the caller's is held.
            // SAFETY: readable, as the caller promises.
            let bytes = unsafe { std::slice::from_raw_parts(body, body_len) };
            slot.write(len, bytes);
            return self.post_send(slot, len + body_len);
        }
        self.call()?;
        self.count()?;
        // SAFETY: handed on to the caller, whose need is the same.
        let posted = unsafe { self.inner.post_gather(slot, len, body, body_len) };
        self.before_its_end(posted, ())
    }

    fn flush(&mut self) -> Result<u16> {
        self.call()?;
        if self.silent() {
            return Ok(0);
        }
        let done = self.flush_inner();
        let done = self.before_its_end(done, 0)?;
        // The oldest are reported first, and later is as good as now.
        let later = |chance: &mut Chance, plan: &Plan| {
            chance.hits(plan.delay) || chance.hits(plan.late_sent)
        };
        if done > 0 && (!self.sent.is_empty() || later(&mut self.chance, &self.plan)) {
            self.take_in_sent(done);
            return Ok(0);
        }
        self.outgoing.complete(done);
        Ok(done)
    }

    #[allow(unsafe_code)]
    unsafe fn expose(&mut self, addr: *const u8, len: usize) -> Result<Remote> {
        self.call()?;
        if self.end.is_some() || self.chance.hits(self.plan.unregistrable) {
            return Err(Error::Limit("memory, says the plan"));
        }
        // SAFETY: handed on to the caller, whose need is the same.
        unsafe { self.inner.expose(addr, len) }
    }

    fn hide(&mut self, key: u32) -> Result<()> {
        self.inner.hide(key)
    }

    #[allow(unsafe_code)]
    unsafe fn post_read(&mut self, to: *mut u8, from: Remote, token: u64) -> Result<()> {
        self.call()?;
        if self.end.is_some() || self.silent() {
            // It has no end.
            return Ok(());
        }
        if self.chance.hits(self.plan.unregistrable) {
            return Err(Error::Limit("memory, says the plan"));
        }
        // SAFETY: handed on to the caller, whose need is the same.
        let posted = unsafe { self.inner.post_read(to, from, token) };
        self.before_its_end(posted, ())
    }

    fn poll(&mut self, events: &mut Vec<Event>) -> Result<()> {
        self.call()?;
        self.starved = false;
        if self.silent() {
            return Ok(());
        }
        if self.outgoing.is_waiting() {
            let done = self.flush_inner();
            let done = self.before_its_end(done, 0)?;
            if done > 0 {
                self.take_in_sent(done);
            }
        }
        if self.end.is_none() {
            let mut fresh = Vec::new();
            let polled = self.inner.poll(&mut fresh);
            fresh.into_iter().for_each(|event| self.take_in(event));
            match polled {
                Err(why) if why != Error::Again => self.end = Some(why),
                _ => {}
            }
        }
        self.release(events);
        if self.sent.is_empty() && self.came.is_empty() {
            self.dead = self.end.take();
        }
        match &self.dead {
            Some(why) if events.is_empty() => Err(why.clone()),
            _ => Ok(()),
        }
    }

    fn probe(&mut self, now: Instant) -> Result<Duration> {
        self.call()?;
        if self.silent() {
            self.probes += 1;
            if self.probes > 1 {
                self.die(Error::TimedOut);
                return Err(Error::TimedOut);
            }
            return Ok(Duration::MAX);
        }
        let probed = self.inner.probe(now);
        self.before_its_end(probed, Duration::MAX)
    }

    fn abort(&mut self) {
        self.die(Error::Closed);
    }

    fn disconnect(&mut self) -> Result<()> {
        self.call()?;
        let waiting = self.outgoing.all();
        let mut left = waiting.into_iter();
        let sent = left.try_for_each(|(slot, len)| self.inner.post_send(slot, len));
        let done = sent.and_then(|()| self.inner.disconnect());
        self.before_its_end(done, ())
    }
}

#[cfg(test)]
mod tests;
