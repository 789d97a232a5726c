// SPDX-License-Identifier: MPL-2.0
//! The choice `auto`, on a machine that has RoCE, iWARP and plain interfaces.

use std::net::SocketAddr;

use zmq_rdma::device::{self, Choice, Event, Kind, Listener};
use zmq_rdma::error::Error;

use crate::pair::{wait, Lab, Side};

const ROCE: &str = "10.77.0.2";
const IWARP: &str = "10.78.0.1";
const PLAIN: &str = "127.0.0.1";

/// Dial, be accepted, exchange a message; which devices served.
fn meet(lab: &Lab, choice: Choice, listener: &mut dyn Listener, to: &str) -> (Kind, Kind) {
    let to = SocketAddr::new(to.parse().unwrap(), listener.local_addr().port());
    let dialed = device::dial(choice, to, None, b"hello", &lab.options).unwrap();
    let mut client = Side::new(dialed);
    assert_eq!(client.endpoint.post_recvs(4), Ok(4));
    let (server_kind, client_kind) = {
        let server = lab.welcome(listener, &mut client, 8);
        (server.endpoint.kind(), client.endpoint.kind())
    };
    println!("lab: {choice:?} to {to}: {client_kind:?}, served by {server_kind:?}");
    (server_kind, client_kind)
}

/// A wildcard listener serves every kind of peer on every interface.
pub fn wildcard(lab: &Lab) {
    let any = "0.0.0.0:0".parse().unwrap();
    let mut listener = device::listen(Choice::Auto, any, &lab.options).unwrap();
    let mut lab = lab.clone();
    for (choice, to, expected) in [
        (Choice::Auto, ROCE, (Kind::Verbs, Kind::Verbs)),
        (Choice::Auto, IWARP, (Kind::Verbs, Kind::Verbs)),
        (Choice::Auto, PLAIN, (Kind::Soft, Kind::Soft)),
        (Choice::Verbs, ROCE, (Kind::Verbs, Kind::Verbs)),
        (Choice::Soft, ROCE, (Kind::Soft, Kind::Soft)),
        // The wire is the same: iWARP.
        (Choice::Soft, IWARP, (Kind::Verbs, Kind::Soft)),
        (Choice::Soft, PLAIN, (Kind::Soft, Kind::Soft)),
    ] {
        lab.client = expected.1;
        assert_eq!(meet(&lab, choice, &mut *listener, to), expected);
    }
}

/// So does a listener at one address.
pub fn one_address(lab: &Lab) {
    for (at, soft_is_served_by) in [
        (ROCE, Kind::Soft),
        (IWARP, Kind::Verbs),
        (PLAIN, Kind::Soft),
    ] {
        let addr = SocketAddr::new(at.parse().unwrap(), 0);
        let mut listener = device::listen(Choice::Auto, addr, &lab.options).unwrap();
        let mut lab = lab.clone();
        lab.client = Kind::Soft;
        let served = meet(&lab, Choice::Soft, &mut *listener, at);
        assert_eq!(served, (soft_is_served_by, Kind::Soft));
        let kind = if at == PLAIN { Kind::Soft } else { Kind::Verbs };
        lab.client = kind;
        assert_eq!(meet(&lab, Choice::Auto, &mut *listener, at), (kind, kind));
        // The port is taken for both kinds.
        let again = device::listen(Choice::Auto, listener.local_addr(), &lab.options).err();
        let in_use = zmq_rdma::error::AddressFault::InUse;
        assert_eq!(again, Some(Error::Address(in_use)));
    }
}

/// A peer that can be reached by RDMA but listens with soft alone: the first
/// try is refused, the next one finds it.
pub fn fallback(lab: &Lab) {
    let addr = SocketAddr::new(ROCE.parse().unwrap(), 0);
    let mut listener = device::listen(Choice::Soft, addr, &lab.options).unwrap();
    let to = listener.local_addr();
    let dialed = device::dial(Choice::Auto, to, None, b"hello", &lab.options).unwrap();
    assert_eq!(dialed.kind(), Kind::Verbs);
    let mut client = Side::new(dialed);
    let why = loop {
        match client.turn() {
            Ok(()) => assert!(!client
                .events
                .iter()
                .any(|e| matches!(e, Event::Established(_)))),
            Err(why) => break why,
        }
        wait(&[client.endpoint.ready()]);
    };
    assert!(matches!(why, Error::Refused(_)), "{why:?}");
    let mut lab = lab.clone();
    lab.client = Kind::Soft;
    let served = meet(&lab, Choice::Auto, &mut *listener, ROCE);
    assert_eq!(served, (Kind::Soft, Kind::Soft));
}

/// A host that never answers over RDMA: given up within seconds.
pub fn silent(lab: &Lab) {
    let to: SocketAddr = "10.77.0.2:9".parse().unwrap();
    // From the other end of the cable.
    let from = Some("10.77.0.1:0".parse().unwrap());
    let dialed = device::dial(Choice::Auto, to, from, b"hello", &lab.options).unwrap();
    let mut client = Side::new(dialed);
    let since = std::time::Instant::now();
    let why = client.death();
    println!("lab: {why} after {:?}", since.elapsed());
    assert_eq!(why, Error::TimedOut);
    let next = device::dial(Choice::Auto, to, from, b"hello", &lab.options).unwrap();
    assert_eq!(next.kind(), Kind::Soft);
}
