// SPDX-License-Identifier: MPL-2.0
//! Each segment to its place: SENDs to receives, READ requests to the
//! responder, READ responses and WRITEs to memory, the TERMINATE to the end.

use super::memory::Memory;
use super::rdma::{Checked, Place, Rdma};
use crate::device::region::{Filled, Free, Writer};
use crate::device::Event;
use crate::error::Error;
use crate::proto::ddp::place::{Placement, Queue};
use crate::proto::mpa::negotiate::{Agreed, Rtr};
use crate::proto::rdmap::terminate::{self, Terminate};
use crate::wire::ddp::{Header, Tagged, Untagged, UNTAGGED_LEN};
use crate::wire::fault::{Cause, Fault};
use crate::wire::mpa::LENGTH_LEN;
use crate::wire::rdmap::{Opcode, QN_READ, QN_SEND, QN_TERMINATE, READ_REQUEST_LEN, TERMINATE_MAX};

/// Payloads from this size on are lent out of the chunk, shorter ones copied.
const LEND: usize = 2048;

/// Why the stream ends.
pub(super) enum Ending {
    /// The peer broke a rule, and is told so.
    Fault(Fault, Terminate),
    /// The peer ended it, or we cannot go on.
    Error(Error),
}

impl From<Fault> for Ending {
    fn from(fault: Fault) -> Ending {
        Ending::Fault(fault, Terminate::new(&fault, None))
    }
}

impl From<Error> for Ending {
    fn from(error: Error) -> Ending {
        Ending::Error(error)
    }
}

/// Where a received payload comes from, and may stay.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    /// The chunk that it lies in.
    pub chunk: &'a Writer,
    /// Where its FPDU begins there.
    pub at: usize,
    /// For copies.
    pub memory: &'a Memory,
}

impl Source<'_> {
    /// The payload, which is `len` bytes behind the header, to keep.
    #[inline]
    fn keep(&self, header_len: usize, len: usize) -> Result<Filled, Error> {
        let start = self.at + LENGTH_LEN + header_len;
        if len >= LEND {
            return Ok(self.chunk.lend(start..start + len));
        }
        let mut slot = self.memory.recv_slot()?;
        slot.write(0, &self.chunk.bytes()[start..start + len]);
        Ok(slot.fill(len))
    }
}

/// Inbound queues, and messages half here.
pub(super) struct Dispatch {
    sends: Queue,
    reads: Queue,
    terminates: Queue,
    slot_size: usize,
    /// A SEND of several segments.
    message: Option<Free>,
    /// A READ request, and how much of it is here if not all.
    request: [u8; READ_REQUEST_LEN],
    request_at: usize,
    /// A tagged message has begun and not ended.
    within_tagged: bool,
    /// The peer announced that its first message is only an indication.
    rtr: Option<Rtr>,
    heard: bool,
}

impl Dispatch {
    /// As negotiated, with `recvs` receives posted.
    pub fn new(agreed: &Agreed, slot_size: usize, recvs: u16) -> Dispatch {
        let mut dispatch = Dispatch {
            sends: Queue::new(QN_SEND),
            reads: Queue::new(QN_READ),
            terminates: Queue::new(QN_TERMINATE),
            slot_size,
            message: None,
            request: [0; READ_REQUEST_LEN],
            request_at: 0,
            within_tagged: false,
            rtr: agreed.rtr,
            heard: false,
        };
        dispatch.sends.post(recvs);
        // One is enough: it is posted again as soon as a request is whole. How
        // many READs may be open is the responder's to check.
        dispatch.reads.post(1);
        dispatch.terminates.post(1);
        dispatch
    }

    /// Post `n` more receives.
    pub fn post(&mut self, n: u16) {
        self.sends.post(n);
    }

    /// Receives posted and not used up.
    pub fn posted(&self) -> u32 {
        self.sends.posted()
    }

    /// Whether an FPDU has come.
    #[inline]
    pub fn heard(&self) -> bool {
        self.heard
    }

    /// Whether no message is half here.
    pub fn at_boundary(&self) -> bool {
        self.message.is_none() && self.request_at == 0 && !self.within_tagged
    }

    /// An FPDU whose CRC is right, where it lies in its chunk.
    #[inline]
    pub fn on_ulpdu(
        &mut self,
        ulpdu: &[u8],
        source: Source<'_>,
        rdma: &mut Rdma,
        events: &mut Vec<Event>,
    ) -> Result<(), Ending> {
        let first = !std::mem::replace(&mut self.heard, true);
        if first && self.took_indication(ulpdu)? {
            return Ok(());
        }
        match self.sort(ulpdu, source, rdma, events) {
            Err(Ending::Fault(fault, _)) => {
                Err(Ending::Fault(fault, Terminate::new(&fault, Some(ulpdu))))
            }
            other => other,
        }
    }

    #[inline]
    fn sort(
        &mut self,
        ulpdu: &[u8],
        source: Source<'_>,
        rdma: &mut Rdma,
        events: &mut Vec<Event>,
    ) -> Result<(), Ending> {
        let header = Header::decode(ulpdu)?;
        let payload = &ulpdu[header.len()..];
        let opcode = Opcode::of(&header)?;
        let header = match header {
            Header::Untagged(header) => header,
            Header::Tagged(header) => {
                if let Some(place) = locate(&header, payload.len(), rdma)? {
                    rdma.copy(place, 0, payload)?;
                }
                return self.on_placed(&header, payload.len(), rdma, events);
            }
        };
        match opcode {
            Opcode::Send(kind) => {
                let filled = self.on_send(&header, payload, source)?;
                if kind.invalidates() && header.last {
                    rdma.invalidate(header.ulp_word)?;
                }
                events.extend(filled.map(Event::Received));
                Ok(())
            }
            Opcode::ReadRequest => Ok(self.on_read_request(&header, payload, rdma)?),
            Opcode::Terminate => {
                self.terminates
                    .on_segment(&header, payload.len(), TERMINATE_MAX)?;
                Err(terminate::on_terminate(payload).into())
            }
            Opcode::Write | Opcode::ReadResponse => {
                Err(Fault::new(Cause::OPCODE, "tagged opcode in an untagged segment").into())
            }
        }
    }

    #[inline]
    fn on_send(
        &mut self,
        header: &Untagged,
        payload: &[u8],
        source: Source<'_>,
    ) -> Result<Option<Filled>, Ending> {
        match self
            .sends
            .on_segment(header, payload.len(), self.slot_size)?
        {
            Placement::Whole => Ok(Some(source.keep(UNTAGGED_LEN, payload.len())?)),
            Placement::Part { at, last } => {
                let mut slot = match self.message.take() {
                    Some(slot) => slot,
                    None => source.memory.recv_slot()?,
                };
                slot.write(at, payload);
                if last {
                    return Ok(Some(slot.fill(at + payload.len())));
                }
                self.message = Some(slot);
                Ok(None)
            }
        }
    }

    fn on_read_request(
        &mut self,
        header: &Untagged,
        payload: &[u8],
        rdma: &mut Rdma,
    ) -> Checked<()> {
        let placement = self
            .reads
            .on_segment(header, payload.len(), READ_REQUEST_LEN)?;
        let (at, last) = match placement {
            Placement::Whole => (0, true),
            Placement::Part { at, last } => (at, last),
        };
        let end = at + payload.len();
        self.request[at..end].copy_from_slice(payload);
        self.request_at = if last { 0 } else { end };
        if !last {
            return Ok(());
        }
        self.reads.post(1);
        rdma.on_request(&self.request[..end])
    }

    /// A tagged segment is in its place, and its CRC was right.
    pub fn on_placed(
        &mut self,
        header: &Tagged,
        len: usize,
        rdma: &mut Rdma,
        events: &mut Vec<Event>,
    ) -> Result<(), Ending> {
        self.heard = true;
        self.within_tagged = !header.last;
        if Opcode::of(&Header::Tagged(*header))? == Opcode::ReadResponse {
            let done = rdma.on_response(header, len)?;
            events.extend(done.map(Event::ReadDone));
        }
        Ok(())
    }

    /// Whether the peer's first FPDU is the ready-to-receive indication that was
    /// agreed, and nothing else. (An empty WRITE or READ takes its ordinary way.)
    fn took_indication(&mut self, ulpdu: &[u8]) -> Checked<bool> {
        let Some(rtr) = self.rtr.take() else {
            return Ok(false);
        };
        if ulpdu.is_empty() {
            return Ok(true);
        }
        match Header::decode(ulpdu)? {
            Header::Untagged(header) if rtr == Rtr::Send && ulpdu.len() == UNTAGGED_LEN => {
                Opcode::of(&Header::Untagged(header))?;
                self.sends.post(1);
                self.sends.on_segment(&header, 0, 0)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

/// Where a tagged segment goes; `None` when it has no payload to place.
pub(super) fn locate(header: &Tagged, len: usize, rdma: &Rdma) -> Checked<Option<Place>> {
    match Opcode::of(&Header::Tagged(*header))? {
        Opcode::ReadResponse => rdma.locate(header, len).map(Some),
        _ => rdma.locate_write(header, len),
    }
}
