// SPDX-License-Identifier: MPL-2.0
//! SENDs: sizes, order, back-pressure, and the end.

use std::collections::VecDeque;

use super::*;

#[test]
fn every_size_from_nothing_to_a_slot() {
    let o = Options::default();
    let (mut initiator, mut acceptor) = pair(&o);
    let sizes = (0..80).chain([2020, 2047, 2048, 2049, 4095, 8191, o.slot_size]);
    for len in sizes {
        let bytes = pattern(len, len);
        initiator.send(&bytes);
        assert_eq!(acceptor.received(), bytes);
        acceptor.endpoint.post_recvs(1).unwrap();
        acceptor.send(&bytes);
        assert_eq!(initiator.received(), bytes);
        initiator.endpoint.post_recvs(1).unwrap();
    }
    assert_eq!(initiator.sent, acceptor.sent);
}

#[test]
fn the_acceptor_is_silent_until_it_has_heard_the_initiator() {
    let (mut initiator, mut acceptor) = pair(&Options::default());
    acceptor.send(b"early");
    assert_eq!(acceptor.sent, 0);
    assert!(!readable(initiator.endpoint.ready().fd));
    assert!(!acceptor.endpoint.ready().write);
    initiator.send(b"hello");
    assert_eq!(acceptor.received(), b"hello");
    assert_eq!(acceptor.sent, 1);
    assert_eq!(initiator.received(), b"early");
}

/// One direction of a flood: what was sent and not yet received.
struct Flood {
    next: usize,
    total: usize,
    expected: VecDeque<(usize, usize)>,
    got: usize,
    credit: usize,
}

impl Flood {
    fn new(total: usize, credit: usize) -> Flood {
        Flood {
            next: 0,
            total,
            expected: VecDeque::new(),
            got: 0,
            credit,
        }
    }

    fn push(&mut self, peer: &mut Peer, sizes: &[usize]) {
        while self.next < self.total && self.credit > 0 {
            let len = sizes[self.next % sizes.len()];
            if !peer.post(&pattern(self.next, len)) {
                break;
            }
            self.expected.push_back((self.next, len));
            self.next += 1;
            self.credit -= 1;
        }
        peer.flush();
    }

    fn pull(&mut self, peer: &mut Peer) {
        let mut n = 0;
        for event in peer.events.drain(..) {
            let Event::Received(filled) = event else {
                panic!("{event:?} in a flood");
            };
            let (seed, len) = self.expected.pop_front().expect("a SEND nobody sent");
            assert_eq!(filled.bytes(), pattern(seed, len), "SEND {seed}");
            n += 1;
        }
        self.got += n;
        self.credit += n;
        assert_eq!(usize::from(peer.endpoint.post_recvs(n as u16).unwrap()), n);
    }
}

fn flood(o: &Options, total: usize, sizes: &[usize]) {
    let (mut a, mut b) = pair(o);
    let window = usize::from(o.recv_depth);
    let (mut there, mut back) = (Flood::new(total, window), Flood::new(total, window));
    there.push(&mut a, sizes);
    while there.got < total || back.got < total {
        turn(&mut [&mut a, &mut b]);
        assert_eq!((&a.error, &b.error), (&None, &None));
        there.pull(&mut b);
        back.pull(&mut a);
        there.push(&mut a, sizes);
        back.push(&mut b, sizes);
    }
    // The last counts may still be owed.
    a.flush();
    b.flush();
    assert_eq!((a.sent, b.sent), (total, total));
}

#[test]
fn thousands_both_ways_through_tiny_buffers() {
    // Not a smaller receive buffer: below the loopback's segment size the
    // kernel itself waits for its window timer every few KiB.
    let o = Options {
        sndbuf: Some(1),
        rcvbuf: Some(8192),
        ..Options::default()
    };
    flood(&o, 3000, &[0, 8200, 1, 17, 5000, 2048, 100, 8192]);
}

#[test]
fn thousands_both_ways_through_roomy_buffers() {
    flood(
        &Options::default(),
        20_000,
        &[8200, 3, 8192, 8192, 600, 4096],
    );
}

#[test]
fn small_slots_and_shallow_queues() {
    let o = Options {
        slot_size: 64,
        recv_depth: 2,
        send_depth: 1,
        ..Options::default()
    };
    flood(&o, 500, &[64, 0, 1, 63]);
}

#[test]
fn a_send_of_many_segments() {
    let o = Options {
        slot_size: 100_000,
        ..Options::default()
    };
    // Longer than the longest FPDU, so cut in two at least.
    flood(&o, 300, &[100_000, 65_535, 65_500, 1, 99_999]);
}

#[test]
fn a_send_of_two_pieces_is_one_message() {
    let tiny = Options {
        sndbuf: Some(1),
        rcvbuf: Some(8192),
        ..Options::default()
    };
    // One whose slots are longer than any FPDU: there it is copied and cut.
    let long = Options {
        slot_size: 100_000,
        ..Options::default()
    };
    for o in [Options::default(), tiny, long] {
        let most = o.slot_size;
        let (mut a, mut b) = pair(&o);
        for (head, body) in [(0, 0), (8, 0), (0, 9), (8, 1), (8, 8192), (8, most - 8)] {
            let message = pattern(head + body, head + body);
            let mut slot = a.endpoint.reserve().unwrap().unwrap();
            slot.write(0, &message[..head]);
            let rest = &message[head..];
            // SAFETY: `message` lives until the send has been received.
            unsafe { a.endpoint.post_gather(slot, head, rest.as_ptr(), body) }.unwrap();
            a.flush();
            while b.events.is_empty() {
                turn(&mut [&mut a, &mut b]);
                assert_eq!((&a.error, &b.error), (&None, &None));
            }
            assert_eq!(b.received(), message);
            b.endpoint.post_recvs(1).unwrap();
        }
        let slot = a.endpoint.reserve().unwrap().unwrap();
        // SAFETY: refused, for it is too long by one.
        let refused = unsafe { a.endpoint.post_gather(slot, 8, [0].as_ptr(), most - 7) };
        assert!(matches!(refused, Err(Error::Misuse(_))));
    }
}

#[test]
fn sends_beyond_the_depth_wait_for_the_peer_to_read() {
    let o = Options {
        sndbuf: Some(1),
        rcvbuf: Some(8192),
        send_depth: 8,
        ..Options::default()
    };
    let (mut initiator, mut acceptor) = pair(&o);
    let bytes = pattern(1, o.slot_size);
    let mut posted = 0;
    while initiator.post(&bytes) {
        posted += 1;
        initiator.flush();
        assert!(posted <= usize::from(o.recv_depth), "nothing pushes back");
    }
    assert_eq!(posted - initiator.sent, usize::from(o.send_depth));
    assert!(initiator.endpoint.ready().write);
    let mut got = 0;
    while got < posted {
        turn(&mut [&mut initiator, &mut acceptor]);
        for event in acceptor.events.drain(..) {
            assert!(matches!(event, Event::Received(f) if f.bytes() == bytes));
            got += 1;
        }
    }
    initiator.flush();
    assert_eq!(initiator.sent, posted);
    assert!(!initiator.endpoint.ready().write);
    assert!(initiator.post(&bytes));
}

#[test]
fn misuse_has_no_effect() {
    let o = Options {
        send_depth: 2,
        ..Options::default()
    };
    let (mut initiator, mut acceptor) = pair(&o);
    let slot = initiator.endpoint.reserve().unwrap().unwrap();
    let long = initiator.endpoint.post_send(slot, o.slot_size + 1);
    assert!(matches!(long, Err(Error::Misuse(_))));
    let slots: Vec<_> = (0..3)
        .map(|_| initiator.endpoint.reserve().unwrap().unwrap())
        .collect();
    let posted: Vec<bool> = slots
        .into_iter()
        .map(|slot| initiator.endpoint.post_send(slot, 1).is_ok())
        .collect();
    assert_eq!(posted, [true, true, false]);
    greet_after(&mut initiator, &mut acceptor);
}

fn greet_after(initiator: &mut Peer, acceptor: &mut Peer) {
    initiator.flush();
    acceptor.received();
    acceptor.received();
    greet(initiator, acceptor);
}

#[test]
fn an_orderly_end_comes_after_everything_sent() {
    let (mut initiator, mut acceptor) = pair(&Options::default());
    for n in 0..30 {
        assert!(initiator.post(&pattern(n, 8000)));
    }
    initiator.endpoint.disconnect().unwrap();
    for n in 0..30 {
        assert_eq!(acceptor.received(), pattern(n, 8000));
    }
    assert!(matches!(acceptor.next(), Ok(Event::Disconnected)));
    assert_eq!(acceptor.next().err(), Some(Error::Closed));
    drop(acceptor);
    assert!(matches!(initiator.next(), Ok(Event::Disconnected)));
}

#[test]
fn disconnect_waits_for_a_slow_reader() {
    let o = Options {
        sndbuf: Some(1),
        rcvbuf: Some(8192),
        ..Options::default()
    };
    let (mut initiator, mut acceptor) = pair(&o);
    for n in 0..32 {
        assert!(initiator.post(&pattern(n, 8200)));
    }
    initiator.endpoint.disconnect().unwrap();
    assert!(initiator.sent < 32);
    while !matches!(acceptor.events.last(), Some(Event::Disconnected)) {
        turn(&mut [&mut initiator, &mut acceptor]);
        assert_eq!(acceptor.error, None);
    }
    assert_eq!(acceptor.events.len(), 33);
    assert_eq!(initiator.sent, 32);
    let refused = initiator.endpoint.reserve().unwrap().unwrap();
    let refused = initiator.endpoint.post_send(refused, 1);
    assert!(matches!(refused, Err(Error::Misuse(_))));
}

#[test]
fn a_dropped_peer_is_an_end_too() {
    let (mut initiator, mut acceptor) = pair(&Options::default());
    greet(&mut initiator, &mut acceptor);
    drop(initiator);
    assert!(matches!(acceptor.next(), Ok(Event::Disconnected)));
    assert!(acceptor.endpoint.reserve().is_err());
    assert!(acceptor.endpoint.flush().is_err());
    assert!(acceptor.endpoint.post_recvs(1).is_err());
}

#[test]
fn what_a_peer_sent_before_it_died_is_still_received() {
    let (mut initiator, mut acceptor) = pair(&Options::default());
    greet(&mut initiator, &mut acceptor);
    // Unread bytes of ours make its kernel answer its death with a reset.
    acceptor.send(b"never read");
    for n in 0..5 {
        initiator.send(&pattern(n, 3000));
    }
    drop(initiator);
    // Sending into the reset must not lose what came before it.
    acceptor.post(b"too late");
    let _ = acceptor.endpoint.flush();
    for n in 0..5 {
        assert_eq!(acceptor.received(), pattern(n, 3000));
    }
    assert!(matches!(acceptor.next(), Err(Error::Reset(_))));
}
