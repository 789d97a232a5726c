// SPDX-License-Identifier: MPL-2.0
//! READ and WRITE of one connection: the RDMAP machines, the tags they look
//! up, and the memory that answers are read from and placed in. Both directions of the
//! stream meet here: `inbound` asks, `outbound` answers.

use std::collections::VecDeque;
use std::mem::MaybeUninit;

use super::stag::Stags;
use crate::device::region::{Exposed, Sink};
use crate::device::Remote;
use crate::error::Result;
use crate::proto::ddp::place;
use crate::proto::mpa::negotiate::Agreed;
use crate::proto::rdmap::request::{Arrived, Requester};
use crate::proto::rdmap::respond::{Responder, Response};
use crate::wire::ddp::{Header, Tagged};
use crate::wire::fault::{Cause, Fault};
use crate::wire::rdmap::{ReadRequest, SendKind, READ_REQUEST_LEN};

/// What the peer asked for, or what it did wrong.
pub(super) type Checked<T> = std::result::Result<T, Fault>;

/// READ and WRITE of one connection.
pub(super) struct Rdma {
    requester: Requester,
    responder: Responder,
    /// What the peer may touch.
    pub stags: Stags,
    /// READs that wait for one of those asked to be answered.
    waiting: VecDeque<Read>,
    /// READs asked, in order: the peer answers in this order.
    asked: VecDeque<Read>,
}

struct Read {
    request: ReadRequest,
    token: u64,
    sink: Sink,
}

/// Where the payload of a tagged segment goes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    /// Into the sink of the oldest READ.
    Sink {
        /// Offset there.
        at: usize,
    },
    /// Into memory that the peer may WRITE.
    Target {
        /// Its tag.
        stag: u32,
        /// Offset there.
        at: usize,
    },
}

impl Rdma {
    /// As negotiated.
    pub fn new(agreed: &Agreed) -> Rdma {
        Rdma {
            requester: Requester::new(agreed.ord),
            responder: Responder::new(agreed.ird),
            stags: Stags::default(),
            waiting: VecDeque::new(),
            asked: VecDeque::new(),
        }
    }

    /// Header of the next SEND.
    #[inline]
    pub fn send_header(&mut self) -> Header {
        self.requester.send(SendKind::Plain, 0)
    }

    /// Header of a WRITE to the start of `to`.
    pub fn write_header(&self, to: &Remote) -> Header {
        self.requester.write(to.key, to.addr)
    }

    /// READ `from` into `sink`, when its turn comes.
    pub fn read(&mut self, from: &Remote, sink: Sink, token: u64) -> Result<()> {
        let request = ReadRequest {
            sink_stag: self.stags.unused()?,
            sink_to: 0,
            len: from.len,
            source_stag: from.key,
            source_to: from.addr,
        };
        self.waiting.push_back(Read {
            request,
            token,
            sink,
        });
        Ok(())
    }

    /// The next READ request to send, when the peer can take one.
    pub fn poll_request(&mut self) -> Option<(Header, [u8; READ_REQUEST_LEN])> {
        let next = self.waiting.front()?;
        let framed = self.requester.read(next.request, next.token).ok()?;
        self.asked.extend(self.waiting.pop_front());
        Some(framed)
    }

    /// The peer's READ request.
    pub fn on_request(&mut self, payload: &[u8]) -> Checked<()> {
        let stags = &self.stags;
        self.responder
            .on_request(payload, |stag| stags.readable(stag))?;
        let asked = ReadRequest::decode(payload)?;
        if asked.len > 0 {
            self.stags.owe(asked.source_stag);
        }
        Ok(())
    }

    /// The next answer to send, and what it is cut from.
    pub fn poll_response(&mut self) -> Option<(Response, Exposed)> {
        let response = self.responder.poll_response()?;
        // Owed memory stays; only a READ of nothing names none.
        let source = self.stags.source(response.stag);
        let source = match response.len {
            0 => Exposed::none(),
            _ => source?,
        };
        Some((response, source))
    }

    /// The last byte of an answer was handed to TCP.
    pub fn on_answered(&mut self, stag: u32, len: u32) {
        self.responder.on_sent();
        if len > 0 {
            self.stags.settle(stag);
        }
    }

    /// Where a READ response segment goes. May be asked before it is here whole.
    pub fn locate(&self, header: &Tagged, len: usize) -> Checked<Place> {
        let arrived = self.requester.locate(header, len)?;
        Ok(Place::Sink {
            at: arrived.at as usize,
        })
    }

    /// Where a WRITE segment goes. May be asked before it is here whole.
    /// Nowhere, when there is nothing to place.
    pub fn locate_write(&self, header: &Tagged, len: usize) -> Checked<Option<Place>> {
        let at = place::tagged(header, len, |stag| self.stags.writable(stag))?;
        // Offsets that were granted lie within a memory of ours.
        Ok((len > 0).then_some(Place::Target {
            stag: header.stag,
            at: at as usize,
        }))
    }

    /// Room for `len` bytes, `skip` bytes into a place. `None` if it is there no more.
    pub fn room(
        &mut self,
        place: Place,
        skip: usize,
        len: usize,
    ) -> Option<&mut [MaybeUninit<u8>]> {
        match place {
            Place::Sink { at } => Some(self.asked.front_mut()?.sink.room(at + skip, len)),
            Place::Target { stag, at } => self.stags.room(stag, at + skip, len),
        }
    }

    /// Copy `bytes` to `skip` bytes into a place.
    pub fn copy(&mut self, place: Place, skip: usize, bytes: &[u8]) -> Checked<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        match place {
            Place::Sink { at } => match self.asked.front_mut() {
                Some(read) => read.sink.write(at + skip, bytes),
                None => return Err(WITHDRAWN),
            },
            Place::Target { stag, at } => {
                if !self.stags.write(stag, at + skip, bytes) {
                    return Err(WITHDRAWN);
                }
            }
        }
        Ok(())
    }

    /// A READ response segment is in its place; the token of the READ that it completes.
    pub fn on_response(&mut self, header: &Tagged, len: usize) -> Checked<Option<u64>> {
        let Arrived { token, done, .. } = self.requester.on_response(header, len)?;
        if !done {
            return Ok(None);
        }
        self.asked.pop_front();
        Ok(Some(token))
    }

    /// Whether the next bytes may well be those of a long READ.
    #[inline]
    pub fn awaits_bulk(&self) -> bool {
        const BULK: u32 = 32 << 10;
        matches!(self.asked.front(), Some(read) if read.request.len >= BULK)
    }

    /// The peer wants a tag to mean nothing any more.
    pub fn invalidate(&mut self, stag: u32) -> Checked<()> {
        if self.stags.invalidate(stag) {
            return Ok(());
        }
        Err(Fault::new(
            Cause::INVALIDATE,
            "SEND invalidates a stag that is not exposed",
        ))
    }
}

/// What the peer writes to was taken away while a segment was half here.
pub(super) const WITHDRAWN: Fault = Fault::new(
    Cause::TAGGED_STAG,
    "WRITE to memory that was withdrawn meanwhile",
);
