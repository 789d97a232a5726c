// SPDX-License-Identifier: MPL-2.0
//! Links over the fault device, and one whose peer is the input.

use std::sync::OnceLock;
use std::time::Instant;

use zmq_rdma::device::fault::{Death, FaultyEndpoint, PerMille, Plan, Private};
use zmq_rdma::device::{Choice, Endpoint, Event, Options, PrivateData};
use zmq_rdma::error::Error;
use zmq_rdma::proto::flow::negotiate;
use zmq_rdma::stream::link::Link;
use zmq_rdma::stream::sizes::Sizes;
use zmq_rdma::wire::frame::{Header, Type, HEADER};
use zmq_rdma::wire::hello::Hello;

use crate::fake::{Fake, Offence, Shared};
use crate::input::{pattern, Input};
use crate::meter::bounded;

/// More rounds than this without falling silent is a stuck or a restless state.
const ROUNDS: usize = 20_000;
/// Memory that two links with small windows may take.
const BOUND: usize = 32 << 20;
/// The stream's bytes repeat after these.
const PERIOD: usize = 65_521;
/// Most bytes sent or lent at once.
const MOST: usize = 10_000;

/// The bytes of a stream from `at` on, for good.
fn bytes_from(at: u64) -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    let bytes = BYTES.get_or_init(|| pattern(1, PERIOD).repeat(2));
    &bytes[(at % PERIOD as u64) as usize..]
}

struct Side {
    link: Link,
    out: Shared,
    sent: u64,
    read: u64,
    lent: u64,
    shut: bool,
    /// What it reads can be trusted.
    sound: bool,
}

impl Side {
    fn send(&mut self, len: usize) {
        let Ok((start, room)) = self.link.reserve() else {
            return;
        };
        let len = len.min(room);
        let bytes = &bytes_from(self.sent)[..len];
        // SAFETY: `reserve` gave that much room, which is nobody else's.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, len) };
        self.link.commit(len).expect("it was reserved");
        self.sent += len as u64;
        self.link.flush();
    }

    fn lend(&mut self, len: usize) {
        let bytes = &bytes_from(self.sent)[..len];
        // SAFETY: the bytes are there for good, and nobody writes them.
        let taken = unsafe { self.link.lend(bytes.as_ptr(), len) }.unwrap_or(0);
        assert!(taken <= len);
        self.sent += taken as u64;
        self.lent += taken as u64;
        self.link.flush();
        assert!(self.link.returned() <= self.lent);
    }

    fn read(&mut self, most: usize) -> bool {
        let n = match self.link.chunk() {
            Ok(chunk) => {
                let n = chunk.len().min(most);
                let expected = &bytes_from(self.read)[..n];
                assert!(!self.sound || chunk[..n] == *expected, "other bytes");
                n
            }
            Err(_) => return false,
        };
        self.read += n as u64;
        self.link.consume(n);
        self.link.replenish();
        n > 0
    }

    fn shut(&mut self) {
        self.shut = true;
        self.link.shut();
    }

    fn turn(&mut self, input: &mut Input<'_>, what: u8) {
        match what {
            0 | 1 => self.send(1 + input.u16() as usize % MOST),
            2 => self.lend(1 + input.u16() as usize % MOST),
            3 => drop(self.read(1 + input.u16() as usize)),
            4 | 5 => self.link.crank(),
            6 if input.one_in(8) => self.shut(),
            6 => drop(self.link.tick(Instant::now())),
            _ => self.link.flush(),
        }
        self.check();
    }

    /// What holds at any time.
    fn check(&mut self) {
        let state = self.link.state();
        assert_eq!(state.dead, self.link.death().is_some());
        if !state.dead {
            return;
        }
        assert!(state.readable && !state.writable && (state.finished || !self.shut));
        assert_eq!(
            self.link.returned(),
            self.lent,
            "lent bytes kept after death"
        );
        assert!(self.link.reserve().is_err() && self.link.commit(0).is_err());
        assert!(!matches!(self.link.chunk(), Err(Error::Again)));
    }
}

fn per_mille(input: &mut Input<'_>, most: usize) -> PerMille {
    PerMille(input.within(0, most) as u16)
}

/// What the device does, and whether it may spoil bytes.
fn plan(input: &mut Input<'_>) -> (Plan, bool) {
    let mut plan = Plan {
        seed: input.u64(),
        delay: per_mille(input, 900),
        split: per_mille(input, 900),
        starve: per_mille(input, 900),
        stint: per_mille(input, 900),
        ..Plan::default()
    };
    let spoils = input.one_in(2);
    if spoils {
        plan.garble = per_mille(input, 100);
        plan.truncate = per_mille(input, 100);
        plan.duplicate = per_mille(input, 100);
        plan.private = match input.within(0, 5) {
            0 => Private::Short(input.u8().into()),
            1 => Private::Padded(input.u8().into()),
            2 => Private::Garbled,
            _ => Private::Whole,
        };
        let deaths = [Death::Reset, Death::DeviceLoss, Death::TimedOut];
        let death = (deaths[input.within(0, 2)], input.u8().into());
        plan.death = input.bool().then_some(death);
    }
    (plan, spoils)
}

fn sizes(input: &mut Input<'_>) -> Sizes {
    let buffers = [1, 300, 4096, 20_000, 70_000];
    Sizes::new(
        Choice::Soft,
        Options {
            sndbuf: Some(buffers[input.within(0, 4)]),
            rcvbuf: Some(buffers[input.within(0, 4)]),
            ..Options::default()
        },
    )
}

fn side(link: Link, out: &Shared, sound: bool) -> Side {
    Side {
        link,
        out: out.clone(),
        sent: 0,
        read: 0,
        lent: 0,
        shut: false,
        sound,
    }
}

/// Two links over endpoints that misbehave; whether they spoil what they carry.
/// `None`: the acceptor refused.
fn pair(input: &mut Input<'_>) -> Option<([Side; 2], bool)> {
    let (forth, back) = (Shared::default(), Shared::default());
    let (a, b) = (sizes(input), sizes(input));
    let ((plan_a, spoils_a), (plan_b, spoils_b)) = (plan(input), plan(input));
    let spoils = spoils_a || spoils_b;
    let mut asks = Fake::new(&forth, &back, &a.device);
    let mut asked = Fake::new(&back, &forth, &b.device);
    (asks.spoilt, asked.spoilt) = (spoils_a, spoils_b);
    asks.post_recvs(a.offer.grant).expect("the fake posts all");
    let request = Hello::Request(a.offer).encode();
    let request = Event::Request(PrivateData(request.to_vec()));
    asked.first.push_back(request);
    let asked = FaultyEndpoint::new(Box::new(asked), plan_b);
    let mut acceptor = Link::acceptor(Box::new(asked), b);
    let mut rounds = 0;
    while acceptor.death().is_none() && back.lane().reply.is_none() {
        acceptor.crank();
        rounds += 1;
        assert!(rounds < ROUNDS, "no answer");
    }
    let Some(reply) = back.lane().reply.take() else {
        assert!(spoils || plan_b.stint > PerMille(0), "refused for nothing");
        return None;
    };
    let terms = negotiate::conclude(&reply, a.offer).expect("our own reply");
    let asks = FaultyEndpoint::new(Box::new(asks), plan_a);
    let initiator = Link::initiator(Box::new(asks), terms, &a);
    let sides = [
        side(initiator, &forth, !spoils_a),
        side(acceptor, &back, !spoils_b),
    ];
    Some((sides, spoils))
}

/// The oldest SEND of `from` arrives. One that the peer's device must refuse is our
/// fault, unless what was read of grants, or of the peer's hello, was spoilt.
fn deliver(from: &Side, spoils: bool) -> bool {
    match from.out.deliver() {
        Ok(moved) => return moved,
        Err(Offence::NoReceive) => assert!(spoils, "a SEND found no posted receive"),
        Err(Offence::TooLong) => assert!(!from.sound, "a SEND is longer than the receive"),
    }
    true
}

/// Two links on any schedule over devices that do what devices may do: nothing
/// is lost, changed or stuck. Over devices that spoil: each ends or goes on, and
/// neither is left behind.
pub fn link(data: &[u8]) {
    bounded(BOUND, || {
        let mut input = Input::new(data);
        let Some((mut sides, spoils)) = pair(&mut input) else {
            return;
        };
        for _ in 0..500 {
            if input.ended() {
                break;
            }
            let choice = input.u8();
            let at = usize::from(choice & 1);
            match choice >> 1 & 15 {
                what @ 0..=7 => sides[at].turn(&mut input, what),
                8..=11 => drop(deliver(&sides[at], spoils)),
                _ => sides[at].link.crank(),
            }
        }
        settle(&mut sides, spoils);
    });
}

/// All that is under way arrives, and is read.
fn settle(sides: &mut [Side; 2], spoils: bool) {
    let mut rounds = 0;
    loop {
        let mut moved = false;
        for side in sides.iter_mut() {
            let before = side.link.state();
            moved |= deliver(side, spoils);
            side.link.crank();
            let state = side.link.state();
            // Above all an end, which the other side has yet to hear of.
            moved |= state != before;
            moved |= (state.want_out && !state.dead) || !side.out.lane().sent.is_empty();
            while side.read(usize::MAX) {
                moved = true;
            }
            side.check();
        }
        rounds += 1;
        assert!(rounds < ROUNDS, "they never fall silent");
        if !moved {
            break;
        }
    }
    let [a, b] = sides;
    for (one, other) in [(&*a, &*b), (&*b, &*a)] {
        let (here, there) = (one.link.state(), other.link.state());
        if here.dead {
            assert!(there.dead || there.finished, "left behind");
        }
        if spoils {
            continue;
        }
        assert!(here.finished || !one.shut, "a close that does not end");
        assert!(
            !here.dead || one.shut || other.shut,
            "{:?}",
            one.link.death()
        );
        assert!(other.shut || other.read == one.sent, "bytes are missing");
        assert!(here.writable || one.shut || other.shut, "stuck");
    }
}

/// A link whose peer is the input: whatever it says, the link keeps its bounds,
/// and what it hands up is what was sent as DATA, in order.
pub fn hostile(data: &[u8]) {
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
        let mut side = side(link, &forth, true);
        let mut peer = Peer::default();
        for _ in 0..500 {
            if input.ended() {
                break;
            }
            match input.u8() % 16 {
                what @ 0..=7 => side.turn(&mut input, what),
                8 | 9 => peer.hear(&side.out),
                10 if input.one_in(16) => back.lane().closed = true,
                _ => peer.say(&back, &mut input),
            }
            side.sound = !peer.spoilt;
        }
        side.link.crank();
        side.check();
        while side.read(usize::MAX) {}
        assert!(side.read <= peer.said, "bytes that nobody sent");
    });
}

#[derive(Default)]
struct Peer {
    /// Frames of the link that it has seen.
    heard: u16,
    /// Bytes of DATA.
    said: u64,
    /// It has sent a frame with a wrong byte.
    spoilt: bool,
}

impl Peer {
    fn hear(&mut self, out: &Shared) {
        self.heard = self.heard.wrapping_add(out.drop_one().into());
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
            Type::Hello,
            Type::Credit,
            Type::Fin,
            Type::FinAck,
            Type::Ping,
        ];
        let kind = kinds[input.within(0, 6)];
        let payload: Vec<u8> = match kind {
            Type::Data => bytes_from(self.said)[..input.within(1, 64)].to_vec(),
            Type::Fin if input.one_in(4) => input.u64().to_be_bytes().to_vec(),
            Type::Fin => self.said.to_be_bytes().to_vec(),
            _ => Vec::new(),
        };
        let grant = if input.one_in(8) {
            input.u16()
        } else {
            self.heard.wrapping_add(4 + u16::from(input.u8()))
        };
        let header = Header {
            kind,
            flags: input.u8(),
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
        if frame[0] == 2 {
            self.said += (frame.len() - HEADER) as u64;
        }
        lane.posted -= 1;
        lane.delivered.push_back(frame);
    }
}
