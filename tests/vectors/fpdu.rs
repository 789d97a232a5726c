// SPDX-License-Identifier: MPL-2.0
//! FPDUs: framed and found as the vectors say, with and without markers.

use proptest::prelude::*;
use zmq_rdma::proto::mpa::framing::{mulpdu, Deframer, Framer, Parsed};
use zmq_rdma::wire::ddp::{Header, Tagged, Untagged};
use zmq_rdma::wire::fault::Cause;

use crate::vector;

pub fn send(msn: u32, mo: u32, last: bool) -> Header {
    Header::Untagged(Untagged {
        last,
        ulp: 0x43,
        ulp_word: 0,
        qn: 0,
        msn,
        mo,
    })
}

pub fn tagged(ulp: u8, stag: u32, to: u64, last: bool) -> Header {
    Header::Tagged(Tagged {
        last,
        ulp,
        stag,
        to,
    })
}

/// FPDUs, the segments in them, and whether their CRC is used.
pub fn fpdus() -> Vec<(&'static str, Header, Vec<u8>, bool)> {
    let read = Header::Untagged(Untagged {
        last: true,
        ulp: 0x41,
        ulp_word: 0,
        qn: 1,
        msn: 1,
        mo: 0,
    });
    let invalidate = Header::Untagged(Untagged {
        last: true,
        ulp: 0x46,
        ulp_word: 0xcafe_0001,
        qn: 0,
        msn: u32::MAX,
        mo: 0,
    });
    let ulpdu = vector("read request");
    vec![
        ("send hello", send(1, 0, true), b"hello".to_vec(), true),
        (
            "send hello without crc",
            send(1, 0, true),
            b"hello".to_vec(),
            false,
        ),
        ("send part 1", send(2, 0, false), b"abcdef".to_vec(), true),
        ("send part 2", send(2, 6, true), b"ghij".to_vec(), true),
        (
            "send solicited invalidate",
            invalidate,
            b"zz".to_vec(),
            true,
        ),
        ("send empty", send(1, 0, true), vec![], true),
        (
            "write",
            tagged(0x40, 0x1234_5678, 0x7_0000_0010, true),
            vec![0xde, 0xad, 0xbe, 0xef],
            true,
        ),
        ("write empty", tagged(0x40, 0, 0, true), vec![], true),
        ("read request", read, ulpdu[20..48].to_vec(), true),
        (
            "read response 1",
            tagged(0x42, 0xa01, 0x1000, false),
            vec![0x11; 2996],
            true,
        ),
        (
            "read response 2",
            tagged(0x42, 0xa01, 0x1bb4, true),
            vec![0x22; 4],
            true,
        ),
    ]
}

fn sealed(framer: &Framer, header: &Header, payload: &[u8]) -> Vec<u8> {
    let (head, tail) = framer.seal(header, payload);
    [head.bytes(), payload, tail.bytes()].concat()
}

fn copied(framer: &mut Framer, header: &Header, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    framer.copy(header, payload, &mut out);
    out
}

#[test]
fn fpdus_are_framed_as_the_vectors_say() {
    for (name, header, payload, crc) in fpdus() {
        let mut framer = Framer::new(crc, false);
        assert_eq!(sealed(&framer, &header, &payload), vector(name), "{name}");
        assert_eq!(
            copied(&mut framer, &header, &payload),
            vector(name),
            "{name}"
        );
    }
}

#[test]
fn fpdus_are_found_as_the_vectors_say() {
    for (name, header, payload, crc) in fpdus() {
        let bytes = vector(name);
        let Ok(Parsed::Fpdu { consumed, ulpdu }) = Deframer::new(crc).parse(&bytes) else {
            panic!("{name} not found")
        };
        assert_eq!(consumed, bytes.len(), "{name}");
        assert_eq!(Header::decode(ulpdu), Ok(header), "{name}");
        assert_eq!(&ulpdu[header.len()..], payload, "{name}");
    }
}

#[test]
fn every_cut_of_an_fpdu_needs_more() {
    for (name, _, _, crc) in fpdus() {
        let bytes = vector(name);
        for cut in 0..bytes.len() {
            match Deframer::new(crc).parse(&bytes[..cut]) {
                Ok(Parsed::Need(n)) => assert!(cut < n && n <= bytes.len(), "{name} at {cut}"),
                other => panic!("{name} at {cut}: {other:?}"),
            }
        }
    }
}

/// Take an FPDU whose first `cut` bytes are here through the open path, its
/// payload in bits of `step`.
fn opened(bytes: &[u8], cut: usize, step: usize) -> Option<(Header, Vec<u8>, Result<(), Cause>)> {
    let (header, mut open) = Deframer::new(true).open(&bytes[..cut]).unwrap()?;
    let mut rest = &bytes[open.consumed()..];
    let mut payload = Vec::new();
    while open.left() > 0 {
        let n = open.left().min(step);
        open.on_payload(&rest[..n]);
        payload.extend_from_slice(&rest[..n]);
        rest = &rest[n..];
    }
    assert_eq!(rest.len(), open.tail_len());
    Some((header, payload, open.close(rest).map_err(|f| f.cause)))
}

#[test]
fn an_open_fpdu_gives_the_same_at_every_cut() {
    for (name, header, payload, crc) in fpdus() {
        let bytes = vector(name);
        for cut in 0..bytes.len().min(200) {
            let found = opened(&bytes, cut, 7);
            if cut < 2 + header.len() {
                assert_eq!(found, None, "{name} at {cut}");
            } else {
                let close = if crc { Ok(()) } else { Err(Cause::CRC) };
                assert_eq!(
                    found,
                    Some((header, payload.clone(), close)),
                    "{name} at {cut}"
                );
            }
        }
    }
}

#[test]
fn a_changed_byte_never_gets_through() {
    for (name, _, _, crc) in fpdus().into_iter().filter(|(.., crc)| *crc) {
        let good = vector(name);
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x21;
            match Deframer::new(crc).parse(&bad) {
                Ok(Parsed::Need(_)) => assert!(at < 2, "{name} at {at}"),
                Ok(Parsed::Fpdu { .. }) => panic!("{name} at {at} passed"),
                Err(fault) => assert!(matches!(fault.cause, Cause::CRC | Cause::FRAMING)),
            }
            if at >= 22 {
                let (_, _, close) = opened(&bad, 22.min(bad.len()), 100).unwrap();
                assert_eq!(close, Err(Cause::CRC), "{name} at {at}");
            }
        }
    }
}

#[test]
fn without_crc_the_field_is_ignored() {
    let mut bytes = vector("send hello without crc");
    *bytes.last_mut().unwrap() = 0x99;
    assert!(matches!(
        Deframer::new(false).parse(&bytes),
        Ok(Parsed::Fpdu { .. })
    ));
}

#[test]
fn a_zero_length_fpdu_is_found_empty() {
    let bytes = vector("empty fpdu");
    assert_eq!(
        Deframer::new(true).parse(&bytes),
        Ok(Parsed::Fpdu {
            consumed: 8,
            ulpdu: &[]
        })
    );
}

#[test]
fn a_length_that_no_segment_has_is_refused_at_once() {
    for len in 1..14 {
        let fault = Deframer::new(true).parse(&[0, len]).unwrap_err();
        assert_eq!(fault.cause, Cause::FRAMING);
    }
    // Long enough for a tagged header only.
    let fault = Deframer::new(true).open(&[0, 17, 0x41]).unwrap_err();
    assert_eq!(fault.cause, Cause::FRAMING);
}

#[test]
fn markers_are_where_the_vectors_say() {
    let mut framer = Framer::new(true, true);
    let mut out = Vec::new();
    let mut expected = Vec::new();
    for (msn, len, fill) in [
        (1, 460, 0xa1u8),
        (2, 512, 0xb2),
        (3, 480, 0xc3),
        (4, 601, 0xd4),
    ] {
        framer.copy(&send(msn, 0, true), &vec![fill; len], &mut out);
        expected.extend_from_slice(&vector(&format!("marked {msn}")));
        assert_eq!(out, expected, "FPDU {msn}");
    }
}

#[test]
#[should_panic(expected = "must be copied")]
fn sealing_is_refused_when_markers_are_on() {
    Framer::new(true, true).seal(&send(1, 0, true), b"");
}

#[test]
fn mulpdu_leaves_room_for_the_frame() {
    // RFC 5044: EMSS - (6 + 4 * ceil(EMSS / 512) + EMSS mod 4).
    assert_eq!(mulpdu(1460, true), 1442);
    assert_eq!(mulpdu(1460, false), 1454);
    assert_eq!(mulpdu(1447, false), 1438);
    assert_eq!(mulpdu(0, false), 128);
    assert_eq!(mulpdu(1 << 20, false), 65_535);
    assert_eq!(mulpdu(1 << 20, true), 65_000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Take the bytes at multiples of 512 out again: what is left is framed
    /// as without markers but for the CRC, and each marker points at a length field.
    #[test]
    fn markers_can_be_taken_out_again(lens in prop::collection::vec(0usize..1500, 1..12)) {
        let (mut marked, mut plain) = (Framer::new(false, true), Framer::new(false, false));
        let (mut stream, mut expected) = (Vec::new(), Vec::new());
        let mut starts = Vec::new();
        for (i, len) in lens.iter().enumerate() {
            let payload = vec![i as u8; *len];
            let at = stream.len();
            starts.push(if at % 512 == 0 { at + 4 } else { at });
            marked.copy(&send(1, 0, true), &payload, &mut stream);
            plain.copy(&send(1, 0, true), &payload, &mut expected);
        }
        let mut left = Vec::new();
        for (i, block) in stream.chunks(512).enumerate() {
            prop_assert_eq!(&block[..2], &[0, 0]);
            let back = usize::from(u16::from_be_bytes([block[2], block[3]]));
            let target = if back == 0 { i * 512 + 4 } else { i * 512 - back };
            prop_assert!(starts.contains(&target));
            left.extend_from_slice(&block[4..]);
        }
        prop_assert_eq!(left, expected);
    }

    #[test]
    fn sealed_and_copied_are_the_same(payload in prop::collection::vec(any::<u8>(), 0..3000), crc: bool) {
        let mut framer = Framer::new(crc, false);
        let header = send(9, 8, false);
        prop_assert_eq!(sealed(&framer, &header, &payload), copied(&mut framer, &header, &payload));
    }
}
