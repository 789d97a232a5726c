// SPDX-License-Identifier: MPL-2.0
//! Two links over the fault device. One whose peer is the input is in `hostile`.

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::time::Instant;

use zmq_rdma::device::fault::{Death, FaultyEndpoint, PerMille, Plan, Private};
use zmq_rdma::device::{Choice, Endpoint, Event, Options, PrivateData};
use zmq_rdma::error::Error;
use zmq_rdma::proto::flow::negotiate;
use zmq_rdma::stream::link::Link;
use zmq_rdma::stream::sizes::{Rendezvous, Sizes};
use zmq_rdma::wire::hello::Hello;

use crate::fake::{Fake, Offence, Shared};
use crate::input::{pattern, Input};
use crate::meter::bounded;

/// More rounds than this without falling silent is a stuck or a restless state.
const ROUNDS: usize = 20_000;
/// Memory that two links with small windows may take.
pub(crate) const BOUND: usize = 32 << 20;
/// The stream's bytes repeat after these.
const PERIOD: usize = 65_521;
/// Most bytes sent or lent at once, and bytes of a reader's buffer.
const MOST: usize = 10_000;
pub(crate) const BUFFER: usize = 12_000;

/// The bytes of a stream from `at` on, for good.
pub(crate) fn bytes_from(at: u64) -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    let bytes = BYTES.get_or_init(|| pattern(1, PERIOD).repeat(2));
    &bytes[(at % PERIOD as u64) as usize..]
}

/// A side as libzmq's engine and outbox use a link: a body that is lent stays until it comes
/// back, a buffer that is given stays until bytes come. Fields drop in this order.
pub(crate) struct Side {
    pub(crate) link: Link,
    out: Shared,
    inward: Shared,
    sent: u64,
    pub(crate) read: u64,
    lent: u64,
    /// Lent, and how much will have come back when each is the caller's again.
    bodies: VecDeque<(Box<[u8]>, u64)>,
    /// Where the last of them goes on, if not all of it was taken.
    rest: Option<usize>,
    buffer: Box<[u8]>,
    /// READs may be on their way to that many bytes of it.
    waiting: Option<usize>,
    shut: bool,
    /// What it reads can be trusted.
    pub(crate) sound: bool,
}

impl Side {
    fn send(&mut self, len: usize) {
        if self.rest.is_some() {
            return;
        }
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

    /// Lend a body of `len` bytes, or go on with the last one; whether any was taken.
    fn lend(&mut self, len: usize) -> bool {
        if self.rest.is_none() {
            let body = bytes_from(self.sent)[..len].into();
            self.bodies.push_back((body, u64::MAX));
        }
        let at = self.rest.unwrap_or(0);
        let (body, until) = self.bodies.back_mut().expect("it was put there");
        let left = &body[at..];
        // SAFETY: it is kept until `returned` has counted it, and not written.
        let taken = unsafe { self.link.lend(left.as_ptr(), left.len()) }.unwrap_or(0);
        assert!(taken <= left.len());
        self.sent += taken as u64;
        self.lent += taken as u64;
        self.rest = Some(at + taken).filter(|&at| at < body.len());
        if self.rest.is_none() {
            *until = self.lent;
        }
        self.link.flush();
        taken > 0
    }

    /// What has come back is gone: nobody may read it any more.
    fn release(&mut self) {
        let returned = self.link.returned();
        assert!(returned <= self.lent, "more came back than was lent");
        while matches!(self.bodies.front(), Some((_, until)) if *until <= returned) {
            self.bodies.pop_front();
        }
    }

    /// Read into `size` bytes, or go on where READs are under way; whether any came.
    pub(crate) fn read(&mut self, size: usize, steady: bool) -> bool {
        if self.shut {
            return false;
        }
        let steady = steady || self.waiting.is_some();
        let size = self.waiting.unwrap_or(size.min(self.buffer.len()));
        let to = self.buffer.as_mut_ptr();
        // SAFETY: the buffer stays as long as the link; if `steady` holds and nothing has come,
        // the next call is given the same.
        let read = unsafe { self.link.read(to, size, steady) };
        let under_way = !self.inward.lane().reads.is_empty();
        self.waiting = match &read {
            Err(Error::Again) if under_way || self.waiting.is_some() => Some(size),
            _ => None,
        };
        let Ok(n) = read else {
            return false;
        };
        assert!(0 < n && n <= size);
        let expected = &bytes_from(self.read)[..n];
        assert!(!self.sound || self.buffer[..n] == *expected, "other bytes");
        self.read += n as u64;
        true
    }

    fn shut(&mut self) {
        self.shut = true;
        self.link.shut();
    }

    pub(crate) fn turn(&mut self, input: &mut Input<'_>, what: u8) {
        match what {
            0 | 1 => self.send(1 + input.u16() as usize % MOST),
            2 => drop(self.lend(1 + input.u16() as usize % MOST)),
            3 => {
                let size = 1 + input.u16() as usize;
                // A buffer that does not stay, or is too small, ends READs for good.
                match input.one_in(8) {
                    true => drop(self.read(size, false)),
                    false => drop(self.read(BUFFER, true)),
                }
            }
            4 | 5 => self.link.crank(),
            6 if input.one_in(8) => self.shut(),
            6 => drop(self.link.tick(Instant::now())),
            _ => self.link.flush(),
        }
        self.check();
    }

    /// What holds at any time.
    pub(crate) fn check(&mut self) {
        self.release();
        self.check_shown();
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

    /// The device can reach what is lent and has not come back, and what a reader waits at.
    fn check_shown(&self) {
        for &(addr, len) in self.out.lane().exposed.values() {
            let holds = |(body, _): &(Box<[u8]>, u64)| {
                let all = body.as_ptr_range();
                addr >= all.start as usize && addr + len <= all.end as usize
            };
            assert!(self.bodies.iter().any(holds), "shown, and not lent");
        }
        let start = self.buffer.as_ptr() as usize;
        let room = self.waiting.unwrap_or(0);
        for read in &self.inward.lane().reads {
            let end = read.to + read.from.len as usize;
            let within = read.to >= start && end <= start + room;
            assert!(within, "a READ to where nobody waits");
        }
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
        unregistrable: per_mille(input, 200),
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

pub(crate) fn sizes(input: &mut Input<'_>) -> Sizes {
    let buffers = [
        Some(1),
        Some(300),
        Some(4096),
        Some(20_000),
        Some(70_000),
        None,
    ];
    let sizes = Sizes::new(
        Choice::Soft,
        Options {
            sndbuf: buffers[input.within(0, 5)],
            rcvbuf: buffers[input.within(0, 5)],
            ..Options::default()
        },
    );
    match input.u8() {
        0..=63 => sizes,
        from => sizes.with_rendezvous(Rendezvous::From(1 + usize::from(from) * 20)),
    }
}

pub(crate) fn side(link: Link, out: &Shared, inward: &Shared, sound: bool) -> Side {
    Side {
        link,
        out: out.clone(),
        inward: inward.clone(),
        sent: 0,
        read: 0,
        lent: 0,
        bodies: VecDeque::new(),
        rest: None,
        buffer: vec![0; BUFFER].into(),
        waiting: None,
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
        side(initiator, &forth, &back, !spoils_a),
        side(acceptor, &back, &forth, !spoils_b),
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
        Err(Offence::NoAccess) => unreachable!("a SEND is no READ"),
    }
    true
}

/// The oldest READ of what `of` shows is answered.
fn answer(of: &Side, spoils: bool) -> bool {
    match of.out.answer() {
        Ok(moved) => return moved,
        Err(_) => assert!(spoils, "a READ of what is not shown"),
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
                12 | 13 => drop(answer(&sides[at], spoils)),
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
            moved |= deliver(side, spoils) | answer(side, spoils);
            side.link.crank();
            moved |= side.rest.is_some() && side.lend(0);
            let waited = side.waiting.is_some();
            while side.read(BUFFER, true) {
                moved = true;
            }
            moved |= side.waiting.is_some() != waited;
            let state = side.link.state();
            // Above all an end, which the other side has yet to hear of.
            moved |= state != before;
            moved |= (state.want_out && !state.dead) || !side.out.lane().sent.is_empty();
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
            let why = (one.link.death(), one.shut, there, other.shut);
            assert!(there.dead || there.finished, "left behind: {why:?}");
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
        let all_back = one.rest.is_none() && one.bodies.is_empty();
        assert!(
            all_back || one.shut || other.shut,
            "bodies that never come back"
        );
    }
}
