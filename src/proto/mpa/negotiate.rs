// SPDX-License-Identifier: MPL-2.0
//! MPA connection setup (RFC 5044 section 7.1, RFC 6581): one request, one
//! reply, then FPDUs. Two machines, one a side; neither keeps input: hand it
//! all unconsumed bytes each time.

use crate::error::{Error, Result};
use crate::wire::fault::{Cause, Fault};
use crate::wire::mpa::{Decoded, Enhanced, Kind, Revision, Setup, DEPTH_UNSPECIFIED};

/// What this side wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wishes {
    /// Highest revision to speak. An initiator asks with it; a responder
    /// answers in the request's.
    pub revision: Revision,
    /// Ask for CRCs. They are used when either side asks.
    pub crc: bool,
    /// READs of the peer we can have open at once.
    pub ird: u16,
    /// READs we want to have open at once.
    pub ord: u16,
}

impl Default for Wishes {
    fn default() -> Self {
        Wishes {
            revision: Revision::Two,
            crc: true,
            ird: 16,
            ord: 16,
        }
    }
}

/// The ready-to-receive indication of RFC 6581's peer-to-peer model: the
/// initiator's first message, empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rtr {
    /// Zero-length FPDU (or SEND).
    Send,
    /// Zero-length RDMA WRITE.
    Write,
    /// Zero-length RDMA READ.
    Read,
}

/// What both sides came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreed {
    /// Revision of both frames.
    pub revision: Revision,
    /// CRCs are made and checked.
    pub crc: bool,
    /// We must put markers into what we send. (We never ask for any.)
    pub markers: bool,
    /// READs the peer may have open.
    pub ird: u16,
    /// READs we may have open.
    pub ord: u16,
    /// Peer-to-peer model: the initiator sends this before all else. It may come as an FPDU
    /// with an empty ULPDU too; a SEND uses up a buffer of queue 0 (post one more for it) and
    /// is not for the consumer.
    pub rtr: Option<Rtr>,
}

/// What became of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard<'a, T> {
    /// Nothing yet: call again with at least this many bytes.
    Need(usize),
    /// A frame.
    Frame {
        /// Bytes it took from the input.
        consumed: usize,
        /// The consumer's private data.
        private: &'a [u8],
        /// What it means.
        says: T,
    },
}

/// What a reply says to the initiator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The connection stands; speak FPDUs.
    Accepted(Agreed),
    /// The peer's consumer refused; the private data has its reason.
    Rejected,
    /// The peer answered in an earlier revision than was asked in, and so took our words on
    /// the enhanced setup for private data: ask again in that revision, on a new connection.
    Older,
}

type Checked<T> = std::result::Result<T, Fault>;

/// The most that can be said on the wire, short of "unspecified".
const DEPTH_MAX: u16 = DEPTH_UNSPECIFIED - 1;

impl Wishes {
    fn enhanced(&self) -> bool {
        self.revision >= Revision::Two
    }

    fn ird(&self) -> u16 {
        self.ird.min(DEPTH_MAX)
    }

    fn ord(&self) -> u16 {
        self.ord.min(DEPTH_MAX)
    }
}

fn check_private(private: &[u8], enhanced: bool) -> Result<()> {
    if private.len() > Setup::private_max(enhanced) {
        return Err(Error::Misuse("private data too long for MPA"));
    }
    Ok(())
}

fn encoded(setup: &Setup<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    setup.encode(&mut bytes);
    bytes
}

/// The side that connected.
#[derive(Debug)]
pub struct Initiator {
    wishes: Wishes,
    output: Option<Vec<u8>>,
}

impl Initiator {
    /// Ask, with this private data. `Error::Misuse` when it is too long.
    pub fn new(wishes: Wishes, private: &[u8]) -> Result<Initiator> {
        check_private(private, wishes.enhanced())?;
        let request = Setup {
            kind: Kind::Request,
            markers: false,
            crc: wishes.crc,
            reject: false,
            revision: wishes.revision,
            // Client and server: our HELLO is what tells the responder that
            // it may send, so no ready-to-receive indication is asked for.
            enhanced: wishes.enhanced().then(|| Enhanced {
                ird: wishes.ird(),
                ord: wishes.ord(),
                ..Enhanced::default()
            }),
            private,
        };
        Ok(Initiator {
            wishes,
            output: Some(encoded(&request)),
        })
    }

    /// Whether there is an earlier revision to ask in. A responder that does not know
    /// ours closes the connection without an answer (RFC 5044 section 7.1.1).
    pub fn may_be_too_new(&self) -> bool {
        self.wishes.enhanced()
    }

    /// The request frame, once.
    pub fn poll_output(&mut self) -> Option<Vec<u8>> {
        self.output.take()
    }

    /// All unconsumed input.
    pub fn on_bytes<'a>(&mut self, input: &'a [u8]) -> Checked<Heard<'a, Answer>> {
        let (reply, consumed) = match Setup::decode(Kind::Reply, input)? {
            Decoded::Need(n) => return Ok(Heard::Need(n)),
            Decoded::Value(reply, consumed) => (reply, consumed),
        };
        let says = if reply.revision < self.wishes.revision {
            Answer::Older
        } else if reply.reject {
            Answer::Rejected
        } else {
            Answer::Accepted(self.agree(&reply)?)
        };
        Ok(Heard::Frame {
            consumed,
            private: reply.private,
            says,
        })
    }

    fn agree(&self, reply: &Setup<'_>) -> Checked<Agreed> {
        if reply.revision != self.wishes.revision {
            return Err(Fault::new(
                Cause::SETUP,
                "MPA reply of a later revision than its request",
            ));
        }
        let mut agreed = Agreed {
            revision: reply.revision,
            crc: self.wishes.crc || reply.crc,
            markers: reply.markers,
            ird: self.wishes.ird(),
            ord: self.wishes.ord(),
            rtr: None,
        };
        if !self.wishes.enhanced() {
            return Ok(agreed);
        }
        let Some(enhanced) = reply.enhanced else {
            return Err(Fault::new(
                Cause::SETUP,
                "MPA reply without the enhanced setup that was asked for",
            ));
        };
        if enhanced.peer_to_peer {
            return Err(Fault::new(
                Cause::NO_RTR,
                "MPA reply asks for a peer-to-peer model that was not offered",
            ));
        }
        if enhanced.ord != DEPTH_UNSPECIFIED {
            if enhanced.ord > agreed.ird {
                return Err(Fault::new(
                    Cause::INSUFFICIENT_IRD,
                    "the peer wants more READs open than it was offered",
                ));
            }
            agreed.ird = enhanced.ord;
        }
        if enhanced.ird != DEPTH_UNSPECIFIED {
            agreed.ord = agreed.ord.min(enhanced.ird);
        }
        Ok(agreed)
    }
}

/// The side that listened.
#[derive(Debug)]
pub struct Responder {
    wishes: Wishes,
    state: State,
}

#[derive(Debug)]
enum State {
    /// For a request.
    Waiting,
    /// For the consumer's verdict.
    Asked { agreed: Agreed, echo: Echo },
    /// The reply, until it is polled.
    Answered(Option<Vec<u8>>),
}

/// What the reply takes over from the request.
#[derive(Debug, Clone, Copy)]
struct Echo {
    revision: Revision,
    crc: bool,
    enhanced: Option<Enhanced>,
}

impl Responder {
    /// Wait for a request.
    pub fn new(wishes: Wishes) -> Responder {
        Responder {
            wishes,
            state: State::Waiting,
        }
    }

    /// All unconsumed input. After a `Frame`: `accept` or `reject`. Any
    /// input that follows is FPDUs: not this machine's.
    pub fn on_bytes<'a>(&mut self, input: &'a [u8]) -> Checked<Heard<'a, ()>> {
        let (request, consumed) = match Setup::decode(Kind::Request, input)? {
            Decoded::Need(n) => return Ok(Heard::Need(n)),
            Decoded::Value(request, consumed) => (request, consumed),
        };
        if request.revision > self.wishes.revision {
            return Err(Fault::new(
                Cause::SETUP,
                "MPA request of a later revision than is spoken here",
            ));
        }
        if matches!(self.state, State::Waiting) {
            self.state = self.ask(&request);
        }
        Ok(Heard::Frame {
            consumed,
            private: request.private,
            says: (),
        })
    }

    fn ask(&self, request: &Setup<'_>) -> State {
        let mut agreed = Agreed {
            revision: request.revision,
            crc: self.wishes.crc || request.crc,
            markers: request.markers,
            ird: self.wishes.ird(),
            ord: self.wishes.ord(),
            rtr: None,
        };
        let enhanced = request.enhanced.map(|asked| {
            if asked.ord != DEPTH_UNSPECIFIED {
                agreed.ird = agreed.ird.min(asked.ord);
            }
            if asked.ird != DEPTH_UNSPECIFIED {
                agreed.ord = agreed.ord.min(asked.ird);
            }
            agreed.rtr = rtr(&asked, agreed.ird);
            answer(&asked, &agreed)
        });
        let echo = Echo {
            revision: request.revision,
            crc: agreed.crc,
            enhanced,
        };
        State::Asked { agreed, echo }
    }

    /// Agree, with this private data. `Error::Misuse` before the request, after an answer, or
    /// when the data is too long. Hold FPDUs back until the peer's first FPDU.
    pub fn accept(&mut self, private: &[u8]) -> Result<Agreed> {
        self.answer(private, false)
    }

    /// Refuse, with the reason in the private data; then close once the output is out.
    pub fn reject(&mut self, private: &[u8]) -> Result<()> {
        self.answer(private, true).map(drop)
    }

    fn answer(&mut self, private: &[u8], reject: bool) -> Result<Agreed> {
        let State::Asked { agreed, echo } = self.state else {
            return Err(Error::Misuse("no MPA request waits for an answer"));
        };
        check_private(private, echo.enhanced.is_some())?;
        let reply = Setup {
            kind: Kind::Reply,
            markers: false,
            crc: echo.crc,
            reject,
            revision: echo.revision,
            enhanced: echo.enhanced,
            private,
        };
        self.state = State::Answered(Some(encoded(&reply)));
        Ok(agreed)
    }

    /// The reply frame, once.
    pub fn poll_output(&mut self) -> Option<Vec<u8>> {
        match &mut self.state {
            State::Answered(reply) => reply.take(),
            _ => None,
        }
    }
}

/// The indication we choose of those offered: a WRITE costs nothing, a READ an
/// answer, a SEND a receive. A peer that wants one and offers none gets WRITE,
/// as siw gives it.
fn rtr(asked: &Enhanced, ird: u16) -> Option<Rtr> {
    if !asked.peer_to_peer {
        None
    } else if asked.rtr_write {
        Some(Rtr::Write)
    } else if asked.rtr_read && ird > 0 {
        Some(Rtr::Read)
    } else if asked.rtr_send {
        Some(Rtr::Send)
    } else {
        Some(Rtr::Write)
    }
}

/// The reply's words. What the request left unspecified stays so.
fn answer(asked: &Enhanced, agreed: &Agreed) -> Enhanced {
    let depth = |asked: u16, agreed: u16| {
        if asked == DEPTH_UNSPECIFIED {
            DEPTH_UNSPECIFIED
        } else {
            agreed
        }
    };
    Enhanced {
        peer_to_peer: asked.peer_to_peer,
        rtr_send: agreed.rtr == Some(Rtr::Send),
        rtr_write: agreed.rtr == Some(Rtr::Write),
        rtr_read: agreed.rtr == Some(Rtr::Read),
        ird: depth(asked.ord, agreed.ird),
        ord: depth(asked.ird, agreed.ord),
    }
}
