// SPDX-License-Identifier: MPL-2.0
//! Two whole flow machines on any schedule, with bodies that are READ.

use std::collections::VecDeque;

use zmq_rdma::proto::flow::credit::CONTROL_PLACES;
use zmq_rdma::proto::flow::link::{Flow, Incoming, Role, Setup};
use zmq_rdma::proto::flow::negotiate::Terms;
use zmq_rdma::proto::flow::rendezvous::{Settled, BEHIND, MOST_OPEN};
use zmq_rdma::wire::frame::{Header, Rts, Type, FEATURE_READ, HEADER};

use crate::input::{pattern_byte, Input};
use crate::meter::bounded;

/// More rounds than this without falling silent is a stuck or a restless state.
const ROUNDS: usize = 5_000;

/// What has come and is not read.
enum Item {
    Data(u64),
    Rts(u64),
}

impl Item {
    fn len(&self) -> u64 {
        match *self {
            Item::Data(len) | Item::Rts(len) => len,
        }
    }
}

/// A side: its machine, and a model of what it says and hears.
struct End {
    flow: Flow,
    out: VecDeque<Vec<u8>>,
    in_queue: u16,
    depth: u16,
    posted: u16,
    most: u16,
    unread: VecDeque<Item>,
    sent: u64,
    heard: u64,
    shut: bool,
    /// Where in the stream our open RTS begin, and bytes to be sent once more.
    asked: VecDeque<u64>,
    again: u64,
    /// It has refused, or was refused.
    stopped: bool,
    refused: bool,
}

impl End {
    fn new(role: Role, terms: Terms, posted: u16, input: &mut Input<'_>) -> End {
        let (recv_depth, send_depth) = (u16::from(input.u8()), u16::from(input.u8()));
        let setup = Setup {
            role,
            terms,
            posted,
            recv_depth: recv_depth.max(posted),
            send_depth,
            pings: input.bool(),
        };
        End {
            flow: Flow::new(setup),
            out: VecDeque::new(),
            in_queue: 0,
            depth: send_depth.max(CONTROL_PLACES + 1),
            posted,
            most: recv_depth.max(posted + MOST_OPEN),
            unread: VecDeque::new(),
            sent: 0,
            heard: 0,
            shut: false,
            asked: VecDeque::new(),
            again: 0,
            stopped: false,
            refused: false,
        }
    }

    fn push(&mut self, frame: Vec<u8>) {
        self.in_queue += 1;
        assert!(self.in_queue <= self.depth, "send queue overflow");
        self.out.push_back(frame);
    }

    /// DATA: new bytes, or those of what was refused.
    fn data(&mut self, len: usize) -> bool {
        let may = self.flow.data_may_go();
        assert!(!may || (!self.shut && self.again == 0), "DATA out of turn");
        if !may && !self.flow.again_may_go() {
            return false;
        }
        assert!(may || self.again > 0, "nothing to be sent once more");
        let most = self.flow.payload();
        let len = match may {
            true => len.clamp(1, most),
            false => len.clamp(1, most).min(self.again as usize),
        };
        self.again = self.again.saturating_sub(len as u64);
        assert_eq!(self.flow.must_keep(), !self.asked.is_empty());
        let mut frame = self.flow.start_data(len).to_vec();
        frame.extend((0..len as u64).map(|at| pattern_byte(1, self.sent + at)));
        self.sent += len as u64;
        self.push(frame);
        true
    }

    /// An RTS; its address tells where in the stream it stands.
    fn ask(&mut self, len: u32) -> bool {
        if !self.flow.rts_may_go() {
            return false;
        }
        assert!(!self.shut && !self.refused && self.asked.len() < usize::from(MOST_OPEN));
        if self.flow.wants_answer_receive() {
            self.posted += 1;
            self.flow.on_answer_receive();
            self.check_receives();
        }
        let rts = Rts {
            addr: self.sent,
            key: !(self.sent as u32),
            len,
        };
        let frame = self.flow.start_rts(rts, len % 2 == 0).to_vec();
        self.asked.push_back(self.sent);
        self.sent += u64::from(len);
        self.push(frame);
        true
    }

    fn control(&mut self) -> bool {
        let due = self.flow.control_is_due();
        let polled = self.flow.poll_control();
        assert_eq!(due, polled.is_some());
        let Some(control) = polled else {
            return false;
        };
        if control.kind() == Type::Fin {
            let settled = self.asked.is_empty() && self.again == 0;
            assert!(self.shut && settled, "FIN before its time");
        }
        self.push(control.bytes().to_vec());
        true
    }

    fn complete(&mut self) -> bool {
        let gone = self.in_queue - self.out.len() as u16;
        self.flow.on_sent(gone);
        self.in_queue -= gone;
        gone > 0
    }

    fn post(&mut self, most: u16) -> bool {
        let n = self.flow.recvs_wanted().min(most);
        self.flow.on_recvs_posted(n);
        self.posted += n;
        self.check_receives();
        n > 0
    }

    fn check_receives(&self) {
        assert!(self.posted <= self.most, "more receives than the depth");
    }

    /// The oldest item: its bytes are read, or READ.
    fn read(&mut self) -> bool {
        match self.unread.pop_front() {
            Some(Item::Data(_)) => self.flow.on_consumed(),
            Some(Item::Rts(_)) => self.flow.on_read_done(),
            None => return false,
        }
        true
    }

    /// Decline the RTS in front.
    fn refuse(&mut self) {
        if let Some(Item::Rts(_)) = self.unread.front() {
            let bytes = self.unread.iter().map(Item::len).sum();
            self.flow.refuse(self.unread.len(), bytes);
            self.heard -= bytes;
            self.unread.clear();
            self.stopped = true;
        }
    }

    fn shut(&mut self) {
        self.shut = true;
        self.flow.shut();
        while self.read() {}
    }

    /// A frame arrives; false: the link is dead.
    fn hear(&mut self, frame: &[u8], honest: bool) -> bool {
        assert!(self.posted > 0 || !honest, "a SEND found no posted receive");
        self.posted = self.posted.saturating_sub(1);
        let heard = bounded(0, || self.flow.on_frame(frame));
        let Ok(incoming) = heard else {
            assert!(!honest, "{heard:?}");
            return false;
        };
        match incoming {
            Incoming::Data => {
                for (at, byte) in frame[HEADER..].iter().enumerate() {
                    assert!(!honest || *byte == pattern_byte(1, self.heard + at as u64));
                }
                self.take(Item::Data((frame.len() - HEADER) as u64));
            }
            Incoming::Rts(rts, more) => {
                assert!(!honest || more == (rts.len % 2 == 0));
                assert!(!honest || rts.addr == self.heard, "bytes are missing");
                assert!(!self.stopped, "an RTS after RSTOP");
                self.take(Item::Rts(rts.len.into()));
            }
            Incoming::Answer(settled) => self.on_settled(settled),
            Incoming::Dropped => assert!(self.stopped, "dropped for nothing"),
            Incoming::Control => {}
        }
        assert_eq!(self.flow.bytes(), (self.sent, self.heard));
        true
    }

    fn take(&mut self, item: Item) {
        self.heard += item.len();
        self.unread.push_back(item);
        let held = self.unread.len() <= usize::from(self.most);
        assert!(held, "more held than the window");
        while self.shut && self.read() {}
    }

    fn on_settled(&mut self, settled: Settled) {
        assert!(usize::from(settled.done) <= self.asked.len());
        self.asked.drain(..usize::from(settled.done));
        if settled.stopped {
            assert!(!self.refused, "refused twice");
            self.refused = true;
            let from = self.asked.front().expect("an RTS to be refused");
            self.again = self.sent - from;
            self.sent = *from;
            self.asked.clear();
        }
    }
}

/// Two links on any schedule: all bytes arrive once, sent or READ, a close ends, idle ends
/// fall silent. A wire that lies ends the link, or leaves it within its bounds.
pub fn link(data: &[u8]) {
    let mut input = Input::new(data);
    let lies = input.one_in(2);
    let features = match input.one_in(4) {
        true => 0,
        false => FEATURE_READ,
    };
    let grants = [
        4 + u16::from(input.u8() % 60),
        4 + u16::from(input.u8() % 60),
    ];
    let terms = |grant| Terms {
        features,
        send_payload: 64,
        grant,
    };
    let mut ends = [
        End::new(Role::Initiator, terms(grants[1]), grants[0], &mut input),
        End::new(Role::Acceptor, terms(grants[0]), grants[1], &mut input),
    ];
    let mut honest = true;
    for _ in 0..1000 {
        if input.ended() {
            break;
        }
        let choice = input.u8();
        let at = usize::from(choice & 1);
        let (more, end) = (choice >> 5, &mut ends[at]);
        match choice >> 1 & 15 {
            0..=2 => drop(end.data(1 + usize::from(more) * 9)),
            3 => drop(end.ask(1 + u32::from(more) * 40)),
            4..=6 => drop(end.control()),
            7 => drop(end.complete()),
            8 if more == 7 => end.refuse(),
            8 => drop(end.read()),
            9 => drop(end.post(1 + u16::from(more))),
            10 if more == 7 => end.shut(),
            10 => end.flow.on_tick(),
            _ => {
                let Some(mut frame) = ends[1 - at].out.pop_front() else {
                    continue;
                };
                if lies && input.one_in(8) {
                    lie(&mut frame, &mut input);
                    honest = false;
                }
                if !ends[at].hear(&frame, honest) {
                    return;
                }
            }
        }
    }
    if honest {
        settle(&mut ends);
    }
}

/// Spoil a frame, or put another in its place.
fn lie(frame: &mut Vec<u8>, input: &mut Input<'_>) {
    if input.bool() {
        let at = input.within(0, frame.len() - 1);
        frame[at] ^= input.u8();
        return;
    }
    let kinds = [
        Type::Hello,
        Type::Data,
        Type::Credit,
        Type::Fin,
        Type::FinAck,
        Type::Ping,
        Type::Rts,
        Type::Rdone,
        Type::Rstop,
    ];
    let kind = kinds[input.within(0, kinds.len() - 1)];
    let grant = u16::from_be_bytes([frame[2], frame[3]]);
    let payload = match kind {
        // What a plausible liar says: few RTS are done.
        Type::Rdone | Type::Rstop if input.bool() => {
            u32::from(input.u8() % 8).to_be_bytes().to_vec()
        }
        _ => input.bytes(64).to_vec(),
    };
    let header = Header {
        kind,
        flags: input.u8() & 3,
        grant: grant.wrapping_add(u16::from(input.u8()) << 4),
        len: payload.len() as u32,
    };
    *frame = header.encode().to_vec();
    frame.extend(payload);
}

fn settle(ends: &mut [End; 2]) {
    let mut rounds = 0;
    loop {
        let mut moved = false;
        for at in [0, 1] {
            if let Some(frame) = ends[1 - at].out.pop_front() {
                assert!(ends[at].hear(&frame, true));
                moved = true;
            }
            let end = &mut ends[at];
            moved |= end.complete() | end.read() | end.post(u16::MAX) | end.control();
            moved |= end.again > 0 && end.data(BEHIND);
        }
        rounds += 1;
        assert!(rounds < ROUNDS, "they never fall silent");
        if !moved {
            break;
        }
    }
    let [a, b] = ends;
    assert_eq!((a.sent, b.sent), (b.heard, a.heard));
    for (one, other) in [(&*a, &*b), (&*b, &*a)] {
        assert!(one.asked.is_empty() && one.again == 0, "an RTS without end");
        assert_eq!(one.refused, other.stopped);
        assert_eq!(one.flow.is_finished(), one.shut);
        assert_eq!(one.flow.peer_shut(), other.shut);
        let may = one.flow.data_may_go();
        assert_eq!(may, !one.shut && !other.shut, "stuck, or past the end");
    }
}
