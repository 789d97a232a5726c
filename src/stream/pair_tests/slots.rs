// SPDX-License-Identifier: MPL-2.0
//! A device that is short of send slots, and tells of finished sends in `flush`.

use super::*;

/// A pair that stands; a's device has two send slots and tells of finished sends
/// only when flushed. Both slots are taken, and one more was asked for.
fn short_of_slots() -> (RefCell<Side>, RefCell<Side>) {
    let (a, b) = pair_of(Options::default(), Options::default(), |fake| {
        fake.slots = 2;
        fake.flush_completes = true;
    });
    let (a, b) = (RefCell::new(a), RefCell::new(b));
    // Credit is not what is short.
    for _ in 0..20 {
        a.borrow_mut().send(100);
        settle([&a, &b], true);
    }
    assert!(a.borrow_mut().send(100));
    assert!(a.borrow_mut().send(100));
    assert!(!a.borrow_mut().send(100), "no slot is left");
    assert!(!a.borrow().link.state().writable);
    (a, b)
}

#[test]
fn a_flush_that_frees_slots_makes_the_link_writable() {
    let (a, b) = short_of_slots();
    while a.borrow_mut().deliver() {}
    a.borrow_mut().link.flush();
    assert!(a.borrow().link.state().writable);
    assert!(a.borrow_mut().send(100));
    settle([&a, &b], true);
    assert_eq!(b.borrow().read, a.borrow().sent);
}

#[test]
fn a_control_frame_that_found_no_slot_goes_when_a_flush_frees_one() {
    let (a, b) = short_of_slots();
    a.borrow_mut().link.shut();
    while a.borrow_mut().deliver() {}
    a.borrow_mut().link.flush();
    assert!(a.borrow_mut().deliver(), "FIN");
    b.borrow_mut().link.crank();
    assert!(b.borrow().link.state().peer_shut);
}
