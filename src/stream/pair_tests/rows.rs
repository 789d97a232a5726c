// SPDX-License-Identifier: MPL-2.0
//! Rows of docs/reports.md, over the device of [`super`].

use super::*;

/// Two credits for DATA and slots of 64 bytes: the least there is.
fn narrow() -> Options {
    small(1, 1)
}

/// A slow reader, the narrowest window, and a close right behind the last byte.
#[test]
fn row_01_the_tail_of_a_close_arrives() {
    for seed in 1..=1000 {
        let mut dice = Dice(seed * 0x9e37_79b9 + 1);
        let (a, b) = pair(narrow(), narrow());
        let (a, b) = (RefCell::new(a), RefCell::new(b));
        settle([&a, &b], false);
        let total = 200 + dice.roll(3000);
        let mut rounds = 0;
        while !(a.borrow().link.state().finished && b.borrow().read == total) {
            rounds += 1;
            assert!(rounds < 100_000, "seed {seed}: it never ends");
            match dice.roll(5) {
                0 => {
                    let left = (total - a.borrow().sent) as usize;
                    let mut a = a.borrow_mut();
                    if left == 0 {
                        a.link.shut();
                    } else {
                        a.send(left.min(1 + dice.roll(200) as usize));
                    }
                }
                1 => drop(a.borrow_mut().deliver()),
                2 => drop(b.borrow_mut().deliver()),
                3 => [&a, &b][dice.roll(2) as usize].borrow_mut().link.crank(),
                _ => drop(b.borrow_mut().read(1 + dice.roll(100) as usize)),
            }
        }
        // The closing side is gone by the time that its peer looks again.
        assert!(a.borrow().out.lock().unwrap().closed);
        settle([&a, &b], true);
        assert_eq!(b.borrow().link.chunk(), Err(Error::Closed), "seed {seed}");
    }
}

/// The sender is gone, process and all, before the reader reads its first byte.
#[test]
fn row_36_what_was_acknowledged_outlives_the_sender() {
    for seed in 1..=300 {
        let mut dice = Dice(seed * 77_003);
        let (a, b) = pair(Options::default(), Options::default());
        let (a, b) = (RefCell::new(a), RefCell::new(b));
        settle([&a, &b], false);
        for _ in 0..1 + dice.roll(200) {
            a.borrow_mut().send(1 + dice.roll(8000) as usize);
            if dice.roll(3) == 0 {
                settle([&a, &b], false);
            }
        }
        a.borrow_mut().link.shut();
        settle([&a, &b], false);
        let a = a.into_inner();
        assert!(a.link.state().finished, "a reader is not waited for");
        let sent = a.sent;
        drop(a);
        let mut b = b.into_inner();
        b.link.crank();
        while b.read(1 + dice.roll(20_000) as usize) > 0 {}
        assert_eq!(b.read, sent, "seed {seed}");
        assert_eq!(b.link.chunk(), Err(Error::Closed));
    }
}

/// Both applications stop reading while both go on sending: what is in flight is
/// bounded, credits and both closes pass.
#[test]
fn stalled_on_both_sides_and_closing_on_both() {
    for seed in 1..=300 {
        let mut dice = Dice(seed * 90_001);
        let options = |dice: &mut Dice| match dice.roll(3) {
            0 => Options::default(),
            1 => narrow(),
            _ => small(1 << 14, 1 << 14),
        };
        let (a, b) = pair(options(&mut dice), options(&mut dice));
        let (a, b) = (RefCell::new(a), RefCell::new(b));
        settle([&a, &b], false);
        for _ in 0..2000 {
            let side = [&a, &b][dice.roll(2) as usize];
            match dice.roll(3) {
                0 => drop(side.borrow_mut().send(8192)),
                1 => drop(side.borrow_mut().deliver()),
                _ => side.borrow_mut().link.crank(),
            }
        }
        for side in [&a, &b] {
            let in_flight = side.borrow().sent;
            assert!(in_flight <= u64::from(RECV_DEPTH) * 8192, "seed {seed}");
        }
        // One of them wakes up, reads all, and stalls again: credits went both ways.
        settle([&a, &b], false);
        while b.borrow_mut().read(usize::MAX) > 0 {}
        settle([&a, &b], false);
        assert!(a.borrow_mut().send(1), "seed {seed}: no credit came");
        for side in [&a, &b] {
            side.borrow_mut().link.shut();
        }
        settle([&a, &b], false);
        for side in [&a, &b] {
            assert!(side.borrow().link.state().finished, "seed {seed}: FIN");
        }
    }
}
