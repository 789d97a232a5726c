// SPDX-License-Identifier: MPL-2.0
//! Two links over a device that exists only here: what is sent arrives when
//! the test says so, and a SEND that finds no posted receive fails the test,
//! as RNR would. Schedules are drawn from seeds.

mod fake;
mod large;
mod rows;
mod slots;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::fake::{Fake, Refusal, Shared};
use super::link::{Link, TICK_MS};
use super::sizes::{Sizes, RECV_DEPTH};
use crate::device::{Choice, Endpoint, Event, Options, PrivateData};
use crate::error::Error;
use crate::proto::flow::negotiate;
use crate::wire::hello::Hello;

/// A side: its link, and what has passed.
struct Side {
    link: Link,
    out: Shared,
    inward: Shared,
    sent: u64,
    read: u64,
}

fn byte(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

impl Side {
    /// Send `len` bytes if there is room, as the glue does.
    fn send(&mut self, len: usize) -> bool {
        let Ok((start, room)) = self.link.reserve() else {
            return false;
        };
        assert!(room > 0 && !start.is_null());
        let len = len.min(room);
        let from = self.sent;
        fill(start, len, |i| byte(from + i as u64));
        self.link.commit(len).unwrap();
        self.sent += len as u64;
        self.link.flush();
        true
    }

    fn read(&mut self, most: usize) -> usize {
        let Ok(chunk) = self.link.chunk() else {
            return 0;
        };
        let n = chunk.len().min(most);
        for (i, &b) in chunk[..n].iter().enumerate() {
            assert_eq!(
                b,
                byte(self.read + i as u64),
                "byte {}",
                self.read + i as u64
            );
        }
        self.read += n as u64;
        self.link.consume(n);
        self.link.replenish();
        n
    }

    fn deliver(&mut self) -> bool {
        self.out.lock().unwrap().deliver()
    }

    /// Answer a READ of the peer's.
    fn answer(&mut self) -> bool {
        self.out.lock().unwrap().answer()
    }

    fn is_busy(&self) -> bool {
        let lane = self.out.lock().unwrap();
        !lane.sent.is_empty() || !lane.reads.is_empty() || !lane.read.is_empty()
    }
}

#[allow(unsafe_code)]
fn fill(start: *mut u8, len: usize, value: impl Fn(usize) -> u8) {
    for i in 0..len {
        // SAFETY: `reserve` promised at least `len` bytes.
        unsafe { start.wrapping_add(i).write(value(i)) };
    }
}

fn pair(a: Options, b: Options) -> (Side, Side) {
    pair_of(a, b, |_| ())
}

/// A pair whose initiator's device is changed by `alter`.
fn pair_of(a: Options, b: Options, alter: impl Fn(&mut Fake)) -> (Side, Side) {
    let (a, b) = (Sizes::new(Choice::Soft, a), Sizes::new(Choice::Soft, b));
    pair_with(a, b, alter, |_| ())
}

fn pair_with(
    a: Sizes,
    b: Sizes,
    alter_a: impl Fn(&mut Fake),
    alter_b: impl Fn(&mut Fake),
) -> (Side, Side) {
    let (forth, back) = (Shared::default(), Shared::default());
    let mut asks = Fake::new(&forth, &back, &a.device);
    alter_a(&mut asks);
    let mut asked = Fake::new(&back, &forth, &b.device);
    alter_b(&mut asked);
    asks.post_recvs(a.offer.grant).unwrap();
    let request = Hello::Request(a.offer).encode();
    let (_, reply) = negotiate::answer(&request, b.offer).unwrap();
    let terms = negotiate::conclude(&reply.encode(), a.offer).unwrap();
    asked
        .first
        .push_back(Event::Request(PrivateData(request.to_vec())));
    let mut initiator = Link::initiator(Box::new(asks), terms, &a);
    initiator.crank();
    let mut acceptor = Link::acceptor(Box::new(asked), b);
    acceptor.crank();
    let side = |link, out: &Shared, inward: &Shared| Side {
        link,
        out: Arc::clone(out),
        inward: Arc::clone(inward),
        sent: 0,
        read: 0,
    };
    (
        side(initiator, &forth, &back),
        side(acceptor, &back, &forth),
    )
}

fn small(sndbuf: usize, rcvbuf: usize) -> Options {
    Options {
        sndbuf: Some(sndbuf),
        rcvbuf: Some(rcvbuf),
        ..Options::default()
    }
}

/// Deliver and crank until nothing moves; readers read everything when `reading`.
fn settle(sides: [&RefCell<Side>; 2], reading: bool) {
    loop {
        let mut moved = false;
        for side in sides {
            let mut side = side.borrow_mut();
            moved |= side.deliver();
            moved |= side.answer();
            side.link.crank();
            moved |= side.is_busy();
            while reading && side.read(usize::MAX) > 0 {
                moved = true;
            }
        }
        if !moved {
            return;
        }
    }
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// One schedule: both sides send and read at random, then read out, then close.
fn run(seed: u64) {
    let mut dice = Dice(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1);
    let options = |dice: &mut Dice| match dice.roll(3) {
        0 => Options::default(),
        1 => small(1, 1),
        _ => small(4096, 20_000),
    };
    let (a, b) = pair(options(&mut dice), options(&mut dice));
    let sides = [RefCell::new(a), RefCell::new(b)];
    for _ in 0..600 {
        let mut side = sides[dice.roll(2) as usize].borrow_mut();
        match dice.roll(8) {
            0..=2 => {
                side.send(1 + dice.roll(9000) as usize);
            }
            3..=4 => {
                side.deliver();
            }
            5 => side.link.crank(),
            6 => {
                side.read(1 + dice.roll(20_000) as usize);
            }
            _ => {
                side.link.tick(Instant::now());
            }
        }
    }
    let [a, b] = [&sides[0], &sides[1]];
    settle([a, b], true);
    assert_eq!(
        a.borrow().sent,
        b.borrow().read,
        "seed {seed}: all that a sent"
    );
    assert_eq!(
        b.borrow().sent,
        a.borrow().read,
        "seed {seed}: all that b sent"
    );
    for side in [a, b] {
        assert!(side.borrow_mut().send(1), "seed {seed}: no side is stuck");
    }
    let first = [a, b][dice.roll(2) as usize];
    first.borrow_mut().link.shut();
    if dice.roll(2) == 0 {
        settle([a, b], true);
        assert!(
            first.borrow().link.state().finished,
            "seed {seed}: one side closed"
        );
    } else {
        for side in [a, b] {
            side.borrow_mut().link.shut();
        }
        settle([a, b], false);
        for side in [a, b] {
            assert!(
                side.borrow().link.state().finished,
                "seed {seed}: both closed"
            );
        }
    }
}

#[test]
fn no_schedule_loses_reorders_or_stalls() {
    (1..=2000).for_each(run);
}

#[test]
fn the_acceptor_holds_its_bytes_until_hello() {
    let (_a, mut b) = pair(Options::default(), Options::default());
    b.link.crank();
    assert!(b.link.is_open());
    assert!(!b.send(1), "HELLO has not come");
}

#[test]
fn a_reader_that_does_not_read_stops_data_but_neither_close_nor_credit() {
    let (a, b) = pair(Options::default(), Options::default());
    let (a, b) = (RefCell::new(a), RefCell::new(b));
    settle([&a, &b], false);
    loop {
        while a.borrow_mut().send(8192) | b.borrow_mut().send(8192) {}
        settle([&a, &b], false);
        if !a.borrow().link.state().writable && !b.borrow().link.state().writable {
            break;
        }
    }
    assert!(
        a.borrow().sent < u64::from(RECV_DEPTH) * 8192,
        "the window bounds what is in flight"
    );
    a.borrow_mut().link.shut();
    settle([&a, &b], false);
    assert!(
        b.borrow().link.state().peer_shut,
        "FIN passes a stalled stream"
    );
    assert!(a.borrow().link.state().finished, "and is acknowledged");
    while b.borrow_mut().read(usize::MAX) > 0 {}
    assert_eq!(
        b.borrow().read,
        a.borrow().sent,
        "every byte before FIN is readable"
    );
    assert_eq!(b.borrow().link.chunk(), Err(Error::Closed));
}

#[test]
fn a_stalled_reader_in_one_direction_never_stops_the_other() {
    for seed in 1..=200 {
        let mut dice = Dice(seed * 77_777);
        let (a, b) = pair(small(1 << 20, 1), small(1 << 20, 1));
        let (a, b) = (RefCell::new(a), RefCell::new(b));
        settle([&a, &b], false);
        for _ in 0..500 {
            match dice.roll(6) {
                0 => drop(a.borrow_mut().send(64)),
                1 => drop(b.borrow_mut().send(64)),
                2 => drop(a.borrow_mut().deliver()),
                3 => drop(b.borrow_mut().deliver()),
                4 => a.borrow_mut().link.crank(),
                _ => b.borrow_mut().link.crank(),
            }
        }
        // From here on only b's reader sleeps: what b sends must flow.
        for round in 0..300 {
            settle([&a, &b], false);
            while a.borrow_mut().read(usize::MAX) > 0 {}
            settle([&a, &b], false);
            assert!(b.borrow_mut().send(64), "seed {seed}, round {round}");
        }
    }
}

#[test]
fn idle_links_fall_silent() {
    let (a, b) = pair(Options::default(), Options::default());
    let (a, b) = (RefCell::new(a), RefCell::new(b));
    for _ in 0..100 {
        a.borrow_mut().send(100);
        b.borrow_mut().send(100);
        settle([&a, &b], true);
    }
    for side in [&a, &b] {
        side.borrow_mut().link.crank();
        assert!(side.borrow().out.lock().unwrap().sent.is_empty());
    }
}

#[test]
fn an_idle_link_pings_on_a_device_that_does_not_notice_death() {
    let (a, b) = pair_of(Options::default(), Options::default(), |fake| {
        fake.flush_completes = true;
    });
    let (a, b) = (RefCell::new(a), RefCell::new(b));
    settle([&a, &b], true);
    a.borrow_mut().link.tick(Instant::now());
    assert!(
        a.borrow().out.lock().unwrap().sent.is_empty(),
        "its clock has just started"
    );
    for _ in 0..1000 {
        a.borrow_mut().link.tick(Instant::now());
        assert_eq!(a.borrow().out.lock().unwrap().sent.len(), 1, "one PING");
        a.borrow_mut().deliver();
        // It is complete, but `a` was not told.
        a.borrow_mut().link.tick(Instant::now());
        assert_eq!(a.borrow().out.lock().unwrap().sent.len(), 1, "one more");
        settle([&a, &b], true);
    }
}

#[test]
fn a_hello_without_answer_is_followed_by_ping_until_the_peer_speaks() {
    let (mut a, mut b) = pair(Options::default(), Options::default());
    let waiting = |a: &Side| a.out.lock().unwrap().sent.len();
    assert_eq!(waiting(&a), 1, "HELLO");
    assert!(a.link.tick(Instant::now()) < TICK_MS);
    assert_eq!(waiting(&a), 1, "it has only just gone");
    assert!(a.link.tick(Instant::now()) < TICK_MS);
    assert_eq!(waiting(&a), 2, "and a PING");
    while a.deliver() {}
    b.link.crank();
    assert!(b.send(1));
    b.deliver();
    a.link.crank();
    assert_eq!(a.link.tick(Instant::now()), TICK_MS);
}

#[test]
fn the_next_tick_is_when_the_device_wants_it() {
    let next = |quiet| {
        let (mut a, mut b) = pair_of(Options::default(), Options::default(), |fake| {
            fake.quiet = Duration::from_millis(quiet);
        });
        a.deliver();
        b.link.crank();
        assert!(b.send(1));
        b.deliver();
        a.link.crank();
        a.link.tick(Instant::now())
    };
    assert_eq!(next(1200), 1201);
    assert_eq!(next(60_000), TICK_MS);
    assert!(next(0) > 1);
}

#[test]
fn a_peer_that_goes_away_without_fin_is_an_error_after_its_last_byte() {
    let (a, b) = pair(Options::default(), Options::default());
    let (a, b) = (RefCell::new(a), RefCell::new(b));
    settle([&a, &b], false);
    assert!(a.borrow_mut().send(3));
    a.borrow_mut().deliver();
    a.borrow().out.lock().unwrap().closed = true;
    let mut b = b.into_inner();
    b.link.crank();
    assert!(b.link.state().dead);
    assert_eq!(b.read(10), 3);
    assert!(matches!(b.link.chunk(), Err(Error::Reset(_))));
}

#[test]
fn a_request_of_another_version_is_rejected_and_dies_in_words() {
    let (_, mut b) = pair(Options::default(), Options::default());
    let mut request = Hello::Request(negotiate::offer(0, 8192, 4)).encode();
    request[5] = 7;
    request[6] = 9;
    let sizes = Sizes::new(Choice::Soft, Options::default());
    let mut asked = Fake::new(&Shared::default(), &Shared::default(), &sizes.device);
    asked.first = VecDeque::from([
        Event::Request(PrivateData(request.to_vec())),
        Event::Disconnected,
    ]);
    b.link = Link::acceptor(Box::new(asked), sizes);
    b.link.crank();
    let why = b.link.death().expect("dead").to_string();
    assert!(why.contains("versions 7 to 9"), "{why}");
}

#[test]
fn a_close_begun_in_the_handshake_ends_as_any_other() {
    let (a, mut b) = pair(Options::default(), Options::default());
    assert!(!b.link.is_open());
    b.link.shut();
    let (a, b) = (RefCell::new(a), RefCell::new(b));
    settle([&a, &b], true);
    assert!(a.borrow().link.state().peer_shut);
    assert!(b.borrow().link.state().finished);
}

#[allow(unsafe_code)]
fn lend(side: &mut Side, data: &[u8]) -> usize {
    // SAFETY: the tests keep `data` until `returned` has counted it.
    unsafe { side.link.lend(data.as_ptr(), data.len()) }.unwrap_or(0)
}

#[test]
fn what_is_lent_arrives_in_order_and_comes_back_when_it_was_sent() {
    let (a, b) = pair(small(3 * 8192, 1 << 20), Options::default());
    let (a, b) = (RefCell::new(a), RefCell::new(b));
    settle([&a, &b], true);
    let body: Vec<u8> = (0..1_000_000).map(byte).collect();
    let mut lent = 0;
    while lent < body.len() {
        let taken = lend(&mut a.borrow_mut(), &body[lent..]);
        lent += taken;
        let back = a.borrow().link.returned();
        assert!(back <= lent as u64 && lent as u64 - back <= 3 * 8192);
        a.borrow_mut().sent = lent as u64;
        settle([&a, &b], true);
        assert_eq!(a.borrow().link.returned(), lent as u64);
    }
    assert_eq!(b.borrow().read, body.len() as u64);
    assert!(
        a.borrow_mut().send(10),
        "copied and lent bytes follow each other"
    );
    settle([&a, &b], true);
    assert_eq!(b.borrow().read, body.len() as u64 + 10);
}

#[test]
fn a_dead_link_gives_back_all_that_was_lent() {
    let (mut a, _b) = pair(Options::default(), Options::default());
    let body = vec![7; 8192];
    let taken = lend(&mut a, &body);
    assert!(taken > 0);
    assert_eq!(a.link.returned(), 0);
    // A frame of no known type kills it.
    a.inward.lock().unwrap().delivered.push_back(vec![0xff; 8]);
    a.link.crank();
    assert!(a.link.state().dead);
    assert_eq!(a.link.returned(), taken as u64);
}
