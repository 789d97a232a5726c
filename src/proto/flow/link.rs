// SPDX-License-Identifier: MPL-2.0
//! One established link: which frame goes next, and what a frame that came
//! means. Hello first, credits always, and a half-close that loses nothing.
//!
//! Closing: [`Flow::shut`] -> FIN with the count of DATA bytes -> the peer
//! checks the count and answers FIN_ACK at receipt -> [`Flow::is_finished`].
//! Both sides may do so at once.

mod large;

use super::credit::{Receiver, Sender};
use super::negotiate::Terms;
use super::rendezvous::{Answerer, Asker, Settled, DEPTH_LEAST, MOST_OPEN};
use crate::error::{Error, Result};
use crate::wire::frame::{done_count, Frame, Header, Rts, Type, FEATURE_READ};
use crate::wire::frame::{FIN_PAYLOAD, FLAG_BLOCKED, FLAG_RESUMED, HEADER};

/// Ticks for which an initiator asks for the peer's first frame. An acceptor
/// that has nothing to say (a raw socket's) is left in peace after that.
const ANSWER_TICKS: u32 = 8;

/// Who spoke first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// We asked; our first frame is HELLO.
    Initiator,
    /// We were asked; we hold our frames until the peer's HELLO.
    Acceptor,
}

/// How this side is set up.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// Who we are.
    pub role: Role,
    /// What was agreed.
    pub terms: Terms,
    /// Receives that our hello told of.
    pub posted: u16,
    /// Most receives posted.
    pub recv_depth: u16,
    /// Places of the send queue.
    pub send_depth: u16,
    /// The device does not notice by itself that an idle peer is gone.
    pub pings: bool,
}

/// What a received frame holds for the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Incoming {
    /// Bytes of the stream: everything after the frame header.
    Data,
    /// Bytes of the stream, to be READ, and whether the next RTS goes on with the same body. They
    /// are taken in by [`Flow::on_read_done`].
    Rts(Rts, bool),
    /// Bytes of the stream that will come once more.
    Dropped,
    /// RTS of ours are settled.
    Answer(Settled),
    /// Nothing.
    Control,
}

/// A control frame: header and a short payload, ready to post.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Control {
    kind: Type,
    bytes: [u8; HEADER + FIN_PAYLOAD],
    len: usize,
}

impl Control {
    /// Its type.
    pub fn kind(&self) -> Type {
        self.kind
    }

    /// The bytes of the SEND.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ours {
    Open,
    FinOwed,
    FinSent,
    FinAcked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Theirs {
    /// Acceptor: HELLO has not come.
    Silent,
    Open,
    FinAckOwed,
    FinAckSent,
}

/// The machine of one link.
#[derive(Debug)]
pub struct Flow {
    send: Sender,
    recv: Receiver,
    terms: Terms,
    pings: bool,
    /// RTS were agreed on.
    reads: bool,
    /// Some receives are kept for answers.
    asks: bool,
    asker: Asker,
    answerer: Answerer,
    hello_owed: bool,
    ping_owed: bool,
    /// A frame of the peer has come.
    heard: bool,
    /// Ticks before that.
    silent_ticks: u32,
    ours: Ours,
    theirs: Theirs,
    bytes_sent: u64,
    bytes_received: u64,
}

impl Flow {
    /// A link at the moment when the connection stands.
    pub fn new(setup: Setup) -> Flow {
        let initiator = setup.role == Role::Initiator;
        let reads = setup.terms.features & FEATURE_READ != 0;
        let asks = reads && setup.recv_depth >= DEPTH_LEAST;
        let recvs = setup.recv_depth - if asks { MOST_OPEN } else { 0 };
        Flow {
            send: Sender::new(setup.terms.grant, setup.send_depth),
            recv: Receiver::new(setup.posted, recvs),
            terms: setup.terms,
            pings: setup.pings,
            reads,
            asks,
            asker: Asker::default(),
            answerer: Answerer::default(),
            hello_owed: initiator,
            ping_owed: false,
            heard: false,
            silent_ticks: 0,
            ours: Ours::Open,
            theirs: if initiator {
                Theirs::Open
            } else {
                Theirs::Silent
            },
            bytes_sent: 0,
            bytes_received: 0,
        }
    }

    /// Bytes of payload that the next DATA may carry.
    pub fn payload(&self) -> usize {
        self.asker.room(self.terms.send_payload as usize)
    }

    /// Credits, sends under way, receives posted, DATA not yet read.
    pub fn gauges(&self) -> (u16, u16, u16, u16) {
        let (send, recv) = (&self.send, &self.recv);
        (
            send.credits(),
            send.in_queue(),
            recv.outstanding(),
            recv.held(),
        )
    }

    /// Both sides have spoken, and none has begun to close.
    pub fn is_greeted(&self) -> bool {
        self.ours == Ours::Open && !self.hello_owed && self.theirs == Theirs::Open
    }

    /// DATA may not go for want of credits.
    pub fn wants_credit(&self) -> bool {
        self.send.wants_credit()
    }

    /// One DATA may go now.
    pub fn data_may_go(&self) -> bool {
        self.is_greeted()
            && self.send.data_may_go()
            && self.asker.again() == 0
            && self.payload() > 0
    }

    /// Header of the next DATA, of `len` bytes; it counts as posted.
    pub fn start_data(&mut self, len: usize) -> [u8; HEADER] {
        debug_assert!(len > 0 && len <= self.payload());
        self.bytes_sent += len as u64;
        let flags = match self.asker.on_data(len) {
            true => FLAG_RESUMED,
            false => 0,
        };
        self.header(Type::Data, flags, len as u32)
    }

    /// A control frame must and may go now.
    pub fn control_is_due(&self) -> bool {
        self.next_control().is_some()
    }

    /// The control frame that must go now, if one must and may; it counts as posted.
    pub fn poll_control(&mut self) -> Option<Control> {
        let kind = self.next_control()?;
        match kind {
            Type::Hello => self.hello_owed = false,
            Type::FinAck => self.theirs = Theirs::FinAckSent,
            Type::Fin => self.ours = Ours::FinSent,
            Type::Ping => self.ping_owed = false,
            Type::Credit | Type::Data | Type::Rts | Type::Rdone | Type::Rstop => {}
        }
        Some(match kind {
            Type::Fin => {
                let sent = self.bytes_sent.to_be_bytes();
                self.control(kind, &sent)
            }
            Type::Rdone | Type::Rstop => {
                let done = self.answerer.tell().to_be_bytes();
                self.control(kind, &done)
            }
            _ => self.control(kind, &[]),
        })
    }

    fn next_control(&self) -> Option<Type> {
        // The peer has posted a receive for it.
        let answer = match &self.answerer {
            owes if owes.owes_stop() => Some(Type::Rstop),
            owes if owes.owes_done() => Some(Type::Rdone),
            _ => None,
        };
        if answer.is_some() && self.send.has_place() {
            return answer;
        }
        if !self.send.control_may_go(self.recv.fresh()) {
            return None;
        }
        if self.hello_owed {
            return Some(Type::Hello);
        }
        if self.theirs == Theirs::Silent {
            return None;
        }
        [
            (self.theirs == Theirs::FinAckOwed, Type::FinAck),
            (
                self.ours == Ours::FinOwed && self.asker.is_settled(),
                Type::Fin,
            ),
            (self.recv.is_due(), Type::Credit),
            (self.ping_owed, Type::Ping),
        ]
        .into_iter()
        .find_map(|(due, kind)| due.then_some(kind))
    }

    /// One SEND arrived.
    pub fn on_frame(&mut self, send: &[u8]) -> Result<Incoming> {
        let Frame { header, payload } = Frame::decode(send)?;
        let answer = matches!(header.kind, Type::Rdone | Type::Rstop);
        let stream = matches!(header.kind, Type::Data | Type::Rts);
        if !answer {
            self.recv
                .on_received(stream, header.flags & FLAG_BLOCKED != 0)?;
        }
        self.send.on_grant(header.grant)?;
        self.heard = true;
        if (header.kind == Type::Hello) != (self.theirs == Theirs::Silent) {
            return Err(Error::Malformed("HELLO missing, or out of place"));
        }
        match header.kind {
            Type::Hello => self.theirs = Theirs::Open,
            Type::Data | Type::Rts => return self.on_stream(header, payload),
            Type::Rdone | Type::Rstop => {
                let stop = header.kind == Type::Rstop;
                let settled = self.asker.on_answer(done_count(payload)?, stop)?;
                self.bytes_sent -= self.asker.again();
                return Ok(Incoming::Answer(settled));
            }
            Type::Fin => self.on_fin(payload)?,
            Type::FinAck => {
                if self.ours != Ours::FinSent {
                    return Err(Error::Malformed("FIN_ACK without FIN"));
                }
                self.ours = Ours::FinAcked;
            }
            Type::Credit | Type::Ping => {}
        }
        Ok(Incoming::Control)
    }

    fn on_fin(&mut self, payload: &[u8]) -> Result<()> {
        if self.theirs != Theirs::Open {
            return Err(Error::Malformed("a second FIN"));
        }
        let count = payload
            .try_into()
            .map(u64::from_be_bytes)
            .map_err(|_| Error::Malformed("FIN without a count"))?;
        if count != self.bytes_received {
            return Err(Error::Malformed("FIN counts other bytes than arrived"));
        }
        if !self.answerer.is_settled() {
            return Err(Error::Malformed("FIN before the answer to an RTS"));
        }
        self.theirs = Theirs::FinAckOwed;
        Ok(())
    }

    /// The bytes of one DATA have been read, or dropped.
    pub fn on_consumed(&mut self) {
        self.recv.on_consumed();
    }

    /// Enough has been consumed that the peer should be told by a frame of its own.
    pub fn credit_is_due(&self) -> bool {
        self.recv.would_be_due()
    }

    /// Receives to post now.
    pub fn recvs_wanted(&self) -> u16 {
        self.recv.wanted()
    }

    /// `n` receives were posted.
    pub fn on_recvs_posted(&mut self, n: u16) {
        self.recv.on_posted(n);
    }

    /// The device reports `n` sends complete.
    pub fn on_sent(&mut self, n: u16) {
        self.send.on_complete(n);
    }

    /// Some seconds have passed.
    pub fn on_tick(&mut self) {
        self.recv.on_tick();
        // While a SEND is under way, it is what the device learns by.
        let idle = self.pings && self.send.is_drained();
        self.ping_owed = idle || self.wants_answer();
        self.silent_ticks = self.silent_ticks.saturating_add(1);
    }

    /// Our HELLO has gone, and nothing has come back. It may lie unseen: the
    /// kernel's siw can miss what arrives while it accepts, until more arrives.
    pub fn wants_answer(&self) -> bool {
        !self.heard
            && self.silent_ticks < ANSWER_TICKS
            && !self.hello_owed
            && self.theirs == Theirs::Open
    }

    /// No more DATA will come from above: close once all is sent.
    pub fn shut(&mut self) {
        if self.ours == Ours::Open {
            self.ours = Ours::FinOwed;
        }
    }

    /// The peer has every byte, and knows that there are no more.
    pub fn is_finished(&self) -> bool {
        self.ours == Ours::FinAcked && self.theirs != Theirs::FinAckOwed
    }

    /// The peer has begun its close; all its bytes are here.
    pub fn peer_shut(&self) -> bool {
        matches!(self.theirs, Theirs::FinAckOwed | Theirs::FinAckSent)
    }

    /// DATA bytes sent and received since the start.
    pub fn bytes(&self) -> (u64, u64) {
        (self.bytes_sent, self.bytes_received)
    }

    fn control(&mut self, kind: Type, payload: &[u8]) -> Control {
        let mut bytes = [0; HEADER + FIN_PAYLOAD];
        let len = HEADER + payload.len();
        let header = match kind {
            Type::Rdone | Type::Rstop => self.answer_header(kind),
            _ => self.header(kind, 0, payload.len() as u32),
        };
        bytes[..HEADER].copy_from_slice(&header);
        bytes[HEADER..len].copy_from_slice(payload);
        Control { kind, bytes, len }
    }

    fn header(&mut self, kind: Type, flags: u8, len: u32) -> [u8; HEADER] {
        let blocked = if self.send.next_is_last() {
            FLAG_BLOCKED
        } else {
            0
        };
        self.send.on_posted();
        Header {
            kind,
            flags: flags | blocked,
            grant: self.recv.tell(),
            len,
        }
        .encode()
    }
}
