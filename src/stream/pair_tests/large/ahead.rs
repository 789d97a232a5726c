// SPDX-License-Identifier: MPL-2.0
//! Bodies that are READ before anybody asks for them.

use super::*;
use crate::stream::link::AHEAD;

/// Bodies of so many bytes are READ ahead.
const BODY: usize = 100_000;

/// With a pool, without which nothing is READ ahead.
pub(super) fn pooled(options: Options) -> Sizes {
    sizes(options).with_pool(Choice::Soft, 256 << 20)
}

/// Both readers would have everything READ ahead.
pub(super) fn start(sides: &[RefCell<Large>; 2]) {
    for side in sides {
        side.borrow_mut().side.link.read_ahead(usize::MAX);
    }
}

/// Take the body that the other side's stream has next, if one begins there and it is READ ahead.
pub(super) fn adopt(reader: &mut Large, sender: &RefCell<Large>) -> bool {
    let body = sender.borrow().begun.get(&reader.side.read).copied();
    body.is_some_and(|body| reader.adopt(body))
}

fn pooled_pair(a: Options, b: Options) -> [RefCell<Large>; 2] {
    let sides = altered_sizes(pooled(a), pooled(b), Refusal::None, Refusal::None);
    start(&sides);
    sides
}

/// Messages of a head and a body; how many were taken.
fn send_messages(sender: &RefCell<Large>, count: usize) -> usize {
    let mut sender = sender.borrow_mut();
    let mut one = |_: &usize| sender.rest.is_none() && sender.send(9) && sender.lend(BODY);
    (0..count).filter(|n| one(n)).count()
}

fn reads(side: &RefCell<Large>) -> usize {
    side.borrow().side.inward.lock().unwrap().reads.len()
}

/// Everything that was sent comes; nobody reads.
fn come(sides: &[RefCell<Large>; 2]) {
    while sides[0].borrow_mut().side.deliver() {}
    sides[1].borrow_mut().side.link.crank();
}

#[test]
fn several_bodies_are_under_way_at_once_and_become_the_readers_uncopied() {
    let sides = pooled_pair(Options::default(), Options::default());
    let before = counts(&sides[1]);
    assert_eq!(send_messages(&sides[0], 3), 3);
    come(&sides);
    assert_eq!(reads(&sides[1]), 3, "before anybody asks");
    for answered in [1, 2] {
        (0..answered).for_each(|_| _ = sides[0].borrow_mut().side.answer());
        sides[1].borrow_mut().side.link.crank();
    }
    for _ in 0..3 {
        let mut reader = sides[1].borrow_mut();
        assert_eq!(reader.read(8192, false), 9, "the head, and no more");
        assert!(adopt(&mut reader, &sides[0]));
        assert_eq!(reader.read(0, true), BODY);
    }
    let after = counts(&sides[1]);
    assert_eq!(after.bytes_copied - before.bytes_copied, 3 * 9);
    settle(&sides, true);
    assert!(sides[0].borrow().bodies.is_empty());
}

/// Of rxe: what follows a READ that is under way makes it be sent once more.
#[test]
fn on_a_device_for_one_read_at_a_time_the_next_goes_behind_the_answer() {
    let sizes = || pooled(Options::default());
    let pair = pair_with(sizes(), sizes(), |_| (), |fake| fake.reads_at_once = 1);
    let sides = warm(pair);
    start(&sides);
    let calls = || std::mem::take(&mut sides[1].borrow().side.out.lock().unwrap().calls);
    assert_eq!(send_messages(&sides[0], 2), 2);
    come(&sides);
    assert_eq!(reads(&sides[1]), 1);
    let (read, rdone) = (0, 8);
    assert_eq!(calls().last(), Some(&read));
    sides[0].borrow_mut().side.answer();
    sides[1].borrow_mut().side.link.crank();
    assert_eq!(calls(), [rdone, read], "before the first is asked for");
    settle(&sides, true);
    // A body in pieces.
    sides[0].borrow_mut().lend(3 << 20);
    while sides[1].borrow().side.read < sides[0].borrow().side.sent {
        let _ = [&sides[0], &sides[1]].map(|side| side.borrow_mut().turn(false));
        sides[1].borrow_mut().read(3 << 20, true);
        assert!(reads(&sides[1]) <= 1);
    }
    assert_eq!(
        counts(&sides[1]).read_from_peer,
        (3 << 20) + 2 * BODY as u64
    );
}

#[test]
fn a_body_may_be_adopted_before_it_is_there() {
    let sides = pooled_pair(Options::default(), Options::default());
    send_messages(&sides[0], 2);
    come(&sides);
    let mut reader = sides[1].borrow_mut();
    assert_eq!(reader.read(8192, false), 9);
    assert!(!reader.adopt(BODY - 1), "another body");
    assert!(reader.adopt(BODY));
    assert_eq!(reader.read(0, true), 0);
    sides[0].borrow_mut().side.answer();
    reader.side.link.crank();
    assert_eq!(reader.read(0, true), BODY, "whatever comes behind it");
    drop(reader);
    settle(&sides, true);
    assert_eq!(sides[1].borrow().side.read, sides[0].borrow().side.sent);
}

#[test]
fn a_reader_that_waits_for_a_body_gets_it_where_it_wants_it() {
    for asks in [false, true] {
        waits_for_a_body(asks);
    }
}

fn waits_for_a_body(asks: bool) {
    let sides = pooled_pair(Options::default(), Options::default());
    let before = counts(&sides[1]);
    assert!(sides[0].borrow_mut().send(9));
    come(&sides);
    let mut reader = sides[1].borrow_mut();
    assert_eq!(reader.read(8192, false), 9);
    assert!(!reader.adopt(BODY), "it has not come");
    if asks {
        assert_eq!(reader.read(BODY, true), 0);
        reader.waiting = true;
    }
    drop(reader);
    assert!(sides[0].borrow_mut().lend(BODY));
    send_messages(&sides[0], 1);
    come(&sides);
    assert_eq!(reads(&sides[1]), 0, "the reader has a place for it");
    assert_eq!(sides[1].borrow_mut().read(BODY, true), 0);
    assert_eq!(reads(&sides[1]), 2, "and the next is READ ahead");
    settle(&sides, false);
    let mut reader = sides[1].borrow_mut();
    assert_eq!(reader.read(BODY, true), BODY);
    assert_eq!(reader.read(8192, false), 9);
    assert!(adopt(&mut reader, &sides[0]));
    assert_eq!(reader.read(0, true), BODY);
    drop(reader);
    assert_eq!(counts(&sides[1]).bytes_copied - before.bytes_copied, 18);
}

#[test]
fn who_does_not_adopt_has_it_copied() {
    let sides = pooled_pair(Options::default(), Options::default());
    let before = counts(&sides[1]);
    send_messages(&sides[0], 3);
    settle(&sides, false);
    while sides[1].borrow_mut().read(1000, false) > 0 {}
    settle(&sides, true);
    let after = counts(&sides[1]);
    assert_eq!(
        after.read_from_peer - before.read_from_peer,
        3 * BODY as u64
    );
    let all = 3 * (BODY as u64 + 9);
    assert_eq!(after.bytes_copied - before.bytes_copied, all);
    assert_eq!(sides[1].borrow().side.link.death(), None);
}

#[test]
fn a_reader_that_does_not_read_has_little_read_ahead() {
    for (rcvbuf, most) in [
        (None, AHEAD),
        (Some(3 * BODY), 3 * BODY),
        (Some(BODY - 1), 0),
    ] {
        let options = Options {
            rcvbuf,
            ..Options::default()
        };
        let sides = pooled_pair(Options::default(), options);
        let before = counts(&sides[1]).read_from_peer;
        for _ in 0..200 {
            send_messages(&sides[0], 1);
            settle(&sides, false);
        }
        let ahead = (counts(&sides[1]).read_from_peer - before) as usize;
        assert_eq!(ahead, most - most % BODY, "{rcvbuf:?}");
        // Then it reads, one way or the other.
        while sides[1].borrow().side.read < sides[0].borrow().side.sent {
            let mut reader = sides[1].borrow_mut();
            if !adopt(&mut reader, &sides[0]) {
                reader.read(1 << 17, true);
            }
            drop(reader);
            settle(&sides, false);
        }
        assert!(sides[0].borrow().bodies.is_empty());
    }
}

#[test]
fn what_may_not_be_read_ahead_is_not_nor_what_comes_behind_it() {
    // Longer than the reader takes; a body in pieces; without a pool; nobody who adopts.
    let plain = || sizes(Options::default());
    for (sizes, most, first) in [
        (pooled(Options::default()), BODY - 1, BODY),
        (pooled(Options::default()), usize::MAX, (1 << 20) + 1),
        (plain(), usize::MAX, BODY),
        (pooled(Options::default()), 0, BODY),
    ] {
        let sides = altered_sizes(plain(), sizes, Refusal::None, Refusal::None);
        sides[1].borrow_mut().side.link.read_ahead(most);
        assert!(sides[0].borrow_mut().send(9) && sides[0].borrow_mut().lend(first));
        send_messages(&sides[0], 1);
        come(&sides);
        assert_eq!(reads(&sides[1]), 0, "{most} {first}");
        while sides[1].borrow().side.read < sides[0].borrow().side.sent {
            sides[1].borrow_mut().read(1 << 21, true);
            settle(&sides, false);
        }
        assert_eq!(sides[1].borrow().side.link.death(), None);
    }
}

#[test]
fn memory_that_cannot_be_registered_is_read_into_by_nobody() {
    let options = Options::default;
    let sides = altered_sizes(
        pooled(options()),
        pooled(options()),
        Refusal::None,
        Refusal::Read,
    );
    start(&sides);
    send_messages(&sides[0], 3);
    settle(&sides, false);
    assert!(!sides[1].borrow_mut().adopt(9));
    settle(&sides, true);
    assert_eq!(sides[1].borrow().side.read, sides[0].borrow().side.sent);
    assert_eq!(counts(&sides[1]).read_from_peer, 0);
}

/// Where a close, a death and an end find bodies that are READ ahead: under way, or there; and
/// adopted, or not. None is freed while the device is at it, and none is kept.
#[test]
fn an_end_at_each_point_frees_what_is_read_ahead_once_the_device_is_done() {
    for (answered, adopts) in [
        (0, false),
        (1, false),
        (3, false),
        (0, true),
        (1, true),
        (2, true),
    ] {
        for end in ["shut", "death", "drop"] {
            let sides = pooled_pair(Options::default(), Options::default());
            send_messages(&sides[0], 3);
            come(&sides);
            (0..answered).for_each(|_| _ = sides[0].borrow_mut().side.answer());
            let mut reader = sides[1].borrow_mut();
            reader.side.link.crank();
            if adopts {
                assert_eq!(reader.read(9, false), 9);
                assert!(reader.adopt(BODY));
            }
            let lane = reader.side.inward.clone();
            match end {
                "shut" => reader.side.link.shut(),
                "death" => {
                    lane.lock().unwrap().delivered.push_back(vec![0xff; 8]);
                    reader.side.link.crank();
                    assert!(reader.side.link.state().dead);
                    assert_eq!(
                        lane.lock().unwrap().reads.len(),
                        0,
                        "before memory is freed"
                    );
                }
                _ => {
                    drop(reader);
                    let [_, reader] = sides;
                    // The fake would write to what is freed.
                    drop(reader);
                    assert_eq!(lane.lock().unwrap().reads.len(), 0);
                    continue;
                }
            }
            drop(reader);
            if end == "shut" {
                settle(&sides, false);
                assert!(sides[1].borrow().side.link.state().finished);
                assert!(sides[0].borrow().bodies.is_empty());
            }
        }
    }
}
