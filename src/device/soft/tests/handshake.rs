// SPDX-License-Identifier: MPL-2.0
//! How connections come about, or do not.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::super::setup;
use super::*;
use crate::device::{self, Kind};
use crate::error::AddressFault;
use crate::proto::mpa::negotiate::Wishes;
use crate::wire::mpa::Revision;

#[test]
fn both_sides_learn_of_each_other() {
    let o = Options::default();
    let (initiator, acceptor) = pair(&o);
    assert_eq!(
        initiator.endpoint.peer_addr(),
        acceptor.endpoint.local_addr()
    );
    assert_eq!(
        initiator.endpoint.local_addr(),
        acceptor.endpoint.peer_addr()
    );
    assert_eq!(initiator.endpoint.kind(), Kind::Soft);
    assert_eq!(initiator.endpoint.device_name(), "soft");
    let caps = acceptor.endpoint.caps();
    assert!(caps.reads && caps.detects_idle_death);
    assert_eq!(caps.slot_size, o.slot_size);
    assert!(!initiator.endpoint.ready().write);
    assert!(!acceptor.endpoint.ready().write);
}

#[test]
fn the_first_revision_of_mpa_is_spoken_too() {
    let o = Options::default();
    let mut listener = listener(&o);
    let wishes = Wishes {
        revision: Revision::One,
        ..setup::wishes(&o)
    };
    let dialed = Endpoint::dial_with(listener.local_addr(), None, b"ask", &o, wishes).unwrap();
    let (mut initiator, mut acceptor) = stand(dialed, &mut listener, &o);
    greet(&mut initiator, &mut acceptor);
}

#[test]
fn crc_is_used_when_either_side_asks_for_it_and_else_not() {
    for (ours, theirs) in [(true, false), (false, true), (false, false)] {
        let o = Options {
            crc: ours,
            ..Options::default()
        };
        let mut listener = listener(&o);
        let other = Options { crc: theirs, ..o };
        let dialed = Endpoint::dial(listener.local_addr(), None, b"ask", &other).unwrap();
        let (mut initiator, mut acceptor) = stand(dialed, &mut listener, &other);
        greet(&mut initiator, &mut acceptor);
    }
}

#[test]
fn a_refusal_carries_its_reason_and_both_ends_end() {
    let o = Options::default();
    let mut listener = listener(&o);
    let dialed = Endpoint::dial(listener.local_addr(), None, &[7; 56], &o).unwrap();
    let mut initiator = Peer::new(dialed);
    let mut acceptor = accept(&mut listener);
    while acceptor.events.is_empty() {
        turn(&mut [&mut initiator, &mut acceptor]);
    }
    assert_eq!(asked(&mut acceptor).0, [7; 56]);
    acceptor.endpoint.reject(b"no").unwrap();
    assert!(matches!(initiator.next(), Ok(Event::Rejected(why)) if why.0 == b"no"));
    assert!(matches!(
        initiator.endpoint.poll(&mut Vec::new()),
        Err(Error::Refused(_))
    ));
    assert!(readable(initiator.endpoint.ready().fd));
    drop(initiator);
    assert!(matches!(acceptor.next(), Ok(Event::Disconnected)));
    assert_eq!(acceptor.endpoint.poll(&mut Vec::new()), Err(Error::Closed));
}

#[test]
fn row_38_private_data_has_a_limit_on_every_device() {
    let o = Options::default();
    let mut listener = listener(&o);
    let to = listener.local_addr();
    assert!(matches!(
        Endpoint::dial(to, None, &[0; 57], &o),
        Err(Error::Misuse(_))
    ));
    let mut initiator = Peer::new(Endpoint::dial(to, None, b"", &o).unwrap());
    let mut acceptor = accept(&mut listener);
    while acceptor.events.is_empty() {
        turn(&mut [&mut initiator, &mut acceptor]);
    }
    assert!(matches!(
        acceptor.endpoint.accept(&[0; 57]),
        Err(Error::Misuse(_))
    ));
    acceptor.endpoint.accept(&[0; 56]).unwrap();
    assert!(matches!(
        acceptor.endpoint.accept(&[0; 56]),
        Err(Error::Misuse(_))
    ));
}

#[test]
fn nobody_there_is_refused_and_says_so_on_the_descriptor() {
    let o = Options::default();
    let free = listener(&o).local_addr();
    let mut peer = Peer::new(Endpoint::dial(free, None, b"", &o).unwrap());
    assert!(matches!(peer.next(), Err(Error::Refused(_))));
}

#[test]
fn no_route_is_unreachable() {
    let o = Options::default();
    // A loopback source cannot reach this documentation address.
    let to = "192.0.2.1:9".parse().unwrap();
    let source = "127.0.0.1:0".parse().unwrap();
    let mut peer = Peer::new(Endpoint::dial(to, Some(source), b"", &o).unwrap());
    match peer.next() {
        Err(Error::Unreachable(_) | Error::Device { .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_cannot_be_bound_says_why() {
    let o = Options::default();
    let first = listener(&o);
    let fault = |addr: SocketAddr, o: &Options| match Listener::new(addr, o) {
        Err(Error::Address(fault)) => fault,
        other => panic!("{:?}", other.map(|l| l.local_addr())),
    };
    assert_eq!(fault(first.local_addr(), &o), AddressFault::InUse);
    let foreign = "192.0.2.1:0".parse().unwrap();
    assert_eq!(fault(foreign, &o), AddressFault::NotLocal);
    let nowhere = Options {
        interface: Some("no-such-if".into()),
        ..Options::default()
    };
    let bound = fault(loopback(), &nowhere);
    // Who may not bind to a device at all is told that first.
    assert!(matches!(
        bound,
        AddressFault::NoDevice | AddressFault::Denied
    ));
    let refused = Endpoint::dial(first.local_addr(), Some(foreign), b"", &o);
    assert!(matches!(
        refused,
        Err(Error::Address(AddressFault::NotLocal))
    ));
}

#[test]
fn an_address_is_free_as_soon_as_its_listener_is_gone() {
    let o = Options::default();
    let mut first = listener(&o);
    let addr = first.local_addr();
    let dialed = Endpoint::dial(addr, None, b"ask", &o).unwrap();
    // The acceptor closes first, so the address is in TIME_WAIT.
    let (initiator, acceptor) = stand(dialed, &mut first, &o);
    drop(acceptor);
    drop(first);
    drop(initiator);
    Listener::new(addr, &o).unwrap();
}

#[test]
fn a_source_address_is_used() {
    let o = Options::default();
    let mut listener = listener(&o);
    let source: SocketAddr = "127.0.0.5:0".parse().unwrap();
    let dialed = Endpoint::dial(listener.local_addr(), Some(source), b"ask", &o).unwrap();
    let (initiator, acceptor) = stand(dialed, &mut listener, &o);
    assert_eq!(initiator.endpoint.local_addr().ip(), source.ip());
    assert_eq!(
        acceptor.endpoint.peer_addr(),
        initiator.endpoint.local_addr()
    );
}

#[test]
fn ipv6_and_a_wildcard_that_takes_both() {
    let any: SocketAddr = "[::]:0".parse().unwrap();
    for dual_stack in [true, false] {
        let o = Options {
            dual_stack,
            tos: 0x10,
            priority: Some(1),
            ..Options::default()
        };
        let Ok(mut listener) = Listener::new(any, &o) else {
            eprintln!("skipped: no IPv6 here");
            return;
        };
        let port = listener.local_addr().port();
        let v6 = format!("[::1]:{port}").parse().unwrap();
        let dialed = Endpoint::dial(v6, None, b"ask", &o).unwrap();
        let (mut initiator, mut acceptor) = stand(dialed, &mut listener, &o);
        greet(&mut initiator, &mut acceptor);
        // An address that no other test listens at.
        let v4 = format!("127.0.0.77:{port}").parse().unwrap();
        let mut dialed = Peer::new(Endpoint::dial(v4, None, b"ask", &o).unwrap());
        if dual_stack {
            let (mut initiator, mut acceptor) = stand(dialed.endpoint, &mut listener, &o);
            greet(&mut initiator, &mut acceptor);
        } else {
            assert!(matches!(dialed.next(), Err(Error::Refused(_))));
        }
    }
}

#[test]
fn a_listener_without_visitors_has_nothing() {
    let mut listener = listener(&Options::default());
    assert!(matches!(
        device::Listener::accept(&mut listener),
        Err(Error::Again)
    ));
    assert!(!readable(listener.ready().fd));
}

#[test]
fn a_peer_that_goes_before_it_has_asked_is_a_reset() {
    let mut listener = listener(&Options::default());
    let stranger = TcpStream::connect(listener.local_addr()).unwrap();
    let mut acceptor = accept(&mut listener);
    drop(stranger);
    assert!(matches!(acceptor.next(), Err(Error::Reset(_))));
}

#[test]
fn a_plain_tcp_server_does_not_answer_as_mpa() {
    let server = TcpListener::bind(loopback()).unwrap();
    let o = Options::default();
    let dialed = Endpoint::dial(server.local_addr().unwrap(), None, b"", &o).unwrap();
    let (mut plain, _) = server.accept().unwrap();
    plain
        .write_all(&[0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f])
        .unwrap();
    assert!(matches!(Peer::new(dialed).next(), Err(Error::Malformed(_))));
    let mut request = [0; 16];
    plain.read_exact(&mut request).unwrap();
    assert_eq!(&request, b"MPA ID Req Frame");
}

#[test]
fn nothing_may_be_sent_before_the_connection_stands() {
    let o = Options::default();
    let mut listener = listener(&o);
    let mut dialed = Endpoint::dial(listener.local_addr(), None, b"", &o).unwrap();
    assert!(dialed.reserve().unwrap().is_none());
    assert_eq!(dialed.flush(), Ok(0));
    assert!(matches!(dialed.accept(b""), Err(Error::Misuse(_))));
    let mut acceptor = accept(&mut listener);
    assert!(matches!(
        acceptor.endpoint.accept(b""),
        Err(Error::Misuse(_))
    ));
    assert!(matches!(
        acceptor.endpoint.reject(b""),
        Err(Error::Misuse(_))
    ));
    dialed.probe(Instant::now()).unwrap();
    dialed.disconnect().unwrap();
    assert_eq!(dialed.poll(&mut Vec::new()), Err(Error::Closed));
}

#[test]
fn a_healthy_peer_is_not_found_dead() {
    let o = Options {
        dead_after: Duration::from_secs(2),
        ..Options::default()
    };
    let (mut initiator, mut acceptor) = pair(&o);
    greet(&mut initiator, &mut acceptor);
    for secs in 0..5 {
        let now = Instant::now() + Duration::from_secs(secs * 5);
        initiator.endpoint.probe(now).unwrap();
        acceptor.endpoint.probe(now).unwrap();
    }
}
