// SPDX-License-Identifier: MPL-2.0
//! The way to a connection: TCP's connect, then MPA's request and reply. Here the
//! machines of `proto::mpa::negotiate` meet the socket. No more is read than
//! the frame that is awaited takes: what follows it is for full operation.

use std::io::IoSlice;
use std::net::SocketAddr;

use super::outbound::Packing;
use super::tcp::{Connect, Tcp};
use crate::device::{Options, PrivateData};
use crate::error::{Error, Result};
use crate::proto::mpa::negotiate::{Agreed, Answer, Heard, Initiator, Responder, Wishes};
use crate::wire::mark;

/// READs of the peer that we can have open, and ours that we want open.
pub(super) const READS: u16 = 16;
/// Bytes of a refused peer that are read away in one turn.
const DISCARD: usize = 16 << 10;

enum Side {
    /// TCP's handshake is under way.
    Connecting(SocketAddr, Initiator),
    /// Our request is on its way, or answered any time now.
    Asking(Initiator),
    /// For the peer's request.
    Waiting(Responder),
    /// The peer's request is with the layer above.
    Asked(Responder),
    /// We said no, and wait for the peer to go.
    Refusing,
}

/// What a step led to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing yet: wait for the descriptor.
    Wait,
    /// Acceptor: the peer asks.
    Request(PrivateData),
    /// Initiator: the peer agrees.
    Accepted(Agreed, PrivateData),
    /// Initiator: the peer refuses.
    Rejected(PrivateData),
    /// Initiator: the peer may know the first revision of MPA only. Ask again,
    /// on a new connection, in that.
    Older,
    /// The peer that was refused has gone.
    Gone,
}

/// A connection that does not stand yet.
pub(super) struct Setup {
    side: Side,
    input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    /// The peer's private data had our mark.
    soft: bool,
}

/// What we want of MPA.
pub(super) fn wishes(o: &Options) -> Wishes {
    Wishes {
        crc: o.crc,
        ird: READS,
        ord: READS,
        ..Wishes::default()
    }
}

impl Setup {
    fn new(side: Side) -> Setup {
        Setup {
            side,
            input: Vec::new(),
            output: Vec::new(),
            written: 0,
            soft: false,
        }
    }

    /// For a socket that has yet to connect to `to`.
    pub fn initiator(to: SocketAddr, wishes: Wishes, private: &[u8]) -> Result<Setup> {
        let initiator = Initiator::new(wishes, &mark::put(private))?;
        Ok(Setup::new(Side::Connecting(to, initiator)))
    }

    /// For a socket that was accepted.
    pub fn acceptor(wishes: Wishes) -> Setup {
        Setup::new(Side::Waiting(Responder::new(wishes)))
    }

    /// Wait until the descriptor is writable as well.
    pub fn wants_write(&self) -> bool {
        matches!(self.side, Side::Connecting(..)) || self.written < self.output.len()
    }

    /// How the peer wants its FPDUs; known when it has asked or answered.
    pub fn packing(&self) -> Packing {
        match self.soft {
            true => Packing::Stream,
            false => Packing::Segments,
        }
    }

    /// Go on as far as the socket lets us.
    pub fn step(&mut self, tcp: &Tcp) -> Result<Step> {
        match self.go_on(tcp) {
            // So does a responder of RFC 5044 that cannot speak our revision.
            Err(Error::Reset(_)) if self.is_unanswered() => Ok(Step::Older),
            other => other,
        }
    }

    /// Our request in RFC 6581's revision may have been seen, and nothing came back.
    fn is_unanswered(&self) -> bool {
        match &self.side {
            Side::Asking(initiator) => initiator.may_be_too_new() && self.input.is_empty(),
            _ => false,
        }
    }

    fn go_on(&mut self, tcp: &Tcp) -> Result<Step> {
        if let Side::Connecting(to, _) = &self.side {
            if tcp.connect(to)? == Connect::Pending {
                return Ok(Step::Wait);
            }
            self.ask();
        }
        if !self.write(tcp)? {
            return Ok(Step::Wait);
        }
        match self.side {
            Side::Asking(_) => self.await_reply(tcp),
            Side::Waiting(_) => self.await_request(tcp),
            Side::Refusing => refuse(tcp),
            Side::Connecting(..) | Side::Asked(_) => Ok(Step::Wait),
        }
    }

    fn ask(&mut self) {
        let side = std::mem::replace(&mut self.side, Side::Refusing);
        self.side = match side {
            Side::Connecting(_, mut initiator) => {
                self.output = initiator.poll_output().unwrap_or_default();
                Side::Asking(initiator)
            }
            side => side,
        };
    }

    fn await_reply(&mut self, tcp: &Tcp) -> Result<Step> {
        loop {
            let Side::Asking(initiator) = &mut self.side else {
                return Ok(Step::Wait);
            };
            let need = match initiator.on_bytes(&self.input)? {
                Heard::Need(need) => need,
                Heard::Frame { private, says, .. } => {
                    let (private, soft) = mark::strip(private);
                    let private = PrivateData(private.to_vec());
                    self.soft = soft;
                    return Ok(match says {
                        Answer::Accepted(agreed) => Step::Accepted(agreed, private),
                        Answer::Rejected => Step::Rejected(private),
                        Answer::Older => Step::Older,
                    });
                }
            };
            if !read_up_to(need, &mut self.input, tcp)? {
                return Ok(Step::Wait);
            }
        }
    }

    fn await_request(&mut self, tcp: &Tcp) -> Result<Step> {
        loop {
            let Side::Waiting(responder) = &mut self.side else {
                return Ok(Step::Wait);
            };
            let need = match responder.on_bytes(&self.input)? {
                Heard::Need(need) => need,
                Heard::Frame { private, .. } => {
                    let (private, soft) = mark::strip(private);
                    let private = PrivateData(private.to_vec());
                    self.soft = soft;
                    self.input = Vec::new();
                    self.asked();
                    return Ok(Step::Request(private));
                }
            };
            if !read_up_to(need, &mut self.input, tcp)? {
                return Ok(Step::Wait);
            }
        }
    }

    fn asked(&mut self) {
        let side = std::mem::replace(&mut self.side, Side::Refusing);
        self.side = match side {
            Side::Waiting(responder) => Side::Asked(responder),
            side => side,
        };
    }

    /// Agree: what was agreed, and the reply to send first.
    pub fn accept(&mut self, private: &[u8]) -> Result<(Agreed, Vec<u8>)> {
        let Side::Asked(responder) = &mut self.side else {
            return Err(Error::Misuse("nobody asks"));
        };
        let agreed = responder.accept(&ours(private, self.soft))?;
        Ok((agreed, responder.poll_output().unwrap_or_default()))
    }

    /// Refuse.
    pub fn reject(&mut self, private: &[u8], tcp: &Tcp) -> Result<()> {
        let Side::Asked(responder) = &mut self.side else {
            return Err(Error::Misuse("nobody asks"));
        };
        responder.reject(&ours(private, self.soft))?;
        self.output = responder.poll_output().unwrap_or_default();
        self.side = Side::Refusing;
        self.write(tcp).map(drop)
    }

    /// Write the frame that is ours; whether all of it is out.
    fn write(&mut self, tcp: &Tcp) -> Result<bool> {
        if self.written == self.output.len() {
            return Ok(true);
        }
        match tcp.write(&[IoSlice::new(&self.output[self.written..])]) {
            Err(Error::Again) => return Ok(false),
            taken => self.written += taken?,
        }
        if self.written < self.output.len() {
            return Ok(false);
        }
        if matches!(self.side, Side::Refusing) {
            tcp.shut_write();
        }
        Ok(true)
    }
}

/// Our answer's private data: only one of us looks for the mark in it.
fn ours(private: &[u8], soft: bool) -> Vec<u8> {
    match soft {
        true => mark::put(private),
        false => private.to_vec(),
    }
}

/// Read until `input` has `need` bytes; whether there is more of it than before.
fn read_up_to(need: usize, input: &mut Vec<u8>, tcp: &Tcp) -> Result<bool> {
    let more = need.saturating_sub(input.len());
    match tcp.append(input, more) {
        Ok(0) => Err(Error::Reset(
            "the peer closed the connection before it stood".into(),
        )),
        Err(Error::Again) => Ok(false),
        read => read.map(|_| true),
    }
}

/// The peer has our refusal. What it says no longer matters, only that it
/// goes: closing before that could destroy the refusal on its way.
fn refuse(tcp: &Tcp) -> Result<Step> {
    let mut waste = Vec::with_capacity(DISCARD);
    match tcp.append(&mut waste, DISCARD) {
        Ok(0) => Ok(Step::Gone),
        Ok(_) | Err(Error::Again) => Ok(Step::Wait),
        Err(why) => Err(why),
    }
}
