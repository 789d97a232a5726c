// SPDX-License-Identifier: MPL-2.0
//! The machines of the stream protocol: credits, and the agreement. The link is in `flow_link`.

use std::collections::VecDeque;

use zmq_rdma::proto::flow::credit::{Receiver, Sender, CONTROL_PLACES};
use zmq_rdma::proto::flow::negotiate::{self as agree, Terms};
use zmq_rdma::wire::hello::{self, Hello, Offer, GRANT_MAX};

use crate::input::Input;
use crate::meter::bounded;

/// More rounds than this without falling silent is a stuck or a restless state.
const ROUNDS: usize = 5_000;

struct Frame {
    grant: u16,
    data: bool,
    blocked: bool,
}

/// One side of a link of which there are only the credits.
struct Side {
    send: Sender,
    recv: Receiver,
    out: VecDeque<Frame>,
    in_queue: u16,
    depth: u16,
    /// Receives that its device has posted.
    posted: u16,
    most: u16,
    unread: u16,
}

impl Side {
    fn new(granted: u16, depth: u16, posted: u16, most: u16) -> Side {
        Side {
            send: Sender::new(granted, depth),
            recv: Receiver::new(posted, most),
            out: VecDeque::new(),
            in_queue: 0,
            depth: depth.max(CONTROL_PLACES + 1),
            posted,
            most: most.max(posted),
            unread: 0,
        }
    }

    fn frame(&mut self, data: bool) {
        let blocked = self.send.next_is_last();
        let before = self.send.credits();
        self.send.on_posted();
        assert_eq!(self.send.credits(), before - 1);
        self.in_queue += 1;
        assert!(self.in_queue <= self.depth, "send queue overflow");
        let grant = self.recv.tell();
        assert_eq!(self.recv.fresh(), 0);
        self.out.push_back(Frame {
            grant,
            data,
            blocked,
        });
    }

    fn data(&mut self) -> bool {
        let may = self.send.data_may_go();
        if may {
            self.frame(true);
        }
        may
    }

    fn control(&mut self) -> bool {
        let due = self.recv.is_due() && self.send.control_may_go(self.recv.fresh());
        if due {
            self.frame(false);
        }
        due
    }

    fn post(&mut self, most: u16) -> bool {
        let n = self.recv.wanted().min(most);
        self.recv.on_posted(n);
        self.posted += n;
        assert!(
            self.posted + self.unread <= self.most,
            "more than the window"
        );
        n > 0
    }

    fn complete(&mut self) -> bool {
        let gone = self.in_queue - self.out.len() as u16;
        self.send.on_complete(gone);
        self.in_queue -= gone;
        assert_eq!(self.send.is_drained(), self.in_queue == 0);
        gone > 0
    }

    fn hear(&mut self, frame: Frame) {
        assert!(self.posted > 0, "a SEND found no posted receive");
        self.posted -= 1;
        self.recv
            .on_received(frame.data, frame.blocked)
            .expect("honest");
        self.send.on_grant(frame.grant).expect("honest");
        assert!(self.send.credits() <= GRANT_MAX);
        self.unread += u16::from(frame.data);
    }

    fn read(&mut self) -> bool {
        if self.unread == 0 {
            return false;
        }
        self.unread -= 1;
        self.recv.on_consumed();
        true
    }
}

fn deliver(sides: &mut [Side; 2], to: usize) -> bool {
    match sides[1 - to].out.pop_front() {
        Some(frame) => {
            sides[to].hear(frame);
            true
        }
        None => false,
    }
}

/// Two honest sides on any schedule: a SEND always finds a receive, no queue
/// overflows, and once all is read either may send again; then one meets a liar.
pub fn credit(data: &[u8]) {
    let mut input = Input::new(data);
    let mut half = || {
        (
            4 + u16::from(input.u8()) % 60,
            u16::from(input.u8()),
            input.u16() % 40,
        )
    };
    let (a, b) = (half(), half());
    let mut sides = [
        Side::new(b.0, a.2, a.0, a.0 + a.1),
        Side::new(a.0, b.2, b.0, b.0 + b.1),
    ];
    for _ in 0..1000 {
        if input.ended() {
            break;
        }
        let choice = input.u8();
        let at = usize::from(choice & 1);
        let side = &mut sides[at];
        match choice >> 1 & 7 {
            0 | 1 => drop(side.data()),
            2 => drop(side.control()),
            3 => drop(deliver(&mut sides, at)),
            4 => drop(side.read()),
            5 => drop(side.post(1 + u16::from(choice >> 4))),
            6 => drop(side.complete()),
            _ if choice >> 4 == 15 => break,
            _ => side.recv.on_tick(),
        }
    }
    let mut rounds = 0;
    loop {
        let mut moved = false;
        for at in [0, 1] {
            moved |= deliver(&mut sides, at);
            moved |= sides[at].complete() | sides[at].read() | sides[at].post(u16::MAX);
            moved |= sides[at].control();
        }
        rounds += 1;
        assert!(rounds < ROUNDS, "they never fall silent");
        if !moved {
            break;
        }
    }
    for side in &sides {
        assert!(side.send.data_may_go(), "stuck: {:?}", side.send);
    }
    liar(&mut sides[0], &mut input);
}

/// Grants from nowhere, SENDs without credit.
fn liar(side: &mut Side, input: &mut Input<'_>) {
    while !input.ended() {
        let before = side.send.credits();
        let grant = input.u16();
        match side.send.on_grant(grant) {
            Ok(()) => assert!(side.send.credits() >= before && side.send.credits() <= GRANT_MAX),
            Err(_) => assert_eq!(side.send.credits(), before),
        }
    }
    let mut taken = 0;
    while side.recv.on_received(taken % 2 == 0, true).is_ok() {
        taken += 1;
        assert!(taken <= side.most, "endless SENDs");
    }
    assert!(side.recv.wanted() <= side.most);
}

fn offer(input: &mut Input<'_>) -> Offer {
    let least = input.u8().max(1);
    let span = (hello::SLOT_PAYLOAD_MAX - hello::SLOT_PAYLOAD_MIN) as usize;
    Offer {
        least,
        most: least.max(input.u8()),
        features: input.u32(),
        slot_payload: hello::SLOT_PAYLOAD_MIN + input.within(0, span) as u32,
        grant: input.within(hello::GRANT_MIN.into(), GRANT_MAX.into()) as u16,
    }
}

/// Two offers: terms that are each other's mirror, or a reason that both are told.
pub fn negotiate(data: &[u8]) {
    let mut input = Input::new(data);
    let (asks, asked) = (offer(&mut input), offer(&mut input));
    let request = Hello::Request(asks).encode();
    let answer = bounded(4096, || agree::answer(&request, asked));
    let most = asks.most.min(asked.most);
    assert_eq!(answer.is_ok(), most >= asks.least.max(asked.least));
    match answer {
        Ok((terms, reply)) => {
            let mut bytes = reply.encode();
            let concluded = agree::conclude(&bytes, asks).expect("an honest reply");
            mirrored(&terms, &concluded, &asks, &asked);
            while input.one_in(2) {
                bytes[input.within(0, hello::LEN - 1)] ^= input.u8();
            }
            if let Ok(terms) = agree::conclude(&bytes, asks) {
                assert!(terms.send_payload <= asks.slot_payload && terms.grant <= GRANT_MAX);
                assert_eq!(terms.features & !asks.features, 0);
            }
        }
        Err((reject, _)) => {
            let why = agree::refusal(&reject.encode()).to_string();
            let range = format!("versions {} to {} ", asked.least, asked.most);
            assert!(why.contains(&range), "{why}");
        }
    }
}

fn mirrored(at_acceptor: &Terms, at_initiator: &Terms, asks: &Offer, asked: &Offer) {
    assert_eq!(at_acceptor.features, at_initiator.features);
    assert_eq!(at_acceptor.features, asks.features & asked.features);
    let payload = asks.slot_payload.min(asked.slot_payload);
    assert_eq!(
        (at_acceptor.send_payload, at_initiator.send_payload),
        (payload, payload)
    );
    assert_eq!(
        (at_acceptor.grant, at_initiator.grant),
        (asks.grant, asked.grant)
    );
}
