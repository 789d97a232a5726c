// SPDX-License-Identifier: MPL-2.0
//! Peers that break the rules: a raw TCP client that says what no device would.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use super::*;
use crate::proto::mpa::framing::{Deframer, Framer, Parsed};
use crate::wire::crc32c::crc32c;
use crate::wire::ddp::{Header, Tagged, Untagged};
use crate::wire::fault::Cause;
use crate::wire::mpa::{Enhanced, Kind, Revision, Setup};
use crate::wire::rdmap::{self, Opcode, ReadRequest, SendKind};

pub(super) fn request() -> Setup<'static> {
    Setup {
        kind: Kind::Request,
        markers: false,
        crc: true,
        reject: false,
        revision: Revision::One,
        enhanced: None,
        private: b"raw",
    }
}

pub(super) fn encoded(setup: &Setup<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    setup.encode(&mut bytes);
    bytes
}

/// A stranger's connection, and the endpoint that it met.
fn strange() -> (TcpStream, Peer) {
    strange_at(&Options::default())
}

fn strange_at(o: &Options) -> (TcpStream, Peer) {
    let mut listener = listener(o);
    let raw = TcpStream::connect(listener.local_addr()).unwrap();
    raw.set_nodelay(true).unwrap();
    let patience = Duration::from_secs(20);
    raw.set_read_timeout(Some(patience)).unwrap();
    (raw, accept(&mut listener))
}

/// A raw client past its handshake; four receives are posted for it.
fn raw_pair_with(setup: &Setup<'_>) -> (TcpStream, Peer) {
    raw_pair_at(&Options::default(), setup)
}

fn raw_pair_at(o: &Options, setup: &Setup<'_>) -> (TcpStream, Peer) {
    let (mut raw, mut acceptor) = strange_at(o);
    raw.write_all(&encoded(setup)).unwrap();
    assert_eq!(asked(&mut acceptor).0, setup.private);
    acceptor.endpoint.post_recvs(4).unwrap();
    acceptor.endpoint.accept(b"").unwrap();
    established(&mut acceptor);
    let mut reply = vec![0; 20 + if setup.enhanced.is_some() { 4 } else { 0 }];
    raw.read_exact(&mut reply).unwrap();
    assert_eq!(&reply[..16], b"MPA ID Rep Frame");
    (raw, acceptor)
}

fn raw_pair() -> (TcpStream, Peer) {
    raw_pair_with(&request())
}

fn fpdu(header: Header, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Framer::new(true, false).copy(&header, payload, &mut out);
    out
}

pub(super) fn sent(header: Untagged, payload: &[u8]) -> Vec<u8> {
    fpdu(Header::Untagged(header), payload)
}

/// An FPDU around any ULPDU.
fn mpa(ulpdu: &[u8]) -> Vec<u8> {
    let mut out = (ulpdu.len() as u16).to_be_bytes().to_vec();
    out.extend_from_slice(ulpdu);
    out.resize(out.len().next_multiple_of(4), 0);
    let crc = crc32c(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

/// What a device would send next, to be spoilt.
fn untagged(opcode: Opcode) -> Untagged {
    Untagged {
        last: true,
        ulp: opcode.control(),
        ulp_word: 0,
        qn: opcode.queue().unwrap(),
        msn: 1,
        mo: 0,
    }
}

pub(super) fn send() -> Untagged {
    untagged(Opcode::Send(SendKind::Plain))
}

fn tagged(opcode: Opcode, stag: u32, to: u64) -> Header {
    Header::Tagged(Tagged {
        last: true,
        ulp: opcode.control(),
        stag,
        to,
    })
}

fn read_request(msn: u32, len: u32) -> Vec<u8> {
    let header = Untagged {
        msn,
        ..untagged(Opcode::ReadRequest)
    };
    let request = ReadRequest {
        sink_stag: 1,
        sink_to: 0,
        len,
        source_stag: 2,
        source_to: 0,
    };
    fpdu(Header::Untagged(header), &request.encode())
}

/// What the raw client reads up to the end: FPDUs, each a ULPDU.
fn read_to_end(mut raw: TcpStream) -> Vec<Vec<u8>> {
    let mut bytes = Vec::new();
    // A reset after the last words is an end as well.
    let _ = raw.read_to_end(&mut bytes);
    ulpdus(&bytes)
}

fn ulpdus(mut input: &[u8]) -> Vec<Vec<u8>> {
    let mut ulpdus = Vec::new();
    while !input.is_empty() {
        match Deframer::new(true).parse(input).unwrap() {
            Parsed::Fpdu { consumed, ulpdu } => {
                ulpdus.push(ulpdu.to_vec());
                input = &input[consumed..];
            }
            Parsed::Need(_) => panic!("the last FPDU is cut off"),
        }
    }
    ulpdus
}

fn terminate(ulpdu: &[u8]) -> Cause {
    let header = Header::decode(ulpdu).unwrap();
    assert_eq!(Opcode::of(&header), Ok(Opcode::Terminate));
    let payload = &ulpdu[header.len()..];
    rdmap::Terminate::decode(payload).unwrap().cause
}

/// `bytes` from a peer past its handshake: we say why, and end.
fn offends(bytes: &[u8], cause: Cause) {
    let (mut raw, mut acceptor) = raw_pair();
    raw.write_all(bytes).unwrap();
    let end = acceptor.next();
    assert!(
        matches!(end, Err(Error::Malformed(_))),
        "{end:?}, not {cause}"
    );
    drop(acceptor);
    let said = read_to_end(raw);
    let last = said.last().expect("last words");
    assert_eq!(terminate(last), cause);
}

#[test]
fn strangers_are_shown_the_door() {
    let mut noise = vec![0; 4096];
    noise.copy_from_slice(&pattern(99, 4096));
    let mut long = encoded(&request());
    long[18] = 0xff;
    long[19] = 0xff;
    let mut later = encoded(&request());
    later[17] = 9;
    let strangers: [&[u8]; 6] = [
        b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
        b"M",
        &[0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f],
        &noise,
        &long,
        &later,
    ];
    for (n, bytes) in strangers.iter().enumerate() {
        let (mut raw, mut acceptor) = strange();
        raw.write_all(bytes).unwrap();
        raw.shutdown(Shutdown::Write).unwrap();
        match acceptor.next() {
            Err(Error::Malformed(_)) if n != 1 => {}
            // What could have become a request, and ended.
            Err(Error::Reset(_)) if n == 1 => {}
            other => panic!("stranger {n}: {other:?}"),
        }
        assert!(readable(acceptor.endpoint.ready().fd));
    }
}

#[test]
fn half_a_request_costs_nothing_until_the_rest_comes() {
    let setup = Setup {
        private: &[3; 512],
        ..request()
    };
    let bytes = encoded(&setup);
    for cut in [1, 15, 16, 19, 20, 21, 531] {
        let (mut raw, mut acceptor) = strange();
        raw.write_all(&bytes[..cut]).unwrap();
        while !readable(acceptor.endpoint.ready().fd) {}
        acceptor.poll();
        assert!(acceptor.events.is_empty() && acceptor.error.is_none());
        assert!(!readable(acceptor.endpoint.ready().fd));
        raw.write_all(&bytes[cut..]).unwrap();
        assert_eq!(asked(&mut acceptor).0, [3; 512]);
    }
}

#[test]
fn what_is_framed_wrong_is_answered_with_its_cause() {
    let mut bad_crc = sent(send(), b"payload");
    *bad_crc.last_mut().unwrap() ^= 1;
    offends(&bad_crc, Cause::CRC);
    offends(&[0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], Cause::FRAMING);
    // Empty FPDUs are for those who announced them.
    offends(&mpa(&[]), Cause::DDP_CATASTROPHIC);
}

#[test]
fn headers_out_of_order_are_answered_with_their_cause() {
    let spoilt = |mask: u8, at: usize| {
        let mut ulpdu = [0; 18];
        Header::Untagged(send()).encode(&mut ulpdu);
        ulpdu[at] ^= mask;
        mpa(&ulpdu)
    };
    offends(&spoilt(0x03, 0), Cause::UNTAGGED_VERSION);
    offends(&spoilt(0xc0, 1), Cause::RDMAP_VERSION);
    offends(&spoilt(0x0c, 1), Cause::OPCODE);
    offends(&sent(Untagged { qn: 1, ..send() }, b""), Cause::UNTAGGED_QN);
    offends(&sent(Untagged { qn: 7, ..send() }, b""), Cause::UNTAGGED_QN);
    offends(
        &sent(Untagged { msn: 2, ..send() }, b""),
        Cause::UNTAGGED_MSN,
    );
    offends(&sent(Untagged { mo: 4, ..send() }, b""), Cause::UNTAGGED_MO);
    offends(&sent(send(), &[0; 9000]), Cause::UNTAGGED_TOO_LONG);
}

#[test]
fn asking_for_what_is_not_granted_is_answered_with_its_cause() {
    let write = tagged(Opcode::Write, 5, 0);
    offends(&fpdu(write, b"w"), Cause::TAGGED_STAG);
    // The place of a long one is looked at before it is whole.
    offends(&fpdu(write, &[0; 60_000])[..2000], Cause::TAGGED_STAG);
    let response = tagged(Opcode::ReadResponse, 5, 0);
    offends(&fpdu(response, b"r"), Cause::OPCODE);
    offends(&read_request(1, 10), Cause::READ_STAG);
    let short = sent(untagged(Opcode::ReadRequest), b"short");
    offends(&short, Cause::RDMAP_UNSPECIFIED);
    let long = sent(untagged(Opcode::ReadRequest), &[0; 29]);
    offends(&long, Cause::UNTAGGED_TOO_LONG);
    let invalidate = Untagged {
        ulp_word: 77,
        ..untagged(Opcode::Send(SendKind::Invalidate))
    };
    offends(&sent(invalidate, b"i"), Cause::INVALIDATE);
}

#[test]
fn a_send_beyond_the_receives_posted_is_the_peer_s_fault() {
    let (mut raw, mut acceptor) = raw_pair();
    for msn in 1..=5 {
        raw.write_all(&sent(Untagged { msn, ..send() }, b"one"))
            .unwrap();
    }
    for _ in 0..4 {
        assert_eq!(acceptor.received(), b"one");
    }
    assert!(matches!(acceptor.next(), Err(Error::Malformed(_))));
    drop(acceptor);
    let said = read_to_end(raw);
    assert_eq!(terminate(&said[0]), Cause::UNTAGGED_NO_BUFFER);
}

#[test]
fn more_reads_than_were_agreed_are_the_peer_s_fault() {
    let (mut raw, mut acceptor) = raw_pair();
    // All in one read, so that none is answered in between.
    let many: Vec<u8> = (1..=17).flat_map(|msn| read_request(msn, 0)).collect();
    raw.write_all(&many).unwrap();
    assert!(matches!(acceptor.next(), Err(Error::Malformed(_))));
    drop(acceptor);
    let said = read_to_end(raw);
    assert_eq!(terminate(said.last().unwrap()), Cause::UNTAGGED_NO_BUFFER);
}

#[test]
fn a_terminate_is_reported_and_not_answered() {
    let (mut raw, mut acceptor) = raw_pair();
    let mut payload = [0; rdmap::TERMINATE_MAX];
    let cause = Cause::STREAM_CATASTROPHIC;
    let len = rdmap::Terminate {
        cause,
        segment: None,
    }
    .encode(&mut payload);
    let terminate = sent(untagged(Opcode::Terminate), &payload[..len]);
    raw.write_all(&[sent(send(), b"last"), terminate].concat())
        .unwrap();
    assert_eq!(acceptor.received(), b"last");
    match acceptor.next() {
        Err(Error::Reset(why)) => assert!(why.contains(cause.text().unwrap()), "{why}"),
        other => panic!("{other:?}"),
    }
    drop(acceptor);
    assert_eq!(read_to_end(raw), Vec::<Vec<u8>>::new());
}

#[test]
fn an_end_in_the_middle_is_a_reset() {
    let whole = sent(send(), &pattern(1, 500));
    let part = sent(
        Untagged {
            last: false,
            ..send()
        },
        &pattern(1, 500),
    );
    let ends = [&whole[..1], &whole[..20], &whole[..whole.len() - 1], &part];
    for bytes in ends {
        let (mut raw, mut acceptor) = raw_pair();
        raw.write_all(bytes).unwrap();
        raw.shutdown(Shutdown::Write).unwrap();
        assert!(matches!(acceptor.next(), Err(Error::Reset(_))));
    }
}

#[test]
fn an_end_in_the_middle_of_a_write_is_a_reset() {
    let mut memory = [0; 100];
    for last in [false, true] {
        let (mut raw, mut acceptor) = raw_pair();
        // SAFETY: `memory` outlives the endpoint.
        let exposed = unsafe { acceptor.endpoint.expose_to_write(memory.as_mut_ptr(), 100) };
        let part = Header::Tagged(Tagged {
            last,
            ulp: Opcode::Write.control(),
            stag: exposed.unwrap().key,
            to: 0,
        });
        raw.write_all(&fpdu(part, &[7; 50])).unwrap();
        raw.shutdown(Shutdown::Write).unwrap();
        match acceptor.next() {
            Ok(Event::Disconnected) if last => {}
            Err(Error::Reset(_)) if !last => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_long_write_with_a_wrong_crc_is_found_where_it_was_read_in_pieces() {
    let mut memory = vec![0; 60_000];
    for spoilt in [false, true] {
        let (mut raw, mut acceptor) = raw_pair();
        // SAFETY: `memory` outlives the endpoint.
        let exposed = unsafe {
            acceptor
                .endpoint
                .expose_to_write(memory.as_mut_ptr(), 60_000)
        };
        let write = tagged(Opcode::Write, exposed.unwrap().key, 0);
        let mut bytes = fpdu(write, &pattern(8, 60_000));
        bytes[50_000] ^= u8::from(spoilt);
        // The first piece alone, so that the rest is read straight into place.
        raw.write_all(&bytes[..2000]).unwrap();
        wait(&[acceptor.endpoint.ready()]);
        acceptor.poll();
        assert!(acceptor.error.is_none() && acceptor.events.is_empty());
        raw.write_all(&bytes[2000..]).unwrap();
        raw.shutdown(Shutdown::Write).unwrap();
        match acceptor.next() {
            Ok(Event::Disconnected) if !spoilt => assert!(memory == pattern(8, 60_000)),
            Err(Error::Malformed(_)) if spoilt => {
                drop(acceptor);
                let said = read_to_end(raw);
                assert_eq!(terminate(said.last().unwrap()), Cause::CRC);
            }
            other => panic!("spoilt {spoilt}: {other:?}"),
        }
    }
}

#[test]
fn the_last_words_follow_a_whole_fpdu() {
    let o = Options {
        slot_size: 30_000,
        sndbuf: Some(8192),
        ..Options::default()
    };
    let (mut raw, mut acceptor) = raw_pair_at(&o, &request());
    raw.write_all(&sent(send(), b"hello")).unwrap();
    assert_eq!(acceptor.received(), b"hello");
    // Two at once, so that the kernel takes no more in the middle of one.
    while !acceptor.endpoint.ready().write {
        assert!(acceptor.post(&pattern(1, 30_000)));
        assert!(acceptor.post(&pattern(1, 30_000)));
        acceptor.flush();
    }
    // Room again for the rest of it, and for the last words.
    let mut bytes = vec![0; 1 << 20];
    let mut n = 0;
    let watch = |fd, write: bool| Ready {
        fd,
        read: !write,
        write,
    };
    let either = [
        watch(raw.as_raw_fd(), false),
        watch(acceptor.endpoint.ready().fd, true),
    ];
    while !wait(&either)[1] {
        n += raw.read(&mut bytes[n..]).unwrap();
    }
    raw.write_all(&mpa(&[])).unwrap();
    assert!(matches!(acceptor.next(), Err(Error::Malformed(_))));
    drop(acceptor);
    bytes.truncate(n);
    let _ = raw.read_to_end(&mut bytes);
    let said = ulpdus(&bytes);
    let (last, sends) = said.split_last().unwrap();
    terminate(last);
    assert!(sends.iter().all(|send| send.ends_with(&pattern(1, 30_000))));
}

#[test]
fn a_stream_that_comes_byte_by_byte() {
    let (mut raw, mut acceptor) = raw_pair();
    let message = pattern(7, 3000);
    let cut = |at: usize, end: usize, msn: u32| {
        let header = Untagged {
            last: end == 3000,
            mo: at as u32,
            msn,
            ..send()
        };
        sent(header, &message[at..end])
    };
    let stream = [
        cut(0, 3000, 1),
        cut(0, 1, 2),
        cut(1, 1499, 2),
        cut(1499, 3000, 2),
    ]
    .concat();
    for byte in stream {
        raw.write_all(&[byte]).unwrap();
        wait(&[acceptor.endpoint.ready()]);
        acceptor.poll();
        assert_eq!(acceptor.error, None);
    }
    assert_eq!(acceptor.received(), message);
    assert_eq!(acceptor.received(), message);
    assert!(acceptor.events.is_empty());
}

#[test]
fn a_peer_that_stops_in_the_middle_holds_no_chunk() {
    let (mut raw, mut acceptor) = raw_pair();
    let messages: Vec<u8> = (1..=3)
        .flat_map(|msn| sent(Untagged { msn, ..send() }, &pattern(3, 4000)))
        .collect();
    let (mut at, mut got) = (0, 0);
    for piece in messages.chunks(1111) {
        raw.write_all(piece).unwrap();
        at += piece.len();
        wait(&[acceptor.endpoint.ready()]);
        acceptor.poll();
        // The first pause finds it busy, the second idle.
        acceptor.endpoint.probe(Instant::now()).unwrap();
        let mid = at % (messages.len() / 3) > 0;
        assert_eq!(
            acceptor.endpoint.holds_chunk(),
            mid || !acceptor.events.is_empty()
        );
        acceptor.endpoint.probe(Instant::now()).unwrap();
        assert!(!acceptor.endpoint.holds_chunk());
        for event in acceptor.events.drain(..) {
            assert!(matches!(event, Event::Received(f) if f.bytes() == pattern(3, 4000)));
            got += 1;
        }
    }
    assert_eq!(got, 3);
    raw.write_all(&[1]).unwrap();
    wait(&[acceptor.endpoint.ready()]);
    acceptor.poll();
    acceptor.endpoint.probe(Instant::now()).unwrap();
    acceptor.endpoint.probe(Instant::now()).unwrap();
    drop(raw);
    assert!(matches!(acceptor.next(), Err(Error::Reset(_))));
}

#[test]
fn spoilt_streams_end_and_harm_nobody() {
    let clean: Vec<u8> = (1..=4)
        .flat_map(|msn| sent(Untagged { msn, ..send() }, &pattern(msn as usize, 300)))
        .collect();
    for seed in 0..300 {
        let noise = pattern(seed, 8);
        let at = usize::from(u16::from_le_bytes([noise[0], noise[1]])) % clean.len();
        let mut bytes = clean.clone();
        bytes[at] ^= noise[2] | 1;
        let (mut raw, mut acceptor) = raw_pair();
        raw.write_all(&bytes).unwrap();
        raw.shutdown(Shutdown::Write).unwrap();
        let mut sound = 0;
        let end = loop {
            match acceptor.next() {
                Ok(Event::Received(filled)) => {
                    sound += 1;
                    assert_eq!(filled.bytes(), pattern(sound, 300));
                }
                Ok(other) => panic!("{other:?} of a spoilt stream"),
                Err(why) => break why,
            }
        };
        assert!(sound < 4);
        assert!(matches!(end, Error::Malformed(_) | Error::Reset(_)));
    }
}

/// The peer-to-peer model of RFC 6581: the initiator's first message is only an indication.
#[test]
fn every_ready_to_receive_indication_is_understood() {
    let offer = |send, write, read| Setup {
        revision: Revision::Two,
        enhanced: Some(Enhanced {
            peer_to_peer: true,
            rtr_send: send,
            rtr_write: write,
            rtr_read: read,
            ird: 4,
            ord: 4,
        }),
        ..request()
    };
    let kinds = [
        (offer(true, false, false), mpa(&[]), 1),
        (offer(true, false, false), sent(send(), b""), 2),
        (
            offer(false, true, false),
            fpdu(tagged(Opcode::Write, 0, 0), b""),
            1,
        ),
        (offer(false, false, true), read_request(1, 0), 1),
    ];
    for (setup, indication, msn) in kinds {
        let (mut raw, mut acceptor) = raw_pair_with(&setup);
        acceptor.send(b"held");
        raw.write_all(&indication).unwrap();
        while acceptor.sent == 0 {
            wait(&[acceptor.endpoint.ready()]);
            acceptor.poll();
        }
        assert!(acceptor.events.is_empty());
        // It used up no receive.
        for msn in msn..msn + 4 {
            raw.write_all(&sent(Untagged { msn, ..send() }, b"data"))
                .unwrap();
            assert_eq!(acceptor.received(), b"data");
        }
        drop(acceptor);
        let said = read_to_end(raw);
        let held = said.iter().find(|ulpdu| ulpdu.ends_with(b"held"));
        assert!(held.is_some());
    }
}

#[test]
fn a_peer_that_wants_markers_gets_them() {
    let (mut raw, mut acceptor) = raw_pair_with(&Setup {
        markers: true,
        ..request()
    });
    acceptor.send(&pattern(1, 2000));
    raw.write_all(&sent(send(), b"hello")).unwrap();
    assert_eq!(acceptor.received(), b"hello");
    acceptor.endpoint.disconnect().unwrap();
    let mut bytes = Vec::new();
    raw.read_to_end(&mut bytes).unwrap();
    // Every 512 bytes from the first one: 4 bytes that point back to the FPDU's start.
    let (markers, rest): (Vec<_>, Vec<_>) =
        bytes.chunks(512).map(|piece| piece.split_at(4)).unzip();
    for (n, marker) in markers.iter().enumerate() {
        let back = (512 * n).saturating_sub(4) as u16;
        let back = if n == 0 { 0 } else { back };
        assert_eq!(marker[2..], back.to_be_bytes());
    }
    let stripped = rest.concat();
    let len = usize::from(u16::from_be_bytes([stripped[0], stripped[1]]));
    assert!(stripped[2..2 + len].ends_with(&pattern(1, 2000)));
}
