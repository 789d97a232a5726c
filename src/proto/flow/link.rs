// SPDX-License-Identifier: MPL-2.0
//! One established link: which frame goes next, and what a frame that came
//! means. Hello first, credits always, and a half-close that loses nothing.
//!
//! Closing: [`Flow::shut`] -> FIN with the count of DATA bytes -> the peer
//! checks the count and answers FIN_ACK at receipt -> [`Flow::is_finished`].
//! Both sides may do so at once.

use super::credit::{Receiver, Sender};
use super::negotiate::Terms;
use crate::error::{Error, Result};
use crate::wire::frame::{Frame, Header, Type, FIN_PAYLOAD, FLAG_BLOCKED, HEADER};

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
        Flow {
            send: Sender::new(setup.terms.grant, setup.send_depth),
            recv: Receiver::new(setup.posted, setup.recv_depth),
            terms: setup.terms,
            pings: setup.pings,
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

    /// Bytes of payload that one DATA may carry.
    pub fn payload(&self) -> usize {
        self.terms.send_payload as usize
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
        self.is_greeted() && self.send.data_may_go()
    }

    /// Header of the next DATA, of `len` bytes; it counts as posted.
    pub fn start_data(&mut self, len: usize) -> [u8; HEADER] {
        debug_assert!(len > 0 && len <= self.payload());
        self.bytes_sent += len as u64;
        self.header(Type::Data, len as u32)
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
            Type::Credit | Type::Data => {}
        }
        Some(if kind == Type::Fin {
            self.fin()
        } else {
            self.control(kind)
        })
    }

    fn next_control(&self) -> Option<Type> {
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
            (self.ours == Ours::FinOwed, Type::Fin),
            (self.recv.is_due(), Type::Credit),
            (self.ping_owed, Type::Ping),
        ]
        .into_iter()
        .find_map(|(due, kind)| due.then_some(kind))
    }

    /// One SEND arrived.
    pub fn on_frame(&mut self, send: &[u8]) -> Result<Incoming> {
        let Frame { header, payload } = Frame::decode(send)?;
        let data = header.kind == Type::Data;
        self.recv
            .on_received(data, header.flags & FLAG_BLOCKED != 0)?;
        self.send.on_grant(header.grant)?;
        self.heard = true;
        if (header.kind == Type::Hello) != (self.theirs == Theirs::Silent) {
            return Err(Error::Malformed("HELLO missing, or out of place"));
        }
        match header.kind {
            Type::Hello => self.theirs = Theirs::Open,
            Type::Data => {
                if self.theirs != Theirs::Open {
                    return Err(Error::Malformed("DATA after FIN"));
                }
                self.bytes_received += payload.len() as u64;
                return Ok(Incoming::Data);
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
        self.ping_owed = idle || (self.wants_answer() && self.silent_ticks > 0);
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

    fn control(&mut self, kind: Type) -> Control {
        let mut bytes = [0; HEADER + FIN_PAYLOAD];
        bytes[..HEADER].copy_from_slice(&self.header(kind, 0));
        Control {
            kind,
            bytes,
            len: HEADER,
        }
    }

    fn fin(&mut self) -> Control {
        let mut bytes = [0; HEADER + FIN_PAYLOAD];
        bytes[..HEADER].copy_from_slice(&self.header(Type::Fin, FIN_PAYLOAD as u32));
        bytes[HEADER..].copy_from_slice(&self.bytes_sent.to_be_bytes());
        Control {
            kind: Type::Fin,
            bytes,
            len: HEADER + FIN_PAYLOAD,
        }
    }

    fn header(&mut self, kind: Type, len: u32) -> [u8; HEADER] {
        let flags = if self.send.next_is_last() {
            FLAG_BLOCKED
        } else {
            0
        };
        self.send.on_posted();
        Header {
            kind,
            flags,
            grant: self.recv.tell(),
            len,
        }
        .encode()
    }
}
