// SPDX-License-Identifier: MPL-2.0
//! A connection that stands: what comes in, what goes out, and when it is over.

use std::time::{Duration, Instant};

use super::inbound::{Inbound, Read};
use super::outbound::{Outbound, Packing};
use super::place::Ending;
use super::rdma::Rdma;
use super::tcp::Tcp;
use crate::device::silence::Silence;
use crate::device::{Event, PrivateData};
use crate::error::{Error, Result};
use crate::proto::mpa::negotiate::Agreed;

/// Bytes taken in by one `poll`: other connections wait meanwhile. What is
/// left stays in the kernel, and so the descriptor stays readable.
const TURN: usize = 256 << 10;

/// Full operation of one connection.
pub(super) struct Open {
    pub outbound: Outbound,
    pub inbound: Inbound,
    pub rdma: Rdma,
    /// READs were agreed on, both ways.
    pub reads: bool,
    /// Sends posted and not reported.
    pub outstanding: u16,
    /// The acceptor has not been told that the connection stands.
    news: bool,
    disconnecting: bool,
    /// Our end has been sent.
    shut: bool,
    /// TCP takes nothing more, for this reason. What it still has for us comes first.
    broken: Option<Error>,
    silence: Silence,
}

impl Open {
    /// As negotiated. The acceptor begins with its `reply`.
    pub fn new(
        agreed: &Agreed,
        packing: Packing,
        emss: usize,
        reply: Option<Vec<u8>>,
        inbound: Inbound,
    ) -> Box<Open> {
        Box::new(Open {
            news: reply.is_some(),
            outbound: Outbound::new(agreed, packing, emss, reply),
            inbound,
            rdma: Rdma::new(agreed),
            reads: agreed.ord > 0 && agreed.ird > 0,
            outstanding: 0,
            disconnecting: false,
            shut: false,
            broken: None,
            silence: Silence::default(),
        })
    }

    /// Whether to wait until the descriptor is writable as well.
    pub fn wants_write(&self) -> bool {
        self.outbound.blocked() || self.news
    }

    /// One turn; whether the peer's end came.
    pub fn poll(&mut self, tcp: &Tcp, events: &mut Vec<Event>) -> Result<bool> {
        if std::mem::take(&mut self.news) {
            events.push(Event::Established(PrivateData::default()));
        }
        let ended = self.take_in(tcp, events)?;
        if !ended {
            self.send_out(tcp)?;
        }
        let done = self.report();
        if done > 0 {
            events.push(Event::Sent(done));
        }
        if ended {
            events.push(Event::Disconnected);
        }
        Ok(ended)
    }

    /// Post `n` more receives, up to `depth` in all; how many were.
    pub fn post_recvs(&mut self, n: u16, depth: u16) -> u16 {
        let posted = self.inbound.posted().min(u32::from(depth)) as u16;
        let n = n.min(depth - posted);
        self.inbound.post(n);
        n
    }

    /// Let time pass: memory that a pause left here goes back; the path may have changed.
    pub fn probe(&mut self, tcp: &Tcp, dead_after: Duration, now: Instant) -> Result<Duration> {
        self.inbound.pause();
        self.outbound.set_emss(tcp.emss()?);
        let left = self.silence.left(dead_after, &tcp.acks()?, now);
        left.ok_or(Error::TimedOut)
    }

    /// Our end, once everything posted has been handed over.
    pub fn disconnect(&mut self, tcp: &Tcp) -> Result<()> {
        self.disconnecting = true;
        self.send_out(tcp)
    }

    /// Read and parse; whether the peer's end came.
    fn take_in(&mut self, tcp: &Tcp, events: &mut Vec<Event>) -> Result<bool> {
        let mut turn = 0;
        let ended = loop {
            let more = match self.inbound.read(tcp, &mut self.rdma) {
                Ok(Read::End) => break true,
                Ok(Read::Bytes { n, more }) => {
                    turn += n;
                    more && turn < TURN
                }
                Err(Error::Again) => break false,
                Err(why) => return Err(why),
            };
            if let Err(ending) = self.inbound.parse(&mut self.rdma, events) {
                return Err(self.last_words(tcp, ending));
            }
            if self.inbound.heard() {
                self.outbound.release();
            }
            if !more {
                break false;
            }
        };
        if let (true, Some(why)) = (ended, &self.broken) {
            return Err(why.clone());
        }
        if ended && !self.inbound.at_boundary() {
            return Err(Error::Reset(
                "the peer closed in the middle of a message".into(),
            ));
        }
        self.inbound.settle();
        Ok(ended)
    }

    /// Tell the peer why, if it is its fault.
    fn last_words(&mut self, tcp: &Tcp, ending: Ending) -> Error {
        match ending {
            Ending::Error(why) => why,
            Ending::Fault(fault, terminate) => {
                self.outbound.last_words(tcp, &terminate);
                fault.into()
            }
        }
    }

    /// Hand over what TCP takes; after the last of it our end, if that is wanted.
    #[inline]
    pub fn send_out(&mut self, tcp: &Tcp) -> Result<()> {
        if self.shut || self.broken.is_some() {
            return Ok(());
        }
        match self.outbound.flush(tcp, &mut self.rdma) {
            // The descriptor is readable by that.
            Err(why @ (Error::Reset(_) | Error::TimedOut)) => self.broken = Some(why),
            sent => sent?,
        }
        if self.disconnecting && self.outbound.drained() {
            self.shut = true;
            tcp.shut_write();
        }
        Ok(())
    }

    /// Sends that are complete and have not been reported: they are now.
    #[inline]
    pub fn report(&mut self) -> u16 {
        let done = self.outbound.take_done();
        self.outstanding -= done;
        done
    }

    /// One more send is posted.
    pub fn count_send(&mut self, depth: u16) -> Result<()> {
        if self.disconnecting {
            return Err(Error::Misuse("send after disconnect"));
        }
        if self.outstanding >= depth {
            return Err(Error::Misuse("more sends than the depth"));
        }
        self.outstanding += 1;
        Ok(())
    }
}
