// SPDX-License-Identifier: MPL-2.0
//! Connecting: resolve the name if it is one, open the device's connection,
//! read the peer's reply. Becomes a [`Link`] only when the peer has agreed.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::link::Link;
use super::resolve::{numeric, Lookup};
use super::sizes::Sizes;
use super::tally::{self, Fate};
use crate::device::{self, Choice, Endpoint, Event, Ready};
use crate::error::{Error, Result};
use crate::proto::flow::negotiate;
use crate::wire::hello::{Hello, GRANT_MIN};

enum Phase {
    Resolving(Lookup),
    Connecting(Box<dyn Endpoint>),
    /// It failed as it began; kept for its descriptor.
    Failed(Box<dyn Endpoint>, Error),
    Spent,
}

/// How far a dial has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The name is being looked up; the peer has not been spoken to.
    Resolving,
    /// The device is at it.
    Connecting,
    /// There is nothing to wait for: it is spent, or `step` says why it failed.
    Over,
}

/// How long each part of a dial took, or has taken so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// Looking up the name.
    pub resolving: Duration,
    /// Connecting, and hearing that the peer agrees.
    pub connecting: Duration,
}

/// A connection being made.
pub struct Dial {
    phase: Phase,
    choice: Choice,
    sizes: Sizes,
    source: Option<SocketAddr>,
    /// How it went is in the books.
    counted: bool,
    times: Times,
    /// When the present part began.
    since: Instant,
}

impl Drop for Dial {
    fn drop(&mut self) {
        // Given up, if not over.
        self.count_failure();
    }
}

impl Dial {
    /// Start towards `host` (numeric or a name) and `port`.
    pub fn start(
        choice: Choice,
        sizes: Sizes,
        host: &str,
        port: u16,
        source: Option<SocketAddr>,
        ipv6: bool,
    ) -> Result<Dial> {
        let mut dial = Dial {
            phase: Phase::Spent,
            choice,
            sizes,
            source,
            counted: false,
            times: Times::default(),
            since: Instant::now(),
        };
        match numeric(host, port, ipv6) {
            Some(to) => dial.connect(to)?,
            None => dial.phase = Phase::Resolving(Lookup::start(host, port, ipv6)?),
        }
        Ok(dial)
    }

    /// How far it has come.
    pub fn stage(&self) -> Stage {
        match &self.phase {
            Phase::Resolving(_) => Stage::Resolving,
            Phase::Connecting(_) => Stage::Connecting,
            Phase::Failed(..) | Phase::Spent => Stage::Over,
        }
    }

    /// How long its parts took.
    pub fn times(&self) -> Times {
        let mut times = self.times;
        match &self.phase {
            Phase::Resolving(_) => times.resolving = self.since.elapsed(),
            Phase::Connecting(_) | Phase::Failed(..) => times.connecting = self.since.elapsed(),
            Phase::Spent => {}
        }
        times
    }

    /// What to watch; may change with each step.
    pub fn ready(&self) -> Option<Ready> {
        match &self.phase {
            Phase::Resolving(lookup) => Some(Ready {
                fd: lookup.fd(),
                read: true,
                write: false,
            }),
            Phase::Connecting(endpoint) | Phase::Failed(endpoint, _) => Some(endpoint.ready()),
            Phase::Spent => None,
        }
    }

    /// Go on. `Again`: wait. Any other error: it failed.
    pub fn step(&mut self) -> Result<Link> {
        let stepped = self.go_on();
        match &stepped {
            Ok(_) => self.counted = true,
            Err(Error::Again) => {}
            Err(_) => self.count_failure(),
        }
        stepped
    }

    fn count_failure(&mut self) {
        if !std::mem::replace(&mut self.counted, true) {
            tally::happened(Fate::FailedConnect);
        }
    }

    fn go_on(&mut self) -> Result<Link> {
        if let Phase::Resolving(lookup) = &mut self.phase {
            let to = lookup.poll()?;
            self.times.resolving = self.since.elapsed();
            self.since = Instant::now();
            // The caller sees that the stage has changed before the next step.
            self.connect(to)?;
            return Err(Error::Again);
        }
        let endpoint = match &mut self.phase {
            Phase::Connecting(endpoint) => endpoint,
            Phase::Failed(_, why) => return Err(why.clone()),
            _ => return Err(Error::Misuse("step of a dial that is over")),
        };
        let mut events = Vec::new();
        let polled = endpoint.poll(&mut events);
        if events.is_empty() {
            polled?;
            return Err(Error::Again);
        }
        let private = match events.remove(0) {
            Event::Established(private) => private,
            Event::Rejected(private) => {
                tally::happened(Fate::RejectReceived);
                return Err(negotiate::refusal(&private.0));
            }
            Event::Disconnected => {
                return Err(Error::Reset(
                    "the peer closed the connection in the middle of the handshake".into(),
                ))
            }
            _ => return Err(Error::Malformed("the peer spoke before it agreed")),
        };
        let terms = negotiate::conclude(&private.0, self.sizes.offer)?;
        self.times.connecting = self.since.elapsed();
        let Phase::Connecting(endpoint) = std::mem::replace(&mut self.phase, Phase::Spent) else {
            return Err(Error::Misuse("step of a dial that is over"));
        };
        let mut link = Link::initiator(endpoint, terms, &self.sizes);
        link.on_events(&mut events)?;
        link.advance()?;
        link.begin();
        Ok(link)
    }

    fn connect(&mut self, to: SocketAddr) -> Result<()> {
        self.phase = Phase::Spent;
        let offer = self.sizes.offer;
        let private = Hello::Request(offer).encode();
        let options = &self.sizes.device;
        let mut endpoint = device::dial(self.choice, to, self.source, &private, options)?;
        self.phase = match endpoint.post_recvs(offer.grant) {
            Ok(posted) if posted >= GRANT_MIN.min(offer.grant) => Phase::Connecting(endpoint),
            Ok(_) => Phase::Failed(endpoint, Error::Limit("receive slots")),
            Err(why) => Phase::Failed(endpoint, why),
        };
        Ok(())
    }
}
