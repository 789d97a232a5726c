// SPDX-License-Identifier: MPL-2.0
//! READ and WRITE, and what becomes of a peer that asks for too much.

use super::*;
use crate::device::Remote;

/// Let the peer READ `bytes`, which outlive the endpoint or are hidden.
fn expose(peer: &mut Peer, bytes: &[u8]) -> Remote {
    // SAFETY: each test keeps what it exposes until its endpoints are gone.
    unsafe { peer.endpoint.expose(bytes.as_ptr(), bytes.len()) }.unwrap()
}

/// READ into `sink`, which outlives the endpoint and is not looked at before `ReadDone`.
fn read(peer: &mut Peer, sink: &mut [u8], from: Remote, token: u64) {
    assert_eq!(sink.len(), from.len as usize);
    // SAFETY: each test keeps its sinks until its endpoints are gone.
    unsafe { peer.endpoint.post_read(sink.as_mut_ptr(), from, token) }.unwrap();
}

fn expose_to_write(peer: &mut Peer, bytes: &mut [u8]) -> Remote {
    // SAFETY: each test keeps what it exposes until its endpoints are gone.
    unsafe {
        peer.endpoint
            .expose_to_write(bytes.as_mut_ptr(), bytes.len())
    }
    .unwrap()
}

fn write(peer: &mut Peer, bytes: &[u8], to: Remote) {
    assert_eq!(bytes.len(), to.len as usize);
    // SAFETY: each test keeps its bytes until its endpoints are gone.
    unsafe { peer.endpoint.post_write(bytes.as_ptr(), to) }.unwrap();
}

fn read_done(reader: &mut Peer, owner: &mut Peer, token: u64) {
    while reader.events.is_empty() {
        turn(&mut [&mut *reader, &mut *owner]);
        assert_eq!((&reader.error, &owner.error), (&None, &None));
    }
    assert!(matches!(reader.next(), Ok(Event::ReadDone(t)) if t == token));
}

/// Both ends after the peer's fault: who was offended, and who is told.
fn terminated(offender: &mut Peer, offended: &mut Peer) -> String {
    while offender.error.is_none() || offended.error.is_none() {
        turn(&mut [&mut *offender, &mut *offended]);
    }
    assert!(matches!(offended.error, Some(Error::Malformed(_))));
    match &offender.error {
        Some(Error::Reset(why)) => why.clone(),
        other => panic!("{other:?} instead of the peer's TERMINATE"),
    }
}

fn roomy() -> Options {
    Options::default()
}

fn tiny() -> Options {
    Options {
        sndbuf: Some(1),
        rcvbuf: Some(8192),
        ..Options::default()
    }
}

#[test]
fn reads_of_every_size_both_ways() {
    for o in [roomy(), tiny()] {
        let sizes = [0, 1, 3, 4095, 4096, 65_000, 65_536, 300_001, 1 << 20];
        let source = pattern(3, 1 << 20);
        let mut sink = vec![0; 1 << 20];
        let (mut a, mut b) = pair(&o);
        greet(&mut a, &mut b);
        for (token, &len) in sizes.iter().enumerate() {
            let remote = expose(&mut b, &source[..len]);
            read(&mut a, &mut sink[..len], remote, token as u64);
            a.flush();
            read_done(&mut a, &mut b, token as u64);
            assert_eq!(sink[..len], source[..len]);
            b.endpoint.hide(remote.key).unwrap();
            sink.fill(0);
            let remote = expose(&mut a, &source[..len]);
            read(&mut b, &mut sink[..len], remote, token as u64);
            b.flush();
            read_done(&mut b, &mut a, token as u64);
            assert_eq!(sink[..len], source[..len]);
            a.endpoint.hide(remote.key).unwrap();
            sink.fill(0);
        }
    }
}

#[test]
fn a_read_of_sixteen_mebibytes() {
    let source = pattern(5, 16 << 20);
    let mut sink = vec![0; 16 << 20];
    let (mut a, mut b) = pair(&roomy());
    let remote = expose(&mut b, &source);
    read(&mut a, &mut sink, remote, 9);
    a.flush();
    read_done(&mut a, &mut b, 9);
    assert!(sink == source);
}

#[test]
fn a_part_of_what_is_exposed() {
    let source = pattern(1, 1000);
    let mut sink = [0; 100];
    let (mut a, mut b) = pair(&roomy());
    let remote = expose(&mut b, &source);
    let part = Remote {
        addr: remote.addr + 300,
        len: 100,
        ..remote
    };
    read(&mut a, &mut sink, part, 0);
    a.flush();
    read_done(&mut a, &mut b, 0);
    assert_eq!(sink, source[300..400]);
}

#[test]
fn more_reads_than_may_be_open_and_sends_between_them() {
    const N: usize = 100;
    const LEN: usize = 20_000;
    let source: Vec<Vec<u8>> = (0..N).map(|n| pattern(n, LEN)).collect();
    let mut sinks = vec![vec![0; LEN]; N];
    let o = roomy();
    let (mut a, mut b) = pair(&o);
    for n in 0..N {
        let remote = expose(&mut b, &source[n]);
        read(&mut a, &mut sinks[n], remote, n as u64);
        if n % 10 == 0 {
            assert!(a.post(&pattern(n, 5000)));
        }
    }
    a.flush();
    let mut tokens = Vec::new();
    let mut sends = 0;
    while tokens.len() < N || sends < N / 10 {
        turn(&mut [&mut a, &mut b]);
        assert_eq!((&a.error, &b.error), (&None, &None));
        for event in a.events.drain(..) {
            match event {
                Event::ReadDone(token) => tokens.push(token as usize),
                other => panic!("{other:?}"),
            }
        }
        for event in b.events.drain(..) {
            match event {
                Event::Received(f) => assert_eq!(f.bytes(), pattern(sends * 10, 5000)),
                other => panic!("{other:?}"),
            }
            sends += 1;
        }
    }
    assert_eq!(tokens, (0..N).collect::<Vec<_>>());
    assert!(sinks == source);
}

#[test]
fn what_an_answer_is_cut_from_is_not_taken_away() {
    let o = Options {
        sndbuf: Some(1),
        rcvbuf: Some(8192),
        ..Options::default()
    };
    let source = pattern(1, 1 << 20);
    let mut sink = vec![0; 1 << 20];
    let mut late = vec![0; 1 << 20];
    let (mut a, mut b) = pair(&o);
    let remote = expose(&mut b, &source);
    read(&mut a, &mut sink, remote, 1);
    a.flush();
    // The request is in, the answer cannot be out.
    while !b.endpoint.ready().write {
        turn(&mut [&mut b]);
    }
    assert_eq!(b.endpoint.hide(remote.key), Err(Error::Again));
    read_done(&mut a, &mut b, 1);
    assert!(sink == source);
    while b.endpoint.ready().write {
        turn(&mut [&mut b]);
    }
    assert_eq!(b.endpoint.hide(remote.key), Ok(()));
    assert!(matches!(b.endpoint.hide(remote.key), Err(Error::Misuse(_))));
    read(&mut a, &mut late, remote, 2);
    a.flush();
    let why = terminated(&mut a, &mut b);
    assert!(why.contains("invalid stag"), "{why}");
}

#[test]
fn what_is_being_taken_away_begins_no_new_answer() {
    let source = pattern(1, 1 << 20);
    let mut sinks = vec![vec![0; 1 << 20]; 2];
    let (mut a, mut b) = pair(&tiny());
    let remote = expose(&mut b, &source);
    read(&mut a, &mut sinks[0], remote, 1);
    a.flush();
    while !b.endpoint.ready().write {
        turn(&mut [&mut b]);
    }
    assert_eq!(b.endpoint.hide(remote.key), Err(Error::Again));
    read(&mut a, &mut sinks[1], remote, 2);
    a.flush();
    while b.error.is_none() {
        turn(&mut [&mut a, &mut b]);
    }
    assert!(matches!(b.error, Some(Error::Malformed(_))));
    assert!(sinks[1].iter().all(|&byte| byte == 0));
}

#[test]
fn reads_outside_of_what_is_exposed_end_the_connection() {
    let source = pattern(1, 1000);
    let outside = |remote: Remote| {
        [
            (
                "invalid stag",
                Remote {
                    key: remote.key ^ 1,
                    ..remote
                },
            ),
            (
                "bounds",
                Remote {
                    len: 1001,
                    ..remote
                },
            ),
            (
                "bounds",
                Remote {
                    addr: remote.addr + 1,
                    ..remote
                },
            ),
            (
                "wraps",
                Remote {
                    addr: u64::MAX - 10,
                    ..remote
                },
            ),
        ]
    };
    for n in 0..4 {
        let mut sink = vec![0; 1001];
        let (mut a, mut b) = pair(&roomy());
        greet(&mut a, &mut b);
        let (name, remote) = outside(expose(&mut b, &source))[n];
        read(&mut a, &mut sink[..remote.len as usize], remote, 0);
        a.flush();
        let why = terminated(&mut a, &mut b);
        assert!(why.contains(name), "{why} for {name}");
        assert!(sink.iter().all(|&byte| byte == 0));
    }
}

#[test]
fn writes_of_every_size() {
    for o in [roomy(), tiny()] {
        let sizes = [0, 1, 4096, 65_536, 300_001];
        let source = pattern(4, 300_001);
        let mut target = vec![0; 300_001];
        let (mut a, mut b) = pair(&o);
        let whole = expose_to_write(&mut b, &mut target);
        for len in sizes {
            let part = Remote {
                len: len as u32,
                ..whole
            };
            write(&mut a, &source[..len], part);
            assert!(a.post(b"written"));
            a.flush();
            while b.events.is_empty() {
                turn(&mut [&mut a, &mut b]);
                assert_eq!((&a.error, &b.error), (&None, &None));
            }
            assert_eq!(b.received(), b"written");
        }
        a.flush();
        assert_eq!(a.sent, 2 * sizes.len());
        b.endpoint.hide(whole.key).unwrap();
        assert!(target == source);
    }
}

#[test]
fn rights_are_kept_apart() {
    let source = pattern(1, 100);
    let mut target = vec![0; 100];
    let mut sink = vec![0; 100];
    let other = pattern(2, 100);
    let (mut a, mut b) = pair(&roomy());
    let readable = expose(&mut b, &source);
    write(&mut a, &other, readable);
    a.flush();
    let why = terminated(&mut a, &mut b);
    assert!(why.contains("access"), "{why}");
    assert_eq!(source, pattern(1, 100));

    let (mut a, mut b) = pair(&roomy());
    let writable = expose_to_write(&mut b, &mut target);
    read(&mut a, &mut sink, writable, 0);
    a.flush();
    let why = terminated(&mut a, &mut b);
    assert!(why.contains("access"), "{why}");
}

#[test]
fn writes_outside_of_what_is_exposed_touch_nothing() {
    for (addr, len) in [(1, 100), (0, 101), (u64::MAX - 5, 100)] {
        let mut memory = [0; 200];
        let source = pattern(1, 101);
        let (mut a, mut b) = pair(&roomy());
        let remote = expose_to_write(&mut b, &mut memory[..100]);
        let remote = Remote {
            addr: remote.addr.wrapping_add(addr),
            len,
            ..remote
        };
        write(&mut a, &source[..len as usize], remote);
        a.flush();
        terminated(&mut a, &mut b);
        assert!(memory.iter().all(|&byte| byte == 0));
    }
}

#[test]
fn one_connection_s_tags_mean_nothing_to_another() {
    let source = pattern(1, 100);
    let mut sink = vec![0; 100];
    let (_a, mut b) = pair(&roomy());
    let (mut c, mut d) = pair(&roomy());
    let remote = expose(&mut b, &source);
    read(&mut c, &mut sink, remote, 0);
    c.flush();
    let why = terminated(&mut c, &mut d);
    assert!(why.contains("stag"), "{why}");
}
