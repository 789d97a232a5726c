// SPDX-License-Identifier: MPL-2.0
//! Large bodies that are READ from where they are, over the device of [`super`],
//! and peers that lie about them.

mod ahead;

use std::collections::HashMap;

use super::*;
use crate::device::region::pool::{self, Taken};
use crate::proto::flow::rendezvous::{BEHIND, MOST_OPEN};
use crate::stream::sizes::Rendezvous;
use crate::wire::frame::{Header, Rts, Type, FLAG_RESUMED, HEADER};

/// From so many bytes on.
const FROM: usize = 2000;

/// A side as libzmq's engine and outbox use a link: bodies that are lent stay until they
/// come back, a buffer that is given stays until bytes come.
struct Large {
    side: Side,
    bodies: VecDeque<(Vec<u8>, u64)>,
    lent: u64,
    /// What is left of the last body: where it begins.
    rest: Option<usize>,
    buffer: Vec<u8>,
    /// In place of the buffer, and so many bytes.
    adopted: Option<(Taken, usize)>,
    waiting: bool,
    /// Where in the stream bodies begin, and their bytes.
    begun: HashMap<u64, usize>,
}

impl Large {
    fn new(side: Side) -> Large {
        Large {
            side,
            bodies: VecDeque::new(),
            lent: 0,
            rest: None,
            buffer: Vec::new(),
            adopted: None,
            waiting: false,
            begun: HashMap::new(),
        }
    }

    /// Lend a body of `len` bytes, or go on with the last one; whether all of it is taken.
    fn lend(&mut self, len: usize) -> bool {
        if self.rest.is_none() {
            let from = self.side.sent;
            let body = (0..len as u64).map(|i| byte(from + i)).collect();
            self.bodies.push_back((body, u64::MAX));
            self.rest = Some(0);
            self.begun.insert(from, len);
        }
        let (Some((body, until)), Some(at)) = (self.bodies.back_mut(), self.rest) else {
            return true;
        };
        let taken = super::lend(&mut self.side, &body[at..]);
        self.side.sent += taken as u64;
        self.lent += taken as u64;
        self.rest = Some(at + taken).filter(|&at| at < body.len());
        if self.rest.is_none() {
            *until = self.lent;
        }
        self.side.link.flush();
        self.rest.is_none()
    }

    fn send(&mut self, len: usize) -> bool {
        self.rest.is_none() && self.side.send(len)
    }

    /// What came back is overwritten, so that nobody reads it and is right.
    fn release(&mut self) {
        let returned = self.side.link.returned();
        assert!(returned <= self.lent, "more came back than was lent");
        while self
            .bodies
            .front()
            .is_some_and(|(_, until)| *until <= returned)
        {
            let (mut body, _) = self.bodies.pop_front().unwrap();
            body.fill(0xee);
        }
    }

    /// Read into a buffer of `size` bytes, or go on with the one that is given already.
    #[allow(unsafe_code)]
    fn read(&mut self, size: usize, steady: bool) -> usize {
        let steady = steady || self.waiting;
        if !self.waiting {
            self.buffer = vec![0x55; size];
        }
        let (to, size) = match &self.adopted {
            Some((taken, size)) => (taken.start().as_ptr(), *size),
            None => (self.buffer.as_mut_ptr(), self.buffer.len()),
        };
        // SAFETY: the buffer stays until bytes come, or as long as the link.
        match unsafe { self.side.link.read(to, size, steady) } {
            Ok(n) => {
                self.waiting = false;
                let adopted = self.adopted.take();
                // SAFETY: as above.
                let adopted = adopted
                    .as_ref()
                    .map(|(taken, _)| unsafe { taken.bytes(0..n) });
                let got = adopted.unwrap_or_else(|| &self.buffer[..n]);
                for (i, &b) in got.iter().enumerate() {
                    let at = self.side.read + i as u64;
                    assert_eq!(b, byte(at), "byte {at}");
                }
                self.side.read += n as u64;
                n
            }
            Err(why) => {
                let reads = self.side.inward.lock().unwrap().reads.len();
                self.waiting =
                    why == Error::Again && (self.adopted.is_some() || self.waiting || reads > 0);
                0
            }
        }
    }

    /// As the decoder, which knows that a body of so many bytes is next. Whether it was, or is being, READ ahead.
    fn adopt(&mut self, size: usize) -> bool {
        if self.waiting {
            return false;
        }
        self.adopted = self.side.link.adopt(size).map(|taken| (taken, size));
        self.waiting = self.adopted.is_some();
        self.waiting
    }

    fn turn(&mut self, reading: bool) -> bool {
        let mut moved = self.side.deliver() | self.side.answer();
        self.side.link.crank();
        self.release();
        if self.rest.is_some() {
            moved |= self.lend(0);
        }
        moved |= self.side.is_busy();
        while reading && self.read(1 << 17, true) > 0 {
            moved = true;
        }
        moved
    }
}

fn sizes(options: Options) -> Sizes {
    Sizes::new(Choice::Soft, options).with_rendezvous(Rendezvous::From(FROM))
}

fn large_pair(a: Options, b: Options) -> [RefCell<Large>; 2] {
    altered(a, b, Refusal::None, Refusal::None)
}

fn altered(a: Options, b: Options, of_a: Refusal, of_b: Refusal) -> [RefCell<Large>; 2] {
    altered_sizes(sizes(a), sizes(b), of_a, of_b)
}

fn altered_sizes(a: Sizes, b: Sizes, of_a: Refusal, of_b: Refusal) -> [RefCell<Large>; 2] {
    let alter = |refuses| move |fake: &mut Fake| fake.refuses = refuses;
    warm(pair_with(a, b, alter(of_a), alter(of_b)))
}

/// With some traffic behind them.
fn warm((a, b): (Side, Side)) -> [RefCell<Large>; 2] {
    let sides = [a, b].map(|side| RefCell::new(Large::new(side)));
    settle(&sides, true);
    // Until credit is not what is short.
    for _ in 0..20 {
        for side in &sides {
            side.borrow_mut().send(100);
            settle(&sides, true);
        }
    }
    sides
}

fn settle(sides: &[RefCell<Large>; 2], reading: bool) {
    for _ in 0..10_000 {
        let turn = |moved, side: &RefCell<Large>| moved | side.borrow_mut().turn(reading);
        let moved = sides.iter().fold(false, turn);
        let busy = |side: &RefCell<Large>| side.borrow().side.is_busy();
        if !moved && !sides.iter().any(busy) {
            return;
        }
    }
    panic!("it never settles");
}

fn counts(side: &RefCell<Large>) -> crate::stream::tally::Counts {
    side.borrow().side.link.counts()
}

#[test]
fn a_large_body_is_read_and_not_copied() {
    let sides = large_pair(Options::default(), Options::default());
    let before = [counts(&sides[0]), counts(&sides[1])];
    assert!(sides[0].borrow_mut().send(16));
    assert!(sides[0].borrow_mut().lend(50_000));
    settle(&sides, false);
    assert_eq!(sides[0].borrow().bodies.len(), 1, "nobody has READ it");
    settle(&sides, true);
    assert_eq!(sides[1].borrow().side.read, 2000 + 50_016);
    assert!(sides[0].borrow().bodies.is_empty(), "it has come back");
    let after = [counts(&sides[0]), counts(&sides[1])];
    assert_eq!(after[0].read_by_peer - before[0].read_by_peer, 50_000);
    assert_eq!(after[1].read_from_peer - before[1].read_from_peer, 50_000);
    assert_eq!(after[0].bytes_copied, before[0].bytes_copied);
    assert_eq!(after[1].bytes_copied - before[1].bytes_copied, 16);
    assert_eq!(after[0].bytes_sent, after[1].bytes_received);
}

#[test]
fn a_very_large_body_is_read_in_pieces_several_at_a_time() {
    let sides = large_pair(Options::default(), Options::default());
    let len = (4 << 20) * 6 + 12_345;
    sides[0].borrow_mut().lend(len);
    let asked =
        |sides: &[RefCell<Large>; 2]| sides[0].borrow().side.out.lock().unwrap().exposed.len();
    assert_eq!(asked(&sides), usize::from(MOST_OPEN));
    while sides[0].borrow_mut().side.deliver() {}
    let mut reader = sides[1].borrow_mut();
    reader.side.link.crank();
    assert_eq!(reader.read(len, true), 0);
    assert_eq!(reader.side.inward.lock().unwrap().reads.len(), 4);
    while sides[0].borrow_mut().side.answer() {}
    reader.side.link.crank();
    let got = reader.read(len, true);
    assert_eq!(
        got.div_ceil(1 << 20),
        4,
        "four pieces at once {:?}",
        reader.side.link.death()
    );
    drop(reader);
    while sides[1].borrow().side.read < 2000 + len as u64 {
        let left = 2000 + len - sides[1].borrow().side.read as usize;
        sides
            .iter()
            .for_each(|side| _ = side.borrow_mut().turn(false));
        sides[1].borrow_mut().read(left, true);
    }
    assert_eq!(counts(&sides[1]).read_from_peer, len as u64);
}

/// Without it on either side, and below the size, all is as it was.
#[test]
fn without_agreement_or_below_the_size_all_is_data() {
    let plain = |sizes: Sizes| sizes.with_rendezvous(Rendezvous::Off);
    let all = sizes(Options::default());
    for (a, b, len) in [
        (plain(all.clone()), all.clone(), 50_000),
        (all.clone(), plain(all.clone()), 50_000),
        (all.clone(), all.clone(), FROM - 1),
        // Too few receives to keep some for answers.
        (sizes(small(1 << 20, 7 * 8192)), all, 50_000),
    ] {
        let (a, b) = pair_with(a, b, |_| (), |_| ());
        let sides = [a, b].map(|side| RefCell::new(Large::new(side)));
        settle(&sides, true);
        sides[0].borrow_mut().lend(len);
        settle(&sides, true);
        assert_eq!(sides[1].borrow().side.read, len as u64);
        assert_eq!(counts(&sides[1]).read_from_peer, 0);
    }
}

#[test]
fn what_cannot_be_registered_is_sent() {
    for (of_a, of_b) in [
        (Refusal::Exposed, Refusal::None),
        (Refusal::None, Refusal::Read),
    ] {
        let options = Options::default;
        let sides = altered(options(), options(), of_a, of_b);
        for _ in 0..20 {
            sides[0].borrow_mut().lend(30_000);
            sides[0].borrow_mut().send(100);
            settle(&sides, true);
        }
        let sent = sides[0].borrow().side.sent;
        assert!(sent > 600_000);
        assert_eq!(sides[1].borrow().side.read, sent);
        assert_eq!(counts(&sides[1]).read_from_peer, 0);
        assert!(sides[0].borrow().bodies.is_empty());
    }
}

#[test]
fn a_reader_with_small_buffers_gets_it_as_data() {
    let sides = large_pair(Options::default(), Options::default());
    let total = 2000 + 3 * 30_016;
    for _ in 0..3 {
        sides[0].borrow_mut().send(16);
        sides[0].borrow_mut().lend(30_000);
    }
    while sides[1].borrow().side.read < total {
        settle(&sides, false);
        let got = sides[1].borrow_mut().read(1000, false);
        let mut sender = sides[0].borrow_mut();
        let missing = total - sender.side.sent;
        // Sides stop sending behind an open RTS; what is left comes later.
        if got == 0 && sender.rest.is_none() && missing > 0 {
            match missing % 30_016 {
                0 => drop(sender.send(16)),
                _ => drop(sender.lend(30_000)),
            }
        }
    }
    assert_eq!(counts(&sides[1]).read_from_peer, 0);
}

/// As `super::run`, with bodies that are lent, readers of both kinds, and
/// memory that sometimes cannot be registered.
fn run(seed: u64) {
    let mut dice = Dice(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1);
    let options = |dice: &mut Dice| match dice.roll(4) {
        0 => Options::default(),
        1 => small(1, 8 * 8192),
        2 => small(4096, 9 * 8192),
        _ => small(1 << 20, 1),
    };
    let refusal = |dice: &mut Dice| match dice.roll(4) {
        0 => Refusal::Some(dice.0),
        _ => Refusal::None,
    };
    let (of_a, of_b) = (refusal(&mut dice), refusal(&mut dice));
    let ahead = dice.roll(4) == 0;
    let sizes = |dice: &mut Dice| match ahead {
        true => ahead::pooled(options(dice)),
        false => sizes(options(dice)),
    };
    let sides = altered_sizes(sizes(&mut dice), sizes(&mut dice), of_a, of_b);
    let least = if ahead {
        ahead::start(&sides);
        pool::LEAST
    } else {
        FROM
    };
    // Readers with small buffers end it for good, so most have none.
    let steady = [dice.roll(8) > 0, dice.roll(8) > 0];
    for _ in 0..600 {
        let which = dice.roll(2) as usize;
        let mut side = sides[which].borrow_mut();
        match dice.roll(10) {
            0..=1 => drop(side.send(1 + dice.roll(9000) as usize)),
            2..=3 => drop(side.lend(least + dice.roll(30_000) as usize)),
            4 => drop(side.side.deliver()),
            5 => drop(side.side.answer()),
            6 => side.side.link.crank(),
            7 if ahead::adopt(&mut side, &sides[1 - which]) => {}
            7..=8 => drop(side.read(
                1 + dice.roll(100_000) as usize,
                steady[which] || dice.roll(9) > 0,
            )),
            _ => drop(side.side.link.tick(Instant::now())),
        }
        side.release();
    }
    settle(&sides, true);
    for (from, to) in [(0, 1), (1, 0)] {
        let (from, to) = (sides[from].borrow(), sides[to].borrow());
        assert!(
            !from.side.link.state().dead,
            "seed {seed}: {:?}",
            from.side.link.death()
        );
        assert_eq!(
            from.side.sent, to.side.read,
            "seed {seed}: all that was sent"
        );
        assert!(from.bodies.is_empty(), "seed {seed}: all came back");
    }
    for side in &sides {
        assert!(side.borrow_mut().send(1), "seed {seed}: no side is stuck");
    }
    // A close with large bodies under way: all arrives before it is finished.
    let first = dice.roll(2) as usize;
    sides[first].borrow_mut().lend(FROM + 777);
    sides[first].borrow_mut().side.link.shut();
    settle(&sides, dice.roll(2) == 0);
    settle(&sides, true);
    let done = sides[first].borrow().side.link.state().finished;
    assert!(done, "seed {seed}: one side closed");
    assert_eq!(
        sides[first].borrow().side.sent,
        sides[1 - first].borrow().side.read,
        "seed {seed}"
    );
}

#[test]
fn no_schedule_with_large_bodies_loses_reorders_or_stalls() {
    (1..=1000).for_each(run);
}

#[test]
fn readers_that_stall_on_both_sides_stop_no_answer() {
    for seed in 1..=300 {
        let mut dice = Dice(seed * 99_991);
        let sides = large_pair(small(1 << 20, 8 * 8192), small(1 << 20, 8 * 8192));
        for _ in 0..300 {
            let mut side = sides[dice.roll(2) as usize].borrow_mut();
            match dice.roll(5) {
                0 => drop(side.lend(FROM + 5000)),
                1 => drop(side.send(64)),
                2 => drop(side.side.deliver()),
                3 => drop(side.side.answer()),
                _ => side.side.link.crank(),
            }
        }
        // Only one of them reads from here on: what is sent to it must flow.
        for round in 0..50 {
            for _ in 0..4 {
                let mut two = sides.iter().map(|side| side.borrow_mut().turn(false));
                let _ = (two.next(), two.next());
                while sides[0].borrow_mut().read(1 << 16, true) > 0 {}
            }
            let before = sides[1].borrow().side.sent;
            for _ in 0..200 {
                if sides[1].borrow_mut().lend(FROM) {
                    break;
                }
                sides
                    .iter()
                    .for_each(|side| _ = side.borrow_mut().turn(false));
                while sides[0].borrow_mut().read(1 << 16, true) > 0 {}
            }
            let after = sides[1].borrow().side.sent;
            assert!(after > before, "seed {seed}, round {round}");
        }
    }
}

#[test]
fn a_close_waits_until_the_body_has_been_read() {
    let sides = large_pair(Options::default(), Options::default());
    sides[0].borrow_mut().lend(100_000);
    sides[0].borrow_mut().side.link.shut();
    settle(&sides, false);
    assert!(
        !sides[0].borrow().side.link.state().finished,
        "nobody has it"
    );
    settle(&sides, true);
    assert!(sides[0].borrow().side.link.state().finished);
    assert_eq!(sides[1].borrow().side.read, 102_000);
}

#[test]
fn a_side_that_closes_wants_nothing_read() {
    let sides = large_pair(Options::default(), Options::default());
    // One is on its way into the reader's buffer, others wait.
    for _ in 0..3 {
        sides[0].borrow_mut().lend(20_000);
    }
    while sides[0].borrow_mut().side.deliver() {}
    let mut reader = sides[1].borrow_mut();
    reader.side.link.crank();
    assert_eq!(reader.read(20_000, true), 0);
    reader.side.link.shut();
    let mut sender = sides[0].borrow_mut();
    sender.side.link.crank();
    sender.release();
    assert_eq!(sender.bodies.len(), 3, "the device is at the first");
    drop((reader, sender));
    settle(&sides, false);
    assert!(sides[0].borrow().bodies.is_empty());
    assert!(sides[1].borrow().side.link.state().finished);
}

#[test]
fn little_is_sent_behind_a_body_that_nobody_reads() {
    let sides = large_pair(Options::default(), Options::default());
    sides[0].borrow_mut().lend(20_000);
    let before = sides[0].borrow().side.sent;
    for _ in 0..10_000 {
        sides[0].borrow_mut().send(5000);
        settle(&sides, false);
    }
    let behind = sides[0].borrow().side.sent - before;
    assert_eq!(behind, BEHIND as u64);
    assert!(!sides[0].borrow().side.link.state().writable);
    settle(&sides, true);
    assert!(sides[0].borrow().side.link.state().writable);
}

#[test]
fn a_dead_link_gives_back_what_was_to_be_read_and_what_was_to_be_filled() {
    let sides = large_pair(Options::default(), Options::default());
    sides[0].borrow_mut().lend(20_000);
    while sides[0].borrow_mut().side.deliver() {}
    let mut reader = sides[1].borrow_mut();
    reader.side.link.crank();
    assert_eq!(reader.read(20_000, true), 0);
    let lane = reader.side.inward.clone();
    assert_eq!(lane.lock().unwrap().reads.len(), 1);
    lane.lock().unwrap().delivered.push_back(vec![0xff; 8]);
    reader.side.link.crank();
    assert!(reader.side.link.state().dead);
    assert!(lane.lock().unwrap().reads.is_empty(), "the buffer is free");
    assert!(
        reader.side.link.state().readable,
        "and the reader learns why"
    );
    assert_eq!(reader.read(20_000, true), 0);
    assert!(!reader.waiting);
}

#[test]
fn a_body_whose_rts_cannot_be_sent_is_not_taken() {
    let sides = greeted();
    let mut sender = sides[0].borrow_mut();
    sender.side.out.lock().unwrap().broken = true;
    assert!(!sender.lend(20_000));
    assert!(sender.side.link.state().dead);
    assert_eq!((sender.lent, sender.side.link.returned()), (0, 0));
}

/// A SEND of a peer that follows no rules.
fn forge(side: &RefCell<Large>, kind: Type, flags: u8, payload: &[u8]) {
    let side = side.borrow_mut();
    let mut lane = side.side.inward.lock().unwrap();
    let header = Header {
        kind,
        flags,
        grant: 4,
        len: payload.len() as u32,
    };
    let bytes = [&header.encode()[..], payload].concat();
    assert_eq!(bytes.len(), HEADER + payload.len());
    lane.delivered.push_back(bytes);
}

fn rts(addr: u64, key: u32, len: u32) -> Vec<u8> {
    Rts { addr, key, len }.encode().to_vec()
}

/// A pair on which nothing but the greeting has passed, so that a forger knows the grant.
fn greeted() -> [RefCell<Large>; 2] {
    let (a, b) = (sizes(Options::default()), sizes(Options::default()));
    let (a, b) = pair_with(a, b, |_| (), |_| ());
    let sides = [a, b].map(|side| RefCell::new(Large::new(side)));
    settle(&sides, true);
    sides
}

fn death(side: &RefCell<Large>) -> String {
    let mut side = side.borrow_mut();
    side.side.link.crank();
    side.read(1 << 16, true);
    side.side.link.crank();
    let why = side.side.link.death().expect("the link has ended");
    why.to_string()
}

#[test]
fn a_peer_that_lies_about_large_bodies_ends_its_link_in_words() {
    let done = |n: u32| n.to_be_bytes().to_vec();
    for (kind, flags, payload, word) in [
        (Type::Rts, 0, rts(1, 1, 0), "no bytes"),
        (Type::Rts, 0, rts(u64::MAX, 1, 2), "past the end"),
        (Type::Rdone, 0, done(1), "no RTS of ours"),
        (Type::Rdone, 0, done(0), "no RTS of ours"),
        (Type::Rstop, 0, done(0), "no RTS of ours"),
        (Type::Data, FLAG_RESUMED, vec![1], "without RSTOP"),
    ] {
        let sides = greeted();
        forge(&sides[1], kind, flags, &payload);
        let why = death(&sides[1]);
        assert!(why.contains(word), "{kind:?}: {why}");
    }
}

#[test]
fn an_rts_for_memory_that_is_not_lent_ends_the_link() {
    let sides = greeted();
    sides[0].borrow_mut().lend(20_000);
    let (addr, key) = {
        let sender = sides[0].borrow();
        let mut lane = sender.side.out.lock().unwrap();
        lane.sent.clear();
        let (key, (addr, _)) = lane.exposed.iter().next().unwrap();
        (*addr as u64, *key)
    };
    for (addr, key, len) in [
        (addr, key, 20_001),
        (addr - 1, key, 10),
        (addr, key + 1, 10),
    ] {
        let sides = greeted();
        forge(&sides[1], Type::Rts, 0, &rts(addr, key, len));
        sides[1].borrow_mut().side.link.crank();
        assert_eq!(sides[1].borrow_mut().read(1 << 16, true), 0);
        sides[0].borrow_mut().side.answer();
        let why = death(&sides[1]);
        assert!(why.contains("not exposed"), "{why}");
    }
}

#[test]
fn what_was_not_agreed_on_or_comes_too_late_ends_the_link() {
    let (a, b) = pair(Options::default(), Options::default());
    let plain = [a, b].map(|side| RefCell::new(Large::new(side)));
    settle(&plain, true);
    forge(&plain[1], Type::Rts, 0, &rts(1, 1, 1));
    assert!(death(&plain[1]).contains("not agreed on"));

    let sides = greeted();
    forge(&sides[1], Type::Fin, 0, &0u64.to_be_bytes());
    forge(&sides[1], Type::Rts, 0, &rts(1, 1, 1));
    assert!(death(&sides[1]).contains("after FIN"));

    let sides = greeted();
    forge(&sides[1], Type::Rts, 0, &rts(1, 1, 1));
    forge(&sides[1], Type::Fin, 0, &1u64.to_be_bytes());
    assert!(death(&sides[1]).contains("before the answer"));

    // RTS go on after a refusal was taken note of.
    let sides = greeted();
    forge(&sides[1], Type::Rts, 0, &rts(1, 1, 1));
    sides[1].borrow_mut().side.link.crank();
    assert_eq!(sides[1].borrow_mut().read(10, false), 0);
    forge(&sides[1], Type::Data, FLAG_RESUMED, &[byte(0)]);
    sides[1].borrow_mut().side.link.crank();
    assert_eq!(sides[1].borrow_mut().read(10, true), 1);
    forge(&sides[1], Type::Rts, 0, &rts(1, 1, 1));
    assert!(death(&sides[1]).contains("after RSTOP"));
}

#[test]
fn an_answer_does_not_pay_for_a_send_without_credit() {
    let sides = greeted();
    sides[1].borrow_mut().lend(20_000);
    for at in 0..4 {
        forge(&sides[1], Type::Data, 0, &[byte(at)]);
    }
    sides[1].borrow_mut().side.link.crank();
    assert!(!sides[1].borrow().side.link.state().dead);
    forge(&sides[1], Type::Data, 0, &[byte(4)]);
    assert!(death(&sides[1]).contains("without credit"));
}
