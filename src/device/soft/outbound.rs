// SPDX-License-Identifier: MPL-2.0
//! What goes to the peer: messages are cut into segments, segments framed as
//! FPDUs, as many FPDUs as fit handed to TCP in one gathered write. Where the
//! kernel stops taking, the next write resumes.
//!
//! A SEND that fits one FPDU (on loopback and with jumbo frames) is framed in the margins of its own slot and leaves as one piece.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;

use super::fpdu::{copied, next_segment, Body, Completes, Cut, Fpdu, Pieces};
use super::rdma::Rdma;
use super::tcp::Tcp;
use crate::device::region::{Exposed, Filled};
use crate::device::Remote;
use crate::error::{Error, Result};
use crate::proto::ddp::segment::Segments;
use crate::proto::mpa::framing::{self, Framer};
use crate::proto::mpa::negotiate::Agreed;
use crate::proto::rdmap::terminate::Terminate;
use crate::wire::ddp::{Header, HEADER_MAX};

/// Pieces of one gathered write.
const PIECES: usize = 64;
/// Bytes framed for one gathered write.
const BATCH: usize = 256 << 10;
/// Bytes handed over in one turn: other connections wait meanwhile.
const TURN: usize = 1 << 20;

/// How FPDUs lie in TCP's stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    /// One after the other: for receivers that do not mind, which we are.
    Stream,
    /// Each a TCP segment of its own (RFC 5044 section 4.1, and its MULPDU): what other devices
    /// are fastest with. The siw of Linux 6.1 takes a CRC for wrong that lies in two
    /// segments (more exactly, in two of the kernel's buffers).
    Segments,
}

/// A message that waits.
enum Message {
    Send(Filled),
    /// A SEND whose second piece is the caller's memory.
    Gather(Filled, Exposed),
    Write(Exposed, Remote),
}

/// The way out of one connection.
pub(super) struct Outbound {
    framer: Framer,
    markers: bool,
    packing: Packing,
    mulpdu: usize,
    posted: VecDeque<Message>,
    cut: Option<Cut>,
    /// Framed, and not handed over to the last byte.
    wire: VecDeque<Fpdu>,
    /// Bytes of the first of them that TCP has.
    written: usize,
    /// Whose message is next, when both have one.
    answer_next: bool,
    /// The acceptor's FPDUs wait for the initiator's first.
    held: bool,
    /// TCP takes no more for now.
    blocked: bool,
    /// Posted sends that are complete and not reported.
    done: u16,
}

impl Outbound {
    /// As negotiated. The acceptor begins with its `reply`, and holds all else.
    pub fn new(agreed: &Agreed, packing: Packing, emss: usize, reply: Option<Vec<u8>>) -> Outbound {
        let held = reply.is_some();
        let reply = reply.map(|reply| Fpdu {
            pieces: Pieces::Copied(reply),
            completes: Completes::Nothing,
        });
        let mut outbound = Outbound {
            framer: Framer::new(agreed.crc, agreed.markers),
            markers: agreed.markers,
            packing,
            mulpdu: 0,
            posted: VecDeque::new(),
            cut: None,
            wire: reply.into_iter().collect(),
            written: 0,
            answer_next: false,
            held,
            blocked: false,
            done: 0,
        };
        outbound.set_emss(emss);
        outbound
    }

    /// Full segments towards the peer have this payload now.
    pub fn set_emss(&mut self, emss: usize) {
        self.mulpdu = framing::mulpdu(emss, self.markers);
    }

    /// The peer's first FPDU is here: ours may go.
    #[inline]
    pub fn release(&mut self) {
        self.held = false;
    }

    /// Wait until TCP takes more.
    #[inline]
    pub fn blocked(&self) -> bool {
        self.blocked
    }

    /// Everything posted has been handed over.
    pub fn drained(&self) -> bool {
        self.wire.is_empty() && self.cut.is_none() && self.posted.is_empty()
    }

    /// Post a SEND.
    #[inline]
    pub fn post_send(&mut self, bytes: Filled) {
        self.posted.push_back(Message::Send(bytes));
    }

    /// Whether a SEND of `len` bytes would leave as one FPDU.
    #[inline]
    pub fn is_whole(&self, len: usize) -> bool {
        !self.markers && HEADER_MAX + len <= self.mulpdu
    }

    /// Post a SEND of two pieces; to be asked `is_whole` before.
    #[inline]
    pub fn post_gather(&mut self, first: Filled, second: Exposed) {
        self.posted.push_back(Message::Gather(first, second));
    }

    /// Post a WRITE.
    pub fn post_write(&mut self, bytes: Exposed, to: Remote) {
        self.posted.push_back(Message::Write(bytes, to));
    }

    /// Posted sends that completed since the last time.
    #[inline]
    pub fn take_done(&mut self) -> u16 {
        std::mem::take(&mut self.done)
    }

    /// Hand over what TCP takes.
    pub fn flush(&mut self, tcp: &Tcp, rdma: &mut Rdma) -> Result<()> {
        self.blocked = false;
        let mut turn = 0;
        loop {
            self.frame_batch(rdma);
            if self.wire.is_empty() {
                return Ok(());
            }
            let taken = match self.write(tcp) {
                Err(Error::Again) => 0,
                taken => taken?,
            };
            turn += taken;
            if !self.retire(taken, rdma) || turn >= TURN {
                self.blocked = true;
                return Ok(());
            }
        }
    }

    fn write(&self, tcp: &Tcp) -> Result<usize> {
        match self.packing {
            Packing::Stream => self.write_all(tcp),
            Packing::Segments => self.write_each(tcp),
        }
    }

    /// Write the wire queue, each FPDU by itself.
    fn write_each(&self, tcp: &Tcp) -> Result<usize> {
        let mut total = 0;
        let mut skip = self.written;
        for fpdu in &self.wire {
            let len = fpdu.len() - skip;
            let taken = match tcp.write_record(&fpdu.rest(skip)) {
                // Whoever writes again is told again.
                Err(_) if total > 0 => return Ok(total),
                taken => taken?,
            };
            total += taken;
            skip = 0;
            if taken < len {
                break;
            }
        }
        Ok(total)
    }

    /// Write the first `PIECES` pieces on the wire queue.
    fn write_all(&self, tcp: &Tcp) -> Result<usize> {
        let mut pieces = [IoSlice::new(&[]); PIECES];
        let mut n = 0;
        let mut skip = self.written;
        for piece in self.wire.iter().flat_map(Fpdu::pieces) {
            if piece.len() <= skip {
                skip -= piece.len();
                continue;
            }
            if n == PIECES {
                break;
            }
            pieces[n] = IoSlice::new(&piece[skip..]);
            n += 1;
            skip = 0;
        }
        tcp.write(&pieces[..n])
    }

    /// TCP has taken `n` bytes more; whether the wire queue is empty by that.
    fn retire(&mut self, n: usize, rdma: &mut Rdma) -> bool {
        let mut taken = self.written + n;
        while let Some(first) = self.wire.front() {
            let len = first.len();
            if taken < len {
                self.written = taken;
                return false;
            }
            taken -= len;
            match first.completes {
                Completes::Nothing => {}
                Completes::Posted => self.done += 1,
                Completes::Answer { stag, len } => rdma.on_answered(stag, len),
            }
            self.wire.pop_front();
        }
        self.written = 0;
        true
    }

    /// Frame until a gathered write is full or nothing is left.
    fn frame_batch(&mut self, rdma: &mut Rdma) {
        let mut pieces = 0;
        let mut bytes = 0;
        for fpdu in &self.wire {
            pieces += fpdu.pieces().iter().filter(|p| !p.is_empty()).count();
            bytes += fpdu.len();
        }
        while !self.held && pieces < PIECES && bytes < BATCH {
            let Some(fpdu) = self.next_fpdu(rdma) else {
                break;
            };
            pieces += match fpdu.pieces {
                Pieces::Parts(..) | Pieces::Gathered(..) => 3,
                _ => 1,
            };
            bytes += fpdu.len();
            self.wire.push_back(fpdu);
        }
    }

    fn next_fpdu(&mut self, rdma: &mut Rdma) -> Option<Fpdu> {
        if let Some(cut) = &mut self.cut {
            if let Some(fpdu) = next_segment(cut, &mut self.framer, self.markers) {
                return Some(fpdu);
            }
            self.cut = None;
        }
        if let Some((header, payload)) = rdma.poll_request() {
            return Some(self.copied(&header, &payload, Completes::Nothing));
        }
        // Our messages and answers to the peer take turns.
        let first = if self.answer_next {
            self.next_answer(rdma)
        } else {
            self.next_posted(rdma)
        };
        first.or_else(|| {
            self.answer_next = !self.answer_next;
            if self.answer_next {
                self.next_answer(rdma)
            } else {
                self.next_posted(rdma)
            }
        })
    }

    #[inline]
    fn next_posted(&mut self, rdma: &mut Rdma) -> Option<Fpdu> {
        let fpdu = match self.posted.pop_front()? {
            Message::Send(bytes) => self.frame_send(rdma.send_header(), bytes),
            Message::Gather(first, second) => self.frame_gather(&rdma.send_header(), first, second),
            Message::Write(bytes, to) => {
                let header = rdma.write_header(&to);
                self.begin(header, to.len, Body::Memory(bytes), 0, Completes::Posted)
            }
        };
        self.answer_next = true;
        Some(fpdu)
    }

    fn next_answer(&mut self, rdma: &mut Rdma) -> Option<Fpdu> {
        let (response, source) = rdma.poll_response()?;
        self.answer_next = false;
        let completes = Completes::Answer {
            stag: response.stag,
            len: response.len,
        };
        // The responder checked it against the memory's length.
        let base = response.at as usize;
        Some(self.begin(
            response.header,
            response.len,
            Body::Memory(source),
            base,
            completes,
        ))
    }

    #[inline]
    fn frame_send(&mut self, header: Header, bytes: Filled) -> Fpdu {
        let len = bytes.bytes().len();
        if self.markers || header.len() + len > self.mulpdu {
            let body = Body::Slot(Arc::new(bytes));
            return self.begin(header, len as u32, body, 0, Completes::Posted);
        }
        let (head, tail) = self.framer.seal(&header, bytes.bytes());
        Fpdu {
            pieces: Pieces::Whole(bytes.enclose(head.bytes(), tail.bytes())),
            completes: Completes::Posted,
        }
    }

    #[inline]
    fn frame_gather(&self, header: &Header, first: Filled, second: Exposed) -> Fpdu {
        let (head, tail) = self.framer.seal_two(header, first.bytes(), second.bytes());
        Fpdu {
            pieces: Pieces::Gathered(first.enclose(head.bytes(), &[]), second, tail),
            completes: Completes::Posted,
        }
    }

    /// Begin to cut a message; its first segment.
    fn begin(
        &mut self,
        header: Header,
        len: u32,
        body: Body,
        base: usize,
        completes: Completes,
    ) -> Fpdu {
        let cut = self.cut.insert(Cut {
            segments: Segments::new(header, len, self.mulpdu),
            body,
            base,
            completes,
        });
        next_segment(cut, &mut self.framer, self.markers).expect("a message has a segment")
    }

    fn copied(&mut self, header: &Header, payload: &[u8], completes: Completes) -> Fpdu {
        copied(&mut self.framer, header, payload, completes)
    }

    /// End the stream with a TERMINATE: what has begun to leave is finished,
    /// the rest is dropped. It goes now or never.
    pub fn last_words(&mut self, tcp: &Tcp, terminate: &Terminate) {
        self.wire.truncate(usize::from(self.written > 0));
        let fpdu = self.copied(&terminate.header(), terminate.payload(), Completes::Nothing);
        self.wire.push_back(fpdu);
        let _ = self.write(tcp);
    }
}
