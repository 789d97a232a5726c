// SPDX-License-Identifier: MPL-2.0
//! What a link says and hears of bodies that are READ; the books are in `rendezvous`.

use super::{Flow, Incoming, Theirs};
use crate::error::{Error, Result};
use crate::proto::flow::rendezvous::Fate;
use crate::wire::frame::{Header, Rts, Type, DONE_PAYLOAD, HEADER, RTS_PAYLOAD};
use crate::wire::frame::{FLAG_MORE, FLAG_RESUMED};

impl Flow {
    /// What is sent now must be kept: it may have to be sent once more.
    pub fn must_keep(&self) -> bool {
        self.asker.is_open()
    }

    /// RTS may be sent on this link, now or later.
    pub fn may_ever_ask(&self) -> bool {
        self.asks && !self.asker.is_stopped()
    }

    /// One RTS may go now, once a receive for its answer is posted.
    pub fn rts_may_go(&self) -> bool {
        self.may_ever_ask() && self.is_greeted() && self.send.data_may_go() && self.asker.may_ask()
    }

    /// A receive must be posted for the answer of the next RTS, beyond `recvs_wanted`.
    pub fn wants_answer_receive(&self) -> bool {
        self.asker.wants_receive()
    }

    /// It was.
    pub fn on_answer_receive(&mut self) {
        self.asker.on_receive_posted();
    }

    /// The next RTS; it counts as posted. `more`: the next goes on with the same body.
    pub fn start_rts(&mut self, rts: Rts, more: bool) -> [u8; HEADER + RTS_PAYLOAD] {
        self.bytes_sent += u64::from(rts.len);
        self.asker.on_rts(rts.len.into());
        let flags = if more { FLAG_MORE } else { 0 };
        let mut bytes = [0; HEADER + RTS_PAYLOAD];
        bytes[..HEADER].copy_from_slice(&self.header(Type::Rts, flags, RTS_PAYLOAD as u32));
        bytes[HEADER..].copy_from_slice(&rts.encode());
        bytes
    }

    /// Bytes must be sent once more, and a DATA of them may go now.
    pub fn again_may_go(&self) -> bool {
        self.asker.again() > 0 && self.send.data_may_go()
    }

    /// The oldest RTS of the peer's that is not done is: READ, or not wanted.
    pub fn on_read_done(&mut self) {
        self.answerer.on_done();
        self.recv.on_consumed();
    }

    /// Refuse the oldest RTS of the peer's that is not done. `frames` from it on, with `bytes`
    /// of the stream, are dropped.
    pub fn refuse(&mut self, frames: usize, bytes: u64) {
        self.answerer.stop();
        self.bytes_received -= bytes;
        (0..frames).for_each(|_| self.recv.on_consumed());
    }

    pub(super) fn on_stream(&mut self, header: Header, payload: &[u8]) -> Result<Incoming> {
        if self.theirs != Theirs::Open {
            return Err(Error::Malformed("DATA after FIN"));
        }
        let resumed = header.flags & FLAG_RESUMED != 0 && self.reads;
        let (fate, len, incoming) = match header.kind {
            Type::Rts if !self.reads => {
                return Err(Error::Malformed("RTS, which was not agreed on"));
            }
            Type::Rts => {
                let rts = Rts::decode(payload)?;
                let more = header.flags & FLAG_MORE != 0;
                (
                    self.answerer.on_rts()?,
                    rts.len as usize,
                    Incoming::Rts(rts, more),
                )
            }
            _ => (
                self.answerer.on_data(resumed)?,
                payload.len(),
                Incoming::Data,
            ),
        };
        if fate == Fate::Drop {
            self.recv.on_consumed();
            return Ok(Incoming::Dropped);
        }
        self.bytes_received += len as u64;
        Ok(incoming)
    }

    /// An answer costs no credit.
    pub(super) fn answer_header(&mut self, kind: Type) -> [u8; HEADER] {
        self.send.on_answer_posted();
        Header {
            kind,
            flags: 0,
            grant: self.recv.tell(),
            len: DONE_PAYLOAD as u32,
        }
        .encode()
    }
}
