// SPDX-License-Identifier: MPL-2.0
//! MPA connection setup (RFC 5044 section 7.1, RFC 6581): one request, one
//! reply, then FPDUs. Two machines, one a side; neither keeps input: hand it
//! all unconsumed bytes each time.

use crate::error::Result;
use crate::wire::fault::Fault;
use crate::wire::mpa::Revision;

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
    /// Peer-to-peer model: the initiator sends this before all else. A SEND
    /// or FPDU indication uses up no posted receive.
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
}

/// The side that connected.
#[derive(Debug)]
pub struct Initiator {
    wishes: Wishes,
    output: Vec<u8>,
}

impl Initiator {
    /// Ask, with this private data. `Error::Misuse` when it is too long.
    pub fn new(wishes: Wishes, private: &[u8]) -> Result<Initiator> {
        let _ = private;
        Ok(Initiator {
            wishes,
            output: Vec::new(),
        })
    }

    /// The request frame, once.
    pub fn poll_output(&mut self) -> Option<Vec<u8>> {
        let _ = &self.wishes;
        let _ = &self.output;
        todo!()
    }

    /// All unconsumed input.
    pub fn on_bytes<'a>(
        &mut self,
        input: &'a [u8],
    ) -> std::result::Result<Heard<'a, Answer>, Fault> {
        let _ = input;
        todo!()
    }
}

/// The side that listened.
#[derive(Debug)]
pub struct Responder {
    wishes: Wishes,
    output: Vec<u8>,
}

impl Responder {
    /// Wait for a request.
    pub fn new(wishes: Wishes) -> Responder {
        Responder {
            wishes,
            output: Vec::new(),
        }
    }

    /// All unconsumed input. After a `Frame`: `accept` or `reject`.
    pub fn on_bytes<'a>(&mut self, input: &'a [u8]) -> std::result::Result<Heard<'a, ()>, Fault> {
        let _ = input;
        todo!()
    }

    /// Agree, with this private data. `Error::Misuse` before the request, after an answer, or
    /// when the data is too long. Hold FPDUs back until the peer's first FPDU.
    pub fn accept(&mut self, private: &[u8]) -> Result<Agreed> {
        let _ = private;
        todo!()
    }

    /// Refuse, with the reason in the private data; then close once the output is out.
    pub fn reject(&mut self, private: &[u8]) -> Result<()> {
        let _ = private;
        todo!()
    }

    /// The reply frame, once.
    pub fn poll_output(&mut self) -> Option<Vec<u8>> {
        let _ = &self.wishes;
        let _ = &self.output;
        todo!()
    }
}
