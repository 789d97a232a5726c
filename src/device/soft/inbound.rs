// SPDX-License-Identifier: MPL-2.0
//! What comes from the peer: TCP is read into a chunk, FPDUs are found in it
//! where they lie and checked, and each segment goes where it belongs. Long payloads of READ
//! responses and WRITEs are read from TCP straight into their place.

use super::memory::Memory;
use super::place::{self, Dispatch, Ending, Source};
use super::rdma::{Checked, Place, Rdma, WITHDRAWN};
use super::tcp::Tcp;
use crate::device::region::Writer;
use crate::device::Event;
use crate::error::Result;
use crate::proto::mpa::framing::{Deframer, Open, Parsed};
use crate::proto::mpa::negotiate::Agreed;
use crate::wire::ddp::{Header, Tagged};

/// A payload of which this much is still to come is read straight into its place.
const STRAIGHT: usize = 4096;
/// Bytes read into the chunk along with such a payload: its tail, the next
/// header, and little to copy.
const BEYOND: usize = 1024;
/// Bytes read at once while such payloads are awaited.
const AWAITING: usize = 16 << 10;
/// Less room than this at a chunk's end is not worth a read.
const LOW: usize = 32 << 10;

/// A tagged segment whose payload is under way.
struct Straight {
    header: Tagged,
    open: Open,
    place: Place,
    len: usize,
}

/// What a read brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    /// This many bytes; `more` when there may be more at once.
    Bytes { n: usize, more: bool },
    /// The peer's end.
    End,
}

/// The way in of one connection.
pub(super) struct Inbound {
    deframer: Deframer,
    chunk: Option<Writer>,
    /// Bytes of the chunk that have been parsed.
    at: usize,
    /// Bytes that the FPDU at `at` takes, so far as is known.
    need: usize,
    straight: Option<Straight>,
    /// What a pause cut off, out of the chunk that it would have held.
    stash: Vec<u8>,
    /// Something was read since the last `pause`.
    busy: bool,
    dispatch: Dispatch,
    memory: Memory,
}

impl Inbound {
    /// As negotiated, with `recvs` receives posted.
    pub fn new(agreed: &Agreed, slot_size: usize, recvs: u16, memory: Memory) -> Inbound {
        Inbound {
            deframer: Deframer::new(agreed.crc),
            chunk: None,
            at: 0,
            need: 0,
            straight: None,
            stash: Vec::new(),
            busy: false,
            dispatch: Dispatch::new(agreed, slot_size, recvs),
            memory,
        }
    }

    /// Post `n` more receives.
    pub fn post(&mut self, n: u16) {
        self.dispatch.post(n);
        self.settle();
    }

    /// Receives posted and not used up.
    pub fn posted(&self) -> u32 {
        self.dispatch.posted()
    }

    /// Whether an FPDU has come.
    pub fn heard(&self) -> bool {
        self.dispatch.heard()
    }

    /// Whether an end here is in good order.
    pub fn at_boundary(&self) -> bool {
        self.unparsed() == 0 && self.straight.is_none() && self.dispatch.at_boundary()
    }

    fn unparsed(&self) -> usize {
        self.chunk
            .as_ref()
            .map_or(self.stash.len(), |chunk| chunk.bytes().len() - self.at)
    }

    /// One read from TCP. Every byte of it has been parsed once `parse` returns.
    pub fn read(&mut self, tcp: &Tcp, rdma: &mut Rdma) -> Result<Read> {
        self.make_room();
        let chunk = self.chunk.get_or_insert_with(|| {
            let mut chunk = self.memory.chunk();
            chunk.append(&std::mem::take(&mut self.stash));
            chunk
        });
        let (n, asked) = match &mut self.straight {
            Some(Straight {
                open, place, len, ..
            }) if open.left() > 0 => {
                let skip = *len - open.left();
                let beyond = chunk.left().min(BEYOND);
                let asked = open.left() + beyond;
                let Some(room) = rdma.room(*place, skip, open.left()) else {
                    return Err(WITHDRAWN.into());
                };
                let (got, n) = tcp.read_two(room, &mut chunk.room()[..beyond])?;
                let placed = got.len();
                open.on_payload(got);
                chunk.advance(n - placed);
                (n, asked)
            }
            _ => {
                let asked = match rdma.awaits_bulk() {
                    true => chunk.left().min(AWAITING),
                    false => chunk.left(),
                };
                let n = tcp.read(&mut chunk.room()[..asked])?;
                chunk.advance(n);
                (n, asked)
            }
        };
        self.busy = true;
        Ok(match n {
            0 => Read::End,
            n => Read::Bytes {
                n,
                more: n == asked,
            },
        })
    }

    /// Make room for the rest of the FPDU that has begun, and worth a read.
    fn make_room(&mut self) {
        let Some(chunk) = &mut self.chunk else {
            return;
        };
        let partial = chunk.bytes().len() - self.at;
        let wanted = self.need.saturating_sub(partial);
        let enough = if partial < LOW {
            wanted.max(LOW)
        } else {
            wanted
        };
        if chunk.left() >= enough {
            return;
        }
        if !chunk.restart(partial) {
            let mut next = self.memory.chunk();
            next.append(&chunk.bytes()[self.at..]);
            *chunk = next;
        }
        self.at = 0;
    }

    /// Take in all that has been read.
    pub fn parse(
        &mut self,
        rdma: &mut Rdma,
        events: &mut Vec<Event>,
    ) -> std::result::Result<(), Ending> {
        let Some(chunk) = &self.chunk else {
            return Ok(());
        };
        if let Some(straight) = self.straight.take() {
            let tail = straight.open.tail_len();
            let here = &chunk.bytes()[self.at..];
            if straight.open.left() > 0 || here.len() < tail {
                self.need = tail;
                self.straight = Some(straight);
                return Ok(());
            }
            straight.open.close(&here[..tail])?;
            self.at += tail;
            self.dispatch
                .on_placed(&straight.header, straight.len, rdma, events)?;
        }
        loop {
            let input = &chunk.bytes()[self.at..];
            match self.deframer.parse(input)? {
                Parsed::Fpdu { consumed, ulpdu } => {
                    let source = Source {
                        chunk,
                        at: self.at,
                        memory: &self.memory,
                    };
                    self.dispatch.on_ulpdu(ulpdu, source, rdma, events)?;
                    self.at += consumed;
                }
                Parsed::Need(need) => {
                    self.need = need;
                    break;
                }
            }
        }
        let input = &chunk.bytes()[self.at..];
        if self.need > input.len() + STRAIGHT {
            if let Some(straight) = begin_straight(&self.deframer, input, rdma)? {
                self.at += input.len();
                self.straight = Some(straight);
            }
        }
        Ok(())
    }

    /// Give back what an idle connection need not hold.
    pub fn settle(&mut self) {
        let Some(chunk) = &self.chunk else {
            return;
        };
        // Lent messages pin the chunk anyway: go on behind them, so that a
        // few of them do not pin one chunk each.
        let spent = chunk.alone() || chunk.left() < LOW;
        if spent && self.unparsed() == 0 {
            self.chunk = None;
            self.at = 0;
        }
    }
    /// Called now and then: a peer that has said nothing since the last time
    /// does not hold a chunk, even if it stopped in the middle of an FPDU.
    pub fn pause(&mut self) {
        self.settle();
        let idle = !std::mem::replace(&mut self.busy, false);
        if let (true, Some(chunk)) = (idle, &self.chunk) {
            self.stash = chunk.bytes()[self.at..].to_vec();
            self.chunk = None;
            self.at = 0;
        }
    }
    /// Whether it holds a chunk.
    #[cfg(test)]
    pub fn holds_chunk(&self) -> bool {
        self.chunk.is_some()
    }
}

/// Begin a tagged segment whose end is far: what is here of its payload goes to its place.
fn begin_straight(deframer: &Deframer, input: &[u8], rdma: &mut Rdma) -> Checked<Option<Straight>> {
    let Some((Header::Tagged(header), mut open)) = deframer.open(input)? else {
        return Ok(None);
    };
    let len = open.left();
    let Some(place) = place::locate(&header, len, rdma)? else {
        return Ok(None);
    };
    let here = &input[open.consumed()..];
    rdma.copy(place, 0, here)?;
    open.on_payload(here);
    Ok(Some(Straight {
        header,
        open,
        place,
        len,
    }))
}
