// SPDX-License-Identifier: MPL-2.0
//! The machines of RDMAP: one side asks for READs, the other answers; the wire
//! between them may spoil what it carries.

use std::collections::VecDeque;

use zmq_rdma::proto::ddp::segment::Segments;
use zmq_rdma::proto::rdmap::request::Requester;
use zmq_rdma::proto::rdmap::respond::{Responder, Response};
use zmq_rdma::wire::ddp::{Access, Header, Tagged, Window};
use zmq_rdma::wire::rdmap::{Opcode, ReadRequest, SendKind};

use crate::input::Input;
use crate::meter::bounded;

const WINDOW: Window = Window {
    base: 1 << 20,
    len: 1 << 20,
};

fn lookup(stag: u32) -> Access {
    match stag {
        7 => Access::Granted(WINDOW),
        8 => Access::Foreign,
        9 => Access::Denied,
        _ => Access::Unknown,
    }
}

struct Two {
    requester: Requester,
    responder: Responder,
    ord: u16,
    ird: u16,
    /// Request payloads under way.
    asked: VecDeque<[u8; 28]>,
    /// READs not complete: token, length, bytes that are here.
    open: VecDeque<(u64, u32, u32)>,
    /// Segments under way.
    answers: VecDeque<(Tagged, usize, bool)>,
    tokens: u64,
    sends: u32,
}

/// A list of calls on both sides.
pub fn machine(data: &[u8]) {
    let mut input = Input::new(data);
    let (ord, ird) = (input.u8().into(), input.u8().into());
    let mut two = Two {
        requester: Requester::new(ord),
        responder: Responder::new(ird),
        ord,
        ird,
        asked: VecDeque::new(),
        open: VecDeque::new(),
        answers: VecDeque::new(),
        tokens: 0,
        sends: 0,
    };
    for _ in 0..300 {
        if input.ended() {
            break;
        }
        let alive = match input.within(0, 4) {
            0 => two.read(&mut input),
            1 => two.request(&mut input),
            2 => two.answer(&mut input),
            3 => two.response(&mut input),
            _ => two.send(&mut input),
        };
        if !alive {
            return;
        }
    }
    two.settle();
}

impl Two {
    fn send(&mut self, input: &mut Input<'_>) -> bool {
        let kind = [
            SendKind::Plain,
            SendKind::Invalidate,
            SendKind::Solicited,
            SendKind::SolicitedInvalidate,
        ][input.within(0, 3)];
        let stag = input.u32();
        let header = self.requester.send(kind, stag);
        self.sends += 1;
        assert_eq!(Opcode::of(&header), Ok(Opcode::Send(kind)));
        let Header::Untagged(header) = header else {
            panic!("a tagged SEND");
        };
        assert_eq!(header.msn, self.sends);
        assert_eq!(header.ulp_word, if kind.invalidates() { stag } else { 0 });
        true
    }

    fn read(&mut self, input: &mut Input<'_>) -> bool {
        let request = ReadRequest {
            sink_stag: input.u32(),
            sink_to: input.u64(),
            len: u32::from(input.u16()),
            source_stag: 7,
            source_to: WINDOW.base + u64::from(input.u16()),
        };
        let token = self.tokens;
        match self.requester.read(request, token) {
            Ok((header, payload)) => {
                assert!(self.open.len() < usize::from(self.ord));
                assert_eq!(Opcode::of(&header), Ok(Opcode::ReadRequest));
                self.tokens += 1;
                self.asked.push_back(payload);
                self.open.push_back((token, request.len, 0));
            }
            Err(_) => assert_eq!(self.open.len(), usize::from(self.ord)),
        }
        assert_eq!(self.requester.open_reads(), self.open.len());
        true
    }

    /// A request arrives, as it was or not. A fault ends the connection.
    fn request(&mut self, input: &mut Input<'_>) -> bool {
        let (mut payload, mut spoilt) = match self.asked.pop_front() {
            Some(payload) => (payload.to_vec(), false),
            None if input.one_in(4) => (input.bytes(28).to_vec(), true),
            None => return true,
        };
        if input.one_in(16) {
            let at = input.within(0, 27);
            if let Some(byte) = payload.get_mut(at) {
                *byte ^= input.u8();
            }
            spoilt = true;
        }
        let open = self.responder.open();
        let taken = bounded(1 << 16, || self.responder.on_request(&payload, lookup));
        if taken.is_err() {
            assert!(spoilt || open == self.ird);
            assert_eq!(self.responder.open(), open);
            return false;
        }
        assert_eq!(self.responder.open(), open + 1);
        assert!(open < self.ird);
        !spoilt
    }

    fn answer(&mut self, input: &mut Input<'_>) -> bool {
        let Some(response) = self.responder.poll_response() else {
            return true;
        };
        self.cut(&response, 15 + input.u16() as usize % 4000);
        let open = self.responder.open();
        self.responder.on_sent();
        assert_eq!(self.responder.open(), open - 1);
        true
    }

    fn cut(&mut self, response: &Response, mulpdu: usize) {
        if response.len > 0 {
            assert!(response.at + u64::from(response.len) <= WINDOW.len);
        }
        for (header, range) in Segments::new(response.header, response.len, mulpdu) {
            let Header::Tagged(header) = header else {
                panic!("an untagged READ response");
            };
            self.answers.push_back((header, range.len(), true));
        }
    }

    fn response(&mut self, input: &mut Input<'_>) -> bool {
        let (mut header, mut len, mut honest) = match self.answers.pop_front() {
            Some(next) => next,
            None if input.one_in(4) => {
                let header = Tagged {
                    last: input.bool(),
                    ulp: Opcode::ReadResponse.control(),
                    stag: input.u32(),
                    to: input.u64(),
                };
                (header, input.u16().into(), false)
            }
            None => return true,
        };
        if input.one_in(16) {
            match input.within(0, 3) {
                0 => header.last = !header.last,
                1 => header.to = header.to.wrapping_add(1 + u64::from(input.u8())),
                2 => header.stag ^= 1 << input.within(0, 31),
                _ => len += 1 + usize::from(input.u8()),
            }
            honest = false;
        }
        self.arrive(&header, len, honest)
    }

    fn arrive(&mut self, header: &Tagged, len: usize, honest: bool) -> bool {
        let located = self.requester.locate(header, len);
        let arrived = bounded(0, || self.requester.on_response(header, len));
        assert_eq!(located, arrived, "looking has an effect");
        let Ok(arrived) = arrived else {
            assert!(!honest);
            return false;
        };
        let (token, total, here) = self.open.front_mut().expect("a READ that is open");
        assert_eq!((arrived.token, arrived.at), (*token, *here));
        *here += len as u32;
        assert!(*here <= *total, "more than the sink holds");
        assert_eq!(arrived.done, *here == *total);
        if arrived.done {
            self.open.pop_front();
        }
        assert_eq!(self.requester.open_reads(), self.open.len());
        honest
    }

    /// What is under way arrives: nothing stays open.
    fn settle(&mut self) {
        loop {
            while let Some((header, len, honest)) = self.answers.pop_front() {
                assert!(self.arrive(&header, len, honest));
            }
            if let Some(response) = self.responder.poll_response() {
                self.cut(&response, 1000);
                self.responder.on_sent();
            } else if let Some(payload) = self.asked.pop_front() {
                if self.responder.on_request(&payload, lookup).is_err() {
                    assert_eq!(self.ird, 0);
                    return;
                }
            } else {
                break;
            }
        }
        assert_eq!((self.requester.open_reads(), self.responder.open()), (0, 0));
    }
}
