// SPDX-License-Identifier: MPL-2.0
//! A link whose peer is the input.

use zmq_rdma::device::{Endpoint, Event, PrivateData};
use zmq_rdma::proto::flow::negotiate;
use zmq_rdma::stream::link::Link;
use zmq_rdma::wire::frame::{done_count, Frame, Header, Rts, Type, FLAG_RESUMED, HEADER};
use zmq_rdma::wire::hello::Hello;

use crate::fake::{Fake, Shared};
use crate::input::Input;
use crate::meter::bounded;
use crate::stream::{bytes_from, side, sizes, BOUND, BUFFER};

/// A link whose peer is the input: whatever it says, the link keeps its bounds,
/// what it hands up is what was sent or READ, in order, and nothing is shown to the peer, or
/// written for it, but what its user lent or waits at.
pub fn link(data: &[u8]) {
    bounded(BOUND, || {
        let mut input = Input::new(data);
        let (forth, back) = (Shared::default(), Shared::default());
        let sizes = sizes(&mut input);
        let mut fake = Fake::new(&forth, &back, &sizes.device);
        let link = if input.bool() {
            fake.post_recvs(sizes.offer.grant)
                .expect("the fake posts all");
            let reply = Hello::Reply(sizes.offer).encode();
            let terms = negotiate::conclude(&reply, sizes.offer).expect("our own reply");
            Link::initiator(Box::new(fake), terms, &sizes)
        } else {
            let mut private = Hello::Request(sizes.offer).encode().to_vec();
            while input.one_in(4) {
                let at = input.within(0, private.len() - 1);
                private[at] = input.u8();
            }
            if input.one_in(16) {
                private.truncate(input.u8().into());
            }
            fake.first.push_back(Event::Request(PrivateData(private)));
            Link::acceptor(Box::new(fake), sizes)
        };
        let mut side = side(link, &forth, &back, true);
        let mut peer = Peer::default();
        for _ in 0..500 {
            if input.ended() {
                break;
            }
            match input.u8() % 16 {
                what @ 0..=7 => side.turn(&mut input, what),
                8 | 9 => peer.hear(&forth),
                10 if input.one_in(16) => back.lane().closed = true,
                10 => peer.answer(&back, &mut input),
                _ => peer.say(&back, &mut input),
            }
            side.sound = !peer.spoilt;
        }
        side.link.crank();
        side.check();
        while side.read(BUFFER, true) {}
        side.check();
        assert!(side.read <= peer.ever, "bytes that nobody sent");
    });
}

#[derive(Default)]
struct Peer {
    /// Frames of the link that it has seen and that cost credit; RTS among them.
    heard: u16,
    rts_heard: usize,
    /// Where its stream stands, and bytes that it has ever named.
    said: u64,
    ever: u64,
    /// Where in it its RTS begin.
    asks: Vec<u64>,
    /// The link has refused one, and the stream is to be resumed.
    owes_again: bool,
    /// It has sent a frame with a wrong byte, or resumed at a wrong place.
    spoilt: bool,
}

impl Peer {
    fn hear(&mut self, out: &Shared) {
        let Some(send) = out.drop_one() else {
            return;
        };
        let frame = Frame::decode(&send).expect("a link sends good frames");
        match frame.header.kind {
            Type::Rdone | Type::Rstop => {
                let count = done_count(frame.payload).expect("it was decoded") as usize;
                let stops = frame.header.kind == Type::Rstop;
                let most = self.asks.len() - usize::from(stops);
                assert!(count <= most, "an answer to no RTS");
                if stops {
                    self.said = self.asks[count];
                    self.owes_again = true;
                }
                return;
            }
            Type::Rts => self.rts_heard += 1,
            _ => {}
        }
        self.heard = self.heard.wrapping_add(1);
    }

    /// Answer the oldest READ.
    fn answer(&self, back: &Shared, input: &mut Input<'_>) {
        let mut lane = back.lane();
        if let Some(read) = lane.reads.front() {
            let bytes = bytes_from(read.from.addr);
            lane.answer_with(Some(bytes).filter(|_| !input.one_in(16)));
        }
    }

    fn payload(&self, kind: Type, input: &mut Input<'_>) -> Vec<u8> {
        match kind {
            Type::Data => bytes_from(self.said)[..input.within(1, 64)].to_vec(),
            Type::Fin if input.one_in(4) => input.u64().to_be_bytes().to_vec(),
            Type::Fin => self.said.to_be_bytes().to_vec(),
            Type::Rts => {
                let len = match input.one_in(8) {
                    true => input.u32(),
                    false => input.within(1, BUFFER) as u32,
                };
                let (addr, key) = (self.said, input.u8().into());
                Rts { addr, key, len }.encode().to_vec()
            }
            Type::Rdone | Type::Rstop => {
                let count = match input.one_in(8) {
                    true => input.u32(),
                    false => input.within(0, self.rts_heard) as u32,
                };
                count.to_be_bytes().to_vec()
            }
            _ => Vec::new(),
        }
    }

    fn flags(&self, kind: Type, input: &mut Input<'_>) -> u8 {
        let lies = input.one_in(16);
        let resumes = kind == Type::Data && self.owes_again;
        match input.u8() {
            flags if lies => flags,
            flags if resumes => flags | FLAG_RESUMED,
            flags => flags & !FLAG_RESUMED,
        }
    }

    /// A frame that fits a posted receive.
    fn say(&mut self, back: &Shared, input: &mut Input<'_>) {
        let mut lane = back.lane();
        if lane.posted == 0 || lane.closed {
            return;
        }
        let kinds = [
            Type::Data,
            Type::Data,
            Type::Rts,
            Type::Hello,
            Type::Credit,
            Type::Fin,
            Type::FinAck,
            Type::Ping,
            Type::Rdone,
            Type::Rstop,
        ];
        let kind = kinds[input.within(0, kinds.len() - 1)];
        let payload = self.payload(kind, input);
        let grant = if input.one_in(8) {
            input.u16()
        } else {
            self.heard.wrapping_add(4 + u16::from(input.u8()))
        };
        let header = Header {
            kind,
            flags: self.flags(kind, input),
            grant,
            len: payload.len() as u32,
        };
        let mut frame = header.encode().to_vec();
        frame.extend(payload);
        if input.one_in(32) {
            let at = input.within(0, HEADER - 1);
            let before = frame[at];
            frame[at] = input.u8();
            self.spoilt |= frame[at] != before;
        }
        if let Ok(frame) = Frame::decode(&frame) {
            self.on_said(frame);
        }
        lane.posted -= 1;
        lane.delivered.push_back(frame);
    }

    /// What the link makes of a frame that it takes.
    fn on_said(&mut self, frame: Frame<'_>) {
        let resumes = frame.header.flags & FLAG_RESUMED != 0;
        let len = match frame.header.kind {
            Type::Data => {
                self.spoilt |= resumes && !self.owes_again;
                self.owes_again &= !resumes;
                frame.payload.len() as u64
            }
            Type::Rts => Rts::decode(frame.payload).map_or(0, |rts| rts.len.into()),
            _ => return,
        };
        self.ever += len;
        if self.owes_again || len == 0 {
            return;
        }
        if frame.header.kind == Type::Rts {
            self.asks.push(self.said);
        }
        self.said += len;
    }
}
