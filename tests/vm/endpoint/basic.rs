// SPDX-License-Identifier: MPL-2.0
//! What a connection does when nothing goes wrong.

use std::net::SocketAddr;

use zmq_rdma::device::{verbs, Endpoint, Event, Kind, Remote};
use zmq_rdma::error::{AddressFault, Error};

use crate::pair::{accept, pattern, readable, wait, Lab, Side};

/// Private data of every length goes both ways; both ends know who they are.
pub fn handshake(lab: &Lab) {
    let mut listener = lab.listen();
    for len in [0usize, 1, 55, 56] {
        let (question, answer) = (pattern(1, len), pattern(2, len));
        let mut client = lab.dial(listener.local_addr(), &question);
        let mut server = accept(&mut *listener, Some(&mut client));
        let Event::Request(private) = server.next() else {
            panic!("no request")
        };
        // A device may pad it, and soft's has its mark.
        assert_eq!(private.0[..len], question);
        let rest = &private.0[len..];
        assert!(
            rest == b"SoftRDMA" || rest.iter().all(|byte| *byte == 0),
            "{rest:?}"
        );
        assert_eq!(server.endpoint.post_recvs(4), Ok(4));
        server.endpoint.accept(&answer).unwrap();
        let Event::Established(private) = client.next_while(&mut server) else {
            panic!("not established")
        };
        assert_eq!(private.0[..len], answer);
        client.send(b"first");
        assert!(matches!(server.next(), Event::Established(_)));
        lab.nudge(&mut client, &mut server);
        assert_eq!(server.receive().bytes(), b"first");
        who_is_who(lab, listener.local_addr(), &server, &client);
    }
    let long = vec![0; 57];
    let refused = match lab.client {
        Kind::Verbs => verbs::dial(listener.local_addr(), lab.source, &long, &lab.options),
        Kind::Soft => return,
    };
    assert!(matches!(refused.err(), Some(Error::Misuse(_))));
}

fn who_is_who(lab: &Lab, at: SocketAddr, server: &Side, client: &Side) {
    assert_eq!(client.endpoint.peer_addr(), at);
    assert_eq!(server.endpoint.local_addr().ip(), at.ip());
    assert_eq!(
        server.endpoint.peer_addr().ip(),
        client.endpoint.local_addr().ip()
    );
    if let Some(source) = lab.source {
        assert_eq!(client.endpoint.local_addr().ip(), source.ip());
    }
    for (side, kind) in [(server, lab.server), (client, lab.client)] {
        assert_eq!(side.endpoint.kind(), kind);
        let name = side.endpoint.device_name();
        match kind {
            Kind::Verbs => assert!(name.starts_with("rxe") || name.starts_with("siw"), "{name}"),
            Kind::Soft => assert_eq!(name, "soft"),
        }
        let caps = side.endpoint.caps();
        assert_eq!(caps.slot_size, lab.options.slot_size);
        assert_eq!(caps.recv_depth, lab.options.recv_depth);
        assert_eq!(caps.send_depth, lab.options.send_depth);
        assert!(caps.reads);
    }
}

/// A reason comes with the no.
pub fn reject(lab: &Lab) {
    let mut listener = lab.listen();
    for reason in [&b"another version"[..], &pattern(3, 56)] {
        let mut client = lab.dial(listener.local_addr(), b"hello");
        let mut server = accept(&mut *listener, Some(&mut client));
        assert!(matches!(server.next(), Event::Request(_)));
        server.endpoint.reject(reason).unwrap();
        match client.next_while(&mut server) {
            Event::Rejected(private) => assert_eq!(private.0[..reason.len()], *reason),
            other => panic!("{other:?}"),
        }
        assert!(client.turn().is_err());
        assert!(readable(client.endpoint.ready().fd));
        server.death();
        assert!(readable(server.endpoint.ready().fd));
    }
}

/// Nobody listens.
pub fn refused(lab: &Lab) {
    let at = lab.listen().local_addr();
    // Jobs are done in order: when this one listens, that one does no more.
    let _other = lab.listen();
    let mut client = lab.dial(at, b"hello");
    let why = client.try_next().expect_err("nobody listens");
    println!("lab: {why}");
    assert!(matches!(why, Error::Refused(_)), "{why:?}");
    assert!(readable(client.endpoint.ready().fd));
    assert!(client.endpoint.flush().is_err());
}

/// Addresses that cannot be bound say why.
pub fn in_use(lab: &Lab) {
    let listener = lab.listen();
    let again = lab.listen_at(listener.local_addr()).err();
    assert_eq!(again, Some(Error::Address(AddressFault::InUse)));
    let foreign = lab.listen_at("192.0.2.1:0".parse().unwrap()).err();
    println!("lab: a foreign address: {}", foreign.clone().unwrap());
    assert!(matches!(
        foreign,
        Some(Error::Address(
            AddressFault::NotLocal | AddressFault::NoDevice
        ))
    ));
    // The same port is free again at once.
    let at = listener.local_addr();
    drop(listener);
    assert!(lab.listen_at(at).is_ok());
}

/// SENDs of every size that matters arrive as they were, both ways.
pub fn sizes(lab: &Lab) {
    let (mut server, mut client) = lab.pair(8);
    let whole = lab.options.slot_size;
    let sizes = [
        0,
        1,
        7,
        8,
        64,
        79,
        80,
        81,
        191,
        192,
        193,
        1000,
        1023,
        1024,
        1025,
        4095,
        4096,
        4097,
        whole - 1,
        whole,
    ];
    for (i, len) in sizes.into_iter().filter(|len| *len <= whole).enumerate() {
        let bytes = pattern(i as u64, len);
        for forth in [true, false] {
            let (from, to) = if forth {
                (&mut client, &mut server)
            } else {
                (&mut server, &mut client)
            };
            from.send(&bytes);
            assert_eq!(to.receive().bytes(), bytes, "{len} bytes");
            assert_eq!(to.endpoint.post_recvs(1), Ok(1));
        }
    }
}

/// Many messages one way under a window of receives, each acknowledged by a
/// small one: nothing is lost, reordered or left uncounted.
pub fn stream(lab: &Lab) {
    let (mut server, mut client) = lab.pair(lab.options.recv_depth);
    let window = u64::from(lab.options.recv_depth) - 1;
    const MESSAGES: u64 = 3000;
    let base = client.sent;
    let (mut sent, mut granted, mut seen) = (0, window, 0);
    while seen < MESSAGES {
        let mut moved = false;
        while sent < MESSAGES && sent < granted {
            let Some(mut slot) = client.endpoint.reserve().unwrap() else {
                break;
            };
            let bytes = pattern(sent, 8 + (sent as usize * 37) % (lab.options.slot_size - 8));
            slot.write(0, &bytes);
            client.endpoint.post_send(slot, bytes.len()).unwrap();
            sent += 1;
            moved = true;
        }
        client.sent += u64::from(client.endpoint.flush().unwrap());
        client.turn().unwrap();
        while let Some(event) = client.events.pop_front() {
            let Event::Received(grant) = event else {
                panic!("{event:?}")
            };
            granted = u64::from_be_bytes(grant.bytes().try_into().unwrap());
            drop(grant);
            assert_eq!(client.endpoint.post_recvs(1), Ok(1));
            moved = true;
        }
        server.turn().unwrap();
        let mut got = 0;
        while let Some(event) = server.events.pop_front() {
            let Event::Received(filled) = event else {
                panic!("{event:?}")
            };
            assert!(
                filled.bytes() == pattern(seen, filled.bytes().len()),
                "message {seen}"
            );
            seen += 1;
            got += 1;
        }
        if got > 0 {
            assert_eq!(server.endpoint.post_recvs(got), Ok(got));
            server.send(&(seen + window).to_be_bytes());
            moved = true;
        }
        if !moved {
            wait(&[client.endpoint.ready(), server.endpoint.ready()]);
        }
    }
    // Every send is told complete, though nothing else happens any more.
    while client.sent - base < MESSAGES {
        client.endpoint.probe(std::time::Instant::now()).unwrap();
        client.turn().unwrap();
        if client.sent - base < MESSAGES {
            std::thread::yield_now();
        }
    }
    assert_eq!(client.sent - base, MESSAGES);
}

/// A full send queue gives no slot, and the descriptor tells when it does again.
pub fn window(lab: &Lab) {
    let mut lab = lab.clone();
    lab.options.send_depth = 8;
    let (mut server, mut client) = lab.pair(lab.options.recv_depth);
    let mut full = 0;
    for round in 0..200u64 {
        // Held back: nothing completes before `flush`.
        for i in 0..lab.options.send_depth {
            let mut slot = loop {
                match client.endpoint.reserve().unwrap() {
                    Some(slot) => break slot,
                    None => {
                        full += 1;
                        client.turn().unwrap();
                        wait(&[client.endpoint.ready()]);
                    }
                }
            };
            let bytes = pattern(round * 8 + u64::from(i), 1000);
            slot.write(0, &bytes);
            client.endpoint.post_send(slot, 1000).unwrap();
        }
        client.sent += u64::from(client.endpoint.flush().unwrap());
        for i in 0..lab.options.send_depth {
            let filled = server.receive();
            assert!(filled.bytes() == pattern(round * 8 + u64::from(i), 1000));
            drop(filled);
            assert_eq!(server.endpoint.post_recvs(1), Ok(1));
        }
    }
    println!("lab: the queue was full {full} times");
    // More than the depth is refused, and harms nobody.
    let slots: Vec<_> = std::iter::from_fn(|| client.endpoint.reserve().unwrap())
        .take(20)
        .collect();
    let mut last = Ok(());
    for slot in slots {
        last = client.endpoint.post_send(slot, 8);
        if last.is_err() {
            break;
        }
    }
    if lab.client == Kind::Verbs {
        assert!(matches!(last, Err(Error::Misuse(_))), "{last:?}");
    }
}

/// READs, more of them than the device takes at once, fill memory of ours.
pub fn read(lab: &Lab) {
    let (mut server, mut client) = lab.pair(8);
    const PIECE: usize = 64 * 1024;
    const PIECES: usize = 40;
    let source = pattern(9, PIECE * PIECES);
    let mut sink = vec![0u8; source.len()];
    // SAFETY: `source` outlives the endpoint's use of it.
    let remote = unsafe { server.endpoint.expose(source.as_ptr(), source.len()) }.unwrap();
    let mut done = [false; PIECES];
    for (i, piece) in sink.chunks_mut(PIECE).enumerate() {
        let from = Remote {
            addr: remote.addr + (i * PIECE) as u64,
            len: PIECE as u32,
            ..remote
        };
        // SAFETY: `sink` outlives the READs; nobody looks into it before they end.
        let posted = unsafe {
            client
                .endpoint
                .post_read(piece.as_mut_ptr(), from, i as u64)
        };
        posted.unwrap();
    }
    client.sent += u64::from(client.endpoint.flush().unwrap());
    while done.contains(&false) {
        match client.next_while(&mut server) {
            Event::ReadDone(token) => {
                assert!(!std::mem::replace(&mut done[token as usize], true));
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(sink == source);
    server.endpoint.hide(remote.key).unwrap();
    assert!(server.endpoint.hide(remote.key).is_err());
    // Messages still go.
    client.send(b"after");
    assert_eq!(server.receive().bytes(), b"after");
}

/// What is hidden cannot be read: the link dies, the memory stays untouched.
pub fn hidden(lab: &Lab) {
    let (mut server, mut client) = lab.pair(8);
    let source = pattern(9, 4096);
    let mut sink = vec![0u8; 4096];
    // SAFETY: `source` outlives the endpoint's use of it.
    let remote = unsafe { server.endpoint.expose(source.as_ptr(), 4096) }.unwrap();
    server.endpoint.hide(remote.key).unwrap();
    // SAFETY: `sink` outlives the endpoint's use of it.
    let posted = unsafe { client.endpoint.post_read(sink.as_mut_ptr(), remote, 1) };
    posted.unwrap();
    let _ = client.endpoint.flush();
    loop {
        let (a, b) = (client.turn(), server.turn());
        if let Err(why) = a {
            println!("lab: {why}");
            break;
        }
        if client
            .events
            .iter()
            .any(|e| matches!(e, Event::Disconnected))
        {
            break;
        }
        assert!(!client
            .events
            .iter()
            .any(|e| matches!(e, Event::ReadDone(_))));
        if b.is_ok() {
            wait(&[client.endpoint.ready(), server.endpoint.ready()]);
        } else {
            wait(&[client.endpoint.ready()]);
        }
    }
    drop((client, server));
    assert_eq!(sink, [0; 4096]);
}

/// A good parting: all that was sent arrives before it, on both sides it is told.
pub fn part(lab: &Lab) {
    for held in [false, true] {
        let (mut server, mut client) = lab.pair(lab.options.recv_depth);
        for i in 0..6 {
            if held {
                let mut slot = client.endpoint.reserve().unwrap().unwrap();
                slot.write(0, &pattern(i, 3000));
                client.endpoint.post_send(slot, 3000).unwrap();
            } else {
                client.send(&pattern(i, 3000));
            }
        }
        client.endpoint.disconnect().unwrap();
        for i in 0..6 {
            match server.next_while(&mut client) {
                Event::Received(filled) => assert!(filled.bytes() == pattern(i, 3000)),
                other => panic!("{other:?} before message {i}"),
            }
        }
        assert!(matches!(
            server.next_while(&mut client),
            Event::Disconnected
        ));
        // Our own side is done when the peer's is.
        let _ = server.endpoint.disconnect();
        assert!(matches!(client.next(), Event::Disconnected));
        for side in [&mut server, &mut client] {
            assert!(readable(side.endpoint.ready().fd));
            assert!(side.turn().is_err());
            assert!(side.endpoint.reserve().is_err());
            assert!(side.endpoint.post_recvs(1).is_err());
            assert!(side.endpoint.flush().is_err());
        }
    }
}

/// Dropping one end ends the other; what had arrived is still delivered.
pub fn dropped(lab: &Lab) {
    let (mut server, mut client) = lab.pair(8);
    client.send(b"last words");
    assert_eq!(server.receive().bytes(), b"last words");
    drop(client);
    let why = server.death();
    println!("lab: {why}");
    assert!(matches!(why, Error::Closed | Error::Reset(_)));
    // A dial that nobody answers yet can be dropped too, and so can a request.
    // (A TCP connection without an MPA request corrupts siw's list of listeners
    // in Linux 6.1: no soft client then.)
    if lab.client == Kind::Verbs {
        let listener = lab.listen();
        drop(lab.dial(listener.local_addr(), b"hello"));
    }
    let mut listener = lab.listen();
    let mut client = lab.dial(listener.local_addr(), b"hello");
    drop(accept(&mut *listener, Some(&mut client)));
    client.death();
}

/// The device's attributes are as the design says.
pub fn attributes(lab: &Lab) {
    lab.verbs_only();
    let mut listener = lab.listen();
    let at = listener.local_addr();
    let mut client = verbs::open(at, lab.source, b"hello", &lab.options).unwrap();
    let mut server = None;
    client.post_recvs(4).unwrap();
    let mut events = Vec::new();
    loop {
        client.poll(&mut events).unwrap();
        if events.iter().any(|e| matches!(e, Event::Established(_))) {
            break;
        }
        if server.is_none() {
            if let Ok(endpoint) = listener.accept() {
                let mut side = Side::new(endpoint);
                assert!(matches!(side.next(), Event::Request(_)));
                side.endpoint.post_recvs(4).unwrap();
                side.endpoint.accept(b"welcome").unwrap();
                server = Some(side);
            }
        }
        wait(&[client.ready(), listener.ready()]);
    }
    let attributes = client.attributes().unwrap();
    println!("lab: {attributes:?}");
    if client.device_name().starts_with("rxe") {
        assert_eq!((attributes.timeout, attributes.retry), (16, 6));
        assert_eq!((attributes.rnr_retry, attributes.min_rnr_timer), (6, 12));
        assert_eq!(attributes.mtu, 4096);
    }
}

/// A listener without an address takes those who come to any.
pub fn wildcard(lab: &Lab) {
    let any = if lab.addr.is_ipv4() {
        "0.0.0.0:0"
    } else {
        "[::]:0"
    };
    let mut listener = lab.listen_at(any.parse().unwrap()).unwrap();
    let port = listener.local_addr().port();
    assert_ne!(port, 0);
    let mut client = lab.dial(SocketAddr::new(lab.addr.ip(), port), b"hello");
    let server = lab.welcome(&mut *listener, &mut client, 8);
    assert_eq!(server.endpoint.local_addr().ip(), lab.addr.ip());
}
