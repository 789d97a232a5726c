// SPDX-License-Identifier: MPL-2.0
//! A device that misbehaves on purpose, as a real one could: it wraps any
//! endpoint or listener and delays, splits, reorders what has no order, starves, spoils and
//! kills. Seeded: the same seed over the same calls does the same. For tests.
//!
//! Nothing that is held back stays silent: as long as the wrapper owes
//! something, it also waits for the descriptor to be writable, as a soft one is.

mod plan;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::region::{Filled, Free, Slab, Unregistered};
use super::{Caps, Endpoint, Event, Kind, Listener, PrivateData, Ready, Remote};
use crate::error::{Error, Result};

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
    starved: bool,
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
        }
    }

    /// One more call: it may be the last.
    fn call(&mut self) -> Result<()> {
        self.calls = self.calls.saturating_add(1);
        if let (None, Some((death, after))) = (&self.dead, self.plan.death) {
            if self.calls > after {
                self.inner.abort();
                self.sent.clear();
                self.came.clear();
                self.dead = Some(death.error());
            }
        }
        self.dead.clone().map_or(Ok(()), Err)
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
            self.garble(&mut bytes);
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
        let mut bytes = private.0;
        match self.plan.private {
            Private::Whole => {}
            Private::Short(len) => bytes.truncate(len),
            Private::Padded(len) => bytes.resize(len.max(bytes.len()), 0),
            Private::Garbled => self.garble(&mut bytes),
        }
        PrivateData(bytes)
    }

    fn garble(&mut self, bytes: &mut [u8]) {
        if bytes.is_empty() {
            return;
        }
        for _ in 0..1 + self.chance.below(3) {
            let at = self.chance.below(bytes.len());
            bytes[at] ^= 1 << self.chance.below(8);
        }
    }

    /// Tell some of what is owed. The two kinds have no order between them.
    fn release(&mut self, events: &mut Vec<Event>) {
        let sent = self.how_many(self.sent.len());
        let came = self.how_many(self.came.len());
        let came_first = self.plan.delay.0 > 0 && self.chance.below(2) == 0;
        if came_first {
            self.release_came(came, events);
        }
        events.extend(self.sent.drain(..sent));
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
        events || self.starved || self.end.is_some() || self.dead.is_some()
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
            write: ready.write || self.owes(),
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
        let n = if self.chance.hits(self.plan.stint) {
            self.chance.below(usize::from(n) + 1) as u16
        } else {
            n
        };
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
        let posted = self.inner.post_send(slot, len);
        self.before_its_end(posted, ())
    }

    #[allow(unsafe_code)]
    unsafe fn post_gather(
        &mut self,
        slot: Free,
        len: usize,
        body: *const u8,
        body_len: usize,
    ) -> Result<()> {
        self.call()?;
        // SAFETY: handed on to the caller, whose need is the same.
        let posted = unsafe { self.inner.post_gather(slot, len, body, body_len) };
        self.before_its_end(posted, ())
    }

    fn flush(&mut self) -> Result<u16> {
        self.call()?;
        let done = self.inner.flush();
        let done = self.before_its_end(done, 0)?;
        // The oldest are reported first, and later is as good as now.
        if done > 0 && (!self.sent.is_empty() || self.chance.hits(self.plan.delay)) {
            self.take_in_sent(done);
            return Ok(0);
        }
        Ok(done)
    }

    #[allow(unsafe_code)]
    unsafe fn expose(&mut self, addr: *const u8, len: usize) -> Result<Remote> {
        self.call()?;
        // SAFETY: handed on to the caller, whose need is the same.
        unsafe { self.inner.expose(addr, len) }
    }

    fn hide(&mut self, key: u32) -> Result<()> {
        self.inner.hide(key)
    }

    #[allow(unsafe_code)]
    unsafe fn post_read(&mut self, to: *mut u8, from: Remote, token: u64) -> Result<()> {
        self.call()?;
        // SAFETY: handed on to the caller, whose need is the same.
        unsafe { self.inner.post_read(to, from, token) }
    }

    fn poll(&mut self, events: &mut Vec<Event>) -> Result<()> {
        self.call()?;
        self.starved = false;
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
        let probed = self.inner.probe(now);
        self.before_its_end(probed, Duration::MAX)
    }

    fn abort(&mut self) {
        self.inner.abort();
        self.sent.clear();
        self.came.clear();
        self.dead.get_or_insert(Error::Closed);
    }

    fn disconnect(&mut self) -> Result<()> {
        self.call()?;
        let done = self.inner.disconnect();
        self.before_its_end(done, ())
    }
}

/// A listener whose endpoints misbehave, each by a seed of its own.
pub struct FaultyListener {
    inner: Box<dyn Listener>,
    plan: Plan,
    chance: Chance,
}

impl FaultyListener {
    /// Wrap `inner`.
    pub fn new(inner: Box<dyn Listener>, plan: Plan) -> FaultyListener {
        FaultyListener {
            inner,
            plan,
            chance: Chance(plan.seed),
        }
    }
}

impl Listener for FaultyListener {
    fn local_addr(&self) -> SocketAddr {
        self.inner.local_addr()
    }

    fn ready(&self) -> Ready {
        self.inner.ready()
    }

    fn accept(&mut self) -> Result<Box<dyn Endpoint>> {
        if let Some((often, code)) = self.plan.accept_fails {
            if self.chance.hits(often) {
                return Err(Error::Device { op: "accept", code });
            }
        }
        let inner = self.inner.accept()?;
        let plan = Plan {
            seed: self.chance.next(),
            ..self.plan
        };
        Ok(Box::new(FaultyEndpoint::new(inner, plan)))
    }
}

#[cfg(test)]
mod tests;
