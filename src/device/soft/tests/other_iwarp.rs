// SPDX-License-Identifier: MPL-2.0
//! Peers that are iWARP, but not ours: what their MPA speaks, and how they want FPDUs.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use super::*;
use crate::proto::mpa::framing::{Deframer, Parsed};
use crate::wire::ddp::UNTAGGED_LEN;
use crate::wire::mpa::{fpdu_len, Decoded, Enhanced, Kind, Revision, Setup};

/// The bytes of a request, as they came, and where to answer.
fn request(peer: &mut TcpStream) -> Vec<u8> {
    let mut bytes = vec![0; 20];
    peer.read_exact(&mut bytes).unwrap();
    let private = u16::from_be_bytes([bytes[18], bytes[19]]);
    bytes.resize(20 + usize::from(private), 0);
    peer.read_exact(&mut bytes[20..]).unwrap();
    bytes
}

/// A server, and who dials it, whose request is on its way.
fn dialed() -> (TcpListener, Peer) {
    let server = TcpListener::bind(loopback()).unwrap();
    let to = server.local_addr().unwrap();
    let dialed = Endpoint::dial(to, None, b"ask", &Options::default()).unwrap();
    (server, Peer::new(dialed))
}

/// The next visitor's request, while it makes it.
fn visit(server: &TcpListener, dialed: &mut Peer) -> (TcpStream, Vec<u8>) {
    server.set_nonblocking(true).unwrap();
    loop {
        if let Ok((mut peer, _)) = server.accept() {
            // Connected, so it can write.
            wait(&[dialed.endpoint.ready()]);
            dialed.poll();
            peer.set_nonblocking(false).unwrap();
            let bytes = request(&mut peer);
            return (peer, bytes);
        }
        wait(&[dialed.endpoint.ready()]);
        dialed.poll();
        assert_eq!(dialed.error, None);
    }
}

fn decoded(bytes: &[u8]) -> Setup<'_> {
    match Setup::decode(Kind::Request, bytes).unwrap() {
        Decoded::Value(setup, consumed) if consumed == bytes.len() => setup,
        other => panic!("{other:?}"),
    }
}

fn reply(peer: &mut TcpStream, revision: Revision, private: &[u8]) {
    let mut bytes = Vec::new();
    Setup {
        kind: Kind::Reply,
        markers: false,
        crc: true,
        reject: false,
        revision,
        enhanced: (revision == Revision::Two).then(|| Enhanced {
            ird: 16,
            ord: 16,
            ..Enhanced::default()
        }),
        private,
    }
    .encode(&mut bytes);
    peer.write_all(&bytes).unwrap();
}

/// A responder of the first revision, after it has `declined` the first request.
fn fall_back(declined: impl FnOnce(TcpStream)) {
    let (server, mut dialed) = dialed();
    let (peer, bytes) = visit(&server, &mut dialed);
    assert_eq!(decoded(&bytes).revision, Revision::Two);
    declined(peer);
    let (mut peer, bytes) = visit(&server, &mut dialed);
    let asked = decoded(&bytes);
    assert_eq!(asked.revision, Revision::One);
    assert_eq!(asked.enhanced, None);
    assert!(asked.private.starts_with(b"ask"));
    reply(&mut peer, Revision::One, b"yes");
    assert_eq!(established(&mut dialed).0, b"yes");
    dialed.send(b"words");
    let mut fpdu = [0; 2 + 18 + 5 + 3 + 4];
    peer.read_exact(&mut fpdu).unwrap();
    assert!(matches!(
        Deframer::new(true).parse(&fpdu),
        Ok(Parsed::Fpdu { ulpdu, .. }) if ulpdu.ends_with(b"words")
    ));
}

#[test]
fn a_responder_that_closes_is_asked_in_the_first_revision() {
    fall_back(drop);
}

#[test]
fn so_is_one_that_answers_in_it() {
    fall_back(|mut peer| reply(&mut peer, Revision::One, b"?"));
}

#[test]
fn who_closes_twice_is_not_asked_a_third_time() {
    let (server, mut dialed) = dialed();
    for revision in [Revision::Two, Revision::One] {
        let (_, bytes) = visit(&server, &mut dialed);
        assert_eq!(decoded(&bytes).revision, revision);
    }
    assert!(matches!(dialed.next(), Err(Error::Reset(_))));
    assert!(server.accept().is_err());
}

/// Data segments that the kernel has sent for a socket (TCP_INFO's tcpi_data_segs_out,
/// which libc's structure does not reach).
fn segments(fd: RawFd) -> u32 {
    let mut info = [0u32; 58];
    let mut len = std::mem::size_of_val(&info) as libc::socklen_t;
    let at = info.as_mut_ptr().cast();
    // SAFETY: `info` has `len` bytes.
    let rc = unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, at, &mut len) };
    assert!(
        rc == 0 && len >= 160,
        "no tcpi_data_segs_out in this kernel"
    );
    info[156 / 4]
}

const SENDS: usize = 24;

/// Segments that carry `SENDS` SENDs of one flush, to a peer that takes them all.
fn packed(peer: &mut Peer, take: impl FnOnce(usize)) -> u32 {
    let fd = peer.endpoint.ready().fd;
    let before = segments(fd);
    for n in 0..SENDS {
        assert!(peer.post(&pattern(n, 100 + n)));
    }
    peer.flush();
    // A new connection's window is not of all of them at once.
    take((0..SENDS).map(|n| fpdu_len(UNTAGGED_LEN + 100 + n)).sum());
    segments(fd) - before
}

/// Take in bytes that nobody looks at.
fn waste(peer: &mut TcpStream, bytes: usize) {
    peer.read_exact(&mut vec![0; bytes]).unwrap();
}

#[test]
fn another_implementation_gets_each_fpdu_in_a_segment_of_its_own() {
    let (server, mut dialed) = dialed();
    let (mut peer, bytes) = visit(&server, &mut dialed);
    assert!(decoded(&bytes).private.ends_with(b"SoftRDMA"));
    reply(&mut peer, Revision::Two, b"yes");
    assert_eq!(established(&mut dialed).0, b"yes");
    assert_eq!(packed(&mut dialed, |n| waste(&mut peer, n)), SENDS as u32);
}

#[test]
fn one_of_us_gets_them_in_as_few_as_may_be() {
    let (mut initiator, mut acceptor) = pair(&Options::default());
    let receive = |peer: &mut Peer| {
        (0..SENDS).for_each(|n| assert_eq!(peer.received(), pattern(n, 100 + n)));
    };
    assert_eq!(packed(&mut initiator, |_| receive(&mut acceptor)), 1);
    assert_eq!(packed(&mut acceptor, |_| receive(&mut initiator)), 1);
}

#[test]
fn the_acceptor_tells_by_the_request() {
    let mut listener = listener(&Options::default());
    for (mark, expected) in [(&b""[..], SENDS as u32), (b"SoftRDMA", 1)] {
        let mut raw = TcpStream::connect(listener.local_addr()).unwrap();
        let mut acceptor = accept(&mut listener);
        let request = Setup {
            private: &[b"ask", mark].concat(),
            ..hostile::request()
        };
        raw.write_all(&hostile::encoded(&request)).unwrap();
        assert_eq!(asked(&mut acceptor).0, b"ask");
        acceptor.endpoint.post_recvs(4).unwrap();
        acceptor.endpoint.accept(b"yes").unwrap();
        established(&mut acceptor);
        let mut answer = vec![0; 23 + mark.len()];
        raw.read_exact(&mut answer).unwrap();
        assert_eq!(answer[20..], [b"yes", mark].concat());
        raw.write_all(&hostile::sent(hostile::send(), b"first"))
            .unwrap();
        assert_eq!(acceptor.received(), b"first");
        assert_eq!(packed(&mut acceptor, |n| waste(&mut raw, n)), expected);
    }
}
